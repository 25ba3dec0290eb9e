"""Appendix A lists every trap of the course, and each of its links leads to a cell that shows the trap."""

import ast
import json
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from attnbook.book.bilingual import links, tables
from attnbook.book.language import LANGUAGES, select_language
from attnbook.book.markdown import parse, source_text

FOLDER = Path(__file__).parents[1] / "chapters"
APPENDIX = FOLDER / "appendix-a-corrections.ipynb"
CHAPTERS = sorted(FOLDER.glob("[0-9][0-9]-*.ipynb"))[1:]  # without the preface


@dataclass
class Section:
    """What stands between a heading and the next one."""

    level: int
    anchor: str
    text: str = ""
    code: list[dict] = field(default_factory=list)

    @property
    def shows(self) -> bool:
        return any(displays(cell) for cell in self.code)

    @property
    def own_links(self) -> list[str]:
        return [target[1:] for target in links(self.text) if target.startswith("#")]


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
def sections(path: Path, language: str) -> list[Section]:
    """The sections of one language of a notebook, each as far as the next heading of any level."""
    notebook, anchors = select_language(json.loads(path.read_text("utf-8")), language, path.name)
    found, remaining = [], iter(anchors)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            found[-1].code.append(cell)
            continue
        source = source_text(cell)
        lines = source.split("\n")
        heads = [t for t in parse(source) if t.type == "heading_open" and t.level == 0]
        starts = [token.map[0] for token in heads]
        if found:
            found[-1].text += "\n".join(lines[: starts[0] if starts else None]) + "\n"
        for token, end in zip(heads, [*starts[1:], None], strict=False):
            text = "\n".join(lines[token.map[0] : end]) + "\n"
            found.append(Section(int(token.tag[1]), next(remaining), text))
    return found


def trap_sections(path: Path, language: str = "en") -> list[Section]:
    """The section "Traps" of a chapter and those below it, one for each trap."""
    found = sections(path, language)
    start = [section.anchor for section in found].index("traps")
    end = next(i for i in range(start + 1, len(found)) if found[i].level == 2)
    return found[start:end]


def listed(language: str) -> list[tuple[str, str]]:
    """Chapter and anchor of every link of the appendix."""
    targets = [target for section in sections(APPENDIX, language) for target in links(section.text)]
    return [tuple(target.split("#")) for target in targets]


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_link_leads_to_a_cell_that_shows_it(language):
    places = {path.name: {s.anchor: s for s in sections(path, language)} for path in CHAPTERS}
    for chapter, anchor in listed(language):
        assert anchor in places[chapter], f"{chapter} has no heading #{anchor}"
        assert places[chapter][anchor].shows, (
            f"{chapter}#{anchor}: no cell shows anything before the next heading"
        )


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_row_links_once_to_the_chapter_of_its_table(language):
    for section in sections(APPENDIX, language)[1:]:
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
    wanted = set(intro.own_links)  # told earlier in the chapter
    for trap in traps:
        assert trap.level == 3
        assert trap.shows or trap.own_links, (
            f"#{trap.anchor}: expected a cell or a link to the section with it"
        )
        wanted |= {trap.anchor} if trap.shows else set(trap.own_links)
    assert wanted
    assert wanted <= in_appendix
