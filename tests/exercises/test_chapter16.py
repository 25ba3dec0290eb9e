"""Chapter 16's exercises: answers as learners write them, each met by the message for its misconception."""

import math

import numpy as np
import pytest
import torch

from attnbook.exercises import verdict


def right_flops(n, d, k):
    recurrent = n * 2 * (2 * d * d)
    convolution = n * k * (2 * d * d)
    attention = 2 * (2 * n * n * d)
    return recurrent, convolution, attention


def part(i, factor):
    def answer(n, d, k):
        found = list(right_flops(n, d, k))
        found[i] = factor(n, d, k) * found[i]
        return tuple(found)

    return answer


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (lambda n, d, k: tuple(x / 2 for x in right_flops(n, d, k)), "products only"),
        (part(0, lambda n, d, k: 0.5), "one matrix in the RNN"),
        (part(2, lambda n, d, k: 0.5), "scores only"),
        (part(2, lambda n, d, k: 1 + 2 * d / n), "with the projections"),
        (part(1, lambda n, d, k: 1 / k), "one tap"),
        (lambda n, d, k: right_flops(d, n, k), "n and d exchanged"),
        (lambda n, d, k: tuple(x // n for x in right_flops(n, d, k)), "of one token"),
        (part(1, lambda n, d, k: 2), None),
    ],
)
def test_flops_name_the_misconception(answer, misconception):
    found = verdict("chapter16.count_flops", answer)
    assert not found.passed
    assert found.misconception == misconception


def test_flops_solution_and_stub():
    assert verdict("chapter16.count_flops", right_flops).passed
    assert verdict("chapter16.count_flops", lambda n, d, k: ...).outcome == "todo"
    found = verdict("chapter16.count_flops", lambda n, d, k: right_flops(n, d, k)[:2])
    assert "(recurrent, convolution, attention)" in found.en


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (lambda before, after: after / before, "factor"),
        (lambda before, after: np.log(after) - np.log(before), "natural logarithm"),
        (lambda before, after: math.log10(after / before), "base 10"),
        (lambda before, after: math.log2(before) - math.log2(after), "upside down"),
        (lambda before, after: after / (2 * before), "half the factor"),
        (lambda before, after: after / before - 1, "relative increase"),
        (lambda before, after: 1.0, None),
    ],
)
def test_exponent_names_the_misconception(answer, misconception):
    found = verdict("chapter16.growth_exponent", answer)
    assert not found.passed
    assert found.misconception == misconception


def test_exponent_solution_and_stub():
    assert verdict("chapter16.growth_exponent", lambda a, b: np.log2(b) - np.log2(a)).passed
    assert verdict("chapter16.growth_exponent", lambda a, b: torch.log2(torch.tensor(b / a)).item()).passed
    assert verdict("chapter16.growth_exponent", lambda a, b: None).outcome == "todo"


def right_half(right, total):
    p = right / total
    return 1.96 * (p * (1 - p) / total) ** 0.5


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (lambda r, n: right_half(r, n) / 1.96, "standard error"),
        (lambda r, n: 1.96 * math.sqrt(r / n * (1 - r / n)), "spread of one sentence"),
        (lambda r, n: 1.96 * (r / n * (1 - r / n) / n), "no root"),
        (lambda r, n: 1.96 * math.sqrt(r / n * (1 - r / n)) / n, "N outside the root"),
        (lambda r, n: 1.96 * math.sqrt(r * (1 - r / n)), "of the count"),
        (lambda r, n: 100 * right_half(r, n), "percent"),
        (lambda r, n: 2 * right_half(r, n), "whole width"),
        (lambda r, n: -right_half(r, n), "negative or above 1"),
        (lambda r, n: 0.5, None),
    ],
)
def test_half_width_names_the_misconception(answer, misconception):
    found = verdict("chapter16.half_width", answer)
    assert not found.passed
    assert found.misconception == misconception


def test_half_width_solution_and_stub():
    assert verdict("chapter16.half_width", right_half).passed
    assert verdict("chapter16.half_width", lambda right, total: ...).outcome == "todo"


@pytest.mark.parametrize("answer", [[128, 256], (128.0, 256.0), torch.tensor([128, 256])])
def test_crossings_solution(answer):
    assert verdict("chapter16.crossings", answer).passed


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        ([384, 512], "without the projections"),
        ([256, 512], "scores only"),
        ([512, 768], "multiplications against operations"),
        ([256, 128], "exchanged"),
        ([128, 128], "n = d for both"),
        ([1, 2], "in units of d"),
        ([64, 100], None),
    ],
)
def test_crossings_name_the_misconception(answer, misconception):
    found = verdict("chapter16.crossings", answer)
    assert not found.passed
    assert found.misconception == misconception


def right_widest(budget, inputs, gates):
    # h² + (inputs + 1) h − budget / gates = 0
    b = inputs + 1
    h = int((-b + math.sqrt(b * b + 4 * budget / gates)) / 2)
    return h if gates * (h * h + b * h) <= budget else h - 1


def root(linear, gates, budget):
    return int((-linear + math.sqrt(linear**2 + 4 * budget / gates)) / 2)


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (lambda budget, inputs, gates: right_widest(budget, inputs, 1), "one gate"),
        (lambda budget, inputs, gates: root(1, gates, budget), "no input matrix"),
        (lambda budget, inputs, gates: int(budget / gates / (inputs + 1)), "no recurrent matrix"),
        (lambda budget, inputs, gates: root(inputs + 2, gates, budget), "two biases"),
        (lambda budget, inputs, gates: right_widest(budget, inputs, gates) + 1, "over the budget"),
        (lambda budget, inputs, gates: root(inputs, gates, budget), "no bias"),
        (lambda budget, inputs, gates: 7, None),
    ],
)
def test_widest_names_the_misconception(answer, misconception):
    found = verdict("chapter16.widest", answer)
    assert not found.passed
    assert found.misconception == misconception


def test_widest_solution_and_stub():
    assert verdict("chapter16.widest", right_widest).passed
    assert verdict("chapter16.widest", lambda budget, inputs, gates: ...).outcome == "todo"
