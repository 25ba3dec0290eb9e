r"""Feed-forward networks: affine maps with a bend between them.

An affine map $z = Wx + b$ can stretch, turn and shift, but two of them in a row are one affine map again,
$W_2(W_1 x + b_1) + b_2 = (W_2 W_1)x + (W_2 b_1 + b_2)$. So between two layers each feature is bent by an
activation $\sigma$:

$$h_0 = x, \qquad h_l = \sigma(W_l h_{l-1} + b_l) \quad (l = 1 \dots L-1), \qquad y = W_L h_{L-1} + b_L .$$

That is `MLP`. `FeedForward` is its two-layer case inside the Transformer, applied to every position alike.

The activations and their derivatives, with $\Phi$ and $\varphi$ for the distribution function and the density
of the standard normal distribution:

| | $\sigma(z)$ | $\sigma'(z)$ |
|---|---|---|
| `relu` | $\max(0, z)$ | $1$ where $z > 0$, else $0$ |
| `sigmoid` | $1 / (1 + e^{-z})$ | $\sigma(z)(1 - \sigma(z))$ |
| `tanh` | $(e^z - e^{-z}) / (e^z + e^{-z})$ | $1 - \tanh^2 z$ |
| `gelu` | $z\,\Phi(z)$ | $\Phi(z) + z\,\varphi(z)$ |

`softmax` mixes its inputs, so its derivative is a matrix,
$\partial p_i / \partial z_j = p_i(\delta_{ij} - p_j)$.
"""

import math
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnbook._validation import check_choice, check_positive, check_probability, check_tensor

__all__ = [
    "ACTIVATIONS",
    "DERIVATIVES",
    "MLP",
    "FeedForward",
    "affine",
    "gelu",
    "gelu_derivative",
    "mlp",
    "num_parameters",
    "relu",
    "relu_derivative",
    "sigmoid",
    "sigmoid_derivative",
    "softmax",
    "softmax_jacobian",
    "tanh",
    "tanh_derivative",
]


def relu(z: Tensor) -> Tensor:
    r"""$\max(0, z)$, entry by entry (Nair & Hinton 2010)."""
    return torch.relu(z)


def relu_derivative(z: Tensor) -> Tensor:
    """1 where z > 0, else 0: a unit that is negative for every input never learns again (dying ReLU)."""
    return (z > 0).to(z.dtype)


def sigmoid(z: Tensor) -> Tensor:
    r"""$1 / (1 + e^{-z})$, entry by entry; torch's kernel does not overflow for large $-z$."""
    return torch.sigmoid(z)


def sigmoid_derivative(z: Tensor) -> Tensor:
    r"""$\sigma(z)(1 - \sigma(z))$: at most 1/4, at $z = 0$; almost nothing where the unit is saturated."""
    return sigmoid(z) * (1 - sigmoid(z))


def tanh(z: Tensor) -> Tensor:
    r"""$(e^z - e^{-z}) / (e^z + e^{-z}) = 2\sigma(2z) - 1$, entry by entry."""
    return torch.tanh(z)


def tanh_derivative(z: Tensor) -> Tensor:
    r"""$1 - \tanh^2 z$: at most 1, at $z = 0$."""
    return 1 - tanh(z) ** 2


def gelu(z: Tensor) -> Tensor:
    r"""$z\,\Phi(z)$ with $\Phi(z) = \frac12(1 + \mathrm{erf}(z/\sqrt2))$ (Hendrycks & Gimpel 2016).

    This is the exact form, not the paper's approximation by a tanh.
    """
    return z * _normal_distribution(z)


def gelu_derivative(z: Tensor) -> Tensor:
    r"""$\Phi(z) + z\,\varphi(z)$ with the normal density $\varphi(z) = e^{-z^2/2}/\sqrt{2\pi}$."""
    density = torch.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    return _normal_distribution(z) + z * density


def _normal_distribution(z: Tensor) -> Tensor:
    return (1 + torch.erf(z / math.sqrt(2))) / 2


def softmax(z: Tensor, dim: int = -1) -> Tensor:
    r"""$p_i = e^{z_i} / \sum_j e^{z_j}$: positive numbers along `dim` that sum to 1.

    A number subtracted from every $z_i$ cancels between numerator and denominator. Subtracting the largest
    makes every exponent at most 0, so that nothing overflows.
    """
    e = torch.exp(z - z.amax(dim, keepdim=True).detach())  # it cancels, so it needs no gradient either
    return e / e.sum(dim, keepdim=True)


def softmax_jacobian(z: Tensor) -> Tensor:
    r"""$\partial p_i / \partial z_j = p_i(\delta_{ij} - p_j)$, in matrix form $\mathrm{diag}(p) - pp^\top$.

    Args:
        z: (..., n).

    Returns:
        (..., n, n), row i and column j; symmetric, and every row sums to 0.
    """
    p = softmax(z)
    return torch.diag_embed(p) - p[..., :, None] * p[..., None, :]


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": relu,
    "sigmoid": sigmoid,
    "tanh": tanh,
    "gelu": gelu,
    "identity": lambda z: z,
}
DERIVATIVES: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": relu_derivative,
    "sigmoid": sigmoid_derivative,
    "tanh": tanh_derivative,
    "gelu": gelu_derivative,
    "identity": torch.ones_like,
}


def affine(x: Tensor, W: Tensor, b: Tensor) -> Tensor:
    """Wx + b for every vector in `x`: the vectors are rows here, so W stands transposed on the right.

    Args:
        x: (..., inputs).
        W: (outputs, inputs).
        b: (outputs,).

    Returns:
        (..., outputs).
    """
    return x @ W.T + b


def mlp(x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor], activation: Callable) -> Tensor:
    """The network as a pure function: affine maps with `activation` between them, none after the last.

    Args:
        x: (..., sizes[0]).
        weights, biases: for each layer l, (sizes[l], sizes[l - 1]) and (sizes[l],).
        activation: a function that acts on each entry.

    Returns:
        (..., sizes[-1]).
    """
    h = x
    for W, b in zip(weights[:-1], biases[:-1], strict=True):
        h = activation(affine(h, W, b))  # (..., sizes[l])
    return affine(h, weights[-1], biases[-1])


class MLP(nn.Module):
    """A multilayer perceptron: `MLP([2, 16, 16, 1], "tanh")` has two hidden layers of 16 units.

    Args:
        sizes: number of features from the input to the output, at least two numbers.
        activation: a name in `ACTIVATIONS`; "identity" makes the whole network one affine map.

    Weights and biases start uniform in ±1/√inputs, as torch's `nn.Linear` starts them.
    """

    def __init__(self, sizes: Sequence[int], activation: str = "relu"):
        super().__init__()
        if len(sizes) < 2:
            raise ValueError(f"sizes: expected at least an input and an output size, found {list(sizes)}")
        for index, size in enumerate(sizes):
            check_positive(**{f"sizes[{index}]": size})
        check_choice(tuple(ACTIVATIONS), activation=activation)
        self.sizes, self.activation = list(sizes), activation
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for inputs, outputs in zip(sizes[:-1], sizes[1:], strict=True):
            bound = 1 / math.sqrt(inputs)
            self.weights.append(nn.Parameter(torch.empty(outputs, inputs).uniform_(-bound, bound)))
            self.biases.append(nn.Parameter(torch.empty(outputs).uniform_(-bound, bound)))

    def forward(self, x: Tensor) -> Tensor:
        """(..., sizes[0]) -> (..., sizes[-1]).

        Raises:
            TypeError, ValueError: `x` that is not a floating-point tensor with `sizes[0]` features.
        """
        check_tensor("x", x, "...", self.sizes[0])
        return mlp(x, list(self.weights), list(self.biases), ACTIVATIONS[self.activation])

    @classmethod
    def from_torch(cls, module: nn.Linear | nn.Sequential) -> "MLP":
        """The same function as an `nn.Linear`, or as `nn.Linear`s with one kind of activation between them.

        Raises:
            ValueError: any other layer, an activation after the last layer, or an `nn.Linear` without bias.
        """
        linears, activation, dropout = _read_sequential(module)
        if dropout:
            raise ValueError(f"module: expected no dropout, found {module}")
        ours = cls([linears[0].in_features, *(linear.out_features for linear in linears)], activation)
        ours = ours.to(linears[0].weight).train(module.training)
        with torch.no_grad():
            for W, b, linear in zip(ours.weights, ours.biases, linears, strict=True):
                W.copy_(linear.weight)
                b.copy_(linear.bias)
        return ours


class FeedForward(nn.Module):
    r"""$\mathrm{FFN}(x) = W_2\,\sigma(W_1 x + b_1) + b_2$, position by position (Vaswani et al. 2017, eq. 2).

    Each position is mapped by itself: its features are widened, bent, and narrowed again.

    Args:
        d_model: number of features that come in and go out.
        d_ff: number of features between the two maps.
        dropout: probability with which a feature between them is dropped in training.
        activation: a name in `ACTIVATIONS`; the paper's is "relu".
    """

    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.0, activation: str = "relu"):
        super().__init__()
        check_positive(d_model=d_model, d_ff=d_ff)
        check_probability(dropout=dropout)
        check_choice(tuple(ACTIVATIONS), activation=activation)
        self.d_model, self.d_ff, self.dropout, self.activation = d_model, d_ff, dropout, activation
        self.W_1 = nn.Linear(d_model, d_ff)  # `affine` with its weight and bias, in one kernel
        self.W_2 = nn.Linear(d_ff, d_model)

    def forward(self, x: Tensor) -> Tensor:
        """(..., d_model) -> (..., d_model).

        Raises:
            TypeError, ValueError: `x` that is not a floating-point tensor with `d_model` features.
        """
        check_tensor("x", x, "...", self.d_model)
        h = ACTIVATIONS[self.activation](self.W_1(x))  # (..., d_ff)
        h = F.dropout(h, self.dropout, self.training)
        return self.W_2(h)  # (..., d_model)

    @classmethod
    def from_torch(cls, module: nn.Sequential) -> "FeedForward":
        """The same function as `nn.Sequential(nn.Linear, activation, [nn.Dropout,] nn.Linear)`.

        Raises:
            ValueError: any other layers, or an output that is not as wide as the input.
        """
        linears, activation, dropout = _read_sequential(module)
        if len(linears) != 2 or linears[0].in_features != linears[1].out_features:
            raise ValueError(f"module: expected two nn.Linear, d_model -> d_ff -> d_model, found {module}")
        ours = cls(linears[0].in_features, linears[0].out_features, dropout, activation)
        ours = ours.to(linears[0].weight).train(module.training)
        ours.W_1.load_state_dict(linears[0].state_dict())
        ours.W_2.load_state_dict(linears[1].state_dict())
        return ours


def num_parameters(module: nn.Module) -> int:
    """How many numbers the parameters of `module` hold; one that is used twice (tied weights) counts once."""
    return sum(parameter.numel() for parameter in module.parameters())


def _read_sequential(module: nn.Linear | nn.Sequential) -> tuple[list[nn.Linear], str, float]:
    """The linear layers, the name of the activation between them, and the dropout before the last of them."""
    layers = list(module) if isinstance(module, nn.Sequential) else [module]
    linears, between, dropout = [], [], 0.0
    for layer in layers:
        match layer:
            case nn.Linear(bias=Tensor()):
                linears.append(layer)
            case nn.ReLU() | nn.Sigmoid() | nn.Tanh() | nn.GELU(approximate="none"):
                between.append((len(linears), type(layer).__name__.lower()))
            case nn.Dropout(p=p) if len(linears) == 1 and between:
                dropout = p
            case _:
                raise ValueError(f"module: expected nn.Linear with bias and activations, found {layer}")
    names = {name for _, name in between} or {"identity"}
    places = [place for place, _ in between]
    if not linears or len(names) != 1 or places not in ([], list(range(1, len(linears)))):
        raise ValueError(f"module: expected one kind of activation between all linear layers, found {module}")
    return linears, names.pop(), dropout
