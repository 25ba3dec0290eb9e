"""Chapter 16, the showdown."""

import math

import torch

from attnbook.exercises.core import Exercise, Slip, Symptom


def count_flops(n: int, d: int, k: int) -> tuple[int, int, int]:
    """Of an RNN, a convolution with k taps, and self-attention without projections, for n tokens of d."""
    return 4 * n * d * d, 2 * k * n * d * d, 4 * n * n * d


def _products_only(n, d, k):
    return 2 * n * d * d, k * n * d * d, 2 * n * n * d


def _one_matrix(n, d, k):
    return 2 * n * d * d, 2 * k * n * d * d, 4 * n * n * d


def _scores_only(n, d, k):
    return 4 * n * d * d, 2 * k * n * d * d, 2 * n * n * d


def _with_projections(n, d, k):
    return 4 * n * d * d, 2 * k * n * d * d, 4 * n * n * d + 8 * n * d * d


def _one_tap(n, d, k):
    return 4 * n * d * d, 2 * n * d * d, 4 * n * n * d


def _exchanged(n, d, k):
    return count_flops(d, n, k)


def _each_token(n, d, k):
    return 4 * d * d, 2 * k * d * d, 4 * n * d


def growth_exponent(before: float, after: float) -> float:
    """The exponent with which a cost grows, from its values at some size and at twice that size."""
    return math.log2(after / before)


def half_width(right: int, total: int) -> float:
    """Half of the 95 % confidence interval of a share, by the normal approximation."""
    return 1.96 * _standard_error(right, total)


def _standard_error(right, total):
    share = right / total
    return math.sqrt(share * (1 - share) / total)


def _of_one_sentence(right, total):
    return half_width(right, total) * math.sqrt(total)


def _no_root(right, total):
    return 1.96 * _standard_error(right, total) ** 2


def _root_too_early(right, total):
    return half_width(right, total) / math.sqrt(total)


def _of_the_count(right, total):
    return half_width(right, total) * total


def widest(budget: int, inputs: int, gates: int) -> int:
    """The largest hidden size h with gates · (h · inputs + h² + h) parameters within the budget."""
    return _largest(lambda h: gates * (h * inputs + h * h + h), budget)


def _largest(parameters, budget):
    h = 0
    while parameters(h + 1) <= budget:
        h += 1
    return h


# Self-attention with its projections, 8nd² + 4n²d, costs what a GRU, 12nd², costs at n = d; and what an LSTM,
# 16nd², costs at n = 2d.
_D = 128


EXERCISES = [
    Exercise(
        name="count_flops",
        truth=count_flops,
        cases=[(3, 4, 2), (10, 64, 3), (100, 16, 5)],
        returns=("recurrent", "convolution", "attention"),
        shown=(
            "三个式子，各差一个角色：n 与 d，谁带平方。",
            "Three formulas that differ in one thing: which of n and d is squared.",
        ),
        slips=[
            Slip(
                "products only",
                _products_only,
                "只数了乘法。一次乘、一次加，是两次浮点运算。",
                "Only multiplications are counted. One multiplication and one addition are two operations.",
            ),
            Slip(
                "one matrix in the RNN",
                _one_matrix,
                "循环层每一步有两个矩阵：一个乘输入，一个乘状态。",
                "The recurrent layer has two matrices at each step: one for the input, one for the state.",
            ),
            Slip(
                "scores only",
                _scores_only,
                "注意力只数了打分；按权重加总那些值，也是一次矩阵乘法。",
                "This counts the scores only; summing the values by their weights is a matrix product too.",
            ),
            Slip(
                "with the projections",
                _with_projections,
                "四个投影也算进去了。这里和论文的表 1 一样，只算打分与加总。",
                "This counts the four projections as well. As in the paper's table 1, only scores and sums "
                "are wanted here.",
            ),
            Slip(
                "one tap",
                _one_tap,
                "卷积少了核宽：每个位置要看 k 个输入。",
                "The kernel size is missing: each position looks at k inputs.",
            ),
            Slip(
                "n and d exchanged",
                _exchanged,
                "n 和 d 换了位置。哪些矩阵是 d × d 的，哪个是 n × n 的？",
                "n and d have changed places. Which matrices are d × d, and which is n × n?",
            ),
            Slip(
                "of one token",
                _each_token,
                "这是一个词元的；一句话有 n 个。",
                "That is one token; the sentence has n.",
            ),
        ],
    ),
    Exercise(
        name="growth_exponent",
        truth=growth_exponent,
        cases=[(3.0, 24.0), (10.0, 20.0), (7.0, 7.0), (1.0, 3.0)],
        shown=(
            "尺寸翻一倍，代价乘以 2 的 p 次方：量两次，就量出了 p。",
            "Twice the size, 2 to the power p times the cost: two measurements give p.",
        ),
        slips=[
            Slip(
                "factor",
                lambda before, after: after / before,
                "这是倍数，不是指数：2 的几次方等于它？",
                "That is the factor and not the exponent: 2 to which power gives it?",
            ),
            Slip(
                "natural logarithm",
                lambda before, after: math.log(after / before),
                "对数的底不对：尺寸变成了 2 倍，不是 e 倍。",
                "The base of the logarithm is wrong: the size became 2 times as large, not e times.",
            ),
            Slip(
                "base 10",
                lambda before, after: math.log10(after / before),
                "对数的底不对：尺寸变成了 2 倍，不是 10 倍。",
                "The base of the logarithm is wrong: the size became 2 times as large, not 10 times.",
            ),
            Slip(
                "upside down",
                lambda before, after: math.log2(before / after),
                "正负号反了：后来的代价应当在分子上。",
                "The sign is wrong: the later cost belongs in the numerator.",
            ),
            Slip(
                "half the factor",
                lambda before, after: after / before / 2,
                "倍数除以 2 不是指数；倍数是 2 的几**次方**？",
                "The factor divided by 2 is not the exponent; which **power** of 2 is the factor?",
            ),
            Slip(
                "relative increase",
                lambda before, after: (after - before) / before,
                "这是增加的比例。要的是指数：2 的几次方等于后来与先前之比？",
                "That is the relative increase. The exponent is wanted: 2 to which power is the ratio?",
            ),
        ],
    ),
    Exercise(
        name="half_width",
        truth=half_width,
        cases=[(45, 50), (1969, 2000), (3, 12)],
        shown=(
            "精度只随句数的平方根增长：要把误差减半，得译四倍的句子。",
            "Precision grows with the root of the number of sentences: half the error takes four times as "
            "many.",
        ),
        slips=[
            Slip(
                "standard error",
                _standard_error,
                "这是标准误。95% 的区间要到它的 1.96 倍。",
                "That is the standard error. An interval of 95% reaches 1.96 times as far.",
            ),
            Slip(
                "spread of one sentence",
                _of_one_sentence,
                "这是**一句**的标准差。N 句的比例要稳得多：还要除以什么？",
                "That is the spread of **one** sentence. The share of N varies less: divide by what?",
            ),
            Slip(
                "no root",
                _no_root,
                "少了开方：这是方差。",
                "The root is missing: that is the variance.",
            ),
            Slip(
                "N outside the root",
                _root_too_early,
                "N 应该在根号里面。",
                "N belongs inside the root.",
            ),
            Slip(
                "of the count",
                _of_the_count,
                "这是**句数**的误差；要的是比例的。",
                "That is for the **number** of sentences; the share is wanted.",
            ),
            Slip(
                "percent",
                lambda right, total: 100 * half_width(right, total),
                "单位成了百分数；这里的比例在 0 与 1 之间。",
                "This is in percent; shares are between 0 and 1 here.",
            ),
            Slip(
                "whole width",
                lambda right, total: 2 * half_width(right, total),
                "这是整个区间的宽度；要的是一半，即“±”后面的数。",
                "That is the width of the whole interval; half of it is wanted, the number after the ±.",
            ),
        ],
        symptoms=[
            Symptom(
                "negative or above 1",
                lambda half, right, total: bool(0 <= half <= 1),
                "比例的误差应当在 0 与 1 之间：",
                "The error of a share should be between 0 and 1:",
            ),
        ],
    ),
    Exercise(
        name="crossings",
        truth=torch.tensor([_D, 2 * _D]),
        tolerance=(1e-3, 0.0),
        shown=(
            "句子比 d 短，整个自注意力比 GRU 还便宜；平方要到很后面才说了算。",
            "For sentences shorter than d the whole self-attention is cheaper than a GRU; the square takes "
            "over much later.",
        ),
        slips=[
            Slip(
                "without the projections",
                torch.tensor([3 * _D, 4 * _D]),
                "漏了四个投影的 8nd²。",
                "The 8nd² of the four projections are missing.",
            ),
            Slip(
                "scores only",
                torch.tensor([2 * _D, 4 * _D]),
                "打分之外，加总那些值也要 2n²d。",
                "Besides the scores, the sum of the values takes 2n²d, too.",
            ),
            Slip(
                "multiplications against operations",
                torch.tensor([4 * _D, 6 * _D]),
                "一边数了乘和加，另一边只数了乘：两边要用同一种数法。",
                "One side counts multiplications and additions, the other multiplications only: count both "
                "alike.",
            ),
            Slip(
                "exchanged",
                torch.tensor([2 * _D, _D]),
                "次序反了：先 GRU，后 LSTM。",
                "The order is wrong: first the GRU, then the LSTM.",
            ),
            Slip(
                "n = d for both",
                torch.tensor([_D, _D]),
                "第一个对。LSTM 比 GRU 多一份矩阵，交点要更靠后。",
                "The first is right. An LSTM has more matrices than a GRU, so the lines cross later.",
            ),
            Slip(
                "in units of d",
                torch.tensor([1, 2]),
                "以 d 为单位是对的；请写成词元数。",
                "Right in units of d; give numbers of tokens.",
            ),
        ],
    ),
    Exercise(
        name="widest",
        truth=widest,
        cases=[(1000, 6, 2), (980, 6, 2), (100_000, 128, 3), (100_000, 128, 4)],
        tolerance=(0.0, 1e-6),
        shown=(
            "同样的预算，门越多，状态越窄：公平的比较要先算这笔账。",
            "For one budget, more gates make a narrower state: a fair comparison begins with this sum.",
        ),
        slips=[
            Slip(
                "one gate",
                lambda budget, inputs, gates: widest(budget, inputs, 1),
                "每个门都有自己的矩阵和偏置。",
                "Every gate has matrices and a bias of its own.",
            ),
            Slip(
                "no input matrix",
                lambda budget, inputs, gates: widest(budget, 0, gates),
                "漏了乘输入的矩阵，h × `inputs`。",
                "The matrix of the input is missing, h × `inputs`.",
            ),
            Slip(
                "no recurrent matrix",
                lambda budget, inputs, gates: budget // (gates * (inputs + 1)),
                "漏了乘状态的矩阵，h × h。",
                "The matrix of the state is missing, h × h.",
            ),
            Slip(
                "two biases",
                lambda budget, inputs, gates: widest(budget, inputs + 1, gates),
                "`torch` 有两个偏置，这里每个门只算一个。",
                "`torch` has two biases; count one for each gate here.",
            ),
            Slip(
                "no bias",
                lambda budget, inputs, gates: _largest(lambda h: gates * (h * inputs + h * h), budget),
                "只差偏置了：每个门还有 h 个。",
                "Only the bias is missing: h numbers for each gate.",
            ),
            Slip(
                "over the budget",
                lambda budget, inputs, gates: widest(budget, inputs, gates) + 1,
                "超出了预算：要不超过它的最大整数，不是四舍五入。",
                "This is over the budget: the largest integer within it is wanted, not the nearest.",
            ),
        ],
    ),
]
