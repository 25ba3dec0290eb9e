"""Chapter 4's exercises: answers as learners write them, each met by the message for its misconception."""

import math

import pytest
import torch

from attnbook.exercises import verdict


def test_by_hand_is_what_autograd_says():
    w = torch.tensor(3.0, requires_grad=True)
    h, loss = torch.tensor(0.0), 0.0
    for x in (1.0, 2.0, 1.0):
        h = w * h + x
        loss = loss + h
    loss.backward()
    assert verdict("chapter04.by_hand", w.grad.item()).passed
    assert verdict("chapter04.by_hand", loss.item()).misconception == "the loss itself"


def with_torch(z, W_hh):
    a = z - W_hh @ torch.zeros_like(z)
    return torch.autograd.functional.jacobian(lambda h: torch.tanh(a + W_hh @ h), torch.zeros_like(z))


def with_diag(z, W_hh):
    return torch.diag(1 - torch.tanh(z) ** 2) @ W_hh


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (lambda z, W_hh: torch.diag(1 - torch.tanh(torch.tanh(z)) ** 2) @ W_hh, "derivative at h"),
        (lambda z, W_hh: torch.diag(1 - z * z) @ W_hh, "1 - z squared"),
        (lambda z, W_hh: W_hh @ torch.diag(1 - torch.tanh(z) ** 2), "columns scaled"),
        (lambda z, W_hh: W_hh.T @ torch.diag(1 - torch.tanh(z) ** 2), "transposed"),
        (lambda z, W_hh: torch.eye(len(z), dtype=z.dtype) @ W_hh, "no derivative of the activation"),
        (lambda z, W_hh: torch.diag(torch.tanh(z)) @ W_hh, "tanh, not its derivative"),
        (lambda z, W_hh: torch.diag(1 - torch.tanh(z)) @ W_hh, "no square"),
        (lambda z, W_hh: torch.diag(torch.sigmoid(z) * torch.sigmoid(-z)) @ W_hh, "sigmoid"),
        (lambda z, W_hh: W_hh @ (1 - torch.tanh(z) ** 2), "matrix product with the vector"),
        (lambda z, W_hh: 2 * with_diag(z, W_hh), None),
    ],
)
def test_step_jacobian_names_the_misconception(answer, misconception):
    found = verdict("chapter04.step_jacobian", answer)
    assert not found.passed
    assert found.misconception == misconception


@pytest.mark.parametrize("answer", [with_torch, with_diag])
def test_step_jacobian_solutions(answer):
    assert verdict("chapter04.step_jacobian", answer).passed


def double_sum(h, W_hh, dL_dh):
    """The formula as it stands: a term for each pair k ≤ t."""
    gradient = torch.zeros_like(W_hh)
    for t in range(1, len(h)):
        row = dL_dh[t - 1]
        for k in range(t, 0, -1):
            row = row * (1 - h[k] ** 2)
            gradient += torch.outer(row, h[k - 1])
            row = row @ W_hh
    return gradient


def by_autograd(h, W_hh, dL_dh):
    W, state, loss = W_hh.clone().requires_grad_(), h[0], 0.0
    for before, after, upstream in zip(h[:-1], h[1:], dL_dh, strict=True):
        state = torch.tanh(torch.atanh(after) - W_hh @ before + W @ state)
        loss = loss + (upstream * state).sum()
    return torch.autograd.grad(loss, W)[0]


@pytest.mark.parametrize("answer", [double_sum, by_autograd])
def test_bptt_solutions(answer):
    assert verdict("chapter04.bptt", answer).passed


def immediate_only(h, W_hh, dL_dh):
    return sum(torch.outer(g * (1 - now**2), past) for g, now, past in zip(dL_dh, h[1:], h[:-1], strict=True))


def last_loss(h, W_hh, dL_dh):
    only = torch.zeros_like(dL_dh)
    only[-1] = dL_dh[-1]
    return double_sum(h, W_hh, only)


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (immediate_only, "nothing is carried"),
        (last_loss, "only the last loss"),
        (lambda h, W, g: double_sum(h, W, g).T, "outer product transposed"),
        (lambda h, W, g: double_sum(h, torch.eye(len(W)).to(W), g), "carried without the matrix"),
        (lambda h, W, g: double_sum(h, W.T, g), "carried with the transpose"),
        (lambda h, W, g: -double_sum(h, W, g), None),
    ],
)  # fmt: skip
def test_bptt_names_the_misconception(answer, misconception):
    found = verdict("chapter04.bptt", answer)
    assert not found.passed
    assert found.misconception == misconception


def test_norms_of_numpy():
    W = torch.tensor([[0.0, 2.0], [0.5, 0.0]])
    radius, norm = torch.linalg.eigvals(W).abs().max(), torch.linalg.svdvals(W)[0]
    assert verdict("chapter04.norms", [radius, norm, 0.25 * norm]).passed
    found = verdict("chapter04.norms", [radius, W.norm(), W.norm() / 4])
    assert found.misconception == "Frobenius norm"


def as_torch(dW, db, max_norm):
    parameters = [torch.nn.Parameter(torch.zeros_like(g)) for g in (dW, db)]
    for parameter, gradient in zip(parameters, (dW, db), strict=True):
        parameter.grad = gradient.clone()
    torch.nn.utils.clip_grad_norm_(parameters, max_norm)
    return tuple(parameter.grad for parameter in parameters)


def scaled(dW, db, max_norm, length):
    return tuple(g * min(1.0, max_norm / length(dW, db)) for g in (dW, db))


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (lambda a, b, m: (torch.clip(a, -m, m), torch.clip(b, -m, m)), "element by element"),
        (lambda a, b, m: (as_torch(a, a * 0, m)[0], as_torch(b, b * 0, m)[0]), "each by itself"),
        (lambda a, b, m: tuple(m * g / math.hypot(a.norm(), b.norm()) for g in (a, b)), "always scaled"),
        (lambda a, b, m: scaled(a, b, m, lambda a, b: a.norm() + b.norm()), "sum of the two lengths"),
        (lambda a, b, m: scaled(a, b, m, lambda a, b: a.norm() ** 2 + b.norm() ** 2), "no square root"),
        (lambda a, b, m: scaled(a, b, m, lambda a, b: max(a.abs().max(), b.abs().max())),
         "limit on the largest element"),
        (lambda a, b, m: (a, b), "too long"),
        (lambda a, b, m: (0.01 * a, 0.02 * b), "direction changed"),
    ],
)  # fmt: skip
def test_clip_names_the_misconception(answer, misconception):
    found = verdict("chapter04.clip", answer)
    assert not found.passed
    assert found.misconception == misconception


def test_clip_solution_and_stub():
    assert verdict("chapter04.clip", as_torch).passed
    assert verdict("chapter04.clip", lambda dW, db, max_norm: ...).outcome == "todo"
