"""The glossary: complete, and wrong files are named."""

from pathlib import Path

import pytest

from attnbook.book.errors import BookError
from attnbook.book.glossary import load_glossary

ROOT = Path(__file__).parents[2]


def test_the_glossary_defines_every_term_in_one_sentence():
    terms = load_glossary(ROOT / "glossary.yml")
    assert len(terms) >= 60
    for term in terms:
        assert term.definition_en.endswith("."), term
        assert term.definition_zh.endswith("。"), term
        assert term.definition_zh.count("。") == 1, term
        assert term.definition_en[0].isupper() or not term.definition_en[0].isalpha(), term


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- en: mask\n  zh: 掩码\n", "entry 1: expected en, zh, definition"),
        ("- en: mask\n  zh: 掩码\n  definition: {en: A., zh: 甲。}\n  note: x\n", "entry 1: expected en, zh"),
        (
            "- en: mask\n  zh: 掩码\n  definition: {en: A.}\n",
            "entry 1 .mask.: expected definition and names by language",
        ),
        (
            "- {en: mask, zh: 掩码, definition: {en: A., zh: 甲。}}\n"
            "- {en: Mask, zh: 遮罩, definition: {en: A., zh: 甲。}}\n",
            "expected every name once, found mask more than once",
        ),
    ],
)
def test_a_wrong_glossary(tmp_path, text, message):
    path = tmp_path / "glossary.yml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BookError, match=message):
        load_glossary(path)
