"""Chapter 17's exercises: answers as learners write them, each met by the message for its misconception."""

import math

import pytest
import torch
import torch.nn.functional as F

from attnbook.exercises import verdict


def right_loss(logits, source, target):
    log_probs = logits.log_softmax(-1)
    labels = target.tolist() + [2]
    terms = [log_probs[len(source) + t, label] for t, label in enumerate(labels)]
    return -sum(terms) / len(terms)


def labels_of_everything(source, target):
    return torch.tensor([*source.tolist()[1:], 1, *target.tolist(), 2])


def loss_with_a_mask(logits, source, target):
    labels = labels_of_everything(source, target)
    labels[: len(source)] = -100
    return F.cross_entropy(logits, labels)


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (lambda logits, s, t: F.cross_entropy(logits[-len(t) :], t), "position predicts its own token"),
        (
            lambda logits, s, t: F.cross_entropy(logits[len(s) + 1 :], torch.tensor([*t.tolist()[1:], 2])),
            "first word not predicted",
        ),
        (lambda logits, s, t: F.cross_entropy(logits[len(s) : len(s) + len(t)], t), "without <eos>"),
        (lambda logits, s, t: F.cross_entropy(logits, labels_of_everything(s, t)), "source counted"),
        (lambda logits, s, t: right_loss(logits, s, t) * (len(t) + 1), "summed"),
        (
            lambda logits, s, t: (
                right_loss(logits, s, t) * (len(t) + 1) / (len(s) + 1 + len(t))
            ),
            "mean over everything",
        ),
        (lambda logits, s, t: right_loss(logits, s, t) * (len(t) + 1) / len(t),
         "<eos> not counted in the mean"),
        (
            lambda logits, s, t: (
                -logits[len(s) :].gather(1, torch.tensor([*t.tolist(), 2])[:, None]).mean()
            ),
            "no softmax",
        ),
        (lambda logits, s, t: right_loss(logits, s, t) / math.log(2), "bits"),
        (lambda logits, s, t: -right_loss(logits, s, t), "negative"),
    ],
)  # fmt: skip
def test_loss_names_the_misconception(answer, misconception):
    found = verdict("chapter17.continuation_loss", answer)
    assert not found.passed
    assert found.misconception == misconception


@pytest.mark.parametrize("answer", [right_loss, loss_with_a_mask])
def test_loss_solution(answer):
    assert verdict("chapter17.continuation_loss", answer).passed


def test_loss_stub():
    assert verdict("chapter17.continuation_loss", lambda logits, source, target: ...).outcome == "todo"


def prefix_mask(time, prefix):
    mask = torch.zeros(time, time, dtype=torch.bool)
    for i in range(time):
        for j in range(time):
            mask[i, j] = j <= i or j < prefix and i < prefix
    return mask


def right_prefix(scores, prefix):
    mask = prefix_mask(len(scores), prefix)
    return scores.masked_fill(~mask, -math.inf).softmax(-1)


def with_mask(change):
    def answer(scores, prefix):
        mask = torch.ones_like(scores, dtype=torch.bool).tril()
        mask = change(mask, prefix)
        return torch.nan_to_num(scores.masked_fill(~mask, -math.inf).softmax(-1))

    return answer


def rest_alone(mask, prefix):
    mask[:prefix, :prefix] = True
    mask[prefix:, :prefix] = False
    return mask


def block(mask, prefix, end):
    mask[:prefix, :end] = True
    return mask


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (with_mask(lambda mask, prefix: mask), "only causal"),
        (lambda scores, prefix: torch.softmax(scores, 1), "everyone sees everything"),
        (with_mask(lambda mask, prefix: block(mask, prefix, None)), "the prefix sees the rest"),
        (with_mask(rest_alone), "the rest does not see the prefix"),
        (with_mask(lambda mask, prefix: block(mask.T.clone(), prefix, prefix)), "transposed"),
        (with_mask(lambda mask, prefix: block(mask.tril(-1), prefix, prefix)), "not itself"),
        (with_mask(lambda mask, prefix: block(mask, prefix + 1, prefix + 1)), "prefix one too long"),
        (lambda s, prefix: s.softmax(-1) * prefix_mask(len(s), prefix), "mask after softmax"),
        (
            lambda s, prefix: s.masked_fill(~prefix_mask(len(s), prefix), -1e9).softmax(0),
            "softmax over the queries",
        ),
        (lambda scores, prefix: right_prefix(scores, prefix) / 2, "rows do not sum to 1"),
    ],
)
def test_prefix_attention_names_the_misconception(answer, misconception):
    found = verdict("chapter17.prefix_attention", answer)
    assert not found.passed
    assert found.misconception == misconception


def test_prefix_attention_solution_and_stub():
    assert verdict("chapter17.prefix_attention", right_prefix).passed
    assert verdict("chapter17.prefix_attention", lambda scores, prefix: ...).outcome == "todo"


def right_rms(x, weight, eps):
    return x / torch.sqrt((x**2).sum(-1, keepdim=True) / x.shape[-1] + eps) * weight


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (lambda x, w, eps: F.layer_norm(x, w.shape, w, None, eps), "LayerNorm without a bias"),
        (lambda x, w, eps: right_rms(x, w, eps) * (x - x.mean(-1, True)) / x.where(x != 0, 1), "centred"),
        (lambda x, w, eps: x * w / torch.sqrt(x.var(-1, correction=0, keepdim=True) + eps),
         "standard deviation"),
        (lambda x, w, eps: x * w / ((x * x).mean(-1, keepdim=True) ** 0.5 + eps), "eps outside the root"),
        (lambda x, w, eps: x * w / ((x * x).sum(-1, keepdim=True) + eps) ** 0.5, "length of the vector"),
        (lambda x, w, eps: x * w / ((x * x).mean(-1, keepdim=True) + eps), "no root"),
        (lambda x, w, eps: x / ((x * x).mean(-1, keepdim=True) + eps) ** 0.5, "no weight"),
        (lambda x, w, eps: x * w / torch.sqrt(x.pow(2).mean() + eps), "one number for all tokens"),
        (lambda x, w, eps: x * w / torch.sqrt(x.pow(2).mean(dim=0) + eps), "over the tokens"),
        (lambda x, w, eps: x * w / (x.abs().mean(-1, keepdim=True) + eps), "mean of absolute values"),
    ],
)  # fmt: skip
def test_rms_norm_names_the_misconception(answer, misconception):
    found = verdict("chapter17.rms_norm", answer)
    assert not found.passed
    assert found.misconception == misconception


def test_rms_norm_solution_and_stub():
    assert verdict("chapter17.rms_norm", right_rms).passed
    assert verdict(
        "chapter17.rms_norm", lambda x, weight, eps: F.rms_norm(x, weight.shape, weight, eps)
    ).passed
    assert verdict("chapter17.rms_norm", lambda x, weight, eps: None).outcome == "todo"


def right_grouped(q, k):
    group = q.shape[0] // k.shape[0]
    scores = [q[head] @ k[head // group].T for head in range(len(q))]
    return torch.stack(scores) / q.shape[-1] ** 0.5


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (lambda q, k: torch.stack([q[i] @ k[i % len(k)].T for i in range(len(q))]) / q.shape[-1] ** 0.5,
         "heads in turn"),
        (lambda q, k: torch.stack([q[i] @ k[i % len(k)].T for i in range(len(q))]),
         "heads in turn, no scale"),
        (lambda q, k: right_grouped(q, k) * q.shape[-1] ** 0.5, "no scale"),
        (lambda q, k: q @ k[0].T / q.shape[-1] ** 0.5, "first key head for all"),
        (lambda q, k: q @ k.mean(0).T / q.shape[-1] ** 0.5, "key heads averaged"),
        (lambda q, k: q.reshape(len(k), -1, *q.shape[1:]).mean(1) @ k.mT / q.shape[-1] ** 0.5,
         "query heads averaged"),
        (lambda q, k: right_grouped(q, k) * (q.shape[-1] / q.shape[0]) ** 0.5,
         "scaled by the number of heads"),
    ],
)  # fmt: skip
def test_grouped_scores_name_the_misconception(answer, misconception):
    found = verdict("chapter17.grouped_scores", answer)
    assert not found.passed
    assert found.misconception == misconception


def test_grouped_scores_solution_and_stub():
    assert verdict("chapter17.grouped_scores", right_grouped).passed
    assert verdict("chapter17.grouped_scores", lambda q, k: ...).outcome == "todo"


@pytest.mark.parametrize("answer", [4, 4.0, torch.tensor(4), 4.001])
def test_cache_solution(answer):
    assert verdict("chapter17.cache_gib", answer).passed


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (2, "only keys"),
        (16, "query heads"),
        (8, "four bytes"),
        (32, "bits"),
        (0.125, "one layer"),
        (1, "one sequence"),
        (128, "d_model for each head"),
        (0.5, "one head"),
        (4.295, "GB instead of GiB"),
        (4096, "MiB"),
        (5, None),
    ],
)
def test_cache_names_the_misconception(answer, misconception):
    found = verdict("chapter17.cache_gib", answer)
    assert not found.passed
    assert found.misconception == misconception
