"""How answers are judged, whatever the exercise."""

import math

import numpy as np
import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from attnbook import exercises
from attnbook.exercises import check, verdict
from attnbook.exercises.core import Exercise, Slip, Symptom, judge
from attnbook.notebook import set_language

ALL = [(name, exercises._find(name)) for name in exercises.names()]
SLIPS = [pytest.param(name, slip, id=f"{name}: {slip.name}") for name, e in ALL for slip in e.slips]


@pytest.fixture(autouse=True)
def fresh_language():
    set_language("auto")
    yield
    set_language("auto")


@pytest.fixture
def shell():
    """An IPython session, as in a notebook."""
    yield InteractiveShell.instance()
    InteractiveShell.clear_instance()


def double(x):
    """The truth of the made-up exercise."""
    return 2 * x


DOUBLE = Exercise(
    name="double",
    truth=double,
    cases=[(torch.tensor([1.0, -3.0]),), (torch.tensor([5.0], dtype=torch.float64),)],
    shown=("翻倍了。", "It doubles."),
    slips=[Slip("square", lambda x: x * x, "这是平方。", "This is the square.")],
    symptoms=[
        Symptom("sign", lambda y, x: bool((y * x.double() >= 0).all()), "符号变了。", "The sign changes.")
    ],
)
PAIR = Exercise(
    name="pair",
    truth=lambda x: (x, 2 * x),
    returns=("one", "two"),
    cases=[(torch.tensor([1.0, 2.0]),)],
    shown=("对。", "Right."),
    slips=[],
)
LIST = Exercise(name="list", truth=torch.tensor([1, 2]), shown=("对。", "Right."), slips=[])


@pytest.mark.parametrize(("name", "exercise"), ALL)
def test_the_truth_passes(name, exercise):
    assert verdict(name, exercise.truth).passed


@pytest.mark.parametrize(("name", "slip"), SLIPS)
def test_every_slip_is_recognised_and_told_apart_from_the_others(name, slip):
    found = verdict(name, slip.wrong)
    assert found.outcome == "wrong"
    assert found.misconception == slip.name
    assert (found.zh, found.en) == (slip.zh, slip.en)


@pytest.mark.parametrize(("name", "exercise"), ALL)
def test_every_symptom_is_absent_from_the_truth(name, exercise):
    for case in exercise.cases:
        truth = exercise.truth(*case) if exercise.wants_function else torch.as_tensor(exercise.truth)
        parts = truth if isinstance(truth, tuple) else (torch.as_tensor(truth),)
        for symptom in exercise.symptoms:
            assert symptom.healthy(*(part.double() for part in parts), *case), symptom.name


@pytest.mark.parametrize(("name", "exercise"), ALL)
def test_no_slip_message_shows_the_right_value(name, exercise):
    if exercise.wants_function:
        return
    numbers = torch.as_tensor(exercise.truth).flatten().tolist()
    whole = str(numbers if len(numbers) > 1 else f"{numbers[0]:g}").strip("[]")
    for slip in exercise.slips:
        assert whole not in slip.en.split()
        assert whole not in slip.zh


@pytest.mark.parametrize(("name", "exercise"), ALL)
@pytest.mark.parametrize("answer", [None, ...])
def test_an_empty_answer_is_not_begun(name, exercise, answer):
    assert verdict(name, answer).outcome == "todo"


def unfinished(x):
    raise NotImplementedError


@pytest.mark.parametrize(
    "answer",
    [
        lambda x: None,
        lambda x: ...,
        lambda x: (..., ...),
        lambda x: ... @ x,
        lambda x: (...).softmax(-1),
        lambda x: torch.softmax(..., -1),
        unfinished,
    ],
)
def test_an_untouched_stub_is_not_done_yet(answer):
    assert judge(DOUBLE, answer).outcome == "todo"


def test_success_says_what_was_shown():
    found = judge(DOUBLE, lambda x: x + x)
    assert (found.outcome, found.zh, found.en) == ("passed", "翻倍了。", "It doubles.")


def test_an_unknown_wrong_answer_is_told_by_its_input_without_the_right_output():
    found = judge(DOUBLE, lambda x: x * 4)
    assert found.misconception is None
    assert "x = [1, -3]" in found.details
    assert "→ [4, -12]" in found.details
    assert "2, -6" not in repr(found)


def test_a_symptom_explains_what_no_slip_does():
    assert judge(DOUBLE, lambda x: -x).misconception == "sign"


def test_an_error_is_shown_with_its_line():
    def answer(x):
        return x @ torch.zeros(7, 7)  # the line in question

    found = judge(DOUBLE, answer)
    assert found.outcome == "wrong"
    assert "RuntimeError: " in found.details
    assert "return x @ torch.zeros(7, 7)" in found.details


class UnprintableError(Exception):
    def __str__(self):
        raise RuntimeError("no text")


def raising(error):
    def answer(x):
        raise error

    return answer


@pytest.mark.parametrize(
    "answer",
    [
        raising(SystemExit(1)),
        raising(UnprintableError()),
        raising(ValueError("long " * 1000)),
        raising(AssertionError()),
        lambda: 3,
        lambda x: judge(DOUBLE, None).missing,
        int,
        torch.nn.Linear(2, 2),
    ],
)
def test_no_error_leaves_the_check(answer):
    found = judge(DOUBLE, answer)
    assert found.outcome == "wrong"
    assert len(repr(found)) < 1500


def test_an_interrupt_by_the_reader_is_not_caught():
    with pytest.raises(KeyboardInterrupt):
        judge(DOUBLE, raising(KeyboardInterrupt()))


@pytest.mark.parametrize("answer", [3, "double", [1, 2], torch.ones(2), object()])
def test_a_function_is_asked_for_by_name(answer):
    found = judge(DOUBLE, answer)
    assert type(answer).__name__ in found.en
    assert "function" in found.en


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda x: [2.0, -6.0], "expected the result to be a tensor, found `list`"),
        (lambda x: "four", "expected the result to be a tensor, found `str`"),
        (lambda x: {"y": x}, "expected the result to be a tensor, found `dict`"),
        (lambda x: (2 * x).to_sparse(), "found `torch.sparse_coo torch.float32`"),
        (lambda x: (2 * x).to(torch.complex64), "found `torch.strided torch.complex64`"),
        (lambda x: (2 * x).to("meta"), "found `torch.strided torch.float32`"),
        (lambda x: (2 * x)[None], "shape (2,), found (1, 2)"),
        (lambda x: 4.0, "shape (2,), found ()"),
        (lambda x: (2 * x).double(), "dtype `torch.float32`, found `torch.float64`"),
        (lambda x: (2 * x).long(), "dtype `torch.float32`, found `torch.int64`"),
        (lambda x: 2 * x.float(), "dtype `torch.float64`, found `torch.float32`"),
        (lambda x: x > 0, "dtype `torch.float32`, found `torch.bool`"),
        (lambda x: x * math.nan, "there is a nan in the result"),
        (lambda x: (2 * x, x), "return one result; this returns 2"),
        (lambda x: x.mul_(2), "changes its argument `x`"),
    ],
)
def test_a_result_of_the_wrong_form_is_described(answer, said):
    found = judge(DOUBLE, answer)
    assert found.outcome == "wrong"
    assert said.lower() in found.en.lower()


@pytest.mark.parametrize("answer", [lambda x: x, lambda x: (x,), lambda x: (x, x, x)])
def test_several_results_are_named(answer):
    assert "(one, two)" in judge(PAIR, answer).en


def test_the_result_that_is_wrong_is_named_and_a_list_will_do():
    assert "`two` to have shape" in judge(PAIR, lambda x: [x, x[:1]]).en
    assert judge(PAIR, lambda x: [x, 2 * x]).passed


def test_gradients_do_not_disturb():
    weight = torch.tensor(2.0, requires_grad=True)
    assert judge(DOUBLE, lambda x: (x * weight).to(x.dtype)).passed


@pytest.mark.parametrize(
    "answer",
    [[1, 2], (1, 2), [1.0, 2.0], np.array([1, 2]), torch.tensor([1, 2]), [torch.tensor(1), np.float32(2)]],
)
def test_numbers_may_come_in_any_container(answer):
    assert judge(LIST, answer).passed


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("1, 2", "a list of numbers, found `str`"),
        (True, "a list of numbers, found `bool`"),
        ([1, "2"], "a list of numbers, found `list`"),
        ([[1], [1, 2]], "a list of numbers, found `list`"),
        ({1, 2}, "a list of numbers, found `set`"),
        ([1, 2, 3], "shape (2,), found (3,)"),
        (3, "shape (2,), found ()"),
        ([math.nan, 2], "NaN"),
        ([2, 1], "not right"),
        (lambda: [1, 2], "this is a function"),
    ],
)
def test_wrong_numbers_are_described(answer, said):
    found = judge(LIST, answer)
    assert found.outcome == "wrong"
    assert said in found.en


def test_cases_are_not_spoiled_by_an_answer_that_writes_into_them():
    judge(DOUBLE, lambda x: x.zero_())
    assert judge(DOUBLE, double).passed


@pytest.mark.parametrize("name", ["chapter11.atention", "attention", "", None, 3, double])
def test_an_unknown_name_raises_and_lists_near_ones(name):
    with pytest.raises(
        ValueError, match=r"name: expected an exercise such as .*'chapter11.attention'.*, found"
    ):
        check(name, None)


def test_check_displays_the_verdict_in_both_languages_and_returns_nothing(shell):
    with capture_output() as captured:
        assert check("chapter11.scale", None) is None
    (output,) = captured.outputs
    page, text = output.data["text/html"], output.data["text/plain"]
    assert 'data-outcome="todo"' in page
    assert 'class="attnbook-lang" lang="zh">○ 还没做' in page
    assert 'class="attnbook-lang" lang="en">○ Not done yet' in page
    assert text.splitlines()[0].startswith("○ 还没做")
    set_language("en")
    with capture_output() as captured:
        check("chapter11.scale", 8)
    (output,) = captured.outputs
    assert "还" not in output.data["text/html"] + output.data["text/plain"]


def test_the_readers_text_is_never_html():
    page = judge(DOUBLE, raising(ValueError("<script>alert(1)</script> `x`")))._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
