"""Byte-pair encoding: the example of the paper, and back again."""

import re
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnbook.text import BytePairEncoding, corpus, tokenize_english

PAPER = [["low"] * 5 + ["lower"] * 2 + ["newest"] * 6 + ["widest"] * 3]  # Sennrich et al. 2016, section 3.2
words = st.lists(st.lists(st.text(alphabet="abcé鼬👍", min_size=1, max_size=8), max_size=6), max_size=8)


def test_merges_of_the_paper():
    # counted by hand: e s 9 times, es t 9 times, l o 7 times; a missing @@ is the paper's mark of an end
    merges = BytePairEncoding.learn(PAPER, num_merges=3).merges
    assert merges == [("e@@", "s@@"), ("es@@", "t"), ("l@@", "o@@")]


def test_frequent_words_are_whole_and_rare_words_are_spelled():
    subwords = BytePairEncoding.learn(PAPER, num_merges=9)
    assert subwords.encode(["newest"]) == ["newest"]
    assert subwords.encode(["lowest"]) == ["lo@@", "w@@", "est"]
    assert subwords.decode(["lo@@", "w@@", "est"]) == ["lowest"]


def reference_merges(sentences, number, min_count):
    """Algorithm 1 of the paper word for word: count everything again after each merge."""
    spelled = [[*(c + "@@" for c in word[:-1]), word[-1]] for sentence in sentences for word in sentence]
    merges = []
    while len(merges) < number:
        counts = {}
        for pieces in spelled:
            for pair in zip(pieces, pieces[1:], strict=False):
                counts[pair] = counts.get(pair, 0) + 1
        if not counts or max(counts.values()) < min_count:
            break
        best = min(counts, key=lambda pair: (-counts[pair], pair))
        merges.append(best)
        for pieces in spelled:
            place = 0
            while place < len(pieces) - 1:
                if (pieces[place], pieces[place + 1]) == best:
                    pieces[place : place + 2] = [best[0][:-2] + best[1]]
                place += 1
    return merges


@settings(deadline=None)
@given(words, st.integers(1, 12), st.integers(1, 3))
def test_learning_equals_the_algorithm_of_the_paper(sentences, number, min_count):
    learned = BytePairEncoding.learn(sentences, number, min_count).merges
    assert learned == reference_merges(sentences, number, min_count)


@settings(deadline=None)
@given(words, words, st.integers(1, 12), st.floats(0, 0.9))
def test_pieces_spell_the_words(sentences, others, number, dropout):
    subwords = BytePairEncoding.learn(sentences, number)
    for tokens in [*sentences, *others]:
        assert subwords.decode(subwords.encode(tokens)) == tokens
        assert subwords.decode(subwords.encode(tokens, dropout, Random(0))) == tokens


def test_dropout_varies_the_spelling_and_a_seed_repeats_it():
    subwords = BytePairEncoding.learn([pair.target for pair in corpus(200)], num_merges=300)
    tokens = ["the", "weasel", "yesterday"]
    spellings = {tuple(subwords.encode(tokens, 0.3, Random(seed))) for seed in range(20)}
    assert len(spellings) > 5
    assert subwords.encode(tokens, 0.3, Random(1)) == subwords.encode(tokens, 0.3, Random(1))
    assert subwords.encode(tokens, 0.0, Random(1)) == tokens


def test_saved_and_loaded(tmp_path):
    subwords = BytePairEncoding.learn(PAPER, num_merges=5)
    subwords.save(tmp_path / "merges.json")
    assert BytePairEncoding.load(tmp_path / "merges.json").merges == subwords.merges


def test_a_word_of_any_length_is_cut_in_reasonable_time():
    subwords = BytePairEncoding.learn(PAPER, num_merges=9)
    word = "lowest" * 20_000
    assert subwords.decode(subwords.encode([word])) == [word]


def test_unseen_characters_and_open_words():
    subwords = BytePairEncoding.learn(PAPER, num_merges=9)
    assert subwords.encode(["鼬", "👍x"]) == ["鼬", "👍@@", "x"]
    assert subwords.decode(["low", "lo@@"]) == ["low", "lo"]
    assert subwords.encode([]) == subwords.decode([]) == []


def test_at_signs_of_the_text_are_safe_behind_the_tokenizer():
    subwords = BytePairEncoding.learn([tokenize_english("a@@b @@ @ me@here @@@")] * 3, num_merges=20)
    tokens = tokenize_english("a@@b @@ @ me@here @@@")
    assert subwords.decode(subwords.encode(tokens)) == tokens


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: BytePairEncoding.learn(PAPER, 0), ValueError, "num_merges: expected a positive int"),
        (
            lambda: BytePairEncoding([("a", "b")]),
            ValueError,
            "merges: expected a first piece that ends in '@@'",
        ),
        (lambda: BytePairEncoding(["ab"]), ValueError, "merges: expected pairs of strings, found 'ab'"),
        (lambda: BytePairEncoding([]).encode("abc"), TypeError, "tokenize it first"),
        (lambda: BytePairEncoding([]).encode(["a@@"]), ValueError, "expected no '@@' inside a token"),
        (lambda: BytePairEncoding([]).encode(["a"], 1.0), ValueError, "dropout: expected a number in [0, 1)"),
        (lambda: BytePairEncoding([]).encode(["a"], 0.1), ValueError, "random: expected a random.Random"),
        (lambda: BytePairEncoding.from_json("{}"), ValueError, "subwords: expected JSON with 'merges'"),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=re.escape(message)):
        call()
