"""How each shipped checkpoint was made: everything that decides the result, in one place.

`python -m attnbook train NAME` follows the recipe of that name. The seven recipes on the built-in corpus
differ in the model only: same data, same batches, same number of steps, and sizes chosen for the same number
of parameters.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from torch import nn

from attnbook._validation import check_choice
from attnbook.convolutional_seq2seq import ConvolutionalSeq2Seq, ConvolutionalSeq2SeqConfig
from attnbook.gpt import GPTConfig, TranslatingGPT
from attnbook.seq2seq import Seq2Seq, Seq2SeqConfig
from attnbook.training.schedules import warmup_cosine, warmup_inverse_sqrt
from attnbook.transformer import Transformer, TransformerConfig

__all__ = ["MODELS", "RECIPES", "Recipe", "build_model", "learning_rate", "model_name", "vocabulary_sizes"]

MODELS: dict[str, tuple[type, type]] = {
    "Transformer": (Transformer, TransformerConfig),
    "Seq2Seq": (Seq2Seq, Seq2SeqConfig),
    "ConvolutionalSeq2Seq": (ConvolutionalSeq2Seq, ConvolutionalSeq2SeqConfig),
    "GPT": (TranslatingGPT, GPTConfig),
}


@dataclass(frozen=True)
class Recipe:
    """One training run.

    `sizes` are arguments of the model's config besides the vocabulary sizes. `rate` is the peak of the cosine
    schedule; None means the paper's schedule, whose peak follows from `d_model` and `warmup_steps`.
    `merges` and `subword_dropout` cut the target into subwords; 0 merges leaves words whole.
    `beam_width` and `alpha` are for decoding; width 1 is greedy.
    """

    corpus: str
    model: str
    sizes: dict[str, Any] = field(default_factory=dict)
    steps: int = 2000
    batch_size: int | None = None
    max_tokens: int | None = None
    rate: float | None = None
    warmup_steps: int = 200
    label_smoothing: float = 0.0
    weight_decay: float = 0.0
    average: float | None = None
    precision: str = "float32"
    min_count: int = 1
    merges: int = 0
    subword_dropout: float = 0.0
    validate_every: int = 500
    beam_width: int = 1
    alpha: float = 0.0
    seed: int = 0


_GRAMMAR = Recipe(
    corpus="grammar",
    model="Seq2Seq",
    steps=2500,
    batch_size=64,
    rate=2e-3,
    warmup_steps=200,
    average=0.99,
)

_TATOEBA = Recipe(
    corpus="tatoeba",
    model="Transformer",
    steps=8_000,
    max_tokens=1200,
    warmup_steps=800,
    label_smoothing=0.1,
    average=0.999,
    precision="bfloat16",
    min_count=2,
    merges=3000,
    subword_dropout=0.05,
    validate_every=500,
    beam_width=5,
    alpha=1.4,
)

RECIPES: dict[str, Recipe] = {
    "grammar-rnn": replace(
        _GRAMMAR, sizes={"cell": "rnn", "embedding_size": 128, "hidden_size": 296, "dropout": 0.0}
    ),
    "grammar-lstm": replace(
        _GRAMMAR, sizes={"cell": "lstm", "embedding_size": 128, "hidden_size": 168, "dropout": 0.0}
    ),
    "grammar-gru": replace(
        _GRAMMAR, sizes={"cell": "gru", "embedding_size": 128, "hidden_size": 192, "dropout": 0.0}
    ),
    "grammar-gru-attention": replace(
        _GRAMMAR,
        sizes={
            "cell": "gru",
            "embedding_size": 128,
            "hidden_size": 136,
            "attention": "additive",
            "bidirectional": True,
            "dropout": 0.0,
        },
    ),
    "grammar-cnn": replace(
        _GRAMMAR,
        model="ConvolutionalSeq2Seq",
        sizes={
            "d_model": 96,
            "num_heads": 4,
            "num_encoder_layers": 4,
            "num_decoder_layers": 5,
            "kernel_size": 3,
            "growth": 2,
            "dropout": 0.0,
        },
    ),
    "grammar-transformer": replace(
        _GRAMMAR,
        model="Transformer",
        sizes={
            "d_model": 128,
            "num_heads": 4,
            "num_encoder_layers": 2,
            "num_decoder_layers": 2,
            "d_ff": 256,
            "dropout": 0.0,
            "norm_first": True,
            "position": "rotary",
            "tie_weights": "target",
        },
    ),
    "grammar-gpt": replace(
        _GRAMMAR,
        model="GPT",
        sizes={
            "d_model": 128,
            "num_heads": 4,
            "num_layers": 5,
            "d_ff": 256,
            "dropout": 0.0,
            "position": "rotary",
        },
    ),
    "tatoeba-transformer": replace(
        _TATOEBA,
        sizes={
            "d_model": 256,
            "num_heads": 4,
            "num_encoder_layers": 3,
            "num_decoder_layers": 2,
            "d_ff": 640,
            "dropout": 0.25,
            "norm_first": True,
            "tie_weights": "target",
        },
    ),
    "tatoeba-gru-attention": replace(
        _TATOEBA,
        model="Seq2Seq",
        rate=1e-3,
        sizes={
            "cell": "gru",
            "embedding_size": 256,
            "hidden_size": 288,
            "attention": "additive",
            "bidirectional": True,
            "dropout": 0.3,
        },
    ),
}


def build_model(name: str, config: dict[str, Any]) -> nn.Module:
    """A model by its name in `MODELS`, with the arguments of its config.

    Raises:
        ValueError: an unknown name. TypeError, ValueError: arguments that the config refuses.
    """
    check_choice(tuple(MODELS), model=name)
    model, model_config = MODELS[name]
    return model(model_config(**config))


def model_name(model: nn.Module) -> str:
    """The name by which `build_model` makes such a model."""
    return next(name for name, (model_class, _) in MODELS.items() if type(model) is model_class)


def vocabulary_sizes(name: str, source: int, target: int) -> dict[str, int]:
    """The arguments of a model's config that count tokens; a GPT has one vocabulary, which holds both."""
    if name == "GPT":
        return {"vocab_size": target}
    return {"src_vocab_size": source, "tgt_vocab_size": target}


def learning_rate(recipe: Recipe) -> Callable[[int], float]:
    """The schedule of a recipe: step, counted from 1 -> rate."""
    if recipe.rate is None:
        return lambda step: warmup_inverse_sqrt(step, recipe.sizes["d_model"], recipe.warmup_steps)
    return lambda step: warmup_cosine(step, recipe.steps, recipe.rate, recipe.warmup_steps)
