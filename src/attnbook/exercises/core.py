"""How an answer is judged.

An exercise holds the truth, the inputs to try, and the slips that learners really make. A slip is a wrong
answer that can be run like the truth; where the reader's answer first goes wrong, it is compared with every
slip, and the one that it agrees with is named. An answer that no slip explains is described by its symptoms
(a property that every right answer has), and else by the input for which it is wrong. The right numbers are
never shown.
"""

import html
import inspect
import re
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnbook.notebook import Bilingual, get_language

Case = tuple[Any, ...]


@dataclass(frozen=True)
class Slip:
    """A wrong answer that learners give: a function or value in place of the truth, and what a tutor says."""

    name: str
    wrong: Any
    zh: str
    en: str


@dataclass(frozen=True)
class Symptom:
    """A property that the right answer has and many wrong ones lack.

    `healthy(*parts, *case)` gets what the reader's function returned (in float64), then its arguments.
    """

    name: str
    healthy: Callable[..., bool]
    zh: str
    en: str


@dataclass(frozen=True)
class Exercise:
    """One exercise of a chapter.

    Args:
        name: without the chapter, as in "attention".
        truth: the right function, or the right value where the reader works it out by hand.
        shown: (zh, en), one sentence on what a right answer has shown.
        slips: wrong answers by which the reader's is explained.
        symptoms: properties by which an unknown wrong answer is explained.
        cases: arguments to try a function with, the smallest and plainest first.
        returns: names of what a function returns, where it returns several tensors.
        tolerance: (relative, absolute).
    """

    name: str
    truth: Any
    shown: tuple[str, str]
    slips: Sequence[Slip]
    symptoms: Sequence[Symptom] = ()
    cases: Sequence[Case] = ((),)
    returns: tuple[str, ...] = ("",)
    tolerance: tuple[float, float] = (1e-4, 1e-4)

    @property
    def wants_function(self) -> bool:
        return callable(self.truth)


@dataclass(frozen=True)
class Verdict:
    """What is said to an answer.

    Attributes:
        outcome: "passed", "wrong", or "todo" for an exercise that was not begun.
        zh, en: the message; `details` is shown below it as it stands.
        misconception: name of the slip or symptom that explains a wrong answer, if one does.
    """

    outcome: str
    zh: str
    en: str
    misconception: str | None = None
    details: str = ""

    @property
    def passed(self) -> bool:
        return self.outcome == "passed"

    def _message(self) -> Bilingual:
        mark, zh, en = _HEADINGS[self.outcome]
        return Bilingual(f"{mark} {zh}{self.zh}", f"{mark} {en} {self.en}")

    def _repr_html_(self) -> str:
        details = ""
        if self.details:
            details = f'<pre style="white-space: pre-wrap">{html.escape(self.details)}</pre>'
        return (
            f'<div class="attnbook-verdict" data-outcome="{self.outcome}" style="margin: 0.5em 0; '
            f'padding: 0.25em 1em; border-inline-start: 0.25em solid {_COLOURS[self.outcome]}">'
            f"{self._message().html('p')}{details}</div>"
        )

    def __repr__(self) -> str:
        message = self._message()
        lines = [message.zh, message.en] if get_language() == "auto" else [repr(message)]
        return "\n".join([*lines, self.details] if self.details else lines)


_HEADINGS = {
    "passed": ("✓", "通过。", "Passed."),
    "wrong": ("✗", "还差一点。", "Not there yet."),
    "todo": ("○", "还没做。", "Not done yet."),
}
_COLOURS = {"passed": "#2e8b57", "wrong": "#d2691e", "todo": "#808a94"}


def judge(exercise: Exercise, answer: Any) -> Verdict:
    """The verdict on `answer`; whatever it is and does, it gets a message, never an exception."""
    if answer is None or answer is Ellipsis:
        return Verdict(
            "todo", "在上面的单元格里写出答案，再运行一次。", "Write your answer above and run it again."
        )
    if exercise.wants_function and not callable(answer):
        return Verdict(
            "wrong",
            f"这里要的是函数本身（写函数名，后面不加括号），收到的是 `{type(answer).__name__}`。",
            f"A function is wanted here (its name, no parentheses); this is a `{type(answer).__name__}`.",
        )
    if not exercise.wants_function and callable(answer):
        return Verdict(
            "wrong", "这里要的是数值，不是函数。", "Numbers are wanted here, and this is a function."
        )
    for case in exercise.cases:
        verdict = _try(exercise, answer, case)
        if verdict is not None:
            return verdict
    return Verdict("passed", *exercise.shown)


def _try(exercise: Exercise, answer: Any, case: Case) -> Verdict | None:
    """What is wrong with the answer to one case; None where nothing is."""
    given = _copy(case)
    try:
        returned = _result(answer, given)
    except NotImplementedError:
        return Verdict("todo", "函数还没有写完。", "The function is not written yet.")
    except (Exception, SystemExit) as error:
        return _raised(exercise, answer, case, error)
    for part in returned if isinstance(returned, tuple) else (returned,):
        if part is None or part is Ellipsis:
            shown = "None" if part is None else "..."
            return Verdict(
                "todo",
                f"函数返回了 `{shown}`。如果已经写完，看看是不是少了 `return`。",
                f"The function returns `{shown}`. If you have written it, is a `return` missing?",
            )

    def parts_of(wrong_or_right: Any) -> list[Any]:
        return _parts(exercise, _result(wrong_or_right, _copy(case)))

    parts, truth = _parts(exercise, returned), parts_of(exercise.truth)
    right = _agree(parts, truth, exercise.tolerance)
    if not right:
        for slip in exercise.slips:
            wrong = parts_of(slip.wrong)
            if _agree(parts, wrong, exercise.tolerance) and not _agree(wrong, truth, exercise.tolerance):
                return Verdict("wrong", slip.zh, slip.en, misconception=slip.name)
    problem = _wrong_form(exercise, case, parts, truth)
    if problem is not None:
        return problem
    if not right:
        return _wrong_numbers(exercise, case, parts)
    for name, before, after in zip(_arguments(exercise), case, given, strict=False):
        if isinstance(before, Tensor) and not torch.equal(before, after):
            return Verdict(
                "wrong",
                f"结果是对的，但函数改动了传进来的 `{name}`。请用新的张量，不要原地修改。",
                f"The result is right, but the function changes its argument `{name}`. "
                "Make a new tensor instead of writing into the old one.",
            )
    return None


def _raised(exercise: Exercise, answer: Any, case: Case, error: BaseException) -> Verdict:
    message = traceback.format_exception_only(error)[0].strip()
    if isinstance(error, TypeError | AttributeError) and "ellipsis" in message:
        return Verdict(
            "todo", "函数里还有 `...` 等你填写。", "There is still a `...` in the function to fill in."
        )
    lines = [_shortened(message.splitlines()[0])]
    code = getattr(answer, "__code__", None)
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if code is not None and frame.filename == code.co_filename and frame.line:
            lines.append(f"    {_shortened(frame.line)}")
            break
    return Verdict(
        "wrong",
        "函数运行时出错：",
        "The function raised an error:",
        details="\n".join([*lines, *_inputs(exercise, case)]),
    )


def _wrong_form(exercise: Exercise, case: Case, parts: list[Any], truth: list[Tensor]) -> Verdict | None:
    """The wrong number of results, or a result of the wrong type, shape or dtype."""
    if len(parts) != len(truth):
        names = ", ".join(exercise.returns)
        wanted = f"`({names})`" if len(truth) > 1 else ("一个结果", "one result")
        zh, en = (wanted, wanted) if isinstance(wanted, str) else wanted
        return Verdict(
            "wrong", f"应该返回{zh}，实际返回了 {len(parts)} 个。", f"Return {en}; this returns {len(parts)}."
        )
    floats_in = any(isinstance(value, Tensor) and value.is_floating_point() for value in case)
    for name, part, true in zip(exercise.returns, parts, truth, strict=True):
        zh, en = (f" `{name}` ", f"`{name}`") if name else ("结果", "the result")
        if not _is_plain(part):
            kind = f"{part.layout} {part.dtype}" if isinstance(part, Tensor) else type(part).__name__
            want_zh, want_en = _WANTED[exercise.wants_function, true.dim() > 0]
            return Verdict(
                "wrong",
                f"{zh.lstrip()}应该是{want_zh}，得到的是 `{kind}`。",
                f"Expected {en} to be {want_en}, found `{kind}`.",
            )
        if part.shape != true.shape:
            return Verdict(
                "wrong",
                f"{zh.lstrip()}的形状应该是 {_shape(true)}，得到的是 {_shape(part)}。",
                f"Expected {en} to have shape {_shape(true)}, found {_shape(part)}.",
                details="\n".join(_inputs(exercise, case)),
            )
        if exercise.wants_function and (
            part.dtype != true.dtype if floats_in else not part.is_floating_point()
        ):
            wanted = str(true.dtype) if floats_in else "float"
            return Verdict(
                "wrong",
                f"{zh.lstrip()}的 dtype 应该是 `{wanted}`，得到的是 `{part.dtype}`。",
                f"Expected {en} to have dtype `{wanted}`, found `{part.dtype}`.",
                details="\n".join(_inputs(exercise, case)),
            )
    return None


_WANTED = {
    (True, True): ("张量", "a tensor"),
    (True, False): ("一个数", "a number"),
    (False, True): ("一列数", "a list of numbers"),
    (False, False): ("一个数", "a number"),
}


def _wrong_numbers(exercise: Exercise, case: Case, parts: list[Tensor]) -> Verdict:
    outputs = [f"→ {name} = {_show(part)}" for name, part in zip(exercise.returns, parts, strict=True)]
    details = "\n".join([*_inputs(exercise, case), *(line.replace("→  =", "→") for line in outputs)])
    if any(part.isnan().any() for part in parts):
        return Verdict("wrong", "结果里有 NaN：", "There is a NaN in the result:", details=details)
    for symptom in exercise.symptoms:
        if not symptom.healthy(*(part.double() for part in parts), *_copy(case)):
            return Verdict("wrong", symptom.zh, symptom.en, misconception=symptom.name, details=details)
    if exercise.wants_function:
        zh, en = "形状对了，数值还不对，例如：", "The shape is right, the numbers are not. For example:"
    else:
        zh, en = "数值不对，再算一遍：", "The numbers are not right. Work them out once more:"
    return Verdict("wrong", zh, en, details=details)


def _result(answer: Any, arguments: Case) -> Any:
    return answer(*arguments) if callable(answer) else answer


def _copy(case: Case) -> Case:
    return tuple(value.clone() if isinstance(value, Tensor) else value for value in case)


def _parts(exercise: Exercise, returned: Any) -> list[Any]:
    """What was returned, one item for each of `exercise.returns`; numbers become tensors."""
    if not exercise.wants_function:
        return [_as_tensor(returned, lists=True)]
    several = isinstance(returned, tuple) or (isinstance(returned, list) and len(exercise.returns) > 1)
    return [_as_tensor(part, lists=False) for part in (returned if several else [returned])]


def _as_tensor(value: Any, lists: bool) -> Any:
    """A number as a tensor, and if `lists` also a list, tuple or array of numbers; else `value` itself."""
    if isinstance(value, Tensor):
        return value if value.is_meta else value.detach().cpu()
    numeric = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if numeric or (lists and isinstance(value, list | tuple | np.ndarray)):
        try:
            return torch.as_tensor(value, dtype=torch.float64)
        except (TypeError, ValueError, RuntimeError, OverflowError):
            return value
    return value


def _is_plain(value: Any) -> bool:
    """A tensor whose numbers can be compared."""
    if not isinstance(value, Tensor) or value.layout is not torch.strided:
        return False
    return not (value.is_complex() or value.is_quantized or value.is_nested or value.is_meta)


def _agree(parts: list[Any], others: list[Any], tolerance: tuple[float, float]) -> bool:
    rtol, atol = tolerance
    return len(parts) == len(others) and all(
        _is_plain(a)
        and _is_plain(b)
        and a.shape == b.shape
        and torch.allclose(a.double(), b.double(), rtol, atol, equal_nan=True)
        for a, b in zip(parts, others, strict=True)
    )


def _arguments(exercise: Exercise) -> list[str]:
    return list(inspect.signature(exercise.truth).parameters) if exercise.wants_function else []


def _inputs(exercise: Exercise, case: Case) -> list[str]:
    return [f"{name} = {_show(value)}" for name, value in zip(_arguments(exercise), case, strict=False)]


def _show(value: Any, limit: int = 16) -> str:
    """A number or a small tensor in full, a larger one by its shape."""
    if not isinstance(value, Tensor):
        return f"{value:.6g}" if isinstance(value, float) else repr(value)
    if value.numel() > limit:
        return f"tensor {_shape(value)}, {value.dtype}"
    if value.is_floating_point():
        value = value.double()
        return re.sub(r"-?\d+\.\d+(e[-+]\d+)?", lambda number: f"{float(number[0]):.4g}", str(value.tolist()))
    return str(value.tolist())


def _shape(tensor: Tensor) -> str:
    return str(tuple(tensor.shape))


def _shortened(text: str, limit: int = 200) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
