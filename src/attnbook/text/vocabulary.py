"""A vocabulary numbers the tokens, so that a sentence becomes a row of ids."""

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from attnbook._validation import check_positive
from attnbook.text.files import write_atomic

__all__ = ["BOS", "EOS", "PAD", "SPECIALS", "UNK", "Vocabulary"]

SPECIALS = ("<pad>", "<bos>", "<eos>", "<unk>")
PAD, BOS, EOS, UNK = range(4)
"""The ids of the special tokens: padding, beginning and end of a sentence, and every token that has no id."""


class Vocabulary:
    """Tokens and their ids; ids 0 to 3 are `<pad>`, `<bos>`, `<eos>`, `<unk>` in every vocabulary.

    `tokens`: the other tokens, in the order of their ids. Raises ValueError for a token that occurs twice or
    is special.
    """

    def __init__(self, tokens: Iterable[str]) -> None:
        tokens = list(tokens)
        for token in tokens:
            if not isinstance(token, str):
                raise TypeError(f"tokens: expected strings, found {token!r} ({type(token).__name__})")
        self._tokens = (*SPECIALS, *tokens)
        self._ids = {token: index for index, token in enumerate(self._tokens)}
        if len(self._ids) != len(self._tokens):
            twice = sorted(token for token, number in Counter(self._tokens).items() if number > 1)
            raise ValueError(
                f"tokens: expected each token once and no special token, found {twice[:5]} again"
            )

    @classmethod
    def build(
        cls, sentences: Iterable[Sequence[str]], min_count: int = 1, max_size: int | None = None
    ) -> "Vocabulary":
        """The vocabulary of tokenized sentences, the most frequent tokens first.

        Equally frequent tokens stand in alphabetical order. Tokens seen fewer than `min_count` times are left
        out, and so are the rarest until the whole has `max_size` entries, specials included.
        """
        check_positive(min_count=min_count)
        if max_size is not None:
            check_positive(max_size=max_size)
            if max_size < len(SPECIALS):
                raise ValueError(
                    f"max_size: expected at least {len(SPECIALS)} (the special tokens), found {max_size}"
                )
        counts = Counter(token for sentence in sentences for token in sentence)
        for special in SPECIALS:
            counts.pop(special, None)
        kept = sorted(
            (token for token in counts if counts[token] >= min_count), key=lambda t: (-counts[t], t)
        )
        return cls(kept if max_size is None else kept[: max_size - len(SPECIALS)])

    def __len__(self) -> int:
        return len(self._tokens)

    def __contains__(self, token: object) -> bool:
        return token in self._ids

    def __iter__(self) -> Iterator[str]:
        return iter(self._tokens)

    def __getitem__(self, token: str) -> int:
        """The id of a token; `<unk>`'s for one that has none."""
        return self._ids.get(token, UNK)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self._tokens == other._tokens

    __hash__ = None

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} tokens)"

    def encode(self, tokens: Iterable[str], bos: bool = False, eos: bool = False) -> list[int]:
        """The ids of tokens, with `<bos>` before and `<eos>` after them if asked."""
        if isinstance(tokens, str):
            raise TypeError(
                f"tokens: expected a sequence of tokens, found a str; tokenize it first: {tokens[:20]!r}"
            )
        return [BOS] * bos + [self._ids.get(token, UNK) for token in tokens] + [EOS] * eos

    def decode(self, ids: Iterable[int]) -> list[str]:
        """The tokens of ids, up to the first `<eos>`, without `<pad>` and `<bos>`.

        Raises ValueError for an id out of range.
        """
        tokens = []
        for index in ids:
            index = int(index)
            if not 0 <= index < len(self):
                raise ValueError(f"ids: expected ids in [0, {len(self)}), found {index}")
            if index == EOS:
                break
            if index not in (PAD, BOS):
                tokens.append(self._tokens[index])
        return tokens

    def to_json(self) -> str:
        """The vocabulary as JSON: its tokens without the special ones, in the order of their ids."""
        return json.dumps({"specials": SPECIALS, "tokens": self._tokens[len(SPECIALS) :]}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> "Vocabulary":
        """The vocabulary that `to_json` wrote. Raises ValueError for anything else."""
        try:
            content = json.loads(text)
            tokens, specials = content["tokens"], tuple(content["specials"])
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise ValueError(
                f"vocabulary: expected JSON with 'specials' and 'tokens', found {text[:40]!r}"
            ) from error
        if specials != SPECIALS or not isinstance(tokens, list):
            raise ValueError(f"vocabulary: expected the special tokens {SPECIALS}, found {specials}")
        return cls(tokens)

    def save(self, path: str | os.PathLike) -> None:
        """Write the vocabulary to a JSON file, whole or not at all."""
        write_atomic(path, self.to_json().encode())

    @classmethod
    def load(cls, path: str | os.PathLike) -> "Vocabulary":
        """Read a file that `save` wrote. Raises ValueError, which names the file, if it is something else."""
        try:
            return cls.from_json(Path(path).read_text(encoding="utf-8"))
        except (ValueError, TypeError) as error:
            raise ValueError(f"{os.fspath(path)}: not a vocabulary: {error}") from error
