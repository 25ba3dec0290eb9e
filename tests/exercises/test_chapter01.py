"""Chapter 01's exercises: answers as learners write them, each met by the message for its misconception."""

import pytest
import torch
import torch.nn.functional as F

from attnbook.exercises import verdict


def hot(ids, size):
    return F.one_hot(ids, size).float()


def written(value_of):
    """One-hot rows by a loop, with `value_of(id)` written at column id."""

    def answer(ids, size):
        rows = torch.zeros(len(ids), size)
        for row, i in enumerate(ids.tolist()):
            rows[row, i] = value_of(i)
        return rows

    return answer


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (lambda ids, size: hot(ids, size).T, "transposed"),
        (lambda ids, size: hot(ids, size).sum(0), "added up"),
        (written(lambda i: i), "ids in place of ones"),
        (lambda ids, size: hot((ids - 1) % size, size), "counted from one"),
        (lambda ids, size: torch.eye(size), "one row for each id of the vocabulary"),
        (written(lambda i: 2), "not a single 1 in each row"),
    ],
)
def test_one_hot_names_the_misconception(answer, misconception):
    found = verdict("chapter01.one_hot", answer)
    assert not found.passed
    assert found.misconception == misconception


def test_one_hot_solution():
    assert verdict("chapter01.one_hot", written(lambda i: 1)).passed


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (lambda ids, size: hot(ids, size).amax(0), "set instead of bag"),
        (lambda ids, size: hot(ids, size)[len(ids) - 1], "last word only"),
        (lambda ids, size: hot(ids, size).mean(0), "frequencies"),
        (lambda ids, size: (hot(ids, size) * ids[:, None]).sum(0), "sum of the ids"),
        (hot, "not added up"),
        (lambda ids, size: hot(ids, size).sum(1), "added over the vocabulary"),
        (lambda ids, size: hot(ids, size).sum(0) * 2, "counts do not sum to the length"),
    ],
)
def test_bag_names_the_misconception(answer, misconception):
    found = verdict("chapter01.bag", answer)
    assert not found.passed
    assert found.misconception == misconception


def test_bag_solution():
    assert verdict("chapter01.bag", lambda ids, size: torch.bincount(ids, minlength=size).float()).passed


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (lambda E: E.mm(E.T), "dot products"),
        (lambda E: (E @ E.T) / E.norm(dim=1)[:, None], "one length only"),
        (lambda E: (E @ E.T) / torch.outer((E * E).sum(1), (E * E).sum(1)), "squared lengths"),
        (lambda E: F.normalize(E, dim=0) @ F.normalize(E, dim=0).T, "columns normalised"),
        (lambda E: (E @ E.T) / (E * E).sum(), "one length for all"),
        (lambda E: (E[:, None] - E[None]).norm(dim=-1), "distances"),
        (lambda E: F.normalize(E) @ F.normalize(E).T / 2, "diagonal is not 1"),
    ],
)
def test_cosine_names_the_misconception(answer, misconception):
    found = verdict("chapter01.cosine", answer)
    assert not found.passed
    assert found.misconception == misconception


def test_cosine_solution():
    assert verdict("chapter01.cosine", lambda E: F.cosine_similarity(E[:, None], E[None], dim=-1)).passed


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (120, "equal words counted apart"),
        (24, "different words only"),
        (1024, "any word in any place"),
        (10, "choices of places"),
        (30, "divided twice"),
        (5, "number of words"),
        (61, None),
    ],
)
def test_orders_names_the_misconception(answer, misconception):
    found = verdict("chapter01.orders", answer)
    assert not found.passed
    assert found.misconception == misconception


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (0.5, "chance"),
        (0.55, "one answer for all"),
        (0.667, "mean of the rates"),
        (65, "percent"),
        (0.35, "errors"),
        (1, "perfect"),
        (0.6, None),
    ],
)
def test_chance_names_the_misconception(answer, misconception):
    found = verdict("chapter01.chance", answer)
    assert not found.passed
    assert found.misconception == misconception


@pytest.mark.parametrize(("name", "answer"), [("orders", 60), ("chance", 0.65), ("chance", 65 / 100)])
def test_numbers_pass(name, answer):
    assert verdict(f"chapter01.{name}", answer).passed
