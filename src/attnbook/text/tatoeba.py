"""Real sentences: the Chinese–English pairs of Tatoeba, in the file format of ManyThings.

Tatoeba (https://tatoeba.org) collects sentences and their translations, written by volunteers, under CC BY
2.0 FR; ManyThings (https://www.manythings.org/anki/) publishes a selection as `cmn-eng.zip`, with one pair in
a line of `cmn.txt`:

    English <tab> Chinese [<tab> attribution]

The project does not redistribute it. `load()` reads a file given as argument or in the environment variable
`ATTNBOOK_TATOEBA`; `download()` fetches it.

Many sentences have several translations, on both sides. A random split of *pairs* would therefore put
translations of test sentences into the training set, and the score would measure memory. Here the test set is
a random choice of English sentences with all their Chinese sources, and every other pair that shares a
sentence with it, on either side, is dropped from training (sentences are compared without case, punctuation
and script). A translation is judged against all references of its source.
"""

import hashlib
import http.client
import os
import urllib.error
import urllib.request
import zipfile
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

from attnbook._validation import check_choice, check_positive
from attnbook.text.files import write_atomic
from attnbook.text.normalize import normalize_chinese, normalize_english
from attnbook.text.tokenizers import tokenize_chinese, tokenize_english

__all__ = ["DownloadError", "Tatoeba", "TextPair", "download", "load", "read"]

URL = "https://www.manythings.org/anki/cmn-eng.zip"
VARIABLE = "ATTNBOOK_TATOEBA"
SPLITS = ("train", "valid", "test")
_BY_HAND = (
    "To get it by hand: open https://www.manythings.org/anki/ in a browser, download cmn-eng.zip, unpack "
    f"cmn.txt, and give its path as argument or in the environment variable {VARIABLE}."
)


class DownloadError(RuntimeError):
    """The corpus could not be fetched; the message says why and how to get it by hand."""


class TextPair(NamedTuple):
    """A Chinese sentence and an English translation, both normalized."""

    source: str
    target: str


Keyed = tuple[TextPair, str, str]  # a pair and what makes its sentences the same as others


class Tatoeba:
    """The corpus in three splits (lists of `TextPair`) that share no sentence.

    `problems` has a line of text for every line of the file that could not be used; `digest` is the SHA-256
    of the file.
    """

    def __init__(
        self,
        pairs: Sequence[TextPair],
        seed: int = 0,
        num_test: int = 1000,
        num_valid: int = 1000,
        problems: Sequence[str] = (),
        digest: str = "",
    ) -> None:
        check_positive(num_test=num_test, num_valid=num_valid)
        self.problems, self.digest = list(problems), digest
        self._references: dict[str, list[str]] = {}
        pairs = list(dict.fromkeys(pairs))
        for source, target in pairs:
            self._references.setdefault(source, []).append(target)
        random = Random(seed)
        keyed = [
            (pair, _key(tokenize_chinese(pair.source)), _key(tokenize_english(pair.target))) for pair in pairs
        ]
        self.test, rest = _hold_out(keyed, num_test, random)
        self.valid, rest = _hold_out(rest, num_valid, random)
        self.train = [pair for pair, _, _ in rest]
        if not self.train:
            raise ValueError(
                f"num_test, num_valid: expected fewer than the corpus has, found {num_test} and {num_valid} "
                f"of {len({pair.target for pair in pairs})} English sentences"
            )

    def sources(self, split: str) -> list[str]:
        """The Chinese sentences of a split ("train", "valid" or "test"), each once."""
        check_choice(SPLITS, split=split)
        return list(dict.fromkeys(pair.source for pair in getattr(self, split)))

    def references(self, source: str) -> list[str]:
        """All English translations of a Chinese sentence in the corpus. Raises KeyError if it has none."""
        return list(self._references[source])

    def __repr__(self) -> str:
        return f"Tatoeba({len(self.train)} train, {len(self.valid)} valid, {len(self.test)} test pairs)"


def load(
    path: str | os.PathLike | None = None, seed: int = 0, num_test: int = 1000, num_valid: int = 1000
) -> Tatoeba:
    """The corpus of a ManyThings file, split with `seed`.

    `path`: the file; else the environment variable ATTNBOOK_TATOEBA names it.
    `num_test`, `num_valid`: how many English sentences, with all their sources, make the test and the
    validation set. Raises FileNotFoundError, which says how to get the file, and ValueError if the file holds
    no pairs.
    """
    path = path or os.environ.get(VARIABLE)
    if not path:
        raise FileNotFoundError(f"path: expected the file cmn.txt, found nothing. {_BY_HAND}")
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"path: expected the file cmn.txt, found no file {path}. {_BY_HAND}")
    data = path.read_bytes()
    pairs, problems = read(data)
    if not pairs:
        raise ValueError(
            f"{path}: expected lines `English <tab> Chinese`, found none; first problem: {problems[:1]}"
        )
    return Tatoeba(pairs, seed, num_test, num_valid, problems, hashlib.sha256(data).hexdigest())


def read(data: bytes) -> tuple[list[TextPair], list[str]]:
    """The normalized pairs of a ManyThings file, and one line of text for each line that is broken, with its
    number."""
    pairs: list[TextPair] = []
    problems: list[str] = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        try:
            text = line.decode("utf-8-sig").rstrip("\r")
        except UnicodeDecodeError as error:
            problems.append(f"line {number}: expected UTF-8, found byte 0x{line[error.start]:02x}")
            continue
        if not text.strip():
            continue
        columns = text.split("\t")
        if len(columns) not in (2, 3):
            problems.append(f"line {number}: expected 2 or 3 columns, found {len(columns)}")
            continue
        english, chinese = normalize_english(_unquoted(columns[0])), normalize_chinese(columns[1])
        if not english or not chinese:
            problems.append(f"line {number}: expected a sentence in both columns, found an empty one")
        else:
            pairs.append(TextPair(chinese, english))
    return pairs, problems


def download(
    folder: str | os.PathLike,
    url: str = URL,
    sha256: str | None = None,
    progress: bool = True,
    timeout: float = 30.0,
) -> Path:
    """Fetch `cmn.txt` into `folder` and return its path; if it is there already, only that.

    An interrupted download goes on where it stopped. The archive's own checksums are verified always, its
    SHA-256 if given (ManyThings publishes none and renews the file now and then). The file appears only when
    it is whole. Raises `DownloadError`, with the way to get the file by hand.
    """
    folder = Path(folder)
    path = folder / "cmn.txt"
    if path.is_file():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / "cmn-eng.zip.part"
    try:
        _fetch(url, part, progress, timeout)
    except (OSError, http.client.HTTPException) as error:
        raise DownloadError(f"{url}: could not be downloaded: {error}. {_BY_HAND}") from error
    try:
        found = hashlib.sha256(part.read_bytes()).hexdigest()
        if sha256 is not None and found != sha256.lower():
            raise ValueError(f"expected SHA-256 {sha256}, found {found}")
        with zipfile.ZipFile(part) as archive:
            data = archive.read("cmn.txt")  # verifies the CRC
    except (ValueError, KeyError, zipfile.BadZipFile) as error:
        part.unlink()  # going on with it would never help
        raise DownloadError(f"{url}: not the archive that was expected: {error}. {_BY_HAND}") from error
    write_atomic(path, data)
    part.unlink()
    return path


def _fetch(url: str, part: Path, progress: bool, timeout: float) -> None:
    """Append to `part` what it lacks of the file at `url`."""
    from tqdm import tqdm

    have = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "attnbook (https://pypi.org/project/attnbook)"}
    if have:
        headers["Range"] = f"bytes={have}-"
    try:
        response = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=timeout)
    except urllib.error.HTTPError as error:
        if error.code == 416:  # nothing is left to send
            return
        raise
    with response:
        if response.status != 206:  # the server sends the whole file
            have = 0
        length = response.headers.get("Content-Length")
        total = None if length is None else have + int(length)
        with (
            open(part, "ab" if have else "wb") as file,
            tqdm(
                total=total, initial=have, unit="B", unit_scale=True, desc=part.stem, disable=not progress
            ) as bar,
        ):
            while chunk := response.read(1 << 16):
                file.write(chunk)
                have += len(chunk)
                bar.update(len(chunk))
    if total is not None and have < total:
        raise OSError(f"the connection ended after {have} of {total} bytes; call again to go on")


def _unquoted(text: str) -> str:
    """The sentence of a column that is quoted as in a CSV file, with its own quotes doubled."""
    if len(text) > 1 and text[0] == text[-1] == '"' and '""' in text:
        return text[1:-1].replace('""', '"')
    return text


def _key(tokens: list[str]) -> str:
    """What makes two sentences the same: their words, without case and punctuation."""
    return " ".join(token for token in tokens if token[0].isalnum()) or " ".join(tokens)


def _hold_out(keyed: list[Keyed], number: int, random: Random) -> tuple[list[TextPair], list[Keyed]]:
    """All pairs of `number` English sentences drawn at random, and the pairs that share none with them."""
    places = {key: random.random() for key in sorted({target for _, _, target in keyed})}
    drawn = set(sorted(places, key=places.__getitem__)[:number])
    sources = {source for _, source, target in keyed if target in drawn}
    shown = {target for _, source, target in keyed if source in sources}  # every reference of a drawn source
    held_out = [pair for pair, _, target in keyed if target in drawn]
    rest = [
        (pair, source, target)
        for pair, source, target in keyed
        if source not in sources and target not in shown
    ]
    return held_out, rest
