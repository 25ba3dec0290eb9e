"""Chapter 3, recurrent networks."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from attnbook.exercises.core import Exercise, Slip, Symptom

# The example by hand: one input, one unit, h_t = tanh(x_t + h_{t−1} / 2).
HAND_INPUTS = (1.0, 0.0, -1.0)


def read(x: Tensor, h: Tensor, W_xh: Tensor, W_hh: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """h_t = tanh(W_xh x_t + W_hh h_{t−1} + b) along x (batch, time, input): all states and the last one."""
    states = []
    for x_t in x.unbind(1):
        h = torch.tanh(x_t @ W_xh.T + h @ W_hh.T + b)  # (batch, hidden)
        states.append(h)
    return torch.stack(states, dim=1), h  # (batch, time, hidden), (batch, hidden)


def _loop(step):
    """An answer to `read` that differs in its step: step(x_t, h, W_xh, W_hh, b) -> h."""

    def read(x, h, W_xh, W_hh, b):
        states = []
        for x_t in x.unbind(1):
            h = step(x_t, h, W_xh, W_hh, b)
            states.append(h)
        return torch.stack(states, dim=1), h

    return read


def _forgets(x, h, W_xh, W_hh, b):
    states = torch.tanh(x @ W_xh.T + (h @ W_hh.T)[:, None] + b)  # (batch, time, hidden)
    return states, states[:, -1]


def _linear_states(x, h, W_xh, W_hh, b):
    states = []
    for x_t in x.unbind(1):
        z = x_t @ W_xh.T + h @ W_hh.T + b
        h = torch.tanh(z)
        states.append(z)
    return torch.stack(states, dim=1), h


def _backwards(x, h, W_xh, W_hh, b):
    states, h = read(x.flip(1), h, W_xh, W_hh, b)
    return states.flip(1), h


def _time_first(x, h, W_xh, W_hh, b):
    states, h = read(x, h, W_xh, W_hh, b)
    return states.transpose(0, 1), h


def _with_start(x, h, W_xh, W_hh, b):
    states, last = read(x, h, W_xh, W_hh, b)
    return torch.cat([h[:, None], states[:, :-1]], dim=1), last


def _from_zero(x, h, W_xh, W_hh, b):
    return read(x, torch.zeros_like(h), W_xh, W_hh, b)


def num_parameters(input_size: int, hidden_size: int, output_size: int, length: int) -> int:
    """Parameters of h_t = tanh(W_xh x_t + W_hh h_{t−1} + b), o_t = W_hy h_t + b_y, whatever the length."""
    cell = hidden_size * input_size + hidden_size * hidden_size + hidden_size
    return cell + output_size * hidden_size + output_size


def _count(
    i: int,
    h: int,
    o: int,
    *,
    cells: int = 1,
    W_hh: bool = True,
    b: int = 1,
    b_y: bool = True,
    output: bool = True,
) -> int:
    cell = h * i + h * h * W_hh + h * b
    return cells * cell + (o * h + o * b_y) * output


def probabilities(logits: Tensor, temperature: float) -> Tensor:
    """softmax(logits / temperature) over the vocabulary, the last dimension."""
    return (logits / temperature).softmax(dim=-1)


def next_token_loss(logits: Tensor, tokens: Tensor) -> Tensor:
    """Mean cross-entropy of predicting tokens[:, t + 1] from logits[:, t]."""
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


def _nll(logits: Tensor, targets: Tensor, reduction: str = "mean") -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction=reduction)


def _normal(seed: int, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def _tokens(seed: int, *shape: int, size: int) -> Tensor:
    return torch.randint(size, shape, generator=torch.Generator().manual_seed(seed))


def _cells(batch: int, time: int, size: int, hidden: int, dtype: torch.dtype = torch.float32):
    shapes = ((batch, time, size), (batch, hidden), (hidden, size), (hidden, hidden), (hidden,))
    return tuple(0.7 * _normal(seed, *shape, dtype=dtype) for seed, shape in enumerate(shapes))


def _hand(step, start: float = 0.0) -> list[float]:
    h, states = start, []
    for x in HAND_INPUTS:
        h = step(x, h)
        states.append(h)
    return states


EXERCISES = [
    Exercise(
        name="read",
        truth=read,
        returns=("states", "h"),
        cases=[
            _cells(1, 3, 2, 2),
            _cells(2, 5, 3, 3),
            _cells(3, 4, 2, 6, dtype=torch.float64),
            _cells(2, 1, 4, 3),
        ],
        shown=(
            "循环网络就是一个 for 循环：同一组权重，一步接一步，唯一传下去的是 h。",
            "A recurrent network is a for loop: the same weights at every step, and h is all that is handed "
            "on.",
        ),
        slips=[
            Slip(
                "the state is not handed on",
                _forgets,
                "每一步都从最初的 h 算起，前面读过的全忘了。上一步算出的 h 要留给下一步用。",
                "Every step starts from the first h, and what was read is forgotten. The h of one step has "
                "to reach the next.",
            ),
            Slip(
                "no tanh",
                _loop(lambda x, h, W, U, b: x @ W.T + h @ U.T + b),
                "还差非线性函数：没有它，状态会越滚越大，整个网络也只是一个线性映射。",
                "The nonlinearity is missing: without it the state grows and grows, and the whole network "
                "is a linear map.",
            ),
            Slip(
                "tanh of the input part only",
                _loop(lambda x, h, W, U, b: torch.tanh(x @ W.T + b) + h @ U.T),
                "tanh 只包住了输入那一部分；公式里它包住整个和。",
                "tanh covers the input's part only; in the formula it covers the whole sum.",
            ),
            Slip(
                "no bias",
                _loop(lambda x, h, W, U, b: torch.tanh(x @ W.T + h @ U.T)),
                "少了偏置 b。",
                "The bias b is missing.",
            ),
            Slip(
                "W_hh not transposed",
                _loop(lambda x, h, W, U, b: torch.tanh(x @ W.T + h @ U + b)),
                "W_hh 是方阵，所以忘了转置也不报错：公式里是 W_hh h，按行存放的向量要写成 `h @ W_hh.T`。",
                "W_hh is square, so a missing transpose raises no error: the formula has W_hh h, which for "
                "vectors in rows is `h @ W_hh.T`.",
            ),
            Slip(
                "the state without its weights",
                _loop(lambda x, h, W, U, b: torch.tanh(x @ W.T + h + b)),
                "上一步的 h 原样加了进去，没有经过 W_hh。",
                "The h of the step before is added as it is, without passing through W_hh.",
            ),
            Slip(
                "returns what is inside tanh",
                _linear_states,
                "收集的是 tanh 里面的和，不是状态。往后传的是对的，记下来的不是。",
                "What is collected is the sum inside tanh, not the state. The right thing is handed on, but "
                "another is noted down.",
            ),
            Slip(
                "backwards",
                _backwards,
                "从最后一步读到第一步了。",
                "This reads from the last step to the first.",
            ),
            Slip(
                "time first",
                _time_first,
                "数值对了，维度的次序不对：先是 batch，再是 time。堆叠的时候看看 `dim`。",
                "The numbers are right, the order of dimensions is not: batch first, then time. Look at the "
                "`dim` of the stack.",
            ),
            Slip(
                "states before the step",
                _with_start,
                "错开了一步：第 t 个状态应当是读过 x_t 之后的。",
                "Off by one step: state t is the one after x_t has been read.",
            ),
            Slip(
                "starts from zero",
                _from_zero,
                "传进来的 h 没有用上：第一步应当从它开始，不是从零开始。",
                "The h that is passed in is not used: the first step starts from it, not from zero.",
            ),
            Slip(
                "only the states",
                lambda *case: read(*case)[0],
                "状态都对了，还要返回最后一个：`(states, h)`。",
                "The states are right; return the last one with them: `(states, h)`.",
            ),
        ],
        symptoms=[
            Symptom(
                "last state differs",
                lambda states, h, *case: (
                    states.dim() == 3 and torch.allclose(states[:, -1], h, rtol=1e-4, atol=1e-4)
                ),
                "返回的 `h` 应当就是 `states` 的最后一步，现在两者不同：",
                "The `h` that is returned should be the last step of `states`, and here they differ:",
            ),
            Symptom(
                "out of range",
                lambda states, h, *case: states.abs().max().item() <= 1,
                "tanh 的值在 −1 与 1 之间，这里的状态超出了：",
                "tanh lies between −1 and 1, and these states do not:",
            ),
        ],
    ),
    Exercise(
        name="by_hand",
        truth=_hand(lambda x, h: math.tanh(x + h / 2)),
        tolerance=(0.0, 0.01),
        shown=(
            "第二步的输入是 0，状态却不是 0：那是第一个输入留下的痕迹。",
            "The input of step 2 is 0, and yet the state is not: that is the trace of the first input.",
        ),
        slips=[
            Slip(
                "no tanh",
                _hand(lambda x, h: x + h / 2),
                "和都加对了，每一步还要取 tanh。",
                "The sums are right; each step still takes a tanh.",
            ),
            Slip(
                "forgets",
                [math.tanh(x) for x in HAND_INPUTS],
                "每一步只看了 x_t；别忘了上一步状态的一半。",
                "Each step looks at x_t only; do not forget half of the state before.",
            ),
            Slip(
                "tanh at the end",
                [math.tanh(h) for h in _hand(lambda x, h: x + h / 2)],
                "tanh 要在每一步里取，下一步拿到的是取过 tanh 的状态。",
                "tanh is taken in every step: what the next step gets has been through it.",
            ),
            Slip(
                "tanh of the input only",
                _hand(lambda x, h: math.tanh(x) + h / 2),
                "tanh 要包住整个和，不只是 x_t。",
                "tanh covers the whole sum, not x_t alone.",
            ),
            Slip(
                "weight on the input",
                _hand(lambda x, h: math.tanh(x / 2 + h)),
                "二分之一乘错了地方：它乘的是上一步的状态，不是输入。",
                "The one half stands in the wrong place: it multiplies the state before, not the input.",
            ),
            Slip(
                "whole state",
                _hand(lambda x, h: math.tanh(x + h)),
                "上一步的状态要乘 1/2。",
                "The state before is to be multiplied by 1/2.",
            ),
            Slip(
                "logistic function",
                _hand(lambda x, h: 1 / (1 + math.exp(-x - h / 2))),
                "这是 logistic 函数（sigmoid）的值；这里用的是 tanh，它可以是负的。",
                "These are values of the logistic function (sigmoid); here it is tanh, which can be "
                "negative.",
            ),
            Slip(
                "starts at one",
                _hand(lambda x, h: math.tanh(x + h / 2), start=1.0),
                "开始时的状态是 0，不是 1。",
                "The state at the start is 0, not 1.",
            ),
        ],
    ),
    Exercise(
        name="num_parameters",
        truth=num_parameters,
        cases=[(3, 4, 5, 10), (32, 64, 900, 7), (7, 7, 7, 100), (2, 1, 3, 1)],
        tolerance=(0.0, 0.0),
        shown=(
            "`length` 没有出现：无论句子多长，用的都是同一组权重。",
            "`length` does not appear: however long the sentence, the weights are the same.",
        ),
        slips=[
            Slip(
                "weights for every step",
                lambda i, h, o, n: _count(i, h, o, cells=n),
                "每一步都另算了一份单元的权重。展开的图里画了许多个单元，其实是同一个。",
                "The cell's weights are counted anew for each step. The unrolled picture shows many cells; "
                "they are one and the same.",
            ),
            Slip(
                "everything for every step",
                lambda i, h, o, n: n * num_parameters(i, h, o, n),
                "乘上了长度。权重在所有时间步之间共享。",
                "Multiplied by the length. The weights are shared between all time steps.",
            ),
            Slip(
                "no recurrent weights",
                lambda i, h, o, n: _count(i, h, o, W_hh=False),
                "少了 W_hh：状态到状态的权重，它是 hidden × hidden 的。",
                "W_hh is missing, the weights from state to state; it is hidden × hidden.",
            ),
            Slip(
                "no biases",
                lambda i, h, o, n: _count(i, h, o, b=0, b_y=False),
                "矩阵都数对了，还有两个偏置 b 与 b_y。",
                "All matrices are counted; there are two biases as well, b and b_y.",
            ),
            Slip(
                "no output bias",
                lambda i, h, o, n: _count(i, h, o, b_y=False),
                "还差输出层的偏置 b_y。",
                "The bias of the output, b_y, is still missing.",
            ),
            Slip(
                "no bias in the cell",
                lambda i, h, o, n: _count(i, h, o, b=0),
                "还差单元里的偏置 b。",
                "The cell's bias b is still missing.",
            ),
            Slip(
                "two biases",
                lambda i, h, o, n: _count(i, h, o, b=2),
                "torch 的单元里有两个偏置，公式里只有一个；两个加起来的作用和一个一样。",
                "torch's cell has two biases; the formula has one, and two that are added do no more than "
                "one.",
            ),
            Slip(
                "no output layer",
                lambda i, h, o, n: _count(i, h, o, output=False),
                "只数了单元，还有输出层 W_hy 与 b_y。",
                "Only the cell is counted; the output layer, W_hy and b_y, belongs to it too.",
            ),
        ],
    ),
    Exercise(
        name="temperature",
        truth=probabilities,
        cases=[
            (torch.tensor([2.0, 1.0, 0.0]), 0.5),
            (torch.tensor([[1.0, -1.0, 0.0, 3.0], [0.5, 0.0, 0.0, -2.0]]), 2.0),
            (_normal(3, 2, 3, 5, dtype=torch.float64), 0.1),
            (torch.tensor([1000.0, 999.0, 0.0]), 0.7),
        ],
        shown=(
            "温度只拉伸 logit 之间的差：不改变名次，只改变悬殊的程度。",
            "Temperature only stretches the differences between logits: the ranking stays, how far apart "
            "they are does not.",
        ),
        slips=[
            Slip(
                "multiplied",
                lambda logits, tau: (logits * tau).softmax(-1),
                "温度的方向反了：温度越低，分布应当越尖锐。",
                "The temperature works the wrong way: the lower it is, the sharper the distribution should "
                "be.",
            ),
            Slip(
                "ignored",
                lambda logits, tau: logits.softmax(-1),
                "温度没有起作用。（把概率都除以温度再归一化，也等于什么都没做。）",
                "The temperature has no effect. (Dividing all probabilities by it and normalising again "
                "does nothing either.)",
            ),
            Slip(
                "divided after the softmax",
                lambda logits, tau: logits.softmax(-1) / tau,
                "除的是概率，和不再是 1。该除的是 logit。",
                "Here the probabilities are divided, and they no longer sum to 1. Divide the logits.",
            ),
            Slip(
                "softmax of probabilities",
                lambda logits, tau: (logits.softmax(-1) / tau).softmax(-1),
                "做了两次 softmax：先把 logit 除以温度，只做一次。",
                "The softmax is taken twice: divide the logits by the temperature, and take it once.",
            ),
            Slip(
                "not normalised",
                lambda logits, tau: (logits / tau).exp(),
                "指数取对了，还要除以它们的和。",
                "The exponentials are right; divide by their sum.",
            ),
            Slip(
                "overflow",
                lambda logits, tau: (e := (logits / tau).exp()) / e.sum(-1, keepdim=True),
                "只有大的 logit 出了问题：exp(1000) 溢出了。先减去最大的，或者用 `softmax`。",
                "Only large logits go wrong: exp(1000) overflows. Subtract the largest first, or use "
                "`softmax`.",
            ),
            Slip(
                "over the batch",
                lambda logits, tau: (logits / tau).softmax(0),
                "归一化的方向错了：概率要在词表（最后一维）上加起来等于 1。",
                "Normalised over the wrong dimension: probabilities sum to 1 over the vocabulary, the last "
                "one.",
            ),
            Slip(
                "over everything",
                lambda logits, tau: (logits / tau).flatten().softmax(0).view_as(logits),
                "所有数一起归一化了；每一个位置应当各有一个和为 1 的分布。",
                "All numbers are normalised together; each position has a distribution of its own that sums "
                "to 1.",
            ),
        ],
        symptoms=[
            Symptom(
                "sums are not 1",
                lambda p, logits, tau: torch.allclose(p.sum(-1), torch.ones((), dtype=p.dtype), atol=1e-3),
                "概率之和应当是 1，现在不是：",
                "The probabilities should sum to 1, and these do not:",
            ),
        ],
    ),
    Exercise(
        name="next_token_loss",
        truth=next_token_loss,
        cases=[
            (_normal(1, 2, 3, 4), _tokens(2, 2, 3, size=4)),
            (_normal(3, 2, 6, 5, dtype=torch.float64), _tokens(4, 2, 6, size=5)),
            (3 * _normal(5, 4, 4, 4), _tokens(6, 4, 4, size=4)),
        ],
        shown=(
            "语言模型不需要人工标注：答案就是句子自己，往前挪一步。",
            "A language model needs no labels: the answers are the sentence itself, moved by one step.",
        ),
        slips=[
            Slip(
                "no shift",
                lambda logits, tokens: _nll(logits, tokens),
                "没有错开：这是让模型在第 t 步猜它刚刚读到的词元。要猜的是下一个。",
                "Not shifted: here the model guesses at step t the token that it has just read. It is to "
                "guess the next one.",
            ),
            Slip(
                "shifted the other way",
                lambda logits, tokens: _nll(logits[:, 1:], tokens[:, :-1]),
                "错开的方向反了：这是让模型猜前一个词元。",
                "Shifted the wrong way: here the model guesses the token before.",
            ),
            Slip(
                "wraps around",
                lambda logits, tokens: _nll(logits, tokens.roll(-1, dims=1)),
                "`roll` 会把第一个词元绕到最后：最后一步没有下一个词元，应当去掉。",
                "`roll` brings the first token round to the end: the last step has no next token and is "
                "left out.",
            ),
            Slip(
                "two steps ahead",
                lambda logits, tokens: _nll(logits[:, :-2], tokens[:, 2:]),
                "错开了两步。",
                "Shifted by two steps.",
            ),
            Slip(
                "sum",
                lambda logits, tokens: _nll(logits[:, :-1], tokens[:, 1:], "sum"),
                "这是总和。要的是每个词元的平均。",
                "This is the sum. The mean over tokens is wanted.",
            ),
            Slip(
                "sum over time",
                lambda logits, tokens: _nll(logits[:, :-1], tokens[:, 1:], "sum") / len(tokens),
                "这是每个句子的总和。要的是每个词元的平均，否则长句子的损失总是大。",
                "This is the sum for a sentence. The mean over tokens is wanted; else long sentences always "
                "have a larger loss.",
            ),
            Slip(
                "bits",
                lambda logits, tokens: next_token_loss(logits, tokens) / math.log(2),
                "这是以 2 为底的结果；要的是自然对数。",
                "This is to base 2; natural logarithms are wanted.",
            ),
            Slip(
                "perplexity",
                lambda logits, tokens: next_token_loss(logits, tokens).exp(),
                "这是困惑度，损失的指数。要的是损失本身。",
                "This is the perplexity, the exponential of the loss. The loss itself is wanted.",
            ),
            Slip(
                "softmax twice",
                lambda logits, tokens: next_token_loss(logits.softmax(-1), tokens),
                "`cross_entropy` 自己会做 softmax，传给它的应当是 logit，不是概率。",
                "`cross_entropy` takes the softmax itself: give it logits, not probabilities.",
            ),
            Slip(
                "sign",
                lambda logits, tokens: -next_token_loss(logits, tokens),
                "符号反了：概率的对数是负的，前面要有负号。",
                "The sign is wrong: the logarithm of a probability is negative and needs a minus before it.",
            ),
        ],
        symptoms=[
            Symptom(
                "not a single number",
                lambda loss, logits, tokens: loss.dim() == 0,
                "损失应当是一个数。",
                "The loss should be one number.",
            ),
        ],
    ),
]
