"""The page of terms: every term once in each language, in order, with the section that introduces it."""

import re
from pathlib import Path

import pytest

from attnbook.book.glossary import load_glossary
from attnbook.book.notebooks import Converter, Course
from attnbook.book.repository import Repository
from attnbook.book.terms import SAME_SOUND, emphasised, introductions, terms_page

ROOT = Path(__file__).parents[2]
DOCNAMES = frozenset(f"chapters/{path.stem}" for path in (ROOT / "chapters").glob("*.ipynb"))
PAGE = "chapters/appendix-c-glossary"


@pytest.fixture(scope="module")
def terms():
    return tuple(load_glossary(ROOT / "glossary.yml"))


@pytest.fixture(scope="module")
def places(terms):
    return {term.en: place for term, place in introductions(ROOT, DOCNAMES, terms).items()}


def entries(language):
    """Anchor and name of every entry of the page."""
    page = terms_page(ROOT, PAGE, DOCNAMES, language)
    return re.findall(r'^- <span id="([\w-]+)"></span>\*\*(.+?)\*\*', page, re.M)


def test_every_term_is_introduced_by_a_chapter(terms, places):
    assert [term.en for term in terms if term.en not in places] == []


@pytest.mark.parametrize(
    ("term", "chapter"),
    [
        ("token", 1),
        ("gradient", 2),
        ("hidden state", 3),
        ("exploding gradient", 4),
        ("forget gate", 5),
        ("gated recurrent unit", 6),  # chapter 5 names it when it leads on
        ("receptive field", 7),
        ("teacher forcing", 8),
        ("attention", 9),  # chapter 1 speaks of it already
        ("mask", 9),
        ("layer normalisation", 10),
        ("scaled dot-product attention", 11),
        ("attention head", 12),
        ("sinusoidal encoding", 13),
        ("label smoothing", 15),
        ("grouped-query attention", 17),
    ],
)
def test_where_terms_are_introduced(places, term, chapter):
    assert places[term].chapter == chapter


def test_what_is_emphasised():
    text = "## A long road\n\nA **short** story, **bold `code` too**, *not this*.\n\n- and **in lists**"
    assert emphasised(text).split("\n\n") == ["A long road", "short", "bold  too", "in lists"]


def test_both_languages_list_every_term_once_with_the_same_anchors(terms):
    zh, en = entries("zh"), entries("en")
    assert sorted(anchor for anchor, _ in zh) == sorted(anchor for anchor, _ in en)
    assert len({anchor for anchor, _ in en}) == len(terms)
    assert {name for _, name in zh} == {term.zh for term in terms}
    assert {name for _, name in en} == {term.en for term in terms}


def test_the_order_is_that_of_letters_and_of_sounds():
    en, zh = ([name for _, name in entries(language)] for language in ("en", "zh"))
    assert en == sorted(en, key=str.casefold)
    by_sound = ["饱和", "层归一化", "重置门", "词袋", "点积", "卷积", "熵", "梯度", "注意力"]
    assert [name for name in zh if name in by_sound] == by_sound


def test_characters_that_gb_2312_orders_by_strokes_have_a_substitute(terms):
    rare = {c for term in terms for c in term.zh if len(b := c.encode("gb18030")) > 1 and b[0] >= 0xD8}
    assert rare <= set("".join(SAME_SOUND))


def test_links_lead_to_sections_and_chapters_have_their_number():
    page = terms_page(ROOT, PAGE, DOCNAMES, "en")
    assert "([chapter 9](09-attention.ipynb#09-attention))" in page
    assert "（[第 9 章](09-attention.ipynb#09-attention)）" in terms_page(ROOT, PAGE, DOCNAMES, "zh")


def test_the_parallel_edition_has_both_definitions(terms):
    page = terms_page(ROOT, PAGE, DOCNAMES, "both")
    assert [anchor for anchor, _ in entries("both")] == [anchor for anchor, _ in entries("zh")]
    for term in terms:
        assert term.definition_zh in page
        assert f'<span lang="en">{term.definition_en}</span>' in page


def test_in_the_notebooks_for_readers_it_is_plain_markdown(terms):
    course = Course("en", Repository("Someone", "course"), {}, titles=dict.fromkeys(DOCNAMES, ""))
    text = Converter(course, ROOT, PAGE, PAGE, []).convert("```{terms}\n```")
    assert text.count("- <span") == len(terms)
    assert "https://someone.github.io/course/en/chapters/09-attention.html#09-attention" in text
    assert "{terms}" not in text
