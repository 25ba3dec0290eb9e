"""Chapter 7, convolutions for sequences."""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from attnbook.convolution import conv1d, receptive_field
from attnbook.exercises.core import Exercise, Slip

HAND_INPUT = torch.tensor([1.0, 2.0, 0.0, 2.0])
HAND_KERNEL = torch.tensor([2.0, -1.0])
HAND_BIAS = 1.0


def convolve(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """y_t = b + Σ_j W_j x_{t+j}, without padding."""
    return conv1d(x, weight, bias)


def causal(x: Tensor, weight: Tensor, dilation: int) -> Tensor:
    """y_t = Σ_j W_j x_{t−(k−1−j)·dilation}, with zeros before the sequence."""
    return conv1d(x, weight, dilation=dilation, padding=((weight.shape[2] - 1) * dilation, 0))


def layers(n: int, kernel: int) -> tuple[int, int]:
    """The fewest layers that join the ends of n positions: plain, and with δ_l = k^(l−1)."""
    return math.ceil((n - 1) / (kernel - 1)), _dilated(n, kernel)


def _dilated(n: int, kernel: int) -> int:
    count = 0
    while kernel**count < n:
        count += 1
    return count


def _by_hand(x: Tensor = HAND_INPUT, kernel: Tensor = HAND_KERNEL, bias: float = HAND_BIAS) -> Tensor:
    return torch.relu(x.unfold(0, 2, 1) @ kernel + bias)


def _padded(before: int, after: int):
    """`causal` with other numbers of zeros, in units of the dilation times (before, after)."""

    def answer(x, weight, dilation):
        return conv1d(x, weight, dilation=dilation, padding=(before * dilation, after * dilation))

    return answer


def _centred(x, weight, dilation):
    width = (weight.shape[2] - 1) * dilation
    return conv1d(x, weight, dilation=dilation, padding=(width // 2, width - width // 2))


def _strictly_past(x, weight, dilation):
    return causal(F.pad(x, (0, 0, 1, 0))[:, :-1], weight, dilation)


def _normal(seed: int, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def _numbers(x: Sequence[float]) -> Tensor:
    """One sequence with one feature, (1, time, 1)."""
    return torch.tensor(x)[None, :, None]


def _kernel(w: Sequence[float]) -> Tensor:
    """One feature in, one out, (1, 1, kernel)."""
    return torch.tensor(w)[None, None]


EXERCISES = [
    Exercise(
        name="by_hand",
        truth=_by_hand(),
        shown=(
            "同一组权重用了三次，每次对着不同的窗口。",
            "The same weights were used three times, each time on another window.",
        ),
        slips=[
            Slip(
                "kernel flipped",
                _by_hand(kernel=HAND_KERNEL.flip(0)),
                "核被翻转了。这里的卷积不翻转：w 的第一格对着窗口的第一个数。",
                "The kernel was flipped. Here it is not: the first tap meets the first number of the window.",
            ),
            Slip(
                "no bias",
                _by_hand(bias=0.0),
                "少加了偏置 b。",
                "The bias b was not added.",
            ),
            Slip(
                "no ReLU",
                HAND_INPUT.unfold(0, 2, 1) @ HAND_KERNEL + HAND_BIAS,
                "线性的部分对了，最后还要过激活函数。",
                "The linear part is right; the activation function is still to come.",
            ),
            Slip(
                "bias after the ReLU",
                torch.relu(HAND_INPUT.unfold(0, 2, 1) @ HAND_KERNEL) + HAND_BIAS,
                "偏置要在激活函数里面加，不是在外面。",
                "The bias belongs inside the activation function, not after it.",
            ),
            Slip(
                "padded at the end",
                _by_hand(F.pad(HAND_INPUT, (0, 1))),
                "最后多了一个：末尾补了零。题目说不填充，窗口不能伸出去。",
                "There is one too many: a zero was added at the end. No window reaches over it here.",
            ),
            Slip(
                "padded in front",
                _by_hand(F.pad(HAND_INPUT, (1, 0))),
                "前面多了一个：那是因果填充。题目说不填充。",
                "There is one too many in front: that is causal padding, and here there is none.",
            ),
            Slip(
                "windows do not overlap",
                _by_hand()[::2],
                "窗口一次滑了两格。每次只移动一个位置。",
                "The window moved two places at a time. It moves by one.",
            ),
        ],
    ),
    Exercise(
        name="convolve",
        truth=convolve,
        cases=[
            (_numbers([1.0, 2.0, 0.0, 3.0]), _kernel([2.0, -1.0]), torch.tensor([1.0])),
            (_normal(1, 2, 6, 3), _normal(2, 4, 3, 3), _normal(3, 4)),
            tuple(
                _normal(s, *shape, dtype=torch.float64)
                for s, shape in ((4, (1, 5, 2)), (5, (2, 2, 2)), (6, (2,)))
            ),
        ],
        shown=(
            "k 次矩阵乘法，覆盖所有位置：没有对时间的循环。",
            "k matrix products cover all positions: there is no loop over time.",
        ),
        slips=[
            Slip(
                "kernel flipped",
                lambda x, weight, bias: convolve(x, weight.flip(-1), bias),
                "核被翻转了：`weight[:, :, 0]` 对着窗口的第一个位置。",
                "The kernel is flipped: `weight[:, :, 0]` belongs to the first place of the window.",
            ),
            Slip(
                "no bias",
                lambda x, weight, bias: conv1d(x, weight),
                "没有加 `bias`。",
                "`bias` was not added.",
            ),
            Slip(
                "bias at every tap",
                lambda x, weight, bias: conv1d(x, weight, bias * weight.shape[2]),
                "每一格都加了一次 `bias`；一个输出只加一次。",
                "`bias` was added once for each tap; an output gets it once.",
            ),
            Slip(
                "causal padding",
                lambda x, weight, bias: conv1d(x, weight, bias, padding=(weight.shape[2] - 1, 0)),
                "前面补了零，输出与输入一样长。这一题不填充。",
                "Zeros were added in front, and the output is as long as the input. No padding here.",
            ),
            Slip(
                "padding at the end",
                lambda x, weight, bias: conv1d(x, weight, bias, padding=(0, weight.shape[2] - 1)),
                "末尾补了零，输出与输入一样长。这一题不填充。",
                "Zeros were added at the end, and the output is as long as the input. No padding here.",
            ),
            Slip(
                "channels first",
                lambda x, weight, bias: convolve(x, weight, bias).mT,
                "数值对了，次序是 `torch` 的 (batch, channel, time)；这里要 (batch, time, outputs)。",
                "Right numbers in the order of `torch`, (batch, channel, time); time comes first here.",
            ),
            Slip(
                "one tap only",
                lambda x, weight, bias: x @ weight[:, :, 0].T + bias,
                "只用了核的一格，每个位置只看了自己。",
                "Only one tap of the kernel was used, so each position sees itself alone.",
            ),
            Slip(
                "one position short",
                lambda x, weight, bias: convolve(x, weight, bias)[:, :-1],
                "少了最后一个位置：窗口的个数是 time − kernel + 1。",
                "The last position is missing: there are time − kernel + 1 windows.",
            ),
            Slip(
                "with ReLU",
                lambda x, weight, bias: torch.relu(convolve(x, weight, bias)),
                "多了一个 ReLU；这一题没有激活函数。",
                "There is a ReLU too many; no activation function here.",
            ),
        ],
    ),
    Exercise(
        name="causal",
        truth=causal,
        cases=[
            (_numbers([1.0, 2.0, 4.0, 8.0]), _kernel([1.0, 10.0, 100.0]), 1),
            (_numbers([1.0, 2.0, 4.0, 8.0, 16.0]), _kernel([1.0, 10.0, 100.0]), 2),
            (_normal(7, 2, 7, 3), _normal(8, 4, 3, 3), 2),
            (_normal(9, 1, 6, 2, dtype=torch.float64), _normal(10, 2, 2, 3, dtype=torch.float64), 1),
        ],
        shown=(
            "零全补在前面，补 (k − 1) · 膨胀率 个：未来就看不见了。",
            "All (k − 1) · dilation zeros stand in front, and the future is out of sight.",
        ),
        slips=[
            Slip(
                "zeros at the end",
                _padded(0, 2),
                "零补在了后面，窗口伸向未来。",
                "The zeros stand at the end, and the window reaches into the future.",
            ),
            Slip(
                "centred",
                _centred,
                "零补在了两头，窗口居中，看得见未来。",
                "There are zeros at both ends, the window is centred, and it sees the future.",
            ),
            Slip(
                "strictly the past",
                _strictly_past,
                "多移了一个位置：输出 t 连 t 自己也看不见了。",
                "Shifted by one too many: output t does not even see t itself.",
            ),
            Slip(
                "kernel flipped",
                lambda x, weight, dilation: causal(x, weight.flip(-1), dilation),
                "次序反了：最后一格 `weight[:, :, -1]` 对着 t 自己。",
                "The order is reversed: the last tap, `weight[:, :, -1]`, stands at t itself.",
            ),
            Slip(
                "dilation ignored",
                lambda x, weight, dilation: causal(x, weight, 1),
                "膨胀率为 1 时都对，可是 `dilation` 没有用上。",
                "All is right with dilation 1, but `dilation` is not used.",
            ),
            Slip(
                "zeros without the dilation",
                lambda x, weight, dilation: conv1d(
                    x, weight, dilation=dilation, padding=(weight.shape[2] - 1, 0)
                ),
                "膨胀率大于 1 时变短了：要补的零随膨胀率增多。",
                "Too short where the dilation is above 1: the number of zeros grows with the dilation.",
            ),
            Slip(
                "both ends padded and not cut",
                _padded(2, 2),
                "两头都补了零，末尾多出来的没有切掉。",
                "Both ends were padded, and what is too much at the end was not cut off.",
            ),
            Slip(
                "no padding",
                lambda x, weight, dilation: conv1d(x, weight, dilation=dilation),
                "没有补零，输出变短了。",
                "There are no zeros, and the output gets shorter.",
            ),
        ],
    ),
    Exercise(
        name="field",
        truth=receptive_field,
        cases=[(3, [1]), (3, [1, 1, 2]), (3, [1, 1, 1]), (3, [1, 2, 4]), (2, [1, 2, 4, 8]), (5, [1, 5])],
        shown=(
            "每层往外走 (k − 1)δ 步，各层相加，再加上自己。",
            "Each layer goes (k − 1)δ steps out; the layers add up, and one more for the position itself.",
        ),
        slips=[
            Slip(
                "without itself",
                lambda kernel, dilations: (kernel - 1) * sum(dilations),
                "少了 1：位置自己也算。",
                "One is missing: the position itself counts.",
            ),
            Slip(
                "kernel times dilations",
                lambda kernel, dilations: kernel * sum(dilations),
                "每一层最远的一格比最近的一格只多走 k − 1 个间隔，不是 k 个。",
                "From the nearest to the farthest tap of a layer there are k − 1 gaps, not k.",
            ),
            Slip(
                "one plus kernel times dilations",
                lambda kernel, dilations: 1 + kernel * sum(dilations),
                "k 格之间有几个间隔？比 k 少一个。",
                "How many gaps are there between k taps? One fewer than k.",
            ),
            Slip(
                "dilations ignored",
                lambda kernel, dilations: 1 + (kernel - 1) * len(dilations),
                "膨胀率没有用上，这是普通卷积的感受野。",
                "The dilations are not used: this is the receptive field of plain convolutions.",
            ),
            Slip(
                "last layer only",
                lambda kernel, dilations: 1 + (kernel - 1) * dilations[-1],
                "只算了最后一层；每一层都往外走。",
                "Only the last layer was counted; every layer goes further out.",
            ),
            Slip(
                "power",
                lambda kernel, dilations: kernel ** len(dilations),
                "k 的 L 次方只在膨胀率恰好逐层乘以 k 时才对。",
                "k to the power of L holds only where the dilations are multiplied by k in each layer.",
            ),
            Slip(
                "product of the windows",
                lambda kernel, dilations: math.prod(1 + (kernel - 1) * d for d in dilations),
                "各层的视野是相加，不是相乘。",
                "The views of the layers add up; they do not multiply.",
            ),
        ],
    ),
    Exercise(
        name="layers",
        truth=layers,
        returns=("plain", "dilated"),
        cases=[(10, 3), (9, 3), (64, 2), (1000, 3), (1024, 5), (125, 5)],
        shown=(
            "一个按长度增长，一个按对数增长：n = 1000、k = 3 时是 500 层对 7 层。",
            "One grows with the length, the other with its logarithm: 500 layers against 7 for n = 1000 "
            "and k = 3.",
        ),
        slips=[
            Slip(
                "exchanged",
                lambda n, kernel: layers(n, kernel)[::-1],
                "两个数交换了：先 `plain`，后 `dilated`。",
                "The two are exchanged: first `plain`, then `dilated`.",
            ),
            Slip(
                "n over k",
                lambda n, kernel: (math.ceil(n / kernel), _dilated(n, kernel)),
                "O(n/k) 只是量级。每层多看 k − 1 个，第一个位置不用走。",
                "O(n/k) is only the order of growth. A layer adds k − 1 positions, and the first comes free.",
            ),
            Slip(
                "n over k minus 1",
                lambda n, kernel: (math.ceil(n / (kernel - 1)), _dilated(n, kernel)),
                "普通卷积差一点：n 个位置的两端相距 n − 1。",
                "Plain is a little off: the ends of n positions are n − 1 apart.",
            ),
            Slip(
                "logarithm to base 2",
                lambda n, kernel: (layers(n, kernel)[0], _dilated(n, 2)),
                "对数的底是核宽 k，不是 2。",
                "The base of the logarithm is the kernel size k, not 2.",
            ),
            Slip(
                "rounded down",
                lambda n, kernel: ((n - 1) // (kernel - 1), max(c for c in range(n) if kernel**c <= n)),
                "向下取整了：少了最后不满的一层，两端还没连上。",
                "Rounded down: the last layer is missing, and the ends do not meet yet.",
            ),
            Slip(
                "logarithm in floating point",
                lambda n, kernel: (layers(n, kernel)[0], math.ceil(math.log(n, kernel))),
                "只剩一处：n 恰好是 k 的幂时多了一层。浮点数的对数略大于整数，向上取整就多出 1。",
                "One thing is left: one layer too many where n is a power of k. The logarithm in floating "
                "point is a little above the integer, and is rounded up.",
            ),
            Slip(
                "plain for both",
                lambda n, kernel: (layers(n, kernel)[0],) * 2,
                "两个都是普通卷积的层数。膨胀率逐层乘以 k 时，L 层看得见 k^L 个。",
                "Both are the plain layers. With dilations multiplied by k, L layers see k^L positions.",
            ),
            Slip(
                "dilated for both",
                lambda n, kernel: (_dilated(n, kernel),) * 2,
                "两个都是膨胀卷积的层数。普通卷积每层只多看 k − 1 个，不是 k 倍。",
                "Both are the dilated layers. A plain layer adds k − 1 positions; it does not multiply.",
            ),
        ],
    ),
]
