"""Chapter 4, backpropagation through time."""

import math

import torch
from torch import Tensor

from attnbook.exercises.core import Exercise, Slip, Symptom


def step_jacobian(z: Tensor, W_hh: Tensor) -> Tensor:
    """∂h_t/∂h_{t−1} of h_t = tanh(z_t): diag(1 − tanh²(z)) W_hh."""
    return (1 - z.tanh() ** 2)[:, None] * W_hh


def bptt(h: Tensor, W_hh: Tensor, dL_dh: Tensor) -> Tensor:
    """dL/dW_hh from the states h_0 … h_T and ∂L_t/∂h_t of the steps 1 … T."""
    gradient, delta = torch.zeros_like(W_hh), torch.zeros_like(h[0])
    for t in range(len(dL_dh), 0, -1):
        delta = (dL_dh[t - 1] + delta @ W_hh) * (1 - h[t] ** 2)
        gradient = gradient + torch.outer(delta, h[t - 1])
    return gradient


def clip(dW: Tensor, db: Tensor, max_norm: float) -> tuple[Tensor, Tensor]:
    """Both gradients as one vector, shortened to `max_norm` if it is longer (Pascanu et al. 2013)."""
    factor = (max_norm / _norm(dW, db)).clamp(max=1.0)
    return factor * dW, factor * db


def _norm(*gradients: Tensor) -> Tensor:
    return torch.stack([gradient.square().sum() for gradient in gradients]).sum().sqrt()


def _normal(seed: int, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def _variant(carried=lambda delta, W_hh: delta @ W_hh, slope=lambda h: 1 - h**2, outer=None, own=None):
    """`bptt` with one part replaced."""

    def answer(h, W_hh, dL_dh):
        gradient, delta = torch.zeros_like(W_hh), torch.zeros_like(h[0])
        for t in range(len(dL_dh), 0, -1):
            loss = dL_dh[t - 1] if own is None else own(dL_dh, t)
            delta = (loss + carried(delta, W_hh)) * slope(h[t])
            gradient = gradient + (outer or (lambda d, h, t: torch.outer(d, h[t - 1])))(delta, h, t)
        return gradient

    return answer


def _overwritten(h, W_hh, dL_dh):
    delta = torch.zeros_like(h[0])
    for t in range(len(dL_dh), 0, -1):
        delta = (dL_dh[t - 1] + delta @ W_hh) * (1 - h[t] ** 2)
        gradient = torch.outer(delta, h[t - 1])
    return gradient


def _slope_of_own_loss_only(h, W_hh, dL_dh):
    gradient, delta = torch.zeros_like(W_hh), torch.zeros_like(h[0])
    for t in range(len(dL_dh), 0, -1):
        delta = dL_dh[t - 1] * (1 - h[t] ** 2) + delta @ W_hh
        gradient = gradient + torch.outer(delta, h[t - 1])
    return gradient


def _states(seed: int, time: int, hidden: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, ...]:
    """Arguments of `bptt`: the states of a real run."""
    W_hh = _normal(seed, hidden, hidden, dtype=dtype) / math.sqrt(hidden)
    h = [0.3 * _normal(seed + 1, hidden, dtype=dtype)]
    for a_t in _normal(seed + 2, time, hidden, dtype=dtype):
        h.append(torch.tanh(a_t + W_hh @ h[-1]))
    return torch.stack(h), W_hh, _normal(seed + 3, time, hidden, dtype=dtype)


EXERCISES = [
    Exercise(
        name="by_hand",
        truth=9,
        shown=(
            "每个损失有自己的路：0 + 1 + 8。走得远的那一份乘了 w。",
            "Each loss has its own road: 0 + 1 + 8. What came from further away was multiplied by w.",
        ),
        slips=[
            Slip(
                "immediate derivatives only",
                6,
                "只算了直接的一份 h_0 + h_1 + h_2。w 还通过上一个状态起作用。",
                "Only the direct shares h_0 + h_1 + h_2 were counted. w also acts through the state before.",
            ),
            Slip(
                "last loss only",
                8,
                "这只是 h_3 的导数。L 里还有别的项也依赖 w。",
                "This is the derivative of h_3 alone. Other terms of L depend on w too.",
            ),
            Slip(
                "no factor on the way",
                7,
                "从上一个状态传来的导数，少乘了一次 w。",
                "The derivative that comes from the state before was not multiplied by w.",
            ),
            Slip(
                "state of the step itself",
                49,
                "直接的一份要用上一步的状态：w 乘的是 h_{t−1}，不是 h_t。",
                "The direct share holds the state of the step before: w multiplies h_{t−1}, not h_t.",
            ),
            Slip(
                "the loss itself",
                22,
                "这是 L 的值，不是它对 w 的导数。",
                "This is the value of L, not its derivative with respect to w.",
            ),
            Slip(
                "inputs as states",
                3,
                "加起来的像是输入 x。w 乘的是状态，先把三个状态算出来。",
                "Inputs seem to have been added. w multiplies states: compute the three states first.",
            ),
        ],
    ),
    Exercise(
        name="step_jacobian",
        truth=step_jacobian,
        cases=[
            (torch.tensor([0.0, 1.0]), torch.tensor([[1.0, 2.0], [3.0, 4.0]])),
            (_normal(1, 4), _normal(2, 4, 4)),
            (_normal(3, 5, dtype=torch.float64), _normal(4, 5, 5, dtype=torch.float64)),
        ],
        shown=(
            "第 i 行乘 σ'(z_i)：单元饱和，它这一行就传不过任何消息。",
            "Row i is multiplied by σ'(z_i): where a unit is saturated, its row passes no message.",
        ),
        slips=[
            Slip(
                "derivative at h",
                lambda z, W_hh: (1 - z.tanh().tanh() ** 2)[:, None] * W_hh,
                "σ' 取在了 h 处：`z` 是预激活，1 − tanh² 里的 tanh 只做一次。",
                "σ' was taken at h: `z` is the pre-activation, and 1 − tanh² applies tanh only once.",
            ),
            Slip(
                "1 - z squared",
                lambda z, W_hh: (1 - z**2)[:, None] * W_hh,
                "1 − h² 里的 h 是激活以后的值，你用的是 z。",
                "The h in 1 − h² is the value after the activation, and you used z.",
            ),
            Slip(
                "columns scaled",
                lambda z, W_hh: W_hh * (1 - z.tanh() ** 2),
                "缩放的是列。对角矩阵在左边：`z` 的第 i 个分量属于第 i 行。",
                "The columns were scaled. The diagonal matrix stands on the left: component i of `z` belongs "
                "to row i.",
            ),
            Slip(
                "transposed",
                lambda z, W_hh: step_jacobian(z, W_hh).T,
                "转置了：第 i 行第 j 列应该是 ∂h_{t,i}/∂h_{t−1,j}。",
                "Transposed: row i, column j should be ∂h_{t,i}/∂h_{t−1,j}.",
            ),
            Slip(
                "no derivative of the activation",
                lambda z, W_hh: W_hh.clone(),
                "少了激活函数的导数，这是线性网络的雅可比矩阵。",
                "The derivative of the activation is missing; this is the Jacobian of a linear network.",
            ),
            Slip(
                "tanh, not its derivative",
                lambda z, W_hh: z.tanh()[:, None] * W_hh,
                "乘上的是 tanh 本身，不是它的导数。",
                "It was multiplied by tanh itself, not by its derivative.",
            ),
            Slip(
                "no square",
                lambda z, W_hh: (1 - z.tanh())[:, None] * W_hh,
                "tanh' 里少了一个平方。",
                "A square is missing in the derivative of tanh.",
            ),
            Slip(
                "sigmoid",
                lambda z, W_hh: (z.sigmoid() * (1 - z.sigmoid()))[:, None] * W_hh,
                "这是 sigmoid 的导数，题目里的激活函数是 tanh。",
                "This is the derivative of the sigmoid; the activation here is tanh.",
            ),
            Slip(
                "matrix product with the vector",
                lambda z, W_hh: W_hh @ (1 - z.tanh() ** 2),
                "矩阵乘了向量，结果成了向量。要的是对角矩阵与 W_hh 的乘积。",
                "A matrix times a vector gives a vector. What is wanted is a diagonal matrix times W_hh.",
            ),
        ],
    ),
    Exercise(
        name="bptt",
        truth=bptt,
        cases=[_states(0, 3, 2), _states(10, 6, 4), _states(20, 5, 3, dtype=torch.float64)],
        shown=(
            "一个往回的循环，代替了 T(T + 1)/2 项的双重求和。",
            "One loop backwards does for a double sum of T(T + 1)/2 terms.",
        ),
        slips=[
            Slip(
                "nothing is carried",
                _variant(carried=lambda delta, W_hh: torch.zeros_like(delta)),
                "每个损失只管了自己那一步（即时导数）。后面传来的 `delta` 没有加进来。",
                "Each loss reached its own step only (the immediate derivative). What `delta` brings from "
                "behind is missing.",
            ),
            Slip(
                "carried with the transpose",
                _variant(carried=lambda delta, W_hh: delta @ W_hh.T),
                "往回传时矩阵转置错了：前向是 W_hh h，往回就是行向量 δ 乘 W_hh。",
                "The matrix is transposed on the way back: forward it is W_hh h, so backward it is the row "
                "δ times W_hh.",
            ),
            Slip(
                "carried without the matrix",
                _variant(carried=lambda delta, W_hh: delta),
                "`delta` 往前走一步，要乘一次 W_hh。",
                "`delta` must be multiplied by W_hh to go one step back.",
            ),
            Slip(
                "only the last loss",
                _variant(own=lambda dL_dh, t: dL_dh[t - 1] * (t == len(dL_dh))),
                "只用了最后一步的损失；每一步都有自己的 ∂L_t/∂h_t。",
                "Only the loss of the last step was used; each step has its own ∂L_t/∂h_t.",
            ),
            Slip(
                "state of the step itself",
                _variant(outer=lambda delta, h, t: torch.outer(delta, h[t])),
                "外积里要用上一步的状态：W_hh 在第 t 步乘的是 h_{t−1}。",
                "The outer product needs the state before: at step t, W_hh multiplies h_{t−1}.",
            ),
            Slip(
                "outer product transposed",
                _variant(outer=lambda delta, h, t: torch.outer(h[t - 1], delta)),
                "外积转置了：第 i 行是第 i 个单元的 δ，列是上一步的状态。",
                "The outer product is transposed: rows belong to δ, columns to the state before.",
            ),
            Slip(
                "no derivative of tanh",
                _variant(slope=lambda h: torch.ones_like(h)),
                "少乘了 tanh 的导数 1 − h²。",
                "The derivative of tanh, 1 − h², is missing.",
            ),
            Slip(
                "derivative at h",
                _variant(slope=lambda h: 1 - h.tanh() ** 2),
                "`h` 已经是 tanh 的结果，导数是 1 − h²，不要再做一次 tanh。",
                "`h` is a result of tanh already, and the derivative is 1 − h²; do not apply tanh again.",
            ),
            Slip(
                "derivative only where the loss enters",
                _slope_of_own_loss_only,
                "1 − h² 只乘到了自己的损失上；后面传来的那一份也要乘。",
                "1 − h² was applied to the step's own loss only; what comes from behind needs it too.",
            ),
            Slip(
                "not accumulated",
                _overwritten,
                "返回的只是第 1 步的外积。每一步的外积要加起来。",
                "Only the outer product of step 1 is returned. The outer products of all steps are added up.",
            ),
        ],
    ),
    Exercise(
        name="norms",
        truth=torch.tensor([1.0, 2.0, 0.5]),
        tolerance=(0.0, 0.01),
        shown=(
            "半径 1，范数 2，sigmoid 的 γ = 1/4：每步最多剩一半，必定消失。",
            "Radius 1, norm 2, and the sigmoid's γ = 1/4: each step leaves at most half, so it must vanish.",
        ),
        slips=[
            Slip(
                "radius and norm exchanged",
                torch.tensor([2.0, 1.0, 0.25]),
                "前两个数交换了：谱半径看特征值，谱范数看奇异值。",
                "The first two are exchanged: a radius comes from eigenvalues, a norm from singular values.",
            ),
            Slip(
                "bound with the radius",
                torch.tensor([1.0, 2.0, 0.25]),
                "上界里要用谱范数；谱半径管不住一步能拉多长。",
                "The bound needs the spectral norm; the radius does not limit how far one step stretches.",
            ),
            Slip(
                "gamma of tanh",
                torch.tensor([1.0, 2.0, 2.0]),
                "前两个对了。第三个用的是 tanh 的 γ = 1；这里的激活函数是 sigmoid。",
                "The first two are right. The third has γ = 1 of tanh; the activation here is the sigmoid.",
            ),
            Slip(
                "gamma of one half",
                torch.tensor([1.0, 2.0, 1.0]),
                "前两个对了。sigmoid(0) = 1/2，但它在 0 处的导数更小。",
                "The first two are right. sigmoid(0) = 1/2, but its derivative there is smaller.",
            ),
            Slip(
                "Frobenius norm",
                torch.tensor([1.0, math.sqrt(4.25), math.sqrt(4.25) / 4]),
                "第二个数是 Frobenius 范数（所有元素的平方和开方）。谱范数是最大的奇异值。",
                "The second number is the Frobenius norm (root of the sum of squares). The spectral norm is "
                "the largest singular value.",
            ),
            Slip(
                "trace",
                torch.tensor([0.0, 2.0, 0.5]),
                "第一个数是 0，像是对角线之和。谱半径是特征值绝对值的最大者。",
                "The first number is 0, like the sum of the diagonal. The radius is the largest absolute "
                "value of an eigenvalue.",
            ),
            Slip(
                "signed eigenvalue",
                torch.tensor([-1.0, 2.0, 0.5]),
                "谱半径取绝对值，不会是负的。",
                "A spectral radius is an absolute value and never negative.",
            ),
        ],
    ),
    Exercise(
        name="clip",
        truth=clip,
        returns=("dW", "db"),
        cases=[
            (torch.tensor([[2.0, 1.0], [0.0, 0.0]]), torch.tensor([2.0, 4.0]), 1.0),
            (torch.tensor([[0.2, 0.1], [0.0, 0.0]]), torch.tensor([0.2, 0.4]), 1.0),
            (10 * _normal(5, 3, 4), _normal(6, 3), 2.0),
            (_normal(7, 2, 2, dtype=torch.float64), _normal(8, 2, dtype=torch.float64), 0.5),
        ],
        shown=(
            "长度变了，方向没变：陡的地方走小步，仍朝下坡走。",
            "The length changed and the direction did not: small steps on steep ground, but still downhill.",
        ),
        slips=[
            Slip(
                "element by element",
                lambda dW, db, max_norm: (
                    dW.clamp(-max_norm, max_norm),
                    db.clamp(-max_norm, max_norm),
                ),
                "这是逐个元素截断，方向变了。要缩短的是整个向量。",
                "This cuts element by element, which changes the direction. Shorten the vector as a whole.",
            ),
            Slip(
                "each by itself",
                lambda dW, db, max_norm: tuple((max_norm / g.norm()).clamp(max=1.0) * g for g in (dW, db)),
                "两个梯度各裁各的，它们的比例就变了。先算两者合起来的长度。",
                "Each gradient was clipped by itself, which changes their proportion. Take their common "
                "length first.",
            ),
            Slip(
                "always scaled",
                lambda dW, db, max_norm: tuple(max_norm / _norm(dW, db) * g for g in (dW, db)),
                "长的都对了；可是短的梯度被拉长了。没有超过 `max_norm` 就不要动它。",
                "Long ones are right, but short gradients become longer. Leave them alone within `max_norm`.",
            ),
            Slip(
                "sum of the two lengths",
                lambda dW, db, max_norm: tuple(
                    (max_norm / (dW.norm() + db.norm())).clamp(max=1.0) * g for g in (dW, db)
                ),
                "长度不能直接相加：合起来的长度是平方和的平方根。",
                "Lengths do not add up: the common length is the root of the sum of squares.",
            ),
            Slip(
                "no square root",
                lambda dW, db, max_norm: tuple(
                    (max_norm / _norm(dW, db) ** 2).clamp(max=1.0) * g for g in (dW, db)
                ),
                "用的是长度的平方，少开了一次方。",
                "The square of the length was used: a square root is missing.",
            ),
            Slip(
                "unit length",
                lambda dW, db, max_norm: tuple(
                    g / _norm(dW, db) if _norm(dW, db) > max_norm else g for g in (dW, db)
                ),
                "缩短后的长度成了 1。应该是 `max_norm`。",
                "The shortened vector has length 1. It should have `max_norm`.",
            ),
            Slip(
                "set to zero",
                lambda dW, db, max_norm: tuple(
                    torch.zeros_like(g) if _norm(dW, db) > max_norm else g for g in (dW, db)
                ),
                "太长的梯度被丢掉了。要缩短，不是清零。",
                "A gradient that is too long was thrown away. Shorten it, do not zero it.",
            ),
            Slip(
                "limit on the largest element",
                lambda dW, db, max_norm: tuple(
                    (max_norm / torch.cat([dW.flatten(), db]).abs().max()).clamp(max=1.0) * g
                    for g in (dW, db)
                ),
                "限制的是最大的元素，不是长度（2 范数）。",
                "It is the largest element that was limited, not the length (2-norm).",
            ),
        ],
        symptoms=[
            Symptom(
                "too long",
                lambda a, b, dW, db, max_norm: _norm(a, b).item() <= max_norm * (1 + 1e-4),
                "裁剪以后还是比 `max_norm` 长：",
                "Still longer than `max_norm` after clipping:",
            ),
            Symptom(
                "direction changed",
                lambda a, b, dW, db, max_norm: (
                    torch.cosine_similarity(
                        torch.cat([a.flatten(), b]), torch.cat([dW.flatten(), db]).double(), dim=0
                    ).item()
                    > 1 - 1e-5
                ),
                "方向变了。两个梯度的所有元素要乘同一个因子：",
                "The direction changed. All elements of both gradients need the same factor:",
            ),
        ],
    ),
]
