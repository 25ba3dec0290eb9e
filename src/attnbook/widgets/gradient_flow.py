"""The gradient-flow explorer of chapter 4: how fast gradients shrink or grow through an RNN and an LSTM."""

from attnbook.notebook import Bilingual
from attnbook.widgets.base import Choice, Number, Widget, bundle

__all__ = ["GradientFlow"]


class GradientFlow(Widget):
    """‖∂h_T/∂h_k‖₂ of an RNN with its bound (γ‖W_hh‖₂)^(T−k), and ‖∂c_T/∂c_k‖₂ of an LSTM, against T − k.

    The front end draws weights and inputs from `seed` (mulberry32 and Box-Muller), runs both networks with
    12 units in float64 and multiplies their Jacobians, so nothing but these traits is synced:

    Args:
        radius: spectral radius of W_hh, and of each of the LSTM's four recurrent matrices, 0.1 … 2.
        length: number of steps T, 5 … 100.
        activation: of the RNN, "tanh", "sigmoid", "relu" or "identity"; the LSTM keeps its own.
        matrix: "random" (normal entries), or "orthogonal", whose norm is equal to its spectral radius.
        strength: standard deviation of the inputs' part W_xh x_t + b of each step, 0 … 2.
        forget_bias: of the LSTM's forget gate, −2 … 5. Large: the gate is open, and the cell keeps.
        seed: of the draw, 0 … 2³¹ − 1.

    Raises:
        TypeError, ValueError: a trait of the wrong type or outside its range.
    """

    _esm = bundle("gradient_flow.js")

    radius = Number(0.9, 0.1, 2).tag(sync=True)
    length = Number(50, 5, 100, integer=True).tag(sync=True)
    activation = Choice("tanh", "sigmoid", "relu", "identity").tag(sync=True)
    matrix = Choice("random", "orthogonal").tag(sync=True)
    strength = Number(0.5, 0, 2).tag(sync=True)
    forget_bias = Number(3.0, -2, 5).tag(sync=True)
    seed = Number(4, 0, 2**31 - 1, integer=True).tag(sync=True)

    def describe(self) -> Bilingual:
        return Bilingual(
            f"梯度往回传 {self.length} 步：RNN（{self.activation}，谱半径 {self.radius:g}）的 ‖∂h_T/∂h_k‖ "
            "与理论上界，以及 LSTM 的 ‖∂c_T/∂c_k‖，纵轴是对数刻度。"
            "RNN 的曲线大致是直线：每步乘上差不多的因子，所以指数地消失或爆炸；"
            "遗忘门打开的 LSTM 降得慢得多。",
            f"Gradients on their way back through {self.length} steps: ‖∂h_T/∂h_k‖ of an RNN "
            f"({self.activation}, spectral radius {self.radius:g}) with its theoretical bound, and "
            "‖∂c_T/∂c_k‖ of an LSTM, on a log scale. The RNN's curve is nearly straight, about the same "
            "factor at each step, so it vanishes or explodes exponentially; an LSTM with open forget gates "
            "falls far more slowly.",
        )
