"""Appendix A lists every trap of the course, and each of its links leads to a cell that shows the trap."""

import ast
import json
import re
from functools import cache
from pathlib import Path

import pytest

from attnbook.book.bilingual import links, tables
from attnbook.book.language import LANGUAGES
from attnbook.book.markdown import source_text
from attnbook.book.sections import Section, sections

FOLDER = Path(__file__).parents[1] / "chapters"
APPENDIX = FOLDER / "appendix-a-corrections.ipynb"
CHAPTERS = sorted(FOLDER.glob("[0-9][0-9]-*.ipynb"))[1:]  # without the preface


def displays(cell: dict) -> bool:
    """Whether a cell of the text prints something or ends in a value; exercises do not count."""
    if {"exercise", "solution"} & set(cell["metadata"].get("tags", [])):
        return False
    body = ast.parse(source_text(cell)).body
    prints = any(
        isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print"
        for statement in body
        for node in ast.walk(statement)
    )
    return prints or bool(body) and isinstance(body[-1], ast.Expr) and not source_text(cell).endswith(";")


@cache
def read(path: Path, language: str) -> tuple[Section, ...]:
    return tuple(sections(json.loads(path.read_text("utf-8")), language, path.name))


def shows(section: Section) -> bool:
    return any(displays(cell) for cell in section.code)


def own_links(section: Section) -> set[str]:
    """Anchors of the same page."""
    return {target[1:] for target in links(section.text) if target.startswith("#")}


def trap_sections(path: Path) -> tuple[Section, ...]:
    """The section "Traps" of a chapter and those below it, one for each trap."""
    found = read(path, "en")
    start = [section.anchor for section in found].index("traps")
    end = next(i for i in range(start + 1, len(found)) if found[i].level == 2)
    return found[start:end]


def listed(language: str) -> list[tuple[str, str]]:
    """Chapter and anchor of every link of the appendix."""
    targets = [target for section in read(APPENDIX, language) for target in links(section.text)]
    return [tuple(target.split("#")) for target in targets]


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_link_leads_to_a_cell_that_shows_it(language):
    places = {path.name: {s.anchor: s for s in read(path, language)} for path in CHAPTERS}
    for chapter, anchor in listed(language):
        assert anchor in places[chapter], f"{chapter} has no heading #{anchor}"
        assert shows(places[chapter][anchor]), (
            f"{chapter}#{anchor}: no cell shows anything before the next heading"
        )


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_row_links_once_to_the_chapter_of_its_table(language):
    for section in read(APPENDIX, language)[1:]:
        assert tables(section.text)
        number = section.anchor[:2]
        rows = [line for line in section.text.split("\n") if line.startswith("| ")][1:]
        assert rows
        for row in rows:
            assert re.findall(r"\]\((\d\d)-[^()#]+\.ipynb#[^()]+\)", row) == [number], row


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_every_trap_of_a_chapter_is_in_the_appendix(path):
    in_appendix = {anchor for chapter, anchor in listed("en") if chapter == path.name}
    intro, *traps = trap_sections(path)
    assert not intro.code, "a trap that a cell shows has a heading ### of its own"
    wanted = own_links(intro)  # told earlier in the chapter
    for trap in traps:
        assert trap.level == 3
        assert shows(trap) or own_links(trap), (
            f"#{trap.anchor}: expected a cell or a link to the section with it"
        )
        wanted |= {trap.anchor} if shows(trap) else own_links(trap)
    assert wanted
    assert wanted <= in_appendix
