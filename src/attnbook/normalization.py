r"""Residuals and normalization: what keeps a deep stack trainable.

A residual block learns what to add to its input, $y = x + F(x)$ (He et al. 2015, eq. 1). Its derivative
$I + \partial F / \partial x$ holds the identity, so the gradient reaches the first layer however many follow.

Layer normalization (Ba et al. 2016, eq. 3 and 4) brings each token's $d$ features to mean 0 and variance 1,
then lets the model choose a scale $w$ and a shift $b$ for each feature:

$$\mu = \frac1d\sum_i x_i, \qquad \sigma^2 = \frac1d\sum_i (x_i - \mu)^2, \qquad
  y_i = w_i\,\frac{x_i - \mu}{\sqrt{\sigma^2 + \epsilon}} + b_i .$$

The sum is divided by $d$, not by $d - 1$, and $\epsilon$ stands inside the root. RMS normalization (Zhang &
Sennrich 2019, eq. 4) leaves out the mean and the shift:

$$y_i = w_i\,\frac{x_i}{\sqrt{\frac1d\sum_j x_j^2 + \epsilon}} .$$

The two parts meet in two orders, which are different functions and train differently (Xiong et al. 2020):

| | formula | used by |
|---|---|---|
| post-norm | $y = \mathrm{LN}(x + F(x))$ | Vaswani et al. 2017, section 3.1 |
| pre-norm | $y = x + F(\mathrm{LN}(x))$ | most models since |
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnbook._validation import check_positive, check_probability, check_tensor

__all__ = ["LayerNorm", "RMSNorm", "Residual", "layer_norm", "residual", "rms_norm"]


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    """Each vector of `x` to mean 0 and variance 1, then scaled and shifted (Ba et al. 2016, eq. 3 and 4).

    Args:
        x: (..., d).
        weight, bias: (d,).
        eps: keeps the root away from 0 where all features are equal.

    Returns:
        (..., d).
    """
    mean = x.mean(-1, keepdim=True)  # (..., 1)
    variance = ((x - mean) ** 2).mean(-1, keepdim=True)  # (..., 1)
    return weight * (x - mean) / torch.sqrt(variance + eps) + bias


def rms_norm(x: Tensor, weight: Tensor, eps: float = 1e-5) -> Tensor:
    """Each vector of `x` to a mean square of 1, then scaled (Zhang & Sennrich 2019, eq. 4).

    Args:
        x: (..., d).
        weight: (d,).
        eps: keeps the root away from 0 where all features are 0.

    Returns:
        (..., d).
    """
    mean_square = (x**2).mean(-1, keepdim=True)  # (..., 1)
    return weight * (x * torch.rsqrt(mean_square + eps))  # rsqrt(a) = 1 / √a


class LayerNorm(nn.Module):
    """`layer_norm` with a learned scale and shift, which start at 1 and 0.

    Args:
        d_model: number of features.
        eps: as in `layer_norm`.
    """

    def __init__(self, d_model: int, eps: float = 1e-5):
        super().__init__()
        check_positive(d_model=d_model)
        _check_eps(eps)
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))

    def forward(self, x: Tensor) -> Tensor:
        """(..., d_model) -> (..., d_model).

        Raises:
            TypeError, ValueError: `x` that is not a floating-point tensor with `d_model` features.
        """
        check_tensor("x", x, "...", *self.weight.shape)
        # torch's kernel computes `layer_norm(x, self.weight, self.bias, self.eps)` in one pass over memory,
        # about five times as fast.
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)

    @classmethod
    def from_torch(cls, module: nn.LayerNorm) -> "LayerNorm":
        """The same function as `module`, with copied weights.

        Raises:
            ValueError: a module that normalizes over several dimensions, or lacks the scale or the shift.
        """
        if len(module.normalized_shape) != 1 or module.weight is None or module.bias is None:
            raise ValueError(
                f"module: expected an nn.LayerNorm over one dimension, with weight and bias, found {module}"
            )
        ours = cls(module.normalized_shape[0], module.eps).to(module.weight).train(module.training)
        ours.load_state_dict(module.state_dict())
        return ours


class RMSNorm(nn.Module):
    """`rms_norm` with a learned scale, which starts at 1.

    Args:
        d_model: number of features.
        eps: as in `rms_norm`.
    """

    def __init__(self, d_model: int, eps: float = 1e-5):
        super().__init__()
        check_positive(d_model=d_model)
        _check_eps(eps)
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x: Tensor) -> Tensor:
        """(..., d_model) -> (..., d_model).

        Raises:
            TypeError, ValueError: `x` that is not a floating-point tensor with `d_model` features.
        """
        check_tensor("x", x, "...", *self.weight.shape)
        return rms_norm(x, self.weight, self.eps)

    @classmethod
    def from_torch(cls, module: nn.RMSNorm) -> "RMSNorm":
        """The same function as `module`, with copied weights; torch's `eps=None` is the dtype's `finfo.eps`.

        Raises:
            ValueError: a module that normalizes over several dimensions, or lacks the scale.
        """
        if len(module.normalized_shape) != 1 or module.weight is None:
            raise ValueError(
                f"module: expected an nn.RMSNorm over one dimension, with weight, found {module}"
            )
        eps = torch.finfo(module.weight.dtype).eps if module.eps is None else module.eps
        ours = cls(module.normalized_shape[0], eps).to(module.weight).train(module.training)
        ours.load_state_dict(module.state_dict())
        return ours


def residual(
    x: Tensor,
    sublayer: Callable[[Tensor], Any],
    norm: Callable[[Tensor], Tensor],
    norm_first: bool = False,
    dropout: Callable[[Tensor], Tensor] = lambda y: y,
) -> Any:
    """One sublayer F with its residual: LN(x + F(x)), or x + F(LN(x)) with `norm_first`.

    Args:
        x: (..., d_model).
        sublayer: F, which keeps the shape. It may return a tuple, such as attention's (output, weights): the
            first entry is added to `x`, the others are handed on.
        norm: the normalization, LN.
        norm_first: False for post-norm, True for pre-norm.
        dropout: applied to the output of F before it is added (Vaswani et al. 2017, section 5.4).

    Returns:
        (..., d_model), or the tuple (that, *others).

    Raises:
        ValueError: a sublayer that changes the shape.
    """
    y = sublayer(norm(x) if norm_first else x)
    y, *others = y if isinstance(y, tuple) else (y,)
    if y.shape != x.shape:
        raise ValueError(f"sublayer: expected output shape {tuple(x.shape)}, found {tuple(y.shape)}")
    y = x + dropout(y) if norm_first else norm(x + dropout(y))
    return (y, *others) if others else y


class Residual(nn.Module):
    """A sublayer with its residual, normalization and dropout ("Add & Norm"); see `residual`.

    Args:
        sublayer: F, a module that keeps the shape of its first argument.
        d_model: number of features.
        norm_first: False for post-norm LN(x + F(x)), True for pre-norm x + F(LN(x)).
        dropout: probability with which a feature of F's output is dropped in training.
    """

    def __init__(self, sublayer: nn.Module, d_model: int, norm_first: bool = False, dropout: float = 0.0):
        super().__init__()
        check_probability(dropout=dropout)
        self.sublayer = sublayer
        self.norm = LayerNorm(d_model)
        self.norm_first = norm_first
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, *further: Any) -> Any:
        """(..., d_model) -> (..., d_model), or a tuple where the sublayer returns one.

        `further` arguments, such as a mask or an encoder's output, go to the sublayer as they are.
        """
        return residual(x, lambda h: self.sublayer(h, *further), self.norm, self.norm_first, self.dropout)


def _check_eps(eps: float) -> None:
    if not isinstance(eps, int | float) or isinstance(eps, bool):
        raise TypeError(f"eps: expected a positive number, found {eps!r} ({type(eps).__name__})")
    if not eps > 0:
        raise ValueError(f"eps: expected a positive number, found {eps}")
