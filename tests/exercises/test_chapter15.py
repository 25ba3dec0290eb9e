"""Chapter 15's exercises: answers as learners write them, each met by the message for its misconception."""

import math
from collections import Counter

import pytest
import torch
import torch.nn.functional as F

from attnbook.exercises import verdict
from attnbook.exercises.chapter15 import EXERCISES, smoothed_loss
from attnbook.training.losses import cross_entropy


def names_the_misconception(exercise, answer, misconception):
    found = verdict(f"chapter15.{exercise}", answer)
    assert not found.passed
    assert found.misconception == misconception, found


# ---------------------------------------------------------------------- smoothed_loss


def one_hot_loss(logits, target, epsilon):
    vocab = logits.shape[-1]
    q = (1 - epsilon) * F.one_hot(target, vocab) + epsilon / vocab
    each = -(q * logits.log_softmax(-1)).sum(-1)
    return each[target != 0].mean()


def torch_loss(logits, target, epsilon):
    return F.cross_entropy(
        logits.flatten(0, -2), target.flatten(), label_smoothing=epsilon, ignore_index=0
    )  # fmt: skip


@pytest.mark.parametrize("answer", [one_hot_loss, torch_loss, cross_entropy])
def test_loss_solutions(answer):
    assert verdict("chapter15.smoothed_loss", answer).passed


def test_truth_is_the_loss_of_the_library():
    torch.manual_seed(0)
    logits, target = torch.randn(3, 5, 11), torch.randint(0, 11, (3, 5))
    for epsilon in (0.0, 0.1, 0.5):
        ours, library = smoothed_loss(logits, target, epsilon), cross_entropy(logits, target, epsilon)
        assert torch.allclose(ours, library, atol=1e-6)


def annotated(logits, target, epsilon):
    """ε to the others only, as in the Annotated Transformer."""
    vocab = logits.shape[-1]
    q = torch.full_like(logits, epsilon / (vocab - 1)).scatter(-1, target[..., None], 1 - epsilon)
    return -(q * logits.log_softmax(-1)).sum(-1)[target != 0].mean()


def with_q(true_share, share):
    """A loss whose target is `share` everywhere, and `true_share` more at the true token."""

    def loss(logits, target, epsilon):
        vocab = logits.shape[-1]
        q = true_share(epsilon, vocab) * F.one_hot(target, vocab) + share(epsilon, vocab)
        return -(q * logits.log_softmax(-1)).sum(-1)[target != 0].mean()

    return loss


def smooth_p(logits, target, epsilon):
    p = (1 - epsilon) * logits.softmax(-1) + epsilon / logits.shape[-1]
    return F.nll_loss(p.log().flatten(0, -2), target.flatten(), ignore_index=0)


def ignoring_padding_in_the_sum_only(logits, target, epsilon):
    return torch_loss(logits, target, epsilon) * (target != 0).float().mean()


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (lambda z, y, e: F.cross_entropy(z.flatten(0, -2), y.flatten(), ignore_index=0), "no smoothing"),
        (annotated, "shared among the others only"),
        (with_q(lambda e, v: 1 - e - e / v, lambda e, v: e / v), "the true token without its share"),
        (with_q(lambda e, v: e, lambda e, v: (1 - e) / v), "epsilon and 1 − epsilon swapped"),
        (with_q(lambda e, v: 1 - e, lambda e, v: e), "not divided by the vocabulary"),
        (smooth_p, "smoothed the prediction"),
        (lambda z, y, e: one_hot_loss(z.exp().log() + z.logsumexp(-1, keepdim=True), y, e) -
         z[y != 0].logsumexp(-1).mean(), "logits as log-probabilities"),
        (lambda z, y, e: -one_hot_loss(z, y, e), "sign"),
        (lambda z, y, e: one_hot_loss(z, y, e) * (y != 0).sum(), "sum"),
        (lambda z, y, e: F.cross_entropy(z.flatten(0, -2), y.flatten(), label_smoothing=e),
         "padding counted"),
        (ignoring_padding_in_the_sum_only, "divided by the padded places too"),
        (lambda z, y, e: one_hot_loss(z, y, e) - 9, "negative loss"),
        (lambda z, y, e: one_hot_loss(z, y, e) + 1, None),
    ],
)  # fmt: skip
def test_loss_names_the_misconception(answer, misconception):
    names_the_misconception("smoothed_loss", answer, misconception)


def test_loss_with_unreduced_positions_is_told_the_shape():
    def answer(logits, target, epsilon):
        return F.cross_entropy(logits.flatten(0, -2), target.flatten(), reduction="none")

    assert "shape ()" in verdict("chapter15.smoothed_loss", answer).en


# ---------------------------------------------------------------------- learning_rate


def right_rate(step, d_model, warmup_steps):
    if step < warmup_steps:
        return step / (math.sqrt(d_model) * warmup_steps**1.5)
    return 1 / math.sqrt(d_model * step)


def test_rate_solution():
    assert verdict("chapter15.learning_rate", right_rate).passed


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (lambda s, d, w: max(s**-0.5, s * w**-1.5) / math.sqrt(d), "max for min"),
        (lambda s, d, w: min(s**-0.5, s * w**-1.5), "no d_model"),
        (lambda s, d, w: math.sqrt(d) * min(s**-0.5, s * w**-1.5), "d_model to the power ½"),
        (lambda s, d, w: min((d * s) ** -0.5, s * w**-1.5), "d_model inside the minimum"),
        (lambda s, d, w: d**-0.5 * min(s**-0.5, s / w**0.5), "warm-up to the power −½"),
        (lambda s, d, w: (d * w) ** -0.5 * min(1, s / w), "constant after the warm-up"),
        (lambda s, d, w: d**-0.5 * min(s**-1, s * w**-1.5), "1/step"),
        (lambda s, d, w: right_rate(s - 1, d, w), "counted from zero"),
        (lambda s, d, w: -right_rate(s, d, w), "not positive"),
        (lambda s, d, w: 3 * right_rate(s, d, w), None),
    ],
)
def test_rate_names_the_misconception(answer, misconception):
    names_the_misconception("learning_rate", answer, misconception)


# ---------------------------------------------------------------------- length_penalty


@pytest.mark.parametrize("answer", [[-2, -1.8], (-2.0, -1.80), torch.tensor([-2.0, -1.8])])
def test_length_penalty_solution(answer):
    assert verdict("chapter15.length_penalty", answer).passed


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        ([-3.0, -4.5], "no penalty"),
        ([-0.75, -0.45], "divided by the length"),
        ([-0.333, -0.3], "without the denominator"),
        ([-4.5, -11.25], "multiplied"),
        ([-2.25, -1.93], "<eos> not counted"),
        ([-1.8, -1.69], "<eos> counted twice"),
        ([-1.8, -2.0], "the other order"),
        ([2.0, 1.8], "positive scores"),
        ([-2.0, -2.0], None),
    ],
)
def test_length_penalty_names_the_misconception(answer, misconception):
    names_the_misconception("length_penalty", answer, misconception)


# ---------------------------------------------------------------------- attend_with_cache


def right_attend(query, key, value, past_key, past_value):
    keys, values = torch.cat((past_key, key), 1), torch.cat((past_value, value), 1)
    weights = (query @ keys.transpose(1, 2) / keys.shape[-1] ** 0.5).softmax(2)
    return weights @ values, keys, values


def attend_to(keys, values):
    """An answer that stores what it should and attends to what the two functions make of the cache."""

    def answer(query, key, value, past_key, past_value):
        _, all_keys, all_values = right_attend(query, key, value, past_key, past_value)
        k, v = keys(all_keys), values(all_values)
        return F.scaled_dot_product_attention(query, k, v), all_keys, all_values

    return answer


def causal_step(query, key, value, past_key, past_value):
    keys, values = torch.cat((past_key, key), 1), torch.cat((past_value, value), 1)
    return F.scaled_dot_product_attention(query, keys, values, is_causal=True), keys, values


def unscaled(query, key, value, past_key, past_value):
    keys, values = torch.cat((past_key, key), 1), torch.cat((past_value, value), 1)
    return (query @ keys.mT).softmax(-1) @ values, keys, values


def test_cache_solution_and_stub():
    assert verdict("chapter15.attend_with_cache", right_attend).passed
    assert verdict("chapter15.attend_with_cache", lambda q, k, v, past_k, past_v: ...).outcome == "todo"


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (attend_to(lambda k: k[:, :-1], lambda v: v[:, :-1]), "without the newest token"),
        (attend_to(lambda k: k[:, -1:], lambda v: v[:, -1:]), "only the newest token"),
        (causal_step, "a causal mask that starts at the first key"),
        (unscaled, "no scale"),
        (lambda q, k, v, past_k, past_v: (right_attend(q, k, v, past_k, past_v)[0],
         torch.cat((k, past_k), 1), torch.cat((v, past_v), 1)), "newest first"),
        (lambda q, k, v, past_k, past_v: (right_attend(q, k, v, past_k, past_v)[0], past_k, past_v),
         "cache not extended"),
        (lambda *case: [right_attend(*case)[i] for i in (0, 2, 1)], "values before keys"),
        (lambda *case: right_attend(*case)[0], "only the output"),
        (lambda *case: (right_attend(*case)[0] + 100, *right_attend(*case)[1:]), "output outside the values"),
    ],
)  # fmt: skip
def test_cache_names_the_misconception(answer, misconception):
    names_the_misconception("attend_with_cache", answer, misconception)


def test_cache_written_in_place_is_noticed():
    def answer(query, key, value, past_key, past_value):
        found = right_attend(query, key, value, past_key, past_value)
        past_key[:, -1:] = key
        return found

    assert "changes its argument `past_key`" in verdict("chapter15.attend_with_cache", answer).en


# ---------------------------------------------------------------------- clipped_precision


def ngrams(tokens, n):
    return list(zip(*(tokens[i:] for i in range(n)), strict=False))


def right_precision(hypothesis, reference, n):
    left, hits = ngrams(reference, n), 0
    for ngram in ngrams(hypothesis, n):
        if ngram in left:
            left.remove(ngram)
            hits += 1
    return hits / len(ngrams(hypothesis, n))


def hits(hypothesis, reference, n):
    return right_precision(hypothesis, reference, n) * len(ngrams(hypothesis, n))


def test_precision_solution():
    assert verdict("chapter15.clipped_precision", right_precision).passed


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (lambda h, r, n: sum(g in ngrams(r, n) for g in ngrams(h, n)) / len(ngrams(h, n)), "not clipped"),
        (lambda h, r, n: len({*ngrams(h, n)} & {*ngrams(r, n)}) / len({*ngrams(h, n)}), "distinct n-grams"),
        (lambda h, r, n: len({*ngrams(h, n)} & {*ngrams(r, n)}) / len(ngrams(h, n)),
         "distinct n-grams over all"),
        (lambda h, r, n: hits(h, r, n) / len(ngrams(r, n)), "recall"),
        (lambda h, r, n: sum(a == b for a, b in zip(ngrams(h, n), ngrams(r, n), strict=False))
         / len(ngrams(h, n)), "in place"),
        (lambda h, r, n: hits(h, r, n) / len(h), "divided by the tokens"),
        (lambda h, r, n: 100 * right_precision(h, r, n), "out of range"),
        (lambda h, r, n: sum((Counter(h) & Counter(r)).values()) / len(h), None),
    ],
)  # fmt: skip
def test_precision_names_the_misconception(answer, misconception):
    names_the_misconception("clipped_precision", answer, misconception)


# ---------------------------------------------------------------------- all


def test_no_slip_is_right():
    for exercise in EXERCISES:
        for slip in exercise.slips:
            found = verdict(f"chapter15.{exercise.name}", slip.wrong)
            assert found.misconception == slip.name, (exercise.name, slip.name, found)
