"""A formula keeps the punctuation after it."""

from docutils import nodes
from docutils.utils import new_document

from attnbook.book.typography import KeepPunctuation


def paragraph(*children):
    document = new_document("page")
    paragraph = nodes.paragraph("", "", *children)
    document += paragraph
    KeepPunctuation(document).apply()
    return paragraph


def formula(text="x"):
    return nodes.math("", text)


def test_punctuation_after_a_formula_stays_with_it():
    kept = paragraph(nodes.Text("从 "), formula(), nodes.Text("，到 "), formula("y"), nodes.Text("。"))
    assert [child.astext() for child in kept] == ["从 ", "x，", "到 ", "y。"]
    assert kept[1]["classes"] == kept[3]["classes"] == ["nobreak"]
    assert isinstance(kept[1][0], nodes.math)
    assert kept.astext() == "从 x，到 y。"


def test_words_after_a_formula_stay_as_they_are():
    kept = paragraph(
        formula(), nodes.Text(" is (so), and"), formula("y"), nodes.strong("", "."), formula("z")
    )
    assert [type(child).__name__ for child in kept] == ["math", "Text", "math", "strong", "math"]
