"""The mask builder: which query may look at which key, and what becomes of scores, weights and outputs."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import traitlets
from torch import Tensor

from attnbook.notebook import Bilingual
from attnbook.widgets.base import Choice, Flag, Number, Widget, bundle, to_array, to_labels

__all__ = ["MaskBuilder"]

LONGEST, MOST_SENTENCES = 8, 5
SENTENCES = [
    [("小", "little"), ("鼬", "weasels"), ("在", "are"), ("追", "chasing"), ("红", "red"), ("球", "balls")],
    [("鼬", "weasels"), ("追", "chase"), ("红", "red"), ("球", "balls")],
    [("鼬", "weasels"), ("吃", "eat"), ("鱼", "fish")],
]
# Padding has a query, a key and a value like any token. Here its keys score well and its values stand out, so
# that a leak is seen.
PAD_SCORE, PAD_VALUE = 1.5, -3.0


class _Edits(traitlets.TraitType):
    """Cells that were set by hand: [query, key, may attend], each pair once."""

    default_value: list[list[Any]] = []
    expected = "a list of (query, key, may attend)"

    def validate(self, obj: Any, value: Any) -> list[list[Any]]:
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise TypeError(f"{self.name}: expected {self.expected}, found {type(value).__name__}")
        edits, size = {}, obj.size
        for entry in value:
            if not isinstance(entry, Sequence) or len(entry) != 3 or not isinstance(entry[2], bool):
                raise TypeError(f"{self.name}: expected {self.expected}, found {entry!r}")
            for index in entry[:2]:
                if not isinstance(index, int | np.integer) or isinstance(index, bool):
                    raise TypeError(f"{self.name}: expected {self.expected}, found {entry!r}")
                if not 0 <= index < size:
                    raise ValueError(f"{self.name}: expected indices in [0, {size - 1}], found {entry!r}")
            edits[int(entry[0]), int(entry[1])] = entry[2]
        return [[query, key, may] for (query, key), may in edits.items()]


class MaskBuilder(Widget):
    """A batch of sentences, a mask over them, and what attention makes of it.

    Args:
        sentences: one to five lists of at most eight tokens, each a str or a pair (zh, en). None = examples.
            Shorter ones are padded to the longest, whose length is n.
        scores: (sentences, n, n), the scores before the mask, words first and padding after them. None =
            made-up ones.
        values: (sentences, n, d), likewise.
        sentence: which one is shown.
        side: "right" has the padding at the end, "left" at the beginning.
        causal, padding, window: the parts of the mask, joined by "and": no key after the query, no key that
            is padding, no key farther away than `window` (None = any distance).
        hand: cells that are set by hand, (query, key, may attend); they overrule the rest.
        passed: the mask is handed over as "bool", or as "float" with 0 and −∞, to be added to the scores.
        library: who reads it. "sdpa": `F.scaled_dot_product_attention`, in which, as in this book, True means
            may attend, and a query with nothing to attend gets zeros. "mha": `nn.MultiheadAttention`, in
            which True means masked, and such a query gets NaN. Both read a float mask in the same way.
        inverted: hand over `~mask` instead of `mask` (bool only).

    All but `sentences`, `scores` and `values` are traits that follow the reader and can be assigned. `mask`
    (query, key) is what was meant, True = may attend, `attn_mask` is what is handed over; `weights` and
    `output` are what the library makes of it.

    Raises:
        TypeError, ValueError: tokens, arrays or cells that do not fit, a trait outside its range.
    """

    _esm = bundle("mask_builder.js")

    sentences = traitlets.List(read_only=True).tag(sync=True)
    scores = traitlets.List(read_only=True).tag(sync=True)
    values = traitlets.List(read_only=True).tag(sync=True)
    sentence = Number(0, 0, MOST_SENTENCES - 1, integer=True).tag(sync=True)
    side = Choice("right", "left").tag(sync=True)
    causal = Flag(False).tag(sync=True)
    padding = Flag(False).tag(sync=True)
    window = Number(None, 0, LONGEST - 1, integer=True, optional=True).tag(sync=True)
    hand = _Edits().tag(sync=True)
    passed = Choice("bool", "float").tag(sync=True)
    library = Choice("sdpa", "mha").tag(sync=True)
    inverted = Flag(False).tag(sync=True)

    def __init__(
        self, sentences: Any = None, scores: Any = None, values: Any = None, sentence: int = 0, **traits: Any
    ):
        sentences = SENTENCES if sentences is None else sentences
        if isinstance(sentences, str) or not isinstance(sentences, Sequence):
            raise TypeError(f"sentences: expected a list of sentences, found {type(sentences).__name__}")
        if not 1 <= len(sentences) <= MOST_SENTENCES:
            raise ValueError(f"sentences: expected 1 to {MOST_SENTENCES} of them, found {len(sentences)}")
        labels = []
        for i, tokens in enumerate(sentences):
            labels.append(to_labels(f"sentences[{i}]", tokens, len(tokens)))
            if not 1 <= len(tokens) <= LONGEST:
                raise ValueError(f"sentences[{i}]: expected 1 to {LONGEST} tokens, found {len(tokens)}")
        lengths = [len(tokens) for tokens in labels]
        self.size = n = max(lengths)
        for name, given, last in (("scores", scores, n), ("values", values, "d")):
            array = _made_up(name, lengths, n) if given is None else to_array(name, given)
            fits = array.ndim == 3 and array.shape[:2] == (len(labels), n) and last in (array.shape[2], "d")
            if not fits:
                raise ValueError(f"{name}: expected shape ({len(labels)}, {n}, {last}), found {array.shape}")
            if not 1 <= array.shape[2] <= LONGEST:
                raise ValueError(f"{name}: expected 1 to {LONGEST} features, found {array.shape[2]}")
            self.set_trait(name, array.tolist())
        self.set_trait("sentences", labels)
        super().__init__(sentence=sentence, **traits)

    @traitlets.validate("sentence")
    def _sentence_in_range(self, proposal: Any) -> int:
        if proposal["value"] >= len(self.sentences):
            raise ValueError(
                f"sentence: expected an int in [0, {len(self.sentences) - 1}], found {proposal['value']}"
            )
        return proposal["value"]

    def _order(self) -> tuple[Tensor, int]:
        """Which word stands in each place (padding counts on after the words), and the number of words."""
        words = len(self.sentences[self.sentence])
        shift = self.size - words if self.side == "left" else 0
        return torch.arange(self.size).roll(shift), words

    @property
    def mask(self) -> Tensor:
        """What was meant: bool (query, key), True = may attend."""
        order, words = self._order()
        mask = torch.ones(self.size, self.size, dtype=torch.bool)
        if self.causal:
            mask = mask.tril()
        if self.padding:
            mask = mask & (order < words)
        if self.window is not None:
            place = torch.arange(self.size)
            mask = mask & ((place[:, None] - place).abs() <= self.window)
        for query, key, may in self.hand:
            mask[query, key] = may
        return mask

    @property
    def attn_mask(self) -> Tensor:
        """What is handed over: bool, or float with 0 and −∞; (query, key)."""
        if self.passed == "float":
            zeros = torch.zeros(self.size, self.size, dtype=torch.float64)
            return zeros.masked_fill(~self.mask, -torch.inf)
        return ~self.mask if self.inverted else self.mask

    def _attention(self) -> tuple[Tensor, Tensor]:
        order, _ = self._order()
        scores = torch.tensor(self.scores[self.sentence], dtype=torch.float64)[order][:, order]
        values = torch.tensor(self.values[self.sentence], dtype=torch.float64)[order]
        mask = self.attn_mask
        if self.passed == "float":
            scores = scores + mask
        else:
            scores = scores.masked_fill(mask if self.library == "mha" else ~mask, -torch.inf)
        weights = scores.softmax(dim=-1)
        if self.library == "sdpa":
            weights = weights.nan_to_num(nan=0.0)
        return weights @ values, weights

    @property
    def weights(self) -> Tensor:
        """(query, key), float64."""
        return self._attention()[1]

    @property
    def output(self) -> Tensor:
        """(query, d), float64."""
        return self._attention()[0]

    def describe(self) -> Bilingual:
        zh, en = (" / ".join(" ".join(pair[i] for pair in line) for line in self.sentences) for i in (0, 1))
        return Bilingual(
            f"掩码搭建器：一批句子“{zh}”，用因果、填充、窗口掩码或手改的格子，看分数、掩码、权重和输出怎样变化；"
            "还可以换一个库来读同一个掩码。",
            f"Mask builder: for the batch “{en}”, causal, padding and window masks or cells set by hand, and "
            "what they do to scores, weights and outputs; another library can read the same mask.",
        )


def _made_up(name: str, lengths: Sequence[int], n: int) -> np.ndarray:
    """Scores (sentences, n, n) or values (sentences, n, 3), the same each time; padding stands out."""
    draw = np.random.default_rng(12)
    scores = draw.integers(-3, 4, (len(lengths), n, n)) / 2
    values = draw.integers(0, 5, (len(lengths), n, 3)) / 4
    for i, words in enumerate(lengths):
        scores[i, :, words:], values[i, words:] = PAD_SCORE, PAD_VALUE
    return scores if name == "scores" else values
