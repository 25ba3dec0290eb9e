"""Chapter 14, the whole Transformer."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from attnbook.attention import MultiHeadAttention, causal_mask
from attnbook.exercises.core import Exercise, Slip
from attnbook.position import sinusoidal_encoding


def _normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


class _Part:
    """A part that an exercise hands to the reader's function; it is shown by its name."""

    def __init__(self, name, function):
        self.name, self.function = name, function

    def __call__(self, *arguments):
        return self.function(*arguments)

    def __repr__(self):
        return self.name


# ---------------------------------------------------------------------- feed_forward


def feed_forward(x: Tensor, W_1: Tensor, b_1: Tensor, W_2: Tensor, b_2: Tensor) -> Tensor:
    """max(0, x W_1 + b_1) W_2 + b_2, row by row."""
    return torch.relu(x @ W_1 + b_1) @ W_2 + b_2


_FEED_FORWARD_CASES = [
    (
        torch.tensor([[1.0, 2.0], [-1.0, 0.5]]),
        torch.tensor([[1.0, -1.0, 0.5], [0.0, 1.0, -2.0]]),
        torch.tensor([0.5, -2.0, 1.0]),
        torch.tensor([[1.0, 2.0], [3.0, -1.0], [1.0, 1.0]]),
        torch.tensor([-4.0, 0.25]),
    ),
    tuple(_normal(seed, *shape) for seed, shape in enumerate([(2, 5, 4), (4, 16), (16,), (16, 4), (4,)])),
]


# ---------------------------------------------------------------------- embed


def embed(tokens: Tensor, E: Tensor) -> Tensor:
    """√d · E_w + PE, for ids (batch, time) and E (vocabulary, d)."""
    return E[tokens] * math.sqrt(E.shape[1]) + sinusoidal_encoding(tokens.shape[1], E.shape[1])


def _embed_with(scale=math.sqrt, place=lambda tokens: torch.arange(tokens.shape[1]), both=False):
    def wrong(tokens, E):
        d = E.shape[1]
        position = sinusoidal_encoding(place(tokens), d)
        return (E[tokens] + position) * scale(d) if both else E[tokens] * scale(d) + position

    return wrong


_EMBED_CASES = [
    (torch.tensor([[2, 0, 2]]), _normal(0, 3, 4)),
    (torch.tensor([[1, 4, 4, 2], [3, 0, 1, 5]]), _normal(1, 6, 16)),
]


# ---------------------------------------------------------------------- add_norm


def add_norm(x: Tensor, sublayer, norm, norm_first: bool) -> Tensor:
    """One sublayer with its residual: LN(x + F(x)), or with `norm_first` x + F(LN(x))."""
    return x + sublayer(norm(x)) if norm_first else norm(x + sublayer(x))


def _norm(x):
    return F.layer_norm(x, x.shape[-1:])


_W = _normal(2, 6, 6)
_SUBLAYER = _Part("sublayer", lambda x: torch.tanh(x @ _W.to(x)) + 0.5)
_NORM = _Part("norm", lambda x: 1.5 * _norm(x) + 0.25)
_ADD_NORM_CASES = [
    (_normal(seed, 2, 3, 6) * 2 + 1, _SUBLAYER, _NORM, norm_first)
    for seed, norm_first in ((3, False), (4, True))
]


# ---------------------------------------------------------------------- decoder_layer


def decoder_layer(x: Tensor, memory: Tensor, attend, attend_memory, network, norm) -> Tensor:
    """A post-norm decoder layer."""
    x = norm(x + attend(x, x, x, causal_mask(x.shape[1])))
    x = norm(x + attend_memory(x, memory, memory, None))
    return norm(x + network(x))


def _attention(name: str, seed: int) -> _Part:
    state = torch.random.get_rng_state()
    torch.manual_seed(seed)
    module = MultiHeadAttention(8, 2).requires_grad_(False)
    torch.random.set_rng_state(state)
    return _Part(name, lambda query, key, value, mask=None: module(query, key, value, mask)[0])


_PARTS = (
    _attention("attend", 0),
    _attention("attend_memory", 1),
    _Part("network", lambda x: torch.relu(x @ _normal(5, 8, 16)) @ _normal(6, 16, 8) / 4),
    _Part("norm", _norm),
)
_DECODER_CASES = [
    (_normal(7, 1, 4, 8), _normal(8, 1, 4, 8), *_PARTS),  # as many target tokens as source tokens
    (_normal(9, 2, 3, 8), _normal(10, 2, 5, 8), *_PARTS),
]


def _decoder(
    mask=causal_mask,
    first="target",
    query="target",
    key="memory",
    value="memory",
    memory_mask=None,
    last=True,
):
    """A decoder layer with something else in one place."""

    def wrong(x, memory, attend, attend_memory, network, norm):
        def look_back(x):
            return norm(x + attend(x, x, x, mask(x.shape[1]) if mask else None))

        def look_across(x):
            parts = {"target": x, "memory": memory}
            hidden = memory_mask(x.shape[1], memory.shape[1]) if memory_mask else None
            return norm(x + attend_memory(parts[query], parts[key], parts[value], hidden))

        x = look_across(look_back(x)) if first == "target" else look_back(look_across(x))
        return norm(x + network(x)) if last else x

    return wrong


def _without_residuals(x, memory, attend, attend_memory, network, norm):
    x = norm(attend(x, x, x, causal_mask(x.shape[1])))
    x = norm(attend_memory(x, memory, memory, None))
    return norm(network(x))


def _pre_norm(x, memory, attend, attend_memory, network, norm):
    y = norm(x)
    x = x + attend(y, y, y, causal_mask(x.shape[1]))
    x = x + attend_memory(norm(x), memory, memory, None)
    return x + network(norm(x))


def _one_attention(x, memory, attend, attend_memory, network, norm):
    x = norm(x + attend(x, x, x, causal_mask(x.shape[1])))
    x = norm(x + attend(x, memory, memory, None))
    return norm(x + network(x))


# ---------------------------------------------------------------------- parameters


def parameters(d_model: int, d_ff: int, num_layers: int, vocab_size: int) -> int:
    """Of the paper's Transformer: no biases in attention, one matrix for embeddings and output."""
    return _count(d_model, d_ff, num_layers, vocab_size)


def _count(d, d_ff, N, V, matrices=4, bias=True, norms=2, attentions=3, tables=1, attention_bias=0, final=0):
    """norms: numbers a feature of a norm; attentions: in an encoder and a decoder layer together."""
    network = 2 * d * d_ff + (d_ff + d if bias else 0)
    attention = matrices * d * d + attention_bias * d
    layers = attentions * attention + 2 * network + 5 * norms * d
    return N * layers + tables * V * d + final * norms * d


def _parameters_with(**changes):
    return lambda d_model, d_ff, num_layers, vocab_size: _count(
        d_model, d_ff, num_layers, vocab_size, **changes
    )


EXERCISES = [
    Exercise(
        name="feed_forward",
        truth=feed_forward,
        cases=_FEED_FORWARD_CASES,
        shown=(
            "展宽、折弯、收窄：同一套权重走遍每一行，行与行之间什么也没有交换。",
            "Widen, bend, narrow: the same weights visit every row, and no row hears of another.",
        ),
        slips=[
            Slip(
                "no activation",
                lambda x, W_1, b_1, W_2, b_2: (x @ W_1 + b_1) @ W_2 + b_2,
                "两个仿射变换之间没有折弯，合起来只是一个仿射变换，加宽多少都没有用。",
                "There is no bend between the two affine maps. Together they are one affine map, however "
                "wide.",
            ),
            Slip(
                "activation at the end",
                lambda x, W_1, b_1, W_2, b_2: torch.relu((x @ W_1 + b_1) @ W_2 + b_2),
                "折弯放在了第二层之后。它该在两层之间；输出要加回主干，不该只有非负数。",
                "The bend comes after the second map. It belongs between the two; and the output is added "
                "to the main road, so it must be free to be negative.",
            ),
            Slip(
                "activation twice",
                lambda x, W_1, b_1, W_2, b_2: torch.relu(torch.relu(x @ W_1 + b_1) @ W_2 + b_2),
                "中间的折弯对了，最后又多折了一次：这样子层只能往主干上加非负数。",
                "The bend in the middle is right, and there is one more at the end: so the sublayer could "
                "only ever add something that is not negative.",
            ),
            Slip(
                "bias after the activation",
                lambda x, W_1, b_1, W_2, b_2: (torch.relu(x @ W_1) + b_1) @ W_2 + b_2,
                "第一个偏置加在了折弯之后。它该挪动折弯的位置，所以要在 max 里面。",
                "The first bias is added after the bend. It is there to move the bend, so it belongs inside "
                "the max.",
            ),
            Slip(
                "no biases",
                lambda x, W_1, b_1, W_2, b_2: torch.relu(x @ W_1) @ W_2,
                "两个偏置都没有用上。没有 b_1，所有的折弯都只能过原点。",
                "Neither bias is used. Without b_1, every bend has to go through the origin.",
            ),
            Slip(
                "no second bias",
                lambda x, W_1, b_1, W_2, b_2: torch.relu(x @ W_1 + b_1) @ W_2,
                "还差一个偏置：第二层也是仿射变换。",
                "One bias is missing: the second map is affine too.",
            ),
            Slip(
                "no first bias",
                lambda x, W_1, b_1, W_2, b_2: torch.relu(x @ W_1) @ W_2 + b_2,
                "第一层的偏置没有用上，所有的折弯都过原点。",
                "The first map's bias is not used, so every bend goes through the origin.",
            ),
            Slip(
                "with the residual",
                lambda x, W_1, b_1, W_2, b_2: x + feed_forward(x, W_1, b_1, W_2, b_2),
                "网络本身对了，只是多加了 x。残差由外面的“相加与归一化”来加，这里只算 F(x)。",
                "The network is right, but x is added to it. The residual is added outside, by Add & Norm; "
                "only F(x) is asked for here.",
            ),
            Slip(
                "softmax in the middle",
                lambda x, W_1, b_1, W_2, b_2: (x @ W_1 + b_1).softmax(-1) @ W_2 + b_2,
                "中间用了 softmax，单元之间要互相争抢。论文在这里用的是逐个单元的 max(0, ·)。",
                "There is a softmax in the middle, in which units compete. The paper has max(0, ·) here, "
                "unit by unit.",
            ),
            Slip(
                "gelu",
                lambda x, W_1, b_1, W_2, b_2: F.gelu(x @ W_1 + b_1) @ W_2 + b_2,
                "中间用了 GELU。后来的许多模型这样做，但这里要的是论文的 ReLU。",
                "There is a GELU in the middle. Many later models have it, but the paper's ReLU is asked "
                "for here.",
            ),
        ],
    ),
    Exercise(
        name="embed",
        truth=embed,
        cases=_EMBED_CASES,
        shown=(
            "同一个词在不同的位置得到不同的向量；乘了 √d，词义才不会被位置盖住。",
            "A word gets another vector in every place; and times √d, its meaning is not drowned by the "
            "place.",
        ),
        slips=[
            Slip(
                "no scale",
                _embed_with(lambda d: 1),
                "位置加上了，嵌入却没有放大：在真实的尺寸下，位置会盖过词义。",
                "The position is there, but the embedding was not scaled up: at real sizes the position "
                "would drown the word.",
            ),
            Slip(
                "divided by the root",
                _embed_with(lambda d: 1 / math.sqrt(d)),
                "缩放的方向反了：这里要放大嵌入。（除以 √d_k 的是注意力的分数。）",
                "The scale goes the wrong way: embeddings are enlarged here. (It is attention's scores that "
                "are divided by √d_k.)",
            ),
            Slip(
                "times d",
                _embed_with(lambda d: d),
                "放大了 d 倍；要的是 d 的平方根。",
                "That is times d; its square root is wanted.",
            ),
            Slip(
                "the sum is scaled",
                _embed_with(both=True),
                "先加了位置再放大，位置也跟着大了，两者的比例没有变。只放大嵌入。",
                "The position was added before the scaling and grew with it, so their ratio is as it was. "
                "Scale the embedding only.",
            ),
            Slip(
                "positions from 1",
                _embed_with(place=lambda tokens: torch.arange(1, tokens.shape[1] + 1)),
                "位置从 1 数起了；本书（和论文的公式）从 0 数起。",
                "Positions were counted from 1; this book (and the paper's formula) counts from 0.",
            ),
            Slip(
                "position of the id",
                _embed_with(place=lambda tokens: tokens),
                "位置取成了词的编号：同一个词无论站在哪里，都得到同一个向量。",
                "The position was looked up by the token's id: a word would get the same vector in every "
                "place.",
            ),
            Slip(
                "no position",
                lambda tokens, E: E[tokens] * math.sqrt(E.shape[1]),
                "嵌入放大了，位置还没有加：这样模型看到的仍是一个集合。",
                "The embedding is scaled, the position is missing: to the model this would still be a set.",
            ),
            Slip(
                "only the embedding",
                lambda tokens, E: E[tokens],
                "嵌入取对了，还差两步：放大，加上位置。",
                "The rows of E are right; two steps are missing: scale them, and add the position.",
            ),
        ],
    ),
    Exercise(
        name="add_norm",
        truth=add_norm,
        cases=_ADD_NORM_CASES,
        shown=(
            "两种次序是两个函数：一个把归一化放在主干上，一个放在支路上。",
            "The two orders are two functions: one has the norm on the main road, the other on the side "
            "road.",
        ),
        slips=[
            Slip(
                "no residual",
                lambda x, sublayer, norm, norm_first: sublayer(norm(x)) if norm_first else norm(sublayer(x)),
                "没有把 x 加回去：残差连接不见了。",
                "x is not added back: the residual connection is gone.",
            ),
            Slip(
                "the norm on the branch only",
                lambda x, sublayer, norm, norm_first: (
                    x + sublayer(norm(x)) if norm_first else x + norm(sublayer(x))
                ),
                "后归一化要归一的是**和**，不是子层的输出。",
                "Post-norm normalises the **sum**, not what the sublayer puts out.",
            ),
            Slip(
                "the residual from the normalised x",
                lambda x, sublayer, norm, norm_first: (
                    norm(x) + sublayer(norm(x)) if norm_first else norm(x + sublayer(x))
                ),
                "前归一化时加回去的是归一化过的 x。主干上走的应当是 x 本身，只有支路先归一化。",
                "With pre-norm you add the normalised x. On the main road x itself goes on; only the branch "
                "is normalised first.",
            ),
            Slip(
                "pre-norm for post-norm",
                lambda x, sublayer, norm, norm_first: x + sublayer(norm(x)),
                "`norm_first=False` 要的是论文的后归一化，这里算出的是前归一化。",
                "`norm_first=False` asks for the paper's post-norm, and this is pre-norm.",
            ),
            Slip(
                "post-norm for pre-norm",
                lambda x, sublayer, norm, norm_first: norm(x + sublayer(x)),
                "后归一化对了；`norm_first=True` 要的是前归一化，这里没有换次序。",
                "Post-norm is right; but `norm_first=True` asks for pre-norm, which is another order.",
            ),
            Slip(
                "normalised before and after",
                lambda x, sublayer, norm, norm_first: (
                    x + sublayer(norm(x)) if norm_first else norm(x + sublayer(norm(x)))
                ),
                "后归一化多归一了一次：子层应当直接拿到 x。",
                "With post-norm there is one norm too many: the sublayer gets x as it is.",
            ),
            Slip(
                "no norm",
                lambda x, sublayer, norm, norm_first: x + sublayer(x),
                "残差对了，归一化还没有用上。",
                "The residual is right; the norm is not used yet.",
            ),
        ],
    ),
    Exercise(
        name="decoder_layer",
        truth=decoder_layer,
        cases=_DECODER_CASES,
        shown=(
            "三个子层：回头看自己，转头看记忆，再各自想一想。",
            "Three sublayers: look back at oneself, look across at the memory, then think, each for itself.",
        ),
        slips=[
            Slip(
                "no causal mask",
                _decoder(mask=None),
                "自注意力没有用因果掩码：训练时每个词都能偷看答案。",
                "Self-attention has no causal mask: in training every token could peek at the answer.",
            ),
            Slip(
                "inverted mask",
                _decoder(mask=lambda n: ~causal_mask(n)),
                "掩码的含义反了：本书里 True 表示“可以看”。",
                "The mask is the wrong way round: in this book True means “may attend”.",
            ),
            Slip(
                "queries from the memory",
                _decoder(query="memory", key="target", value="target"),
                "交叉注意力里的角色反了：是译文在提问，源句等着被问。",
                "The parts in cross-attention are exchanged: it is the target that asks, and the source "
                "that is asked.",
            ),
            Slip(
                "values from the target",
                _decoder(value="target"),
                "键来自记忆，值却来自译文：看对了地方，取回的却不是那里的内容。",
                "Keys come from the memory but values from the target: it looks at the right place, and "
                "fetches something else.",
            ),
            Slip(
                "cross-attention to itself",
                _decoder(key="target", value="target"),
                "第二个注意力又看了一遍自己，记忆没有用上：这个解码器不知道源句说了什么。",
                "The second attention looks at the target once more, and the memory is not used: this "
                "decoder does not know what the source says.",
            ),
            Slip(
                "causal mask on the memory",
                _decoder(memory_mask=lambda n, m: torch.ones(n, m, dtype=torch.bool).tril()),
                "交叉注意力也用了因果掩码。源句已经整句读完，译文的第一个词就可以看它的最后一个词。",
                "Cross-attention has a causal mask too. The source has been read to its end, and the first "
                "target token may look at its last word.",
            ),
            Slip(
                "cross-attention first",
                _decoder(first="memory"),
                "两个注意力的次序反了：先回头看译文，再去问源句。",
                "The two attentions are in the other order: first look back at the target, then ask the "
                "source.",
            ),
            Slip(
                "no feed-forward network",
                _decoder(last=False),
                "两个注意力都对了，还差第三个子层。",
                "Both attentions are right; the third sublayer is missing.",
            ),
            Slip(
                "one attention for both",
                _one_attention,
                "两次都用了 `attend`。交叉注意力有它自己的权重：`attend_memory`。",
                "`attend` was used both times. Cross-attention has weights of its own: `attend_memory`.",
            ),
            Slip(
                "no residuals",
                _without_residuals,
                "三个子层都对了，但没有残差连接。",
                "The three sublayers are right, but they have no residual connections.",
            ),
            Slip(
                "pre-norm",
                _pre_norm,
                "这是前归一化的解码器层；这里要的是论文的后归一化。",
                "That is the decoder layer with pre-norm; the paper's post-norm is asked for here.",
            ),
        ],
    ),
    Exercise(
        name="parameters",
        truth=parameters,
        cases=[(8, 40, 1, 50), (512, 2048, 6, 37_000)],
        tolerance=(0.0, 0.5),
        shown=(
            "一页纸就能数清一台 Transformer；base 里不到三分之一是词表，其余几乎全在层里的矩阵中。",
            "A sheet of paper is enough to count a Transformer; in the base model the vocabulary is less "
            "than a third, and nearly all the rest sits in the matrices of its layers.",
        ),
        slips=[
            Slip(
                "three embedding matrices",
                _parameters_with(tables=3),
                "词表矩阵数了三次；两个嵌入和输出投影共用一个。",
                "The vocabulary's matrix was counted three times; both embeddings and the output share one.",
            ),
            Slip(
                "two embedding matrices",
                _parameters_with(tables=2),
                "词表矩阵数了两次；两个嵌入和输出投影共用一个。",
                "The vocabulary's matrix was counted twice; both embeddings and the output share one.",
            ),
            Slip(
                "no embedding matrix",
                _parameters_with(tables=0),
                "层都数对了，词表矩阵还没有数。",
                "The layers are right; the vocabulary's matrix is not counted yet.",
            ),
            Slip(
                "no W_O",
                _parameters_with(matrices=3),
                "每个注意力少数了一个矩阵：拼接之后还有 W_O。",
                "One matrix of every attention is missing: there is W_O after the concatenation.",
            ),
            Slip(
                "one attention in a decoder layer",
                _parameters_with(attentions=2),
                "解码器层少数了一个注意力：它有自注意力，也有交叉注意力。",
                "An attention of the decoder layers is missing: they have self-attention and "
                "cross-attention.",
            ),
            Slip(
                "no biases",
                _parameters_with(bias=False),
                "前馈网络的偏置没有数：d_ff 个加 d 个。",
                "The biases of the feed-forward networks are missing: d_ff and d of them.",
            ),
            Slip(
                "biases in the attentions",
                _parameters_with(attention_bias=4),
                "注意力的投影多数了偏置：`torch` 的有，论文的没有。",
                "Biases were counted in attention's projections: `torch`'s have them, the paper's do not.",
            ),
            Slip(
                "no norms",
                _parameters_with(norms=0),
                "归一化没有数：每个都有缩放和平移，各 d 个数；每个子层一个。",
                "The norms are missing: each has a scale and a shift of d numbers, and each sublayer has "
                "one.",
            ),
            Slip(
                "one number a feature in a norm",
                _parameters_with(norms=1),
                "每个归一化有缩放也有平移，是 2d 个数，不是 d 个。",
                "A norm has a scale and a shift: 2d numbers, not d.",
            ),
            Slip(
                "final norms",
                _parameters_with(final=2),
                "多数了两个出口处的归一化：`nn.Transformer` 有，论文的后归一化没有。",
                "Two norms at the exits were counted: `nn.Transformer` has them, the paper's post-norm does "
                "not.",
            ),
            Slip(
                "one stack",
                lambda d_model, d_ff, num_layers, vocab_size: (
                    num_layers * (4 * d_model**2 + 2 * d_model * d_ff + d_ff + d_model + 4 * d_model)
                    + vocab_size * d_model
                ),
                "只数了编码器；解码器也有同样多的层。",
                "Only the encoder was counted; the decoder has as many layers.",
            ),
        ],
    ),
]
