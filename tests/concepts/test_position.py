"""Positions turn like clocks: shifts are rotations, dot products depend on the offset only."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnbook import (
    LearnedPosition,
    SinusoidalPosition,
    apply_rotary,
    frequencies,
    half_split_order,
    rotation_matrix,
    sinusoidal_encoding,
)

EVEN = st.integers(1, 16).map(lambda n: 2 * n)
POSITION = st.integers(-1000, 1000)


def test_sinusoids_are_the_papers_element_by_element():
    encoding = sinusoidal_encoding(50, 16, dtype=torch.float64)
    assert encoding.shape == (50, 16)
    for pos in (0, 1, 7, 49):
        for i in range(8):
            angle = pos / 10000 ** (2 * i / 16)
            assert encoding[pos, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-12)
            assert encoding[pos, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-12)


def test_wavelengths_run_from_two_pi_almost_to_the_base():
    wavelengths = 2 * math.pi / frequencies(512)
    assert wavelengths[0].item() == pytest.approx(2 * math.pi)
    assert wavelengths[-1].item() == pytest.approx(2 * math.pi * 10000 ** (510 / 512))


@settings(max_examples=60, deadline=None)
@given(d_model=EVEN, position=POSITION, offset=POSITION)
def test_a_shift_is_a_rotation_that_does_not_depend_on_the_position(d_model, position, offset):
    at = lambda p: sinusoidal_encoding(torch.tensor(p), d_model, dtype=torch.float64)  # noqa: E731
    matrix = rotation_matrix(offset, d_model, dtype=torch.float64)
    assert (at(position + offset) - matrix @ at(position)).abs().max() < 1e-11
    assert (matrix @ matrix.T - torch.eye(d_model)).abs().max() < 1e-12
    product = rotation_matrix(position, d_model, dtype=torch.float64) @ matrix
    assert (product - rotation_matrix(position + offset, d_model, dtype=torch.float64)).abs().max() < 1e-11


@settings(max_examples=60, deadline=None)
@given(d_model=EVEN, position=POSITION, offset=POSITION)
def test_the_dot_product_of_two_encodings_depends_on_the_offset_only(d_model, position, offset):
    a, b = sinusoidal_encoding(torch.tensor([position, position + offset]), d_model, dtype=torch.float64)
    assert (a @ b).item() == pytest.approx((frequencies(d_model) * offset).cos().sum().item(), abs=1e-10)


def test_angles_stay_exact_at_large_positions():
    far = sinusoidal_encoding(torch.tensor([10**6]), 8)[0]
    assert far[0].item() == pytest.approx(math.sin(10**6), abs=1e-6)


@pytest.mark.parametrize("interleaved", [True, False])
@settings(max_examples=40, deadline=None)
@given(d=EVEN, m=POSITION, n=POSITION, shift=POSITION, seed=st.integers(0, 2**16))
def test_rotary_scores_depend_on_the_offset_only_and_lengths_stay(interleaved, d, m, n, shift, seed):
    torch.manual_seed(seed)
    q, k = torch.randn(2, 1, d, dtype=torch.float64)
    turn = lambda x, position: apply_rotary(x, torch.tensor([position]), interleaved=interleaved)[0]  # noqa: E731
    assert (turn(q, m) @ turn(k, n)).item() == pytest.approx(
        (turn(q, m + shift) @ turn(k, n + shift)).item(), abs=1e-9
    )
    assert turn(q, m).norm().item() == pytest.approx(q.norm().item(), rel=1e-12)
    assert torch.allclose(turn(q, 0), q[0])


@settings(max_examples=30, deadline=None)
@given(d=EVEN, time=st.integers(1, 9), seed=st.integers(0, 2**16))
def test_the_two_pairings_of_rotary_differ_by_a_permutation(d, time, seed):
    torch.manual_seed(seed)
    x, order = torch.randn(2, time, d, dtype=torch.float64), half_split_order(d)
    interleaved, half_split = apply_rotary(x)[..., order], apply_rotary(x[..., order], interleaved=False)
    assert (interleaved - half_split).abs().max() < 1e-12
    assert sorted(order.tolist()) == list(range(d))


def test_rotary_equals_the_complex_form_of_the_paper():
    torch.manual_seed(0)
    x = torch.randn(2, 3, 5, 8, dtype=torch.float64)
    angle = torch.arange(5)[:, None] * frequencies(8)
    turned = torch.view_as_complex(x.unflatten(-1, (-1, 2))) * torch.polar(torch.ones_like(angle), angle)
    assert (apply_rotary(x) - torch.view_as_real(turned).flatten(-2)).abs().max() < 1e-12


def test_rotary_equals_the_rotate_half_form_that_many_libraries_use():
    torch.manual_seed(0)
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    angle = (torch.arange(5)[:, None] * frequencies(8)).repeat(1, 2)
    rotate_half = torch.cat([-x[..., 4:], x[..., :4]], dim=-1)
    assert (
        apply_rotary(x, interleaved=False) - (x * angle.cos() + rotate_half * angle.sin())
    ).abs().max() < 1e-12


def test_rotary_gradient_is_the_rotation_back():
    x = torch.randn(6, 8, dtype=torch.float64, requires_grad=True)
    probe = torch.randn(6, 8, dtype=torch.float64)
    (gradient,) = torch.autograd.grad((apply_rotary(x) * probe).sum(), x)
    assert (gradient - apply_rotary(probe, -torch.arange(6))).abs().max() < 1e-12


@pytest.mark.parametrize("position", [SinusoidalPosition(8), LearnedPosition(20, 8)])
def test_modules_add_the_position_and_continue_at_an_offset(position):
    x = torch.randn(2, 12, 8)
    whole = position(x)
    assert torch.equal(torch.cat([position(x[:, :5]), position(x[:, 5:], offset=5)], dim=1), whole)
    added = position(torch.zeros(1, 12, 8))
    assert torch.allclose(whole, x + added)
    assert position(x.double()).dtype == torch.float64


def test_sinusoids_reach_past_any_length_and_learned_positions_end():
    assert SinusoidalPosition(8)(torch.zeros(1, 1, 8), offset=10**6).isfinite().all()
    with pytest.raises(ValueError, match=r"x: expected positions in \[0, max_len = 20\), found 15 to 20"):
        LearnedPosition(20, 8)(torch.zeros(1, 6, 8), offset=15)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: frequencies(7), ValueError, r"d_model: expected an even number .*found 7"),
        (lambda: frequencies(0), ValueError, r"d_model: expected a positive int, found 0"),
        (lambda: frequencies(8, base=1.0), ValueError, r"base: expected a number above 1, found 1.0"),
        (lambda: sinusoidal_encoding(5, 7), ValueError, r"d_model: expected an even number"),
        (lambda: sinusoidal_encoding(0, 8), ValueError, r"positions: expected a positive int, found 0"),
        (
            lambda: sinusoidal_encoding([0, 1], 8),
            TypeError,
            r"positions: expected an int or a tensor, found list",
        ),
        (lambda: rotation_matrix(1, 5), ValueError, r"d_model: expected an even number"),
        (
            lambda: apply_rotary(torch.zeros(3, 5)),
            ValueError,
            r"x: expected an even number of features, found 5",
        ),
        (lambda: apply_rotary(torch.zeros(8)), ValueError, r"x: expected shape"),
        (lambda: apply_rotary(torch.zeros(3, 8).long()), TypeError, r"x: expected a floating-point tensor"),
        (
            lambda: apply_rotary(torch.zeros(3, 8), torch.arange(4)),
            ValueError,
            r"positions: expected .*\(3,\), found \(4,\)",
        ),
        (lambda: apply_rotary(torch.zeros(3, 8), [0, 1, 2]), ValueError, r"positions: .*found list"),
        (lambda: SinusoidalPosition(9), ValueError, r"d_model: expected an even number"),
        (
            lambda: SinusoidalPosition(8)(torch.zeros(2, 3, 6)),
            ValueError,
            r"x: expected shape .*8\), found \(2, 3, 6\)",
        ),
        (lambda: LearnedPosition(0, 8), ValueError, r"max_len: expected a positive int"),
        (
            lambda: LearnedPosition(4, 8)(torch.zeros(1, 2, 8), offset=-1),
            ValueError,
            r"x: expected positions",
        ),
        (lambda: half_split_order(3), ValueError, r"d: expected an even number"),
    ],
)
def test_errors_name_argument_found_and_expected(call, error, message):
    with pytest.raises(error, match=message):
        call()
