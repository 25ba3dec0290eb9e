"""Norms are the published functions and equal torch; residuals keep both orders apart."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from attnbook.feedforward import FeedForward, num_parameters
from attnbook.normalization import LayerNorm, Residual, RMSNorm, layer_norm, residual, rms_norm

DTYPES = [pytest.param(torch.float32, 1e-6, id="float32"), pytest.param(torch.float64, 1e-14, id="float64")]
TWINS = [
    pytest.param(LayerNorm, nn.LayerNorm, id="LayerNorm"),
    pytest.param(RMSNorm, nn.RMSNorm, id="RMSNorm"),
]


def deviation(ours, theirs):
    """The largest difference, in units of the largest entry where that is above 1."""
    return ((ours - theirs).abs().max() / max(1.0, theirs.abs().max().item())).item()


def with_random_weights(module):
    torch.manual_seed(0)
    for parameter in module.parameters():
        nn.init.normal_(parameter, mean=0.5)
    return module


def spread(rows, features, seed):
    """Random vectors with entries of at least 1, at least 1/2 apart, so that ε does not count."""
    torch.manual_seed(seed)
    order = torch.stack([torch.randperm(features) for _ in range(rows)])
    return 1 + order + torch.rand(rows, features, dtype=torch.float64) / 2


def as_function(norm):
    """The formula that the module `norm` stands for, with the module's weights."""
    if isinstance(norm, LayerNorm):
        return lambda x: layer_norm(x, norm.weight, norm.bias, norm.eps)
    return lambda x: rms_norm(x, norm.weight, norm.eps)


# ---- the norms ----


@pytest.mark.parametrize(("norm", "twin"), TWINS)
@pytest.mark.parametrize("shape", [(8,), (5, 8), (3, 5, 8)])
@pytest.mark.parametrize("eps", [1e-5, 0.1])
@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
def test_module_and_formula_equal_torch_in_values_and_gradients(norm, twin, shape, eps, dtype, tolerance):
    theirs = with_random_weights(twin(8, eps=eps, dtype=dtype))
    ours = norm.from_torch(theirs)
    x = (2 * torch.randn(shape, dtype=dtype) + 1).requires_grad_()
    probe = torch.randn(shape, dtype=dtype)
    expected = theirs(x)
    expected_gradients = torch.autograd.grad((probe * expected).sum(), [x, *theirs.parameters()])
    for function in (ours, as_function(ours)):
        y = function(x)
        gradients = torch.autograd.grad((probe * y).sum(), [x, *ours.parameters()])
        assert deviation(y, expected) <= tolerance
        assert max(map(deviation, gradients, expected_gradients)) <= tolerance


@pytest.mark.parametrize(("norm", "twin"), TWINS)
def test_torch_with_our_weights_equals_us(norm, twin):
    ours, theirs, x = with_random_weights(norm(8)), twin(8, eps=1e-5), torch.randn(4, 8)
    theirs.load_state_dict(ours.state_dict())
    assert deviation(ours(x), theirs(x)) <= 1e-6


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rms_norm_takes_over_torchs_default_eps(dtype):
    theirs = nn.RMSNorm(8, dtype=dtype)
    ours, x = RMSNorm.from_torch(theirs), 1e-4 * torch.randn(4, 8, dtype=dtype)
    assert ours.eps == torch.finfo(dtype).eps
    assert deviation(ours(x), theirs(x)) <= 1e-6


def test_hand_example():
    x = torch.tensor([1.0, 2.0, 3.0, 4.0])
    expected = torch.tensor([-1.342, -0.447, 0.447, 1.342])
    assert deviation(LayerNorm(4)(x), expected) < 1e-3 / 2
    assert deviation(layer_norm(x, torch.ones(4), torch.zeros(4)), expected) < 1e-3 / 2
    assert deviation(RMSNorm(4)(x), x / math.sqrt(7.5)) < 1e-5


def test_look_alikes_are_other_functions():
    """Unbiased standard deviation, or ε outside the root: what some notes code instead."""
    x, eps = torch.tensor([1.0, 2.0, 3.0, 4.0]), 1e-5
    ours = LayerNorm(4, eps)(x)
    unbiased = (x - x.mean()) / (x.std() + eps)
    assert deviation(ours, unbiased) > 0.1
    small = 1e-3 * x
    outside = (small - small.mean()) / (small.std(correction=0) + eps)
    assert deviation(LayerNorm(4, eps)(small), outside) > 0.1


@settings(deadline=None, max_examples=50)
@given(
    d_model=st.integers(2, 16),
    scale=st.floats(0.1, 100),
    shift=st.floats(-100, 100),
    seed=st.integers(0, 1000),
)
def test_layer_norm_has_mean_zero_variance_one_and_forgets_scale_and_shift(d_model, scale, shift, seed):
    norm, x = LayerNorm(d_model, eps=1e-12).double(), spread(3, d_model, seed)
    y = norm(x)
    assert y.mean(-1).abs().max() <= 1e-9
    assert (y.var(-1, correction=0) - 1).abs().max() <= 1e-9
    assert deviation(norm(scale * x + shift), y) <= 1e-7


@settings(deadline=None, max_examples=50)
@given(d_model=st.integers(1, 16), scale=st.floats(0.1, 100), seed=st.integers(0, 1000))
def test_rms_norm_has_mean_square_one_and_forgets_scale_but_not_shift(d_model, scale, seed):
    norm, x = RMSNorm(d_model, eps=1e-12).double(), spread(3, d_model, seed)
    y = norm(x)
    assert ((y**2).mean(-1) - 1).abs().max() <= 1e-9
    assert deviation(norm(scale * x), y) <= 1e-7
    assert deviation(norm(x + 1000), torch.ones_like(x)) <= 0.1


@pytest.mark.parametrize("norm", [LayerNorm, RMSNorm])
@settings(deadline=None, max_examples=25)
@given(batch=st.integers(1, 4), time=st.integers(1, 5), seed=st.integers(0, 1000))
def test_each_token_is_normalized_by_itself(norm, batch, time, seed):
    """Unlike batch normalization: neither the other tokens nor the other sentences matter."""
    module = with_random_weights(norm(8)).double()
    torch.manual_seed(seed)
    x = torch.randn(batch, time, 8, dtype=torch.float64)
    together = module(x)
    for row in range(batch):
        for t in range(time):
            assert deviation(together[row, t], module(x[row, t])) <= 1e-14


@pytest.mark.parametrize("norm", [LayerNorm, RMSNorm])
def test_constant_features_give_the_bias_and_finite_gradients(norm):
    module = with_random_weights(norm(8))
    x = torch.zeros(2, 8, requires_grad=True)
    y = module(x)
    y.sum().backward()
    expected = module.bias.expand(2, 8) if norm is LayerNorm else torch.zeros(2, 8)
    assert torch.equal(y, expected)
    assert x.grad.isfinite().all()


# ---- residuals ----


def test_post_norm_and_pre_norm_are_the_two_formulas():
    torch.manual_seed(0)
    x = torch.randn(2, 5, 8)
    for norm_first in (False, True):
        block = Residual(FeedForward(8, 16), 8, norm_first)
        F, LN = block.sublayer, with_random_weights(block.norm)
        expected = x + F(LN(x)) if norm_first else LN(x + F(x))
        other = LN(x + F(x)) if norm_first else x + F(LN(x))
        assert torch.equal(block(x), expected)
        assert deviation(block(x), other) > 0.1


def test_module_and_pure_function_agree_for_a_sublayer_with_arguments_and_several_results():
    """The pattern of attention: (query, memory, mask) in, (output, weights) out."""

    class Attend(nn.Module):
        def forward(self, query, memory, mask):
            weights = (query @ memory.transpose(-2, -1)).masked_fill(~mask, -math.inf).softmax(-1)
            return weights @ memory, weights

    torch.manual_seed(0)
    x, memory = torch.randn(2, 5, 8), torch.randn(2, 7, 8)
    mask = torch.arange(7) < 4
    block = Residual(Attend(), 8, norm_first=True)
    output, weights = block(x, memory, mask)
    expected, expected_weights = block.sublayer(block.norm(x), memory, mask)
    assert torch.equal(output, x + expected)
    assert torch.equal(weights, expected_weights)
    pure = residual(x, lambda h: block.sublayer(h, memory, mask), block.norm, norm_first=True)
    assert torch.equal(pure[0], output)
    assert torch.equal(pure[1], weights)


def test_dropout_acts_on_the_sublayer_and_spares_the_residual():
    torch.manual_seed(0)
    block, x = Residual(nn.Identity(), 64, norm_first=True, dropout=0.5), torch.randn(100, 64)
    added = block(x) - x
    dropped = added == 0
    assert 0.45 < dropped.float().mean() < 0.55
    assert deviation(added[~dropped], 2 * block.norm(x)[~dropped]) <= 1e-5
    assert torch.equal(block.eval()(x), x + block.norm(x))


def test_residuals_carry_the_gradient_through_many_layers():
    """The claim of chapter 10: without them it is gone after 64 layers, with them it is not."""
    torch.manual_seed(0)
    x = torch.randn(8, 16, requires_grad=True)
    sublayers = [nn.Sequential(nn.Linear(16, 16), nn.Tanh()) for _ in range(64)]
    plain, with_residuals = x, x
    for F in sublayers:
        plain = F(plain)
        with_residuals = residual(with_residuals, F, nn.Identity())
    norms = [torch.autograd.grad(y.sum(), x)[0].norm().item() for y in (plain, with_residuals)]
    assert norms[0] < 1e-6
    assert norms[1] > 1


def test_a_sublayer_of_zero_leaves_pre_norm_the_identity():
    block, x = Residual(FeedForward(8, 16), 8, norm_first=True), torch.randn(2, 5, 8)
    for parameter in block.sublayer.parameters():
        nn.init.zeros_(parameter)
    assert torch.equal(block(x), x)


def test_parameter_counts():
    assert num_parameters(LayerNorm(8)) == 16
    assert num_parameters(RMSNorm(8)) == 8
    assert num_parameters(Residual(nn.Identity(), 8)) == 16


# ---- bad input ----


@pytest.mark.parametrize("norm", [LayerNorm, RMSNorm])
@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        (torch.zeros(2, 7), ValueError, r"x: expected shape \(\.\.\., 8\), found \(2, 7\)"),
        (
            torch.zeros(2, 8, dtype=torch.long),
            TypeError,
            "x: expected a floating-point tensor, found torch.int64",
        ),
        (None, TypeError, "x: expected a tensor, found NoneType"),
    ],
    ids=["features", "integers", "none"],
)
def test_bad_input_is_named(norm, x, error, message):
    with pytest.raises(error, match=message):
        norm(8)(x)


@pytest.mark.parametrize("norm", [LayerNorm, RMSNorm])
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((0,), ValueError, "d_model: expected a positive int, found 0"),
        (((4, 8),), TypeError, r"d_model: expected a positive int, found \(4, 8\)"),
        ((8, 0.0), ValueError, "eps: expected a positive number, found 0.0"),
        ((8, math.nan), ValueError, "eps: expected a positive number, found nan"),
        ((8, None), TypeError, "eps: expected a positive number, found None"),
    ],
)
def test_bad_options_are_named(norm, arguments, error, message):
    with pytest.raises(error, match=message):
        norm(*arguments)


@pytest.mark.parametrize(
    ("norm", "module"),
    [
        (LayerNorm, nn.LayerNorm((4, 8))),
        (LayerNorm, nn.LayerNorm(8, bias=False)),
        (LayerNorm, nn.LayerNorm(8, elementwise_affine=False)),
        (RMSNorm, nn.RMSNorm((4, 8))),
        (RMSNorm, nn.RMSNorm(8, elementwise_affine=False)),
    ],
    ids=str,
)
def test_from_torch_refuses_what_it_cannot_copy(norm, module):
    with pytest.raises(ValueError, match=rf"module: expected an nn\.{norm.__name__} over one dimension"):
        norm.from_torch(module)


def test_bad_residuals_are_named():
    with pytest.raises(ValueError, match=r"dropout: expected a number in \[0, 1\), found 1.0"):
        Residual(nn.Identity(), 8, dropout=1.0)
    with pytest.raises(ValueError, match=r"sublayer: expected output shape \(2, 8\), found \(2, 1\)"):
        Residual(nn.Linear(8, 1), 8)(torch.zeros(2, 8))
    with pytest.raises(ValueError, match=r"x: expected shape \(\.\.\., 8\), found \(2, 7\)"):
        Residual(nn.Identity(), 8)(torch.zeros(2, 7))
