"""Tokens and back: nothing is lost, whatever the text."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from attnbook.text import (
    CASING,
    detokenize_chinese,
    detokenize_english,
    learn_casing,
    tokenize_chinese,
    tokenize_english,
)

TOKENIZERS = [(tokenize_chinese, detokenize_chinese), (tokenize_english, detokenize_english)]
NASTY = st.lists(
    st.sampled_from(
        [*"abS n't.-,s\"(/$35:%'é鼬我。？", "n't", "'s", "mr", "...", "o'clock", "p.m."]
        + ["👩‍🚀", "🇨🇳", "👍🏽", "\u200d", "\t"]
    )
).map("".join)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("我爱鼬。", "我 爱 鼬 。"),
        ("我有3.5公斤Apple。", "我 有 3.5 公 斤 apple 。"),
        ("10:30见，Tom！", "10:30 见 ， tom ！"),
        ("T恤100%棉", "t 恤 100 % 棉"),
        ("我👍🏽了👩‍🚀和🇨🇳", "我 👍🏽 了 👩‍🚀 和 🇨🇳"),
        ("カタカナ和한국어", "カ タ カ ナ 和 한국어"),
        ("", ""),
        ("  \t\n", ""),
    ],
)
def test_chinese_is_cut_into_characters_but_words_and_numbers_stay_whole(text, tokens):
    assert tokenize_chinese(text) == tokens.split()


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("I don't know Tom's dog.", "i do n't know tom 's dog ."),
        ("He can't; she won't.", "he ca n't ; she wo n't ."),
        ("We're here, I'm not, they'd go", "we 're here , i 'm not , they 'd go"),
        ("I've been, it'll rain", "i 've been , it 'll rain"),
        ("Let's meet at ten o'clock.", "let 's meet at ten o'clock ."),
        ("It costs $1,000.50 (or 10%).", "it costs $ 1,000.50 ( or 10 % ) ."),
        ("Mr. Smith left at 5 p.m. yesterday...", "mr. smith left at 5 p.m. yesterday ..."),
        ("a well-known 21st-century word", "a well-known 21st-century word"),
        ("\"Hi!\" he said.", "\" hi ! \" he said ."),
        ("Attention is all 鼬 need", "attention is all 鼬 need"),
        ("naïve café 🙂", "naïve café 🙂"),
        ("", ""),
    ],
)  # fmt: skip
def test_english_is_cut_into_words_punctuation_and_contractions(text, tokens):
    assert tokenize_english(text) == tokens.split()


@pytest.mark.parametrize(("tokenize", "detokenize"), TOKENIZERS)
@settings(max_examples=250, deadline=None)
@given(text=st.one_of(st.text(), NASTY))
@example(text="µ İ ß ŉ")
@example(text="n't've")
@example(text="she does n't've")
@example(text="tom's n't here")
def test_no_character_is_lost_and_tokens_survive_the_round_trip(tokenize, detokenize, text):
    assert "".join(tokenize(text, lower=False)) == "".join(text.split())
    assert all(tokenize(text))
    tokens = tokenize(text)
    assert tokenize(detokenize(tokens)) == tokens


@settings(max_examples=150, deadline=None)
@given(text=NASTY)
def test_letters_stay_as_they_are_without_lower_casing(text):
    tokens = tokenize_english(text, lower=False)
    assert tokenize_english(detokenize_english(tokens, casing=None), lower=False) == tokens


@pytest.mark.parametrize(
    "text",
    [
        "I don't know Tom's dog.",
        "Is this Mary's?",
        "It costs $20 (or 10%), and/or less.",
        'He said, "I\'m from China." She laughed.',
        "Let's meet at 10:30 on Monday!",
        "The students' books are here; Mr. Smith has them...",
        "What? No! Why? I see.",
    ],
)
def test_english_comes_back_as_it_was_written(text):
    assert detokenize_english(tokenize_english(text)) == text


@pytest.mark.parametrize(
    "text", ["我爱鼬。", "我有 3.5 公斤苹果，你呢？", "Tom 说：“你好！”", "他买了 iPhone 15 Pro。"]
)
def test_chinese_comes_back_as_it_was_written(text):
    assert detokenize_chinese(tokenize_chinese(text, lower=False)) == text


def test_casing_is_learned_inside_sentences():
    texts = [
        "We saw London.",
        "In London it rains. Rain is nice.",
        "They like Kate and rain.",
        "The Boston of Kate",
    ]
    assert learn_casing(texts) == {"boston": "Boston", "kate": "Kate", "london": "London"}
    assert detokenize_english(["kate", "saw", "london", "."], learn_casing(texts)) == "Kate saw London."


def test_the_built_in_casing_is_consistent():
    assert all(name.lower() == token for token, name in CASING.items())


@pytest.mark.parametrize(("tokenize", "detokenize"), TOKENIZERS)
def test_a_very_long_line_takes_no_long_time(tokenize, detokenize):
    text = "鼬 is all you need, don't you? " * 5000
    tokens = tokenize(text)
    assert len(tokens) > 40_000
    assert tokenize(detokenize(tokens)) == tokens
    assert len(tokenize("a" * 200_000)) == 1


@pytest.mark.parametrize("tokenize", [tokenize_chinese, tokenize_english])
def test_anything_but_a_str_is_refused(tokenize):
    with pytest.raises(TypeError, match="text: expected a str, found bytes"):
        tokenize(b"abc")
