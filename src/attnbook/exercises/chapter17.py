"""Chapter 17, decoder-only models."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from attnbook.attention import causal_mask, masked_softmax
from attnbook.exercises.core import Exercise, Slip, Symptom
from attnbook.normalization import layer_norm, rms_norm

EOS = 2


def _normal(seed: int, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def continuation_loss(logits: Tensor, source: Tensor, target: Tensor) -> Tensor:
    """Mean cross-entropy of `target` and `<eos>`; `logits` belong to source, `<bos>`, target."""
    return F.cross_entropy(logits[len(source) :], _with_eos(target))


def _with_eos(target: Tensor) -> Tensor:
    return torch.cat([target, target.new_tensor([EOS])])


def _one_too_late(logits, source, target):
    return F.cross_entropy(logits[len(source) + 1 :], target)  # each position predicts its own token


def _one_too_late_without_first(logits, source, target):
    return F.cross_entropy(logits[len(source) + 1 :], _with_eos(target)[1:])


def _without_eos(logits, source, target):
    return F.cross_entropy(logits[len(source) : -1], target)


def _source_too(logits, source, target):
    bos = source.new_tensor([1])
    return F.cross_entropy(logits, torch.cat([source[1:], bos, _with_eos(target)]))


def _summed(logits, source, target):
    return F.cross_entropy(logits[len(source) :], _with_eos(target), reduction="sum")


def _mean_over_everything(logits, source, target):
    return _summed(logits, source, target) / len(logits)


def _mean_without_eos(logits, source, target):
    return _summed(logits, source, target) / len(target)


def _logits_as_log_probabilities(logits, source, target):
    return F.nll_loss(logits[len(source) :], _with_eos(target))


def _bits(logits, source, target):
    return continuation_loss(logits, source, target) / math.log(2)


def prefix_attention(scores: Tensor, prefix: int) -> Tensor:
    """Weights of scores (time, time): the first `prefix` tokens see one another, the rest is causal."""
    time = len(scores)
    inside = torch.arange(time) < prefix
    return masked_softmax(scores, causal_mask(time) | (inside[:, None] & inside))


def _everyone_sees(scores, prefix):
    return scores.softmax(dim=-1)


def _only_causal(scores, prefix):
    return masked_softmax(scores, causal_mask(len(scores)))


def _prefix_sees_everything(scores, prefix):
    mask = causal_mask(len(scores))
    mask[:prefix] = True
    return masked_softmax(scores, mask)


def _prefix_alone(scores, prefix):
    inside = torch.arange(len(scores)) < prefix
    mask = (inside[:, None] & inside) | (causal_mask(len(scores)) & ~inside[:, None] & ~inside)
    return masked_softmax(scores, mask)


def _transposed_mask(scores, prefix):
    inside = torch.arange(len(scores)) < prefix
    return masked_softmax(scores, causal_mask(len(scores)).T | (inside[:, None] & inside))


def _not_itself(scores, prefix):
    inside = torch.arange(len(scores)) < prefix
    return masked_softmax(scores, causal_mask(len(scores)).tril(-1) | (inside[:, None] & inside))


def _one_more(scores, prefix):
    return prefix_attention(scores, prefix + 1)


def _prefix_masked_after(scores, prefix):
    return scores.softmax(dim=-1) * (prefix_attention(torch.zeros_like(scores), prefix) > 0)


def _softmax_over_queries(scores, prefix):
    mask = prefix_attention(torch.zeros_like(scores), prefix) > 0
    return scores.masked_fill(~mask, -math.inf).softmax(dim=0)


def rms(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Each vector of `x` to a mean square of 1, then scaled."""
    return rms_norm(x, weight, eps)


def _layer_norm_without_bias(x, weight, eps):
    return layer_norm(x, weight, torch.zeros_like(weight), eps)


def _centered_but_not_in_the_root(x, weight, eps):
    return weight * (x - x.mean(-1, keepdim=True)) / (x.pow(2).mean(-1, keepdim=True) + eps).sqrt()


def _standard_deviation(x, weight, eps):
    return weight * x / (x.var(-1, keepdim=True, unbiased=False) + eps).sqrt()


def _eps_outside(x, weight, eps):
    return weight * x / (x.pow(2).mean(-1, keepdim=True).sqrt() + eps)


def _length_of_the_vector(x, weight, eps):
    return weight * x / (x.pow(2).sum(-1, keepdim=True) + eps).sqrt()


def _no_root(x, weight, eps):
    return weight * x / (x.pow(2).mean(-1, keepdim=True) + eps)


def _no_weight(x, weight, eps):
    return rms_norm(x, torch.ones_like(weight), eps)


def _one_number_for_all(x, weight, eps):
    return weight * x / (x.pow(2).mean() + eps).sqrt()


def _over_the_tokens(x, weight, eps):
    return weight * x / (x.pow(2).mean(0, keepdim=True) + eps).sqrt()


def _mean_of_absolute_values(x, weight, eps):
    return weight * x / (x.abs().mean(-1, keepdim=True) + eps)


def grouped_scores(q: Tensor, k: Tensor) -> Tensor:
    """q (heads, query, d_k), k (key_value_heads, key, d_k) -> scaled scores (heads, query, key)."""
    k = k.repeat_interleave(len(q) // len(k), dim=0)
    return q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])


def _in_turn(q, k):
    return q @ k.repeat(len(q) // len(k), 1, 1).transpose(-2, -1) / math.sqrt(q.shape[-1])


def _no_scale(q, k):
    return grouped_scores(q, k) * math.sqrt(q.shape[-1])


def _in_turn_without_scale(q, k):
    return _in_turn(q, k) * math.sqrt(q.shape[-1])


def _first_head_for_all(q, k):
    return q @ k[:1].transpose(-2, -1) / math.sqrt(q.shape[-1])


def _mean_head_for_all(q, k):
    return q @ k.mean(0, keepdim=True).transpose(-2, -1) / math.sqrt(q.shape[-1])


def _queries_averaged(q, k):
    groups = q.unflatten(0, (len(k), -1)).mean(1)
    return groups @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])


def _scaled_by_the_heads(q, k):
    return grouped_scores(q, k) * math.sqrt(q.shape[-1] / len(q))


# 2 · 32 layers · 4 sequences · 8 heads · 8192 tokens · 128 features · 2 bytes = 4 GiB
_GIB = 2 * 32 * 4 * 8 * 8192 * 128 * 2 / 2**30


EXERCISES = [
    Exercise(
        name="continuation_loss",
        truth=continuation_loss,
        cases=[
            (
                torch.tensor(
                    [
                        [0.0, 0.0, 0.0, 1.0, 0.0, 0.0],
                        [0.0, 1.0, 0.0, 0.0, 0.0, 2.0],
                        [0.0, 0.0, 1.0, 0.0, 3.0, 0.0],
                        [0.0, 0.0, 0.5, 0.0, 0.0, 2.0],
                        [0.0, 0.0, 2.0, 0.0, 1.0, 0.0],
                    ]
                ),
                torch.tensor([5, 3]),
                torch.tensor([4, 5]),
            ),
            (_normal(1, 9, 11), torch.tensor([3, 4, 5, 6, 7]), torch.tensor([8, 9, 10])),
            (_normal(2, 6, 8, dtype=torch.float64), torch.tensor([7]), torch.tensor([3, 3, 4, 6])),
        ],
        shown=(
            "分隔符那一格预测译文的第一个词，译文的最后一个词预测 `<eos>`；原文只读，不计损失。",
            "The separator's position predicts the first word of the translation, the last word predicts "
            "`<eos>`; the source is read, and costs nothing.",
        ),
        slips=[
            Slip(
                "position predicts its own token",
                _one_too_late,
                "错开了一位：每个位置的 logits 预测的是**下一个**词，不是它自己。",
                "Off by one: the logits at a position predict the **next** token, not its own.",
            ),
            Slip(
                "first word not predicted",
                _one_too_late_without_first,
                "译文的第一个词没有人预测。哪个位置之后紧接着就是它？",
                "Nobody predicts the first word of the translation. After which position does it come?",
            ),
            Slip(
                "without <eos>",
                _without_eos,
                "少了 `<eos>`：模型也要学会什么时候停笔。",
                "`<eos>` is missing: the model has to learn when to stop, too.",
            ),
            Slip(
                "source counted",
                _source_too,
                "原文也算进了损失。这里只要译文和 `<eos>`。",
                "The source is counted as well. Only the translation and `<eos>` are wanted here.",
            ),
            Slip(
                "summed",
                _summed,
                "各项加起来了，还没有取平均。",
                "The terms are summed; their mean is wanted.",
            ),
            Slip(
                "mean over everything",
                _mean_over_everything,
                "和是对的，却除以了全部位置的个数；原文那些位置不该摊薄损失。",
                "The sum is right, but it is divided by the number of all positions; those of the source "
                "should not dilute it.",
            ),
            Slip(
                "<eos> not counted in the mean",
                _mean_without_eos,
                "和里有 `<eos>`，除数里没有：一共预测了几个词元？",
                "`<eos>` is in the sum, but not in the number it is divided by: how many tokens are "
                "predicted?",
            ),
            Slip(
                "no softmax",
                _logits_as_log_probabilities,
                "logits 不是对数概率，先过一次 `log_softmax`。",
                "Logits are no log-probabilities; they need a `log_softmax` first.",
            ),
            Slip(
                "bits",
                _bits,
                "单位成了比特（以 2 为底）；这里用自然对数。",
                "This is in bits (base 2); the natural logarithm is wanted.",
            ),
        ],
        symptoms=[
            Symptom(
                "negative",
                lambda loss, *case: bool(loss >= 0),
                "交叉熵不会是负的：",
                "A cross-entropy is never negative:",
            ),
        ],
    ),
    Exercise(
        name="prefix_attention",
        truth=prefix_attention,
        cases=[
            (torch.tensor([[1.0, 0.0, 2.0, 0.5], [0, 1, 0, 1], [2, 1, 0, 3], [0, 0, 1, 1]]), 2),
            (_normal(1, 6, 6), 3),
            (_normal(2, 5, 5, dtype=torch.float64), 1),
            (_normal(3, 4, 4), 4),
            (_normal(4, 5, 5), 0),
        ],
        shown=(
            "原文内部像编码器那样双向，译文像解码器那样因果：一张掩码里就有这两样。",
            "Both ways within the source, as in an encoder, and causal in the target, as in a decoder: one "
            "mask holds the two.",
        ),
        slips=[
            Slip(
                "only causal",
                _only_causal,
                "这是普通的因果掩码：前缀里的词还看不到前缀里后面的词。",
                "This is the plain causal mask: a token of the prefix does not yet see those of the prefix "
                "that follow it.",
            ),
            Slip(
                "everyone sees everything",
                _everyone_sees,
                "没有掩码：前缀之后的词偷看了未来。",
                "There is no mask: tokens after the prefix peek at the future.",
            ),
            Slip(
                "the prefix sees the rest",
                _prefix_sees_everything,
                "前缀里的词看到了前缀之后的词。双向只在前缀**内部**。",
                "Tokens of the prefix see what comes after the prefix. Both ways means **within** it.",
            ),
            Slip(
                "the rest does not see the prefix",
                _prefix_alone,
                "前缀之后的词看不到前缀：那样译文就不知道原文是什么了。",
                "Tokens after the prefix do not see it: the translation would not know its source.",
            ),
            Slip(
                "transposed",
                _transposed_mask,
                "行和列反了：行是查询，列是键。第 i 行能看的是第 i 列及之前的列。",
                "Rows and columns are exchanged: rows are queries, columns are keys, and row i sees columns "
                "up to i.",
            ),
            Slip(
                "not itself",
                _not_itself,
                "前缀之后的词应当也看得到自己。",
                "A token after the prefix should see itself, too.",
            ),
            Slip(
                "prefix one too long",
                _one_more,
                "前缀多算了一个词：它有 `prefix` 个词，下标从 0 到 `prefix - 1`。",
                "The prefix is one token too long: it has `prefix` tokens, with indices 0 to `prefix - 1`.",
            ),
            Slip(
                "mask after softmax",
                _prefix_masked_after,
                "掩码在 softmax 之后才用，每一行加起来不到 1。",
                "The mask comes after the softmax, so the rows sum to less than 1.",
            ),
            Slip(
                "softmax over the queries",
                _softmax_over_queries,
                "softmax 沿着查询的方向做了：应该是每一行的和为 1。",
                "The softmax runs over the queries: it is each row that should sum to 1.",
            ),
        ],
        symptoms=[
            Symptom(
                "rows do not sum to 1",
                lambda weights, scores, prefix: torch.allclose(
                    weights.sum(-1), torch.ones(()).double(), atol=1e-4
                ),
                "每一行的权重之和应该是 1：",
                "Each row of the weights should sum to 1:",
            ),
        ],
    ),
    Exercise(
        name="rms_norm",
        truth=rms,
        cases=[
            (torch.tensor([[1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 0.0, 0.0]]), torch.tensor([1.0, 1, 2, 1]), 0.5),
            (_normal(1, 2, 3, 6) + 1, _normal(2, 6), 1e-5),
            (_normal(3, 4, 8, dtype=torch.float64), _normal(4, 8, dtype=torch.float64), 1e-2),
        ],
        shown=(
            "一次平方的平均，一次开方，一次缩放：不用均值，也没有平移。",
            "One mean of squares, one root, one scale: no mean to subtract, and no shift.",
        ),
        slips=[
            Slip(
                "LayerNorm without a bias",
                _layer_norm_without_bias,
                "这是没有平移的 LayerNorm：减掉了均值。RMSNorm 不减。",
                "This is LayerNorm without its shift: the mean was subtracted. RMSNorm does not do that.",
            ),
            Slip(
                "centred",
                _centered_but_not_in_the_root,
                "分母对了；分子里减掉了均值，而 RMSNorm 不减。",
                "The denominator is right; in the numerator the mean was subtracted, which RMSNorm does not.",
            ),
            Slip(
                "standard deviation",
                _standard_deviation,
                "除以的是标准差。均方根里没有减均值这一步。",
                "This divides by the standard deviation. A root mean square subtracts no mean first.",
            ),
            Slip(
                "eps outside the root",
                _eps_outside,
                "ε 应该加在根号里面。",
                "ε belongs inside the root.",
            ),
            Slip(
                "length of the vector",
                _length_of_the_vector,
                "除以的是向量的长度。均方根要先对特征数取平均，再开方。",
                "This divides by the length of the vector. A root mean square takes the mean over the "
                "features before the root.",
            ),
            Slip(
                "no root",
                _no_root,
                "少了开方。",
                "The root is missing.",
            ),
            Slip(
                "no weight",
                _no_weight,
                "归一化对了，最后还要逐个特征乘上 `weight`。",
                "The normalisation is right; multiply each feature by `weight` at the end.",
            ),
            Slip(
                "one number for all tokens",
                _one_number_for_all,
                "所有词元共用了一个均方根；每个词元要用自己的。",
                "All tokens share one root mean square; each needs its own.",
            ),
            Slip(
                "over the tokens",
                _over_the_tokens,
                "平均沿着词元取了；要沿着特征，也就是最后一维。",
                "The mean runs over the tokens; it should run over the features, the last dimension.",
            ),
            Slip(
                "mean of absolute values",
                _mean_of_absolute_values,
                "用的是绝对值的平均，不是平方的平均再开方。",
                "This takes the mean of absolute values, not the root of the mean of squares.",
            ),
        ],
    ),
    Exercise(
        name="grouped_scores",
        truth=grouped_scores,
        cases=[
            (
                torch.tensor([[[1.0, 0]], [[0, 1]], [[1, 1]], [[2, 0]]]),
                torch.tensor([[[1.0, 0], [0, 1]], [[3, 0], [0, 5]]]),
            ),
            (_normal(1, 6, 3, 4), _normal(2, 2, 5, 4)),
            (_normal(3, 4, 2, 8, dtype=torch.float64), _normal(4, 4, 3, 8, dtype=torch.float64)),
            (_normal(5, 4, 2, 3), _normal(6, 1, 3, 3)),
        ],
        shown=(
            "相邻的查询头共用一个键头；一组一头就是多头注意力，只剩一个键头就是多查询注意力。",
            "Neighbouring query heads share a key head; groups of one are multi-head attention, and a single "
            "key head is multi-query attention.",
        ),
        slips=[
            Slip(
                "heads in turn",
                _in_turn,
                "键头轮流分给了查询头（0, 1, 0, 1）；同一组的查询头应该相邻（0, 0, 1, 1）。",
                "Key heads are dealt out in turn (0, 1, 0, 1); the query heads of a group should be "
                "neighbours (0, 0, 1, 1).",
            ),
            Slip(
                "no scale",
                _no_scale,
                "分组对了，分数还要除以 √d_k。",
                "The groups are right; divide the scores by √d_k.",
            ),
            Slip(
                "heads in turn, no scale",
                _in_turn_without_scale,
                "两处：键头轮流分给了查询头（应该是相邻的一组共用一个），分数也没有除以 √d_k。",
                "Two things: key heads are dealt out in turn (neighbours should share one), and the scores "
                "are not divided by √d_k.",
            ),
            Slip(
                "first key head for all",
                _first_head_for_all,
                "所有查询头都用了第一个键头。",
                "All query heads use the first key head.",
            ),
            Slip(
                "key heads averaged",
                _mean_head_for_all,
                "键头先取了平均；每一组应当用自己的键头。",
                "The key heads were averaged first; each group should use its own.",
            ),
            Slip(
                "query heads averaged",
                _queries_averaged,
                "查询头先取了平均。共用的是键，每个查询头仍然各问各的。",
                "The query heads were averaged. Keys are shared; each query head still asks for itself.",
            ),
            Slip(
                "scaled by the number of heads",
                _scaled_by_the_heads,
                "缩放用了头数；点积是对 d_k 个特征求和。",
                "The scale takes the number of heads; a dot product sums over d_k features.",
            ),
        ],
    ),
    Exercise(
        name="cache_gib",
        truth=torch.tensor(_GIB, dtype=torch.float64),
        tolerance=(1e-3, 0.0),
        shown=(
            "4 GiB，只为记住四段对话；若不分组，就要 16 GiB。",
            "4 GiB, only to remember four conversations; without groups it would be 16 GiB.",
        ),
        slips=[
            Slip(
                "only keys",
                torch.tensor(_GIB / 2),
                "键和值都要留下，还差一个因子。",
                "Both keys and values are kept: a factor is missing.",
            ),
            Slip(
                "query heads",
                torch.tensor(_GIB * 4),
                "用了查询头的个数。缓存里只有键和值，它们的头更少。",
                "This counts query heads. Only keys and values are in the cache, and they have fewer heads.",
            ),
            Slip(
                "four bytes",
                torch.tensor(_GIB * 2),
                "一个数只占 16 位，是几个字节？",
                "A number has 16 bits here: how many bytes is that?",
            ),
            Slip(
                "bits",
                torch.tensor(_GIB * 8),
                "这是比特数。一个字节有 8 比特。",
                "These are bits. A byte has 8 of them.",
            ),
            Slip(
                "one layer",
                torch.tensor(_GIB / 32),
                "这是一层的；每一层都有自己的键和值。",
                "That is one layer; every layer has keys and values of its own.",
            ),
            Slip(
                "one sequence",
                torch.tensor(_GIB / 4),
                "这是一段对话的；一批有四段。",
                "That is one conversation; the batch has four.",
            ),
            Slip(
                "d_model for each head",
                torch.tensor(_GIB * 32),
                "每个头的宽度是 d_k = d_model / 查询头数，不是 d_model。",
                "A head is d_k = d_model / query heads wide, not d_model.",
            ),
            Slip(
                "one head",
                torch.tensor(_GIB / 8),
                "少了键值头的个数。",
                "The number of key-value heads is missing.",
            ),
            Slip(
                "GB instead of GiB",
                torch.tensor(_GIB * 2**30 / 1e9, dtype=torch.float64),
                "字节数对了；这里要 GiB，即除以 2 的 30 次方，不是十亿。",
                "The number of bytes is right; GiB are wanted, so divide by 2 to the power 30, not by 10⁹.",
            ),
            Slip(
                "MiB",
                torch.tensor(_GIB * 1024),
                "这是 MiB，还要再换算一次，才是 GiB。",
                "These are MiB; one more step of the same kind gives GiB.",
            ),
        ],
    ),
]
