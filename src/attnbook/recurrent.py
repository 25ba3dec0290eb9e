r"""Recurrent networks: read one token at a time, and carry a state along.

**RNN** (Elman 1990). One cell, the same weights at every step; the network is a for loop:

$$h_t = \tanh(W x_t + U h_{t-1} + b) .$$

Through $T$ steps the gradient is multiplied by $T$ Jacobians $\mathrm{diag}(\tanh'(z_t))\,U$, $z_t$ being
what stands in the brackets; so it tends to vanish or to explode.

**LSTM** (Hochreiter & Schmidhuber 1997; the forget gate: Gers et al. 2000). A cell state $c_t$ is changed by
adding, so that the direct path through it has the Jacobian $\mathrm{diag}(f_t)$, without a matrix. Gates
between 0 and 1 decide what is kept, written and shown:

$$\begin{aligned}
i_t &= \sigma(W_i x_t + U_i h_{t-1} + b_i) & \text{input gate: write} \\
f_t &= \sigma(W_f x_t + U_f h_{t-1} + b_f) & \text{forget gate: keep} \\
g_t &= \tanh(W_g x_t + U_g h_{t-1} + b_g) & \text{candidate, also written } \tilde c_t \\
o_t &= \sigma(W_o x_t + U_o h_{t-1} + b_o) & \text{output gate: show} \\
c_t &= f_t \odot c_{t-1} + i_t \odot g_t \\
h_t &= o_t \odot \tanh(c_t)
\end{aligned}$$

**GRU** (Cho et al. 2014). No separate cell. $z_t$ says how much is kept (in Chung et al. 2014, how much is
written: $z$ and $1 - z$ change places), $r_t$ what the candidate may see of the state. The two published
variants differ in what $r_t$ multiplies, the state or its product with $U_n$:

$$\begin{aligned}
r_t &= \sigma(W_r x_t + U_r h_{t-1} + b_r) \\
z_t &= \sigma(W_z x_t + U_z h_{t-1} + b_z) \\
n_t &= \tanh(W_n x_t + U_n (r_t \odot h_{t-1}) + b_n) & \text{reset before: Cho et al. 2014, eq. 8} \\
n_t &= \tanh(W_n x_t + b_n + r_t \odot (U_n h_{t-1} + b_{hn})) & \text{reset after: torch and cuDNN} \\
h_t &= (1 - z_t) \odot n_t + z_t \odot h_{t-1}
\end{aligned}$$

**Two things that save time.** The gates' matrices are stacked into one $W$ and one $U$, in torch's order i,
f, g, o and r, z, n. And $a_t = W x_t + b$ does not depend on the state: it is computed for all steps in one
product before the loop. So each step function below takes $a_t$.

**Padding.** Sequences of different length share a batch. Past its end a sequence keeps its state unchanged.
The backward direction begins in the padding, keeps its initial state there, and so starts at each sequence's
end.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnbook._validation import check_positive, check_tensor

__all__ = [
    "GRU",
    "LSTM",
    "RNN",
    "gru_step",
    "gru_step_reset_before",
    "lstm_gates",
    "lstm_step",
    "rnn_step",
    "unroll",
]

State = tuple[Tensor, ...]  # (h,) of an RNN or GRU, (h, c) of an LSTM


def rnn_step(a: Tensor, h: Tensor, U: Tensor) -> Tensor:
    """One step of an RNN: tanh(a_t + U h_{t−1}).

    Args:
        a: the input's part W x_t + b, (batch, hidden).
        h: the state before, (batch, hidden).
        U: (hidden, hidden).

    Returns:
        The state after, (batch, hidden).
    """
    return torch.tanh(a + h @ U.T)


def lstm_gates(a: Tensor, h: Tensor, U: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gates of an LSTM at one step; arguments as in `lstm_step`.

    Returns:
        Input gate i, forget gate f, candidate g, output gate o, each (batch, hidden).
    """
    i, f, g, o = (a + h @ U.T).chunk(4, dim=-1)  # from (batch, 4·hidden)
    return torch.sigmoid(i), torch.sigmoid(f), torch.tanh(g), torch.sigmoid(o)


def lstm_step(a: Tensor, h: Tensor, c: Tensor, U: Tensor) -> tuple[Tensor, Tensor]:
    """One step of an LSTM (Gers et al. 2000).

    Args:
        a: the input's part W x_t + b of the four gates i, f, g, o, (batch, 4·hidden).
        h, c: hidden state and cell state before, (batch, hidden).
        U: (4·hidden, hidden).

    Returns:
        Hidden state and cell state after, (batch, hidden).
    """
    i, f, g, o = lstm_gates(a, h, U)
    c = f * c + i * g
    return o * torch.tanh(c), c


def gru_step(a: Tensor, h: Tensor, U: Tensor, b_hn: Tensor) -> Tensor:
    """One step of the GRU of torch and cuDNN, which resets after the product with U_n.

    Args:
        a: the input's part W x_t + b of r, z, n, (batch, 3·hidden).
        h: the state before, (batch, hidden).
        U: (3·hidden, hidden).
        b_hn: the bias that is reset along with U_n h, (hidden,).

    Returns:
        The state after, (batch, hidden).
    """
    a_r, a_z, a_n = a.chunk(3, dim=-1)
    u_r, u_z, u_n = (h @ U.T).chunk(3, dim=-1)
    r = torch.sigmoid(a_r + u_r)
    z = torch.sigmoid(a_z + u_z)
    n = torch.tanh(a_n + r * (u_n + b_hn))
    return (1 - z) * n + z * h


def gru_step_reset_before(a: Tensor, h: Tensor, U: Tensor) -> Tensor:
    """One step of the GRU of Cho et al. 2014 (eq. 5 to 8), which resets the state before the product.

    Arguments and result as in `gru_step`, without `b_hn`.
    """
    a_r, a_z, a_n = a.chunk(3, dim=-1)
    U_r, U_z, U_n = U.chunk(3)
    r = torch.sigmoid(a_r + h @ U_r.T)
    z = torch.sigmoid(a_z + h @ U_z.T)
    n = torch.tanh(a_n + (r * h) @ U_n.T)
    return (1 - z) * n + z * h


def unroll(
    step: Callable[..., State],
    inputs: Sequence[Tensor],
    state: State,
    inside: Sequence[Tensor] | None = None,
    reverse: bool = False,
) -> tuple[Tensor, State]:
    """The for loop over time.

    Args:
        step: (a_t, *state) -> state.
        inputs: a_t for each time step, (batch, …).
        state: the state before the first step, a tuple of (batch, hidden).
        inside: for each time step bool (batch, 1), False where the sequence is over: the state stays.
        reverse: go from the last time step to the first.

    Returns:
        h_t of every step (batch, time, hidden), and the state after the last one.
    """
    outputs = []
    order = range(len(inputs))
    for t in reversed(order) if reverse else order:
        after = step(inputs[t], *state)
        if inside is not None:
            after = tuple(torch.where(inside[t], new, old) for new, old in zip(after, state, strict=True))
        state = after
        outputs.append(state[0])
    if reverse:
        outputs.reverse()
    return torch.stack(outputs, dim=1), state


class Cell(nn.Module):
    """The weights of one layer in one direction: W, U, b, and b_hn where a GRU needs it.

    Weights start uniform in ±1/√hidden, biases at 0. Called on x (…, input_size), it returns
    W x + b (…, gates · hidden_size).
    """

    def __init__(self, input_size: int, hidden_size: int, gates: int, has_bias_hn: bool):
        super().__init__()
        bound = 1 / math.sqrt(hidden_size)
        rows = gates * hidden_size
        self.weight_ih = nn.Parameter(torch.empty(rows, input_size).uniform_(-bound, bound))  # W
        self.weight_hh = nn.Parameter(torch.empty(rows, hidden_size).uniform_(-bound, bound))  # U
        self.bias = nn.Parameter(torch.zeros(rows))  # b
        self.bias_hn = nn.Parameter(torch.zeros(hidden_size)) if has_bias_hn else None

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight_ih, self.bias)


class _Recurrent(nn.Module):
    """Layers and directions, which the three networks share. A network adds its `gates` and its `step`."""

    gates: int  # rows of W, U and b, in units of hidden_size
    state_parts: tuple[str, ...] = ("h",)

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int,
        bidirectional: bool,
        has_bias_hn: bool = False,
    ):
        super().__init__()
        check_positive(input_size=input_size, hidden_size=hidden_size, num_layers=num_layers)
        self.input_size, self.hidden_size = input_size, hidden_size
        self.num_layers, self.num_directions = num_layers, 2 if bidirectional else 1
        self.cells = nn.ModuleList()  # layer 0 forward, layer 0 backward, layer 1 forward, …
        for layer in range(num_layers):
            size = self.num_directions * hidden_size if layer else input_size
            for _ in range(self.num_directions):
                self.cells.append(Cell(size, hidden_size, self.gates, has_bias_hn))

    def step(self, cell: Cell, a: Tensor, *state: Tensor) -> State:
        """One step with the weights of `cell`."""
        raise NotImplementedError

    def forward(
        self, x: Tensor, state: Tensor | State | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, Tensor | State]:
        """Read whole sequences, or continue them from `state`.

        Args:
            x: (batch, time, input_size), with at least one time step.
            state: h before the first step, (layers · directions, batch, hidden); the pair (h, c) of two such
                tensors for an LSTM. Order: layer 0 forward, layer 0 backward, layer 1 forward, … Default: 0.
            lengths: how many time steps belong to each sequence, int (batch,), each from 1 to `time`; what
                stands in `x` after them has no influence. Default: all.

        Returns:
            outputs: h of the last layer at each step, (batch, time, directions · hidden), the forward
                direction first; zeros after a sequence's end.
            state: as above, each sequence's state after its own last step (backward: after its first one).

        Raises:
            TypeError, ValueError: shapes or types that do not fit, or lengths outside 1 … time.
        """
        inside = self._inside(x, lengths)  # (batch, time, 1)
        outside = None if inside is None else ~inside
        states = self._split(x, state)  # for each layer and direction (h,) or (h, c), (batch, hidden)
        finals = []
        for layer in range(self.num_layers):
            x = x if outside is None else x.masked_fill(outside, 0.0)  # whatever stands there, even NaN
            outputs = []
            for direction in range(self.num_directions):
                k = layer * self.num_directions + direction
                cell = self.cells[k]
                output, final = unroll(
                    partial(self.step, cell),
                    inputs=cell(x.transpose(0, 1)).unbind(0),  # a_t for each step, (batch, gates · hidden)
                    state=states[k],
                    inside=None if inside is None else inside.unbind(1),
                    reverse=direction == 1,
                )
                outputs.append(output)
                finals.append(final)
            x = torch.cat(outputs, dim=-1)  # (batch, time, directions · hidden)
        x = x if outside is None else x.masked_fill(outside, 0.0)
        state = tuple(torch.stack(part) for part in zip(*finals, strict=True))
        return x, state if len(state) > 1 else state[0]

    def _inside(self, x: Tensor, lengths: Tensor | None) -> Tensor | None:
        """bool (batch, time, 1), True where a sequence is not over; checks `x` and `lengths`."""
        check_tensor("x", x, "batch", "time", self.input_size)
        self._check_dtype("x", x)
        batch, time = x.shape[:2]
        if time < 1:
            raise ValueError(f"x: expected at least one time step, found shape {tuple(x.shape)}")
        if lengths is None:
            return None
        if not isinstance(lengths, Tensor):
            raise TypeError(f"lengths: expected an integer tensor, found {type(lengths).__name__}")
        if lengths.dtype == torch.bool or lengths.is_floating_point() or lengths.is_complex():
            raise TypeError(f"lengths: expected an integer tensor, found {lengths.dtype}")
        if lengths.shape != (batch,):
            raise ValueError(f"lengths: expected shape ({batch},), found {tuple(lengths.shape)}")
        if batch and not 1 <= lengths.min() <= lengths.max() <= time:
            raise ValueError(
                f"lengths: expected 1 to {time} (the time steps of x), "
                f"found {lengths.min().item()} to {lengths.max().item()}"
            )
        steps = torch.arange(time, device=x.device)
        return (steps < lengths.to(x.device)[:, None])[..., None]

    def _split(self, x: Tensor, state: Tensor | State | None) -> list[State]:
        """The initial state of each layer and direction; checks `state`."""
        shape = (len(self.cells), x.shape[0], self.hidden_size)
        if state is None:
            zeros = x.new_zeros(shape[1:])
            return [(zeros,) * len(self.state_parts)] * len(self.cells)
        parts = (state,) if len(self.state_parts) == 1 else state
        if not isinstance(parts, tuple) or len(parts) != len(self.state_parts):
            found = f"a tuple of {len(parts)}" if isinstance(parts, tuple) else type(parts).__name__
            raise TypeError(f"state: expected the pair (h, c), found {found}")
        for name, part in zip(self.state_parts, parts, strict=True):
            check_tensor(f"state {name}", part, *shape)
            self._check_dtype(f"state {name}", part)
        return list(zip(*(part.unbind(0) for part in parts), strict=True))

    def _check_dtype(self, name: str, value: Tensor) -> None:
        dtype = self.cells[0].bias.dtype
        if value.dtype != dtype and not torch.is_autocast_enabled(value.device.type):
            raise TypeError(f"{name}: expected {dtype} as the weights have it, found {value.dtype}")

    @classmethod
    def _copy(cls, module: nn.RNNBase, twin: type[nn.RNNBase]) -> "_Recurrent":
        """The same function as `module`, a `twin` without the options that these classes lack."""
        fits = isinstance(module, twin) and module.bias and not module.dropout and not module.proj_size
        if not fits or getattr(module, "nonlinearity", "tanh") != "tanh":
            raise ValueError(
                f"module: expected an nn.{twin.__name__} with bias, without dropout, proj_size and relu, "
                f"found {module}"
            )
        ours = cls(module.input_size, module.hidden_size, module.num_layers, module.bidirectional)
        ours = ours.to(module.weight_ih_l0).train(module.training)
        with torch.no_grad():
            for k, cell in enumerate(ours.cells):
                layer, direction = divmod(k, ours.num_directions)
                suffix = f"_l{layer}" + ("_reverse" if direction else "")
                cell.weight_ih.copy_(getattr(module, "weight_ih" + suffix))
                cell.weight_hh.copy_(getattr(module, "weight_hh" + suffix))
                cell.bias.copy_(getattr(module, "bias_ih" + suffix))
                bias_hh = getattr(module, "bias_hh" + suffix).clone()
                if cell.bias_hn is not None:  # the part that does not merge with torch's other bias
                    cell.bias_hn.copy_(bias_hh[-ours.hidden_size :])
                    bias_hh[-ours.hidden_size :] = 0
                cell.bias.add_(bias_hh)
        return ours


class RNN(_Recurrent):
    """Elman's recurrent network, in layers and directions, batch first.

    Args:
        input_size: number of features of a token.
        hidden_size: number of features of the state.
        num_layers: each layer above the first reads the outputs of the one below.
        bidirectional: a second network reads from the end; the outputs of both are put side by side.

    Called as `(x, state=None, lengths=None) -> (outputs, state)`, see `forward`. State: h.
    """

    gates = 1

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, bidirectional: bool = False):
        super().__init__(input_size, hidden_size, num_layers, bidirectional)

    def step(self, cell: Cell, a: Tensor, h: Tensor) -> State:
        return (rnn_step(a, h, cell.weight_hh),)

    @classmethod
    def from_torch(cls, module: nn.RNN) -> "RNN":
        """The same function as `module`; torch's two biases are added to one.

        Raises:
            ValueError: another module, no bias, dropout, or nonlinearity="relu".
        """
        return cls._copy(module, nn.RNN)


class LSTM(_Recurrent):
    """The long short-term memory (Hochreiter & Schmidhuber 1997; Gers et al. 2000).

    Args:
        input_size, hidden_size, num_layers, bidirectional: as in `RNN`.
        forget_bias: the forget gate's bias at the start; 1 lets the cell state live longer from the first
            step of training on (Gers et al. 2000; Jozefowicz et al. 2015).

    Called as `(x, state=None, lengths=None) -> (outputs, state)`, see `forward`. State: the pair (h, c).
    """

    gates = 4
    state_parts = ("h", "c")

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bidirectional: bool = False,
        forget_bias: float = 0.0,
    ):
        super().__init__(input_size, hidden_size, num_layers, bidirectional)
        for cell in self.cells:
            nn.init.constant_(cell.bias[hidden_size : 2 * hidden_size], forget_bias)  # i, f, g, o

    def step(self, cell: Cell, a: Tensor, h: Tensor, c: Tensor) -> State:
        return lstm_step(a, h, c, cell.weight_hh)

    @classmethod
    def from_torch(cls, module: nn.LSTM) -> "LSTM":
        """The same function as `module`; torch's two biases are added to one.

        Raises:
            ValueError: another module, no bias, dropout, or proj_size.
        """
        return cls._copy(module, nn.LSTM)


class GRU(_Recurrent):
    """The gated recurrent unit (Cho et al. 2014), in both published variants.

    Args:
        input_size, hidden_size, num_layers, bidirectional: as in `RNN`.
        reset_after: True resets U_n h + b_hn, as torch does; False resets h before the product with U_n, as
            the paper does. Weights trained with one must not be run with the other.

    Called as `(x, state=None, lengths=None) -> (outputs, state)`, see `forward`. State: h.
    """

    gates = 3

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bidirectional: bool = False,
        reset_after: bool = True,
    ):
        super().__init__(input_size, hidden_size, num_layers, bidirectional, has_bias_hn=reset_after)
        self.reset_after = reset_after

    def step(self, cell: Cell, a: Tensor, h: Tensor) -> State:
        if self.reset_after:
            return (gru_step(a, h, cell.weight_hh, cell.bias_hn),)
        return (gru_step_reset_before(a, h, cell.weight_hh),)

    @classmethod
    def from_torch(cls, module: nn.GRU) -> "GRU":
        """The same function as `module`; torch's two biases are added to one, except that of n.

        Raises:
            ValueError: another module, no bias, or dropout.
        """
        return cls._copy(module, nn.GRU)
