"""From a recipe to a checkpoint: the path of `python -m attnbook train`."""

import os
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from attnbook.text.batching import Batch, batches
from attnbook.text.subwords import BytePairEncoding
from attnbook.text.vocabulary import Vocabulary
from attnbook.training.checkpoint import Translator, save_translator
from attnbook.training.data import Corpus, load_corpus
from attnbook.training.evaluation import (
    alignment_scores,
    bleu_score,
    corpus_loss,
    exact_match_scores,
)
from attnbook.training.fit import History, fit
from attnbook.training.recipes import Recipe, build_model, learning_rate, vocabulary_sizes

__all__ = ["evaluate", "new_translator", "train"]


def new_translator(recipe: Recipe, corpus: Corpus) -> Translator:
    """Vocabularies learned from the training split, and a model with weights drawn from the recipe's seed."""
    sources, targets = zip(*corpus.train, strict=True)
    subwords = BytePairEncoding.learn(targets, recipe.merges) if recipe.merges else None
    pieces = [subwords.encode(target) for target in targets] if subwords else targets
    if recipe.model == "GPT":
        source_vocabulary = target_vocabulary = Vocabulary.build([*sources, *pieces], recipe.min_count)
    else:
        source_vocabulary = Vocabulary.build(sources, recipe.min_count)
        target_vocabulary = Vocabulary.build(pieces, recipe.min_count)
    sizes = vocabulary_sizes(recipe.model, len(source_vocabulary), len(target_vocabulary))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        model = build_model(recipe.model, {**sizes, **recipe.sizes})
    decoding = {"beam_width": recipe.beam_width, "alpha": recipe.alpha}
    return Translator(model, source_vocabulary, target_vocabulary, subwords, corpus.casing, decoding)


class EpochBatches:
    """The training batches of an epoch, a function of the recipe's seed and the epoch; see `fit`."""

    def __init__(self, recipe: Recipe, corpus: Corpus, translator: Translator):
        self.recipe, self.corpus, self.translator = recipe, corpus, translator

    def __call__(self, epoch: int) -> list[Batch]:
        recipe, translator = self.recipe, self.translator
        random = Random(f"{recipe.seed}/{epoch}/subwords")
        pairs = []
        for source, target in self.corpus.train:
            pieces = target
            if translator.subwords is not None:
                pieces = translator.subwords.encode(target, recipe.subword_dropout, random)
            ids = translator.target_vocabulary.encode(pieces, bos=True, eos=True)
            pairs.append((translator.encode_source(source), ids))
        return list(batches(pairs, recipe.batch_size, recipe.max_tokens, recipe.seed, epoch))


def train(
    name: str,
    recipe: Recipe,
    output: str | Path,
    state: str | Path | None = None,
    corpus_path: str | os.PathLike | None = None,
    show: bool = True,
) -> tuple[Translator, History]:
    """Follow a recipe and write the checkpoint `output`; a run that was interrupted goes on from `state`.

    The checkpoint holds no test score: `evaluate` measures them.

    Raises:
        FileError, FileNotFoundError, ValueError: as in `load_corpus`, `fit` and `save_translator`.
        KeyboardInterrupt: Ctrl-C; the same call goes on where this one was interrupted.
    """
    corpus = load_corpus(recipe.corpus, corpus_path)
    translator = new_translator(recipe, corpus)

    def validate(model: nn.Module) -> dict[str, float]:
        judge = Translator(
            model, translator.source_vocabulary, translator.target_vocabulary, translator.subwords
        )
        loss = corpus_loss(judge, corpus.valid)
        if recipe.corpus == "grammar":
            return {"score": exact_match_scores(judge, corpus.valid)["all"], "loss": loss}
        return {"score": bleu_score(judge, corpus.valid), "loss": loss}

    history = fit(
        translator.model,
        EpochBatches(recipe, corpus, translator),
        recipe.steps,
        learning_rate(recipe),
        label_smoothing=recipe.label_smoothing,
        weight_decay=recipe.weight_decay,
        average=recipe.average,
        precision=recipe.precision,
        validate=validate,
        validate_every=recipe.validate_every,
        state=state,
        save_every=min(recipe.validate_every, 250),
        run={"recipe": asdict(recipe), "data": corpus.digest},
        seed=recipe.seed,
        label=name,
        show=show,
    )
    translator.about = {
        "name": name,
        "command": f"python -m attnbook train {name}",
        "recipe": asdict(recipe),
        "seed": recipe.seed,
        "data": {"corpus": recipe.corpus, "sha256": corpus.digest},
        "training": {
            "steps": history.step,
            "epochs": history.epoch + 1,
            "seconds": round(history.seconds),
            "best_step": history.best_step,
            "best_validation_score": history.best_score,
            "torch": torch.__version__,
        },
        "scores": {},
    }
    if not dist.is_initialized() or dist.get_rank() == 0:
        save_translator(output, translator)
    return translator, history


def evaluate(
    translator: Translator, corpus_path: str | os.PathLike | None = None, split: str = "test"
) -> dict[str, Any]:
    """Measure a translator on a split of the corpus it was trained for.

    On the built-in corpus: exact match by length of the source, and the alignment error rate if the model
    has attention.
    On Tatoeba: BLEU with the recipe's beam and with greedy decoding.

    Raises:
        ValueError: the corpus is not the one that the translator was trained on, or another file of it.
    """
    about = translator.about
    corpus = load_corpus(about["data"]["corpus"], corpus_path)
    if corpus.digest != about["data"]["sha256"]:
        raise ValueError(
            "corpus: expected the data that the checkpoint was trained on, found other data, of which it may "
            f"have seen the test set (SHA-256 {corpus.digest[:12]}…, not {about['data']['sha256'][:12]}…)"
        )
    examples: Sequence = getattr(corpus, split)
    started = time.monotonic()
    scores: dict[str, Any] = {"split": split, "sentences": len(examples)}
    if about["data"]["corpus"] == "grammar":
        scores["exact_match"] = exact_match_scores(translator, examples)
        scores["alignment"] = alignment_scores(translator, corpus.valid, examples)
    else:
        scores["bleu"] = bleu_score(translator, examples)
        scores["bleu_greedy"] = bleu_score(translator, examples, beam_width=1)
        scores.update(translator.decoding)
    scores["loss"] = corpus_loss(translator, examples)
    scores["seconds"] = round(time.monotonic() - started, 1)
    return scores
