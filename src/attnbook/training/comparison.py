r"""One run is an anecdote: the same recipe from several seeds, and how far their scores lie apart.

`python -m attnbook seeds RECIPE … --seeds 0 1 2 3` trains each recipe from each seed, measures every run on
the test split, and writes what it found into a file; the one that comes with the package is
`checkpoints/seeds.json`. The seed decides the first weights and the order of the batches; data, sizes and
steps are the recipe's.
"""

import json
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

from attnbook._validation import check_choice
from attnbook.text.files import write_atomic
from attnbook.training.checkpoint import Translator, load_translator, shipped_checkpoints
from attnbook.training.data import load_corpus
from attnbook.training.evaluation import alignment_scores
from attnbook.training.files import FileError, read_metadata
from attnbook.training.recipes import RECIPES
from attnbook.training.runs import train

__all__ = ["Interval", "SeedScore", "accuracy_by_length", "measure_seed", "run_seeds", "seed_scores"]

# Two-sided 95 % points of Student's t for 1, 2, … degrees of freedom.
_T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)


@dataclass(frozen=True)
class SeedScore:
    """What one run scored on the test split of the built-in corpus.

    `by_length` maps a source's length in tokens to (sentences that are right in every token, sentences);
    `alignment_error_rate` is None for a model without attention.
    """

    seed: int
    by_length: dict[int, tuple[int, int]]
    alignment_error_rate: float | None

    @property
    def exact_match(self) -> float:
        """The share of all sentences that are right in every token."""
        right, sentences = (sum(column) for column in zip(*self.by_length.values(), strict=True))
        return right / sentences

    def share(self, low: int, high: int) -> float:
        """The share of right sentences of `low` to `high` − 1 tokens; NaN if there are none."""
        inside = [counts for length, counts in self.by_length.items() if low <= length < high]
        right, sentences = sum(count[0] for count in inside), sum(count[1] for count in inside)
        return right / sentences if sentences else math.nan


@dataclass(frozen=True)
class Interval:
    """The accuracy of a recipe on sources of `low_length` to `high_length` tokens.

    `mean` ± `half_width`: the 95 % confidence interval of the mean over seeds, by Student's t. `sentences`:
    how many test sentences have such a length.
    """

    low_length: int
    high_length: int
    mean: float
    half_width: float
    sentences: int


def seed_scores(recipe: str, path: str | os.PathLike | None = None) -> list[SeedScore]:
    """The scores of a recipe's runs, by seed.

    Args:
        recipe: such as "grammar-gru".
        path: a file that `run_seeds` wrote; default: the one in the package.

    Raises:
        FileError: no such file, or a broken one.
        ValueError: a recipe that the file does not know; runs of a recipe that has changed since.
    """
    known = _read(Path(path) if path is not None else _shipped())
    check_choice(tuple(known), recipe=recipe)
    entry = known[recipe]
    if entry["recipe"] != json.loads(json.dumps(asdict(RECIPES[recipe]))):
        raise ValueError(f"recipe: expected scores of {recipe} as it is now, found scores of an earlier one")
    return [
        SeedScore(
            int(seed),
            {int(length): tuple(counts) for length, counts in score["by_length"].items()},
            score["alignment_error_rate"],
        )
        for seed, score in sorted(entry["seeds"].items(), key=lambda item: int(item[0]))
    ]


def accuracy_by_length(
    recipe: str, edges: Sequence[int], path: str | os.PathLike | None = None
) -> list[Interval]:
    """Accuracy against the length of the source, with confidence intervals over seeds.

    Args:
        recipe: such as "grammar-gru".
        edges: increasing lengths in tokens; bin i holds the lengths from edges[i] to edges[i + 1] − 1.
        path: as in `seed_scores`.

    Raises:
        ValueError: edges that do not increase, a bin without sentences, fewer than two seeds.
    """
    scores = seed_scores(recipe, path)
    if not 2 <= len(scores) <= len(_T95) + 1:
        raise ValueError(
            f"recipe: expected runs from 2 to {len(_T95) + 1} seeds of {recipe}, found {len(scores)}"
        )
    if len(edges) < 2 or any(low >= high for low, high in pairwise(edges)):
        raise ValueError(f"edges: expected at least two increasing lengths, found {list(edges)}")
    intervals = []
    for low, high in pairwise(edges):
        sentences = sum(total for length, (_, total) in scores[0].by_length.items() if low <= length < high)
        if not sentences:
            raise ValueError(f"edges: expected sentences of {low} to {high - 1} tokens, found none")
        shares = [score.share(low, high) for score in scores]
        mean = sum(shares) / len(shares)
        deviation = math.sqrt(sum((share - mean) ** 2 for share in shares) / (len(shares) - 1))
        half_width = _T95[len(shares) - 2] * deviation / math.sqrt(len(shares))
        intervals.append(Interval(low, high - 1, mean, half_width, sentences))
    return intervals


def measure_seed(translator: Translator, seed: int) -> SeedScore:
    """Measure a translator of the built-in corpus on its test split, greedily."""
    corpus = load_corpus("grammar")
    hypotheses = translator.translate_tokens([example.source for example in corpus.test])
    by_length: dict[int, tuple[int, int]] = {}
    for hypothesis, example in zip(hypotheses, corpus.test, strict=True):
        right, sentences = by_length.get(len(example.source), (0, 0))
        hit = tuple(hypothesis) == example.references[0]
        by_length[len(example.source)] = (right + hit, sentences + 1)
    alignment = alignment_scores(translator, corpus.valid, corpus.test)
    return SeedScore(seed, dict(sorted(by_length.items())), alignment and alignment["alignment_error_rate"])


def run_seeds(
    recipes: Iterable[str], seeds: Iterable[int], output: str | Path, folder: str | Path, show: bool = True
) -> None:
    """Train and measure what `output` does not hold yet; each score is written as soon as it is known.

    A run that comes with the package is measured, not trained again. An interrupted run goes on where it was.

    Args:
        recipes: names of recipes on the built-in corpus.
        seeds: of each recipe.
        output: the JSON file.
        folder: for checkpoints and states of the runs.
        show: whether to show progress.

    Raises:
        ValueError: an unknown recipe, or one for another corpus; a seed below 0.
        FileError: a file that cannot be read or written.
    """
    output, folder, recipes, seeds = Path(output), Path(folder), list(recipes), list(seeds)
    grammar = tuple(name for name, recipe in RECIPES.items() if recipe.corpus == "grammar")
    for name in recipes:
        check_choice(grammar, recipe=name)
    for seed in seeds:
        if seed < 0:
            raise ValueError(f"seeds: expected ints of at least 0, found {seed}")
    known = _read(output) if output.exists() else {}
    for name in recipes:
        written = json.loads(json.dumps(asdict(RECIPES[name])))
        entry = known.get(name, {})
        if entry.get("recipe") != written:
            entry = known[name] = {"recipe": written, "seeds": {}}
        for seed in seeds:
            if str(seed) in entry["seeds"]:
                continue
            score = measure_seed(load_translator(_checkpoint(name, seed, folder, show)), seed)
            entry["seeds"][str(seed)] = {
                "by_length": score.by_length,
                "alignment_error_rate": score.alignment_error_rate,
            }
            _write(output, known)
            if show:
                print(f"{name}, seed {seed}: exact match {100 * score.exact_match:.1f} %", flush=True)


def _checkpoint(name: str, seed: int, folder: Path, show: bool) -> Path:
    recipe = replace(RECIPES[name], seed=seed)
    shipped, path = shipped_checkpoints().get(name), folder / f"{name}-seed{seed}.safetensors"
    for made in filter(None, (shipped, path if path.exists() else None)):
        if read_metadata(made)["about"]["recipe"] == json.loads(json.dumps(asdict(recipe))):
            return made
    folder.mkdir(parents=True, exist_ok=True)
    train(name, recipe, path, path.with_suffix(".state"), show=show)
    return path


def _shipped() -> Path:
    return Path(str(files("attnbook").joinpath("checkpoints", "seeds.json")))


def _read(path: Path) -> dict[str, Any]:
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        if not all(isinstance(entry["seeds"], dict) and entry["recipe"] for entry in known.values()):
            raise ValueError("no recipes with seeds in it")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise FileError(f"{path}: cannot be read as scores by seed ({error})") from error
    return known


def _write(path: Path, known: dict[str, Any]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, json.dumps(known, indent=1).encode() + b"\n")
    except OSError as error:
        raise FileError(f"{path}: cannot be written ({error.strerror}); what was there is kept") from error
