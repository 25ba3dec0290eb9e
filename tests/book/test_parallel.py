"""The parallel edition: what both languages share stands once, passages alternate."""

import json
from pathlib import Path

import pytest

from attnbook.book.errors import BookError
from attnbook.book.language import select_language
from attnbook.book.parallel import HEADING_JOINT, PARTNERS, interleave

ROOT = Path(__file__).parents[2]
CHAPTERS = sorted((ROOT / "chapters").glob("*.ipynb"))
MARK = f"\n\n% {PARTNERS}\n\n"


def joined(zh, en):
    return interleave(zh, en, "chapters/x.ipynb, cell 1")


def test_passages_alternate_block_by_block():
    assert joined("甲。\n\n乙。", "One.\n\nTwo.") == f"甲。{MARK}One.\n\n乙。{MARK}Two."


def test_a_heading_is_one_heading():
    assert (
        joined("(a)=\n## 公式 $x$", "(a)=\n## Formula $x$")
        == f"(a)=\n\n## 公式 $x$ {HEADING_JOINT} Formula $x$"
    )
    assert joined("## LSTM", "## LSTM") == "## LSTM"
    assert joined("# 05 长短期", "# 05 Long and short") == f"# 05 长短期 {HEADING_JOINT} Long and short"


@pytest.mark.parametrize(
    ("zh", "en"),
    [
        ("$$\nx + y。\n$$ (a)", "$$\nx + y.\n$$ (a)"),
        ("```python\nx = 1\n```", "```python\nx = 1\n```"),
        ("```{bibliography}\n:all:\n```", "```{bibliography}\n:all:\n```"),
        ("---", "---"),
    ],
)
def test_what_is_the_same_stands_once(zh, en):
    assert joined(zh, en) == zh


def test_formulas_that_differ_in_words_share_one_number():
    zh, en = "$$\nx \\text{普通}\n$$ (a)", "$$\nx \\text{plain}\n$$ (a)"
    assert joined(zh, en) == f"{zh}{MARK}$$\nx \\text{{plain}}\n$$"


def test_a_fold_is_opened_once_and_named_in_both_languages():
    zh = '<details class="hint">\n<summary>提示</summary>\n\n甲。\n\n</details>'
    en = '<details class="hint">\n<summary>Hint</summary>\n\nOne.\n\n</details>'
    summary = '<summary><span lang="zh-CN">提示</span> · <span lang="en">Hint</span></summary>'
    assert joined(zh, en) == f'<details class="hint">\n{summary}\n\n甲。{MARK}One.\n\n</details>'


@pytest.mark.parametrize(
    ("zh", "en", "message"),
    [
        ("甲。\n\n乙。", "One.", "found paragraph in zh and nothing in en as block 2"),
        ("甲。", "- One.", "found paragraph in zh and bullet_list in en as block 1"),
        ("## 甲", "### One", "found heading h2 in zh and heading h3 in en as block 1"),
        ("<div>甲</div>", "<p>One</p>", "cell 1: expected the same HTML tags"),
    ],
)
def test_cells_that_do_not_match_are_named(zh, en, message):
    with pytest.raises(BookError, match=message):
        joined(f"{zh}\n", en)


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_every_chapter_has_a_parallel_edition(path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    editions = {language: select_language(notebook, language, path.name) for language in ("zh", "en", "both")}
    assert editions["both"][1] == editions["zh"][1] == editions["en"][1]
    cells = {language: [cell["id"] for cell in edition[0]["cells"]] for language, edition in editions.items()}
    assert cells["both"] == cells["zh"]
