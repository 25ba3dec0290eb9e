r"""Decoder-only models: one stack that continues a sequence (Radford et al. 2019).

Conversion became continuation: there is no encoder and no cross-attention. A block is a Transformer layer
whose self-attention is causal, in pre-norm order,

$$x \leftarrow x + \mathrm{Attention}(\mathrm{Norm}(x)), \qquad
  x \leftarrow x + \mathrm{FFN}(\mathrm{Norm}(x)),$$

with one more norm before the output. To translate, the source is put before the target as a prefix: source,
separator and target are one sequence (`TranslatingGPT`).

What changed since 2017, each an option of `GPTConfig`:

| option | instead of | source |
|---|---|---|
| pre-norm, always here | post-norm | Xiong et al. 2020 |
| `norm="rmsnorm"` | LayerNorm | Zhang & Sennrich 2019 |
| `position="rotary"` | learned positions | Su et al. 2021 |
| `num_key_value_heads` below `num_heads` | one key and value head a query head | Ainslie et al. 2023 |

The last one is for the cache. Decoding keeps the keys and values of all tokens so far,
$2 \cdot \mathrm{layers} \cdot \mathrm{heads}_{kv} \cdot d_k$ numbers a token (`kv_cache_bytes`); query
heads that share keys and values make it smaller.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from attnbook._validation import (
    check_choice,
    check_even,
    check_ids,
    check_positive,
    check_probability,
    check_tokens,
)
from attnbook.attention import MultiHeadAttention, causal_mask
from attnbook.feedforward import FeedForward
from attnbook.normalization import LayerNorm, RMSNorm, residual
from attnbook.position import LearnedPosition
from attnbook.transformer import KeyValue, attend_self

__all__ = [
    "GPT",
    "Block",
    "GPTConfig",
    "GroupedQueryAttention",
    "TranslatingGPT",
    "join_sequences",
    "kv_cache_bytes",
]

NORMS = {"layernorm": LayerNorm, "rmsnorm": RMSNorm}


@dataclass(frozen=True)
class GPTConfig:
    """The sizes and choices of a `GPT`.

    Args:
        vocab_size: number of token ids.
        d_model: features of a token, everywhere between the blocks.
        num_heads: query heads of every attention; must divide `d_model`.
        num_layers: number of blocks.
        d_ff: inner width of the feed-forward networks; default 4 · d_model.
        dropout: on the sum of embedding and position, and on what each sublayer adds.
        max_len: number of learned positions; rotary ones have no limit.
        norm: "layernorm" or "rmsnorm".
        position: "learned" or "rotary".
        num_key_value_heads: heads of keys and values, a divisor of `num_heads`; default `num_heads`.
        bias: whether the attentions' projections have biases.
        tie_weights: whether embedding and output are one matrix.

    Raises:
        TypeError, ValueError: sizes that are not positive or do not fit each other, unknown choices.
    """

    vocab_size: int
    d_model: int = 256
    num_heads: int = 8
    num_layers: int = 6
    d_ff: int | None = None
    dropout: float = 0.1
    max_len: int = 512
    norm: str = "layernorm"
    position: str = "learned"
    num_key_value_heads: int | None = None
    bias: bool = False
    tie_weights: bool = True

    def __post_init__(self):
        check_positive(vocab_size=self.vocab_size, d_model=self.d_model, num_heads=self.num_heads)
        if self.d_ff is None:
            object.__setattr__(self, "d_ff", 4 * self.d_model)
        if self.num_key_value_heads is None:
            object.__setattr__(self, "num_key_value_heads", self.num_heads)
        check_positive(num_layers=self.num_layers, d_ff=self.d_ff, max_len=self.max_len)
        check_positive(num_key_value_heads=self.num_key_value_heads)
        check_probability(dropout=self.dropout)
        check_choice(tuple(NORMS), norm=self.norm)
        check_choice(("learned", "rotary"), position=self.position)
        _check_divides(num_heads=self.num_heads, d_model=self.d_model)
        _check_divides(num_key_value_heads=self.num_key_value_heads, num_heads=self.num_heads)
        if self.position == "rotary":
            check_even(**{"d_model / num_heads": self.d_model // self.num_heads})

    @classmethod
    def gpt2(cls) -> "GPTConfig":
        """The smallest GPT-2, of 124 million parameters (Radford et al. 2019, table 2: 117 million)."""
        return cls(50257, d_model=768, num_heads=12, num_layers=12, max_len=1024, bias=True)


class GroupedQueryAttention(MultiHeadAttention):
    """Multi-head attention with fewer heads of keys and values (Ainslie et al. 2023, section 2.2).

    `num_heads / num_key_value_heads` query heads in a row share one head of keys and values. With as many of
    them as query heads it is `MultiHeadAttention`; with one it is multi-query attention (Shazeer 2019).

    Args:
        d_model, num_heads, dropout, bias: as in `MultiHeadAttention`.
        num_key_value_heads: a divisor of `num_heads`.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        num_key_value_heads: int,
        dropout: float = 0.0,
        bias: bool = False,
    ):
        super().__init__(d_model, num_heads, dropout, bias)
        check_positive(num_key_value_heads=num_key_value_heads)
        _check_divides(num_key_value_heads=num_key_value_heads, num_heads=num_heads)
        self.num_key_value_heads = num_key_value_heads
        self.W_k = nn.Linear(d_model, num_key_value_heads * self.d_k, bias=bias)
        self.W_v = nn.Linear(d_model, num_key_value_heads * self.d_k, bias=bias)

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, need_weights: bool = True
    ) -> tuple[Tensor, Tensor | None]:
        """As in `MultiHeadAttention`, with k and v (batch, key_value_heads, key, d_k)."""
        group = self.num_heads // self.num_key_value_heads
        if group > 1:
            k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        return super().attend(q, k, v, mask, need_weights)


class Block(nn.Module):
    """Causal self-attention, then the feed-forward network, each in pre-norm order.

    Args:
        config: sizes and choices.
    """

    def __init__(self, config: GPTConfig):
        super().__init__()
        self.rotary = config.position == "rotary"
        self.self_attention = GroupedQueryAttention(
            config.d_model, config.num_heads, config.num_key_value_heads, bias=config.bias
        )
        self.feed_forward = FeedForward(config.d_model, config.d_ff, activation="gelu")
        self.norm_1, self.norm_2 = NORMS[config.norm](config.d_model), NORMS[config.norm](config.d_model)
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self, x: Tensor, mask: Tensor | None = None, past: KeyValue | None = None, need_weights: bool = False
    ) -> tuple[Tensor, Tensor | None, KeyValue]:
        """One block up.

        Args:
            x: (batch, time, d_model).
            mask: bool, broadcastable to (batch, heads, time, past + time); True = may attend.
            past: keys and values of the tokens before `x`, from an earlier call.
            need_weights: False uses the fused kernel.

        Returns:
            (batch, time, d_model), the weights (batch, heads, time, past + time) or None, and the keys and
            values of all tokens so far.
        """

        def attend(y: Tensor) -> tuple:
            return attend_self(self.self_attention, y, mask, need_weights, self.rotary, past)

        x, weights, past = residual(x, attend, self.norm_1, norm_first=True, dropout=self.dropout)
        x = residual(x, self.feed_forward, self.norm_2, norm_first=True, dropout=self.dropout)
        return x, weights, past


class GPT(nn.Module):
    """A decoder-only language model, from token ids to the logits of the token after each.

    Args:
        config: sizes and choices.
    """

    def __init__(self, config: GPTConfig):
        super().__init__()
        if not isinstance(config, GPTConfig):
            raise TypeError(f"config: expected a GPTConfig, found {type(config).__name__}")
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        learned = config.position == "learned"
        self.position = LearnedPosition(config.max_len, config.d_model) if learned else None
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.num_layers))
        self.norm = NORMS[config.norm](config.d_model)
        self.output = nn.Linear(config.d_model, config.vocab_size, bias=False)
        self.dropout = nn.Dropout(config.dropout)
        if config.tie_weights:
            self.output.weight = self.embedding.weight
        # The sum that runs through the blocks grows with every sublayer; those that add to it start smaller
        # the more of them there are (Radford et al. 2019, section 2.3).
        added = 0.02 / math.sqrt(2 * config.num_layers)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=added if name.endswith(("W_o.weight", "W_2.weight")) else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, tokens: Tensor, need_weights: bool = False) -> Tensor | tuple[Tensor, Tensor]:
        """The logits of each next token, for all positions in one pass.

        Args:
            tokens: ids (batch, time). Padding at the end needs no mask: no word looks ahead at it.
            need_weights: whether to return the attention weights too; without them the fused kernel runs.

        Returns:
            logits (batch, time, vocab_size); with `need_weights` the pair of that and the weights
            (layers, batch, heads, query, key).

        Raises:
            TypeError, ValueError: ids that are no integers, out of range, or too many for learned positions.
        """
        logits, weights, _ = self._read(tokens, [None] * len(self.blocks), need_weights)
        return (logits, torch.stack(weights)) if need_weights else logits

    def start(self, prompt: Tensor) -> tuple[KeyValue, ...]:
        """The cache after a prompt, whose last token is left for `step`.

        Args:
            prompt: ids (batch, time) without padding; `time` may be 0.

        Returns:
            For each block the pair of keys and values, (batch, key_value_heads, time, d_k) each.
        """
        check_ids("prompt", prompt, self.config.vocab_size, "batch", "time")
        attention = self.blocks[0].self_attention
        nothing = self.embedding.weight.new_zeros(
            len(prompt), attention.num_key_value_heads, 0, attention.d_k
        )
        cache = ((nothing, nothing),) * len(self.blocks)
        return self._read(prompt, cache)[2] if prompt.numel() else cache

    def step(self, token: Tensor, cache: tuple[KeyValue, ...]) -> tuple[Tensor, tuple[KeyValue, ...]]:
        """The logits of the token after `token`: the last row of `forward` over all tokens so far.

        Args:
            token: ids (batch,).
            cache: from `start` or from the last step.

        Returns:
            logits (batch, vocab_size), and the cache for the next step.
        """
        logits, _, cache = self._read(token[:, None], cache)
        return logits.squeeze(1), cache

    def _read(self, tokens, cache, need_weights=False):
        check_tokens("tokens", tokens, self.config.vocab_size, "batch", "time")
        time = tokens.shape[1]
        offset = 0 if cache[0] is None else cache[0][0].shape[2]
        x = self.embedding(tokens)  # (batch, time, d_model)
        x = self.dropout(x if self.position is None else self.position(x, offset))
        mask = causal_mask(time, offset + time, tokens.device) if time > 1 else None
        all_weights, after = [], []
        for block, past in zip(self.blocks, cache, strict=True):
            x, weights, past = block(x, mask, past, need_weights)
            all_weights.append(weights)
            after.append(past)
        return self.output(self.norm(x)), all_weights, tuple(after)  # (batch, time, vocab_size)


class TranslatingGPT(GPT):
    """A GPT as a translator: the source is its prompt, the translation its continuation.

    A pair is one sequence in one vocabulary: source, `<bos>`, target, `<eos>`. The separator `<bos>` says
    that the source is over. `forward` is for training; to decode is to continue a prompt, as for any GPT.

    Args:
        config: sizes and choices; `vocab_size` counts the tokens of both languages.
    """

    def forward(self, src: Tensor, tgt: Tensor, need_weights: bool = False) -> Tensor | tuple[Tensor, Tensor]:
        """Teacher forcing: the logits of each next target token, for all positions in one pass.

        Args:
            src: the prompts, ids (batch, source): source and `<bos>`, padding (id 0) at the end.
            tgt: ids (batch, target) from `<bos>` on, padding at the end.
            need_weights: whether to return the attention weights too.

        Returns:
            logits (batch, target, vocab_size); with `need_weights` the pair of that and the weights
            (layers, batch, heads, query, key) within the joined sequences.

        Raises:
            TypeError, ValueError: as in `GPT.forward`.
        """
        tokens = join_sequences(src, tgt[:, 1:])  # (batch, source + target - 1); <bos> is there
        logits = super().forward(tokens, need_weights)
        logits, *weights = logits if need_weights else (logits,)
        first = (src != 0).sum(dim=1, keepdim=True) - 1  # (batch, 1): where <bos> stands
        places = first + torch.arange(tgt.shape[1], device=tgt.device)  # (batch, target)
        logits = logits.gather(1, places[:, :, None].expand(-1, -1, logits.shape[-1]))
        return (logits, *weights) if need_weights else logits  # (batch, target, vocab_size)


def join_sequences(first: Tensor, second: Tensor) -> Tensor:
    """One sequence of each pair: the words of `first`, the words of `second`, then all the padding (id 0).

    Args:
        first, second: ids (batch, time) of any two lengths.

    Returns:
        ids (batch, first + second).
    """
    both = torch.cat([first, second], dim=1)  # (batch, first + second)
    words_first = (both == 0).int().argsort(dim=1, stable=True)  # stable: words keep their order
    return both.gather(1, words_first)


def kv_cache_bytes(config: GPTConfig, batch_size: int, length: int, bytes_per_number: int = 4) -> int:
    r"""The size of the cache: $2 \cdot layers \cdot batch \cdot heads_{kv} \cdot length \cdot d_k$ numbers.

    The 2 stands for keys and values.

    Args:
        config: the model.
        batch_size, length: number of sequences, and of tokens in each.
        bytes_per_number: 4 for float32, 2 for float16.
    """
    check_positive(batch_size=batch_size, length=length, bytes_per_number=bytes_per_number)
    d_k = config.d_model // config.num_heads
    numbers = 2 * config.num_layers * batch_size * config.num_key_value_heads * length * d_k
    return numbers * bytes_per_number


def _check_divides(**sizes: int) -> None:
    """The first keyword argument must divide the second."""
    (name, divisor), (whole_name, whole) = sizes.items()
    if whole % divisor:
        raise ValueError(f"{name}: expected a divisor of {whole_name} = {whole}, found {divisor}")
