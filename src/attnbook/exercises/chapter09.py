"""Chapter 09, attention."""

import math

import torch
from torch import Tensor

from attnbook.attention import masked_softmax
from attnbook.exercises.core import Exercise, Slip, Symptom
from attnbook.training.metrics import alignment_error_rate as corpus_error_rate


def _normal(seed: int, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


# ---------------------------------------------------------------------- the additive score


def additive_weights(query: Tensor, keys: Tensor, W_q: Tensor, W_k: Tensor, v: Tensor) -> Tensor:
    """softmax over the keys of v · tanh(W_q q + W_k k)."""
    return _additive(query, keys, W_q, W_k, v).softmax(dim=-1)


def _additive(query, keys, W_q, W_k, v, inside=torch.tanh, join=torch.add):
    return inside(join(keys @ W_k.T, W_q @ query)) @ v  # (key,)


def _without_tanh(query, keys, W_q, W_k, v):
    return _additive(query, keys, W_q, W_k, v, inside=lambda x: x).softmax(dim=-1)


def _tanh_outside(query, keys, W_q, W_k, v):
    return torch.tanh(_additive(query, keys, W_q, W_k, v, inside=lambda x: x)).softmax(dim=-1)


def _without_query(query, keys, W_q, W_k, v):
    return (torch.tanh(keys @ W_k.T) @ v).softmax(dim=-1)


def _multiplied(query, keys, W_q, W_k, v):
    return _additive(query, keys, W_q, W_k, v, join=torch.mul).softmax(dim=-1)


def _sigmoid(query, keys, W_q, W_k, v):
    return _additive(query, keys, W_q, W_k, v, inside=torch.sigmoid).softmax(dim=-1)


def _only_exponentials(query, keys, W_q, W_k, v):
    return _additive(query, keys, W_q, W_k, v).exp()


# ---------------------------------------------------------------------- padding


def padding_weights(scores: Tensor, lengths: Tensor) -> Tensor:
    """Softmax over the keys that are words; padding gets the weight 0."""
    return masked_softmax(scores, _words(scores, lengths))


def _words(scores, lengths):
    return torch.arange(scores.shape[-1]) < lengths[:, None, None]  # (batch, 1, key)


def _score_zero(scores, lengths):
    return (scores * _words(scores, lengths)).softmax(dim=-1)


def _after_softmax(scores, lengths):
    return scores.softmax(dim=-1) * _words(scores, lengths)


def _upside_down(scores, lengths):
    return masked_softmax(scores, ~_words(scores, lengths))


def _one_more(scores, lengths):
    return masked_softmax(scores, _words(scores, lengths + 1))


def _one_less(scores, lengths):
    return masked_softmax(scores, _words(scores, lengths - 1))


def _over_queries(scores, lengths):
    return masked_softmax(scores.mT, _words(scores, lengths).mT).mT


def _queries_masked(scores, lengths):
    words = torch.arange(scores.shape[-2])[:, None] < lengths[:, None, None]  # (batch, query, 1)
    return masked_softmax(scores, words.expand_as(scores))


# ---------------------------------------------------------------------- one step of Bahdanau's decoder


class _Attend:
    """`attend(query) -> (context, weights)` over fixed encoder states."""

    def __init__(self, states: Tensor):
        self.states = states

    def __call__(self, query: Tensor) -> tuple[Tensor, Tensor]:
        weights = (self.states @ query).softmax(dim=-1)
        return weights @ self.states, weights

    def __repr__(self) -> str:
        return "query → (context, weights)"


class _Cell:
    """`cell(x, s) -> the next s`."""

    def __init__(self, W: Tensor, U: Tensor):
        self.W, self.U = W, U

    def __call__(self, x: Tensor, s: Tensor) -> Tensor:
        return torch.tanh(self.W @ x + self.U @ s)

    def __repr__(self) -> str:
        return "(x, s) → s"


def decoder_step(y: Tensor, s: Tensor, attend: _Attend, cell: _Cell) -> tuple[Tensor, Tensor]:
    """Look with the previous state, then take in the word and the context."""
    context, _ = attend(s)
    return cell(torch.cat([y, context]), s), context


def _looks_again(y, s, attend, cell):
    after, _ = decoder_step(y, s, attend, cell)
    return after, attend(after)[0]


def _asks_with_the_word(y, s, attend, cell):
    context, _ = attend(y)
    return cell(torch.cat([y, context]), s), context


def _context_first(y, s, attend, cell):
    context, _ = attend(s)
    return cell(torch.cat([context, y]), s), context


def _old_state(y, s, attend, cell):
    return s, attend(s)[0]


def _weights_for_context(y, s, attend, cell):
    after, _ = decoder_step(y, s, attend, cell)
    return after, attend(s)[1]


def _forgets(y, s, attend, cell):
    context, _ = attend(s)
    return cell(torch.cat([y, context]), torch.zeros_like(s)), context


def _state_for_word(y, s, attend, cell):
    context, _ = attend(s)
    return cell(torch.cat([s, context]), s), context


def _step_case(seed: int, states: int, dtype: torch.dtype = torch.float32):
    part = _normal(seed, states + 2, 3, dtype=dtype)
    return (
        part[0],
        part[1],
        _Attend(part[2:]),
        _Cell(_normal(seed + 1, 3, 6, dtype=dtype), _normal(seed + 2, 3, 3, dtype=dtype)),
    )


# ---------------------------------------------------------------------- alignment error rate


def error_rate(predicted: frozenset, gold: frozenset) -> float:
    """1 − 2|A ∩ S| / (|A| + |S|)."""
    return corpus_error_rate([predicted], [gold])


_PREDICTED = frozenset({(0, 0), (1, 0), (2, 1), (3, 3)})
_GOLD = frozenset({(0, 0), (1, 0), (2, 1), (2, 2), (4, 3), (5, 4)})

_STATES = torch.tensor([[1.0, 0.0], [0.0, 4.0], [2.0, 0.0]])
_WEIGHTS = torch.tensor([2.0, 1.0, 4.0]) / 7  # scores ln 2 · [1, 0, 2]

EXERCISES = [
    Exercise(
        name="additive_weights",
        truth=additive_weights,
        cases=[
            (
                torch.tensor([1.0, -1.0]),
                torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]),
                torch.tensor([[1.0, 0.0], [0.5, 1.0]]),
                torch.tensor([[0.5, 0.0], [1.0, -1.0]]),
                torch.tensor([1.0, 2.0]),
            ),
            (_normal(1, 5), _normal(2, 7, 4), _normal(3, 6, 5), _normal(4, 6, 4), _normal(5, 6)),
            tuple(
                _normal(seed, *shape, dtype=torch.float64)
                for seed, shape in ((6, (3,)), (7, (4, 3)), (8, (2, 3)), (9, (2, 3)), (10, (2,)))
            ),
        ],
        shown=(
            "打分是一个小网络：查询和键先投影，相加，过 tanh，再压成一个数。",
            "The score is a small network: project query and key, add them, take tanh, press the result into "
            "one number.",
        ),
        slips=[
            Slip(
                "no tanh",
                _without_tanh,
                "没有 tanh。那样查询给每个键加的是同一个数，softmax 一减就没了：问什么都得到同样的权重。",
                "There is no tanh. Then the query adds the same number to the score of every key, and the "
                "softmax takes it out again: whatever is asked, the weights are the same.",
            ),
            Slip(
                "query without effect",
                _without_query,
                "权重不随查询变。也许查询没有用上；也许两份是分开取的 tanh，那样查询那一份对所有键都相同，"
                "又被 softmax 消掉了。tanh 要在相加之后。",
                "The weights do not change with the query. Perhaps it is not used; perhaps tanh was taken of "
                "each part by itself, and the query's part, the same for all keys, went out in the softmax. "
                "tanh comes after the sum.",
            ),
            Slip(
                "tanh outside",
                _tanh_outside,
                "tanh 放在了 v 的后面；它在里面，作用在隐藏单元上。",
                "tanh was taken after v; it belongs inside, on the hidden units.",
            ),
            Slip(
                "multiplied",
                _multiplied,
                "两份投影是相加，不是逐元素相乘。",
                "The two projections are added, not multiplied element by element.",
            ),
            Slip(
                "sigmoid",
                _sigmoid,
                "里面的激活函数是 tanh，不是 sigmoid。",
                "The activation inside is tanh, not the sigmoid.",
            ),
            Slip(
                "scores",
                _additive,
                "这是分数，还没有归一化成权重。",
                "These are the scores; they still have to be normalised into weights.",
            ),
            Slip(
                "exponentials",
                _only_exponentials,
                "取了指数，还没有除以总和。",
                "The exponentials are there, but not yet divided by their sum.",
            ),
        ],
        symptoms=[
            Symptom(
                "do not sum to 1",
                lambda result, *_: bool(((result.sum(-1) - 1).abs() < 1e-3).all()),
                "权重的和应当是 1，你的不是：",
                "The weights should sum to 1, and these do not:",
            )
        ],
    ),
    Exercise(
        name="by_hand",
        truth=_WEIGHTS @ _STATES,
        tolerance=(0.0, 0.01),
        shown=(
            "三步就完：分数变权重，权重去加权，取回的是一份混合，不是其中某一个。",
            "Scores become weights, weights make a sum; what comes back is a mixture of all the states.",
        ),
        slips=[
            Slip(
                "mean",
                _STATES.mean(0),
                "这是三个状态的平均，权重没有用上。",
                "This is the mean of the three states; the weights are not used.",
            ),
            Slip(
                "hard",
                _STATES[2],
                "这是分数最高的那一个状态：硬寻址。软寻址每个都取一点。",
                "This is the one state with the highest score: hard addressing. The soft kind takes a little "
                "of each.",
            ),
            Slip(
                "no exponential",
                torch.tensor([1.0, 0.0, 2.0]) / 3 @ _STATES,
                "分数直接除以了总和，没有先取指数；那样第二个状态的权重会是 0。",
                "The scores were divided by their sum without taking exponentials first; the second state's "
                "weight would then be 0.",
            ),
            Slip(
                "not normalised",
                torch.tensor([2.0, 1.0, 4.0]) @ _STATES,
                "取了指数，还没有除以总和 7。",
                "The exponentials are right, but they still have to be divided by their sum, 7.",
            ),
            Slip(
                "scores as weights",
                math.log(2) * torch.tensor([1.0, 0.0, 2.0]) @ _STATES,
                "分数直接当了权重；中间还差一个 softmax。",
                "The scores were used as weights; there is a softmax in between.",
            ),
            Slip(
                "weights",
                _WEIGHTS,
                "权重对了。还差最后一步：用它们给状态加权求和。",
                "The weights are right. One step is left: use them for a sum of the states.",
            ),
        ],
    ),
    Exercise(
        name="padding_weights",
        truth=padding_weights,
        cases=[
            (
                torch.tensor([[[1.0, 2.0, 0.5], [0.0, -1.0, 1.0]], [[0.5, -0.5, 1.5], [2.0, 0.0, 1.0]]]),
                torch.tensor([3, 1]),
            ),
            (_normal(11, 3, 4, 6), torch.tensor([6, 2, 4])),
            (_normal(12, 2, 5, 4, dtype=torch.float64) - 3, torch.tensor([3, 4])),
        ],
        shown=(
            "填充的权重恰好是 0，其余的和仍是 1：一句话的结果不再取决于它和谁在一批里。",
            "Padding weighs exactly 0 and the rest still sums to 1: what a sentence gets no longer depends "
            "on the company it keeps in its batch.",
        ),
        slips=[
            Slip(
                "no mask",
                lambda scores, lengths: scores.softmax(dim=-1),
                "`lengths` 没有用上，填充也分走了权重。",
                "`lengths` is not used, and the padding takes its share.",
            ),
            Slip(
                "score zero",
                _score_zero,
                "填充的分数变成了 0，可是 exp(0) = 1，它仍然有权重。分数要变成 −∞。",
                "The padding's scores became 0, but exp(0) = 1, so it still has weight. They have to become "
                "−∞.",
            ),
            Slip(
                "after softmax",
                _after_softmax,
                "先做了 softmax 再抹掉填充：剩下的权重和不到 1。掩码要在 softmax 之前。",
                "Softmax first, mask afterwards: what is left sums to less than 1. The mask comes before the "
                "softmax.",
            ),
            Slip(
                "upside down",
                _upside_down,
                "掩码反了：被遮住的是词，留下的是填充。",
                "The mask is upside down: it hides the words and keeps the padding.",
            ),
            Slip(
                "one more",
                _one_more,
                "多放进来一个位置。下标从 0 开始，长度为 n 的句子占 0 到 n − 1。",
                "One place too many. Indices begin at 0: a sentence of length n fills 0 to n − 1.",
            ),
            Slip(
                "one less",
                _one_less,
                "每句都少了最后一个词。",
                "The last word of each sentence is missing.",
            ),
            Slip(
                "over queries",
                _over_queries,
                "softmax 取错了维：每一行（一个查询）对所有键求和应当是 1。",
                "The softmax is over the wrong dimension: each row (a query) should sum to 1 over the keys.",
            ),
            Slip(
                "queries masked",
                _queries_masked,
                "掩码盖住了行（查询）；要盖住的是列（键）。`lengths` 说的是源句。",
                "The mask covers rows (queries); it should cover columns (keys). `lengths` is about the "
                "source.",
            ),
        ],
        symptoms=[
            Symptom(
                "padding has weight",
                lambda result, scores, lengths: bool(
                    (result[~_words(scores, lengths).expand_as(scores)] == 0).all()
                ),
                "填充应当恰好是 0，你的不是：",
                "Padding should weigh exactly 0, and here it does not:",
            )
        ],
    ),
    Exercise(
        name="decoder_step",
        truth=decoder_step,
        returns=("s", "context"),
        cases=[_step_case(21, 3), _step_case(31, 5), _step_case(41, 4, torch.float64)],
        shown=(
            "先用上一个状态去看，再把词和看到的一起读进来：看的时候，它还不知道刚写下的那个词。",
            "Look with the previous state first, then read the word along with what was seen: while it "
            "looks, it does not know the word that was just written.",
        ),
        slips=[
            Slip(
                "looks again",
                _looks_again,
                "状态更新之后又看了一次：那是 Luong 的次序，用当前状态查询。Bahdanau 用上一个状态查询。",
                "It looks once more after the state has changed: that is Luong's order, with the current "
                "state as the query. Bahdanau queries with the previous one.",
            ),
            Slip(
                "asks with the word",
                _asks_with_the_word,
                "查询用成了词 y；发问的是状态 s。",
                "The word y was taken as the query; it is the state s that asks.",
            ),
            Slip(
                "context first",
                _context_first,
                "拼接的次序反了：题目要的是 [y; c]。",
                "They are joined in the other order: [y; c] is wanted.",
            ),
            Slip(
                "old state",
                _old_state,
                "返回的还是旧状态。",
                "What is returned is still the old state.",
            ),
            Slip(
                "weights",
                _weights_for_context,
                "返回的是权重；要的是上下文，`attend` 返回的第一个。",
                "These are the weights; the context is wanted, which `attend` returns first.",
            ),
            Slip(
                "forgets",
                _forgets,
                "`cell` 没有收到旧状态，解码器每一步都从零开始。",
                "`cell` did not get the old state: the decoder begins from nothing at every step.",
            ),
            Slip(
                "state for word",
                _state_for_word,
                "读进去的是 [s; c]，词 y 没有用上。",
                "[s; c] was read, and the word y is not used.",
            ),
        ],
    ),
    Exercise(
        name="error_rate",
        truth=error_rate,
        cases=[
            (_PREDICTED, _GOLD),
            (_GOLD, _GOLD),
            (frozenset({(0, 0)}), frozenset({(1, 1), (1, 2), (2, 0)})),
            (frozenset({(i, i) for i in range(9)}), frozenset({(i, i) for i in range(3, 8)})),
        ],
        shown=(
            "错误率把“多连了”和“漏连了”算在一起：它等于 1 减 F1。",
            "The rate counts links too many and links too few together: it is 1 minus F1.",
        ),
        slips=[
            Slip(
                "the right share",
                lambda predicted, gold: 2 * len(predicted & gold) / (len(predicted) + len(gold)),
                "这是对的那一份（F1）；错误率是 1 减它。",
                "This is the share that is right (F1); the error rate is 1 minus it.",
            ),
            Slip(
                "one minus precision",
                lambda predicted, gold: 1 - len(predicted & gold) / len(predicted),
                "只看了预测的连线里有多少是错的（1 − 精确率），漏掉的没有算。",
                "This is the share of predicted links that are wrong (1 − precision); what was missed is not "
                "counted.",
            ),
            Slip(
                "one minus recall",
                lambda predicted, gold: 1 - len(predicted & gold) / len(gold),
                "只看了标准连线里漏了多少（1 − 召回率），多连的没有算。",
                "This is the share of gold links that were missed (1 − recall); links too many are not "
                "counted.",
            ),
            Slip(
                "over the union",
                lambda predicted, gold: 1 - len(predicted & gold) / len(predicted | gold),
                "分母用成了并集的大小；这里是两个大小之和。",
                "The union's size was taken below the line; it should be the sum of both sizes.",
            ),
            Slip(
                "no factor of two",
                lambda predicted, gold: 1 - len(predicted & gold) / (len(predicted) + len(gold)),
                "少了因子 2：完全相同的两组连线，错误率应当是 0。",
                "The factor 2 is missing: two equal sets of links should have the error rate 0.",
            ),
        ],
    ),
]
