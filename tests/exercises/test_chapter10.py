"""Chapter 10's exercises: answers as learners write them, each met by the message for its misconception."""

import math

import pytest
import torch
import torch.nn.functional as F

from attnbook.exercises import verdict


def right_layer_norm(x, weight, bias, eps):
    mean = x.mean(dim=-1, keepdim=True)
    std = torch.sqrt(((x - mean) ** 2).mean(dim=-1, keepdim=True) + eps)
    return weight * (x - mean) / std + bias


def annotated(x, weight, bias, eps):
    """As a widely copied implementation has it."""
    mean = x.mean(-1, keepdim=True)
    std = x.std(-1, keepdim=True)
    return weight * (x - mean) / (std + eps) + bias


def eps_outside(x, weight, bias, eps):
    std = x.std(-1, keepdim=True, unbiased=False)
    return weight * (x - x.mean(-1, keepdim=True)) / (std + eps) + bias


def batch_norm(x, weight, bias, eps):
    std = torch.sqrt(x.var(0, unbiased=False) + eps)
    return weight * (x - x.mean(0)) / std + bias


def over_dim_1(x, weight, bias, eps):
    dim = min(1, x.dim() - 1)
    std = torch.sqrt(x.var(dim, keepdim=True, unbiased=False) + eps)
    return weight * (x - x.mean(dim, keepdim=True)) / std + bias


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (annotated, "unbiased, and eps outside the root"),
        (eps_outside, "eps outside the root"),
        (lambda x, w, b, eps: w * (x - x.mean(-1, True)) / (x.var(-1, keepdim=True) + eps) ** 0.5 + b,
         "unbiased variance"),
        (lambda x, w, b, eps: w * (x - x.mean(-1, True)) / x.std(-1, correction=0, keepdim=True) + b,
         "no eps"),
        (lambda x, w, b, eps: w * (x - x.mean(-1, True)) / (x.var(-1, False, keepdim=True) + eps) + b,
         "divided by the variance"),
        (lambda x, w, b, eps: w * x / (x.var(-1, False, keepdim=True) + eps).sqrt() + b,
         "mean not taken out"),
        (lambda x, w, b, eps: F.rms_norm(x, w.shape, w, eps) + b, "RMS norm"),
        (lambda x, w, b, eps: x - x.mean(-1, True), "only centred"),
        (batch_norm, "over dimension 0"),
        (over_dim_1, "over the time steps"),
        (lambda x, w, b, eps: F.layer_norm(x, x.shape[-2:], eps=eps) * w + b, "over time steps and features"),
        (lambda x, w, b, eps: F.layer_norm(x, x.shape, eps=eps) * w + b, "over everything"),
        (lambda x, w, b, eps: F.layer_norm(x, w.shape, eps=eps), "weight and bias not used"),
        (lambda x, w, b, eps: F.layer_norm(x, w.shape, w, eps=eps), "bias not used"),
        (lambda x, w, b, eps: w * (F.layer_norm(x, w.shape, eps=eps) + b), "bias scaled"),
        (lambda x, w, b, eps: x / x.sum(-1, keepdim=True), "scale and shift show"),
    ],
)  # fmt: skip
def test_layer_norm_names_the_misconception(answer, misconception):
    found = verdict("chapter10.layer_norm", answer)
    assert not found.passed
    assert found.misconception == misconception


def test_layer_norm_solution_and_stub():
    assert verdict("chapter10.layer_norm", right_layer_norm).passed
    assert verdict("chapter10.layer_norm", lambda x, w, b, eps: F.layer_norm(x, w.shape, w, b, eps)).passed
    assert verdict("chapter10.layer_norm", lambda x, weight, bias, eps: ...).outcome == "todo"


@pytest.mark.parametrize(
    "answer", [[-1.414, 0, 0, 1.414], (-1.41, 0.0, 0.0, 1.41), torch.tensor([-1.4142, 0, 0, 1.4142])]
)
def test_by_hand_solution(answer):
    assert verdict("chapter10.by_hand", answer).passed


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        ([-1.225, 0, 0, 1.225], "unbiased"),
        ([-20, 0, 0, 20], "only centred"),
        ([-0.1, 0, 0, 0.1], "divided by the variance"),
        ([0.707, 2.121, 2.121, 3.536], "not centred"),
        ([-0.707, 0, 0, 0.707], "sum instead of mean"),
        ([-2, 0, 0, 2], "mean absolute deviation"),
        ([0.302, 0.905, 0.905, 1.508], "RMS norm"),
        ([1.414, 0, 0, 1.414], "not mean 0"),
        ([1.414, 0, 0, -1.414], None),
    ],
)
def test_by_hand_names_the_misconception(answer, misconception):
    found = verdict("chapter10.by_hand", answer)
    assert not found.passed
    assert found.misconception == misconception


def right_orders(x, sublayer, norm):
    return norm(x + sublayer(x)), x + sublayer(norm(x))


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (lambda x, f, ln: right_orders(x, f, ln)[::-1], "orders exchanged"),
        (lambda x, f, ln: (ln(x + f(x)), ln(x) + f(ln(x))), "the norm is added"),
        (lambda x, f, ln: (x + ln(f(x)), x + f(ln(x))), "only the branch is normalised"),
        (lambda x, f, ln: (ln(f(x)), f(ln(x))), "no residual"),
        (lambda x, f, ln: (x + ln(x + f(x)), x + f(ln(x))), "x added after the norm"),
        (lambda x, f, ln: (ln(x + f(x)), ln(x + f(ln(x)))), "normalised twice"),
        (lambda x, f, ln: (ln(x + f(x)), f(x) + x), "F sees x in pre"),
        (lambda x, f, ln: (ln(x + f(x)), ln(f(x) + x)), "post twice"),
        (lambda x, f, ln: (x, x), None),
    ],
)
def test_both_orders_names_the_misconception(answer, misconception):
    found = verdict("chapter10.both_orders", answer)
    assert not found.passed
    assert found.misconception == misconception


def test_both_orders_solution_and_stub():
    assert verdict("chapter10.both_orders", right_orders).passed
    assert verdict("chapter10.both_orders", lambda x, sublayer, norm: (..., ...)).outcome == "todo"


def test_both_orders_with_one_result_says_so():
    found = verdict("chapter10.both_orders", lambda x, sublayer, norm: norm(x + sublayer(x)))
    assert "Return `(post, pre)`" in found.en


def test_both_orders_that_adds_in_place():
    def answer(x, sublayer, norm):
        post = norm(x + sublayer(x))
        x += sublayer(norm(x))
        return post, x

    assert "changes its argument `x`" in verdict("chapter10.both_orders", answer).en


def by_autograd(slopes):
    x = torch.ones((), dtype=slopes.dtype, requires_grad=True)
    plain = residual = x
    for w in slopes:
        plain, residual = w * plain, residual + w * residual
    return tuple(torch.autograd.grad(y, x)[0] for y in (plain, residual))


def test_paths_solution_and_stub():
    assert verdict("chapter10.paths", by_autograd).passed
    assert verdict("chapter10.paths", lambda slopes: (slopes.prod(), (slopes + 1).prod())).passed
    assert verdict("chapter10.paths", lambda slopes: ...).outcome == "todo"


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (lambda w: ((w + 1).prod(), w.prod()), "order of the results"),
        (lambda w: (w.prod(), 1 + w.sum()), "first order only"),
        (lambda w: (w.prod(), w.prod() + 1), "one for the whole stack"),
        (lambda w: (w.sum(), (w + 1).sum()), "sums"),
        (lambda w: (w.prod(), w.prod() + w.numel()), "residual without the product"),
        (lambda w: (w.abs().prod(), (w.abs() + 1).prod()), "absolute values"),
    ],
)
def test_paths_names_the_misconception(answer, misconception):
    found = verdict("chapter10.paths", answer)
    assert not found.passed
    assert found.misconception == misconception


@pytest.mark.parametrize("answer", [1.19, 2**0.25, math.sqrt(math.sqrt(2)), torch.tensor(1.189)])
def test_scale_solution(answer):
    assert verdict("chapter10.scale", answer).passed


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (1.414, "one matrix only"),
        (1, "no activation"),
        (2, "the fourth power"),
        (0.84, "inverse"),
        (0.577, "torch's default"),
        (1.3, None),
    ],
)
def test_scale_names_the_misconception(answer, misconception):
    found = verdict("chapter10.scale", answer)
    assert not found.passed
    assert found.misconception == misconception
