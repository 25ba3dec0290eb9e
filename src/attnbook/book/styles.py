"""The themes' style sheets without the rules that no page can use: a phone waits for them to show a word.

A rule stays if one of its selectors could match: all its classes and ids occur in a page of the site, or as a
word of a script that might set them. What stands inside `:not(…)`, `:is(…)` and the like is not asked.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import tinycss2

SHEETS = ("styles/pydata-sphinx-theme.css", "styles/sphinx-book-theme.css")  # below _static
_ICON_FONT = "Font Awesome"  # the pages' icons are drawings of attnbook.css
_GROUPS = ("media", "supports", "layer", "container")
_NAMES = re.compile(r'\s(?:class|id)="([^"]*)"')
_WORD = re.compile(r"[A-Za-z_][\w-]*")
_LARGEST_SCRIPT = 300_000  # bytes; what is larger is data, or a library with a style of its own


def names_in_use(pages: Iterable[Path], scripts: Iterable[Path]) -> set[str]:
    """Classes and ids of the pages, and every word of the scripts."""
    found: set[str] = set()
    for path in pages:
        for names in _NAMES.findall(path.read_text(encoding="utf-8")):
            found.update(names.split())
    for path in scripts:
        if path.stat().st_size <= _LARGEST_SCRIPT:
            found.update(_WORD.findall(path.read_text(encoding="utf-8")))
    return found


def used_rules(sheet: str, names: set[str]) -> str:
    """The style sheet without what cannot match where only these classes and ids exist."""
    return "".join(_used(tinycss2.parse_stylesheet(sheet, skip_comments=True, skip_whitespace=True), names))


def _used(rules: Iterable, names: set[str]) -> Iterator[str]:
    for rule in rules:
        if rule.type == "qualified-rule":
            selectors = [part for part in _selectors(rule.prelude) if _can_match(part, names)]
            if selectors:
                head = ",".join(tinycss2.serialize(part).strip() for part in selectors)
                yield f"{head}{{{tinycss2.serialize(rule.content).strip()}}}"
        elif rule.type == "at-rule" and rule.lower_at_keyword in _GROUPS and rule.content is not None:
            inner = tinycss2.parse_rule_list(rule.content, skip_comments=True, skip_whitespace=True)
            text = "".join(_used(inner, names))
            if text:
                yield f"@{rule.at_keyword} {tinycss2.serialize(rule.prelude).strip()}{{{text}}}"
        elif rule.type == "at-rule" and _ICON_FONT not in rule.serialize().replace("\\ ", " "):
            yield rule.serialize()
        elif rule.type == "error":
            raise ValueError(f"sheet: expected CSS, found {rule.message} in line {rule.source_line}")


def _selectors(prelude: list) -> list[list]:
    """The parts between top-level commas."""
    parts: list[list] = [[]]
    for token in prelude:
        if token == ",":
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _can_match(selector: list, names: set[str]) -> bool:
    """Whether every class and id that the selector asks for exists."""
    for before, token in zip([None, *selector], selector, strict=False):
        asked = token.value if token.type == "hash" or (token.type == "ident" and before == ".") else None
        if asked is not None and asked not in names:
            return False
    return True
