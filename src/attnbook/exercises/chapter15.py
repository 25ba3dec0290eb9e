"""Chapter 15, training a translator."""

from collections import Counter
from collections.abc import Callable

import torch
from torch import Tensor

from attnbook.attention import scaled_dot_product_attention
from attnbook.decoding import length_penalty
from attnbook.exercises.core import Exercise, Slip, Symptom
from attnbook.training.schedules import warmup_inverse_sqrt

PAD = 0

# ---------------------------------------------------------------------- the smoothed loss


def smoothed_loss(logits: Tensor, target: Tensor, epsilon: float) -> Tensor:
    """Cross-entropy against (1 − ε) one-hot + ε/V, the mean over the words; id 0 is padding."""
    log_p = logits[target != PAD].log_softmax(dim=-1)  # (words, vocab)
    log_p_y = log_p.gather(-1, target[target != PAD][:, None]).squeeze(-1)  # (words,)
    return (-(1 - epsilon) * log_p_y - epsilon * log_p.mean(dim=-1)).mean()


def _each_loss(logits: Tensor, target: Tensor, true_share: float, share: float) -> Tensor:
    """−true_share · log p_y − share · Σ_k log p_k, for each position."""
    log_p = logits.log_softmax(dim=-1)
    log_p_y = log_p.gather(-1, target[..., None]).squeeze(-1)
    return -true_share * log_p_y - share * log_p.sum(dim=-1)


def _loss_with(shares: Callable[[float, int], tuple[float, float]]):
    def loss(logits, target, epsilon):
        each = _each_loss(logits, target, *shares(epsilon, logits.shape[-1]))
        return each[target != PAD].mean()

    return loss


def _smoothed_each(logits, target, epsilon):
    return _each_loss(logits, target, 1 - epsilon, epsilon / logits.shape[-1])


def _divided_by_places(logits, target, epsilon):
    return (_smoothed_each(logits, target, epsilon) * (target != PAD)).mean()


def _of_the_logits(logits, target, epsilon):
    words, logits = target != PAD, logits[target != PAD]
    true = logits.gather(-1, target[words][:, None]).squeeze(-1)
    return (-(1 - epsilon) * true - epsilon * logits.mean(dim=-1)).mean()


def _smoothed_prediction(logits, target, epsilon):
    words = target != PAD
    p_y = logits[words].softmax(dim=-1).gather(-1, target[words][:, None]).squeeze(-1)
    return -((1 - epsilon) * p_y + epsilon / logits.shape[-1]).log().mean()


def _loss_cases():
    generator = torch.Generator().manual_seed(15)
    logits = torch.tensor([[0.0, 0.0, 2.0, 0.0, 1.0], [1.0, 0.0, 0.0, 3.0, 0.0]])
    batch = torch.randn(2, 4, 7, generator=generator)
    return [
        (logits, torch.tensor([2, 4]), 0.1),
        (logits, torch.tensor([2, 4]), 0.0),
        (batch, torch.tensor([[3, 1, 6, 2], [5, 2, 0, 0]]), 0.2),
    ]


# ---------------------------------------------------------------------- the schedule


def _rate_with(formula: Callable[[int, int, int], float]):
    return lambda step, d_model, warmup_steps: formula(step, d_model, warmup_steps)


# ---------------------------------------------------------------------- the length penalty

# Two ended hypotheses: log-probability and number of tokens, `<eos>` among them.
HYPOTHESES = ((-3.0, 4), (-4.5, 10))


def _hypothesis_scores(penalty: Callable[[int], float]) -> list[float]:
    return [log_p / penalty(length) for log_p, length in HYPOTHESES]


# ---------------------------------------------------------------------- the cache


def attend_with_cache(
    query: Tensor, key: Tensor, value: Tensor, past_key: Tensor, past_value: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """One step of self-attention: output for the newest token, and the keys and values of all tokens."""
    keys = torch.cat([past_key, key], dim=-2)  # (heads, past + 1, d_k)
    values = torch.cat([past_value, value], dim=-2)  # (heads, past + 1, d_k)
    return scaled_dot_product_attention(query, keys, values)[0], keys, values


def _attend_to(select: Callable):
    """The right keys and values, but an output that attends to others."""

    def attend(query, key, value, past_key, past_value):
        _, keys, values = attend_with_cache(query, key, value, past_key, past_value)
        shown = select(key, value, past_key, past_value)
        return scaled_dot_product_attention(query, *shown)[0], keys, values

    return attend


def _masked_step(query, key, value, past_key, past_value):
    _, keys, values = attend_with_cache(query, key, value, past_key, past_value)
    mask = torch.ones(query.shape[-2], keys.shape[-2], dtype=torch.bool).tril()
    return scaled_dot_product_attention(query, keys, values, mask)[0], keys, values


def _unscaled_step(query, key, value, past_key, past_value):
    _, keys, values = attend_with_cache(query, key, value, past_key, past_value)
    return (query @ keys.mT).softmax(dim=-1) @ values, keys, values


def _newest_first(query, key, value, past_key, past_value):
    output, _, _ = attend_with_cache(query, key, value, past_key, past_value)
    return output, torch.cat([key, past_key], dim=-2), torch.cat([value, past_value], dim=-2)


def _cache_cases():
    generator = torch.Generator().manual_seed(151)

    def normal(*shape):
        return torch.randn(*shape, generator=generator)

    small = (
        torch.tensor([[[2.0, 0.0]]]),
        torch.tensor([[[0.0, 1.0]]]),
        torch.tensor([[[3.0, 3.0]]]),
        torch.tensor([[[1.0, 0.0], [0.0, 2.0]]]),
        torch.tensor([[[1.0, 0.0], [0.0, 1.0]]]),
    )
    heads = (*normal(3, 4, 1, 8).unbind(), *normal(2, 4, 5, 8).unbind())
    first = (*normal(3, 2, 1, 4).unbind(), *normal(2, 2, 0, 4).unbind())
    return [small, heads, first]


# ---------------------------------------------------------------------- BLEU's precision


def clipped_precision(hypothesis: list[str], reference: list[str], n: int) -> float:
    """The share of the hypothesis's n-grams that are in the reference, each as often as it is there."""
    found, wanted = _ngrams(hypothesis, n), _ngrams(reference, n)
    return sum((found & wanted).values()) / sum(found.values())


def _ngrams(tokens: list[str], n: int) -> Counter:
    return Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1))


def _unclipped(hypothesis, reference, n):
    found, wanted = _ngrams(hypothesis, n), _ngrams(reference, n)
    return sum(count for ngram, count in found.items() if ngram in wanted) / sum(found.values())


def _distinct(hypothesis, reference, n):
    found, wanted = set(_ngrams(hypothesis, n)), set(_ngrams(reference, n))
    return len(found & wanted) / len(found)


def _distinct_of_all(hypothesis, reference, n):
    found, wanted = _ngrams(hypothesis, n), _ngrams(reference, n)
    return len(set(found) & set(wanted)) / sum(found.values())


def _recall(hypothesis, reference, n):
    found, wanted = _ngrams(hypothesis, n), _ngrams(reference, n)
    return sum((found & wanted).values()) / max(1, sum(wanted.values()))


def _over_tokens(hypothesis, reference, n):
    return sum((_ngrams(hypothesis, n) & _ngrams(reference, n)).values()) / len(hypothesis)


def _in_place(hypothesis, reference, n):
    places = range(len(hypothesis) - n + 1)
    return sum(hypothesis[i : i + n] == reference[i : i + n] for i in places) / len(places)


_REFERENCE = ["the", "weasel", "eats", "the", "fish"]

EXERCISES = [
    Exercise(
        name="smoothed_loss",
        truth=smoothed_loss,
        cases=_loss_cases(),
        shown=(
            "标签平滑只改了目标：真词元得 1 − ε + ε/V，其余各得 ε/V；填充既不计损失，也不计个数。",
            "Label smoothing changes the target and nothing else: the true token gets 1 − ε + ε/V and every "
            "other ε/V; padding counts neither for the loss nor for the number of words.",
        ),
        slips=[
            Slip(
                "no smoothing",
                _loss_with(lambda epsilon, vocab: (1.0, 0.0)),
                "这是没有平滑的交叉熵；`epsilon` 没有起作用。",
                "This is the cross-entropy without smoothing; `epsilon` has no effect.",
            ),
            Slip(
                "shared among the others only",
                _loss_with(lambda e, vocab: (1 - e - e / (vocab - 1), e / (vocab - 1))),
                "ε 分给了其余 V − 1 个词元。这是另一种约定；本书（和 `torch`）把 ε 平均分给全部 V 个，"
                "真词元也有一份。",
                "ε is shared among the V − 1 other tokens. That is another convention; here (and in `torch`) "
                "it is shared among all V, the true token included.",
            ),
            Slip(
                "the true token without its share",
                _loss_with(lambda e, vocab: (1 - e - e / vocab, e / vocab)),
                "目标的概率加起来不到 1：真词元除了 1 − ε，还有均分的那一份 ε/V。",
                "The target's probabilities sum to less than 1: besides 1 − ε the true token has its even "
                "share ε/V.",
            ),
            Slip(
                "epsilon and 1 − epsilon swapped",
                _loss_with(lambda epsilon, vocab: (epsilon, (1 - epsilon) / vocab)),
                "ε 和 1 − ε 对调了：现在绝大部分概率都平均分掉了。",
                "ε and 1 − ε have changed places: most of the probability is now shared out evenly.",
            ),
            Slip(
                "not divided by the vocabulary",
                _loss_with(lambda epsilon, vocab: (1 - epsilon, epsilon)),
                "每个词元都得到了整个 ε。要分给 V 个词元，每个只有 ε/V。",
                "Every token gets all of ε. It is shared among V tokens, ε/V each.",
            ),
            Slip(
                "smoothed the prediction",
                _smoothed_prediction,
                "平滑的是模型的概率 p，不是目标 q。这样损失在 p = 1 处才最小，模型照样会越来越自信。",
                "This smooths the model's probabilities p, not the target q. Its loss is smallest at p = 1, "
                "so the model would still grow ever more sure.",
            ),
            Slip(
                "logits as log-probabilities",
                _of_the_logits,
                "logits 直接当成了对数概率；先对词表取 `log_softmax`。",
                "The logits were taken for log-probabilities; take the `log_softmax` over the vocabulary "
                "first.",
            ),
            Slip(
                "sign",
                lambda *case: -smoothed_loss(*case),
                "符号反了：损失是负的对数概率，不会小于 0。",
                "The sign is flipped: the loss is the negative log-probability and never below 0.",
            ),
            Slip(
                "sum",
                lambda logits, target, epsilon: _smoothed_each(logits, target, epsilon)[target != PAD].sum(),
                "这是所有词的损失之和；题目要的是平均每个词多少。",
                "This is the sum over the words; the mean per word is wanted.",
            ),
            Slip(
                "padding counted",
                lambda *case: _smoothed_each(*case).mean(),
                "没有填充时是对的；有填充时，填充的位置（id 0）也被当成词来预测了。",
                "Right where there is no padding; where there is, the padded places (id 0) are predicted as "
                "if they were words.",
            ),
            Slip(
                "divided by the padded places too",
                _divided_by_places,
                "填充的损失去掉了，除的却还是全部位置的个数：填充越多，损失显得越小。",
                "The loss of the padding is gone, but the sum is still divided by all places: the more "
                "padding, the smaller the loss looks.",
            ),
        ],
        symptoms=[
            Symptom(
                "negative loss",
                lambda loss, logits, target, epsilon: bool(loss >= -1e-6),
                "交叉熵不会小于 0，你的结果是负的：",
                "A cross-entropy is never below 0, and this one is:",
            ),
        ],
    ),
    Exercise(
        name="learning_rate",
        truth=_rate_with(warmup_inverse_sqrt),
        cases=[(16_000, 512, 4000), (4000, 512, 4000), (1, 512, 4000), (50, 256, 800), (9, 64, 4)],
        tolerance=(1e-4, 1e-12),
        shown=(
            "两条曲线取小的那条：预热时是直线，之后是 1/√step，在 step = warmup_steps 处相接。",
            "The smaller of two curves: a straight line during the warm-up, 1/√step after it; they meet at "
            "step = warmup_steps.",
        ),
        slips=[
            Slip(
                "max for min",
                _rate_with(lambda s, d, w: d**-0.5 * max(s**-0.5, s * w**-1.5)),
                "取成了大的那条：第一步的学习率最大，预热反过来了。",
                "The larger of the two curves was taken: the rate is largest at the first step, the opposite "
                "of a warm-up.",
            ),
            Slip(
                "d_model to the power ½",
                _rate_with(lambda s, d, w: d**0.5 * min(s**-0.5, s * w**-1.5)),
                "d_model 的指数少了负号：越宽的模型，学习率应该越小。",
                "The exponent of d_model lacks its minus sign: the wider the model, the smaller the rate.",
            ),
            Slip(
                "d_model inside the minimum",
                _rate_with(lambda s, d, w: min(d**-0.5 * s**-0.5, s * w**-1.5)),
                "括号放错了：d_model 的因子乘在整个 min 上，不只乘其中一条曲线。",
                "A misplaced bracket: the factor of d_model multiplies the whole minimum, not one of its "
                "curves.",
            ),
            Slip(
                "no d_model",
                _rate_with(lambda s, d, w: min(s**-0.5, s * w**-1.5)),
                "随步数的变化是对的，还少一个随模型宽度变化的因子。",
                "The dependence on the step is right; a factor that depends on the width of the model is "
                "missing.",
            ),
            Slip(
                "warm-up to the power −½",
                _rate_with(lambda s, d, w: d**-0.5 * min(s**-0.5, s * w**-0.5)),
                "直线太陡了，两条曲线在 step = warmup_steps 处接不上。要它们在那里相等，指数就定了。",
                "The line is too steep: the curves do not meet at step = warmup_steps. They must be equal "
                "there, which fixes the exponent of warmup_steps.",
            ),
            Slip(
                "constant after the warm-up",
                _rate_with(lambda s, d, w: d**-0.5 * min(w**-0.5, s * w**-1.5)),
                "预热是对的，之后学习率却停在最高点；它应该随步数下降。",
                "The warm-up is right, but then the rate stays at its peak; it should fall with the step.",
            ),
            Slip(
                "1/step",
                _rate_with(lambda s, d, w: d**-0.5 * min(1 / s, s * w**-1.5)),
                "下降得太快了：应该按步数的平方根的倒数，不是按步数的倒数。",
                "It falls too fast: with one over the root of the step, not one over the step.",
            ),
            Slip(
                "counted from zero",
                _rate_with(lambda s, d, w: d**-0.5 * min(max(s - 1, 1e-9) ** -0.5, (s - 1) * w**-1.5)),
                "步数从 1 数起；这里像是从 0 数起，第一步白走了。",
                "Steps are counted from 1; this counts from 0, and the first step is wasted.",
            ),
        ],
        symptoms=[
            Symptom(
                "not positive",
                lambda rate, *case: bool(rate > 0),
                "学习率应该大于 0：",
                "A learning rate should be above 0:",
            ),
        ],
    ),
    Exercise(
        name="length_penalty",
        truth=_hypothesis_scores(lambda length: length_penalty(length, 1.0)),
        tolerance=(0.0, 0.006),
        shown=(
            "短的那句概率更高，长的那句分数更高：长度惩罚换了赢家。",
            "The short one is more probable, and the long one has the better score: the penalty changed the "
            "winner.",
        ),
        slips=[
            Slip(
                "no penalty",
                [log_p for log_p, _ in HYPOTHESES],
                "这是对数概率本身（α = 0）。题目里 α = 1。",
                "These are the log-probabilities themselves (α = 0). Here α is 1.",
            ),
            Slip(
                "divided by the length",
                _hypothesis_scores(float),
                "除以了长度。式中的 lp 是 (5 + 长度) 与 (5 + 1) 之比的 α 次方。",
                "This divides by the length. The formula's lp is the ratio of (5 + length) to (5 + 1), to "
                "the power α.",
            ),
            Slip(
                "without the denominator",
                _hypothesis_scores(lambda length: 5.0 + length),
                "只用了分子 5 + |Y|；还要除以 5 + 1。",
                "Only the numerator 5 + |Y| was used; it is still to be divided by 5 + 1.",
            ),
            Slip(
                "multiplied",
                [log_p * length_penalty(length, 1.0) for log_p, length in HYPOTHESES],
                "乘了 lp。对数概率是负的，乘上去长句会吃亏；应该除。",
                "This multiplies by lp. Log-probabilities are negative, so long sentences would lose by it; "
                "divide.",
            ),
            Slip(
                "<eos> not counted",
                _hypothesis_scores(lambda length: length_penalty(length - 1, 1.0)),
                "长度少数了一个：题目给的词元数已经包括 `<eos>`，不用再减。",
                "The length is one short: the numbers of tokens already include `<eos>`; do not subtract it.",
            ),
            Slip(
                "<eos> counted twice",
                _hypothesis_scores(lambda length: length_penalty(length + 1, 1.0)),
                "长度多数了一个：题目给的词元数已经包括 `<eos>`。",
                "The length is one too many: the numbers of tokens already include `<eos>`.",
            ),
            Slip(
                "the other order",
                _hypothesis_scores(lambda length: length_penalty(length, 1.0))[::-1],
                "两个数都对，次序反了：先甲后乙。",
                "Both numbers are right, in the other order: first A, then B.",
            ),
        ],
        symptoms=[
            Symptom(
                "positive scores",
                lambda scores: bool((scores < 0).all()),
                "分数应该是负的：对数概率是负数，lp 是正数。",
                "The scores should be negative: log-probabilities are, and lp is positive.",
            ),
        ],
    ),
    Exercise(
        name="attend_with_cache",
        truth=attend_with_cache,
        returns=("output", "keys", "values"),
        cases=_cache_cases(),
        shown=(
            "一步只要一个查询：旧的键和值从缓存里来，新的接在末尾；没有未来可遮，所以不需要因果掩码。",
            "A step needs one query only: the old keys and values come from the cache and the new ones join "
            "at the end; there is no future to hide, and so no causal mask.",
        ),
        slips=[
            Slip(
                "without the newest token",
                _attend_to(lambda k, v, past_k, past_v: (past_k, past_v)),
                "最新的词元没有看见自己：它的键和值也要参加这一步的注意力。",
                "The newest token does not see itself: its own key and value take part in this step too.",
            ),
            Slip(
                "only the newest token",
                _attend_to(lambda k, v, past_k, past_v: (k, v)),
                "只看见了自己，缓存里的键和值没有用上。",
                "It sees itself alone; the keys and values in the cache are not used.",
            ),
            Slip(
                "a causal mask that starts at the first key",
                _masked_step,
                "因果掩码用错了：这个查询站在最后一个位置，`tril` 却把它当成第一个，只让它看一个键。",
                "The causal mask is out of place: the only query stands at the last position, and `tril` "
                "takes it for the first, which may see one key.",
            ),
            Slip(
                "no scale",
                _unscaled_step,
                "缓存用对了，分数还没有除以 √d_k。",
                "The cache is used as it should be; the scores are still to be divided by √d_k.",
            ),
            Slip(
                "newest first",
                _newest_first,
                "输出对了，但新的键和值接在了前面。次序就是位置：下一步起就乱了。",
                "The output is right, but the new key and value were put in front. Their order is their "
                "position: it would go wrong from the next step on.",
            ),
            Slip(
                "cache not extended",
                lambda q, k, v, past_k, past_v: (
                    attend_with_cache(q, k, v, past_k, past_v)[0],
                    past_k,
                    past_v,
                ),
                "输出对了，返回的却还是旧缓存：下一步就会忘掉这个词元。",
                "The output is right, but the old cache is returned: the next step will have forgotten this "
                "token.",
            ),
            Slip(
                "values before keys",
                lambda *case: tuple(attend_with_cache(*case)[i] for i in (0, 2, 1)),
                "三个结果都对，次序不对：`(output, keys, values)`。",
                "All three results are right, in another order: `(output, keys, values)`.",
            ),
            Slip(
                "only the output",
                lambda *case: attend_with_cache(*case)[0],
                "输出对了，但缓存要一起返回：`(output, keys, values)`。",
                "The output is right; return the cache with it: `(output, keys, values)`.",
            ),
        ],
        symptoms=[
            Symptom(
                "output outside the values",
                lambda output, keys, values, *case: bool(
                    (output <= values.amax(dim=-2, keepdim=True) + 1e-4).all()
                    and (output >= values.amin(dim=-2, keepdim=True) - 1e-4).all()
                ),
                "输出是各个值的加权平均，不会超出它们的范围，现在超出了：",
                "The output is an average of the values and cannot leave their range, but it does:",
            ),
        ],
    ),
    Exercise(
        name="clipped_precision",
        truth=clipped_precision,
        cases=[
            (["the", "the", "the", "the", "cat"], _REFERENCE, 1),
            (["the", "weasel", "the", "weasel", "eats"], _REFERENCE, 2),
            (["eats", "the", "fish", "the", "weasel"], _REFERENCE, 1),
            (["the", "weasel", "eats", "fish"], _REFERENCE, 2),
            (_REFERENCE, _REFERENCE, 4),
        ],
        shown=(
            "每个 n 元组最多算参考译文里出现的次数，复读机拿不到高分。",
            "An n-gram counts at most as often as the reference has it, so that a parrot gets no high score.",
        ),
        slips=[
            Slip(
                "not clipped",
                _unclipped,
                "没有截断：参考译文里只有两个 the，译文里的四个都算对了。",
                "Nothing is clipped: the reference has two “the”, and all four of the hypothesis count.",
            ),
            Slip(
                "distinct n-grams",
                _distinct,
                "用了集合，重复的 n 元组只算一次。要数次数，只是不超过参考译文里的次数。",
                "This uses sets, so that a repeated n-gram counts once. Count them, but no more often than "
                "in the reference.",
            ),
            Slip(
                "distinct n-grams over all",
                _distinct_of_all,
                "分子用了集合：出现两次、参考译文里也有两次的 n 元组，应该算两次。",
                "The numerator uses sets: an n-gram that occurs twice here and twice in the reference counts "
                "twice.",
            ),
            Slip(
                "recall",
                _recall,
                "除以了参考译文的 n 元组个数，那是召回率。精确率问的是译文里有多少是对的。",
                "This divides by the n-grams of the reference, which is recall. Precision asks how much of "
                "the hypothesis is right.",
            ),
            Slip(
                "in place",
                _in_place,
                "要求 n 元组站在同一个位置上。BLEU 不看位置，只看有没有。",
                "This wants each n-gram in the same place. BLEU asks whether it is there, not where.",
            ),
            Slip(
                "divided by the tokens",
                _over_tokens,
                "n = 1 时是对的；n 大于 1 时，译文里的 n 元组比词元少。",
                "Right for n = 1; for larger n the hypothesis has fewer n-grams than tokens.",
            ),
        ],
        symptoms=[
            Symptom(
                "out of range",
                lambda share, *case: bool(-1e-6 <= share <= 1 + 1e-6),
                "精确率在 0 和 1 之间，你的结果越界了：",
                "A precision lies between 0 and 1, and this one does not:",
            ),
        ],
    ),
]
