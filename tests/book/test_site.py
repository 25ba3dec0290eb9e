"""The built site, page by page: from disk with the network cut, and from a server with a strict policy.

Needs `make book` and Chromium.
"""

import hashlib
import os
import re
from pathlib import Path

import pytest
from sitecheck import own_script_bytes, policy, saved_errors, served, visit
from weight import BUDGETS, LANGUAGE_RATIO, weigh

SITE = Path(os.environ.get("SITE", Path(__file__).parents[2] / "build" / "site")).resolve()
PAGES = sorted(path.relative_to(SITE).as_posix() for path in SITE.glob("*/chapters/*.html"))
LOOKS = [(1280, "light"), (360, "dark")]
OTHER = {"zh": "en", "en": "zh"}
EDITIONS = (*OTHER, "both")
NAMES = {"zh": "中文", "en": "English", "both": "对照"}
MORE = {"zh": 1, "en": 1, "both": 1.3}  # the parallel edition has the text twice, and what runs once
MAX_OWN_SCRIPT = 60_000

pytestmark = pytest.mark.browser


def edition_of(name):
    return name.partition("/")[0]


def elsewhere(name, edition):
    return SITE / edition / name.partition("/")[2]


def test_the_site_is_built_in_every_edition():
    assert PAGES, f"no site in {SITE}: run make book first"
    chapters = {edition: {Path(p).name for p in PAGES if edition_of(p) == edition} for edition in EDITIONS}
    assert chapters["zh"] == chapters["en"] == chapters["both"]
    for language in OTHER:
        notebooks = {path.stem for path in (SITE / language / "notebooks").glob("*.ipynb")}
        assert {Path(name).stem for name in chapters[language]} == notebooks


@pytest.mark.parametrize("name", PAGES)
def test_page_budgets(name):
    weight, more = weigh(SITE / name), MORE[edition_of(name)]
    assert (SITE / name).stat().st_size <= more * 1000 * BUDGETS["page"]
    assert weight.first_paint <= more * 1000 * BUDGETS["first paint"]
    assert weight.complete <= more * 1000 * BUDGETS["complete"]
    assert max(weight.widgets.values(), default=0) <= 1000 * BUDGETS["widget"]
    assert own_script_bytes(SITE / name) <= MAX_OWN_SCRIPT
    assert saved_errors(SITE / name) == []


def test_budgets_of_the_site():
    assert weigh(SITE / "index.html").complete <= 1000 * BUDGETS["landing"]
    files = [path for path in SITE.rglob("*") if path.is_file()]
    whole = sum(path.stat().st_size for path in files)
    assert whole <= 1000 * BUDGETS["site"]
    for language in OTHER:
        own = sum(path.stat().st_size for path in files if path.is_relative_to(SITE / language))
        assert own <= LANGUAGE_RATIO * whole


def test_nothing_large_is_in_the_site_twice():
    found: dict[str, list[str]] = {}
    for path in SITE.rglob("*"):
        if path.is_file() and path.stat().st_size > 100_000:
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            found.setdefault(digest, []).append(path.relative_to(SITE).as_posix())
    assert [names for names in found.values() if len(names) > 1] == []


@pytest.mark.parametrize("name", ["README.md", "README.zh-CN.md"])
def test_the_readme_shows_the_budgets(name):
    text = (Path(__file__).parents[2] / name).read_text(encoding="utf-8")
    shown = re.findall(r"^\|[^|]*\| (\d+) (kB|MB) \|", text, re.M)
    assert [int(number) * {"kB": 1, "MB": 1000}[unit] for number, unit in shown] == list(BUDGETS.values())


@pytest.fixture(scope="module")
def home():
    with served(SITE, policy()) as address:
        yield address


@pytest.mark.parametrize("name", PAGES)
def test_page(chromium, home, name):
    """A page in both looks: it is opened in one of them and changes to the other while it is read.

    The English edition comes from a server with a strict policy, the others come from disk; a Chinese page is
    opened on a phone at night. The names and roles of what is there are looked at once, in the second look.
    """
    edition = edition_of(name)
    looks = LOOKS[::-1] if edition == "zh" else LOOKS
    address = f"{home}{name}" if edition == "en" else (SITE / name).as_uri()
    with visit(chromium, *looks[0], home=home if edition == "en" else "file:") as page:
        page.go(address)
        language = "en" if edition == "both" else edition  # of the browser, and of the page
        assert page.page.evaluate("document.documentElement.lang") == {"zh": "zh-CN", "en": "en"}[language]
        page.show_all()
        for width, theme in looks:
            page.look(width, theme)
            assert page.page.evaluate("document.documentElement.dataset.theme") == theme
            assert page.problems == []
            assert set(page.states(".attnbook-widget")) <= {"mounted"}
            assert set(page.states(".attnbook-figure")) <= {"drawn"}
            assert page.unrendered_math() == []
            assert page.literal_marks() == []
            assert page.overflow() <= 0
            if edition in OTHER:
                assert page.page.locator(f'.attnbook-lang[lang="{OTHER[edition]}"]:visible').count() == 0
            elif theme == "light":
                # The widest edition; what sticks out makes the browser print the whole page smaller.
                with page.on_paper():
                    assert page.overflow() <= 0
            assert page.findings(looks_only=(width, theme) == looks[0]) == []


# Every page leads once round the editions; one page leads from each edition to both others.
ROUND, ALL_WAYS = ("en", "both", "zh"), ("en", "both", "zh", "both", "en", "zh")


@pytest.mark.parametrize("name", [name for name in PAGES if edition_of(name) == "zh"])
def test_the_switch_keeps_page_and_section(chromium, name):
    with visit(chromium) as page:
        page.leave_formulas()
        page.page.goto((SITE / name).as_uri())
        sections = page.page.locator("article section section[id]").evaluate_all("all => all.map(s => s.id)")
        wanted = sections[len(sections) // 2] if sections else ""
        for edition in ALL_WAYS if "/11-" in name else ROUND:
            if wanted:
                page.page.evaluate("id => document.getElementById(id).scrollIntoView()", wanted)
            page.page.locator(".attnbook-languages a", has_text=NAMES[edition]).click()
            page.page.wait_for_load_state()
            address = page.page.url
            assert address.split("#")[0] == elsewhere(name, edition).as_uri()
            assert address.partition("#")[2] == wanted
            if wanted:
                assert page.page.locator(f'[id="{wanted}"]').count() == 1
        assert page.problems == []


def test_all_editions_have_the_same_anchors():
    for name in (name for name in PAGES if edition_of(name) == "zh"):
        anchors = [
            re.findall(r'<section[^>]* id="([^"]+)"', elsewhere(name, edition).read_text(encoding="utf-8"))
            for edition in EDITIONS
        ]
        assert anchors[0] == anchors[1] == anchors[2]
        assert len(set(anchors[0])) == len(anchors[0])


@pytest.mark.parametrize("name", PAGES)
def test_without_scripts_text_and_switch_are_there(chromium, name):
    with visit(chromium, java_script_enabled=False) as page:
        page.page.goto((SITE / name).as_uri())
        assert page.page.locator("article h1").is_visible()
        edition = edition_of(name)
        others = [
            (link.is_visible(), link.get_attribute("href"))
            for link in page.page.locator(".attnbook-languages a").all()
        ]
        rest = name.partition("/")[2]
        assert others == [(True, f"../../{other}/{rest}") for other in EDITIONS if other != edition]
        for language in OTHER if edition == "both" else [edition]:
            texts = page.page.locator(f'.attnbook-alternative [lang="{language}"]').all_text_contents()
            assert all(text.strip() for text in texts)


@pytest.mark.parametrize(
    ("language", "query"),
    [
        ("zh", "位置编码"),
        ("zh", "注意力"),
        ("zh", "缩放点积注意力"),
        ("en", "rotation"),
        ("en", "attention"),
        ("both", "注意力"),
        ("both", "rotation"),
    ],
)
def test_search_finds(chromium, language, query):
    with visit(chromium) as page:
        page.open(SITE / language / "search.html", query=f"q={query}")
        page.page.locator("#search-results li a").first.wait_for(timeout=20_000)
        found = page.page.locator("#search-results li a").evaluate_all("all => all.map(a => a.pathname)")
        assert any("/chapters/" in path for path in found)
        assert page.problems == []


@pytest.mark.parametrize("name", ["index.html", *(f"{edition}/search.html" for edition in EDITIONS)])
@pytest.mark.parametrize(("width", "theme"), LOOKS)
def test_other_pages(chromium, name, width, theme):
    with visit(chromium, width, theme) as page:
        page.open(SITE / name)
        assert page.problems == []
        assert page.overflow() <= 0
        assert page.findings() == []


@pytest.mark.parametrize(
    ("locale", "language"), [("zh-CN", "zh"), ("zh-TW", "zh"), ("en-GB", "en"), ("fr-FR", "en")]
)
def test_the_landing_page_follows_the_browser(chromium, locale, language):
    with visit(chromium, locale=locale) as page:
        page.open(SITE / "index.html")
        assert page.page.locator("html").get_attribute("data-language") == language
        assert page.page.locator("nav a:visible").count() == 2
        assert page.page.locator(f'[data-text="{OTHER[language]}"]:visible').count() == 0


def test_the_landing_page_remembers(chromium):
    with visit(chromium, locale="zh-CN") as page:
        page.open(SITE / "index.html")
        page.page.locator('nav a[lang="en"]').click()
        page.page.wait_for_load_state()
        page.open(SITE / "index.html")
        assert page.page.locator("html").get_attribute("data-language") == "en"
        assert page.problems == []


def test_the_landing_page_without_scripts(chromium):
    with visit(chromium, java_script_enabled=False) as page:
        page.page.goto((SITE / "index.html").as_uri())
        assert page.page.locator("nav a:visible").count() == 2
        assert page.page.locator("[data-text]:visible").count() > 4
        page.page.locator('nav a[lang="en"]').click()
        assert page.page.url.startswith((SITE / "en").as_uri())


def test_each_edition_has_a_first_page(chromium):
    with visit(chromium) as page:
        for edition in EDITIONS:
            page.page.goto((SITE / edition / "index.html").as_uri())
            page.page.wait_for_url("**/chapters/*.html")
        assert page.problems == []
