"""Tensors on disk, without pickle and without half-written files.

A safetensors file is a JSON header and then plain numbers: reading it runs no code of whoever wrote it,
which `torch.load` on a pickle may. A crash, a kill or a full disk in the middle of writing leaves the file
that was there before.
"""

import json
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from attnbook.text.files import write_atomic

__all__ = ["FileError", "read_metadata", "read_tensors", "write_tensors"]


class FileError(Exception):
    """A file that cannot be read or written; the message names it and says why."""


def write_tensors(path: str | Path, tensors: dict[str, Tensor], metadata: dict[str, Any]) -> None:
    """Write a safetensors file, completely or not at all.

    Args:
        path: the file; it is replaced if it exists.
        tensors: by name.
        metadata: values that JSON can write, by name.

    Raises:
        FileError: the file cannot be written; what stood at `path` before still stands there.
    """
    path = Path(path)
    texts = {name: json.dumps(value, ensure_ascii=False) for name, value in metadata.items()}
    data = safetensors.torch.save({name: tensor.contiguous() for name, tensor in tensors.items()}, texts)
    try:
        write_atomic(path, data)
    except OSError as error:
        raise FileError(
            f"{path}: cannot be written ({error.strerror}); what was there before is kept"
        ) from error


def read_metadata(path: str | Path) -> dict[str, Any]:
    """The metadata that `write_tensors` got.

    Raises:
        FileError: no such file, or not one that `write_tensors` wrote.
    """
    return _read(path, tensors=False)[1]


def read_tensors(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the metadata that `write_tensors` got.

    Raises:
        FileError: no such file, or not one that `write_tensors` wrote, or a part of one.
    """
    return _read(path, tensors=True)


def _read(path: str | Path, tensors: bool) -> tuple[dict[str, Tensor], dict[str, Any]]:
    path = Path(path)
    if not path.is_file():
        raise FileError(f"{path}: no such file")
    try:
        with safe_open(path, framework="pt") as file:
            texts = file.metadata() or {}
            found = {name: file.get_tensor(name) for name in file.keys()} if tensors else {}  # noqa: SIM118
        return found, {name: json.loads(text) for name, text in texts.items()}
    except (SafetensorError, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise FileError(f"{path}: not a checkpoint of attnbook, or only a part of one ({error})") from error
    except OSError as error:
        raise FileError(f"{path}: cannot be read ({error.strerror or error})") from error
