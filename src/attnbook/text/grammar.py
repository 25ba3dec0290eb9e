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
from functools import cache
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
    is_slot: bool = False
    is_head: bool = False
    form: str = ""
    agrees_with: str = ""
    links: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class Rule:
    """A line of the grammar; `english[""]` is the whole translation, other keys its parts in questions."""

    line: str
    head: str
    weight: int
    chinese: tuple[Item, ...]
    english: dict[str, tuple[Item, ...]]
    options: dict[str, str]
    slots: tuple[str, ...]


Derivation = tuple[Rule, tuple["Derivation", ...]]  # a rule, and a derivation for each of its slots

_ITEM = re.compile(
    r"(?P<text>(?P<slot>[A-Z][A-Za-z_]*(?:/\d)?)|[.,?]|[^.*@=]+)(?:\.(?P<form>\w+))?(?P<star>\*?)"
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
    try:
        chinese_text, english_text, *more = re.split(r" \| ", right)
    except ValueError:
        raise ValueError(f"rule {line!r}: expected HEAD: Chinese | English") from None
    whole, *parts = english_text.split(" || ")
    english_texts = {"": whole} | dict(part.split(": ") for part in parts)
    chinese = _parse_items(chinese_text)
    english = {part: _parse_items(template) for part, template in english_texts.items()}
    slots = tuple(dict.fromkeys(item.text for item in chinese if item.is_slot))
    for part, items in english.items():
        if part == "" and {item.text for item in items if item.is_slot} != set(slots):
            raise ValueError(f"rule {line!r}: the two sides have different slots")
    links = {link for item in chinese for link in item.links}
    others = {link for items in english.values() for item in items for link in item.links}
    if links != others:
        raise ValueError(f"rule {line!r}: links on one side only: {', '.join(sorted(links ^ others))}")
    if not links and not slots:  # one expression
        chinese = tuple(replace(item, links=("0",)) for item in chinese)
        english = {
            part: tuple(replace(item, links=("0",)) for item in items) for part, items in english.items()
        }
    options = dict(option.split("=") for option in " ".join(more).split())
    return Rule(line, head, int(weight or 1), chinese, english, options, slots)


def _parse_items(template: str) -> tuple[Item, ...]:
    items = []
    for word in template.split():
        match = _ITEM.fullmatch(word)
        if match is None:
            raise ValueError(f"template {template!r}: cannot read {word!r}")
        links = tuple((match["links"] or "").split(",")) if match["links"] else ()
        items.append(
            Item(
                match["text"], match["slot"] is not None, bool(match["star"]), match["form"] or "",
                match["agrees"] or "", links,
            )
        )  # fmt: skip
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
    chinese: list[Token] = []
    english: list[Token] = []
    _write_chinese(chinese, derivation, "", ())
    _write_english(english, derivation, "", "sg", ())
    places: dict[tuple, list[int]] = {}
    for index, (_, links) in enumerate(chinese):
        for link in links:
            places.setdefault(link, []).append(index)
    target = [token for token, _ in english]
    for index, token in enumerate(target):
        if token == "a":
            target[index] = article(target[index + 1])
    alignment = frozenset(
        (source, index)
        for index, (_, links) in enumerate(english)
        for link in links
        for source in places.get(link, ())
    )
    return Pair(tuple(token for token, _ in chinese), tuple(target), alignment)


def _write_chinese(tokens: list[Token], derivation: Derivation, form: str, inherited: tuple) -> None:
    rule, children = derivation
    if form == "cl" and "cl" in rule.options:
        tokens.append((rule.options["cl"], inherited))
        return
    headed = any(item.is_head for item in rule.chinese)
    for item in rule.chinese:
        if form == "cl" and not item.is_head:
            continue
        links = tuple((id(derivation), link) for link in item.links)
        if item.is_head or not headed:
            links += inherited
        if item.is_slot:
            child = children[rule.slots.index(item.text)]
            _write_chinese(tokens, child, item.form or (form if item.is_head else ""), links)
        elif item.text != "~":
            tokens.extend((character, links) for character in item.text)
        elif form == "le":
            tokens.append(("了", links))


def _write_english(
    tokens: list[Token], derivation: Derivation, form: str, agreement: str, inherited: tuple
) -> None:
    rule, children = derivation
    template = rule.english.get(form, rule.english[""])
    headed = any(item.is_head for item in template)
    for item in template:
        links = tuple((id(derivation), link) for link in item.links)
        if item.is_head or not headed:
            links += inherited
        agrees = agreement
        if item.agrees_with in rule.slots:
            agrees = agreement_of(children[rule.slots.index(item.agrees_with)])
        elif item.agrees_with:
            agrees = item.agrees_with
        wanted = item.form or (form if item.is_head else "")
        if item.is_slot:
            _write_english(tokens, children[rule.slots.index(item.text)], wanted, agrees, links)
        else:
            tokens.append((inflect(item.text, wanted, agrees), links))


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
    random = Random(seed * len(SPLITS) + SPLITS.index(split))
    pairs: dict[tuple[str, ...], Pair] = {}
    while len(pairs) < n:
        pair = realize(sample(random))
        fits = all(MIN_LENGTH <= len(side) <= MAX_LENGTH for side in (pair.source, pair.target))
        if fits and split_of(pair.target) == split:
            pairs.setdefault(pair.source, pair)
    return list(pairs.values())


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
                if item.is_slot:
                    forms[item.text][0].append(item.form or (form if item.is_head else ""))
                else:
                    chinese_length += (form == "le") if item.text == "~" else len(item.text)
        for form in english_forms:
            for item in rule.english.get(form, rule.english[""]):
                if item.is_slot:
                    forms[item.text][1].append(item.form or (form if item.is_head else ""))
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
