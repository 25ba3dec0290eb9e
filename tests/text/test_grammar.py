"""The built-in corpus: what the issue and the design promise of it, each as a test."""

import hashlib
import re
from collections import Counter
from itertools import product

import pytest

from attnbook.text import corpus, count_pairs, tokenize_chinese, tokenize_english
from attnbook.text import grammar as module
from attnbook.text.grammar import grammar, parse_rules, realize, split_of

MEASURE_WORDS = {rule.options["cl"] for rules in grammar().values() for rule in rules if "cl" in rule.options}


def parse(text):
    """All derivations of a Chinese sentence, found from the rules alone (a chart of every symbol at every place)."""
    tokens = tuple(text)
    chart = {}

    def symbol(head, form, start):
        key = (head, form, start)
        if key not in chart:
            chart[key] = [found for rule in grammar()[head] for found in expand(rule, form, start)]
        return chart[key]

    def expand(rule, form, start):
        states = [(start, {})]
        for item in rule.chinese:
            wanted = item.form or (form if item.is_head else "")
            after = []
            for place, bound in states:
                if item.is_slot and wanted == "cl":  # checked below, when the noun is known
                    if tokens[place : place + 1] and tokens[place] in MEASURE_WORDS:
                        after.append((place + 1, bound))
                elif item.is_slot:
                    for end, derivation in symbol(item.text.partition("/")[0], wanted, place):
                        after.append((end, {**bound, item.text: derivation}))
                else:
                    word = tuple(item.text) if item.text != "~" else ("了",) * (form == "le")
                    if tokens[place : place + len(word)] == word:
                        after.append((place + len(word), bound))
            states = after
        return [(end, (rule, tuple(bound[slot] for slot in rule.slots))) for end, bound in states]

    return [found for end, found in symbol("S", "", 0) if end == len(tokens) and realize(found).source == tokens]


def translate(text):
    derivations = parse(text)
    assert len(derivations) == 1, f"{text}: {len(derivations)} derivations"
    return realize(derivations[0])


def links(pair):
    """The alignment in words: English word -> the Chinese characters aligned with it, for each word once."""
    return {
        f"{word}": "".join(pair.source[source] for source, index in sorted(pair.alignment) if index == place)
        for place, word in enumerate(pair.target)
    }


@pytest.fixture(scope="module")
def pairs():
    return corpus(3000, seed=7)


# ---------------------------------------------------------------------- a seed gives the same corpus for ever


@pytest.mark.parametrize(
    ("split", "digest"),
    [("train", "TRAIN"), ("valid", "VALID"), ("test", "TEST")],
)
def test_a_seed_gives_the_same_corpus_for_ever(split, digest):
    written = "\n".join(
        f"{''.join(pair.source)}|{' '.join(pair.target)}|{sorted(pair.alignment)}"
        for pair in corpus(100, seed=0, split=split)
    )
    assert hashlib.sha256(written.encode()).hexdigest()[:16] == digest


def test_a_short_corpus_begins_a_long_one():
    assert corpus(300, seed=3)[:50] == corpus(50, seed=3)


def test_other_seeds_give_other_pairs():
    assert len({pair.source for seed in range(3) for pair in corpus(100, seed=seed)}) > 280


def test_no_pair_occurs_twice(pairs):
    assert len({pair.source for pair in pairs}) == len(pairs) == 3000


# ---------------------------------------------------------------------- splits


def test_splits_share_no_sentence_on_either_side():
    splits = {split: corpus(1500, seed=0, split=split) for split in ("train", "valid", "test")}
    for first, second in (("train", "valid"), ("train", "test"), ("valid", "test")):
        for side in ("source", "target"):
            shared = {getattr(pair, side) for pair in splits[first]} & {
                getattr(pair, side) for pair in splits[second]
            }
            assert not shared


def test_splits_are_decided_by_the_english_sentence(pairs):
    assert {split_of(pair.target) for pair in pairs} == {"train"}
    shares = Counter(split_of((str(number),)) for number in range(5000))
    assert shares["test"] == pytest.approx(500, abs=80)
    assert shares["valid"] == pytest.approx(500, abs=80)


# ---------------------------------------------------------------------- how many, how long


def test_there_are_more_than_a_billion_pairs():
    assert count_pairs() > 10**24
    assert 10**6 < count_pairs(10) < count_pairs(20)


def test_the_count_equals_the_sentences_written_out_one_by_one():
    longest = 6

    def shortest(head):
        if head not in known:
            known[head] = min(lower_bound(rule) for rule in grammar()[head])
        return known[head]

    def lower_bound(rule, of=None):
        return sum(
            1 if item.form == "cl" else (shortest if of is None else of)(item.text.partition("/")[0])
            if item.is_slot
            else len(item.text.strip("~"))
            for item in rule.chinese
        )  # fmt: skip

    def derivations(head, budget):
        if (head, budget) not in trees:
            trees[head, budget] = [
                (rule, children)
                for rule in grammar()[head]
                if lower_bound(rule) <= budget
                for children in product(
                    *(
                        derivations(slot.partition("/")[0], budget - lower_bound(rule) + shortest(slot.partition("/")[0]))
                        for slot in rule.slots
                    )
                )
            ]
        return trees[head, budget]

    known, trees = {}, {}
    written = [realize(derivation) for derivation in derivations("S", longest)]
    fitting = [pair for pair in written if 3 <= min(map(len, pair[:2])) and max(map(len, pair[:2])) <= longest]
    assert len(fitting) == count_pairs(longest) > 3000
    assert len({pair.source for pair in fitting}) == len(fitting)


def test_lengths_spread_from_3_to_40(pairs):
    lengths = [len(pair.source) for pair in pairs]
    assert min(min(lengths), *(len(pair.target) for pair in pairs)) >= 3
    assert max(max(lengths), *(len(pair.target) for pair in pairs)) <= 40
    shares = Counter((length - 1) // 10 for length in lengths)
    assert all(shares[tens] > 0.05 * len(pairs) for tens in range(4)), shares


def test_the_shortest_sentence_has_three_tokens():
    pair = translate("请坐。")
    assert pair.source == ("请", "坐", "。")


def test_the_vocabularies_are_small(pairs):
    assert 300 < len({token for pair in pairs for token in pair.source}) < 420
    assert 400 < len({token for pair in pairs for token in pair.target}) < 540


def test_the_weasel_appears(pairs):
    assert sum("鼬" in pair.source for pair in pairs) > 0.08 * len(pairs)
    for pair in pairs:
        assert pair.source.count("鼬") == sum(token in ("weasel", "weasels") for token in pair.target)


# ---------------------------------------------------------------------- one Chinese sentence has one translation


def test_no_sentence_is_ambiguous(pairs):
    for pair in pairs[:350]:
        assert translate("".join(pair.source)) == pair


# ---------------------------------------------------------------------- what the grammar covers

TRANSLATIONS = {
    # time and place before the verb; English puts them last, place before time
    "小明昨天在图书馆里看了一本书。": "xiaoming read a book in the library yesterday .",
    "鼬明天早上八点会在公园里跑步。": "the weasel will run in the park at eight o'clock tomorrow morning .",
    "昨天，妈妈画了一只鼬。": "yesterday , mom drew a weasel .",
    # relative clauses before the noun
    "我昨天在商店里买的书很有意思。": "the book that i bought at the store yesterday is interesting .",
    "正在睡觉的猫很可爱。": "the cat that is sleeping is cute .",
    "鼬看见了喜欢安娜的狗的那两个学生。": "the weasel saw those two students who like anna 's dog .",
    "看见了我昨天画的猫的狗很累。": "the dog that saw the cat that i drew yesterday is tired .",
    # 把 and 被
    "鼬把书放在桌子上了。": "the weasel put the book on the table .",
    "请把窗户打开。": "please open the window .",
    "别把雨伞忘在椅子上。": "do n't leave the umbrella on the chair .",
    "小明没把那把钥匙还给安娜。": "xiaoming did n't return that key to anna .",
    "苹果被鼬吃掉了。": "the apple was eaten by the weasel .",
    "那本书昨天被他拿走了。": "that book was taken away by him yesterday .",
    "门没被丽丽关上。": "the door was not closed by lili .",
    # questions stay in place
    "你昨天买了什么？": "what did you buy yesterday ?",
    "你昨天在公园里看见了谁？": "who did you see in the park yesterday ?",
    "谁在唱歌？": "who is singing ?",
    "她正在哪儿跑步？": "where is she running ?",
    "他什么时候要去北京？": "when is he going to go to beijing ?",
    "你是什么时候买这本书的？": "when did you buy this book ?",
    "鼬为什么没回家？": "why did n't the weasel go home ?",
    "他们昨天看了几本书？": "how many books did they read yesterday ?",
    "你喜欢这首歌吗？": "do you like this song ?",
    "小明喜欢这首歌吗？": "does xiaoming like this song ?",
    # measure words
    "小明有三只猫。": "xiaoming has three cats .",
    "我有一头大象。": "i have an elephant .",
    "桌子上有两张地图。": "there are two maps on the table .",
    "妈妈喝了两杯茶。": "mom drank two cups of tea .",
    # aspect
    "我看过这部电影。": "i have watched this movie .",
    "她在写一封信。": "she is writing a letter .",
    "他去过北京吗？": "has he been to beijing ?",
    "鼬睡了三个小时。": "the weasel slept for three hours .",
    # negation
    "我没看这本书。": "i did n't read this book .",
    "她不喜欢游泳。": "she does n't like to swim .",
    "他从来没看过那本书。": "he has never read that book .",
    "鼬明天不会回家。": "the weasel wo n't go home tomorrow .",
    # comparison
    "我比安娜高。": "i am taller than anna .",
    "这本书没有那本书那么厚。": "this book is not as thick as that book .",
    "鼬跑得比大卫快。": "the weasel runs faster than david .",
    "玛丽是我们班最聪明的学生。": "mary is the cleverest student in our class .",
    # two clauses, with the clauses in the other order
    "因为昨天下雨了，所以小明没回家。": "xiaoming did n't go home because it rained yesterday .",
    "我回家的时候，鼬正在做饭。": "the weasel was cooking when i went home .",
    "爸爸总是一边听音乐一边做饭。": "dad always cooks while listening to music .",
    "如果明天下雪，我就会去图书馆看书。": "if it snows tomorrow , i will go to the library to read books .",
    "如果我有时间，鼬就会去图书馆看书。": "if i have time , the weasel will go to the library to read books .",
    # agreement
    "我很忙。": "i am busy .",
    "鼬很忙。": "the weasel is busy .",
    "我们很忙。": "we are busy .",
    "孩子们每天都跑步。": "the children run every day .",
    "那只狼每天都跑步。": "that wolf runs every day .",
    "那两只狼昨天很累。": "those two wolves were tired yesterday .",
}
