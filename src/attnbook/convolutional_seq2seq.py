r"""The convolutional translator: windows instead of self-attention (Gehring et al. 2017).

Encoder, decoder and cross-attention are put together as in `transformer`. What differs is how the tokens of
one sentence learn of each other: not by attention, but through the window of a gated convolution,

$$[a_t; b_t] = b + \sum_{j=0}^{k-1} W_j\,x_{t + (j - c)\delta}, \qquad F(x)_t = a_t \odot \sigma(b_t) .$$

In the encoder the window is centred, $c = (k-1)/2$. In the decoder it ends at the newest token, $c = k-1$:
it is causal, and no mask is needed. The gate $\sigma(b_t)$ is the nonlinearity (Dauphin et al. 2017), so
that there is no feed-forward network. Layer $l = 0, 1, \dots$ has the dilation $\delta = g^l$. With $g = 1$
each layer lets a token see $k - 1$ tokens more, with $g = 2$ the reach doubles from layer to layer.

| sublayer | encoder layer | decoder layer |
|---|---|---|
| convolution | each source token sees its neighbours | each target token sees those just before it |
| cross-attention | | queries from the target, keys and values from the memory |

Every sublayer is in pre-norm order, $x + F(\mathrm{LN}(x))$, and each stack ends with one more norm. The
paper has learned positions, one head, and weight normalization instead; its attention adds the embeddings
to the values.

**Padding** (id 0) is zero before every convolution, like the nothing beside a sentence, and hidden from
cross-attention by a mask.

**Decoding** keeps the last $(k-1)\delta$ inputs of each convolution in a cache, a value that is passed in and
returned. Unlike a cache of keys and values it does not grow.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnbook._validation import check_even, check_positive, check_probability, check_tokens
from attnbook.attention import MultiHeadAttention, padding_mask
from attnbook.convolution import conv1d
from attnbook.normalization import LayerNorm, residual
from attnbook.position import SinusoidalPosition
from attnbook.transformer import KeyValue

__all__ = [
    "ConvolutionalDecoderLayer",
    "ConvolutionalEncoderLayer",
    "ConvolutionalSeq2Seq",
    "ConvolutionalSeq2SeqConfig",
    "GatedConvolution",
]


@dataclass(frozen=True)
class ConvolutionalSeq2SeqConfig:
    """The sizes and choices of a `ConvolutionalSeq2Seq`.

    Args:
        src_vocab_size, tgt_vocab_size: number of token ids of the source and of the target; id 0 is padding.
        d_model: features of a token, everywhere between the layers; even.
        num_heads: heads of every cross-attention; must divide `d_model`.
        num_encoder_layers, num_decoder_layers: depth of the two stacks.
        kernel_size: number of taps of every convolution; odd, because the encoder's windows are centred.
        growth: factor g from the dilation of a layer to that of the next; 1 for neighbours in every layer.
        dropout: on the sum of embedding and position, and on what each sublayer adds.

    Raises:
        TypeError, ValueError: sizes that are not positive or do not fit each other.
    """

    src_vocab_size: int
    tgt_vocab_size: int
    d_model: int = 256
    num_heads: int = 4
    num_encoder_layers: int = 4
    num_decoder_layers: int = 4
    kernel_size: int = 3
    growth: int = 1
    dropout: float = 0.1

    def __post_init__(self):
        check_positive(src_vocab_size=self.src_vocab_size, tgt_vocab_size=self.tgt_vocab_size)
        check_positive(num_heads=self.num_heads, kernel_size=self.kernel_size, growth=self.growth)
        check_positive(num_encoder_layers=self.num_encoder_layers, num_decoder_layers=self.num_decoder_layers)
        check_even(d_model=self.d_model)
        check_probability(dropout=self.dropout)
        if self.d_model % self.num_heads:
            raise ValueError(
                f"num_heads: expected a divisor of d_model = {self.d_model}, found {self.num_heads}"
            )
        if self.kernel_size % 2 == 0:
            raise ValueError(
                "kernel_size: expected an odd number (the encoder's windows are centred), "
                f"found {self.kernel_size}"
            )


class GatedConvolution(nn.Module):
    r"""A convolution with a gate, $a \odot \sigma(b)$, of kept length (Gehring et al. 2017, section 3.2).

    Args:
        d_model: number of features that come in and go out.
        kernel_size: number of taps.
        dilation: distance between two taps.
        causal: whether the window ends at its position instead of being centred there.
    """

    def __init__(self, d_model: int, kernel_size: int, dilation: int = 1, causal: bool = False):
        super().__init__()
        check_positive(d_model=d_model, kernel_size=kernel_size, dilation=dilation)
        self.dilation, self.reach = dilation, (kernel_size - 1) * dilation
        self.padding = (self.reach, 0) if causal else (self.reach // 2, self.reach - self.reach // 2)
        # A gate that is half open halves what passes: four times the variance keeps the size of the features
        # (Gehring et al. 2017, section 3.5).
        self.weight = nn.Parameter(torch.empty(2 * d_model, d_model, kernel_size))
        nn.init.normal_(self.weight, std=math.sqrt(4 / (d_model * kernel_size)))
        self.bias = nn.Parameter(torch.zeros(2 * d_model))

    def forward(self, x: Tensor) -> Tensor:
        """(batch, time, d_model) -> (batch, time, d_model).

        Raises:
            TypeError, ValueError: `x` of another shape or type, or without a time step.
        """
        return F.glu(conv1d(x, self.weight, self.bias, self.dilation, self.padding), dim=-1)

    def step(self, x: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        """The newest output of a causal convolution, from the newest input and those in its window before it.

        Args:
            x: (batch, 1, d_model).
            past: (batch, reach, d_model), zeros where there was nothing yet.

        Returns:
            (batch, 1, d_model), and the next step's `past`.
        """
        window = torch.cat([past, x], dim=1)  # (batch, reach + 1, d_model)
        y = F.glu(conv1d(window, self.weight, self.bias, self.dilation), dim=-1)  # (batch, 1, d_model)
        return y, window[:, 1:]


class ConvolutionalEncoderLayer(nn.Module):
    """A centred convolution, with its residual and norm.

    Args:
        d_model, kernel_size, dropout: as in `ConvolutionalSeq2SeqConfig`.
        dilation: distance between two taps.
    """

    def __init__(self, d_model: int, kernel_size: int, dilation: int = 1, dropout: float = 0.1):
        super().__init__()
        self.convolution = GatedConvolution(d_model, kernel_size, dilation)
        self.norm = LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, words: Tensor | None = None) -> Tensor:
        """One layer up.

        Args:
            x: (batch, source, d_model).
            words: bool (batch, source), False at the padding; default: all are words.

        Returns:
            (batch, source, d_model).
        """

        def convolve(y: Tensor) -> Tensor:
            return self.convolution(y if words is None else y.masked_fill(~words[..., None], 0.0))

        return residual(x, convolve, self.norm, norm_first=True, dropout=self.dropout)


class ConvolutionalDecoderLayer(nn.Module):
    """A causal convolution, then cross-attention to the memory, each with its residual and norm.

    Args:
        d_model, num_heads, kernel_size, dropout: as in `ConvolutionalSeq2SeqConfig`.
        dilation: distance between two taps.
    """

    def __init__(
        self, d_model: int, num_heads: int, kernel_size: int, dilation: int = 1, dropout: float = 0.1
    ):
        super().__init__()
        self.convolution = GatedConvolution(d_model, kernel_size, dilation, causal=True)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.norm_1, self.norm_2 = LayerNorm(d_model), LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, x: Tensor, memory: Tensor, memory_mask: Tensor | None = None, need_weights: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        """One layer up, for all target positions at once.

        Args:
            x: (batch, target, d_model).
            memory: the encoder's output, (batch, source, d_model).
            memory_mask: bool, broadcastable to (batch, heads, target, source); True = may attend.
            need_weights: whether to return the attention weights too.

        Returns:
            (batch, target, d_model); with `need_weights` the pair of that and the weights
            (batch, heads, target, source).
        """
        x = residual(x, self.convolution, self.norm_1, norm_first=True, dropout=self.dropout)
        memory_kv = self.cross_attention.project_key_value(memory, memory)
        x, weights = self._attend(x, memory_kv, memory_mask, need_weights)
        return (x, weights) if need_weights else x

    def start(self, memory: Tensor) -> tuple[Tensor, KeyValue]:
        """The cache before the first token: an empty window, and the keys and values of the memory."""
        window = memory.new_zeros(len(memory), self.convolution.reach, memory.shape[2])
        return window, self.cross_attention.project_key_value(memory, memory)

    def step(
        self, x: Tensor, cache: tuple[Tensor, KeyValue], memory_mask: Tensor | None = None
    ) -> tuple[Tensor, tuple[Tensor, KeyValue]]:
        """One layer up for the newest token only, x (batch, 1, d_model); returns the next cache too."""
        past, memory_kv = cache

        def convolve(y: Tensor) -> tuple[Tensor, Tensor]:
            return self.convolution.step(y, past)

        x, window = residual(x, convolve, self.norm_1, norm_first=True, dropout=self.dropout)
        x, _ = self._attend(x, memory_kv, memory_mask, need_weights=False)
        return x, (window, memory_kv)

    def _attend(self, x, memory_kv, memory_mask, need_weights):
        def attend(y: Tensor) -> tuple:
            q = self.cross_attention.project_query(y)  # (batch, heads, target, d_k)
            return self.cross_attention.attend(q, *memory_kv, memory_mask, need_weights)

        return residual(x, attend, self.norm_2, norm_first=True, dropout=self.dropout)


class ConvolutionalSeq2Seq(nn.Module):
    """The whole model, from token ids to logits; the output matrix is the target's embedding again.

    Args:
        config: sizes and choices.
    """

    def __init__(self, config: ConvolutionalSeq2SeqConfig):
        super().__init__()
        if not isinstance(config, ConvolutionalSeq2SeqConfig):
            raise TypeError(f"config: expected a ConvolutionalSeq2SeqConfig, found {type(config).__name__}")
        self.config = config
        d_model, kernel_size, dropout = config.d_model, config.kernel_size, config.dropout
        self.src_embedding = nn.Embedding(config.src_vocab_size, d_model)
        self.tgt_embedding = nn.Embedding(config.tgt_vocab_size, d_model)
        self.position = SinusoidalPosition(d_model)
        self.encoder = nn.ModuleList(
            ConvolutionalEncoderLayer(d_model, kernel_size, config.growth**layer, dropout)
            for layer in range(config.num_encoder_layers)
        )
        self.decoder = nn.ModuleList(
            ConvolutionalDecoderLayer(d_model, config.num_heads, kernel_size, config.growth**layer, dropout)
            for layer in range(config.num_decoder_layers)
        )
        self.encoder_norm, self.decoder_norm = LayerNorm(d_model), LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)
        # Times √d the embeddings have variance 1, and so have the logits.
        nn.init.normal_(self.src_embedding.weight, std=d_model**-0.5)
        nn.init.normal_(self.tgt_embedding.weight, std=d_model**-0.5)

    def forward(self, src: Tensor, tgt: Tensor, need_weights: bool = False) -> Tensor | tuple[Tensor, Tensor]:
        """Teacher forcing: the logits of each next target token, for all positions in one pass.

        Args:
            src: token ids (batch, source), padding (id 0) at the end.
            tgt: token ids (batch, target) from `<bos>` on, padding at the end.
            need_weights: whether to return the attention weights too.

        Returns:
            logits (batch, target, tgt_vocab_size), at each position for the token after it; with
            `need_weights` the pair of that and the weights (layers, batch, heads, target, source).

        Raises:
            TypeError, ValueError: ids that are no integers or out of range.
        """
        memory, memory_mask = self.encode(src), padding_mask(src)
        x = self._embed("tgt", tgt, self.tgt_embedding)  # (batch, target, d_model)
        weights = []
        for layer in self.decoder:
            x = layer(x, memory, memory_mask, need_weights)
            if need_weights:
                x, layer_weights = x
                weights.append(layer_weights)
        logits = self._predict(x)
        return (logits, torch.stack(weights)) if need_weights else logits

    def encode(self, src: Tensor) -> Tensor:
        """The memory of a source, ids (batch, source) -> (batch, source, d_model)."""
        x = self._embed("src", src, self.src_embedding)  # (batch, source, d_model)
        for layer in self.encoder:
            x = layer(x, src != 0)
        return self.encoder_norm(x)

    def start(self, memory: Tensor, memory_mask: Tensor | None = None) -> tuple:
        """The cache before the first target token.

        Args:
            memory: (batch, source, d_model).
            memory_mask: bool (batch, 1, 1, source), usually `padding_mask(src)`; default: attend to all.

        Returns:
            Nested tuples of tensors, batch first, for `step`.
        """
        if memory_mask is None:
            memory_mask = torch.ones(
                len(memory), 1, 1, memory.shape[1], dtype=torch.bool, device=memory.device
            )
        length = torch.zeros(len(memory), dtype=torch.long, device=memory.device)  # tokens so far, all alike
        return length, memory_mask, tuple(layer.start(memory) for layer in self.decoder)

    def step(self, token: Tensor, cache: tuple) -> tuple[Tensor, tuple]:
        """The logits of the token after `token`.

        Args:
            token: ids (batch,), the newest target tokens, first `<bos>`.
            cache: from `start` or from the last step.

        Returns:
            logits (batch, tgt_vocab_size), and the cache for the next step.
        """
        length, memory_mask, layers = cache
        x = self._embed("tgt", token[:, None], self.tgt_embedding, int(length[0]))  # (batch, 1, d_model)
        after = []
        for layer, layer_cache in zip(self.decoder, layers, strict=True):
            x, layer_cache = layer.step(x, layer_cache, memory_mask)
            after.append(layer_cache)
        return self._predict(x).squeeze(1), (length + 1, memory_mask, tuple(after))

    def _embed(self, name: str, ids: Tensor, embedding: nn.Embedding, offset: int = 0) -> Tensor:
        check_tokens(name, ids, embedding.num_embeddings, "batch", {"src": "source", "tgt": "target"}[name])
        return self.dropout(self.position(embedding(ids) * math.sqrt(self.config.d_model), offset))

    def _predict(self, x: Tensor) -> Tensor:
        return F.linear(self.decoder_norm(x), self.tgt_embedding.weight)  # (batch, target, tgt_vocab_size)
