"""Seven translators under the same conditions: what chapter 16 measures besides their scores.

**Speed** depends on the machine and on what else it does. So the models take turns, a step each on the same
sentences, and only their ratios are worth quoting.

**The queue** does not depend on the machine. Operations that wait for each other's results cannot be done at
the same time, however many processors there are; how many they are is a property of the model.
"""

import copy
import math
from collections.abc import Mapping, Sequence

from torch import Tensor

from attnbook._validation import check_positive
from attnbook.text.batching import batches
from attnbook.training.checkpoint import Translator
from attnbook.training.fit import fit

__all__ = ["CONTESTANTS", "longest_chain", "training_speeds", "wilson_interval"]

# Recipe and name, in the order of the course.
CONTESTANTS = {
    "grammar-rnn": "RNN",
    "grammar-lstm": "LSTM",
    "grammar-gru": "GRU",
    "grammar-gru-attention": "GRU + attention",
    "grammar-cnn": "CNN",
    "grammar-transformer": "Transformer",
    "grammar-gpt": "GPT",
}


def training_speeds(
    translators: Mapping[str, Translator],
    pairs: Sequence[tuple[Sequence[str], Sequence[str]]],
    batch_size: int = 64,
) -> dict[str, list[float]]:
    """The speed of training, in target tokens a second, of each model on each batch of `pairs`.

    On each batch the models take turns, one step of `fit` each, after one step of each that is not counted.
    The translators themselves stay as they are.

    Args:
        translators: by name.
        pairs: tokens of source and target.
        batch_size: pairs of a step.

    Returns:
        For each name the speeds, in an order of batches that is the same for all.

    Raises:
        ValueError: no pairs.
    """
    check_positive(batch_size=batch_size)
    if not len(pairs):
        raise ValueError("pairs: expected at least one, found none")
    models = {name: copy.deepcopy(translator.model) for name, translator in translators.items()}
    all_batches = {}
    for name, one in translators.items():
        ids = [(one.encode_source(source), one.encode_target(target)) for source, target in pairs]
        all_batches[name] = list(batches(ids, batch_size, seed=0))
    speeds: dict[str, list[float]] = {name: [] for name in translators}
    rounds = len(next(iter(all_batches.values())))
    for turn in (0, *range(rounds)):  # the first one twice, because it is a warm-up too
        for name, model in models.items():
            batch = all_batches[name][turn]
            history = fit(model, lambda epoch, batch=batch: [batch], 1, lambda step: 1e-4, show=False)
            speeds[name].append(history.words / history.seconds)
    return {name: found[1:] for name, found in speeds.items()}


def longest_chain(output: Tensor) -> int:
    """How many operations on the way to `output` wait for each other: the longest chain in its graph.

    The operations are those that autograd records, views among them.

    Raises:
        ValueError: an output without a graph.
    """
    if output.grad_fn is None:
        raise ValueError("output: expected a tensor that requires a gradient, found one without a graph")
    length, open_nodes = {}, [output.grad_fn]
    while open_nodes:
        node = open_nodes[-1]
        before = [parent for parent, _ in node.next_functions if parent is not None]
        waiting = [parent for parent in before if parent not in length]
        if waiting:
            open_nodes += waiting
        else:
            is_operation = bool(before)  # a leaf is a parameter, and takes no time
            length[node] = is_operation + max((length[parent] for parent in before), default=0)
            open_nodes.pop()
    return length[output.grad_fn]


def wilson_interval(right: int, total: int, z: float = 1.96) -> tuple[float, float]:
    """The confidence interval of a share, `right` of `total`, by Wilson 1927; of 95 % for z = 1.96.

    Unlike share ± z · √(share (1 − share) / total) it makes sense where all or none are right.

    Raises:
        ValueError: `right` not in 0 … `total`.
    """
    check_positive(total=total)
    if not 0 <= right <= total:
        raise ValueError(f"right: expected 0 to {total}, found {right}")
    share, weight = right / total, z * z / total
    middle = (share + weight / 2) / (1 + weight)
    half = z / (1 + weight) * math.sqrt(share * (1 - share) / total + weight / (4 * total))
    return max(0.0, middle - half), min(1.0, middle + half)
