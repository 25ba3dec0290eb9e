"""Numbers for tokens."""

import json
import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnbook.text import BOS, EOS, PAD, SPECIALS, UNK, Vocabulary
from attnbook.text.files import write_atomic

SENTENCES = [["the", "weasel", "runs"], ["the", "weasel", "swims"], ["the", "fox"]]


def test_special_tokens_come_first():
    vocabulary = Vocabulary.build(SENTENCES)
    assert [vocabulary[token] for token in SPECIALS] == [PAD, BOS, EOS, UNK] == [0, 1, 2, 3]


def test_frequent_tokens_come_first_and_equal_ones_in_alphabetical_order():
    assert list(Vocabulary.build(SENTENCES))[4:] == ["the", "weasel", "fox", "runs", "swims"]


def test_rare_tokens_are_left_out():
    assert list(Vocabulary.build(SENTENCES, min_count=2))[4:] == ["the", "weasel"]
    assert list(Vocabulary.build(SENTENCES, max_size=5))[4:] == ["the"]
    assert len(Vocabulary.build(SENTENCES, max_size=4)) == 4


def test_special_tokens_in_the_text_do_not_occur_twice():
    assert list(Vocabulary.build([["<unk>", "a", "<pad>"]])) == [*SPECIALS, "a"]


def test_encode_and_decode():
    vocabulary = Vocabulary.build(SENTENCES)
    assert vocabulary.encode(["the", "fox"]) == [4, 6]
    assert vocabulary.encode(["the", "fox"], bos=True, eos=True) == [BOS, 4, 6, EOS]
    assert vocabulary.encode([], bos=True, eos=True) == [BOS, EOS]
    assert vocabulary.decode([BOS, 4, 6, PAD, PAD]) == ["the", "fox"]
    assert vocabulary.decode([4, EOS, 6]) == ["the"]


def test_unknown_tokens_become_unk():
    vocabulary = Vocabulary.build(SENTENCES)
    assert vocabulary.encode(["the", "🦡"]) == [4, UNK]
    assert vocabulary.decode([4, UNK]) == ["the", "<unk>"]
    assert vocabulary["🦡"] == UNK
    assert "🦡" not in vocabulary
    assert "fox" in vocabulary


@given(st.lists(st.lists(st.text(min_size=1))))
def test_known_tokens_survive_the_round_trip(sentences):
    vocabulary = Vocabulary.build(sentences)
    for sentence in sentences:
        plain = [token for token in sentence if token not in SPECIALS]
        assert vocabulary.decode(vocabulary.encode(plain, bos=True, eos=True)) == plain
    assert Vocabulary.from_json(vocabulary.to_json()) == vocabulary


def test_saved_and_loaded(tmp_path):
    vocabulary = Vocabulary.build([["鼬", "weasel", "👩‍🚀", '"', "\\"]])
    path = tmp_path / "new folder" / "vocabulary.json"
    vocabulary.save(path)
    assert Vocabulary.load(path) == vocabulary
    assert "鼬" in path.read_text(encoding="utf-8")
    assert os.listdir(path.parent) == ["vocabulary.json"]


@pytest.mark.parametrize("content", ["", "[]", "{", '{"tokens": []}', '{"tokens": "abc", "specials": []}'])
def test_a_foreign_file_is_refused_by_name(tmp_path, content):
    path = tmp_path / "other.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"other\.json: not a vocabulary"):
        Vocabulary.load(path)


def test_other_special_tokens_are_refused():
    text = json.dumps({"specials": ["<s>", "</s>"], "tokens": ["a"]})
    with pytest.raises(ValueError, match="vocabulary: expected the special tokens"):
        Vocabulary.from_json(text)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: Vocabulary(["a", "a"]), ValueError, "expected each token once"),
        (lambda: Vocabulary(["<pad>"]), ValueError, "no special token, found ['<pad>']"),
        (lambda: Vocabulary([1]), TypeError, "tokens: expected strings, found 1 (int)"),
        (lambda: Vocabulary(["a"]).encode("abc"), TypeError, "tokenize it first"),
        (lambda: Vocabulary(["a"]).decode([5]), ValueError, "ids: expected ids in [0, 5), found 5"),
        (lambda: Vocabulary(["a"]).decode([-1]), ValueError, "ids: expected ids in [0, 5), found -1"),
        (
            lambda: Vocabulary.build([], min_count=0),
            ValueError,
            "min_count: expected a positive int, found 0",
        ),
        (lambda: Vocabulary.build([], max_size=3), ValueError, "max_size: expected at least 4"),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=re.escape(message)):
        call()


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "vocabulary.json"
    write_atomic(path, b"old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["vocabulary.json"]
