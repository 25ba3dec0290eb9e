"""Reading MyST Markdown: one parser for the language filter, the readers' notebooks and the checks."""

import re
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.amsmath import amsmath_plugin
from mdit_py_plugins.colon_fence import colon_fence_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.myst_blocks import myst_block_plugin
from mdit_py_plugins.myst_role import myst_role_plugin

# What `parse.myst_enable_extensions` in _config.yml enables, so that the book and these checks read alike.
MYST_EXTENSIONS = ["amsmath", "colon_fence", "dollarmath"]


@cache
def parser() -> MarkdownIt:
    """A parser for CommonMark with tables and the MyST syntax that chapters may use."""
    return (
        MarkdownIt("commonmark")
        .enable("table")
        .use(amsmath_plugin)
        .use(colon_fence_plugin)
        .use(dollarmath_plugin, double_inline=True)
        .use(myst_block_plugin)
        .use(myst_role_plugin)
    )


@cache
def parse(text: str) -> list[Token]:
    """The block tokens of `text`; inline tokens are their children. Not to be changed: the list is kept."""
    return parser().parse(text)


def headings(text: str) -> list[tuple[int, str]]:
    """Level and source text of every heading of `text`, code and directives left out."""
    tokens = parse(text)
    return [
        (int(token.tag[1]), inline.content)
        for token, inline in zip(tokens, tokens[1:], strict=False)
        if token.type == "heading_open" and token.level == 0
    ]


def slug(heading: str) -> str:
    """The anchor of an English heading: lower-case words joined by hyphens, mathematics by its letters."""
    text = re.sub(r"\{[a-z:]+\}`[^`]*`", "", heading)  # a role shows something else than its source
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "section"


def unique_slugs(texts: list[str]) -> list[str]:
    """One anchor for each heading of a page; a repeated heading gets `-2`, `-3`, ..."""
    taken: set[str] = set()
    anchors = []
    for text in texts:
        base = anchor = slug(text)
        number = 1
        while anchor in taken:
            number += 1
            anchor = f"{base}-{number}"
        taken.add(anchor)
        anchors.append(anchor)
    return anchors


def source_text(cell: dict) -> str:
    """The source of a notebook cell as one string (a notebook file may store it as a list of lines)."""
    source = cell["source"]
    return source if isinstance(source, str) else "".join(source)
