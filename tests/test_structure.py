"""The house stands as CONTRIBUTING.md describes it."""

import ast
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import attnbook

ROOT = Path(__file__).parent.parent
READING_ORDER = [concept.__name__.split(".")[-1] for concept in attnbook.CONCEPTS]


def imported_modules(path: Path) -> set[str]:
    """Every module that a file imports, anywhere in it, as a dotted name."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: a relative import"
            found.add(node.module)
    return found


@pytest.mark.parametrize("name", READING_ORDER)
def test_a_concept_imports_torch_and_earlier_concepts_only(name):
    modules = imported_modules(ROOT / "src/attnbook" / f"{name}.py")
    foreign = (
        {module.split(".")[0] for module in modules} - set(sys.stdlib_module_names) - {"torch", "attnbook"}
    )
    assert foreign == set()
    ours = {module.removeprefix("attnbook.") for module in modules if module.startswith("attnbook")}
    assert ours <= {"_validation", *READING_ORDER[: READING_ORDER.index(name)]}


def test_every_public_name_of_a_concept_is_a_name_of_the_package_and_has_one_meaning():
    for concept in attnbook.CONCEPTS:
        for name in concept.__all__:
            assert getattr(attnbook, name) is getattr(concept, name), f"{name} means two things"
            value = getattr(concept, name)
            assert not callable(value) or value.__doc__, f"{concept.__name__}.{name} has no docstring"


def test_importing_the_package_brings_in_nothing_heavy():
    code = "import sys, attnbook; print(*{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"plotly", "anywidget", "ipywidgets", "sphinx", "safetensors", "sacrebleu", "IPython"}
    assert heavy & set(done.stdout.split()) == set()


def test_the_package_asks_for_nothing_newer_than_colab_has():
    colab = {
        "torch": (2, 11),
        "numpy": (2, 1),
        "anywidget": (0, 9, 21),
        "ipywidgets": (7, 7, 1),
        "plotly": (5, 24, 1),
    }
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    asked = dict(requirement.split(">=") for requirement in project["dependencies"])
    for name, version in colab.items():
        assert tuple(map(int, asked[name].split("."))) <= version, f"{name}>={asked[name]}"


def test_constraints_pin_every_requirement_exactly():
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pins = {
        line.split("==")[0].lower().replace("_", "-") for line in lines if line and not line.startswith("#")
    }
    assert all("==" in line for line in lines if line and not line.startswith("#"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = [*project["dependencies"], *sum(project["optional-dependencies"].values(), [])]
    names = {re.match(r"[\w.-]+", requirement)[0].lower() for requirement in wanted}
    assert names <= pins


def test_notebooks_store_no_outputs_but_those_that_are_compared():
    for path in sorted((ROOT / "chapters").glob("*.ipynb")):
        for cell in json.loads(path.read_text("utf-8"))["cells"]:
            if cell["cell_type"] != "code":
                continue
            where = f"{path.name}: {cell['id']}"
            # nbval takes outputs without a count for those of a cell that was never run, and fails
            assert (cell["execution_count"] is None) == (not cell["outputs"]), where
            compared = "nbval-check-output" in cell["metadata"].get("tags", [])
            assert bool(cell["outputs"]) == compared, where


def test_workflows_and_make_name_commands_that_exist():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.M))
    for path in [*ROOT.glob(".github/workflows/*.yml"), *ROOT.glob("README*.md"), ROOT / "CONTRIBUTING.md"]:
        used = set(re.findall(r"\bmake ([a-z][a-z-]+)\b", path.read_text("utf-8")))
        prose = {"sure", "an", "the"}
        assert used - prose <= targets, path.name
