"""The error that stops a build: it names the notebook and the cell."""

from sphinx.errors import SphinxError


class BookError(SphinxError):
    """The source of the book is wrong; the message says where and what was expected."""

    category = "Book error"


def cell_name(notebook: str, index: int, cell: dict) -> str:
    """`chapters/x.ipynb, cell 7 (id a1b2)`: how every message names a cell (counted from 1)."""
    cell_id = f" (id {cell['id']})" if "id" in cell else ""
    return f"{notebook}, cell {index + 1}{cell_id}"
