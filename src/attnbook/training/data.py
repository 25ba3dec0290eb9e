"""What a recipe learns from and is measured on, as tokens."""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from attnbook._validation import check_choice
from attnbook.text import grammar, tatoeba
from attnbook.text.tokenizers import CASING, learn_casing, tokenize_chinese, tokenize_english

__all__ = ["CORPORA", "Corpus", "Example", "load_corpus"]

CORPORA = ("grammar", "tatoeba")
GRAMMAR_SIZES = {"train": 40_000, "valid": 500, "test": 2_000}

Tokens = tuple[str, ...]


class Example(NamedTuple):
    """A source sentence with everything that is known to be right for it."""

    source: Tokens
    references: tuple[Tokens, ...]
    alignment: frozenset[tuple[int, int]] | None = None  # between the source and the first reference


@dataclass(frozen=True)
class Corpus:
    """Pairs to train on, examples to measure with; `casing` says how lower-cased names are written."""

    train: list[tuple[Tokens, Tokens]]
    valid: list[Example]
    test: list[Example]
    casing: dict[str, str]

    @property
    def digest(self) -> str:
        """The SHA-256 of all tokens: it changes with the data, the splits and the tokenizers."""
        digest = hashlib.sha256()
        examples = ((example.source, *example.references) for example in (*self.valid, *self.test))
        for sentences in (*self.train, *examples):
            digest.update("\t".join(" ".join(sentence) for sentence in sentences).encode() + b"\n")
        return digest.hexdigest()


def load_corpus(name: str, path: str | os.PathLike | None = None) -> Corpus:
    """The built-in corpus ("grammar") or the one in the file `path` ("tatoeba").

    Raises:
        FileNotFoundError: no file for "tatoeba"; the message says how to get it.
        ValueError: an unknown name, or a file without pairs.
    """
    check_choice(CORPORA, corpus=name)
    return _grammar() if name == "grammar" else _tatoeba(path)


def _grammar() -> Corpus:
    pairs = {split: grammar.corpus(size, seed=0, split=split) for split, size in GRAMMAR_SIZES.items()}
    train = [(pair.source, pair.target) for pair in pairs["train"]]
    valid, test = (
        [Example(pair.source, (pair.target,), pair.alignment) for pair in pairs[split]]
        for split in ("valid", "test")
    )
    return Corpus(train, valid, test, dict(CASING))


def _tatoeba(path: str | os.PathLike | None) -> Corpus:
    corpus = tatoeba.load(path)
    train = [
        (tuple(tokenize_chinese(pair.source)), tuple(tokenize_english(pair.target))) for pair in corpus.train
    ]
    casing = learn_casing(pair.target for pair in corpus.train)
    valid, test = (_examples(corpus, corpus.sources(split)) for split in ("valid", "test"))
    return Corpus(train, valid, test, casing)


def _examples(corpus: tatoeba.Tatoeba, sources: Sequence[str]) -> list[Example]:
    return [
        Example(
            tuple(tokenize_chinese(source)),
            tuple(tuple(tokenize_english(reference)) for reference in corpus.references(source)),
        )
        for source in sources
    ]
