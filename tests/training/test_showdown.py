"""The showdown's measures: turns, chains and intervals."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from attnbook.attention import MultiHeadAttention
from attnbook.convolution import CausalConv1d
from attnbook.recurrent import GRU, LSTM, RNN
from attnbook.training import data
from attnbook.training.checkpoint import load_translator, shipped_checkpoints
from attnbook.training.data import load_corpus
from attnbook.training.recipes import RECIPES
from attnbook.training.runs import new_translator
from attnbook.training.showdown import CONTESTANTS, longest_chain, training_speeds, wilson_interval


def test_contestants_are_the_shipped_models_of_the_built_in_corpus():
    assert set(CONTESTANTS) == {name for name in shipped_checkpoints() if name.startswith("grammar-")}
    about = [load_translator(name).about for name in CONTESTANTS]
    assert {one["data"]["sha256"] for one in about} == {about[0]["data"]["sha256"]}
    assert {one["training"]["steps"] for one in about} == {2500}


def test_every_model_takes_its_turn_on_every_batch_and_stays_as_it_was(monkeypatch):
    monkeypatch.setattr(data, "GRAMMAR_SIZES", {"train": 20, "valid": 1, "test": 1})
    corpus = load_corpus("grammar")
    sizes = {"embedding_size": 8, "hidden_size": 8}
    tiny = {
        "rnn": replace(RECIPES["grammar-rnn"], sizes={**sizes, "cell": "rnn"}),
        "gpt": replace(RECIPES["grammar-gpt"], sizes={"d_model": 8, "num_heads": 2, "num_layers": 1}),
    }
    translators = {name: new_translator(recipe, corpus) for name, recipe in tiny.items()}
    before = {name: [p.clone() for p in one.model.parameters()] for name, one in translators.items()}
    speeds = training_speeds(translators, corpus.train, batch_size=8)
    assert list(speeds) == ["rnn", "gpt"]
    assert all(len(found) == 3 and min(found) > 0 for found in speeds.values())
    for name, one in translators.items():
        assert all(torch.equal(a, b) for a, b in zip(before[name], one.model.parameters(), strict=True))
    with pytest.raises(ValueError, match="pairs: expected at least one, found none"):
        training_speeds(translators, [])


def test_a_chain_is_as_long_as_the_operations_that_wait():
    x = torch.ones(3, requires_grad=True)
    assert longest_chain(x * 2) == 1
    assert longest_chain((x * 2 + 1).exp()) == 3
    assert longest_chain(x * 2 + (x + 1).exp().log()) == 4  # the longer of the two ways
    y = x * 2
    for _ in range(2000):
        y = y + y  # two ways at each step: all of them together would be 2²⁰⁰⁰
    assert longest_chain(y) == 2001
    with pytest.raises(ValueError, match="expected a tensor that requires a gradient"):
        longest_chain(torch.ones(3))


@pytest.mark.parametrize("cell", [RNN, LSTM, GRU])
def test_recurrence_queues_for_every_token(cell):
    layer = cell(8, 8)
    four, eight, sixteen = (longest_chain(layer(torch.ones(1, n, 8))[0]) for n in (4, 8, 16))
    assert sixteen - eight == 2 * (eight - four) > 0


@pytest.mark.parametrize(
    "layer", [CausalConv1d(8, 8, 3), nn.Linear(8, 8), lambda x: MultiHeadAttention(8, 2)(x, x, x)[0]]
)
def test_nobody_queues_in_convolution_and_attention(layer):
    assert longest_chain(layer(torch.ones(1, 8, 8))) == longest_chain(layer(torch.ones(1, 64, 8)))


def test_interval_is_wilsons():
    low, high = wilson_interval(50, 100)
    assert (low, high) == pytest.approx((0.4038, 0.5962), abs=1e-4)
    assert wilson_interval(0, 50)[0] == 0
    assert wilson_interval(0, 50)[1] == pytest.approx(0.0713, abs=1e-4)
    assert wilson_interval(50, 50) == pytest.approx((1 - 0.0713, 1.0), abs=1e-4)
    with pytest.raises(ValueError, match="right: expected 0 to 3, found 4"):
        wilson_interval(4, 3)
    with pytest.raises(ValueError, match="total: expected a positive int"):
        wilson_interval(0, 0)


def test_interval_holds_the_truth_in_95_of_100_samples():
    generator = torch.Generator().manual_seed(0)
    hits = (torch.rand(4000, 100, generator=generator) < 0.9).sum(dim=1).tolist()
    covered = sum(low <= 0.9 <= high for low, high in (wilson_interval(hit, 100) for hit in hits))
    assert 0.93 < covered / 4000 < 0.97
