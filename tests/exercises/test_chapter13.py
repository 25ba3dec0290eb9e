"""Chapter 13's exercises: answers as learners write them, each met by the message for its misconception."""

import math

import numpy as np
import pytest
import torch

from attnbook.exercises import verdict


@pytest.mark.parametrize(
    "answer",
    [
        [0, 2, 4, 6, 1, 3, 5, 7],
        [*range(0, 8, 2), *range(1, 8, 2)],
        torch.arange(8).reshape(4, 2).T.reshape(-1),
    ],
)
def test_permutation_solution(answer):
    assert verdict("chapter13.permutation", answer).passed


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        ([0, 4, 1, 5, 2, 6, 3, 7], "inverse"),
        (list(range(8)), "identity"),
        (list(range(8))[::-1], "reversed"),
        ([1, 3, 5, 7, 0, 2, 4, 6], "second halves first"),
        ([1, 3, 5, 7, 2, 4, 6, 8], "counted from 1"),
        ([0, 2, 4, 6, 0, 2, 4, 6], "not a permutation"),
        ([0, 1, 4, 5, 2, 3, 6, 7], None),
    ],
)
def test_permutation_names_the_misconception(answer, misconception):
    found = verdict("chapter13.permutation", answer)
    assert not found.passed
    assert found.misconception == misconception


def right_wavelength(i, d_model):
    return 2 * math.pi * 10000 ** (2 * i / d_model)


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (lambda i, d: 10000 ** (2 * i / d), "without 2π"),
        (lambda i, d: 2 * math.pi * 10000 ** (i / d), "exponent i/d"),
        (lambda i, d: 2 * math.pi / 10000 ** (2 * i / d), "shrinks with i"),
        (lambda i, d: 1 / right_wavelength(i, d), "frequency"),
        (lambda i, d: 1 / 10000 ** (2 * i / d), "angular frequency"),
        (lambda i, d: right_wavelength(i - 1, d), "one pair too early"),
        (lambda i, d: right_wavelength(i + 1, d), "one pair too late"),
        (lambda i, d: math.pi * 10000 ** (2 * i / d), None),
    ],
)
def test_wavelength_names_the_misconception(answer, misconception):
    found = verdict("chapter13.wavelength", answer)
    assert not found.passed
    assert found.misconception == misconception


def test_wavelength_solution_and_stub():
    assert verdict("chapter13.wavelength", right_wavelength).passed
    assert verdict("chapter13.wavelength", lambda i, d: torch.tensor(right_wavelength(i, d))).passed
    assert verdict("chapter13.wavelength", lambda i, d: np.float32(right_wavelength(i, d))).passed
    assert verdict("chapter13.wavelength", lambda i, d: None).outcome == "todo"


def encoding(length, d_model, sign=1, step=2, first=0, halves=False, swapped=False):
    """As a learner writes it in numpy, with the usual places to go wrong."""
    position = np.arange(first, first + length)[:, None]
    i = np.arange(d_model // 2)[None, :]
    angle = position / np.power(10000.0, sign * step * i / d_model)
    even, odd = (np.cos(angle), np.sin(angle)) if swapped else (np.sin(angle), np.cos(angle))
    table = np.zeros((length, d_model), dtype=np.float32)
    if halves:
        table[:, : d_model // 2], table[:, d_model // 2 :] = even, odd
    else:
        table[:, 0::2], table[:, 1::2] = even, odd
    return torch.from_numpy(table)


def every_feature_its_own_frequency(length, d_model):
    table = torch.zeros(length, d_model)
    for position in range(length):
        for j in range(d_model):
            angle = position / 10000 ** (j / d_model)
            table[position, j] = math.sin(angle) if j % 2 == 0 else math.cos(angle)
    return table


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (lambda n, d: encoding(n, d, halves=True), "halves, not interleaved"),
        (lambda n, d: encoding(n, d, step=1), "exponent i/d"),
        (lambda n, d: encoding(n, d, step=4), "exponent 4i/d"),
        (lambda n, d: encoding(n, d, swapped=True), "sine and cosine exchanged"),
        (lambda n, d: encoding(n, d, sign=-1), "frequencies upside down"),
        (lambda n, d: encoding(n, d, first=1), "positions from 1"),
        (every_feature_its_own_frequency, "a frequency for each feature"),
        (lambda n, d: encoding(n, d).T, "transposed"),
        (lambda n, d: encoding(n, d, first=2), "position 0"),
        (lambda n, d: encoding(n, d) * torch.arange(n).clamp(max=1)[:, None] * 0.5
         + encoding(n, d) * (torch.arange(n) == 0)[:, None], "not on the circle"),
    ],
)  # fmt: skip
def test_sinusoidal_names_the_misconception(answer, misconception):
    found = verdict("chapter13.sinusoidal", answer)
    assert not found.passed
    assert found.misconception == misconception


def test_sinusoidal_solution_and_stub():
    assert verdict("chapter13.sinusoidal", encoding).passed
    assert verdict("chapter13.sinusoidal", lambda n, d: encoding(n, d).double()).passed
    assert verdict("chapter13.sinusoidal", lambda n, d: encoding(n, d).numpy()).en.endswith(
        "found `ndarray`."
    )
    assert verdict("chapter13.sinusoidal", lambda length, d_model: None).outcome == "todo"


def matrix(angle, sign=1):
    cos, sin = math.cos(angle), sign * math.sin(angle)
    return torch.tensor([[cos, sin], [-sin, cos]])


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (lambda k, omega: matrix(omega * k, sign=-1), "transposed"),
        (lambda k, omega: matrix(omega), "k is missing"),
        (lambda k, omega: matrix(k), "omega is missing"),
        (lambda k, omega: matrix(omega + k), "sum instead of product"),
        (lambda k, omega: matrix(math.radians(omega * k)), "degrees"),
        (lambda k, omega: matrix(omega * k).flip(1), "sines on the diagonal"),
        (lambda k, omega: matrix(omega * k).abs(), "no minus sign"),
        (lambda k, omega: matrix(omega * k) * 2, "not a rotation"),
        (lambda k, omega: matrix(omega * k / 2), None),
    ],
)
def test_rotation_names_the_misconception(answer, misconception):
    found = verdict("chapter13.rotation", answer)
    assert not found.passed
    assert found.misconception == misconception


def test_rotation_solution_and_stub():
    assert verdict("chapter13.rotation", lambda k, omega: matrix(omega * k)).passed
    assert verdict("chapter13.rotation", lambda k, omega: torch.eye(2) * ...).outcome == "todo"
    assert "RuntimeError" not in repr(verdict("chapter13.rotation", lambda k, omega: [[1, 0], [0, 1]]))


def complex_rotary(x, positions, exponent=2, sign=1, conjugate=False):
    """Rotary as complex multiplication, the other usual way to write it."""
    d = x.shape[-1]
    omega = 10000.0 ** (-sign * exponent * torch.arange(d // 2, dtype=torch.float64) / d)
    angle = positions[:, None] * omega * (-1 if conjugate else 1)
    pairs = torch.view_as_complex(x.double().reshape(*x.shape[:-1], d // 2, 2))
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angle), angle)).flatten(-2).to(x.dtype)


def rotate_half(x, positions):
    d = x.shape[-1]
    angle = positions[:, None] * 10000.0 ** (-torch.arange(0, d, 2) / d)
    angle = torch.cat([angle, angle], dim=-1)
    turned = torch.cat([-x[..., d // 2 :], x[..., : d // 2]], dim=-1)
    return (x * angle.cos() + turned * angle.sin()).to(x.dtype)


def written_in_place(x, positions):
    d = x.shape[-1]
    angle = positions[:, None] * 10000.0 ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    y = x.clone()
    y[..., 0::2] = y[..., 0::2] * angle.cos() - y[..., 1::2] * angle.sin()
    y[..., 1::2] = y[..., 0::2] * angle.sin() + y[..., 1::2] * angle.cos()
    return y


def into_the_argument(x, positions):
    x.copy_(complex_rotary(x, positions))
    return x


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (rotate_half, "half-split pairs"),
        (lambda x, p: complex_rotary(x, p, conjugate=True), "opposite direction"),
        (lambda x, p: complex_rotary(x, p, exponent=0), "one angle for all pairs"),
        (lambda x, p: complex_rotary(x, torch.arange(x.shape[-2])), "positions ignored"),
        (lambda x, p: complex_rotary(x, p + 1), "positions off by one"),
        (lambda x, p: complex_rotary(x, p, exponent=1), "exponent i/d"),
        (written_in_place, "overwritten"),
        (lambda x, p: x + encoding(50, x.shape[-1])[p].to(x.dtype), "added, not turned"),
        (lambda x, p: complex_rotary(x, p) * 2, "length changes"),
        (lambda x, p: complex_rotary(x, 2 * p), None),
    ],
)
def test_rotary_names_the_misconception(answer, misconception):
    found = verdict("chapter13.rotary", answer)
    assert not found.passed
    assert found.misconception == misconception


def test_rotary_solution_stub_and_argument_kept():
    assert verdict("chapter13.rotary", complex_rotary).passed
    assert verdict("chapter13.rotary", lambda x, positions: None).outcome == "todo"
    assert "changes its argument `x`" in verdict("chapter13.rotary", into_the_argument).en
