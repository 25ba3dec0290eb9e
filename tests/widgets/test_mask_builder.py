"""The mask builder: the masks are those of the library, and torch's two conventions are told as they are."""

import itertools
import re
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attnbook.attention import causal_mask, padding_mask, scaled_dot_product_attention
from attnbook.widgets import MaskBuilder

SQUARES = ("scores", "mask", "weights")


def words_of(builder):
    return len(builder.sentences[builder.sentence])


def scores_and_values(builder):
    """In the order of the places; the default example has its padding at the end."""
    scores = torch.tensor(builder.scores[builder.sentence], dtype=torch.float64)
    return scores, torch.tensor(builder.values[builder.sentence], dtype=torch.float64)


# ---------------------------------------------------------------------- in Python


@pytest.mark.parametrize("sentence", [0, 1, 2])
def test_parts_of_the_mask_are_those_of_the_library(sentence):
    builder = MaskBuilder(sentence=sentence)
    n = builder.size
    ids = torch.tensor([[5] * words_of(builder) + [0] * (n - words_of(builder))])
    assert builder.mask.all()
    builder.causal = True
    assert torch.equal(builder.mask, causal_mask(n))
    builder.padding = True
    assert torch.equal(builder.mask, (causal_mask(n) & padding_mask(ids))[0, 0])
    builder.causal, builder.window = False, 1
    place = torch.arange(n)
    near = (place[:, None] - place).abs() <= 1
    assert torch.equal(builder.mask, (near & padding_mask(ids))[0, 0])


def test_padding_at_the_beginning_moves_words_with_their_scores_and_values():
    right, left = (MaskBuilder(sentence=1, padding=True, side=side) for side in ("right", "left"))
    moved = torch.arange(6).roll(2)
    torch.testing.assert_close(left.weights, right.weights[moved][:, moved])
    torch.testing.assert_close(left.output, right.output[moved])
    assert left.mask[0].tolist() == [False, False, True, True, True, True]


def test_causal_mask_with_padding_at_the_beginning_leaves_rows_of_zeros():
    builder = MaskBuilder(sentence=1, side="left", causal=True, padding=True)
    empty = ~builder.mask.any(dim=-1)
    assert empty.tolist() == [True, True, False, False, False, False]
    assert builder.weights[:2].abs().sum() == 0
    torch.testing.assert_close(builder.weights.sum(-1)[2:], torch.ones(4, dtype=torch.float64))


def test_cells_set_by_hand_overrule_the_rest():
    builder = MaskBuilder(causal=True, hand=[(0, 3, True), (5, 5, False), (0, 3, True)])
    assert builder.hand == [[0, 3, True], [5, 5, False]]
    expected = causal_mask(6)
    expected[0, 3], expected[5, 5] = True, False
    assert torch.equal(builder.mask, expected)


@pytest.mark.parametrize("passed", ["bool", "float"])
@pytest.mark.parametrize("inverted", [False, True])
def test_sdpa_reads_the_mask_as_torch_does(passed, inverted):
    builder = MaskBuilder(sentence=1, causal=True, hand=[(3, k, False) for k in range(6)])
    builder.passed, builder.inverted = passed, inverted
    scores, values = scores_and_values(builder)
    eye = torch.eye(6, dtype=torch.float64)
    want = F.scaled_dot_product_attention(
        scores[None] * 6**0.5, eye[None], values[None], attn_mask=builder.attn_mask
    )[0]
    torch.testing.assert_close(builder.output, want, atol=1e-6, rtol=0)
    if passed == "bool":
        query = scores * 6**0.5
        want = scaled_dot_product_attention(query, eye, values, builder.attn_mask)[1]
        torch.testing.assert_close(builder.weights, want)


@pytest.mark.parametrize("passed", ["bool", "float"])
@pytest.mark.parametrize("inverted", [False, True])
def test_mha_reads_the_mask_as_torch_does(passed, inverted):
    """Its weights, with projections that reproduce the scores; a row with nothing to attend is NaN."""
    builder = MaskBuilder(sentence=1, causal=True, library="mha", passed=passed, inverted=inverted)
    builder.hand = [(3, k, False) for k in range(6)]
    module = nn.MultiheadAttention(6, 1, bias=False, batch_first=True, dtype=torch.float64)
    scores, _ = scores_and_values(builder)
    eye = torch.eye(6, dtype=torch.float64)
    with torch.no_grad():
        module.in_proj_weight.copy_(torch.cat([eye, eye, eye]))
    query, key = scores[None] * 6**0.5, eye[None]
    weights = module(query, key, key, attn_mask=builder.attn_mask)[1][0]
    torch.testing.assert_close(builder.weights, weights, equal_nan=True)
    is_empty = builder.weights.isnan().all(dim=-1)
    # as it was meant, the row that was emptied by hand; the wrong way round, the last one of a causal mask
    reads_right = passed == "float" or inverted
    assert is_empty.nonzero().flatten().tolist() == ([3] if reads_right else [5])


def test_own_sentences_scores_and_values():
    draw = np.random.default_rng(0)
    builder = MaskBuilder(
        [["a", "b"], [("甲", "c")]], scores=draw.normal(size=(2, 2, 2)), values=torch.ones(2, 2, 5)
    )
    assert builder.size == 2
    assert builder.output.shape == (2, 5)
    torch.testing.assert_close(builder.output, torch.ones(2, 5, dtype=torch.float64))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"sentences": "abc"}, TypeError, "sentences: expected a list of sentences, found str"),
        ({"sentences": []}, ValueError, "sentences: expected 1 to 5 of them, found 0"),
        ({"sentences": [[]]}, ValueError, "sentences[0]: expected 1 to 8 tokens, found 0"),
        ({"sentences": [["a"] * 9]}, ValueError, "sentences[0]: expected 1 to 8 tokens, found 9"),
        ({"scores": np.ones((3, 6, 5))}, ValueError, "scores: expected shape (3, 6, 6), found (3, 6, 5)"),
        ({"values": np.ones((3, 5, 2))}, ValueError, "values: expected shape (3, 6, d), found (3, 5, 2)"),
        ({"values": np.ones((3, 6, 9))}, ValueError, "values: expected 1 to 8 features, found 9"),
        ({"sentence": 3}, ValueError, "sentence: expected an int in [0, 2], found 3"),
        ({"side": "top"}, ValueError, "side: expected one of 'right', 'left', found 'top'"),
        ({"causal": 1}, TypeError, "causal: expected True or False, found 1 (int)"),
        ({"window": 8}, ValueError, "window: expected an int in [0, 7] or None, found 8"),
        ({"hand": [(6, 0, True)]}, ValueError, "hand: expected indices in [0, 5], found (6, 0, True)"),
        ({"hand": [(0, 0)]}, TypeError, "hand: expected a list of (query, key, may attend), found (0, 0)"),
        ({"library": "jax"}, ValueError, "library: expected one of 'sdpa', 'mha', found 'jax'"),
    ],
)
def test_wrong_arguments_are_explained(arguments, error, message):
    with pytest.raises(error) as caught:
        MaskBuilder(**arguments)
    assert str(caught.value) == message


def test_description_names_the_sentences():
    data, _ = MaskBuilder()._repr_mimebundle_()
    assert "小 鼬 在 追 红 球" in data["text/plain"]
    assert "weasels eat fish" in data["text/html"]


# ---------------------------------------------------------------------- in the page


def cells(shown, name):
    grid = shown.root.get_by_role("grid", name=re.compile(name))
    return grid.get_by_role("gridcell")


def numbers(texts):
    return [float(text.replace("−", "-")) for text in texts]


PLAIN = {"sentence": 0, "side": "right", "causal": False, "padding": False, "window": None, "hand": []}
PLAIN["passed"] = "bool"
STATES = [
    {},
    {"sentence": 1, "causal": True},
    {"sentence": 1, "padding": True, "window": 2},
    {"sentence": 2, "causal": True, "padding": True, "side": "left"},
    {"sentence": 1, "causal": True, "passed": "float", "library": "mha", "hand": [[0, 0, False]]},
]


@pytest.mark.browser
def test_page_and_python_agree(mount):
    """Every combination of a few states with both libraries, and both ways to hand the mask over."""
    builder = MaskBuilder()
    shown = mount(builder)
    for state, library, inverted in itertools.product(STATES, ("sdpa", "mha"), (False, True)):
        state = {**PLAIN, **state, "library": library, "inverted": inverted}
        for name, value in state.items():
            setattr(builder, name, value)
        shown.set(**state)
        got = shown.js(
            """return ["mask, as|mask M", "^weights", "^output"].map(name => {
              const called = g => new RegExp(name).test(g.getAttribute("aria-label"));
              const grid = [...el.querySelectorAll("[role=grid]")].find(called);
              return [...grid.querySelectorAll("[role=gridcell]")].map(c => c.textContent);
            })"""
        )
        given = builder.attn_mask
        if state["passed"] == "bool":
            assert got[0] == ["T" if value else "F" for value in given.flatten().tolist()]
        else:
            assert got[0] == ["0" if value == 0 else "−∞" for value in given.flatten().tolist()]
        for texts, want in zip(got[1:], (builder.weights, builder.output), strict=True):
            np.testing.assert_allclose(
                [float(text.replace("−", "-")) for text in texts], want.flatten(), atol=0.0051
            )


@pytest.mark.browser
def test_a_click_and_a_key_change_a_cell(mount):
    builder = MaskBuilder(causal=True)
    shown = mount(builder, lang="en")
    mask = cells(shown, "mask, as handed over")
    mask.nth(3).click()
    shown.settle()
    assert shown.get("hand") == [[0, 3, True]]
    builder.hand = shown.get("hand")
    assert numbers(cells(shown, "^weights").all_inner_texts()) == pytest.approx(
        builder.weights.flatten().tolist(), abs=0.0051
    )
    assert "anb-gold" in mask.nth(3).get_attribute("class")
    mask.nth(3).press("ArrowLeft")
    mask.nth(2).press("Enter")
    mask.nth(2).press("ArrowDown")
    mask.nth(8).press(" ")
    shown.settle()
    assert shown.get("hand") == [[0, 3, True], [0, 2, True], [1, 2, True]]
    mask.nth(3).click()  # back to what it was: no longer an edit
    assert shown.get("hand") == [[0, 2, True], [1, 2, True]]
    shown.settle()
    shown.root.get_by_role("button", name="undo 2 by hand").click()
    assert shown.get("hand") == []


@pytest.mark.browser
@pytest.mark.parametrize("lang", ["zh", "en"])
def test_every_control(mount, lang):
    say = (lambda zh, en: zh) if lang == "zh" else (lambda zh, en: en)
    shown = mount(MaskBuilder(), lang=lang)
    shown.root.get_by_role("switch", name=say("因果", "causal")).check()
    shown.root.get_by_role("switch", name=re.compile(say("^填充", "^padding"))).check()
    shown.root.get_by_role("radio", name=say("开头", "beginning")).check()
    shown.root.get_by_role("radio").nth(1).check()
    shown.settle()
    assert [shown.get(name) for name in ("causal", "padding", "side", "sentence")] == [True, True, "left", 1]
    facts = shown.root.locator(".mk-facts dd").all_inner_texts()
    assert facts == ["0%", "0%", "2 / 6"]
    assert say("不是 NaN", "not NaN") in shown.root.locator(".mk-note").inner_text()
    shown.root.get_by_role("slider").fill("1")
    assert shown.get("window") == 1
    shown.root.get_by_role("slider").fill("5")
    assert shown.get("window") is None
    shown.root.get_by_role("radio", name="nn.MultiheadAttention").check()
    shown.settle()
    assert shown.get("library") == "mha"
    assert say("读反了", "wrong way round") in shown.root.locator(".mk-note").inner_text()
    shown.root.get_by_role("switch", name="~mask").check()
    shown.settle()
    assert shown.get("inverted") is True
    assert "NaN" in shown.root.locator(".mk-note").inner_text()
    assert "attn_mask=~mask" in shown.root.locator("pre").inner_text()
    shown.root.get_by_role("radio", name=say("加性", "additive")).check()
    shown.settle()
    assert shown.get("passed") == "float"
    assert shown.root.get_by_role("switch", name="~mask").is_disabled()
    assert "attn_mask=M" in shown.root.locator("pre").inner_text()


@pytest.mark.browser
def test_the_wrong_polarity_is_told_with_what_leaks(mount):
    builder = MaskBuilder(causal=True, library="mha")
    shown = mount(builder, lang="en")
    facts = shown.root.locator(".mk-facts dd").all_inner_texts()
    assert facts[0] == "NaN"  # the last query has nothing left to see
    builder.hand = [[5, k, k < 5] for k in range(6)]
    shown.set(hand=builder.hand)
    future = builder.weights.triu(1).sum(-1).mean()
    assert shown.root.locator(".mk-facts dd").first.inner_text() == f"{100 * future:.0f}%"
    assert "mk-bad" in shown.root.locator(".mk-note").get_attribute("class")


@pytest.mark.browser
def test_a_cell_says_what_it_is(mount):
    shown = mount(MaskBuilder(causal=True), lang="en")
    tip = shown.root.locator(".anb-tip")
    cells(shown, "mask, as handed over").nth(1).hover()
    assert tip.inner_text() == "query little → key weasels\nF: masked"
    cells(shown, "^weights").nth(1).hover()
    assert "e^−∞ ÷" in tip.inner_text()
    cells(shown, "^output").first.hover()
    assert tip.inner_text().startswith("little, 1: 1.00·(")


@pytest.mark.browser
def test_code_says_how_the_mask_is_made(mount):
    shown = mount(MaskBuilder(causal=True, padding=True, window=2, hand=[(1, 2, True)]), lang="en")
    assert shown.root.locator("pre").inner_text() == (
        "mask = causal_mask(6) & padding_mask(tokens) & (distance <= 2)\nmask[..., 1, 2] = True\n"
        "F.scaled_dot_product_attention(\n    q, k, v, attn_mask=mask)"
    )


@pytest.mark.browser
def test_tokens_are_text(mount):
    nasty = ["<img src=x onerror=alert(1)>", "非常非常长的一个词元", "שלום", "👩‍🚀"]
    shown = mount(MaskBuilder([nasty, ["a"]]), width=360)
    assert shown.root.locator("img").count() == 0
    assert shown.overflow() == 0


@pytest.mark.browser
@pytest.mark.parametrize(("longest", "features"), [(1, 1), (8, 8)])
def test_all_sizes_fit(mount, longest, features):
    sentences = [[f"word{i}" for i in range(longest)], ["one"]]
    builder = MaskBuilder(sentences, values=np.ones((2, longest, features)))
    for width in (360, 1200):
        assert mount(builder, lang="zh", width=width).overflow() == 0


@pytest.mark.browser
@pytest.mark.parametrize(("lang", "theme", "width"), [("zh", "light", 360), ("en", "dark", 900)])
def test_no_accessibility_violation(mount, lang, theme, width):
    builder = MaskBuilder(sentence=1, causal=True, padding=True, side="left", library="mha", inverted=True)
    assert mount(builder, lang=lang, theme=theme, width=width).violations() == []


@pytest.mark.browser
def test_export_holds_all_matrices(mount):
    shown = mount(MaskBuilder(sentence=1, causal=True), lang="zh")
    texts = [
        node.text for node in ElementTree.fromstring(shown.svg()).iter("{http://www.w3.org/2000/svg}text")
    ]
    assert texts[0] == "掩码搭建器：谁可以看谁"
    assert texts.count("T") == 21
    assert texts.count("F") == 15
    assert {"权重 A = softmax", "值 V", "输出 O = A V", "−3", "鼬"} <= set(texts)


@pytest.mark.browser
def test_language_and_theme_switch_live(mount):
    shown = mount(MaskBuilder(sentence=1), lang="zh")
    shown.page.evaluate("Object.assign(document.documentElement, {lang: 'en'}).dataset.theme = 'dark'")
    shown.settle()
    text = shown.root.inner_text()
    assert "weasels" in text
    assert "weight on padding" in text
    assert "鼬" not in text


@pytest.mark.browser
def test_a_change_is_drawn_well_within_a_frame(mount, record_property):
    shown = mount(MaskBuilder([[f"w{i}" for i in range(8)], ["a"]]))
    cost = shown.cost("model.set('causal', i % 2 === 0)")
    record_property("quiet_ms", cost)
    assert cost < 50
    shown.js("cleanup()")
    assert shown.js("return model.listening()") == 0
