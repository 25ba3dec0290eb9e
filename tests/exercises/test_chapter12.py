"""Chapter 12's exercises: answers as learners write them, each met by the message for its misconception."""

import math

import pytest
import torch
from torch import nn

from attnbook.exercises import verdict
from attnbook.exercises.chapter12 import EXERCISES


def found(name, answer):
    return verdict(f"chapter12.{name}", answer)


def test_loading_the_exercises_leaves_the_random_numbers_alone():
    import importlib

    import attnbook.exercises.chapter12 as chapter

    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    importlib.reload(chapter)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.name)
def test_every_slip_is_recognised_as_itself(exercise):
    for slip in exercise.slips:
        assert found(exercise.name, slip.wrong).misconception == slip.name


# ---------------------------------------------------------------------- split_heads


def right_split(x, num_heads):
    batch, time, d_model = x.shape
    return x.view(batch, time, num_heads, d_model // num_heads).permute(0, 2, 1, 3)


def split_loop(x, num_heads):
    return torch.stack(x.chunk(num_heads, dim=-1), dim=1)


@pytest.mark.parametrize("answer", [right_split, split_loop])
def test_split_heads_solution(answer):
    assert found("split_heads", answer).passed


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (lambda x, h: x.reshape(x.shape[0], h, x.shape[1], -1), "view without transpose"),
        (lambda x, h: x.view(*x.shape[:2], h, -1), "heads behind time"),
        (lambda x, h: torch.stack([x[..., i::h] for i in range(h)], dim=1), "interleaved features"),
        (lambda x, h: x.reshape(*x.shape[:2], -1, h).transpose(1, 2), "sizes swapped"),
        (lambda x, h: right_split(x, h).transpose(-2, -1), "time last"),
        (lambda x, h: torch.cat(x.split(x.shape[-1] // h, dim=-1)), "heads merged into the batch"),
    ],
)
def test_split_heads_names_the_misconception(answer, misconception):
    # with one sentence in the batch, as in the first case, both ways to merge are the same
    assert found("split_heads", answer).misconception == misconception


# ---------------------------------------------------------------------- multi_head


def right_multi_head(x, memory, W_q, W_k, W_v, W_o, num_heads, scale=None, dim=-1):
    """Head by head, as the formula is written."""
    d_k = x.shape[-1] // num_heads
    heads = []
    for i in range(num_heads):
        columns = slice(i * d_k, (i + 1) * d_k)
        q, k, v = x @ W_q[:, columns], memory @ W_k[:, columns], memory @ W_v[:, columns]
        scores = q @ k.mT / (math.sqrt(d_k) if scale is None else scale)
        heads.append(scores.softmax(dim=dim) @ v)
    return torch.cat(heads, dim=-1) @ W_o


def joined_by_reshape(x, memory, W_q, W_k, W_v, W_o, num_heads):
    q, k, v = (right_split(a, num_heads) for a in (x @ W_q, memory @ W_k, memory @ W_v))
    heads = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v
    return heads.reshape(*x.shape) @ W_o


def test_multi_head_solution_and_stub():
    assert found("multi_head", right_multi_head).passed
    assert found("multi_head", lambda *case: ...).outcome == "todo"


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (lambda x, *rest: right_multi_head(x, *rest, scale=x.shape[-1] ** 0.5),
         "scaled by the root of d_model"),
        (lambda *case: right_multi_head(*case, scale=1), "no scale"),
        (lambda x, m, q, k, v, o, h: right_multi_head(x, m, q, k, v, torch.eye(len(o)).to(o), h),
         "no output projection"),
        (joined_by_reshape, "joined without transposing back"),
        (lambda *case: right_multi_head(*case[:-1], 1), "one head"),
        (lambda x, m, *rest: right_multi_head(m, x, *rest), "queries from the memory"),
        (lambda x, m, *rest: right_multi_head(x, x, *rest), "keys and values from x"),
        (lambda *case: right_multi_head(*case, dim=-2), "softmax over the queries"),
        (lambda x, m, q, k, v, o, h: right_multi_head(x, m, q.T, k.T, v.T, o.T, h), "transposed weights"),
        (lambda *case: 2 * right_multi_head(*case), None),
    ],
)  # fmt: skip
def test_multi_head_names_the_misconception(answer, misconception):
    answered = found("multi_head", answer)
    assert not answered.passed
    assert answered.misconception == misconception


# ---------------------------------------------------------------------- parameters


@pytest.mark.parametrize("answer", [1048576, 4 * 512 * 512, 3 * 8 * 512 * 64 + 512 * 512, 2.0**20])
def test_parameters_solution(answer):
    assert found("parameters", answer).passed


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (3 * 512**2, "no output projection"),
        (4 * (512 * 512 + 512), "with biases"),
        (25 * 512**2, "every head as wide as the model"),
        (32 * 512**2, "every head as wide as the model, output projection too"),
        (4 * 512 * 64, "one head only"),
        (3 * 512 * 64, "three projections of one head"),
        (512**2, None),
    ],
)
def test_parameters_names_the_misconception(answer, misconception):
    answered = found("parameters", answer)
    assert not answered.passed
    assert answered.misconception == misconception


# ---------------------------------------------------------------------- additive_mask


def may_attend(tokens, pad_id=0):
    time = tokens.shape[1]
    past = torch.arange(time)[:, None] >= torch.arange(time)  # (query, key)
    return past & (tokens != pad_id)[:, None, None, :]


def right_additive(tokens, pad_id=0):
    return torch.where(may_attend(tokens, pad_id), 0.0, float("-inf"))


def test_additive_mask_solution():
    assert found("additive_mask", right_additive).passed
    assert found("additive_mask", lambda tokens, pad_id=0: may_attend(tokens, pad_id).log()).passed


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (lambda t, p=0: right_additive(t, p).masked_fill(may_attend(t, p), -torch.inf).masked_fill(
            ~may_attend(t, p), 0.0), "upside down"),
        (lambda t, p=0: may_attend(t, p).float(), "ones and zeros"),
        (lambda t, p=0: 1.0 - may_attend(t, p).float(), "zeros and ones"),
        (lambda t, p=0: (1 - may_attend(t, p).float()) * -torch.inf, "zero times infinity"),
        (lambda t, p=0: torch.full((len(t), 1, t.shape[1], t.shape[1]), -torch.inf).triu(1), "causal only"),
        (lambda t, p=0: right_additive(t, p)[:, :, -1:].expand(-1, -1, t.shape[1], -1), "padding only"),
        (lambda t, p=0: right_additive(t, p).clamp(min=-1e9), "a large number"),
        (lambda t, p=0: right_additive(t, p).clamp(min=torch.finfo(torch.float32).min), "the lowest number"),
        (lambda t, p=0: right_additive(t, 0), "padding is always 0"),
        (lambda t, p=0: 3 * may_attend(t, p).float(), "something other than 0 and −∞"),
    ],
)  # fmt: skip
def test_additive_mask_names_the_misconception(answer, misconception):
    answered = found("additive_mask", answer)
    assert not answered.passed
    assert answered.misconception == misconception


def test_a_boolean_mask_is_told_what_it_does_when_it_is_added():
    assert found("additive_mask", may_attend).misconception == "ones and zeros"


# ---------------------------------------------------------------------- polarity


def right_polarity(module, x, mask):
    output, _ = module(x, x, x, attn_mask=mask.logical_not(), need_weights=False)
    return output


def float_polarity(module, x, mask):
    additive = torch.zeros(mask.shape).masked_fill(~mask, -torch.inf)
    return module(x, x, x, attn_mask=additive)[0]


@pytest.mark.parametrize("answer", [right_polarity, float_polarity])
def test_polarity_solution(answer):
    assert found("polarity", answer).passed


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (lambda module, x, mask: right_polarity(module, x, ~mask), "handed over as it is"),
        (lambda module, x, mask: module(x, x, x, attn_mask=mask.to(x))[0], "as ones and zeros"),
        (lambda module, x, mask: module(x, x, x, attn_mask=1 - mask.to(x))[0], "inverted, as ones and zeros"),
        (lambda module, x, mask: module(x, x, x, need_weights=False)[0], "no mask"),
        (lambda module, x, mask: right_polarity(module, x, mask.T), "transposed"),
        (lambda module, x, mask: x, None),
    ],
)
def test_polarity_names_the_misconception(answer, misconception):
    answered = found("polarity", answer)
    assert not answered.passed
    assert answered.misconception == misconception


def test_polarity_with_the_pair_of_results_is_told_to_return_one():
    answered = found("polarity", lambda module, x, mask: module(x, x, x, attn_mask=~mask))
    assert "returns 2" in answered.en


def test_a_torch_module_answers_as_ours_does():
    """The truth of the last exercise is our own attention with the same weights."""
    from attnbook.attention import MultiHeadAttention
    from attnbook.exercises.chapter12 import with_torch

    torch.manual_seed(1)
    module = nn.MultiheadAttention(8, 2, bias=False, batch_first=True)
    x, mask = torch.randn(2, 4, 8), torch.ones(4, 4).tril().bool()
    ours, _ = MultiHeadAttention.from_torch(module)(x, x, x, mask)
    torch.testing.assert_close(with_torch(module, x, mask), ours)
