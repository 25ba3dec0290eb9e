"""Chapter 09's exercises: answers as learners write them, each met by the message for its misconception."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from attnbook.attention import AdditiveAttention, masked_softmax
from attnbook.exercises import verdict


def additive(inside=torch.tanh, outside=lambda x: x, normalise=lambda e: e / e.sum(), exp=True):
    """As a learner writes it, key by key, with the usual places to go wrong."""

    def weights(query, keys, W_q, W_k, v):
        scores = torch.stack([outside(v @ inside(W_q @ query + W_k @ key)) for key in keys])
        return normalise(scores.exp() if exp else scores)

    return weights


def by_module(query, keys, W_q, W_k, v):
    attention = AdditiveAttention(len(query), keys.shape[1], len(v)).to(query)
    with torch.no_grad():
        for layer, weight in ((attention.W_q, W_q), (attention.W_k, W_k), (attention.v, v[None])):
            layer.weight.copy_(weight)
        return attention(query[None], keys, keys)[1][0]


@pytest.mark.parametrize("answer", [additive(), by_module])
def test_additive_weights_solutions(answer):
    assert verdict("chapter09.additive_weights", answer).passed


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (additive(inside=lambda x: x), "no tanh"),
        (
            lambda q, K, W_q, W_k, v: ((W_q @ q).tanh() @ v + (K @ W_k.T).tanh() @ v).softmax(0),
            "query without effect",
        ),
        (additive(inside=lambda x: x, outside=torch.tanh), "tanh outside"),
        (lambda q, K, W_q, W_k, v: additive()(q * 0, K, W_q, W_k, v), "query without effect"),
        (lambda q, K, W_q, W_k, v: (((W_q @ q) * (K @ W_k.T)).tanh() @ v).softmax(0), "multiplied"),
        (additive(inside=torch.sigmoid), "sigmoid"),
        (additive(normalise=lambda e: e, exp=False), "scores"),
        (additive(normalise=lambda e: e), "exponentials"),
        (additive(normalise=lambda e: e / e.max()), "do not sum to 1"),
        (additive(inside=torch.relu), None),
    ],
)
def test_additive_weights_names_the_misconception(answer, misconception):
    found = verdict("chapter09.additive_weights", answer)
    assert not found.passed
    assert found.misconception == misconception


def test_additive_weights_without_the_vector_has_the_wrong_shape():
    found = verdict(
        "chapter09.additive_weights", lambda q, K, W_q, W_k, v: (W_q @ q + K @ W_k.T).tanh().softmax(-1)
    )
    assert not found.passed
    assert "(3, 2)" in found.en


@pytest.mark.parametrize("answer", [[1.43, 0.57], (10 / 7, 4 / 7), np.array([1.4286, 0.5714])])
def test_by_hand_solutions(answer):
    assert verdict("chapter09.by_hand", answer).passed


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        ([1, 1.333], "mean"),
        ([2, 0], "hard"),
        ([1.667, 0], "no exponential"),
        ([10, 4], "not normalised"),
        ([5 * math.log(2), 0], "scores as weights"),
        ([0.286, 0.143, 0.571], "weights"),
        ([0.57, 1.43], None),
    ],
)
def test_by_hand_names_the_misconception(answer, misconception):
    found = verdict("chapter09.by_hand", answer)
    assert not found.passed
    assert found.misconception == misconception


def padding(fill=float("-inf"), reach=0, before=True, invert=False):
    """As a learner writes it, sentence by sentence."""

    def weights(scores, lengths):
        rows = []
        for sentence, length in zip(scores, lengths.tolist(), strict=True):
            masked = sentence.clone() if before else sentence.softmax(-1)
            hidden = slice(length + reach, None) if not invert else slice(None, length)
            masked[:, hidden] = fill if before else 0.0
            rows.append(masked.softmax(-1) if before else masked)
        return torch.stack(rows).nan_to_num(0.0)

    return weights


def renormalised(scores, lengths):
    weights = padding(before=False)(scores, lengths)
    return weights / weights.sum(-1, keepdim=True)


def with_library(scores, lengths):
    mask = nn.utils.rnn.pad_sequence([torch.ones(n) for n in lengths], batch_first=True).bool()
    mask = nn.functional.pad(mask, (0, scores.shape[-1] - mask.shape[1]))
    return masked_softmax(scores, mask[:, None])


@pytest.mark.parametrize("answer", [padding(), padding(fill=-1e9), renormalised, with_library])
def test_padding_weights_solutions(answer):
    assert verdict("chapter09.padding_weights", answer).passed


def over_queries(scores, lengths):
    powers = scores.exp() / scores.exp().sum(1, keepdim=True)
    return powers * (torch.arange(scores.shape[2]) < lengths[:, None])[:, None]


def queries_masked(scores, lengths):
    hidden = torch.arange(scores.shape[1]) >= lengths[:, None]  # (batch, query)
    return scores.softmax(-1).masked_fill(hidden[..., None], 0)


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (lambda scores, lengths: scores.softmax(2), "no mask"),
        (padding(fill=0.0), "score zero"),
        (padding(before=False), "after softmax"),
        (padding(invert=True), "upside down"),
        (padding(reach=1), "one more"),
        (padding(reach=-1), "one less"),
        (over_queries, "over queries"),
        (queries_masked, "queries masked"),
        (padding(fill=-3.0), "padding has weight"),
        (lambda scores, lengths: padding()(-scores, lengths), None),
    ],
)
def test_padding_weights_names_the_misconception(answer, misconception):
    found = verdict("chapter09.padding_weights", answer)
    assert not found.passed
    assert found.misconception == misconception


def luong(y, s, attend, cell):
    after = cell(torch.cat([y, attend(s)[0]]), s)
    context, _ = attend(after)
    return after, context


def step(
    order=lambda y, s, c: (y, c), query=lambda y, s: s, before=lambda s: s, returned=lambda a, s, c, w: (a, c)
):
    def decoder_step(y, s, attend, cell):
        context, weights = attend(query(y, s))
        after = cell(torch.cat(order(y, s, context)), before(s))
        return returned(after, s, context, weights)

    return decoder_step


def test_decoder_step_solution():
    assert verdict("chapter09.decoder_step", step()).passed


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (luong, "looks again"),
        (step(query=lambda y, s: y), "asks with the word"),
        (step(order=lambda y, s, c: (c, y)), "context first"),
        (step(returned=lambda a, s, c, w: (s, c)), "old state"),
        (step(returned=lambda a, s, c, w: (a, w)), "weights"),
        (step(before=torch.zeros_like), "forgets"),
        (step(order=lambda y, s, c: (s, c)), "state for word"),
        (step(query=lambda y, s: y + s), None),
        (step(returned=lambda a, s, c, w: a), None),
    ],
)
def test_decoder_step_names_the_misconception(answer, misconception):
    found = verdict("chapter09.decoder_step", answer)
    assert not found.passed
    assert found.misconception == misconception


def test_decoder_step_that_adds_shows_the_error():
    found = verdict("chapter09.decoder_step", lambda y, s, attend, cell: (cell(y + attend(s)[0], s), s))
    assert "raised" in found.en
    assert "(x, s) → s" in found.details  # what the arguments are, not where they are in memory


def by_counting(predicted, gold):
    wrong = sum(link not in gold for link in predicted) + sum(link not in predicted for link in gold)
    return wrong / (len(predicted) + len(gold))


def by_f1(predicted, gold):
    common = len(set(predicted) & set(gold))
    if not common:
        return 1
    precision, recall = common / len(predicted), common / len(gold)
    return 1 - 2 * precision * recall / (precision + recall)


@pytest.mark.parametrize("answer", [by_counting, by_f1])
def test_error_rate_solutions(answer):
    assert verdict("chapter09.error_rate", answer).passed


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (lambda a, s: 1 - by_f1(a, s), "the right share"),
        (lambda a, s: len(a - s) / len(a), "one minus precision"),
        (lambda a, s: len(s - a) / len(s), "one minus recall"),
        (lambda a, s: len(a ^ s) / len(a | s), "over the union"),
        (lambda a, s: 1 - len(a & s) / (len(a) + len(s)), "no factor of two"),
        (lambda a, s: len(a ^ s), None),
    ],
)
def test_error_rate_names_the_misconception(answer, misconception):
    found = verdict("chapter09.error_rate", answer)
    assert not found.passed
    assert found.misconception == misconception
