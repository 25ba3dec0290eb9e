"""The language filter: which cells a page shows, shared anchors, and what bad sources get."""

import pytest

from attnbook.book.errors import BookError
from attnbook.book.language import current_language, language_pairs, pick, select_language
from attnbook.book.markdown import headings, slug, unique_slugs


def markdown(source, *tags, cell_id="a1"):
    return {"cell_type": "markdown", "id": cell_id, "metadata": {"tags": list(tags)}, "source": source}


def code(source="1 + 1", *tags):
    return {
        "cell_type": "code",
        "id": "c0",
        "metadata": {"tags": list(tags)},
        "source": source,
        "outputs": [],
    }


def select(cells, language):
    return select_language({"cells": cells}, language, "chapters/x.ipynb")


def test_each_language_gets_its_cells_and_what_is_neutral():
    cells = [markdown("# 一", "zh"), markdown("# One", "en"), markdown("$$x$$"), code()]
    for language, first in (("zh", "# 一"), ("en", "# One")):
        kept = select(cells, language)[0]["cells"]
        assert [cell["source"] for cell in kept] == [first, "$$x$$", "1 + 1"]


def test_both_languages_share_the_anchors_of_the_english_headings():
    cells = [
        markdown("# 位置编码\n\n## 旋转 $M(k)$", "zh"),
        markdown(["# Positional encoding\n", "\n", "## Rotation $M(k)$"], "en"),
    ]
    expected = ["positional-encoding", "rotation-m-k"]
    assert select(cells, "zh")[1] == select(cells, "en")[1] == expected


def test_repeated_headings_do_not_collide():
    assert unique_slugs(["Trap", "Trap", "Trap 2", "Trap"]) == ["trap", "trap-2", "trap-2-2", "trap-3"]


def test_a_heading_without_letters_still_has_an_anchor():
    assert slug("？！") == "section"


def test_comments_in_code_and_directives_are_no_headings():
    text = "# Title\n\n```python\n# comment\n```\n\n:::{note}\n## inside\n:::\n\n## Next"
    assert headings(text) == [(1, "Title"), (2, "Next")]


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ([markdown("x", "zh", "en")], "cell 1 .id a1.: expected the tag zh or en, found both"),
        (
            [markdown("甲", "zh"), code(), markdown("a", "en")],
            "cell 1 .id a1.: this zh cell has no en partner",
        ),
        ([code(), markdown("甲", "zh")], "cell 2 .id a1.: this zh cell has no en partner"),
        ([markdown("甲", "zh"), markdown("乙", "zh")], "cell 1 .id a1.: this zh cell has no en partner"),
        ([markdown("a", "en")], "cell 1 .id a1.: this en cell has no zh partner"),
        ([code("1", "zh")], "cell 1 .id c0.: expected the tag zh on a Markdown cell, found a code cell"),
        (
            [markdown("# 甲\n\n## 乙", "zh"), markdown("# A\n\n### B", "en")],
            r"cell 2 .id a1.: expected headings of levels \[1, 2\] as in its zh .* found \[1, 3\]",
        ),
    ],
)
def test_a_wrong_source_names_notebook_and_cell(cells, message):
    with pytest.raises(BookError, match=f"^chapters/x.ipynb, {message}"):
        language_pairs(cells, "chapters/x.ipynb")


def test_unknown_book_language(monkeypatch):
    monkeypatch.setenv("BOOK_LANG", "fr")
    with pytest.raises(BookError, match="BOOK_LANG: expected one of 'zh', 'en', 'both', found 'fr'"):
        current_language()


def test_chinese_is_the_default(monkeypatch):
    monkeypatch.delenv("BOOK_LANG", raising=False)
    assert current_language() == "zh"


def test_pick_one_side():
    assert pick("甲 | A", "zh") == "甲"
    assert pick("甲 | A", "en") == "A"
    assert pick("甲 | A", "both") == "甲 · A"
    assert pick("2026", "en") == pick("2026", "both") == "2026"
