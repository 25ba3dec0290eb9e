"""The word-order machine: the bag stays, the state moves, the reader's sentence, words that can be moved."""

import itertools
import math
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from attnbook.widgets import WordOrderMachine
from attnbook.widgets.base import bundle

EN, ZH = "the weasel chases the fish", "小鼬追小鱼"


def vectors_of(shown, words, seed=6):
    return np.array(
        shown.js("return arg.words.map(w => module.embed(w, arg.seed))", {"words": words, "seed": seed})
    )


def state(vectors):
    """The last state, by numpy."""
    c, s = 0.9 * math.cos(math.radians(55)), 0.9 * math.sin(math.radians(55))
    h = np.zeros(2)
    for x in vectors:
        h = np.tanh(np.array([[c, -s], [s, c]]) @ h + x)
    return h


def ends(shown):
    """What the two pictures say: distance of the bag and of the state from the original."""
    texts = shown.root.locator(".wo-two p").all_inner_texts()
    return [float(re.search(r"([\d.]+) from the original", text)[1]) for text in texts]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("小鼬追鱼。", ["小", "鼬", "追", "鱼"]),
        ("The weasel's den, at 3!", ["The", "weasel's", "den", "at", "3"]),
        ("我有 2 只 cat", ["我", "有", "2", "只", "cat"]),
        ("…！", []),
        ("a b c d e f g h i j k l", list("abcdefghij")),
    ],
)
def test_tokens(mount, text, tokens):
    assert mount(WordOrderMachine()).js("return module.tokenize(arg)", text) == tokens


def test_word_vectors_follow_the_word_alone(mount):
    shown = mount(WordOrderMachine())
    first, again, capital, other = vectors_of(shown, ["weasel", "weasel", "Weasel", "fish"])
    assert np.array_equal(first, again)
    assert np.array_equal(first, capital)
    assert not np.allclose(first, other)
    lengths = np.linalg.norm(vectors_of(shown, [f"word{i}" for i in range(50)]), axis=1)
    assert lengths.min() >= 0.5
    assert lengths.max() <= 1


def test_every_order_ends_at_one_sum_and_at_many_states(mount):
    shown = mount(WordOrderMachine())
    vectors = vectors_of(shown, EN.split())
    sums = shown.js(
        "return arg.map(v => module.sums(v).at(-1))",
        [list(map(list, p)) for p in itertools.permutations(vectors)],
    )
    np.testing.assert_allclose(sums, [vectors.sum(0)] * 120, atol=1e-12)
    states = shown.js(
        "return arg.map(v => module.states(v).at(-1))",
        [list(map(list, p)) for p in itertools.permutations(vectors)],
    )
    np.testing.assert_allclose(states, [state(p) for p in itertools.permutations(vectors)], atol=1e-12)
    assert len({tuple(np.round(s, 6)) for s in states}) == 60


@pytest.mark.parametrize(
    ("words", "many"), [("abc", 6), ("aab", 3), ("aabb", 6), ("aaaa", 1), ("小鼬追小鱼", 60)]
)
def test_arrangements(mount, words, many):
    assert mount(WordOrderMachine()).js("return module.arrangements([...arg])", words) == many
    assert len(set(itertools.permutations(words))) == many


def test_orders_are_all_or_a_sample(mount):
    shown = mount(WordOrderMachine())
    assert len({tuple(o) for o in shown.js("return module.orders(4, 1)")}) == 24
    sample = shown.js("return module.orders(8, 1)")
    assert len(sample) == 120
    assert all(sorted(order) == list(range(8)) for order in sample)


def test_shuffle_keeps_the_bag_and_moves_the_state(mount):
    shown = mount(WordOrderMachine())
    assert ends(shown) == [0, 0]
    bag = shown.root.locator(".wo-bag").inner_text()
    shown.root.get_by_role("button", name="shuffle").click()
    shown.settle()
    order = shown.get("order")
    words = [EN.split()[i] for i in order]
    assert words != EN.split()
    assert shown.root.locator(".wo-words button").all_inner_texts() == words
    assert shown.root.locator(".wo-bag").inner_text() == bag
    vectors = vectors_of(shown, EN.split())
    moved = np.linalg.norm(state(vectors[order]) - state(vectors))
    assert ends(shown) == [0, pytest.approx(moved, abs=0.006)]
    assert "60 different sentences" in shown.root.locator(".anb-say").inner_text()


def test_reverse_and_restore(mount):
    shown = mount(WordOrderMachine())
    shown.root.get_by_role("button", name="reverse").press("Enter")
    shown.settle()
    assert shown.get("order") == [4, 3, 2, 1, 0]
    shown.root.get_by_role("button", name="restore").press("Enter")
    shown.settle()
    assert ends(shown) == [0, 0]


def test_words_are_swapped_by_clicks_and_moved_by_arrow_keys(mount):
    shown = mount(WordOrderMachine())
    chips = shown.root.locator(".wo-words button")
    chips.nth(1).click()
    assert chips.nth(1).get_attribute("aria-pressed") == "true"
    chips.nth(4).click()
    shown.settle()
    assert shown.get("order") == [0, 4, 2, 3, 1]
    chips.nth(0).press("ArrowRight")
    assert shown.get("order") == [4, 0, 2, 3, 1]
    assert shown.js("return document.activeElement === el.querySelectorAll('.wo-words button')[1]")
    shown.page.keyboard.press("ArrowLeft")
    assert shown.get("order") == [0, 4, 2, 3, 1]
    shown.page.keyboard.press("ArrowLeft")
    assert shown.get("order") == [0, 4, 2, 3, 1]


def test_two_equal_words_change_places_unnoticed(mount):
    shown = mount(WordOrderMachine())
    shown.set(order=[3, 1, 2, 0, 4])
    assert ends(shown) == [0, 0]


def test_the_reader_s_sentence(mount):
    shown = mount(WordOrderMachine(order=[4, 3, 2, 1, 0]))
    field = shown.root.get_by_role("textbox")
    field.fill("<b>我爱你</b>")
    shown.settle()
    assert shown.get("sentence") == ["<b>我爱你</b>"] * 2
    assert shown.get("order") == []
    assert shown.root.locator(".wo-words button").all_inner_texts() == ["b", "我", "爱", "你", "b"]
    assert shown.root.locator(".wo-words b").count() == 0
    field.fill("  …")
    assert field.get_attribute("aria-invalid") == "true"
    assert shown.get("sentence") == ["<b>我爱你</b>"] * 2
    field.fill("你爱我")
    shown.settle()
    assert field.get_attribute("aria-invalid") is None
    assert "6 different sentences" in shown.root.locator(".anb-say").inner_text()


def test_traits_set_in_python_are_shown(mount):
    shown = mount(WordOrderMachine())
    before = shown.js("return el.querySelectorAll('svg')[1].innerHTML")
    shown.set(seed=7)
    assert shown.js("return el.querySelectorAll('svg')[1].innerHTML") != before
    shown.set(sentence=["鱼追鼬", "fish chase weasels"], order=[2, 1, 0])
    assert shown.root.locator(".wo-words button").all_inner_texts() == ["weasels", "chase", "fish"]
    assert shown.root.get_by_role("textbox").input_value() == "fish chase weasels"


def test_both_languages_switch_live(mount):
    shown = mount(WordOrderMachine(sentence=("我爱你", "I really love you"), order=[2, 1, 0]), lang="zh")
    assert shown.root.locator(".wo-words button").all_inner_texts() == ["你", "爱", "我"]
    shown.set(language="en")
    # an order that does not fit the sentence is the original one
    assert shown.root.locator(".wo-words button").all_inner_texts() == ["I", "really", "love", "you"]
    assert shown.root.get_by_role("button", name="shuffle").is_visible()
    drawn = shown.root.inner_text()
    assert not any("一" <= character <= "鿿" for character in drawn)


@pytest.mark.parametrize("lang", ["zh", "en"])
@pytest.mark.parametrize(("theme", "width"), [("light", 360), ("dark", 360), ("light", 800), ("dark", 1200)])
def test_fits_and_is_accessible(mount, lang, theme, width):
    long = (
        "昨天小鼬在河边追小鱼",
        "yesterday extraordinarily hungry weasels chased fish beside the wonderful river",
    )
    shown = mount(WordOrderMachine(sentence=long), lang=lang, theme=theme, width=width)
    assert shown.overflow() <= 0
    assert shown.violations() == []


def test_export_holds_words_and_pictures(mount):
    root = ElementTree.fromstring(mount(WordOrderMachine(), lang="zh").svg())
    ns = "{http://www.w3.org/2000/svg}"
    texts = ["".join(node.itertext()) for node in root.iter(f"{ns}text")]
    assert texts.count("鼬") == 4  # the words, the bag, and each picture
    assert len(list(root.iter(f"{ns}polyline"))) == 4


def test_clean_up_leaves_nothing(mount):
    shown = mount(WordOrderMachine())
    shown.js("cleanup()")
    assert shown.js("return [model.listening(), el.childElementCount]") == [0, 0]


@pytest.mark.parametrize(
    "action", ["model.set('order', i % 2 ? [4, 3, 2, 1, 0] : [])", "model.set('seed', i)"]
)
def test_interaction_is_quick(mount, action, record_property):
    """Aim 16 ms; the bound leaves room for what differs between machines."""
    cost = mount(WordOrderMachine()).cost(action)
    record_property("quiet_ms", cost)
    assert cost < 50


@pytest.mark.parametrize(
    ("traits", "error"),
    [
        ({"sentence": 5}, TypeError),
        ({"sentence": ("a", "b", "c")}, TypeError),
        ({"sentence": "…"}, ValueError),
        ({"order": [0, 0]}, ValueError),
        ({"order": [0, "1"]}, ValueError),
        ({"seed": -1}, ValueError),
    ],
)
def test_wrong_traits_are_explained(traits, error):
    (name,) = traits
    with pytest.raises(error, match=f"{name}: expected .*, found"):
        WordOrderMachine(**traits)


def test_a_str_is_both_languages():
    assert WordOrderMachine(sentence="我爱你").sentence == ["我爱你", "我爱你"]
    assert WordOrderMachine().sentence == [ZH, EN]


def test_module_is_small():
    """The kit aside, at most 25 KB: each instance stores its own copy."""
    assert len(WordOrderMachine._esm.encode()) - len(bundle("common.js").encode()) < 25_000
