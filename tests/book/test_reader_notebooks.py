"""The notebooks of one language for Colab and Jupyter: plain Markdown, a first cell that gets the package."""

import ast
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import docutils.utils
import nbformat
import pytest
from docutils import nodes

from attnbook.book.build import main
from attnbook.book.citations import load_references
from attnbook.book.errors import BookError
from attnbook.book.notebooks import Converter, Course, Target, write_notebooks
from attnbook.book.repository import Repository
from attnbook.book.strings import CellPrompts

FIXTURE = Path(__file__).parent / "fixture"
ROOT = Path(__file__).parents[2]
BIB = ROOT / "references.bib"
REPOSITORY = Repository("Someone", "course")
DOCNAMES = ["chapters/00-start", "chapters/01-second"]


def converter(language="en", repository=REPOSITORY):
    course = Course(language, repository, load_references(BIB))
    course.targets = {
        "pe": Target("chapters/13-x", "Positional encoding", "positional-encoding"),
        "eq": Target("chapters/11-x", "(3)", "equation-eq"),
        "here": Target("chapters/11-x", "Here", "here"),
    }
    course.titles = {"chapters/11-x": "Eleven", "chapters/13-x": "Thirteen"}
    return Converter(course, FIXTURE, "chapters/11-x", "chapters/11-x.ipynb, cell 1", [])


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("(pe)=\n# Title", "# Title"),
        ("% a comment\n\nText.", "Text."),
        ("Plain `{ref}` and $a_{b}$.", "Plain `{ref}` and $a_{b}$."),
        ("```python\nx = '{ref}`pe`'\n```", "```python\nx = '{ref}`pe`'\n```"),
        ("$$\nx\n$$ (eq)", "$$\nx \\tag{3}\n$$"),
        ("```{math}\n:label: eq\nx\n```", "$$\nx \\tag{3}\n$$"),
        ("See {eq}`eq`.", "See [(3)](https://someone.github.io/course/en/chapters/11-x.html#equation-eq)."),
        (
            "See {ref}`pe`.",
            "See [Positional encoding](https://someone.github.io/course/en/chapters/13-x.html#positional-encoding).",
        ),
        (
            "{ref}`there <pe>`",
            "[there](https://someone.github.io/course/en/chapters/13-x.html#positional-encoding)",
        ),
        ("[next](13-x.ipynb#a)", "[next](https://someone.github.io/course/en/chapters/13-x.html#a)"),
        ("[above](#here)", "[above](https://someone.github.io/course/en/chapters/11-x.html#here)"),
        ("[site](https://pytorch.org)", "[site](https://pytorch.org)"),
        (":::{note}\nA **word**.\n\nMore.\n:::", "> **Note**\n>\n> A **word**.\n>\n> More."),
        ("```{admonition} My title\n:class: tip\nText.\n```", "> **My title**\n>\n> Text."),
        (
            "```{dropdown} More\n{ref}`pe`\n```",
            "<details><summary>More</summary>\n\n[Positional encoding]"
            "(https://someone.github.io/course/en/chapters/13-x.html#positional-encoding)\n\n</details>",
        ),
        (
            "{cite:t}`hochreiter1997` and {cite:p}`he2016,ba2016`",
            "[Hochreiter and Schmidhuber (1997)](https://doi.org/10.1162/neco.1997.9.8.1735) and "
            "([He et al., 2016](https://arxiv.org/abs/1512.03385); [Ba et al., 2016](https://arxiv.org/abs/1607.06450))",
        ),
        ("{math}`x` and {sup}`2`", "$x$ and <sup>2</sup>"),
        ("- item\n\n  :::{tip}\n  Inside.\n  :::", "- item\n\n  > **Tip**\n  >\n  > Inside."),
    ],
)
def test_myst_becomes_plain_markdown(source, expected):
    assert converter().convert(source) == expected


def test_chinese_words():
    zh = converter("zh")
    assert zh.convert(":::{note}\n甲。\n:::") == "> **注**\n>\n> 甲。"
    assert zh.convert("{cite:t}`ba2016`") == "[Ba 等 (2016)](https://arxiv.org/abs/1607.06450)"
    assert zh.convert("甲{cite:p}`ba2016`。") == "甲（[Ba 等，2016](https://arxiv.org/abs/1607.06450)）。"


def test_without_a_repository_links_stay_beside_the_notebook():
    alone = converter(repository=None)
    assert (
        alone.convert("See {ref}`pe` and {ref}`here`.") == "See [Positional encoding](13-x.ipynb) and Here."
    )


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{cite:p}`nobody1999`", "expected a key of references.bib, found 'nobody1999'"),
        ("{ref}`nowhere`", "expected the label of a heading or an equation, found 'nowhere'"),
        ("[x](99-none.ipynb)", "expected a chapter of the book, found '99-none'"),
        ("{menuselection}`File`", "the role menuselection has no rule"),
        (":::{grid}\nx\n:::", "the directive grid has no rule"),
        ("```{image} none.png\n```", "expected the image none.png, found no such file"),
    ],
)
def test_what_has_no_rule_names_the_cell(source, message):
    with pytest.raises(BookError, match=f"chapters/11-x.ipynb, cell 1: {message}"):
        converter().convert(source)


@pytest.fixture(scope="module", params=["zh", "en"])
def written(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    return request.param, write_notebooks(FIXTURE, DOCNAMES, request.param, folder, REPOSITORY, [BIB])


def test_notebooks_are_valid_and_hold_one_language(written):
    language, paths = written
    assert [path.name for path in paths] == ["00-start.ipynb", "01-second.ipynb"]
    for path in paths:
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
        tags = {tag for cell in notebook.cells for tag in cell.metadata.get("tags", [])}
        assert {"zh": "en", "en": "zh"}[language] not in tags
        assert not any(cell.get("outputs") for cell in notebook.cells)
        prose = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
        for markup in ("{cite", "{ref}", "{eq}", ":::", "```{", ")=\n"):
            assert markup not in prose
        assert "$$ (" not in prose


def test_solutions_stay_folded(written):
    notebook = json.loads(written[1][0].read_text(encoding="utf-8"))
    (solution,) = [c for c in notebook["cells"] if "solution" in c["metadata"].get("tags", [])]
    assert solution["metadata"]["jupyter"] == {"source_hidden": True}


def test_the_command_writes_the_notebooks_of_a_class(tmp_path):
    options = ["--root", str(ROOT), "--output", str(tmp_path), "--notebooks", "--without-solutions"]
    assert main([*options, "--package", "course.whl"]) == 0
    for language in ("zh", "en"):
        paths = sorted((tmp_path / language).glob("notebooks-without-solutions/*.ipynb"))
        texts = [path.read_text(encoding="utf-8") for path in paths]
        assert len(texts) == len(list((ROOT / "chapters").glob("*.ipynb")))
        assert all("course.whl" in text for text in texts)
        assert not any('"solution"' in text for text in texts)
        assert sum(text.count('"exercise"') for text in texts) > 50


def test_the_options_of_notebooks_need_notebooks(capsys):
    with pytest.raises(SystemExit):
        main(["--root", str(ROOT), "--without-solutions"])
    assert "go with --notebooks" in capsys.readouterr().err


@pytest.mark.parametrize("wanted", [True, False])
def test_solutions_can_be_left_out_of_the_pages(wanted):
    document = docutils.utils.new_document("chapter")
    config = SimpleNamespace(attnbook_language="en", attnbook_solutions=wanted)
    document.settings.env = SimpleNamespace(config=config)
    for tag in ("exercise", "solution"):
        document += nodes.container(cell_metadata={"tags": [tag, "hide-cell"]}, hide_mode="all")
    CellPrompts(document).apply()
    tags = [cell["cell_metadata"]["tags"][0] for cell in document.children]
    assert tags == (["exercise", "solution"] if wanted else ["exercise"])
    assert document[-1]["prompt_show"] == ("Show the solution" if wanted else "Show the code")


def test_solutions_can_be_left_out(tmp_path):
    (path, _) = write_notebooks(FIXTURE, DOCNAMES, "en", tmp_path, REPOSITORY, [BIB], solutions=False)
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    tags = [tag for cell in cells for tag in cell["metadata"].get("tags", [])]
    assert "solution" not in tags


def test_the_first_cell_changes_nothing_where_the_package_is(written, tmp_path):
    language, paths = written
    source = nbformat.read(paths[0], as_version=4).cells[0].source
    ast.parse(source)
    check = source + "\nprint(attnbook.get_language())"
    result = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == language


@pytest.mark.parametrize("colab", [True, False])
@pytest.mark.parametrize("package", [None, r"C:\classes \"2026\"\attnbook.whl"])
def test_the_first_cell_gets_the_package_where_it_is_missing(tmp_path, colab, package):
    """In Colab without its requirements: torch and numpy stay as they are."""
    (path, _) = write_notebooks(FIXTURE, DOCNAMES, "en", tmp_path, REPOSITORY, [BIB], package)
    pretend = (
        "import subprocess, sys, types, importlib.util\n"
        f"if {colab}: sys.modules['google.colab'] = types.ModuleType('google.colab')\n"
        "find, importlib.util.find_spec = importlib.util.find_spec, lambda name: None\n"
        "subprocess.run = lambda command, check: print('RAN', check, *command[1:])\n"
    )
    source = pretend + nbformat.read(path, as_version=4).cells[0].source
    result = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, cwd=tmp_path)
    ran = [line for line in result.stdout.splitlines() if line.startswith("RAN")]
    options = "--quiet --no-deps" if colab else "--quiet"
    wanted = package or REPOSITORY.requirement
    assert ran == [f"RAN True -m pip install {options} {wanted}"], result.stderr
