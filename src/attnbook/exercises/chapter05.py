"""Chapter 05, the LSTM."""

import math

import torch
from torch import Tensor

from attnbook.exercises.core import Exercise, Slip, Symptom
from attnbook.recurrent import lstm_step


def _normal(seed: int, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def step(a: Tensor, h: Tensor, c: Tensor, U: Tensor) -> tuple[Tensor, Tensor]:
    """One step of an LSTM, (h, c)."""
    return lstm_step(a, h, c, U)


def _blocks(a, h, U):
    return (a + h @ U.T).chunk(4, dim=-1)  # i, f, g, o


def _forget_and_input_exchanged(a, h, c, U):
    i, f, g, o = _blocks(a, h, U)
    c = i.sigmoid() * c + f.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def _forgets_by_the_gate(a, h, c, U):
    i, f, g, o = _blocks(a, h, U)
    c = (1 - f.sigmoid()) * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def _output_and_candidate_exchanged(a, h, c, U):
    i, f, o, g = _blocks(a, h, U)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def _candidate_by_sigmoid(a, h, c, U):
    i, f, g, o = _blocks(a, h, U)
    c = f.sigmoid() * c + i.sigmoid() * g.sigmoid()
    return o.sigmoid() * c.tanh(), c


def _no_tanh_on_the_cell(a, h, c, U):
    i, f, g, o = _blocks(a, h, U)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c, c


def _shows_the_old_cell(a, h, c, U):
    i, f, g, o = _blocks(a, h, U)
    return o.sigmoid() * c.tanh(), f.sigmoid() * c + i.sigmoid() * g.tanh()


def _tanh_of_the_sum(a, h, c, U):
    i, f, g, o = _blocks(a, h, U)
    c = torch.tanh(f.sigmoid() * c + i.sigmoid() * g.tanh())
    return o.sigmoid() * c, c


def _no_recurrence(a, h, c, U):
    return lstm_step(a, torch.zeros_like(h), c, U)


def _forget_bias(steps: float) -> float:
    f = 0.5 ** (1 / steps)
    return math.log(f / (1 - f))


def lstm_parameters(input_size: int, hidden_size: int, num_layers: int) -> int:
    """Parameters of a torch.nn.LSTM with one direction."""
    return _count(input_size, hidden_size, num_layers)


def _count(input_size, hidden_size, num_layers, gates=4, biases=2, above=None, own=True):
    sizes = [input_size] + [hidden_size if above is None else above] * (num_layers - 1)
    return sum(gates * hidden_size * (size + own * hidden_size + biases) for size in sizes)


def kept(gates: Tensor) -> Tensor:
    """Row t: the product of f_{t+1}, …, f_T."""
    return gates.flip(0).cumprod(0).flip(0)


_C = 0.5 * 2 + 0.5 * math.tanh(1)  # the example by hand
_SIGMOID_1 = 1 / (1 + math.exp(-1))

EXERCISES = [
    Exercise(
        name="step",
        truth=step,
        returns=("h", "c"),
        cases=[
            (
                torch.tensor([[0.5, -1.0, 2.0, 1.0]]),
                torch.tensor([[0.4]]),
                torch.tensor([[1.5]]),
                torch.tensor([[1.0], [0.5], [-0.5], [0.2]]),
            ),
            (_normal(1, 3, 20), _normal(2, 3, 5), _normal(3, 3, 5), _normal(4, 20, 5)),
            tuple(
                _normal(seed, *shape, dtype=torch.float64)
                for seed, shape in ((5, (2, 8)), (6, (2, 2)), (7, (2, 2)), (8, (8, 2)))
            ),
        ],
        shown=(
            "细胞状态只被乘一个门、加一项，所以它能原样留下来。",
            "The cell state is only multiplied by a gate and added to, so it can be left as it is.",
        ),
        slips=[
            Slip(
                "forget and input exchanged",
                _forget_and_input_exchanged,
                "遗忘门和输入门对调了：哪一个乘旧的 c，哪一个乘候选？四块的次序是 i, f, g, o。",
                "Forget gate and input gate have changed places: which one multiplies the old c, and which "
                "the candidate? The blocks come as i, f, g, o.",
            ),
            Slip(
                "forgets by the gate",
                _forgets_by_the_gate,
                "旧的细胞状态乘了 1 − f。名字叫“遗忘门”，但 f = 1 是全留。",
                "The old cell state was multiplied by 1 − f. The gate is named after forgetting, but f = 1 "
                "keeps everything.",
            ),
            Slip(
                "order i, f, o, g",
                _output_and_candidate_exchanged,
                "四块的次序是 i, f, g, o；你把第三块当成了输出门。",
                "The blocks come as i, f, g, o; here the third was taken for the output gate.",
            ),
            Slip(
                "candidate by sigmoid",
                _candidate_by_sigmoid,
                "候选也过了 sigmoid，这样缸里的东西只增不减。候选要能是负的。",
                "The candidate went through a sigmoid as well, and nothing can ever be taken away. It has "
                "to be able to be negative.",
            ),
            Slip(
                "no tanh on the cell",
                _no_tanh_on_the_cell,
                "c 对了；露出来之前还要过一次 tanh，h 才在 −1 与 1 之间。",
                "c is right; before it shows it goes through tanh, which keeps h between −1 and 1.",
            ),
            Slip(
                "shows the old cell",
                _shows_the_old_cell,
                "c 对了，但 h 是用旧的 c 算的。先更新，再露出。",
                "c is right, but h was computed from the old c. Update first, then show.",
            ),
            Slip(
                "tanh of the sum",
                _tanh_of_the_sum,
                "存下来的 c 也过了 tanh：直通的路上又有了压缩，梯度每步都要乘 tanh'。",
                "The c that is kept went through tanh too: the direct road is squashed again, and gradients "
                "meet a tanh' at every step.",
            ),
            Slip(
                "no recurrence",
                _no_recurrence,
                "门没有看上一步的 h：少了 U h 那一份。",
                "The gates do not look at the previous h: the share U h is missing.",
            ),
            Slip(
                "cell first",
                lambda *case: step(*case)[::-1],
                "两个结果都对，只是顺序反了：先 `h`，后 `c`。",
                "Both results are right, in the other order: first `h`, then `c`.",
            ),
            Slip(
                "only h",
                lambda *case: step(*case)[0],
                "`h` 对了，还要把 `c` 一起返回，下一步要用。",
                "`h` is right; return `c` with it, the next step needs it.",
            ),
        ],
        symptoms=[
            Symptom(
                "h out of range",
                lambda h, c, *case: h.abs().max().item() <= 1,
                "h 应该在 −1 与 1 之间，你的越界了：",
                "h should lie between −1 and 1, and here it does not:",
            ),
        ],
    ),
    Exercise(
        name="by_hand",
        truth=torch.tensor([_C, 0.5 * math.tanh(_C)]),
        tolerance=(0.0, 0.01),
        shown=(
            "门半开时，旧的留一半，新的写一半，再露一半。",
            "With half-open gates, half of the old is kept, half of the new written, and half of it shown.",
        ),
        slips=[
            Slip(
                "gates not squeezed",
                torch.tensor([0.0, 0.0]),
                "门的输入 0 被直接当成了门。门是 σ(0)，不是 0。",
                "The gates' input, 0, was taken for the gates. A gate is σ(0), not 0.",
            ),
            Slip(
                "candidate not squeezed",
                torch.tensor([1.5, 0.5 * math.tanh(1.5)]),
                "候选还没有过 tanh：它的输入是 1，它自己是 tanh(1)。",
                "The candidate has not been through tanh: its input is 1, and it is tanh(1).",
            ),
            Slip(
                "candidate by sigmoid",
                torch.tensor([1 + 0.5 * _SIGMOID_1, 0.5 * math.tanh(1 + 0.5 * _SIGMOID_1)]),
                "候选用的是 tanh，不是 sigmoid。",
                "The candidate takes tanh, not the sigmoid.",
            ),
            Slip(
                "cell not squeezed",
                torch.tensor([_C, 0.5 * _C]),
                "c 对了；h 里的细胞状态要先过 tanh。",
                "c is right; in h the cell state goes through tanh first.",
            ),
            Slip(
                "h first",
                torch.tensor([0.5 * math.tanh(_C), _C]),
                "两个数都对，次序反了：先 c，后 h。",
                "Both numbers are right, in the other order: first c, then h.",
            ),
            Slip(
                "old cell forgotten",
                torch.tensor([_C - 1, 0.5 * math.tanh(_C - 1)]),
                "只算了写进去的一半，旧的 c 留下的一半没有加上。",
                "Only what is written was counted; the half of the old c that is kept is missing.",
            ),
        ],
    ),
    Exercise(
        name="forget_bias",
        truth=_forget_bias,
        cases=[(1,), (10,), (100,), (2.5,)],
        shown=(
            "b 差不多是 ln(steps) 再加 0.37：要记十倍久，偏置只多 2.3。",
            "b is about ln(steps) plus 0.37: to remember ten times as long takes only 2.3 more.",
        ),
        slips=[
            Slip(
                "gate instead of bias",
                lambda steps: 0.5 ** (1 / steps),
                "这是门 f 的值。偏置 b 是多少，σ(b) 才等于它？",
                "This is the gate f. Which bias b makes σ(b) equal to it?",
            ),
            Slip(
                "sigmoid instead of its inverse",
                lambda steps: 1 / (1 + math.exp(-(0.5 ** (1 / steps)))),
                "又做了一次 sigmoid；这里要的是它的反函数。",
                "The sigmoid was taken once more; its inverse is wanted.",
            ),
            Slip(
                "sign",
                lambda steps: -_forget_bias(steps),
                "符号反了：f 大于一半时，b 应当是正的。",
                "The sign is flipped: for f above one half, b is positive.",
            ),
            Slip(
                "divided, not to the power",
                lambda steps: (
                    math.inf if steps * 2 == 1 else math.log(abs((1 - 0.5 / steps) / (0.5 / steps)))
                ),
                "你把每步的损失当成相加：1 − 0.5/steps。门是连乘的，要开 steps 次方。",
                "Losses were added up: 1 − 0.5/steps. Gates multiply: take a root of order `steps`.",
            ),
            Slip(
                "half at every step",
                lambda steps: 0.0,
                "b = 0 时一步就丢一半。要的是 steps 步之后才剩一半。",
                "With b = 0 half is lost in one step. It should take `steps` of them.",
            ),
            Slip(
                "rule of thumb",
                lambda steps: math.log(steps),
                "ln(steps) 是经验法则，量级对；题目要的是恰好剩一半的那个值。",
                "ln(steps) is the rule of thumb and of the right size; the question asks for exactly one "
                "half.",
            ),
        ],
    ),
    Exercise(
        name="lstm_parameters",
        truth=lstm_parameters,
        cases=[(10, 20, 1), (3, 6, 2), (7, 4, 3)],
        tolerance=(0.0, 0.1),
        shown=(
            "四个门、两个偏置向量，每一层都一样，只有第一层读的是输入。",
            "Four gates and two bias vectors in every layer, and only the first layer reads the input.",
        ),
        slips=[
            Slip(
                "one bias",
                lambda d, n, layers: _count(d, n, layers, biases=1),
                "这是一个偏置向量的数法，公式里就是这样；`torch` 存的是两个。",
                "This counts one bias vector, as the formula has it; `torch` stores two.",
            ),
            Slip(
                "no bias",
                lambda d, n, layers: _count(d, n, layers, biases=0),
                "偏置忘了数。",
                "The biases were not counted.",
            ),
            Slip(
                "three gates",
                lambda d, n, layers: _count(d, n, layers, gates=3),
                "只数了三个门；候选也有自己的 W、U、b。",
                "Only the three gates were counted; the candidate has a W, U and b of its own.",
            ),
            Slip(
                "one gate",
                lambda d, n, layers: _count(d, n, layers, gates=1),
                "这是普通循环网络的参数量，LSTM 有四套。",
                "These are the parameters of a plain recurrent network; an LSTM has four sets.",
            ),
            Slip(
                "every layer reads the input",
                lambda d, n, layers: _count(d, n, layers, above=d),
                "一层的时候对；第二层起读的是下一层的 h，宽度是 hidden_size。",
                "Right for one layer; from the second on, a layer reads the h below it, of size hidden_size.",
            ),
            Slip(
                "no recurrent matrix",
                lambda d, n, layers: _count(d, n, layers, own=False),
                "少了 U：每个门还要看上一步的 h。",
                "U is missing: every gate looks at the previous h, too.",
            ),
        ],
    ),
    Exercise(
        name="kept",
        truth=kept,
        cases=[
            (torch.tensor([[0.5, 0.4], [0.8, 0.6], [0.9, 0.7]]),),
            (_normal(9, 6, 4, dtype=torch.float64).sigmoid(),),
            (torch.tensor([[0.9, 0.5], [0.0, 1.0], [0.8, 0.5]]),),
        ],
        shown=(
            "从后往前连乘：某一步的门是 0，它之前的各行就全是 0。",
            "A product from the end backwards: where a gate is 0, every row up to it is 0.",
        ),
        slips=[
            Slip(
                "from the start",
                lambda gates: gates.cumprod(0),
                "这是从头乘起，得到的是 ∂c_t/∂c_0。要的是到最后一步还剩多少。",
                "This multiplies from the start and gives ∂c_t/∂c_0. What is wanted is what is left at the "
                "end.",
            ),
            Slip(
                "sum",
                lambda gates: gates.flip(0).cumsum(0).flip(0),
                "把门加起来了；链式法则是相乘。",
                "The gates were added up; the chain rule multiplies.",
            ),
            Slip(
                "not turned back",
                lambda gates: gates.flip(0).cumprod(0),
                "乘得对，但次序还是倒的：乘完要再翻回来。",
                "The products are right, in reverse order: turn the result back.",
            ),
            Slip(
                "one step too far",
                lambda gates: torch.cat([kept(gates)[1:], torch.ones_like(gates[:1])]),
                "少乘了一个门：c_t 到 c_{t+1} 之间的那个门 f_{t+1} 就在第 t 行（从 0 数起）。",
                "One gate is missing: the gate between c_t and c_{t+1} stands in row t (counted from 0).",
            ),
            Slip(
                "over the units",
                lambda gates: gates.flip(-1).cumprod(-1).flip(-1),
                "沿着单元的方向乘了；各单元互不相干，时间是第 0 维。",
                "The product runs over the units, which have nothing to do with each other; time is "
                "dimension 0.",
            ),
            Slip(
                "not multiplied",
                lambda gates: gates.clone(),
                "这是一步的雅可比矩阵；要一直乘到最后一步。",
                "This is the Jacobian of one step; multiply on to the last one.",
            ),
        ],
        symptoms=[
            Symptom(
                "grows on the way back",
                lambda result, gates: bool((result[:-1] <= result[1:] + 1e-6).all()),
                "门不超过 1，所以越早的行应当越小，你的不是：",
                "No gate exceeds 1, so earlier rows should be smaller, and here they are not:",
            ),
        ],
    ),
]
