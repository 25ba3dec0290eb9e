"""Chapter 10, residuals and layer normalisation."""

import math

import torch
from torch import Tensor

from attnbook.exercises.core import Exercise, Slip, Symptom
from attnbook.normalization import layer_norm as reference


def _normal(seed: int, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """Layer normalisation over the last dimension."""
    return reference(x, weight, bias, eps)


def _normalized(x, weight, bias, dims=-1, correction=0, inside=0.0, outside=0.0, centred=True):
    mean = x.mean(dims, keepdim=True)
    variance = x.var(dims, keepdim=True, correction=correction)
    return weight * (x - mean * centred) / (torch.sqrt(variance + inside) + outside) + bias


def _outermost(function):
    """`function` over dimension 0 of whatever comes in."""
    return lambda x, weight, bias, eps: function(x, weight, bias, dims=0, inside=eps)


def _divided_by_variance(x, weight, bias, eps):
    variance = x.var(-1, keepdim=True, correction=0)
    return weight * (x - x.mean(-1, keepdim=True)) / (variance + eps) + bias


def _root_mean_square(x, weight, bias, eps):
    return weight * x * torch.rsqrt((x**2).mean(-1, keepdim=True) + eps) + bias


def _over_everything(x, weight, bias, eps):
    return _normalized(x, weight, bias, dims=tuple(range(x.dim())), inside=eps)


def _over_time(x, weight, bias, eps):
    return _normalized(x, weight, bias, dims=-2 if x.dim() > 1 else -1, inside=eps)


def _over_time_and_features(x, weight, bias, eps):
    return _normalized(x, weight, bias, dims=(-2, -1) if x.dim() > 1 else -1, inside=eps)


def both_orders(x: Tensor, sublayer, norm) -> tuple[Tensor, Tensor]:
    """LN(x + F(x)) and x + F(LN(x))."""
    return norm(x + sublayer(x)), x + sublayer(norm(x))


def _bend(x: Tensor) -> Tensor:
    """A sublayer that is neither linear nor blind to the size of x."""
    return 2 * torch.relu(x.flip(-1)) - 1


def _center(x: Tensor) -> Tensor:
    """A norm whose results are easy to follow: the mean is taken out, and the rest divided by the largest."""
    centred = x - x.mean(-1, keepdim=True)
    return centred / centred.abs().amax(-1, keepdim=True)


def _layer_norm(x: Tensor) -> Tensor:
    return torch.nn.functional.layer_norm(x, x.shape[-1:])


def gradients(slopes: Tensor) -> tuple[Tensor, Tensor]:
    """dy/dx of scalar layers h ← w h in a row, plain and with residuals h ← h + w h."""
    return slopes.prod(), (1 + slopes).prod()


# Scale g of the initial weights at which F(x) = W_2 relu(W_1 x) keeps the size of x: g⁴ / 2 = 1.
SCALE = 2**0.25

_HAND = torch.tensor([10.0, 30.0, 30.0, 50.0])
_CENTRED = _HAND - _HAND.mean()

EXERCISES = [
    Exercise(
        name="layer_norm",
        truth=layer_norm,
        cases=[
            (torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.ones(4), torch.zeros(4), 0.1),
            (_normal(2, 2, 3, 4), torch.ones(4), torch.zeros(4), 1e-5),
            (_normal(3, 2, 3, 5), 1 + _normal(4, 5), torch.zeros(5), 1e-5),
            (_normal(5, 2, 3, 5), 1 + _normal(6, 5), _normal(7, 5), 1e-5),
            (_normal(1, 3, 4), torch.ones(4), torch.zeros(4), 1e-5),
            (0.01 * _normal(8, 3, 6), torch.ones(6), torch.zeros(6), 1e-3),
            tuple(_normal(s, *n, dtype=torch.float64) for s, n in ((9, (2, 3, 4)), (10, (4,)), (11, (4,))))
            + (0.1,),
            (torch.full((2, 4), 3.0), torch.ones(4), torch.zeros(4), 1e-5),
        ],
        shown=(
            "每个词元只看自己的特征；除以 d，ε 在根号里面。",
            "Each token looks at its own features only; the sum is divided by d, and ε stands inside the "
            "root.",
        ),
        slips=[
            Slip(
                "unbiased variance",
                lambda x, weight, bias, eps: _normalized(x, weight, bias, correction=1, inside=eps),
                "方差除以了 d − 1。`torch` 的 `std` 和 `var` 默认这样做；层归一化除以 d。",
                "The variance was divided by d − 1, as `std` and `var` of `torch` do unless told otherwise; "
                "layer normalisation divides by d.",
            ),
            Slip(
                "unbiased, and eps outside the root",
                lambda x, weight, bias, eps: _normalized(x, weight, bias, correction=1, outside=eps),
                "两处都与公式不同：方差除以了 d − 1，ε 放在了根号外面。",
                "Two things differ from the formula: the variance was divided by d − 1, and ε stands outside "
                "the root.",
            ),
            Slip(
                "eps outside the root",
                lambda x, weight, bias, eps: _normalized(x, weight, bias, outside=eps),
                "只差一处：ε 要加在方差上，在根号里面。特征很小时，两者差得很远。",
                "One thing is left: ε is added to the variance, inside the root. Where features are small, "
                "the two are far apart.",
            ),
            Slip(
                "no eps",
                lambda x, weight, bias, eps: _normalized(x, weight, bias),
                "没有用 ε：特征全相等的词元会得到 0/0。",
                "ε is not used: a token whose features are all equal would give 0/0.",
            ),
            Slip(
                "divided by the variance",
                _divided_by_variance,
                "除以了方差；要除以它的平方根。",
                "This divides by the variance; divide by its square root.",
            ),
            Slip(
                "mean not taken out",
                lambda x, weight, bias, eps: _normalized(x, weight, bias, inside=eps, centred=False),
                "均值没有减掉。",
                "The mean was not taken out.",
            ),
            Slip(
                "RMS norm",
                _root_mean_square,
                "这是 RMS 归一化：均值没有减掉，除的是均方根。",
                "This is RMS normalisation: the mean is not taken out, and the divisor is the root mean "
                "square.",
            ),
            Slip(
                "only centred",
                lambda x, weight, bias, eps: weight * (x - x.mean(-1, keepdim=True)) + bias,
                "均值减掉了，还没有除以标准差。",
                "The mean is out; the division by the standard deviation is still to come.",
            ),
            Slip(
                "over dimension 0",
                _outermost(_normalized),
                "统计量取自第 0 维，也就是别的词元（或别的句子）。那是批归一化；层归一化只看最后一维。",
                "Mean and variance come from dimension 0, from other tokens or sentences. That is batch "
                "normalisation; layer normalisation looks at the last dimension only.",
            ),
            Slip(
                "over the time steps",
                _over_time,
                "统计量取自倒数第二维，也就是别的词元；应该取自最后一维，即词元自己的特征。",
                "Mean and variance come from the last dimension but one, from the other tokens; they should "
                "come from the last, the token's own features.",
            ),
            Slip(
                "over time steps and features",
                _over_time_and_features,
                "整个句子共用了一个均值和方差；每个词元要有自己的。",
                "The whole sentence shares one mean and one variance; each token should have its own.",
            ),
            Slip(
                "over everything",
                _over_everything,
                "整个张量共用了一个均值和方差；每个词元要有自己的。",
                "The whole tensor shares one mean and one variance; each token should have its own.",
            ),
            Slip(
                "weight and bias not used",
                lambda x, weight, bias, eps: _normalized(x, 1, 0, inside=eps),
                "归一化对了，还没有乘 `weight`、加 `bias`。",
                "The normalisation is right; `weight` and `bias` are still to be used.",
            ),
            Slip(
                "bias not used",
                lambda x, weight, bias, eps: _normalized(x, weight, 0, inside=eps),
                "只差一处：没有加 `bias`。",
                "One thing is left: `bias` is not added.",
            ),
            Slip(
                "bias scaled",
                lambda x, weight, bias, eps: weight * (_normalized(x, 1, 0, inside=eps) + bias),
                "次序错了：先乘 `weight`，再加 `bias`。",
                "The order is wrong: multiply by `weight` first, then add `bias`.",
            ),
        ],
        symptoms=[
            Symptom(
                "scale and shift show",
                lambda y, x, weight, bias, eps: (
                    bool((weight != 1).any() or (bias != 0).any()) or bool(((y.mean(-1)).abs() < 1e-3).all())
                ),
                "`weight` 是 1、`bias` 是 0 时，每个词元的均值应该是 0，你的不是：",
                "With `weight` 1 and `bias` 0 each token should have mean 0, and here it has not:",
            ),
        ],
    ),
    Exercise(
        name="by_hand",
        truth=_CENTRED / math.sqrt(200),
        tolerance=(0.0, 0.006),
        shown=(
            "把 x 的每个分量乘 10、再加 10，结果不变：层归一化忘掉尺度和平移。",
            "Multiply every component of x by 10, or add 10 to it, and the result stays: layer "
            "normalisation forgets scale and shift.",
        ),
        slips=[
            Slip(
                "unbiased",
                _CENTRED / math.sqrt(800 / 3),
                "方差除以了 3；层归一化除以特征数 4。",
                "The variance was divided by 3; layer normalisation divides by the number of features, 4.",
            ),
            Slip(
                "only centred",
                _CENTRED,
                "均值减掉了，还没有除以标准差。",
                "The mean is out; the division by the standard deviation is still to come.",
            ),
            Slip(
                "divided by the variance",
                _CENTRED / 200,
                "除以了方差；要除以它的平方根。",
                "This divides by the variance; divide by its square root.",
            ),
            Slip(
                "not centred",
                _HAND / math.sqrt(200),
                "均值没有减掉。",
                "The mean was not taken out.",
            ),
            Slip(
                "sum instead of mean",
                _CENTRED / math.sqrt(800),
                "离差的平方要取平均，不是求和。",
                "Take the mean of the squared deviations, not their sum.",
            ),
            Slip(
                "mean absolute deviation",
                _CENTRED / 10,
                "除的是离差绝对值的平均；标准差是离差平方的平均再开方。",
                "This divides by the mean absolute deviation; the standard deviation is the root of the mean "
                "squared one.",
            ),
            Slip(
                "RMS norm",
                _HAND / math.sqrt(1100),
                "这是 RMS 归一化：均值没有减掉。",
                "This is RMS normalisation: the mean was not taken out.",
            ),
        ],
        symptoms=[
            Symptom(
                "not mean 0",
                lambda y: abs(y.mean().item()) < 0.01,
                "四个数的平均应该是 0：",
                "The four numbers should have the mean 0:",
            ),
        ],
    ),
    Exercise(
        name="both_orders",
        truth=both_orders,
        returns=("post", "pre"),
        cases=[
            (torch.tensor([[1.0, 2.0, -3.0, 4.0]]), _bend, _center),
            (_normal(21, 2, 3, 6), _bend, _layer_norm),
            (_normal(22, 2, 3, 6, dtype=torch.float64), _bend, _layer_norm),
        ],
        shown=(
            "两种次序只差 LN 的位置：后归一化把和归一化，前归一化让 x 原样走过去。",
            "The two orders differ only in where LN stands: post-norm normalises the sum, and pre-norm lets "
            "x pass as it is.",
        ),
        slips=[
            Slip(
                "orders exchanged",
                lambda x, sublayer, norm: both_orders(x, sublayer, norm)[::-1],
                "两种次序对调了：post 是 LN(x + F(x))，pre 是 x + F(LN(x))。",
                "The two orders have changed places: post is LN(x + F(x)), pre is x + F(LN(x)).",
            ),
            Slip(
                "the norm is added",
                lambda x, sublayer, norm: (norm(x + sublayer(x)), norm(x) + sublayer(norm(x))),
                "post 对了。pre 里加回去的是 x 本身，不是 LN(x)：否则直通的路又要穿过一个 LN。",
                "post is right. In pre it is x itself that is added back, not LN(x): else the direct path "
                "runs through a norm again.",
            ),
            Slip(
                "only the branch is normalised",
                lambda x, sublayer, norm: (x + norm(sublayer(x)), x + sublayer(norm(x))),
                "pre 对了。post 的 LN 包住整个和 x + F(x)，不只是 F(x)。",
                "pre is right. In post LN encloses the whole sum x + F(x), not F(x) alone.",
            ),
            Slip(
                "no residual",
                lambda x, sublayer, norm: (norm(sublayer(x)), sublayer(norm(x))),
                "忘了残差：没有把 x 加回去。",
                "The residual is missing: x was not added back.",
            ),
            Slip(
                "x added after the norm",
                lambda x, sublayer, norm: (x + norm(x + sublayer(x)), x + sublayer(norm(x))),
                "pre 对了。post 里 x 加了两次。",
                "pre is right. In post x was added twice.",
            ),
            Slip(
                "normalised twice",
                lambda x, sublayer, norm: (norm(x + sublayer(x)), norm(x + sublayer(norm(x)))),
                "post 对了。pre 只有一个 LN，在 F 的前面；加完之后不再归一化。",
                "post is right. In pre there is a single LN, before F; nothing is normalised after the sum.",
            ),
            Slip(
                "F sees x in pre",
                lambda x, sublayer, norm: (norm(x + sublayer(x)), x + sublayer(x)),
                "post 对了。pre 里 F 看到的是 LN(x)。",
                "post is right. In pre what F sees is LN(x).",
            ),
            Slip(
                "post twice",
                lambda x, sublayer, norm: (norm(x + sublayer(x)),) * 2,
                "两个都是后归一化；第二个应该是 x + F(LN(x))。",
                "Both are post-norm; the second should be x + F(LN(x)).",
            ),
        ],
    ),
    Exercise(
        name="paths",
        truth=gradients,
        returns=("plain", "residual"),
        cases=[
            (torch.tensor([0.5, -0.2, 0.1]),),
            (torch.tensor([0.1] * 10),),
            (0.5 * _normal(31, 7, dtype=torch.float64),),
        ],
        tolerance=(1e-4, 1e-9),
        shown=(
            "没有残差，L 个小斜率的乘积几乎是零；有了残差，每层只在 1 附近改一点。",
            "Without residuals the product of L small slopes is almost nothing; with them each layer changes "
            "the gradient by a little around 1.",
        ),
        slips=[
            Slip(
                "order of the results",
                lambda slopes: gradients(slopes)[::-1],
                "两个结果的次序反了：先普通，后残差。",
                "The two results have changed places: plain first, then residual.",
            ),
            Slip(
                "first order only",
                lambda slopes: (slopes.prod(), 1 + slopes.sum()),
                "这是展开式的前两项：经过零层或一层的路。经过几层的路也要算上，所以是连乘 (1 + w)。",
                "These are the first terms of the expansion, the paths through no layer or one. Paths "
                "through several count as well: it is a product of (1 + w).",
            ),
            Slip(
                "one for the whole stack",
                lambda slopes: (slopes.prod(), 1 + slopes.prod()),
                "整摞网络只加了一次 x；残差在每一层里都有。",
                "Here x is added once for the whole stack; every layer has a residual of its own.",
            ),
            Slip(
                "sums",
                lambda slopes: (slopes.sum(), (1 + slopes).sum()),
                "一层接一层是复合函数，导数要相乘，不是相加。",
                "Layers in a row are a function of a function: derivatives are multiplied, not added.",
            ),
            Slip(
                "residual without the product",
                lambda slopes: (slopes.prod(), slopes.prod() + len(slopes)),
                "每层的导数是 1 + w，各层相乘；不是在乘积上加 L。",
                "A layer's derivative is 1 + w, and they are multiplied; it is not L added to the product.",
            ),
            Slip(
                "absolute values",
                lambda slopes: (slopes.abs().prod(), (1 + slopes.abs()).prod()),
                "斜率可以是负的，不要取绝对值。",
                "A slope may be negative; do not take absolute values.",
            ),
        ],
    ),
    Exercise(
        name="scale",
        truth=SCALE,
        tolerance=(0.0, 0.006),
        shown=(
            "普通的网络只有这一个 g 能让梯度过得去，稍偏一点就指数地消失或爆炸；残差加归一化对 g 不挑剔。",
            "A plain stack lets the gradient through at this one g only, and a little off it vanishes or "
            "explodes exponentially; residuals with a norm are not particular about g.",
        ),
        slips=[
            Slip(
                "one matrix only",
                math.sqrt(2),
                "√2 是每个 ReLU 只配一个矩阵时的答案（He 初始化）。这里一个 ReLU 配两个矩阵，各贡献 g²。",
                "√2 is right where each ReLU comes with one matrix (He initialisation). Here one ReLU comes "
                "with two, and each contributes g².",
            ),
            Slip(
                "no activation",
                1.0,
                "ReLU 把平均平方减半，要补回来。",
                "ReLU halves the mean square; that has to be made up for.",
            ),
            Slip(
                "the fourth power",
                2.0,
                "g⁴ = 2，还要开四次方。",
                "g⁴ = 2; the fourth root is still to be taken.",
            ),
            Slip(
                "inverse",
                2**-0.25,
                "方向反了：ReLU 使平方减半，权重要大一点，不是小一点。",
                "The wrong way round: ReLU halves the square, so the weights must be larger, not smaller.",
            ),
            Slip(
                "torch's default",
                1 / math.sqrt(3),
                "这是 `nn.Linear` 默认的尺度；它太小了，算一算它每层留下多少。",
                "This is the default scale of `nn.Linear`, which is too small; work out how much it leaves "
                "after a layer.",
            ),
        ],
    ),
]
