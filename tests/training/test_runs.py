import json
import os
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch

from attnbook.decoding import greedy
from attnbook.text.grammar import corpus as grammar_corpus
from attnbook.training import data
from attnbook.training.checkpoint import load_translator, shipped_checkpoints
from attnbook.training.data import Example, load_corpus
from attnbook.training.evaluation import alignment_scores, bleu_score, corpus_loss, exact_match_scores
from attnbook.training.files import FileError
from attnbook.training.recipes import RECIPES, Recipe, build_model, learning_rate, vocabulary_sizes
from attnbook.training.runs import EpochBatches, evaluate, new_translator, train

REAL = Path(
    os.environ.get("ATTNBOOK_TATOEBA")
    or Path(__file__).parents[2] / ".." / "shared" / "data" / "tatoeba-cmn-eng" / "cmn.txt"
)
TINY = {"d_model": 16, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 1, "d_ff": 32}
TINY_GRAMMAR = Recipe("grammar", "Transformer", TINY, steps=6, batch_size=16, rate=1e-3, warmup_steps=2)
TINY_GRAMMAR = replace(TINY_GRAMMAR, average=0.5, validate_every=3)
TINY_GPT_SIZES = {"d_model": 16, "num_heads": 2, "num_layers": 1, "d_ff": 32, "position": "rotary"}
TINY_GPT = replace(TINY_GRAMMAR, model="GPT", sizes=TINY_GPT_SIZES)
TINY_CNN_SIZES = {"d_model": 16, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 2}
TINY_CNN = replace(TINY_GRAMMAR, model="ConvolutionalSeq2Seq", sizes=TINY_CNN_SIZES)
TINY_TATOEBA = replace(
    TINY_GRAMMAR, corpus="tatoeba", merges=20, subword_dropout=0.2, beam_width=2, alpha=1.0
)


@pytest.fixture(autouse=True)
def _small_grammar(monkeypatch):
    monkeypatch.setattr(data, "GRAMMAR_SIZES", {"train": 60, "valid": 6, "test": 8})


@pytest.fixture
def tatoeba_file(tmp_path):
    """Sentences of our own in the format of the corpus; 2000 of them are held out, so there are more."""
    subjects = [("I", "我"), ("You", "你"), ("We", "我们"), ("They", "他们")]
    verbs = [("like", "喜欢"), ("see", "看见"), ("want", "想要"), ("buy", "买"), ("draw", "画")]
    numbers = [(str(number), str(number)) for number in range(2, 110)]
    path = tmp_path / "cmn.txt"
    path.write_text(
        "".join(
            f"{i} {like} {n} weasels.\t{wo}{xihuan}{n}只鼬。\n"
            for i, wo in subjects
            for like, xihuan in verbs
            for n, _ in numbers
        ),
        encoding="utf-8",
    )
    return path


@pytest.mark.parametrize("name", RECIPES)
def test_recipe_can_be_followed(name):
    recipe = RECIPES[name]
    sizes = vocabulary_sizes(recipe.model, 50, 60)
    model = build_model(recipe.model, {**sizes, **recipe.sizes})
    assert model(torch.tensor([[4, 2]]), torch.tensor([[1, 5]])).shape == (1, 2, 60)
    rate = learning_rate(recipe)
    assert 0 < rate(1) < rate(recipe.warmup_steps) > rate(recipe.steps) >= 0


def test_grammar_recipes_differ_in_the_model_only():
    recipes = [recipe for name, recipe in RECIPES.items() if name.startswith("grammar-")]
    assert len(recipes) == 7
    assert len({str(asdict(replace(recipe, model="", sizes={}))) for recipe in recipes}) == 1


def test_grammar_recipes_have_one_parameter_budget():
    pairs = grammar_corpus(4000)
    source = {token for pair in pairs for token in pair.source}
    target = {token for pair in pairs for token in pair.target}
    counts = {}
    for name, recipe in RECIPES.items():
        if name.startswith("grammar-"):
            vocabularies = (source | target,) * 2 if recipe.model == "GPT" else (source, target)
            sizes = vocabulary_sizes(recipe.model, *(4 + len(tokens) for tokens in vocabularies))
            model = build_model(recipe.model, {**sizes, **recipe.sizes})
            counts[name] = sum(parameter.numel() for parameter in model.parameters())
    budget = counts["grammar-transformer"]
    assert all(abs(count / budget - 1) <= 0.05 for count in counts.values()), counts


@pytest.mark.parametrize("recipe", [TINY_GRAMMAR, TINY_GPT, TINY_CNN])
def test_run_writes_a_checkpoint_that_says_how_it_was_made(tmp_path, recipe):
    output = tmp_path / "tiny.safetensors"
    trained, history = train("tiny", recipe, output, tmp_path / "state", show=False)
    loaded = load_translator(output)
    about = loaded.about
    assert about["name"] == "tiny"
    assert about["command"] == "python -m attnbook train tiny"
    assert about["recipe"] == asdict(recipe)
    assert about["seed"] == 0
    assert about["data"] == {"corpus": "grammar", "sha256": load_corpus("grammar").digest}
    assert about["training"]["steps"] == history.step == 6
    assert about["training"]["best_validation_score"] == history.best_score
    assert about["scores"] == {}
    sentence = grammar_corpus(1, split="test")[0].source
    assert loaded.translate_tokens([sentence]) == trained.translate_tokens([sentence])


@pytest.mark.parametrize("recipe", [TINY_GRAMMAR, TINY_GPT, TINY_CNN])
def test_words_stay_whole_without_merges(recipe):
    corpus = load_corpus("grammar")
    translator = new_translator(recipe, corpus)
    for source, target in corpus.train[:10]:
        ids = translator.encode_target(target)
        assert len(ids) == len(target) + 2
        assert translator.decode_target(ids[1:]) == list(target)
        rows = len(translator.cross_attention(source, target)[0])
        assert rows == len(target) + 1


def test_model_that_continues_has_one_vocabulary_for_both_languages():
    corpus = load_corpus("grammar")
    translator = new_translator(TINY_GPT, corpus)
    tokens = {token for source, target in corpus.train for token in (*source, *target)}
    assert translator.source_vocabulary == translator.target_vocabulary
    assert set(translator.source_vocabulary) == {"<pad>", "<bos>", "<eos>", "<unk>"} | tokens
    batch = EpochBatches(TINY_GPT, corpus, translator)(0)[0]
    ends = batch.src.gather(1, batch.src_lengths[:, None] - 1)
    assert (ends == 1).all()  # the prompt's <bos>, with which the target begins
    assert (batch.tgt[:, 0] == 1).all()


def test_same_recipe_gives_the_same_weights(tmp_path):
    outputs = [tmp_path / "a", tmp_path / "b"]
    models = [train("tiny", TINY_GRAMMAR, output, show=False)[0].model for output in outputs]
    for first, second in zip(*(model.parameters() for model in models), strict=True):
        assert torch.equal(first, second)


def test_changed_recipe_does_not_resume_the_old_run(tmp_path):
    state = tmp_path / "state"
    train("tiny", TINY_GRAMMAR, tmp_path / "a", state, show=False)
    with pytest.raises(FileError, match=r"the state of another run \(its recipe differ\)"):
        train("tiny", replace(TINY_GRAMMAR, rate=2e-3), tmp_path / "a", state, show=False)


@pytest.mark.parametrize("recipe", [TINY_GRAMMAR, TINY_GPT, TINY_CNN])
def test_evaluation_measures_and_refuses_other_data(tmp_path, monkeypatch, recipe):
    trained, _ = train("tiny", recipe, tmp_path / "a", show=False)
    scores = evaluate(trained)
    assert scores["sentences"] == 8
    assert 0 <= scores["exact_match"]["all"] <= 1
    assert 0 <= scores["alignment"]["alignment_error_rate"] <= 1
    assert evaluate(trained, split="valid")["sentences"] == 6
    monkeypatch.setattr(data, "GRAMMAR_SIZES", {"train": 61, "valid": 6, "test": 8})
    with pytest.raises(ValueError, match="expected the data that the checkpoint was trained on"):
        evaluate(trained)


def test_tatoeba_run_with_subwords_from_file_to_bleu(tmp_path, tatoeba_file):
    output = tmp_path / "tiny.safetensors"
    train("tiny", replace(TINY_TATOEBA, steps=3), output, corpus_path=tatoeba_file, show=False)
    loaded = load_translator(output)
    assert len(loaded.subwords.merges) == 20
    corpus = load_corpus("tatoeba", tatoeba_file)
    loaded_scores = bleu_score(loaded, corpus.test[:5]), corpus_loss(loaded, corpus.test[:5])
    assert 0 <= loaded_scores[0] <= 100
    assert loaded_scores[1] > 0


def test_subword_dropout_changes_with_the_epoch_and_not_with_the_call(tatoeba_file):
    corpus = load_corpus("tatoeba", tatoeba_file)
    corpus = replace(corpus, train=corpus.train[:40])
    translator = new_translator(TINY_TATOEBA, corpus)
    epochs = EpochBatches(TINY_TATOEBA, corpus, translator)
    first, again, second = epochs(0), epochs(0), epochs(1)
    assert all(torch.equal(a.tgt, b.tgt) for a, b in zip(first, again, strict=True))
    tokens = [sum(batch.num_tokens for batch in epoch) for epoch in (first, second)]
    assert tokens[0] != tokens[1]


def test_held_out_sentences_do_not_make_the_vocabulary(tatoeba_file):
    corpus = load_corpus("tatoeba", tatoeba_file)
    translator = new_translator(replace(TINY_TATOEBA, merges=0), corpus)
    seen = {token for source, _ in corpus.train for token in source}
    assert set(translator.source_vocabulary) - {"<pad>", "<bos>", "<eos>", "<unk>"} == seen


class Perfect:
    """Looks where the gold alignment says and writes the reference."""

    def __init__(self, examples):
        self.model = type("Model", (), {"config": type("Config", (), {"attention": "additive"})})
        self.subwords = None
        self.known = {example.source: example for example in examples}

    def translate_tokens(self, sources, *_):
        return [list(self.known[source].references[0]) for source in sources]

    def cross_attention(self, source, target):
        weights = torch.zeros(1, len(target) + 1, len(source) + 1)
        for source_index, target_index in self.known[source].alignment:
            weights[0, target_index + 1, source_index] = 1.0  # one step later: shift 1
        return weights / weights.sum(dim=-1, keepdim=True).clamp(min=1.0)


def test_perfect_translator_has_perfect_scores():
    corpus = load_corpus("grammar")
    perfect = Perfect([*corpus.valid, *corpus.test])
    assert exact_match_scores(perfect, corpus.test)["all"] == 1.0
    scores = alignment_scores(perfect, corpus.valid, corpus.test)
    assert scores["alignment_error_rate"] == pytest.approx(0.0, abs=0.05)
    assert scores["shift"] == 1
    assert bleu_score(perfect, corpus.test) == pytest.approx(100)


def test_alignment_needs_gold_links():
    example = Example(("我",), (("i",),))
    with pytest.raises(ValueError, match="gold alignments"):
        alignment_scores(Perfect([]), [example], [example])


def test_no_file_for_tatoeba_says_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.delenv("ATTNBOOK_TATOEBA", raising=False)
    with pytest.raises(FileNotFoundError, match=r"manythings\.org"):
        load_corpus("tatoeba")


@pytest.mark.parametrize("name", shipped_checkpoints())
def test_shipped_checkpoint_is_what_its_recipe_says(name):
    translator = load_translator(name)
    about = translator.about
    assert about["name"] == name
    assert about["recipe"] == asdict(RECIPES[name])
    assert about["seed"] == RECIPES[name].seed
    assert about["scores"]["test"]["sentences"] >= 1000
    assert len(about["data"]["sha256"]) == 64
    assert translator.decoding == {"beam_width": RECIPES[name].beam_width, "alpha": RECIPES[name].alpha}


def test_shipped_checkpoints_have_recipes_and_are_small():
    paths = shipped_checkpoints()
    assert set(paths) == set(RECIPES) - {"tatoeba-gru-attention"}
    assert sum(path.stat().st_size for path in paths.values()) <= 24_000_000
    assert all(path.stat().st_size <= 10_000_000 for path in paths.values())


@pytest.mark.parametrize("name", [name for name in shipped_checkpoints() if name.startswith("grammar-")])
def test_shipped_checkpoint_keeps_its_score_on_a_sample(name, monkeypatch):
    monkeypatch.setattr(data, "GRAMMAR_SIZES", {"train": 1, "valid": 1, "test": 100})
    translator = load_translator(name)
    recorded = translator.about["scores"]["test"]["exact_match"]["all"]
    found = exact_match_scores(translator, load_corpus("grammar").test)["all"]
    spread = (recorded * (1 - recorded) / 100) ** 0.5
    assert abs(found - recorded) <= max(4 * spread, 0.05)


def test_shipped_transformer_solves_the_built_in_corpus():
    translator = load_translator("grammar-transformer")
    assert translator.about["scores"]["test"]["exact_match"]["all"] >= 0.98
    assert translator.translate("汤姆昨天买了这本书。") == "Tom bought this book yesterday."


def test_shipped_gpt_translates_by_continuing_nearly_as_well():
    translator = load_translator("grammar-gpt")
    scores = translator.about["scores"]["test"]
    assert scores["exact_match"]["all"] >= 0.97
    assert scores["alignment"]["alignment_error_rate"] <= 0.4
    assert translator.translate("汤姆昨天买了这本书。") == "Tom bought this book yesterday."
    prompt = torch.tensor([translator.encode_source([*"汤姆昨天买了这本书。"])])
    words, _ = greedy(translator.model, prompt)
    assert translator.decode_target(words[0]) == ["tom", "bought", "this", "book", "yesterday", "."]


def test_translators_of_real_sentences_reach_their_scores():
    transformer = load_translator("tatoeba-transformer")
    gru = json.loads(
        shipped_checkpoints()["tatoeba-transformer"].with_name("tatoeba-gru-attention.json").read_text()
    )
    assert gru["recipe"] == asdict(RECIPES["tatoeba-gru-attention"])
    assert gru["data"] == transformer.about["data"]
    assert gru["parameters"] == pytest.approx(
        sum(p.numel() for p in transformer.model.parameters()), rel=0.05
    )
    scores, gru_scores = transformer.about["scores"]["test"], gru["scores"]["test"]
    assert scores["sentences"] == gru_scores["sentences"] >= 1000
    assert scores["bleu"] >= 33
    assert scores["bleu"] > gru_scores["bleu"]


@pytest.mark.skipif(not REAL.is_file(), reason="the Tatoeba file is not here (set ATTNBOOK_TATOEBA)")
def test_shipped_translator_of_real_sentences_keeps_its_score():
    translator = load_translator("tatoeba-transformer")
    corpus = load_corpus("tatoeba", REAL)
    assert corpus.digest == translator.about["data"]["sha256"]
    recorded = translator.about["scores"]["test"]["bleu_greedy"]
    assert bleu_score(translator, corpus.test, beam_width=1) == pytest.approx(recorded, abs=0.3)
