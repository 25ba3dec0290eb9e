r"""Convolutions for sequences: every position looks through the same small window.

With a kernel of $k$ taps $W_0 \dots W_{k-1}$, each output is a weighted sum of $k$ inputs, which stand
$\delta$ positions apart (the dilation; $\delta = 1$ gives neighbours):

$$y_t = b + \sum_{j=0}^{k-1} W_j\,x_{t + j\delta} .$$

No output waits for another: all positions are computed at once, where a recurrent network goes one by one.

**Causal.** With $(k-1)\delta$ zeros before the sequence, the window ends at $t$ instead of beginning there,
$y_t = b + \sum_j W_j\,x_{t - (k-1-j)\delta}$: no output sees the future, and the length is kept.

**Receptive field.** Each layer lets an output see $(k-1)\delta_l$ positions further back, so $L$ layers reach

$$r = 1 + (k-1) \sum_{l=1}^{L} \delta_l .$$

To connect positions that are $n$ apart takes $O(n/k)$ layers with $\delta_l = 1$, but only $O(\log_k n)$ with
$\delta_l = k^{l-1}$, where $r = k^L$ (Yu & Koltun 2016; van den Oord et al. 2016, section 2.1).
"""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnbook._validation import check_positive, check_probability, check_tensor

__all__ = ["CausalConv1d", "TemporalConvNet", "conv1d", "receptive_field"]


def conv1d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    dilation: int = 1,
    padding: tuple[int, int] = (0, 0),
) -> Tensor:
    """Convolution over the time dimension: y_t = b + Σ_j W_j x_{t + j·dilation}.

    Args:
        x: (batch, time, inputs).
        weight: (outputs, inputs, kernel), as torch keeps it; `weight[:, :, j]` is W_j.
        bias: (outputs,), or None.
        dilation: distance between two taps.
        padding: how many zeros are put before and after the sequence: (0, 0) shortens it by
            (kernel − 1) · dilation, ((kernel − 1) · dilation, 0) is causal.

    Returns:
        (batch, time + sum(padding) − (kernel − 1) · dilation, outputs).

    Raises:
        TypeError, ValueError: shapes that do not fit, or a sequence shorter than the window.
    """
    check_tensor("weight", weight, "outputs", "inputs", "kernel")
    check_tensor("x", x, "batch", "time", weight.shape[1])
    check_positive(dilation=dilation)
    window = 1 + (weight.shape[2] - 1) * dilation
    x = F.pad(x, (0, 0, *padding))  # (batch, time + sum(padding), inputs)
    length = x.shape[1] - window + 1
    if length < 1:
        raise ValueError(f"x: expected at least {window} time steps (with padding), found {x.shape[1]}")
    y = 0.0 if bias is None else bias
    for j, W_j in enumerate(weight.unbind(-1)):
        y = y + x[:, j * dilation : j * dilation + length] @ W_j.T  # (batch, length, outputs)
    return y


class CausalConv1d(nn.Module):
    """A convolution that sees the present and the past, and keeps the length.

    Args:
        in_channels, out_channels: number of features that come in and go out.
        kernel_size: number of taps.
        dilation: distance between two taps.

    Weights and biases start uniform in ±1/√(in_channels · kernel_size), as torch's `nn.Conv1d` starts them.
    """

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, dilation: int = 1):
        super().__init__()
        check_positive(in_channels=in_channels, out_channels=out_channels)
        check_positive(kernel_size=kernel_size, dilation=dilation)
        self.dilation = dilation
        self.padding = ((kernel_size - 1) * dilation, 0)
        bound = 1 / math.sqrt(in_channels * kernel_size)
        self.weight = nn.Parameter(
            torch.empty(out_channels, in_channels, kernel_size).uniform_(-bound, bound)
        )
        self.bias = nn.Parameter(torch.empty(out_channels).uniform_(-bound, bound))

    def forward(self, x: Tensor) -> Tensor:
        """(batch, time, in_channels) -> (batch, time, out_channels).

        Raises:
            TypeError, ValueError: `x` of another shape or type, or without a time step.
        """
        return conv1d(x, self.weight, self.bias, self.dilation, self.padding)

    @classmethod
    def from_torch(cls, module: nn.Conv1d) -> "CausalConv1d":
        """The same function as `module` gives with (kernel − 1) · dilation zeros before the sequence.

        A `module` that pads both sides by that number gives the same once its last outputs are cut off. Mind
        the layout: torch's module takes (batch, channel, time), ours (batch, time, channel).

        Raises:
            ValueError: a stride, groups, another padding, or no bias.
        """
        (kernel_size,), (dilation,) = module.kernel_size, module.dilation
        fits = module.stride == (1,) and module.groups == 1 and module.bias is not None
        fits = fits and module.padding in ((0,), ((kernel_size - 1) * dilation,), "valid")
        if not fits or module.padding_mode != "zeros":
            raise ValueError(
                "module: expected an nn.Conv1d with bias, stride 1, groups 1 and padding 0 or "
                f"(kernel_size - 1) * dilation = {(kernel_size - 1) * dilation}, found {module}"
            )
        ours = cls(module.in_channels, module.out_channels, kernel_size, dilation)
        ours = ours.to(module.weight).train(module.training)
        ours.load_state_dict(module.state_dict())
        return ours


class TemporalConvNet(nn.Module):
    r"""A stack of causal convolutions with residuals, $x \leftarrow x + \mathrm{ReLU}(\mathrm{conv}_l(x))$.

    After Bai et al. 2018, section 3, whose blocks hold two convolutions and weight normalization.

    Args:
        d_model: number of features, the same in every layer.
        kernel_size: number of taps.
        dilations: one number for each layer: `[1] * n` is a plain stack, `[1, 2, 4, …]` doubles the reach.
        dropout: probability with which a feature of a layer's output is dropped in training.
    """

    def __init__(self, d_model: int, kernel_size: int, dilations: Sequence[int], dropout: float = 0.0):
        super().__init__()
        check_probability(dropout=dropout)
        self.receptive_field = receptive_field(kernel_size, dilations)
        self.convolutions = nn.ModuleList(
            CausalConv1d(d_model, d_model, kernel_size, dilation) for dilation in dilations
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, time, d_model) -> (batch, time, d_model).

        Output t depends on the inputs t − receptive_field + 1 … t. So padding after a sequence is invisible.

        Raises:
            TypeError, ValueError: `x` of another shape or type, or without a time step.
        """
        for convolution in self.convolutions:
            x = x + self.dropout(torch.relu(convolution(x)))
        return x


def receptive_field(kernel_size: int, dilations: Sequence[int]) -> int:
    """How many input positions an output of stacked convolutions depends on: 1 + (k − 1) · Σ dilations.

    Args:
        kernel_size: number of taps in every layer.
        dilations: one number for each layer.

    Raises:
        TypeError, ValueError: no layer, or a size that is not a positive int.
    """
    check_positive(kernel_size=kernel_size)
    for index, dilation in enumerate(dilations):
        check_positive(**{f"dilations[{index}]": dilation})
    if not len(dilations):
        raise ValueError("dilations: expected one number for each layer, found none")
    return 1 + (kernel_size - 1) * sum(dilations)
