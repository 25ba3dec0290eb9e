"""What nbval has executed is what the book would have executed."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from test_fixture_site import make_book

from attnbook.book import execution
from attnbook.book.widgets import STATE

COMMAND = [sys.executable, "-m", "pytest", "--nbval-lax", "-p", "attnbook.book.from_nbval", "chapters"]


@pytest.fixture
def root(tmp_path):
    """The sources of the little book, with a cell more that shows nothing."""
    folder = make_book(tmp_path / "小 book")
    path = folder / "chapters" / "01-second.ipynb"
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.append(nbformat.v4.new_code_cell("'not shown';", id="quiet"))
    nbformat.write(notebook, path)
    (folder / "pytest.ini").write_text("[pytest]\n")
    return folder


def nbval(root: Path, *options: str) -> subprocess.CompletedProcess:
    return subprocess.run([*COMMAND, *options], cwd=root, capture_output=True, text=True)


def executed(root: Path) -> dict[str, nbformat.NotebookNode]:
    """What the cache has of each notebook."""
    cache, found = execution.open_cache(execution.cache_folder_of(root)), {}
    for path in sorted((root / "chapters").glob("*.ipynb")):
        notebook = execution.read_notebook(path, path.name)
        if execution.is_cached(cache, notebook):
            found[path.stem] = nbformat.read(execution.outputs_path(cache, notebook), as_version=4)
    return found


def contents(notebook: nbformat.NotebookNode) -> tuple:
    """Language, cells and the states of widgets, without what is random: their ids, and addresses."""
    states = notebook.metadata.get("widgets", {}).get(STATE, {}).get("state", {})

    def text(part) -> str:
        return re.sub("|".join([r"\b0x[0-9a-f]+", *states]), "", json.dumps(part, sort_keys=True))

    return text(notebook.metadata.language_info), text(notebook.cells), sorted(map(text, states.values()))


def test_outputs_and_widgets_are_those_of_a_build(root):
    done = nbval(root)
    assert done.returncode == 0, done.stdout
    kept = executed(root)
    assert list(kept) == ["00-start", "01-second"]
    paths = list((root / "chapters").glob("*.ipynb"))
    folder = execution.cache_folder_of(root)
    assert execution.execute(paths, root, folder, 60) == {}
    shutil.rmtree(folder)
    assert len(execution.execute(paths, root, execution.cache_folder_of(root), 60)) == 2
    for name, built in executed(root).items():
        assert contents(kept[name]) == contents(built)


def test_what_fails_and_what_is_executed_in_part_is_not_kept(root):
    path = root / "chapters" / "01-second.ipynb"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("import plotly.graph_objects as go", "import none_such"), encoding="utf-8")
    done = nbval(root, "--deselect", "chapters/00-start.ipynb::Cell 0")
    assert done.returncode == 1
    assert "none_such" in done.stdout
    assert executed(root) == {}
