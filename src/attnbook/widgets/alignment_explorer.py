"""The alignment explorer of chapter 9: where a trained translator looks while it writes your sentence."""

from collections.abc import Sequence
from typing import Any

import traitlets

from attnbook.notebook import Bilingual
from attnbook.training.checkpoint import Translator, load_translator
from attnbook.widgets.base import Checkpoint, Choice, Flag, Number, Text, Widget, bundle
from attnbook.widgets.grammar_rules import grammar_rules

__all__ = ["EXAMPLES", "AlignmentExplorer"]

LONGEST = 80  # characters of a sentence
EXAMPLES = (  # of the test split, by length
    "杯子上个月被猫打破了。",
    "谁明天会把那个碗洗干净？",
    "我们昨天看见的鼬看见过那六只羊。",
    "老鼠在村子里帮助的画家不喜欢学中文。",
    "因为乌龟昨天很饿，所以狐狸在湖边帮助了六个女孩。",
    "虽然猫头鹰昨天下午在公园里看见的熊猫很生气，但是他看见的老虎想在学校看一本小说。",
)


class AlignmentExplorer(Widget):
    """Type a Chinese sentence; a translator writes its English, and the weights show where it looks.

    The translator runs in the page. For every sentence that the built-in grammar can write, the true
    translation and the gold alignment are known, whatever the reader types, and the alignment error is shown.

    Args:
        checkpoint: the name of a shipped translator with attention, the path of another, or a `Translator`.
        text: the sentence that is shown first. None = the first example.
        examples: sentences to choose from.
        target: "model" follows the translator's own words, "reference" makes it write the true translation
            (where one is known).
        shift: 0 aligns a word by where the model looks when it predicts it, 1 by one step later.
        threshold: the least weight that counts as a link. Default of both: what `attnbook evaluate` chose.
        gold: whether to show the gold alignment where it is known.
        step: how many target words have been written; None = all.
        layer, head, view, query, key: as in `AttentionHeatmap`.

    All but `checkpoint` and `examples` are traits that follow the reader and can be assigned.

    Raises:
        FileError: no such checkpoint.
        TypeError, ValueError: a translator without attention, a trait outside its range.
    """

    _esm = bundle("alignment_explorer.js")

    checkpoint = Checkpoint().tag(sync=True)
    # grammar.txt and the forms of its words: what the front end reads sentences by.
    rules = traitlets.Dict(read_only=True).tag(sync=True)
    examples = traitlets.List(read_only=True).tag(sync=True)
    text = Text(LONGEST).tag(sync=True)
    target = Choice("model", "reference").tag(sync=True)
    shift = Number(0, 0, 1, integer=True).tag(sync=True)
    threshold = Number(0.25, 0.01, 1).tag(sync=True)
    gold = Flag(True).tag(sync=True)
    step = Number(None, 0, 1000, integer=True, optional=True).tag(sync=True)
    layer = Number(0, 0, 100, integer=True).tag(sync=True)
    head = traitlets.Any(0).tag(sync=True)
    view = Choice("matrix", "lines", "gallery").tag(sync=True)
    query = Number(None, 0, 1000, integer=True, optional=True).tag(sync=True)
    key = Number(None, 0, 1000, integer=True, optional=True).tag(sync=True)

    def __init__(
        self,
        checkpoint: Any = "grammar-gru-attention",
        text: str | None = None,
        examples: Sequence[str] = EXAMPLES,
        **traits: Any,
    ):
        translator = checkpoint if isinstance(checkpoint, Translator) else load_translator(checkpoint)
        if getattr(translator.model.config, "attention", "yes") is None:
            raise ValueError("checkpoint: expected a translator with attention, found one without")
        self._shape = _cross_attention_shape(translator)
        scores = translator.about.get("scores", {}).get("test", {}).get("alignment") or {}
        chosen = {name: scores[name] for name in ("layer", "shift", "threshold") if name in scores}
        self.set_trait("rules", grammar_rules())
        self.set_trait("examples", _sentences(examples))
        if self._shape[1] > 1:
            chosen["head"] = "mean"
        if text is None:
            text = self.examples[0] if self.examples else ""
        source = checkpoint if isinstance(checkpoint, Translator | str) else translator
        super().__init__(checkpoint=source, text=text, **{**chosen, **traits})

    @traitlets.validate("layer")
    def _layer_in_range(self, proposal: Any) -> int:
        if proposal["value"] >= self._shape[0]:
            raise ValueError(
                f"layer: expected an int in [0, {self._shape[0] - 1}], found {proposal['value']}"
            )
        return proposal["value"]

    @traitlets.validate("head")
    def _head_in_range(self, proposal: Any) -> int | str:
        value, heads = proposal["value"], self._shape[1]
        if value == "mean" or (isinstance(value, int) and not isinstance(value, bool) and 0 <= value < heads):
            return value
        raise ValueError(f'head: expected an int in [0, {heads - 1}] or "mean", found {value!r}')

    def describe(self) -> Bilingual:
        return Bilingual(
            f"对齐浏览器：一个训练好的翻译器把“{self.text}”译成英文，矩阵的每一行是一个英文词，每一列是一个汉字，"
            "数值是写这个词时看那个字的权重；标准对齐用框标出。",
            f"Alignment explorer: a trained translator puts “{self.text}” into English. Each row of the "
            "matrix is an English word, each column a Chinese character, each number the weight with which "
            "the one looks at the other; the gold alignment is outlined.",
        )


def _cross_attention_shape(translator: Translator) -> tuple[int, int]:
    """Layers and heads of the cross-attention."""
    config = translator.model.config
    return getattr(config, "num_decoder_layers", 1), getattr(config, "num_heads", 1)


def _sentences(examples: Any) -> list[str]:
    if isinstance(examples, str) or not isinstance(examples, Sequence):
        raise TypeError(f"examples: expected a list of sentences, found {type(examples).__name__}")
    for i, sentence in enumerate(examples):
        if not isinstance(sentence, str):
            raise TypeError(f"examples: expected a str at {i}, found {type(sentence).__name__}")
        if len(sentence) > LONGEST:
            raise ValueError(f"examples: expected at most {LONGEST} characters at {i}, found {len(sentence)}")
    return list(examples)
