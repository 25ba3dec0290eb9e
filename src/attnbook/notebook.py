"""What the notebooks need around the concepts: the reader's language, bilingual output, real source code.

The book executes every notebook once and shows its outputs in both languages. So what a cell displays is
neutral (numbers, code) or carries both languages, each in an element of class `attnbook-lang` with its
`lang`; the book's style sheet hides the one that the page is not in. In a live notebook the reader may call
`set_language("zh")` or `set_language("en")`; from then on only that language is displayed.
"""

import ast
import functools
import html
import inspect
import math
import re
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

LANGUAGES = ("zh", "en", "auto")

_language = "auto"
_followers: WeakSet[Any] = WeakSet()


def set_language(language: str) -> None:
    """Choose the language of all later outputs: "zh", "en", or "auto" (both; the book's page chooses).

    Widgets on display follow at once. Raises ValueError for any other language.
    """
    global _language
    if language not in LANGUAGES:
        raise ValueError(f"language: expected one of {', '.join(map(repr, LANGUAGES))}, found {language!r}")
    _language = language
    for follower in list(_followers):
        follower.language = language


def get_language() -> str:
    """The language that was last set; "auto" in a fresh session."""
    return _language


def follow_language(follower: Any) -> None:
    """Keep `follower.language` equal to `get_language()` for as long as the object lives.

    Only a weak reference is held. Widgets call this when they are made.
    """
    follower.language = _language
    _followers.add(follower)


@dataclass(frozen=True, repr=False)
class Bilingual:
    """A text in both languages, displayed in the reader's; `code` in backticks is set as code."""

    zh: str
    en: str

    def __post_init__(self) -> None:
        for name, value in (("zh", self.zh), ("en", self.en)):
            if not isinstance(value, str):
                raise TypeError(f"{name}: expected a str, found {value!r} ({type(value).__name__})")

    @classmethod
    def of(cls, text: "Bilingual | str | tuple[str, str]") -> "Bilingual":
        """From a (zh, en) pair, or from one str that is the same in both languages."""
        if isinstance(text, Bilingual):
            return text
        if isinstance(text, str):
            return cls(text, text)
        if isinstance(text, tuple | list) and len(text) == 2:
            return cls(*text)
        raise TypeError(f"text: expected a str or a pair (zh, en), found {text!r} ({type(text).__name__})")

    def html(self, tag: str = "span") -> str:
        """Escaped HTML: one element, or one for each language where the page is to choose."""
        if self.zh == self.en:
            return f"<{tag}>{_inline(self.zh)}</{tag}>"
        if _language != "auto":
            return f'<{tag} lang="{_language}">{_inline(getattr(self, _language))}</{tag}>'
        return " ".join(
            f'<{tag} class="attnbook-lang" lang="{lang}">{_inline(getattr(self, lang))}</{tag}>'
            for lang in ("zh", "en")
        )

    def _repr_html_(self) -> str:
        return self.html()

    def __repr__(self) -> str:
        if _language != "auto":
            return getattr(self, _language)
        return self.zh if self.zh == self.en else f"{self.zh} / {self.en}"


def _inline(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))


class Table:
    """A small table of measured numbers with headers in both languages.

    A header or a cell is a str, a pair (zh, en), or a number (also a tensor or array of one element). Floats
    are rounded to `digits` significant digits. Raises ValueError where a row does not match the headers.

        Table(headers=[("长度", "length"), ("秒", "seconds")], rows=[(128, 0.0123), (256, 0.0519)])
    """

    def __init__(self, headers: Sequence[Any], rows: Iterable[Sequence[Any]], digits: int = 3) -> None:
        if not isinstance(digits, int) or isinstance(digits, bool) or digits < 1:
            raise ValueError(f"digits: expected a positive int, found {digits!r}")
        self.headers = [Bilingual.of(header) for header in headers]
        self.rows = []
        for number, row in enumerate(map(list, rows)):
            if len(row) != len(self.headers):
                raise ValueError(f"rows[{number}]: expected {len(self.headers)} cells, found {len(row)}")
            cells = [_cell(value, digits) for value in row]
            self.rows.append(cells)

    def _repr_html_(self) -> str:
        head = "".join(f'<th scope="col">{header.html()}</th>' for header in self.headers)
        body = "".join(f"<tr>{''.join(f'<td>{cell.html()}</td>' for cell in row)}</tr>" for row in self.rows)
        return (
            '<div class="attnbook-table" style="overflow-x: auto" tabindex="0">'
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        )

    def __repr__(self) -> str:
        lines = [[repr(cell) for cell in row] for row in [self.headers, *self.rows]]
        widths = [max(map(_columns, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join(" " * (width - _columns(cell)) + cell for width, cell in zip(widths, line, strict=True))
            for line in lines
        )


def _cell(value: Any, digits: int) -> Bilingual:
    if hasattr(value, "item") and not isinstance(value, str):
        value = value.item()
    if isinstance(value, float):
        return Bilingual.of(_rounded(value, digits))
    if isinstance(value, int):
        return Bilingual.of(str(value))
    return Bilingual.of(value)


def _rounded(value: float, digits: int) -> str:
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    exponent = math.floor(math.log10(abs(value)))
    if -4 <= exponent < 6:
        return f"{value:.{max(0, digits - 1 - exponent)}f}"
    return f"{value:.{digits - 1}e}"


def _columns(text: str) -> int:
    """Columns that a terminal uses; Han characters take two."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


class Source:
    """Source code, displayed with highlighting."""

    def __init__(self, code: str) -> None:
        self.code = code

    def _repr_markdown_(self) -> str:
        longest = max((len(run) for run in re.findall(r"`{3,}", self.code)), default=2)
        fence = "`" * (longest + 1)
        return f"{fence}python\n{self.code}\n{fence}"

    def __repr__(self) -> str:
        return self.code


def show_source(obj: Any, docstring: bool = True) -> Source:
    """The real source of a function, method, property, class or module, so that text and code cannot part.

    `docstring=False` leaves the docstrings out. Raises TypeError for what has no Python source: an instance,
    a built-in, something typed into a plain interpreter.
    """
    target = obj.fget if isinstance(obj, property) else obj
    target = inspect.unwrap(target.func if isinstance(target, functools.partial) else target)
    if not (inspect.isroutine(target) or inspect.isclass(target) or inspect.ismodule(target)):
        raise TypeError(
            "obj: expected a function, method, class or module, "
            f"found {type(obj).__name__} (an instance: pass its class or a method)"
        )
    try:
        code = textwrap.dedent(inspect.getsource(target)).strip("\n")
    except (TypeError, OSError) as error:
        name = getattr(target, "__name__", repr(target))
        raise TypeError(
            f"obj: expected something written in Python, found {name}, whose source is not available"
        ) from error
    return Source(code if docstring else _without_docstrings(code))


def _without_docstrings(code: str) -> str:
    lines, dropped = code.splitlines(), set()
    for node in ast.walk(ast.parse(code)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
            continue
        if ast.get_docstring(node, clean=False) is None or len(node.body) == 1:
            continue  # nothing to leave out, or nothing else in the body
        text, following = node.body[:2]
        start, end = text.lineno - 1, text.end_lineno
        shares_a_line = lines[start].encode()[: text.col_offset].strip() or following.lineno == end
        if shares_a_line:
            continue
        while not lines[end].strip():
            end += 1
        dropped.update(range(start, end))
    return "\n".join(line for number, line in enumerate(lines) if number not in dropped)
