"""`glossary.yml`: the terms of the course in both languages, with aliases and a definition of one sentence each."""

from dataclasses import dataclass
from pathlib import Path

import yaml

from .errors import BookError


@dataclass(frozen=True)
class Term:
    """A concept: its name and further names in each language, and what it is."""

    en: str
    zh: str
    definition_en: str
    definition_zh: str
    aliases_en: tuple[str, ...] = ()
    aliases_zh: tuple[str, ...] = ()

    @property
    def all_en(self) -> tuple[str, ...]:
        return (self.en, *self.aliases_en)

    @property
    def all_zh(self) -> tuple[str, ...]:
        return (self.zh, *self.aliases_zh)


def load_glossary(path: Path) -> list[Term]:
    """The entries of a glossary file; `BookError` names an entry that is incomplete or given twice."""
    terms = []
    for number, entry in enumerate(yaml.safe_load(path.read_text(encoding="utf-8")), 1):
        name = f"{path.name}, entry {number}"
        expected = {"en", "zh", "definition"}
        if not isinstance(entry, dict) or not expected <= entry.keys() <= expected | {"aliases"}:
            raise BookError(
                f"{name}: expected the keys en, zh, definition and perhaps aliases, found {entry!r}"
            )
        definition, aliases = entry["definition"], entry.get("aliases", {})
        if set(definition) != {"en", "zh"} or not set(aliases) <= {"en", "zh"}:
            raise BookError(f"{name} ({entry['en']}): expected definition and aliases by language (en, zh)")
        terms.append(
            Term(
                en=entry["en"],
                zh=entry["zh"],
                definition_en=definition["en"],
                definition_zh=definition["zh"],
                aliases_en=tuple(aliases.get("en", ())),
                aliases_zh=tuple(aliases.get("zh", ())),
            )
        )
    for names in ([n.lower() for t in terms for n in t.all_en], [n for t in terms for n in t.all_zh]):
        twice = sorted({n for n in names if names.count(n) > 1})
        if twice:
            raise BookError(f"{path.name}: expected every name once, found {', '.join(twice)} more than once")
    return terms
