"""Subwords: rare words are written in pieces that are frequent (byte-pair encoding; Sennrich et al. 2016).

Learning starts with words cut into characters and joins, again and again, the most frequent pair of
neighbours. Encoding a word does the same joins in the same order: "walking" becomes `walk@@ ing`, where `@@`
says that the word goes on. With **dropout** (Provilkov et al. 2020) each possible join is left out with a
small probability, so that one word is met in many spellings, which makes a small corpus go further.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from random import Random

from attnbook._validation import check_positive, check_probability

__all__ = ["CONTINUES", "Subwords"]

CONTINUES = "@@"  # at the end of a piece: the word is not over


class Subwords:
    """A list of joins, in the order in which they were learned.

    Args:
        merges: pairs of pieces, the most frequent first.
    """

    def __init__(self, merges: Iterable[tuple[str, str]] = ()):
        self.merges = [tuple(pair) for pair in merges]
        self._rank = {pair: rank for rank, pair in enumerate(self.merges)}
        self._known: dict[str, tuple[str, ...]] = {}

    @classmethod
    def learn(cls, sentences: Iterable[Sequence[str]], num_merges: int) -> "Subwords":
        """Learn up to `num_merges` joins; pairs that occur only once are not joined.

        Of equally frequent pairs the first in the alphabet is joined, so the result depends on the sentences
        only.
        """
        check_positive(num_merges=num_merges)
        words = Counter(word for sentence in sentences for word in sentence)
        pieces = {word: _characters(word) for word in words}
        counts: Counter[tuple[str, str]] = Counter()
        found_in: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        for word, parts in pieces.items():
            for pair in zip(parts, parts[1:], strict=False):
                counts[pair] += words[word]
                found_in[pair].add(word)
        merges = []
        while counts and len(merges) < num_merges:
            most = max(counts.values())
            if most < 2:
                break
            best = min(pair for pair, count in counts.items() if count == most)
            merges.append(best)
            for word in found_in.pop(best):  # only these words change
                for sign, parts in ((-1, pieces[word]), (1, _join(pieces[word], best))):
                    for pair in zip(parts, parts[1:], strict=False):
                        counts[pair] += sign * words[word]
                        found_in[pair].add(word)
                    pieces[word] = parts
            del counts[best], found_in[best]
        return cls(merges)

    def encode(self, words: Iterable[str], dropout: float = 0.0, random: Random | None = None) -> list[str]:
        """The pieces of all words, in order.

        Args:
            words: tokens of a sentence.
            dropout: probability with which a join is left out, each time it is considered.
            random: the source of randomness; needed for dropout.
        """
        check_probability(dropout=dropout)
        if dropout and random is None:
            raise ValueError("random: expected a random.Random for dropout, found None")
        return [piece for word in words for piece in self._encode_word(word, dropout, random)]

    def _encode_word(self, word: str, dropout: float, random: Random | None) -> Sequence[str]:
        if not dropout and word in self._known:
            return self._known[word]
        parts = _characters(word)
        while len(parts) > 1:
            pairs = [pair for pair in zip(parts, parts[1:], strict=False) if pair in self._rank]
            if dropout:
                pairs = [pair for pair in pairs if random.random() >= dropout]
            if not pairs:
                break
            parts = _join(parts, min(pairs, key=self._rank.__getitem__))
        if not dropout:
            self._known[word] = parts
        return parts

    @staticmethod
    def decode(pieces: Iterable[str]) -> list[str]:
        """The words that the pieces make; `@@` on the last piece of all is dropped."""
        words, begun = [], ""
        for piece in pieces:
            if piece.endswith(CONTINUES) and piece != CONTINUES:
                begun += piece.removesuffix(CONTINUES)
            else:
                words.append(begun + piece)
                begun = ""
        return [*words, begun] if begun else words


def _characters(word: str) -> tuple[str, ...]:
    return (*(character + CONTINUES for character in word[:-1]), word[-1])


def _join(parts: tuple[str, ...], pair: tuple[str, str]) -> tuple[str, ...]:
    """Every occurrence of the pair, from the left, as one piece."""
    joined, index = [], 0
    while index < len(parts):
        if parts[index : index + 2] == pair:
            joined.append(pair[0].removesuffix(CONTINUES) + pair[1])
            index += 2
        else:
            joined.append(parts[index])
            index += 1
    return tuple(joined)
