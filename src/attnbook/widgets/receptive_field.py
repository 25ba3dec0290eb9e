"""The receptive-field explorer of chapter 7: which inputs reach an output, plain against dilated."""

from attnbook.notebook import Bilingual
from attnbook.widgets.base import Flag, Number, Widget, bundle

__all__ = ["ReceptiveField"]


class ReceptiveField(Widget):
    """Two stacks of convolutions above a sequence, with the paths from the inputs to one output.

    The plain stack has dilation 1 in every layer; in the dilated one, layer l has growth^(l − 1).

    Args:
        kernel: number of taps, 2 … 5.
        layers: number of layers, 1 … 6.
        growth: factor from one layer's dilation to the next, 1 … 5; larger than `kernel` leaves holes.
        causal: the window ends at its position (True), or has it in its middle (False).
        length: number of positions, 8 … 48.
        output: position whose paths are shown, 0 … 47; one beyond the end means the last position.

    Raises:
        TypeError, ValueError: a trait of the wrong type or outside its range.
    """

    _esm = bundle("receptive_field.js")

    kernel = Number(3, 2, 5, integer=True).tag(sync=True)
    layers = Number(3, 1, 6, integer=True).tag(sync=True)
    growth = Number(3, 1, 5, integer=True).tag(sync=True)
    causal = Flag(True).tag(sync=True)
    length = Number(32, 8, 48, integer=True).tag(sync=True)
    output = Number(47, 0, 47, integer=True).tag(sync=True)

    def describe(self) -> Bilingual:
        plain = 1 + (self.kernel - 1) * self.layers
        dilated = 1 + (self.kernel - 1) * sum(self.growth**layer for layer in range(self.layers))
        zh, en = ("因果", "causal") if self.causal else ("居中", "centred")
        return Bilingual(
            f"{self.layers} 层{zh}卷积，核宽 {self.kernel}：普通的感受野是 {plain}，"
            f"膨胀率逐层乘以 {self.growth} 时是 {dilated}；图中画出从输入到一个输出的所有路径。",
            f"{self.layers} layers of {en} convolutions with a kernel of {self.kernel}: a receptive field "
            f"of {plain} without dilation, and of {dilated} where each layer's dilation is {self.growth} "
            "times the one before; drawn are all paths from the inputs to one output.",
        )
