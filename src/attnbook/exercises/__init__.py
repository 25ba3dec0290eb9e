"""Exercises that are checked: `check("chapter11.attention", answer)`.

Each chapter has one module, `chapterNN.py`, that lists its exercises; `core.py` says how an answer is judged.

In a chapter's notebook a cell tagged `exercise` holds the stub, and a cell tagged `solution` a solution; both
end in a call of `check`. The tests run every solution cell after the imports of its notebook and fail unless
each check in it passes. So a solution cell uses nothing from earlier cells but their imports.
"""

import difflib
import importlib
import pkgutil
from typing import Any

from IPython.display import display

from attnbook.exercises.core import Exercise, Verdict, judge

__all__ = ["Verdict", "check", "names", "verdict"]


def check(name: str, answer: Any) -> None:
    """Judge the reader's `answer` to the exercise `name` and display what a tutor would say to it.

    Raises ValueError for a name that is no exercise; nothing that `answer` is or does raises.
    """
    display(verdict(name, answer))


def verdict(name: str, answer: Any) -> Verdict:
    """What `check` displays, as a value."""
    return judge(_find(name), answer)


def names() -> list[str]:
    """The names of all exercises, in the order of the chapters."""
    return [f"{chapter}.{exercise.name}" for chapter in _chapters() for exercise in _exercises(chapter)]


def _chapters() -> list[str]:
    return sorted(
        module.name for module in pkgutil.iter_modules(__path__) if module.name.startswith("chapter")
    )


def _exercises(chapter: str) -> list[Exercise]:
    return importlib.import_module(f"{__name__}.{chapter}").EXERCISES


def _find(name: str) -> Exercise:
    chapter = name.partition(".")[0] if isinstance(name, str) else None
    if chapter in _chapters():
        for exercise in _exercises(chapter):
            if f"{chapter}.{exercise.name}" == name:
                return exercise
    known = names()
    near = difflib.get_close_matches(str(name), known, n=3, cutoff=0.5) or known
    raise ValueError(f"name: expected an exercise such as {', '.join(map(repr, near))}, found {name!r}")
