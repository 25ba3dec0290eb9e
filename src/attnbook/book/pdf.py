"""One PDF for each language, printed by Chromium from the built pages.

Every page is printed by itself, as a reader would print it; that needs little memory, and widgets and figures
are there as on the page. Then the parts are joined behind a title page and a table of contents: links between
chapters lead to their place in the PDF, pages are numbered throughout, and the outline holds every section.
What is folded in a page cannot be opened on paper: hints and solutions stand at the end of their chapter.
"""

import html
import io
import re
import tempfile
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from .. import _chromium
from .errors import BookError
from .language import HTML_LANGUAGE
from .links import read_page

WINDOW = {"width": 760, "height": 1000}  # about as wide as paper, so that little has to shrink
PATIENCE = 60_000  # milliseconds for the widgets and figures of a page
WORDS = {
    "zh": {
        "contents": "目录",
        "answers": "提示与参考解答",
        "see": "提示与参考解答在本章末尾",
        "licence": "代码 MIT 许可，文字 CC BY 4.0。",
    },
    "en": {
        "contents": "Contents",
        "answers": "Hints and solutions",
        "see": "Hint and solution: at the end of the chapter",
        "licence": "Code under the MIT licence, text under CC BY 4.0.",
    },
}

# What runs in a page before it is printed, and what is waited for.
PREPARE = (Path(__file__).parent / "templates" / "pdf-chapter.js").read_text(encoding="utf-8")
LOADED = """() => {
  const widgets = ".attnbook-widget:is([data-state=waiting], [data-state=loading])";
  const places = document.querySelectorAll(`${widgets}, .attnbook-figure:not([data-state])`);
  return ![...places].some(place => !place.closest("details:not([open])"));
}"""
TYPESET = "() => !document.querySelector('article .math') || window.MathJax?.startup?.promise"
FORMULAS = "() => window.MathJax?.startup?.promise?.then(() => null)"
FAILED = "() => document.querySelectorAll('[data-state=failed]').length"


@dataclass
class Part:
    """A printed page of the book."""

    address: str
    data: bytes
    title: str = ""
    sections: list[tuple[str, str]] = field(default_factory=list)  # anchor and text of each
    start: int = 0  # its first page in the whole, counted from 0


@dataclass
class Book:
    """What the title page says in one language, and the order of the chapters."""

    title: str
    author: str
    address: str  # of the published site; may be empty
    parts: list[tuple[str, list[str]]]  # a caption (may be empty) and the docnames of each part


def build_pdfs(site: Path, folder: Path, books: dict[str, Book], say=print) -> None:
    """Print the built `site` into `folder`, a PDF for each language of `books`: `attnbook-zh.pdf`, ...

    `BookError` without the site, Chromium, playwright or pypdf, and for a widget that does not start.
    """
    try:
        import pypdf  # noqa: F401
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError as error:
        raise BookError(f"the PDF needs the package {error.name}: pip install 'attnbook[pdf]'") from error
    if not (site / "index.html").is_file():
        raise BookError(f"{site}: expected the built site; run make book first")
    with sync_playwright() as playwright:
        try:
            browser = _chromium.launch(playwright)
        except FileNotFoundError as error:
            raise BookError(f"the PDF is printed by Chromium: {error}") from error
        for language, book in books.items():
            data = build_pdf(browser, site, language, book, say)
            folder.mkdir(parents=True, exist_ok=True)
            target = folder / f"attnbook-{language}.pdf"
            with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
                file.write(data)
            Path(file.name).chmod(0o644)
            Path(file.name).replace(target)
            say(f"Wrote {target} ({len(data) / 1e6:.1f} MB)")
        browser.close()


def build_pdf(browser: Any, site: Path, language: str, book: Book, say=print) -> bytes:
    """The PDF of one language."""
    pages = {
        docname: (site / language / f"{docname}.html").resolve()
        for _, docnames in book.parts
        for docname in docnames
    }
    places = linked_places(list(pages.values()))
    context = browser.new_context(
        viewport=WINDOW,
        color_scheme="light",
        offline=True,
        reduced_motion="reduce",
        locale=HTML_LANGUAGE[language],
    )
    try:
        chapters = {}
        for docname, path in pages.items():
            say(f"printing {language}/{docname} ...")
            chapters[docname] = print_chapter(context, path, sorted(places[path]), language)
        return assemble(context, language, book, chapters)
    finally:
        context.close()


def linked_places(pages: list[Path]) -> dict[Path, set[str]]:
    """The anchors of each page that any page of the book links to."""
    places: dict[Path, set[str]] = {page: set() for page in pages}
    for page in pages:
        for address in read_page(page).addresses:
            path, _, anchor = address.partition("#")
            target = (page.parent / unquote(path)).resolve() if path else page
            if anchor and target in places:
                places[target].add(unquote(anchor))
    return places


def print_chapter(context: Any, path: Path, places: list[str], language: str) -> Part:
    """One page of the site as PDF."""
    page = context.new_page()
    try:
        page.goto(path.as_uri(), wait_until="load")
        found = page.evaluate(PREPARE, {"places": places, "words": WORDS[language]})
        page.wait_for_function(TYPESET, timeout=PATIENCE)
        page.evaluate(FORMULAS)
        page.wait_for_function(LOADED, timeout=PATIENCE)
        failed = page.evaluate(FAILED)
        if failed:
            raise BookError(f"{path}: {failed} widgets or figures did not start")
        page.wait_for_timeout(200)  # widgets draw in the frame after they were mounted
        return Part(path.as_uri(), print_paper(page), found["title"], list(map(tuple, found["sections"])))
    finally:
        page.close()


def print_paper(page: Any) -> bytes:
    return page.pdf(prefer_css_page_size=True, print_background=True)


def print_html(context: Any, text: str) -> bytes:
    page = context.new_page()
    try:
        page.set_content(text)
        return print_paper(page)
    finally:
        page.close()


# ---- Title page, table of contents, page numbers ----

STYLE = """
body { margin: 0; color: #1d2330; font: 11pt/1.6 system-ui, "Noto Sans", "Liberation Sans", "PingFang SC",
  "Microsoft YaHei", "Noto Sans CJK SC", sans-serif; }
a { color: inherit; text-decoration: none; }
"""
FRONT_STYLE = """
@page { size: A4; margin: 22mm 24mm; }
.title { height: 240mm; display: flex; flex-direction: column; break-after: page; }
.title h1 { margin: 60mm 0 4mm; font-size: 32pt; line-height: 1.25; }
.title p { margin: 0; font-size: 12pt; color: #566073; }
.title .last { margin-top: auto; font-size: 10pt; }
h2 { font-size: 18pt; margin: 0 0 8mm; }
h3 { font-size: 11pt; margin: 6mm 0 1mm; color: #566073; break-after: avoid; }
.line { display: flex; align-items: baseline; gap: 3mm; margin: 0.8mm 0; }
.line i { flex: 1; border-bottom: 1px dotted #9aa3b0; }
"""
NUMBERS_STYLE = """
@page { size: A4; margin: 0; }
body { font-size: 8.5pt; color: #566073; }
div { position: relative; height: 297mm; overflow: hidden; break-after: page; }
div:last-child { break-after: auto; }
span { position: absolute; top: 8mm; left: 17mm; }
b { position: absolute; bottom: 8mm; left: 0; right: 0; text-align: center; font-weight: normal; }
"""


def document(language: str, style: str, body: str) -> str:
    return (
        f'<!DOCTYPE html><html lang="{HTML_LANGUAGE[language]}"><meta charset="utf-8">'
        f"<style>{STYLE}{style}</style><body>{body}</body></html>"
    )


def front(language: str, book: Book, chapters: dict[str, Part]) -> str:
    """Title page and table of contents, with the pages on which the chapters now start."""
    words = WORDS[language]
    address = f"<br>{html.escape(book.address)}" if book.address else ""
    body = [
        f'<section class="title"><h1>{html.escape(book.title)}</h1><p>{html.escape(book.author)}</p>'
        f'<p class="last">{words["licence"]}{address}</p></section><h2>{words["contents"]}</h2>'
    ]
    for caption, docnames in book.parts:
        if caption:
            body.append(f"<h3>{html.escape(caption)}</h3>")
        for docname in docnames:
            part = chapters[docname]
            body.append(
                f'<a class="line" href="{html.escape(part.address)}"><span>{html.escape(part.title)}</span>'
                f"<i></i><span>{part.start + 1}</span></a>"
            )
    return document(language, FRONT_STYLE, "".join(body))


def numbers(language: str, titles: list[str]) -> str:
    """What is laid over each page: its chapter's title and its number; nothing where the title is empty."""
    pages = [
        f"<div><span>{html.escape(title)}</span><b>{number}</b></div>" if title else "<div></div>"
        for number, title in enumerate(titles, 1)
    ]
    return document(language, NUMBERS_STYLE, "".join(pages))


# ---- One file ----


def assemble(context: Any, language: str, book: Book, chapters: dict[str, Part]) -> bytes:
    """Join the printed chapters behind the front matter."""
    from pypdf import PdfReader, PdfWriter
    from pypdf.generic import NameObject, TextStringObject

    readers = {docname: PdfReader(io.BytesIO(part.data)) for docname, part in chapters.items()}
    start = len(PdfReader(io.BytesIO(print_html(context, front(language, book, chapters)))).pages)
    titles = [""] + [WORDS[language]["contents"]] * (start - 1)
    places: dict[str, tuple[int, float | None]] = {}  # address -> page and height
    for docname, part in chapters.items():
        part.start = start
        places[unquote(part.address)] = (start, None)
        for name, place in readers[docname].named_destinations.items():
            number = start + readers[docname].get_destination_page_number(place)
            places[f"{unquote(part.address)}#{unquote(name.removeprefix('/'))}"] = (number, place.top)
        titles += [part.title] * len(readers[docname].pages)
        start += len(readers[docname].pages)
        name_inner_links(readers[docname], part.address)
    contents = PdfReader(io.BytesIO(print_html(context, front(language, book, chapters))))
    overlay = PdfReader(io.BytesIO(print_html(context, numbers(language, titles))))

    writer = PdfWriter()
    for reader in [contents, *readers.values()]:
        for page in reader.pages:
            make_searchable(page)
        writer.append(reader, import_outline=False)
    for page, number in zip(writer.pages, overlay.pages, strict=True):
        make_searchable(number)
        page.merge_page(number)
    follow_links(writer, places)
    add_outline(writer, book, chapters, places)
    writer.add_metadata({"/Title": book.title, "/Author": book.author})
    writer.page_mode = "/UseOutlines"
    writer.root_object[NameObject("/Lang")] = TextStringObject(HTML_LANGUAGE[language])
    for page in writer.pages:
        page.compress_content_streams()
    writer.compress_identical_objects(remove_unreferenced=True)
    buffer = io.BytesIO()
    writer.write(buffer)
    return buffer.getvalue()


def annotations(page: Any) -> list[Any]:
    return [annotation.get_object() for annotation in page.get("/Annots") or []]


def name_inner_links(reader: Any, address: str) -> None:
    """Turn the links within a chapter into links to its address, so that all links are followed alike."""
    from pypdf.generic import DictionaryObject, NameObject, TextStringObject

    for page in reader.pages:
        for annotation in annotations(page):
            if "/Dest" in annotation:
                uri = f"{address}#{str(annotation.pop('/Dest')).removeprefix('/')}"
                annotation[NameObject("/A")] = DictionaryObject(
                    {NameObject("/S"): NameObject("/URI"), NameObject("/URI"): TextStringObject(uri)}
                )


def follow_links(writer: Any, places: dict[str, tuple[int, float | None]]) -> None:
    """Lead links to the book's pages to their places in the PDF; `BookError` for one that has none."""
    from pypdf.generic import ArrayObject, FloatObject, NameObject, NullObject

    lost = set()
    for page in writer.pages:
        for annotation in annotations(page):
            uri = unquote(str(annotation.get("/A", {}).get("/URI", "")))
            if not uri.startswith("file:"):
                continue
            if uri not in places:
                lost.add(uri)
                continue
            number, top = places[uri]
            height = NullObject() if top is None else FloatObject(top)
            place = [
                writer.pages[number].indirect_reference,
                NameObject("/XYZ"),
                NullObject(),
                height,
                NullObject(),
            ]
            del annotation["/A"]
            annotation[NameObject("/Dest")] = ArrayObject(place)
    if lost:
        raise BookError("links that lead to no place in the PDF:\n" + "\n".join(sorted(lost)))


def add_outline(
    writer: Any, book: Book, chapters: dict[str, Part], places: dict[str, tuple[int, float | None]]
) -> None:
    """Parts, chapters and sections as the PDF's outline."""
    from pypdf.generic import Fit

    for caption, docnames in book.parts:
        part = writer.add_outline_item(caption, chapters[docnames[0]].start) if caption else None
        for docname in docnames:
            chapter = chapters[docname]
            item = writer.add_outline_item(chapter.title, chapter.start, parent=part, is_open=False)
            for anchor, text in chapter.sections:
                number, top = places[f"{unquote(chapter.address)}#{anchor}"]
                writer.add_outline_item(text, number, parent=item, fit=Fit.xyz(top=top))


# Radicals of the supplement have no normal form of their own: each with the character that looks the same.
_LOOK_ALIKE = (
    "⺟母⺠民⻁虎⻄西⻅见⻆角⻉贝⻋车⻑長⻓长⻔门⻗雨⻘青⻙韦⻚页⻛风"
    "⻜飞⻝食⻢马⻣骨⻤鬼⻥鱼⻦鸟⻧卤⻨麦⻩黄⻬齐⻮齿⻰龙⻳龟"
)
_CHARACTERS = dict(zip(_LOOK_ALIKE[::2], _LOOK_ALIKE[1::2], strict=True))
_RADICAL = re.compile(rb"<(2[EF][0-9A-F]{2})>(?=\s*$)", re.M)


def make_searchable(page: Any) -> None:
    """Let text be found and copied as it was written.

    Fonts have one glyph for 力 (U+529B) and the radical ⼒ (U+2F12), and Chromium names the radical.
    """

    def character(match: re.Match) -> bytes:
        radical = chr(int(match[1], 16))
        return b"<%04X>" % ord(_CHARACTERS.get(radical) or unicodedata.normalize("NFKC", radical))

    for font in (page["/Resources"].get("/Font") or {}).values():
        font = font.get_object()
        if "/ToUnicode" not in font:
            continue
        stream = font["/ToUnicode"].get_object()
        text = stream.get_data()
        named = _RADICAL.sub(character, text)
        if named != text:
            stream.set_data(named)
