"""Checks of arguments, shared by all modules.

Every error names the argument, what was expected and what was found. A wrong type raises `TypeError`,
a wrong value or shape raises `ValueError`.
"""

import torch
from torch import Tensor


def check_positive(**values: int) -> None:
    """Each keyword argument must be an int of at least 1: `check_positive(d_model=d_model)`."""
    for name, value in values.items():
        if not isinstance(value, int) or isinstance(value, bool):
            raise TypeError(f"{name}: expected a positive int, found {value!r} ({type(value).__name__})")
        if value < 1:
            raise ValueError(f"{name}: expected a positive int, found {value}")


def check_even(**values: int) -> None:
    """Each keyword argument must be a positive even int: `check_even(d_model=d_model)`."""
    check_positive(**values)
    for name, value in values.items():
        if value % 2:
            raise ValueError(f"{name}: expected an even number (features come in pairs), found {value}")


def check_probability(**values: float) -> None:
    """Each keyword argument must be a number in [0, 1): `check_probability(dropout=dropout)`."""
    for name, value in values.items():
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise TypeError(f"{name}: expected a number in [0, 1), found {value!r} ({type(value).__name__})")
        if not 0 <= value < 1:
            raise ValueError(f"{name}: expected a number in [0, 1), found {value}")


def check_choice(choices: tuple[str, ...], **values: str) -> None:
    """Each keyword argument must be one of `choices`."""
    for name, value in values.items():
        if value not in choices:
            raise ValueError(f"{name}: expected one of {', '.join(map(repr, choices))}, found {value!r}")


def check_tensor(name: str, value: Tensor, *shape: int | str) -> None:
    """`value` must be a floating-point tensor whose last dimensions are `shape`.

    An int in `shape` is the size that is expected; a str names a dimension of any size. A leading `"..."`
    allows any number of further dimensions: `check_tensor("query", query, "...", "query", d_k)`.
    """
    if not isinstance(value, Tensor):
        raise TypeError(f"{name}: expected a tensor, found {type(value).__name__}")
    if not value.is_floating_point():
        raise TypeError(f"{name}: expected a floating-point tensor, found {value.dtype}")
    _check_shape(name, value, shape)


def check_ids(name: str, value: Tensor, size: int | None, *shape: int | str) -> None:
    """`value` must be an integer tensor of `shape` whose entries lie in [0, size); None = any integers."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{name}: expected a tensor of token ids, found {type(value).__name__}")
    if value.is_floating_point() or value.is_complex() or value.dtype == torch.bool:
        raise TypeError(f"{name}: expected an integer tensor of token ids, found {value.dtype}")
    _check_shape(name, value, shape)
    if size is not None and value.numel() and (value.min() < 0 or value.max() >= size):
        raise ValueError(
            f"{name}: expected token ids in [0, {size}), found {value.min().item()} to {value.max().item()}"
        )


def check_tokens(name: str, value: Tensor, size: int, *shape: int | str) -> None:
    """As `check_ids`, for what a model reads: at least one sequence of at least one token."""
    check_ids(name, value, size, *shape)
    if not value.numel():
        raise ValueError(f"{name}: expected at least one token, found shape {tuple(value.shape)}")


def check_broadcast(**shapes: torch.Size) -> None:
    """The leading dimensions, given by name, must broadcast: `check_broadcast(query=query.shape[:-2], …)`."""
    try:
        torch.broadcast_shapes(*shapes.values())
    except RuntimeError:
        names, found = ", ".join(shapes), ", ".join(str(tuple(shape)) for shape in shapes.values())
        raise ValueError(
            f"{names}: expected leading (batch) dimensions that broadcast together, found {found}"
        ) from None


def check_mask(mask: Tensor | None, shape: torch.Size | tuple[int, ...], name: str = "mask") -> None:
    """`mask` must be None or a bool tensor that broadcasts to `shape` without enlarging it."""
    if mask is None:
        return
    if not isinstance(mask, Tensor):
        raise TypeError(f"{name}: expected a bool tensor (True = may attend), found {type(mask).__name__}")
    if mask.dtype != torch.bool:
        raise TypeError(f"{name}: expected dtype torch.bool (True = may attend), found {mask.dtype}")
    fits = mask.dim() <= len(shape) and all(
        have in (1, want) for have, want in zip(reversed(mask.shape), reversed(shape), strict=False)
    )
    if not fits:
        raise ValueError(
            f"{name}: expected a shape that broadcasts to {tuple(shape)}, found {tuple(mask.shape)}"
        )


def _check_shape(name: str, value: Tensor, shape: tuple[int | str, ...]) -> None:
    any_more, last = shape[:1] == ("...",), [size for size in shape if size != "..."]
    found = tuple(value.shape)
    fits = len(found) >= len(last) if any_more else len(found) == len(last)
    tail = found[len(found) - len(last) :]
    fits = fits and all(isinstance(want, str) or want == have for want, have in zip(last, tail, strict=True))
    if not fits:
        expected = f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"
        raise ValueError(f"{name}: expected shape {expected}, found {found}")
