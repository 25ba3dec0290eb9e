r"""The Transformer: attention and position-wise networks, stacked (Vaswani et al. 2017).

The encoder turns the source into a memory, one vector a token. The decoder predicts each target token from
the target tokens before it and from that memory. Both are stacks of layers, and a layer has two or three
sublayers F, each with its residual: $\mathrm{LN}(x + F(x))$, or with `norm_first` $x + F(\mathrm{LN}(x))$.

| sublayer | encoder layer | decoder layer |
|---|---|---|
| self-attention | each source token looks at all of them | each target token looks at those up to itself |
| cross-attention | | queries from the target, keys and values from the memory |
| feed-forward | each position by itself | each position by itself |

Tokens enter as $\sqrt{d}\,E_w + PE_{pos}$ and leave as $\mathrm{softmax}(W x)$; $W$ may be $E$ again.

**Padding** (id 0) is hidden in the source by a mask. In the target it stands at the end, where the causal
mask hides it from every word.

**Decoding** goes token by token. `start` and `step` keep the keys and values of the tokens so far in a cache,
a value that is passed in and returned: a step costs one token, and the prefix is not computed again.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnbook._validation import check_choice, check_even, check_positive, check_probability, check_tokens
from attnbook.attention import MultiHeadAttention, causal_mask, padding_mask
from attnbook.feedforward import ACTIVATIONS, FeedForward
from attnbook.normalization import LayerNorm, residual
from attnbook.position import LearnedPosition, SinusoidalPosition, apply_rotary

__all__ = [
    "AttentionWeights",
    "DecoderLayer",
    "EncoderLayer",
    "Transformer",
    "TransformerConfig",
    "attend_self",
]

KeyValue = tuple[Tensor, Tensor]  # keys and values of the tokens so far, (batch, heads, key, d_k) each


@dataclass(frozen=True)
class TransformerConfig:
    """The sizes and choices of a `Transformer`; the defaults are the paper's base model.

    Args:
        src_vocab_size, tgt_vocab_size: number of token ids of the source and of the target; id 0 is padding.
        d_model: features of a token, everywhere between the layers.
        num_heads: heads of every attention; must divide `d_model`.
        num_encoder_layers, num_decoder_layers: depth of the two stacks.
        d_ff: inner width of the feed-forward networks.
        dropout: on the sum of embedding and position, and on what each sublayer adds (section 5.4).
        max_len: number of learned positions; the other kinds have no limit.
        norm_first: False is the paper's post-norm; True is pre-norm, with one more norm after each stack,
            because nothing else normalizes the sum that leaves it.
        position: "sinusoidal" (the paper's), "learned", or "rotary" (in self-attention only).
        tie_weights: which matrices are one. "all": both embeddings and the output, for one vocabulary that
            both languages share (section 3.4); "target": the target's embedding and the output; "none". True
            means "all" where the vocabulary sizes are equal, else "target"; False means "none". So two
            different vocabularies that happen to have one size need an explicit "target".
        activation: of the feed-forward networks, a name in `feedforward.ACTIVATIONS`.
        bias: whether the attentions' projections have biases (`torch.nn`'s have, the paper's do not).

    Raises:
        TypeError, ValueError: sizes that are not positive or do not fit each other, unknown choices.
    """

    src_vocab_size: int
    tgt_vocab_size: int
    d_model: int = 512
    num_heads: int = 8
    num_encoder_layers: int = 6
    num_decoder_layers: int = 6
    d_ff: int = 2048
    dropout: float = 0.1
    max_len: int = 512
    norm_first: bool = False
    position: str = "sinusoidal"
    tie_weights: bool | str = True
    activation: str = "relu"
    bias: bool = False

    def __post_init__(self):
        check_positive(src_vocab_size=self.src_vocab_size, tgt_vocab_size=self.tgt_vocab_size)
        check_positive(d_model=self.d_model, num_heads=self.num_heads, d_ff=self.d_ff, max_len=self.max_len)
        check_positive(num_encoder_layers=self.num_encoder_layers, num_decoder_layers=self.num_decoder_layers)
        check_probability(dropout=self.dropout)
        check_choice(("sinusoidal", "learned", "rotary"), position=self.position)
        check_choice(tuple(ACTIVATIONS), activation=self.activation)
        if self.d_model % self.num_heads:
            raise ValueError(
                f"num_heads: expected a divisor of d_model = {self.d_model}, found {self.num_heads}"
            )
        if self.position == "sinusoidal":
            check_even(d_model=self.d_model)
        if self.position == "rotary":
            check_even(**{"d_model / num_heads": self.d_model // self.num_heads})
        same_size = self.src_vocab_size == self.tgt_vocab_size
        if isinstance(self.tie_weights, bool):
            tie_weights = ("all" if same_size else "target") if self.tie_weights else "none"
            object.__setattr__(self, "tie_weights", tie_weights)
        check_choice(("all", "target", "none"), tie_weights=self.tie_weights)
        if self.tie_weights == "all" and not same_size:
            raise ValueError(
                "tie_weights: expected equal vocabulary sizes for 'all', "
                f"found {self.src_vocab_size} and {self.tgt_vocab_size}"
            )

    @classmethod
    def base(cls, src_vocab_size: int, tgt_vocab_size: int) -> "TransformerConfig":
        """The base model (Vaswani et al. 2017, table 3, first row)."""
        return cls(src_vocab_size, tgt_vocab_size)

    @classmethod
    def big(cls, src_vocab_size: int, tgt_vocab_size: int) -> "TransformerConfig":
        """The big model (Vaswani et al. 2017, table 3, last row)."""
        return cls(src_vocab_size, tgt_vocab_size, d_model=1024, num_heads=16, d_ff=4096, dropout=0.3)


def attend_self(
    attention: MultiHeadAttention,
    x: Tensor,
    mask: Tensor | None = None,
    need_weights: bool = True,
    rotary: bool = False,
    past: KeyValue | None = None,
) -> tuple[Tensor, Tensor | None, KeyValue]:
    """Self-attention, from the tokens in `x` to those in `past` and themselves.

    Args:
        attention: the module that projects and attends.
        x: (batch, query, d_model).
        mask: bool, broadcastable to (batch, heads, query, past + query); True = may attend.
        need_weights: as in `MultiHeadAttention`.
        rotary: turn queries and keys by their positions (`apply_rotary`).
        past: keys and values that an earlier call returned, for the tokens before `x`.

    Returns:
        output (batch, query, d_model), weights (batch, heads, query, past + query) or None, and the keys and
        values of all tokens so far, to be handed to the next call.
    """
    q = attention.project_query(x)  # (batch, heads, query, d_k)
    k, v = attention.project_key_value(x, x)  # (batch, heads, query, d_k), twice
    if rotary:
        offset = 0 if past is None else past[0].shape[2]
        positions = torch.arange(offset, offset + x.shape[1], device=x.device)
        q, k = apply_rotary(q, positions), apply_rotary(k, positions)
    if past is not None:
        k, v = (
            torch.cat([past[0], k], dim=2),
            torch.cat([past[1], v], dim=2),
        )  # (batch, heads, past + query, d_k)
    return *attention.attend(q, k, v, mask, need_weights), (k, v)


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward network, each with its residual and norm (section 3.1).

    Args:
        d_model, num_heads, d_ff, dropout, norm_first, activation, bias: as in `TransformerConfig`.
        rotary: whether self-attention turns queries and keys by their positions.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_ff: int,
        dropout: float = 0.1,
        norm_first: bool = False,
        activation: str = "relu",
        bias: bool = False,
        rotary: bool = False,
    ):
        super().__init__()
        self.norm_first, self.rotary = norm_first, rotary
        self.self_attention = MultiHeadAttention(d_model, num_heads, bias=bias)
        self.feed_forward = FeedForward(d_model, d_ff, activation=activation)
        self.norm_1, self.norm_2 = LayerNorm(d_model), LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, x: Tensor, mask: Tensor | None = None, need_weights: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        """One layer up.

        Args:
            x: (batch, source, d_model).
            mask: bool, broadcastable to (batch, heads, source, source); True = may attend.
            need_weights: whether to return the attention weights too.

        Returns:
            (batch, source, d_model); with `need_weights` the pair of that and the weights
            (batch, heads, source, source).
        """

        def attend(y: Tensor) -> tuple:
            return attend_self(self.self_attention, y, mask, need_weights, self.rotary)

        x, weights, _ = residual(x, attend, self.norm_1, self.norm_first, self.dropout)
        x = residual(x, self.feed_forward, self.norm_2, self.norm_first, self.dropout)
        return (x, weights) if need_weights else x

    @classmethod
    def from_torch(cls, module: nn.TransformerEncoderLayer) -> "EncoderLayer":
        """The same function as `module`, with copied weights.

        In training it drops what torch drops: attention weights and inner features too, unlike the paper.

        Raises:
            ValueError: an activation that we lack, or a module without biases.
        """
        ours = _layer_from_torch(cls, module)
        ours.norm_1, ours.norm_2 = map(LayerNorm.from_torch, (module.norm1, module.norm2))
        return ours.train(module.training)


class DecoderLayer(nn.Module):
    """Self-attention, cross-attention to the memory, feed-forward, each with residual and norm (section 3.1).

    Args: as in `EncoderLayer`.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_ff: int,
        dropout: float = 0.1,
        norm_first: bool = False,
        activation: str = "relu",
        bias: bool = False,
        rotary: bool = False,
    ):
        super().__init__()
        self.norm_first, self.rotary = norm_first, rotary
        self.self_attention = MultiHeadAttention(d_model, num_heads, bias=bias)
        self.cross_attention = MultiHeadAttention(d_model, num_heads, bias=bias)
        self.feed_forward = FeedForward(d_model, d_ff, activation=activation)
        self.norm_1, self.norm_2, self.norm_3 = LayerNorm(d_model), LayerNorm(d_model), LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        need_weights: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor, Tensor]:
        """One layer up, for all target positions at once.

        Args:
            x: (batch, target, d_model).
            memory: the encoder's output, (batch, source, d_model).
            tgt_mask: bool, broadcastable to (batch, heads, target, target), usually causal.
            memory_mask: bool, broadcastable to (batch, heads, target, source).
            need_weights: whether to return the attention weights too.

        Returns:
            (batch, target, d_model); with `need_weights` the triple of that, the self-attention's weights and
            the cross-attention's.
        """
        memory_kv = self.cross_attention.project_key_value(
            memory, memory
        )  # (batch, heads, source, d_k), twice
        x, self_weights, cross_weights, _ = self._up(x, None, memory_kv, tgt_mask, memory_mask, need_weights)
        return (x, self_weights, cross_weights) if need_weights else x

    def start(self, memory: Tensor) -> tuple[KeyValue, KeyValue]:
        """The cache before the first token: no keys and values of the target, all those of the memory."""
        k, v = self.cross_attention.project_key_value(memory, memory)
        return (k[:, :, :0], v[:, :, :0]), (k, v)

    def step(
        self, x: Tensor, cache: tuple[KeyValue, KeyValue], memory_mask: Tensor | None = None
    ) -> tuple[Tensor, tuple[KeyValue, KeyValue]]:
        """One layer up for the newest token only, x (batch, 1, d_model); returns the longer cache too."""
        past, memory_kv = cache
        x, _, _, past = self._up(x, past, memory_kv, None, memory_mask, need_weights=False)
        return x, (past, memory_kv)

    def _up(self, x, past, memory_kv, tgt_mask, memory_mask, need_weights):
        def attend_target(y: Tensor) -> tuple:
            return attend_self(self.self_attention, y, tgt_mask, need_weights, self.rotary, past)

        def attend_memory(y: Tensor) -> tuple:
            q = self.cross_attention.project_query(y)  # (batch, heads, target, d_k)
            return self.cross_attention.attend(q, *memory_kv, memory_mask, need_weights)

        x, self_weights, past = residual(x, attend_target, self.norm_1, self.norm_first, self.dropout)
        x, cross_weights = residual(x, attend_memory, self.norm_2, self.norm_first, self.dropout)
        x = residual(x, self.feed_forward, self.norm_3, self.norm_first, self.dropout)
        return x, self_weights, cross_weights, past

    @classmethod
    def from_torch(cls, module: nn.TransformerDecoderLayer) -> "DecoderLayer":
        """The same function as `module`, with copied weights.

        In training it drops what torch drops: attention weights and inner features too, unlike the paper.

        Raises:
            ValueError: an activation that we lack, or a module without biases.
        """
        ours = _layer_from_torch(cls, module)
        ours.cross_attention = MultiHeadAttention.from_torch(module.multihead_attn)
        ours.norm_1, ours.norm_2, ours.norm_3 = map(
            LayerNorm.from_torch, (module.norm1, module.norm2, module.norm3)
        )
        return ours.train(module.training)


class AttentionWeights(NamedTuple):
    """The weights of every layer and head, (layers, batch, heads, query, key) each."""

    encoder: Tensor  # from source to source
    decoder: Tensor  # from target to target
    cross: Tensor  # from target to source


class Transformer(nn.Module):
    """The whole model, from token ids to logits.

    Args:
        config: sizes and choices.
    """

    def __init__(self, config: TransformerConfig):
        super().__init__()
        if not isinstance(config, TransformerConfig):
            raise TypeError(f"config: expected a TransformerConfig, found {type(config).__name__}")
        self.config = config
        d_model = config.d_model
        self.src_embedding = nn.Embedding(config.src_vocab_size, d_model)
        self.tgt_embedding = nn.Embedding(config.tgt_vocab_size, d_model)
        if config.position == "learned":
            self.src_position = LearnedPosition(config.max_len, d_model)
            self.tgt_position = LearnedPosition(config.max_len, d_model)
        elif config.position == "sinusoidal":
            self.src_position = self.tgt_position = SinusoidalPosition(d_model)
        else:  # rotary positions act inside self-attention
            self.src_position = self.tgt_position = None
        layer = (d_model, config.num_heads, config.d_ff, config.dropout, config.norm_first)
        layer = (*layer, config.activation, config.bias, config.position == "rotary")
        self.encoder = nn.ModuleList(EncoderLayer(*layer) for _ in range(config.num_encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(*layer) for _ in range(config.num_decoder_layers))
        self.encoder_norm = LayerNorm(d_model) if config.norm_first else nn.Identity()
        self.decoder_norm = LayerNorm(d_model) if config.norm_first else nn.Identity()
        self.dropout = nn.Dropout(config.dropout)
        self.output = nn.Linear(d_model, config.tgt_vocab_size, bias=False)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
        # Times √d the embeddings have variance 1, and so have the logits when the output is the same matrix.
        nn.init.normal_(self.src_embedding.weight, std=d_model**-0.5)
        nn.init.normal_(self.tgt_embedding.weight, std=d_model**-0.5)
        if config.tie_weights != "none":
            self.output.weight = self.tgt_embedding.weight
        if config.tie_weights == "all":
            self.src_embedding.weight = self.tgt_embedding.weight

    def forward(
        self, src: Tensor, tgt: Tensor, need_weights: bool = False
    ) -> Tensor | tuple[Tensor, AttentionWeights]:
        """Teacher forcing: the logits of each next target token, for all positions in one pass.

        Args:
            src: token ids (batch, source), padding (id 0) anywhere.
            tgt: token ids (batch, target) from `<bos>` on, padding at the end.
            need_weights: whether to return the attention weights too; without them the fused kernel runs.

        Returns:
            logits (batch, target, tgt_vocab_size), at each position for the token after it; with
            `need_weights` the pair of that and the `AttentionWeights`.

        Raises:
            TypeError, ValueError: ids that are no integers, out of range, or too many for learned positions.
        """
        src_mask = padding_mask(src)  # (batch, 1, 1, source)
        memory = self.encode(src, src_mask, need_weights)
        memory, *encoder_weights = memory if need_weights else (memory,)
        logits = self.decode(tgt, memory, None, src_mask, need_weights)
        if not need_weights:
            return logits
        logits, *decoder_weights = logits
        return logits, AttentionWeights(*encoder_weights, *decoder_weights)

    def encode(
        self, src: Tensor, src_mask: Tensor | None = None, need_weights: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        """The memory of a source.

        Args:
            src: token ids (batch, source).
            src_mask: bool, broadcastable to (batch, heads, source, source); default: hides padding (id 0).
            need_weights: whether to return the attention weights too.

        Returns:
            memory (batch, source, d_model); with `need_weights` the pair of that and the weights
            (layers, batch, heads, source, source).
        """
        x = self.embed_source(src)  # (batch, source, d_model)
        src_mask = padding_mask(src) if src_mask is None else src_mask
        weights = []
        for layer in self.encoder:
            x = layer(x, src_mask, need_weights)
            if need_weights:
                x, layer_weights = x
                weights.append(layer_weights)
        memory = self.encoder_norm(x)
        return (memory, torch.stack(weights)) if need_weights else memory

    def decode(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        need_weights: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor, Tensor]:
        """The logits of each next target token, given the memory.

        Args:
            tgt: token ids (batch, target).
            memory: (batch, source, d_model).
            tgt_mask: bool, broadcastable to (batch, heads, target, target); default: causal.
            memory_mask: bool, broadcastable to (batch, heads, target, source); usually `padding_mask(src)`.
                Default: every vector of the memory may be attended.
            need_weights: whether to return the attention weights too.

        Returns:
            logits (batch, target, tgt_vocab_size); with `need_weights` the triple of that, the
            self-attention's weights (layers, batch, heads, target, target) and the cross-attention's
            (layers, batch, heads, target, source).
        """
        x = self.embed_target(tgt)  # (batch, target, d_model)
        tgt_mask = causal_mask(tgt.shape[1], device=tgt.device) if tgt_mask is None else tgt_mask
        weights = []
        for layer in self.decoder:
            x = layer(x, memory, tgt_mask, memory_mask, need_weights)
            if need_weights:
                x, *layer_weights = x
                weights.append(layer_weights)
        logits = self.output(self.decoder_norm(x))  # (batch, target, tgt_vocab_size)
        if not need_weights:
            return logits
        self_weights, cross_weights = zip(*weights, strict=True)
        return logits, torch.stack(self_weights), torch.stack(cross_weights)

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
        return memory_mask, tuple(layer.start(memory) for layer in self.decoder)

    def step(self, token: Tensor, cache: tuple) -> tuple[Tensor, tuple]:
        """The logits of the token after `token`: the last row of `decode` over all tokens so far.

        Args:
            token: ids (batch,), the newest target tokens, first `<bos>`.
            cache: from `start` or from the last step.

        Returns:
            logits (batch, tgt_vocab_size), and the cache for the next step.
        """
        memory_mask, layers = cache
        past = layers[0][0][0]  # the first layer's keys, (batch, heads, tokens so far, d_k)
        x = self.embed_target(token[:, None], offset=past.shape[2])  # (batch, 1, d_model)
        after = []
        for layer, layer_cache in zip(self.decoder, layers, strict=True):
            x, layer_cache = layer.step(x, layer_cache, memory_mask)
            after.append(layer_cache)
        return self.output(self.decoder_norm(x)).squeeze(1), (memory_mask, tuple(after))

    def embed_source(self, src: Tensor) -> Tensor:
        """Embedding × √d + position: ids (batch, source) -> (batch, source, d_model)."""
        check_tokens("src", src, self.config.src_vocab_size, "batch", "source")
        return self._embed(src, self.src_embedding, self.src_position, 0)

    def embed_target(self, tgt: Tensor, offset: int = 0) -> Tensor:
        """Embedding × √d + position, counted from `offset`: ids -> (batch, target, d_model)."""
        check_tokens("tgt", tgt, self.config.tgt_vocab_size, "batch", "target")
        return self._embed(tgt, self.tgt_embedding, self.tgt_position, offset)

    def _embed(self, ids: Tensor, embedding: nn.Embedding, position: nn.Module | None, offset: int) -> Tensor:
        x = embedding(ids) * math.sqrt(self.config.d_model)
        return self.dropout(x if position is None else position(x, offset))

    @classmethod
    def from_torch(
        cls,
        module: nn.Transformer,
        src_vocab_size: int,
        tgt_vocab_size: int,
        position: str = "sinusoidal",
        tie_weights: bool | str = True,
    ) -> "Transformer":
        """The same stack of layers as `module`, with copied weights; embeddings and output are new.

        `nn.Transformer` puts a LayerNorm after each stack in post-norm too, where the paper has none. The
        result has what `module` has, so that the two are equal. A post-norm `Transformer(config)` is equal to
        an `nn.Transformer` whose `encoder.norm` and `decoder.norm` have been set to None.

        Raises:
            ValueError: an activation that we lack, or a module without biases.
        """
        layer = module.encoder.layers[0]
        config = TransformerConfig(
            src_vocab_size,
            tgt_vocab_size,
            d_model=module.d_model,
            num_heads=module.nhead,
            num_encoder_layers=len(module.encoder.layers),
            num_decoder_layers=len(module.decoder.layers),
            d_ff=layer.linear1.out_features,
            dropout=layer.dropout1.p,
            norm_first=layer.norm_first,
            position=position,
            tie_weights=tie_weights,
            activation=_activation_from_torch(layer.activation)[0],
            bias=layer.self_attn.in_proj_bias is not None,
        )
        ours = cls(config).to(layer.linear1.weight)
        ours.encoder = nn.ModuleList(map(EncoderLayer.from_torch, module.encoder.layers))
        ours.decoder = nn.ModuleList(map(DecoderLayer.from_torch, module.decoder.layers))
        for name, norm in (("encoder_norm", module.encoder.norm), ("decoder_norm", module.decoder.norm)):
            setattr(ours, name, nn.Identity() if norm is None else LayerNorm.from_torch(norm))
        return ours.train(module.training)


def _layer_from_torch(
    cls: type, module: nn.TransformerEncoderLayer | nn.TransformerDecoderLayer
) -> nn.Module:
    """A layer with the self-attention and the feed-forward network of `module`."""
    attention = MultiHeadAttention.from_torch(module.self_attn)
    name, activation = _activation_from_torch(module.activation)
    network = nn.Sequential(module.linear1, activation, nn.Dropout(module.dropout.p), module.linear2)
    ours = cls(
        attention.d_model,
        attention.num_heads,
        module.linear1.out_features,
        module.dropout1.p,
        module.norm_first,
        name,
        bias=attention.W_q.bias is not None,
    ).to(module.linear1.weight)
    ours.self_attention = attention
    ours.feed_forward = FeedForward.from_torch(network)
    return ours


def _activation_from_torch(activation: Callable[[Tensor], Tensor]) -> tuple[str, nn.Module]:
    """Our name of a torch layer's activation, a function or a module, and it as a module."""
    for name, function, kind in (("relu", F.relu, nn.ReLU), ("gelu", F.gelu, nn.GELU)):
        if activation is function or (
            isinstance(activation, kind) and activation.extra_repr() != "approximate='tanh'"
        ):
            return name, kind()
    raise ValueError(f"module: expected the activation relu or gelu, found {activation}")
