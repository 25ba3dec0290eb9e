"""The word-order machine of chapter 01: a shuffled sentence keeps its bag and changes its state."""

from typing import Any

import traitlets

from attnbook.notebook import Bilingual
from attnbook.widgets.base import Number, Widget, bundle

__all__ = ["WordOrderMachine"]


class WordOrderMachine(Widget):
    """A sentence whose words can be moved, read as a bag and as a sequence.

    The bag is the sum of the word vectors; the sequence is the state h = tanh(0.9 R h + x), where R turns by
    55°. Word vectors of two numbers follow from the words and the seed.

    Args:
        sentence: a str, or a pair (zh, en); its first ten words are taken, Chinese by characters. What the
            reader types is stored here.
        order: the words' present order, a permutation of 0 … n − 1; [] is the original one.
        seed: of the word vectors, 0 … 2³¹ − 1.

    Raises:
        TypeError, ValueError: a trait of the wrong type or outside its range.
    """

    _esm = bundle("word_order_machine.js")

    sentence = traitlets.Any().tag(sync=True)
    order = traitlets.List().tag(sync=True)
    seed = Number(6, 0, 2**31 - 1, integer=True).tag(sync=True)

    @traitlets.default("sentence")
    def _example(self) -> list[str]:
        return ["小鼬追小鱼", "the weasel chases the fish"]

    @traitlets.validate("sentence")
    def _both_languages(self, proposal: dict[str, Any]) -> list[str]:
        value = proposal["value"]
        pair = [value, value] if isinstance(value, str) else value
        if not isinstance(pair, list | tuple) or len(pair) != 2 or not all(isinstance(s, str) for s in pair):
            raise TypeError(
                f"sentence: expected a str or a pair (zh, en), found {value!r} ({type(value).__name__})"
            )
        if not all(any(character.isalnum() for character in text) for text in pair):
            raise ValueError(f"sentence: expected at least one word, found {value!r}")
        return list(pair)

    @traitlets.validate("order")
    def _permutation(self, proposal: dict[str, Any]) -> list[int]:
        value = proposal["value"]
        whole = all(isinstance(i, int) and not isinstance(i, bool) for i in value)
        if not whole or sorted(value) != list(range(len(value))):
            raise ValueError(f"order: expected a permutation of 0 … n − 1, found {value!r}")
        return value

    def describe(self) -> Bilingual:
        zh, en = self.sentence
        return Bilingual(
            f"一句话“{zh}”可以打乱词序：词袋向量（每个词出现几次）和词向量之和怎样都不变，"
            "逐词更新的状态却停在别处。",
            f"The words of “{en}” can be shuffled: the bag vector (how often each word occurs) and the sum "
            "of the word vectors never change, while a state that is updated word by word ends elsewhere.",
        )
