r"""Decoding: from a model of the next token to whole sentences.

A model predicts $P(y_t \mid y_{<t}, x)$. Greedy decoding takes the most probable token at each step, sampling
draws one, beam search follows several hypotheses at once and looks for the largest

$$s(Y, X) = \frac{\log P(Y \mid X)}{lp(Y)}, \qquad lp(Y) = \frac{(5 + |Y|)^\alpha}{(5 + 1)^\alpha}$$

(Wu et al. 2016, eq. 14, without the coverage term). $\alpha = 0$ compares plain probabilities, which favours
short sentences, because every further token costs probability.

**What a model needs.** A translator (`Transformer`, `Seq2Seq`) has `encode(source)`, `start(memory, mask)`
and `step(token, cache)`; a language model (`GPT`) has no `encode`, and `start(prompt)`. `step` takes the
newest token of each sentence, (batch,), and returns logits (batch, vocab) and the next cache. Caches are
nested tuples of tensors, batch first, so that one function, `reorder`, moves the sentences of any of them.

**What comes out.** For each sentence the ids after `<bos>` or after the prompt, without `<eos>`, and a
score. A sentence ends with its own `<eos>`, whose probability counts, or is cut after `max_len` tokens, an
`<eos>` among them; then it leaves the batch. Padding and `<bos>` are never chosen. Of equally probable
tokens the lowest id wins, of equally good hypotheses the one that was better before. The model runs in
evaluation mode, and comes back in the mode it was in.

A language model continues prompts of different lengths together: it steps from the end of the shortest one
on, and where a longer prompt is not over, the prompt's token is taken instead of the model's.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn

from attnbook._validation import check_ids, check_positive
from attnbook.attention import padding_mask

__all__ = ["beam_search", "filter_logits", "greedy", "length_penalty", "reorder", "sample"]

PAD_ID, BOS_ID, EOS_ID = 0, 1, 2

Decoded = tuple[list[list[int]], list[float]]


def greedy(
    model: nn.Module, source: Tensor, max_len: int = 100, bos_id: int = BOS_ID, eos_id: int = EOS_ID
) -> Decoded:
    """The most probable token at each step.

    Args:
        model: a translator or a language model.
        source: ids (batch, time), padding (id 0) at the end: what to translate, or to continue.
        max_len: number of tokens after which a sentence is cut.
        bos_id, eos_id: the ids of `<bos>` and `<eos>`.

    Returns:
        For each sentence the new ids, and their log-probability.

    Raises:
        TypeError, ValueError: a source without sentences, a sentence without words, ids out of range, padding
            before a word, more tokens than a model with learned positions has.
    """
    return _generate(model, source, max_len, lambda log_probs: log_probs.argmax(dim=-1), bos_id, eos_id)


def sample(
    model: nn.Module,
    source: Tensor,
    max_len: int = 100,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
    bos_id: int = BOS_ID,
    eos_id: int = EOS_ID,
) -> Decoded:
    """A token drawn at each step, by its probability.

    Args:
        model, source, max_len, bos_id, eos_id: as in `greedy`.
        temperature, top_k, top_p: as in `filter_logits`.
        generator: the source of randomness; default torch's.

    Returns:
        For each sentence the new ids, and their log-probability under the model itself, without the filters.

    Raises:
        TypeError, ValueError: as in `greedy` and `filter_logits`.
    """

    def choose(log_probs: Tensor) -> Tensor:
        probabilities = filter_logits(log_probs, temperature, top_k, top_p).softmax(dim=-1)
        return torch.multinomial(probabilities, 1, generator=generator).squeeze(1)

    return _generate(model, source, max_len, choose, bos_id, eos_id)


@torch.no_grad()
def _generate(
    model: nn.Module,
    source: Tensor,
    max_len: int,
    choose: Callable[[Tensor], Tensor],
    bos_id: int,
    eos_id: int,
) -> Decoded:
    """One hypothesis a sentence; `choose` maps log-probabilities (batch, vocab) to token ids (batch,)."""
    check_positive(max_len=max_len)
    with _evaluation_mode(model):
        cache, first, prompts = _start(model, source, bos_id)
        ids: list[list[int]] = [[] for _ in first]
        scores = [0.0 for _ in first]
        running, newest, step = list(range(len(first))), first, 0
        while running:
            log_probs, cache = _step(model, newest, cache, bos_id)
            chosen = choose(log_probs)  # (running,)
            chosen_log_probs = log_probs.gather(1, chosen[:, None]).squeeze(1).tolist()
            newest, keep = [], []
            for row, (sentence, token) in enumerate(zip(running, chosen.tolist(), strict=True)):
                if step < len(prompts[sentence]):
                    token = prompts[sentence][step]
                else:
                    scores[sentence] += chosen_log_probs[row]
                    if token == eos_id:
                        continue
                    ids[sentence].append(token)
                    if len(ids[sentence]) == max_len:
                        continue
                newest.append(token)
                keep.append(row)
            cache = (
                cache if len(keep) == len(running) else reorder(cache, torch.tensor(keep, dtype=torch.long))
            )
            running, step = [running[row] for row in keep], step + 1
    return ids, scores


class _Hypothesis(NamedTuple):
    """The beginning of a sentence, in a beam."""

    log_prob: float
    ids: list[int]
    token: int  # the newest one: the last of ids, or of what came before them
    row: int  # where its parent stood in the batch


@torch.no_grad()
def beam_search(
    model: nn.Module,
    source: Tensor,
    beam_width: int = 4,
    alpha: float = 0.6,
    max_len: int = 100,
    bos_id: int = BOS_ID,
    eos_id: int = EOS_ID,
) -> Decoded:
    """The hypothesis with the best score among those that a beam meets.

    A hypothesis that ends takes its place with it, and the beam goes on with one less; so a beam of width 1
    is `greedy`. A sentence is done when no open hypothesis can still overtake the best one that ended.
    Those that are open after `max_len` tokens compete as they are. While there are fewer hypotheses than
    places, as after the first step with a width above the size of the vocabulary, the beam is not full.

    Args:
        model, source, max_len, bos_id, eos_id: as in `greedy`.
        beam_width: number of hypotheses that are followed at once.
        alpha: strength of the length penalty; 0 for none.

    Returns:
        For each sentence the new ids, and the score log P / lp; |Y| is the number of tokens whose
        probabilities are in P, `<eos>` among them.

    Raises:
        TypeError, ValueError: as in `greedy`; a width below 1, a negative alpha.
    """
    check_positive(max_len=max_len, beam_width=beam_width)
    largest_penalty = length_penalty(max_len, alpha)
    with _evaluation_mode(model):
        cache, first, prompts = _start(model, source, bos_id)
        best: list[tuple[float, list[int]]] = [(float("-inf"), []) for _ in first]
        places = [beam_width for _ in first]
        beams = {i: [_Hypothesis(0.0, [], token, i)] for i, token in enumerate(first)}  # those not done
        step = 0
        while beams:
            newest = [hypothesis.token for beam in beams.values() for hypothesis in beam]
            log_probs, cache = _step(model, newest, cache, bos_id)
            likely = _most_likely(log_probs, beam_width)  # for each row pairs (log-probability, token)
            row, after = 0, {}
            for sentence, beam in beams.items():
                rows = range(row, row + len(beam))
                row += len(beam)
                if step < len(prompts[sentence]):
                    after[sentence] = [_Hypothesis(0.0, [], prompts[sentence][step], rows[0])]
                    continue
                candidates = [
                    _Hypothesis(old.log_prob + log_prob, [*old.ids, token], token, parent)
                    for old, parent in zip(beam, rows, strict=True)
                    for log_prob, token in likely[parent]
                ]
                candidates.sort(key=lambda candidate: -candidate.log_prob)
                after[sentence] = []
                for candidate in candidates[: places[sentence]]:
                    length, ended = len(candidate.ids), candidate.token == eos_id
                    if ended or length == max_len:
                        score = candidate.log_prob / length_penalty(length, alpha)
                        if score > best[sentence][0]:
                            best[sentence] = score, candidate.ids[:-1] if ended else candidate.ids
                        places[sentence] -= 1
                    else:
                        after[sentence].append(candidate)
                # log P only falls from here on, and lp is at most the largest one.
                hopes = [candidate.log_prob / largest_penalty for candidate in after[sentence]]
                if not hopes or hopes[0] <= best[sentence][0]:
                    del after[sentence]
            beams, step = after, step + 1
            parents = [hypothesis.row for beam in beams.values() for hypothesis in beam]
            cache = reorder(cache, torch.tensor(parents, dtype=torch.long))
    return [ids for _, ids in best], [score for score, _ in best]


def length_penalty(length: int, alpha: float) -> float:
    r"""$lp = (5 + length)^\alpha / (5 + 1)^\alpha$ (Wu et al. 2016, eq. 14).

    Raises:
        ValueError: a negative `alpha`.
    """
    if not alpha >= 0:
        raise ValueError(f"alpha: expected a number of at least 0, found {alpha}")
    return ((5 + length) / 6) ** alpha


def filter_logits(
    logits: Tensor, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None
) -> Tensor:
    """Logits of the distribution to sample from: sharper or flatter, and without its tail.

    Args:
        logits: (..., vocab).
        temperature: the logits are divided by it; below 1 sharpens, above 1 flattens.
        top_k: keep the k most probable tokens, and those that are as probable as the last of them.
        top_p: keep the most probable tokens whose probabilities, at this temperature, reach p together
            (nucleus sampling; Holtzman et al. 2020), at least one.

    Returns:
        (..., vocab), −∞ at what is left out.

    Raises:
        TypeError, ValueError: a temperature that is not above 0, top_k below 1, top_p outside (0, 1].
    """
    if not temperature > 0:
        raise ValueError(f"temperature: expected a number above 0 (for 0 use `greedy`), found {temperature}")
    logits = logits / temperature
    if top_k is not None:
        check_positive(top_k=top_k)
        smallest = logits.topk(min(top_k, logits.shape[-1])).values[..., -1:]
        logits = logits.masked_fill(logits < smallest, float("-inf"))
    if top_p is not None:
        if not 0 < top_p <= 1:
            raise ValueError(f"top_p: expected a number above 0 and at most 1, found {top_p}")
        ordered, order = logits.sort(dim=-1, descending=True, stable=True)
        probabilities = ordered.softmax(dim=-1)
        before = probabilities.cumsum(dim=-1) - probabilities  # what the more probable tokens have together
        outside = (before >= top_p).scatter(-1, order, before >= top_p)  # back in the order of the ids
        logits = logits.masked_fill(outside, float("-inf"))
    return logits


def reorder(cache: Tensor | tuple, index: Tensor) -> Tensor | tuple:
    """The cache of the sentences at `index`, in that order, each as often as it stands there.

    Args:
        cache: a tensor (batch, ...), or nested tuples of such tensors.
        index: ints (sentences,).
    """
    if isinstance(cache, Tensor):
        return cache.index_select(0, index.to(cache.device))
    return tuple(reorder(part, index) for part in cache)


@contextmanager
def _evaluation_mode(model: nn.Module) -> Iterator[None]:
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def _start(model: nn.Module, source: Tensor, bos_id: int) -> tuple[tuple, list[int], list[list[int]]]:
    """The first cache, each sentence's first token for `step`, and what then is left of its prompt."""
    check_ids("source", source, None, "batch", "time")
    words = source != PAD_ID
    lengths = words.sum(dim=1)
    if not lengths.numel() or not lengths.all():
        raise ValueError(
            "source: expected sentences with at least one word (id other than 0), "
            f"found lengths {lengths.tolist()}"
        )
    if (words[:, 1:] & ~words[:, :-1]).any():
        raise ValueError("source: expected padding (id 0) at the end of a sentence, found it before a word")
    if hasattr(model, "encode"):
        cache = model.start(model.encode(source), padding_mask(source))
        return cache, [bos_id] * len(source), [[] for _ in source]
    shortest = int(lengths.min())
    prompts = [row[:length] for row, length in zip(source.tolist(), lengths.tolist(), strict=True)]
    cache = model.start(source[:, : shortest - 1])
    return cache, [prompt[shortest - 1] for prompt in prompts], [prompt[shortest:] for prompt in prompts]


def _step(model: nn.Module, newest: list[int], cache: tuple, bos_id: int) -> tuple[Tensor, tuple]:
    """Log-probabilities (batch, vocab) of what follows the newest tokens, and the next cache."""
    device = next(model.parameters()).device
    logits, cache = model.step(torch.tensor(newest, device=device), cache)
    never = torch.zeros(logits.shape[-1], dtype=torch.bool, device=device)
    never[[PAD_ID, bos_id]] = True
    return logits.masked_fill(never, float("-inf")).log_softmax(dim=-1), cache


def _most_likely(log_probs: Tensor, k: int) -> list[list[tuple[float, int]]]:
    """For each row the k largest entries above −∞, with their ids; of equals the lowest id."""
    # `argmax` takes the first of equals, which `topk` does not promise.
    log_probs, found = log_probs.clone(), []
    for _ in range(min(k, log_probs.shape[-1])):
        ids = log_probs.argmax(dim=-1, keepdim=True)  # (rows, 1)
        found.append((log_probs.gather(1, ids), ids))
        log_probs.scatter_(1, ids, float("-inf"))
    values, ids = (torch.cat(part, dim=1).tolist() for part in zip(*found, strict=True))
    return [
        [(value, token) for value, token in zip(*row, strict=True) if value > float("-inf")]
        for row in zip(values, ids, strict=True)
    ]
