r"""Learning rates as functions of the step: first up, then down.

Adam's first steps rest on averages over few gradients, so they are kept small: the rate rises linearly
during the **warm-up**. Then it falls, with $1/\sqrt{\text{step}}$ in the paper,

$$lrate = d_{\text{model}}^{-0.5} \cdot \min(step^{-0.5},\; step \cdot warmup\_steps^{-1.5})$$

(Vaswani et al. 2017, eq. 3), or along half a cosine to its end (Loshchilov & Hutter 2017, eq. 5, without
restarts), which suits a run whose length is known. Steps are counted from 1.
"""

import math

from attnbook._validation import check_positive

__all__ = ["warmup_cosine", "warmup_inverse_sqrt"]


def warmup_inverse_sqrt(step: int, d_model: int, warmup_steps: int = 4000) -> float:
    """The paper's rate at `step` (Vaswani et al. 2017, eq. 3); its peak is at `warmup_steps`.

    Raises:
        TypeError, ValueError: arguments that are not positive ints.
    """
    check_positive(step=step, d_model=d_model, warmup_steps=warmup_steps)
    return d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)


def warmup_cosine(step: int, total_steps: int, peak: float, warmup_steps: int = 400) -> float:
    """Linear from 0 to `peak` at `warmup_steps`, then half a cosine to 0 at `total_steps`, and 0 after it.

    Raises:
        TypeError, ValueError: steps that are not positive ints, a warm-up longer than the run, a peak that
            is not above 0.
    """
    check_positive(step=step, total_steps=total_steps, warmup_steps=warmup_steps)
    if warmup_steps >= total_steps:
        raise ValueError(
            f"warmup_steps: expected less than total_steps = {total_steps}, found {warmup_steps}"
        )
    if not peak > 0:
        raise ValueError(f"peak: expected a number above 0, found {peak}")
    if step <= warmup_steps:
        return peak * step / warmup_steps
    progress = min(1.0, (step - warmup_steps) / (total_steps - warmup_steps))  # 0 at the peak, 1 at the end
    return peak * (1 + math.cos(math.pi * progress)) / 2
