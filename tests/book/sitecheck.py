"""Opens pages of a built site from disk in Chromium with the network cut, and says what is wrong there."""

import json
import re
import threading
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from accessibility import findings_of_a_long_page

OWN_SCRIPTS = ("attnbook.js", "widget-host.js", "plotly-figures.js")
_STATE = re.compile(r'<script type="application/vnd.jupyter.widget-state\+json">(.*?)</script>', re.S)

# What a reader sees of the article as running text: code, formulas, scripts and widgets left out.
ARTICLE_TEXT = """() => {
  const article = document.querySelector("article");
  if (!article) return "";
  const copy = article.cloneNode(true);
  const other = "pre, code, script, style, mjx-container, .math, .attnbook-widget, .attnbook-figure, svg";
  copy.querySelectorAll(other).forEach(e => e.remove());
  return copy.textContent;
}"""

# Everything that loads late is asked for: folds are opened, every widget and figure comes into view.
SHOW_ALL = """async () => {
  document.querySelectorAll("details").forEach(d => d.open = true);
  for (const place of document.querySelectorAll(".attnbook-widget, .attnbook-figure")) {
    place.scrollIntoView({block: "center"});
    await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
  }
}"""
TWO_FRAMES = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
LOADING = (
    '.attnbook-widget:is([data-state="waiting"], [data-state="loading"]), .attnbook-figure:not([data-state])'
)


FADED_IN = """() => Promise.allSettled(
    document.getAnimations()
        .filter(animation => animation.effect.getComputedTiming().endTime !== Infinity)
        .map(animation => animation.finished))"""


class Visit:
    """One browser page and everything that went wrong in it."""

    def __init__(self, page, home: str = "file:"):
        self.page = page
        self.home = home
        self.problems: list[str] = []
        page.on("pageerror", lambda error: self.problems.append(f"page error: {error}"))
        page.on("requestfailed", self._failed)
        page.on("request", self._request)
        page.on("console", self._console)

    def _failed(self, request) -> None:
        if request.failure != "net::ERR_ABORTED":  # which is what leaving a page does to its open requests
            self.problems.append(f"failed request: {request.url} ({request.failure})")

    def _request(self, request) -> None:
        if not request.url.startswith((self.home, "blob:", "data:")):
            self.problems.append(f"request to another host: {request.url}")

    def _console(self, message) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(f"console {message.type}: {message.text}")

    def open(self, path: Path, query: str = "", fragment: str = "") -> None:
        self.go(path.as_uri() + (f"?{query}" if query else "") + (f"#{fragment}" if fragment else ""))

    def go(self, address: str) -> None:
        self.page.goto(address, wait_until="load")
        self.typeset()

    def typeset(self) -> None:
        """Wait until the formulas of a page that has been loaded stand in their places."""
        if self.page.locator("article .math").count():
            self.page.wait_for_function("() => window.MathJax?.startup?.promise")
            self.page.evaluate("() => MathJax.startup.promise")

    def leave_formulas(self) -> None:
        """From now on formulas stay as they are written: a page is quickly there, and nothing moves later."""
        empty = {"body": "", "content_type": "text/javascript"}
        self.page.route("**/_static/mathjax/**", lambda route: route.fulfill(**empty))

    def show_all(self) -> None:
        """Bring everything into view and wait until nothing is loading."""
        self.page.evaluate(SHOW_ALL)
        self.page.wait_for_function(
            "loading => !document.querySelector(loading)", arg=LOADING, timeout=60_000
        )

    def states(self, selector: str) -> list[str]:
        return self.page.locator(selector).evaluate_all("places => places.map(p => p.dataset.state)")

    def overflow(self) -> int:
        """By how many pixels the page is wider than its window."""
        return self.page.evaluate("() => document.documentElement.scrollWidth - innerWidth")

    @contextmanager
    def on_paper(self, width: int = 665):
        """The page as it is laid out for paper, for a while: A4 between its margins is 665 pixels wide."""
        window = self.page.viewport_size
        self.page.evaluate("dispatchEvent(new Event('beforeprint'))")
        self.page.emulate_media(media="print")
        self.page.set_viewport_size({"width": width, "height": 900})
        self.page.evaluate(TWO_FRAMES)
        yield
        self.page.emulate_media(media="screen")
        self.page.set_viewport_size(window)
        self.page.evaluate("dispatchEvent(new Event('afterprint'))")
        self._reach()

    def look(self, width: int, theme: str) -> None:
        """Turn to another look, as a reader does who turns a phone or sits there when night falls."""
        self.page.emulate_media(color_scheme=theme)
        if width != self.page.viewport_size["width"]:
            self.page.set_viewport_size({**self.page.viewport_size, "width": width})
            self._reach()
        self.page.evaluate(TWO_FRAMES)

    def _reach(self) -> None:
        """Wait until the theme has found out anew what scrolls, and lets it take the focus."""
        self.page.wait_for_timeout(500)

    def unrendered_math(self) -> list[str]:
        return self.page.evaluate(
            """() => [...document.querySelectorAll("article .math")]
                 .filter(m => !m.querySelector("mjx-container") || m.querySelector("mjx-merror"))
                 .map(m => m.textContent.slice(0, 80))"""
        )

    def literal_marks(self) -> list[str]:
        text = self.page.evaluate(ARTICLE_TEXT)
        return [line.strip() for line in text.splitlines() if "**" in line or "$" in line]

    def findings(self, looks_only: bool = False) -> list[str]:
        """What is serious for readers with an impairment; see `findings_of_a_long_page`."""
        self.page.evaluate(FADED_IN)  # half faded in, a text has too little contrast
        return findings_of_a_long_page(self.page, looks_only)


@contextmanager
def visit(browser, width: int = 1280, theme: str = "light", home: str = "file:", **options):
    """A page of a fresh context, which may load from `home` only; what went wrong is in its `problems`."""
    context = browser.new_context(
        viewport={"width": width, "height": 800},
        color_scheme=theme,
        offline=home == "file:",
        reduced_motion="reduce",  # no smooth scrolling: a place is reached at once
        **options,
    )
    try:
        yield Visit(context.new_page(), home)
    finally:
        context.close()


def policy() -> str:
    """The Content-Security-Policy that CONTRIBUTING.md promises to be enough."""
    text = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return re.search(r"^Content-Security-Policy: (.+)$", text, re.M)[1]


@contextmanager
def served(folder: Path, policy: str):
    """The address at which `folder` is served with a Content-Security-Policy."""

    class Handler(SimpleHTTPRequestHandler):
        def end_headers(self):
            self.send_header("Content-Security-Policy", policy)
            self.send_header(
                "Access-Control-Allow-Origin", "*"
            )  # as GitHub Pages; fonts in a sandbox need it
            super().end_headers()

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()


def saved_errors(path: Path) -> list[str]:
    """Error outputs in the widget state that a page holds."""
    found = []
    for text in _STATE.findall(path.read_text(encoding="utf-8")):
        for model in json.loads(text)["state"].values():
            outputs = model["state"].get("outputs", [])
            found += [output["ename"] for output in outputs if output.get("output_type") == "error"]
    return found


def own_script_bytes(path: Path) -> int:
    """How much of our JavaScript a page loads before the reader does anything."""
    text = path.read_text(encoding="utf-8")
    sources = re.findall(r'<script[^>]* src="([^"?]+)', text)
    ours = [path.parent / source for source in sources if Path(source).name in OWN_SCRIPTS]
    inline = re.findall(r"<script(?![^>]*(?: src=|json))[^>]*>(.*?)</script>", text, re.S)
    return sum(file.stat().st_size for file in ours) + sum(len(part.encode()) for part in inline)
