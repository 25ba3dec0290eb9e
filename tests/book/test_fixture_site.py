"""A little book of two pages, built whole: what the build does, what stops it, the host in a browser."""

import json
import os
import re
import shutil
import struct
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pydata_sphinx_theme
import pytest
import sphinx_book_theme
from sitecheck import visit

from attnbook.book import execution, styles
from attnbook.book.build import main

ROOT = Path(__file__).parents[2]
FIXTURE = Path(__file__).parent / "fixture"
EDITIONS = ("zh", "en", "both")
START, SECOND = "chapters/00-start.html", "chapters/01-second.html"


def make_book(folder: Path) -> Path:
    """The sources of the little book under the project's own configuration."""
    shutil.copytree(FIXTURE, folder)
    for name in ("_config.yml", "references.bib", "glossary.yml"):
        shutil.copy(ROOT / name, folder)
    return folder


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """The sources with the built site in build/site; the folder's name has a space and Chinese characters."""
    root = make_book(tmp_path_factory.mktemp("little") / "一本 book")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            execution, "fingerprint", lambda: "one"
        )  # an edit of the package meanwhile changes nothing
        assert main(["--root", str(root)]) == 0
        yield root


@pytest.fixture(scope="module")
def site(book):
    return book / "build" / "site"


def test_three_editions_notebooks_and_landing_page(site):
    assert sorted(path.name for path in site.iterdir()) == [
        "404.html",
        "_static",
        "both",
        "en",
        "index.html",
        "sitemap.xml",
        "zh",
    ]
    for edition in EDITIONS:
        for name in (START, SECOND, "index.html", "search.html"):
            assert (site / edition / name).exists()
    for language in ("zh", "en"):
        for name in ("notebooks/00-start.ipynb", "notebooks/01-second.ipynb"):
            assert (site / language / name).exists()
    assert not (site / "both" / "notebooks").exists()


def test_what_the_editions_load_is_there_once(site):
    own = {
        edition: {path.name for path in (site / edition / "_static").rglob("*") if path.is_file()}
        for edition in EDITIONS
    }
    words = {
        "documentation_options.js",
        "language_data.js",
        "translations.js",
    }  # these depend on the language
    assert own["zh"] <= words
    assert own["en"] <= words
    assert own["both"] <= words
    for name in ("attnbook.js", "widget-host.js", "plotly.min.js", "mathjax/startup.js"):
        assert (site / "_static" / name).exists()


def read(site, language, name):
    return (site / language / name).read_text(encoding="utf-8")


def test_titles_captions_and_language(site):
    zh, en = read(site, "zh", START), read(site, "en", START)
    assert '<html lang="zh-CN"' in zh
    assert '<html lang="en"' in en
    assert "<title>试验书 &#8212; 从循环到注意力</title>" in zh
    assert "<title>Trial book &#8212; From Recurrence to Attention</title>" in en
    assert "第一部分：试验" in zh
    assert "Part I: Trials" in en
    assert "显示参考解答" in zh
    assert "Show the solution" in en
    for text in (zh, en):
        assert re.search(
            r'<link rel="alternate" hreflang="zh-CN" href="../../zh/chapters/00-start.html"', text
        )
        assert re.search(r'<link rel="alternate" hreflang="en" href="../../en/chapters/00-start.html"', text)
        assert '<a href="../../both/chapters/00-start.html" lang="zh-CN"' in text


def test_anchors_are_english_unique_and_the_same(site):
    for edition in EDITIONS:
        anchors = re.findall(r'<section[^>]* id="([^"]+)"', read(site, edition, SECOND))
        assert anchors == ["chapter-two", "details", "details-2", "references"]
        assert 'id="second-start"' in read(site, edition, SECOND)


def article(site, edition, name):
    return re.search(r"<article.*?</article>", read(site, edition, name), re.S)[0]


def test_the_parallel_edition_sets_each_passage_below_its_partner(site):
    text = article(site, "both", SECOND)
    passages = re.findall(r'<(\w+) class="passage" lang="([^"]+)">', text)
    assert len(passages) > 10
    assert [language for _, language in passages] == ["zh-CN", "en"] * (len(passages) // 2)
    assert [tag for tag, _ in passages[::2]] == [tag for tag, _ in passages[1::2]]
    plain = re.sub(r"<[^>]*>", "", text)
    assert re.search(r"甲。\s+One\.\s+乙。\s+Two\.", plain)  # not cell by cell
    first = re.search(r"<ol.*?</ol>", text, re.S)[0]
    assert first.count("<li>") == 4  # two steps, two points inside the first one
    assert text.count("<ol") == text.count("<ul") == 1
    assert first.count("<code") == 1  # what is the same in both languages stands once


def test_the_parallel_edition_names_and_numbers_everything_once(site):
    text = article(site, "both", START)
    assert (
        '<h2><span lang="zh-CN">公式</span><span class="joint"> · </span><span lang="en">Formula</span>'
        in text
    )
    assert text.count('id="equation-scores"') == text.count('class="eqno"') == 1
    assert text.count('class="attnbook-widget"') == article(site, "zh", START).count(
        'class="attnbook-widget"'
    )
    assert '<p class="admonition-title">注 · Note</p>' in text
    assert '<summary><span lang="zh-CN">提示</span> · <span lang="en">Hint</span></summary>' in text
    assert "显示参考解答 · Show the solution" in text
    for name in (START, SECOND):
        identifiers = re.findall(r' id="([^"]+)"', read(site, "both", name))
        assert len(identifiers) == len(set(identifiers))


def test_each_passage_of_the_parallel_edition_refers_in_its_language(site):
    zh, en = re.findall(r'<p class="passage" lang="[^"]+">(.*?)</p>', article(site, "both", START))[:2]
    assert ">第二章</span></a>、" in zh
    assert ">Chapter two</span></a>, " in en
    text = re.sub(r"<[^>]*>", "", article(site, "both", SECOND))
    assert "（Vaswani 等，2017）" in text
    assert "(Vaswani et al., 2017)" in text


def test_titles_and_captions_of_the_parallel_edition(site):
    text = read(site, "both", START)
    assert "<title>试验书 · Trial book &#8212; 从循环到注意力 · From Recurrence to Attention</title>" in text
    assert "第一部分：试验 · Part I: Trials" in text
    assert '<html lang="zh-CN"' in text  # until its script has asked the reader's browser
    index = read(site, "both", "searchindex.js")
    assert "rotat" in index
    assert "位置编码".encode("unicode_escape").decode() in index


def test_no_address_of_another_host_is_loaded(site):
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not re.findall(r'<(?:script|img|iframe|source)[^>]* src="(?:https?:)?//', text)
        assert not re.findall(r'<link[^>]* rel="(?:stylesheet|preload|icon)"[^>]* href="(?:https?:)?//', text)
        assert "thebe" not in text
        assert "require.js" not in text


def test_download_and_colab_lead_to_the_language(site):
    for language in ("zh", "en"):
        text = read(site, language, START)
        assert 'href="../notebooks/00-start.ipynb" download="00-start.ipynb"' in text
        assert re.search(
            rf"colab.research.google.com/github/[\w-]+/[\w-]+/blob/notebooks/{language}/00-start.ipynb", text
        )
        assert f'href="../../{language}/notebooks/00-start.ipynb" download' in read(site, "both", START)


def test_modules_and_buffers_are_outside_the_page_and_shared(site):
    text = read(site, "zh", START)
    state = json.loads(re.search(r"widget-state\+json\">(.*?)</script>", text, re.S)[1])["state"]
    assert len(state) == 2
    keys = {model["state"]["_esm"]["asset"] for model in state.values()}
    keys |= {key for model in state.values() for buffer in model["buffers"] for key in buffer["assets"]}
    scripts = {path.stem for path in (site / "_static" / "widgets").iterdir()}
    assert len(keys) == 2  # both counters have the same module and the same data
    first_page = set(re.findall(r'"([0-9a-f]{16})"', (site / "index.html").read_text(encoding="utf-8")))
    assert keys.isdisjoint(first_page)
    assert keys | first_page == scripts
    assert "createElement" not in json.dumps(state)


def test_the_second_build_executes_nothing_and_replaces_the_site(book, site, capsys):
    (site / "old").write_text("")
    assert main(["--root", str(book)]) == 0
    assert "running" not in capsys.readouterr().out
    assert not (site / "old").exists()
    assert not [path for path in site.parent.iterdir() if path.name.startswith(".building")]


def edit(book: Path, tmp_path: Path, old: str, new: str) -> Path:
    """A copy of the sources and their cache with one change, and a site that must survive."""
    root = tmp_path / "book"
    shutil.copytree(book, root, ignore=shutil.ignore_patterns("site"))
    path = root / "chapters" / "01-second.ipynb"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    (root / "build" / "site").mkdir()
    (root / "build" / "site" / "index.html").write_text("good")
    return root


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "import plotly.graph_objects as go",
            "import none_such",
            r"01-second.ipynb, cell 3 \(id 01-02\) failed",
        ),
        ("## References", "### References", r"01-second.ipynb, cell 5 \(id 01-04\): expected headings"),
        (
            "works by rotation",
            "works by {ref}`nowhere`",
            r"01-second.ipynb:\d+: WARNING: undefined label: 'nowhere'",
        ),
        ("(00-start.ipynb#formula)", "(00-start.ipynb#none)", "01-second.ipynb.*none"),
    ],
)
def test_what_is_wrong_stops_the_build_and_keeps_the_site(book, tmp_path, capsys, old, new, message):
    root = edit(book, tmp_path, old, new)
    assert main(["--root", str(root)]) == 1
    said = capsys.readouterr().err
    assert re.search(message, said), said
    assert (root / "build" / "site" / "index.html").read_text() == "good"


def test_jupyter_book_alone_gives_the_chinese_edition(book, tmp_path):
    root = tmp_path / "book"
    shutil.copytree(book, root, ignore=shutil.ignore_patterns("site"))
    command = [str(Path(sys.executable).with_name("jupyter-book")), "build", ".", "-W", "--keep-going"]
    result = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    text = (root / "_build" / "html" / START).read_text(encoding="utf-8")
    assert '<html lang="zh-CN"' in text
    assert "attnbook-languages" not in text


# ---- Paper ----


@pytest.mark.browser
@pytest.mark.parametrize("edition", EDITIONS)
@pytest.mark.parametrize("name", [START, SECOND])
def test_a_page_on_paper(chromium, site, edition, name):
    with visit(chromium, 900, "dark") as page:
        page.open(site / edition / name)
        page.show_all()
        page.page.evaluate("document.querySelectorAll('details').forEach(fold => (fold.open = false))")
        with page.on_paper():
            assert page.page.evaluate("document.documentElement.dataset.theme") == "light"
            assert page.overflow() <= 0  # else the browser would print the whole page smaller
            assert page.page.locator("article h1").is_visible()
            gone = (
                "nav, header, footer, summary, .headerlink, .copybtn, .attnbook-choice, .bd-sidebar-primary"
            )
            assert page.page.locator(f":is({gone}):visible").count() == 0
            assert page.page.locator("details :visible").count() == 0  # what is closed stays out
        assert page.page.evaluate("document.documentElement.dataset.theme") == "dark"
        assert page.problems == []


@pytest.mark.browser
def test_the_button_prints_when_every_widget_is_there(chromium, site):
    with visit(chromium) as page:
        page.open(site / "en" / START)
        page.page.evaluate(
            """() => {
                 const places = document.querySelectorAll(".attnbook-widget");
                 window.print = () => (window.printed = [...places].map(place => place.dataset.state));
               }"""
        )
        page.page.locator(".dropdown-toggle").click()
        page.page.locator(".attnbook-print").click()
        page.page.wait_for_function("window.printed")
        assert page.page.evaluate("printed") == ["mounted", "waiting"]  # the second one is folded away
        assert page.problems == []


def run_pdf(root, **environment):
    command = [sys.executable, "-m", "attnbook.book", "--root", str(root), "--pdf"]
    return subprocess.run(
        command, capture_output=True, text=True, encoding="utf-8", env={**os.environ, **environment}
    )


@pytest.fixture(scope="module")
def pdfs(book, site):
    """The PDF of each language, read by pypdf."""
    from pypdf import PdfReader

    done = run_pdf(book)
    if "no Chromium found" in done.stderr and os.environ.get("REQUIRE_BROWSER") != "1":
        pytest.skip("no Chromium")
    assert done.returncode == 0, done.stdout + done.stderr
    folder = book / "build" / "pdf"
    assert sorted(path.name for path in folder.iterdir()) == ["attnbook-en.pdf", "attnbook-zh.pdf"]
    return {language: PdfReader(folder / f"attnbook-{language}.pdf") for language in ("zh", "en")}


def outline(reader, items=None, level=0):
    """(level, title, page counted from 1) of every item."""
    for item in reader.outline if items is None else items:
        if isinstance(item, list):
            yield from outline(reader, item, level + 1)
        else:
            yield level, item.title, reader.get_destination_page_number(item) + 1


@pytest.mark.browser
def test_the_pdf_has_title_contents_outline_and_numbers(pdfs):
    zh, en = pdfs["zh"], pdfs["en"]
    assert (zh.metadata.title, zh.root_object["/Lang"]) == ("从循环到注意力", "zh-CN")
    assert (en.metadata.title, en.root_object["/Lang"]) == ("From Recurrence to Attention", "en")
    assert "From Recurrence to Attention" in " ".join(en.pages[0].extract_text().split())
    for reader, second in ((zh, "第二章"), (en, "Chapter two")):
        items = list(outline(reader))
        page = next(page for level, title, page in items if title == second)
        assert second in reader.pages[page - 1].extract_text()
        assert re.search(rf"{second}\s*{page}\b", reader.pages[1].extract_text())
        for number, one in enumerate(reader.pages[1:], 2):
            assert one.extract_text().split()[-1] == str(number)
    assert [(level, title) for level, title, _ in outline(en)] == [
        (0, "Trial book"),
        (1, "Formula"),
        (1, "Widget"),
        (1, "Hints and solutions"),
        (0, "Part I: Trials"),
        (1, "Chapter two"),
        (2, "Details"),
        (2, "Details"),
        (2, "References"),
    ]


@pytest.mark.browser
def test_links_of_the_pdf_lead_into_the_pdf(pdfs):
    for language, titles in (("zh", ("公式", "第二章")), ("en", ("Formula", "Chapter two"))):
        reader = pdfs[language]
        pages = {title: page for _, title, page in outline(reader)}
        found = set()
        for number, page in enumerate(reader.pages, 1):
            for annotation in page.get("/Annots") or []:
                annotation = annotation.get_object()
                if "/Dest" in annotation:
                    target = reader.get_page_number(annotation["/Dest"][0].get_object()) + 1
                    found.add((number, target))
                else:
                    assert annotation["/A"]["/URI"].startswith("https://")
        first, second = (pages[title] for title in titles)
        assert {(2, first), (2, second), (first, second), (second, first)} <= found


@pytest.mark.browser
def test_fonts_of_the_pdf_are_in_it_and_chinese_can_be_found(pdfs):
    names = set()
    for page in pdfs["zh"].pages:
        for font in page["/Resources"]["/Font"].values():
            font = font.get_object()
            inner = font["/DescendantFonts"][0].get_object() if "/DescendantFonts" in font else font
            descriptor = inner["/FontDescriptor"]
            embedded = {"/FontFile", "/FontFile2", "/FontFile3"} & set(descriptor)
            assert embedded or font["/Subtype"] == "/Type3"  # whose glyphs are drawings in the file
            names.add(descriptor["/FontName"])
    assert any("CJK" in name or "Hei" in name or "PingFang" in name for name in names)
    text = "".join(page.extract_text() for page in pdfs["zh"].pages)
    assert "注意力" in text  # and not with the radical ⼒, whose glyph is the same
    assert not re.search("[\u2e80-\u2fdf]", text)


@pytest.mark.browser
def test_hints_and_solutions_are_at_the_end_of_their_chapter(pdfs):
    text = "".join(page.extract_text() for page in pdfs["en"].pages)
    assert text.index("at the end of the chapter") < text.index("Hints and solutions")
    assert text.index("Hints and solutions") < text.index("One more widget behind this one.")
    assert text.index("One more widget behind this one.") < text.index("40 of 256")


def test_a_pdf_needs_chromium_and_a_built_site(book, site, tmp_path):
    done = run_pdf(book, PATH=str(tmp_path), CHROMIUM="", PLAYWRIGHT_BROWSERS_PATH=str(tmp_path))
    assert done.returncode == 1
    assert "the PDF is printed by Chromium: no Chromium found" in done.stderr
    done = run_pdf(make_book(tmp_path / "unbuilt"))
    assert done.returncode == 1
    assert "expected the built site; run make book first" in done.stderr


# ---- In a browser ----


@pytest.mark.browser
@pytest.mark.parametrize("language", EDITIONS)
def test_widgets_move_and_figures_are_drawn(chromium, site, language):
    with visit(chromium) as page:
        page.open(site / language / START)
        page.show_all()
        assert page.states(".attnbook-widget") == ["mounted", "mounted"]
        buttons = page.page.locator(".attnbook-widget button")
        assert buttons.all_text_contents() == ["7 of 256", "40 of 256"]
        buttons.first.click()
        assert buttons.all_text_contents() == ["8 of 256", "40 of 256"]
        page.open(site / language / SECOND)
        page.show_all()
        assert page.states(".attnbook-figure") == ["drawn"]
        assert page.problems == []


@pytest.mark.browser
@pytest.mark.parametrize(("language", "theme"), [("zh", "light"), ("en", "dark")])
def test_a_chart_saves_itself_with_title_and_licence(chromium, site, language, theme):
    with visit(chromium, 700, theme) as page:
        page.open(site / language / SECOND)
        page.show_all()
        chart = page.page.locator(".js-plotly-plot").bounding_box()
        label = {"zh": "把图保存为 {}", "en": "Save figure as {}"}[language]
        files = {}
        for kind in ("SVG", "PNG"):
            with page.page.expect_download() as download:
                page.page.get_by_role("button", name=label.format(kind)).click()
            assert download.value.suggested_filename == f"01-second-1-{language}.{kind.lower()}"
            files[kind] = Path(download.value.path()).read_bytes()
        svg = ElementTree.fromstring(files["SVG"])
        texts = [node.text for node in svg.iter("{http://www.w3.org/2000/svg}text")]
        heading = {"zh": "细节", "en": "Details"}[language]
        assert (texts[0], texts[-1]) == (heading, "attnbook · CC BY 4.0")
        assert {"sin", "1", "2", "3"} <= set(texts)
        assert re.findall(rb"(?:href|src)=.(?!#)|url\((?!.?#)|@import|var\(", files["SVG"]) == []
        background = svg.find("{http://www.w3.org/2000/svg}rect").get("fill")
        shown = page.page.evaluate("getComputedStyle(document.body).backgroundColor")
        as_shown = "f => { document.body.style.color = f; return getComputedStyle(document.body).color }"
        assert page.page.evaluate(as_shown, background) == shown
        width, height = int(svg.get("width")), int(svg.get("height"))
        assert (width, height) == (round(chart["width"]), round(chart["height"]) + 58)
        assert struct.unpack(">II", files["PNG"][16:24]) == (2 * width, 2 * height)
        assert page.problems == []


@pytest.mark.browser
@pytest.mark.parametrize(
    ("language", "labels"),
    [
        ("zh", {"框选放大", "平移", "放大", "缩小", "自动缩放", "复原坐标轴"}),
        ("en", {"Zoom", "Pan", "Zoom in", "Zoom out", "Autoscale", "Reset axes"}),
    ],
)
def test_a_chart_has_these_buttons_and_none_that_uploads_it(chromium, site, language, labels):
    with visit(chromium) as page:
        page.open(site / language / SECOND)
        page.show_all()
        found = page.page.locator(".modebar-btn").evaluate_all("all => all.map(b => b.dataset.title)")
        assert set(found) == labels


@pytest.mark.browser
def test_a_finger_on_a_chart_scrolls_the_page(chromium, site):
    with visit(chromium, 360, has_touch=True, is_mobile=True) as page:
        page.open(site / "en" / SECOND)
        page.show_all()
        page.page.locator(".js-plotly-plot").evaluate("chart => chart.scrollIntoView({block: 'center'})")
        before, finger = page.page.evaluate("scrollY"), page.page.context.new_cdp_session(page.page)
        for kind, y in [
            ("touchStart", 300),
            *(("touchMove", 300 + 20 * i) for i in range(1, 11)),
            ("touchEnd", 0),
        ]:
            points = [{"x": 180, "y": y}] if y else []
            finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
        page.page.wait_for_function("before => scrollY < before - 100", arg=before)
        assert page.problems == []


@pytest.mark.browser
@pytest.mark.parametrize("name", [START, SECOND])
@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (360, "dark")])
def test_the_parallel_edition_in_a_browser(chromium, site, name, width, theme):
    with visit(chromium, width, theme) as page:
        page.open(site / "both" / name)
        page.show_all()
        assert page.overflow() <= 0
        assert page.unrendered_math() == []
        assert page.problems == []
        assert page.findings() == []


@pytest.mark.browser
@pytest.mark.parametrize(("locale", "language"), [("zh-TW", "zh-CN"), ("en-GB", "en"), ("fr-FR", "en")])
def test_widgets_of_the_parallel_edition_speak_the_readers_language(chromium, site, locale, language):
    with visit(chromium, locale=locale) as page:
        page.open(site / "both" / START)
        assert page.page.evaluate("document.documentElement.lang") == language
        other = page.page.locator(".attnbook-choice button[aria-pressed=false]")
        chosen = other.inner_text()
        other.click()
        assert (
            page.page.evaluate("document.documentElement.lang") == {"中文": "zh-CN", "English": "en"}[chosen]
        )
        page.open(site / "both" / START)  # the choice is remembered
        assert page.page.locator(".attnbook-choice button[aria-pressed=true]").inner_text() == chosen
        assert page.problems == []


@pytest.mark.browser
def test_buttons_that_save_a_chart_are_named_in_the_language_that_the_reader_chooses(chromium, site):
    with visit(chromium) as page:
        page.open(site / "both" / SECOND)
        names = {"zh-CN": "把图保存为 {}", "en": "Save figure as {}"}
        for language in ("zh-CN", "en", "zh-CN"):
            page.page.evaluate("language => { document.documentElement.lang = language; }", language)
            for kind in ("SVG", "PNG"):
                assert page.page.get_by_role("button", name=names[language].format(kind)).count() == 1
        assert page.problems == []


@pytest.mark.browser
def test_the_switch_goes_round_the_editions_and_keeps_the_section(chromium, site):
    with visit(chromium) as page:
        page.open(site / "zh" / SECOND)
        for name, edition in (("对照", "both"), ("English", "en"), ("对照", "both"), ("中文", "zh")):
            page.page.evaluate("document.getElementById('details-2').scrollIntoView()")
            page.page.locator(".attnbook-languages a", has_text=name).click()
            page.page.wait_for_load_state()
            assert page.page.url == (site / edition / SECOND).as_uri() + "#details-2"
        assert page.problems == []


@pytest.mark.browser
@pytest.mark.parametrize("query", ["位置编码", "rotation"])
def test_the_parallel_edition_is_searched_in_both_languages(chromium, site, query):
    with visit(chromium) as page:
        page.open(site / "both" / "search.html", query=f"q={query}")
        page.page.locator("#search-results li a").first.wait_for(timeout=20_000)
        assert page.problems == []


@pytest.mark.browser
def test_a_figure_follows_the_theme(chromium, site):
    colour = "document.querySelector('.attnbook-figure .gtitle').style.fill"
    with visit(chromium) as page:
        page.open(site / "en" / SECOND)
        page.show_all()
        light = page.page.evaluate(colour)
        page.page.evaluate("document.documentElement.dataset.theme = 'dark'")
        page.page.wait_for_function(f"light => {colour} !== light", arg=light)
        assert page.problems == []


@pytest.mark.browser
def test_a_hidden_widget_waits_until_it_is_shown(chromium, site):
    with visit(chromium) as page:
        page.open(site / "zh" / START)
        page.page.locator(".attnbook-widget").first.scroll_into_view_if_needed()
        page.page.wait_for_selector('.attnbook-widget[data-state="mounted"]')
        assert page.states(".attnbook-widget") == ["mounted", "waiting"]
        page.page.get_by_text("显示参考解答").click()
        page.page.wait_for_selector('.attnbook-widget[data-state="mounted"] >> nth=1')
        assert page.problems == []


@pytest.mark.browser
def test_content_that_comes_late_is_mounted_and_shares_the_model(chromium, site):
    with visit(chromium) as page:
        page.open(site / "en" / START)
        page.show_all()
        page.page.evaluate(
            """() => {
              const old = document.querySelector(".attnbook-widget"), late = document.createElement("div");
              late.className = "attnbook-widget";
              late.dataset.model = old.dataset.model;
              late.dataset.state = "waiting";
              const wrap = document.createElement("section");
              wrap.append(late);
              old.before(wrap);
            }"""
        )
        page.show_all()
        buttons = page.page.locator(".attnbook-widget button")
        buttons.first.click()
        assert buttons.all_text_contents() == ["8 of 256", "8 of 256", "40 of 256"]
        assert page.problems == []


def broken(site, tmp_path, change, language="en"):
    """A copy of the site with `change(page text) -> page text` applied to the first page of one language."""
    path = shutil.copytree(site, tmp_path / "site") / language / START
    path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")
    return path


STATE = re.compile(r"(widget-state\+json\">)(.*?)(</script>)", re.S)


def change_first_model(text, change):
    def apply(match):
        saved = json.loads(match[2])
        first = re.search(r'data-model="(\w+)"', text)[1]
        change(saved["state"], first)
        return match[1] + json.dumps(saved) + match[3]

    return STATE.sub(apply, text)


def lose_state(state, first):
    del state[first]


def lose_module(state, first):
    state[first]["state"]["_esm"] = {"asset": "0000000000000000"}


def lose_buffer(state, first):
    state[first]["buffers"][0]["assets"] = ["0000000000000000"]


GONE = {
    "zh": "这个交互控件的文件 widgets/0000000000000000.js 没能载入：可能网络断了，也可能网站刚刚更新过。"
    "请再试一次，或者重新载入本页。",
    "en": "This widget's file widgets/0000000000000000.js could not be loaded: the network may be down, or "
    "the site has just been updated. Try again, or reload the page.",
}
NO_STATE = {
    "zh": "这个交互控件没能启动（no saved state for widget {}），页面其余部分不受影响。",
    "en": "This widget could not start (no saved state for widget {}); the rest of the page is not affected.",
}


@pytest.mark.browser
@pytest.mark.parametrize("language", ["zh", "en"])
@pytest.mark.parametrize(
    ("damage", "message"), [(lose_state, NO_STATE), (lose_module, GONE), (lose_buffer, GONE)]
)
def test_a_broken_widget_says_what_failed_and_stops_no_other(
    chromium, site, tmp_path, damage, message, language
):
    path = broken(site, tmp_path, lambda text: change_first_model(text, damage), language)
    with visit(chromium) as page:
        page.open(path)
        page.show_all()
        assert page.states(".attnbook-widget") == ["failed", "mounted"]
        failed = page.page.locator(".attnbook-widget").first
        identifier = failed.get_attribute("data-model")
        assert failed.get_by_role("status").inner_text() == message[language].format(identifier)
        alternative = {"zh": "一个计数器。", "en": "A counter."}[language]
        assert failed.locator(".attnbook-alternative").inner_text() == alternative
        assert any("console error" in problem for problem in page.problems)


@pytest.mark.browser
def test_a_module_that_throws_is_a_failed_widget(chromium, site, tmp_path):
    path = broken(site, tmp_path, lambda text: text)
    for script in (path.parents[2] / "_static" / "widgets").iterdir():
        text = script.read_text(encoding="utf-8")
        script.write_text(
            text.replace("const button", "throw new Error('no'); const button"), encoding="utf-8"
        )
    with visit(chromium) as page:
        page.open(path)
        page.show_all()
        assert page.states(".attnbook-widget") == ["failed", "failed"]
        # Nothing of the widget is left, and the host offers a second try.
        assert page.page.locator(".attnbook-widget button").all_inner_texts() == ["Try again"] * 2


@pytest.mark.browser
def test_linked_traits_follow_each_other(chromium, site, tmp_path):
    def link(state, first):
        second = next(key for key in state if key != first)
        ends = {"source": [f"IPY_MODEL_{first}", "count"], "target": [f"IPY_MODEL_{second}", "count"]}
        state["f" * 32] = {"model_name": "LinkModel", "state": ends}

    path = broken(site, tmp_path, lambda text: change_first_model(text, link))
    with visit(chromium) as page:
        page.open(path)
        page.show_all()
        buttons = page.page.locator(".attnbook-widget button")
        assert buttons.all_text_contents() == ["7 of 256", "7 of 256"]
        buttons.nth(1).click()
        assert buttons.all_text_contents() == ["8 of 256", "8 of 256"]
        assert page.problems == []


# The computed style of every element and of what stands before and after it, formulas and widgets left out.
COMPUTED = """() => {
  const found = [];
  for (const element of document.querySelectorAll("body, body *")) {
    if (element.closest("mjx-container, svg, pre, .attnbook-widget")) continue;
    for (const part of ["", "::before", "::after"]) {
      const style = getComputedStyle(element, part || null);
      const all = part && style.content === "none" ? ["content"] : [...style];
      const names = all.filter(name => !name.startsWith("--"));
      const text = names.map(name => `${name}: ${style.getPropertyValue(name)}`).join("; ");
      found.push(`${element.tagName}.${element.className}${part} { ${text} }`);
    }
  }
  return found;
}"""


def looks(chromium, path, width, theme):
    """The computed styles of a page: as it opens, with its menu, its side bar and its search field open."""
    with visit(chromium, width, theme) as page:
        page.open(path)
        found = [page.page.evaluate(COMPUTED)]
        openers = [".article-header-buttons .dropdown-toggle", *([".primary-toggle"] if width < 600 else [])]
        for opener in openers:
            page.page.locator(opener).first.click()
            page.page.wait_for_timeout(300)
            found.append(page.page.evaluate(COMPUTED))
            page.page.keyboard.press("Escape")
        page.page.keyboard.press("Control+k")
        page.page.wait_for_timeout(300)
        return [*found, page.page.evaluate(COMPUTED)]


@pytest.mark.browser
@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (360, "dark")])
def test_style_sheets_without_what_is_not_used_draw_the_same(chromium, site, tmp_path, width, theme):
    full = shutil.copytree(site, tmp_path / "site")
    for sheet, theme_package in zip(styles.SHEETS, (pydata_sphinx_theme, sphinx_book_theme), strict=True):
        name = theme_package.__name__
        source = Path(theme_package.__file__).parent / "theme" / name / "static" / sheet
        assert (full / "_static" / sheet).stat().st_size < 0.7 * source.stat().st_size
        shutil.copy2(source, full / "_static" / sheet)
    assert looks(chromium, site / "en" / START, width, theme) == looks(
        chromium, full / "en" / START, width, theme
    )
