"""Activations have the derivatives they claim, networks equal torch, and depth needs a nonlinearity."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from attnbook.feedforward import (
    ACTIVATIONS,
    DERIVATIVES,
    MLP,
    FeedForward,
    affine,
    gelu,
    mlp,
    num_parameters,
    relu_derivative,
    sigmoid,
    sigmoid_derivative,
    softmax,
    softmax_jacobian,
    tanh,
    tanh_derivative,
)

DTYPES = [pytest.param(torch.float32, 1e-6, id="float32"), pytest.param(torch.float64, 1e-14, id="float64")]
TORCH_ACTIVATIONS = {"relu": nn.ReLU, "sigmoid": nn.Sigmoid, "tanh": nn.Tanh, "gelu": nn.GELU}


def deviation(ours, theirs):
    """The largest difference, in units of the largest entry where that is above 1."""
    return ((ours - theirs).abs().max() / max(1.0, theirs.abs().max().item())).item()


def parameters_as_torch_orders_them(network):
    """Weight and bias of the first layer, then of the second, …"""
    if isinstance(network, MLP):
        return [
            parameter for layer in zip(network.weights, network.biases, strict=True) for parameter in layer
        ]
    return list(network.parameters())


def twin_deviation(ours, theirs, x):
    """Largest deviation of outputs and of all gradients, on a random loss."""
    x, their_x = x.clone().requires_grad_(), x.clone().requires_grad_()
    outputs, their_outputs = ours(x), theirs(their_x)
    probe = torch.randn_like(outputs)
    gradients = torch.autograd.grad((probe * outputs).sum(), [x, *parameters_as_torch_orders_them(ours)])
    theirs = torch.autograd.grad((probe * their_outputs).sum(), [their_x, *theirs.parameters()])
    return max(map(deviation, (outputs, *gradients), (their_outputs, *theirs)))


# ---- activations ----


@pytest.mark.parametrize("name", TORCH_ACTIVATIONS)
@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
def test_activation_and_its_derivative_equal_torch(name, dtype, tolerance):
    z = torch.cat([torch.linspace(-8, 8, 1001, dtype=dtype), torch.tensor([0.0, -100.0, 100.0], dtype=dtype)])
    z.requires_grad_()
    ours, theirs = ACTIVATIONS[name](z), TORCH_ACTIVATIONS[name]()(z)
    assert deviation(ours, theirs) <= tolerance
    (autograd,) = torch.autograd.grad(theirs.sum(), z)
    (ours_autograd,) = torch.autograd.grad(ours.sum(), z)
    assert deviation(DERIVATIVES[name](z), autograd) <= tolerance
    assert deviation(ours_autograd, autograd) <= tolerance


def test_identity_has_derivative_one():
    z = torch.linspace(-2, 2, 5)
    assert torch.equal(ACTIVATIONS["identity"](z), z)
    assert torch.equal(DERIVATIVES["identity"](z), torch.ones(5))
    assert ACTIVATIONS.keys() == DERIVATIVES.keys()


def test_hand_computed_values():
    one, log_three = torch.tensor(1.0, dtype=torch.float64), torch.tensor(math.log(3), dtype=torch.float64)
    assert sigmoid(log_three).item() == pytest.approx(3 / 4)
    assert sigmoid_derivative(log_three).item() == pytest.approx(3 / 16)
    assert tanh(log_three).item() == pytest.approx(4 / 5)
    assert tanh_derivative(log_three).item() == pytest.approx(9 / 25)
    assert gelu(one).item() == pytest.approx(0.8413447460685429)  # Φ(1)
    assert relu_derivative(torch.tensor([-1.0, 0.0, 2.0])).tolist() == [0, 0, 1]


def test_tanh_is_a_stretched_sigmoid():
    z = torch.linspace(-5, 5, 101, dtype=torch.float64)
    assert deviation(tanh(z), 2 * sigmoid(2 * z) - 1) <= 1e-15


def test_derivatives_are_largest_at_zero_and_vanish_in_saturation():
    z = torch.linspace(-20, 20, 4001, dtype=torch.float64)
    for derivative, largest in ((sigmoid_derivative, 1 / 4), (tanh_derivative, 1.0)):
        d = derivative(z)
        assert d.max().item() == pytest.approx(largest)
        assert z[d.argmax()].abs().item() == pytest.approx(0, abs=1e-9)
        assert max(d[0].item(), d[-1].item()) < 1e-8


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
def test_softmax_equals_torch_in_values_and_gradients(dim, dtype, tolerance):
    torch.manual_seed(0)
    z = (3 * torch.randn(4, 5, 6, dtype=dtype)).requires_grad_()
    probe = torch.randn_like(z)
    ours, theirs = softmax(z, dim), z.softmax(dim)
    assert deviation(ours, theirs) <= tolerance
    (gradient,) = torch.autograd.grad((probe * ours).sum(), z)
    (expected,) = torch.autograd.grad((probe * theirs).sum(), z)
    assert deviation(gradient, expected) <= tolerance


@settings(deadline=None, max_examples=50)
@given(
    z=st.lists(st.floats(-50, 50), min_size=1, max_size=8),
    shift=st.floats(-1e4, 1e4),
)
def test_softmax_is_a_distribution_that_a_shift_leaves_alone(z, shift):
    z = torch.tensor(z, dtype=torch.float64)
    p = softmax(z)
    assert (p >= 0).all()
    assert p.sum().item() == pytest.approx(1)
    assert deviation(softmax(z + shift), p) <= 1e-10


def test_softmax_does_not_overflow():
    z = torch.tensor([1000.0, 1001.0, -1e30])
    naive = z.exp() / z.exp().sum()
    assert naive.isnan().any()
    assert softmax(z).tolist() == pytest.approx([1 / (1 + math.e), math.e / (1 + math.e), 0.0], rel=1e-6)
    assert softmax_jacobian(z).isfinite().all()


def test_softmax_jacobian_is_what_autograd_finds():
    torch.manual_seed(0)
    z = torch.randn(3, 5, dtype=torch.float64)
    jacobian = softmax_jacobian(z)
    for row in range(3):
        autograd = torch.autograd.functional.jacobian(softmax, z[row])
        assert deviation(jacobian[row], autograd) <= 1e-15
    assert deviation(jacobian.sum(-1), torch.zeros(3, 5, dtype=torch.float64)) <= 1e-15


# ---- networks ----


@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
@pytest.mark.parametrize("shape", [(), (5,), (3, 4)])
def test_one_layer_equals_linear(shape, dtype, tolerance):
    torch.manual_seed(0)
    theirs = nn.Linear(6, 8, dtype=dtype)
    ours = MLP.from_torch(theirs)
    assert twin_deviation(ours, theirs, torch.randn(*shape, 6, dtype=dtype)) <= tolerance


@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
@pytest.mark.parametrize("name", TORCH_ACTIVATIONS)
def test_mlp_equals_sequential(name, dtype, tolerance):
    torch.manual_seed(0)
    activation = TORCH_ACTIVATIONS[name]
    theirs = nn.Sequential(nn.Linear(6, 16), activation(), nn.Linear(16, 9), activation(), nn.Linear(9, 3))
    theirs = theirs.to(dtype)
    ours = MLP.from_torch(theirs)
    assert ours.sizes == [6, 16, 9, 3]
    assert ours.activation == name
    assert twin_deviation(ours, theirs, torch.randn(5, 6, dtype=dtype)) <= 10 * tolerance


@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
@pytest.mark.parametrize("name", TORCH_ACTIVATIONS)
def test_feed_forward_equals_sequential(name, dtype, tolerance):
    torch.manual_seed(0)
    theirs = nn.Sequential(nn.Linear(6, 24), TORCH_ACTIVATIONS[name](), nn.Dropout(0.1), nn.Linear(24, 6))
    theirs = theirs.to(dtype).eval()
    ours = FeedForward.from_torch(theirs)
    assert ours.dropout == 0.1
    assert not ours.training
    assert twin_deviation(ours, theirs, torch.randn(2, 5, 6, dtype=dtype)) <= tolerance


def test_torch_with_our_weights_equals_us():
    torch.manual_seed(0)
    ours = MLP([6, 16, 3], "tanh")
    theirs = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))
    with torch.no_grad():
        for layer, W, b in zip((theirs[0], theirs[2]), ours.weights, ours.biases, strict=True):
            layer.weight.copy_(W)
            layer.bias.copy_(b)
    x = torch.randn(5, 6)
    assert deviation(ours(x), theirs(x)) <= 1e-6


def test_without_nonlinearity_a_stack_is_one_affine_map():
    torch.manual_seed(0)
    stack = MLP([4, 7, 5, 3], "identity").double()
    (W_1, W_2, W_3), (b_1, b_2, b_3) = stack.weights, stack.biases
    x = torch.randn(10, 4, dtype=torch.float64)
    collapsed = affine(x, W_3 @ W_2 @ W_1, W_3 @ (W_2 @ b_1 + b_2) + b_3)
    assert deviation(stack(x), collapsed) <= 1e-14
    bent = mlp(x, list(stack.weights), list(stack.biases), torch.relu)
    assert deviation(bent, collapsed) > 1e-2


def test_hand_written_backward_equals_autograd():
    """Backpropagation by the chain rule, as chapter 02 derives it."""
    torch.manual_seed(0)
    network, x, target = (
        MLP([3, 5, 2], "tanh").double(),
        torch.randn(4, 3).double(),
        torch.randn(4, 2).double(),
    )
    (W_1, W_2), (b_1, b_2) = network.weights, network.biases
    ((network(x) - target) ** 2).sum().backward()
    with torch.no_grad():
        z = affine(x, W_1, b_1)
        h = tanh(z)
        delta_2 = 2 * (affine(h, W_2, b_2) - target)  # ∂L/∂y
        delta_1 = (delta_2 @ W_2) * tanh_derivative(z)  # ∂L/∂z
    by_hand = (delta_1.T @ x, delta_1.sum(0), delta_2.T @ h, delta_2.sum(0))
    assert max(map(deviation, by_hand, (W_1.grad, b_1.grad, W_2.grad, b_2.grad))) <= 1e-14


@settings(deadline=None, max_examples=25)
@given(batch=st.integers(1, 4), time=st.integers(1, 6), seed=st.integers(0, 1000))
def test_feed_forward_maps_each_position_by_itself(batch, time, seed):
    torch.manual_seed(seed)
    network, x = FeedForward(6, 24, activation="gelu").double(), torch.randn(batch, time, 6).double()
    together = network(x)
    for row in range(batch):
        for t in range(time):
            assert deviation(together[row, t], network(x[row, t])) <= 1e-14


def test_dropout_acts_in_training_only_and_keeps_the_mean():
    torch.manual_seed(0)
    network, x = FeedForward(4, 50_000, dropout=0.25), torch.randn(1, 4)
    hidden = []
    network.W_2.register_forward_pre_hook(lambda module, arguments: hidden.append(arguments[0]))
    network(x)
    network.eval()(x)
    dropped, whole = hidden
    kept = dropped != 0
    assert (whole != 0).sum() * 0.74 < kept.sum() < (whole != 0).sum() * 0.76
    assert deviation(dropped[kept], whole[kept] / 0.75) <= 1e-6


def test_parameter_counts():
    assert num_parameters(FeedForward(16, 64)) == 2128  # chapter 14, by hand: 16·64 + 64 + 64·16 + 16
    assert num_parameters(MLP([2, 16, 16, 1])) == 2 * 16 + 16 + 16 * 16 + 16 + 16 + 1
    tied = nn.ModuleList([nn.Embedding(100, 8), nn.Linear(8, 100, bias=False)])
    assert num_parameters(tied) == 1600
    tied[1].weight = tied[0].weight
    assert num_parameters(tied) == 800


def test_first_layer_grows_linearly_with_the_length_of_the_input():
    counts = [num_parameters(MLP([length * 8, 32])) for length in (10, 100, 1000)]
    assert counts == [length * 8 * 32 + 32 for length in (10, 100, 1000)]


# ---- bad input ----


@pytest.mark.parametrize("network", [MLP([4, 8, 4]), FeedForward(4, 8)], ids=["MLP", "FeedForward"])
@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        (torch.zeros(2, 3), ValueError, r"x: expected shape \(\.\.\., 4\), found \(2, 3\)"),
        (torch.tensor(1.0), ValueError, r"x: expected shape \(\.\.\., 4\), found \(\)"),
        (
            torch.zeros(2, 4, dtype=torch.long),
            TypeError,
            "x: expected a floating-point tensor, found torch.int64",
        ),
        ([1.0, 2.0, 3.0, 4.0], TypeError, "x: expected a tensor, found list"),
    ],
    ids=["features", "scalar", "integers", "list"],
)
def test_bad_input_is_named(network, x, error, message):
    with pytest.raises(error, match=message):
        network(x)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: MLP([4]), ValueError, r"sizes: expected at least an input and an output size, found \[4\]"),
        (lambda: MLP([4, 0]), ValueError, r"sizes\[1\]: expected a positive int, found 0"),
        (lambda: MLP([4.0, 2]), TypeError, r"sizes\[0\]: expected a positive int, found 4.0"),
        (lambda: MLP([4, 2], "swish"), ValueError, "activation: expected one of 'relu', .* found 'swish'"),
        (lambda: FeedForward(0, 8), ValueError, "d_model: expected a positive int, found 0"),
        (
            lambda: FeedForward(8, 8, dropout=1.0),
            ValueError,
            r"dropout: expected a number in \[0, 1\), found 1",
        ),
        (lambda: FeedForward(8, 8, activation="GELU"), ValueError, "activation: expected one of"),
    ],
)
def test_bad_options_are_named(make, error, message):
    with pytest.raises(error, match=message):
        make()


LINEAR = nn.Linear(4, 4)


@pytest.mark.parametrize(
    ("network", "module"),
    [
        (MLP, nn.Linear(4, 4, bias=False)),
        (MLP, nn.Sequential(LINEAR, nn.ReLU())),
        (MLP, nn.Sequential(nn.ReLU(), LINEAR)),
        (MLP, nn.Sequential(LINEAR, nn.ReLU(), LINEAR, nn.Tanh(), LINEAR)),
        (MLP, nn.Sequential(LINEAR, nn.ReLU(), LINEAR, LINEAR)),
        (MLP, nn.Sequential(LINEAR, nn.GELU(approximate="tanh"), LINEAR)),
        (MLP, nn.Sequential(LINEAR, nn.ReLU(), nn.Dropout(0.1), LINEAR)),
        (MLP, nn.Sequential()),
        (MLP, nn.LayerNorm(4)),
        (FeedForward, LINEAR),
        (FeedForward, nn.Sequential(LINEAR, nn.ReLU(), nn.Linear(4, 5))),
        (FeedForward, nn.Sequential(LINEAR, nn.ReLU(), LINEAR, nn.Dropout(0.1))),
    ],
    ids=lambda value: str(value).replace("\n", "") if isinstance(value, nn.Module) else value.__name__,
)
def test_from_torch_refuses_what_it_cannot_copy(network, module):
    with pytest.raises(ValueError, match="module: expected"):
        network.from_torch(module)


def test_from_torch_reads_a_stack_without_activation():
    theirs = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
    ours, x = MLP.from_torch(theirs), torch.randn(5, 4)
    assert ours.activation == "identity"
    assert deviation(ours(x), theirs(x)) <= 1e-6
