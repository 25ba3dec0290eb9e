"""Attention is what the papers say, equals torch, and gives a clear answer to bad input."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from attnbook import (
    AdditiveAttention,
    DotProductAttention,
    MultiHeadAttention,
    causal_mask,
    padding_mask,
    scaled_dot_product_attention,
)

DTYPES = [(torch.float32, 1e-6), (torch.float64, 1e-14)]


def leaf(*shape, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=dtype, generator=generator, requires_grad=True)


def distance(a, b):
    return (a - b).abs().max().item()


def gradients(loss, *tensors):
    return torch.autograd.grad(loss, tensors)


MASKS = {
    "none": None,
    "causal": causal_mask(5, 7),
    "padding": torch.tensor([[True] * 7, [True] * 4 + [False] * 3])[:, None, None, :],
    "nothing to attend": torch.zeros(5, 7, dtype=torch.bool).index_fill_(0, torch.tensor([1, 3]), True),
}


def test_worked_example_of_three_tokens():
    x = torch.tensor([[1.0, 0.0, 1.0, 0.0], [0.0, 2.0, 0.0, 2.0], [1.0, 1.0, 1.0, 1.0]])
    output, weights = scaled_dot_product_attention(x, x, x)
    by_hand = torch.tensor([[2.0, 0.0, 2.0], [0.0, 8.0, 4.0], [2.0, 4.0, 4.0]]) / 2
    by_hand = by_hand.exp() / by_hand.exp().sum(-1, keepdim=True)
    assert distance(weights, by_hand) < 1e-6
    assert distance(output, by_hand @ x) < 1e-6


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
def test_scaled_dot_product_attention_equals_torch_in_values_and_gradients(name, dtype, tolerance):
    query, key, value = (
        leaf(2, 3, 5, 8, dtype=dtype),
        leaf(2, 3, 7, 8, dtype=dtype),
        leaf(2, 3, 7, 6, dtype=dtype),
    )
    ours, weights = scaled_dot_product_attention(query, key, value, MASKS[name])
    theirs = F.scaled_dot_product_attention(query, key, value, MASKS[name])
    assert weights.shape == (2, 3, 5, 7)
    assert distance(ours, theirs) <= tolerance
    probe = torch.randn_like(ours)
    ours_grad = gradients((ours * probe).sum(), query, key, value)
    theirs_grad = gradients((theirs * probe).sum(), query, key, value)
    assert max(map(distance, ours_grad, theirs_grad)) <= 5 * tolerance


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("name", ["none", "causal", "padding"])
@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
def test_multi_head_attention_equals_torch_in_values_and_gradients(
    bias, need_weights, name, dtype, tolerance
):
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(24, 4, bias=bias, batch_first=True, dtype=dtype)
    if bias:
        nn.init.normal_(theirs.in_proj_bias)
        nn.init.normal_(theirs.out_proj.bias)
    ours = MultiHeadAttention.from_torch(theirs)
    query, key, value = (leaf(2, n, 24, dtype=dtype, seed=n) for n in (5, 7, 8))
    value = value[:, :7]
    mask = MASKS[name]
    # torch's polarity is the opposite of ours, and it wants (batch · heads, query, key).
    their_mask = None if mask is None else (~mask).expand(2, 4, 5, 7).flatten(0, 1)

    output, weights = ours(query, key, value, mask, need_weights)
    expected, expected_weights = theirs(query, key, value, attn_mask=their_mask, average_attn_weights=False)
    assert distance(output, expected) <= tolerance
    assert weights is None if not need_weights else distance(weights, expected_weights) <= tolerance

    probe = torch.randn_like(output)
    ours_grad = gradients((output * probe).sum(), query, key, value, ours.W_o.weight)
    theirs_grad = gradients((expected * probe).sum(), query, key, value, theirs.out_proj.weight)
    assert max(map(distance, ours_grad, theirs_grad)) <= 20 * tolerance
    weight_grad = torch.cat(
        gradients(
            (ours(query, key, value, mask)[0] * probe).sum(),
            ours.W_q.weight,
            ours.W_k.weight,
            ours.W_v.weight,
        )
    )
    expected = theirs(query, key, value, attn_mask=their_mask)[0]
    assert (
        distance(weight_grad, *gradients((expected * probe).sum(), theirs.in_proj_weight)) <= 20 * tolerance
    )


def test_from_torch_copies_dropout_and_mode_and_leaves_the_original_alone():
    theirs = nn.MultiheadAttention(8, 2, dropout=0.25, batch_first=True).eval()
    ours = MultiHeadAttention.from_torch(theirs)
    assert (ours.dropout, ours.training) == (0.25, False)
    with torch.no_grad():
        ours.W_q.weight.zero_()
    assert theirs.in_proj_weight.abs().max() > 0


def test_from_torch_refuses_what_it_cannot_represent():
    for options in ({"kdim": 4}, {"add_bias_kv": True}, {"add_zero_attn": True}):
        with pytest.raises(ValueError, match="module: expected"):
            MultiHeadAttention.from_torch(nn.MultiheadAttention(8, 2, **options))


def test_dropout_acts_in_training_only_and_on_weights_and_fused_path_alike():
    torch.manual_seed(0)
    attention = MultiHeadAttention(16, 2, dropout=0.5)
    x = torch.ones(64, 12, 16) * torch.randn(16)  # equal values: a kept weight of 1/12 doubles, or is dropped
    still = attention.eval()(x, x, x)[0]
    for need_weights in (True, False):
        moving = attention.train()(x, x, x, need_weights=need_weights)[0]
        assert distance(moving, still) > 0.01
        assert distance(moving.mean((0, 1)), still.mean((0, 1))) < 0.1 * still.abs().max()
        assert distance(attention.eval()(x, x, x, need_weights=need_weights)[0], still) < 1e-6


@pytest.mark.parametrize("need_weights", [False, True])
def test_a_query_with_nothing_to_attend_gets_zeros_and_finite_gradients(need_weights):
    attention = MultiHeadAttention(16, 2, bias=False)
    x = leaf(2, 4, 16)
    mask = torch.ones(2, 1, 4, 4, dtype=torch.bool)
    mask[0, :, 2] = False
    mask[1] = False
    output, weights = attention(x, x, x, mask, need_weights)
    assert (output[0, 2] == 0).all()
    assert (output[1] == 0).all()
    assert (output[0, [0, 1, 3]].abs().sum(-1) > 0).all()
    if need_weights:
        assert (weights[0, :, 2] == 0).all()
    for gradient in gradients(output.square().sum(), x, *attention.parameters()):
        assert gradient.isfinite().all()


@settings(max_examples=40, deadline=None)
@given(
    batch=st.integers(1, 3),
    heads=st.integers(1, 4),
    d_k=st.integers(1, 8),
    queries=st.integers(1, 6),
    keys=st.integers(1, 6),
    seed=st.integers(0, 2**16),
)
def test_rows_sum_to_one_or_zero_and_hidden_keys_do_not_matter(batch, heads, d_k, queries, keys, seed):
    torch.manual_seed(seed)
    d_model = heads * d_k
    attention = MultiHeadAttention(d_model, heads).double()
    query, key, value = (torch.randn(batch, n, d_model, dtype=torch.double) for n in (queries, keys, keys))
    mask = torch.rand(batch, 1, queries, keys) < 0.6
    output, weights = attention(query, key, value, mask)
    assert weights.shape == (batch, heads, queries, keys)
    assert torch.allclose(weights.sum(-1), mask.any(-1).double().expand(weights.shape[:-1]))
    assert (weights.masked_select(~mask.expand_as(weights)) == 0).all()
    fused, none = attention(query, key, value, mask, need_weights=False)
    assert none is None
    assert distance(fused, output) < 1e-12

    hidden = ~mask.any(-2).squeeze(1)  # keys that no query of the sentence may attend
    changed = torch.where(hidden[..., None], torch.randn_like(key) * 100, key)
    assert distance(attention(query, changed, changed, mask)[0], attention(query, key, key, mask)[0]) < 1e-12


@settings(max_examples=25, deadline=None)
@given(length=st.integers(1, 8), seed=st.integers(0, 2**16))
def test_the_future_cannot_change_the_past(length, seed):
    torch.manual_seed(seed)
    attention = MultiHeadAttention(8, 2).double()
    x = torch.randn(1, length, 8, dtype=torch.double)
    full = attention(x, x, x, causal_mask(length))[0]
    for end in range(1, length + 1):
        prefix = x[:, :end]
        assert distance(attention(prefix, prefix, prefix, causal_mask(end))[0], full[:, :end]) < 1e-12


@settings(max_examples=25, deadline=None)
@given(length=st.integers(1, 8), seed=st.integers(0, 2**16))
def test_permuting_the_inputs_permutes_self_attention(length, seed):
    torch.manual_seed(seed)
    attention = MultiHeadAttention(8, 2).double()
    x, order = torch.randn(2, length, 8, dtype=torch.double), torch.randperm(length)
    assert distance(attention(x, x, x)[0][:, order], attention(*[x[:, order]] * 3)[0]) < 1e-12


@settings(max_examples=25, deadline=None)
@given(words=st.integers(1, 6), pads=st.integers(0, 6), seed=st.integers(0, 2**16))
def test_padding_is_invisible(words, pads, seed):
    torch.manual_seed(seed)
    attention = MultiHeadAttention(8, 2).double()
    x = torch.randn(1, words + pads, 8, dtype=torch.double)
    tokens = torch.tensor([[5] * words + [0] * pads])
    padded = attention(x, x, x, padding_mask(tokens))[0][:, :words]
    assert distance(padded, attention(*[x[:, :words]] * 3)[0]) < 1e-12


def test_the_three_steps_of_forward_give_forward_and_work_with_a_cache():
    torch.manual_seed(0)
    attention = MultiHeadAttention(16, 4).double()
    x = torch.randn(2, 6, 16, dtype=torch.double)
    full = attention(x, x, x, causal_mask(6))[0]
    keys = values = torch.empty(2, 4, 0, 4, dtype=torch.double)
    for t in range(6):
        token = x[:, t : t + 1]
        k, v = attention.project_key_value(token, token)
        keys, values = torch.cat([keys, k], dim=2), torch.cat([values, v], dim=2)
        output, _ = attention.attend(attention.project_query(token), keys, values, causal_mask(1, t + 1))
        assert distance(output, full[:, t : t + 1]) < 1e-12


def test_scores_of_additive_and_dot_product_attention_are_the_papers():
    torch.manual_seed(0)
    query, key, value = torch.randn(2, 3, 4), torch.randn(2, 5, 6), torch.randn(2, 5, 7)
    additive = AdditiveAttention(4, 6, 8)
    general = DotProductAttention("general", 4, 6)
    for b in range(2):
        for i in range(3):
            e = [
                additive.v.weight[0] @ torch.tanh(additive.W_q.weight @ query[b, i] + additive.W_k.weight @ k)
                for k in key[b]
            ]
            assert distance(additive(query, key, value)[1][b, i], torch.stack(e).softmax(0)) < 1e-6
            e = [query[b, i] @ general.W.weight @ k for k in key[b]]
            assert distance(general(query, key, value)[1][b, i], torch.stack(e).softmax(0)) < 1e-6
    output, weights = DotProductAttention("dot")(query, key[..., :4], value)
    expected = scaled_dot_product_attention(query * math.sqrt(4), key[..., :4], value)
    assert distance(output, expected[0]) < 1e-6
    assert distance(weights, expected[1]) < 1e-6


@pytest.mark.parametrize(
    "attention", [AdditiveAttention(4, 4, 8), DotProductAttention(), DotProductAttention("general", 4)]
)
def test_one_query_or_many_and_a_mask_for_all_scores(attention):
    query, key = leaf(2, 3, 4), leaf(2, 5, 4, seed=1)
    mask = torch.arange(5) < torch.tensor([5, 2])[:, None, None]  # (batch, 1, key)
    output, weights = attention(query, key, key, mask)
    assert (weights[1, :, 2:] == 0).all()
    assert distance(weights.sum(-1), torch.ones(2, 3)) < 1e-6
    assert distance(attention(query[:, 1:2], key, key, mask)[0], output[:, 1:2]) < 1e-6
    nothing = torch.zeros(1, 1, 5, dtype=torch.bool)
    assert (attention(query, key, key, nothing)[0] == 0).all()


def test_causal_mask_lets_each_position_see_itself_and_the_past():
    assert causal_mask(3).tolist() == [[True, False, False], [True, True, False], [True, True, True]]
    assert causal_mask(2, 4).tolist() == [[True, True, True, False], [True, True, True, True]]


def test_padding_mask_is_true_on_words():
    mask = padding_mask(torch.tensor([[4, 9, 0], [7, 0, 0]]))
    assert mask.shape == (2, 1, 1, 3)
    assert mask[:, 0, 0].tolist() == [[True, True, False], [True, False, False]]
    assert padding_mask(torch.tensor([[4, 9]]), pad_id=9)[0, 0, 0].tolist() == [True, False]


x4, x6 = torch.zeros(2, 3, 4), torch.zeros(2, 3, 6)
ATTENTION = MultiHeadAttention(8, 2)
x8 = torch.zeros(2, 3, 8)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: scaled_dot_product_attention([1.0], x4, x4),
            TypeError,
            r"query: expected a tensor, found list",
        ),
        (
            lambda: scaled_dot_product_attention(x4.long(), x4, x4),
            TypeError,
            r"query: expected a floating-point",
        ),
        (
            lambda: scaled_dot_product_attention(x4[0, 0], x4, x4),
            ValueError,
            r"query: expected shape .*found \(4,\)",
        ),
        (
            lambda: scaled_dot_product_attention(x4, x6, x6),
            ValueError,
            r"key: expected shape .*4\), found \(2, 3, 6\)",
        ),
        (
            lambda: scaled_dot_product_attention(x4, x4, x4[:, :2]),
            ValueError,
            r"value: expected shape .*3, d_v",
        ),
        (
            lambda: scaled_dot_product_attention(x4, x4.expand(2, 3, 4)[[0, 0, 0]], x4[[0, 0, 0]]),
            ValueError,
            r"query, key, value: .*\(2,\), \(3,\)",
        ),
        (
            lambda: scaled_dot_product_attention(x4, x4, x4, torch.ones(3, 3)),
            TypeError,
            r"mask: expected dtype torch.bool .*found torch.float32",
        ),
        (
            lambda: scaled_dot_product_attention(x4, x4, x4, [[True]]),
            TypeError,
            r"mask: expected a bool tensor .*found list",
        ),
        (
            lambda: scaled_dot_product_attention(x4, x4, x4, torch.ones(3, 4, dtype=torch.bool)),
            ValueError,
            r"mask: expected .*\(2, 3, 3\), found \(3, 4\)",
        ),
        (
            lambda: MultiHeadAttention(8, 3),
            ValueError,
            r"num_heads: expected a divisor of d_model = 8, found 3",
        ),
        (lambda: MultiHeadAttention(0, 1), ValueError, r"d_model: expected a positive int, found 0"),
        (lambda: MultiHeadAttention(8.0, 2), TypeError, r"d_model: expected a positive int, found 8.0"),
        (
            lambda: MultiHeadAttention(8, 2, dropout=1.0),
            ValueError,
            r"dropout: expected a number in \[0, 1\), found 1.0",
        ),
        (
            lambda: MultiHeadAttention(8, 2, dropout=-0.1),
            ValueError,
            r"dropout: expected a number in \[0, 1\), found -0.1",
        ),
        (lambda: MultiHeadAttention(8, 2, dropout="a"), TypeError, r"dropout: expected a number"),
        (
            lambda: ATTENTION(x4, x8, x8),
            ValueError,
            r"query: expected shape \(batch, query, 8\), found \(2, 3, 4\)",
        ),
        (
            lambda: ATTENTION(x8, x8, x8[:, :2]),
            ValueError,
            r"value: expected shape \(2, 3, 8\), found \(2, 2, 8\)",
        ),
        (
            lambda: ATTENTION(x8, x8[[0, 1, 1]], x8[[0, 1, 1]]),
            ValueError,
            r"query, key: .*\(2, 2\), \(3, 2\)",
        ),
        (
            lambda: ATTENTION(x8, x8, x8, torch.ones(2, 3, 3, 3, dtype=torch.bool)),
            ValueError,
            r"mask: expected .*\(2, 2, 3, 3\)",
        ),
        (
            lambda: ATTENTION(x8, x8, x8, torch.ones(3, 3), need_weights=False),
            TypeError,
            r"mask: expected dtype torch.bool",
        ),
        (
            lambda: DotProductAttention("cosine"),
            ValueError,
            r"score: expected one of 'dot', 'general', found 'cosine'",
        ),
        (lambda: DotProductAttention("general"), ValueError, r"query_size: expected a positive int"),
        (lambda: AdditiveAttention(4, 4, 8)(x6, x4, x4), ValueError, r"query: expected shape"),
        (lambda: AdditiveAttention(4, 4, 8)(x4, x6, x6), ValueError, r"key: expected shape"),
        (lambda: causal_mask(0), ValueError, r"query_length: expected a positive int, found 0"),
        (lambda: causal_mask(3, 2), ValueError, r"key_length: expected at least query_length = 3, found 2"),
        (lambda: padding_mask(x4), TypeError, r"tokens: expected an integer tensor"),
        (
            lambda: padding_mask(torch.tensor([1, 2])),
            ValueError,
            r"tokens: expected shape \(batch, key\), found \(2,\)",
        ),
    ],
)
def test_errors_name_argument_found_and_expected(call, error, message):
    with pytest.raises(error, match=message):
        call()
