"""A progress bar where there is a terminal, plain lines where there is none (notebooks, CI, log files)."""

import sys
import time

from tqdm import tqdm

__all__ = ["Progress"]


class Progress:
    """Shows how far a loop is, what it measures, and when it will be done.

    Args:
        total: number of steps of the whole loop.
        done: steps that were done before, in an earlier run.
        label: the first word of the line.
        every: seconds between two plain lines.
        show: False shows nothing.

    Used as a context manager; `advance(loss="2.31")` counts one step and shows the values.
    """

    def __init__(self, total: int, done: int = 0, label: str = "", every: float = 15.0, show: bool = True):
        self.total, self.done, self.label, self.every, self.show = total, done, label, every, show
        self.first, self.started = done, time.monotonic()
        self.last_line = self.started
        on_terminal = show and sys.stderr.isatty()
        self.bar = tqdm(total=total, initial=done, desc=label, dynamic_ncols=True) if on_terminal else None

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *error: object) -> None:
        if self.bar is not None:
            self.bar.close()

    def advance(self, **values: str) -> None:
        """One step further, with values to show beside it."""
        self.done += 1
        if self.bar is not None:
            self.bar.set_postfix(values, refresh=False)
            self.bar.update()
        elif self.show and (time.monotonic() - self.last_line >= self.every or self.done == self.total):
            self.last_line = time.monotonic()
            seconds = (self.last_line - self.started) / (self.done - self.first) * (self.total - self.done)
            shown = ", ".join(f"{name}={value}" for name, value in values.items())
            self.write(f"{self.label} {self.done}/{self.total}, {shown}, {seconds / 60:.1f} min left")

    def write(self, line: str) -> None:
        """A line of its own, above the bar if there is one."""
        if self.bar is not None:
            self.bar.write(line, file=sys.stderr)
        elif self.show:
            print(line, flush=True)
