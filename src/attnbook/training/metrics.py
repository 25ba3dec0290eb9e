r"""How good is a translator? Three measures, each with a limit that one should know.

- **Exact match**: the share of sentences that are right in every token. Fair where there is exactly one right
  answer, as in the built-in corpus; by length it shows where a model breaks down.
- **BLEU** (Papineni et al. 2002), of the corpus, by sacrebleu: n-grams shared with the references. Comparable
  only for the same data, tokens and references.
- **Alignment error rate** (Och & Ney 2003, section 5): with predicted links $A$ and gold links $S$, all sure,
  $AER = 1 - 2|A \cap S| / (|A| + |S|)$. It asks whether attention looks where the words come from.
"""

from collections.abc import Iterable, Sequence

from torch import Tensor

from attnbook._validation import check_tensor

__all__ = ["LENGTH_BUCKETS", "alignment_error_rate", "attention_links", "bleu", "exact_match"]

LENGTH_BUCKETS = (10, 20, 30)  # bounds of the source's length in tokens: up to 10, 11 to 20, 21 to 30, above

Links = frozenset[tuple[int, int]]


def exact_match(
    hypotheses: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
    lengths: Sequence[int] | None = None,
    bounds: Sequence[int] = LENGTH_BUCKETS,
) -> dict[str, float]:
    """The share of hypotheses that equal their reference, of all and of each length.

    Args:
        hypotheses, references: tokens of each sentence.
        lengths: a length of each pair, such as that of its source; None gives the share of all only.
        bounds: the longest length of each bucket but the last, in increasing order.

    Returns:
        "all", and "1-10", "11-20", …, "31+" for the buckets that are not empty.

    Raises:
        ValueError: numbers of sentences that differ, or none at all.
    """
    _check_counts(hypotheses=hypotheses, references=references)
    right = [tuple(a) == tuple(b) for a, b in zip(hypotheses, references, strict=True)]
    shares = {"all": sum(right) / len(right)}
    if lengths is None:
        return shares
    _check_counts(hypotheses=hypotheses, lengths=lengths)
    low = 1
    for high in (*bounds, None):
        inside = [
            hit
            for hit, length in zip(right, lengths, strict=True)
            if low <= length and (high is None or length <= high)
        ]
        if inside:
            shares[f"{low}+" if high is None else f"{low}-{high}"] = sum(inside) / len(inside)
        low = (high or 0) + 1
    return shares


def bleu(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Corpus BLEU of tokenized text, 0 to 100 (sacrebleu, which the extra `attnbook[train]` installs).

    Args:
        hypotheses: a sentence each, its tokens separated by spaces; they are compared as they are.
        references: one or more references of each sentence, written likewise.

    Raises:
        ModuleNotFoundError: sacrebleu is not installed.
        ValueError: numbers of sentences that differ, or a sentence without a reference.
    """
    from sacrebleu.metrics import BLEU

    _check_counts(hypotheses=hypotheses, references=references)
    if not all(references):
        raise ValueError("references: expected at least one for each hypothesis, found a sentence without")
    most = max(map(len, references))
    # sacrebleu wants the first references of all sentences, then the second ones, …; None where there is none
    columns = [[refs[i] if i < len(refs) else None for refs in references] for i in range(most)]
    return BLEU(tokenize="none", force=True).corpus_score(list(hypotheses), columns).score


def alignment_error_rate(predicted: Iterable[Links], gold: Iterable[Links]) -> float:
    """AER over a corpus, 0 (all links right, none missing) to 1.

    Args:
        predicted, gold: for each sentence its links (source index, target index).

    Raises:
        ValueError: numbers of sentences that differ, or no links at all.
    """
    predicted, gold = list(predicted), list(gold)
    _check_counts(predicted=predicted, gold=gold)
    common = sum(len(a & s) for a, s in zip(predicted, gold, strict=True))
    total = sum(len(a) + len(s) for a, s in zip(predicted, gold, strict=True))
    if not total:
        raise ValueError("predicted, gold: expected at least one link, found none")
    return 1 - 2 * common / total


def attention_links(weights: Tensor, threshold: float = 0.25) -> Links:
    """The links that attention weights stand for: each pair of words with at least `threshold` between them.

    A threshold, not the largest weight of each row: a word may come from two characters, or from none.

    Args:
        weights: (target, source), rows that sum to 1 or less.
        threshold: the smallest weight of a link.

    Returns:
        Pairs (source index, target index).
    """
    check_tensor("weights", weights, "target", "source")
    return frozenset((source, target) for target, source in (weights >= threshold).nonzero().tolist())


def _check_counts(**sentences: Sequence) -> None:
    counts = {name: len(value) for name, value in sentences.items()}
    if len(set(counts.values())) > 1 or not all(counts.values()):
        found = ", ".join(f"{count} {name}" for name, count in counts.items())
        raise ValueError(f"{', '.join(counts)}: expected equally many, at least one, found {found}")
