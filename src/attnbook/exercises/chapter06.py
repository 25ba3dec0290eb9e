"""Chapter 06, the GRU."""

import math

import torch
from torch import Tensor

from attnbook.exercises.core import Exercise, Slip, Symptom
from attnbook.recurrent import gru_step, gru_step_reset_before


def _normal(seed: int, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def step(a: Tensor, h: Tensor, U: Tensor, b_hn: Tensor) -> Tensor:
    """One step of torch's GRU."""
    return gru_step(a, h, U, b_hn)


def _parts(a, h, U):
    return *a.chunk(3, dim=-1), *(h @ U.T).chunk(3, dim=-1)


def _z_writes(a, h, U, b_hn):
    a_r, a_z, a_n, u_r, u_z, u_n = _parts(a, h, U)
    r, z = torch.sigmoid(a_r + u_r), torch.sigmoid(a_z + u_z)
    return z * torch.tanh(a_n + r * (u_n + b_hn)) + (1 - z) * h


def _reset_and_update_exchanged(a, h, U, b_hn):
    a_z, a_r, a_n, u_z, u_r, u_n = _parts(a, h, U)
    r, z = torch.sigmoid(a_r + u_r), torch.sigmoid(a_z + u_z)
    return (1 - z) * torch.tanh(a_n + r * (u_n + b_hn)) + z * h


def _reset_before(a, h, U, b_hn):
    n = a.shape[-1] // 3
    return gru_step_reset_before(torch.cat([a[:, : 2 * n], a[:, 2 * n :] + b_hn], dim=-1), h, U)


def _bias_not_reset(a, h, U, b_hn):
    a_r, a_z, a_n, u_r, u_z, u_n = _parts(a, h, U)
    r, z = torch.sigmoid(a_r + u_r), torch.sigmoid(a_z + u_z)
    return (1 - z) * torch.tanh(a_n + r * u_n + b_hn) + z * h


def _input_reset_too(a, h, U, b_hn):
    a_r, a_z, a_n, u_r, u_z, u_n = _parts(a, h, U)
    r, z = torch.sigmoid(a_r + u_r), torch.sigmoid(a_z + u_z)
    return (1 - z) * torch.tanh(r * (a_n + u_n + b_hn)) + z * h


def _no_reset(a, h, U, b_hn):
    a_r, a_z, a_n, u_r, u_z, u_n = _parts(a, h, U)
    z = torch.sigmoid(a_z + u_z)
    return (1 - z) * torch.tanh(a_n + u_n + b_hn) + z * h


def _candidate_by_sigmoid(a, h, U, b_hn):
    a_r, a_z, a_n, u_r, u_z, u_n = _parts(a, h, U)
    r, z = torch.sigmoid(a_r + u_r), torch.sigmoid(a_z + u_z)
    return (1 - z) * torch.sigmoid(a_n + r * (u_n + b_hn)) + z * h


def _written_in_full(a, h, U, b_hn):
    a_r, a_z, a_n, u_r, u_z, u_n = _parts(a, h, U)
    r, z = torch.sigmoid(a_r + u_r), torch.sigmoid(a_z + u_z)
    return torch.tanh(a_n + r * (u_n + b_hn)) + z * h


def _no_bias(a, h, U, b_hn):
    return gru_step(a, h, U, torch.zeros_like(b_hn))


def keep_to_write(weight: Tensor) -> Tensor:
    """The same weights with the block of z negated."""
    r, z, n = weight.chunk(3)
    return torch.cat([r, -z, n])


def gru_units(n: int) -> int:
    """The largest m with 3m(n + m) ≤ 2n²."""
    return _largest(n, 3)


def _largest(n, gates, inputs=True):
    m = 0
    while gates * (m + 1) * (n * inputs + m + 1) <= 2 * n * n:
        m += 1
    return m


_BEFORE, _AFTER = math.tanh(1), math.tanh(0)  # row 1 of U is [1, 1], h = [1, −1], r = [1, 0]

EXERCISES = [
    Exercise(
        name="step",
        truth=step,
        cases=[
            (
                torch.tensor([[0.5, 0.0, -1.0, 1.0, 0.5, -0.5]]),
                torch.tensor([[0.4, -0.8]]),
                torch.tensor([[1.0, 0.0], [0.5, 1.0], [0.0, 2.0], [1.0, 1.0], [1.0, -1.0], [2.0, 0.5]]),
                torch.tensor([0.3, -0.2]),
            ),
            (_normal(1, 3, 12), _normal(2, 3, 4), _normal(3, 12, 4), _normal(4, 4)),
            tuple(
                _normal(seed, *shape, dtype=torch.float64)
                for seed, shape in ((5, (2, 6)), (6, (2, 2)), (7, (6, 2)), (8, (2,)))
            ),
        ],
        shown=(
            "新状态是旧状态与候选的平均，更新门一个数定下两份。",
            "The new state is an average of the old one and the candidate; one number, the update gate, sets "
            "both shares.",
        ),
        slips=[
            Slip(
                "z writes",
                _z_writes,
                "z 用成了“写”。这里 z 是“留”：乘在旧状态上。",
                "Here z was taken to mean “write”. It means “keep”, and multiplies the old state.",
            ),
            Slip(
                "reset and update exchanged",
                _reset_and_update_exchanged,
                "重置门和更新门对调了：三块的次序是 r, z, n。",
                "Reset gate and update gate have changed places: the blocks come as r, z, n.",
            ),
            Slip(
                "reset before",
                _reset_before,
                "这是论文的版本：重置门先乘在 h 上。`torch` 的乘在矩阵乘积之后。",
                "This is the paper's version, in which the reset gate multiplies h first. In `torch` it "
                "comes after the matrix product.",
            ),
            Slip(
                "bias not reset",
                _bias_not_reset,
                "只差一处：b_hn 也要被重置，放进括号里。",
                "One thing is left: b_hn is reset as well; it belongs inside the brackets.",
            ),
            Slip(
                "input reset too",
                _input_reset_too,
                "重置门把当前的输入也遮住了；它只管旧状态那一份。",
                "The reset gate hides the present input as well; it is in charge of the old state's "
                "share only.",
            ),
            Slip(
                "no reset",
                _no_reset,
                "算候选的时候没有用重置门。",
                "The reset gate is not used in the candidate.",
            ),
            Slip(
                "candidate by sigmoid",
                _candidate_by_sigmoid,
                "候选用的是 tanh，不是 sigmoid：它要能是负的。",
                "The candidate takes tanh, not the sigmoid: it has to be able to be negative.",
            ),
            Slip(
                "written in full",
                _written_in_full,
                "候选整个加了进去；它只写 1 − z 那一份。",
                "The candidate was added in full; only the share 1 − z of it is written.",
            ),
            Slip(
                "no bias",
                _no_bias,
                "`b_hn` 没有用上。",
                "`b_hn` is not used.",
            ),
        ],
        symptoms=[
            Symptom(
                "not between old state and ±1",
                lambda result, a, h, U, b_hn: bool((result.abs() <= h.double().abs().clamp(min=1)).all()),
                "新状态应当在旧状态与候选之间，而候选在 −1 与 1 之间，你的越界了：",
                "The new state should lie between the old one and a candidate within −1 and 1, and here it "
                "does not:",
            ),
        ],
    ),
    Exercise(
        name="by_hand",
        truth=torch.tensor([_BEFORE, _AFTER]),
        tolerance=(0.0, 0.01),
        shown=(
            "同样的权重，先乘得 0.76，后乘得 0：两个版本是两个函数。",
            "The same weights give 0.76 one way and 0 the other: two versions, two functions.",
        ),
        slips=[
            Slip(
                "exchanged",
                torch.tensor([_AFTER, _BEFORE]),
                "两个数都对，次序反了：先写“先乘”，后写“后乘”。",
                "Both numbers are right, in the other order: first before, then after.",
            ),
            Slip(
                "no tanh",
                torch.tensor([1.0, 0.0]),
                "还差最后一步：候选要过 tanh。",
                "One step is left: the candidate goes through tanh.",
            ),
            Slip(
                "second component",
                torch.tensor([math.tanh(2), 0.0]),
                "这是第二个分量，用的是 U 的第二行；题目问第一个。",
                "This is the second component, by the second row of U; the first is asked for.",
            ),
            Slip(
                "column of U",
                torch.tensor([math.tanh(1), math.tanh(-1)]),
                "后乘用了 U 的列；应当用第一行与 h 做点积。",
                "For “after”, a column of U was used; take the dot product of the first row with h.",
            ),
            Slip(
                "never reset",
                torch.tensor([0.0, 0.0]),
                "先乘的时候 r 没有用上：第二个单元的记忆应当被遮住。",
                "For “before”, r was not used: the memory of the second unit should be hidden.",
            ),
            Slip(
                "sigmoid",
                torch.tensor([1 / (1 + math.exp(-1)), 0.5]),
                "候选用的是 tanh，不是 sigmoid。",
                "The candidate takes tanh, not the sigmoid.",
            ),
        ],
    ),
    Exercise(
        name="keep_to_write",
        truth=keep_to_write,
        cases=[
            (torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),),
            (_normal(9, 6),),
            (_normal(10, 12, 5, dtype=torch.float64),),
        ],
        shown=(
            "只有 z 那一块变号；两种写法是同一个函数。",
            "Only the block of z changes its sign; both conventions are one function.",
        ),
        slips=[
            Slip(
                "all negated",
                lambda weight: -weight,
                "三块都变了号；重置门和候选不该动。",
                "All three blocks were negated; reset gate and candidate should be left alone.",
            ),
            Slip(
                "r negated",
                lambda weight: torch.cat([-weight.chunk(3)[0], *weight.chunk(3)[1:]]),
                "变号的是第一块，那是重置门；次序是 r, z, n。",
                "The first block was negated, which is the reset gate; the order is r, z, n.",
            ),
            Slip(
                "n negated",
                lambda weight: torch.cat([*weight.chunk(3)[:2], -weight.chunk(3)[2]]),
                "变号的是第三块，那是候选；次序是 r, z, n。",
                "The third block was negated, which is the candidate; the order is r, z, n.",
            ),
            Slip(
                "one minus",
                lambda weight: torch.cat([weight.chunk(3)[0], 1 - weight.chunk(3)[1], weight.chunk(3)[2]]),
                "1 − z 说的是门，不是权重。什么样的权重让 σ 变成 1 − σ？",
                "1 − z is about the gate, not about its weights. Which weights turn σ into 1 − σ?",
            ),
            Slip(
                "blocks exchanged",
                lambda weight: torch.cat([weight.chunk(3)[1], weight.chunk(3)[0], weight.chunk(3)[2]]),
                "两块对调了。门没有换位置，只是意思反了。",
                "Two blocks have changed places. The gates stay where they are; one means the opposite.",
            ),
            Slip(
                "unchanged",
                lambda weight: weight.clone(),
                "没有变化：这样“写”的网络会在该留的时候写。",
                "Nothing has changed: a network in which z writes would write where it should keep.",
            ),
        ],
    ),
    Exercise(
        name="gru_units",
        truth=gru_units,
        cases=[(100,), (10,), (64,), (7,)],
        tolerance=(0.0, 0.1),
        shown=(
            "m 大约是 n 的 0.457 倍：门是拿宽度换来的。",
            "m is about 0.457 n: gates are paid for in width.",
        ),
        slips=[
            Slip(
                "a third",
                lambda n: n // 3,
                "参数不是单元数的三分之一那么简单：U 随单元数的平方变，W 只随一次方变。",
                "It is not simply a third: U changes with the square of the number of units, W only in "
                "proportion.",
            ),
            Slip(
                "root of a third",
                lambda n: int(n / math.sqrt(3)),
                "这样算把 W 也当成 m × m；输入仍是 n 维，W 是 m × n。",
                "This takes W to be m × m; inputs still have size n, so W is m × n.",
            ),
            Slip(
                "one more",
                lambda n: _largest(n, 3) + 1,
                "多了一个，超出预算了：要取不超出的最大整数。",
                "One too many, and over budget: the largest integer within it is wanted.",
            ),
            Slip(
                "as an LSTM",
                lambda n: _largest(n, 4),
                "这是 LSTM 的答案，它有四套；GRU 有三套。",
                "This is the answer for an LSTM, which has four sets; a GRU has three.",
            ),
            Slip(
                "two gates",
                lambda n: _largest(n, 2),
                "只数了两个门，候选也有自己的 W 和 U。",
                "Only the two gates were counted; the candidate has a W and U of its own.",
            ),
            Slip(
                "no inputs",
                lambda n: _largest(n, 3, inputs=False),
                "W 没有数进去：每一套都还有 m × n 个。",
                "W was not counted: every set has m × n more.",
            ),
        ],
    ),
]
