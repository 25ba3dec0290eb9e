"""The rotation explorer of chapter 13: positions as clock hands, a shift as a rotation, and RoPE."""

from typing import Any

import traitlets

from attnbook.notebook import Bilingual
from attnbook.widgets.base import Choice, Flag, Number, Widget, bundle

__all__ = ["RotationExplorer"]


class RotationExplorer(Widget):
    """A clock for each frequency; M(k), its residual, the encoding's heatmap and dot products; and RoPE.

    The front end computes everything from these traits, as `attnbook.position` does:

    Args:
        d_model: number of features, even, 4 … 16: two for each clock.
        position, offset: pos in 0 … 32 and k in −32 … 32 of the sinusoidal tab.
        base: of the frequencies base^(−2i/d_model), 2 … 10⁶.
        tab: "sinusoidal" or "rotary".
        m, n: positions of the query and of the key in the rotary tab, 0 … 32.
        interleaved: the rotary tab pairs the features (0, 1), (2, 3), … (True) or (0, d/2), (1, d/2 + 1), …

    Raises:
        TypeError, ValueError: a trait of the wrong type or outside its range.
    """

    _esm = bundle("rotation_explorer.js")

    d_model = Number(8, 4, 16, integer=True).tag(sync=True)
    position = Number(5, 0, 32, integer=True).tag(sync=True)
    offset = Number(3, -32, 32, integer=True).tag(sync=True)
    base = Number(10000.0, 2, 1e6).tag(sync=True)
    tab = Choice("sinusoidal", "rotary").tag(sync=True)
    m = Number(12, 0, 32, integer=True).tag(sync=True)
    n = Number(7, 0, 32, integer=True).tag(sync=True)
    interleaved = Flag(True).tag(sync=True)

    @traitlets.validate("d_model")
    def _even(self, proposal: dict[str, Any]) -> int:
        if proposal["value"] % 2:
            raise ValueError(
                f"d_model: expected an even number (features come in pairs), found {proposal['value']}"
            )
        return proposal["value"]

    def describe(self) -> Bilingual:
        clocks = self.d_model // 2
        return Bilingual(
            f"{clocks} 个钟，每个频率一个；移动 k 个位置，每个钟转过固定的角度，"
            "所以 PE_pos+k = M(k) PE_pos，点积只取决于 k；旋转位置编码（RoPE）的分数只取决于 m − n。",
            f"{clocks} clocks, one for each frequency. A step of k positions turns each by a fixed "
            "angle, so PE_pos+k = M(k) PE_pos and the dot product depends on k only; with rotary positions "
            "(RoPE) the score depends on m − n only.",
        )
