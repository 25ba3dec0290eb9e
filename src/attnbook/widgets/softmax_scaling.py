"""The softmax scaling explorer of chapter 11: what the divisor √d_k does to scores, weights and gradients."""

from attnbook.notebook import Bilingual
from attnbook.widgets.base import Flag, Number, Widget, bundle

__all__ = ["SoftmaxScaling"]


class SoftmaxScaling(Widget):
    """Random queries and keys, their scores, the softmax weights of one query, and the softmax's Jacobian.

    The front end draws the vectors itself from `seed` (mulberry32 and Box-Muller), so nothing but these
    traits is synced:

    Args:
        d_k: size of the vectors, 1 … 512.
        scaled: whether the scores are divided by √d_k.
        num_keys: number of keys that the softmax runs over, 2 … 64.
        seed: of the draw, 0 … 2³¹ − 1. The default draw's first query is close to the average one.
        sort_keys: whether the weights are shown from the largest to the smallest.

    Raises:
        TypeError, ValueError: a trait of the wrong type or outside its range.
    """

    _esm = bundle("softmax_scaling.js")

    d_k = Number(64, 1, 512, integer=True).tag(sync=True)
    scaled = Flag(False).tag(sync=True)
    num_keys = Number(16, 2, 64, integer=True).tag(sync=True)
    seed = Number(543, 0, 2**31 - 1, integer=True).tag(sync=True)
    sort_keys = Flag(False).tag(sync=True)

    def describe(self) -> Bilingual:
        zh = "缩放" if self.scaled else "不缩放"
        en = "divided by √d_k" if self.scaled else "not scaled"
        return Bilingual(
            f"随机查询与 {self.num_keys} 个键（d_k = {self.d_k}，{zh}）的点积分布、softmax 权重、熵和梯度；"
            "不缩放时，d_k 越大，权重越集中到一个键上，梯度越接近零。",
            f"Dot products of random queries with {self.num_keys} keys (d_k = {self.d_k}, {en}): their "
            "distribution, the softmax weights, entropy and gradient. Unscaled, the larger d_k, the more one "
            "key takes all the weight and the closer the gradient is to zero.",
        )
