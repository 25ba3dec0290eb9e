"""Chapter 06's exercises: answers as learners write them, each met by the message for its misconception."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from attnbook.exercises import verdict


def gru_cell(order="rzn", writes=False, candidate=torch.tanh, inside=None, share=None):
    """As a learner writes it, slice by slice, with the usual places to go wrong."""
    inside = inside or (lambda a_n, r, u_n, b: a_n + r * (u_n + b))
    share = share or (lambda z: 1 - z)

    def step(a, h, U, b_hn):
        n = h.shape[-1]
        u = h @ U.T
        rows = {name: slice(k * n, (k + 1) * n) for k, name in enumerate(order)}
        r, z = (1 / (1 + torch.exp(-a[:, rows[name]] - u[:, rows[name]])) for name in "rz")
        new = candidate(inside(a[:, rows["n"]], r, u[:, rows["n"]], b_hn))
        keep, write = (1 - z, z) if writes else (z, share(z))
        return write * new + keep * h

    return step


def reset_before(a, h, U, b_hn):
    n = h.shape[-1]
    r = torch.sigmoid(a[:, :n] + h @ U[:n].T)
    z = torch.sigmoid(a[:, n : 2 * n] + h @ U[n : 2 * n].T)
    return (1 - z) * torch.tanh(a[:, 2 * n :] + (r * h) @ U[2 * n :].T + b_hn) + z * h


def torch_cell(a, h, U, b_hn):
    n = h.shape[-1]
    cell = nn.GRUCell(3 * n, n, dtype=a.dtype)
    with torch.no_grad():
        cell.weight_ih.copy_(torch.eye(3 * n))
        cell.weight_hh.copy_(U)
        cell.bias_ih.zero_()
        cell.bias_hh.copy_(torch.cat([torch.zeros(2 * n, dtype=a.dtype), b_hn]))
    return cell(a, h)


@pytest.mark.parametrize("answer", [gru_cell(), torch_cell])
def test_step_solutions(answer):
    assert verdict("chapter06.step", answer).passed


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (gru_cell(writes=True), "z writes"),
        (gru_cell(order="zrn"), "reset and update exchanged"),
        (reset_before, "reset before"),
        (gru_cell(inside=lambda a, r, u, b: a + r * u + b), "bias not reset"),
        (gru_cell(inside=lambda a, r, u, b: r * (a + u + b)), "input reset too"),
        (gru_cell(inside=lambda a, r, u, b: a + u + b), "no reset"),
        (gru_cell(candidate=torch.sigmoid), "candidate by sigmoid"),
        (gru_cell(share=torch.ones_like), "written in full"),
        (lambda a, h, U, b_hn: gru_cell()(a, h, U, b_hn * 0), "no bias"),
        (gru_cell(candidate=lambda x: 5 + x.abs()), "not between old state and ±1"),
        (gru_cell(candidate=torch.sin), None),
    ],
)
def test_step_names_the_misconception(answer, misconception):
    found = verdict("chapter06.step", answer)
    assert not found.passed
    assert found.misconception == misconception


@pytest.mark.parametrize("answer", [[0.76, 0], (0.7616, 0.0), np.array([0.762, 0.0])])
def test_by_hand_solutions(answer):
    assert verdict("chapter06.by_hand", answer).passed


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        ([0, 0.76], "exchanged"),
        ([1, 0], "no tanh"),
        ([0.964, 0], "second component"),
        ([0.762, -0.762], "column of U"),
        ([0, 0], "never reset"),
        ([0.731, 0.5], "sigmoid"),
        ([0.3, 0.3], None),
    ],
)
def test_by_hand_names_the_misconception(answer, misconception):
    found = verdict("chapter06.by_hand", answer)
    assert not found.passed
    assert found.misconception == misconception


def by_slices(signs):
    def convert(weight):
        n = len(weight) // 3
        result = weight.clone()
        for k, sign in enumerate(signs):
            result[k * n : (k + 1) * n] *= sign
        return result

    return convert


def negates_in_place(weight):
    weight[len(weight) // 3 : 2 * len(weight) // 3] *= -1
    return weight


def one_minus(weight):
    r, z, n = weight.chunk(3)
    return torch.cat([r, 1 - z, n])


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (by_slices((-1, -1, -1)), "all negated"),
        (by_slices((-1, 1, 1)), "r negated"),
        (by_slices((1, 1, -1)), "n negated"),
        (one_minus, "one minus"),
        (lambda weight: torch.cat([weight.chunk(3)[k] for k in (1, 0, 2)]), "blocks exchanged"),
        (by_slices((1, 1, 1)), "unchanged"),
        (by_slices((1, -2, 1)), None),
        (negates_in_place, None),
    ],
)
def test_keep_to_write_names_the_misconception(answer, misconception):
    found = verdict("chapter06.keep_to_write", answer)
    assert not found.passed
    assert found.misconception == misconception


def test_keep_to_write_solution():
    assert verdict("chapter06.keep_to_write", by_slices((1, -1, 1))).passed


def by_root(n, gates=3):
    return math.floor((-n + math.sqrt(n * n + 8 * n * n / gates)) / 2)


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (lambda n: int(n / 3), "a third"),
        (lambda n: math.floor(math.sqrt(n * n / 3)), "root of a third"),
        (lambda n: by_root(n) + 1, "one more"),
        (lambda n: by_root(n, gates=4), "as an LSTM"),
        (lambda n: by_root(n, gates=2), "two gates"),
        (lambda n: math.floor(math.sqrt(2 * n * n / 3)), "no inputs"),
        (lambda n: n, None),
    ],
)
def test_gru_units_names_the_misconception(answer, misconception):
    found = verdict("chapter06.gru_units", answer)
    assert not found.passed
    assert found.misconception == misconception


def test_gru_units_solution():
    assert verdict("chapter06.gru_units", by_root).passed
