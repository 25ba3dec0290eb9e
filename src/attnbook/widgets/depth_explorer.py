"""The depth explorer of chapter 10: what a gradient is after 2 to 64 layers, in six ways to build a layer."""

from attnbook.notebook import Bilingual
from attnbook.widgets.base import Choice, Flag, Number, Widget, bundle

__all__ = ["DepthExplorer"]


class DepthExplorer(Widget):
    """‖∂ℒ/∂h_l‖, ‖∂ℒ/∂W₂‖ or the size of h_l at each layer of a stack, with and without residual and norm.

    The front end draws weights, inputs and the gradient at the output from `seed` (mulberry32 and Box-Muller)
    and runs the stack forward and backward in float64, so nothing but these traits is synced. A layer's F is
    `FeedForward(width, width)` without biases; "post" and "pre" are `Residual`'s two orders, and a "pre"
    stack ends in one more norm.

    Args:
        depth: number of layers, 2 … 64.
        residual: whether x is added to F(x) in the selected row; all six rows are always drawn.
        norm: of the selected row, "none", "post" or "pre".
        quantity: "state" (gradient of h_l), "weights" (gradient of W₂ in layer l) or "size" (of h_l).
        scale: g; each weight is drawn with standard deviation g / √width, 0.3 … 2.
        activation: "relu", "gelu", "tanh", "sigmoid" or "identity".
        width: number of features d, 8 … 64.
        layer: the layer whose values are shown as numbers, 0 … 64; one beyond the end means the last.
        seed: of the draw, 0 … 2³¹ − 1.

    Raises:
        TypeError, ValueError: a trait of the wrong type or outside its range.
    """

    _esm = bundle("depth_explorer.js")

    depth = Number(24, 2, 64, integer=True).tag(sync=True)
    residual = Flag(False).tag(sync=True)
    norm = Choice("none", "post", "pre").tag(sync=True)
    quantity = Choice("state", "weights", "size").tag(sync=True)
    scale = Number(1.0, 0.3, 2).tag(sync=True)
    activation = Choice("relu", "gelu", "tanh", "sigmoid", "identity").tag(sync=True)
    width = Number(32, 8, 64, integer=True).tag(sync=True)
    layer = Number(0, 0, 64, integer=True).tag(sync=True)
    seed = Number(10, 0, 2**31 - 1, integer=True).tag(sync=True)

    def describe(self) -> Bilingual:
        built = {"none": "F(x)", "post": "LN(F(x))", "pre": "F(LN(x))"}[self.norm]
        if self.residual:
            built = {"none": "x + F(x)", "post": "LN(x + F(x))", "pre": "x + F(LN(x))"}[self.norm]
        zh, en = {
            "state": ("各层状态的梯度", "gradient of each layer's state"),
            "weights": ("各层权重的梯度", "gradient of each layer's weights"),
            "size": ("各层状态的大小", "size of each layer's state"),
        }[self.quantity]
        return Bilingual(
            f"{self.depth} 层网络里{zh}，纵轴是对数刻度，六种搭法一起画，选中的是 {built}。"
            "没有残差也没有归一化时，它随层数指数地消失或爆炸；两者都有时，它变化得很慢。",
            f"The {en} in a network of {self.depth} layers, on a log scale, for six ways to build a layer; "
            f"selected is {built}. With neither residual nor norm it vanishes or explodes exponentially with "
            "the number of layers; with both it changes slowly.",
        )
