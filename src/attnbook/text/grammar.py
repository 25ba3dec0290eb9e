"""The built-in corpus: a Chinese–English grammar that writes both sentences of a pair and aligns their words.

A **synchronous grammar** (Lewis & Stearns 1968; Chiang 2007) rewrites one symbol into two strings at once.
The rules are in `grammar.txt`, one a line:

    HEAD weight: Chinese | English | options

    PLACED 1: 在=l PLACE_study DEED_read* | DEED_read* PLACE_study=l

says: a deed in a place is 在, the place, the deed in Chinese, and the deed, the place in English. Names in
capitals are **slots**: both sides use the same choice for a slot, in their own order. The rest are words.
After a word or slot may come

- `=l`, a **link**: words of the two sides that share a letter of one rule are aligned (several letters:
  `=b,r`). A link on a slot goes to the slot's head (here 在 is aligned with the preposition), or to all its
  words if it has none. A rule with neither slots nor links is one expression, and all its words are aligned
  with each other.
- `*`, the **head**: it takes the form that the rule itself was asked for. English verbs have the forms
  `base`, `pres`, `past`, `ing`, `pp`, nouns `sg` and `pl`, adjectives `er` and `est`, pronouns `obj`. In
  Chinese `le` puts 了 where the rule has `~`, and `cl` asks a noun for its measure word (option `cl=本`).
- `.past`, the form that is asked of a slot or word; `@SUBJECT`, the slot it agrees with (else with the
  subject it was given).
- `/1`, `/2`: two slots of one name.
- `|| aux: ...` gives an English rule a second part for the form `aux`: questions put the auxiliary before the
  subject.

Everything that English must say is decided by the Chinese sentence: a bare noun before the verb or after
把 is "the", 一 with a measure word is "a", tense follows 了, 过, 在, 会, 没 and the words of time. So the
grammar maps a Chinese sentence to exactly one English sentence, and exact match is a fair score. Words with
no counterpart ("the", 把, the "to" of "went to the park") are aligned with nothing. The register is that of
a picture book: animals read, sing and go to Beijing, and many of them are weasels (鼬).

Chinese tokens are characters, as `text.tokenizers.tokenize_chinese` makes them; English tokens are lower-case
words and punctuation, as `tokenize_english` makes them.
"""

import hashlib
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib.resources import files
from itertools import accumulate
from random import Random

from attnbook._validation import check_choice, check_positive
from attnbook.text.inflection import article, inflect
from attnbook.text.tokenizers import detokenize_chinese, detokenize_english

__all__ = ["MAX_LENGTH", "MIN_LENGTH", "Pair", "corpus", "count_pairs"]

MIN_LENGTH, MAX_LENGTH = 3, 40  # tokens of either side
SPLITS = ("train", "valid", "test")


@dataclass(frozen=True)
class Pair:
    """A Chinese sentence, its English translation and their gold word alignment.

    `alignment` holds (source index, target index) of every two tokens that translate each other.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    alignment: frozenset[tuple[int, int]]

    @property
    def source_text(self) -> str:
        """The Chinese sentence as it is written."""
        return detokenize_chinese(self.source)

    @property
    def target_text(self) -> str:
        """The English sentence as it is written, with its capitals."""
        return detokenize_english(self.target)


# ---------------------------------------------------------------------- reading the rules


@dataclass(frozen=True, slots=True)
class Item:
    """A word or slot of a template; `text` is the word, or the slot's key ("CLAUSE/2")."""

    text: str
    slot: int | None = None  # which of the rule's slots it is
    is_head: bool = False
    form: str = ""
    agrees_with: int | str | None = None  # a slot, or "i", "sg", "pl"
    links: tuple[str, ...] = ()
    takes_links: bool = False  # links on the whole rule go to its head, or to all items if it has none


Template = tuple[Item, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Rule:
    """A line of the grammar; `english[""]` is the whole translation, other keys its parts in questions."""

    line: str
    head: str
    weight: int
    chinese: Template
    english: dict[str, Template]
    options: dict[str, str]
    slots: tuple[str, ...]


Derivation = tuple[Rule, tuple["Derivation", ...]]  # a rule, and a derivation for each of its slots

_SLOT = re.compile(r"(?<!\S)[A-Z][A-Za-z_]*(?:/\d)?")
_ITEM = re.compile(
    rf"(?P<text>{_SLOT.pattern}|[.,?]|[^.*@=]+)(?:\.(?P<form>\w+))?(?P<star>\*?)"
    r"(?:@(?P<agrees>[\w/]+))?(?:=(?P<links>[\w,.]+))?"
)
_FAMILY = re.compile(r"for (?P<names>[\w ]+?) in (?P<values>.+):")


def parse_rules(text: str) -> dict[str, tuple[Rule, ...]]:
    """The rules of each head. Raises ValueError with the line for one that is not well formed."""
    rules: dict[str, list[Rule]] = {}
    for line in _expand_families(text):
        rule = _parse_rule(line)
        rules.setdefault(rule.head, []).append(rule)
    for rule in (rule for family in rules.values() for rule in family):
        missing = [slot for slot in rule.slots if _symbol(slot) not in rules]
        if missing:
            raise ValueError(f"rule {rule.line!r}: no rule for {', '.join(missing)}")
    return {head: tuple(family) for head, family in rules.items()}


def _expand_families(text: str) -> Iterator[str]:
    names: list[str] = []
    values: list[list[str]] = []
    text = re.sub(r";\s*\n\s*", "; ", text)  # the values of a family may run over several lines
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        family = _FAMILY.fullmatch(line)
        if family:
            names = family["names"].split()
            values = [value.split() for value in family["values"].split(";")]
            if any(len(value) != len(names) for value in values):
                raise ValueError(f"family {line!r}: expected {len(names)} words in each value")
        elif line.startswith(" "):
            for value in values:
                member = line.strip()
                for name, word in zip(names, value, strict=True):
                    member = member.replace(f"<{name}>", word)
                yield member
        else:
            yield line


def _parse_rule(line: str) -> Rule:
    left, _, right = line.partition(": ")
    head, _, weight = left.partition(" ")
    fields = right.split(" | ")
    if len(fields) not in (2, 3):
        raise ValueError(f"rule {line!r}: expected HEAD: Chinese | English")
    whole, *parts = fields[1].split(" || ")
    english_texts = {"": whole} | dict(part.split(": ") for part in parts)
    slots = tuple(dict.fromkeys(_SLOT.findall(fields[0])))
    if set(slots) != set(_SLOT.findall(whole)):
        raise ValueError(f"rule {line!r}: the two sides have different slots")
    chinese = _parse_template(fields[0], slots)
    english = {part: _parse_template(text, slots) for part, text in english_texts.items()}
    links = {link for item in chinese for link in item.links}
    others = {link for items in english.values() for item in items for link in item.links}
    if links != others:
        raise ValueError(f"rule {line!r}: links on one side only: {', '.join(sorted(links ^ others))}")
    if not links and not slots:  # one expression
        chinese = tuple(replace(item, links=("0",)) for item in chinese)
        english = {
            part: tuple(replace(item, links=("0",)) for item in items) for part, items in english.items()
        }
    options = dict(option.split("=") for option in " ".join(fields[2:]).split())
    return Rule(line, head, int(weight or 1), chinese, english, options, slots)


def _parse_template(template: str, slots: tuple[str, ...]) -> Template:
    items = []
    for word in template.split():
        match = _ITEM.fullmatch(word)
        if match is None:
            raise ValueError(f"template {template!r}: cannot read {word!r}")
        text, form, star, agrees, links = match.group("text", "form", "star", "agrees", "links")
        items.append(
            Item(
                text,
                slots.index(text) if text in slots else None,
                bool(star),
                form or "",
                slots.index(agrees) if agrees in slots else agrees,
                tuple(links.split(",")) if links else (),
            )
        )
    if not any(item.is_head for item in items):  # then a link on the whole goes to every word
        items = [replace(item, takes_links=True) for item in items]
    return tuple(items)


def _symbol(slot: str) -> str:
    return slot.partition("/")[0]


@cache
def grammar() -> dict[str, tuple[Rule, ...]]:
    """The built-in grammar, parsed once."""
    return parse_rules(files("attnbook.text").joinpath("grammar.txt").read_text(encoding="utf-8"))


# ---------------------------------------------------------------------- from a derivation to a pair

Token = tuple[str, tuple]  # a token and the links it takes part in


def realize(derivation: Derivation) -> Pair:
    """The two sentences of a derivation and their alignment."""
    return _align(_chinese(derivation), _english(derivation))


def _chinese(derivation: Derivation) -> list[Token]:
    tokens: list[Token] = []
    _write_chinese(tokens, derivation, "", ())
    return tokens


def _english(derivation: Derivation) -> list[Token]:
    tokens: list[Token] = []
    _write_english(tokens, derivation, "", "sg", ())
    for index, (token, links) in enumerate(tokens):
        if token == "a":
            tokens[index] = (article(tokens[index + 1][0]), links)
    return tokens


def _align(chinese: list[Token], english: list[Token]) -> Pair:
    places: dict[tuple, list[int]] = {}
    for index, (_, links) in enumerate(chinese):
        for link in links:
            places.setdefault(link, []).append(index)
    alignment = frozenset(
        (place, index)
        for index, (_, links) in enumerate(english)
        for link in links
        for place in places.get(link, ())
    )
    return Pair(tuple(token for token, _ in chinese), tuple(token for token, _ in english), alignment)


def _write_chinese(tokens: list[Token], derivation: Derivation, form: str, inherited: tuple) -> None:
    rule, children = derivation
    if form == "cl" and "cl" in rule.options:
        tokens.append((rule.options["cl"], inherited))
        return
    for item in rule.chinese:
        if form == "cl" and not item.is_head:
            continue
        links = _links(derivation, item, inherited)
        if item.slot is not None:
            _write_chinese(tokens, children[item.slot], _form(item, form), links)
        elif item.text != "~":
            tokens.extend((character, links) for character in item.text)
        elif form == "le":
            tokens.append(("了", links))


def _write_english(
    tokens: list[Token], derivation: Derivation, form: str, agreement: str, inherited: tuple
) -> None:
    rule, children = derivation
    for item in rule.english.get(form, rule.english[""]):
        links = _links(derivation, item, inherited)
        agrees = agreement if item.agrees_with is None else item.agrees_with
        if isinstance(agrees, int):
            agrees = agreement_of(children[agrees])
        if item.slot is not None:
            _write_english(tokens, children[item.slot], _form(item, form), agrees, links)
        else:
            tokens.append((inflect(item.text, _form(item, form), agrees), links))


def _form(item: Item, asked: str) -> str:
    return item.form or (asked if item.is_head else "")


def _links(derivation: Derivation, item: Item, inherited: tuple) -> tuple:
    passed = inherited if item.is_head or item.takes_links else ()
    return passed + tuple([(id(derivation), link) for link in item.links]) if item.links else passed


def agreement_of(derivation: Derivation) -> str:
    """Number and person of a noun phrase: "i", "sg" or "pl"."""
    rule, children = derivation
    if "agr" in rule.options:
        return rule.options["agr"]
    if len(rule.english[""]) == 1 and children:
        return agreement_of(children[0])
    return "sg"


# ---------------------------------------------------------------------- drawing and counting


@cache
def _cumulated(head: str) -> tuple[tuple[int, ...], tuple[Rule, ...]]:
    rules = grammar()[head]
    return tuple(accumulate(rule.weight for rule in rules)), rules


def sample(random: Random, head: str = "S") -> Derivation:
    """A derivation of `head`; each rule is drawn in proportion to its weight."""
    weights, rules = _cumulated(head)
    # Only Random.random() is used: Python promises the same sequence of it for a seed in all versions.
    rule = rules[bisect_right(weights, random.random() * weights[-1])]
    return rule, tuple(sample(random, _symbol(slot)) for slot in rule.slots)


def split_of(target: tuple[str, ...]) -> str:
    """The split that a pair belongs to: of all English sentences, 80 % train, 10 % valid, 10 % test.

    A hash decides. A Chinese sentence has one translation, so the splits share neither targets nor sources.
    """
    digest = hashlib.blake2b(" ".join(target).encode(), digest_size=8).digest()
    return {0: "test", 1: "valid"}.get(int.from_bytes(digest) % 10, "train")


def corpus(n: int, seed: int = 0, split: str = "train") -> list[Pair]:
    """`n` distinct pairs of a split ("train", "valid" or "test"), drawn with `seed`.

    The same arguments give the same pairs on every machine and Python, and `corpus(10, ...)` begins
    `corpus(100, ...)`. Both sentences of a pair have 3 to 40 tokens.
    """
    check_positive(n=n)
    check_choice(SPLITS, split=split)
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise TypeError(f"seed: expected an int of at least 0, found {seed!r} ({type(seed).__name__})")
    if seed < 0:
        raise ValueError(f"seed: expected an int of at least 0, found {seed}")
    return list(_corpus(n, seed, split))


@lru_cache(maxsize=len(SPLITS))  # of a corpus that a notebook uses again and again
def _corpus(n: int, seed: int, split: str) -> tuple[Pair, ...]:
    random = Random(seed * len(SPLITS) + SPLITS.index(split))
    pairs: dict[tuple[str, ...], Pair] = {}
    while len(pairs) < n:
        derivation = sample(random)
        english = _english(derivation)
        if not _fits(english) or split_of(tuple(token for token, _ in english)) != split:
            continue
        chinese = _chinese(derivation)
        if _fits(chinese):
            pair = _align(chinese, english)
            pairs.setdefault(pair.source, pair)
    return tuple(pairs.values())


def _fits(tokens: list[Token]) -> bool:
    return MIN_LENGTH <= len(tokens) <= MAX_LENGTH


def count_pairs(max_length: int = MAX_LENGTH) -> int:
    """How many distinct pairs the grammar can write with 3 to `max_length` tokens on both sides, exactly.

    The count of a rule is the product of the counts of its slots, kept by the lengths of both sides; a
    different derivation is a different Chinese sentence (no sentence of the grammar is ambiguous:
    `tests/text/test_grammar.py` parses them back).
    """
    check_positive(max_length=max_length)
    count = _Counter(max_length).count("S", ("",), ("",))
    return sum(number for lengths, number in count.items() if min(lengths) >= MIN_LENGTH)


Counts = dict[tuple[int, int], int]  # (Chinese length, English length): how many derivations


class _Counter:
    """Counts derivations by the lengths of both sides.

    A slot may be written several times, each time in a form (a noun and its measure word), so counts are kept
    for all the forms of one slot together.
    """

    def __init__(self, max_length: int) -> None:
        self.max_length = max_length
        self.known: dict[tuple, Counts] = {}

    def count(self, head: str, chinese_forms: tuple[str, ...], english_forms: tuple[str, ...]) -> Counts:
        key = (head, tuple(sorted(chinese_forms)), tuple(sorted(english_forms)))
        if key not in self.known:
            total: Counts = {}
            for rule in grammar()[head]:
                for lengths, number in self._count_rule(rule, chinese_forms, english_forms).items():
                    total[lengths] = total.get(lengths, 0) + number
            self.known[key] = total
        return self.known[key]

    def _count_rule(
        self, rule: Rule, chinese_forms: tuple[str, ...], english_forms: tuple[str, ...]
    ) -> Counts:
        chinese_length = english_length = 0
        forms: dict[str, tuple[list[str], list[str]]] = {slot: ([], []) for slot in rule.slots}
        for form in chinese_forms:
            if form == "cl" and "cl" in rule.options:
                chinese_length += 1
                continue
            for item in rule.chinese:
                if form == "cl" and not item.is_head:
                    continue
                if item.slot is not None:
                    forms[item.text][0].append(_form(item, form))
                else:
                    chinese_length += (form == "le") if item.text == "~" else len(item.text)
        for form in english_forms:
            for item in rule.english.get(form, rule.english[""]):
                if item.slot is not None:
                    forms[item.text][1].append(_form(item, form))
                else:
                    english_length += 1
        total: Counts = {(chinese_length, english_length): 1}
        for slot in rule.slots:
            child = self.count(_symbol(slot), *map(tuple, forms[slot]))
            product: Counts = {}
            for (chinese, english), number in total.items():
                for (more_chinese, more_english), other in child.items():
                    lengths = (chinese + more_chinese, english + more_english)
                    if max(lengths) <= self.max_length:
                        product[lengths] = product.get(lengths, 0) + number * other
            total = product
        return total
