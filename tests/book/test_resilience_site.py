"""The little book where less is there than usual: a strict policy, no storage, no scripts, files gone."""

import json
import re
import shutil
from pathlib import Path

import pytest
from sitecheck import policy, served, visit
from test_fixture_site import SECOND, START, make_book

from attnbook.book.build import main, run_editions

LANGUAGES = ("zh", "en")
ATTRIBUTE = re.compile(
    r"""<[a-z][^<>]*?\s(on[a-z]+\s*=|(?:href|src|action)\s*=\s*["']?\s*javascript:)""", re.I
)
SCRIPT = re.compile(r"<script\b([^>]*)>(.*?)</script>", re.S)


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    root = make_book(tmp_path_factory.mktemp("resilience") / "book")
    assert main(["--root", str(root)]) == 0
    return root


@pytest.fixture(scope="module")
def site(book):
    return book / "build" / "site"


def test_no_page_holds_a_script(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 6
    for path in pages:
        text = path.read_text(encoding="utf-8")
        for attributes, body in SCRIPT.findall(text):
            assert not body.strip() or "json" in attributes, (path, body[:80])
        assert not ATTRIBUTE.search(text), (path, ATTRIBUTE.search(text)[0])


def test_line_ends_of_windows_change_nothing(book, site, tmp_path):
    root = tmp_path / "book"
    shutil.copytree(book, root, ignore=shutil.ignore_patterns("site"))
    changed = [path for path in root.rglob("*") if path.suffix in (".ipynb", ".yml", ".bib")]
    changed = [path for path in changed if "build" not in path.relative_to(root).parts]
    assert len(changed) == 6
    for path in changed:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".ipynb":  # inside its texts too
            notebook = json.loads(text)
            for cell in notebook["cells"]:
                if cell["cell_type"] == "markdown":
                    cell["source"] = "".join(cell["source"]).replace("\n", "\r\n")
            text = json.dumps(notebook, ensure_ascii=False, indent=1)
        path.write_text(text, encoding="utf-8", newline="\r\n")
    (cache,) = [path for path in (root / "build" / ".jupyter_cache").iterdir() if path.is_dir()]
    run_editions(root, tmp_path, cache, ["en"])
    for name in (START, SECOND):
        articles = [
            re.search(r"<article.*</article>", (folder / name).read_text(encoding="utf-8"), re.S)[0]
            for folder in (site / "en", tmp_path / "en" / "html")
        ]
        assert articles[0] == articles[1]


# ---------------------------------------------------------------------- a strict policy


@pytest.mark.browser
@pytest.mark.parametrize("language", LANGUAGES)
def test_everything_works_under_the_policy_that_is_documented(chromium, site, language):
    with served(site, policy()) as home, visit(chromium, home=home) as page:
        page.go(home)
        page.page.locator(f'a[hreflang^="{language}"]:visible').first.click()
        page.page.wait_for_url(f"**/{language}/{START}")
        page.go(f"{home}{language}/{START}")
        page.show_all()
        assert page.states(".attnbook-widget") == ["mounted", "mounted"]
        assert page.unrendered_math() == []
        button = page.page.locator(".attnbook-widget button").first
        button.click()
        assert button.inner_text() == "8 of 256"
        page.go(f"{home}{language}/{SECOND}")
        page.show_all()
        assert page.states(".attnbook-figure") == ["drawn"]
        page.go(f"{home}{language}/search.html?q=attention")
        page.page.locator("#search-results li a").first.wait_for()
        page.page.locator("#search-results .context").first.wait_for()  # which is fetched
        assert {"zh": "搜索", "en": "Search"}[language] in page.page.locator("#search-results").inner_text()
        assert page.problems == []


@pytest.mark.browser
def test_the_parallel_edition_works_under_the_policy_too(chromium, site):
    with served(site, policy()) as home, visit(chromium, home=home) as page:
        for name, kind, states in (
            (START, ".attnbook-widget", ["mounted", "mounted"]),
            (SECOND, ".attnbook-figure", ["drawn"]),
        ):
            page.go(f"{home}both/{name}")
            page.show_all()
            assert page.states(kind) == states
            assert page.unrendered_math() == []
        assert page.problems == []


@pytest.mark.browser
def test_the_policy_stops_what_it_does_not_allow(chromium, site, tmp_path):
    page_with_script = tmp_path / "index.html"
    page_with_script.write_text("<body><script>document.title = 'ran'</script><p onclick='0'>x</p></body>")
    with served(tmp_path, policy()) as home, visit(chromium, home=home) as page:
        page.go(home)
        assert page.page.title() == ""
        page.page.evaluate("() => { try { new Function('1')() } catch (e) { console.error(e) } }")
        assert len(page.problems) >= 2


# ---------------------------------------------------------------------- no storage


@pytest.mark.browser
@pytest.mark.parametrize("language", LANGUAGES)
def test_without_storage_pages_work(chromium, site, language):
    """A page in a sandbox has neither cookies nor storage: asking for them is an error."""
    with served(site, f"{policy()}; sandbox allow-scripts") as home, visit(chromium, home=home) as page:
        page.go(f"{home}{language}/{START}")
        closed = "() => { try { return document.cookie } catch (error) { return error.name } }"
        assert page.page.evaluate(closed) == "SecurityError"
        page.show_all()
        assert page.states(".attnbook-widget") == ["mounted", "mounted"]
        assert page.unrendered_math() == []
        theme = "document.documentElement.dataset.theme"
        seen = {page.page.evaluate(theme)}
        for _ in range(3):
            page.page.locator(".theme-switch-button:visible").first.click()
            seen.add(page.page.evaluate(theme))
        assert seen == {"light", "dark"}
        other = {"zh": "en", "en": "zh"}[language]
        page.page.locator(f'.attnbook-languages a[hreflang^="{other}"]').click()
        page.page.wait_for_url(f"**/{other}/{START}*")
        page.go(home)
        assert page.page.locator("h1:visible").count() >= 1
        assert page.problems == []


# ---------------------------------------------------------------------- no scripts


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 360])
@pytest.mark.parametrize("language", LANGUAGES)
def test_without_scripts_there_are_text_formulas_figures_and_links(chromium, site, language, width):
    theme = "dark" if width == 360 else "light"
    with visit(chromium, width, theme, java_script_enabled=False) as page:
        page.page.goto((site / language / START).as_uri())
        words = {
            "zh": ["这本小书试验", "一个计数器。", "显示参考解答"],
            "en": ["This little book", "A counter.", "Show the solution"],
        }
        for text in words[language]:
            assert page.page.get_by_text(text).first.is_visible(), text
        assert r"\frac{QK^\top}{\sqrt{d_k}}" in page.page.locator("div.math").first.inner_text()
        page.page.get_by_text(words[language][2]).click()
        assert page.page.locator(".attnbook-alternative:visible").count() == 2
        assert page.overflow() <= 0
        assert page.page.locator(f'.bd-sidebar-primary a[href="{SECOND[9:]}"]').is_visible()
        assert page.page.locator(".sidebar-toggle:visible").count() == 0
        page.page.locator(".article-header-buttons .dropdown-toggle").click()
        assert page.page.locator(".dropdown-menu a[download]").is_visible()
        page.page.locator("footer").last.click()  # which closes it
        page.page.locator(".prev-next-footer a:visible").last.click()
        page.page.wait_for_url((site / language / SECOND).as_uri())  # loaded, styles included
        shown = page.page.locator(".attnbook-figure p:visible").all_inner_texts()
        sentence = {
            "zh": ["图：sin；scatter：3 个点，从 (0, 1) 到 (2, 2)，最小 1，最大 3。"],
            "en": ["Figure: sin; scatter: 3 points, from (0, 1) to (2, 2), smallest 1, largest 3."],
        }
        assert shown == sentence[language]
        other = {"zh": "en", "en": "zh"}[language]
        page.page.locator(f'.attnbook-languages a[hreflang^="{other}"]').click()
        page.page.wait_for_url((site / other / SECOND).as_uri())


# ---------------------------------------------------------------------- files that are gone


@pytest.fixture
def copy(site, tmp_path):
    """A copy of the site from which files may be taken."""
    shutil.copytree(site, tmp_path / "site")
    return tmp_path / "site"


def take(copy: Path, pattern: str) -> dict[Path, bytes]:
    """Remove files; what they held."""
    taken = {path: path.read_bytes() for path in copy.glob(pattern)}
    assert taken, pattern
    for path in taken:
        path.unlink()
    return taken


@pytest.mark.browser
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_figure_that_cannot_be_drawn_says_so_and_can_be_tried_again(chromium, copy, language):
    taken = take(copy, "**/plotly.min.js")
    said = {"zh": "这幅图没能画出来。", "en": "This figure could not be drawn."}[language]
    again = {"zh": "再试一次", "en": "Try again"}[language]
    with visit(chromium) as page:
        page.open(copy / language / SECOND)
        page.show_all()
        assert page.states(".attnbook-figure") == ["failed"]
        assert page.page.locator(".attnbook-figure [role=status]").inner_text() == said
        assert page.page.locator(".attnbook-alternative p:visible").count() == 1
        page.page.get_by_role("button", name=again).click()
        page.page.get_by_text(said).wait_for()
        for path, data in taken.items():
            path.write_bytes(data)
        page.page.get_by_role("button", name=again).click()
        page.page.locator('.attnbook-figure[data-state="drawn"]').wait_for()
        assert page.page.locator(".attnbook-figure [role=status]").count() == 0
        assert page.page.locator(".attnbook-figure .main-svg:visible").count() > 0


@pytest.mark.browser
@pytest.mark.parametrize(
    "gone", ["**/mathjax/startup.js", "**/mathjax/input/tex.js", "**/attnbook.js", "**/early.js"]
)
def test_without_one_of_its_scripts_a_page_can_still_be_read(chromium, copy, gone):
    """As when a cache holds half of another version: everything that does not need the script works."""
    take(copy, gone)
    with visit(chromium) as page:
        page.page.goto((copy / "en" / START).as_uri())
        page.show_all()
        assert page.states(".attnbook-widget") == ["mounted", "mounted"]
        if "mathjax" in gone:
            assert r"\frac{QK^\top}" in page.page.locator("div.math").first.inner_text()
        # The last is what the theme says when early.js has not chosen its colours.
        known = (Path(gone).name, "ERR_FILE_NOT_FOUND", "invalid theme mode")
        assert [one for one in page.problems if not any(part in one for part in known)] == []
