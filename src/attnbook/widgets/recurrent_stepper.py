"""The recurrent stepper of chapter 3: a trained language model reads the reader's sentence, cell by cell."""

from typing import Any

import safetensors.torch
import torch
import traitlets
from torch import nn

from attnbook.notebook import Bilingual
from attnbook.recurrent import RNN
from attnbook.text.vocabulary import Vocabulary
from attnbook.widgets.base import Number, Text, Widget, bundle

__all__ = ["RecurrentStepper"]

LONGEST = 300  # characters of a sentence
EXAMPLE = ("这两只鼬昨天晚上在河边唱歌。", "These two weasels sang by the river last night.")


class RecurrentStepper(Widget):
    """An RNN language model unrolled over a sentence that the reader types: states, formula, next tokens.

    The model runs in the page, with its weights rounded to float16.

    Args:
        model: a module with the parts `embedding` (nn.Embedding), `recurrent` (our RNN, one layer, one
            direction) and `output` (nn.Linear to the vocabulary).
        vocabulary: the model's vocabulary.
        text: the sentence, Chinese or English, or a pair (zh, en) of which the reader sees the one in their
            language; it is cut as `tokenize_chinese` and `tokenize_english` do. What the reader types is
            stored here.
        step: how far the model has read; 0 is `<bos>`. None = to the end.
        unit: the unit of the state that is followed.
        temperature: of the next token's probabilities, 0 … 3.
        erase: the step before which the state is set to zero; None = never.

    All but `model` and `vocabulary` are traits that follow the reader and can be assigned.

    Raises:
        TypeError, ValueError: parts that are missing or do not fit together, a trait outside its range.
    """

    _esm = bundle("recurrent_stepper.js")

    weights = traitlets.Bytes(read_only=True).tag(sync=True)  # safetensors, float16
    tokens = traitlets.List(read_only=True).tag(sync=True)  # the vocabulary, special tokens first
    text = Text(LONGEST, paired=True).tag(sync=True)
    step = Number(None, 0, LONGEST, integer=True, optional=True).tag(sync=True)
    unit = Number(0, 0, 10**4, integer=True).tag(sync=True)
    temperature = Number(1.0, 0, 3).tag(sync=True)
    erase = Number(None, 0, LONGEST, integer=True, optional=True).tag(sync=True)

    def __init__(
        self,
        model: nn.Module,
        vocabulary: Vocabulary,
        text: str | tuple[str, str] = EXAMPLE,
        **traits: Any,
    ):
        self._hidden_size = _check(model, vocabulary)
        tensors = {name: p.detach().to(torch.float16) for name, p in model.named_parameters()}
        self.set_trait("weights", safetensors.torch.save(tensors))
        self.set_trait("tokens", list(vocabulary))
        super().__init__(text=text, **traits)

    @traitlets.validate("unit")
    def _unit_in_range(self, proposal: Any) -> int:
        if proposal["value"] >= self._hidden_size:
            raise ValueError(
                f"unit: expected an int in [0, {self._hidden_size - 1}], found {proposal['value']}"
            )
        return proposal["value"]

    def describe(self) -> Bilingual:
        zh, en = (self.text, self.text) if isinstance(self.text, str) else self.text
        return Bilingual(
            f"循环网络步进器：一个训练好的语言模型逐个词元地读“{zh}”，"
            f"显示每一步 {self._hidden_size} 个单元的隐状态和下一个词元的概率。",
            f"Recurrent stepper: a trained language model reads “{en}” token by token, with the "
            f"{self._hidden_size} units of its hidden state at each step and the next token's probabilities.",
        )


def _check(model: nn.Module, vocabulary: Vocabulary) -> int:
    """The hidden size of a model whose parts are there and fit together."""
    for name, kind in (("embedding", nn.Embedding), ("recurrent", RNN), ("output", nn.Linear)):
        part = getattr(model, name, None)
        if not isinstance(part, kind):
            raise TypeError(f"model.{name}: expected {kind.__name__}, found {type(part).__name__}")
    recurrent, size = model.recurrent, len(vocabulary)
    if len(recurrent.cells) != 1:
        raise ValueError(
            "model.recurrent: expected one layer and one direction, "
            f"found {recurrent.num_layers} and {recurrent.num_directions}"
        )
    for name, part, shape in (
        ("embedding", model.embedding, (size, recurrent.input_size)),
        ("output", model.output, (size, recurrent.hidden_size)),
    ):
        if part.weight.shape != shape:
            raise ValueError(f"model.{name}: expected weights {shape}, found {tuple(part.weight.shape)}")
    if model.output.bias is None:
        raise ValueError("model.output: expected a bias, found none")
    return recurrent.hidden_size
