"""The sheet of exercises: all of them on one page, each with room to write, for a class on paper.

A notebook in which an untagged Markdown cell holds nothing but the directive `{exercises}` gets them there,
chapter by chapter, from the chapters themselves: number, title, statement, stub and a link to the place.
"""

import json
import re
from collections.abc import Iterable
from pathlib import Path

from sphinx.application import Sphinx

from .errors import BookError, cell_name
from .language import LANGUAGES, language_pairs, select_language
from .markdown import headings, source_text

_MARKER = re.compile(r"```\{exercises\}\s*```")
_HEADING = re.compile(r"^### (?:练习|Exercise) (\d+)[：:] *(.+)$", re.M)
_LINK = {"zh": "到第 {} 章里做这一题", "en": "Do it in chapter {}"}
_ROOM = '<div class="attnbook-room"></div>'


def read_source(app: Sphinx, docname: str, source: list[str]) -> None:
    """Event `source-read`, before the language is chosen: write the sheet out where this is one."""
    path = Path(app.env.doc2path(docname))
    if path.suffix != ".ipynb" or "{exercises}" not in source[0]:
        return
    paths = [Path(app.env.doc2path(name)) for name in app.env.found_docs]
    for chapter in paths:
        app.env.note_dependency(str(chapter))
    source[0] = json.dumps(fill(json.loads(source[0]), path, paths))


def fill(notebook: dict, path: Path, paths: Iterable[Path]) -> dict:
    """The notebook of `path` with the exercises of those notebooks among `paths` that lie beside it."""
    cells = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown" and _MARKER.fullmatch(source_text(cell).strip()):
            beside = [p for p in paths if p.parent == path.parent and p.suffix == ".ipynb"]
            cells += [part for chapter in sorted(beside) for part in _of_chapter(chapter)]
        else:
            cells.append(cell)
    return {**notebook, "cells": cells}


def _of_chapter(path: Path) -> list[dict]:
    """The exercises of a chapter as cells: pairs with what is said, shared ones with stub and room."""
    file, chapter = path.name, json.loads(path.read_text(encoding="utf-8"))
    cells = chapter["cells"]
    if not any("exercise" in cell["metadata"].get("tags", []) for cell in cells):
        return []
    partner = dict(language_pairs(cells, file))
    prose = {language: select_language(chapter, language, file)[0]["cells"] for language in LANGUAGES}
    titles = {language: _headings(prose[language]) for language in LANGUAGES}
    anchors = dict(zip(titles["en"], select_language(chapter, "en", file)[1], strict=False))
    chapter_number = file.split("-")[0].lstrip("0")
    made: list[dict] = []

    def add(text: str, *tags: str) -> None:
        identifier = f"exercises-{path.stem[:30]}-{len(made)}"
        made.append(
            {"cell_type": "markdown", "id": identifier, "metadata": {"tags": [*tags]}, "source": text}
        )

    for language in LANGUAGES:
        add(f"## {titles[language][0]}", language)
    for index, cell in enumerate(cells):
        if "exercise" not in cell["metadata"].get("tags", []):
            continue
        zh = index - 2
        found = [_HEADING.search(source_text(cells[i])) for i in (zh, partner.get(zh, zh))]
        if None in found:
            raise BookError(
                f"{cell_name(file, index, cell)}: expected a pair of cells before this exercise, "
                "with the headings “### 练习 1：…” and “### Exercise 1: …”"
            )
        for language, match in zip(LANGUAGES, found, strict=True):
            title = match[2][0].upper() + match[2][1:]
            statement = match.string[match.end() :].strip().replace("](#", f"]({file}#")
            add(f"### {chapter_number}.{match[1]} {title}\n\n{statement}", language)
        stub = re.split(r"^check\(", source_text(cell), flags=re.M)[0].rstrip()
        add(f"```python\n{stub}\n```\n\n{_ROOM}")
        anchor = anchors[found[1][0].removeprefix("### ")]
        for language in LANGUAGES:
            add(f"[{_LINK[language].format(chapter_number)}]({file}#{anchor})", language)
    return made


def _headings(cells: list[dict]) -> list[str]:
    """The text of every heading."""
    return [
        text for cell in cells if cell["cell_type"] == "markdown" for _, text in headings(source_text(cell))
    ]
