"""Batches of sentences of about equal length, padded into tensors.

A batch is as long as its longest sentence, so mixing lengths wastes work on padding. Here the pairs are
shuffled, sorted by length (the shuffle decides among equals), cut into batches, and the batches shuffled:
every epoch other batches, little padding.
"""

from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

import torch
from torch import Tensor

from attnbook._validation import check_positive
from attnbook.text.vocabulary import PAD

__all__ = ["Batch", "batches", "pad"]


class Batch(NamedTuple):
    """Padded pairs. Target sentences carry `<bos>` and `<eos>` if their ids did.

    src: (batch, source time) ids, tgt: (batch, target time) ids; src_lengths, tgt_lengths: (batch,) numbers
    of tokens; indices: (batch,) which pairs of the input these are.
    """

    src: Tensor
    tgt: Tensor
    src_lengths: Tensor
    tgt_lengths: Tensor
    indices: Tensor

    def to(self, device: torch.device | str) -> "Batch":
        """The batch on another device."""
        return Batch(*(tensor.to(device) for tensor in self))

    @property
    def num_tokens(self) -> int:
        """The target tokens that are predicted: all but the first of each sentence."""
        return int((self.tgt_lengths - 1).sum())


def pad(sentences: Sequence[Sequence[int]], value: int = PAD) -> tuple[Tensor, Tensor]:
    """Sentences of ids as one tensor (batch, time), filled up at the end, and their lengths (batch,).

    Raises ValueError if there are no sentences, or an empty one: it would leave attention and recurrence
    nothing to read.
    """
    if not len(sentences):
        raise ValueError("sentences: expected at least one, found none")
    lengths = [len(sentence) for sentence in sentences]
    if min(lengths) == 0:
        raise ValueError(
            f"sentences: expected at least one token in each, found none in number {lengths.index(0)}"
        )
    padded = torch.full((len(sentences), max(lengths)), value, dtype=torch.long)  # (batch, time)
    for row, sentence in enumerate(sentences):
        padded[row, : len(sentence)] = torch.as_tensor(sentence, dtype=torch.long)
    return padded, torch.tensor(lengths)


def batches(
    pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
    batch_size: int | None = None,
    max_tokens: int | None = None,
    seed: int | None = 0,
    epoch: int = 0,
) -> Iterator[Batch]:
    """The pairs (source ids, target ids) in batches; every pair once.

    Give either `batch_size`, the pairs in a batch, or `max_tokens`, a bound on the padded size of each side
    (pairs times the longest sentence); a single pair longer than that makes a batch of its own. The same
    `seed` and `epoch` give the same batches in the same order, on every machine; another epoch, others.
    `seed=None` sorts by length without any shuffling, for evaluation.
    """
    if (batch_size is None) == (max_tokens is None):
        raise ValueError(
            f"batch_size, max_tokens: expected exactly one of them, found {batch_size} and {max_tokens}"
        )
    check_positive(**{"batch_size": batch_size} if max_tokens is None else {"max_tokens": max_tokens})
    groups = _groups(
        [(len(source), len(target)) for source, target in pairs], batch_size, max_tokens, seed, epoch
    )
    return (_batch(pairs, group) for group in groups)


def _groups(
    lengths: list[tuple[int, int]],
    batch_size: int | None,
    max_tokens: int | None,
    seed: int | None,
    epoch: int,
) -> list[list[int]]:
    random = None if seed is None else Random(f"{seed}/{epoch}")
    order = list(range(len(lengths)))
    if random:
        # random() alone keeps its sequence in every version of Python; shuffle() does not promise to
        keys = [random.random() for _ in order]
        order.sort(key=keys.__getitem__)
    order.sort(key=lambda index: (max(lengths[index]), lengths[index]))
    groups: list[list[int]] = []
    longest = 0
    for index in order:
        longest = max(longest, *lengths[index])
        size = len(groups[-1]) if groups else 0
        full = size >= batch_size if max_tokens is None else (size + 1) * longest > max_tokens
        if not groups or full:
            groups.append([])
            longest = max(lengths[index])
        groups[-1].append(index)
    if random:
        keys = [random.random() for _ in groups]
        groups = [groups[index] for index in sorted(range(len(groups)), key=keys.__getitem__)]
    return groups


def _batch(pairs: Sequence[tuple[Sequence[int], Sequence[int]]], group: list[int]) -> Batch:
    src, src_lengths = pad([pairs[index][0] for index in group])
    tgt, tgt_lengths = pad([pairs[index][1] for index in group])
    return Batch(src, tgt, src_lengths, tgt_lengths, torch.tensor(group))
