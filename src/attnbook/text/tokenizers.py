"""Cutting sentences into tokens, and putting them together again.

Chinese is cut into characters: there are no spaces to show where words end, and a model with attention finds
the words itself. Latin words and numbers inside Chinese text stay whole. English is cut into words and
punctuation, with contractions apart as in the Penn Treebank ("don't" -> do n't), so that "not" is one token
wherever it stands.

English is lower-cased: a small corpus cannot afford The and the as two words. `detokenize_english` restores
the capitals that can be known: the start of a sentence, "I", names (`casing`, built in for common ones,
or learned from a corpus by `learn_casing`).

No character is lost: the tokens of a text joined without spaces are the text without spaces (tested on
arbitrary Unicode). And detokenizing is safe: `tokenize(detokenize(tokenize(text))) == tokenize(text)` for
every text.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

__all__ = [
    "CASING",
    "detokenize_chinese",
    "detokenize_english",
    "learn_casing",
    "tokenize_chinese",
    "tokenize_english",
]

# Characters that stand alone: Han, kana, and what belongs to them.
_IDEOGRAPHS = (
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3040-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
# What belongs to the character before it: accents, variation selectors, skin tones, the keycap.
_EXTENDERS = (
    "[\u0300-\u036f\u20d0-\u20ff\ufe00-\ufe0f"
    "\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f\U000e0100-\U000e01ef]*"
)
_LETTER = rf"[^\W_{_IDEOGRAPHS}]{_EXTENDERS}"
_SYMBOL = rf"[^\s\w]{_EXTENDERS}"
_TOKEN = re.compile(
    rf"""
      (?:[A-Za-z]\.){{2,}}                                    # p.m., U.S.
    | (?:[Mm]rs?|[Mm]s|[Dd]r)\.(?!\.)                         # Mr.
    | \d+(?:[.,:]\d+)+                                        # 3.5, 10:30, 1,000
    | (?:{_LETTER})+(?:['-](?:{_LETTER})+)*                   # words, numbers, well-known, o'clock
    | [{_IDEOGRAPHS}]{_EXTENDERS}                             # 鼬
    | [\U0001f1e6-\U0001f1ff]{{2}}                            # a flag is two letters
    | \.{{2,}} | -{{2,}}                                      # ..., --
    | {_SYMBOL}(?:\u200d{_SYMBOL})*                           # punctuation; an emoji with all its parts
    | \S
    """,
    re.VERBOSE,
)
_CONTRACTION = re.compile(r"(?P<stem>.+?)(?P<rest>n't|'(?:s|m|re|ll|d|ve))", re.IGNORECASE | re.DOTALL)
_IS_IDEOGRAPH = re.compile(f"[{_IDEOGRAPHS}]")

_NAMES = (
    "Monday Tuesday Wednesday Thursday Friday Saturday Sunday January February April June July August "
    "September October November December English Chinese Japanese French German China Japan France Germany "
    "England America London Paris Tokyo Boston Beijing Shanghai Tom Mary John David Anna Lili Xiaoming "
    "Mom Dad Grandpa Grandma Mr. Mrs. Ms. Dr. TV"
)
CASING: Mapping[str, str] = {name.lower(): name for name in _NAMES.split()}
"""How the names of the built-in corpus, and a few more, are written: lower-case token -> name."""


def tokenize_chinese(text: str, lower: bool = True) -> list[str]:
    """The characters of a Chinese text, with Latin words, numbers and emoji whole; white space is dropped.

    "我有3.5公斤Apple。" -> 我 有 3.5 公 斤 apple 。
    """
    return _TOKEN.findall(_checked(text).lower() if lower else _checked(text))


def tokenize_english(text: str, lower: bool = True) -> list[str]:
    """The words and punctuation of an English text, contractions apart.

    "I don't know Tom's dog." -> i do n't know tom 's dog .
    """
    tokens: list[str] = []
    for token in _TOKEN.findall(_checked(text).lower() if lower else _checked(text)):
        tokens.extend(_split_contraction(token))
    return tokens


def detokenize_chinese(tokens: Sequence[str]) -> str:
    """The text of Chinese tokens, with spaces only between Latin words, and between Han and Latin."""
    text: list[str] = []
    glued: list[str] = []  # the tokens since the last space
    for token in tokens:
        spaced = glued and _is_word(token) and _is_word(glued[-1])
        spaced = spaced or (glued and _is_mixed(glued[-1], token))
        if glued and (spaced or not _joins(glued, token, tokenize_chinese)):
            text.append(" ")
            glued = []
        text.append(token)
        glued.append(token)
    return "".join(text)


def detokenize_english(tokens: Sequence[str], casing: Mapping[str, str] | None = CASING) -> str:
    """The text of English tokens, with capitals where sentences start, in "I" and in the names of `casing`.

    `casing` maps a lower-case token to its written form; None leaves all letters as they are.
    """
    text: list[str] = []
    glued: list[str] = []  # the tokens since the last space
    open_quotes: set[str] = set()
    glue = starts_sentence = True
    for index, token in enumerate(tokens):
        closes = token in open_quotes or (token == "'" and index > 0 and tokens[index - 1].endswith("s"))
        glue = glue or closes or token in _CLOSING or _ends_word(tokens, index)
        if glued and not (glue and _joins(glued, token, tokenize_english)):
            text.append(" ")
            glued = []
        capital = starts_sentence or (index > 0 and tokens[index - 1] in _TITLES)
        text.append(token if casing is None else _cased(token, casing, capital))
        glued.append(token)
        glue = token in _OPENING or (token in _QUOTES and not closes)
        if token in _QUOTES:
            open_quotes = open_quotes - {token} if closes else open_quotes | {token}
        starts_sentence = token in _ENDS or (starts_sentence and not _is_word(token))
    return "".join(text)


def learn_casing(texts: Iterable[str]) -> dict[str, str]:
    """The words that are mostly capitalised inside sentences: lower-case token -> its commonest form.

    First words of sentences are not counted, they are capitalised anyway.
    """
    forms: dict[str, Counter[str]] = {}
    for text in texts:
        inside = False
        for token in tokenize_english(text, lower=False):
            if inside and _is_word(token):
                forms.setdefault(token.lower(), Counter())[token] += 1
            inside = (inside or _is_word(token)) and token not in _ENDS and token not in _QUOTES
    commonest = {word: counts.most_common(1)[0][0] for word, counts in sorted(forms.items())}
    return {word: form for word, form in commonest.items() if word != form and word != "i"}


_CLOSING = frozenset([*".,!?:;)]}%/", "..."])
_OPENING = frozenset("([{$£€#/")
_ENDS = frozenset(".!?")
_TITLES = frozenset({"mr.", "mrs.", "ms.", "dr."})  # a name follows
_CONTEXT = 4  # tokens that can take part in making one longer token: "u" "." "s" "."
_QUOTES = frozenset("\"'")
_CLITIC = re.compile(r"n't|'(?:s|m|re|ll|d|ve)", re.IGNORECASE)


def _checked(text: str) -> str:
    if not isinstance(text, str):
        raise TypeError(f"text: expected a str, found {type(text).__name__}")
    return text


def _split_contraction(token: str) -> tuple[str, ...]:
    match = _CONTRACTION.fullmatch(token)
    return (match["stem"], match["rest"]) if match else (token,)


def _joins(glued: Sequence[str], token: str, tokenize: Callable[[str, bool], list[str]]) -> bool:
    """Whether `token` stays a token when it is written at once after the tokens `glued`."""
    start = max(0, len(glued) - _CONTEXT)
    while start and _CLITIC.fullmatch(glued[start]):
        start -= 1  # 's is a token only after a word
    before = glued[start:]
    return tokenize("".join(before) + token, False) == [*before, token]


def _ends_word(tokens: Sequence[str], index: int) -> bool:
    """Whether a token is the end of a word, like the n't of "don't"; in "n't've" it begins one."""
    token, following = tokens[index], tokens[index + 1] if index + 1 < len(tokens) else ""
    begins = token[0] != "'" and following[:1] == "'" and _CLITIC.fullmatch(following)
    return bool(_CLITIC.fullmatch(token)) and not begins


def _is_word(token: str) -> bool:
    return token[0].isalnum() and not _IS_IDEOGRAPH.match(token)


def _is_mixed(left: str, right: str) -> bool:
    """Whether a space belongs between the two: one is Han, the other Latin or a number."""
    return bool(
        (_is_word(left) and _IS_IDEOGRAPH.match(right)) or (_IS_IDEOGRAPH.match(left) and _is_word(right))
    )


def _cased(token: str, casing: Mapping[str, str], capitalize: bool) -> str:
    token = "I" if token == "i" else casing.get(token, token)
    capital = token[0].upper()
    return capital + token[1:] if capitalize and capital.lower() == token[0] else token
