"""The gate explorer of chapters 5 and 6: every gate of a trained LSTM or GRU along the reader's sentence."""

from collections.abc import Sequence
from typing import Any

import safetensors.torch
import torch
import traitlets
from torch import nn

from attnbook.notebook import Bilingual
from attnbook.recurrent import GRU, LSTM
from attnbook.widgets.base import Choice, Flag, Number, Text, Widget, bundle, to_labels

__all__ = ["GateExplorer"]

LONGEST = 120  # characters of a text
MOST_UNITS = 32


class GateExplorer(Widget):
    """Gates and states of small trained networks, unit by unit, along a text that the reader types.

    To the model every character is one of a few kinds: `kinds[k]` holds the characters of kind k, and what
    stands in none of them is kind 0. The networks run in the page, in float32.

    Args:
        model: a module with the parts `embedding` (nn.Embedding, one row a kind), `recurrent` (our LSTM or
            GRU, one layer, one direction, at most 32 units) and `output` (nn.Linear, one logit a label); or
            a list of such modules to choose from.
        kinds: a str for each kind of character; the first is "".
        labels: a str or pair (zh, en) for each logit: what it says of a character, if it is above 0.
        text: the reader's text, at most 120 characters.
        shown: which model is on display.
        unit: the unit that is followed.
        step: the character that is looked at; None = the last.
        hold: a gate that is held shut or open whatever the network says: "none", or the gate's letter
            ("i", "f", "o" of an LSTM, "r", "z" of a GRU) and "0" or "1".
        everywhere: hold it in all units, not only in `unit`.

    All but the first three are traits that follow the reader and can be assigned.

    Raises:
        TypeError, ValueError: parts that are missing or do not fit together, a trait outside its range.
    """

    _esm = bundle("gate_explorer.js")

    weights = traitlets.Bytes(read_only=True).tag(
        sync=True
    )  # safetensors, float32; names "0.embedding.weight", …
    names = traitlets.List(read_only=True).tag(sync=True)  # of the models: "LSTM", "GRU"
    kinds = traitlets.List(read_only=True).tag(sync=True)
    labels = traitlets.List(read_only=True).tag(sync=True)
    text = Text(LONGEST).tag(sync=True)
    shown = Number(0, 0, 10, integer=True).tag(sync=True)
    unit = Number(0, 0, MOST_UNITS - 1, integer=True).tag(sync=True)
    step = Number(None, 0, LONGEST - 1, integer=True, optional=True).tag(sync=True)
    hold = Choice("none", "i0", "i1", "f0", "f1", "o0", "o1", "r0", "r1", "z0", "z1").tag(sync=True)
    everywhere = Flag(False).tag(sync=True)

    def __init__(
        self,
        model: nn.Module | Sequence[nn.Module],
        kinds: Sequence[str],
        labels: Sequence[Any],
        text: str = "",
        **traits: Any,
    ):
        models = [model] if isinstance(model, nn.Module) else list(model)
        kinds = _kinds(kinds)
        self._units = [_check(part, len(kinds), len(labels)) for part in models]
        tensors = {
            f"{k}.{name}": parameter.detach().float().contiguous()
            for k, part in enumerate(models)
            for name, parameter in part.named_parameters()
        }
        self.set_trait("weights", safetensors.torch.save(tensors))
        self.set_trait("names", [type(part.recurrent).__name__ for part in models])
        self.set_trait("kinds", kinds)
        self.set_trait("labels", to_labels("labels", labels, len(labels)))
        super().__init__(text=text, **traits)

    @traitlets.validate("shown", "unit")
    def _in_range(self, proposal: Any) -> int:
        name, value = proposal["trait"].name, proposal["value"]
        size = len(self._units) if name == "shown" else min(self._units)
        if value >= size:
            raise ValueError(f"{name}: expected an int in [0, {size - 1}], found {value}")
        return value

    def describe(self) -> Bilingual:
        names = ", ".join(self.names)
        return Bilingual(
            f"门浏览器：训练好的 {names} 逐个字符地读“{self.text}”，"
            "每个单元的门与状态在每一步取什么值，都画成颜色。",
            f"Gate explorer: a trained {names} reads “{self.text}” character by character; the gates and "
            "states of every unit at every step are drawn as colours.",
        )


def _kinds(kinds: Sequence[str]) -> list[str]:
    if isinstance(kinds, str) or not all(isinstance(kind, str) for kind in kinds):
        raise TypeError(f"kinds: expected a list of str, found {kinds!r}")
    if len(kinds) < 2 or kinds[0] != "":
        raise ValueError(
            f'kinds: expected "" (every other character) and further kinds, found {list(kinds)!r}'
        )
    letters = "".join(kinds)
    if len(set(letters)) != len(letters):
        raise ValueError(f"kinds: expected each character in one kind only, found {list(kinds)!r}")
    return list(kinds)


def _check(model: Any, kinds: int, labels: int) -> int:
    """The number of units of a model whose parts are there and fit together."""
    parts = {"embedding": nn.Embedding, "recurrent": LSTM | GRU, "output": nn.Linear}
    for name, kind in parts.items():
        part = getattr(model, name, None)
        if not isinstance(part, kind):
            wanted = "LSTM or GRU" if name == "recurrent" else kind.__name__
            raise TypeError(f"model.{name}: expected {wanted}, found {type(part).__name__}")
    recurrent = model.recurrent
    if len(recurrent.cells) != 1 or recurrent.hidden_size > MOST_UNITS:
        raise ValueError(
            f"model.recurrent: expected one layer, one direction and at most {MOST_UNITS} units, found "
            f"{recurrent.num_layers}, {recurrent.num_directions} and {recurrent.hidden_size}"
        )
    for name, part, shape in (
        ("embedding", model.embedding, (kinds, recurrent.input_size)),
        ("output", model.output, (labels, recurrent.hidden_size)),
    ):
        if part.weight.shape != shape:
            raise ValueError(f"model.{name}: expected weights {shape}, found {tuple(part.weight.shape)}")
    if model.output.bias is None:
        raise ValueError("model.output: expected a bias, found none")
    if not all(torch.isfinite(parameter).all() for parameter in model.parameters()):
        raise ValueError("model: expected finite weights, found NaN or infinity")
    return recurrent.hidden_size
