"""Chapter 7's exercises: answers as learners write them, each met by the message for its misconception."""

import math
from bisect import bisect_left
from functools import cache

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from attnbook.exercises import verdict


def slide(x, w, b):
    return [max(0.0, sum(v * u for v, u in zip(w, x[i:], strict=False)) + b) for i in range(len(x) - 1)]


def test_by_hand():
    assert verdict("chapter07.by_hand", slide([1, 2, 0, 2], [2, -1], 1)).passed
    assert verdict("chapter07.by_hand", slide([1, 2, 0, 2], [-1, 2], 1)).misconception == "kernel flipped"
    flipped = np.convolve([1, 2, 0, 2], [2, -1], "valid") + 1
    assert verdict("chapter07.by_hand", flipped.clip(0)).misconception == "kernel flipped"


def by_torch(x, weight, bias):
    return F.conv1d(x.transpose(1, 2), weight, bias).transpose(1, 2)


def by_windows(x, weight, bias):
    windows = x.unfold(1, weight.shape[2], 1)  # (batch, length, inputs, kernel)
    return torch.einsum("btik,oik->bto", windows, weight) + bias


def by_loop(x, weight, bias, bias_for_each=False):
    outputs, kernel = [], weight.shape[2]
    for t in range(x.shape[1] - kernel + 1):
        taps = [x[:, t + j] @ weight[:, :, j].T for j in range(kernel)]
        outputs.append(sum(taps) + bias * (kernel if bias_for_each else 1))
    return torch.stack(outputs, dim=1)


@pytest.mark.parametrize("answer", [by_torch, by_windows, by_loop])
def test_convolve_solutions(answer):
    assert verdict("chapter07.convolve", answer).passed


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (lambda x, w, b: by_torch(x, w.flip(2), b), "kernel flipped"),
        (lambda x, w, b: by_torch(x, w, None), "no bias"),
        (lambda x, w, b: by_loop(x, w, b, bias_for_each=True), "bias at every tap"),
        (lambda x, w, b: F.conv1d(x.mT, w, b), "channels first"),
        (lambda x, w, b: by_torch(F.pad(x, (0, 0, w.shape[2] - 1, 0)), w, b), "causal padding"),
        (lambda x, w, b: by_torch(F.pad(x, (0, 0, 0, w.shape[2] - 1)), w, b), "padding at the end"),
        (lambda x, w, b: F.linear(x, w[..., 0], b), "one tap only"),
        (lambda x, w, b: by_torch(x[:, :-1], w, b), "one position short"),
        (lambda x, w, b: by_torch(x, w, b).relu(), "with ReLU"),
        (lambda x, w, b: by_torch(x, w, b) * 2, None),
    ],
)
def test_convolve_names_the_misconception(answer, misconception):
    found = verdict("chapter07.convolve", answer)
    assert not found.passed
    assert found.misconception == misconception


def padded_and_cut(x, weight, dilation):
    width = (weight.shape[2] - 1) * dilation
    y = F.conv1d(x.mT, weight, padding=width, dilation=dilation)
    return y[..., : x.shape[1]].mT


def shifted(x, weight, dilation):
    kernel, y = weight.shape[2], 0
    for j in range(kernel):
        back = (kernel - 1 - j) * dilation
        y = y + F.pad(x, (0, 0, back, 0))[:, : x.shape[1]] @ weight[..., j].T
    return y


@pytest.mark.parametrize("answer", [padded_and_cut, shifted])
def test_causal_solutions(answer):
    assert verdict("chapter07.causal", answer).passed


def convolved(x, weight, dilation, before, after):
    return F.conv1d(F.pad(x, (0, 0, before, after)).mT, weight, dilation=dilation).mT


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (lambda x, w, d: convolved(x, w, d, 0, (w.shape[2] - 1) * d), "zeros at the end"),
        (lambda x, w, d: convolved(x, w, d, (w.shape[2] - 1) * d // 2, (w.shape[2] - 1) * d // 2), "centred"),
        (lambda x, w, d: convolved(x, w, d, (w.shape[2] - 1) * d + 1, 0)[:, :-1], "strictly the past"),
        (lambda x, w, d: shifted(x, w.flip(-1), d), "kernel flipped"),
        (lambda x, w, d: shifted(x, w, 1), "dilation ignored"),
        (lambda x, w, d: convolved(x, w, d, w.shape[2] - 1, 0), "zeros without the dilation"),
        (lambda x, w, d: convolved(x, w, d, 0, 0), "no padding"),
        (lambda x, w, d: F.conv1d(x.mT, w, padding=(w.shape[2] - 1) * d, dilation=d).mT,
         "both ends padded and not cut"),
    ],
)  # fmt: skip
def test_causal_names_the_misconception(answer, misconception):
    found = verdict("chapter07.causal", answer)
    assert not found.passed
    assert found.misconception == misconception


def counted(kernel, dilations):
    seen = {0}
    for dilation in dilations:
        seen = {i - j * dilation for i in seen for j in range(kernel)}
    return max(seen) - min(seen) + 1


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (lambda k, dilations: counted(k, dilations) - 1, "without itself"),
        (lambda k, dilations: sum(k * d for d in dilations), "kernel times dilations"),
        (lambda k, dilations: 1 + sum(k * d for d in dilations), "one plus kernel times dilations"),
        (lambda k, dilations: counted(k, [1] * len(dilations)), "dilations ignored"),
        (lambda k, dilations: 1 + dilations[-1] * (k - 1), "last layer only"),
        (lambda k, dilations: k ** len(dilations), "power"),
        (lambda k, dilations: math.prod(1 + (k - 1) * d for d in dilations), "product of the windows"),
    ],
)
def test_field_names_the_misconception(answer, misconception):
    found = verdict("chapter07.field", answer)
    assert not found.passed
    assert found.misconception == misconception


def test_field_solution_by_counting():
    assert verdict("chapter07.field", counted).passed


@cache
def fewest(n, kernel):
    plain = 1 + bisect_left(range(1, n), n, key=lambda count: counted(kernel, [1] * count))
    dilated = next(count for count in range(1, n) if kernel**count >= n)
    return plain, dilated


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (lambda n, k: fewest(n, k)[::-1], "exchanged"),
        (lambda n, k: (math.ceil(n / k), fewest(n, k)[1]), "n over k"),
        (lambda n, k: (-(-n // (k - 1)), fewest(n, k)[1]), "n over k minus 1"),
        (lambda n, k: (fewest(n, k)[0], math.ceil(math.log2(n))), "logarithm to base 2"),
        (lambda n, k: ((n - 1) // (k - 1), int(math.log(n, k) + 1e-9)), "rounded down"),
        (lambda n, k: (fewest(n, k)[0], math.ceil(math.log(n) / math.log(k))), "logarithm in floating point"),
        (lambda n, k: (fewest(n, k)[0], fewest(n, k)[0]), "plain for both"),
        (lambda n, k: (fewest(n, k)[1], fewest(n, k)[1]), "dilated for both"),
        (lambda n, k: (n, n), None),
    ],
)
def test_layers_names_the_misconception(answer, misconception):
    found = verdict("chapter07.layers", answer)
    assert not found.passed
    assert found.misconception == misconception


def test_layers_solution_and_stub():
    assert verdict("chapter07.layers", fewest).passed
    assert verdict("chapter07.layers", lambda n, kernel: None).outcome == "todo"
