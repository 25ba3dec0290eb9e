"""Checks that both languages of a chapter say the same and that the Chinese is well set.

`check_notebook` returns one message for everything that differs between a zh cell and its en partner: the
levels of headings, formulas, code, links, citations, references, directives, lists, tables and terminology.
Each rule is a function of its own that takes Markdown texts and returns messages.
"""

import re
from collections import Counter
from collections.abc import Iterable
from functools import cache, lru_cache

from markdown_it.token import Token

from .errors import cell_name
from .glossary import Term
from .language import language_pairs
from .markdown import headings, parse, source_text

HAN = r"\u3007\u3400-\u4dbf\u4e00-\u9fff"
FULL_WIDTH = "，。；：？！、（）《》「」『』【】“”‘’…"
MASK = "\ufffc"  # stands for code, mathematics and roles where only their place matters
EDGE = (
    "\u2060"  # stands for the end of bold or emphasis, which may need a space that plain text must not have
)
_TEXT_IN_MATH = re.compile(r"\\(?:text|mathrm|textbf|textit|operatorname)\s*\{[^{}]*\}")
_TAG = re.compile(r"<[^<>]*>")


# ---- What a cell holds ----


def walk(tokens: Iterable[Token]) -> Iterable[Token]:
    """All tokens, inline ones in their place."""
    for token in tokens:
        yield token
        yield from walk(token.children or [])


@lru_cache(maxsize=64)  # every rule asks for the same two cells
def contents(text: str) -> tuple[Token, ...]:
    """All tokens of a cell, those inside directives included."""
    found: list[Token] = []
    for token in walk(parse(text)):
        found.append(token)
        if token.type in ("fence", "colon_fence") and token.info.strip().startswith("{"):
            found += contents(_directive_body(token))
    return tuple(found)


def _directive_body(token: Token) -> str:
    if token.info.strip().split("}")[0] in ("{math", "{code-block", "{code", "{bibliography"):
        return ""
    return "\n".join(line for line in token.content.split("\n") if not re.match(r":[\w-]+:", line))


def _formula(text: str) -> str:
    """A formula without spaces, words in text and a closing full stop or comma, which differ by language."""
    return re.sub(r"\s+", "", _TEXT_IN_MATH.sub("", text)).rstrip(".,;，。；")


def display_math(text: str) -> list[str]:
    """The display formulas in order, each with its label."""
    found = []
    for token in contents(text):
        if token.type in ("math_block", "math_block_label", "amsmath"):
            found.append(
                _formula(token.content) + (f" ({token.info})" if token.type == "math_block_label" else "")
            )
        elif (
            token.type == "math_inline_double"
            or token.type in ("fence", "colon_fence")
            and token.info.strip().startswith("{math}")
        ):
            found.append(_formula(token.content))
    return found


def inline_math(text: str) -> list[str]:
    return [_formula(token.content) for token in contents(text) if token.type == "math_inline"]


def code_spans(text: str) -> list[str]:
    """Code in running text; code that names the page's language counts as the same in both."""
    spans = [token.content for token in contents(text) if token.type == "code_inline"]
    return [span.replace('"zh"', '"en"') for span in spans]


def code_blocks(text: str) -> list[str]:
    """Code blocks without their comments, which are prose."""
    return [
        "\n".join(re.sub(r"\s*#.*", "", line) for line in token.content.rstrip().split("\n"))
        for token in contents(text)
        if token.type == "code_block" or (token.type == "fence" and not token.info.strip().startswith("{"))
    ]


def links(text: str) -> list[str]:
    """Targets of links, images and HTML attributes, labels included."""
    found = []
    for token in contents(text):
        if token.type == "link_open":
            found.append(token.attrGet("href"))
        elif token.type == "image":
            found.append(token.attrGet("src"))
        elif token.type == "myst_target":
            found.append(f"({token.content})=")
        elif token.type in ("html_block", "html_inline"):
            found += re.findall(r'(?:href|src|id|class)="([^"]*)"', token.content)
    return found


def _roles(text: str, names: tuple[str, ...]) -> list[str]:
    found = []
    for token in contents(text):
        if token.type == "myst_role" and token.meta["name"] in names:
            body = re.sub(r"^.*<([^<>]+)>$", r"\1", token.content, flags=re.S)
            found += [f"{token.meta['name']} {part.strip()}" for part in body.split(",")]
    return found


def citations(text: str) -> list[str]:
    return _roles(text, ("cite", "cite:p", "cite:t"))


def references(text: str) -> list[str]:
    return _roles(text, ("ref", "eq", "numref", "doc"))


def directives(text: str) -> list[str]:
    return [
        token.info.strip()[1:].partition("}")[0]
        for token in contents(text)
        if token.type in ("fence", "colon_fence") and token.info.strip().startswith("{")
    ]


def lists(text: str) -> list[str]:
    """Every list, nested ones after the list they are in, as `bullet 3`: kind and number of items."""
    found: list[list] = []
    open_lists: list[list] = []
    for token in contents(text):
        if token.type in ("bullet_list_open", "ordered_list_open"):
            entry = [token.type.split("_")[0], 0]
            found.append(entry)
            open_lists.append(entry)
        elif token.type in ("bullet_list_close", "ordered_list_close"):
            open_lists.pop()
        elif token.type == "list_item_open":
            open_lists[-1][1] += 1
    return [f"{kind} {items}" for kind, items in found]


def tables(text: str) -> list[str]:
    """Every table as `rows x columns`."""
    found: list[list[int]] = []
    for token in contents(text):
        if token.type == "table_open":
            found.append([0, 0])
        elif token.type == "tr_open":
            found[-1][0] += 1
        elif token.type in ("th_open", "td_open"):
            found[-1][1] += 1
    return [f"{rows} x {cells // rows}" for rows, cells in found]


def prose(text: str, mask: str = MASK) -> list[str]:
    """The running text of every paragraph, heading and table cell; code, mathematics and roles masked."""
    found = []
    for token in contents(text):
        if token.type == "html_block":
            found += [line for line in _TAG.sub("", token.content).split("\n") if line.strip()]
        if token.type != "inline":
            continue
        parts = []
        for child in token.children:
            if child.type == "text":
                parts.append(child.content)
            elif child.type in ("softbreak", "hardbreak"):
                parts.append("\n")
            elif child.type in ("strong_open", "strong_close", "em_open", "em_close"):
                parts.append(EDGE)
            elif child.type == "myst_role" and child.meta["name"] in ("cite", "cite:p"):
                pass  # a citation in brackets brings its own marks and needs no space around it
            elif child.type != "html_inline" and child.nesting == 0:
                parts.append(mask)
        found.append("".join(parts))
    return found


# ---- Rules for a pair ----

ORDERED = {  # what must come in the same order
    "headings": lambda text: [str(level) for level, _ in headings(text)],
    "display formulas": display_math,
    "code blocks": code_blocks,
    "directives": directives,
    "lists": lists,
    "tables": tables,
}
UNORDERED = {  # what each language may bring in its own order
    "inline formulas": inline_math,
    "code spans": code_spans,
    "links": links,
    "citations": citations,
    "references": references,
}


def structure(zh: str, en: str) -> list[str]:
    """Differences in what both cells must have in common."""
    messages = []
    for name, extract in ORDERED.items():
        if extract(zh) != extract(en):
            messages.append(f"{name} differ: zh {extract(zh)}, en {extract(en)}")
    for name, extract in UNORDERED.items():
        only_zh, only_en = (
            Counter(extract(zh)) - Counter(extract(en)),
            Counter(extract(en)) - Counter(extract(zh)),
        )
        if only_zh or only_en:
            messages.append(
                f"{name} differ: only in zh {sorted(only_zh.elements())}, "
                f"only in en {sorted(only_en.elements())}"
            )
    return messages


@cache
def _english(name: str) -> re.Pattern:
    """Matches an English term as words, in the plural too, with a hyphen or a space between its parts."""
    words = [re.escape(word) for word in re.split(r"[-\s]+", name)]
    last = words[-1]
    plural = f"(?:{last}(?:e?s)?|{last[:-1]}ies)" if last.endswith("y") else f"{last}(?:e?s)?"
    body = r"[-\s]+".join([*words[:-1], plural])
    flags = 0 if name.isupper() else re.I  # an abbreviation in capitals is not the word in small letters
    return re.compile(rf"(?<![A-Za-z0-9]){body}(?![A-Za-z0-9])", flags)


@cache
def _paragraphs(text: str) -> str:
    return "\n".join(prose(text, mask=" "))


def terms_in(text: str, terms: Iterable[Term], language: str) -> set[Term]:
    """The terms that a cell uses.

    A shorter term inside a longer one or inside an exception of the glossary is not counted. Nor is a Chinese
    name of one character, which running text holds for many other reasons.
    """
    paragraphs = _paragraphs(text)
    names: list[tuple[str, Term | None]] = []
    for term in terms:
        own, exceptions = (term.all_en, term.except_en) if language == "en" else (term.all_zh, term.except_zh)
        names += [(name, term) for name in own if language == "en" or len(name) > 1]
        names += [(name, None) for name in exceptions]
    found = set()
    for name, term in sorted(names, key=lambda pair: -len(pair[0])):
        pattern = _english(name) if language == "en" else re.compile(re.escape(name))
        paragraphs, count = pattern.subn("\x00", paragraphs)
        if count and term:
            found.add(term)
    return found


def has_term(text: str, term: Term, language: str) -> bool:
    """Whether a cell uses the term anywhere, be it inside a longer one or by a word that may stand for it."""
    paragraphs = _paragraphs(text)
    if language == "en":
        return any(_english(name).search(paragraphs) for name in term.all_en + term.also_en)
    return any(name in paragraphs for name in term.all_zh + term.also_zh)


def terminology(zh: str, en: str, terms: Iterable[Term]) -> list[str]:
    """A term of the glossary that stands in one cell must have its counterpart in the other."""
    terms = tuple(terms)
    messages = []
    for term in sorted(terms_in(en, terms, "en"), key=lambda t: t.en):
        if not has_term(zh, term, "zh"):
            messages.append(f"en has {term.en!r}, but zh has none of {', '.join(term.all_zh)}")
    for term in sorted(terms_in(zh, terms, "zh"), key=lambda t: t.zh):
        if not has_term(en, term, "en"):
            messages.append(f"zh has {term.zh!r}, but en has none of {', '.join(term.all_en)}")
    return messages


# ---- Rules for one cell ----


def one_line_paragraphs(zh: str) -> list[str]:
    """A Chinese paragraph is one source line: a line break between Han characters shows as a gap."""
    return [
        f"a paragraph is broken into lines: {paragraph.split(chr(10))[0][-20:]!r} ..."
        for paragraph in _paragraphs_with_soft_breaks(zh)
    ]


def _paragraphs_with_soft_breaks(text: str) -> list[str]:
    return [
        token.content
        for token in contents(text)
        if token.type == "inline" and any(child.type == "softbreak" for child in token.children)
    ]


def literal_marks(text: str) -> list[str]:
    """`**`, `$` or a backtick that is shown as such: bold, a formula or code that does not close."""
    messages = []
    for token in contents(text):
        if token.type == "text":
            for mark in ("**", "__", "$", "`"):
                if mark in token.content:
                    messages.append(f"{mark!r} is not read as markup: {token.content!r}")
    return messages


_SPACING = [
    (re.compile(rf"[{HAN}{MASK}A-Za-z0-9] +[{FULL_WIDTH}]"), "a space before a full-width mark"),
    (re.compile(rf"[{FULL_WIDTH}] +[{HAN}]"), "a space after a full-width mark"),
    (
        re.compile(rf"[{HAN}]{EDGE}*[A-Za-z0-9{MASK}]"),
        "no space between Han and Latin, a digit, code or a formula",
    ),
    (
        re.compile(rf"[A-Za-z0-9{MASK}]{EDGE}*[{HAN}]"),
        "no space between Latin, a digit, code or a formula and Han",
    ),
    (re.compile(rf"[{HAN}][,;:?!.(]"), "a half-width mark after Han"),
    (re.compile(rf"[{HAN}] +[{HAN}]"), "a space between Han characters"),
]


def spacing(zh: str) -> list[str]:
    """Spaces and punctuation of a Chinese cell."""
    messages = []
    for paragraph in prose(zh):
        for pattern, problem in _SPACING:
            for match in pattern.finditer(paragraph):
                around = (
                    paragraph[max(0, match.start() - 8) : match.end() + 8]
                    .replace(MASK, "□")
                    .replace(EDGE, "")
                )
                messages.append(f"{problem}: {around!r}")
    return messages


# ---- A notebook ----


def check_pair(zh: str, en: str, terms: Iterable[Term]) -> list[str]:
    """Every problem of a pair of cells."""
    messages = structure(zh, en) + terminology(zh, en, terms)
    messages += [f"zh: {message}" for message in one_line_paragraphs(zh) + literal_marks(zh) + spacing(zh)]
    messages += [f"en: {message}" for message in literal_marks(en)]
    return messages


def check_notebook(notebook: dict, name: str, terms: Iterable[Term]) -> list[str]:
    """Every problem of a chapter, each with notebook and cell."""
    terms = tuple(terms)
    cells = notebook["cells"]
    messages = []
    for zh, en in language_pairs(cells, name):
        where = cell_name(name, zh, cells[zh])
        found = check_pair(source_text(cells[zh]), source_text(cells[en]), terms)
        messages += [f"{where}: {message}" for message in found]
    return messages
