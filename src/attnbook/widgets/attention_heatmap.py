"""The attention heatmap: any attention weights, with tokens, as a matrix, as lines, or all heads at once."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import traitlets

from attnbook.notebook import Bilingual
from attnbook.widgets.base import Choice, Number, Widget, bundle, to_array, to_labels

SUM_TOLERANCE = 2e-3  # a float16 softmax stays well inside


class _Head(traitlets.TraitType):
    """The index of a head, or "mean": the average of the layer's heads."""

    default_value = 0

    def validate(self, obj: Any, value: Any) -> int | str:
        expected = f'head: expected an int in [0, {obj.shape[1] - 1}] or "mean", found {value!r}'
        if isinstance(value, str):
            if value != "mean":
                raise ValueError(expected)
            return value
        if not isinstance(value, int | np.integer) or isinstance(value, bool):
            raise TypeError(f"{expected} ({type(value).__name__})")
        if not 0 <= value < obj.shape[1]:
            raise ValueError(expected)
        return int(value)


class AttentionHeatmap(Widget):
    """Attention weights to look at: choose layer and head, point at a cell, follow a query or a key.

    Args:
        attention: (layers, heads, query, key), (heads, query, key) or (query, key); rows sum to 1 (a row of
            zeros is a query that has nothing to attend to).
        query_tokens: one str or pair (zh, en) for each query (row).
        key_tokens: the same for each key (column). None = the query tokens (self-attention).
        gold: known alignments, drawn as outlines: pairs (query, key), or a bool matrix (query, key).
        layer, head, view, query, key: what is shown first; `head="mean"` averages the layer's heads.
        title: a str or pair (zh, en) instead of the usual title.

    The traits `layer`, `head`, `view` ("matrix", "lines", "gallery"), `query` and `key` (an index or None)
    follow the reader and can be assigned. `weights` is the whole array, `shown` the (query, key) matrix on
    display.

    Raises:
        TypeError, ValueError: not such an array, NaN or negative weights, rows that do not sum to 1, tokens
            that do not fit, an index outside its range.
    """

    _esm = bundle("attention_heatmap.js")

    attention = traitlets.Bytes(read_only=True).tag(sync=True)  # float32, row-major
    shape = traitlets.List(read_only=True).tag(sync=True)
    query_tokens = traitlets.List(read_only=True).tag(sync=True)
    key_tokens = traitlets.List(read_only=True).tag(sync=True)
    gold = traitlets.List(read_only=True).tag(sync=True)
    title = traitlets.List(read_only=True).tag(sync=True)
    layer = Number(0, 0, 10**6, integer=True).tag(sync=True)
    head = _Head().tag(sync=True)
    view = Choice("matrix", "lines", "gallery").tag(sync=True)
    query = Number(None, 0, 10**6, integer=True, optional=True).tag(sync=True)
    key = Number(None, 0, 10**6, integer=True, optional=True).tag(sync=True)

    def __init__(
        self,
        attention: Any,
        query_tokens: Sequence[Any],
        key_tokens: Sequence[Any] | None = None,
        gold: Any = None,
        layer: int = 0,
        head: int | str = 0,
        view: str = "matrix",
        query: int | None = None,
        key: int | None = None,
        title: Any = None,
        **traits: Any,
    ):
        self.weights = _weights(attention)
        rows, columns = self.weights.shape[2:]
        if key_tokens is None:
            if rows != columns:
                raise ValueError(f"key_tokens: expected {columns} tokens for the keys, found None")
            key_tokens = query_tokens
        self.set_trait("shape", list(self.weights.shape))
        self.set_trait("attention", self.weights.tobytes())
        self.set_trait("query_tokens", to_labels("query_tokens", query_tokens, rows))
        self.set_trait("key_tokens", to_labels("key_tokens", key_tokens, columns))
        self.set_trait("gold", _pairs(gold, rows, columns))
        self.set_trait("title", [] if title is None else to_labels("title", [title], 1)[0])
        super().__init__(layer=layer, head=head, view=view, query=query, key=key, **traits)

    @traitlets.validate("layer", "query", "key")
    def _in_range(self, proposal: Any) -> int | None:
        name, value = proposal["trait"].name, proposal["value"]
        size = self.shape[{"layer": 0, "query": 2, "key": 3}[name]]
        if value is not None and value >= size:
            raise ValueError(f"{name}: expected an int in [0, {size - 1}], found {value}")
        return value

    @property
    def shown(self) -> np.ndarray:
        """The matrix (query, key) of the chosen layer and head."""
        heads = self.weights[self.layer]
        return heads.mean(axis=0) if self.head == "mean" else heads[self.head]

    def describe(self) -> Bilingual:
        layers, heads, rows, columns = self.shape
        return Bilingual(
            f"注意力热图：{layers} 层、每层 {heads} 个头，{rows} 个查询（行）对 {columns} 个键（列）的权重。",
            f"Attention heatmap: the weights of {rows} queries (rows) over {columns} keys (columns), "
            f"for {layers} layer(s) of {heads} head(s).",
        )


def _weights(attention: Any) -> np.ndarray:
    """(layers, heads, query, key), float32, checked."""
    array = to_array("attention", attention)
    if not 2 <= array.ndim <= 4 or 0 in array.shape:
        raise ValueError(
            f"attention: expected shape ([[layers,] heads,] query, key), none of them 0, found {array.shape}"
        )
    array = array.reshape((1,) * (4 - array.ndim) + array.shape)
    if array.min() < 0:
        raise ValueError(f"attention: expected weights of at least 0, found {array.min():.4g}")
    sums = array.sum(axis=-1)
    wrong = (np.abs(sums - 1) > SUM_TOLERANCE) & (sums != 0)
    if wrong.any():
        where = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise ValueError(
            "attention: expected rows that sum to 1 over the keys, "
            f"found the sum {sums[where]:.4g} at (layer, head, query) {where}"
        )
    return array.astype(np.float32)


def _pairs(gold: Any, rows: int, columns: int) -> list[list[int]]:
    """Alignments as a list of [query, key]."""
    if gold is None:
        return []
    array = np.asarray(gold.detach().cpu() if hasattr(gold, "detach") else gold)
    if array.dtype == bool:
        if array.shape != (rows, columns):
            raise ValueError(f"gold: expected shape {(rows, columns)}, found {array.shape}")
        return np.argwhere(array).tolist()
    if array.size == 0:
        return []
    if array.ndim != 2 or array.shape[1] != 2 or not np.issubdtype(array.dtype, np.integer):
        raise TypeError("gold: expected pairs (query, key) of ints or a bool matrix (query, key)")
    if array.min() < 0 or (array >= (rows, columns)).any():
        raise ValueError(f"gold: expected pairs below {(rows, columns)}, found {array.max(axis=0).tolist()}")
    return array.tolist()
