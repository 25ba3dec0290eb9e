"""Bringing sentences into one spelling before they are cut into tokens.

The same sentence is written with full-width or half-width punctuation, straight or curly quotes, traditional
or simplified characters. A model that must learn each spelling apart sees every one more rarely; in the
Tatoeba corpus 44 % of the Chinese sentences are traditional, and their 921 traditional characters would add a
third to the vocabulary.

Traditional characters become simplified ones, because that direction is nearly a function: several
traditional characters share one simplified form, seldom the other way round. A table of 1,900 characters and
five words that need their context does it without a dependency (on Tatoeba it differs from OpenCC in 397 of
350,000 characters, nearly all on purpose: 看著 -> 看着, 甚麼 -> 什么).
"""

import re
import unicodedata
from functools import cache
from importlib.resources import files

__all__ = ["normalize_chinese", "normalize_english", "to_simplified"]

_INVISIBLE = re.compile(r"[\u00ad\u200b\u2060\ufeff]|[\x00-\x08\x0e-\x1f\x7f]")
_STRAIGHT = str.maketrans({"‘": "'", "’": "'", "ʼ": "'", "`": "'", "“": '"', "”": '"', "„": '"', "…": "..."})
_TO_ASCII = str.maketrans({chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)} | {"\u3000": " "})
_TO_FULL = str.maketrans(",!?:;()", "，！？：；（）")
_OF_CHINESE = str.maketrans(
    {"「": "“", "」": "”", "『": "“", "』": "”", "﹐": ",", "｡": "。", "･": "·", "•": "·"}
)
_MARK = re.compile(r"[,!?:;()](?!(?:(?<=\d.)|(?<=\d\s.))\s*\d)")  # but not in 3:30 and 1, 000
_HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"

# A character whose simplified form depends on the word: (pattern, replacement), before the table is applied.
_BY_WORD = (
    (re.compile("(?<![名原编編专專土论論显顯])著(?![名作者称稱述书書])"), "着"),
    (re.compile("瞭(?=解)"), "了"),
    (re.compile("藉(?=[口由助])"), "借"),
    (re.compile("(?<=[計计規规策企籌筹])畫"), "划"),
    (re.compile("甚(?=[麼么麽])"), "什"),
    (re.compile("乾(?![坤隆])"), "干"),
)


def normalize_english(text: str) -> str:
    """Straight quotes, ASCII forms of full-width characters, single spaces; the letters stay as they are."""
    return _single_spaces(_compose(text).translate(_STRAIGHT))


def normalize_chinese(text: str, simplify: bool = True) -> str:
    """Full-width punctuation, half-width letters and digits, “” as quotes, simplified characters, no needless
    spaces.

    "Tom 說 ，「 ３.５ 公斤 . 」" -> "Tom 说，“3.5 公斤。”"
    """
    text = _single_spaces(_compose(text).translate(_OF_CHINESE))
    text = re.sub(r'"([^"]*)"', r"“\1”", text)
    text = re.sub(rf"(?<=[{_HAN}”）])\s*\.(?![\w.])", "。", text)
    if re.search(f"[{_HAN}]", text):
        text = re.sub(r"(?<!\.)\.$", "。", text)
    text = _MARK.sub(lambda match: match[0].translate(_TO_FULL), text)
    text = re.sub(r"\s*([，。！？：；（）“”、《》])\s*", r"\1", text)
    text = re.sub(rf"(?<=[{_HAN}])\s+(?=[{_HAN}])", "", text)
    return to_simplified(text) if simplify else text


def to_simplified(text: str) -> str:
    """The text in simplified characters; simplified text stays as it is."""
    for pattern, replacement in _BY_WORD:
        text = pattern.sub(replacement, text)
    return text.translate(_table())


def _compose(text: str) -> str:
    if not isinstance(text, str):
        raise TypeError(f"text: expected a str, found {type(text).__name__}")
    # Composed last: a letter may find its accent only when what stood between them is gone.
    return unicodedata.normalize("NFC", _INVISIBLE.sub("", text).translate(_TO_ASCII))


def _single_spaces(text: str) -> str:
    return " ".join(text.split())


@cache
def _table() -> dict[int, str]:
    text = files("attnbook.text").joinpath("simplified.txt").read_text(encoding="utf-8")
    pairs = " ".join(line for line in text.splitlines() if not line.startswith("#")).split()
    return {ord(traditional): simplified for traditional, simplified in pairs}
