"""Every exercise in a chapter's notebook: its stub is "not done yet", and its solution passes its own check.

A cell tagged `exercise` or `solution` is run by itself, after the imports of the cells above it.
"""

import ast
import json
import pathlib
import re

import pytest

from attnbook import exercises

CHAPTERS = sorted((pathlib.Path(__file__).parents[2] / "chapters").glob("*.ipynb"))


def code(cell):
    """The cell's Python, without the lines that only IPython understands."""
    lines = "".join(cell["source"]).splitlines()
    return "\n".join("" if re.match(r"\s*[%!?]", line) else line for line in lines)


def outcomes(notebook, tag):
    """(name, outcome) of each check in the cells with this tag."""
    imports, found, namespace = [], [], {}
    for number, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] != "code":
            continue
        tree = ast.parse(code(cell))
        imports += [
            statement for statement in tree.body if isinstance(statement, ast.Import | ast.ImportFrom)
        ]
        if tag not in cell["metadata"].get("tags", []):
            continue
        namespace = {"__name__": "__main__"}
        exec(compile(ast.Module(imports, []), f"<imports above cell {number}>", "exec"), namespace)
        before = len(found)
        record = _recorder(found)
        for name, value in list(namespace.items()):
            if value is exercises.check:
                namespace[name] = record
        body = [s for s in tree.body if not isinstance(s, ast.Import | ast.ImportFrom)]
        exec(compile(ast.Module(body, []), f"<cell {number}>", "exec"), namespace)
        assert len(found) > before, f"cell {number} is tagged {tag} and checks nothing"
    return found


def _recorder(found):
    return lambda name, answer: found.append((name, exercises.verdict(name, answer).outcome))


def number_of(path):
    return f"chapter{path.name[:2]}"


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_every_solution_passes_and_every_stub_waits(path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    solved, stubs = outcomes(notebook, "solution"), outcomes(notebook, "exercise")
    assert {outcome for _, outcome in solved} <= {"passed"}, solved
    assert {outcome for _, outcome in stubs} <= {"todo"}, stubs
    of_this_chapter = [name for name in exercises.names() if name.startswith(number_of(path))]
    assert sorted(name for name, _ in solved) == sorted(of_this_chapter)
    assert sorted(name for name, _ in stubs) == sorted(of_this_chapter)


def made_up_notebook(solution, tags=("solution",)):
    cells = [
        ("import math\nfrom attnbook.exercises import check", ()),
        ("%matplotlib inline\nraise RuntimeError('cells without the tag are not run')", ()),
        (solution, tags),
    ]
    return {
        "cells": [{"cell_type": "markdown", "metadata": {}, "source": "text"}]
        + [
            {"cell_type": "code", "metadata": {"tags": list(tags)}, "source": source}
            for source, tags in cells
        ]
    }


def test_a_wrong_solution_is_noticed():
    wrong = made_up_notebook('check("chapter11.scale", math.sqrt(64))')
    assert outcomes(wrong, "solution") == [("chapter11.scale", "wrong")]
    right = made_up_notebook('check("chapter11.scale", 4 * math.sqrt(64))')
    assert outcomes(right, "solution") == [("chapter11.scale", "passed")]


def test_a_solution_that_checks_nothing_is_noticed():
    with pytest.raises(AssertionError, match="checks nothing"):
        outcomes(made_up_notebook("answer = 32"), "solution")


def test_a_solution_that_needs_an_earlier_cell_is_noticed():
    with pytest.raises(NameError):
        outcomes(made_up_notebook('check("chapter11.scale", earlier)'), "solution")


def test_a_stub_waits():
    stub = made_up_notebook('answer = None\ncheck("chapter11.scale", answer)', tags=("exercise",))
    assert outcomes(stub, "exercise") == [("chapter11.scale", "todo")]
