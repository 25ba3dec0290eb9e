r"""Attention: a weighted average whose weights are computed from the content.

A query $q_i$ is compared with every key $k_j$; the softmax turns the scores into weights; the output is the
weighted sum of the values $v_j$:

$$e_{ij} = \mathrm{score}(q_i, k_j), \qquad
  \alpha_{ij} = \frac{\exp e_{ij}}{\sum_{j'} \exp e_{ij'}}, \qquad
  o_i = \sum_j \alpha_{ij} v_j .$$

The modules differ in the score only:

| module | score | source |
|---|---|---|
| `AdditiveAttention` | $v^\top \tanh(W_q q + W_k k)$ | Bahdanau et al. 2015, appendix A.1.2 |
| `DotProductAttention`, dot | $q^\top k$ | Luong et al. 2015, eq. 8 |
| `DotProductAttention`, general | $q^\top W k$ | Luong et al. 2015, eq. 8 |
| `scaled_dot_product_attention` | $q^\top k / \sqrt{d_k}$ | Vaswani et al. 2017, eq. 1 |

`MultiHeadAttention` (Vaswani et al. 2017, section 3.2.2) runs the last one in `num_heads` subspaces at once.

Masks are boolean and **True means "may attend"**. A query with nothing to attend gets zeros.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnbook._validation import (
    check_broadcast,
    check_choice,
    check_ids,
    check_mask,
    check_positive,
    check_probability,
    check_tensor,
)

__all__ = [
    "AdditiveAttention",
    "DotProductAttention",
    "MultiHeadAttention",
    "causal_mask",
    "masked_softmax",
    "padding_mask",
    "scaled_dot_product_attention",
]


def masked_softmax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Softmax over the last dimension (the keys), in which masked keys get the weight zero.

    Args:
        scores: (..., query, key), any real numbers.
        mask: bool, broadcastable to `scores`; True = may attend. None = every key may be attended.

    Returns:
        Weights (..., query, key): each row sums to 1, or is zero where the mask leaves it nothing to attend.

    Raises:
        TypeError, ValueError: a mask that is not bool or does not broadcast to `scores`.
    """
    if mask is None:
        return scores.softmax(dim=-1)
    check_mask(mask, scores.shape)
    # The lowest finite number instead of −∞: a row that is masked throughout stays free of NaN, forward and
    # backward, and the second line makes its weights zero.
    weights = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(dim=-1)
    return weights.masked_fill(~mask, 0.0)


def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    r"""$\mathrm{softmax}(QK^\top/\sqrt{d_k})\,V$ (Vaswani et al. 2017, eq. 1).

    Args:
        query: (..., query, d_k).
        key: (..., key, d_k).
        value: (..., key, d_v).
        mask: bool, broadcastable to (..., query, key); True = may attend.

    Returns:
        output (..., query, d_v) and weights (..., query, key).

    Raises:
        TypeError, ValueError: shapes that do not fit, or a mask that is not bool or does not broadcast.
    """
    _check_query_key_value(query, key, value)
    d_k = query.shape[-1]
    scores = query @ key.transpose(-2, -1) / math.sqrt(d_k)  # (..., query, key)
    weights = masked_softmax(scores, mask)  # (..., query, key)
    return weights @ value, weights  # (..., query, d_v)


class DotProductAttention(nn.Module):
    r"""Luong's multiplicative attention (Luong et al. 2015, eq. 8), without the scale of chapter 11.

    Args:
        score: "dot" for $q^\top k$, "general" for $q^\top W k$.
        query_size, key_size: sizes of the features, needed for "general" only.

    Called as `(query, key, value, mask=None) -> (output, weights)` with the shapes of
    `scaled_dot_product_attention`.
    """

    def __init__(self, score: str = "dot", query_size: int | None = None, key_size: int | None = None):
        super().__init__()
        check_choice(("dot", "general"), score=score)
        self.score = score
        if score == "general":
            if query_size is None:
                raise ValueError("query_size: expected a positive int for score='general', found None")
            key_size = query_size if key_size is None else key_size
            check_positive(query_size=query_size, key_size=key_size)
            self.W = nn.Linear(key_size, query_size, bias=False)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        if self.score == "general":
            check_tensor("key", key, "...", "key", self.W.in_features)
            key = self.W(key)  # (..., key, query_size)
        _check_query_key_value(query, key, value)
        weights = masked_softmax(query @ key.transpose(-2, -1), mask)  # (..., query, key)
        return weights @ value, weights


class AdditiveAttention(nn.Module):
    r"""Attention with a small scoring network, $v^\top \tanh(W_q q + W_k k)$ (Bahdanau et al. 2015, A.1.2).

    The paper queries with the **previous** decoder state $s_{t-1}$ and calls the matrices $W_a$, $U_a$.

    Args:
        query_size, key_size: sizes of the features.
        hidden_size: size of the scoring network.

    Called as `(query, key, value, mask=None) -> (output, weights)` with query (..., query, query_size),
    key (..., key, key_size), value (..., key, d_v).
    """

    def __init__(self, query_size: int, key_size: int, hidden_size: int):
        super().__init__()
        check_positive(query_size=query_size, key_size=key_size, hidden_size=hidden_size)
        self.W_q = nn.Linear(query_size, hidden_size, bias=False)
        self.W_k = nn.Linear(key_size, hidden_size, bias=False)
        self.v = nn.Linear(hidden_size, 1, bias=False)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        check_tensor("query", query, "...", "query", self.W_q.in_features)
        check_tensor("key", key, "...", "key", self.W_k.in_features)
        check_tensor("value", value, "...", key.shape[-2], "d_v")
        check_broadcast(query=query.shape[:-2], key=key.shape[:-2], value=value.shape[:-2])
        return self.attend(query, self.W_k(key), value, mask)

    def attend(
        self, query: Tensor, projected: Tensor, value: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """As `forward`, with `projected` = W_k(key) (..., key, hidden): a decoder needs it only once."""
        pairs = self.W_q(query).unsqueeze(-2) + projected.unsqueeze(-3)  # (..., query, key, hidden)
        scores = self.v(pairs.tanh()).squeeze(-1)  # (..., query, key)
        weights = masked_softmax(scores, mask)  # (..., query, key)
        return weights @ value, weights


class MultiHeadAttention(nn.Module):
    r"""`num_heads` attentions side by side, each in its own projection (Vaswani et al. 2017, section 3.2.2).

    $$\mathrm{head}_i = \mathrm{Attention}(QW_i^Q, KW_i^K, VW_i^V), \qquad
      \mathrm{MultiHead}(Q, K, V) = [\mathrm{head}_1; \dots; \mathrm{head}_h]\,W^O .$$

    The $h$ small matrices $W_i^Q$ are kept as one $d \times d$ matrix `W_q`: head $i$ owns the columns
    $i d_k \dots (i+1) d_k - 1$ of its output, and likewise for keys and values.

    Args:
        d_model: size of the features that come in and go out.
        num_heads: number of heads; must divide `d_model`.
        dropout: probability with which an attention weight is dropped in training.
        bias: whether the four projections have a bias (the paper's have none, `torch.nn`'s have).
    """

    def __init__(self, d_model: int, num_heads: int, dropout: float = 0.0, bias: bool = False):
        super().__init__()
        check_positive(d_model=d_model, num_heads=num_heads)
        check_probability(dropout=dropout)
        if d_model % num_heads:
            raise ValueError(f"num_heads: expected a divisor of d_model = {d_model}, found {num_heads}")
        self.d_model, self.num_heads, self.d_k = d_model, num_heads, d_model // num_heads
        self.dropout = dropout
        self.W_q = nn.Linear(d_model, d_model, bias=bias)
        self.W_k = nn.Linear(d_model, d_model, bias=bias)
        self.W_v = nn.Linear(d_model, d_model, bias=bias)
        self.W_o = nn.Linear(d_model, d_model, bias=bias)
        for projection in (self.W_q, self.W_k, self.W_v, self.W_o):
            nn.init.xavier_uniform_(projection.weight)
            if bias:
                nn.init.zeros_(projection.bias)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, need_weights: bool = True
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from `query` to `key`, and mix `value`.

        Args:
            query: (batch, query, d_model).
            key, value: (batch, key, d_model).
            mask: bool, broadcastable to (batch, heads, query, key); True = may attend.
            need_weights: False uses torch's fused kernel, which never forms the weights.

        Returns:
            output (batch, query, d_model), and the weights of every head (batch, heads, query, key) or None.

        Raises:
            TypeError, ValueError: shapes that do not fit, or a mask that is not bool or does not broadcast.
        """
        q = self.project_query(query)  # (batch, heads, query, d_k)
        k, v = self.project_key_value(key, value)  # (batch, heads, key, d_k), twice
        return self.attend(q, k, v, mask, need_weights)

    # The three steps of `forward`. A decoder with a cache calls them one by one: it projects only the new
    # token, and attends to keys and values that it has kept (chapter 15).

    def project_query(self, query: Tensor) -> Tensor:
        """(batch, query, d_model) -> (batch, heads, query, d_k)."""
        check_tensor("query", query, "batch", "query", self.d_model)
        return self._split_heads(self.W_q(query))

    def project_key_value(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """(batch, key, d_model), twice -> (batch, heads, key, d_k), twice."""
        check_tensor("key", key, "batch", "key", self.d_model)
        check_tensor("value", value, key.shape[0], key.shape[1], self.d_model)
        return self._split_heads(self.W_k(key)), self._split_heads(self.W_v(value))

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, need_weights: bool = True
    ) -> tuple[Tensor, Tensor | None]:
        """Attention within each head, then the joint projection `W_o`; shapes as in `forward`."""
        check_broadcast(query=q.shape[:-2], key=k.shape[:-2])
        check_mask(mask, (*q.shape[:-1], k.shape[-2]))
        dropout = self.dropout if self.training else 0.0
        if need_weights:
            heads, weights = scaled_dot_product_attention(q, k, v, mask)  # (batch, heads, query, d_k | key)
            if dropout:
                heads = F.dropout(weights, dropout) @ v
        else:
            weights = None
            heads = F.scaled_dot_product_attention(q, k, v, mask, dropout)  # (batch, heads, query, d_k)
        joined = heads.transpose(1, 2).flatten(2)  # (batch, query, d_model)
        return self.W_o(joined), weights

    def _split_heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.d_k)).transpose(1, 2)  # (batch, heads, time, d_k)

    @classmethod
    def from_torch(cls, module: nn.MultiheadAttention) -> "MultiHeadAttention":
        """The same function as `module`, with copied weights.

        Raises:
            ValueError: options that this class lacks (`kdim`, `vdim`, `add_bias_kv`, `add_zero_attn`).
        """
        if module.in_proj_weight is None or module.bias_k is not None or module.add_zero_attn:
            raise ValueError(
                "module: expected an nn.MultiheadAttention without kdim, vdim, add_bias_kv, add_zero_attn, "
                f"found {module}"
            )
        bias = module.in_proj_bias is not None
        ours = cls(module.embed_dim, module.num_heads, module.dropout, bias)
        ours = ours.to(module.in_proj_weight).train(module.training)
        with torch.no_grad():
            inputs = (ours.W_q, ours.W_k, ours.W_v)
            for projection, weight in zip(inputs, module.in_proj_weight.chunk(3), strict=True):
                projection.weight.copy_(weight)
            ours.W_o.weight.copy_(module.out_proj.weight)
            if bias:
                for projection, vector in zip(inputs, module.in_proj_bias.chunk(3), strict=True):
                    projection.bias.copy_(vector)
                ours.W_o.bias.copy_(module.out_proj.bias)
        return ours


def causal_mask(
    query_length: int, key_length: int | None = None, device: torch.device | None = None
) -> Tensor:
    """Each position may attend to itself and to what stands before it (Vaswani et al. 2017, section 3.2.3).

    Args:
        query_length: number of queries.
        key_length: number of keys; more than `query_length` when the first keys come from a cache:
            the queries are then the last positions. Default: `query_length`.

    Returns:
        bool (query, key), True on and below the diagonal that ends in the last corner.

    Raises:
        ValueError: `key_length` below `query_length`.
    """
    key_length = query_length if key_length is None else key_length
    check_positive(query_length=query_length, key_length=key_length)
    if key_length < query_length:
        raise ValueError(f"key_length: expected at least query_length = {query_length}, found {key_length}")
    ones = torch.ones(query_length, key_length, dtype=torch.bool, device=device)
    return ones.tril(diagonal=key_length - query_length)


def padding_mask(tokens: Tensor, pad_id: int = 0) -> Tensor:
    """The keys that are words, not padding.

    Args:
        tokens: ids (batch, key).
        pad_id: the id of the padding token.

    Returns:
        bool (batch, 1, 1, key), True where there is a word: broadcasts over heads and queries.

    Raises:
        TypeError, ValueError: `tokens` that is not a two-dimensional integer tensor.
    """
    check_ids("tokens", tokens, None, "batch", "key")
    return (tokens != pad_id)[:, None, None, :]


def _check_query_key_value(query: Tensor, key: Tensor, value: Tensor) -> None:
    check_tensor("query", query, "...", "query", "d_k")
    check_tensor("key", key, "...", "key", query.shape[-1])
    check_tensor("value", value, "...", key.shape[-2], "d_v")
    check_broadcast(query=query.shape[:-2], key=key.shape[:-2], value=value.shape[:-2])
