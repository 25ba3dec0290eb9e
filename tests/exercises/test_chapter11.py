"""Chapter 11's exercises: answers as learners write them, each met by the message for its misconception."""

import math

import pytest
import torch

from attnbook.exercises import verdict


def right_attention(query, key, value, mask=None):
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = torch.softmax(scores, dim=-1)
    weights = torch.nan_to_num(weights)
    return weights @ value, weights


def attention_stub(query, key, value, mask=None):
    weights = ...
    output = ...
    return output, weights


def no_scale_and_no_mask(query, key, value, mask=None):
    weights = (query @ key.transpose(-2, -1)).softmax(-1)
    return weights @ value, weights


def divided_by_d_k(query, key, value, mask=None):
    weights = (query @ key.transpose(-2, -1) / key.shape[-1]).softmax(-1)
    return weights @ value, weights


def root_of_the_number_of_keys(query, key, value, mask=None):
    weights = (query @ key.transpose(-2, -1) / key.shape[-2] ** 0.5).softmax(-1)
    return weights @ value, weights


def softmax_over_queries(query, key, value, mask=None):
    weights = torch.softmax(query @ key.transpose(-2, -1) / math.sqrt(key.size(-1)), dim=-2)
    return weights @ value, weights


def softmax_over_dim_1(query, key, value, mask=None):
    weights = torch.softmax(query @ key.transpose(-2, -1) / math.sqrt(key.size(-1)), dim=1)
    return weights @ value, weights


def mask_after_softmax(query, key, value, mask=None):
    weights = (query @ key.transpose(-2, -1) / key.size(-1) ** 0.5).softmax(-1)
    if mask is not None:
        weights = weights.masked_fill(mask == 0, 0.0)
    return weights @ value, weights


def inverted_mask(query, key, value, mask=None):
    scores = query @ key.transpose(-2, -1) / key.size(-1) ** 0.5
    if mask is not None:
        scores = scores.masked_fill(mask, -1e9)
    weights = scores.softmax(-1)
    return weights @ value, weights


def masked_with_zero(query, key, value, mask=None):
    scores = query @ key.transpose(-2, -1) / key.size(-1) ** 0.5
    if mask is not None:
        scores = torch.where(mask, scores, 0)
    weights = scores.softmax(-1)
    return weights @ value, weights


def forgot_the_mask(query, key, value, mask=None):
    weights = (query @ key.transpose(-2, -1) / key.size(-1) ** 0.5).softmax(-1)
    return weights @ value, weights


def nan_row(query, key, value, mask=None):
    scores = query @ key.transpose(-2, -1) / key.size(-1) ** 0.5
    if mask is not None:
        scores[(~mask).expand_as(scores)] = -torch.inf
    weights = scores.softmax(-1)
    return weights @ value, weights


def uniform_row(query, key, value, mask=None):
    scores = query @ key.transpose(-2, -1) / key.size(-1) ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = scores.softmax(-1)
    return weights @ value, weights


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (no_scale_and_no_mask, "no scale"),
        (divided_by_d_k, "divided by d_k"),
        (root_of_the_number_of_keys, "root of the number of keys"),
        (softmax_over_queries, "softmax over the queries"),
        (softmax_over_dim_1, "softmax over dim 1"),
        (mask_after_softmax, "mask after softmax"),
        (inverted_mask, "inverted mask"),
        (masked_with_zero, "masked with zero"),
        (forgot_the_mask, "forgot the mask"),
        (nan_row, "NaN where nothing may be attended"),
        (uniform_row, "uniform where nothing may be attended"),
        (lambda *inputs: right_attention(*inputs)[0], "only the output"),
        (lambda *inputs: right_attention(*inputs)[::-1], "weights first"),
        (lambda q, k, v, mask=None: (2 * right_attention(q, k, v)[0], right_attention(q, k, v)[1]),
         "output is not weights @ value"),
        (lambda q, k, v, mask=None: ((s := (q @ k.mT / 2).exp()) @ v, s), "rows do not sum to 1"),
    ],
)  # fmt: skip
def test_attention_names_the_misconception(answer, misconception):
    found = verdict("chapter11.attention", answer)
    assert not found.passed
    assert found.misconception == misconception


def test_attention_solution_and_stub():
    assert verdict("chapter11.attention", right_attention).passed
    assert verdict("chapter11.attention", attention_stub).outcome == "todo"


def test_attention_without_the_mask_parameter_says_so():
    found = verdict("chapter11.attention", lambda query, key, value: right_attention(query, key, value))
    assert "TypeError" in found.details
    assert "takes 3 positional arguments but 4 were given" in found.details


def test_attention_that_scales_its_argument_in_place():
    def answer(query, key, value, mask=None):
        query /= math.sqrt(query.size(-1))
        weights = torch.nan_to_num(
            (query @ key.transpose(-2, -1)).masked_fill(~mask, -torch.inf).softmax(-1)
            if mask is not None
            else (query @ key.transpose(-2, -1)).softmax(-1)
        )
        return weights @ value, weights

    assert "changes its argument `query`" in verdict("chapter11.attention", answer).en


@pytest.mark.parametrize(
    "answer", [[0.24, 0.09, 0.67], (0.245, 0.090, 0.665), torch.tensor([0.2447, 0.09, 0.6652])]
)
def test_hand_example_solution(answer):
    assert verdict("chapter11.hand_example", answer).passed


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        ([0.12, 0.02, 0.87], "no scale"),
        ([0.31, 0.19, 0.51], "divided by d_k"),
        ([2, 0, 4], "raw scores"),
        ([1, 0, 2], "scaled scores"),
        ([0.33, 0, 0.67], "divided by the sum"),
        ([2.718, 1, 7.389], "not normalised"),
        ([0.2, 0.1, 0.7], "rounded too much"),
        ([0.24, 0.24, 0.67], "weights do not sum to 1"),
        ([0.09, 0.24, 0.67], None),
    ],
)
def test_hand_example_names_the_misconception(answer, misconception):
    found = verdict("chapter11.hand_example", answer)
    assert not found.passed
    assert found.misconception == misconception


@pytest.mark.parametrize("answer", [32, 32.0, 4 * math.sqrt(64), torch.tensor(32)])
def test_scale_solution(answer):
    assert verdict("chapter11.scale", answer).passed


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (8, "assumed unit variance"),
        (64, "number of dimensions"),
        (16.0, "only one factor"),
        (1024, "variance"),
        (128, "variance of the components as their deviation"),
        (1 / 32, "the factor, not the divisor"),
        (33, None),
    ],
)
def test_scale_names_the_misconception(answer, misconception):
    found = verdict("chapter11.scale", answer)
    assert not found.passed
    assert found.misconception == misconception


def right_jacobian(p):
    jacobian = torch.empty(len(p), len(p), dtype=p.dtype)
    for i in range(len(p)):
        for j in range(len(p)):
            jacobian[i, j] = p[i] * (int(i == j) - p[j])
    return jacobian


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (lambda p: p * torch.eye(len(p), dtype=p.dtype), "diag(p)"),
        (lambda p: torch.diag(p - p**2), "diagonal only"),
        (lambda p: p[:, None] * p - torch.diag(p), "sign flipped"),
        (lambda p: p[:, None] * p[None, :], "outer product only"),
        (lambda p: -p[:, None] * p, "minus the outer product only"),
        (lambda p: p.diag() + p.outer(p), "sum instead of difference"),
        (lambda p: p - p * p, "product of elements"),
        (lambda p: right_jacobian(p.softmax(0)), "softmax of p"),
        (lambda p: p.diag() - p, "not symmetric"),
        (lambda p: torch.eye(len(p), dtype=p.dtype) - p.outer(p), "rows do not sum to 0"),
        (lambda p: p.diag() - p @ p, "rows do not sum to 0"),
    ],
)
def test_jacobian_names_the_misconception(answer, misconception):
    found = verdict("chapter11.softmax_jacobian", answer)
    assert not found.passed
    assert found.misconception == misconception


def test_jacobian_solution_and_stub():
    assert verdict("chapter11.softmax_jacobian", right_jacobian).passed
    autograd = torch.autograd.functional.jacobian
    assert verdict(
        "chapter11.softmax_jacobian", lambda p: autograd(lambda z: z.softmax(-1), p.log().clamp(min=-1e4))
    ).passed
    assert verdict("chapter11.softmax_jacobian", lambda p: None).outcome == "todo"


def right_entropy(weights):
    logarithm = torch.where(weights > 0, weights, 1).log()
    return -(weights * logarithm).sum(-1)


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (lambda w: (w * w.log()).sum(-1), "sign"),
        (lambda w: -(w * w.log2()).nansum(-1), "bits"),
        (lambda w: -(w * w.log()).sum(-1), "NaN for a weight of zero"),
        (lambda w: -(w * w.log()).nanmean(-1), "mean"),
        (lambda w: -(w * w.log()).sum(0), "sum over the queries"),
        (lambda w: -(w * w.log()).sum(1), "sum over dim 1"),
        (lambda w: -(w * w.log()).sum(), "sum over everything"),
        (lambda w: -w * w.log(), "not summed"),
        (lambda w: -w.log().sum(-1), "no weight in front of the logarithm"),
        (lambda w: right_entropy(w).exp(), "out of range"),
    ],
)
def test_entropy_names_the_misconception(answer, misconception):
    found = verdict("chapter11.entropy", answer)
    assert not found.passed
    assert found.misconception == misconception


def test_entropy_solution_and_stub():
    assert verdict("chapter11.entropy", right_entropy).passed
    assert verdict("chapter11.entropy", lambda w: -(w * (w + 1e-9).log()).sum(-1)).passed
    assert verdict("chapter11.entropy", lambda weights: ...).outcome == "todo"
