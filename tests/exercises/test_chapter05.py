"""Chapter 05's exercises: answers as learners write them, each met by the message for its misconception."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from attnbook.exercises import verdict


def lstm_cell(order="ifgo", candidate=torch.tanh, squeeze=torch.tanh, keep=lambda f: f, swapped=False):
    """As a learner writes it, slice by slice, with the usual places to go wrong."""

    def step(a, h, c, U):
        n = h.shape[-1]
        z = a + h @ U.T
        part = {name: z[:, k * n : (k + 1) * n] for k, name in enumerate(order)}
        i, f, o = (1 / (1 + torch.exp(-part[name])) for name in "ifo")
        if swapped:
            i, f = f, i
        c = keep(f) * c + i * candidate(part["g"])
        return o * squeeze(c), c

    return step


def torch_cell(a, h, c, U):
    cell = nn.LSTMCell(1, h.shape[-1], bias=False, dtype=a.dtype)
    with torch.no_grad():
        cell.weight_ih.zero_()
        cell.weight_hh.copy_(U)
    gates = a + h @ U.T
    i, f, g, o = gates.chunk(4, 1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def in_place(a, h, c, U):
    i, f, g, o = (a + h @ U.T).chunk(4, -1)
    c.mul_(f.sigmoid()).add_(i.sigmoid() * g.tanh())
    return o.sigmoid() * c.tanh(), c


@pytest.mark.parametrize("answer", [lstm_cell(), torch_cell])
def test_step_solutions(answer):
    assert verdict("chapter05.step", answer).passed


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (lstm_cell(swapped=True), "forget and input exchanged"),
        (lstm_cell(keep=lambda f: 1 - f), "forgets by the gate"),
        (lstm_cell(order="ifog"), "order i, f, o, g"),
        (lstm_cell(order="figo"), "forget and input exchanged"),
        (lstm_cell(candidate=torch.sigmoid), "candidate by sigmoid"),
        (lstm_cell(squeeze=lambda c: c), "no tanh on the cell"),
        (lambda a, h, c, U: lstm_cell()(a, h * 0, c, U), "no recurrence"),
        (lambda *case: lstm_cell()(*case)[::-1], "cell first"),
        (lambda *case: lstm_cell()(*case)[0], "only h"),
        (lambda a, h, c, U: (lstm_cell()(a, h, c, U)[0] * 3, lstm_cell()(a, h, c, U)[1]), "h out of range"),
        (lstm_cell(keep=lambda f: f / 2), None),
        (in_place, None),
    ],
)
def test_step_names_the_misconception(answer, misconception):
    found = verdict("chapter05.step", answer)
    assert not found.passed
    assert found.misconception == misconception


def test_writing_into_the_state_is_noticed():
    assert "`c`" in verdict("chapter05.step", in_place).en


@pytest.mark.parametrize("answer", [[1.38, 0.44], (1.381, 0.441), np.array([1.3808, 0.4405])])
def test_by_hand_solutions(answer):
    assert verdict("chapter05.by_hand", answer).passed


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        ([0, 0], "gates not squeezed"),
        ([1.5, 0.4526], "candidate not squeezed"),
        ([1.3655, 0.4388], "candidate by sigmoid"),
        ([1.381, 0.690], "cell not squeezed"),
        ([0.441, 1.381], "h first"),
        ([0.381, 0.182], "old cell forgotten"),
        ([2.0, 1.0], None),
    ],
)
def test_by_hand_names_the_misconception(answer, misconception):
    found = verdict("chapter05.by_hand", answer)
    assert not found.passed
    assert found.misconception == misconception


def right_bias(steps):
    return -math.log(2 ** (1 / steps) - 1)


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (lambda steps: 2 ** (-1 / steps), "gate instead of bias"),
        (lambda steps: torch.sigmoid(torch.tensor(0.5 ** (1 / steps))), "sigmoid instead of its inverse"),
        (lambda steps: -right_bias(steps), "sign"),
        (lambda steps: math.log((1 - 0.5 / steps) / (0.5 / steps)), "divided, not to the power"),
        (lambda steps: 0.0, "half at every step"),
        (math.log, "rule of thumb"),
        (lambda steps: right_bias(steps) + 1, None),
    ],
)
def test_forget_bias_names_the_misconception(answer, misconception):
    found = verdict("chapter05.forget_bias", answer)
    assert not found.passed
    assert found.misconception == misconception


def test_forget_bias_solutions():
    assert verdict("chapter05.forget_bias", right_bias).passed
    assert verdict(
        "chapter05.forget_bias", lambda steps: torch.logit(torch.tensor(0.5 ** (1 / steps)))
    ).passed


def by_torch(d, n, layers, cell=nn.LSTM, bias=True):
    return sum(p.numel() for p in cell(d, n, layers, bias=bias).parameters())


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (lambda d, n, layers: by_torch(d, n, layers) - 4 * n * layers, "one bias"),
        (lambda d, n, layers: by_torch(d, n, layers, bias=False), "no bias"),
        (lambda d, n, layers: by_torch(d, n, layers, nn.GRU), "three gates"),
        (lambda d, n, layers: by_torch(d, n, layers, nn.RNN), "one gate"),
        (lambda d, n, layers: layers * by_torch(d, n, 1), "every layer reads the input"),
        (lambda d, n, layers: by_torch(d, n, layers) - 4 * n * n * layers, "no recurrent matrix"),
        (lambda d, n, layers: by_torch(d, n, layers) + 1, None),
    ],
)
def test_lstm_parameters_names_the_misconception(answer, misconception):
    found = verdict("chapter05.lstm_parameters", answer)
    assert not found.passed
    assert found.misconception == misconception


def test_lstm_parameters_solution():
    assert verdict("chapter05.lstm_parameters", by_torch).passed


def by_loop(gates, first=0):
    rows = [torch.stack(list(gates[t + first :])).prod(0) for t in range(len(gates) - first)]
    return torch.stack(rows + [torch.ones_like(gates[0])] * first)


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (lambda gates: gates.cumprod(0), "from the start"),
        (lambda gates: torch.stack([gates[t:].sum(0) for t in range(len(gates))]), "sum"),
        (lambda gates: by_loop(gates).flip(0), "not turned back"),
        (lambda gates: by_loop(gates, first=1), "one step too far"),
        (lambda gates: by_loop(gates.T).T, "over the units"),
        (lambda gates: gates + 0, "not multiplied"),
        (lambda gates: 2 - by_loop(gates), "grows on the way back"),
        (lambda gates: by_loop(gates) ** 2, None),
    ],
)
def test_kept_names_the_misconception(answer, misconception):
    found = verdict("chapter05.kept", answer)
    assert not found.passed
    assert found.misconception == misconception


def test_kept_solution():
    assert verdict("chapter05.kept", by_loop).passed
