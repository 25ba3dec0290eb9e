"""The decision-boundary playground of chapter 02: a small network learns in the page."""

from typing import Any

import traitlets

from attnbook.notebook import Bilingual
from attnbook.widgets.base import Choice, Flag, Number, Widget, bundle

__all__ = ["DecisionBoundary"]

REACH = 2.5  # the plane is ±REACH in both directions

_NAMES = {
    "blobs": ("两团", "two blobs"),
    "xor": ("异或", "XOR"),
    "circles": ("圆环", "circles"),
    "moons": ("月牙", "moons"),
    "spiral": ("螺旋", "spiral"),
}


class DecisionBoundary(Widget):
    """An `MLP` with two inputs and one logit, trained by full-batch gradient descent on 120 points.

    The front end draws data and first weights from `seed` and computes in float64: the same traits give the
    same network after the same number of steps. A change of the data or of the network starts again.

    Args:
        dataset: "moons", "blobs", "xor", "circles" or "spiral".
        depth, width: hidden layers, 0 … 4, and units in each, 1 … 16.
        activation: "relu", "tanh", "sigmoid" or "identity".
        learning_rate: 0.001 … 10; may change during training.
        points: added points (x1, x2, class) within ±2.5, class 0 or 1.
        seed: of data and first weights, 0 … 2³¹ − 1.
        steps: steps done, 0 … 20000. Set it, and the network trains on (or anew) to that step.
        show_units: draw the lines at which the units of the first layer bend.

    Raises:
        TypeError, ValueError: a trait of the wrong type or outside its range.
    """

    _esm = bundle("decision_boundary.js")

    dataset = Choice("moons", "blobs", "xor", "circles", "spiral").tag(sync=True)
    depth = Number(1, 0, 4, integer=True).tag(sync=True)
    width = Number(8, 1, 16, integer=True).tag(sync=True)
    activation = Choice("tanh", "relu", "sigmoid", "identity").tag(sync=True)
    learning_rate = Number(1.0, 0.001, 10).tag(sync=True)
    points = traitlets.List().tag(sync=True)
    seed = Number(2, 0, 2**31 - 1, integer=True).tag(sync=True)
    steps = Number(0, 0, 20000, integer=True).tag(sync=True)
    show_units = Flag(False).tag(sync=True)

    @traitlets.validate("points")
    def _in_the_plane(self, proposal: dict[str, Any]) -> list[list[float]]:
        points = []
        for i, point in enumerate(proposal["value"]):
            try:
                x, y, label = (float(number) for number in point)
            except (TypeError, ValueError):
                raise TypeError(f"points: expected (x1, x2, class) at {i}, found {point!r}") from None
            if not (abs(x) <= REACH and abs(y) <= REACH and label in (0, 1)):
                raise ValueError(
                    f"points: expected x1 and x2 in [-{REACH}, {REACH}] and class 0 or 1 at {i}, "
                    f"found {point!r}"
                )
            points.append([x, y, int(label)])
        return points

    def describe(self) -> Bilingual:
        zh, en = _NAMES[self.dataset]
        layers = "layer" if self.depth == 1 else "layers"
        return Bilingual(
            f"数据“{zh}”上的 120 个点，两类；一个有 {self.depth} 个隐藏层、每层 {self.width} 个单元的网络"
            "在页面里训练，底色是它给 B 类的概率，粗线是决策边界，旁边是损失曲线。"
            "没有激活函数时，边界永远是直线。",
            f"120 points of two classes ({en}); a network with {self.depth} hidden {layers} of {self.width} "
            "units is trained in the page. Colour is its probability of class B, the thick line the decision "
            "boundary, beside it the loss. Without an activation the boundary is always a straight line.",
        )
