"""The built-in corpus: what the issue and the design promise of it, each as a test."""

import hashlib
import re
from collections import Counter
from itertools import product

import pytest

from attnbook.text import corpus, count_pairs, tokenize_chinese, tokenize_english
from attnbook.text.grammar import grammar, parse_rules, realize, split_of

MEASURE_WORDS = {rule.options["cl"] for rules in grammar().values() for rule in rules if "cl" in rule.options}


def parse(text):
    """All derivations of a Chinese sentence, found from the rules: a chart of every symbol at every place."""
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
                if item.slot is not None and wanted == "cl":  # checked below, when the noun is known
                    if tokens[place : place + 1] and tokens[place] in MEASURE_WORDS:
                        after.append((place + 1, bound))
                elif item.slot is not None:
                    for end, derivation in symbol(item.text.partition("/")[0], wanted, place):
                        after.append((end, {**bound, item.text: derivation}))
                else:
                    word = tuple(item.text) if item.text != "~" else ("了",) * (form == "le")
                    if tokens[place : place + len(word)] == word:
                        after.append((place + len(word), bound))
            states = after
        return [(end, (rule, tuple(bound[slot] for slot in rule.slots))) for end, bound in states]

    return [
        found for end, found in symbol("S", "", 0) if end == len(tokens) and realize(found).source == tokens
    ]


def translate(text):
    derivations = parse(text)
    assert len(derivations) == 1, f"{text}: {len(derivations)} derivations"
    return realize(derivations[0])


@pytest.fixture(scope="module")
def pairs():
    return corpus(3000, seed=7)


# ---------------------------------------------------------------------- a seed gives the same corpus for ever


@pytest.mark.parametrize(
    ("split", "digest"),
    [("train", "66e4df8d6a0f91c5"), ("valid", "50723a091ca15731"), ("test", "71c55ca4e5727d51")],
)
def test_a_seed_gives_the_same_corpus_for_ever(split, digest):
    written = "\n".join(
        f"{''.join(pair.source)}|{' '.join(pair.target)}|{sorted(pair.alignment)}"
        for pair in corpus(100, seed=0, split=split)
    )
    assert hashlib.sha256(written.encode()).hexdigest()[:16] == digest


def test_who_changes_a_corpus_changes_only_that_one():
    first = corpus(20, seed=5)
    kept = list(first)
    first.pop()
    assert corpus(20, seed=5) == kept


def test_a_short_corpus_begins_a_long_one():
    assert corpus(300, seed=3)[:50] == corpus(50, seed=3)


def test_other_seeds_give_other_pairs():
    assert len({pair.source for seed in range(3) for pair in corpus(100, seed=seed)}) > 280


def test_no_pair_occurs_twice(pairs):
    assert len({pair.source for pair in pairs}) == len(pairs) == 3000


# ---------------------------------------------------------------------- splits


def test_splits_share_no_sentence_on_either_side():
    splits = {split: corpus(700, seed=0, split=split) for split in ("train", "valid", "test")}
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
    longest = 5

    def at_least(rule):  # tokens of the Chinese side
        return sum(
            1
            if item.form == "cl"
            else shortest(head_of(item.text))
            if item.slot is not None
            else len(item.text.strip("~"))
            for item in rule.chinese
        )

    def shortest(head):
        if head not in known:
            known[head] = min(at_least(rule) for rule in grammar()[head])
        return known[head]

    def head_of(slot):
        return slot.partition("/")[0]

    def derivations(head, budget):
        if (head, budget) not in trees:
            trees[head, budget] = [
                (rule, children)
                for rule in grammar()[head]
                if (spare := budget - at_least(rule)) >= 0
                for children in product(
                    *(derivations(head_of(slot), spare + shortest(head_of(slot))) for slot in rule.slots)
                )
            ]
        return trees[head, budget]

    known, trees = {}, {}
    written = [realize(derivation) for derivation in derivations("S", longest)]
    fitting = [
        pair for pair in written if all(3 <= len(side) <= longest for side in (pair.source, pair.target))
    ]
    assert len(fitting) == count_pairs(longest) > 800
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


# ---------------------------------------------------------------------- one sentence, one translation


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
    "如果我有时间，鼬就会去学校看书。": "if i have time , the weasel will go to school to read books .",
    # agreement
    "我很忙。": "i am busy .",
    "鼬很忙。": "the weasel is busy .",
    "我们很忙。": "we are busy .",
    "孩子们每天都跑步。": "the children run every day .",
    "那只狼每天都跑步。": "that wolf runs every day .",
    "那两只狼昨天很累。": "those two wolves were tired yesterday .",
}


@pytest.mark.parametrize(("chinese", "english"), TRANSLATIONS.items())
def test_translation(chinese, english):
    assert " ".join(translate(chinese).target) == english


def test_what_nobody_would_say_is_not_in_the_grammar():
    for sentence in (
        "我跑步昨天。",
        "小明吃苹果了一个。",
        "书把鼬看了。",
        "三猫在睡觉。",
        "我昨天会跑步。",
        "鼬",
    ):
        assert parse(sentence) == []


# ---------------------------------------------------------------------- gold alignments

ALIGNMENTS = {
    "鼬昨天在公园里看见了一只猫。": (
        "weasel-鼬 saw-看见了 a-一只 cat-猫 in-在里 park-公园 yesterday-昨天 .-。"
    ),
    "请把我的书放在桌子上。": "please-请 put-放 my-我的 book-书 on-在上 table-桌子 .-。",
    "我买的书很有意思。": "book-书 that-的 i-我 bought-买 is-很 interesting-有意思 .-。",
    "苹果被鼬吃掉了。": "apple-苹果 eaten-吃掉了 by-被 weasel-鼬 .-。",
    "他想唱什么歌？": "what-什么 song-歌 he-他 want-想 to-想 sing-唱 ?-？",
    "你喜欢游泳吗？": "do-吗 you-你 like-喜欢 swim-游泳 ?-？",
    "妈妈喝了两杯茶。": "mom-妈妈 drank-喝了 two-两 cups-杯 of-杯 tea-茶 .-。",
    "她从来没看过那本书。": "she-她 has-过 never-从来没 read-看 that-那本 book-书 .-。",
    "小明没回家。": "xiaoming-小明 did-没 n't-没 go-回 home-家 .-。",
    "我比安娜高得多。": "i-我 much-得多 taller-高 than-比 anna-安娜 .-。",
    "因为昨天下雨了，所以鼬没跑步。": (
        "weasel-鼬 did-没 n't-没 run-跑步 because-因为，所以 it-下了 rained-下雨了 yesterday-昨天 .-。"
    ),
    "爸爸总是一边喝茶一边做饭。": "dad-爸爸 always-总是 cooks-做饭 while-一边一边 drinking-喝 tea-茶 .-。",
    "桌子上有三本书。": "there-有 are-有 three-三本 books-书 on-上 table-桌子 .-。",
    "他明天晚上八点要去北京。": (
        "he-他 is-要 going-要 to-要 go-去 beijing-北京 eight-八 o'clock-点 tomorrow-明天 evening-晚上 .-。"
    ),
}


@pytest.mark.parametrize(("chinese", "expected"), ALIGNMENTS.items())
def test_gold_alignment(chinese, expected):
    pair = translate(chinese)
    aligned = {}
    for place, word in enumerate(pair.target):
        characters = [pair.source[source] for source, target in sorted(pair.alignment) if target == place]
        if characters:
            aligned[f"{word}-{''.join(characters)}"] = None
    assert list(aligned) == expected.split()  # and all other words are aligned with nothing


DICTIONARY = """
weasel 鼬 | weasels 鼬们 | teacher 老师 | wolves 狼 | umbrella 雨伞 | children 孩子们 | library 图书馆
river 河 | yesterday 昨前天 | tomorrow 明后天 | because 因为，所以 | although 虽然但是 | if 如果 | who 谁的
why 为什么 | bought 买了 | saw 看见了 | swim 游泳了 | closed 关上了 | wants 想 | never 从来没
three 三 | money 钱
she 她 | him 他 | their 他们的 | taller 高 | than 比
interesting 有意思趣的 | beijing 北京 | xiaoming 小明
"""


@pytest.mark.parametrize("entry", re.split(r"\s*[|\n]\s*", DICTIONARY.strip()))
def test_words_are_aligned_with_their_translation(pairs, entry):
    english, chinese = entry.split()
    measures = "只个位本把顶件张条头块根支部台辆扇份封首场"
    seen = 0
    for pair in pairs:
        for place, word in enumerate(pair.target):
            if word == english:
                seen += 1
                aligned = {pair.source[source] for source, target in pair.alignment if target == place}
                assert aligned, f"{english} in {''.join(pair.source)}"
                assert aligned <= set(chinese + measures), f"{english} in {''.join(pair.source)}"
                assert aligned & set(chinese)
    assert seen > 5


def test_every_alignment_is_within_the_sentences(pairs):
    for pair in pairs:
        assert all(
            0 <= source < len(pair.source) and 0 <= target < len(pair.target)
            for source, target in pair.alignment
        )


def test_only_words_without_counterpart_are_unaligned(pairs):
    chinese, english = Counter(), Counter()
    for pair in pairs:
        sources, targets = (set(side) for side in zip(*pair.alignment, strict=True))
        chinese.update(token for place, token in enumerate(pair.source) if place not in sources)
        english.update(token for place, token in enumerate(pair.target) if place not in targets)
    assert set(chinese) <= set("把就得的")
    function_words = "the to that at as and for a an in is are am was were do does did"
    assert set(english) <= set(function_words.split())
    assert sum(chinese.values()) < 0.03 * sum(len(pair.source) for pair in pairs)


def test_every_rule_links_something_or_has_slots():
    for rule in (rule for rules in grammar().values() for rule in rules):
        assert rule.slots or any(item.links for item in rule.chinese), rule.line


def test_every_rule_can_be_reached():
    reached, waiting = set(), ["S"]
    while waiting:
        head = waiting.pop()
        if head not in reached:
            reached.add(head)
            waiting.extend(slot.partition("/")[0] for rule in grammar()[head] for slot in rule.slots)
    assert reached == set(grammar())


# ------------------------------------------------------------ the English, independently of the rules


def test_articles_fit_the_next_word(pairs):
    for pair in pairs:
        for word, following in zip(pair.target, pair.target[1:], strict=False):
            if word in ("a", "an"):
                assert (word == "an") == (following[0] in "aeiou"), pair.target_text


def test_words_are_inflected_as_in_a_dictionary(pairs):
    words = {word for pair in pairs for word in pair.target}
    assert {
        "ate",
        "swam",
        "drew",
        "studied",
        "children",
        "wolves",
        "mice",
        "photos",
        "lazier",
        "swimming",
    } <= words
    wrong = r"childs|wolfs|mouses|sheeps|fishs|photoes|eated|runed|swimed|writeing|biger|lazyer|.*yed|.*ieing"
    assert not {word for word in words if re.fullmatch(wrong, word)} - {"played"}


def test_numbers_and_nouns_agree(pairs):
    singular = {"weasel", "cat", "wolf", "child", "book", "teacher", "mouse", "key", "doctor", "elephant"}
    for pair in pairs:
        for word, following in zip(pair.target, pair.target[1:], strict=False):
            if word in ("two", "three", "four", "five", "six", "these", "those", "many"):
                assert following not in singular, pair.target_text


# ---------------------------------------------------------------------- text and tokens


def test_the_tokenizers_cut_the_sentences_as_the_grammar_does(pairs):
    for pair in pairs:
        assert tuple(tokenize_chinese(pair.source_text)) == pair.source
        assert tuple(tokenize_english(pair.target_text)) == pair.target


def test_sentences_are_written_with_capitals():
    pair = translate("小明说我喜欢安娜。") if parse("小明说我喜欢安娜。") else translate("小明说我认识安娜。")
    assert pair.source_text == "小明说我认识安娜。"
    assert pair.target_text == "Xiaoming says that I know Anna."


# ---------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"n": 0}, ValueError, "n: expected a positive int, found 0"),
        ({"n": 1.5}, TypeError, "n: expected a positive int"),
        (
            {"n": 1, "split": "dev"},
            ValueError,
            "split: expected one of 'train', 'valid', 'test', found 'dev'",
        ),
        ({"n": 1, "seed": -1}, ValueError, "seed: expected an int of at least 0, found -1"),
        ({"n": 1, "seed": "a"}, TypeError, "seed: expected an int of at least 0, found 'a'"),
    ],
)
def test_bad_arguments(arguments, error, message):
    with pytest.raises(error, match=re.escape(message)):
        corpus(**arguments)


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("S: A", "expected HEAD: Chinese | English"),
        ("S: A B | A\nA: 一 | one\nB: 二 | two", "different slots"),
        ("S: 一=x | one", "links on one side only: x"),
        ("S: A | A", "no rule for A"),
        ("S: * | one", "cannot read '*'"),
        ("for x y in a b; c:\n    S: <x> | <y>", "expected 2 words in each value"),
    ],
)
def test_a_rule_that_is_not_well_formed_is_named(rules, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_rules(rules)
