import json
import math
from dataclasses import asdict, replace

import pytest
import torch

from attnbook.training import comparison, data, recipes
from attnbook.training.checkpoint import load_translator, shipped_checkpoints
from attnbook.training.comparison import (
    SeedScore,
    accuracy_by_length,
    measure_seed,
    run_seeds,
    seed_scores,
)
from attnbook.training.files import FileError
from attnbook.training.recipes import RECIPES, Recipe

SIZES = {"d_model": 16, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 1, "d_ff": 32}
TINY = Recipe("grammar", "Transformer", SIZES, steps=3, batch_size=16, rate=1e-3, warmup_steps=2)
COMPARED = ("grammar-gru", "grammar-gru-attention")


@pytest.fixture
def _tiny(monkeypatch):
    monkeypatch.setattr(data, "GRAMMAR_SIZES", {"train": 60, "valid": 6, "test": 8})
    monkeypatch.setitem(recipes.RECIPES, "tiny", TINY)


def write(path, recipe, *scores):
    seeds = {seed: {"by_length": by, "alignment_error_rate": None} for seed, by in enumerate(scores)}
    entry = {"recipe": asdict(RECIPES[recipe]), "seeds": seeds}
    path.write_text(json.dumps({recipe: entry}))
    return path


def test_interval_is_student_t_over_seeds(tmp_path):
    # bin 3–5: 1/4, 2/4, 3/4 right; bin 6–9: the same in all runs
    runs = [{4: (right, 3), 5: (0, 1), 7: (1, 2), 40: (0, 9)} for right in (1, 2, 3)]
    short, long = accuracy_by_length("grammar-gru", [3, 6, 10], write(tmp_path / "s", "grammar-gru", *runs))
    assert (short.low_length, short.high_length, short.sentences) == (3, 5, 4)
    assert short.mean == 0.5
    assert short.half_width == pytest.approx(4.303 * 0.25 / math.sqrt(3))
    assert (long.mean, long.half_width, long.sentences) == (0.5, 0, 2)


def test_t_points_leave_five_percent_outside():
    for freedom, point in enumerate(comparison._T95, 1):
        scale = math.gamma((freedom + 1) / 2) / (math.sqrt(freedom * math.pi) * math.gamma(freedom / 2))
        x = torch.linspace(0, point, 100_001, dtype=torch.float64)
        inside = 2 * torch.trapezoid(scale * (1 + x**2 / freedom) ** (-(freedom + 1) / 2), x).item()
        assert inside == pytest.approx(0.95, abs=1e-4)


def test_wrong_questions_are_refused(tmp_path):
    path = write(tmp_path / "s", "grammar-gru", {4: (1, 2)})
    with pytest.raises(ValueError, match=r"recipe: expected one of 'grammar-gru', found 'grammar-lstm'"):
        seed_scores("grammar-lstm", path)
    with pytest.raises(ValueError, match=r"recipe: expected runs from 2 to 10 seeds of grammar-gru, found 1"):
        accuracy_by_length("grammar-gru", [3, 6], path)
    path = write(tmp_path / "s", "grammar-gru", {4: (1, 2)}, {4: (1, 2)})
    with pytest.raises(ValueError, match="edges: expected at least two increasing lengths"):
        accuracy_by_length("grammar-gru", [6, 3], path)
    with pytest.raises(ValueError, match="edges: expected sentences of 6 to 8 tokens, found none"):
        accuracy_by_length("grammar-gru", [3, 6, 9], path)


def test_scores_of_a_recipe_that_changed_are_refused(tmp_path, monkeypatch):
    path = write(tmp_path / "s", "grammar-gru", {4: (1, 2)})
    monkeypatch.setitem(RECIPES, "grammar-gru", replace(RECIPES["grammar-gru"], steps=7))
    with pytest.raises(ValueError, match="found scores of an earlier one"):
        seed_scores("grammar-gru", path)


@pytest.mark.parametrize("text", [None, "", "[]", '{"grammar-gru": {}}'])
def test_broken_file_is_explained(text, tmp_path):
    path = tmp_path / "seeds.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(FileError, match="cannot be read as scores by seed"):
        seed_scores("grammar-gru", path)


@pytest.mark.usefixtures("_tiny")
def test_runs_are_measured_once_and_go_on(tmp_path, monkeypatch):
    output = tmp_path / "scores" / "seeds.json"
    run_seeds(["tiny"], [0, 2], output, tmp_path / "runs", show=False)
    first, second = seed_scores("tiny", output)
    assert (first.seed, second.seed) == (0, 2)
    assert sum(sentences for _, sentences in first.by_length.values()) == 8
    assert 0 <= first.exact_match <= 1
    assert 0 <= first.alignment_error_rate <= 1
    assert load_translator(tmp_path / "runs" / "tiny-seed2.safetensors").about["seed"] == 2
    monkeypatch.setattr(comparison, "train", None)  # a second call trains nothing
    run_seeds(["tiny"], [0, 2], output, tmp_path / "runs", show=False)
    output.unlink()
    run_seeds(["tiny"], [2], output, tmp_path / "runs", show=False)
    assert seed_scores("tiny", output) == [second]


def test_share_counts_sentences_of_the_lengths_asked_for():
    score = SeedScore(0, {3: (1, 1), 5: (1, 2), 9: (0, 1)}, None)
    assert score.exact_match == 0.5
    assert score.share(3, 6) == pytest.approx(2 / 3)
    assert math.isnan(score.share(20, 30))


@pytest.mark.parametrize("name", COMPARED)
def test_shipped_scores_are_of_four_seeds_on_the_whole_test_split(name):
    scores = seed_scores(name)
    assert [score.seed for score in scores] == [0, 1, 2, 3]
    for score in scores:
        assert sum(sentences for _, sentences in score.by_length.values()) == 2000
        assert (score.alignment_error_rate is None) == (name == "grammar-gru")


@pytest.mark.parametrize("name", COMPARED)
def test_seed_zero_is_the_shipped_checkpoint(name):
    translator = load_translator(shipped_checkpoints()[name])
    shipped = next(score for score in seed_scores(name) if score.seed == 0)
    assert measure_seed(translator, 0) == shipped
