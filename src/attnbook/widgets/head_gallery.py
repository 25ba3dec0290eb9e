"""The head gallery: every head of a trained Transformer on the reader's sentence, with measured labels."""

from collections.abc import Sequence
from typing import Any

import traitlets

from attnbook.notebook import Bilingual
from attnbook.training.checkpoint import Translator, load_translator
from attnbook.transformer import Transformer
from attnbook.widgets.base import Checkpoint, Choice, Number, Text, Widget, bundle
from attnbook.widgets.grammar_rules import grammar_rules

__all__ = ["HeadGallery"]

LONGEST = 80  # characters of a sentence
KINDS = ("encoder", "decoder", "cross")
EXAMPLES = (  # of the test split, by length
    "杯子上个月被猫打破了。",
    "我们昨天看见的鼬看见过那六只羊。",
    "因为乌龟昨天很饿，所以狐狸在湖边帮助了六个女孩。",
)


class HeadGallery(Widget):
    """Type a Chinese sentence; a Transformer translates it in the page, and every head shows where it looks.

    Small pictures of all heads of the encoder's self-attention, the decoder's self-attention and the
    cross-attention, each with what it does most, measured on this sentence; one of them enlarged.

    Args:
        checkpoint: the name of a shipped Transformer, the path of another, or a `Translator`.
        text: the sentence that is shown first. None = the first example.
        examples: sentences to choose from.
        kind, layer, head: which one is enlarged; `kind` is "encoder", "decoder" or "cross".
        view: "matrix" or "lines".
        query, key: what is chosen in the enlarged picture, an index or None.

    All but `checkpoint` and `examples` are traits that follow the reader and can be assigned.

    Raises:
        FileError: no such checkpoint.
        TypeError, ValueError: a translator that is no Transformer, a trait outside its range.
    """

    _esm = bundle("head_gallery.js")

    checkpoint = Checkpoint().tag(sync=True)
    # grammar.txt and the forms of its words: what the front end finds gold alignments by.
    rules = traitlets.Dict(read_only=True).tag(sync=True)
    examples = traitlets.List(read_only=True).tag(sync=True)
    text = Text(LONGEST).tag(sync=True)
    kind = Choice(*KINDS).tag(sync=True)
    layer = Number(0, 0, 100, integer=True).tag(sync=True)
    head = Number(0, 0, 100, integer=True).tag(sync=True)
    view = Choice("matrix", "lines").tag(sync=True)
    query = Number(None, 0, 1000, integer=True, optional=True).tag(sync=True)
    key = Number(None, 0, 1000, integer=True, optional=True).tag(sync=True)

    def __init__(
        self,
        checkpoint: Any = "grammar-transformer",
        text: str | None = None,
        examples: Sequence[str] = EXAMPLES,
        kind: str = "encoder",
        **traits: Any,
    ):
        translator = checkpoint if isinstance(checkpoint, Translator) else load_translator(checkpoint)
        if not isinstance(translator.model, Transformer):
            found = type(translator.model).__name__
            raise ValueError(f"checkpoint: expected a translator that is a Transformer, found a {found}")
        config = translator.model.config
        self._layers = {"encoder": config.num_encoder_layers, "decoder": config.num_decoder_layers}
        self._layers["cross"] = config.num_decoder_layers
        self._heads = config.num_heads
        self.set_trait("rules", grammar_rules())
        self.set_trait("examples", _sentences(examples))
        if text is None:
            text = self.examples[0] if self.examples else ""
        source = checkpoint if isinstance(checkpoint, Translator | str) else translator
        super().__init__(checkpoint=source, text=text, kind=kind, **traits)

    @traitlets.validate("layer", "head")
    def _in_range(self, proposal: Any) -> int:
        name, value = proposal["trait"].name, proposal["value"]
        size = self._heads if name == "head" else self._layers[self.kind]
        if value >= size:
            raise ValueError(f"{name}: expected an int in [0, {size - 1}], found {value}")
        return value

    def describe(self) -> Bilingual:
        number = self._heads * sum(self._layers.values())
        return Bilingual(
            f"注意力头的画廊：一个训练好的 Transformer 翻译“{self.text}”，"
            f"编码器自注意力、解码器自注意力和交叉注意力的 {number} 个头各有一张小图，"
            "附上在这句话上量出的标签；可以放大其中一个。",
            f"Head gallery: a trained Transformer translates “{self.text}”. Each of {number} heads of the "
            "encoder's self-attention, the decoder's self-attention and the cross-attention has a small "
            "picture and a label measured on this sentence; one of them is enlarged.",
        )


def _sentences(examples: Any) -> list[str]:
    if isinstance(examples, str) or not isinstance(examples, Sequence):
        raise TypeError(f"examples: expected a list of sentences, found {type(examples).__name__}")
    for i, sentence in enumerate(examples):
        if not isinstance(sentence, str):
            raise TypeError(f"examples: expected a str at {i}, found {type(sentence).__name__}")
        if len(sentence) > LONGEST:
            raise ValueError(f"examples: expected at most {LONGEST} characters at {i}, found {len(sentence)}")
    return list(examples)
