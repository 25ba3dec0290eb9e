"""The parallel edition: each Chinese passage followed by its English partner, on one page.

`interleave` joins the two cells of a pair block by block: headings become `中文 · English`, what is the same
in both (a formula, code, a label) stands once, and between two passages that differ a mark says that they are
partners. `PairPassages` finds the marks in the document: it goes down into lists, tables and admonitions, so
that their items alternate too, and gives each passage its `lang`. Numbers, anchors and widgets stay those of
the single-language editions, because nothing that carries one comes twice.
"""

import re
from itertools import zip_longest
from typing import Any

from docutils import nodes
from markdown_it.token import Token
from sphinx import addnodes
from sphinx.transforms import SphinxTransform
from sphinx.transforms.post_transforms import SphinxPostTransform

from .errors import BookError
from .markdown import parse

JOINT = " · "  # between the two languages of a heading, a title, a label
HEADING_JOINT = "\ue000"  # the same while Markdown is read: a private character, which no text holds
PARTNERS = "attnbook: the passage above in English"  # a Markdown comment between two partners
LANG = {"zh": "zh-CN", "en": "en"}
TITLES = "attnbook_titles"  # key of a document's metadata: joined heading -> (zh, en)
_ONCE = ("myst_target", "myst_line_comment", "myst_block_break", "hr")
_MATHEMATICS = ("math_block", "math_block_label", "amsmath")
_NUMBER = re.compile(r"[\d.]+ ")
_PUNCTUATION = ".,;，。； \n"
# What holds passages, and is paired part by part if both languages have as many.
_STRUCTURE = (
    nodes.Admonition,
    nodes.Sequential,
    nodes.block_quote,
    nodes.definition,
    nodes.definition_list_item,
    nodes.entry,
    nodes.list_item,
    nodes.row,
    nodes.table,
    nodes.tbody,
    nodes.tgroup,
    nodes.thead,
)


def join(zh: str, en: str) -> str:
    """`中文 · English`, or the text itself if it is the same in both."""
    return zh if zh == en else f"{zh}{JOINT}{en}"


# ---- In Markdown ----


def interleave(zh: str, en: str, name: str) -> str:
    """The Markdown of both cells, block by block; `BookError` if the blocks differ in kind or number."""
    pairs = list(zip_longest(_blocks(zh), _blocks(en)))
    for number, (a, b) in enumerate(pairs, 1):
        found = [_kind(block) for block in (a, b)]
        if found[0] != found[1]:
            raise BookError(
                f"{name}: expected the same blocks in both languages, found {found[0]} in zh and "
                f"{found[1]} in en as block {number}"
            )
    try:
        return "\n\n".join(_join_blocks(*a, *b) for a, b in pairs)
    except ValueError as error:
        raise BookError(f"{name}: {error}") from error


def _blocks(text: str) -> list[tuple[Token, str]]:
    """Every block of a cell with its source."""
    lines = text.split("\n")
    tokens = parse(text)
    found = []
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        if token.level == 0 and token.nesting >= 0:
            source = "\n".join(lines[slice(*token.map)]).rstrip()
            found.append((token, following.content if token.type == "heading_open" else source))
    return found


def _kind(block: tuple[Token, str] | None) -> str:
    if block is None:
        return "nothing"
    token = block[0]
    kind = token.type.removesuffix("_open")
    return f"{kind} {token.tag if kind == 'heading' else token.info.strip()}".strip()


def _join_blocks(zh: Token, zh_source: str, en: Token, en_source: str) -> str:
    if zh.type == "heading_open":
        number = _NUMBER.match(zh_source)  # of a chapter: once
        en_source = en_source.removeprefix(number[0]) if number else en_source
        joined = zh_source if zh_source == en_source else f"{zh_source} {HEADING_JOINT} {en_source}"
        return f"{'#' * int(zh.tag[1])} {joined}"
    if zh_source == en_source or zh.type in _ONCE:
        return zh_source
    if zh.type == "html_block":
        return _join_html(zh_source, en_source)
    if zh.type in _MATHEMATICS:
        if zh.content.strip(_PUNCTUATION) == en.content.strip(_PUNCTUATION):
            return zh_source
        if zh.type == "math_block_label":  # the number belongs to the first of the two
            en_source = f"$$\n{en.content.strip()}\n$$"
    return f"{zh_source}\n\n% {PARTNERS}\n\n{en_source}"


def _join_html(zh: str, en: str) -> str:
    """HTML with the same tags in both languages, its texts joined."""
    parts = [re.split(r"(<[^>]*>)", text) for text in (zh, en)]
    if parts[0][1::2] != parts[1][1::2]:
        raise ValueError(f"expected the same HTML tags in both languages, found {zh!r} and {en!r}")
    joined = []
    for a, b in zip(*parts, strict=True):
        if a.strip() == b.strip():
            joined.append(a)
        else:
            joined.append(f'<span lang="{LANG["zh"]}">{a}</span>{JOINT}<span lang="en">{b}</span>')
    return "".join(joined)


# ---- In the document ----


class PairPassages(SphinxTransform):
    """Pairs what `interleave` has marked, and sets each heading in two parts."""

    default_priority = 390  # before sections get their anchors

    def apply(self, **kwargs: Any) -> None:
        if self.config.attnbook_language != "both":
            return
        for mark in list(self.document.findall(nodes.comment)):
            if mark.astext() != PARTNERS:
                continue
            parent, place = mark.parent, mark.parent.index(mark)
            parent[place - 1 : place + 2] = pair(parent[place - 1], parent[place + 1])
        titles = self.env.metadata[self.env.docname].setdefault(TITLES, {})
        for title in self.document.findall(nodes.title):
            split_title(title, titles)


def pair(zh: nodes.Node, en: nodes.Node) -> list[nodes.Node]:
    """Two partners as siblings, or one node that holds the partners of its parts."""
    if zh.astext() == en.astext() and not list(zh.findall(addnodes.pending_xref)):
        return [zh]
    if isinstance(zh, _STRUCTURE) and type(zh) is type(en) and len(zh) == len(en):
        partners = list(zip(zh.children, en.children, strict=True))
        zh.children = []
        for parts in partners:
            zh += pair(*parts)
        return [zh]
    return [passage(zh, "zh"), passage(en, "en")]


def passage(node: nodes.Element, language: str) -> nodes.Element:
    """Mark a node as a passage in one language, which its citations follow."""
    node["classes"] += [f"language-{LANG[language]}", "passage"]  # docutils makes `lang` of the former
    for reference in node.findall(addnodes.pending_xref):
        if reference.get("refdomain") == "cite":
            reference["reftype"] += f"_{language}"
    return node


def split_title(title: nodes.title, titles: dict[str, tuple[str, str]]) -> None:
    """Put each language of a joined heading into an element of its own, and note the heading in `titles`."""
    for child in title.children:
        if isinstance(child, nodes.Text) and HEADING_JOINT in child:
            break
    else:
        return
    place = title.index(child)
    before, after = (nodes.Text(part) for part in child.split(HEADING_JOINT))
    sides = {
        "zh": [*title[:place], nodes.Text(before.rstrip())],
        "en": [nodes.Text(after.lstrip()), *title[place + 1 :]],
    }
    parts = [
        nodes.inline("", "", *(n for n in side if n.astext()), classes=[f"language-{LANG[language]}"])
        for language, side in sides.items()
    ]
    title.children = []
    title += [parts[0], nodes.inline("", JOINT, classes=["joint"]), parts[1]]
    number = _NUMBER.match(parts[0].astext())
    titles[title.astext()] = (parts[0].astext(), f"{number[0] if number else ''}{parts[1].astext()}")


class NameHeadingsOnce(SphinxPostTransform):
    """A reference that takes its text from a heading shows it in the language of its passage."""

    default_priority = 20  # after references are resolved

    def run(self, **kwargs: Any) -> None:
        if self.config.attnbook_language != "both":
            return
        titles = {}
        for metadata in self.env.metadata.values():
            titles |= metadata.get(TITLES, {})
        for block in self.document.findall(nodes.Element):
            if "passage" not in block["classes"]:
                continue
            side = 1 if f"language-{LANG['en']}" in block["classes"] else 0
            for reference in block.findall(nodes.reference):
                for text in list(reference.findall(nodes.Text)):
                    if str(text) in titles:
                        text.parent.replace(text, nodes.Text(titles[str(text)][side]))
