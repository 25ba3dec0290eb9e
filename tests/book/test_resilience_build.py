"""A build that is stopped, refused or doubled: the old site stays whole, and the next build goes on."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from attnbook.book import build, execution
from attnbook.book.errors import BookError

CONFIG = """\
title: 小书 | Little book
author: x
execute: {execute_notebooks: cache, cache: build/.jupyter_cache}
sphinx:
  config:
    extensions: [attnbook.book, myst_nb, jupyter_book, sphinx_external_toc, sphinx_book_theme]
"""
CELLS = [("markdown", "# 一", "zh"), ("markdown", "# One", "en"), ("code", "6 * 7", None)]


@pytest.fixture
def root(tmp_path):
    """The sources of a book of one page, with a site of an earlier build."""
    folder = tmp_path / "一本 book's #1"
    (folder / "chapters").mkdir(parents=True)
    (folder / "_config.yml").write_text(CONFIG, encoding="utf-8")
    (folder / "_toc.yml").write_text("format: jb-book\nroot: chapters/one\n", encoding="utf-8")
    cells = [
        {"cell_type": kind, "id": f"c{i}", "metadata": {"tags": [tag] if tag else []}, "source": source}
        | ({"outputs": [], "execution_count": None} if kind == "code" else {})
        for i, (kind, source, tag) in enumerate(CELLS)
    ]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (folder / "chapters" / "one.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    old = folder / "build" / "site"
    old.mkdir(parents=True)
    (old / "index.html").write_text("old")
    return folder


def site_of(root: Path) -> str:
    """Which site there is; every other file below build/ must have a reason to be there."""
    assert {path.name for path in (root / "build").iterdir()} <= {
        "site",
        ".site.lock",
        ".jupyter_cache",
        ".jupyter_cache.lock",
    }
    return (root / "build" / "site" / "index.html").read_text(encoding="utf-8")


def write_editions(root, folder, *rest) -> None:
    """In place of Sphinx: one page an edition."""
    for language in build.EDITIONS:
        page = folder / language / "html" / "chapters" / "one.html"
        page.parent.mkdir(parents=True)
        page.write_text("<html><body>new</body></html>")


def write_index(site, *rest, **named) -> None:
    """In place of the first page of the real site."""
    (site / "index.html").write_text("new")


def answer(run) -> None:
    """In place of a kernel."""
    for cell in run.notebook.cells:
        if cell.cell_type == "code":
            cell.update(execution_count=1, outputs=[])


@pytest.fixture
def quick(monkeypatch):
    """Neither Sphinx nor a kernel; the page's fingerprint is one for all."""
    monkeypatch.setattr(build, "run_editions", write_editions)
    monkeypatch.setattr(build.sharing, "share", lambda *_: None)
    monkeypatch.setattr(build.landing, "write_landing", write_index)
    monkeypatch.setattr(execution.Run, "execute", answer)
    monkeypatch.setattr(execution, "fingerprint", lambda: "one")
    return monkeypatch


# ---------------------------------------------------------------------- stopped

rename, write = Path.rename, Path.write_text


def outputs_written(share: float, here):
    """In place of `Path.write_text`: only a share of a notebook's outputs is written."""

    def write_text(path, text, **options):
        if path.name != "base.ipynb":
            return write(path, text, **options)
        if share:
            write(path, text[: int(share * len(text))], **options)
        return here()

    return write_text


def old_site_moved(here):
    """In place of `Path.rename`: the old site is out of its place, the new one not yet in it."""

    def move(path, target):
        rename(path, target)
        if target.name == build.OLD:
            here()

    return move


MOMENTS = {
    "while a notebook runs": (execution.Run, "execute", lambda here: lambda _: here()),
    "between the record of outputs and the outputs": (
        Path,
        "write_text",
        lambda here: outputs_written(0, here),
    ),
    "while outputs are written": (Path, "write_text", lambda here: outputs_written(0.5, here)),
    "while editions are built": (
        build,
        "run_editions",
        lambda here: lambda *all: (write_editions(*all), here()),
    ),
    "while the site is replaced": (Path, "rename", old_site_moved),
}


def build_and_kill(root: Path, where: object, name: str, stop) -> None:
    """A build in a process of its own that is killed where it calls `here`."""
    reached, here = os.pipe()
    process = os.fork()
    if process == 0:
        setattr(where, name, stop(lambda: (os.write(here, b"here"), time.sleep(60))))
        build.main(["--root", str(root)])
        os._exit(0)
    os.close(here)
    with os.fdopen(reached, "rb") as pipe:
        assert pipe.read(4) == b"here"
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)


def fail(root, folder, cache):
    raise BookError("no edition")


@pytest.mark.parametrize("moment", MOMENTS)
def test_after_a_kill_the_site_is_whole_and_the_next_build_goes_on(root, quick, moment):
    build_and_kill(root, *MOMENTS[moment])
    quick.setattr(build, "run_editions", fail)
    assert build.main(["--root", str(root)]) == 1
    assert site_of(root) == "old"
    quick.setattr(build, "run_editions", write_editions)
    assert build.main(["--root", str(root)]) == 0
    assert site_of(root) == "new"
    (kept,) = (root / "build" / ".jupyter_cache" / "one" / "executed").glob("*/*.ipynb")
    assert len(json.loads(kept.read_text(encoding="utf-8"))["cells"]) == 1


def test_a_database_that_was_never_finished_is_begun_anew(root, quick):
    folder = root / "build" / ".jupyter_cache" / "one"
    folder.mkdir(parents=True)
    (folder / "global.db").write_bytes(b"")
    assert build.main(["--root", str(root)]) == 0
    assert site_of(root) == "new"


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=lambda how: how.name)
def test_a_build_that_is_stopped_leaves_no_process(root, how):
    command = [sys.executable, "-m", "attnbook.book", "--root", root]
    notebook = root / "chapters" / "one.ipynb"
    notebook.write_text(notebook.read_text(encoding="utf-8").replace('"code"', '"raw"'), encoding="utf-8")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes, text=True) as process:
        assert process.stdout.readline() == "building zh, en, both ...\n"
        editions = []
        while len(editions) < 3:  # those that are not its own children
            assert process.poll() is None
            others = psutil.Process(process.pid).children(recursive=True)
            editions = [other for other in others if other.ppid() != process.pid]
        time.sleep(0.2)  # the third has begun: the build waits for what they say
        process.send_signal(how)
        said = process.communicate()[1]
    assert psutil.wait_procs(others, timeout=90)[1] == []  # on a busy machine they take long to begin
    if how == signal.SIGINT:
        assert process.returncode == 130, said
        assert said == f"\nInterrupted; {root / 'build' / 'site'} is as it was.\n"
        assert site_of(root) == "old"
    assert (root / "build" / "site" / "index.html").read_text() == "old"


def test_an_edition_whose_process_is_killed_is_named(root, monkeypatch, capsys):
    monkeypatch.setattr(execution.Run, "execute", answer)
    (root / "extensions").mkdir()
    source = "import os, signal\ndef setup(app): os.kill(os.getpid(), signal.SIGKILL)\n"
    (root / "extensions" / "deadly.py").write_text(source)
    place = f"  local_extensions: {{deadly: {json.dumps(str(root / 'extensions'))}}}\n"
    config = CONFIG.replace("sphinx_book_theme]", "sphinx_book_theme, deadly]") + place
    (root / "_config.yml").write_text(config, encoding="utf-8")
    assert build.main(["--root", str(root)]) == 1
    said = capsys.readouterr().err
    for edition in ("zh", "en", "both"):
        assert f"The {edition} edition was not built:\nIts process ended ({-signal.SIGKILL})." in said
    assert site_of(root) == "old"


def test_an_interrupted_notebook_leaves_no_kernel(root):
    notebook = root / "chapters" / "one.ipynb"
    sleep = "import pathlib, time; pathlib.Path('begun').touch(); time.sleep(3600)"
    notebook.write_text(notebook.read_text(encoding="utf-8").replace("6 * 7", sleep), encoding="utf-8")
    command = [sys.executable, "-m", "attnbook.book", "--root", root]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        while not (root / "chapters" / "begun").exists():
            assert process.poll() is None
            time.sleep(0.1)
        kernels = psutil.Process(process.pid).children()
        process.send_signal(signal.SIGINT)
        said = process.communicate()[1]
    assert kernels
    assert psutil.wait_procs(kernels, timeout=20)[1] == []
    assert process.returncode == 130, said
    assert said == f"\nInterrupted; {root / 'build' / 'site'} is as it was.\n"
    assert site_of(root) == "old"


# ---------------------------------------------------------------------- doubled


def test_the_second_of_two_builds_waits_for_the_first(root, quick):
    begun, go_on, order = threading.Event(), threading.Event(), []

    def one_by_one(*everything):
        order.append("begins")
        begun.set()
        go_on.wait(20)
        write_editions(*everything)
        order.append("ends")

    quick.setattr(build, "run_editions", one_by_one)
    site = root / "build" / "site"
    first = threading.Thread(target=build.build_site, args=(root, site, lambda _: None))
    first.start()
    assert begun.wait(20)

    def say(text):
        if "waiting" in text:
            order.append(text)
            go_on.set()

    build.build_site(root, site, say)
    first.join()
    message = f"another build is at work on {site}; waiting until it is done ..."
    assert order == ["begins", message, "ends", "begins", "ends"]
    assert site_of(root) == "new"


# ---------------------------------------------------------------------- refused


def test_a_full_disk_is_named_and_the_old_site_stays(root, quick, capsys):
    def full(root, folder, cache):
        write_editions(root, folder, cache)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder / "zh" / "html" / "big.js"))

    quick.setattr(build, "run_editions", full)
    assert build.main(["--root", str(root)]) == 1
    said = capsys.readouterr().err
    assert "No space left on device: " in said
    assert said.endswith(f"Not built; {root / 'build' / 'site'} is as it was.\n")
    assert site_of(root) == "old"


LIMITED = """
import resource, sys
from attnbook.book import build
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
sys.exit(build.main(["--root", sys.argv[1]]))
"""


@pytest.mark.parametrize("limit", [0, 100_000])
def test_a_file_that_cannot_be_written_is_named_in_a_few_lines(root, limit):
    """A limit on the size of files stands for a disk that is full: of the outputs' cache, of an edition."""
    command = [sys.executable, "-c", LIMITED, root, str(limit)]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    assert len(result.stderr.strip().splitlines()) < 8, result.stderr
    assert result.stderr.endswith(f"Not built; {root / 'build' / 'site'} is as it was.\n")
    assert site_of(root) == "old"


def test_a_folder_of_other_files_is_not_replaced(root, quick, capsys):
    (root / "build" / "site" / "index.html").rename(root / "build" / "site" / "thesis.tex")
    assert build.main(["--root", str(root)]) == 1
    assert "expected an empty folder or an earlier site, found other files" in capsys.readouterr().err
    assert (root / "build" / "site" / "thesis.tex").read_text() == "old"


def test_a_folder_of_notebooks_becomes_a_site(root, quick):
    shutil.rmtree(root / "build" / "site")
    assert build.main(["--root", str(root), "--notebooks"]) == 0
    assert (root / "build" / "site" / "zh" / "notebooks" / "one.ipynb").exists()
    assert build.main(["--root", str(root)]) == 0
    assert site_of(root) == "new"
