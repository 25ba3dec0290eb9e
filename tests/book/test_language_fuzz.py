"""The language filter and the checks of both languages on random notebooks and random Markdown."""

from functools import cache
from pathlib import Path
from random import Random

from fuzz import batches

from attnbook.book import language
from attnbook.book.bilingual import check_pair
from attnbook.book.errors import BookError
from attnbook.book.glossary import load_glossary
from attnbook.book.language import LANGUAGES, cell_language, select_language
from attnbook.book.markdown import headings, source_text

# Pieces that open, close or look like every kind of markup that chapters may use.
MARKUP = r"""
# ## ### ###### ` `` ``` ~~~ $ $$ \( \[ * ** _ __ > - + 1. | < > <!-- --> <details> </details> <b ]( [ ] ![ \
{ } {} {ref}`x` {cite:p}`a,b` {math}`x` :::{note} ::: :::{ ```{math} ```{ ```python (label)= $x$ `a` [a](b)
&amp; % +++ --- === |a|b| |-|-| \begin{align} \end{align} \text{if} 鼬 注意力 attention one Two trap trap-2 3
， 。 （ ） “ ？ ! ' "
"""
BLANKS = ["    ", "\t", "\r\n", "\r", "\u2028", "\x00", "\ufeff", "\u3000"]
PIECES = [*MARKUP.split(), *[" ", "\n", "\n\n"] * 6, *BLANKS]


def markdown(random: Random, longest: int = 12) -> str:
    return "".join(random.choices(PIECES, k=random.randint(0, longest)))


TEXTS = [markdown(Random(seed)) for seed in range(2000)]
TAGS = [[], [], ["zh"], ["en"], ["zh", "en"], ["hide-input"], ["en", "solution"]]


def cell(random: Random) -> dict:
    text = random.choice(TEXTS)
    return {
        "cell_type": random.choice(["markdown", "markdown", "code", "raw"]),
        "metadata": random.choice([{}, {"tags": random.choice(TAGS)}]),
        "source": text if random.random() < 0.7 else text.splitlines(keepends=True),
    } | ({"id": "a1"} if random.random() < 0.7 else {})


def pair(random: Random) -> list[dict]:
    """Mostly with the same text in both languages, so that the headings agree."""
    text = random.choice(TEXTS)
    texts = {"zh": text, "en": text if random.random() < 0.9 else random.choice(TEXTS)}
    return [
        {"cell_type": "markdown", "metadata": {"tags": [tag]}, "source": text} for tag, text in texts.items()
    ]


def notebook(random: Random) -> dict:
    cells = []
    for _ in range(random.randint(0, 5)):
        cells += [cell(random)] if random.random() < 0.15 else pair(random)
    return {"cells": cells, "metadata": {"x": 1}}


def selected(book: dict, wanted: str):
    try:
        return select_language(book, wanted, "x.ipynb")
    except BookError as error:
        return str(error)


def test_the_filter_keeps_every_cell_of_a_language_in_order_or_says_what_is_wrong(monkeypatch):
    monkeypatch.setattr(language, "headings", cache(headings))  # of the same texts again and again
    right = wrong = 0
    for batch in batches(notebook):
        for book in batch:
            zh, en = (selected(book, wanted) for wanted in LANGUAGES)
            if isinstance(zh, str):
                assert zh == en
                assert zh.startswith("x.ipynb, cell "), zh
                wrong += 1
                continue
            right += 1
            for wanted, (found, anchors) in zip(LANGUAGES, (zh, en), strict=True):
                kept = [one for one in book["cells"] if cell_language(one) in (None, wanted)]
                assert found == {"cells": kept, "metadata": {"x": 1}}
                texts = [source_text(one) for one in kept if one["cell_type"] == "markdown"]
                assert len(anchors) == sum(len(language.headings(text)) for text in texts)
            assert zh[1] == en[1]
            assert len(set(zh[1])) == len(zh[1])
    assert min(right, wrong) > 100


def test_the_checks_of_a_pair_understand_any_markdown():
    terms = load_glossary(Path(__file__).parents[2] / "glossary.yml")[:5]
    for batch in batches(lambda random: (markdown(random), markdown(random))):
        for zh, en in batch:
            assert all(isinstance(message, str) for message in check_pair(zh, en, terms))
            # A text has all of its structure in common with itself.
            assert not any("differ" in message for message in check_pair(zh, zh, ()))
