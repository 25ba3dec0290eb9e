"""One spelling for one sentence."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnbook.text import normalize_chinese, normalize_english, to_simplified


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Tom 說 ，「 ３.５ 公斤 . 」", "Tom 说，“3.5 公斤。”"),
        ("10:30來,好嗎?", "10:30来，好吗？"),
        ("他花了10,000元.", "他花了10,000元。"),
        ('他說:"你好."', "他说：“你好。”"),
        ("我愛 Tom.", "我爱 Tom。"),
        ("ＡＢＣ１２３", "ABC123"),
        ("\ufeff你\u200b好　 嗎", "你好吗"),
        ("等等...", "等等..."),
        ("3.5 ﹐3.5", "3.5 ,3.5"),
        ("", ""),
    ],
)
def test_chinese(text, expected):
    assert normalize_chinese(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It’s “fine” …", 'It\'s "fine" ...'),
        ("  two   spaces ", "two spaces"),
        ("cafe\u0301", "caf\u00e9"),
        ("cafe\x07\u0301", "caf\u00e9"),
        ("ＯＫ！", "OK!"),
    ],
)
def test_english(text, expected):
    assert normalize_english(text) == expected


@pytest.mark.parametrize(
    ("traditional", "simplified"),
    [
        ("這隻鼬很聰明，牠喜歡唸書。", "这只鼬很聪明，它喜欢念书。"),
        ("他看著一本著名的書", "他看着一本著名的书"),
        ("顯著的進步", "显著的进步"),
        ("我很瞭解這個計畫", "我很了解这个计划"),
        ("她畫畫", "她画画"),
        ("找藉口", "找借口"),
        ("餅乾很乾，乾坤", "饼干很干，乾坤"),
        ("你在做甚麼？", "你在做什么？"),
        ("妳們裡面有什麼", "你们里面有什么"),
    ],
)
def test_traditional_becomes_simplified(traditional, simplified):
    assert to_simplified(traditional) == simplified
    assert normalize_chinese(traditional) == simplified


def test_the_script_can_be_kept():
    assert normalize_chinese("這隻鼬!", simplify=False) == "這隻鼬！"


def test_simplified_text_stays_as_it_is():
    text = "这只鼬昨天在图书馆里看了一本著名的书，后来它显著地进步了。"
    assert to_simplified(text) == text


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet=st.sampled_from("鼬說書a5.,!?:;()「」\"' \u3000ａ…。，著乾甚麼")))
def test_normalizing_twice_changes_nothing(text):
    assert normalize_chinese(normalize_chinese(text)) == normalize_chinese(text)
    assert normalize_english(normalize_english(text)) == normalize_english(text)


@pytest.mark.parametrize("normalize", [normalize_chinese, normalize_english])
def test_anything_but_a_str_is_refused(normalize):
    with pytest.raises(TypeError, match="text: expected a str, found NoneType"):
        normalize(None)
