"""The page cuts and joins text exactly as Python does, on sentences of the corpora and on random text."""

import json
import random
import re
import sys
import unicodedata

import pytest
from fuzz import batches

from attnbook.text import CASING as NAMES
from attnbook.text import (
    BytePairEncoding,
    corpus,
    detokenize_chinese,
    detokenize_english,
    normalize_chinese,
    normalize_english,
    to_simplified,
    tokenize_chinese,
    tokenize_english,
)
from attnbook.training.checkpoint import split_sentences
from attnbook.widgets import base
from attnbook.widgets.base import bundle

LOAD = """async esm => {
  window.module = await import(URL.createObjectURL(new Blob([esm], {type: "text/javascript"})));
}"""


@pytest.fixture(scope="module")
def js(chromium):
    """`js(body, arg)`: evaluate with `module` (text.js) at hand. JSON is faster than playwright's own way."""
    context = chromium.new_context(offline=True)
    page = context.new_page()
    page.evaluate(LOAD, bundle("text.js"))

    def evaluate(body, arg=None):
        code = f"text => {{ const arg = JSON.parse(text); return JSON.stringify((() => {{ {body} }})()); }}"
        return json.loads(page.evaluate(code, json.dumps(arg)))

    yield evaluate
    context.close()


# Pieces that meet every branch of the patterns: marks in all widths, quotes, contractions, titles, numbers,
# flags, keycaps, emoji of several parts, kana, accents, invisible characters, every kind of space,
# traditional characters in context.
PIECES = r"""
我 喜 欢 茶 。 ， ！ ？ ； ： （ ） “ ” 「 」 『 』 《 》 、 · • ･ ｡ ﹐ … — ー ～ 々 〇 〡 ㄅ の カ 𠮷 豈 ⼀
說 書 著名 名著 看著 甚麼 甚至 瞭解 瞭 乾坤 乾淨 藉口 慰藉 計畫 畫家 顯著 著稱 後 後面 裏 嚒 麼
a b s I Tom tom's TOM'S don't DON'T won't n't 's 'S 'll 've o'clock well-known rock-'n'-roll Mr. mr. Mrs. Dr.
Ms. u.s. U.S. p.m. 3.5 10:30 1,000 1.2.3 ３.５ ٣ ² ½ Ⅷ ① x² ſ's isn'ſ İ ß ÀE é naïve Σ ΑΣ ΣΑΣ ŉ ǅ ﬁ ﷺ
. .. ... , ! ? : ; ( ) [ ] { } " ' '' "" / # % & * + - -- --- = < > @ @@ _ __ ` ~ $ £ € ^ | \ ‘ ’ ‚ „ ʼ
🙂 👍🏽 🇨🇳 🇨🇳🇺🇸 🇨 1️⃣ #️⃣ ❤️ ☕
"""
PIECES = [
    *re.split("[ \n]+", PIECES.strip()),
    "👨\u200d👩\u200d👧", "\U0001f3f4\U000e0067\U000e007f", "\u200d", "\u0301", "e\u0301", "\ufe0f",
    "\u00ad", "\u200b", "\u2060", "\ufeff", "\x00", "\x07", "\x1c", "\x1f", "\x7f", "\x85", "\xa0", "\u1680",
    "\u2003", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000", "\t", "\n", "\r\n", " ", "  ", " ",
]  # fmt: skip

# What Unicode has added since this Python's tables has no kind in them.
ASSIGNED = [
    chr(code)
    for code in range(sys.maxunicode + 1)
    if unicodedata.category(chr(code)) not in ("Cn", "Cs", "Co")
]


def random_texts(number: int, seed: int, longest: int = 14) -> list[str]:
    rng = random.Random(seed)
    texts = []
    for _ in range(number):
        size = rng.randint(0, longest)
        texts.append("".join(rng.choice(PIECES if rng.random() < 0.95 else ASSIGNED) for _ in range(size)))
    return texts


def random_text(rng: random.Random) -> str:
    """Pieces, or a sentence of the built-in corpus with a few pieces put in or in the place of others."""
    if rng.random() < 0.5:
        return "".join(rng.choices(PIECES, k=rng.randint(0, 10)))
    text = list(rng.choice(SENTENCES))
    for _ in range(rng.randint(1, 4)):
        start = rng.randint(0, len(text))
        text[start : start + rng.randint(0, 3)] = rng.choices(PIECES, k=rng.randint(0, 2))
    return "".join(text)


def sentences() -> list[str]:
    pairs = corpus(200)
    return ["".join(pair.source) for pair in pairs] + [" ".join(pair.target) for pair in pairs]


SENTENCES = sentences()
FUNCTIONS = {
    "normalizeChinese(x)": normalize_chinese,
    "normalizeEnglish(x)": normalize_english,
    "toSimplified(x)": to_simplified,
    "splitSentences(x)": split_sentences,
    "tokenizeChinese(x)": tokenize_chinese,
    "tokenizeChinese(x, false)": lambda text: tokenize_chinese(text, lower=False),
    "tokenizeEnglish(x)": tokenize_english,
    "tokenizeEnglish(x, false)": lambda text: tokenize_english(text, lower=False),
    "tokenizeChinese(module.normalizeChinese(x))": lambda text: tokenize_chinese(normalize_chinese(text)),
}


@pytest.mark.parametrize("call", FUNCTIONS)
def test_function_equals_python_on_random_text(js, call):
    texts = random_texts(1500, seed=1) + sentences()
    found = js(f"return arg.map(x => module.{call})", texts)
    for text, one in zip(texts, found, strict=True):
        assert one == FUNCTIONS[call](text), repr(text)


def test_every_character_is_of_the_same_kind_as_in_python(js):
    """A word's letter, a digit, a space: one character, between two letters and alone, is cut alike."""
    texts = [f"a{character}1.{character} {character}" for character in ASSIGNED]
    found = js("return arg.map(x => module.tokenizeChinese(x, false))", texts)
    different = [
        text
        for text, tokens in zip(texts, found, strict=True)
        if tokens != tokenize_chinese(text, lower=False)
    ]
    assert not different, (len(different), different[:20])


def both_ways(normalize, tokenize, detokenize):
    """What a text becomes on its way in and out: normalised, cut, joined again."""

    def steps(text: str) -> tuple:
        normal = normalize(text)
        tokens = tokenize(normal)
        joined = detokenize(tokens)
        assert normalize(normal) == normal, repr(text)
        assert tokenize(joined) == tokens, repr(text)
        assert "".join(tokenize(text)) == "".join(text.lower().split()), repr(text)
        return [normal, tokens, joined]

    return steps


@pytest.mark.parametrize(
    ("steps", "page"),
    [
        (both_ways(normalize_chinese, tokenize_chinese, detokenize_chinese), "Chinese"),
        (both_ways(normalize_english, tokenize_english, detokenize_english), "English"),
    ],
    ids=["zh", "en"],
)
def test_any_text_goes_in_and_out_as_in_python(js, steps, page):
    body = f"""const casing = new Map(Object.entries(arg.casing));
      return arg.texts.map(text => {{
        const normal = module.normalize{page}(text), tokens = module.tokenize{page}(normal);
        return [normal, tokens, module.detokenize{page}(tokens, casing)];
      }})"""
    for texts in batches(random_text):
        found = js(body, {"texts": texts, "casing": dict(NAMES)})
        for text, one in zip(texts, found, strict=True):
            assert one == steps(text), repr(text)


CASING = {"tom": "Tom", "tv": "TV", "xiaoming": "Xiaoming", "mr.": "Mr.", "constructor": "Constructor"}


@pytest.mark.parametrize("casing", [CASING, None])
def test_english_is_joined_as_in_python(js, casing):
    lists = [tokenize_english(text) for text in random_texts(1500, seed=2) + sentences()]
    body = """const casing = arg.casing && new Map(Object.entries(arg.casing));
      return arg.lists.map(tokens => module.detokenizeEnglish(tokens, casing))"""
    found = js(body, {"lists": lists, "casing": casing})
    for tokens, text in zip(lists, found, strict=True):
        assert text == detokenize_english(tokens, casing), tokens


def test_chinese_is_joined_as_in_python(js):
    lists = [tokenize_chinese(text) for text in random_texts(1500, seed=3) + sentences()]
    found = js("return arg.map(tokens => module.detokenizeChinese(tokens))", lists)
    for tokens, text in zip(lists, found, strict=True):
        assert text == detokenize_chinese(tokens), tokens


@pytest.fixture(scope="module")
def subwords() -> BytePairEncoding:
    return BytePairEncoding.learn([pair.target for pair in corpus(300)], num_merges=400)


def test_subwords_equal_python(js, subwords):
    rng = random.Random(4)
    words = [token for pair in corpus(100, split="test") for token in pair.target]
    words += ["".join(rng.choices("aehlnorst'wé鼬🙂@", k=rng.randint(1, 30))) for _ in range(3000)]
    words += ["the" * 90, "weasel", "t", "@"]
    words = [word for word in words if "@@" not in word]
    merges = [" ".join(merge) for merge in subwords.merges]
    body = """const pairs = module.bytePairs(arg.merges);
      return arg.words.map(word => [pairs.encode([word, word]), pairs.decode(pairs.encode([word, "."]))])"""
    found = js(body, {"merges": merges, "words": words})
    for word, (pieces, back) in zip(words, found, strict=True):
        assert pieces == subwords.encode([word, word])
        assert back == [word, "."]


def test_pieces_are_joined_as_in_python(js, subwords):
    rng = random.Random(5)
    pieces = ["th@@", "e", "@@", "@", "w@@", "easel", ".", "@@@@", "x@@@"]
    lists = [rng.choices(pieces, k=rng.randint(0, 6)) for _ in range(500)]
    found = js("const pairs = module.bytePairs([]); return arg.map(list => pairs.decode(list))", lists)
    assert found == [subwords.decode(pieces) for pieces in lists]


def test_a_token_that_looks_like_a_piece_is_refused(js):
    body = 'try { module.bytePairs([]).encode(["a@@b"]) } catch (error) { return error.message }'
    assert js(body).startswith('tokens: expected no "@@"')


def test_a_text_file_is_imported_as_a_string(tmp_path, monkeypatch):
    (tmp_path / "widgets").mkdir()
    (tmp_path / "words.txt").write_text('// no comment\n\n  "鼬"\n', encoding="utf-8")
    code = 'import WORDS from "../words.txt" with {type: "text"};\nexport const words = WORDS;\n'
    (tmp_path / "widgets" / "a.js").write_text(code)
    monkeypatch.setattr(base, "HERE", tmp_path / "widgets")
    expected = 'const WORDS = "// no comment\\n\\n  \\"鼬\\"\\n";\nexport const words = WORDS;\n'
    assert bundle("a.js") == expected
