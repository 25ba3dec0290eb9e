"""The decoder-only model: a stack of torch's pre-norm layers, with the options that came since."""

import dataclasses
import functools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from attnbook.attention import MultiHeadAttention, causal_mask
from attnbook.decoding import greedy
from attnbook.feedforward import num_parameters
from attnbook.gpt import (
    GPT,
    GPTConfig,
    GroupedQueryAttention,
    TranslatingGPT,
    join_sequences,
    kv_cache_bytes,
)
from attnbook.normalization import LayerNorm, RMSNorm
from attnbook.transformer import EncoderLayer

VOCAB = 13


def distance(a, b):
    return (a - b).abs().max().item()


@functools.cache
def small(norm="layernorm", position="learned", num_key_value_heads=4):
    torch.manual_seed(0)
    config = GPTConfig(
        VOCAB, 16, 4, 2, max_len=12, norm=norm, position=position, num_key_value_heads=num_key_value_heads
    )
    return GPT(config).double().eval()


models = st.builds(
    small,
    st.sampled_from(["layernorm", "rmsnorm"]),
    st.sampled_from(["learned", "rotary"]),
    st.sampled_from([1, 2, 4]),
)
ids = st.integers(1, VOCAB - 1)
sentences = st.lists(ids, min_size=1, max_size=8)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-13)])
def test_gpt_equals_a_stack_of_torchs_layers_in_values_and_gradients(dtype, tolerance):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 4, 64, 0.0, "gelu", norm_first=True, batch_first=True)
    theirs = nn.TransformerEncoder(layer, 2, nn.LayerNorm(16), enable_nested_tensor=False).to(dtype)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(torch.randn_like(parameter) / 10)
    ours = GPT(GPTConfig(VOCAB, 16, 4, 2, dropout=0.0, bias=True)).to(dtype)
    for block, layer in zip(ours.blocks, theirs.layers, strict=True):
        block.load_state_dict(EncoderLayer.from_torch(layer).state_dict())
    ours.norm = LayerNorm.from_torch(theirs.norm)
    tokens = torch.randint(1, VOCAB, (2, 6))
    x = ours.position(ours.embedding(tokens))
    expected = ours.output(theirs(x, mask=~causal_mask(6)))
    found = ours(tokens)
    assert distance(found, expected) <= tolerance
    probe = torch.randn_like(found)
    outer = [ours.embedding.weight, ours.position.weight]
    expected_gradients = torch.autograd.grad((expected * probe).sum(), [*outer, *theirs.parameters()])
    gradients = torch.autograd.grad((found * probe).sum(), [*outer, *ours.blocks[0].norm_1.parameters()])
    assert distance(gradients[0], expected_gradients[0]) <= 10 * tolerance
    assert distance(gradients[1], expected_gradients[1]) <= 10 * tolerance
    names = [name for name, _ in theirs.named_parameters()]
    first_norm = names.index("layers.0.norm1.weight") + 2
    assert distance(gradients[2], expected_gradients[first_norm]) <= 10 * tolerance


@given(models, sentences, st.data())
@settings(max_examples=40, deadline=None)
def test_future_tokens_do_not_change_the_past(model, tokens, data):
    cut = data.draw(st.integers(1, len(tokens)))
    other = tokens[:cut] + data.draw(st.lists(ids, max_size=4))
    with torch.no_grad():
        logits, changed = model(torch.tensor([tokens])), model(torch.tensor([other]))
    assert distance(logits[:, :cut], changed[:, :cut]) <= 1e-12


@given(models, st.lists(sentences, min_size=2, max_size=4), st.integers(0, 4))
@settings(max_examples=40, deadline=None)
def test_padding_is_invisible_and_a_batch_equals_its_members(model, rows, more):
    length = max(map(len, rows)) + more
    batch = torch.tensor([row + [0] * (length - len(row)) for row in rows])
    with torch.no_grad():
        logits = model(batch)
        for i, row in enumerate(rows):
            assert distance(logits[i, : len(row)], model(torch.tensor([row]))[0]) <= 1e-12


def test_the_own_token_and_those_before_do_count():
    model = small()
    tokens = torch.tensor([[3, 4, 5]])
    for t in range(3):
        other = tokens.clone()
        other[0, t] = 9
        changed = (model(tokens) - model(other)).abs().amax(-1)[0] > 1e-6
        assert changed.tolist() == [position >= t for position in range(3)]


def test_weights_are_causal_distributions():
    model = small(num_key_value_heads=2)
    tokens = torch.tensor([[3, 4, 5], [6, 7, 8]])
    logits, weights = model(tokens, need_weights=True)
    assert distance(logits, model(tokens)) <= 1e-12
    assert weights.shape == (2, 2, 4, 3, 3)
    assert distance(weights.sum(-1), torch.ones(())) <= 1e-12
    assert weights.triu(1).max() == 0


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("num_key_value_heads", [1, 2, 4])
def test_grouped_queries_equal_full_attention_with_repeated_heads(num_key_value_heads, need_weights):
    torch.manual_seed(0)
    grouped = GroupedQueryAttention(16, 4, num_key_value_heads, bias=True).double()
    full = MultiHeadAttention(16, 4, bias=True).double()
    state = grouped.state_dict()
    group = 4 // num_key_value_heads
    for name in ("W_k.weight", "W_k.bias", "W_v.weight", "W_v.bias"):
        by_head = state[name].unflatten(0, (num_key_value_heads, 4))
        state[name] = by_head.repeat_interleave(group, dim=0).flatten(0, 1)
    full.load_state_dict(state)
    x = torch.randn(2, 5, 16, dtype=torch.float64)
    output, weights = grouped(x, x, x, causal_mask(5), need_weights)
    expected, expected_weights = full(x, x, x, causal_mask(5), need_weights)
    assert distance(output, expected) <= 1e-14
    assert (weights is None) == (not need_weights)
    if need_weights:
        assert distance(weights, expected_weights) <= 1e-14


@pytest.mark.parametrize("num_key_value_heads", [1, 2, 4])
@pytest.mark.parametrize(("dtype", "size"), [(torch.float32, 4), (torch.float64, 8)])
def test_cache_has_the_size_of_the_formula(num_key_value_heads, dtype, size):
    config = GPTConfig(VOCAB, 16, 4, 2, num_key_value_heads=num_key_value_heads)
    cache = GPT(config).to(dtype).start(torch.randint(1, VOCAB, (3, 7)))
    measured = sum(part.numel() * part.element_size() for pair in cache for part in pair)
    assert measured == kv_cache_bytes(config, 3, 7, size) == 2 * 2 * 3 * num_key_value_heads * 7 * 4 * size


def test_cache_of_a_known_model():
    # The sizes of Llama 2 70B: heads of 128 features, 4096 tokens, 2 bytes a number.
    config = GPTConfig(32000, 8192, 64, 80, num_key_value_heads=8)
    assert kv_cache_bytes(config, 1, 4096, 2) == 1.25 * 2**30


def test_options_change_what_they_name():
    assert isinstance(small(norm="rmsnorm").blocks[0].norm_1, RMSNorm)
    assert isinstance(small().norm, LayerNorm)
    assert small(position="rotary").position is None
    assert small(position="rotary").blocks[0].rotary
    assert num_parameters(small()) - num_parameters(small(position="rotary")) == 12 * 16
    # two layers, keys and values, 16 features to two heads of 4 instead of four
    assert num_parameters(small()) - num_parameters(small(num_key_value_heads=2)) == 2 * 2 * 16 * 8
    tied, free = (GPT(GPTConfig(VOCAB, 16, 4, 1, tie_weights=tie)) for tie in (True, False))
    assert num_parameters(free) - num_parameters(tied) == VOCAB * 16


def test_a_new_model_guesses_and_its_last_projections_start_small():
    torch.manual_seed(0)
    model = GPT(GPTConfig(VOCAB, 64, 4, 4)).eval()
    logits, targets = model(torch.randint(1, VOCAB, (16, 9))), torch.randint(1, VOCAB, (16, 9))
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
    assert abs(loss.item() - math.log(VOCAB)) < 0.1
    widths = {name: parameter.std().item() for name, parameter in model.named_parameters()}
    assert abs(widths["blocks.0.self_attention.W_q.weight"] - 0.02) < 1e-3
    assert abs(widths["blocks.0.self_attention.W_o.weight"] - 0.02 / 8**0.5) < 5e-4
    assert abs(widths["blocks.0.feed_forward.W_2.weight"] - 0.02 / 8**0.5) < 5e-4


def test_a_trained_step_lowers_the_loss():
    torch.manual_seed(0)
    model = GPT(
        GPTConfig(VOCAB, 32, 4, 2, dropout=0.0, norm="rmsnorm", position="rotary", num_key_value_heads=2)
    )
    tokens = torch.randint(1, VOCAB, (4, 8))
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    losses = []
    for _ in range(40):
        loss = nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 4


def translating():
    """With the weights of `small(position="rotary")`."""
    model = TranslatingGPT(small(position="rotary").config).double().eval()
    model.load_state_dict(small(position="rotary").state_dict())
    return model


def padded(rows):
    length = max(map(len, rows))
    return torch.tensor([row + [0] * (length - len(row)) for row in rows])


words = st.lists(st.integers(2, VOCAB - 1), max_size=6)


@given(st.lists(st.tuples(words, words), min_size=1, max_size=4))
@settings(max_examples=40, deadline=None)
def test_joined_sequences_have_all_words_in_order_and_padding_at_the_end(pairs):
    firsts, seconds = (padded([[1, *row] for row in rows]) for rows in zip(*pairs, strict=True))
    joined = join_sequences(firsts, seconds)
    assert joined.shape[1] == firsts.shape[1] + seconds.shape[1]
    for row, (first, second) in zip(joined.tolist(), pairs, strict=True):
        sequence = [1, *first, 1, *second]
        assert row == sequence + [0] * (len(row) - len(sequence))


@given(st.lists(st.tuples(words, words), min_size=1, max_size=4))
@settings(max_examples=40, deadline=None)
def test_translating_is_continuing(pairs):
    model, language_model = translating(), small(position="rotary")
    src = padded([[*source, 1] for source, _ in pairs])
    tgt = padded([[1, *target] for _, target in pairs])
    with torch.no_grad():
        logits = model(src, tgt)
        assert logits.shape == (len(pairs), tgt.shape[1], VOCAB)
        for row, (source, target) in zip(logits, pairs, strict=True):
            whole = language_model(torch.tensor([[*source, 1, *target]]))[0]
            assert distance(row[: len(target) + 1], whole[len(source) :]) <= 1e-12


def test_weights_of_a_translating_gpt_are_those_of_the_joined_sequence():
    model = translating()
    src, tgt = torch.tensor([[3, 4, 1]]), torch.tensor([[1, 5, 6]])
    logits, weights = model(src, tgt, need_weights=True)
    assert distance(logits, model(src, tgt)) <= 1e-12
    assert distance(weights, small(position="rotary")(torch.tensor([[3, 4, 1, 5, 6]]), True)[1]) <= 1e-12


def test_a_translating_gpt_decodes_as_a_language_model():
    prompts = torch.tensor([[3, 4, 1, 0], [5, 6, 7, 1]])
    assert greedy(translating(), prompts, 5) == greedy(small(position="rotary"), prompts, 5)


def test_a_gpt_learns_to_translate_by_continuing():
    torch.manual_seed(0)
    model = TranslatingGPT(GPTConfig(VOCAB, 32, 4, 2, dropout=0.0, position="rotary"))
    sources = torch.randint(3, VOCAB, (64, 3))
    src = torch.cat([sources, torch.ones(64, 1, dtype=torch.long)], dim=1)
    tgt = torch.cat([torch.ones(64, 1, dtype=torch.long), sources.flip(1), torch.full((64, 1), 2)], dim=1)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(150):
        loss = nn.functional.cross_entropy(model(src, tgt[:, :-1]).flatten(0, 1), tgt[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.1
    assert greedy(model, src, 5)[0] == sources.flip(1).tolist()


def test_config_survives_a_dict():
    config = GPTConfig(13, 16, 4, 2, position="rotary", num_key_value_heads=2)
    assert GPTConfig(**dataclasses.asdict(config)) == config
    assert (config.d_ff, GPTConfig(13, 16, 4, 2).num_key_value_heads) == (64, 4)


def test_bad_configurations_are_named():
    wrong = {
        "vocab_size: expected a positive int, found 0": {"vocab_size": 0},
        "num_heads: expected a divisor of d_model = 256, found 7": {"num_heads": 7},
        "num_key_value_heads: expected a divisor of num_heads = 8, found 3": {"num_key_value_heads": 3},
        "num_key_value_heads: expected a positive int, found 0": {"num_key_value_heads": 0},
        "norm: expected one of 'layernorm', 'rmsnorm', found 'batchnorm'": {"norm": "batchnorm"},
        "position: expected one of 'learned', 'rotary', found 'none'": {"position": "none"},
        "d_ff: expected a positive int, found 0": {"d_ff": 0},
        "d_model / num_heads: expected an even": {"d_model": 24, "position": "rotary"},
    }
    for message, change in wrong.items():
        with pytest.raises(ValueError, match=message):
            GPTConfig(**({"vocab_size": 13} | change))
    with pytest.raises(TypeError, match="config: expected a GPTConfig, found dict"):
        GPT({})
    with pytest.raises(ValueError, match="num_key_value_heads: expected a divisor of num_heads = 4, found 3"):
        GroupedQueryAttention(16, 4, 3)
    with pytest.raises(ValueError, match="length: expected a positive int, found 0"):
        kv_cache_bytes(GPTConfig(13), 1, 0)


def test_bad_tokens_are_named():
    model = small()
    with pytest.raises(ValueError, match=r"tokens: expected token ids in \[0, 13\), found 1 to 13"):
        model(torch.tensor([[1, 13]]))
    with pytest.raises(ValueError, match="tokens: expected at least one token"):
        model(torch.ones(2, 0, dtype=torch.long))
    with pytest.raises(TypeError, match="tokens: expected an integer tensor"):
        model(torch.ones(2, 3))
    with pytest.raises(ValueError, match=r"prompt: expected token ids in \[0, 13\), found -1 to 3"):
        model.start(torch.tensor([[3, -1]]))
    with pytest.raises(ValueError, match=r"expected positions in \[0, max_len = 12\), found 0 to 12"):
        model(torch.ones(1, 13, dtype=torch.long))
