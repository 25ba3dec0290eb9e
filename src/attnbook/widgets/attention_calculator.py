"""The attention calculator: scaled dot-product attention on numbers that the reader edits."""

from typing import Any

import numpy as np
import torch
import traitlets
from torch import Tensor

from attnbook.attention import causal_mask, scaled_dot_product_attention
from attnbook.notebook import Bilingual
from attnbook.widgets.base import Flag, Number, Widget, bundle, to_array, to_labels

# A sentence whose features say what a word is (animal, action, thing) and one feature that is always 1.
# The projections are written so that the verb looks for its subject and its object, and a noun for its verb.
TOKENS = [("鼬", "weasel"), ("追", "chases"), ("球", "ball")]
EXAMPLE = {
    "X": [[1, 0, 0, 1], [0, 1, 0, 1], [0, 0, 1, 1]],
    "W_Q": [[0, 2, 0, 0], [2, 0, 1, 0], [1, 2, 0, 0], [0, 0, 0, 1]],
    "W_K": [[2, 0, 0, 0], [0, 2, 0, 0], [0, 0, 2, 0], [0, 0, 0, 1]],
    "W_V": [[1, 0, 0, 1], [0, 1, 0, -1], [0, 0, 1, 0], [0, 0, 0, 0.5]],
}
LARGEST = 8


class _Matrix(traitlets.TraitType):
    """A small matrix of finite numbers; once set, it keeps its shape."""

    default_value: list[list[float]] = []

    def validate(self, obj: Any, value: Any) -> list[list[float]]:
        array = to_array(self.name, value)
        if array.ndim != 2 or not all(1 <= size <= LARGEST for size in array.shape):
            raise ValueError(
                f"{self.name}: expected 1 to {LARGEST} rows and columns, found shape {array.shape}"
            )
        if array.shape != obj._shapes[self.name]:
            raise ValueError(f"{self.name}: expected shape {obj._shapes[self.name]}, found {array.shape}")
        return array.tolist()


class AttentionCalculator(Widget):
    """Edit X, W_Q, W_K, W_V and see every matrix of softmax(Q Kᵀ/√d_k) V (Vaswani et al. 2017, eq. 1).

    Args:
        X: (tokens, d_model), at most 8 × 8; one row a token. None = a worked example.
        W_Q, W_K: (d_model, d_k). None = the example's, if X is None too, else random ones.
        W_V: (d_model, d_v).
        tokens: one str or pair (zh, en) for each row of X.
        mask: None or "causal".
        scaled: divide the scores by √d_k.
        query: the row that is followed through all steps.

    The traits `X`, `W_Q`, `W_K`, `W_V`, `causal`, `scaled`, `query` follow the reader's edits and can be
    assigned; shapes stay as they were made. `weights` (query, key) and `output` (query, d_v) are torch's.

    Raises:
        TypeError, ValueError: not a matrix of finite numbers, shapes that do not fit, another mask.
    """

    _esm = bundle("attention_calculator.js")

    X = _Matrix().tag(sync=True)
    W_Q = _Matrix().tag(sync=True)
    W_K = _Matrix().tag(sync=True)
    W_V = _Matrix().tag(sync=True)
    tokens = traitlets.List(read_only=True).tag(sync=True)
    causal = Flag(False).tag(sync=True)
    scaled = Flag(True).tag(sync=True)
    query = Number(1, 0, LARGEST - 1, integer=True).tag(sync=True)

    def __init__(
        self,
        X: Any = None,
        W_Q: Any = None,
        W_K: Any = None,
        W_V: Any = None,
        tokens: Any = None,
        mask: str | None = None,
        scaled: bool = True,
        query: int | None = None,
        **traits: Any,
    ):
        if mask not in (None, "causal"):
            raise ValueError(f"mask: expected None or 'causal', found {mask!r}")
        example = X is None
        x = to_array("X", EXAMPLE["X"] if example else X)
        if x.ndim != 2:
            raise ValueError(f"X: expected shape (tokens, d_model), found {x.shape}")
        d_model, generator = x.shape[1], np.random.default_rng(11)
        matrices = {"X": x}
        for name, given in (("W_Q", W_Q), ("W_K", W_K), ("W_V", W_V)):
            if given is None:
                given = EXAMPLE[name] if example else generator.integers(-2, 3, (d_model, d_model)) / 2
            matrices[name] = to_array(name, given)
            if matrices[name].ndim != 2 or len(matrices[name]) != d_model:
                raise ValueError(f"{name}: expected shape ({d_model}, columns), found {matrices[name].shape}")
        if matrices["W_Q"].shape != matrices["W_K"].shape:
            raise ValueError(
                f"W_K: expected the shape of W_Q {matrices['W_Q'].shape}, found {matrices['W_K'].shape}"
            )
        if tokens is None:
            tokens = TOKENS if example else [f"x{i + 1}" for i in range(len(x))]
        self._shapes = {name: matrix.shape for name, matrix in matrices.items()}
        self.set_trait("tokens", to_labels("tokens", tokens, len(x)))
        query = min(1, len(x) - 1) if query is None else query
        super().__init__(**matrices, causal=mask == "causal", scaled=scaled, query=query, **traits)

    @traitlets.validate("query")
    def _query_in_range(self, proposal: Any) -> int:
        if proposal["value"] >= len(self.tokens):
            raise ValueError(
                f"query: expected an int in [0, {len(self.tokens) - 1}], found {proposal['value']}"
            )
        return proposal["value"]

    def _attention(self) -> tuple[Tensor, Tensor]:
        x, w_q, w_k, w_v = (
            torch.tensor(matrix, dtype=torch.float64) for matrix in (self.X, self.W_Q, self.W_K, self.W_V)
        )
        query, key, value = x @ w_q, x @ w_k, x @ w_v
        if not self.scaled:  # the function divides by √d_k
            query = query * query.shape[-1] ** 0.5
        return scaled_dot_product_attention(query, key, value, causal_mask(len(x)) if self.causal else None)

    @property
    def output(self) -> Tensor:
        """(query, d_v), float64."""
        return self._attention()[0]

    @property
    def weights(self) -> Tensor:
        """(query, key), float64; each row sums to 1."""
        return self._attention()[1]

    def describe(self) -> Bilingual:
        zh, en = (" ".join(pair[i] for pair in self.tokens) for i in (0, 1))
        return Bilingual(
            f"注意力计算器：对“{zh}”的 {len(self.tokens)} 个词元，"
            "逐步算出 Q、K、V、得分、权重和输出，每个数都可以改。",
            f"Attention calculator: Q, K, V, scores, weights and output for the {len(self.tokens)} tokens of "
            f"“{en}”, step by step; every number can be edited.",
        )
