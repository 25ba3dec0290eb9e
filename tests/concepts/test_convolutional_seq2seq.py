"""The convolutional translator is torch's convolution and gate, sees its windows only, and no padding."""

import dataclasses
import functools

import pytest
import torch
import torch.nn.functional as F
from encoder_decoder import assert_future_is_invisible, assert_padding_is_invisible, distance
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from attnbook.attention import padding_mask
from attnbook.convolution import receptive_field
from attnbook.convolutional_seq2seq import (
    ConvolutionalDecoderLayer,
    ConvolutionalEncoderLayer,
    ConvolutionalSeq2Seq,
    ConvolutionalSeq2SeqConfig,
    GatedConvolution,
)
from attnbook.feedforward import num_parameters

SRC_VOCAB, TGT_VOCAB = 13, 11


@functools.cache
def small(growth, kernel_size=3):
    torch.manual_seed(0)
    config = ConvolutionalSeq2SeqConfig(SRC_VOCAB, TGT_VOCAB, 16, 4, 2, 3, kernel_size, growth)
    model = ConvolutionalSeq2Seq(config).double().eval()
    with torch.no_grad():  # biases start at 0, where an error would not show
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) / 4)
    return model


models = st.builds(small, st.sampled_from([1, 2]), st.sampled_from([1, 3, 5]))
ids = st.integers(1, min(SRC_VOCAB, TGT_VOCAB) - 1)
sentences = st.lists(ids, min_size=1, max_size=8)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-14)])
def test_gated_convolution_equals_torch_in_values_and_gradients(causal, dilation, dtype, tolerance):
    torch.manual_seed(0)
    ours = GatedConvolution(6, 3, dilation, causal).to(dtype)
    theirs = nn.Conv1d(6, 12, 3, dilation=dilation, dtype=dtype)
    nn.init.normal_(ours.bias)
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(2, 9, 6, dtype=dtype)
    zeros = (2 * dilation, 0) if causal else (dilation, dilation)
    expected = F.glu(theirs(F.pad(x.transpose(1, 2), zeros)), dim=1).transpose(1, 2)
    found = ours(x)
    assert distance(found, expected) <= 2 * tolerance
    probe = torch.randn_like(expected)
    (found * probe).sum().backward()
    (expected * probe).sum().backward()
    assert distance(ours.weight.grad, theirs.weight.grad) <= 20 * tolerance
    assert distance(ours.bias.grad, theirs.bias.grad) <= 20 * tolerance


def test_gate_shut_lets_nothing_pass_and_open_everything():
    convolution, x = GatedConvolution(4, 3), torch.randn(1, 5, 4)
    with torch.no_grad():
        convolution.weight[4:] = 0
        convolution.bias[4:] = -100
        assert convolution(x).abs().max() < 1e-30
        convolution.bias[4:] = 100
        plain = F.conv1d(x.transpose(1, 2), convolution.weight[:4], padding=1).transpose(1, 2)
        assert distance(convolution(x), plain) <= 1e-6


def test_a_new_convolution_keeps_the_size_of_the_features():
    torch.manual_seed(0)
    x = torch.randn(4, 50, 64)
    assert 0.8 < GatedConvolution(64, 3)(x).std() < 1.5


def test_steps_of_a_causal_convolution_give_its_forward():
    torch.manual_seed(0)
    convolution = GatedConvolution(6, 3, dilation=2, causal=True).double()
    x = torch.randn(2, 9, 6, dtype=torch.float64)
    past, steps = x.new_zeros(2, convolution.reach, 6), []
    for t in range(9):
        y, past = convolution.step(x[:, t : t + 1], past)
        assert past.shape == (2, 4, 6)
        steps.append(y)
    assert distance(torch.cat(steps, dim=1), convolution(x)) <= 1e-14


@given(models, sentences, sentences, st.data())
@settings(max_examples=40, deadline=None)
def test_future_tokens_do_not_change_the_past(model, src, tgt, data):
    cut = data.draw(st.integers(1, len(tgt)))
    assert_future_is_invisible(model, src, tgt, cut, data.draw(st.lists(ids, max_size=4)))


@given(models, st.lists(sentences, min_size=2, max_size=4), st.data())
@settings(max_examples=40, deadline=None)
def test_padding_is_invisible_and_a_batch_equals_its_members(model, sources, data):
    targets = [data.draw(sentences) for _ in sources]
    assert_padding_is_invisible(model, sources, targets, data.draw(st.integers(0, 4)))


@given(models, sentences, st.lists(ids, min_size=1, max_size=12))
@settings(max_examples=30, deadline=None)
def test_steps_give_the_logits_of_forward_and_change_no_cache(model, src, tgt):
    src, tgt = torch.tensor([src, src]), torch.tensor([tgt, tgt[::-1]])
    with torch.no_grad():
        expected = model(src, tgt)
        cache = model.start(model.encode(src), padding_mask(src))
        sizes = [window.shape for window, _ in cache[2]]
        for t, token in enumerate(tgt.unbind(1)):
            before = [window.clone() for window, _ in cache[2]]
            logits, after = model.step(token, cache)
            assert distance(logits, expected[:, t]) <= 1e-12
            assert all(torch.equal(a, b) for a, (b, _) in zip(before, cache[2], strict=True))
            cache = after
        assert sizes == [window.shape for window, _ in cache[2]]  # it does not grow


@pytest.mark.parametrize("growth", [1, 2])
def test_the_encoder_sees_exactly_its_receptive_field(growth):
    model = small(growth)
    src = torch.randint(3, SRC_VOCAB, (1, 21))
    reach = (receptive_field(3, [growth**layer for layer in range(2)]) - 1) // 2
    assert reach == {1: 2, 2: 3}[growth]
    x = model.src_embedding(src).detach().requires_grad_()
    y = x
    for layer in model.encoder:
        y = layer(y)
    (gradient,) = torch.autograd.grad((y[0, 10] ** 2).sum(), x)
    seen = gradient[0].abs().sum(-1).nonzero().flatten().tolist()
    assert seen == list(range(10 - reach, 11 + reach))


def test_cross_attention_brings_every_source_token_to_every_prediction():
    model = small(1)
    src, tgt = torch.tensor([[3, 4, 5, 6, 7, 8, 9, 10]]), torch.tensor([[1, 2, 3]])
    with torch.no_grad():
        for t in range(8):
            other = src.clone()
            other[0, t] = 12
            assert (model(src, tgt) - model(other, tgt)).abs().amax(-1).min() > 1e-6


def test_order_matters():
    model, tgt = small(1), torch.tensor([[1, 2]])
    assert distance(model(torch.tensor([[3, 4, 5]]), tgt), model(torch.tensor([[5, 4, 3]]), tgt)) > 1e-3


def test_weights_are_distributions_over_the_words():
    model = small(2)
    src, tgt = torch.tensor([[3, 4, 5, 0], [6, 7, 8, 9]]), torch.tensor([[1, 2, 3], [1, 5, 0]])
    logits, weights = model(src, tgt, need_weights=True)
    assert distance(logits, model(src, tgt)) <= 1e-12  # the fused kernel gives the same
    assert weights.shape == (3, 2, 4, 3, 4)
    assert distance(weights.sum(-1), torch.ones((), dtype=torch.float64)) <= 1e-12
    assert weights[:, 0, ..., 3].max() == 0


def test_layers_return_weights_only_when_asked():
    encoder, decoder = ConvolutionalEncoderLayer(16, 3), ConvolutionalDecoderLayer(16, 4, 3)
    x, memory = torch.randn(2, 5, 16), torch.randn(2, 7, 16)
    assert encoder(x).shape == (2, 5, 16)
    assert decoder(x, memory).shape == (2, 5, 16)
    assert [part.shape for part in decoder(x, memory, need_weights=True)] == [(2, 5, 16), (2, 4, 5, 7)]


def test_parameters_by_hand():
    d, k = 16, 3
    convolution, attention, norm = 2 * d * d * k + 2 * d, 4 * d * d, 2 * d
    model = small(2)
    assert num_parameters(model.encoder[0]) == convolution + norm
    assert num_parameters(model.decoder[0]) == convolution + attention + 2 * norm
    layers = 2 * (convolution + norm) + 3 * (convolution + attention + 2 * norm)
    assert num_parameters(model) == layers + 2 * norm + (SRC_VOCAB + TGT_VOCAB) * d


def test_logits_of_a_new_model_are_of_order_one():
    torch.manual_seed(0)
    model = ConvolutionalSeq2Seq(ConvolutionalSeq2SeqConfig(50, 50, 64, 4, 3, 3)).eval()
    logits = model(torch.randint(1, 50, (4, 9)), torch.randint(1, 50, (4, 9)))
    assert 0.5 < logits.std() < 2


def test_a_trained_step_lowers_the_loss():
    torch.manual_seed(0)
    model = ConvolutionalSeq2Seq(ConvolutionalSeq2SeqConfig(SRC_VOCAB, TGT_VOCAB, 16, 4, 1, 1, dropout=0.0))
    src, tgt = torch.randint(1, SRC_VOCAB, (8, 6)), torch.randint(1, TGT_VOCAB, (8, 6))
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    losses = []
    for _ in range(40):
        loss = F.cross_entropy(model(src, tgt[:, :-1]).flatten(0, 1), tgt[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 4


def test_dropout_acts_in_training_only():
    model = ConvolutionalSeq2Seq(ConvolutionalSeq2SeqConfig(SRC_VOCAB, TGT_VOCAB, 16, 4, 1, 1, dropout=0.5))
    src, tgt = torch.tensor([[3, 4]]), torch.tensor([[1, 2]])
    assert distance(model(src, tgt), model(src, tgt)) > 1e-3
    model.eval()
    assert distance(model(src, tgt), model(src, tgt)) == 0


def test_config_survives_a_dict():
    config = ConvolutionalSeq2SeqConfig(13, 11, 16, 4, 1, 2, growth=2)
    assert ConvolutionalSeq2SeqConfig(**dataclasses.asdict(config)) == config


def test_a_source_of_padding_only_gives_finite_logits():
    logits = small(1)(torch.tensor([[0, 0], [3, 4]]), torch.tensor([[1, 2], [1, 2]]))
    assert logits.isfinite().all()


def test_bad_arguments_are_named():
    wrong = {
        "src_vocab_size: expected a positive int, found 0": {"src_vocab_size": 0},
        "d_model: expected an even": {"d_model": 15, "num_heads": 3},
        "num_heads: expected a divisor of d_model = 256, found 7": {"num_heads": 7},
        "kernel_size: expected an odd number": {"kernel_size": 4},
        "growth: expected a positive int, found 0": {"growth": 0},
        "dropout: expected a number in": {"dropout": 1.0},
    }
    for message, change in wrong.items():
        with pytest.raises(ValueError, match=message):
            ConvolutionalSeq2SeqConfig(**({"src_vocab_size": 13, "tgt_vocab_size": 11} | change))
    with pytest.raises(TypeError, match="config: expected a ConvolutionalSeq2SeqConfig, found dict"):
        ConvolutionalSeq2Seq({"d_model": 16})
    model, good = small(1), torch.tensor([[1, 2, 3]])
    with pytest.raises(ValueError, match=r"src: expected token ids in \[0, 13\), found 1 to 13"):
        model(torch.tensor([[1, 13]]), good)
    with pytest.raises(ValueError, match=r"tgt: expected shape \(batch, target\), found \(3,\)"):
        model(good, torch.tensor([1, 2, 3]))
    with pytest.raises(ValueError, match="x: expected shape"):
        GatedConvolution(16, 3)(torch.zeros(1, 4, 15))
