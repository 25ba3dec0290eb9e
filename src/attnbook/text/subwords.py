"""Byte-pair encoding: rare words are written with pieces of frequent ones.

Sennrich, Haddow & Birch 2016 ("Neural Machine Translation of Rare Words with Subword Units", algorithm 1):
start from characters and join the most frequent neighbouring pair, again and again. Frequent words end as one
piece, rare ones as several: "translate" -> `trans@@ late`. A piece that does not end its word carries `@@`,
so the words can be put together again.

Why the translator needs it: the English side of Tatoeba has 7,300 words, more than half of them seen once or
twice. A row of an embedding that is seen twice learns nothing, yet it counts: at d_model 256 in float16 the
words alone would take 3.7 of the file's 10 MB. A few thousand pieces cover everything, unknown words
included.

BPE-dropout (Provilkov, Emelianenko & Voita 2020) leaves out each merge with a small probability while
training, so that the model meets a word in several spellings; on a small corpus this is a strong regulariser.
"""

import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from pathlib import Path
from random import Random

from attnbook._validation import check_positive, check_probability
from attnbook.text.files import write_atomic

__all__ = ["CONTINUES", "BytePairEncoding"]

CONTINUES = "@@"  # at the end of a piece: the word goes on
_STRETCH = 100  # characters that are joined together at most; only tokens that are no words are longer

Pair = tuple[str, str]


class BytePairEncoding:
    """Merges in the order in which they were learned; `encode` cuts tokens into pieces, `decode` joins them.

    A piece is written with `@@` unless it ends its word, inside merges too: ("t@@", "h@@") -> "th@@",
    ("th@@", "e") -> "the".
    """

    def __init__(self, merges: Iterable[Sequence[str]]) -> None:
        self.merges: list[Pair] = [_checked_merge(merge) for merge in merges]
        self._ranks = {merge: rank for rank, merge in enumerate(self.merges)}
        self._known: dict[str, tuple[str, ...]] = {}

    @classmethod
    def learn(
        cls, sentences: Iterable[Sequence[str]], num_merges: int, min_count: int = 2
    ) -> "BytePairEncoding":
        """Learn at most `num_merges` merges from tokenized sentences; a pair must occur `min_count` times.

        Equally frequent pairs are merged in alphabetical order, so the result depends on the counts of words
        only.
        """
        check_positive(num_merges=num_merges, min_count=min_count)
        words = sorted(Counter(token for sentence in sentences for token in sentence).items())
        spelled = [_characters(word) for word, _ in words]
        counts: Counter[Pair] = Counter()
        where: defaultdict[Pair, set[int]] = defaultdict(
            set
        )  # in which words a pair occurs (or has occurred)
        for index, pieces in enumerate(spelled):
            for pair in zip(pieces, pieces[1:], strict=False):
                counts[pair] += words[index][1]
                where[pair].add(index)
        queue = [(-count, pair) for pair, count in counts.items()]  # may hold outdated counts
        heapify(queue)
        merges: list[Pair] = []
        while queue and len(merges) < num_merges:
            count, best = heappop(queue)
            if counts[best] != -count:
                continue
            if -count < min_count:
                break
            merges.append(best)
            changed = set()
            for index in where.pop(best):
                old, new = spelled[index], _merge(spelled[index], best)
                for sign, pieces in ((-1, old), (1, new)):
                    for pair in zip(pieces, pieces[1:], strict=False):
                        counts[pair] += sign * words[index][1]
                        changed.add(pair)
                        where[pair].add(index)
                spelled[index] = new
            for pair in changed:
                if counts[pair] > 0:
                    heappush(queue, (-counts[pair], pair))
        return cls(merges)

    def encode(self, tokens: Iterable[str], dropout: float = 0.0, random: Random | None = None) -> list[str]:
        """The pieces of tokens.

        With `dropout`, each possible merge is left out with that probability, drawn from `random`. Characters
        never seen stay single pieces, which a vocabulary maps to `<unk>`.
        """
        check_probability(dropout=dropout)
        if dropout and random is None:
            raise ValueError("random: expected a random.Random to draw the dropped merges from, found None")
        if isinstance(tokens, str):
            raise TypeError(
                f"tokens: expected a sequence of tokens, found a str; tokenize it first: {tokens[:20]!r}"
            )
        pieces: list[str] = []
        for token in tokens:
            if dropout:
                pieces.extend(self._cut(token, dropout, random))
            else:
                if token not in self._known:
                    self._known[token] = tuple(self._cut(token, 0.0, None))
                pieces.extend(self._known[token])
        return pieces

    def decode(self, pieces: Iterable[str]) -> list[str]:
        """The tokens that pieces spell; a word left open at the end is closed."""
        tokens: list[str] = []
        begun = ""
        for piece in pieces:
            if _goes_on(piece):
                begun += piece[: -len(CONTINUES)]
            else:
                tokens.append(begun + piece)
                begun = ""
        return [*tokens, begun] if begun else tokens

    def _cut(self, token: str, dropout: float, random: Random | None) -> list[str]:
        characters = _characters(token)
        pieces: list[str] = []
        for start in range(0, len(characters), _STRETCH):  # the time for a stretch grows with its square
            pieces.extend(self._apply(characters[start : start + _STRETCH], dropout, random))
        return pieces

    def _apply(self, pieces: list[str], dropout: float, random: Random | None) -> list[str]:
        while len(pieces) > 1:
            possible = [
                (self._ranks[pair], place)
                for place, pair in enumerate(zip(pieces, pieces[1:], strict=False))
                if pair in self._ranks and not (dropout and random.random() < dropout)
            ]
            if not possible:
                break
            if dropout:  # one place at a time: another place of the same pair may have been dropped
                _, place = min(possible)
                pieces[place : place + 2] = [_joined(*pieces[place : place + 2])]
            else:
                pieces = _merge(pieces, self.merges[min(possible)[0]])
        return pieces

    def to_json(self) -> str:
        """The merges as JSON, in their order."""
        return json.dumps({"merges": self.merges}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> "BytePairEncoding":
        """What `to_json` wrote. Raises ValueError for anything else."""
        try:
            merges = json.loads(text)["merges"]
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise ValueError(f"subwords: expected JSON with 'merges', found {text[:40]!r}") from error
        return cls(merges)

    def save(self, path: str | os.PathLike) -> None:
        """Write the merges to a JSON file, whole or not at all."""
        write_atomic(path, self.to_json().encode())

    @classmethod
    def load(cls, path: str | os.PathLike) -> "BytePairEncoding":
        """Read a file that `save` wrote."""
        return cls.from_json(Path(path).read_text(encoding="utf-8"))


def _characters(word: str) -> list[str]:
    if CONTINUES in word:
        raise ValueError(f"tokens: expected no {CONTINUES!r} inside a token, found {word[:40]!r}")
    return [character + CONTINUES for character in word[:-1]] + [word[-1:]]


def _goes_on(piece: str) -> bool:
    return len(piece) > len(CONTINUES) and piece.endswith(CONTINUES)


def _joined(left: str, right: str) -> str:
    return left[: -len(CONTINUES)] + right


def _merge(pieces: list[str], pair: Pair) -> list[str]:
    merged: list[str] = []
    place = 0
    while place < len(pieces):
        if tuple(pieces[place : place + 2]) == pair:
            merged.append(_joined(*pair))
            place += 2
        else:
            merged.append(pieces[place])
            place += 1
    return merged


def _checked_merge(merge: Sequence[str]) -> Pair:
    if isinstance(merge, str) or len(merge) != 2 or not all(isinstance(piece, str) for piece in merge):
        raise ValueError(f"merges: expected pairs of strings, found {merge!r}")
    if not _goes_on(merge[0]):
        raise ValueError(f"merges: expected a first piece that ends in {CONTINUES!r}, found {merge!r}")
    return merge[0], merge[1]
