"""The Transformer equals torch's, looks only where it may, and gives a clear answer to bad input."""

import dataclasses
import functools
import math

import pytest
import torch
from encoder_decoder import assert_future_is_invisible, assert_padding_is_invisible, distance
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from attnbook.attention import causal_mask, padding_mask
from attnbook.feedforward import num_parameters
from attnbook.position import rotation_matrix, sinusoidal_encoding
from attnbook.transformer import DecoderLayer, EncoderLayer, Transformer, TransformerConfig, attend_self

LAYER = [(torch.float32, 1e-6), (torch.float64, 1e-14)]
STACK = [(torch.float32, 1e-5), (torch.float64, 1e-13)]
ACTIVATIONS = ["relu", "gelu"]
SRC_VOCAB, TGT_VOCAB = 13, 11

SOURCE_WORDS = torch.tensor([[True] * 7, [True] * 4 + [False] * 3])  # (batch, source)
TARGET_WORDS = torch.tensor([[True] * 5, [True] * 2 + [False] * 3])  # (batch, target)


def relative(a, b):
    """The largest difference, in units of the largest entry: gradients of a sum have any size."""
    return distance(a, b) / max(1.0, b.abs().max().item())


def no_bias_is_zero(module):
    """torch starts biases and norms at 0 and 1, where a wrong copy would not show."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype) / 2)
    return module


def gradient_pairs(ours, theirs):
    """The gradients of one layer of ours and of its torch twin, side by side."""
    attentions = [(ours.self_attention, theirs.self_attn)]
    if isinstance(ours, DecoderLayer):
        attentions.append((ours.cross_attention, theirs.multihead_attn))
    for our_attention, their_attention in attentions:
        inputs = (our_attention.W_q, our_attention.W_k, our_attention.W_v)
        yield torch.cat([p.weight.grad for p in inputs]), their_attention.in_proj_weight.grad
        yield torch.cat([p.bias.grad for p in inputs]), their_attention.in_proj_bias.grad
        yield our_attention.W_o.weight.grad, their_attention.out_proj.weight.grad
        yield our_attention.W_o.bias.grad, their_attention.out_proj.bias.grad
    modules = [(ours.feed_forward.W_1, theirs.linear1), (ours.feed_forward.W_2, theirs.linear2)]
    modules += [(ours.norm_1, theirs.norm1), (ours.norm_2, theirs.norm2)]
    if isinstance(ours, DecoderLayer):
        modules.append((ours.norm_3, theirs.norm3))
    for our_module, their_module in modules:
        yield our_module.weight.grad, their_module.weight.grad
        yield our_module.bias.grad, their_module.bias.grad


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), LAYER)
def test_encoder_layer_equals_torch_in_values_and_gradients(norm_first, activation, dtype, tolerance):
    torch.manual_seed(0)
    theirs = nn.TransformerEncoderLayer(
        16, 4, 32, 0.0, activation, norm_first=norm_first, batch_first=True, dtype=dtype
    )
    ours = EncoderLayer.from_torch(no_bias_is_zero(theirs))
    x = torch.randn(2, 7, 16, dtype=dtype)
    expected = theirs(x, src_key_padding_mask=~SOURCE_WORDS)[SOURCE_WORDS]
    found = ours(x, SOURCE_WORDS[:, None, None])[SOURCE_WORDS]
    assert distance(found, expected) <= 2 * tolerance
    probe = torch.randn_like(expected)
    (expected * probe).sum().backward()
    (found * probe).sum().backward()
    for our_gradient, their_gradient in gradient_pairs(ours, theirs):
        assert relative(our_gradient, their_gradient) <= 5 * tolerance


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), LAYER)
def test_decoder_layer_equals_torch_in_values_and_gradients(norm_first, activation, dtype, tolerance):
    torch.manual_seed(0)
    theirs = nn.TransformerDecoderLayer(
        16, 4, 32, 0.0, activation, norm_first=norm_first, batch_first=True, dtype=dtype
    )
    ours = DecoderLayer.from_torch(no_bias_is_zero(theirs))
    x, memory = torch.randn(2, 5, 16, dtype=dtype), torch.randn(2, 7, 16, dtype=dtype)
    expected = theirs(x, memory, tgt_mask=~causal_mask(5), memory_key_padding_mask=~SOURCE_WORDS)
    found = ours(x, memory, causal_mask(5), SOURCE_WORDS[:, None, None])
    assert distance(found, expected) <= 2 * tolerance
    probe = torch.randn_like(expected)
    (expected * probe).sum().backward()
    (found * probe).sum().backward()
    for our_gradient, their_gradient in gradient_pairs(ours, theirs):
        assert relative(our_gradient, their_gradient) <= 5 * tolerance


@pytest.mark.parametrize("final_norm", [True, False])
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), STACK)
@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_transformer_equals_torch_in_values_and_gradients(norm_first, final_norm, dtype, tolerance):
    torch.manual_seed(0)
    theirs = nn.Transformer(16, 4, 2, 3, 32, 0.0, norm_first=norm_first, batch_first=True, dtype=dtype)
    if not final_norm:
        theirs.encoder.norm = theirs.decoder.norm = None
    ours = Transformer.from_torch(no_bias_is_zero(theirs), SRC_VOCAB, TGT_VOCAB)
    src = torch.randint(1, SRC_VOCAB, (2, 7)).masked_fill(~SOURCE_WORDS, 0)
    tgt = torch.randint(1, TGT_VOCAB, (2, 5)).masked_fill(~TARGET_WORDS, 0)

    def their_logits():
        decoded = theirs(
            ours.embed_source(src),
            ours.embed_target(tgt),
            tgt_mask=~causal_mask(5),
            src_key_padding_mask=~SOURCE_WORDS,
            tgt_key_padding_mask=~TARGET_WORDS,
            memory_key_padding_mask=~SOURCE_WORDS,
        )
        return ours.output(decoded)[TARGET_WORDS]

    probe = torch.randn(int(TARGET_WORDS.sum()), TGT_VOCAB, dtype=dtype)
    results = []
    for logits in (their_logits(), ours(src, tgt)[TARGET_WORDS]):
        ours.zero_grad()
        (logits * probe).sum().backward()
        outer = (ours.src_embedding, ours.tgt_embedding, ours.output)
        results.append((logits.detach(), [module.weight.grad.clone() for module in outer]))
    (expected, their_outer), (found, our_outer) = results
    assert distance(found, expected) <= tolerance
    pairs = list(zip(our_outer, their_outer, strict=True))
    for our_stack, their_stack in ((ours.encoder, theirs.encoder), (ours.decoder, theirs.decoder)):
        for our_layer, their_layer in zip(our_stack, their_stack.layers, strict=True):
            pairs += gradient_pairs(our_layer, their_layer)
    assert len(pairs) == 3 + 2 * 12 + 3 * 18
    assert max(relative(*pair) for pair in pairs) <= 2 * tolerance


def test_torch_adds_a_norm_after_post_norm_stacks_and_the_paper_does_not():
    theirs = nn.Transformer(16, 4, 1, 1, 32, batch_first=True)
    assert isinstance(theirs.encoder.norm, nn.LayerNorm)
    ours = Transformer(TransformerConfig(SRC_VOCAB, TGT_VOCAB, 16, 4, 1, 1, 32))
    assert isinstance(ours.encoder_norm, nn.Identity)
    assert isinstance(ours.decoder_norm, nn.Identity)
    pre_norm = Transformer(TransformerConfig(SRC_VOCAB, TGT_VOCAB, 16, 4, 1, 1, 32, norm_first=True))
    assert num_parameters(pre_norm) == num_parameters(ours) + 2 * 2 * 16
    same_as_torch = num_parameters(Transformer.from_torch(theirs, SRC_VOCAB, TGT_VOCAB).encoder_norm)
    assert same_as_torch == 2 * 16


@pytest.mark.parametrize("kind", [nn.TransformerEncoderLayer, nn.TransformerDecoderLayer])
def test_from_torch_keeps_dropout_and_refuses_what_we_lack(kind):
    ours = EncoderLayer if kind is nn.TransformerEncoderLayer else DecoderLayer
    copy = ours.from_torch(kind(16, 4, 32, dropout=0.3).eval())
    probabilities = (copy.dropout.p, copy.self_attention.dropout, copy.feed_forward.dropout)
    assert probabilities == (0.3, 0.3, 0.3)
    assert not copy.training
    with pytest.raises(ValueError, match="expected the activation relu or gelu"):
        ours.from_torch(kind(16, 4, 32, activation=nn.functional.silu))
    with pytest.raises(ValueError, match="expected nn.Linear with bias"):
        ours.from_torch(kind(16, 4, 32, bias=False))


@functools.cache
def small(position, norm_first, dtype=torch.float64):
    torch.manual_seed(0)
    config = TransformerConfig(
        SRC_VOCAB, TGT_VOCAB, 16, 4, 2, 2, 32, max_len=12, position=position, norm_first=norm_first
    )
    return Transformer(config).to(dtype).eval()


positions = st.sampled_from(["sinusoidal", "learned", "rotary"])
ids = st.integers(1, min(SRC_VOCAB, TGT_VOCAB) - 1)
sentences = st.lists(ids, min_size=1, max_size=8)


@given(positions, st.booleans(), sentences, sentences, st.data())
@settings(max_examples=40, deadline=None)
def test_future_tokens_do_not_change_the_past(position, norm_first, src, tgt, data):
    model = small(position, norm_first)
    cut = data.draw(st.integers(1, len(tgt)))
    assert_future_is_invisible(model, src, tgt, cut, data.draw(st.lists(ids, max_size=4)))


def test_a_token_does_change_its_own_prediction_and_the_source_changes_all():
    model = small("sinusoidal", False)
    src, tgt = torch.tensor([[3, 4, 5]]), torch.tensor([[1, 2, 3]])
    with torch.no_grad():
        logits = model(src, tgt)
        own = model(src, torch.tensor([[1, 2, 4]]))
        other_source = model(torch.tensor([[3, 4, 6]]), tgt)
    assert distance(logits[:, 2], own[:, 2]) > 1e-3
    assert (logits - other_source).abs().amax(-1).min() > 1e-5


@given(positions, st.booleans(), st.lists(sentences, min_size=2, max_size=4), st.data())
@settings(max_examples=40, deadline=None)
def test_padding_is_invisible_and_a_batch_equals_its_members(position, norm_first, sources, data):
    model = small(position, norm_first)
    targets = [data.draw(sentences) for _ in sources]
    assert_padding_is_invisible(model, sources, targets, data.draw(st.integers(0, 4)))


def test_padding_inside_or_before_a_source_is_hidden_too():
    model = small("rotary", False)  # positions count the padding, but only the distance between words matters
    tgt = torch.tensor([[1, 2, 3]])
    with torch.no_grad():
        plain, shifted = model(torch.tensor([[5, 6]]), tgt), model(torch.tensor([[0, 0, 5, 6]]), tgt)
    assert distance(plain, shifted) <= 1e-12


@pytest.mark.parametrize("need_weights", [False, True])
def test_a_source_of_padding_only_gives_finite_logits_and_gradients(need_weights):
    model = Transformer(TransformerConfig(SRC_VOCAB, TGT_VOCAB, 16, 4, 1, 1, 32))
    src, tgt = torch.tensor([[0, 0, 0], [3, 4, 0]]), torch.tensor([[1, 2], [1, 2]])
    logits = model(src, tgt, need_weights)
    logits = logits[0] if need_weights else logits
    logits.sum().backward()
    assert logits.isfinite().all()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


@pytest.mark.parametrize("position", ["sinusoidal", "learned", "rotary"])
def test_weights_of_every_layer_and_head_are_distributions_over_what_may_be_attended(position):
    model = small(position, False, torch.float32)
    src, tgt = torch.tensor([[3, 4, 5, 0], [6, 7, 8, 9]]), torch.tensor([[1, 2, 3], [1, 5, 0]])
    logits, weights = model(src, tgt, need_weights=True)
    assert distance(logits, model(src, tgt)) <= 1e-5  # the fused kernel gives the same
    assert weights.encoder.shape == (2, 2, 4, 4, 4)
    assert weights.decoder.shape == (2, 2, 4, 3, 3)
    assert weights.cross.shape == (2, 2, 4, 3, 4)
    for part in weights:
        assert distance(part.sum(-1), torch.ones(())) <= 1e-6
    assert weights.encoder[:, 0, ..., 3].max() == 0  # padding
    assert weights.cross[:, 0, ..., 3].max() == 0
    assert weights.decoder.triu(1).max() == 0  # the future


def test_layers_return_weights_only_when_asked():
    encoder, decoder = EncoderLayer(16, 4, 32), DecoderLayer(16, 4, 32)
    x, memory = torch.randn(2, 5, 16), torch.randn(2, 7, 16)
    assert encoder(x).shape == (2, 5, 16)
    assert [part.shape for part in encoder(x, need_weights=True)] == [(2, 5, 16), (2, 4, 5, 5)]
    assert decoder(x, memory).shape == (2, 5, 16)
    shapes = [part.shape for part in decoder(x, memory, need_weights=True)]
    assert shapes == [(2, 5, 16), (2, 4, 5, 5), (2, 4, 5, 7)]


def test_forward_is_encode_then_decode():
    model = small("sinusoidal", True)
    src, tgt = torch.tensor([[3, 4, 0]]), torch.tensor([[1, 2]])
    memory = model.encode(src, padding_mask(src))
    assert distance(memory, model.encode(src)) == 0
    logits = model.decode(tgt, memory, causal_mask(2), padding_mask(src))
    assert distance(model(src, tgt), logits) == 0


def test_embeddings_are_scaled_by_the_root_of_d_and_positions_added():
    model = small("sinusoidal", False)
    tokens = torch.tensor([[3, 3]])
    expected = math.sqrt(16) * model.src_embedding.weight[3] + sinusoidal_encoding(2, 16, dtype=torch.float64)
    assert distance(model.embed_source(tokens)[0], expected) <= 1e-14
    shifted = model.embed_target(tokens, offset=5)[0] - math.sqrt(16) * model.tgt_embedding.weight[3]
    moved = sinusoidal_encoding(2, 16, dtype=torch.float64) @ rotation_matrix(5, 16, dtype=torch.float64).T
    assert distance(shifted, moved) <= 1e-12


@given(st.integers(0, 50), st.lists(ids, min_size=2, max_size=6))
@settings(max_examples=20, deadline=None)
def test_rotary_self_attention_depends_on_distances_only(offset, tokens):
    model = small("rotary", False)
    attention = model.encoder[0].self_attention
    x = model.embed_source(torch.tensor([tokens]))
    before = attend_self(attention, torch.zeros(1, offset + 1, 16, dtype=torch.float64), rotary=True)[2]
    hidden = torch.arange(offset + 1 + len(tokens)) > offset
    shifted = attend_self(attention, x, hidden, rotary=True, past=before)[0]
    assert distance(shifted, attend_self(attention, x, rotary=True)[0]) <= 1e-12


def test_order_matters_with_every_kind_of_position():
    src, turned, tgt = torch.tensor([[3, 4, 5]]), torch.tensor([[5, 4, 3]]), torch.tensor([[1]])
    for position in ("sinusoidal", "learned", "rotary"):
        model = small(position, False)
        assert distance(model(src, tgt), model(turned, tgt)) > 1e-6


@pytest.mark.parametrize(
    ("vocab", "choice", "matrices", "name"),
    [
        ((11, 11), True, 1, "all"),
        ((11, 11), "all", 1, "all"),
        ((11, 11), "target", 2, "target"),
        ((13, 11), True, 2, "target"),
        ((13, 11), "none", 3, "none"),
        ((11, 11), False, 3, "none"),
    ],
)
def test_weight_tying(vocab, choice, matrices, name):
    model = Transformer(TransformerConfig(*vocab, 16, 4, 1, 1, 32, tie_weights=choice))
    assert model.config.tie_weights == name
    weights = (model.src_embedding.weight, model.tgt_embedding.weight, model.output.weight)
    assert len({id(weight) for weight in weights}) == matrices
    assert (model.output.weight is model.tgt_embedding.weight) == (name != "none")


def test_logits_of_a_new_model_are_of_order_one():
    torch.manual_seed(0)
    for choice in ("all", "none"):
        model = Transformer(TransformerConfig(50, 50, 64, 4, 2, 2, 128, tie_weights=choice)).eval()
        logits = model(torch.randint(1, 50, (4, 9)), torch.randint(1, 50, (4, 9)))
        assert 0.5 < logits.std() < 2


def test_config_survives_a_dict():
    config = TransformerConfig(13, 11, 16, 4, 1, 1, 32, position="rotary", tie_weights=True)
    assert TransformerConfig(**dataclasses.asdict(config)) == config


def test_a_trained_step_lowers_the_loss():
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(SRC_VOCAB, TGT_VOCAB, 16, 4, 1, 1, 32, dropout=0.0))
    src, tgt = torch.randint(1, SRC_VOCAB, (8, 6)), torch.randint(1, TGT_VOCAB, (8, 6))
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    losses = []
    for _ in range(40):
        loss = nn.functional.cross_entropy(model(src, tgt[:, :-1]).flatten(0, 1), tgt[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 4


def test_bad_configurations_are_named():
    wrong = {
        "src_vocab_size: expected a positive int, found 0": {"src_vocab_size": 0},
        "d_ff: expected a positive int, found -1": {"d_ff": -1},
        "num_heads: expected a divisor of d_model = 512, found 7": {"num_heads": 7},
        "dropout: expected a number in": {"dropout": 1.0},
        "position: expected one of": {"position": "alibi"},
        "activation: expected one of": {"activation": "swish"},
        "tie_weights: expected one of": {"tie_weights": "both"},
        "tie_weights: expected equal vocabulary sizes for 'all', found 13 and 11": {"tie_weights": "all"},
        "d_model: expected an even": {"d_model": 15, "num_heads": 3},
        "d_model / num_heads: expected an even": {"d_model": 12, "num_heads": 4, "position": "rotary"},
    }
    for message, change in wrong.items():
        with pytest.raises(ValueError, match=message):
            TransformerConfig(**({"src_vocab_size": 13, "tgt_vocab_size": 11} | change))
    with pytest.raises(TypeError, match="num_encoder_layers: expected a positive int"):
        TransformerConfig(13, 11, num_encoder_layers=2.0)
    with pytest.raises(TypeError, match="config: expected a TransformerConfig, found dict"):
        Transformer({"d_model": 16})


def test_bad_tokens_are_named():
    model = small("learned", False)
    good = torch.tensor([[1, 2, 3]])
    with pytest.raises(ValueError, match=r"src: expected token ids in \[0, 13\), found 1 to 13"):
        model(torch.tensor([[1, 13]]), good)
    with pytest.raises(ValueError, match=r"tgt: expected token ids in \[0, 11\), found -1 to 2"):
        model(good, torch.tensor([[-1, 2]]))
    with pytest.raises(ValueError, match=r"tgt: expected shape \(batch, target\), found \(3,\)"):
        model(good, torch.tensor([1, 2, 3]))
    with pytest.raises(TypeError, match="expected an integer tensor of token ids, found torch.float32"):
        model(good.float(), good)
    with pytest.raises(TypeError, match="tgt: expected a tensor of token ids, found list"):
        model(good, [[1, 2]])
    with pytest.raises(ValueError, match=r"src: expected at least one token, found shape \(1, 0\)"):
        model(good[:, :0], good)
    with pytest.raises(ValueError, match=r"tgt: expected at least one token, found shape \(1, 0\)"):
        model(good, good[:, :0])
    with pytest.raises(ValueError, match=r"expected positions in \[0, max_len = 12\), found 0 to 12"):
        model(torch.ones(1, 13, dtype=torch.long), good)
    with pytest.raises(ValueError, match="query, key: expected leading .batch. dimensions"):
        model.decode(good.expand(3, 3), model.encode(good.expand(2, 3)))
    with pytest.raises(TypeError, match="mask: expected dtype torch.bool"):
        model.encode(good, torch.zeros(3, 3))
