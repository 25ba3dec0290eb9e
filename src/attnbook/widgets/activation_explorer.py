"""The activation explorer of chapter 02: a function, its slope, saturation, a unit that may die."""

from attnbook.notebook import Bilingual
from attnbook.widgets.base import Choice, Number, Widget, bundle

__all__ = ["ActivationExplorer"]


class ActivationExplorer(Widget):
    """An activation with its derivative, and one unit σ(wx + b) that is trained in the page.

    Grey is where the slope is below 0.05 in size. The unit has 40 inputs, spread like a standard normal, and
    is to become the unit with w = 1.5 and b = 0.5.

    Args:
        activation: "relu", "sigmoid", "tanh" or "gelu".
        z: where slope and tangent are shown, −6 … 6.
        layers: how many slopes are multiplied, 1 … 20.
        weight, bias: of the unit, −4 … 4 and −8 … 8.

    Raises:
        TypeError, ValueError: a trait of the wrong type or outside its range.
    """

    _esm = bundle("activation_explorer.js")

    activation = Choice("relu", "sigmoid", "tanh", "gelu").tag(sync=True)
    z = Number(1.0, -6, 6).tag(sync=True)
    layers = Number(10, 1, 20, integer=True).tag(sync=True)
    weight = Number(0.5, -4, 4).tag(sync=True)
    bias = Number(-0.5, -8, 8).tag(sync=True)

    def describe(self) -> Bilingual:
        return Bilingual(
            f"激活函数 {self.activation} 的曲线、导数和斜率小于 0.05 的区域；连过 {self.layers} 层，"
            f"斜率要连乘 {self.layers} 次。下方的一个单元在 40 个输入上学习："
            "预激活值全落在斜率为零处的 ReLU 单元再也学不动。",
            f"The activation {self.activation}, its derivative, and the region where the slope is below "
            f"0.05; through {self.layers} layers the slope is multiplied {self.layers} times. Below, one "
            "unit learns from 40 inputs: a ReLU unit whose pre-activations all lie where the slope is zero "
            "never learns again.",
        )
