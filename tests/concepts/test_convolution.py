"""Convolutions equal torch, see exactly their receptive field, and never the future."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from attnbook.convolution import CausalConv1d, TemporalConvNet, conv1d, receptive_field
from attnbook.feedforward import num_parameters

DTYPES = [pytest.param(torch.float32, 1e-6, id="float32"), pytest.param(torch.float64, 1e-14, id="float64")]


def deviation(ours, theirs):
    """The largest difference, in units of the largest entry where that is above 1."""
    return ((ours - theirs).abs().max() / max(1.0, theirs.abs().max().item())).item()


def torch_conv(module, x, left):
    """`module` on a batch-first sequence, with `left` zeros before it."""
    return module(F.pad(x.transpose(1, 2), (left, 0))).transpose(1, 2)


def inputs_seen(model, x, t):
    """The time steps of `x` that output `t` depends on."""
    x = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad((model(x)[0, t] ** 2).sum(), x)
    return gradient[0].abs().sum(-1).nonzero().flatten().tolist()


@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
@pytest.mark.parametrize("kernel_size", [1, 2, 3, 5])
@pytest.mark.parametrize("dilation", [1, 2, 4])
def test_causal_convolution_equals_torch_with_left_padding(dtype, tolerance, kernel_size, dilation):
    torch.manual_seed(0)
    theirs = nn.Conv1d(6, 8, kernel_size, dilation=dilation, dtype=dtype)
    ours = CausalConv1d.from_torch(theirs)
    x = torch.randn(3, 11, 6, dtype=dtype, requires_grad=True)
    outputs, their_outputs = ours(x), torch_conv(theirs, x, (kernel_size - 1) * dilation)
    assert outputs.shape == (3, 11, 8)
    assert deviation(outputs, their_outputs) <= tolerance
    probe = torch.randn_like(outputs)
    gradients = torch.autograd.grad((probe * outputs).sum(), [x, ours.weight, ours.bias])
    expected = torch.autograd.grad((probe * their_outputs).sum(), [x, theirs.weight, theirs.bias])
    assert max(map(deviation, gradients, expected)) <= tolerance


def test_torch_with_padding_on_both_sides_is_the_same_after_cutting():
    torch.manual_seed(0)
    theirs, x = nn.Conv1d(6, 8, 3, dilation=2, padding=4), torch.randn(3, 11, 6)
    assert deviation(CausalConv1d.from_torch(theirs)(x), torch_conv(theirs, x, 0)[:, :11]) <= 1e-6


def test_torch_with_our_weights_equals_us():
    torch.manual_seed(0)
    ours, theirs, x = CausalConv1d(6, 8, 3, 2), nn.Conv1d(6, 8, 3, dilation=2), torch.randn(3, 11, 6)
    theirs.load_state_dict(ours.state_dict())
    assert deviation(ours(x), torch_conv(theirs, x, 4)) <= 1e-6


@pytest.mark.parametrize("padding", [(0, 0), (1, 1), (3, 0), (0, 2)])
@pytest.mark.parametrize("bias", [True, False])
def test_convolution_equals_torch_for_every_padding(padding, bias):
    torch.manual_seed(0)
    x, weight = torch.randn(2, 9, 4), torch.randn(5, 4, 3) / 4
    b = torch.randn(5) if bias else None
    theirs = F.conv1d(F.pad(x.transpose(1, 2), padding), weight, b).transpose(1, 2)
    assert deviation(conv1d(x, weight, b, padding=padding), theirs) <= 1e-6


def test_window_by_hand():
    x = torch.tensor([1.0, 2.0, 3.0, 4.0])[None, :, None]
    weight, bias = torch.tensor([[[1.0, 10.0]]]), torch.tensor([0.5])
    assert conv1d(x, weight, bias).flatten().tolist() == [21.5, 32.5, 43.5]
    assert conv1d(x, weight, bias, padding=(1, 0)).flatten().tolist() == [10.5, 21.5, 32.5, 43.5]
    assert conv1d(x, weight, bias, dilation=2).flatten().tolist() == [31.5, 42.5]


def test_shifting_the_input_shifts_the_output():
    torch.manual_seed(0)
    weight, x = torch.randn(5, 4, 3), torch.randn(2, 12, 4)
    assert deviation(conv1d(x[:, 3:], weight), conv1d(x, weight)[:, 3:]) <= 1e-6


# ---- receptive field ----


@pytest.mark.parametrize("kernel_size", [2, 3])
@pytest.mark.parametrize("dilations", [[1], [3], [1, 1, 1, 1], [1, 2, 4], [2, 1]])
def test_an_output_sees_its_receptive_field_and_nothing_else(kernel_size, dilations):
    torch.manual_seed(0)
    x, t = torch.randn(1, 40, 16, dtype=torch.float64), 35
    model = TemporalConvNet(16, kernel_size, dilations).double()
    reach = receptive_field(kernel_size, dilations)
    offsets = {0}
    for dilation in dilations:
        offsets = {offset + j * dilation for offset in offsets for j in range(kernel_size)}
    assert model.receptive_field == reach == max(offsets) + 1
    assert inputs_seen(model, x, t) == sorted(t - offset for offset in offsets)


def test_plain_stacks_need_linearly_many_layers_and_dilated_ones_logarithmically_many():
    for kernel_size in (2, 3, 4):
        for layers in range(1, 6):
            assert receptive_field(kernel_size, [1] * layers) == 1 + layers * (kernel_size - 1)
            assert (
                receptive_field(kernel_size, [kernel_size**layer for layer in range(layers)])
                == kernel_size**layers
            )


# ---- time, padding, batch ----

STACKS = {
    "one layer": lambda: CausalConv1d(6, 6, 3, dilation=2),
    "stack": lambda: TemporalConvNet(6, 3, [1, 2, 4]),
}


@pytest.mark.parametrize("name", STACKS)
@settings(deadline=None, max_examples=30)
@given(time=st.integers(2, 12), data=st.data(), seed=st.integers(0, 1000))
def test_future_cannot_change_the_past(name, time, data, seed):
    change = data.draw(st.integers(1, time - 1))
    torch.manual_seed(seed)
    model, x = STACKS[name](), torch.randn(2, time, 6)
    changed = x.clone()
    changed[:, change:] = torch.randn(2, time - change, 6)
    before, after = model(x), model(changed)
    assert torch.equal(before[:, :change], after[:, :change])
    assert not torch.allclose(before[:, change], after[:, change])


@pytest.mark.parametrize("name", STACKS)
@settings(deadline=None, max_examples=30)
@given(
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    padding=st.integers(0, 5),
    filling=st.sampled_from([0.0, 1e6, -1.0]),
    seed=st.integers(0, 1000),
)
def test_padding_is_invisible_and_a_batch_equals_its_members(name, lengths, padding, filling, seed):
    torch.manual_seed(seed)
    model = STACKS[name]().double()
    x = torch.full((len(lengths), max(lengths) + padding, 6), filling, dtype=torch.float64)
    for row, length in zip(x, lengths, strict=True):
        row[:length] = torch.randn(length, 6)
    outputs = model(x)
    for row, length in enumerate(lengths):
        assert deviation(outputs[row, :length], model(x[row : row + 1, :length])[0]) <= 1e-13


def test_stack_is_the_sum_of_its_layers_and_starts_from_the_input():
    torch.manual_seed(0)
    model, x = TemporalConvNet(6, 3, [1, 2]), torch.randn(2, 9, 6)
    first, second = model.convolutions
    h = x + torch.relu(first(x))
    assert torch.equal(model(x), h + torch.relu(second(h)))


def test_dropout_acts_on_the_layers_and_spares_the_residual():
    torch.manual_seed(0)
    model, x = TemporalConvNet(64, 3, [1], dropout=0.5), torch.randn(2, 50, 64)
    added = model(x) - x
    whole = model.eval()(x) - x
    active = whole > 1e-3
    assert 0.45 < (added[active] == 0).float().mean() < 0.55
    kept = active & (added != 0)
    assert deviation(added[kept], 2 * whole[kept]) <= 1e-5


def test_parameter_counts():
    assert num_parameters(CausalConv1d(6, 8, 3)) == 8 * 6 * 3 + 8
    assert num_parameters(TemporalConvNet(8, 3, [1, 2, 4])) == 3 * (8 * 8 * 3 + 8)


# ---- bad input ----


@pytest.mark.parametrize("name", STACKS)
@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        (torch.zeros(5, 6), ValueError, r"x: expected shape \(batch, time, 6\), found \(5, 6\)"),
        (torch.zeros(2, 5, 7), ValueError, r"x: expected shape \(batch, time, 6\), found \(2, 5, 7\)"),
        (
            torch.zeros(2, 5, 6, dtype=torch.long),
            TypeError,
            "x: expected a floating-point tensor, found torch.int64",
        ),
        (torch.zeros(2, 0, 6), ValueError, "x: expected at least . time steps"),
        ([[1.0]], TypeError, "x: expected a tensor, found list"),
    ],
    ids=["no batch", "features", "integers", "empty", "list"],
)
def test_bad_input_is_named(name, x, error, message):
    with pytest.raises(error, match=message):
        STACKS[name]()(x)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: CausalConv1d(0, 4, 3), ValueError, "in_channels: expected a positive int, found 0"),
        (lambda: CausalConv1d(4, 4, 0), ValueError, "kernel_size: expected a positive int, found 0"),
        (lambda: CausalConv1d(4, 4, 3, 1.5), TypeError, "dilation: expected a positive int, found 1.5"),
        (
            lambda: TemporalConvNet(4, 3, []),
            ValueError,
            "dilations: expected one number for each layer, found none",
        ),
        (
            lambda: TemporalConvNet(4, 3, [1, 0]),
            ValueError,
            r"dilations\[1\]: expected a positive int, found 0",
        ),
        (lambda: TemporalConvNet(4, 3, [1], dropout=-0.1), ValueError, "dropout: expected a number"),
        (lambda: receptive_field(0, [1]), ValueError, "kernel_size: expected a positive int, found 0"),
        (lambda: conv1d(torch.zeros(1, 4, 2), torch.zeros(3, 2)), ValueError, "weight: expected shape"),
        (
            lambda: conv1d(torch.zeros(1, 4, 2), torch.zeros(3, 2, 3), dilation=2),
            ValueError,
            "x: expected at least 5",
        ),
    ],
)
def test_bad_options_are_named(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize(
    "module",
    [
        nn.Conv1d(4, 4, 3, stride=2),
        nn.Conv1d(4, 4, 3, groups=2),
        nn.Conv1d(4, 4, 3, padding=1),
        nn.Conv1d(4, 4, 3, padding="same"),
        nn.Conv1d(4, 4, 3, padding=2, padding_mode="circular"),
        nn.Conv1d(4, 4, 3, bias=False),
    ],
    ids=str,
)
def test_from_torch_refuses_what_it_cannot_copy(module):
    with pytest.raises(ValueError, match=r"module: expected an nn\.Conv1d with bias, stride 1"):
        CausalConv1d.from_torch(module)
