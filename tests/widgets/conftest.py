"""Mounts widgets in headless Chromium as shipped: the bundled module, a plain model, no kernel, no network.

def test_example(mount):
    shown = mount(AttentionCalculator(), lang="zh", theme="dark", width=360)
    shown.root.get_by_role("switch", name="因果掩码").click()
    assert shown.get("causal") is True
"""

import hashlib
from pathlib import Path

import pytest
from accessibility import ALL, findings
from browser import running_chromium

PAGE = """<!doctype html><html lang="{lang}" data-theme="{theme}"><head><meta charset="utf-8">
<title>widget</title><style>
html[data-theme=dark] body{{background:#121212}} body{{margin:0}} main{{width:{width}px}}
</style></head><body><main></main></body></html>"""

INPUT = """() => {
  const input = Object.assign(document.createElement("input"), {type: "file", multiple: true});
  return document.body.appendChild(input);
}"""

# The model as the static book has it: changes by identity, listeners called at once. Writes are recorded.
MOUNT = """async ({esm, state, binary, input}) => {
  const values = {...state};
  for (const [i, name] of binary.entries()) values[name] = new DataView(await input.files[i].arrayBuffer());
  input?.remove();
  const listeners = new Map(), of = e => listeners.get(e) ?? listeners.set(e, new Set()).get(e);
  const model = {
    saved: 0,
    get: k => values[k],
    set(k, v) {
      if (values[k] === v) return;
      values[k] = v;
      [...of(`change:${k}`), ...of("change")].forEach(f => f());
    },
    save_changes() { this.saved++; },
    on(e, f) { of(e).add(f); }, off(e, f) { f ? of(e).delete(f) : listeners.delete(e); },
    listening: () => [...listeners.values()].reduce((n, s) => n + s.size, 0),
  };
  const el = document.createElement("div"), shown = window.shown ??= [];
  document.querySelector("main").append(el);
  const module = await import(URL.createObjectURL(new Blob([esm], {type: "text/javascript"})));
  const start = performance.now();
  const cleanup = await module.default.render({model, el});
  const rendered = performance.now() - start;
  return shown.push({model, el, module, cleanup, rendered}) - 1;
}"""

# The fastest of `arg` actions and of as many drawings of something fixed, in milliseconds.
MEASURE = """return (async () => {
  const took = [], fixed = [], frame = () => new Promise(f => requestAnimationFrame(f));
  const drawFixed = () => {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    for (let i = 0; i < 300; i++) {
      const text = document.createElementNS(svg.namespaceURI, "text");
      for (const [name, value] of [["x", 10 * (i % 30)], ["y", i], ["fill", "teal"]])
        text.setAttribute(name, value);
      text.textContent = (i / 7).toFixed(2);
      svg.append(text);
    }
    document.body.append(svg);
    svg.getBBox();
    document.body.getBoundingClientRect();
    svg.remove();
  };
  for (let i = 0; i < arg; i++) {
    await frame();
    const begun = performance.now();
    drawFixed();
    fixed.push(performance.now() - begun);
    await frame();
    // callbacks run in the order they were asked for: this one, the widget's drawing, the last
    let drawing;
    requestAnimationFrame(() => { drawing = performance.now(); });
    const start = performance.now();
    ACTION
    const own = performance.now() - start;
    await new Promise(f => requestAnimationFrame(() => {
      document.body.getBoundingClientRect(); took.push(own + performance.now() - drawing); f();
    }));
  }
  return [took, fixed].map(all => Math.min(...all));
})()"""
FIXED_MS = 8.0  # what that drawing takes on a quiet core
FRAME = "() => new Promise(f => requestAnimationFrame(() => requestAnimationFrame(f)))"


class Shown:
    """One mounted widget."""

    def __init__(self, page, index: int, errors: list[str]):
        self.page, self.index, self.errors = page, index, errors
        self.root = page.locator("main > div").nth(index)

    def js(self, body: str, arg=None):
        """Evaluate `body` with `model`, `el`, `module` (its exports), `cleanup` and `arg` at hand."""
        code = f"(arg) => {{ const {{model, el, module, cleanup, rendered}} = shown[{self.index}]; {body} }}"
        return self.page.evaluate(code, arg)

    def get(self, name: str):
        """The value of a trait in the front end."""
        return self.js("return model.get(arg)", name)

    def set(self, **traits) -> None:
        """Set traits as the kernel would, and wait until they are drawn."""
        self.js("for (const [k, v] of Object.entries(arg)) model.set(k, v)", traits)
        self.settle()

    def settle(self) -> None:
        """Wait until a scheduled drawing is done."""
        self.page.evaluate(FRAME)

    def overflow(self) -> float:
        """By how many pixels the page is wider than its window or the widget than its place."""
        page = "document.documentElement.scrollWidth - innerWidth"
        return self.js(f"return Math.max({page}, el.scrollWidth - el.clientWidth)")

    def svg(self) -> str:
        """What the SVG button saves."""
        with self.page.expect_download() as download:
            self.root.locator(".anb-save button").first.click()
        return Path(download.value.path()).read_text(encoding="utf-8")

    def violations(self) -> list[str]:
        """Serious and critical findings of axe-core inside the widget."""
        return findings(self.page, ALL, "main")

    def cost(self, action: str, times: int = 11) -> float:
        """Milliseconds on a quiet core of `action` (JavaScript; `i` counts), its drawing, style and layout.

        How quick the machine is just now is taken out: before each action the page draws something fixed, and
        the fastest of one is divided by the fastest of the other.
        """
        took, fixed = self.js(MEASURE.replace("ACTION", action), times)
        return took * FIXED_MS / fixed


@pytest.fixture(scope="package")
def chromium():
    with running_chromium() as browser:
        yield browser


@pytest.fixture(scope="package")
def first_page(chromium):
    """The page on which each test mounts first: to empty one takes half the time that a new one takes."""
    context = chromium.new_context(offline=True)
    yield context.new_page()
    context.close()


@pytest.fixture
def mount(chromium, first_page, tmp_path_factory):
    """`mount(widget, lang="en", theme="light", width=800, page=None) -> Shown`.

    Without `page` on an empty one. An error in a page, or a request for anything, fails the test.
    """
    errors, watched = [], []
    folder = tmp_path_factory.getbasetemp()
    watches = {
        "pageerror": lambda error: errors.append(str(error)),
        "request": lambda r: errors.append(r.url) if not r.url.startswith(("blob:", "data:")) else None,
        "console": lambda line: errors.append(line.text) if line.type == "error" else None,
    }

    def file_of(data: bytes) -> Path:
        """Bytes as a file, which the browser reads itself: a message of megabytes would take seconds."""
        path = folder / hashlib.sha256(data).hexdigest()
        if not path.exists():
            path.write_bytes(data)
        return path

    def empty_page():
        if not watched:
            page = first_page
            page.emulate_media(color_scheme="null", reduced_motion="null")
        else:
            page = chromium.new_context(offline=True).new_page()
        for event, watch in watches.items():
            page.on(event, watch)
        watched.append(page)
        return page

    def mount(widget, lang="en", theme="light", width=800, page=None):
        if page is None:
            page = empty_page()
            page.set_viewport_size({"width": width, "height": 900})
            page.set_content(PAGE.format(lang={"zh": "zh-CN"}.get(lang, lang), theme=theme, width=width))
        state = {name: value for name, value in widget.get_state().items() if not name.startswith("_")}
        binary = [name for name, value in state.items() if isinstance(value, bytes)]
        given = {"esm": widget._esm, "state": state, "binary": binary}
        if binary:
            given["input"] = page.evaluate_handle(INPUT).as_element()
            given["input"].set_input_files([file_of(state.pop(name)) for name in binary])
        shown = Shown(page, page.evaluate(MOUNT, given), errors)
        shown.settle()
        return shown

    yield mount
    for page in watched:
        for event, watch in watches.items():
            page.remove_listener(event, watch)
        if page is first_page:
            page.goto("about:blank")
        else:
            page.context.close()
    assert not errors, errors
