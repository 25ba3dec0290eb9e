"""A notebook cut at its headings, in one language."""

from dataclasses import dataclass, field

from .language import select_language
from .markdown import parse, source_text


@dataclass
class Section:
    """What stands between a heading, which is its first line, and the next heading of any level."""

    level: int
    anchor: str
    text: str
    code: list[dict] = field(default_factory=list)  # cells


def sections(notebook: dict, language: str, name: str) -> list[Section]:
    """The sections of a notebook; what stands before the first heading is in none. `name` is for messages."""
    selected, anchors = select_language(notebook, language, name)
    found: list[Section] = []
    remaining = iter(anchors)
    for cell in selected["cells"]:
        if cell["cell_type"] == "code":
            if found:
                found[-1].code.append(cell)
            continue
        lines = source_text(cell).split("\n")
        heads = [t for t in parse(source_text(cell)) if t.type == "heading_open" and t.level == 0]
        starts = [token.map[0] for token in heads]
        ends = [*starts[1:], len(lines)]
        if found:
            found[-1].text += "\n".join(lines[: starts[0] if starts else None]) + "\n\n"
        for token, end in zip(heads, ends, strict=False):  # a cell without headings has one end more
            text = "\n".join(lines[token.map[0] : end]) + "\n\n"
            found.append(Section(int(token.tag[1]), next(remaining), text))
    return found
