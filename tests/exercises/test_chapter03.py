"""Chapter 3's exercises: answers as learners write them, each met by the message for its misconception."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attnbook import RNN
from attnbook.exercises import verdict


def judged(name, answer, misconception):
    found = verdict(f"chapter03.{name}", answer)
    assert not found.passed
    assert found.misconception == misconception


# ---------------------------------------------------------------------- the loop


def written(x, h, W_xh, W_hh, b, *, hand_on=True, bias=True, transpose=True, dim=1, order=1, before=False):
    """As a learner writes it, by index, with the usual places to go wrong."""
    states = torch.zeros(x.shape[0], x.shape[1], len(b), dtype=x.dtype)
    last = h
    for t in range(x.shape[1])[::order]:
        if before:
            states[:, t] = last
        U = W_hh.T if transpose else W_hh
        z = torch.matmul(x[:, t], W_xh.T) + torch.matmul(last if hand_on else h, U)
        last = torch.tanh(z + b if bias else z)
        if not before:
            states[:, t] = last
    return (states if dim == 1 else states.permute(1, 0, 2)), last


def library(x, h, W_xh, W_hh, b):
    network = RNN(x.shape[-1], h.shape[-1]).to(x.dtype)
    with torch.no_grad():
        for name, value in (("weight_ih", W_xh), ("weight_hh", W_hh), ("bias", b)):
            getattr(network.cells[0], name).copy_(value)
        states, last = network(x, h[None])
    return states, last[0]


def torch_cell(x, h, W_xh, W_hh, b):
    cell = nn.RNNCell(x.shape[-1], h.shape[-1], dtype=x.dtype)
    with torch.no_grad():
        cell.weight_ih.copy_(W_xh)
        cell.weight_hh.copy_(W_hh)
        cell.bias_ih.copy_(b)
        cell.bias_hh.zero_()
        states = []
        for x_t in x.transpose(0, 1):
            h = cell(x_t, h)
            states.append(h)
    return torch.stack(states, 1), h


@pytest.mark.parametrize("answer", [written, library, torch_cell])
def test_read_solutions(answer):
    assert verdict("chapter03.read", answer).passed


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (lambda *case: written(*case, hand_on=False), "the state is not handed on"),
        (lambda *case: written(*case, bias=False), "no bias"),
        (lambda *case: written(*case, transpose=False), "W_hh not transposed"),
        (lambda *case: written(*case, dim=0), "time first"),
        (lambda *case: written(*case, order=-1), "backwards"),
        (lambda *case: written(*case, before=True), "states before the step"),
        (lambda x, h, W, U, b: written(x, h * 0, W, U, b), "starts from zero"),
        (lambda *case: written(*case)[0], "only the states"),
        (lambda *case: (written(*case)[0], written(*case)[0][:, 0]), "last state differs"),
        (lambda *case: tuple(2 * part for part in written(*case)), "out of range"),
        (lambda x, h, W, U, b: written(x, h, 2 * W, U, b), None),
    ],
)
def test_read_names_the_misconception(answer, misconception):
    judged("read", answer, misconception)


# ---------------------------------------------------------------------- by hand


def test_by_hand_solutions():
    assert verdict("chapter03.by_hand", [0.76, 0.36, -0.67]).passed
    assert verdict("chapter03.by_hand", np.array([0.7616, 0.3634, -0.6741])).passed


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        ([1, 0.5, -0.75], "no tanh"),
        ([0.76, 0.0, -0.76], "forgets"),
        ([0.76, 0.46, -0.64], "tanh at the end"),
        ([0.76, 0.38, -0.57], "tanh of the input only"),
        ([0.46, 0.43, -0.07], "weight on the input"),
        ([0.76, 0.64, -0.34], "whole state"),
        ([0.73, 0.59, 0.33], "logistic function"),
        ([0.91, 0.42, -0.66], "starts at one"),
        ([0.5, 0.5, 0.5], None),
    ],
)
def test_by_hand_names_the_misconception(answer, misconception):
    judged("by_hand", answer, misconception)


# ---------------------------------------------------------------------- counting


def counted(i, h, o, n):
    """By asking torch, whose cell has a second bias."""
    parts = [nn.Linear(i, h), nn.Linear(h, h, bias=False), nn.Linear(h, o)]
    return sum(p.numel() for part in parts for p in part.parameters())


@pytest.mark.parametrize("answer", [counted, lambda i, h, o, n: float(h * (i + h + 1) + o * (h + 1))])
def test_num_parameters_solutions(answer):
    assert verdict("chapter03.num_parameters", answer).passed


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (lambda i, h, o, n: n * h * (i + h + 1) + o * (h + 1), "weights for every step"),
        (lambda i, h, o, n: n * counted(i, h, o, n), "everything for every step"),
        (lambda i, h, o, n: h * (i + 1) + o * (h + 1), "no recurrent weights"),
        (lambda i, h, o, n: h * (i + h) + o * h, "no biases"),
        (lambda i, h, o, n: h * (i + h + 1) + o * h, "no output bias"),
        (lambda i, h, o, n: h * (i + h) + o * (h + 1), "no bias in the cell"),
        (
            lambda i, h, o, n: sum(
                p.numel() for m in (nn.RNN(i, h), nn.Linear(h, o)) for p in m.parameters()
            ),
            "two biases",
        ),
        (lambda i, h, o, n: h * (i + h + 1), "no output layer"),
        (lambda i, h, o, n: i * h * o, None),
    ],
)
def test_num_parameters_names_the_misconception(answer, misconception):
    judged("num_parameters", answer, misconception)


# ---------------------------------------------------------------------- temperature


def stable(logits, tau):
    e = ((logits - logits.max(dim=-1, keepdim=True).values) / tau).exp()
    return e / e.sum(dim=-1, keepdim=True)


@pytest.mark.parametrize("answer", [stable, lambda logits, tau: F.softmax(logits / tau, dim=-1)])
def test_temperature_solutions(answer):
    assert verdict("chapter03.temperature", answer).passed


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (lambda logits, tau: F.softmax(logits * tau, dim=-1), "multiplied"),
        (lambda logits, tau: F.softmax(logits, dim=-1), "ignored"),
        (
            lambda logits, tau: F.normalize(F.softmax(logits, dim=-1) / tau, p=1, dim=-1),
            "ignored",
        ),
        (lambda logits, tau: F.softmax(logits, dim=-1) / tau, "divided after the softmax"),
        (lambda logits, tau: F.softmax(F.softmax(logits, dim=-1) / tau, dim=-1), "softmax of probabilities"),
        (lambda logits, tau: torch.exp(logits / tau), "not normalised"),
        (lambda logits, tau: torch.exp(logits / tau) / torch.exp(logits / tau).sum(-1, True), "overflow"),
        (lambda logits, tau: F.softmax(logits / tau, dim=0), "over the batch"),
        (lambda logits, tau: stable(logits.reshape(-1), tau).reshape(logits.shape), "over everything"),
        (lambda logits, tau: stable(logits, tau) / 2, "sums are not 1"),
        (lambda logits, tau: stable(logits, tau**2), None),
    ],
)
def test_temperature_names_the_misconception(answer, misconception):
    judged("temperature", answer, misconception)


# ---------------------------------------------------------------------- the loss


def by_hand(logits, tokens, ahead=1, mean=True):
    total, count = 0.0, 0
    for sentence, ids in zip(logits.log_softmax(-1), tokens, strict=True):
        for t in range(len(ids) - ahead):
            total = total - sentence[t, ids[t + ahead]]
            count += 1
    return total / count if mean else total


@pytest.mark.parametrize(
    "answer",
    [by_hand, lambda logits, tokens: F.cross_entropy(logits[:, :-1].transpose(1, 2), tokens[:, 1:])],
)
def test_next_token_loss_solutions(answer):
    assert verdict("chapter03.next_token_loss", answer).passed


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (lambda x, y: by_hand(x, y, ahead=0), "no shift"),
        (lambda x, y: by_hand(x, y, ahead=2), "two steps ahead"),
        (lambda x, y: F.cross_entropy(x[:, 1:].transpose(1, 2), y[:, :-1]), "shifted the other way"),
        (
            lambda x, y: F.cross_entropy(x.transpose(1, 2), torch.cat([y[:, 1:], y[:, :1]], 1)),
            "wraps around",
        ),
        (lambda x, y: by_hand(x, y, mean=False), "sum"),
        (lambda x, y: by_hand(x, y, mean=False) / x.shape[0], "sum over time"),
        (lambda x, y: by_hand(x, y) / math.log(2), "bits"),
        (lambda x, y: by_hand(x, y).exp(), "perplexity"),
        (lambda x, y: by_hand(x.softmax(-1), y), "softmax twice"),
        (lambda x, y: -by_hand(x, y), "sign"),
        (lambda x, y: by_hand(x, y) + 1, None),
    ],
)
def test_next_token_loss_names_the_misconception(answer, misconception):
    judged("next_token_loss", answer, misconception)


@pytest.mark.parametrize("name", ["read", "by_hand", "num_parameters", "temperature", "next_token_loss"])
def test_untouched_stubs_wait(name):
    assert verdict(f"chapter03.{name}", None).outcome == "todo"
