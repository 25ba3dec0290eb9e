"""The site's first page: what the course is, a translator that runs in the page, the map of the chapters.

The picture on the page is computed while the book is built: the shipped Transformer translates a sentence,
and each line is as thick as its attention. The reader's own sentence is translated by `LiveTranslator`, the
widget of the course: the page names the same hashed scripts as a chapter does, and loads none of them, nor
the host, before the reader asks for a translation.
"""

import base64
import html
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from sphinx_external_toc.parsing import parse_toc_yaml

from attnbook.text import normalize_chinese, tokenize_chinese
from attnbook.training.checkpoint import Translator, find_checkpoint, load_translator
from attnbook.widgets import LiveTranslator

from . import pages, widgets
from .about import About
from .language import HTML_LANGUAGE, cell_language, pick
from .markdown import headings, source_text

TEMPLATES = Path(__file__).parent / "templates"
CHECKPOINT = "tatoeba-transformer"
SENTENCE = "你昨天晚上为什么没来？"
MODEL = "landing"  # the widget's identifier in this page
_NUMBER = re.compile(r"(\d+|附录 ?[A-Z]|Appendix [A-Z])\s+(.+)")
FAINT = 0.04  # a weight below it is not drawn
DESCRIPTION = {
    "zh": "一门双语交互课程：序列模型如何一步步成为 Transformer。",
    "en": "A bilingual interactive course on how sequence models became the Transformer.",
}


@dataclass
class Chapter:
    """A chapter of the map: what precedes its title and the title, by language."""

    docname: str
    number: dict[str, str]
    title: dict[str, str]


@dataclass
class Part:
    """A part of the map; the preface stands in one without a caption."""

    caption: dict[str, str]
    chapters: list[Chapter]


def course_map(root: Path, languages: tuple[str, ...]) -> list[Part]:
    """Parts and chapters as `_toc.yml` lists them, with the titles of the notebooks."""
    toc = parse_toc_yaml(root / "_toc.yml")
    parts = [Part({}, [_chapter(root, toc.root.docname, languages)])]
    for subtree in toc.root.subtrees:
        caption = {language: pick(subtree.caption or "", language) for language in languages}
        parts.append(Part(caption, [_chapter(root, name, languages) for name in subtree.items]))
    return parts


def _chapter(root: Path, name: str, languages: tuple[str, ...]) -> Chapter:
    docname = str(name).removesuffix(".ipynb")
    notebook = json.loads((root / f"{docname}.ipynb").read_text(encoding="utf-8"))
    chapter = Chapter(docname, {}, {})
    for language in languages:
        cells = (cell for cell in notebook["cells"] if cell_language(cell) in (language, None))
        texts = (source_text(cell) for cell in cells if cell["cell_type"] == "markdown")
        title = next(title for text in texts for level, title in headings(text) if level == 1)
        numbered = _NUMBER.fullmatch(title)
        chapter.number[language], chapter.title[language] = numbered.groups() if numbered else ("", title)
    return chapter


def picture(translator: Translator, sentence: str) -> dict[str, str]:
    """The translation of a sentence, and two drawings of it: for a wide screen and for a phone."""
    source = tokenize_chinese(normalize_chinese(sentence))
    target = translator.translate_tokens([source])[0]
    weights = translator.cross_attention(source, target).mean(dim=0)[:-1, :-1].tolist()  # without <eos>
    return {
        "translation": translator.translate(sentence),
        "wide": drawing(source, target, weights, 560, 300, 21, "wide"),
        "narrow": drawing(source, target, weights, 320, 230, 15, "narrow"),
    }


def drawing(
    source: list[str],
    target: list[str],
    weights: list[list[float]],
    width: int,
    height: int,
    size: int,
    name: str,
) -> str:
    """Source above, target below, and for each target token a line to every source token it looked at.

    Args:
        weights: rows are target tokens, columns are source tokens.
        width, height, size: of the drawing and its letters, in its own units.
        name: the class of the drawing.
    """
    above = _places(source, width, size)
    below = _places(target, width, size)
    top, bottom = 1.5 * size, height - 1.7 * size
    parts = [f'<svg class="{name}" viewBox="0 0 {width} {height}" aria-hidden="true" font-size="{size}">']
    for x, token in zip(above, source, strict=True):
        parts.append(f'<text class="key" x="{x:.1f}" y="{top - size * 0.5:.1f}">{html.escape(token)}</text>')
    for step, (x, token, row) in enumerate(zip(below, target, weights, strict=True)):
        parts.append(f'<g class="step" style="--step:{step}">')
        for start, weight in zip(above, row, strict=True):
            if weight >= FAINT:
                middle = f"{(top + bottom) / 2:.1f}"
                curve = f"M{start:.1f} {top:.1f}C{start:.1f} {middle} {x:.1f} {middle} {x:.1f} {bottom:.1f}"
                stroke = f'stroke-width="{0.8 + 4.2 * weight:.1f}" opacity="{0.25 + 0.75 * weight:.2f}"'
                parts.append(f'<path d="{curve}" {stroke}/>')
        parts.append(
            f'<text class="query" x="{x:.1f}" y="{bottom + size:.1f}">{html.escape(token)}</text></g>'
        )
    return "".join(parts) + "</svg>"


def _places(tokens: list[str], width: int, size: int) -> list[float]:
    """The middles of the tokens, spread over the width in proportion to their own."""
    wide = [size * sum(1.0 if ord(letter) > 0x2E80 else 0.56 for letter in token) for token in tokens]
    gap = max(0.0, (width - sum(wide)) / len(tokens))
    places, left = [], 0.0
    for own in wide:
        places.append(left + (own + gap) / 2)
        left += own + gap
    return places


def live_translator(static: Path) -> str:
    """Write what the widget needs below `static` (nothing that is there already); its state as an element."""
    widget = LiveTranslator(CHECKPOINT, SENTENCE)
    state = {key: value for key, value in widget.get_state().items() if key != "checkpoint"}
    data = base64.b64encode(widget.checkpoint).decode()
    buffer = {"path": ["checkpoint"], "encoding": "base64", "data": data}
    models = {MODEL: {"model_name": "AnyModel", "state": state, "buffers": [buffer]}}
    widget.close()
    widgets.write_assets(models, static / widgets.FOLDER)
    return widgets.placeholder(MODEL, models) + widgets.state_script(models)


def write_landing(site: Path, root: Path, title: str, languages: tuple[str, ...], about: About) -> None:
    """Write `index.html`, and `404.html`, of a site that is otherwise whole.

    Args:
        root: the folder of the sources.
        title: of the course, as `_config.yml` has it.
        languages: of the editions, the first one for readers who have chosen none and run no scripts.
    """
    translator = load_translator(CHECKPOINT)
    titles = {language: pick(title, language) for language in languages}
    shared = {
        "codes": HTML_LANGUAGE,
        "languages": languages,
        "parts": course_map(root, languages),
        "style": (TEMPLATES / "landing.css").read_text(encoding="utf-8"),
        "title": titles,
    }
    write_page(
        site / "index.html",
        about=about,
        base="",
        live=live_translator(site / "_static"),
        parallel=(site / "both").is_dir(),
        megabytes=round(find_checkpoint(CHECKPOINT).stat().st_size / 1e6),
        picture=picture(translator, SENTENCE),
        sentence=SENTENCE,
        social={
            "title": " · ".join(titles.values()),
            "description": " ".join(DESCRIPTION[language] for language in languages),
            "url": about.repository.site if about.repository else "",
            "locale": pages.LOCALE[languages[0]],
            "picture": " ".join(pages.PICTURE[language] for language in languages),
        },
        **shared,
    )
    write_page(site / "404.html", base=about.repository.base if about.repository else "/", **shared)


def write_page(path: Path, **context: Any) -> None:
    """Write the template of a page's name."""
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True)
    name = "landing.html" if path.name == "index.html" else path.name
    path.write_text(environment.get_template(name).render(context), encoding="utf-8")
