"""Chapter 08, encoder and decoder."""

import torch
import torch.nn.functional as F
from torch import Tensor

from attnbook.exercises.core import Exercise, Slip, Symptom

PAD, BOS, EOS = 0, 1, 2


def _normal(seed: int, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


# ---------------------------------------------------------------------- the loss


def teacher_loss(logits: Tensor, target: Tensor) -> Tensor:
    """Mean cross-entropy of the words that are predicted; logits[:, t] come after reading target[:, t]."""
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), target[:, 1:].flatten(), ignore_index=PAD)


def _nats(logits: Tensor, labels: Tensor) -> Tensor:
    """−log p of each label, (batch, time)."""
    return -logits.log_softmax(dim=-1).gather(-1, labels[..., None]).squeeze(-1)


def _shifted(logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    labels = target[:, 1:]
    return _nats(logits[:, :-1], labels), labels != PAD


def _not_shifted(logits, target):
    return _nats(logits, target)[target != PAD].mean()


def _not_shifted_but_bos_left_out(logits, target):
    return _nats(logits[:, 1:], target[:, 1:])[target[:, 1:] != PAD].mean()


def _shifted_backwards(logits, target):
    labels = target[:, :-1]
    return _nats(logits[:, 1:], labels)[labels != PAD].mean()


def _padding_counts(logits, target):
    return _shifted(logits, target)[0].mean()


def _padding_in_the_divisor(logits, target):
    nats, is_word = _shifted(logits, target)
    return (nats * is_word).mean()


def _summed(logits, target):
    nats, is_word = _shifted(logits, target)
    return (nats * is_word).sum()


def _by_sentence(logits, target):
    nats, is_word = _shifted(logits, target)
    return (nats * is_word).sum() / len(target)


def _mean_of_means(logits, target):
    nats, is_word = _shifted(logits, target)
    return ((nats * is_word).sum(dim=1) / is_word.sum(dim=1)).mean()


def _softmax_twice(logits, target):
    return teacher_loss(logits.softmax(dim=-1), target)


def _without_softmax(logits, target):
    nats = -logits[:, :-1].gather(-1, target[:, 1:, None]).squeeze(-1)
    return nats[target[:, 1:] != PAD].mean()


def _sign_forgotten(logits, target):
    return -teacher_loss(logits, target)


# Sentences of different lengths: <bos> words <eos> padding.
_TARGETS = torch.tensor([[1, 4, 5, 2, 0, 0], [1, 5, 2, 0, 0, 0], [1, 3, 4, 5, 3, 2]])


# ---------------------------------------------------------------------- the final state


def last_state(outputs: Tensor, lengths: Tensor) -> Tensor:
    """The state after each sentence's last word, (batch, hidden)."""
    return outputs[torch.arange(len(outputs)), lengths - 1]


def _place(outputs: Tensor, places: Tensor) -> Tensor:
    return outputs[torch.arange(len(outputs)), places.clamp(0, outputs.shape[1] - 1)]


def _is_word(outputs: Tensor, lengths: Tensor) -> Tensor:
    return (torch.arange(outputs.shape[1]) < lengths[:, None])[..., None]  # (batch, time, 1)


# ---------------------------------------------------------------------- the reversed source


def reverse(x: Tensor, lengths: Tensor) -> Tensor:
    """Each sequence from its last word to its first, with the padding still at the end."""
    return torch.stack(
        [torch.cat([row[:length].flip(0), row[length:]]) for row, length in zip(x, lengths, strict=True)]
    )


def _off_by_one(x, lengths):
    return torch.stack(
        [
            torch.cat([row[: length - 1].flip(0), row[length - 1 :]])
            for row, length in zip(x, lengths, strict=True)
        ]
    )


def _padded(seed: int, lengths: list[int], features: int, dtype: torch.dtype = torch.float32):
    """Random sequences with zeros for padding, and their lengths."""
    x, lengths = _normal(seed, len(lengths), max(lengths), features, dtype=dtype), torch.tensor(lengths)
    return x * _is_word(x, lengths), lengths


# ---------------------------------------------------------------------- greedy decoding


class _Decoder:
    """A decoder that writes a script as long as it is fed with it; the state counts its steps.

    Fed with anything but the token it wrote last, or with an older state, it writes 8 (after `<bos>`: 9).
    """

    def __init__(self, *script: int):
        self.script = script

    def __call__(self, token, state: Tensor) -> tuple[Tensor, Tensor]:
        at = int(state)
        logits = torch.zeros(10, dtype=state.dtype)
        wanted = BOS if at == 0 else self.script[at - 1] if at < len(self.script) else None
        lost = 9 if int(token) == BOS else 8
        logits[self.script[at] if int(token) == wanted else lost] = 2.0
        return logits, state + 1

    def __repr__(self) -> str:
        return f"a decoder that writes {', '.join(map(str, self.script))} if it is fed with what it writes"


def greedy(step, state: Tensor, max_len: int) -> Tensor:
    """The ids that greedy decoding writes, without <bos> and <eos>."""
    return _decode(step, state, max_len)


def _decode(
    step,
    state,
    max_len,
    *,
    feed=None,
    stop=EOS,
    with_bos=False,
    with_eos=False,
    keep_state=False,
    pick=torch.argmax,
):
    token, ids = BOS, []
    while len(ids) < max_len:
        logits, after = step(token if feed is None else feed, state)
        state = state if keep_state else after
        token = int(pick(logits))
        if token == stop:
            ids += [token] * with_eos
            break
        ids.append(token)
    return torch.tensor([BOS] * with_bos + ids)


# ---------------------------------------------------------------------- all of a sentence

P = 0.95
_SHORT, _LONG = P**10, P**30


EXERCISES = [
    Exercise(
        name="teacher_loss",
        truth=teacher_loss,
        cases=[
            (_normal(0, 2, 4, 5).round(), torch.tensor([[1, 4, 3, 2], [1, 3, 2, 0]])),
            (_normal(1, 3, 6, 6), _TARGETS),
            (_normal(2, 1, 6, 6), _TARGETS[2:]),
            (3 * _normal(3, 2, 6, 7), _TARGETS[:2]),
        ],
        shown=(
            "读到第 t 个词，预测第 t + 1 个；填充既不算进和里，也不算进个数里。",
            "After word t comes the prediction of word t + 1; padding is in neither sum nor count.",
        ),
        slips=[
            Slip(
                "not shifted",
                _not_shifted,
                "没有错开：读进去的词就是要预测的词，模型照抄就行了。",
                "Nothing is shifted: the word that is read is the word to predict, and all the model has to "
                "learn is to copy.",
            ),
            Slip(
                "bos left out, not shifted",
                _not_shifted_but_bos_left_out,
                "两边都去掉了第一个位置，所以还是没有错开；一边去头，一边去尾。",
                "The first position was dropped on both sides, so they are still not shifted: drop the first "
                "on one side and the last on the other.",
            ),
            Slip(
                "shifted backwards",
                _shifted_backwards,
                "错反了方向：这样是读到后一个词，去猜前一个。",
                "Shifted the wrong way: after a word, this guesses the word before it.",
            ),
            Slip(
                "padding counts",
                _padding_counts,
                "填充也被当成要预测的词了。",
                "Padding is counted as words to predict.",
            ),
            Slip(
                "padding in the divisor",
                _padding_in_the_divisor,
                "填充的损失已经清零，可是除的时候还把填充的位置数了进去：批次里填充越多，损失越小。",
                "The loss of the padding is zero, but its positions are still in the number you divide by: "
                "the more padding in a batch, the smaller its loss.",
            ),
            Slip(
                "summed",
                _summed,
                "这是和；这里要的是每个词的平均。",
                "This is the sum; the mean over the words is wanted.",
            ),
            Slip(
                "divided by sentences",
                _by_sentence,
                "除以了句子数；要除以要预测的词数。",
                "Divided by the number of sentences; divide by the number of words to predict.",
            ),
            Slip(
                "mean of means",
                _mean_of_means,
                "先在每句里平均，再对句子平均：短句里的词比长句里的词更重了。要让每个词一样重。",
                "A mean in each sentence and then over sentences: a word of a short sentence weighs more "
                "than one of a long sentence. Let every word weigh the same.",
            ),
            Slip(
                "softmax twice",
                _softmax_twice,
                "softmax 做了两遍：`cross_entropy` 里面已经有一遍。",
                "The softmax is taken twice: `cross_entropy` has one inside.",
            ),
            Slip(
                "no softmax",
                _without_softmax,
                "logits 还不是对数概率，差一步 log_softmax。",
                "Logits are not log-probabilities yet: a log_softmax is missing.",
            ),
            Slip(
                "sign",
                _sign_forgotten,
                "符号反了：损失是负的对数概率。",
                "The sign is wrong: the loss is the negative log-probability.",
            ),
        ],
        symptoms=[
            Symptom(
                "padding is visible",
                lambda loss, logits, target: bool(torch.isfinite(loss)) and float(loss) >= 0,
                "损失不应当是负数，也不应当是无穷大。",
                "A loss should be neither negative nor infinite.",
            ),
        ],
    ),
    Exercise(
        name="last_state",
        truth=last_state,
        cases=[
            (torch.arange(8.0).reshape(2, 4, 1), torch.tensor([2, 3])),
            (_normal(4, 3, 5, 4), torch.tensor([1, 5, 3])),
            (_normal(5, 2, 6, 3, dtype=torch.float64), torch.tensor([2, 2])),
        ],
        shown=(
            "上下文向量是最后一个词之后的状态，不是最后一个位置的。",
            "The context vector is the state after the last word, not the one at the last position.",
        ),
        slips=[
            Slip(
                "last position",
                lambda outputs, lengths: outputs[:, -1],
                "取的是最后一个位置；短句子在那里已经读了一串填充。",
                "This takes the last position, where a short sentence has read a row of padding.",
            ),
            Slip(
                "one too far",
                lambda outputs, lengths: _place(outputs, lengths),
                "多走了一步：位置从 0 数起，第 n 个词在 n − 1。",
                "One step too far: positions count from 0, and word n is at n − 1.",
            ),
            Slip(
                "one too early",
                lambda outputs, lengths: _place(outputs, lengths - 2),
                "少走了一步，最后一个词没有读到。",
                "One step too early: the last word has not been read.",
            ),
            Slip(
                "first position",
                lambda outputs, lengths: outputs[:, 0],
                "这是读完第一个词的状态。",
                "This is the state after the first word.",
            ),
            Slip(
                "mean of the words",
                lambda outputs, lengths: (
                    (outputs * _is_word(outputs, lengths)).sum(1) / lengths[:, None].to(outputs.dtype)
                ),
                "这是各个状态的平均；要的是一个状态。",
                "This is the mean of the states; one state is wanted.",
            ),
            Slip(
                "the longest for all",
                lambda outputs, lengths: outputs[:, int(lengths.max()) - 1],
                "所有句子都用了最长一句的长度。",
                "The longest sentence's length was used for all of them.",
            ),
            Slip(
                "the first one's length for all",
                lambda outputs, lengths: outputs[:, int(lengths[0]) - 1],
                "所有句子都用了第一句的长度。",
                "The first sentence's length was used for all of them.",
            ),
            Slip(
                "every pair",
                lambda outputs, lengths: outputs[:, lengths - 1],
                "`outputs[:, lengths - 1]` 给每一句都取了所有的长度；要一句配一个长度。",
                "`outputs[:, lengths - 1]` takes every length in every sentence; pair each with its own.",
            ),
        ],
    ),
    Exercise(
        name="reverse",
        truth=reverse,
        cases=[
            (torch.tensor([[[1.0, -1], [2, -2], [3, -3]], [[4, -4], [5, -5], [0, 0]]]), torch.tensor([3, 2])),
            _padded(6, [5, 2, 3], 3),
            _padded(7, [1, 4], 2, torch.float64),
        ],
        shown=(
            "只倒词，不倒填充：填充留在后面，编码器的最后一步仍是一个真的词。",
            "Only the words are turned round: padding stays behind, and the encoder still ends on a word.",
        ),
        slips=[
            Slip(
                "padding first",
                lambda x, lengths: x.flip(1),
                "连填充一起倒了：短句子现在以填充开头，编码器先读一串填充。",
                "The padding was turned round as well: a short sentence now begins with it.",
            ),
            Slip(
                "features",
                lambda x, lengths: x.flip(2),
                "倒的是特征那一维；要倒的是时间。",
                "The features were reversed; it is time that should be.",
            ),
            Slip(
                "sentences",
                lambda x, lengths: x.flip(0),
                "倒的是句子的次序；要在每一句之内倒。",
                "The order of the sentences was reversed; reverse within each of them.",
            ),
            Slip(
                "unchanged",
                lambda x, lengths: x.clone(),
                "没有变化。",
                "Nothing has changed.",
            ),
            Slip(
                "last word stays",
                _off_by_one,
                "最后一个词留在了原处：要倒的是前 n 个，不是前 n − 1 个。",
                "The last word stayed where it was: reverse the first n, not n − 1.",
            ),
        ],
    ),
    Exercise(
        name="greedy",
        truth=greedy,
        cases=[
            (_Decoder(4, 7, 5, EOS), torch.zeros(1), 8),
            (_Decoder(3, 3, 8, 6, 4, EOS), torch.zeros(1), 20),
            (_Decoder(6, 5, 4, 3, 6, 5), torch.zeros(1, dtype=torch.float64), 4),
        ],
        shown=(
            "喂回自己写的词和新的状态，见到 `<eos>` 就停，停不下来就截断。",
            "Feed back your own word and the new state, stop at `<eos>`, and cut what does not stop.",
        ),
        slips=[
            Slip(
                "always fed with bos",
                lambda step, state, max_len: _decode(step, state, max_len, feed=BOS),
                "每一步喂的都是 `<bos>`；第一步以后要喂刚写的词。",
                "Every step is fed with `<bos>`; after the first, feed the word just written.",
            ),
            Slip(
                "old state",
                lambda step, state, max_len: _decode(step, state, max_len, keep_state=True),
                "状态没有更新：`step` 返回的新状态要传给下一步。",
                "The state never changes: pass the new state that `step` returns to the next step.",
            ),
            Slip(
                "keeps eos",
                lambda step, state, max_len: _decode(step, state, max_len, with_eos=True),
                "`<eos>` 也留在结果里了；它只是停下的记号。",
                "`<eos>` is still in the result; it is only the sign to stop.",
            ),
            Slip(
                "keeps bos",
                lambda step, state, max_len: _decode(step, state, max_len, with_bos=True),
                "结果里多了开头的 `<bos>`：那是你喂进去的，不是模型写的。",
                "The result begins with `<bos>`, which you fed in and the model did not write.",
            ),
            Slip(
                "keeps both",
                lambda step, state, max_len: _decode(step, state, max_len, with_bos=True, with_eos=True),
                "结果里多了 `<bos>` 和 `<eos>`；只要中间的词。",
                "`<bos>` and `<eos>` are in the result; only what is between them is wanted.",
            ),
            Slip(
                "never stops",
                lambda step, state, max_len: _decode(step, state, max_len, stop=None),
                "见到 `<eos>` 没有停。",
                "It did not stop at `<eos>`.",
            ),
            Slip(
                "one too many",
                lambda step, state, max_len: _decode(step, state, max_len + 1),
                "没有 `<eos>` 的时候多写了一个：最多 `max_len` 个。",
                "Where no `<eos>` comes, one too many is written: `max_len` at most.",
            ),
            Slip(
                "one too few",
                lambda step, state, max_len: _decode(step, state, max_len - 1),
                "没有 `<eos>` 的时候少写了一个：可以写到 `max_len` 个。",
                "Where no `<eos>` comes, one too few is written: up to `max_len` are allowed.",
            ),
            Slip(
                "least probable",
                lambda step, state, max_len: _decode(step, state, max_len, pick=torch.argmin),
                "取了最不可能的词。",
                "It takes the least probable word.",
            ),
        ],
    ),
    Exercise(
        name="by_hand",
        truth=torch.tensor([_SHORT, _LONG]),
        tolerance=(0.0, 0.006),
        shown=(
            "每个词都一样准，长句子也照样少对：精确匹配本来就随长度下降，所以还要看每个词的正确率。",
            "Even if every word is equally sure, long sentences are right less often: exact match falls with "
            "the length by itself, which is why we also look at the accuracy of a word.",
        ),
        slips=[
            Slip(
                "exchanged",
                torch.tensor([_LONG, _SHORT]),
                "两个数都对，次序反了：先写短的。",
                "Both numbers are right, in the other order: the short sentence first.",
            ),
            Slip(
                "errors added",
                torch.tensor([1 - 10 * (1 - P), 1 - 30 * (1 - P)]),
                "把出错的概率相加了，三十个词就成了负数。全对是“每一个都对”，概率相乘。",
                "The chances of an error were added, which goes below zero for thirty words. All right means "
                "that each is right: the probabilities multiply.",
            ),
            Slip(
                "one word",
                torch.tensor([P, P]),
                "这是一个词对的概率；要整句都对。",
                "This is the chance of one word; the whole sentence has to be right.",
            ),
            Slip(
                "all wrong",
                torch.tensor([(1 - P) ** 10, (1 - P) ** 30]),
                "这是每个词都错的概率。",
                "This is the chance that every word is wrong.",
            ),
            Slip(
                "some wrong",
                torch.tensor([1 - _SHORT, 1 - _LONG]),
                "这是至少错一个词的概率，还要用 1 减。",
                "This is the chance of at least one error; subtract it from 1.",
            ),
            Slip(
                "multiplied by the length",
                torch.tensor([10 * P, 30 * P]),
                "这是期望对几个词；概率不会大于 1。",
                "This is how many words are right on average; a probability is never above 1.",
            ),
        ],
    ),
]
