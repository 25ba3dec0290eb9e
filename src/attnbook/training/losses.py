r"""The loss of a translator: cross-entropy against a smoothed target, averaged over the words.

Label smoothing (Szegedy et al. 2016, section 7; Vaswani et al. 2017, section 5.4) moves the share ε of the
target's probability from the true token to all $V$ tokens alike:

$$q_k = (1 - \varepsilon)\,\delta_{k,y} + \frac{\varepsilon}{V}, \qquad
  H(q, p) = -\sum_k q_k \log p_k
          = -(1 - \varepsilon) \log p_y - \frac{\varepsilon}{V} \sum_k \log p_k .$$

The model learns to be less sure, which costs perplexity and gains BLEU.
"""

from torch import Tensor

from attnbook._validation import check_choice, check_ids, check_probability, check_tensor

__all__ = ["cross_entropy"]


def cross_entropy(
    logits: Tensor, target: Tensor, label_smoothing: float = 0.0, pad_id: int = 0, reduction: str = "mean"
) -> Tensor:
    r"""$H(q, p)$ with $p = \mathrm{softmax}(\text{logits})$; padding costs nothing and counts for nothing.

    Args:
        logits: (..., vocab).
        target: ids (...), `pad_id` where there is no word.
        label_smoothing: ε, in [0, 1).
        pad_id: the id of the padding token.
        reduction: "mean" over the words; or "sum", for a caller that divides by the words of several batches.

    Returns:
        A scalar. Without a single word it is zero, with zero gradients.

    Raises:
        TypeError, ValueError: shapes that do not fit, ids out of range.
    """
    check_tensor("logits", logits, "...", "vocab")
    check_ids("target", target, logits.shape[-1], *logits.shape[:-1])
    check_probability(label_smoothing=label_smoothing)
    check_choice(("mean", "sum"), reduction=reduction)
    is_word = target != pad_id  # (...)
    # Padding is cut away first: a large vocabulary makes each row expensive.
    log_p = logits[is_word].float().log_softmax(dim=-1)  # (words, vocab)
    log_p_y = log_p.gather(-1, target[is_word].long()[:, None]).squeeze(-1)  # (words,)
    loss = -(1 - label_smoothing) * log_p_y.sum()
    if label_smoothing:
        loss = loss - label_smoothing * log_p.mean(dim=-1).sum()
    return loss / max(1, int(is_word.sum())) if reduction == "mean" else loss
