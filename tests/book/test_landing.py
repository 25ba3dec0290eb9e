"""The first page and the one for wrong addresses: what they load, when, and that nothing jumps."""

import contextlib
import http.server
import re
import shutil
import threading
import time
from functools import partial
from pathlib import Path

import pytest
from sitecheck import visit

from attnbook.book import landing
from attnbook.book.about import About
from attnbook.book.repository import Repository
from attnbook.book.sitemap import write_sitemap
from attnbook.training.checkpoint import load_translator

ROOT = Path(__file__).parents[2]
LANGUAGES = ("zh", "en")
TITLE = "从循环到注意力 | From Recurrence to Attention"
ABOUT = About("1.2.3", "0123456789abcdef", Repository("Some", "course"))
STATIC = Path(landing.__file__).parent / "static"
SHIFTS = """() => {
  window.shifts = [];
  new PerformanceObserver(list => {
    for (const entry of list.getEntries()) if (!entry.hadRecentInput) shifts.push(entry.value);
  }).observe({type: "layout-shift", buffered: true});
}"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The first page of the real course, with what it loads; the chapters are empty pages."""
    site = tmp_path_factory.mktemp("landing") / "course"
    shutil.copytree(STATIC, site / "_static")
    landing.write_landing(site, ROOT, TITLE, LANGUAGES, ABOUT)
    for part in landing.course_map(ROOT, LANGUAGES):
        for chapter in part.chapters:
            for language in LANGUAGES:
                page = site / language / f"{chapter.docname}.html"
                page.parent.mkdir(parents=True, exist_ok=True)
                page.write_text("<!doctype html><title>chapter</title>")
    return site


def test_the_map_has_every_chapter_with_its_title():
    parts = landing.course_map(ROOT, LANGUAGES)
    assert [part.caption.get("en", "") for part in parts][:2] == ["", "Part I: From words to memory"]
    chapters = {chapter.docname: chapter for part in parts for chapter in part.chapters}
    listed = re.findall(r"(?:root|file): (\S+)", (ROOT / "_toc.yml").read_text(encoding="utf-8"))
    assert list(chapters) == listed
    assert chapters["chapters/09-attention"].number == {"zh": "09", "en": "09"}
    assert chapters["chapters/09-attention"].title == {"zh": "注意力机制", "en": "Attention"}
    assert chapters["chapters/appendix-d-references"].number == {"zh": "附录 D", "en": "Appendix D"}
    assert chapters["chapters/00-preface"].number == {"zh": "", "en": ""}


def test_the_picture_is_what_the_model_does(site):
    translator = load_translator(landing.CHECKPOINT)
    text = (site / "index.html").read_text(encoding="utf-8")
    assert translator.translate(landing.SENTENCE).replace("'", "&#39;") in text
    drawn = landing.drawing(["甲", "乙"], ["a"], [[0.9, 0.01]], 100, 50, 10, "wide")
    assert drawn.count("<path") == 1  # the other weight is too faint
    assert 'stroke-width="4.6"' in drawn


def test_head_and_foot(site):
    text = (site / "index.html").read_text(encoding="utf-8")
    assert '<meta property="og:url" content="https://some.github.io/course/">' in text
    assert 'content="https://some.github.io/course/_static/card.png"' in text
    assert "attnbook 1.2.3" in text
    assert 'href="https://github.com/Some/course/commit/0123456789abcdef"><code>0123456</code>' in text
    size = (STATIC / "card.png").read_bytes()[16:24]
    assert [int.from_bytes(size[:4]), int.from_bytes(size[4:])] == [1200, 630]


def test_the_parallel_edition_is_offered_where_it_is_built(site, tmp_path):
    assert "both/" not in (site / "index.html").read_text(encoding="utf-8")
    (tmp_path / "both").mkdir()
    landing.write_landing(tmp_path, ROOT, TITLE, LANGUAGES, ABOUT)
    text = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert text.count('<a href="both/chapters/00-preface.html">') == 2


def test_without_a_repository_the_page_names_no_address(tmp_path):
    landing.write_landing(tmp_path, ROOT, TITLE, LANGUAGES, About("1.2.3", "", None))
    text = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "og:" not in text
    assert "github" not in text.lower()


def test_the_sitemap_names_each_page_with_its_partners(tmp_path):
    write_sitemap(tmp_path, "https://some.github.io/course/", ["chapters/a"], LANGUAGES)
    text = (tmp_path / "sitemap.xml").read_text(encoding="utf-8")
    assert text.count("<url>") == 3
    zh, en = (f"https://some.github.io/course/{language}/chapters/a.html" for language in LANGUAGES)
    assert text.count(f'hreflang="zh-CN" href="{zh}"') == text.count(f'hreflang="en" href="{en}"') == 2


@pytest.mark.browser
@pytest.mark.parametrize(("locale", "language"), [("zh-TW", "zh"), ("en-GB", "en"), ("fr-FR", "en")])
def test_the_browsers_language_and_a_switch(chromium, site, locale, language):
    other = {"zh": "en", "en": "zh"}[language]
    with visit(chromium, locale=locale) as page:
        page.open(site / "index.html")
        for shown, hidden in ((language, other), (other, language)):
            assert page.page.locator("html").get_attribute("lang") == landing.HTML_LANGUAGE[shown]
            assert page.page.locator(f'[data-text="{hidden}"]:visible').count() == 0
            assert page.page.title() == TITLE.split(" | ")[shown == "en"]
            page.page.locator(f'[data-show="{hidden}"]').click()
        assert page.problems == []


@pytest.mark.browser
@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (768, "dark"), (360, "light"), (360, "dark")])
def test_nothing_is_loaded_and_nothing_jumps_before_the_reader_asks(chromium, site, width, theme):
    requests = []
    with visit(chromium, width, theme) as page:
        page.page.on("request", lambda request: requests.append(request.url.rsplit("/", 1)[1]))
        page.page.add_init_script(f"({SHIFTS})()")
        page.open(site / "index.html")
        page.page.mouse.wheel(0, 5000)
        page.page.wait_for_timeout(300)
        page.page.mouse.wheel(0, -5000)
        assert requests == ["index.html", "early.js", "landing.js"]
        assert page.page.evaluate("shifts") == []
        assert page.overflow() <= 0
        assert page.findings() == []
        assert page.problems == []


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 768, 360])
def test_nothing_jumps_while_the_page_arrives_bit_by_bit(chromium, site, width):
    head, body = (site / "index.html").read_bytes().split(b"<main>")
    painted = threading.Event()
    says = "new PerformanceObserver(() => fetch('/painted')).observe({type: 'paint', buffered: true})"

    class Slow(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header(
                "Content-Type", "text/html; charset=utf-8" if self.path == "/" else "text/javascript"
            )
            self.end_headers()
            if self.path == "/painted":
                return painted.set()
            if self.path != "/":
                return self.wfile.write((site / self.path[1:]).read_bytes())
            self.wfile.write(head + b"<main>")
            painted.wait(60)  # from here on the reader sees it arrive
            for start in range(0, len(body), 2000):
                self.wfile.write(body[start : start + 2000])
                time.sleep(0.06)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slow) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with visit(chromium, width, home=f"http://127.0.0.1:{server.server_port}/") as page:
            page.page.add_init_script(f"({SHIFTS})(); {says}")
            page.go(page.home)
            assert page.page.evaluate("shifts") == []
            assert painted.is_set()
        server.shutdown()


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 360])
def test_the_readers_own_sentence_is_translated_in_the_page(chromium, site, width):
    sentence = "妈妈让我把窗户打开。"
    with visit(chromium, width, locale="zh-CN") as page:
        page.open(site / "index.html")
        page.page.locator("#sentence").fill(sentence)
        page.page.keyboard.press("Enter")
        place = page.page.locator(".attnbook-widget")
        below = page.page.locator(".map").bounding_box()["y"]
        place.locator('.lt-out[aria-busy="false"]').wait_for()
        assert place.locator(".lt-out").inner_text() == load_translator(landing.CHECKPOINT).translate(
            sentence, 1
        )
        assert page.page.evaluate("document.activeElement.value") == sentence
        assert page.page.locator(".map").bounding_box()["y"] == below  # the room was there from the start
        page.page.evaluate("document.documentElement.lang = 'en'")
        place.get_by_text("It writes", exact=True).wait_for()
        assert page.overflow() <= 0
        assert page.problems == []


@pytest.mark.browser
def test_a_translator_that_cannot_be_loaded_says_so_and_can_be_asked_again(chromium, site, tmp_path):
    copy = shutil.copytree(site, tmp_path / "site")
    host = copy / "_static" / "widget-host.js"
    host.rename(host.with_suffix(".away"))
    with visit(chromium, locale="en-GB") as page:
        page.open(copy / "index.html")
        page.page.get_by_role("button", name="Translate").click()
        page.page.get_by_text("The translator could not be loaded.").wait_for()
        host.with_suffix(".away").rename(host)
        page.page.get_by_role("button", name="Translate").click()
        page.page.locator('.lt-out[aria-busy="false"]').wait_for()


@pytest.mark.browser
def test_without_scripts_there_are_links(chromium, site):
    with visit(chromium, java_script_enabled=False) as page:
        page.page.goto((site / "index.html").as_uri())
        for language in LANGUAGES:
            assert page.page.locator(f'.map a[lang="{landing.HTML_LANGUAGE[language]}"]:visible').count() > 10
        assert page.page.locator(".ask:visible, .switch:visible").count() == 0
        page.page.locator('nav a[lang="en"]').click()
        assert page.page.url.startswith((site / "en" / "chapters").as_uri())


class Pages(http.server.SimpleHTTPRequestHandler):
    """Serves the folder as GitHub Pages does: 404.html for what is missing."""

    def send_error(self, code, message=None, explain=None):
        body = (Path(self.directory) / "course" / "404.html").read_bytes()
        self.send_response(code)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


@contextlib.contextmanager
def served(folder):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Pages, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()


@pytest.mark.browser
@pytest.mark.parametrize(
    ("address", "heading"),
    [
        ("zh/chapters/none.html", "这一页不在这里"),
        ("en/a/b/c/", "This page is not here"),
        ("none", "This page is not here"),
    ],
)
def test_a_wrong_address_leads_back_at_any_depth(chromium, site, address, heading):
    context = chromium.new_context(locale="en-GB", color_scheme="dark")
    with served(site.parent) as host:
        page = context.new_page()
        missing = []
        page.on("response", lambda response: missing.append(response.url) if response.status == 404 else None)
        assert page.goto(f"{host}/course/{address}").status == 404
        assert page.locator("h1").inner_text() == heading
        assert page.locator("html").get_attribute("data-theme") == "dark"
        page.locator(".map a:visible").first.click()
        page.wait_for_url("**/course/*/chapters/00-preface.html")
        assert missing == [f"{host}/course/{address}"]
    context.close()
