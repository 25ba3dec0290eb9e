"""Diagrams: what they draw, what they refuse, and how they look in a page of either language and theme."""

import re
import struct
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

import attnbook
from attnbook.diagrams import LICENCE, Box, Diagram
from attnbook.notebook import set_language

SVG = "{http://www.w3.org/2000/svg}"
SCRIPT = Path(attnbook.__file__).parent / "book" / "static" / "save-figures.js"


@pytest.fixture(autouse=True)
def fresh_language():
    set_language("auto")
    yield
    set_language("auto")


def pipeline():
    d = Diagram(
        720,
        250,
        title=("缩放点积注意力的流程", "The pipeline of scaled dot-product attention"),
        description=(
            "查询和键相乘得到分数，缩放、加掩码、经过 softmax 成为权重，再对值求加权和。",
            "Queries and keys give scores; scaled, masked and softmaxed, they weigh the values.",
        ),
    )
    q = d.box(20, 40, 80, 44, "Q", kind="query")
    k = d.box(20, 110, 80, 44, "K", kind="key")
    v = d.box(20, 190, 80, 44, "V", kind="value")
    d.group(135, 20, 450, 120, ("权重的由来", "where the weights come from"))
    scores = d.box(150, 60, 100, 56, ("分数\nQK^{T}", "scores\nQK^{T}"))
    scale = d.box(275, 60, 80, 56, ("缩放\n÷ √d_{k}", "scale\n÷ √d_{k}"))
    mask = d.box(380, 60, 80, 56, ("掩码", "mask"), kind="muted")
    softmax = d.box(485, 60, 90, 56, "softmax", kind="weights")
    output = d.box(590, 184, 120, 56, ("加权和\nAV", "weighted sum\nAV"), kind="value", size=14)
    d.arrow(q, scores, kind="query").arrow(k, scores, kind="key")
    d.arrow(scores, scale).arrow(scale, mask).arrow(mask, softmax)
    d.arrow(softmax, output.top, via=[(650, 88)], kind="weights", text=("权重 A", "weights A"))
    return d.arrow(v, output, kind="value")


def encoder_decoder():
    d = Diagram(
        520,
        230,
        title=("编码器与解码器", "Encoder and decoder"),
        description=(
            "编码器把源句变成状态，解码器逐词生成。",
            "The encoder turns the source into states, the decoder writes one word after the other.",
        ),
    )
    d.group(10, 10, 220, 160, ("编码器", "encoder"))
    d.group(290, 10, 220, 160, ("解码器", "decoder"))
    states = []
    for i, (source, target) in enumerate([("鼬", "the"), ("追", "weasel"), ("鱼", "…")]):
        left, right = 52 + 68 * i, 332 + 68 * i
        d.text(left, 140, source).text(right, 140, target, size=14)
        h = d.box(left - 27, 60, 54, 44, f"h_{{{i + 1}}}", kind="key")
        s = d.box(right - 27, 60, 54, 44, f"s_{{{i + 1}}}", kind="query")
        d.arrow((left, 128), h).arrow(s, (right, 128))
        states.append((h, s))
    for (h, s), (next_h, next_s) in zip(states, states[1:], strict=False):
        d.arrow(h, next_h).arrow(s, next_s)
    d.arrow(states[-1][0], states[0][1])
    return d.brace(25, 215, 178, ("源句", "source")).brace(305, 495, 178, ("译文", "translation"))


def timeline():
    d = Diagram(
        680,
        150,
        title=("序列模型的时间线", "A timeline of sequence models"),
        description=(
            "从 1990 年的循环网络到 2017 年的 Transformer。",
            "From recurrent networks in 1990 to the Transformer in 2017.",
        ),
    )
    d.arrow((20, 80), (660, 80), kind="muted")
    models = [
        (1990, ("循环网络", "recurrent net")),
        (1997, "LSTM"),
        (2014, "GRU\nSeq2Seq"),
        (2015, ("注意力", "attention")),
        (2017, "Transformer"),
    ]
    for i, (year, model) in enumerate(models):
        d.box(63 + 130 * i, 73, 14, 14, radius=7, kind="weights" if year > 2014 else "plain")
        d.text(70 + 130 * i, 104, str(year), size=14).text(70 + 130 * i, 46, model, bold=year == 2017)
    return d


EXAMPLES = [pipeline, encoder_decoder, timeline]


def drawing(width=300, height=200):
    return Diagram(width, height, title=("图", "drawing"), description=("一张图", "a drawing"))


def texts(svg):
    root = ElementTree.fromstring(svg)
    return ["".join(element.itertext()) for element in root.iter(f"{SVG}text")]


def lines(svg):
    root = ElementTree.fromstring(svg)
    return [
        [tuple(map(float, point.split(","))) for point in element.get("points").split()]
        for element in root.iter(f"{SVG}polyline")
    ]


@pytest.mark.parametrize("example", EXAMPLES)
def test_each_language_is_a_drawing_with_a_name_and_a_description(example):
    for lang in ("zh", "en"):
        root = ElementTree.fromstring(example().svg(lang))
        assert root.get("role") == "img"
        assert root.get("lang") == lang
        assert root[0].tag == f"{SVG}title"
        assert root[0].text == getattr(example().title, lang)
        assert root[1].tag == f"{SVG}desc"
        assert root[1].text == getattr(example().description, lang)


def test_one_language_holds_nothing_of_the_other():
    assert "鼬" not in "".join(texts(pipeline().svg("en")))
    assert "mask" in texts(pipeline().svg("en"))
    assert "mask" not in texts(pipeline().svg("zh"))
    assert not re.search("[\u4e00-\u9fff]", pipeline().svg("en"))


def test_output_carries_both_languages_until_one_is_chosen():
    page = pipeline()._repr_html_()
    assert re.findall(r'class="attnbook-lang"', page) == ['class="attnbook-lang"'] * 2
    assert re.findall(r'<svg[^>]* lang="(\w+)"', page) == ["zh", "en"]
    set_language("zh")
    page = pipeline()._repr_html_()
    assert re.findall(r'<svg[^>]* lang="(\w+)"', page) == ["zh"]
    assert 'class="attnbook-lang"' not in page
    assert repr(pipeline()) == "Diagram: 缩放点积注意力的流程"


def test_text_is_escaped():
    d = drawing()
    d.box(10, 10, 280, 40, "<b>&_{<i>}")
    hostile = Diagram(9, 9, title=("<x>", "<x>"), description=("<y>", "<y>"))
    assert "<b>&<i>" in texts(d.svg("en"))
    for page in (d._repr_html_(), hostile._repr_html_()):
        assert not re.search("<[bixy]>", page)


def test_low_and_high_text_returns_to_its_line():
    d = drawing()
    d.text(100, 100, "QW_{Q}K^{T}x")
    (text,) = ElementTree.fromstring(d.svg("zh")).iter(f"{SVG}text")
    shifts = [
        float(span.get("dy")[:-2]) * float(span.get("font-size", "100%")[:-1]) / 100
        for span in text.iter(f"{SVG}tspan")
    ]
    assert [span.text for span in text.iter(f"{SVG}tspan")] == ["Q", "K", "T", "x"]
    assert sum(shifts) == pytest.approx(0, abs=0.01)
    assert shifts[0] > 0 > shifts[2]


def test_arrows_run_straight_between_boxes_that_face_each_other():
    d = drawing()
    a, b, c = d.box(10, 10, 60, 40), d.box(150, 20, 60, 40), d.box(30, 120, 60, 40)
    d.arrow(a, b, head=False).arrow(a, c, head=False).arrow(b, a, head=False).arrow(c, b, head=False)
    across, down, back, slanted = lines(d.svg("en"))
    assert across == [(70, 35), (150, 35)]
    assert down == [(50, 50), (50, 120)]
    assert back == [(150, 35), (70, 35)]
    assert slanted == [(90, 140), (150, 40)]


def test_arrows_go_around_corners_and_from_chosen_sides():
    d = drawing()
    a, b = d.box(10, 10, 60, 40), d.box(200, 120, 60, 40)
    d.arrow(a, b, via=[(230, 30)], head=False)
    d.arrow(a.bottom, b.left, via=[(40, 140)], head=False)
    assert lines(d.svg("en")) == [[(70, 30), (230, 30), (230, 120)], [(40, 50), (40, 140), (200, 140)]]


def test_a_box_knows_its_sides():
    box = Box(10, 20, 100, 40)
    assert (box.left, box.right, box.top, box.bottom) == ((10, 40), (110, 40), (60, 20), (60, 60))
    assert box.center == (60, 40)


@pytest.mark.parametrize(
    ("draw", "error", "message"),
    [
        (lambda d: d.box(250, 10, 60, 40), ValueError, "expected a box within 300 × 200, found x 250"),
        (lambda d: d.box(10, 10, 0, 40), ValueError, "w: expected a positive number, found 0"),
        (lambda d: d.box("1", 10, 60, 40), TypeError, "x: expected a number, found '1'"),
        (lambda d: d.box(float("nan"), 10, 60, 40), ValueError, "x: expected a finite number"),
        (lambda d: d.box(10, 10, 60, 40, kind="red"), ValueError, "kind: expected one of 'plain'"),
        (lambda d: d.box(10, 10, 60, 40, "much too long"), ValueError, "at most 60 × 40 of zh"),
        (lambda d: d.box(10, 10, 60, 40, ("短", "much too long")), ValueError, "of en text in the box"),
        (lambda d: d.box(10, 10, 60, 40, "1\n2\n3"), ValueError, "found about"),
        (lambda d: d.box(10, 10, 60, 40, ("中文", "")), ValueError, "text: expected text in both languages"),
        (lambda d: d.box(10, 10, 60, 40, 3), TypeError, "text: expected a str or a pair"),
        (lambda d: d.text(10, 10, ""), ValueError, "text: expected text in both languages"),
        (lambda d: d.text(10, 210, "x"), ValueError, "x, y: expected a point within 300 × 200"),
        (lambda d: d.text(10, 10, "x", anchor="left"), ValueError, "anchor: expected one of 'start'"),
        (lambda d: d.text(10, 10, "x", size=0), ValueError, "size: expected a positive number"),
        (lambda d: d.arrow("a", (10, 10)), TypeError, r"start: expected a point \(x, y\), found 'a'"),
        (lambda d: d.arrow((1, 1), (400, 1)), ValueError, "end: expected a point within"),
        (lambda d: d.arrow((1, 1), (1, 1)), ValueError, "end: expected another place than start"),
        (lambda d: d.arrow((1, 1), (9, 9), via=[3]), TypeError, "via: expected a point"),
        (lambda d: d.brace(50, 20, 100), ValueError, "stop: expected more than start = 50, found 20"),
        (lambda d: d.brace(20, 50, 100, side="down"), ValueError, "side: expected one of 'above'"),
        (lambda d: d.svg("fr"), ValueError, "lang: expected one of 'zh', 'en'"),
        (lambda d: d.save("figure.png", "en"), ValueError, "path: expected a name that ends in .svg"),
        (lambda d: Diagram(0, 10, "t", "d"), ValueError, "width: expected a positive number"),
        (lambda d: Diagram(10, 10, "", "d"), ValueError, "title: expected text in both languages"),
        (lambda d: Diagram(10, 10, "t", None), TypeError, "description: expected a str or a pair"),
    ],
)  # fmt: skip
def test_bad_arguments_are_named(draw, error, message):
    with pytest.raises(error, match=message):
        draw(drawing())


def test_saved_drawing_stands_alone(tmp_path):
    light = pipeline().save(tmp_path / "light.svg", "en").read_text(encoding="utf-8")
    dark = pipeline().save(tmp_path / "dark.svg", "zh", theme="dark").read_text(encoding="utf-8")
    for text in (light, dark):
        assert "var(" not in text  # slide programs know no CSS variables
        assert texts(text)[-1] == "attnbook · CC BY 4.0"
    assert "#0a62a8" in light
    assert "#6cb8f5" in dark
    assert texts(dark)[0] == "Q"


def open_page(chromium, attributes="", body="", width=800, **options):
    page = chromium.new_page(viewport={"width": width, "height": 700}, **options)
    outputs = "".join(example()._repr_html_() for example in EXAMPLES)
    page.set_content(
        f'<!doctype html><html {attributes}><body {body} style="margin: 8px">{outputs}</body></html>'
    )
    return page


def visible_languages(page):
    return page.eval_on_selector_all(
        ".attnbook-diagram > svg",
        "all => all.filter(e => e.getClientRects().length).map(e => e.lang || e.getAttribute('lang'))",
    )


@pytest.mark.browser
@pytest.mark.parametrize(
    ("attributes", "shown"),
    [("lang=zh-CN", "zh"), ("lang=en", "en"), ("lang=en-GB", "en"), ("", "zh"), ("lang=fr", "zh")],
)
def test_a_page_shows_exactly_one_language(chromium, attributes, shown):
    page = open_page(chromium, attributes)
    assert visible_languages(page) == [shown] * len(EXAMPLES)
    page.close()


@pytest.mark.browser
@pytest.mark.parametrize("lang", ["zh", "en"])
def test_a_chosen_language_is_shown_on_any_page(chromium, lang):
    set_language(lang)
    page = open_page(chromium, "lang=en")
    assert visible_languages(page) == [lang] * len(EXAMPLES)
    page.close()


@pytest.mark.browser
def test_without_a_style_sheet_the_languages_do_not_overlap(chromium):
    page = open_page(chromium)
    page.evaluate("document.querySelectorAll('style').forEach(e => e.remove())")
    assert visible_languages(page) == ["zh", "en"] * len(EXAMPLES)
    boxes = page.eval_on_selector_all(
        ".attnbook-diagram > svg",
        "all => all.map(e => e.getBoundingClientRect()).map(r => [r.top, r.bottom])",
    )
    assert all(above[1] <= below[0] + 0.5 for above, below in zip(boxes, boxes[1:], strict=False))
    page.close()


@pytest.mark.browser
@pytest.mark.parametrize(
    ("attributes", "body", "system", "dark"),
    [
        ("data-theme=dark", "", "light", True),  # the book
        ("data-theme=light", "", "dark", False),
        ("theme=dark", "", "light", True),  # Colab
        ("", "data-jp-theme-light=false", "light", True),  # JupyterLab
        ("", "data-jp-theme-light=true", "dark", False),
        ("", "data-vscode-theme-kind=vscode-dark", "light", True),  # VS Code
        ("", "data-vscode-theme-kind=vscode-high-contrast", "light", True),
        ("", "data-vscode-theme-kind=vscode-light", "dark", False),
        ("", "", "dark", True),
        ("", "", "light", False),
    ],
)
def test_colours_follow_the_page(chromium, attributes, body, system, dark):
    page = open_page(chromium, attributes, body, color_scheme=system)
    face = page.eval_on_selector(".attnbook-diagram rect", "e => getComputedStyle(e).fill")
    assert face == ("rgb(23, 26, 34)" if dark else "rgb(255, 255, 255)")
    page.close()


@pytest.mark.browser
@pytest.mark.parametrize("lang", ["zh-CN", "en"])
def test_on_a_phone_the_page_does_not_scroll_sideways_and_text_stays_readable(chromium, lang):
    page = open_page(chromium, f"lang={lang}", width=360)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    smallest = page.eval_on_selector_all(
        ".attnbook-diagram text",
        """all => Math.min(...all.filter(e => e.getClientRects().length)
            .map(e => parseFloat(e.getAttribute("font-size")) * e.getScreenCTM().a))""",
    )
    assert smallest >= 8.7
    scrolls = page.eval_on_selector_all(
        ".attnbook-diagram", "all => all.map(e => [e.scrollWidth > e.clientWidth, e.tabIndex])"
    )
    assert scrolls == [[True, 0], [False, -1], [True, 0]]
    page.close()


@pytest.mark.browser
@pytest.mark.parametrize("lang", ["zh-CN", "en"])
def test_text_stays_in_its_box(chromium, lang):
    page = open_page(chromium, f"lang={lang}")
    texts = page.evaluate(
        """() => [...document.querySelectorAll(".attnbook-diagram text")]
          .filter(text => text.getClientRects().length)
          .map(text => {
            const {left, right, top, bottom} = text.getBoundingClientRect(), svg = text.ownerSVGElement;
            const [x, y] = [(left + right) / 2, (top + bottom) / 2];
            const around = [svg, ...svg.querySelectorAll("rect[fill-opacity]")]
              .map(e => e.getBoundingClientRect())
              .filter(r => r.left < x && x < r.right && r.top < y && y < r.bottom);
            const fits = around.every(
              r => r.left <= left && right <= r.right && r.top <= top && bottom <= r.bottom);
            return [text.textContent, around.length, fits];
          })"""
    )
    assert sum(around == 2 for _, around, _ in texts) > 15  # inside the drawing and a box
    assert [text for text, _, fits in texts if not fits] == []
    page.close()


@pytest.mark.browser
@pytest.mark.parametrize(("lang", "theme"), [("zh-CN", "light"), ("en", "dark")])
def test_a_page_of_the_book_saves_each_diagram(chromium, lang, theme):
    """What the buttons give needs neither the page's style sheet nor another file."""
    page = open_page(chromium, f"lang={lang} data-theme={theme}")
    page.add_script_tag(path=SCRIPT)
    label = {"zh-CN": "把图保存为 {}", "en": "Save figure as {}"}[lang]
    for i, diagram in enumerate(page.query_selector_all(".attnbook-diagram")):
        files = {}
        for kind in ("SVG", "PNG"):
            with page.expect_download() as download:
                page.get_by_role("button", name=label.format(kind)).nth(i).click()
            assert download.value.suggested_filename.endswith(f"-{i + 1}-{lang[:2]}.{kind.lower()}")
            files[kind] = Path(download.value.path()).read_bytes()
        svg = ElementTree.fromstring(files["SVG"])
        on_page = diagram.query_selector(f"svg[lang={lang[:2]}] title").text_content()
        assert svg.find(f"{SVG}title").text == on_page
        assert [node.text for node in svg.iter(f"{SVG}text")][-1] == LICENCE
        face = svg.find(f"{SVG}rect")
        assert face.get("fill") == {"light": "rgb(255, 255, 255)", "dark": "rgb(23, 26, 34)"}[theme]
        assert face.get("height") == svg.get("height") == svg.get("viewBox").split()[3]
        assert re.findall(rb"href|src=|url\(|@import|var\(|class=|style=|currentColor", files["SVG"]) == []
        width, height = struct.unpack(">II", files["PNG"][16:24])
        assert (width, height) == (2 * int(svg.get("width")), 2 * int(svg.get("height")))
    page.close()
