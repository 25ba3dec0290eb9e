"""What grammar.js in the page reads sentences by: the built-in grammar and the forms of its English words."""

from functools import cache
from importlib.resources import files

from attnbook.text.grammar import grammar
from attnbook.text.inflection import inflect

__all__ = ["english_forms", "grammar_rules"]


def grammar_rules() -> dict[str, str | dict[str, str]]:
    """The two arguments of `grammarReader`: the text of grammar.txt, and `english_forms`."""
    text = files("attnbook.text").joinpath("grammar.txt").read_text(encoding="utf-8")
    return {"grammar": text, "forms": english_forms()}


@cache
def english_forms() -> dict[str, str]:
    """Every inflected form that the grammar's English needs, by "word form" or "word form agreement".

    Forms that look like the word itself are left out.
    """
    forms, seen, open_heads = {}, set(), [("S", "")]
    while open_heads:
        head, asked = open_heads.pop()
        if (head, asked) in seen:
            continue
        seen.add((head, asked))
        for rule in grammar()[head]:
            for item in rule.english.get(asked, rule.english[""]):
                form = item.form or (asked if item.is_head else "")
                if item.slot is not None:
                    open_heads.append((item.text.partition("/")[0], form))
                elif form:
                    found = {
                        agreement: inflect(item.text, form, agreement) for agreement in ("i", "sg", "pl")
                    }
                    if len(set(found.values())) == 1:
                        forms[f"{item.text} {form}"] = found["sg"]
                    else:
                        forms |= {f"{item.text} {form} {agreement}": x for agreement, x in found.items()}
    return {key: found for key, found in forms.items() if found != key.split()[0]}
