"""Chapter 08's exercises: answers as learners write them, each met by the message for its misconception."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence

from attnbook.exercises import verdict
from attnbook.training.losses import cross_entropy


def loss_by_loops(logits, target):
    """As a learner may write it, word by word."""
    total, words = 0.0, 0
    for sentence, scores in zip(target, logits, strict=True):
        for t in range(len(sentence) - 1):
            if sentence[t + 1] != 0:
                total = total - torch.log_softmax(scores[t], dim=0)[sentence[t + 1]]
                words += 1
    return total / words


def loss_by_one_hot(logits, target):
    labels = target[:, 1:]
    log_p = logits[:, :-1].log_softmax(-1)
    one_hot = F.one_hot(labels, logits.shape[-1]).to(log_p.dtype)
    return -(log_p * one_hot)[labels != 0].sum() / (labels != 0).sum()


@pytest.mark.parametrize(
    "answer",
    [
        loss_by_loops,
        loss_by_one_hot,
        lambda logits, target: cross_entropy(logits[:, :-1], target[:, 1:]),
        lambda logits, target: F.cross_entropy(logits[:, :-1].mT, target[:, 1:], ignore_index=0),
    ],
)
def test_teacher_loss_solutions(answer):
    assert verdict("chapter08.teacher_loss", answer).passed


def loss(logits, labels, **options):
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), **options)


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (lambda logits, target: loss(logits, target, ignore_index=0), "not shifted"),
        (
            lambda logits, target: loss(logits[:, 1:], target[:, 1:], ignore_index=0),
            "bos left out, not shifted",
        ),
        (lambda logits, target: loss(logits[:, 1:], target[:, :-1], ignore_index=0), "shifted backwards"),
        (lambda logits, target: loss(logits[:, :-1], target[:, 1:]), "padding counts"),
        (
            lambda logits, target: loss(
                logits[:, :-1], target[:, 1:], ignore_index=0, reduction="none"
            ).mean(),
            "padding in the divisor",
        ),
        (
            lambda logits, target: loss(logits[:, :-1], target[:, 1:], ignore_index=0, reduction="sum"),
            "summed",
        ),
        (
            lambda logits, target: (
                loss(logits[:, :-1], target[:, 1:], ignore_index=0, reduction="sum") / logits.shape[0]
            ),
            "divided by sentences",
        ),
        (
            lambda logits, target: torch.stack(
                [loss_by_loops(logits[i : i + 1], target[i : i + 1]) for i in range(len(target))]
            ).mean(),
            "mean of means",
        ),
        (lambda logits, target: loss_by_loops(logits.softmax(-1), target), "softmax twice"),
        (
            lambda logits, target: (
                -torch.stack(
                    [
                        logits[i, t, target[i, t + 1]]
                        for i in range(len(target))
                        for t in range(target.shape[1] - 1)
                        if target[i, t + 1] != 0
                    ]
                ).mean()
            ),
            "no softmax",
        ),
        (lambda logits, target: -loss_by_loops(logits, target), "sign"),
        (lambda logits, target: -1 - loss_by_loops(logits, target), "padding is visible"),
        (lambda logits, target: 1 + loss_by_loops(logits, target), None),
    ],
)
def test_teacher_loss_names_the_misconception(answer, misconception):
    found = verdict("chapter08.teacher_loss", answer)
    assert not found.passed
    assert found.misconception == misconception


def gathered(outputs, lengths):
    index = (lengths - 1)[:, None, None].expand(-1, 1, outputs.shape[-1])
    return outputs.gather(1, index).squeeze(1)


def packed(outputs, lengths):
    """The last row of each sequence in the order of packing."""
    sequence = pack_padded_sequence(outputs, lengths, batch_first=True, enforce_sorted=False)
    padded, _ = torch.nn.utils.rnn.pad_packed_sequence(sequence, batch_first=True)
    return torch.stack([row[length - 1] for row, length in zip(padded, lengths, strict=True)])


@pytest.mark.parametrize("answer", [gathered, packed])
def test_last_state_solutions(answer):
    assert verdict("chapter08.last_state", answer).passed


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (lambda outputs, lengths: outputs[:, -1, :], "last position"),
        (
            lambda outputs, lengths: gathered(outputs, lengths.clamp(max=outputs.shape[1] - 1) + 1),
            "one too far",
        ),
        (lambda outputs, lengths: gathered(outputs, (lengths - 1).clamp(min=1)), "one too early"),
        (lambda outputs, lengths: outputs[:, 0], "first position"),
        (
            lambda outputs, lengths: torch.stack(
                [row[:n].mean(0) for row, n in zip(outputs, lengths, strict=True)]
            ),
            "mean of the words",
        ),
        (lambda outputs, lengths: outputs[:, max(lengths) - 1], "the longest for all"),
        (lambda outputs, lengths: outputs[:, lengths[0] - 1], "the first one's length for all"),
        (lambda outputs, lengths: outputs[:, lengths - 1, :], "every pair"),
        (lambda outputs, lengths: gathered(outputs, lengths) * 2, None),
    ],
)
def test_last_state_names_the_misconception(answer, misconception):
    found = verdict("chapter08.last_state", answer)
    assert not found.passed
    assert found.misconception == misconception


def reversed_in_a_loop(x, lengths, end=0):
    result = x.clone()
    for i, n in enumerate(lengths.tolist()):
        for t in range(n - end):
            result[i, t] = x[i, n - end - 1 - t]
    return result


def reversed_by_indices(x, lengths):
    time = torch.arange(x.shape[1])
    order = lengths[:, None] - 1 - time
    return x[torch.arange(len(x))[:, None], torch.where(order >= 0, order, time)]


def reversed_in_place(x, lengths):
    for i, n in enumerate(lengths.tolist()):
        x[i, :n] = x[i, :n].flip(0)
    return x


@pytest.mark.parametrize("answer", [reversed_in_a_loop, reversed_by_indices])
def test_reverse_solutions(answer):
    assert verdict("chapter08.reverse", answer).passed


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (lambda x, lengths: torch.flip(x, dims=[1]), "padding first"),
        (lambda x, lengths: torch.flip(x, dims=[-1]), "features"),
        (lambda x, lengths: torch.flip(x, dims=[0]), "sentences"),
        (lambda x, lengths: x * 1, "unchanged"),
        (lambda x, lengths: reversed_in_a_loop(x, lengths, end=1), "last word stays"),
        (reversed_in_place, None),
        (lambda x, lengths: -reversed_in_a_loop(x, lengths), None),
    ],
)
def test_reverse_names_the_misconception(answer, misconception):
    found = verdict("chapter08.reverse", answer)
    assert not found.passed
    assert found.misconception == misconception


def decode(
    step, state, max_len, feeds="own", keeps_state=False, stops=True, start=(), end=False, most=0, low=False
):
    """As a learner writes it, with the usual places to go wrong."""
    ids, token = list(start), 1
    for _ in range(max_len + most):
        logits, new_state = step(1 if feeds == "bos" else token, state)
        if not keeps_state:
            state = new_state
        token = (logits.argmin() if low else logits.argmax()).item()
        if token == 2 and stops:
            return torch.tensor([*ids, 2] if end else ids)
        ids += [token]
    return torch.tensor(ids)


def as_tensors(step, state, max_len):
    """Tokens stay tensors on their way round."""
    token, ids = torch.tensor(1), []
    while len(ids) < max_len:
        logits, state = step(token, state)
        token = logits.argmax(-1)
        if token == 2:
            break
        ids.append(token)
    return torch.stack(ids)


@pytest.mark.parametrize("answer", [decode, as_tensors])
def test_greedy_solutions(answer):
    assert verdict("chapter08.greedy", answer).passed


@pytest.mark.parametrize(
    ("options", "misconception"),
    [
        ({"feeds": "bos"}, "always fed with bos"),
        ({"keeps_state": True}, "old state"),
        ({"end": True}, "keeps eos"),
        ({"start": [1]}, "keeps bos"),
        ({"start": [1], "end": True}, "keeps both"),
        ({"stops": False}, "never stops"),
        ({"most": 1}, "one too many"),
        ({"most": -1}, "one too few"),
        ({"low": True}, "least probable"),
        ({"start": [7]}, None),
    ],
)
def test_greedy_names_the_misconception(options, misconception):
    found = verdict("chapter08.greedy", lambda step, state, max_len: decode(step, state, max_len, **options))
    assert not found.passed
    assert found.misconception == misconception


def test_greedy_wants_a_tensor():
    found = verdict("chapter08.greedy", lambda step, state, max_len: decode(step, state, max_len).tolist())
    assert not found.passed
    assert "tensor" in found.en


@pytest.mark.parametrize("answer", [[0.60, 0.21], (0.5987, 0.2146), np.array([0.95**10, 0.95**30])])
def test_by_hand_solutions(answer):
    assert verdict("chapter08.by_hand", answer).passed


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        ([0.21, 0.60], "exchanged"),
        ([0.5, -0.5], "errors added"),
        ([0.95, 0.95], "one word"),
        ([0, 0], "all wrong"),
        ([0.40, 0.79], "some wrong"),
        ([9.5, 28.5], "multiplied by the length"),
        ([0.3, 0.3], None),
    ],
)
def test_by_hand_names_the_misconception(answer, misconception):
    found = verdict("chapter08.by_hand", answer)
    assert not found.passed
    assert found.misconception == misconception
