"""The scores of a translator on a corpus."""

from collections.abc import Sequence
from itertools import product

import torch
from torch import Tensor

from attnbook.text.batching import batches
from attnbook.training.checkpoint import Translator
from attnbook.training.data import Example
from attnbook.training.losses import cross_entropy
from attnbook.training.metrics import alignment_error_rate, attention_links, bleu, exact_match

__all__ = ["alignment_error", "alignment_scores", "bleu_score", "corpus_loss", "exact_match_scores"]

THRESHOLDS = (0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)


def exact_match_scores(
    translator: Translator, examples: Sequence[Example], beam_width: int = 1
) -> dict[str, float]:
    """The share of sentences that are right in every token, of all and by length of the source."""
    hypotheses = translator.translate_tokens([example.source for example in examples], beam_width)
    references = [example.references[0] for example in examples]
    return exact_match(hypotheses, references, [len(example.source) for example in examples])


def bleu_score(
    translator: Translator,
    examples: Sequence[Example],
    beam_width: int | None = None,
    alpha: float | None = None,
) -> float:
    """BLEU on lower-cased tokens, against all references of each source."""
    hypotheses = translator.translate_tokens([example.source for example in examples], beam_width, alpha)
    references = [[" ".join(reference) for reference in example.references] for example in examples]
    return bleu([" ".join(hypothesis) for hypothesis in hypotheses], references)


@torch.no_grad()
def corpus_loss(translator: Translator, examples: Sequence[Example]) -> float:
    """Cross-entropy a target piece in nats, of the first references, without label smoothing."""
    translator.model.eval()
    pairs = [
        (translator.encode_source(example.source), translator.encode_target(example.references[0]))
        for example in examples
    ]
    total, words = 0.0, 0
    for batch in batches(pairs, batch_size=100, seed=None):
        logits = translator.model(batch.src, batch.tgt[:, :-1])
        total += cross_entropy(logits, batch.tgt[:, 1:], reduction="sum").item()
        words += batch.num_tokens
    return total / words


def alignment_scores(
    translator: Translator, valid: Sequence[Example], test: Sequence[Example]
) -> dict[str, float] | None:
    """The alignment error rate of the cross-attention; None for a model without attention.

    Which layer, which row and which threshold is chosen on `valid`, and measured on `test`. The row: a target
    word is aligned by where the model looks when it predicts the word (shift 0), or one step later, when the
    word comes in (shift 1; Chen et al. 2020 compare both).

    Raises:
        ValueError: examples without gold alignments, or a target in subwords.
    """
    if any(example.alignment is None for example in (*valid, *test)):
        raise ValueError("valid, test: expected examples with gold alignments, found some without")
    if translator.subwords is not None:
        raise ValueError("translator: expected one that writes whole words, found one with subwords")
    if getattr(translator.model.config, "attention", "yes") is None:
        return None
    weights = _weights(translator, valid)
    choices = list(product(range(len(weights[0])), (0, 1), THRESHOLDS))
    layer, shift, threshold = min(choices, key=lambda choice: _error_rate(weights, valid, *choice))
    return {
        "alignment_error_rate": alignment_error(translator, test, layer, shift, threshold),
        "layer": layer,
        "shift": shift,
        "threshold": threshold,
    }


def alignment_error(
    translator: Translator, examples: Sequence[Example], layer: int, shift: int, threshold: float
) -> float:
    """The alignment error rate for one choice of layer, row and threshold; see `alignment_scores`."""
    return _error_rate(_weights(translator, examples), examples, layer, shift, threshold)


def _weights(translator: Translator, examples: Sequence[Example]) -> list[Tensor]:
    return [translator.cross_attention(example.source, example.references[0]) for example in examples]


def _error_rate(
    weights: Sequence[Tensor], examples: Sequence[Example], layer: int, shift: int, threshold: float
) -> float:
    predicted = (_links(w[layer], shift, threshold) for w in weights)
    return alignment_error_rate(predicted, (example.alignment for example in examples))


def _links(weights: Tensor, shift: int, threshold: float) -> frozenset[tuple[int, int]]:
    """Weights (target + 1, source + 1) -> links between words, without those to `<eos>`."""
    words = len(weights) - 1
    return attention_links(weights[shift : shift + words, :-1], threshold)
