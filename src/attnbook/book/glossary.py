"""`glossary.yml`: the course's terms in both languages, with more names and a definition of one sentence."""

from dataclasses import dataclass
from pathlib import Path

import yaml

from .errors import BookError

OPTIONAL = {"aliases", "also", "except"}


@dataclass(frozen=True)
class Term:
    """A concept: its name and further names in each language, and what it is."""

    en: str
    zh: str
    definition_en: str
    definition_zh: str
    aliases_en: tuple[str, ...] = ()
    aliases_zh: tuple[str, ...] = ()
    also_en: tuple[str, ...] = ()  # words that may stand for the term in context ("masked" for "mask")
    also_zh: tuple[str, ...] = ()
    except_en: tuple[str, ...] = ()  # phrases in which the word is not the term ("keyboard" for "key")
    except_zh: tuple[str, ...] = ()

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
        needed = {"en", "zh", "definition"}
        if not isinstance(entry, dict) or not needed <= entry.keys() <= needed | OPTIONAL:
            raise BookError(
                f"{name}: expected en, zh, definition, perhaps aliases, also, except; found {entry!r}"
            )
        definition, optional = entry["definition"], {key: entry.get(key, {}) for key in OPTIONAL}
        if set(definition) != {"en", "zh"} or any(
            not set(names) <= {"en", "zh"} for names in optional.values()
        ):
            raise BookError(f"{name} ({entry['en']}): expected definition and names by language (en, zh)")
        terms.append(
            Term(
                en=entry["en"],
                zh=entry["zh"],
                definition_en=definition["en"],
                definition_zh=definition["zh"],
                **{
                    f"{key}_{language}": tuple(names.get(language, ()))
                    for key, names in optional.items()
                    for language in ("en", "zh")
                },
            )
        )
    for names in ([n.lower() for t in terms for n in t.all_en], [n for t in terms for n in t.all_zh]):
        twice = sorted({n for n in names if names.count(n) > 1})
        if twice:
            raise BookError(f"{path.name}: expected every name once, found {', '.join(twice)} more than once")
    return terms
