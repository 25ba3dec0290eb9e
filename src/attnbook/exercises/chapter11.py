"""Chapter 11, scaled dot-product attention."""

import math

import torch
from torch import Tensor

from attnbook.attention import causal_mask, masked_softmax, scaled_dot_product_attention
from attnbook.exercises.core import Exercise, Slip, Symptom

# Numbers for the example by hand: d_k = 4, and every score is an even number.
HAND_QUERY = torch.tensor([1.0, 1.0, 1.0, 1.0])
HAND_KEYS = torch.tensor([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]])
_HAND_SCORES = HAND_KEYS @ HAND_QUERY  # 2, 0, 4


def softmax_jacobian(p: Tensor) -> Tensor:
    """∂p_i/∂z_j for p = softmax(z): diag(p) − p pᵀ."""
    return torch.diag(p) - torch.outer(p, p)


def entropy(weights: Tensor) -> Tensor:
    """−Σ w log w of each row in nats, where 0 · log 0 counts as 0."""
    return torch.special.entr(weights).sum(dim=-1)


def _scores(query: Tensor, key: Tensor, divisor: float | None = None) -> Tensor:
    return query @ key.transpose(-2, -1) / (math.sqrt(query.shape[-1]) if divisor is None else divisor)


def _attend(weights: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    return weights @ value, weights


def _no_scale(query, key, value, mask=None):
    return _attend(masked_softmax(_scores(query, key, 1), mask), value)


def _divided_by_d_k(query, key, value, mask=None):
    return _attend(masked_softmax(_scores(query, key, query.shape[-1]), mask), value)


def _divided_by_root_of_keys(query, key, value, mask=None):
    return _attend(masked_softmax(_scores(query, key, math.sqrt(key.shape[-2])), mask), value)


def _multiplied_by_root(query, key, value, mask=None):
    return _attend(masked_softmax(_scores(query, key, 1 / math.sqrt(query.shape[-1])), mask), value)


def _scaled_after_softmax(query, key, value, mask=None):
    weights = masked_softmax(_scores(query, key, 1), mask) / math.sqrt(query.shape[-1])
    return _attend(weights, value)


def _softmax_over(axis: int):
    def attention(query, key, value, mask=None):
        scores = _scores(query, key)
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        return _attend(scores.softmax(dim=axis), value)

    return attention


def _forgot_mask(query, key, value, mask=None):
    return scaled_dot_product_attention(query, key, value)


def _mask_after_softmax(query, key, value, mask=None):
    weights = _scores(query, key).softmax(dim=-1)
    return _attend(weights if mask is None else weights * mask, value)


def _masked_with_zero(query, key, value, mask=None):
    scores = _scores(query, key)
    return _attend((scores if mask is None else scores * mask).softmax(dim=-1), value)


def _inverted_mask(query, key, value, mask=None):
    scores = _scores(query, key)
    return _attend((scores if mask is None else scores.masked_fill(mask, -math.inf)).softmax(dim=-1), value)


def _nan_row(query, key, value, mask=None):
    scores = _scores(query, key)
    return _attend((scores if mask is None else scores.masked_fill(~mask, -math.inf)).softmax(dim=-1), value)


def _uniform_row(query, key, value, mask=None):
    scores = _scores(query, key)
    return _attend((scores if mask is None else scores.masked_fill(~mask, -1e9)).softmax(dim=-1), value)


def _normal(seed: int, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def _attention_cases():
    small = (
        torch.tensor([[1.0, 0, 1, 2], [0, 1, 1, 0]]),
        torch.tensor([[2.0, 1, 0, 1], [0, 1, 2, 0], [0, 3, 0, 0]]),
        torch.tensor([[1.0, 0], [0, 1], [2, 2]]),
    )
    heads = _normal(1, 2, 2, 3, 5), _normal(2, 2, 2, 4, 5), _normal(3, 2, 2, 4, 6)
    double = tuple(_normal(seed, 2, 4, 6, dtype=torch.float64) for seed in (4, 5, 6))
    some = torch.tensor([[True, False, True], [False, True, True]])
    words = torch.tensor([[True, True, True, False], [True, True, False, False]])[:, None, None, :]
    nothing_to_attend = torch.tensor([[True, True, False], [False, False, False]])
    return [
        small,
        heads,
        (*small, some),
        (*double, causal_mask(4)),
        (*heads, words),
        (*small, nothing_to_attend),
    ]


EXERCISES = [
    Exercise(
        name="attention",
        truth=scaled_dot_product_attention,
        returns=("output", "weights"),
        cases=_attention_cases(),
        shown=(
            "三行就是注意力的全部：缩放后的分数、带掩码的 softmax、对值加权求和。",
            "Three lines are all of attention: scaled scores, a masked softmax, a weighted sum of the "
            "values.",
        ),
        slips=[
            Slip(
                "no scale",
                _no_scale,
                "权重过于集中。点积的方差随 d_k 增大，分数在进 softmax 之前少了一步。",
                "The weights are too peaked. The variance of a dot product grows with d_k, and a step is "
                "missing between the scores and the softmax.",
            ),
            Slip(
                "divided by d_k",
                _divided_by_d_k,
                "权重太平均了。要归一的是分数的标准差，而 d_k 是它的方差。",
                "The weights are too even. The standard deviation of the scores is to become 1, and d_k is "
                "their variance.",
            ),
            Slip(
                "root of the number of keys",
                _divided_by_root_of_keys,
                "缩放用错了维度：点积是对特征求和，和有多少个键无关。",
                "The scale takes the wrong dimension: a dot product sums over features, however many keys "
                "there are.",
            ),
            Slip(
                "multiplied by the root",
                _multiplied_by_root,
                "缩放的方向反了：分数应该变小，现在变大了。",
                "The scale goes the wrong way: the scores should become smaller, and they become larger.",
            ),
            Slip(
                "scaled after softmax",
                _scaled_after_softmax,
                "缩放放在了 softmax 之后，每一行的权重之和不再是 1。该缩放的是分数，不是权重。",
                "The scale comes after the softmax, so the weights of a row no longer sum to 1. Scale the "
                "scores, not the weights.",
            ),
            Slip(
                "softmax over the queries",
                _softmax_over(-2),
                "softmax 沿着 查询的方向做了：现在每一列之和为 1。应该是每个查询把 1 分给各个键。",
                "The softmax runs over the queries: each column sums to 1. It is each query that shares "
                "out 1 among the keys.",
            ),
            Slip(
                "forgot the mask",
                _forgot_mask,
                "没有掩码的输入都对了；给了 `mask` 的时候，它没有起作用。",
                "All inputs without a mask are right; where there is a `mask`, it has no effect.",
            ),
            Slip(
                "mask after softmax",
                _mask_after_softmax,
                "掩码在 softmax 之后才乘上去，被遮住的键已经分走了一份权重，剩下的加起来不到 1。",
                "The mask is multiplied in after the softmax: hidden keys have already taken their share, "
                "and what is left sums to less than 1.",
            ),
            Slip(
                "masked with zero",
                _masked_with_zero,
                "被遮住的分数换成了 0，但 exp(0) = 1，它们照样分到权重。什么样的分数经过 exp 才是 0？",
                "Masked scores became 0, but exp(0) = 1, so those keys still get weight. Which score does "
                "exp turn into 0?",
            ),
            Slip(
                "inverted mask",
                _inverted_mask,
                "掩码的含义反了：本书里 True 表示“可以看”。（有些库正好相反。）",
                "The mask is read the wrong way round: in this book True means “may attend”. (Some "
                "libraries have it the other way.)",
            ),
            Slip(
                "NaN where nothing may be attended",
                _nan_row,
                "只剩一处：某个查询什么都不能看时，整行都是 −∞，softmax 算出 0/0，得到 NaN。"
                "这样的行应该是 0。",
                "One thing is left: a query that may attend to nothing has a row of −∞, of which the "
                "softmax makes 0/0 = NaN. Such a row should be zeros.",
            ),
            Slip(
                "uniform where nothing may be attended",
                _uniform_row,
                "只剩一处：某个查询什么都不能看时，它把权重平均分给了本该遮住的键。这样的行应该是 0。",
                "One thing is left: a query that may attend to nothing spreads its weight evenly over keys "
                "that it must not see. Such a row should be zeros.",
            ),
            Slip(
                "only the output",
                lambda *case: scaled_dot_product_attention(*case)[0],
                "输出对了，但还要把权重一起返回：`(output, weights)`。",
                "The output is right; return the weights with it: `(output, weights)`.",
            ),
            Slip(
                "weights first",
                lambda *case: scaled_dot_product_attention(*case)[::-1],
                "两个结果都对，只是顺序反了：先 `output`，后 `weights`。",
                "Both results are right, in the other order: first `output`, then `weights`.",
            ),
            Slip(
                "softmax over dim 1",
                _softmax_over(1),
                "没有 batch 时是对的；有了 batch 和多个头，第 1 维就不再是键了。从后往前数维度。",
                "Right without a batch; but with a batch and heads, dimension 1 is no longer the keys. "
                "Count dimensions from the end.",
            ),
        ],
        symptoms=[
            Symptom(
                "rows do not sum to 1",
                lambda output, weights, *case: (
                    len(case) > 3 or torch.allclose(weights.sum(-1), torch.ones(()).double(), atol=1e-4)
                ),
                "没有掩码时，每一行权重之和应该是 1，现在不是：",
                "Without a mask each row of the weights should sum to 1, and here it does not:",
            ),
            Symptom(
                "output is not weights @ value",
                lambda output, weights, query, key, value, *mask: torch.allclose(
                    output, weights @ value.double(), atol=1e-4, equal_nan=True
                ),
                "输出和权重对不上：输出的每一行应该是各个值按这一行权重的加权和。",
                "Output and weights do not fit together: each row of the output should be the sum of the "
                "values, weighted by that row of the weights.",
            ),
        ],
    ),
    Exercise(
        name="hand_example",
        truth=scaled_dot_product_attention(HAND_QUERY[None], HAND_KEYS, HAND_KEYS)[1][0],
        tolerance=(0.0, 0.01),
        shown=(
            "分数相差 2，缩放后相差 1，权重就差 e 倍：softmax 看的是分数之差。",
            "Scores 2 apart are 1 apart after scaling, and the weights then differ by the factor e: the "
            "softmax sees differences of scores.",
        ),
        slips=[
            Slip(
                "no scale",
                _HAND_SCORES.softmax(0),
                "softmax 用在了没有缩放的分数上。d_k 是多少？",
                "The softmax was taken of the unscaled scores. What is d_k here?",
            ),
            Slip(
                "divided by d_k",
                (_HAND_SCORES / 4).softmax(0),
                "分数除以了 d_k；公式里是 d_k 的平方根。",
                "The scores were divided by d_k; the formula has its square root.",
            ),
            Slip(
                "raw scores",
                _HAND_SCORES,
                "这是点积，还差缩放和 softmax 两步。",
                "These are the dot products; scaling and softmax are still to come.",
            ),
            Slip(
                "scaled scores",
                _HAND_SCORES / 2,
                "这是缩放后的分数，还差 softmax 一步。",
                "These are the scaled scores; the softmax is still to come.",
            ),
            Slip(
                "divided by the sum",
                _HAND_SCORES / _HAND_SCORES.sum(),
                "这是分数除以分数之和，没有取指数。那样分数为 0 的键 永远得不到权重，负的分数更说不通。",
                "These are scores divided by their sum, without the exponential. A key of score 0 would "
                "never get any weight, and negative scores would make no sense.",
            ),
            Slip(
                "not normalised",
                (_HAND_SCORES / 2).exp(),
                "指数取对了，最后一步是让三个权重之和为 1。",
                "The exponentials are right; the last step makes the three weights sum to 1.",
            ),
            Slip(
                "rounded too much",
                torch.tensor([0.2, 0.1, 0.7]),
                "思路对了，只是舍入太粗：请给出至少两位小数。",
                "The idea is right, only rounded too much: give at least two decimals.",
            ),
        ],
        symptoms=[
            Symptom(
                "weights do not sum to 1",
                lambda weights: abs(weights.sum().item() - 1) < 0.02,
                "三个权重之和应该是 1，先检查这一点。",
                "The three weights should sum to 1; check that first.",
            ),
        ],
    ),
    Exercise(
        name="scale",
        truth=math.sqrt(64) * 2 * 2,
        shown=(
            "√d_k 的前提是各分量的方差为 1；分量的标准差变为 2，每个乘积就大 4 倍。",
            "√d_k assumes components of variance 1; with standard deviation 2, every product is four times "
            "larger.",
        ),
        slips=[
            Slip(
                "assumed unit variance",
                8,
                "这是方差为 1 时的答案。现在每个分量的标准差是 2，一个乘积 q·k 的方差是多少？",
                "This is the answer for variance 1. Here each component has standard deviation 2: what is "
                "the variance of one product?",
            ),
            Slip(
                "number of dimensions",
                64,
                "这是维数 d_k。要除以的是标准差，而且还要算上分量的方差。",
                "This is d_k, the number of dimensions. Divide by a standard deviation, and let the "
                "variance of the components count.",
            ),
            Slip(
                "only one factor",
                16,
                "只算了 q 和 k 其中一个的标准差；两个都是 2。",
                "Only one of q and k was counted with its standard deviation; both have 2.",
            ),
            Slip(
                "variance",
                1024,
                "这是点积的方差。除以方差之后，方差会变成 1/1024；应该除以什么？",
                "This is the variance of the dot product. Divided by that, it would have variance 1/1024; "
                "what should it be divided by?",
            ),
            Slip(
                "variance of the components as their deviation",
                8 * 4 * 4,
                "每个分量的方差 4 被当成了标准差。",
                "The components' variance, 4, was taken for their standard deviation.",
            ),
            Slip(
                "the factor, not the divisor",
                1 / 32,
                "这是要乘的因子；题目问的是除以多少。",
                "This is the factor to multiply by; the question asks for the number to divide by.",
            ),
        ],
    ),
    Exercise(
        name="softmax_jacobian",
        truth=softmax_jacobian,
        cases=[
            (torch.tensor([0.5, 0.25, 0.25]),),
            (torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64),),
            (torch.tensor([1.0, 0.0, 0.0]),),
        ],
        shown=(
            "权重接近 0 或 1 时，这个矩阵的每一项都接近 0：饱和的 softmax 几乎传不回梯度。",
            "With weights near 0 or 1 every entry is near 0: a saturated softmax passes hardly any "
            "gradient back.",
        ),
        slips=[
            Slip(
                "diag(p)",
                torch.diag,
                "只有对角线的前一半：p_i 变大时，分母也在变，其他概率会受影响。",
                "This is only half of the diagonal: when a score grows, the denominator grows too, and "
                "every other probability feels it.",
            ),
            Slip(
                "diagonal only",
                lambda p: torch.diag(p * (1 - p)),
                "对角线对了；但 softmax 不是逐元素的函数，z_j 也会影响 p_i（i ≠ j）。",
                "The diagonal is right; but softmax does not act element by element: z_j moves p_i as well "
                "(i ≠ j).",
            ),
            Slip(
                "sign flipped",
                lambda p: -softmax_jacobian(p),
                "符号反了：z_i 增大，p_i 应该增大，对角线不会是负的。",
                "The sign is flipped: p_i grows with z_i, so the diagonal cannot be negative.",
            ),
            Slip(
                "outer product only",
                lambda p: torch.outer(p, p),
                "这是 p pᵀ，只是其中一项；i = j 时还多出什么？",
                "This is p pᵀ, one term of two; what is added where i = j?",
            ),
            Slip(
                "minus the outer product only",
                lambda p: -torch.outer(p, p),
                "i ≠ j 的项都对了；i = j 时还多出什么？",
                "All entries with i ≠ j are right; what is added where i = j?",
            ),
            Slip(
                "sum instead of difference",
                lambda p: torch.diag(p) + torch.outer(p, p),
                "z_j 增大时，p_i（i ≠ j）是变大还是变小？看一下 p pᵀ 前面的符号。",
                "When z_j grows, does p_i (i ≠ j) grow or shrink? Look at the sign before p pᵀ.",
            ),
            Slip(
                "softmax of p",
                lambda p: softmax_jacobian(p.softmax(dim=-1)),
                "`p` 已经是 softmax 的结果，不要再做一次 softmax。",
                "`p` is the result of the softmax already; do not take it again.",
            ),
            Slip(
                "product of elements",
                lambda p: p * (1 - p),
                "结果是向量。雅可比矩阵对每一对 (i, j) 都有一个数。",
                "This is a vector. A Jacobian has a number for every pair (i, j).",
            ),
        ],
        symptoms=[
            Symptom(
                "not symmetric",
                lambda jacobian, p: torch.allclose(jacobian, jacobian.T, atol=1e-4),
                "这个矩阵应该是对称的，你的不是：",
                "The matrix should be symmetric, and yours is not:",
            ),
            Symptom(
                "rows do not sum to 0",
                lambda jacobian, p: jacobian.sum(-1).abs().max().item() < 1e-4,
                "概率之和总是 1，所以每一行之和必须是 0，你的不是：",
                "The probabilities always sum to 1, so each row must sum to 0, and yours does not:",
            ),
        ],
    ),
    Exercise(
        name="entropy",
        truth=entropy,
        cases=[
            (torch.tensor([[0.5, 0.25, 0.25], [0.8, 0.1, 0.1]]),),
            (_normal(7, 2, 3, 4, 5, dtype=torch.float64).softmax(dim=-1),),
            (torch.tensor([[1.0, 0.0, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25]]),),
        ],
        shown=(
            "熵是注意力“分散程度”的一个数：n 个键上完全平均时是 log n，只看一个时是 0。",
            "Entropy measures in one number how spread out attention is: log n when even over n keys, 0 "
            "when on one.",
        ),
        slips=[
            Slip(
                "sign",
                lambda weights: -entropy(weights),
                "结果是负的。权重小于 1，它的对数是什么符号？",
                "The result is negative. Weights are below 1; which sign has their logarithm?",
            ),
            Slip(
                "bits",
                lambda weights: entropy(weights) / math.log(2),
                "这是以 2 为底的熵，单位是比特；题目要的是自然对数（nat）。",
                "This is entropy to base 2, in bits; natural logarithms (nats) are asked for.",
            ),
            Slip(
                "NaN for a weight of zero",
                lambda weights: -(weights * weights.log()).sum(dim=-1),
                "只剩一处：权重为 0 时，0 · log 0 算出了 NaN；它的极限是 0。",
                "One thing is left: for a weight of zero, 0 · log 0 gives NaN; its limit is 0.",
            ),
            Slip(
                "mean",
                lambda weights: torch.special.entr(weights).mean(dim=-1),
                "取了平均而不是求和：这样熵会随 键的个数变小。",
                "A mean was taken in place of the sum: so the entropy shrinks with the number of keys.",
            ),
            Slip(
                "sum over the queries",
                lambda weights: torch.special.entr(weights).sum(dim=-2),
                "求和的方向错了：每个查询（每一行）有一个熵，应该对键求和。",
                "The sum runs over the wrong axis: each query (each row) has an entropy, so sum over the "
                "keys.",
            ),
            Slip(
                "sum over dim 1",
                lambda weights: torch.special.entr(weights).sum(dim=1),
                "没有 batch 时是对的；有了 batch，第 1 维就不再是键了。从后往前数维度。",
                "Right without a batch; with a batch, dimension 1 is no longer the keys. Count from the end.",
            ),
            Slip(
                "sum over everything",
                lambda weights: torch.special.entr(weights).sum(),
                "所有的行加在了一起；每个查询应该各有一个数。",
                "All rows were added up; each query should have a number of its own.",
            ),
            Slip(
                "not summed",
                torch.special.entr,
                "每一项都对了，还差对键求和。",
                "Each term is right; they are still to be summed over the keys.",
            ),
            Slip(
                "no weight in front of the logarithm",
                lambda weights: -weights.log().sum(dim=-1),
                "少了一个因子：熵是 −log w 按权重 w 的平均，不是简单相加。",
                "A factor is missing: entropy is the mean of −log w under the weights w, not a plain sum.",
            ),
        ],
        symptoms=[
            Symptom(
                "out of range",
                lambda result, weights: bool(
                    ((result > -1e-4) & (result < math.log(weights.shape[-1]) + 1e-4)).all()
                ),
                "熵应该在 0 和 log(键的个数) 之间，你的结果越界了：",
                "Entropy lies between 0 and the logarithm of the number of keys, and here it does not:",
            ),
        ],
    ),
]
