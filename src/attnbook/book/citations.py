"""Citations by author and year, as each language writes them, in the book and in the reader's notebooks."""

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pybtex.database
import pybtex.plugin
from pybtex.database import Entry
from pybtex.richtext import BaseText
from pybtex.style.template import Node
from sphinx.config import Config
from sphinxcontrib.bibtex.plugin import register_plugin
from sphinxcontrib.bibtex.style.referencing import BaseReferenceStyle, BracketStyle, PersonStyle
from sphinxcontrib.bibtex.style.referencing.author_year import AuthorYearReferenceStyle

# Words and marks between the parts of a citation.
MARKS = {
    "zh": {"left": "（", "right": "）", "sep": "；", "and": " 与 ", "other": " 等", "year": "，"},
    "en": {
        "left": "(",
        "right": ")",
        "sep": "; ",
        "and": " and ",
        "other": " et al.",
        "year": ", ",
        "text": " ",
    },
}


def _brackets(language: str) -> BracketStyle:
    marks = MARKS[language]
    return BracketStyle(left=marks["left"], right=marks["right"], sep=marks["sep"])


def _persons(language: str) -> PersonStyle:
    return PersonStyle(sep2=MARKS[language]["and"], other=MARKS[language]["other"])


@dataclass
class ChineseReferences(AuthorYearReferenceStyle):
    """（Vaswani 等，2017）; in the text: Vaswani 等 (2017), which a space may follow."""

    bracket_textual: BracketStyle = field(default_factory=lambda: _brackets("en"))
    bracket_parenthetical: BracketStyle = field(default_factory=lambda: _brackets("zh"))
    person: PersonStyle = field(default_factory=lambda: _persons("zh"))
    author_year_sep: str = MARKS["zh"]["year"]


@dataclass
class EnglishReferences(AuthorYearReferenceStyle):
    """(Vaswani et al., 2017); in the text: Vaswani et al. (2017)."""

    bracket_textual: BracketStyle = field(default_factory=lambda: _brackets("en"))
    bracket_parenthetical: BracketStyle = field(default_factory=lambda: _brackets("en"))
    person: PersonStyle = field(default_factory=lambda: _persons("en"))


@dataclass
class ParallelReferences(BaseReferenceStyle):
    """Each passage cites in its language: the role's name ends in it (`p_zh`); elsewhere as in Chinese."""

    zh: ChineseReferences = field(default_factory=ChineseReferences)
    en: EnglishReferences = field(default_factory=EnglishReferences)

    def role_names(self) -> list[str]:
        roles = list(self.zh.role_names())
        return roles + [f"{role}_{language}" for role in roles for language in ("zh", "en")]

    def _style(self, role_name: str) -> tuple[AuthorYearReferenceStyle, str]:
        role, _, language = role_name.partition("_")
        return (self.en if language == "en" else self.zh), role

    def outer(self, role_name: str, children: list[BaseText]) -> Node:
        style, role = self._style(role_name)
        return style.outer(role, children)

    def inner(self, role_name: str) -> "_Inner":
        return _Inner(*self._style(role_name))


@dataclass
class _Inner:
    """The template of one work in a given style: templates ask the style that is being used for its parts."""

    style: AuthorYearReferenceStyle
    role: str

    def format_data(self, data: dict[str, Any]) -> BaseText:
        return self.style.inner(self.role).format_data({**data, "style": self.style})


STYLES = {"zh": ChineseReferences, "en": EnglishReferences, "both": ParallelReferences}
for _language, _style in STYLES.items():
    register_plugin("sphinxcontrib.bibtex.style.referencing", f"attnbook_{_language}", _style)
# It looks through all that is installed each time, and is asked for every citation.
pybtex.plugin.find_plugin = cache(pybtex.plugin.find_plugin)


def configure(config: Config) -> None:
    """Cite in the page's language."""
    config.bibtex_reference_style = f"attnbook_{config.attnbook_language}"


@cache
def load_references(path: Path) -> dict[str, Entry]:
    """The entries of a BibTeX file by key."""
    return dict(pybtex.database.parse_file(str(path)).entries)


def authors(entry: Entry, language: str) -> str:
    """`Vaswani et al.`, `Hochreiter and Schmidhuber`, `Elman`."""
    names = [" ".join(person.prelast_names + person.last_names) for person in entry.persons["author"]]
    marks = MARKS[language]
    if len(names) > 2:
        return names[0] + marks["other"]
    return marks["and"].join(names)


def cite(entries: list[Entry], role: str, language: str) -> str:
    """Markdown for the roles `cite:p` (in brackets) and `cite:t` (in the text), linked where possible."""
    marks = MARKS[language]
    parts = []
    for entry in entries:
        name, year = authors(entry, language), entry.fields["year"]
        text = f"{name} ({year})" if role == "cite:t" else f"{name}{marks['year']}{year}"
        url = address(entry)
        parts.append(f"[{text}]({url})" if url else text)
    joined = marks["sep"].join(parts)
    return joined if role == "cite:t" else f"{marks['left']}{joined}{marks['right']}"


def address(entry: Entry) -> str:
    """Where to read the work: its arXiv page, its DOI, or its `url`."""
    if "eprint" in entry.fields:
        return f"https://arxiv.org/abs/{entry.fields['eprint']}"
    if "doi" in entry.fields:
        return f"https://doi.org/{entry.fields['doi']}"
    return entry.fields.get("url", "")


def reference_list(entries: dict[str, Entry]) -> str:
    """A Markdown list of works, sorted by author and year."""
    style = pybtex.plugin.find_plugin("pybtex.style.formatting", "plain")()
    backend = pybtex.plugin.find_plugin("pybtex.backends", "markdown")()
    entries = style.format_entries(list(entries.values()))
    return "\n".join(f"- {' '.join(entry.text.render(backend).split())}" for entry in entries)
