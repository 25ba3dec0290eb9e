r"""Encoder and decoder: from one sequence to another of a different length.

The encoder reads the source, the decoder writes the target; each has its own weights. At every step the
decoder sees the last target token $y_{t-1}$ and a context $c$, its state becomes $s_t$, and it predicts with
$\tilde s_t = \tanh(W_c [s_t; c])$ and $\mathrm{softmax}(W_o \tilde s_t)$ (Luong et al. 2015, eq. 5 and 6):

| | context | state |
|---|---|---|
| `Decoder` (Cho et al. 2014) | $c = h_T$, the same at every step | $s_t = f(s_{t-1}, [y_{t-1}; c])$ |
| `AttentionDecoder` (Bahdanau et al. 2015) | $c_t$, query $s_{t-1}$ | $s_t = f(s_{t-1}, [y_{t-1}; c_t])$ |
| `AttentionDecoder` (Luong et al. 2015) | $c_t$, query $s_t$ | $s_t = f(s_{t-1}, y_{t-1})$ |

In all three the decoder's first state is the encoder's last one (Sutskever et al. 2014). Without attention
the whole source has to fit into that, however long it is. With attention the decoder looks at all encoder
states $h_1 \dots h_T$ anew at each step: $c_t = \sum_i \alpha_{ti} h_i$.

**Padding** (id 0) stands at the end of a source and is invisible: the encoder's final state is the state
after the last word, and attention is masked. At the end of a target it comes after every word that is
predicted.

States here are tuples of tensors (batch, layers, hidden): (h,) of an RNN or GRU, (h, c) of an LSTM.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from attnbook._validation import check_choice, check_positive, check_probability, check_tokens
from attnbook.attention import AdditiveAttention, DotProductAttention, padding_mask
from attnbook.recurrent import GRU, LSTM, RNN

__all__ = ["AttentionDecoder", "Decoder", "Encoder", "Seq2Seq", "Seq2SeqConfig"]

CELLS = {"rnn": RNN, "lstm": LSTM, "gru": GRU}
ATTENTIONS = ("additive", "dot", "general")

State = tuple[Tensor, ...]


@dataclass(frozen=True)
class Seq2SeqConfig:
    """The sizes and choices of a `Seq2Seq`.

    Args:
        src_vocab_size, tgt_vocab_size: number of token ids of the source and of the target; id 0 is padding.
        embedding_size, hidden_size: features of a token, and of each layer's state.
        cell: "rnn", "lstm" or "gru".
        num_layers: layers of the encoder, and of the decoder.
        attention: None; "additive" as in Bahdanau et al. 2015; "dot" or "general" as in Luong et al. 2015.
        bidirectional: whether the encoder reads in both directions (Bahdanau et al. 2015, section 3.2).
        reverse_source: read the source from its end (Sutskever et al. 2014, section 3.3).
        dropout: on the embeddings and on what the output layer reads.

    Raises:
        TypeError, ValueError: sizes that are not positive or do not fit each other, unknown choices.
    """

    src_vocab_size: int
    tgt_vocab_size: int
    embedding_size: int = 256
    hidden_size: int = 256
    cell: str = "gru"
    num_layers: int = 1
    attention: str | None = None
    bidirectional: bool = False
    reverse_source: bool = False
    dropout: float = 0.1

    def __post_init__(self):
        check_positive(src_vocab_size=self.src_vocab_size, tgt_vocab_size=self.tgt_vocab_size)
        check_positive(embedding_size=self.embedding_size, hidden_size=self.hidden_size)
        check_positive(num_layers=self.num_layers)
        check_choice(tuple(CELLS), cell=self.cell)
        check_probability(dropout=self.dropout)
        if self.attention is not None:
            check_choice(ATTENTIONS, attention=self.attention)
        if self.attention == "dot" and self.bidirectional:
            raise ValueError(
                "attention: expected 'additive' or 'general' for a bidirectional encoder (its outputs are "
                "twice as wide as the decoder's state), found 'dot'"
            )


class Encoder(nn.Module):
    """Reads a source into one state a token and one final state.

    Args: as in `Seq2SeqConfig`, `reverse` for `reverse_source`.
    """

    def __init__(
        self,
        vocab_size: int,
        embedding_size: int,
        hidden_size: int,
        cell: str = "gru",
        num_layers: int = 1,
        bidirectional: bool = False,
        reverse: bool = False,
        dropout: float = 0.0,
    ):
        super().__init__()
        check_positive(vocab_size=vocab_size, embedding_size=embedding_size, hidden_size=hidden_size)
        check_choice(tuple(CELLS), cell=cell)
        self.reverse = reverse
        self.embedding = nn.Embedding(vocab_size, embedding_size)
        self.recurrent = CELLS[cell](embedding_size, hidden_size, num_layers, bidirectional)
        self.dropout = nn.Dropout(dropout)
        self.output_size = self.recurrent.num_directions * hidden_size
        if bidirectional:  # the decoder has one direction: its first state is made of both final states
            parts = len(self.recurrent.state_parts)
            self.bridges = nn.ModuleList(nn.Linear(2 * hidden_size, hidden_size) for _ in range(parts))

    def forward(self, src: Tensor) -> tuple[Tensor, State]:
        """Read the source.

        Args:
            src: token ids (batch, source), padding (id 0) at the end.

        Returns:
            outputs (batch, source, directions · hidden_size), zeros at the padding, and the final state, a
            tuple of tensors (batch, layers, hidden_size).

        Raises:
            TypeError, ValueError: ids that are no integers or out of range, a sentence of padding only,
                padding before a word.
        """
        check_tokens("src", src, self.embedding.num_embeddings, "batch", "source")
        words = src != 0
        lengths = words.sum(dim=1)  # (batch,)
        if not lengths.all():
            raise ValueError(
                f"src: expected a word in each sentence, found only padding in {(lengths == 0).sum()}"
            )
        if (words[:, 1:] & ~words[:, :-1]).any():
            raise ValueError("src: expected padding (id 0) at the end of a sentence, found it before a word")
        src = _reverse(src, lengths) if self.reverse else src
        outputs, state = self.recurrent(self.dropout(self.embedding(src)), lengths=lengths)
        outputs = _reverse(outputs, lengths) if self.reverse else outputs  # back in the order of the source
        parts = _parts(state)  # (batch, layers · directions, hidden), one or two
        if self.recurrent.num_directions == 2:
            both = (part.unflatten(1, (-1, 2)).flatten(2) for part in parts)  # (batch, layers, 2 · hidden)
            parts = tuple(torch.tanh(bridge(part)) for bridge, part in zip(self.bridges, both, strict=True))
        return outputs, parts


class _Decoder(nn.Module):
    """What the decoders share: a token goes in through an embedding, a state and a context become logits."""

    def __init__(
        self, vocab_size, embedding_size, hidden_size, input_size, context_size, cell, num_layers, dropout
    ):
        super().__init__()
        check_positive(vocab_size=vocab_size, embedding_size=embedding_size, hidden_size=hidden_size)
        check_choice(tuple(CELLS), cell=cell)
        self.embedding = nn.Embedding(vocab_size, embedding_size)
        self.recurrent = CELLS[cell](input_size, hidden_size, num_layers)
        self.combine = nn.Linear(hidden_size + context_size, hidden_size)  # W_c
        self.output = nn.Linear(hidden_size, vocab_size)  # W_o
        self.dropout = nn.Dropout(dropout)

    def embed(self, tgt: Tensor) -> Tensor:
        """Token ids (batch, target) -> (batch, target, embedding_size)."""
        check_tokens("tgt", tgt, self.embedding.num_embeddings, "batch", "target")
        return self.dropout(self.embedding(tgt))

    def read(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """The states after each input of x (batch, target, input), and the last state of all layers."""
        layers_first = tuple(part.transpose(0, 1).contiguous() for part in state)
        outputs, after = self.recurrent(x, layers_first if len(state) > 1 else layers_first[0])
        return outputs, _parts(after)

    def predict(self, outputs: Tensor, context: Tensor) -> Tensor:
        """Logits (batch, target, vocab_size) from states and contexts, (batch, target, …) each."""
        combined = torch.tanh(self.combine(torch.cat([outputs, context], dim=-1)))
        return self.output(self.dropout(combined))


class Decoder(_Decoder):
    """A decoder that knows the source by one fixed vector (Cho et al. 2014, section 2.2).

    Args:
        vocab_size, embedding_size, hidden_size, cell, num_layers, dropout: as in `Seq2SeqConfig`.
        context_size: features of the context vector.
    """

    def __init__(
        self,
        vocab_size: int,
        embedding_size: int,
        hidden_size: int,
        context_size: int,
        cell: str = "gru",
        num_layers: int = 1,
        dropout: float = 0.0,
    ):
        input_size = embedding_size + context_size
        super().__init__(
            vocab_size, embedding_size, hidden_size, input_size, context_size, cell, num_layers, dropout
        )

    def forward(self, tgt: Tensor, context: Tensor, state: State) -> tuple[Tensor, State]:
        """Read target tokens, one or many, from `state` on.

        Args:
            tgt: token ids (batch, target).
            context: (batch, context_size).
            state: before the first token, a tuple of (batch, layers, hidden_size).

        Returns:
            logits (batch, target, vocab_size), at each position for the token after it, and the state after.
        """
        embedded = self.embed(tgt)  # (batch, target, embedding)
        context = context[:, None].expand(-1, tgt.shape[1], -1)  # (batch, target, context)
        outputs, state = self.read(torch.cat([embedded, context], dim=-1), state)
        return self.predict(outputs, context), state


class AttentionDecoder(_Decoder):
    """A decoder that looks at all encoder states at every step.

    Args:
        vocab_size, embedding_size, hidden_size, cell, num_layers, dropout: as in `Seq2SeqConfig`.
        memory_size: features of an encoder state.
        attention: "additive" queries with the state before the step (Bahdanau et al. 2015); "dot" and
            "general" query with the state after it (Luong et al. 2015), so that attention waits for no step
            and is computed for the whole target at once.
    """

    def __init__(
        self,
        vocab_size: int,
        embedding_size: int,
        hidden_size: int,
        memory_size: int,
        cell: str = "gru",
        num_layers: int = 1,
        attention: str = "additive",
        dropout: float = 0.0,
    ):
        check_choice(ATTENTIONS, attention=attention)
        additive = attention == "additive"
        input_size = embedding_size + memory_size if additive else embedding_size
        super().__init__(
            vocab_size, embedding_size, hidden_size, input_size, memory_size, cell, num_layers, dropout
        )
        if additive:
            self.attention = AdditiveAttention(hidden_size, memory_size, hidden_size)
        elif attention == "dot" and memory_size != hidden_size:
            raise ValueError(
                f"memory_size: expected hidden_size = {hidden_size} for 'dot', found {memory_size}"
            )
        else:
            self.attention = DotProductAttention(attention, hidden_size, memory_size)

    def forward(
        self, tgt: Tensor, memory: Tensor, memory_mask: Tensor, state: State
    ) -> tuple[Tensor, State, Tensor]:
        """Read target tokens, one or many, from `state` on.

        Args:
            tgt: token ids (batch, target).
            memory: the encoder's outputs, (batch, source, memory_size).
            memory_mask: bool (batch, 1, source), True = may attend.
            state: before the first token, a tuple of (batch, layers, hidden_size).

        Returns:
            logits (batch, target, vocab_size), the state after, and the weights (batch, target, source).
        """
        embedded = self.embed(tgt)  # (batch, target, embedding)
        if isinstance(self.attention, AdditiveAttention):
            outputs, context, state, weights = self._query_before(embedded, memory, memory_mask, state)
        else:
            outputs, state = self.read(embedded, state)  # (batch, target, hidden)
            context, weights = self.attention(outputs, memory, memory, memory_mask)
        return self.predict(outputs, context), state, weights

    def _query_before(self, embedded, memory, memory_mask, state):
        projected = self.attention.W_k(memory)  # (batch, source, hidden): the same at every step
        steps = []
        for y in embedded.split(1, dim=1):  # (batch, 1, embedding)
            query = state[0][:, -1:]  # h of the last layer, (batch, 1, hidden)
            context, weights = self.attention.attend(query, projected, memory, memory_mask)
            output, state = self.read(torch.cat([y, context], dim=-1), state)
            steps.append((output, context, weights))
        outputs, contexts, weights = (torch.cat(part, dim=1) for part in zip(*steps, strict=True))
        return outputs, contexts, state, weights


class Seq2Seq(nn.Module):
    """Encoder and decoder, from token ids to logits.

    Args:
        config: sizes and choices.
    """

    def __init__(self, config: Seq2SeqConfig):
        super().__init__()
        if not isinstance(config, Seq2SeqConfig):
            raise TypeError(f"config: expected a Seq2SeqConfig, found {type(config).__name__}")
        self.config = config
        self.encoder = Encoder(
            config.src_vocab_size,
            config.embedding_size,
            config.hidden_size,
            config.cell,
            config.num_layers,
            config.bidirectional,
            config.reverse_source,
            config.dropout,
        )
        sizes = (config.tgt_vocab_size, config.embedding_size, config.hidden_size)
        if config.attention is None:
            context_size = config.hidden_size
            self.decoder = Decoder(*sizes, context_size, config.cell, config.num_layers, config.dropout)
        else:
            memory_size = self.encoder.output_size
            choices = (config.cell, config.num_layers, config.attention, config.dropout)
            self.decoder = AttentionDecoder(*sizes, memory_size, *choices)

    def forward(self, src: Tensor, tgt: Tensor, need_weights: bool = False) -> Tensor | tuple[Tensor, Tensor]:
        """Teacher forcing: the logits of each next target token, given the true tokens before it.

        Args:
            src: token ids (batch, source), padding (id 0) at the end.
            tgt: token ids (batch, target) from `<bos>` on, padding at the end.
            need_weights: whether to return the attention weights too.

        Returns:
            logits (batch, target, tgt_vocab_size), at each position for the token after it; with
            `need_weights` the pair of that and the weights (batch, target, source).

        Raises:
            TypeError, ValueError: ids that are no integers or out of range, sentences without a word, padding
                before a word, or weights wanted from a model without attention.
        """
        if need_weights and self.config.attention is None:
            raise ValueError("need_weights: expected False for a model without attention, found True")
        cache = self.start(self.encode(src), padding_mask(src))
        logits, _, *weights = self._decode(tgt, cache)
        return (logits, weights[0]) if need_weights else logits

    def encode(self, src: Tensor) -> tuple[Tensor, State]:
        """The encoder's outputs and its final state; see `Encoder.forward`."""
        return self.encoder(src)

    def start(self, memory: tuple[Tensor, State], memory_mask: Tensor | None = None) -> tuple:
        """The cache before the first target token.

        Args:
            memory: what `encode` returned.
            memory_mask: bool (batch, 1, 1, source), usually `padding_mask(src)`; default: attend to all.

        Returns:
            Nested tuples of tensors, batch first, for `step`: (state, context) without attention, and
            (state, outputs, mask) with it.
        """
        outputs, state = memory
        if self.config.attention is None:
            return state, state[0][:, -1]  # the context is h of the last layer, (batch, hidden)
        if memory_mask is None:
            memory_mask = torch.ones(
                len(outputs), 1, 1, outputs.shape[1], dtype=torch.bool, device=outputs.device
            )
        return state, outputs, memory_mask.squeeze(1)

    def step(self, token: Tensor, cache: tuple) -> tuple[Tensor, tuple]:
        """The logits of the token after `token`.

        Args:
            token: ids (batch,), the newest target tokens, first `<bos>`.
            cache: from `start` or from the last step.

        Returns:
            logits (batch, tgt_vocab_size), and the cache for the next step.
        """
        logits, state, *_ = self._decode(token[:, None], cache)
        return logits.squeeze(1), (state, *cache[1:])

    def _decode(self, tgt: Tensor, cache: tuple) -> tuple:
        if self.config.attention is None:
            state, context = cache
            return self.decoder(tgt, context, state)
        state, outputs, mask = cache
        return self.decoder(tgt, outputs, mask, state)


def _parts(state: Tensor | State) -> State:
    """A state of `attnbook.recurrent`, layers first, as a tuple of tensors (batch, layers, hidden)."""
    parts = (state,) if isinstance(state, Tensor) else state
    return tuple(part.transpose(0, 1) for part in parts)


def _reverse(x: Tensor, lengths: Tensor) -> Tensor:
    """Each sequence of x (batch, time, …) from its last word to its first; padding stays at the end."""
    time = torch.arange(x.shape[1], device=x.device)
    order = lengths[:, None] - 1 - time  # (batch, time); negative at the padding
    order = torch.where(order >= 0, order, time)
    return x[torch.arange(len(x), device=x.device)[:, None], order]
