"""The data-flow explorer of chapter 14: every block of a trained Transformer, with its tensors and code."""

import ast
import inspect
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import traitlets
from torch import nn

from attnbook.attention import MultiHeadAttention, scaled_dot_product_attention
from attnbook.feedforward import FeedForward, num_parameters
from attnbook.normalization import layer_norm, residual
from attnbook.notebook import Bilingual
from attnbook.position import LearnedPosition, SinusoidalPosition
from attnbook.training.checkpoint import Translator, load_translator
from attnbook.transformer import DecoderLayer, EncoderLayer, Transformer, attend_self
from attnbook.widgets.base import Checkpoint, Number, Text, Widget, bundle, to_labels

__all__ = ["DataFlowExplorer"]

LONGEST = 80  # characters of a sentence
EXAMPLES = (
    ("鼬昨天在厨房里吃了一条鱼。", "The weasel ate a fish in the kitchen yesterday."),
    ("小鼬昨天没吃那条鱼。", "The little weasel didn't eat that fish yesterday."),
    ("鼬比猫高。", "The weasel is taller than the cat."),
    ("杯子上个月被猫打破了。", "The cup was broken by the cat last month."),
    ("谁明天会把那个碗洗干净？", "Who will wash that bowl tomorrow?"),
    ("我们昨天看见的鼬看见过那六只羊。", "The weasel that we saw yesterday has seen those six sheep."),
)


class DataFlowExplorer(Widget):
    """The whole encoder–decoder as a diagram; the block that is chosen shows its tensors, shapes and code.

    The model translates the reader's sentence in the page, in float32, greedily.

    Args:
        checkpoint: the name of a shipped checkpoint, or a `Translator`; its model is a `Transformer`.
        text: the sentence, Chinese, at most 80 characters. None = the first example.
        examples: sentences to choose from, each a str or a pair (sentence, translation).
        block: what is looked at. The path of a module ("src_embedding", "encoder.0.self_attention",
            "decoder.1.norm_2", "output"), or with pre-norm also of a sum ("encoder.0.residual_1");
            `paths` lists all of them.
        step: the target token that is being produced, from 0; None = the last one.
        head: the attention head on display; "mean" shows all of them side by side and averages their weights.

    All but `checkpoint` and `examples` are traits that follow the reader and can be assigned.

    Raises:
        TypeError, ValueError: a model of another kind, a block that it lacks, a trait outside its range.
    """

    _esm = bundle("data_flow_explorer.js")

    checkpoint = Checkpoint().tag(sync=True)
    checkpoint.read_only = True
    blocks = traitlets.List(read_only=True).tag(sync=True)  # {path, parameters, weights: [[name, shape]]}
    excerpts = traitlets.Dict(read_only=True).tag(
        sync=True
    )  # name -> {file, lines: [[number, text, marked]]}
    code = traitlets.Dict(read_only=True).tag(sync=True)  # path without the layer's number -> names above
    examples = traitlets.List(read_only=True).tag(sync=True)
    text = Text(LONGEST).tag(sync=True)
    block = Text(60).tag(sync=True)
    step = Number(None, 0, 1000, integer=True, optional=True).tag(sync=True)
    head = traitlets.Any(0).tag(sync=True)

    def __init__(
        self,
        checkpoint: str | Translator = "grammar-transformer",
        text: str | None = None,
        examples: Sequence[str | tuple[str, str]] = EXAMPLES,
        block: str = "encoder.0.self_attention",
        **traits: Any,
    ):
        if not isinstance(checkpoint, str | Translator):
            raise TypeError(
                "checkpoint: expected a shipped checkpoint's name or a Translator, "
                f"found {type(checkpoint).__name__}"
            )
        translator = checkpoint if isinstance(checkpoint, Translator) else load_translator(checkpoint)
        model = translator.model
        if not isinstance(model, Transformer):
            raise ValueError(f"checkpoint: expected a Transformer, found {type(model).__name__}")
        self._heads = model.config.num_heads
        self.set_trait("checkpoint", checkpoint)
        self.set_trait("examples", to_labels("examples", examples, len(examples)))
        self.set_trait("blocks", [_block(model, path) for path in _paths(model)])
        code, excerpts = _code(model)
        self.set_trait("code", code)
        self.set_trait("excerpts", excerpts)
        if text is None:
            text = self.examples[0][0] if self.examples else ""
        super().__init__(text=text, block=block, **traits)

    @property
    def paths(self) -> list[str]:
        """The blocks that can be looked at, in the order of computation."""
        return [block["path"] for block in self.blocks]

    @traitlets.validate("block")
    def _known_block(self, proposal: Any) -> str:
        if proposal["value"] not in self.paths:
            raise ValueError(f"block: expected one of {', '.join(self.paths)}, found {proposal['value']!r}")
        return proposal["value"]

    @traitlets.validate("head")
    def _known_head(self, proposal: Any) -> int | str:
        value = proposal["value"]
        is_number = isinstance(value, int) and not isinstance(value, bool)
        if value == "mean" or (is_number and 0 <= value < self._heads):
            return value
        kind = ValueError if is_number or isinstance(value, str) else TypeError
        raise kind(f'head: expected an int in [0, {self._heads - 1}] or "mean", found {value!r}')

    def describe(self) -> Bilingual:
        parameters = sum(block["parameters"] for block in self.blocks)
        return Bilingual(
            f"数据流浏览器：一个训练好的 Transformer（{parameters:,} 个参数）的完整框图，"
            f"正在翻译“{self.text}”；选中的模块 {self.block} 显示它的张量、形状、参数和源代码。",
            f"Data-flow explorer: the whole diagram of a trained Transformer ({parameters:,} parameters) "
            f"that translates “{self.text}”; the chosen block, {self.block}, shows its tensors, shapes, "
            "parameters and source code.",
        )


def _paths(model: Transformer) -> list[str]:
    """The blocks of a model, in the order of computation."""

    def layer(name: str, sublayers: tuple[str, ...]) -> list[str]:
        found = []
        for number, sublayer in enumerate(sublayers, start=1):
            if model.config.norm_first:
                found += [f"norm_{number}", sublayer, f"residual_{number}"]
            else:  # x + F(x) is shown with the norm that follows
                found += [sublayer, f"norm_{number}"]
        return [f"{name}.{part}" for part in found]

    def ends(name: str) -> list[str]:
        return [f"{name}_embedding", *([f"{name}_position"] if model.src_position is not None else [])]

    last = model.config.norm_first
    paths = ends("src")
    for number in range(len(model.encoder)):
        paths += layer(f"encoder.{number}", ("self_attention", "feed_forward"))
    paths += [*(["encoder_norm"] if last else []), *ends("tgt")]
    for number in range(len(model.decoder)):
        paths += layer(f"decoder.{number}", ("self_attention", "cross_attention", "feed_forward"))
    return [*paths, *(["decoder_norm"] if last else []), "output"]


def _block(model: Transformer, path: str) -> dict[str, Any]:
    """A block's own parameters; a matrix that several blocks share belongs to the first of them."""
    owner = {
        "all": {"tgt_embedding": "src_embedding", "output": "src_embedding"},
        "target": {"output": "tgt_embedding"},
        "none": {},
    }[model.config.tie_weights].get(path)
    if "residual" in path:
        return {"path": path, "parameters": 0, "weights": [], "shared": None}
    module: nn.Module = model.get_submodule(path)
    weights = [[name, list(parameter.shape)] for name, parameter in module.named_parameters()]
    own = 0 if owner else num_parameters(module)
    return {"path": path, "parameters": own, "weights": weights, "shared": owner}


# ---------------------------------------------------------------------- the code of each block


def _code(model: Transformer) -> tuple[dict[str, list[str]], dict[str, dict]]:
    """For each kind of block the excerpts of the real source that compute it, and these excerpts."""
    excerpts: dict[str, dict] = {}

    def cite(function: Callable, *marks: str, only: bool = False) -> str:
        name = function.__qualname__ + (f" · {marks[0]}" if only else "")
        excerpts.setdefault(name, source_excerpt(function, *marks, only=only))
        return name

    first = model.config.norm_first
    normalize = "sublayer(norm(x)" if first else "norm(x + dropout(y))"
    attend = [cite(MultiHeadAttention.attend), cite(scaled_dot_product_attention)]
    one_norm, feed = [cite(layer_norm)], [cite(FeedForward.forward)]
    summed = cite(residual, "x + dropout(y)") if first else cite(residual, "y = sublayer(", normalize)
    normed = cite(residual, normalize, only=True) if first else summed
    embed = cite(Transformer._embed, "embedding(ids)")
    place = {"sinusoidal": SinusoidalPosition, "learned": LearnedPosition}.get(model.config.position)
    look = cite(attend_self)

    code: dict[str, list[str]] = {}
    for side in ("src", "tgt"):
        code[f"{side}_embedding"] = [embed]
        if place is not None:
            code[f"{side}_position"] = [cite(Transformer._embed, "position(x, offset)", only=True)]
            code[f"{side}_position"].append(cite(place.forward))
    sublayers = ("self_attention", "feed_forward"), ("self_attention", "cross_attention", "feed_forward")
    for stack, up, names in zip(
        ("encoder", "decoder"), (EncoderLayer.forward, DecoderLayer._up), sublayers, strict=True
    ):
        for number, name in enumerate(names, start=1):
            line = cite(up, f"self.norm_{number}", only=True)
            code[f"{stack}.norm_{number}"] = [line, normed, *one_norm]
            if first:
                code[f"{stack}.residual_{number}"] = [line, summed]
            code[f"{stack}.{name}"] = [line, *(feed if name == "feed_forward" else [])]
    code["encoder.self_attention"] += [look, *attend]
    code["decoder.self_attention"] += [look, *attend]
    code["decoder.cross_attention"] = [
        cite(DecoderLayer.forward, "memory_kv = ", only=True),
        cite(DecoderLayer._up, "def attend_memory", only=True),
        *code["decoder.cross_attention"],
        *attend,
    ]
    if first:
        code["encoder_norm"] = [cite(Transformer.encode, "self.encoder_norm", only=True), *one_norm]
        code["decoder_norm"] = [cite(Transformer.decode, "self.decoder_norm", only=True), *one_norm]
    code["output"] = [cite(Transformer.decode, "self.output", only=True)]
    if model.config.tie_weights != "none":
        code["output"].append(cite(Transformer.__init__, "self.output.weight =", only=True))
    return code, excerpts


def source_excerpt(function: Callable, *marks: str, only: bool = False) -> dict[str, Any]:
    """Lines of the real source, with their numbers, without the docstring.

    Args:
        function: what to show.
        marks: statements that contain one of these texts are marked.
        only: show these statements only.

    Returns:
        {"file": its place in the package, "name": the function's, "lines": [[number, text, marked], ...]}.

    Raises:
        ValueError: a mark that is in no statement: the source has changed.
    """
    lines, start = inspect.getsourcelines(function)
    code = textwrap.dedent("".join(lines))
    texts = code.splitlines()
    body = ast.parse(code).body[0]
    marked: set[int] = set()
    for mark in marks:
        found = _statement(body, code, mark)
        if found is None:
            name = function.__qualname__
            raise ValueError(f"marks: expected statements of {name}, found none with {mark!r}")
        marked |= set(range(found.lineno, found.end_lineno + 1))
    hidden: set[int] = set()
    if ast.get_docstring(body, clean=False) is not None:
        hidden = set(range(body.body[0].lineno, body.body[1].lineno))
    shown = [
        [start + number - 1, text, number in marked and not only]
        for number, text in enumerate(texts, start=1)
        if number not in hidden and (number in marked if only else True)
    ]
    while shown and not shown[-1][1].strip():
        shown.pop()
    indent = min(len(text) - len(text.lstrip()) for _, text, _ in shown if text.strip())
    file = Path(inspect.getsourcefile(function)).name
    shown = [[number, text[indent:], hot] for number, text, hot in shown]
    return {"file": f"src/attnbook/{file}", "name": function.__qualname__, "lines": shown}


def _statement(body: ast.AST, code: str, mark: str) -> ast.stmt | None:
    """The smallest statement whose text contains the mark."""
    found = [
        node
        for node in ast.walk(body)
        if isinstance(node, ast.stmt) and mark in (ast.get_source_segment(code, node) or "")
    ]
    return min(found, key=lambda node: node.end_lineno - node.lineno, default=None)
