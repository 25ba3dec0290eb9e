"""The directive `terms`: the glossary as a page, with the place that introduces each term.

What it says is Markdown made from `glossary.yml` and the chapters, so that the book and the notebooks for
readers show the same.
"""

import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

from .bilingual import contents, has_term, terms_in
from .glossary import Term, load_glossary
from .markdown import slug
from .sections import sections

# Sections that introduce nothing: the first names what a later chapter introduces.
NO_INTRODUCTION = re.compile(r"where-this-leads|references|exercise-\d.*")

# GB 2312 orders a rare character by its strokes, and one of several sounds by the commonest.
SAME_SOUND = {"熵": "伤", "重置": "虫置"}


@dataclass(frozen=True)
class Place:
    """A section of a chapter."""

    docname: str
    anchor: str

    @property
    def chapter(self) -> int:
        return int(re.match(r"\d+", Path(self.docname).name)[0])


def emphasised(text: str) -> str:
    """What headings and bold print of a piece of Markdown say, a line for each."""
    found, bold, heading = [], 0, False
    for token in contents(text):
        if token.type in ("strong_open", "heading_open"):
            found.append("")
        bold += (token.type == "strong_open") - (token.type == "strong_close")
        heading = token.type == "heading_open" or heading and token.type != "heading_close"
        if (bold or heading) and token.type == "text":
            found[-1] += token.content
    return "\n\n".join(found)


def shared_terms(zh: str, en: str, terms: tuple[Term, ...]) -> set[Term]:
    """The terms that both languages of a text name."""
    return {term for term in terms_in(zh, terms, "zh") if has_term(en, term, "en")} | {
        term for term in terms_in(en, terms, "en") if has_term(zh, term, "zh")
    }


@cache
def introductions(root: Path, docnames: frozenset[str], terms: tuple[Term, ...]) -> dict[Term, Place]:
    """Where each term is introduced.

    That is the first section that names it in bold or in its heading, in both languages, else the first that
    uses it. `docnames` are the pages of the book, of which the numbered chapters count.
    """
    named: dict[Term, Place] = {}
    used: dict[Term, Place] = {}
    for docname in sorted(d for d in docnames if re.match(r"(?!00)\d\d-", Path(d).name)):
        notebook = json.loads((root / f"{docname}.ipynb").read_text(encoding="utf-8"))
        both = zip(*(sections(notebook, language, docname) for language in ("zh", "en")), strict=True)
        for zh, en in both:
            if NO_INTRODUCTION.fullmatch(zh.anchor):
                continue
            place = Place(docname, zh.anchor)
            for term in shared_terms(emphasised(zh.text), emphasised(en.text), terms):
                named.setdefault(term, place)
            for term in shared_terms(zh.text, en.text, terms):
                used.setdefault(term, place)
    return used | named


def terms_page(root: Path, docname: str, docnames: Iterable[str], language: str) -> str:
    """The glossary in Markdown, in the order of the language's names; of the Chinese ones for `both`."""
    own = "en" if language == "en" else "zh"
    terms = load_glossary(root / "glossary.yml")
    places = introductions(root, frozenset(docnames), tuple(terms))
    folder = Path(docname).parent
    lines = []
    for term in sorted(terms, key=lambda term: sort_key(term, own)):
        lines.append(f"- {_names(term, own)}\\")
        lines.append(f"  {term.definition_zh if own == 'zh' else term.definition_en}")
        if term in places:
            place = places[term]
            target = f"{os.path.relpath(place.docname, folder)}.ipynb#{place.anchor}"
            if own == "zh":
                lines[-1] += f"（[第 {place.chapter} 章]({target})）"
            else:
                lines[-1] += f" ([chapter {place.chapter}]({target}))"
        if language == "both":
            lines[-1] += "\\"
            lines.append(f'  <span lang="en">{term.definition_en}</span>')
    return "\n".join(lines)


def _names(term: Term, language: str) -> str:
    """The term's names in both languages on one line, with the anchor that leads to it."""
    own, other = (term.all_zh, term.all_en) if language == "zh" else (term.all_en, term.all_zh)
    further = [name for name in own[1:] if name not in other]
    foreign = [name for name in other if name != own[0]]
    line = f'<span id="term-{slug(term.en)}"></span>**{own[0]}**'
    if further:
        line += f"（{'、'.join(further)}）" if language == "zh" else f" ({', '.join(further)})"
    if foreign and language == "zh":
        line += f' · <span lang="en">{", ".join(foreign)}</span>'
    elif foreign:
        line += f' · <span lang="zh-CN">{"、".join(foreign)}</span>'
    return line


def sort_key(term: Term, language: str) -> bytes:
    """English by letters; Chinese by sound, which is the order of the common characters in GB 2312."""
    if language == "en":
        return term.en.casefold().encode()
    name = term.zh.casefold()
    for written, same_sound in SAME_SOUND.items():
        name = name.replace(written, same_sound)
    return name.encode("gb18030")


class Terms(SphinxDirective):
    """`{terms}`: the whole glossary."""

    def run(self) -> list[nodes.Node]:
        root = Path(self.env.srcdir)
        self.env.note_dependency(str(root / "glossary.yml"))
        text = terms_page(root, self.env.docname, self.env.found_docs, self.config.attnbook_language)
        container = nodes.container(classes=["attnbook-terms"])
        self.state.nested_parse(StringList(text.split("\n"), source="glossary.yml"), 0, container)
        return [container]
