"""Runs notebooks, each once for all editions and several at a time, and says which cell failed.

Outputs are kept by jupyter-cache, keyed by the code cells. They also depend on the package: so each state of
`src/attnbook` (without the book's own code) and of the libraries that make outputs has its own cache folder.
What nbval has executed is kept there too (`from_nbval.py`).
"""

import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import nbformat
import yaml
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn, JupyterCacheAbstract
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sqlalchemy.exc import SQLAlchemyError

from .errors import BookError, cell_name
from .language import language_pairs
from .lock import alone
from .widgets import STATE, saved_errors

PACKAGE = Path(__file__).parents[1]
LIBRARIES = ("torch", "numpy", "anywidget", "ipywidgets", "plotly")
DATABASE_ERRORS = (SQLAlchemyError, RuntimeError)  # the latter is what jupyter-cache makes of most of them
KEPT_FOLDERS = 2  # states of the package whose outputs are kept
AT_ONCE = 4  # notebooks; each takes a core and up to a gigabyte
RECORDED = {"store_widget_state": True, "record_timing": False}  # times would be part of the cache's key
# Figures as JSON only: the default also stores a script that asks another host for plotly.js.
ENVIRONMENT = {"PLOTLY_RENDERER": "plotly_mimetype"}
logger = logging.getLogger(__name__)


def fingerprint(package: Path = PACKAGE) -> str:
    """A hash of everything but the notebook itself that its outputs depend on."""
    digest = hashlib.sha256(sys.version.encode())
    for library in LIBRARIES:
        try:
            digest.update(f"{library}={version(library)}".encode())
        except PackageNotFoundError:
            digest.update(f"{library} is missing".encode())
    for path in sorted(package.rglob("*")):
        inside = path.relative_to(package)
        if path.is_file() and inside.parts[0] != "book" and "__pycache__" not in inside.parts:
            digest.update(inside.as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def cache_folder(parent: Path) -> Path:
    """The folder for the present state of the package; folders of older states are removed."""
    folder = parent / fingerprint()
    folder.mkdir(parents=True, exist_ok=True)
    os.utime(folder)
    others = sorted(
        (p for p in parent.iterdir() if p.is_dir()), key=lambda p: p.stat().st_mtime, reverse=True
    )
    for old in others[KEPT_FOLDERS:]:
        shutil.rmtree(old, ignore_errors=True)
    return folder


def cache_folder_of(root: Path) -> Path:
    """The same for the sources in `root`, whose `_config.yml` says where the cache is."""
    config = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    return cache_folder(root / config.get("execute", {}).get("cache", "build/.jupyter_cache"))


def configure(app: Sphinx, config: Config) -> None:
    """Point myst-nb at the cache folder of the present package."""
    if config.nb_execution_mode == "cache":
        parent = Path(app.srcdir, config.nb_execution_cache_path or "build/.jupyter_cache")
        config.nb_execution_cache_path = config.attnbook_cache_folder or str(cache_folder(parent))
    config.nb_ipywidgets_js = {"widget-host.js": {"defer": "defer"}}


def run_notebooks(app: Sphinx, env: BuildEnvironment, docnames: list[str]) -> None:
    """Event `env-before-read-docs`: execute what is to be read and not in the cache."""
    if app.config.nb_execution_mode != "cache":
        return
    paths = [path for path in map(Path, map(env.doc2path, docnames)) if path.suffix == ".ipynb"]
    if app.config.attnbook_cache_folder:  # both languages are being built at once and neither may execute
        cache = get_cache(app.config.attnbook_cache_folder)
        for path in paths:
            name = path.relative_to(app.srcdir).as_posix()
            if not is_cached(cache, read_notebook(path, name)):
                raise BookError(f"{name}: changed while the book was being built; build it again")
        return
    execute(
        paths,
        root=Path(app.srcdir),
        folder=Path(app.config.nb_execution_cache_path),
        timeout=app.config.nb_execution_timeout,
        say=logger.info,
    )


def execute(paths: Iterable[Path], root: Path, folder: Path, timeout: int, say=print) -> dict[str, float]:
    """Execute every notebook that is not in the cache; seconds by name. `BookError` names a failing cell."""
    waiting = []
    with alone(folder.parent, say):
        cache = open_cache(folder)
        for path in paths:
            name = path.relative_to(root).as_posix()
            notebook = read_notebook(path, name)
            language_pairs(notebook.cells, name)  # no minute is spent on running what cannot be built
            if is_cached(cache, notebook) and is_whole(outputs_path(cache, notebook)):
                continue
            if any(cell.cell_type == "code" for cell in notebook.cells):
                waiting.append(Run(notebook, name, path, timeout))
            else:
                keep(cache, CacheBundleIn(notebook, str(path), data={"execution_seconds": 0.0}))
        return run_all(waiting, cache, say)


def run_all(runs: list["Run"], cache: JupyterCacheAbstract, say) -> dict[str, float]:
    """Run notebooks, several at a time, and keep the outputs of each when it has ended; seconds by name.

    When one fails, or the build is interrupted, the others are stopped.
    """

    def timed(run: Run) -> float:
        say(f"running {run.name} ...")
        start = time.perf_counter()
        run.execute()
        return time.perf_counter() - start

    seconds = {}
    with ThreadPoolExecutor(min(os.cpu_count() or 1, AT_ONCE)) as pool:
        begun = {pool.submit(timed, run): run for run in runs}
        try:
            for future in as_completed(begun):
                run, took = begun[future], future.result()
                keep(cache, CacheBundleIn(run.notebook, str(run.path), data={"execution_seconds": took}))
                say(f"running {run.name} took {took:.1f} s")
                seconds[run.name] = took
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for run in runs:
                run.stop()
            raise
    return seconds


def open_cache(folder: Path) -> JupyterCacheAbstract:
    """The cache in `folder`; one whose database a stopped build has left half made is begun anew."""
    cache = get_cache(str(folder))
    try:
        cache.list_cache_records()
    except DATABASE_ERRORS as error:
        if not any(sign in _reason(error) for sign in ("no such table", "not a database", "malformed")):
            raise BookError(f"{folder}: the outputs cannot be kept: {_reason(error)}") from error
        shutil.rmtree(folder)
        folder.mkdir()
        cache = get_cache(str(folder))
    return cache


def _reason(error: Exception) -> str:
    """What the database said."""
    error = error.__cause__ if type(error) is RuntimeError and error.__cause__ else error
    return str(getattr(error, "orig", error))


def outputs_path(cache: JupyterCacheAbstract, notebook: nbformat.NotebookNode) -> Path:
    """Where the cache keeps the executed notebook."""
    _, key = cache.create_hashed_notebook(notebook)
    return Path(cache.path, "executed", key, "base.ipynb")


def is_whole(path: Path) -> bool:
    """Whether the file is there to its end; jupyter-cache notes an execution before it writes the outputs."""
    try:
        json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return True


def keep(cache: JupyterCacheAbstract, bundle: CacheBundleIn) -> None:
    """Put an executed notebook into the cache, in the place of what a stopped build has left there."""
    shutil.rmtree(outputs_path(cache, bundle.nb).parent, ignore_errors=True)
    try:
        cache.cache_notebook_bundle(bundle, check_validity=False)
    except DATABASE_ERRORS as error:
        raise BookError(f"{cache.path}: the outputs cannot be kept: {_reason(error)}") from error


def read_notebook(path: Path, name: str) -> nbformat.NotebookNode:
    try:
        return nbformat.read(path, as_version=4)
    except (OSError, nbformat.reader.NotJSONError, nbformat.ValidationError) as error:
        raise BookError(f"{name}: expected a notebook, found {error}") from error


def is_cached(cache: JupyterCacheAbstract, notebook: nbformat.NotebookNode) -> bool:
    try:
        cache.match_cache_notebook(notebook)
    except KeyError:
        return False
    return True


def drop_outputs(notebook: nbformat.NotebookNode) -> None:
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None


def refuse_widget_errors(notebook: nbformat.NotebookNode, name: str) -> None:
    """`BookError` if a widget of an executed notebook shows an error."""
    widgets = notebook.metadata.get("widgets", {}).get(STATE, {}).get("state", {})
    for message in saved_errors(widgets):
        raise BookError(f"{name}: a widget's output holds an error: {message}")


class Run:
    """One execution of a notebook, in place, which another thread can stop."""

    def __init__(self, notebook: nbformat.NotebookNode, name: str, path: Path, timeout: int):
        self.notebook = notebook
        self.name = name
        self.path = path
        self._cell: int | None = None  # the one that is being executed
        self._stopped = False
        self._client = NotebookClient(
            notebook,
            on_cell_start=self._begin,
            timeout=timeout,
            resources={"metadata": {"path": str(path.parent)}},
            **RECORDED,
            extra_arguments=[
                "--log-level=ERROR"
            ],  # the kernel warns about a connection that never leaves this machine
        )

    def execute(self) -> None:
        """Raises `BookError` for a cell that fails, hangs or kills its kernel."""
        drop_outputs(self.notebook)
        try:
            self._client.execute(env={**os.environ, **ENVIRONMENT})
        except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
            what = f"{error.ename}: {error.evalue}" if isinstance(error, CellExecutionError) else str(error)
            if self._cell is None:
                raise BookError(f"{self.name} failed: {what}") from error
            cell = self.notebook.cells[self._cell]
            where = cell_name(self.name, self._cell, cell)
            raise BookError(f"{where} failed: {what}\n{cell.source}") from error
        refuse_widget_errors(self.notebook, self.name)

    def stop(self) -> None:
        """Kill the kernel; one that is only being started ends before its first cell."""
        self._stopped = True
        with suppress(AttributeError):  # there is none yet, or no longer
            self._client.km.provisioner.process.kill()

    def _begin(self, cell: nbformat.NotebookNode, cell_index: int) -> None:
        if self._stopped:
            raise DeadKernelError("the build was stopped")
        self._cell = cell_index
