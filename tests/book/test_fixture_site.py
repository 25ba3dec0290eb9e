"""A little book of two pages, built whole: what the build does, what stops it, the host in a browser."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pydata_sphinx_theme
import pytest
import sphinx_book_theme
from sitecheck import visit

from attnbook.book import execution, styles
from attnbook.book.build import main

ROOT = Path(__file__).parents[2]
FIXTURE = Path(__file__).parent / "fixture"
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


def test_both_languages_notebooks_and_landing_page(site):
    assert sorted(path.name for path in site.iterdir()) == [
        "404.html",
        "_static",
        "en",
        "index.html",
        "sitemap.xml",
        "zh",
    ]
    for language in ("zh", "en"):
        for name in (START, SECOND, "notebooks/00-start.ipynb", "notebooks/01-second.ipynb", "index.html"):
            assert (site / language / name).exists()


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


def test_anchors_are_english_unique_and_the_same(site):
    anchors = [
        re.findall(r'<section[^>]* id="([^"]+)"', read(site, language, SECOND)) for language in ("zh", "en")
    ]
    assert anchors[0] == anchors[1] == ["chapter-two", "details", "details-2", "references"]
    assert 'id="second-start"' in read(site, "zh", SECOND)


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


@pytest.mark.browser
@pytest.mark.parametrize("language", ["zh", "en"])
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
    "zh": "这个交互组件的文件 widgets/0000000000000000.js 没能载入：可能网络断了，也可能网站刚刚更新过。"
    "请再试一次，或者重新载入本页。",
    "en": "This widget's file widgets/0000000000000000.js could not be loaded: the network may be down, or "
    "the site has just been updated. Try again, or reload the page.",
}
NO_STATE = {
    "zh": "这个交互组件没能启动（no saved state for widget {}），页面其余部分不受影响。",
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
