"""Each rule of the bilingual check accepts a good pair and sees a broken one."""

import re

import pytest

from attnbook.book.bilingual import check_notebook, check_pair, terms_in
from attnbook.book.glossary import Term

TERMS = [
    Term("attention", "注意力", "", ""),
    Term("multi-head attention", "多头注意力", "", ""),
    Term("mask", "掩码", "", "", also_en=("masked",), except_en=("face mask",)),
    Term("key", "键", "", "", except_en=("key idea",)),
    Term("vocabulary", "词表", "", ""),
    Term("permutation", "置换", "", "", except_zh=("位置换",)),
    Term("recurrent network", "循环网络", "", "", aliases_en=("RNN",), aliases_zh=("RNN",)),
]

GOOD = [
    ("# 标题\n\n正文。", "# Title\n\nText."),
    ("**注意力**（attention）看 $q$ 与 `k`。", "**Attention** looks at $q$ and `k`."),
    (
        "多头注意力见 {cite:p}`vaswani2017`。".replace(" {", "{"),
        "See multi-head attention {cite:p}`vaswani2017`.",
    ),
    ("- 甲\n- 乙\n\n1. 丙", "- one\n- two\n\n1. three"),
    ("$$\nx = 1 .\n$$ (eq)\n\n见 {eq}`eq`。", "$$\nx = 1 ,\n$$ (eq)\n\nSee {eq}`eq`."),
    ("$$x_\\text{键}$$", "$$x_\\text{key}$$"),
    ("**不是，而是。** 后面的话。", "**Not this but that.** What follows."),
    (":::{note}\n用 `x` 算。\n:::", ":::{note}\nCompute with `x`.\n:::"),
    ("```python\nx = 1  # 一\n```", "```python\nx = 1  # one\n```"),
    ('运行 `set_language("zh")`。', 'Run `set_language("en")`.'),
    ("| 甲 | 乙 |\n|---|---|\n| 1 | 2 |", "| a | b |\n|---|---|\n| 1 | 2 |"),
    ("[第 13 章](13-x.ipynb)", "[chapter 13](13-x.ipynb)"),
    ("被遮住的分数用掩码换掉。", "A masked score is replaced."),
    ("把 0 的位置换掉。", "Replace the zeros."),
    (
        "按键。",
        "The keys, plural; vocabularies have no part in this key idea.".replace("vocabularies", "words"),
    ),
    ("RNN 很慢。", "Recurrent networks are slow."),
]


@pytest.mark.parametrize(("zh", "en"), GOOD)
def test_good_pairs(zh, en):
    assert check_pair(zh, en, TERMS) == []


BROKEN = [
    ("# 标题", "## Title", "headings differ"),
    ("$$x = 1$$", "$$x = 2$$", "display formulas differ"),
    ("$$x$$ (a)", "$$x$$ (b)", "display formulas differ"),
    ("量 $x$ 大。", "The amount $y$ is large.", "inline formulas differ"),
    ("量 $x$ 与 $x$。", "The amount $x$.", "inline formulas differ"),
    ("用 `a`。", "Use `b`.", "code spans differ"),
    ("```\na = 1\n```", "```\na = 2\n```", "code blocks differ"),
    ("[甲](a.ipynb)", "[a](b.ipynb)", "links differ"),
    (
        '<details class="hint"><summary>提示</summary></details>',
        "<details><summary>Hint</summary></details>",
        "links",
    ),
    ("(one)=\n# 甲", "(two)=\n# A", "links differ"),
    ("甲{cite:p}`he2016`。", "A {cite:p}`ba2016`.", "citations differ"),
    ("甲{cite:p}`he2016`。", "A.", "citations differ"),
    ("见 {ref}`甲 <one>`。", "See {ref}`two`.", "references differ"),
    (":::{note}\n甲\n:::", ":::{tip}\na\n:::", "directives differ"),
    ("- 甲\n- 乙", "- a", "lists differ"),
    ("- 甲", "1. a", "lists differ"),
    ("| 甲 |\n|---|\n| 1 |", "| a |\n|---|\n| 1 |\n| 2 |", "tables differ"),
    ("一种机制。", "A kind of attention.", "en has 'attention', but zh has none of 注意力"),
    ("这是注意力。", "This is a mechanism.", "zh has '注意力', but en has none of attention"),
    ("注意力。", "Multi-head attention.", "en has 'multi-head attention'"),
    ("多头注意力。", "Attention.", "zh has '多头注意力'"),
    ("词。", "Two vocabularies.", "en has 'vocabulary'"),
    ("一次置换。", "A change.", "zh has '置换'"),
    ("网络。", "An RNN.", "en has 'recurrent network'"),
    ("第一行\n第二行。", "One line.", "zh: a paragraph is broken into lines"),
    ("- 第一行\n  第二行。", "- One line.", "zh: a paragraph is broken into lines"),
    (
        "**注意力（attention）**的权重。",
        "The weights of **attention**.",
        "zh: '\\*\\*' is not read as markup",
    ),
    ("价格是 5$。", "It costs 5$.", "en: '\\$' is not read as markup"),
    ("甲 ，乙。", "A, b.", "zh: a space before a full-width mark"),
    ("甲， 乙。", "A, b.", "zh: a space after a full-width mark"),
    ("甲 {cite:p}`he2016`。", "A {cite:p}`he2016`.", "zh: a space before a full-width mark"),
    ("用Python写。", "Written in Python.", "zh: no space between Han and Latin"),
    ("第13章。", "Chapter 13.", "zh: no space between Han and Latin"),
    ("用 **Python**写。", "Written in **Python**.", "zh: no space between Latin"),
    ("量$x$ 大。", "The amount $x$ is large.", "zh: no space between Han and Latin"),
    ("量 `x`大。", "The amount `x` is large.", "zh: no space between Latin"),
    ("甲,乙。", "A, b.", "zh: a half-width mark after Han"),
    ("甲(a)。", "A (a).", "zh: a half-width mark after Han"),
    ("甲 乙。", "A b.", "zh: a space between Han characters"),
]


@pytest.mark.parametrize(("zh", "en", "message"), BROKEN)
def test_broken_pairs(zh, en, message):
    problems = check_pair(zh, en, TERMS)
    assert len(problems) >= 1
    assert any(re.search(message, problem) for problem in problems), problems


def test_code_and_formulas_are_no_terms():
    assert terms_in("`attention` and $attention$ and <b>bold</b>", TERMS, "en") == set()


def test_a_term_is_a_word():
    assert terms_in("keyboard, inattention, unmasked, face masks", TERMS, "en") == set()
    assert {term.en for term in terms_in("Keys, KEY, rnn", TERMS, "en")} == {"key"}


def test_problems_name_notebook_and_cell():
    cells = [
        {"cell_type": "markdown", "id": "z1", "metadata": {"tags": ["zh"]}, "source": "用 `a`。"},
        {"cell_type": "markdown", "id": "e1", "metadata": {"tags": ["en"]}, "source": ["Use ", "`b`."]},
    ]
    (problem,) = check_notebook({"cells": cells}, "chapters/x.ipynb", TERMS)
    assert problem.startswith(
        "chapters/x.ipynb, cell 1 (id z1): code spans differ: only in zh ['a'], only in en ['b']"
    )
