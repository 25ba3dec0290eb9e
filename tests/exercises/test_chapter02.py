"""Chapter 02's exercises: answers as learners write them, each met by the message for its misconception."""

import pytest
import torch
from torch import nn

from attnbook.exercises import verdict


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (lambda W_1, b_1, W_2, b_2: (W_1.matmul(W_2), W_2 @ b_1 + b_2), "product in the wrong order"),
        (lambda W_1, b_1, W_2, b_2: (W_2 @ W_1, b_2 + b_1), "b_1 not mapped"),
        (lambda W_1, b_1, W_2, b_2: (W_2 @ W_1, b_2 * 1), "b_1 lost"),
        (lambda W_1, b_1, W_2, b_2: (W_2 @ W_1, W_1 @ b_1 + b_2), "b_1 through its own matrix"),
        (lambda W_1, b_1, W_2, b_2: (W_2 + W_1, W_2 @ b_1 + b_2), "matrices added"),
        (lambda W_1, b_1, W_2, b_2: (W_1.T @ W_2.T, W_2 @ b_1 + b_2), "transposed"),
        (lambda W_1, b_1, W_2, b_2: (W_2 @ W_1 + 1, W_2 @ b_1 + b_2), None),
    ],
)
def test_collapse_names_the_misconception(answer, misconception):
    found = verdict("chapter02.collapse", answer)
    assert not found.passed
    assert found.misconception == misconception


def test_collapse_solution():
    def by_probing(W_1, b_1, W_2, b_2):
        def whole(x):
            return W_2 @ (W_1 @ x + b_1) + b_2

        b = whole(torch.zeros_like(W_1[0]))
        return torch.stack([whole(e) - b for e in torch.eye(W_1.shape[1], dtype=W_1.dtype)], dim=1), b

    assert verdict("chapter02.collapse", by_probing).passed


def softmax_of(shift, dim=-1):
    def answer(z):
        e = (z - shift(z)).exp()
        return e / e.sum(dim=dim, keepdim=True)

    return answer


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (softmax_of(lambda z: 0), "overflow"),
        (softmax_of(lambda z: z.max()), "one maximum for all rows"),
        (softmax_of(lambda z: z.mean(-1, keepdim=True)), "mean subtracted"),
        (softmax_of(lambda z: z.max(), dim=0), "over the first dimension"),
        (lambda z: z.flatten().softmax(0).view_as(z), "over everything"),
        (lambda z: (z - z.max(-1, keepdim=True).values).exp(), "not normalised"),
        (lambda z: z / z.sum(-1, keepdim=True), "no exponential"),
        (lambda z: torch.sigmoid(z), "rows do not sum to 1"),
    ],
)
def test_softmax_names_the_misconception(answer, misconception):
    found = verdict("chapter02.softmax", answer)
    assert not found.passed
    assert found.misconception == misconception


def test_softmax_solution():
    assert verdict("chapter02.softmax", softmax_of(lambda z: z.amax(-1, keepdim=True))).passed
    assert verdict("chapter02.softmax", lambda z: torch.softmax(z, -1)).passed


def by_autograd(x, t, *parameters, loss=lambda error: (error**2).mean()):
    W_1, b_1, W_2, b_2 = (p.clone().requires_grad_() for p in parameters)
    error = torch.tanh(x @ W_1.T + b_1) @ W_2.T + b_2 - t
    return torch.autograd.grad(loss(error), (W_1, b_1, W_2, b_2))


def by_hand(x, t, W_1, b_1, W_2, b_2, slope):
    h = torch.tanh(x @ W_1.T + b_1)
    d = 2 * (h @ W_2.T + b_2 - t) / len(x)
    e = d @ W_2 * slope(h)
    return e.T @ x, e.sum(0), d.T @ h, d.sum(0)


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (lambda *a: by_hand(*a, slope=lambda h: 1), "slope forgotten"),
        (lambda *a: by_hand(*a, slope=lambda h: 1 - h.tanh() ** 2), "slope at h"),
        (lambda *a: by_hand(*a, slope=lambda h: 1 - h), "slope 1 − h"),
        (lambda *a: by_autograd(*a, loss=lambda error: (error**2).mean() / 2), "factor 2"),
        (lambda *a: by_autograd(*a, loss=lambda error: (error**2).sum()), "sum instead of mean"),
        (lambda *a: by_autograd(*a, loss=lambda error: -(error**2).mean()), "sign"),
    ],
)
def test_backward_names_the_misconception(answer, misconception):
    found = verdict("chapter02.backward", answer)
    assert not found.passed
    assert found.misconception == misconception


def test_backward_solutions():
    assert verdict("chapter02.backward", by_autograd).passed
    assert verdict("chapter02.backward", lambda *a: by_hand(*a, slope=lambda h: 1 - h**2)).passed


def layers(sizes):
    return zip(sizes, sizes[1:], strict=False)


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (lambda sizes: sum(a * b for a, b in layers(sizes)), "no biases"),
        (lambda sizes: sum(a * (b + 1) for a, b in layers(sizes)), "a bias for each input"),
        (lambda sizes: sum((a + 1) * b for a, b in layers(sizes)) + sizes[0], "inputs have biases too"),
        (lambda sizes: sum((a + 1) * b for a, b in layers(sizes)) - sizes[-1], "no bias at the output"),
        (lambda sizes: sum(a * b + 1 for a, b in layers(sizes)), "one bias a layer"),
        (lambda sizes: torch.tensor(sizes).prod().item(), "product of all sizes"),
        (lambda sizes: len(sizes), None),
    ],
)
def test_parameters_names_the_misconception(answer, misconception):
    found = verdict("chapter02.parameters", answer)
    assert not found.passed
    assert found.misconception == misconception


def test_parameters_solution():
    def by_torch(sizes):
        return sum(p.numel() for a, b in layers(sizes) for p in nn.Linear(a, b).parameters())

    assert verdict("chapter02.parameters", by_torch).passed


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (lambda z: (torch.relu(z) == 0).float().mean(), "share of zero outputs"),
        (lambda z: (torch.relu(z) == 0).any(0).float().mean(), "silent once"),
        (lambda z: (torch.relu(z) == 0).all(1).float().mean(), "over the units"),
        (lambda z: (torch.relu(z) == 0).all(0).float().sum(), "number instead of share"),
        (lambda z: (torch.relu(z) > 0).any(0).float().mean(), "the living"),
        (lambda z: (z < 0).all(0).float().mean(), "zero counts as alive"),
    ],
)
def test_dead_names_the_misconception(answer, misconception):
    found = verdict("chapter02.dead", answer)
    assert not found.passed
    assert found.misconception == misconception


def test_dead_solution():
    assert verdict("chapter02.dead", lambda z: (z.amax(0) <= 0).to(z.dtype).mean()).passed
