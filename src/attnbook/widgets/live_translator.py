"""The live translator of chapter 15: a trained Transformer in the page, for any Chinese sentence."""

from collections.abc import Sequence
from typing import Any

import traitlets

from attnbook.notebook import Bilingual
from attnbook.training.checkpoint import Translator, shipped_checkpoints
from attnbook.training.files import read_metadata
from attnbook.widgets.base import Checkpoint, Choice, Number, Text, Widget, bundle

__all__ = ["EXAMPLES", "LiveTranslator"]

LONGEST = 200  # characters of a text, so that no sentence has more tokens than a translator reads
EXAMPLES = (  # none of them is in the corpus; 鼬 is not in its vocabulary
    ("你昨天晚上为什么没来？", "Why didn't you come last night?"),
    ("如果明天下雨，我就待在家里。", "If it rains tomorrow, I'll stay at home."),
    ("妈妈让我把窗户打开。", "Mum told me to open the window."),
    ("这本书比那本书有意思得多。", "This book is far more interesting than that one."),
    ("他一边走路一边唱歌。", "He sings while he walks."),
    ("那只鼬想喝茶。", "That weasel wants some tea."),
)


class LiveTranslator(Widget):
    """Type a Chinese sentence, and a trained translator writes its English in the page, token by token.

    Each step shows what else the model thought of. A click on an alternative forces it, and the model goes on
    from there. Below, every layer and head of every attention can be looked at.

    Args:
        checkpoint: the name of a shipped translator, a `Translator`, or a checkpoint's bytes.
        text: a Chinese text. None = the first example.
        examples: sentences to choose from, each with its meaning in English.
        sentence: which sentence of the text is translated, counted from 0.
        width: of the beam; 1 is greedy.
        alpha: strength of the length penalty, for beams; default: what the checkpoint's recipe says.
        prefix: tokens that the translation has to begin with, as the vocabulary writes them.
        step: the position of the target whose alternatives are shown. None = the one at which the model was
            least sure.
        attention: "cross" from target to source, "decoder" within the target, "encoder" within the source.
        layer, head, view: as in `AttentionHeatmap`.

    All but `examples` are traits that follow the reader and can be assigned.

    Raises:
        TypeError, ValueError: an unknown checkpoint, examples that are no pairs, a trait outside its range.
    """

    _esm = bundle("live_translator.js")

    checkpoint = Checkpoint().tag(sync=True)
    examples = traitlets.List(read_only=True).tag(sync=True)
    text = Text(LONGEST).tag(sync=True)
    sentence = Number(0, 0, LONGEST, integer=True).tag(sync=True)
    width = Number(1, 1, 12, integer=True).tag(sync=True)
    alpha = Number(1.0, 0, 3).tag(sync=True)
    prefix = traitlets.List().tag(sync=True)
    step = Number(None, 0, 1000, integer=True, optional=True).tag(sync=True)
    attention = Choice("cross", "decoder", "encoder").tag(sync=True)
    layer = Number(0, 0, 100, integer=True).tag(sync=True)
    head = traitlets.Any("mean").tag(sync=True)
    view = Choice("matrix", "lines", "gallery").tag(sync=True)

    def __init__(
        self,
        checkpoint: str | Translator | bytes = "tatoeba-transformer",
        text: str | None = None,
        examples: Sequence[tuple[str, str]] = EXAMPLES,
        **traits: Any,
    ):
        self.set_trait("examples", _pairs(examples))
        if text is None:
            text = self.examples[0][0] if self.examples else ""
        super().__init__(checkpoint=checkpoint, text=text, **{"alpha": _alpha(checkpoint), **traits})

    @traitlets.validate("prefix")
    def _tokens(self, proposal: Any) -> list[str]:
        value = proposal["value"]
        for token in value:
            if not isinstance(token, str):
                raise TypeError(f"prefix: expected a list of tokens, found {token!r} in it")
        return value

    @traitlets.validate("head")
    def _head(self, proposal: Any) -> int | str:
        value = proposal["value"]
        if value == "mean" or (isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 100):
            return value
        raise ValueError(f'head: expected an int in [0, 100] or "mean", found {value!r}')

    def describe(self) -> Bilingual:
        return Bilingual(
            f"实时翻译器：一个训练好的翻译模型在页面里把“{self.text}”译成英文，逐个词元写出，"
            "每一步列出其他候选和概率，并显示各层各头的注意力。",
            f"Live translator: a trained model in the page puts “{self.text}” into English, token by token, "
            "with the alternatives of each step, their probabilities, and the attention of every layer and "
            "head.",
        )


def _alpha(checkpoint: Any) -> float:
    """The length penalty that the checkpoint's recipe decodes with."""
    if isinstance(checkpoint, Translator):
        return checkpoint.decoding["alpha"]
    path = shipped_checkpoints().get(checkpoint) if isinstance(checkpoint, str) else None
    return read_metadata(path)["decoding"]["alpha"] if path else 1.0


def _pairs(examples: Any) -> list[list[str]]:
    if isinstance(examples, str) or not isinstance(examples, Sequence):
        raise TypeError(
            f"examples: expected a list of pairs (Chinese, English), found {type(examples).__name__}"
        )
    for i, pair in enumerate(examples):
        if not isinstance(pair, list | tuple) or len(pair) != 2 or not all(isinstance(t, str) for t in pair):
            raise TypeError(f"examples: expected a pair (Chinese, English) at {i}, found {pair!r}")
        if len(pair[0]) > LONGEST:
            raise ValueError(f"examples: expected at most {LONGEST} characters at {i}, found {len(pair[0])}")
    return [list(pair) for pair in examples]
