"""Random inputs, many and the same on every machine; how many, and for how long, is settled here.

A test takes 100,000 of them, or as many as it manages in its time. With `ATTNBOOK_FUZZ=20` it takes twenty
times as many and as long: those of an ordinary run, and then new ones.
"""

import os
import time
from collections.abc import Callable, Iterator
from random import Random
from typing import TypeVar

FACTOR = float(os.environ.get("ATTNBOOK_FUZZ", "1"))
NUMBER = int(100_000 * FACTOR)
SECONDS = 30 * FACTOR
SIZE = 1000

Input = TypeVar("Input")


def batches(make: Callable[[Random], Input]) -> Iterator[list[Input]]:
    """Lists of what `make(random)` returns: the first one always, the others while there is time."""
    start = time.perf_counter()
    for batch in range(-(-NUMBER // SIZE)):
        if batch and time.perf_counter() - start > SECONDS:
            return
        random = Random(batch)
        yield [make(random) for _ in range(SIZE)]
