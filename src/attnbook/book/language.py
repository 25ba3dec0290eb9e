"""Two languages from one notebook: which cells a page shows, and anchors that all editions share.

A chapter is written once. A Markdown cell tagged `zh` is followed by its partner tagged `en`; code cells and
untagged Markdown cells belong to both. `select_language` keeps one language, or joins both for the parallel
edition. Headings take their anchor from the English heading in every edition, so a link or a switch of
language keeps the section.
"""

import json
import os
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

from .errors import BookError, cell_name
from .markdown import headings, source_text, unique_slugs
from .parallel import LANG, interleave, join

LANGUAGES = ("zh", "en")
EDITIONS = (*LANGUAGES, "both")  # the last one is the parallel edition
# Of the page as a whole; in the parallel edition passages say their own, and the reader's choice replaces it.
SPHINX_LANGUAGE = {"zh": "zh_CN", "en": "en", "both": "zh_CN"}
HTML_LANGUAGE = {**LANG, "both": LANG["zh"]}
ANCHORS = "attnbook_anchors"  # key of Sphinx's scratch data for the document that is being read


def current_language() -> str:
    """The edition of this build: `$BOOK_LANG`, `zh` if it is not set."""
    language = os.environ.get("BOOK_LANG", "zh")
    if language not in EDITIONS:
        raise BookError(f"BOOK_LANG: expected one of 'zh', 'en', 'both', found {language!r}")
    return language


def pick(text: str, language: str) -> str:
    """What an edition shows of `中文 | English`; a text without ` | ` is for all of them."""
    zh, separator, en = (part.strip() for part in text.partition(" | "))
    if not separator:
        return text
    return {"zh": zh, "en": en, "both": join(zh, en)}[language]


def cell_language(cell: dict) -> str | None:
    """`zh` or `en` for a tagged Markdown cell, None for a cell that belongs to both languages."""
    if cell["cell_type"] != "markdown":
        return None
    tags = [tag for tag in cell.get("metadata", {}).get("tags", []) if tag in LANGUAGES]
    return tags[0] if tags else None


def language_pairs(cells: list[dict], notebook: str) -> list[tuple[int, int]]:
    """Indices (zh, en) of every pair of Markdown cells; raises `BookError` for a cell without its partner."""
    pairs = []
    waiting: int | None = None  # a zh cell whose partner has not come yet

    def missing(index: int) -> BookError:
        name = cell_name(notebook, index, cells[index])
        return BookError(f"{name}: this zh cell has no en partner; expected a Markdown cell tagged en next")

    for index, cell in enumerate(cells):
        name = cell_name(notebook, index, cell)
        tags = set(cell.get("metadata", {}).get("tags", [])) & set(LANGUAGES)
        if len(tags) > 1:
            raise BookError(f"{name}: expected the tag zh or en, found both")
        if tags and cell["cell_type"] != "markdown":
            raise BookError(
                f"{name}: expected the tag {tags.pop()} on a Markdown cell, found a {cell['cell_type']} cell"
            )
        language = cell_language(cell)
        if waiting is not None and language != "en":
            raise missing(waiting)
        if language == "en" and waiting is None:
            raise BookError(
                f"{name}: this en cell has no zh partner; expected a Markdown cell tagged zh before it"
            )
        if language == "en":
            pairs.append((waiting, index))
        waiting = index if language == "zh" else None
    if waiting is not None:
        raise missing(waiting)
    for zh, en in pairs:
        levels = [[level for level, _ in headings(source_text(cells[i]))] for i in (zh, en)]
        if levels[0] != levels[1]:
            raise BookError(
                f"{cell_name(notebook, en, cells[en])}: expected headings of levels {levels[0]} as in its zh "
                f"partner (cell {zh + 1}), found {levels[1]}"
            )
    return pairs


def select_language(notebook: dict, language: str, name: str) -> tuple[dict, list[str]]:
    """The cells of one edition, and the anchors of all headings of the page (the same in all editions).

    `name` is the notebook's name in error messages.
    """
    cells = notebook["cells"]
    partner = dict(language_pairs(cells, name))
    partner |= {en: zh for zh, en in partner.items()}
    english: list[str] = []
    kept = []
    for index, cell in enumerate(cells):
        own = cell_language(cell)
        if own == "zh" and language == "both":
            texts = (source_text(cell), source_text(cells[partner[index]]))
            kept.append({**cell, "source": interleave(*texts, cell_name(name, index, cell))})
        elif own in (None, language):
            kept.append(cell)
        else:
            continue
        if cell["cell_type"] == "markdown":
            source = cells[partner[index]] if own == "zh" else cell
            english += [text for _, text in headings(source_text(source))]
    return {**notebook, "cells": kept}, unique_slugs(english)


def read_source(app: Sphinx, docname: str, source: list[str]) -> None:
    """Event `source-read`: hand Sphinx the cells of this build's edition."""
    path = Path(app.env.doc2path(docname))
    if path.suffix != ".ipynb":
        return
    name = path.relative_to(app.srcdir).as_posix()
    try:
        notebook = json.loads(source[0])
    except json.JSONDecodeError as error:
        raise BookError(f"{name}: expected a notebook, found invalid JSON ({error})") from error
    selected, anchors = select_language(notebook, app.config.attnbook_language, name)
    app.env.temp_data[ANCHORS] = anchors
    source[0] = json.dumps(selected)


class AnchorHeadings(SphinxTransform):
    """Gives each section the anchor of its English heading; explicit labels stay as further anchors."""

    default_priority = 400  # after labels have moved onto sections, before links to headings are resolved

    def apply(self, **kwargs: object) -> None:
        anchors = self.env.temp_data.get(ANCHORS)
        if anchors is None:
            return
        document = self.document
        sections = list(document.findall(nodes.section))
        if len(sections) != len(anchors):
            raise BookError(
                f"{self.env.docname}: expected {len(anchors)} sections, found {len(sections)}; "
                "a heading inside a directive has no anchor"
            )
        implicit = {}
        for section in sections:  # first free all the ids that docutils made up ...
            names = {document.nameids.get(name) for name in section["names"] if document.nametypes.get(name)}
            made_up = [i for i in section["ids"] if i not in names]
            implicit[section] = set(made_up)
            section["ids"] = [i for i in section["ids"] if i in names]
            for identifier in made_up:
                document.ids.pop(identifier, None)
        renamed = {}
        for section, base in zip(sections, anchors, strict=True):  # ... then hand out ours
            anchor, number = base, 1
            while document.ids.get(anchor, section) is not section:
                number += 1
                anchor = f"{base}-{number}"
            section["ids"] = [anchor, *(i for i in section["ids"] if i != anchor)]
            document.ids[anchor] = section
            renamed |= dict.fromkeys(implicit[section], anchor)
        for name, identifier in document.nameids.items():
            document.nameids[name] = renamed.get(identifier, identifier)
        slugs = document.myst_slugs  # what `[text](#anchor)` and `[text](chapter.ipynb#anchor)` look up
        slugs.clear()
        for section in sections:
            slugs[section["ids"][0]] = (section.line, section["ids"][0], section[0].astext())
        self.env.metadata[self.env.docname]["myst_slugs"] = slugs
