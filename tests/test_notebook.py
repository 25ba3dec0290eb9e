"""The reader's language, bilingual output, tables and source code in notebooks."""

import gc
import weakref

import pytest
import torch

from attnbook import notebook
from attnbook.notebook import Bilingual, Table, follow_language, get_language, set_language, show_source


@pytest.fixture(autouse=True)
def fresh_language():
    set_language("auto")
    yield
    set_language("auto")


class Follower:
    language = None

    def answer(self):
        """One
        docstring."""

        # The comment stays.
        return 42

    @property
    def half(self):
        return 21


def test_language_starts_as_auto_and_is_remembered():
    assert get_language() == "auto"
    set_language("zh")
    assert get_language() == "zh"


@pytest.mark.parametrize("wrong", ["fr", "", None, "ZH"])
def test_unknown_language_is_refused(wrong):
    with pytest.raises(ValueError, match="language: expected one of 'zh', 'en', 'auto', found"):
        set_language(wrong)
    assert get_language() == "auto"


def test_followers_get_the_language_now_and_later_and_may_die():
    follower = Follower()
    set_language("zh")
    follow_language(follower)
    assert follower.language == "zh"
    set_language("en")
    assert follower.language == "en"
    watch = weakref.ref(follower)
    del follower
    gc.collect()
    assert watch() is None
    set_language("zh")


def test_bilingual_carries_both_languages_until_one_is_chosen():
    text = Bilingual("位置", "position")
    assert repr(text) == "位置 / position"
    zh, en = (f'<span class="attnbook-lang" lang="{lang}">' for lang in ("zh", "en"))
    assert text._repr_html_() == f"{zh}位置</span> {en}position</span>"
    set_language("en")
    assert repr(text) == "position"
    assert text._repr_html_() == '<span lang="en">position</span>'
    set_language("zh")
    assert text.html("div") == '<div lang="zh">位置</div>'


def test_bilingual_escapes_html_and_sets_code():
    text = Bilingual("`d_k` < 3", "<script>alert(1)</script> `a<b`")
    assert "<script>" not in text._repr_html_()
    assert "<code>d_k</code> &lt; 3" in text._repr_html_()
    assert "<code>a&lt;b</code>" in text._repr_html_()


def test_bilingual_of_accepts_pairs_and_neutral_text():
    assert Bilingual.of(("一", "one")) == Bilingual("一", "one")
    assert Bilingual.of("d_k")._repr_html_() == "<span>d_k</span>"
    assert repr(Bilingual.of("d_k")) == "d_k"
    with pytest.raises(TypeError, match="text: expected a str or a pair"):
        Bilingual.of(3)
    with pytest.raises(TypeError, match="en: expected a str, found 3"):
        Bilingual("三", 3)


def test_table_rounds_escapes_and_carries_both_headers():
    table = Table(
        headers=[("长度", "length"), "ε", ("名称", "name")],
        rows=[(128, 0.0123456, "<b>"), (256, torch.tensor(1234.5678), ("鼬", "weasel"))],
    )
    page = table._repr_html_()
    for piece in ["长度", "length", "0.0123<", "1235<", "&lt;b&gt;", "鼬", "weasel", '<th scope="col">']:
        assert piece in page
    assert "<b>" not in page


def test_plain_table_lines_up_with_han_characters():
    set_language("zh")
    lines = repr(Table(headers=[("长度", "length"), "x"], rows=[(8, 0.5), (16, 0.25)])).splitlines()
    assert lines == ["长度      x", "   8  0.500", "  16  0.250"]


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0.0, "0"),
        (1.0, "1.00"),
        (-0.5, "-0.500"),
        (123456.0, "123456"),
        (2.5e-7, "2.50e-07"),
        (float("nan"), "nan"),
    ],
)
def test_rounding_to_three_significant_digits(number, shown):
    assert repr(Table(["x"], [[number]])).splitlines()[1].strip() == shown


def test_table_names_the_row_that_does_not_fit():
    with pytest.raises(ValueError, match=r"rows\[1\]: expected 2 cells, found 1"):
        Table(headers=["a", "b"], rows=[(1, 2), (3,)])
    with pytest.raises(ValueError, match="digits: expected a positive int, found 0"):
        Table(headers=["a"], rows=[], digits=0)


def test_source_is_the_real_source_as_a_python_fence():
    shown = show_source(Follower.answer)
    assert repr(shown).startswith('def answer(self):\n    """One')
    assert shown._repr_markdown_() == f"```python\n{shown.code}\n```"
    assert show_source(Follower().answer).code == shown.code
    assert "class Follower" in show_source(Follower).code
    assert "return 21" in show_source(Follower.half).code
    assert show_source(notebook).code.startswith('"""What the notebooks need')
    assert show_source(torch.no_grad()(Follower.answer)).code == shown.code


def test_source_without_docstrings():
    assert show_source(Follower.answer, docstring=False).code == (
        "def answer(self):\n    # The comment stays.\n    return 42"
    )
    assert '"""' not in show_source(notebook, docstring=False).code


def test_fence_is_longer_than_any_fence_in_the_code():
    text = notebook.Source('"""\n```python\n```\n"""')._repr_markdown_()
    assert text.startswith("````python\n")
    assert text.endswith("\n````")


@pytest.mark.parametrize("thing", [3, "text", torch.nn.Linear(1, 1), None])
def test_instances_have_no_source(thing):
    with pytest.raises(TypeError, match="obj: expected a function, method, class or module, found"):
        show_source(thing)


@pytest.mark.parametrize("builtin", [len, torch.softmax, int])
def test_built_ins_have_no_source(builtin):
    with pytest.raises(TypeError, match="obj: expected something written in Python, found"):
        show_source(builtin)
