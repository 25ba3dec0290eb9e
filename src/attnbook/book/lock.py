"""One build at a time: of two that want the same folder, the second waits for the first."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout


@contextmanager
def alone(folder: Path, say: Callable[[str], None] = print) -> Iterator[None]:
    """Be the only process that is at work on `folder`; a process that ends, however it ends, frees it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder.parent / f".{folder.name.removeprefix('.')}.lock")
    try:
        lock.acquire(blocking=False)
    except Timeout:
        say(f"another build is at work on {folder}; waiting until it is done ...")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
