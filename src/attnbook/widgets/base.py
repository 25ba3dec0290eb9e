"""What every widget shares: front-end bundle, language, traits that explain a wrong value, text alternative.

A widget is a class here and one ES module beside it. `bundle` joins that module and the files it imports
into the single text that anywidget wants in `_esm`, so that the same text runs in a live notebook and in the
static book. Synced traits are the Python API: assign them, `observe` them, `link` them.
"""

import json
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anywidget
import numpy as np
import traitlets

from attnbook.notebook import Bilingual, follow_language
from attnbook.training.checkpoint import Translator, find_checkpoint, save_translator, shipped_checkpoints

HERE = Path(__file__).parent
_IMPORT = re.compile(r'^import\s*\{[^}]*\}\s*from\s*"\./([^"]+)";\n', re.M)
_TEXT_IMPORT = re.compile(r'^import (\w+) from "([^"]+)" with \{type: "text"\};\n', re.M)
_COMMENT = re.compile(r"^[ \t]*//[^\n]*\n|^[ \t]*/\*.*?\*/[ \t]*\n", re.M | re.S)
_INDENT = re.compile(r"^[ \t]+|^\n", re.M)


def bundle(name: str) -> str:
    """The front-end module `name` of this folder as one ES module text.

    Relative imports are replaced by the imported files, each once, dependencies first; whole-line comments
    and indentation are left out. Top-level names of the joined files must differ, and imports are not
    renamed (`import {a} from "./b.js";`). A text file becomes a string
    (`import NAME from "../text/b.txt" with {type: "text"};`).
    """
    parts: dict[str, str] = {}

    def constant(match: re.Match) -> str:
        text = (HERE / match[2]).read_text(encoding="utf-8")
        return f"const {match[1]} = {json.dumps(text, ensure_ascii=False)};\n"

    def add(file: str) -> None:
        if file in parts:
            return
        text = (HERE / file).read_text(encoding="utf-8")
        parts[file] = ""  # a file that imports itself, even through others, is still added once
        for imported in _IMPORT.findall(text):
            add(imported)
        del parts[file]
        text = _INDENT.sub("", _COMMENT.sub("", _IMPORT.sub("", text)))
        parts[file] = _TEXT_IMPORT.sub(constant, text)

    add(name)
    return "".join(parts.values())


class _Explained(traitlets.TraitType):
    """A trait that answers a wrong value with `name: expected ..., found ...` as every function here does."""

    expected = "a value"

    def fits(self, value: Any) -> bool | None:
        """True: right; False: right type, wrong value; None: wrong type."""
        raise NotImplementedError

    def validate(self, obj: Any, value: Any) -> Any:
        fits = self.fits(value)
        if fits is None:
            raise TypeError(
                f"{self.name}: expected {self.expected}, found {value!r} ({type(value).__name__})"
            )
        if not fits:
            raise ValueError(f"{self.name}: expected {self.expected}, found {value!r}")
        return value


class Number(_Explained):
    """A finite number in [low, high]; with `integer=True` an int; with `optional=True` also None."""

    def __init__(
        self, default: float | None, low: float, high: float, integer: bool = False, optional: bool = False
    ):
        super().__init__(default)
        self.low, self.high, self.integer, self.optional = low, high, integer, optional
        self.expected = f"{'an int' if integer else 'a number'} in [{low}, {high}]{' or None' * optional}"

    def fits(self, value: Any) -> bool | None:
        if value is None and self.optional:
            return True
        kinds = (int, np.integer) if self.integer else (int, float, np.integer, np.floating)
        if not isinstance(value, kinds) or isinstance(value, bool):
            return None
        return bool(self.low <= value <= self.high)

    def validate(self, obj: Any, value: Any) -> float | int | None:
        value = super().validate(obj, value)
        if value is None:
            return None
        return int(value) if self.integer else float(value)


class Choice(_Explained):
    """One of some strings."""

    def __init__(self, *choices: str):
        super().__init__(choices[0])
        self.choices = choices
        self.expected = f"one of {', '.join(map(repr, choices))}"

    def fits(self, value: Any) -> bool | None:
        return value in self.choices if isinstance(value, str) else None


class Flag(_Explained):
    """True or False."""

    expected = "True or False"

    def __init__(self, default: bool):
        super().__init__(default)

    def fits(self, value: Any) -> bool | None:
        return True if isinstance(value, bool) else None


class Text(_Explained):
    """A str of bounded length; with `paired=True` also a pair (zh, en), one for each reader."""

    def __init__(self, longest: int, paired: bool = False):
        super().__init__("")
        self.longest, self.paired = longest, paired
        self.expected = f"a str of at most {longest} characters{' or a pair (zh, en) of them' * paired}"

    def fits(self, value: Any) -> bool | None:
        return isinstance(value, str) or (self.paired and _is_pair(value)) or None

    def validate(self, obj: Any, value: Any) -> str | list[str]:
        value = super().validate(obj, value)
        longest = len(value) if isinstance(value, str) else max(map(len, value))
        if longest > self.longest:
            raise ValueError(f"{self.name}: expected {self.expected}, found {longest} characters")
        return value if isinstance(value, str) else list(value)


class Checkpoint(_Explained):
    """The file of a translator, as bytes for the front end's `loadTranslator`.

    What is assigned is the name of a shipped checkpoint, a `Translator`, or such a file's bytes.
    """

    expected = "the name of a shipped checkpoint, a Translator, or a checkpoint's bytes"

    def __init__(self):
        super().__init__(b"")

    def fits(self, value: Any) -> bool | None:
        if isinstance(value, str):
            return value in shipped_checkpoints()
        return True if isinstance(value, bytes | Translator) else None

    def validate(self, obj: Any, value: Any) -> bytes:
        try:
            return checkpoint_bytes(super().validate(obj, value))
        except ValueError as error:
            names = ", ".join(shipped_checkpoints())
            raise ValueError(f"{error} (there are: {names})") from None


def checkpoint_bytes(checkpoint: "str | Translator | bytes") -> bytes:
    """The file of a shipped checkpoint (by its name) or of a `Translator`, as `save_translator` writes it."""
    if isinstance(checkpoint, bytes):
        return checkpoint
    if isinstance(checkpoint, str):
        return find_checkpoint(checkpoint).read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "translator.safetensors"
        save_translator(path, checkpoint)
        return path.read_bytes()


def to_array(name: str, value: Any, *, dtype: Any = np.float64) -> np.ndarray:
    """`value` (nested lists, numpy, torch with or without grad) as a finite real numpy array."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value.double().numpy() if value.is_floating_point() else value.numpy()
    try:
        array = np.asarray(value)
        if array.dtype == bool or not (
            np.issubdtype(array.dtype, np.floating) or np.issubdtype(array.dtype, np.integer)
        ):
            raise ValueError
    except ValueError:
        raise TypeError(f"{name}: expected an array of numbers, found {type(value).__name__}") from None
    array = array.astype(dtype)
    if not np.isfinite(array).all():
        raise ValueError(f"{name}: expected finite numbers, found NaN or infinity")
    return array


def to_labels(name: str, value: Any, length: int) -> list[list[str]]:
    """`length` labels, each a str or a pair (zh, en), as pairs `[zh, en]` for the front end."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise TypeError(f"{name}: expected a list of tokens, found {type(value).__name__}")
    if len(value) != length:
        raise ValueError(f"{name}: expected {length} tokens, found {len(value)}")
    labels = []
    for i, token in enumerate(value):
        pair = [token, token] if isinstance(token, str) else list(token) if _is_pair(token) else None
        if pair is None:
            raise TypeError(f"{name}: expected a str or a pair (zh, en) at {i}, found {token!r}")
        labels.append(pair)
    return labels


def _is_pair(token: Any) -> bool:
    return (
        isinstance(token, tuple | list) and len(token) == 2 and all(isinstance(part, str) for part in token)
    )


class Widget(anywidget.AnyWidget):
    """Base of the course's widgets.

    A subclass sets `_esm = bundle("NAME.js")`, declares synced traits and implements `describe`.
    """

    language = Choice("auto", "zh", "en").tag(sync=True)
    # What is said where no front end runs; synced, so that the static book can say it too.
    alternative = traitlets.Dict().tag(sync=True)

    # ipywidgets 7 would display itself and leave out the text alternative.
    _ipython_display_ = None

    def __init__(self, **traits: Any):
        super().__init__(**traits)
        if "language" not in traits:
            follow_language(self)
        text = self.describe()
        self.alternative = {"zh": text.zh, "en": text.en}

    def describe(self) -> Bilingual:
        """What the widget shows, in one or two sentences."""
        raise NotImplementedError(f"{type(self).__name__}.describe")

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        data, metadata = super()._repr_mimebundle_(**kwargs)
        text = Bilingual(**self.alternative)
        data["text/plain"] = f"{type(self).__name__}: {text!r}"
        if "google.colab" not in sys.modules:  # Colab would show the HTML instead of the widget
            data["text/html"] = text.html("div")
        return data, metadata
