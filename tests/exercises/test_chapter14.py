"""Chapter 14's exercises: answers as learners write them, each met by the message for its misconception."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attnbook import causal_mask, sinusoidal_encoding
from attnbook.exercises import verdict


def right_feed_forward(x, W_1, b_1, W_2, b_2):
    h = torch.addmm(b_1, x.reshape(-1, x.shape[-1]), W_1).clamp(min=0)
    return (h @ W_2 + b_2).reshape(x.shape)


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (lambda x, W_1, b_1, W_2, b_2: x @ W_1 @ W_2 + b_1 @ W_2 + b_2, "no activation"),
        (lambda x, W_1, b_1, W_2, b_2: F.relu((x @ W_1 + b_1) @ W_2 + b_2), "activation at the end"),
        (lambda *inputs: F.relu(right_feed_forward(*inputs)), "activation twice"),
        (lambda x, W_1, b_1, W_2, b_2: (F.relu(x @ W_1) + b_1) @ W_2 + b_2, "bias after the activation"),
        (lambda x, W_1, b_1, W_2, b_2: F.relu(x @ W_1) @ W_2, "no biases"),
        (lambda x, W_1, b_1, W_2, b_2: F.relu(x @ W_1 + b_1) @ W_2, "no second bias"),
        (lambda x, W_1, b_1, W_2, b_2: F.relu(x @ W_1) @ W_2 + b_2, "no first bias"),
        (lambda x, *weights: x + right_feed_forward(x, *weights), "with the residual"),
        (lambda x, W_1, b_1, W_2, b_2: (x @ W_1 + b_1).softmax(-1) @ W_2 + b_2, "softmax in the middle"),
        (lambda x, W_1, b_1, W_2, b_2: F.gelu(x @ W_1 + b_1) @ W_2 + b_2, "gelu"),
        (lambda x, W_1, b_1, W_2, b_2: torch.tanh(x @ W_1 + b_1) @ W_2 + b_2, None),
    ],
)
def test_feed_forward_names_the_misconception(answer, misconception):
    found = verdict("chapter14.feed_forward", answer)
    assert not found.passed
    assert found.misconception == misconception


def test_feed_forward_solution_and_stub():
    assert verdict("chapter14.feed_forward", right_feed_forward).passed
    assert verdict("chapter14.feed_forward", lambda x, W_1, b_1, W_2, b_2: ...).outcome == "todo"


def test_torch_weights_are_the_other_way_round():
    found = verdict(
        "chapter14.feed_forward",
        lambda x, W_1, b_1, W_2, b_2: F.linear(F.relu(F.linear(x, W_1, b_1)), W_2, b_2),
    )
    assert not found.passed
    assert "raised an error" in found.en


def right_embed(tokens, E):
    d = E.size(-1)
    return F.embedding(tokens, E) * d**0.5 + sinusoidal_encoding(tokens.size(1), d)


def position(tokens, E, start=0):
    return sinusoidal_encoding(start + tokens.shape[1], E.shape[1])[start:]


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (lambda tokens, E: E[tokens] + position(tokens, E), "no scale"),
        (lambda tokens, E: E[tokens] / math.sqrt(E.shape[1]) + position(tokens, E),
         "divided by the root"),
        (lambda tokens, E: E[tokens] * E.shape[1] + position(tokens, E), "times d"),
        (lambda tokens, E: (E[tokens] + position(tokens, E)) * E.shape[1] ** 0.5,
         "the sum is scaled"),
        (lambda tokens, E: E[tokens] * E.shape[1] ** 0.5 + position(tokens, E, start=1),
         "positions from 1"),
        (lambda tokens, E: E[tokens] * E.shape[1] ** 0.5 + sinusoidal_encoding(len(E), E.shape[1])[tokens],
         "position of the id"),
        (lambda tokens, E: E[tokens] * E.shape[1] ** 0.5, "no position"),
        (lambda tokens, E: F.embedding(tokens, E), "only the embedding"),
        (lambda tokens, E: right_embed(tokens, E) + 1, None),
    ],
)  # fmt: skip
def test_embed_names_the_misconception(answer, misconception):
    found = verdict("chapter14.embed", answer)
    assert not found.passed
    assert found.misconception == misconception


def test_embed_solution_and_stub():
    assert verdict("chapter14.embed", right_embed).passed
    assert verdict("chapter14.embed", lambda tokens, E: None).outcome == "todo"


def right_add_norm(x, sublayer, norm, norm_first):
    if norm_first:
        return sublayer(norm(x)) + x
    return norm(sublayer(x) + x)


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (lambda x, f, norm, first: norm(x + f(x)) if first else x + f(norm(x)), "pre-norm for post-norm"),
        (lambda x, f, norm, first: f(norm(x)) if first else norm(f(x)), "no residual"),
        (lambda x, f, norm, first: x + (f(norm(x)) if first else norm(f(x))),
         "the norm on the branch only"),
        (lambda x, f, norm, first: (y := norm(x)) + f(y) if first else norm(x + f(x)),
         "the residual from the normalised x"),
        (lambda x, f, norm, first: norm(x + f(x)), "post-norm for pre-norm"),
        (lambda x, f, norm, first: x + f(norm(x)), "pre-norm for post-norm"),
        (lambda x, f, norm, first: x + f(norm(x)) if first else norm(x + f(norm(x))),
         "normalised before and after"),
        (lambda x, f, norm, first: x + f(x), "no norm"),
        (lambda x, f, norm, first: norm(right_add_norm(x, f, norm, first)), None),
    ],
)  # fmt: skip
def test_add_norm_names_the_misconception(answer, misconception):
    found = verdict("chapter14.add_norm", answer)
    assert not found.passed
    assert found.misconception == misconception


def test_add_norm_solution_and_stub():
    assert verdict("chapter14.add_norm", right_add_norm).passed
    assert verdict("chapter14.add_norm", lambda x, sublayer, norm, norm_first: ...).outcome == "todo"
    shown = verdict("chapter14.add_norm", lambda x, sublayer, norm, norm_first: 1 / 0).details
    assert "norm = norm" in shown  # parts are shown by their names, not by their addresses


def right_decoder_layer(x, memory, attend, attend_memory, network, norm):
    mask = torch.ones(x.shape[1], x.shape[1]).tril() > 0
    for sublayer in (
        lambda y: attend(y, y, y, mask),
        lambda y: attend_memory(y, memory, memory),
        network,
    ):
        x = norm(x + sublayer(x))
    return x


def steps(*sublayers):
    """A post-norm layer of these sublayers, each called with (x, memory, attend, attend_memory, network)."""

    def layer(x, memory, attend, attend_memory, network, norm):
        for sublayer in sublayers:
            x = norm(x + sublayer(x, memory, attend, attend_memory, network))
        return x

    return layer


def back(x, memory, attend, attend_memory, network):
    return attend(x, x, x, causal_mask(x.shape[1]))


def across(x, memory, attend, attend_memory, network):
    return attend_memory(x, memory, memory)


def think(x, memory, attend, attend_memory, network):
    return network(x)


def no_residuals(x, memory, attend, attend_memory, network, norm):
    for sublayer in (back, across, think):
        x = norm(sublayer(x, memory, attend, attend_memory, network))
    return x


def pre_norm(x, memory, attend, attend_memory, network, norm):
    for sublayer in (back, across, think):
        x = x + sublayer(norm(x), memory, attend, attend_memory, network)
    return x


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (steps(lambda x, memory, attend, *_: attend(x, x, x), across, think), "no causal mask"),
        (steps(lambda x, memory, attend, *_: attend(x, x, x, torch.ones(x.shape[1], x.shape[1]).triu(1) > 0),
               across, think), "inverted mask"),
        (steps(back, lambda x, memory, _, look, __: look(memory, x, x), think), "queries from the memory"),
        (steps(back, lambda x, memory, _, look, __: look(x, memory, x), think), "values from the target"),
        (steps(back, lambda x, memory, _, look, __: look(x, x, x), think), "cross-attention to itself"),
        (steps(back, lambda x, memory, _, look, __: look(x, memory, memory, causal_mask(x.shape[1])), think),
         "causal mask on the memory"),
        (steps(across, back, think), "cross-attention first"),
        (steps(back, across), "no feed-forward network"),
        (steps(back, lambda x, memory, attend, *_: attend(x, memory, memory), think),
         "one attention for both"),
        (no_residuals, "no residuals"),
        (pre_norm, "pre-norm"),
        (steps(back, across, think, think), None),
    ],
)  # fmt: skip
def test_decoder_layer_names_the_misconception(answer, misconception):
    found = verdict("chapter14.decoder_layer", answer)
    assert not found.passed
    assert found.misconception == misconception


def test_decoder_layer_solution_and_stub():
    assert verdict("chapter14.decoder_layer", right_decoder_layer).passed
    assert verdict("chapter14.decoder_layer", lambda *parts: ...).outcome == "todo"


def torch_parameters(d_model, d_ff, num_layers, vocab_size, final_norms=True, bias=True):
    """Counted in torch's own modules."""
    with torch.device("meta"):
        model = nn.Transformer(d_model, 2, num_layers, num_layers, d_ff, batch_first=True)
        embedding = nn.Embedding(vocab_size, d_model)
    parameters = [*model.named_parameters(), *embedding.named_parameters()]
    return sum(
        p.numel()
        for name, p in parameters
        if (final_norms or not name.startswith(("encoder.norm", "decoder.norm")))
        and (bias or not ("attn" in name and "bias" in name))
    )


def ours(attentions=3, matrices=4, tables=1, bias=1, norms=2):
    def count(d_model, d_ff, num_layers, vocab_size):
        network = 2 * d_model * d_ff + bias * (d_ff + d_model)
        layers = attentions * matrices * d_model**2 + 2 * network + 5 * norms * d_model
        return num_layers * layers + tables * vocab_size * d_model

    return count


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (ours(tables=3), "three embedding matrices"),
        (ours(tables=2), "two embedding matrices"),
        (ours(tables=0), "no embedding matrix"),
        (ours(matrices=3), "no W_O"),
        (ours(attentions=2), "one attention in a decoder layer"),
        (ours(bias=0), "no biases"),
        (lambda *sizes: torch_parameters(*sizes, final_norms=False), "biases in the attentions"),
        (ours(norms=0), "no norms"),
        (ours(norms=1), "one number a feature in a norm"),
        (lambda *sizes: torch_parameters(*sizes, bias=False), "final norms"),
        (lambda d, d_ff, n, v: n * (4 * d * d + 2 * d * d_ff + d_ff + 5 * d) + v * d, "one stack"),
        (lambda d, d_ff, n, v: ours()(d, d_ff, n, v) + 1, None),
    ],
)
def test_parameters_names_the_misconception(answer, misconception):
    found = verdict("chapter14.parameters", answer)
    assert not found.passed
    assert found.misconception == misconception


def test_parameters_solution_and_stub():
    assert verdict("chapter14.parameters", ours()).passed
    without = lambda *sizes: torch_parameters(*sizes, final_norms=False, bias=False)  # noqa: E731
    assert verdict("chapter14.parameters", without).passed
    assert (
        verdict("chapter14.parameters", lambda d_model, d_ff, num_layers, vocab_size: None).outcome == "todo"
    )
