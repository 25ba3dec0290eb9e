"""Encoder and decoder: padding is invisible, attention queries with the right state, bad input is named."""

import dataclasses
import functools

import pytest
import torch
from encoder_decoder import assert_future_is_invisible, assert_padding_is_invisible, distance
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from attnbook.attention import padding_mask
from attnbook.feedforward import num_parameters
from attnbook.recurrent import GRU, LSTM
from attnbook.seq2seq import AttentionDecoder, Decoder, Encoder, Seq2Seq, Seq2SeqConfig

SRC_VOCAB, TGT_VOCAB = 13, 11
CELLS = ["rnn", "lstm", "gru"]
ATTENTIONS = [None, "additive", "dot", "general"]


@functools.cache
def small(cell, attention, bidirectional=False, reverse_source=False, num_layers=2):
    torch.manual_seed(0)
    config = Seq2SeqConfig(
        SRC_VOCAB, TGT_VOCAB, 6, 8, cell, num_layers, attention, bidirectional, reverse_source
    )
    return Seq2Seq(config).double().eval()


cells, attentions = st.sampled_from(CELLS), st.sampled_from(ATTENTIONS)
ids = st.integers(1, min(SRC_VOCAB, TGT_VOCAB) - 1)
sentences = st.lists(ids, min_size=1, max_size=7)


@given(
    cells, attentions, st.booleans(), st.booleans(), st.lists(sentences, min_size=2, max_size=4), st.data()
)
@settings(max_examples=60, deadline=None)
def test_padding_is_invisible_and_a_batch_equals_its_members(cell, attention, both, reverse, sources, data):
    model = small(cell, attention, both and attention != "dot", reverse)
    targets = [data.draw(sentences) for _ in sources]
    assert_padding_is_invisible(model, sources, targets, data.draw(st.integers(0, 4)))


@given(cells, attentions, sentences, sentences, st.data())
@settings(max_examples=40, deadline=None)
def test_future_tokens_do_not_change_the_past(cell, attention, src, tgt, data):
    model = small(cell, attention)
    cut = data.draw(st.integers(1, len(tgt)))
    assert_future_is_invisible(model, src, tgt, cut, data.draw(st.lists(ids, max_size=4)))


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_every_source_token_reaches_every_prediction(attention):
    model = small("gru", attention, num_layers=1)
    src, tgt = torch.tensor([[3, 4, 5, 6]]), torch.tensor([[1, 2, 3]])
    for t in range(4):
        other = src.clone()
        other[0, t] = 12
        assert (model(src, tgt) - model(other, tgt)).abs().amax(-1).min() > 1e-6


def test_without_a_mask_padding_would_leak_into_the_final_state():
    model = small("gru", None, num_layers=1)
    src = torch.tensor([[3, 4, 5, 0, 0]])
    embedded = model.encoder.embedding(src)
    leaking = model.encoder.recurrent(embedded)[1]
    masked = model.encode(src)[1][0][:, 0]  # (batch, hidden) of the only layer
    assert distance(leaking[0], masked) > 1e-2
    assert distance(model.encoder.recurrent(embedded[:, :3])[1][0], masked) <= 1e-15


@pytest.mark.parametrize(("cell", "theirs"), [("rnn", nn.RNN), ("lstm", nn.LSTM), ("gru", nn.GRU)])
def test_encoder_equals_torch_on_packed_sentences(cell, theirs):
    torch.manual_seed(0)
    theirs = theirs(6, 8, 2, batch_first=True, dtype=torch.float64)
    encoder = Encoder(SRC_VOCAB, 6, 8, cell, num_layers=2).double()
    encoder.recurrent = type(encoder.recurrent).from_torch(theirs)
    src = torch.tensor([[3, 4, 5, 6, 7], [3, 4, 0, 0, 0]])
    packed = nn.utils.rnn.pack_padded_sequence(
        encoder.embedding(src), torch.tensor([5, 2]), batch_first=True, enforce_sorted=False
    )
    expected, state = theirs(packed)
    expected, _ = nn.utils.rnn.pad_packed_sequence(expected, batch_first=True)
    outputs, parts = encoder(src)
    assert distance(outputs, expected) <= 1e-14
    state = state if isinstance(state, tuple) else (state,)
    assert len(parts) == len(state)
    for part, expected in zip(parts, state, strict=True):
        assert distance(part, expected.transpose(0, 1)) <= 1e-14


def test_reversed_source_is_read_from_its_end_and_put_back_in_order():
    plain, reverse = (Encoder(SRC_VOCAB, 6, 8, reverse=value).double() for value in (False, True))
    reverse.load_state_dict(plain.state_dict())
    outputs, (state,) = reverse(torch.tensor([[3, 4, 5, 0], [6, 7, 8, 9]]))
    expected, (expected_state,) = plain(torch.tensor([[5, 4, 3, 0], [9, 8, 7, 6]]))
    assert distance(state, expected_state) == 0
    assert distance(outputs[0, :3], expected[0, :3].flip(0)) == 0
    assert distance(outputs[1], expected[1].flip(0)) == 0


def test_bridge_makes_the_first_state_from_both_directions():
    torch.manual_seed(0)
    for cell, parts in (("gru", 1), ("lstm", 2)):
        encoder = Encoder(SRC_VOCAB, 6, 8, cell, num_layers=2, bidirectional=True)
        src = torch.tensor([[3, 4, 5], [6, 7, 0]])
        outputs, state = encoder(src)
        assert outputs.shape == (2, 3, 16)
        assert [part.shape for part in state] == [(2, 2, 8)] * parts
        last = torch.stack([outputs[0, 2, :8], outputs[1, 1, :8]])  # forward, at each sentence's last word
        first = outputs[:, 0, 8:]  # backward, at the first word
        expected = torch.tanh(encoder.bridges[0](torch.cat([last, first], dim=-1)))
        assert distance(state[0][:, -1], expected) <= 1e-6


@pytest.mark.parametrize("cell", CELLS)
def test_bahdanau_queries_with_the_state_before_and_luong_with_the_state_after(cell):
    torch.manual_seed(0)
    memory, mask = torch.randn(2, 5, 8), torch.tensor([[[True] * 5], [[True] * 3 + [False] * 2]])
    tgt = torch.tensor([[1, 2, 3], [4, 5, 6]])
    state = tuple(torch.randn(2, 2, 8) for _ in range(2 if cell == "lstm" else 1))  # of two layers

    decoder = AttentionDecoder(TGT_VOCAB, 6, 8, 8, cell, num_layers=2, attention="additive")
    before, expected = state, []
    for t in range(3):
        context, weights = decoder.attention(before[0][:, 1:], memory, memory, mask)
        read = torch.cat([decoder.embed(tgt[:, t : t + 1]), context], dim=-1)
        output, before = decoder.read(read, before)
        expected.append((decoder.predict(output, context), weights))
    logits, after, weights = decoder(tgt, memory, mask, state)
    assert distance(logits, torch.cat([step[0] for step in expected], dim=1)) <= 1e-6
    assert distance(weights, torch.cat([step[1] for step in expected], dim=1)) <= 1e-6
    assert all(distance(*pair) <= 1e-6 for pair in zip(after, before, strict=True))

    for score in ("dot", "general"):
        decoder = AttentionDecoder(TGT_VOCAB, 6, 8, 8, cell, num_layers=2, attention=score)
        outputs, _ = decoder.read(decoder.embed(tgt), state)
        context, expected = decoder.attention(outputs, memory, memory, mask)
        logits, _, weights = decoder(tgt, memory, mask, state)
        assert distance(weights, expected) <= 1e-6
        assert distance(logits, decoder.predict(outputs, context)) <= 1e-6


def test_decoder_without_attention_sees_the_context_at_every_step():
    torch.manual_seed(0)
    decoder = Decoder(TGT_VOCAB, 6, 8, 5)
    tgt, state = torch.tensor([[1, 2, 3]]), (torch.zeros(1, 1, 8),)
    logits, after = decoder(tgt, torch.zeros(1, 5), state)
    other, _ = decoder(tgt, torch.ones(1, 5), state)
    assert logits.shape == (1, 3, TGT_VOCAB)
    assert after[0].shape == (1, 1, 8)
    assert (logits - other).abs().amax(-1).min() > 1e-3


@pytest.mark.parametrize("cell", CELLS)
def test_context_is_the_last_layers_state_after_the_last_word(cell):
    model = small(cell, None)
    outputs, state = model.encode(torch.tensor([[3, 4, 5], [6, 7, 0]]))
    started, context = model.start((outputs, state))
    assert distance(context, torch.stack([outputs[0, 2], outputs[1, 1]])) == 0
    assert started is state


@pytest.mark.parametrize("attention", ["additive", "dot", "general"])
def test_weights_are_distributions_over_the_words_of_the_source(attention):
    model = small("gru", attention)
    src, tgt = torch.tensor([[3, 4, 5, 0], [6, 7, 8, 9]]), torch.tensor([[1, 2, 3], [1, 5, 0]])
    logits, weights = model(src, tgt, need_weights=True)
    assert distance(logits, model(src, tgt)) == 0
    assert weights.shape == (2, 3, 4)
    assert distance(weights.sum(-1), torch.ones(())) <= 1e-12
    assert weights[0, :, 3].max() == 0
    with pytest.raises(ValueError, match="need_weights: expected False for a model without attention"):
        small("gru", None)(src, tgt, need_weights=True)


@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("cell", CELLS)
def test_start_without_a_mask_attends_to_everything(cell, attention):
    model = small(cell, attention)
    src = torch.tensor([[3, 4, 5]])
    memory, token = model.encode(src), torch.tensor([1])
    with_mask = model.step(token, model.start(memory, padding_mask(src)))[0]
    assert distance(model.step(token, model.start(memory))[0], with_mask) == 0


def test_parts_are_the_librarys_own_and_have_the_expected_sizes():
    model = Seq2Seq(Seq2SeqConfig(SRC_VOCAB, TGT_VOCAB, 6, 8, "lstm", attention=None))
    assert isinstance(model.encoder.recurrent, LSTM)
    lstm = 4 * 8 * (6 + 8 + 1)
    decoder = 4 * 8 * (6 + 8 + 8 + 1) + 8 * (8 + 8 + 1) + TGT_VOCAB * (8 + 1)
    assert num_parameters(model) == SRC_VOCAB * 6 + lstm + TGT_VOCAB * 6 + decoder
    assert isinstance(small("gru", "dot").decoder.recurrent, GRU)


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_gradients_reach_every_parameter(attention):
    torch.manual_seed(0)
    bidirectional = attention != "dot"
    model = Seq2Seq(Seq2SeqConfig(SRC_VOCAB, TGT_VOCAB, 6, 8, "lstm", 2, attention, bidirectional))
    model(torch.tensor([[3, 4, 5, 0]]), torch.tensor([[1, 2]])).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


def test_config_survives_a_dict():
    config = Seq2SeqConfig(13, 11, attention="general", bidirectional=True)
    assert Seq2SeqConfig(**dataclasses.asdict(config)) == config


def test_bad_configurations_are_named():
    wrong = {
        "tgt_vocab_size: expected a positive int, found 0": {"tgt_vocab_size": 0},
        "hidden_size: expected a positive int, found -1": {"hidden_size": -1},
        "num_layers: expected a positive int, found 0": {"num_layers": 0},
        "cell: expected one of 'rnn', 'lstm', 'gru', found 'sru'": {"cell": "sru"},
        "attention: expected one of": {"attention": "concat"},
        "attention: expected 'additive' or 'general' for a bidirectional encoder": {
            "attention": "dot",
            "bidirectional": True,
        },
        "dropout: expected a number in": {"dropout": 1.0},
    }
    for message, change in wrong.items():
        with pytest.raises(ValueError, match=message):
            Seq2SeqConfig(**({"src_vocab_size": 13, "tgt_vocab_size": 11} | change))
    with pytest.raises(TypeError, match="config: expected a Seq2SeqConfig, found int"):
        Seq2Seq(5)
    with pytest.raises(ValueError, match="memory_size: expected hidden_size = 8 for 'dot', found 16"):
        AttentionDecoder(TGT_VOCAB, 6, 8, 16, attention="dot")
    with pytest.raises(ValueError, match="cell: expected one of"):
        Encoder(SRC_VOCAB, 6, 8, "conv")


def test_bad_tokens_are_named():
    model = small("gru", "additive")
    good = torch.tensor([[1, 2, 3]])
    with pytest.raises(ValueError, match=r"src: expected token ids in \[0, 13\), found 1 to 13"):
        model(torch.tensor([[1, 13]]), good)
    with pytest.raises(ValueError, match=r"tgt: expected token ids in \[0, 11\), found 1 to 11"):
        model(good, torch.tensor([[1, 11]]))
    with pytest.raises(ValueError, match="src: expected padding .id 0. at the end"):
        model(torch.tensor([[1, 0, 2]]), good)
    with pytest.raises(ValueError, match="src: expected a word in each sentence, found only padding in 1"):
        model(torch.tensor([[1, 2], [0, 0]]), torch.tensor([[1], [1]]))
    with pytest.raises(ValueError, match="src: expected at least one token"):
        model(good[:, :0], good)
    with pytest.raises(ValueError, match="tgt: expected at least one token"):
        model(good, good[:, :0])
    with pytest.raises(TypeError, match="src: expected an integer tensor of token ids"):
        model(good.float(), good)
