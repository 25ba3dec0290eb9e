r"""Positions: how order gets into a model that would not see it otherwise.

Self-attention treats its inputs as a set: permute them, and the outputs are permuted alike. So the position
must be in the vectors. Feature pair $i = 0 \dots d/2 - 1$ is a clock that turns by $\omega_i$ a position,

$$\omega_i = 10000^{-2i/d}, \qquad
  PE_{pos, 2i} = \sin(\omega_i\,pos), \quad PE_{pos, 2i+1} = \cos(\omega_i\,pos)$$

(Vaswani et al. 2017, section 3.5). A shift by $k$ positions turns every clock by the angle $\omega_i k$,
which the addition formulas write as a matrix that does not depend on $pos$:

$$\begin{bmatrix}\sin\omega(pos+k)\\ \cos\omega(pos+k)\end{bmatrix} =
  \begin{bmatrix}\cos\omega k & \sin\omega k\\ -\sin\omega k & \cos\omega k\end{bmatrix}
  \begin{bmatrix}\sin\omega\,pos\\ \cos\omega\,pos\end{bmatrix}.$$

Rotary positions (RoPE; Su et al. 2021, eq. 34) add nothing: they turn the query and key themselves, so that
the score $q_m^\top k_n$ depends on the offset $m - n$ only.
"""

import torch
from torch import Tensor, nn

from attnbook._validation import check_even, check_positive, check_tensor

__all__ = [
    "LearnedPosition",
    "SinusoidalPosition",
    "apply_rotary",
    "frequencies",
    "half_split_order",
    "rotation_matrix",
    "sinusoidal_encoding",
]


def frequencies(d_model: int, base: float = 10000.0, dtype: torch.dtype = torch.float64) -> Tensor:
    r"""$\omega_i = \mathrm{base}^{-2i/d}$ for $i = 0 \dots d/2 - 1$, in radians a position: (d_model / 2,).

    Raises:
        ValueError: an odd `d_model`, or a `base` that is not above 1.
    """
    check_even(d_model=d_model)
    if not base > 1:
        raise ValueError(f"base: expected a number above 1, found {base}")
    return base ** (-torch.arange(0, d_model, 2, dtype=dtype) / d_model)


def sinusoidal_encoding(
    positions: int | Tensor, d_model: int, base: float = 10000.0, dtype: torch.dtype | None = None
) -> Tensor:
    """Sines in the even features, cosines in the odd ones (Vaswani et al. 2017, section 3.5).

    Args:
        positions: a length, for the positions 0 … length − 1; or a tensor of any real positions (...).
        d_model: number of features, even.
        base: ratio between the slowest clock's wavelength and the fastest one's, for large `d_model`.
        dtype: of the result; default torch's default dtype. The angles are computed in float64: at position
            10⁶ those of float32 are wrong by up to 0.05 radians.

    Returns:
        (..., d_model).
    """
    if isinstance(positions, int):
        check_positive(positions=positions)
        positions = torch.arange(positions)
    elif not isinstance(positions, Tensor):
        raise TypeError(f"positions: expected an int or a tensor, found {type(positions).__name__}")
    omega = frequencies(d_model, base).to(positions.device)  # (d_model / 2,)
    angle = positions[..., None].double() * omega  # (..., d_model / 2)
    encoding = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)  # (..., d_model)
    return encoding.to(dtype or torch.get_default_dtype())


def rotation_matrix(
    offset: float, d_model: int, base: float = 10000.0, dtype: torch.dtype | None = None
) -> Tensor:
    r"""$M(k)$ with $PE_{pos+k} = M(k)\,PE_{pos}$ for every $pos$, block-diagonal: (d_model, d_model).

    Block $i$ is $\begin{bmatrix}\cos\omega_i k & \sin\omega_i k\\ -\sin\omega_i k & \cos\omega_i k
    \end{bmatrix}$, for the order (sin, cos) of `sinusoidal_encoding`; with (cos, sin) the signs of the sines
    would be exchanged.
    """
    angle = frequencies(d_model, base) * offset  # (d_model / 2,)
    cos, sin = angle.cos(), angle.sin()
    blocks = torch.stack([cos, sin, -sin, cos], dim=-1).unflatten(-1, (2, 2))  # (d_model / 2, 2, 2)
    return torch.block_diag(*blocks).to(dtype or torch.get_default_dtype())


class SinusoidalPosition(nn.Module):
    """Adds the sinusoidal encoding to its input; no parameters, any length.

    Called as `(x, offset=0)` with x (batch, time, d_model), whose first token stands at position `offset`.
    """

    def __init__(self, d_model: int, base: float = 10000.0):
        super().__init__()
        check_even(d_model=d_model)
        self.d_model, self.base = d_model, base

    def forward(self, x: Tensor, offset: int = 0) -> Tensor:
        check_tensor("x", x, "...", "time", self.d_model)
        positions = torch.arange(offset, offset + x.shape[-2], device=x.device)
        return x + sinusoidal_encoding(positions, self.d_model, self.base, x.dtype)


class LearnedPosition(nn.Module):
    """Adds a trained vector for each position (Gehring et al. 2017); it has none past `max_len`.

    Called as `(x, offset=0)` with x (batch, time, d_model), whose first token stands at position `offset`.
    """

    def __init__(self, max_len: int, d_model: int):
        super().__init__()
        check_positive(max_len=max_len, d_model=d_model)
        self.weight = nn.Parameter(torch.empty(max_len, d_model))
        nn.init.normal_(self.weight, std=0.02)

    def forward(self, x: Tensor, offset: int = 0) -> Tensor:
        max_len, d_model = self.weight.shape
        check_tensor("x", x, "...", "time", d_model)
        end = offset + x.shape[-2]
        if not 0 <= offset <= end <= max_len:
            raise ValueError(
                f"x: expected positions in [0, max_len = {max_len}), found {offset} to {end - 1}"
            )
        return x + self.weight[offset:end]


def apply_rotary(
    x: Tensor, positions: Tensor | None = None, base: float = 10000.0, interleaved: bool = True
) -> Tensor:
    """Turn each feature pair of `x` by its position times its frequency (RoPE; Su et al. 2021, eq. 34).

    Apply it to queries and keys, not to values; then q_m · k_n depends on m − n only.

    Args:
        x: (..., time, d), d even.
        positions: (time,) any real positions; default 0 … time − 1.
        base: as in `frequencies`.
        interleaved: True pairs the features (0, 1), (2, 3), … as the paper does; False pairs (0, d/2),
            (1, d/2 + 1), … as many implementations do. The two are the same function after reordering the
            features by `half_split_order`; weights trained with one must not be run with the other.

    Returns:
        (..., time, d), each vector as long as before.
    """
    check_tensor("x", x, "...", "time", "d")
    time, d = x.shape[-2:]
    if d % 2:
        raise ValueError(f"x: expected an even number of features, found {d}")
    omega = frequencies(d, base).to(x.device)
    if positions is None:
        positions = torch.arange(time, device=x.device)
    elif not isinstance(positions, Tensor) or positions.shape != (time,):
        found = tuple(positions.shape) if isinstance(positions, Tensor) else type(positions).__name__
        raise ValueError(f"positions: expected a tensor of shape ({time},), found {found}")
    angle = positions[:, None].double() * omega  # (time, d / 2)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    first, second = (x[..., 0::2], x[..., 1::2]) if interleaved else x.chunk(2, dim=-1)  # (..., time, d / 2)
    turned = first * cos - second * sin, first * sin + second * cos
    return torch.stack(turned, dim=-1).flatten(-2) if interleaved else torch.cat(turned, dim=-1)


def half_split_order(d: int) -> Tensor:
    """The order that takes interleaved pairs to half-split ones: 0, 2, 4, …, 1, 3, 5, …, as indices (d,).

    `apply_rotary(x)[..., order]` equals `apply_rotary(x[..., order], interleaved=False)`.
    """
    check_even(d=d)
    return torch.arange(d).unflatten(0, (-1, 2)).T.flatten()
