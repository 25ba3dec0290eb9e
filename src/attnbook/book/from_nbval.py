"""A pytest plugin: what nbval has executed without a fault need not be executed again for the book.

    pytest --nbval-lax -p attnbook.book.from_nbval chapters

nbval reads what a kernel says, compares it and forgets it. Here nbclient, which executes notebooks for the
book, reads the same messages and makes outputs and the state of widgets of them, for the book's cache.
"""

import os
from contextlib import suppress
from copy import deepcopy

import pytest
from jupyter_cache.base import CacheBundleIn
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionComplete
from nbval.plugin import IPyNbCell, IPyNbFile

from . import execution
from .lock import alone

RECORD = pytest.StashKey["Record"]()


class Record:
    """What the kernel of one notebook says."""

    def __init__(self, file: IPyNbFile):
        self.notebook = deepcopy(file.nb)
        execution.drop_outputs(self.notebook)
        self._code = [i for i, cell in enumerate(self.notebook.cells) if cell.cell_type == "code"]
        self._cell = 0  # the index of the one that is being executed
        self._passed = set()
        kernel, execute = file.kernel, file.kernel.kc.execute
        # With a history, as nbclient asks for it and nbval does not: without it IPython shows what `;` hides.
        kernel.kc.execute = lambda code, **options: execute(code, **{**options, "store_history": True})
        self._client = NotebookClient(self.notebook, **execution.RECORDED)
        self._client.kc = kernel.kc
        self._client.reset_execution_trackers()
        info = kernel.kc.kernel_info(reply=True, timeout=60)
        self.notebook.metadata["language_info"] = info["content"]["language_info"]
        self._read, kernel.get_message = kernel.get_message, self._get_message

    def begin(self, number: int) -> None:
        """The code cell of that number is about to be executed."""
        self._cell = self._code[number]
        self._client.clear_before_next_output = False  # as before each cell that nbclient executes itself

    def passed(self, number: int) -> bool:
        """Note that it has passed; whether all have, and the notebook is whole."""
        self._passed.add(number)
        whole = len(self._passed) == len(self._code)
        if whole:
            self._client.set_widgets_metadata()
        return whole

    def _get_message(self, stream: str, timeout: float | None = None) -> dict:
        message = self._read(stream, timeout=timeout)
        if stream == "iopub" and message["parent_header"].get("msg_type") == "execute_request":
            with suppress(CellExecutionComplete):
                self._client.process_message(message, self.notebook.cells[self._cell], self._cell)
        return message


def pytest_configure() -> None:
    os.environ.update(execution.ENVIRONMENT)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item):
    """Keep the outputs of a notebook when its last cell has passed; a part of a notebook is not kept."""
    if not isinstance(item, IPyNbCell):
        return (yield)
    stash = item.parent.stash
    if RECORD not in stash:
        stash[RECORD] = Record(item.parent)
    record = stash[RECORD]
    record.begin(item.cell_num)
    result = yield
    if record.passed(item.cell_num):
        keep(record, item)
    return result


def keep(record: Record, item: IPyNbCell) -> None:
    root = item.config.rootpath
    execution.refuse_widget_errors(record.notebook, item.path.relative_to(root).as_posix())
    folder = execution.cache_folder_of(root)
    with alone(folder.parent, lambda _: None):
        cache = execution.open_cache(folder)
        execution.keep(cache, CacheBundleIn(record.notebook, str(item.path), data={"execution_seconds": 0.0}))
