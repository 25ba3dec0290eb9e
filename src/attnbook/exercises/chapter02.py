"""Chapter 02, feed-forward networks."""

import torch
from torch import Tensor

from attnbook.exercises.core import Exercise, Slip, Symptom
from attnbook.feedforward import MLP, num_parameters, softmax


def collapse(W_1: Tensor, b_1: Tensor, W_2: Tensor, b_2: Tensor) -> tuple[Tensor, Tensor]:
    """W and b with W x + b = W_2 (W_1 x + b_1) + b_2."""
    return W_2 @ W_1, W_2 @ b_1 + b_2


def _if_square(wrong, right=collapse):
    """`wrong` where all sizes are equal and its shapes fit; elsewhere the right answer, which is no slip."""

    def answer(W_1, b_1, W_2, b_2):
        square = W_1.shape == W_2.shape and W_1.shape[0] == W_1.shape[1]
        return (wrong if square else right)(W_1, b_1, W_2, b_2)

    return answer


def _softmax_over(dim: int | None):
    def wrong(z):
        e = torch.exp(z - z.max())
        return e / (e.sum() if dim is None else e.sum(dim, keepdim=True))

    return wrong


def _subtracting(shift):
    def wrong(z):
        e = torch.exp(z - shift(z))
        return e / e.sum(-1, keepdim=True)

    return wrong


def gradients(
    x: Tensor, t: Tensor, W_1: Tensor, b_1: Tensor, W_2: Tensor, b_2: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of L = mean (o − t)² for o = W_2 tanh(W_1 x + b_1) + b_2, rows being examples."""
    return _gradients(x, t, W_1, b_1, W_2, b_2)


def _gradients(x, t, W_1, b_1, W_2, b_2, slope=lambda z: 1 - torch.tanh(z) ** 2, factor=2.0, mean=True):
    z = x @ W_1.T + b_1  # (batch, hidden)
    h = torch.tanh(z)
    o = h @ W_2.T + b_2  # (batch, outputs)
    delta_2 = factor * (o - t) / (o.numel() if mean else 1)
    delta_1 = (delta_2 @ W_2) * slope(z)
    return delta_1.T @ x, delta_1.sum(0), delta_2.T @ h, delta_2.sum(0)


def _with(**changes):
    return lambda x, t, W_1, b_1, W_2, b_2: _gradients(x, t, W_1, b_1, W_2, b_2, **changes)


def parameters(sizes: list[int]) -> int:
    """How many weights and biases `MLP(sizes)` has."""
    return num_parameters(MLP(sizes))


def _pairs(sizes):
    return zip(sizes[:-1], sizes[1:], strict=True)


def dead(z: Tensor) -> Tensor:
    """The share of ReLU units, columns of z (batch, units), that are never positive."""
    return (z <= 0).all(dim=0).float().mean()


def _normal(seed: int, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


EXERCISES = [
    Exercise(
        name="collapse",
        truth=collapse,
        returns=("W", "b"),
        cases=[
            (
                torch.tensor([[1.0, 2.0], [0.0, 1.0]]),
                torch.tensor([1.0, 2.0]),
                torch.tensor([[1.0, 0.0], [3.0, 1.0]]),
                torch.tensor([5.0, 7.0]),
            ),
            (_normal(1, 4, 3), _normal(2, 4), _normal(3, 2, 4), _normal(4, 2)),
            (
                _normal(5, 6, 2, dtype=torch.float64),
                _normal(6, 6, dtype=torch.float64),
                _normal(7, 3, 6, dtype=torch.float64),
                _normal(8, 3, dtype=torch.float64),
            ),
        ],  # fmt: skip
        shown=(
            "两层并成了一层：没有弯曲，再深也只是一个仿射变换。",
            "Two layers became one: without a bend, depth is only another affine map.",
        ),
        slips=[
            Slip(
                "product in the wrong order",
                _if_square(lambda W_1, b_1, W_2, b_2: (W_1 @ W_2, W_2 @ b_1 + b_2)),
                "两个矩阵乘反了：先作用在 x 上的矩阵应当紧挨着 x。",
                "The two matrices are multiplied in the wrong order: the one that acts on x first stands "
                "next to x.",
            ),
            Slip(
                "b_1 not mapped",
                _if_square(lambda W_1, b_1, W_2, b_2: (W_2 @ W_1, b_1 + b_2)),
                "W 对了。第一层的偏置也要穿过第二层才到得了输出。",
                "W is right. The bias of the first layer, too, has to pass through the second.",
            ),
            Slip(
                "b_1 lost",
                lambda W_1, b_1, W_2, b_2: (W_2 @ W_1, b_2),
                "W 对了，但 b_1 不见了：把括号展开，看看它去了哪里。",
                "W is right, but b_1 is gone: expand the bracket and see where it goes.",
            ),
            Slip(
                "b_1 through its own matrix",
                _if_square(lambda W_1, b_1, W_2, b_2: (W_2 @ W_1, W_1 @ b_1 + b_2)),
                "b_1 是在 W_1 之后加上的，它后面只会遇到哪个矩阵？",
                "b_1 is added after W_1; which matrix does it meet after that?",
            ),
            Slip(
                "matrices added",
                _if_square(lambda W_1, b_1, W_2, b_2: (W_1 + W_2, W_2 @ b_1 + b_2)),
                "两个映射是一个接一个做的，不是相加。",
                "The maps are done one after the other, not added.",
            ),
            Slip(
                "transposed",
                _if_square(lambda W_1, b_1, W_2, b_2: ((W_2 @ W_1).T, W_2 @ b_1 + b_2)),
                "W 转置了：公式 Wx 里，W 的形状是（输出，输入）。",
                "W is transposed: in the formula Wx it has the shape (outputs, inputs).",
            ),
        ],
    ),
    Exercise(
        name="softmax",
        truth=softmax,
        cases=[
            (torch.tensor([[0.0, 1.0, 2.0], [1.0, 1.0, 3.0]]),),
            (_normal(9, 2, 3, 4, dtype=torch.float64),),
            (torch.tensor([1000.0, 1001.0, 1002.0]),),
            (torch.tensor([[0.0, 1.0], [1000.0, 1001.0]]),),
            (torch.tensor([0.0, 0.0, 2000.0]),),
        ],
        shown=(
            "每行减去自己的最大值，结果一点不变，却再也不会溢出。",
            "Each row minus its own maximum: the result is the same, and nothing overflows any more.",
        ),
        slips=[
            Slip(
                "mean subtracted",
                _subtracting(lambda z: z.mean(-1, keepdim=True)),
                "减去平均值不够：比平均值大很多的分量还是会溢出。减去哪个数能保证指数都不大于 0？",
                "Subtracting the mean is not enough: what lies far above it still overflows. Which number "
                "makes every exponent at most 0?",
            ),
            Slip(
                "overflow",
                lambda z: z.exp() / z.exp().sum(-1, keepdim=True),
                "小的数都对；z 很大时 exp 溢出成 inf，inf 除以 inf 就是 NaN。softmax 有一条性质能帮你。",
                "Right for small numbers; for large z the exponential overflows to inf, and inf / inf is "
                "NaN. A property of the softmax helps.",
            ),
            Slip(
                "one maximum for all rows",
                _subtracting(lambda z: z.max()),
                "减去了整个张量的最大值：别的行太小时，整行的 exp 都成了 0。每一行要减自己的。",
                "The maximum of the whole tensor was subtracted: in a row far below it every exponential "
                "is 0. Each row needs its own.",
            ),
            Slip(
                "over the first dimension",
                _softmax_over(0),
                "归一化的方向错了：最后一维的和应当是 1。",
                "Normalised along the wrong dimension: the sums over the last one should be 1.",
            ),
            Slip(
                "over everything",
                _softmax_over(None),
                "所有的数合在一起归一化了；每一行应当各自和为 1。",
                "Everything was normalised together; each row should sum to 1 by itself.",
            ),
            Slip(
                "not normalised",
                lambda z: torch.exp(z - z.amax(-1, keepdim=True)),
                "指数对了，还差一步：让每一行的和为 1。",
                "The exponentials are right; the last step makes each row sum to 1.",
            ),
            Slip(
                "no exponential",
                lambda z: z / z.sum(-1, keepdim=True),
                "只是除以了和，没有取指数：负数会变成负的“概率”。",
                "Divided by the sum without an exponential: negative numbers would become negative "
                "probabilities.",
            ),
        ],
        symptoms=[
            Symptom(
                "rows do not sum to 1",
                lambda p, z: torch.allclose(p.sum(-1), torch.ones(()).double(), atol=1e-4),
                "最后一维的和应当是 1，你的不是：",
                "The sums over the last dimension should be 1, and yours are not:",
            ),
        ],
    ),
    Exercise(
        name="backward",
        truth=gradients,
        returns=("dW_1", "db_1", "dW_2", "db_2"),
        cases=[
            (
                torch.tensor([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]]),
                torch.tensor([[1.0], [0.0], [-1.0]]),
                torch.tensor([[0.5, -1.0], [1.0, 0.5]]),
                torch.tensor([0.1, -0.2]),
                torch.tensor([[2.0, -1.0]]),
                torch.tensor([0.3]),
            ),
            tuple(
                _normal(seed, *shape, dtype=torch.float64)
                for seed, shape in enumerate([(5, 3), (5, 1), (4, 3), (4,), (1, 4), (1,)], start=10)
            ),
        ],
        shown=(
            "反向传播就是把链式法则从输出往输入走一遍，每一步都是一个矩阵乘积。",
            "Backpropagation is the chain rule walked from the output to the input, one matrix product a "
            "step.",
        ),
        slips=[
            Slip(
                "slope forgotten",
                _with(slope=torch.ones_like),
                "第二层都对了。穿过 tanh 回去的时候，梯度还要乘上它的斜率。",
                "The second layer is right. On its way back through the tanh a gradient is multiplied by its "
                "slope.",
            ),
            Slip(
                "slope at h",
                _with(slope=lambda z: 1 - torch.tanh(torch.tanh(z)) ** 2),
                "斜率取在了 h 处。σ′ 要在预激活值 z 处取；而 h = tanh(z) 已经变换过一次了。",
                "The slope was taken at h. σ′ is taken at the pre-activation z, and h = tanh(z) has been "
                "mapped once already.",
            ),
            Slip(
                "slope 1 − h",
                _with(slope=lambda z: 1 - torch.tanh(z)),
                "tanh 的导数少了一个平方。",
                "A square is missing in the derivative of tanh.",
            ),
            Slip(
                "factor 2",
                _with(factor=1.0),
                "处处差一个常数：平方的导数是什么？",
                "Everything is off by a constant: what is the derivative of a square?",
            ),
            Slip(
                "sum instead of mean",
                _with(mean=False),
                "损失是平均值，不是总和；所有的梯度都大了同样的倍数。",
                "The loss is a mean, not a sum; every gradient is too large by the same factor.",
            ),
            Slip(
                "sign",
                _with(factor=-2.0),
                "符号反了：o 太大时，损失随 o 增大，梯度应当是正的。",
                "The sign is flipped: where o is too large the loss grows with o, and the gradient is "
                "positive.",
            ),
        ],
    ),
    Exercise(
        name="parameters",
        truth=parameters,
        cases=[([4, 5, 2],), ([10, 1],), ([5, 5, 5, 5],), ([300, 64, 64, 2],)],
        shown=(
            "每层是（输入 + 1）× 输出；输入变长，只有第一层变大，而且只是成比例地变大。",
            "Each layer has (inputs + 1) × outputs; with a longer input only the first layer grows, and only "
            "in proportion.",
        ),
        slips=[
            Slip(
                "no biases",
                lambda sizes: sum(a * b for a, b in _pairs(sizes)),
                "权重数对了，偏置还没有算。",
                "The weights are right; the biases are not counted yet.",
            ),
            Slip(
                "a bias for each input",
                lambda sizes: sum(a * b + a for a, b in _pairs(sizes)),
                "偏置是加在输出上的：每个输出单元一个，不是每个输入一个。",
                "Biases are added to outputs: one for each output unit, not for each input.",
            ),
            Slip(
                "inputs have biases too",
                lambda sizes: sum(a * b for a, b in _pairs(sizes)) + sum(sizes),
                "输入层没有参数，它只是数据；把它也算进了偏置。",
                "The input has no parameters, it is data; it was counted among the biases.",
            ),
            Slip(
                "no bias at the output",
                lambda sizes: sum(a * b for a, b in _pairs(sizes)) + sum(sizes[1:-1]),
                "输出层也有偏置。",
                "The output layer has biases as well.",
            ),
            Slip(
                "one bias a layer",
                lambda sizes: sum(a * b + 1 for a, b in _pairs(sizes)),
                "每一层的偏置是一个向量，不是一个数。",
                "The bias of a layer is a vector, not a single number.",
            ),
            Slip(
                "product of all sizes",
                lambda sizes: int(torch.tensor(sizes).prod()),
                "把所有的宽度乘在了一起；只有相邻的两层之间才有权重。",
                "All widths were multiplied; there are weights between neighbouring layers only.",
            ),
        ],
    ),
    Exercise(
        name="dead",
        truth=dead,
        cases=[
            (torch.tensor([[1.0, -1.0, -3.0, 0.0], [2.0, 3.0, -1.0, 0.0], [-1.0, -2.0, -5.0, 0.0]]),),
            (_normal(20, 6, 9) - 1.5,),
            (_normal(21, 5, 7).abs(),),
        ],
        shown=(
            "一个单元只有在整批输入上都不为正，才没有任何梯度。",
            "A unit is without any gradient only if it is not positive for a single input of the batch.",
        ),
        slips=[
            Slip(
                "share of zero outputs",
                lambda z: (z <= 0).float().mean(),
                "这是输出为 0 的比例。一个单元对某些输入沉默是正常的；对所有输入都沉默才是死了。",
                "This is the share of outputs that are 0. A unit may well be silent for some inputs; it "
                "is dead if it is silent for all of them.",
            ),
            Slip(
                "silent once",
                lambda z: (z <= 0).any(dim=0).float().mean(),
                "只要对一个输入不为正就算死，太严了：它还能从别的输入得到梯度。",
                "One input without a response does not kill a unit: others still give it a gradient.",
            ),
            Slip(
                "over the units",
                lambda z: (z <= 0).all(dim=1).float().mean(),
                "方向反了：要问的是每一列（一个单元）在整批输入上怎样，不是每一行（一个输入）。",
                "The other way round: ask of each column (a unit) how it does over the batch, not of each "
                "row (an input).",
            ),
            Slip(
                "number instead of share",
                lambda z: (z <= 0).all(dim=0).float().sum(),
                "这是死单元的个数，题目要的是比例。",
                "This is the number of dead units; the share is asked for.",
            ),
            Slip(
                "the living",
                lambda z: (z > 0).any(dim=0).float().mean(),
                "这是活着的单元的比例。",
                "This is the share of units that are alive.",
            ),
            Slip(
                "zero counts as alive",
                lambda z: (z < 0).all(dim=0).float().mean(),
                "差一点：z 恰好等于 0 时，ReLU 的导数（按 torch 的约定）也是 0。",
                "Almost: where z is exactly 0, the derivative of ReLU (by torch's convention) is 0 too.",
            ),
        ],
    ),
]
