"""Chapter 12, multi-head attention and masks."""

import math

import torch
from torch import Tensor, nn

from attnbook.attention import causal_mask, padding_mask
from attnbook.exercises.core import Exercise, Slip, Symptom

D_MODEL, NUM_HEADS = 512, 8  # the paper's sizes


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """(batch, time, d_model) -> (batch, heads, time, d_k); head 0 has the first d_k features."""
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def multi_head(
    x: Tensor, memory: Tensor, W_q: Tensor, W_k: Tensor, W_v: Tensor, W_o: Tensor, num_heads: int
) -> Tensor:
    """Queries from x (batch, query, d), keys and values from memory (batch, key, d); every W is (d, d)."""
    return _multi_head(x, memory, W_q, W_k, W_v, W_o, num_heads)


def additive_mask(tokens: Tensor, pad_id: int = 0) -> Tensor:
    """Ids (batch, time) -> (batch, 1, time, time): 0 where a query may attend, else −∞."""
    return _additive(causal_mask(tokens.shape[1]) & padding_mask(tokens, pad_id))


def with_torch(module: nn.MultiheadAttention, x: Tensor, mask: Tensor) -> Tensor:
    """Self-attention of x (batch, time, d) by torch's module, under our mask (time, time)."""
    return module(x, x, x, attn_mask=~mask)[0]


# ---------------------------------------------------------------------- slips


def _join(heads: Tensor) -> Tensor:
    return heads.transpose(1, 2).flatten(2)


def _multi_head(
    x, memory, W_q, W_k, W_v, W_o, num_heads, split=split_heads, scale=None, dim=-1, join=_join, project=True
):
    q, k, v = split(x @ W_q, num_heads), split(memory @ W_k, num_heads), split(memory @ W_v, num_heads)
    scores = q @ k.transpose(-2, -1) / (math.sqrt(q.shape[-1]) if scale is None else scale)
    joined = join(scores.softmax(dim=dim) @ v)
    return joined @ W_o if project else joined


def _split_without_transpose(x, num_heads):
    batch, time, d_model = x.shape
    return x.reshape(batch, num_heads, time, d_model // num_heads)


def _interleaved(x, num_heads):
    return x.unflatten(-1, (-1, num_heads)).permute(0, 3, 1, 2)


def _scaled_by_root_of_d_model(x, *rest):
    return _multi_head(x, *rest, scale=math.sqrt(x.shape[-1]))


def _not_transposed_back(x, *rest):
    return _multi_head(x, *rest, join=lambda heads: heads.reshape(x.shape))


def _transposed_weights(x, memory, W_q, W_k, W_v, W_o, num_heads):
    return _multi_head(x, memory, W_q.T, W_k.T, W_v.T, W_o.T, num_heads)


def _additive(may: Tensor, low: float = -math.inf) -> Tensor:
    return torch.zeros(may.shape).masked_fill(~may, low)


def _square(tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Who is not padding and what is not later, both (batch, 1, time, time)."""
    n, size = tokens.shape[1], (len(tokens), 1, tokens.shape[1], tokens.shape[1])
    return padding_mask(tokens).expand(size), causal_mask(n).expand(size)


def _of_masks(combine):
    """A slip that joins the padding mask (for any id of padding) and the causal mask in its own way."""

    def slip(tokens, pad_id=0):
        words, past = _square((tokens != pad_id).long())
        return combine(words, past)

    return slip


def _normal(seed: int, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def _multi_head_cases():
    small = (
        torch.tensor([[[1.0, 0, 2, 1], [0, 1, -1, 0]]]),
        torch.tensor([[[1.0, 1, 0, 2], [0, 2, 1, 0], [2, 0, 0, 1]]]),
    )
    small_weights = tuple(_normal(seed, 4, 4) for seed in (1, 2, 3, 4))
    large = _normal(5, 2, 5, 12, dtype=torch.float64), _normal(6, 2, 7, 12, dtype=torch.float64)
    weights = tuple(_normal(seed, 12, 12, dtype=torch.float64) / 3 for seed in (7, 8, 9, 10))
    return [(*small, *small_weights, 2), (*large, *weights, 3), (*large, *weights, 1)]


def _torch_module() -> nn.MultiheadAttention:
    with torch.random.fork_rng(devices=[]):  # leaves the reader's random numbers alone
        torch.manual_seed(12)
        return nn.MultiheadAttention(8, 2, bias=False, batch_first=True).eval()


_MODULE = _torch_module()
# Every row has a True and a False, so that no reading of it gives NaN.
_SOME = torch.tensor([[True, True, False], [False, True, True], [False, True, False]])

EXERCISES = [
    Exercise(
        name="split_heads",
        truth=split_heads,
        cases=[
            (torch.arange(12.0).reshape(1, 3, 4), 2),
            (_normal(0, 2, 5, 12), 3),
            (_normal(1, 2, 4, 8, dtype=torch.float64), 8),
            (_normal(2, 1, 1, 6), 1),
        ],
        shown=(
            "分头只是换一种看法：数一个也没动，只有形状变了，次序是先切特征，再换维度。",
            "Splitting into heads is only another view: not a number moves; first the features are cut, "
            "then two dimensions change places.",
        ),
        slips=[
            Slip(
                "view without transpose",
                _split_without_transpose,
                "形状对了，内容乱了：直接 `reshape` 会把不同的词混进一个头。先切特征那一维，再换维度。",
                "The shape is right and the content is scrambled: a plain `reshape` mixes different tokens "
                "into one head. Cut the dimension of the features first, then swap.",
            ),
            Slip(
                "heads behind time",
                lambda x, num_heads: x.unflatten(-1, (num_heads, -1)),
                "特征切对了，可是头还在词的后面。矩阵乘法发生在最后两维：那里应该是词和 d_k。",
                "The features are cut rightly, but heads still come after tokens. Matrix products happen "
                "in the last two dimensions: these should be tokens and d_k.",
            ),
            Slip(
                "interleaved features",
                _interleaved,
                "每个头拿到的是隔着取的特征。一个头应该拿一段相连的 d_k 个特征。",
                "Each head gets features picked at a distance. A head should get d_k features that stand "
                "together.",
            ),
            Slip(
                "sizes swapped",
                lambda x, num_heads: x.unflatten(-1, (-1, num_heads)).transpose(1, 2),
                "头数和每头的维数弄反了：现在有 d_k 个头，每头 `num_heads` 维。",
                "The number of heads and their size have changed places: there are d_k heads of "
                "`num_heads` features.",
            ),
            Slip(
                "time last",
                lambda x, num_heads: x.unflatten(-1, (num_heads, -1)).permute(0, 2, 3, 1),
                "最后两维反了：应该是（词，d_k），现在是（d_k，词）。",
                "The last two dimensions are the wrong way round: (time, d_k) is wanted, this is (d_k, "
                "time).",
            ),
            Slip(
                "heads merged into the batch",
                lambda x, num_heads: split_heads(x, num_heads).flatten(0, 1),
                "数都对，只是头和 batch 并成了一维。这里要四维，掩码才能在头上广播。",
                "The numbers are right, but heads and batch are one dimension. Keep four, so that a mask "
                "can broadcast over the heads.",
            ),
        ],
    ),
    Exercise(
        name="multi_head",
        truth=multi_head,
        cases=_multi_head_cases(),
        shown=(
            "多头注意力就是四次矩阵乘法，中间夹着上一章的那个函数，各头互不相干。",
            "Multi-head attention is four matrix products around the function of the last chapter, and no "
            "head knows of another.",
        ),
        slips=[
            Slip(
                "scaled by the root of d_model",
                _scaled_by_root_of_d_model,
                "缩放用了 √d_model。点积只对一个头的特征求和，那有多少个？",
                "The scale is √d_model. The dot product sums over the features of one head only: how many "
                "are they?",
            ),
            Slip(
                "no scale",
                lambda *case: _multi_head(*case, scale=1),
                "少了缩放。",
                "The scale is missing.",
            ),
            Slip(
                "no output projection",
                lambda *case: _multi_head(*case, project=False),
                "拼起来的结果对了，还差最后一次投影：没有 `W_o`，各头的结果永远各待在自己的那一段里。",
                "The joined heads are right, but the last projection is missing: without `W_o` every head "
                "stays in its own slice for ever.",
            ),
            Slip(
                "joined without transposing back",
                _not_transposed_back,
                "各头都对了，拼的时候乱了：先把头换回词的后面，再合并最后两维。",
                "Every head is right, and they are scrambled when joined: bring the heads back behind the "
                "tokens before you merge the last two dimensions.",
            ),
            Slip(
                "split without transposing",
                lambda *case: _multi_head(*case, split=_split_without_transpose),
                "分头的时候乱了：直接 `reshape` 成四维会把不同的词混进一个头（练习 1）。",
                "The split scrambles: a plain `reshape` to four dimensions mixes tokens into one head "
                "(exercise 1).",
            ),
            Slip(
                "one head",
                lambda *case: _multi_head(*case[:-1], 1),
                "这是一个头的结果：`num_heads` 没有用上。",
                "This is what one head gives: `num_heads` has no effect.",
            ),
            Slip(
                "queries from the memory",
                lambda x, memory, *rest: _multi_head(memory, x, *rest),
                "角色反了：谁提问，谁就给出查询。`x` 提问，`memory` 回答。",
                "The roles are swapped: who asks gives the queries. `x` asks, `memory` answers.",
            ),
            Slip(
                "keys and values from x",
                lambda x, memory, *rest: _multi_head(x, x, *rest),
                "`memory` 没有用上：这是自注意力。这里键和值来自 `memory`。",
                "`memory` has no effect: this is self-attention. Here keys and values come from `memory`.",
            ),
            Slip(
                "softmax over the queries",
                lambda *case: _multi_head(*case, dim=-2),
                "softmax 沿着查询做了。应该是每个查询把 1 分给各个键。",
                "The softmax runs over the queries. It is each query that shares out 1 among the keys.",
            ),
            Slip(
                "softmax over the heads",
                lambda *case: _multi_head(*case, dim=1),
                "softmax 沿着头做了：多了一维以后，从后往前数才稳妥。",
                "The softmax runs over the heads: with one more dimension it is safer to count from the end.",
            ),
            Slip(
                "transposed weights",
                _transposed_weights,
                "权重乘反了：这里约定 `x @ W`，不用转置。（`nn.Linear` 里存的才是转置。）",
                "The weights are transposed: here it is `x @ W`. (It is `nn.Linear` that stores the "
                "transpose.)",
            ),
        ],
    ),
    Exercise(
        name="parameters",
        truth=4 * D_MODEL**2,
        shown=(
            "头数不在答案里：h 个头各 d/h 维，合起来还是四个 d × d 的矩阵。",
            "The number of heads is not in the answer: h heads of d/h features are still four d × d "
            "matrices.",
        ),
        slips=[
            Slip(
                "no output projection",
                3 * D_MODEL**2,
                "这是查询、键、值三个投影。拼接之后还有一个。",
                "These are the projections of queries, keys and values. There is one more after the heads "
                "are joined.",
            ),
            Slip(
                "with biases",
                4 * D_MODEL**2 + 4 * D_MODEL,
                "把偏置也算上了：`torch.nn` 有偏置，原论文的这一层没有。",
                "Biases are counted too: `torch.nn` has them, this layer in the paper has none.",
            ),
            Slip(
                "every head as wide as the model",
                (3 * NUM_HEADS + 1) * D_MODEL**2,
                "每个头都按 512 维算了。八个头分这 512 维，每头 64 维。",
                "Every head was counted with 512 features. Eight heads share the 512: 64 each.",
            ),
            Slip(
                "every head as wide as the model, output projection too",
                4 * NUM_HEADS * D_MODEL**2,
                "每个头都按 512 维算了。八个头分这 512 维，每头 64 维。",
                "Every head was counted with 512 features. Eight heads share the 512: 64 each.",
            ),
            Slip(
                "one head only",
                4 * D_MODEL**2 // NUM_HEADS,
                "这是一个头的份额，一共有八个头。",
                "This is the share of one head; there are eight.",
            ),
            Slip(
                "three projections of one head",
                3 * D_MODEL**2 // NUM_HEADS,
                "这是一个头的三个投影；还有另外七个头，以及 W^O。",
                "These are the three projections of one head; there are seven more heads, and W^O.",
            ),
        ],
    ),
    Exercise(
        name="additive_mask",
        truth=additive_mask,
        cases=[
            (torch.tensor([[0, 5, 6], [5, 6, 0]]),),
            (torch.tensor([[5, 6, 7, 8], [9, 4, 0, 0]]),),
            (torch.tensor([[0, 0, 5], [1, 9, 9]]), 9),
        ],
        shown=(
            "两个掩码用“与”合成一个；写成 0 与 −∞，它就只是加在分数上的一个矩阵。",
            "Two masks become one by “and”; written with 0 and −∞ it is just a matrix that is added to the "
            "scores.",
        ),
        slips=[
            Slip(
                "upside down",
                _of_masks(lambda words, past: _additive(~(words & past))),
                "0 和 −∞ 反了：可以看的地方，分数不变，所以加 0。",
                "0 and −∞ have changed places: where a query may attend, the score stays as it is, so add 0.",
            ),
            Slip(
                "ones and zeros",
                _of_masks(lambda words, past: (words & past).float()),
                "这是 1 和 0 的矩阵。加到分数上，它什么也没遮住：被遮的分数还是有限的。",
                "This is a matrix of ones and zeros. Added to the scores it hides nothing: masked scores "
                "are still finite.",
            ),
            Slip(
                "zeros and ones",
                _of_masks(lambda words, past: (~(words & past)).float()),
                "被遮住的地方加了 1，分数反而高了。要加多少，经过 softmax 才正好是 0？",
                "Where it is masked, 1 is added: the score even grows. What must be added for the softmax "
                "to give exactly 0?",
            ),
            Slip(
                "zero times infinity",
                _of_masks(lambda words, past: (~(words & past)).float() * -math.inf),
                "0 乘 −∞ 是 NaN：可以看的地方全成了 NaN。用 `masked_fill` 来选，不要用乘法。",
                "0 times −∞ is NaN: wherever a query may attend there is NaN now. Choose with "
                "`masked_fill` instead of multiplying.",
            ),
            Slip(
                "causal only",
                _of_masks(lambda words, past: _additive(past)),
                "未来遮住了，填充还露着。",
                "The future is hidden, and padding still shows.",
            ),
            Slip(
                "padding only",
                _of_masks(lambda words, past: _additive(words)),
                "填充遮住了，未来还露着。",
                "Padding is hidden, and the future still shows.",
            ),
            Slip(
                "or instead of and",
                _of_masks(lambda words, past: _additive(words | past)),
                "两个条件用了“或”：只要满足一个就能看。两个都满足才可以看。",
                "The two conditions are joined by “or”, so that one is enough. Both must hold.",
            ),
            Slip(
                "the past hidden",
                _of_masks(lambda words, past: _additive(words & past.transpose(-2, -1))),
                "三角取反了：现在能看自己和后面，看不到前面。行是查询，列是键。",
                "The triangle is the wrong one: each query sees itself and what comes later, not what came "
                "before. Rows are queries, columns are keys.",
            ),
            Slip(
                "without the diagonal",
                _of_masks(lambda words, past: _additive(words & past.tril(-1))),
                "对角线也遮住了：每个词应该看得见自己，否则第一个词无处可看。",
                "The diagonal is masked too: every token should see itself, or the first has nothing to "
                "attend.",
            ),
            Slip(
                "padded queries instead of keys",
                _of_masks(lambda words, past: _additive(words.transpose(-2, -1) & past)),
                "填充遮在了行上。要遮的是键：谁也不许看填充；填充自己看什么无所谓。",
                "Padding is masked along the rows. It is the keys that must be hidden: nobody may look at "
                "padding; what padding itself looks at does not matter.",
            ),
            Slip(
                "padded queries as well",
                _of_masks(lambda words, past: _additive(words & words.transpose(-2, -1) & past)),
                "填充的行也遮住了，于是这些行全是 −∞，softmax 会算出 NaN。只遮键就够了。",
                "The rows of padding are masked as well, so they are −∞ throughout and the softmax makes "
                "NaN of them. It is enough to mask the keys.",
            ),
            Slip(
                "a large number",
                _of_masks(lambda words, past: _additive(words & past, -1e9)),
                "−1e9 通常够用，但它不是 −∞：半精度装不下它。这里请用真正的 −∞。",
                "−1e9 usually does, but it is not −∞: half precision cannot hold it. Use the real −∞ here.",
            ),
            Slip(
                "the lowest number",
                _of_masks(lambda words, past: _additive(words & past, torch.finfo(torch.float32).min)),
                "最小的有限数也能遮住，我们的 `masked_softmax` 就用它；但题目要的是真正的 −∞。",
                "The lowest finite number hides as well, and our `masked_softmax` uses it; but the real −∞ "
                "is asked for here.",
            ),
            Slip(
                "padding is always 0",
                lambda tokens, pad_id=0: additive_mask(tokens),
                "`pad_id` 没有用上：填充不一定是 0 号。",
                "`pad_id` has no effect: padding need not be number 0.",
            ),
        ],
        symptoms=[
            Symptom(
                "something other than 0 and −∞",
                lambda mask, *case: bool(((mask == 0) | (mask == -math.inf)).all()),
                "加性掩码里只应该有 0 和 −∞ 两种数：",
                "An additive mask should hold nothing but 0 and −∞:",
            ),
        ],
    ),
    Exercise(
        name="polarity",
        truth=with_torch,
        cases=[
            (_MODULE, _normal(3, 2, 3, 8), _SOME),
            (_MODULE, _normal(4, 1, 5, 8), causal_mask(5)),
        ],
        shown=(
            "一个 `~` 就是全部的差别；少了它，不报错，只是看反了。",
            "A single `~` makes all the difference; without it there is no error, only the wrong view.",
        ),
        slips=[
            Slip(
                "handed over as it is",
                lambda module, x, mask: module(x, x, x, attn_mask=mask)[0],
                "掩码原样交了出去，而 `nn.MultiheadAttention` 的 True 是“遮住”：看到的正是不该看的。",
                "The mask was handed over as it is, but to `nn.MultiheadAttention` True means masked: "
                "every query sees just what it must not.",
            ),
            Slip(
                "as ones and zeros",
                lambda module, x, mask: module(x, x, x, attn_mask=mask.float())[0],
                "浮点数的掩码会加到分数上：1 和 0 几乎什么也没遮住。",
                "A float mask is added to the scores: ones and zeros hide next to nothing.",
            ),
            Slip(
                "inverted, as ones and zeros",
                lambda module, x, mask: module(x, x, x, attn_mask=(~mask).float())[0],
                "方向想对了，可是浮点数的掩码会加到分数上：该遮的反而多了 1 分。",
                "The right idea about the direction, but a float mask is added to the scores: what should "
                "be hidden gets 1 more.",
            ),
            Slip(
                "no mask",
                lambda module, x, mask: module(x, x, x)[0],
                "掩码没有用上。",
                "The mask has no effect.",
            ),
            Slip(
                "transposed",
                lambda module, x, mask: module(x, x, x, attn_mask=~mask.T)[0],
                "行和列反了：行是查询，列是键，两边都一样，不用转置。",
                "Rows and columns are swapped: rows are queries and columns are keys for both, so do not "
                "transpose.",
            ),
        ],
    ),
]
