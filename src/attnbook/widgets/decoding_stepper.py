"""The decoding stepper of chapter 8: a trained translator, fed with the truth or with its own words."""

from collections.abc import Mapping, Sequence
from typing import Any

import traitlets

from attnbook.notebook import Bilingual
from attnbook.text.grammar import Pair
from attnbook.training.checkpoint import Translator, load_translator
from attnbook.widgets.base import Checkpoint, Flag, Number, Text, Widget, bundle
from attnbook.widgets.grammar_rules import grammar_rules

__all__ = ["DecodingStepper"]

LONGEST_SOURCE, LONGEST_REFERENCE, LONGEST_TOKEN = 120, 400, 40  # characters
MOST_STEPS = 300
EXAMPLES = (  # of the test split: short and right, long and wrong
    ("猴子想吃什么鸡蛋？", "What egg does the monkey want to eat?"),
    ("我们明年去湖边跳舞吧。", "Let's go to the lake to dance next year."),
    ("他喜欢看见过那两只小鼬的乌龟。", "He likes the turtle that has seen those two little weasels."),
    (
        "他们的同学每天晚上都散步，但是他昨天看见了我们。",
        "Their classmate takes a walk every evening, but he saw us yesterday.",
    ),
)


class _Forced(traitlets.TraitType):
    """Words that are put in place of the model's own: {step: token}, steps from 1 on."""

    expected = f"a dict from steps in [1, {MOST_STEPS}] to tokens"

    def validate(self, obj: Any, value: Any) -> dict[int, str]:
        if not isinstance(value, Mapping):
            raise TypeError(
                f"{self.name}: expected {self.expected}, found {value!r} ({type(value).__name__})"
            )
        for step, token in value.items():
            if not isinstance(step, int) or isinstance(step, bool) or not isinstance(token, str):
                raise TypeError(f"{self.name}: expected {self.expected}, found {{{step!r}: {token!r}}}")
            if not 1 <= step <= MOST_STEPS or not 1 <= len(token) <= LONGEST_TOKEN:
                raise ValueError(f"{self.name}: expected {self.expected}, found {{{step!r}: {token!r}}}")
        return dict(sorted(value.items()))


class DecodingStepper(Widget):
    """One sentence translated three ways at once: with the truth, on the model's own, and with a word forced.

    The translator runs in the page. Under teacher forcing it reads the reference, whatever it has predicted;
    running free it reads what it has written itself. Where a word is forced, the reader sees what becomes of
    the rest.

    The reference of a sentence is `reference`; without one, the translation of an example, or the one that
    the built-in grammar knows for whatever it can write (translators of the built-in corpus); and if there is
    none of these, the model's own translation.

    Args:
        checkpoint: the name of a shipped translator, the path of another, or a `Translator`; with or without
            attention.
        text: the Chinese sentence. None = the first example.
        examples: sentences to choose from, each a `Pair` of the corpus or a pair (Chinese, English).
        reference: the English translation that is taken for true. "" = as above.
        step: the step that is looked at, from 1 on: step t writes token t. None = where the translation first
            parts from the reference.
        forced: {step: token}: what is written at these steps, whatever the model says.
        ahead: whether what comes after `step` is shown.

    All but `checkpoint` and `examples` are traits that follow the reader and can be assigned.

    Raises:
        FileError: no such checkpoint.
        TypeError, ValueError: examples that are no pairs, a trait outside its range.
    """

    _esm = bundle("decoding_stepper.js")

    checkpoint = Checkpoint().tag(sync=True)
    # grammar.txt and the forms of its words: what the front end knows references by; empty for other corpora.
    rules = traitlets.Dict(read_only=True).tag(sync=True)
    examples = traitlets.List(read_only=True).tag(sync=True)  # [Chinese, English]
    text = Text(LONGEST_SOURCE).tag(sync=True)
    reference = Text(LONGEST_REFERENCE).tag(sync=True)
    step = Number(None, 1, MOST_STEPS, integer=True, optional=True).tag(sync=True)
    forced = _Forced({}).tag(
        sync=True,
        to_json=lambda value, widget: [list(item) for item in value.items()],
        from_json=lambda value, widget: {int(step): token for step, token in value},
    )
    ahead = Flag(True).tag(sync=True)

    def __init__(
        self,
        checkpoint: Any = "grammar-gru",
        text: str | None = None,
        examples: Sequence[Pair | tuple[str, str]] = EXAMPLES,
        **traits: Any,
    ):
        translator = checkpoint if isinstance(checkpoint, Translator) else load_translator(checkpoint)
        self._tokens = frozenset(translator.target_vocabulary) - {"<pad>", "<bos>"}
        self._attends = getattr(translator.model.config, "attention", "yes") is not None
        knows_grammar = translator.about.get("data", {}).get("corpus") == "grammar"
        self.set_trait("rules", grammar_rules() if knows_grammar else {})
        self.set_trait("examples", _sentences(examples))
        if text is None:
            text = self.examples[0][0] if self.examples else ""
        source = checkpoint if isinstance(checkpoint, Translator | str) else translator
        super().__init__(checkpoint=source, text=text, **traits)

    @traitlets.validate("forced")
    def _tokens_are_known(self, proposal: Any) -> dict[int, str]:
        unknown = [token for token in proposal["value"].values() if token not in self._tokens]
        if unknown:
            raise ValueError(f"forced: expected tokens of the translator's vocabulary, found {unknown[0]!r}")
        return proposal["value"]

    def describe(self) -> Bilingual:
        zh, en = ("带", "with") if self._attends else ("不带", "without")
        return Bilingual(
            f"解码步进器：一个训练好的{zh}注意力的模型翻译“{self.text}”。每一步都列出教师强制时（读参考译文）"
            "与自由运行时（读自己写的词）下一个词元的概率；可以强行改掉一个词，看后面怎样变。",
            f"Decoding stepper: a trained model {en} attention translates “{self.text}”. Each step shows the "
            "next token's probabilities under teacher forcing, where it reads the reference, and in a free "
            "run, where it reads its own words; a word can be forced, to see what becomes of the rest.",
        )


def _sentences(examples: Any) -> list[list[str]]:
    if isinstance(examples, str) or not isinstance(examples, Sequence):
        raise TypeError(f"examples: expected a list of pairs, found {type(examples).__name__}")
    found = []
    for i, example in enumerate(examples):
        pair = (example.source_text, example.target_text) if isinstance(example, Pair) else example
        if not isinstance(pair, tuple | list) or [type(part) for part in pair] != [str, str]:
            raise TypeError(f"examples: expected a Pair or (Chinese, English) at {i}, found {example!r}")
        if len(pair[0]) > LONGEST_SOURCE or len(pair[1]) > LONGEST_REFERENCE:
            raise ValueError(
                f"examples: expected at most {LONGEST_SOURCE} and {LONGEST_REFERENCE} characters at {i}, "
                f"found {len(pair[0])} and {len(pair[1])}"
            )
        found.append(list(pair))
    return found
