"""Batches: every pair once, little padding, the same order for the same seed."""

import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnbook.text import PAD, Vocabulary, batches, corpus, pad

sentence = st.lists(st.integers(4, 50), min_size=1, max_size=30)
some_pairs = st.lists(st.tuples(sentence, sentence), max_size=40)


@settings(deadline=None)
@given(some_pairs, st.integers(1, 7), st.one_of(st.none(), st.integers(0, 3)))
def test_every_pair_is_in_exactly_one_batch_and_unchanged(pairs, batch_size, seed):
    seen = []
    for batch in batches(pairs, batch_size=batch_size, seed=seed):
        assert len(batch.src) <= batch_size
        for row, index in enumerate(batch.indices.tolist()):
            source, target = pairs[index]
            assert batch.src[row, : batch.src_lengths[row]].tolist() == source
            assert batch.tgt[row, : batch.tgt_lengths[row]].tolist() == target
            assert (batch.src[row, batch.src_lengths[row] :] == PAD).all()
            assert (batch.tgt[row, batch.tgt_lengths[row] :] == PAD).all()
            seen.append(index)
        assert batch.src.shape[1] == batch.src_lengths.max()
        assert batch.tgt.shape[1] == batch.tgt_lengths.max()
    assert sorted(seen) == list(range(len(pairs)))


@settings(deadline=None)
@given(some_pairs, st.integers(1, 100))
def test_a_token_budget_bounds_the_padded_size(pairs, max_tokens):
    for batch in batches(pairs, max_tokens=max_tokens):
        assert max(batch.src.numel(), batch.tgt.numel()) <= max_tokens or len(batch.src) == 1


def test_the_same_seed_and_epoch_give_the_same_batches():
    pairs = [([4] * (1 + n % 9), [5] * (1 + n % 7)) for n in range(100)]

    def order(**options):
        return [batch.indices.tolist() for batch in batches(pairs, batch_size=8, **options)]

    assert order(seed=1, epoch=2) == order(seed=1, epoch=2)
    assert len({str(order(seed=seed, epoch=epoch)) for seed in range(2) for epoch in range(3)}) == 6


def test_the_order_of_batches_is_fixed_for_ever():
    pairs = [([4] * (1 + n % 3), [5]) for n in range(8)]
    assert [batch.indices.tolist() for batch in batches(pairs, batch_size=3, seed=0)] == [
        [0, 3, 6],
        [7, 4, 1],
        [5, 2],
    ]


def test_without_a_seed_batches_are_sorted_by_length():
    pairs = [([4] * length, [5]) for length in (5, 1, 3, 2, 4)]
    assert [batch.src_lengths.tolist() for batch in batches(pairs, batch_size=2, seed=None)] == [
        [1, 2],
        [3, 4],
        [5],
    ]


def test_sorting_by_length_saves_padding():
    sentences = corpus(600)
    vocabulary = Vocabulary.build(pair.source for pair in sentences)
    pairs = [(vocabulary.encode(pair.source), [1] * len(pair.target)) for pair in sentences]
    tokens = sum(len(source) for source, _ in pairs)
    padded = sum(batch.src.numel() for batch in batches(pairs, batch_size=32))
    unsorted = 32 * sum(
        max(len(source) for source, _ in pairs[start : start + 32]) for start in range(0, 600, 32)
    )
    assert tokens <= padded < 1.15 * tokens < unsorted


def test_predicted_tokens_are_counted():
    (batch,) = batches([([4], [1, 5, 6, 2]), ([4], [1, 2])], batch_size=2)
    assert batch.num_tokens == 4
    assert batch.to("cpu").src.equal(batch.src)


def test_pad():
    padded, lengths = pad([[4, 5, 6], [7]])
    assert padded.tolist() == [[4, 5, 6], [7, PAD, PAD]]
    assert padded.dtype == torch.long
    assert lengths.tolist() == [3, 1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pad([]), "sentences: expected at least one, found none"),
        (lambda: pad([[1], []]), "sentences: expected at least one token in each, found none in number 1"),
        (lambda: batches([], batch_size=0), "batch_size: expected a positive int, found 0"),
        (lambda: batches([], max_tokens=-5), "max_tokens: expected a positive int, found -5"),
        (lambda: batches([]), "batch_size, max_tokens: expected exactly one of them, found None and None"),
        (lambda: batches([], 4, 4), "batch_size, max_tokens: expected exactly one of them, found 4 and 4"),
        (lambda: list(batches([([], [4])], 4)), "expected at least one token in each"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()


def test_no_pairs_give_no_batches():
    assert list(batches([], batch_size=3)) == []
