"""The kit itself, on a small widget that uses every part of it."""

import re
import shutil
import struct
import sys
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
import traitlets
from browser import launch_chromium
from IPython.core.formatters import DisplayFormatter

from attnbook.notebook import Bilingual, set_language
from attnbook.widgets import base
from attnbook.widgets.base import Choice, Flag, Number, Widget, bundle, to_array, to_labels


class Sample(Widget):
    number = Number(3, 0, 9, integer=True).tag(sync=True)
    letter = Choice("a", "b").tag(sync=True)
    on = Flag(False).tag(sync=True)
    share = Number(0.5, 0, 1)

    def describe(self):
        return Bilingual("一个 <b>样例</b>", "a <b>sample</b>")


@pytest.fixture
def sample(tmp_path, monkeypatch):
    """A widget made of the real kit and the module above, bundled as widgets are."""
    for file in base.HERE.glob("*.js"):
        shutil.copy(file, tmp_path)
    shutil.copy(Path(__file__).with_name("sample.js"), tmp_path)
    monkeypatch.setattr(base, "HERE", tmp_path)
    return type("Sample", (Sample,), {"_esm": bundle("sample.js")})


@pytest.mark.parametrize(("required", "outcome"), [("1", pytest.fail.Exception), ("", pytest.skip.Exception)])
def test_without_chromium_tests_skip_and_fail_where_it_is_required(monkeypatch, required, outcome):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CHROMIUM", "/nowhere")
    monkeypatch.setenv("REQUIRE_BROWSER", required)
    nothing = SimpleNamespace(chromium=SimpleNamespace(executable_path="/nowhere"))
    with pytest.raises(outcome, match="no Chromium found"):
        launch_chromium(nothing)


def test_bundle_holds_each_file_once_and_no_import():
    text = bundle("attention_heatmap.js")
    assert not re.search(r"^import", text, re.M)
    assert text.count("export function frame(") == text.count("export function matrix(") == 1
    assert "export function chart(" not in text  # what is not imported is not shipped
    assert text.index("export function h(") < text.index("export function frame(")
    assert text.rstrip().endswith("export default {render};")


def test_bundle_of_files_that_import_each_other(tmp_path, monkeypatch):
    (tmp_path / "a.js").write_text('import {b} from "./b.js";\n// gone\nexport const a = 1;\n')
    (tmp_path / "b.js").write_text('import {a} from "./a.js";\n\n  export const b = () => a; // kept\n')
    monkeypatch.setattr(base, "HERE", tmp_path)
    assert bundle("a.js") == "export const b = () => a; // kept\nexport const a = 1;\n"


@pytest.mark.parametrize("name", ["attention_calculator.js", "attention_heatmap.js"])
def test_front_end_is_small(name):
    assert len(bundle(name).encode()) < 56_000


@pytest.mark.parametrize(
    ("trait", "value", "error", "message"),
    [
        ("number", 10, ValueError, "number: expected an int in [0, 9], found 10"),
        ("number", -1, ValueError, "number: expected an int in [0, 9], found -1"),
        ("number", 1.5, TypeError, "number: expected an int in [0, 9], found 1.5 (float)"),
        ("number", True, TypeError, "number: expected an int in [0, 9], found True (bool)"),
        ("share", "x", TypeError, "share: expected a number in [0, 1], found 'x' (str)"),
        ("share", float("nan"), ValueError, "share: expected a number in [0, 1], found nan"),
        ("letter", "c", ValueError, "letter: expected one of 'a', 'b', found 'c'"),
        ("letter", 3, TypeError, "letter: expected one of 'a', 'b', found 3 (int)"),
        ("on", 1, TypeError, "on: expected True or False, found 1 (int)"),
        ("language", "fr", ValueError, "language: expected one of 'auto', 'zh', 'en', found 'fr'"),
    ],
)
def test_wrong_trait_is_explained(trait, value, error, message):
    widget = Sample()
    with pytest.raises(error) as caught:
        setattr(widget, trait, value)
    assert str(caught.value) == message


def test_numbers_become_python_numbers():
    widget = Sample(number=np.int64(4), share=np.float32(0.25))
    assert type(widget.number) is int
    assert type(widget.share) is float


def test_traits_can_be_observed_and_linked():
    first, second, seen = Sample(), Sample(), []
    first.observe(lambda change: seen.append(change.new), "number")
    traitlets.link((first, "number"), (second, "number"))
    second.number = 7
    assert first.number == 7
    assert seen == [7]


def test_language_follows_the_notebook():
    widget = Sample()
    fixed = Sample(language="en")
    try:
        set_language("zh")
        assert (widget.language, Sample().language, fixed.language) == ("zh", "zh", "en")
    finally:
        set_language("auto")
    assert widget.language == "auto"


def test_text_alternative_where_no_front_end_runs(monkeypatch):
    data, _ = Sample()._repr_mimebundle_()
    assert data["text/plain"] == "Sample: 一个 <b>样例</b> / a <b>sample</b>"
    assert "a &lt;b&gt;sample&lt;/b&gt;" in data["text/html"]
    assert "<b>" not in data["text/html"]
    assert "application/vnd.jupyter.widget-view+json" in data
    monkeypatch.setitem(sys.modules, "google.colab", None)
    assert "text/html" not in Sample()._repr_mimebundle_()[0]


def test_ipython_uses_the_text_alternative():
    """ipywidgets 7 would display itself instead."""
    formats, _ = DisplayFormatter().format(Sample())
    assert formats["text/plain"].startswith("Sample: ")
    assert {"text/html", "application/vnd.jupyter.widget-view+json"} <= set(formats)


def test_arrays_of_every_kind():
    want = np.array([[1.0, 2.0]])
    for given in (
        [[1, 2]],
        want.astype(np.float16),
        torch.tensor([[1, 2]]),
        torch.tensor(want, requires_grad=True),
    ):
        np.testing.assert_array_equal(to_array("x", given), want)


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ([[1, float("nan")]], ValueError),
        ([[1, float("inf")]], ValueError),
        ([[1, 2], [3]], TypeError),
        ([["a"]], TypeError),
        ([[True]], TypeError),
        (None, TypeError),
        (torch.tensor([1j]), TypeError),
    ],
)
def test_arrays_that_are_refused(value, error):
    with pytest.raises(error, match="^x: expected "):
        to_array("x", value)


def test_labels():
    assert to_labels("tokens", ["a", ("猫", "cat")], 2) == [["a", "a"], ["猫", "cat"]]
    with pytest.raises(ValueError, match="tokens: expected 3 tokens, found 2"):
        to_labels("tokens", ["a", "b"], 3)
    for wrong in ("ab", [1, 2], [("a", "b", "c"), "d"], None):
        with pytest.raises(TypeError, match="tokens: expected "):
            to_labels("tokens", wrong, 2)


@pytest.mark.browser
@pytest.mark.parametrize("lang", ["zh", "en"])
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 800])
def test_kit_is_accessible_and_fits(sample, mount, lang, theme, width):
    shown = mount(sample(), lang=lang, theme=theme, width=width)
    assert shown.violations() == []
    assert shown.overflow() == 0


@pytest.mark.browser
def test_every_control_writes_its_trait_and_follows_it(sample, mount):
    shown = mount(sample())
    root = shown.root
    slider = root.get_by_role("slider", name="number")
    slider.focus()
    slider.press("ArrowRight")
    assert shown.get("number") == 4
    assert slider.get_attribute("aria-valuetext") == "no. 4"
    root.get_by_label("colour").select_option("b")
    assert shown.get("letter") == "b"
    shown.settle()
    assert root.get_by_role("radio", name="B").is_checked()
    root.get_by_role("radio", name="B").press("ArrowLeft")
    assert shown.get("letter") == "a"
    root.get_by_role("switch", name="switch").press(" ")
    assert shown.get("on") is True
    root.get_by_role("button", name="reset").press("Enter")
    shown.settle()
    assert (shown.get("number"), slider.input_value()) == (0, "0")
    shown.set(number=9)
    assert slider.input_value() == "9"
    assert shown.js("return model.saved") == 5


@pytest.mark.browser
def test_language_switches_live(sample, mount):
    shown = mount(sample(), lang="zh")
    title = shown.root.locator(".anb-title")
    assert title.inner_text() == "样例"
    shown.page.evaluate("document.documentElement.lang = 'en'")
    shown.settle()
    assert title.inner_text() == "Sample"
    assert shown.root.locator(".anb-say").inner_text() == "now 3"
    assert shown.root.locator("output").inner_text() == "no. 3"
    assert shown.root.locator(".anb").get_attribute("lang") == "en"
    assert shown.root.get_by_role("columnheader", name="cat").count() == 1
    shown.set(language="zh")  # the model's language is stronger than the page's
    assert title.inner_text() == "样例"
    assert shown.root.get_by_role("img", name="曲线").count() == 1


@pytest.mark.browser
@pytest.mark.parametrize(
    ("element", "name", "dark", "light"),
    [
        ("documentElement", "data-theme", "dark", "light"),  # the book
        ("body", "data-jp-theme-light", "false", "true"),  # JupyterLab
        ("body", "data-vscode-theme-kind", "vscode-dark", "vscode-light"),
        ("body", "data-vscode-theme-kind", "vscode-high-contrast", "vscode-high-contrast-light"),
        ("documentElement", "theme", "dark", "light"),  # Colab
    ],
)
def test_theme_switches_live(sample, mount, element, name, dark, light):
    shown = mount(sample())
    shown.page.evaluate("document.documentElement.removeAttribute('data-theme')")
    seen = []
    for value in (dark, light):
        shown.page.evaluate("([e, n, v]) => document[e].setAttribute(n, v)", [element, name, value])
        shown.settle()
        cell = shown.root.get_by_role("gridcell").first
        seen.append(
            (
                shown.root.locator(".anb").get_attribute("data-anb-theme"),
                cell.evaluate("e => e.style.backgroundColor"),
            )
        )
    assert [theme for theme, _ in seen] == ["dark", "light"]
    assert seen[0][1] != seen[1][1]


@pytest.mark.browser
def test_theme_of_the_system_where_the_page_says_nothing(sample, mount):
    shown = mount(sample())
    shown.page.evaluate("document.documentElement.removeAttribute('data-theme')")
    for scheme in ("dark", "light"):
        shown.page.emulate_media(color_scheme=scheme)
        shown.settle()
        assert shown.root.locator(".anb").get_attribute("data-anb-theme") == scheme


@pytest.mark.browser
def test_grid_has_one_tab_stop_and_arrow_keys(sample, mount):
    shown = mount(sample())
    grid = shown.root.get_by_role("grid", name="Table")
    assert grid.get_by_role("row").count() == 3
    assert grid.locator("[tabindex='0']").count() == 1
    grid.get_by_role("gridcell").first.focus()
    focused = "document.activeElement.getAttribute('aria-label')"
    assert shown.page.evaluate(focused) == "row 0 column 0 value 0.00"
    for key, where in [("ArrowRight", (0, 1)), ("ArrowDown", (1, 1)), ("End", (1, 2)), ("ArrowRight", (1, 2)),
                       ("Home", (1, 0)), ("ArrowUp", (0, 0)), ("ArrowUp", (0, 0))]:  # fmt: skip
        shown.page.keyboard.press(key)
        assert shown.page.evaluate(focused).startswith(f"row {where[0]} column {where[1]} ")
    assert shown.root.get_by_role("tooltip").inner_text() == "row 0 column 0 value 0.00"
    shown.page.keyboard.press("Escape")
    assert shown.root.get_by_role("tooltip").count() == 0
    shown.page.keyboard.press("ArrowDown")
    shown.page.keyboard.press("Enter")
    assert shown.get("number") == 3


@pytest.mark.browser
def test_tooltip_for_mouse_and_touch(sample, mount):
    shown = mount(sample())
    cell, tip = shown.root.get_by_role("gridcell").nth(1), shown.root.locator(".anb-tip")
    cell.hover()
    assert tip.inner_text() == "row 0 column 1 value 0.30"
    shown.root.locator(".anb-title").hover()
    assert tip.is_hidden()
    cell.dispatch_event("pointerover", {"pointerType": "touch"})
    assert tip.is_visible()
    box, frame = tip.bounding_box(), shown.root.locator(".anb").bounding_box()
    assert box["x"] >= frame["x"]
    assert box["x"] + box["width"] <= frame["x"] + frame["width"]


@pytest.mark.browser
def test_number_cells_keep_the_model_free_of_what_is_not_a_number(sample, mount):
    shown = mount(sample())
    cells = shown.root.get_by_role("spinbutton")
    assert cells.first.get_attribute("aria-label") == "E [a, x]"
    cells.first.fill("4")
    assert shown.get("number") == 4
    for wrong in ("", "77"):
        cells.first.fill(wrong)
        assert cells.first.get_attribute("aria-invalid") == "true"
        assert shown.get("number") == 4
    cells.first.press("Enter")  # goes to the cell below, and the last right number comes back
    assert cells.first.input_value() == "4"
    assert cells.first.get_attribute("aria-invalid") is None
    assert shown.page.evaluate("document.activeElement.ariaLabel") == "E [b, x]"
    cells.nth(2).press("Control+ArrowRight")
    assert shown.page.evaluate("document.activeElement.ariaLabel") == "E [b, y]"
    cells.nth(3).press("ArrowUp")
    assert shown.get("number") == 0.5


@pytest.mark.browser
def test_what_is_not_finite_is_hatched_and_numbers_have_a_true_minus(sample, mount):
    shown = mount(sample())
    cells = shown.root.get_by_role("gridcell")
    assert cells.all_inner_texts() == ["0.00", "0.30", "−0.30", "–", "−1.00", "1.00"]
    assert [i for i in range(6) if "anb-off" in cells.nth(i).get_attribute("class")] == [3]


@pytest.mark.browser
def test_text_is_never_html(sample, mount):
    shown = mount(sample())
    assert shown.root.get_by_role("rowheader", name="<b>").inner_text() == "<b>"
    assert shown.root.locator("b").count() == 0


@pytest.mark.browser
def test_two_of_a_kind_on_one_page(sample, mount):
    first = mount(sample())
    second = mount(sample(), page=first.page)
    ids = first.page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids)) > 1
    assert first.page.locator("style[data-anb]").count() == 1
    second.root.get_by_role("radio", name="B").check()
    assert first.root.get_by_role("radio", name="A").is_checked()
    assert first.violations() == []


@pytest.mark.browser
def test_styles_reach_a_shadow_root_and_a_detached_element(sample, mount):
    shown = mount(sample())
    shown.js(
        """const host = document.body.appendChild(document.createElement("div"));
        const inside = host.attachShadow({mode: "open"}).appendChild(document.createElement("div"));
        const apart = document.createElement("div");
        module.default.render({model, el: inside}); module.default.render({model, el: apart});
        const other = document.body.appendChild(document.createElement("div")).attachShadow({mode: "open"});
        other.append(apart); window.places = [host.shadowRoot, other];"""
    )
    assert (
        shown.page.evaluate("places.map(p => getComputedStyle(p.querySelector('.anb')).borderTopWidth)")
        == ["1px"] * 2
    )


@pytest.mark.browser
def test_a_box_that_shrinks_to_its_content_does_not_squeeze_the_widget(sample, mount):
    """As in an ipywidgets HBox."""
    shown = mount(sample())
    shown.page.add_style_tag(content="main { display: flex }")
    assert shown.root.locator(".anb").bounding_box()["width"] >= 300


@pytest.mark.browser
def test_cleanup_leaves_nothing(sample, mount):
    shown = mount(sample())
    assert shown.js("return model.listening()") > 0
    shown.js("cleanup()")
    assert shown.js("return [model.listening(), el.childElementCount]") == [0, 0]
    shown.set(number=5, language="zh")  # nobody listens; an error would fail the test


@pytest.mark.browser
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_svg_is_valid_and_self_contained(sample, mount, theme):
    shown = mount(sample(), lang="zh", theme=theme)
    svg = shown.svg()
    tree = ElementTree.fromstring(svg)
    texts = [node.text for node in tree.iter("{http://www.w3.org/2000/svg}text")]
    assert {"样例", "attnbook · CC BY 4.0", "猫", "<b>", "−0.30", "0.25", "高"} <= set(texts)
    assert "var(" not in svg
    assert "class=" not in svg
    assert "currentColor" not in svg
    assert re.findall(r'(?:href|src)="(?!data:)', svg) == []
    background = tree.find("{http://www.w3.org/2000/svg}rect").get("fill")
    assert background == {"light": "rgb(255, 255, 255)", "dark": "rgb(23, 26, 34)"}[theme]


@pytest.mark.browser
def test_png_has_the_size_of_the_figure_twice(sample, mount):
    shown = mount(sample(), lang="en")
    with shown.page.expect_download() as download:
        shown.root.get_by_role("button", name="Save figure as PNG").click()
    assert download.value.suggested_filename == "sample-en.png"
    data = Path(download.value.path()).read_bytes()
    width, height = struct.unpack(">II", data[16:24])
    svg = ElementTree.fromstring(shown.svg())
    assert data.startswith(b"\x89PNG")
    assert (width, height) == (2 * int(svg.get("width")), 2 * int(svg.get("height")))


@pytest.mark.browser
def test_reduced_motion_jumps_to_the_end(sample, mount):
    shown = mount(sample())
    run = """const ui = module.frame({model, el}, {name: "x", title: "x"}), seen = [];
    ui.animate(200, f => seen.push(f)); const at_once = [...seen];
    return new Promise(done => setTimeout(() => {
      ui.done(); done([at_once, seen.length, seen.at(-1)]);
    }, 900))"""
    at_once, steps, last = shown.js(run)
    assert (at_once, last) == ([], 1)
    assert steps > 1
    shown.page.emulate_media(reduced_motion="reduce")
    assert shown.js(run) == [[1], 1, 1]


@pytest.mark.browser
def test_colour_maps_order_values_by_lightness(sample, mount):
    """Monotonic lightness (symmetric for signed values) survives colour blindness and a grey print."""
    shown = mount(sample())
    code = (
        "return Array.from({length: 101}, (_, i) => module.luminance(module.rgb(arg[0], arg[1], i, 0, 100)))"
    )
    for theme, sign in (("light", -1), ("dark", 1)):
        steps = np.diff(shown.js(code, ["sequential", theme])) * sign
        assert (steps > -1e-4).all()
        signed = np.array(shown.js(code, ["diverging", theme]))
        assert (np.diff(signed[50:]) * sign > -1e-4).all()
        assert (np.diff(signed[:51]) * sign < 1e-4).all()


@pytest.mark.browser
def test_numbers_on_every_colour_are_readable(sample, mount):
    shown = mount(sample())
    code = """return ["sequential", "diverging"].flatMap(map => ["light", "dark"].flatMap(theme =>
      module.colourSteps(map, theme).map(({c, ink}) => {
        const l = module.luminance(c); return ink === "#000" ? (l + 0.05) / 0.05 : 1.05 / (l + 0.05); })))"""
    contrast = shown.js(code)
    assert len(contrast) == 1024
    assert min(contrast) >= 4.5


@pytest.mark.browser
def test_maths(sample, mount):
    shown = mount(sample())
    assert shown.js("return module.softmax([1, -Infinity, 1])") == [0.5, 0, 0.5]
    assert shown.js("return module.softmax([-Infinity, -Infinity])") == [0, 0]
    assert shown.js("return module.softmax([1000, 1000])") == [0.5, 0.5]
    assert shown.js("return module.entropy([0.5, 0.5, 0])") == pytest.approx(np.log(2))
    assert shown.js("return module.matmul([[1, 2], [3, 4]], [[0, 1], [1, 0]])") == [[2, 1], [4, 3]]
    draws = np.array(
        shown.js("const u = module.random(7); return Array.from({length: 4000}, () => module.normal(u))")
    )
    assert abs(draws.mean()) < 0.06
    assert abs(draws.std() - 1) < 0.05
    values = shown.js(
        "return [module.fmt(-0.001), module.fmt(-2.5, 1), module.fmt(NaN), module.fmt(-Infinity)]"
    )
    assert values == ["0.00", "−2.5", "–", "−∞"]


@pytest.mark.browser
def test_an_update_is_drawn_well_within_a_frame(sample, mount):
    assert mount(sample()).cost("model.set('number', i % 10)") < 50
