"""The attention heatmap: what it refuses, what it shows, how it is steered."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from attnbook.widgets import AttentionHeatmap

QUERIES = [("那", "that"), ("鼬", "weasel"), ("跑", "runs")]
KEYS = ["it", "runs"]
NASTY = [
    "<img src=x onerror=alert(1)>",
    "&amp;</script>",
    "非常非常非常非常非常长的一个词元",
    "a" * 120,
    "👩‍👩‍👧‍👦",
    "שלום עולם",
    "",
    "\n",
    " ",
]


def softmax(scores):
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def weights(*shape, seed=0):
    return softmax(np.random.default_rng(seed).normal(size=shape) * 2)


def heatmap(**arguments):
    """2 layers, 3 heads, 3 queries, 2 keys, with alignments."""
    return AttentionHeatmap(weights(2, 3, 3, 2), QUERIES, KEYS, gold=[(1, 0), (2, 1)], **arguments)


@pytest.mark.parametrize("shape", [(3, 2), (4, 3, 2), (5, 4, 3, 2)])
def test_layers_and_heads_may_be_left_out(shape):
    array = weights(*shape)
    widget = AttentionHeatmap(array, QUERIES, KEYS)
    assert widget.weights.shape == (1,) * (4 - len(shape)) + shape
    np.testing.assert_allclose(widget.shown, array[(0,) * (len(shape) - 2)], rtol=1e-6)


def test_shown_follows_layer_and_head():
    widget = heatmap(layer=1, head=2)
    np.testing.assert_array_equal(widget.shown, widget.weights[1, 2])
    widget.head = "mean"
    np.testing.assert_allclose(widget.shown, widget.weights[1].mean(0))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_tensors_of_every_precision_with_gradients(dtype):
    scores = torch.randn(2, 4, 30, 30, generator=torch.manual_seed(0), requires_grad=True)
    widget = AttentionHeatmap(scores.softmax(-1).to(dtype), [str(i) for i in range(30)])
    assert widget.weights.dtype == np.float32
    assert len(widget.attention) == 4 * 2 * 4 * 30 * 30


def test_a_query_with_nothing_to_attend_is_a_row_of_zeros():
    assert AttentionHeatmap([[0.0, 0.0], [0.5, 0.5]], ["a", "b"]).shown[0].sum() == 0


def test_gold_as_pairs_and_as_matrix():
    pairs = [[0, 1], [2, 0]]
    matrix = np.zeros((3, 2), dtype=bool)
    matrix[0, 1] = matrix[2, 0] = True
    for gold in (pairs, matrix, torch.tensor(matrix), [(0, 1), (2, 0)]):
        assert AttentionHeatmap(weights(3, 2), QUERIES, KEYS, gold=gold).gold == pairs
    assert AttentionHeatmap(weights(3, 2), QUERIES, KEYS, gold=[]).gold == []


@pytest.mark.parametrize(
    ("attention", "error", "message"),
    [
        ([[0.5, 0.4]], ValueError, "expected rows that sum to 1 over the keys, found the sum 0.9 at (layer, head, query) (0, 0, 0)"),  # noqa: E501
        ([[1.2, -0.2]], ValueError, "expected weights of at least 0, found -0.2"),
        ([[np.nan, 1.0]], ValueError, "expected finite numbers, found NaN or infinity"),
        ([0.5, 0.5], ValueError, "expected shape ([[layers,] heads,] query, key), none of them 0, found (2,)"),  # noqa: E501
        (np.ones((0, 2)), ValueError, "expected shape ([[layers,] heads,] query, key), none of them 0, found (0, 2)"),  # noqa: E501
        (np.ones((1, 1, 1, 1, 1)), ValueError, "expected shape ([[layers,] heads,] query, key), none of them 0, found (1, 1, 1, 1, 1)"),  # noqa: E501
        ("ab", TypeError, "expected an array of numbers, found str"),
        ([[True]], TypeError, "expected an array of numbers, found list"),
    ],
)  # fmt: skip
def test_what_is_not_attention_is_refused(attention, error, message):
    with pytest.raises(error) as caught:
        AttentionHeatmap(attention, ["a"], ["b", "c"])
    assert str(caught.value) == f"attention: {message}"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"query_tokens": ["a"]}, ValueError, "query_tokens: expected 3 tokens, found 1"),
        ({"query_tokens": "abc"}, TypeError, "query_tokens: expected a list of tokens, found str"),
        ({"key_tokens": ["a", 1]}, TypeError, "key_tokens: expected a str or a pair (zh, en) at 1, found 1"),
        ({"key_tokens": None}, ValueError, "key_tokens: expected 2 tokens for the keys, found None"),
        ({"gold": [(3, 0)]}, ValueError, "gold: expected pairs below (3, 2), found [3, 0]"),
        ({"gold": [(-1, 0)]}, ValueError, "gold: expected pairs below (3, 2), found [-1, 0]"),
        (
            {"gold": [0, 1]},
            TypeError,
            "gold: expected pairs (query, key) of ints or a bool matrix (query, key)",
        ),
        ({"gold": np.ones((2, 2), bool)}, ValueError, "gold: expected shape (3, 2), found (2, 2)"),
        ({"layer": 1}, ValueError, "layer: expected an int in [0, 0], found 1"),
        ({"head": 4}, ValueError, 'head: expected an int in [0, 3] or "mean", found 4'),
        ({"head": "max"}, ValueError, "head: expected an int in [0, 3] or \"mean\", found 'max'"),
        ({"head": 1.0}, TypeError, 'head: expected an int in [0, 3] or "mean", found 1.0 (float)'),
        ({"view": "3d"}, ValueError, "view: expected one of 'matrix', 'lines', 'gallery', found '3d'"),
        ({"query": 3}, ValueError, "query: expected an int in [0, 2], found 3"),
        ({"key": 2}, ValueError, "key: expected an int in [0, 1], found 2"),
    ],
)
def test_wrong_arguments_are_explained(arguments, error, message):
    with pytest.raises(error) as caught:
        AttentionHeatmap(
            **{"attention": weights(4, 3, 2), "query_tokens": QUERIES, "key_tokens": KEYS, **arguments}
        )
    assert str(caught.value) == message


def test_a_wrong_assignment_changes_nothing():
    widget = heatmap(query=1)
    for name, value in (("layer", 2), ("head", 3), ("query", 3), ("key", 2)):
        before = getattr(widget, name)
        with pytest.raises(ValueError, match=f"{name}: expected "):
            setattr(widget, name, value)
        assert getattr(widget, name) == before


# In the page.


@pytest.mark.browser
@pytest.mark.parametrize("lang", ["zh", "en"])
def test_numbers_tokens_and_axes(mount, lang):
    widget = heatmap()
    root = mount(widget, lang=lang).root
    grid = root.get_by_role("grid")
    assert (
        grid.get_attribute("aria-label")
        == {
            "zh": "注意力权重 · 查询 query ↓ · 键 key →",
            "en": "attention weights · query ↓ · key →",
        }[lang]
    )
    assert grid.get_by_role("rowheader").all_inner_texts() == [pair[lang == "en"] for pair in QUERIES]
    assert grid.get_by_role("columnheader").all_inner_texts()[1:] == KEYS
    assert grid.get_by_role("gridcell").all_inner_texts() == [
        f"{value:.2f}" for value in widget.shown.flatten()
    ]


@pytest.mark.browser
def test_layer_and_head_are_chosen(mount):
    widget = heatmap()
    shown = mount(widget, lang="en")
    shown.root.get_by_role("combobox", name="Layer").select_option("1")
    shown.root.get_by_role("combobox", name="Head").select_option("2")
    shown.settle()
    widget.layer, widget.head = shown.get("layer"), shown.get("head")
    assert (widget.layer, widget.head) == (1, 2)
    cells = shown.root.get_by_role("gridcell")
    assert cells.all_inner_texts() == [f"{value:.2f}" for value in widget.shown.flatten()]
    shown.root.get_by_role("combobox", name="Head").select_option("mean")
    shown.settle()
    widget.head = shown.get("head")
    assert cells.all_inner_texts() == [f"{value:.2f}" for value in widget.shown.flatten()]
    assert "layer 1, mean of heads" in shown.root.inner_text()
    shown.set(layer=0, head=1)
    assert shown.root.get_by_role("combobox", name="Layer").input_value() == "0"
    assert "layer 0, head 1" in shown.root.inner_text()


@pytest.mark.browser
def test_only_what_there_is_can_be_chosen(mount):
    shown = mount(AttentionHeatmap([[1.0]], ["猫"]), lang="en", width=360)
    assert shown.root.get_by_role("combobox").count() == 0
    assert shown.root.get_by_role("radio", name="All heads").count() == 0
    assert shown.root.get_by_role("gridcell").all_inner_texts() == ["1.00"]
    assert shown.violations() == []


@pytest.mark.browser
def test_pointing_shows_the_number_and_marks_row_and_column(mount):
    widget = heatmap()
    shown = mount(widget, lang="zh")
    shown.root.get_by_role("gridcell").nth(2).hover()
    number = f"{widget.shown[1, 0]:.3f}"
    assert shown.root.locator(".anb-tip").inner_text() == f"查询“鼬” → 键“it”：{number}，标准对齐"
    assert shown.root.locator(".anb-hot").all_inner_texts() == ["it", "鼬"]
    assert shown.root.locator(".anb-band:visible").count() == 2
    assert (shown.get("query"), shown.get("key")) == (None, None)
    shown.root.locator(".anb-title").hover()
    assert shown.root.locator(".anb-hot").count() == 0


@pytest.mark.browser
def test_a_click_keeps_the_cell_and_a_second_lets_it_go(mount):
    shown = mount(heatmap(), lang="en")
    cell = shown.root.get_by_role("gridcell").nth(3)
    cell.click()
    shown.root.locator(".anb-title").hover()
    shown.settle()
    assert (shown.get("query"), shown.get("key")) == (1, 1)
    assert shown.root.locator(".anb-hot").all_inner_texts() == ["runs", "weasel"]
    assert shown.root.locator(".anb-say").inner_text().startswith("query “weasel” → key “runs”: 0.")
    cell.focus()
    shown.page.keyboard.press("Enter")
    assert (shown.get("query"), shown.get("key")) == (None, None)


@pytest.mark.browser
def test_a_chosen_query_or_key_is_summed_up_in_words(mount):
    widget = heatmap(query=2)
    shown = mount(widget, lang="zh")
    first, second = np.argsort(-widget.shown[2])
    said = shown.root.locator(".anb-say")
    assert said.inner_text() == (
        f"查询“跑”最看重：{KEYS[first]} {widget.shown[2, first]:.2f}，"
        f"{KEYS[second]} {widget.shown[2, second]:.2f}"
    )
    shown.set(query=None, key=0)
    assert said.inner_text().startswith("最看重键“it”的查询：")


@pytest.mark.browser
def test_gold_alignments_are_outlined(mount):
    shown = mount(heatmap(), lang="en")
    marked = shown.root.get_by_role("gridcell").evaluate_all(
        "all => all.map(e => e.classList.contains('anb-gold'))"
    )
    assert [i for i, on in enumerate(marked) if on] == [2, 5]
    assert shown.root.get_by_text("gold alignment").is_visible()
    plain = mount(AttentionHeatmap(weights(3, 2), QUERIES, KEYS), lang="en")
    assert plain.root.get_by_text("gold alignment").count() == 0


@pytest.mark.browser
def test_lines_join_queries_and_keys(mount):
    widget = heatmap(head=1)
    shown = mount(widget, lang="en")
    shown.root.get_by_role("radio", name="Lines").check()
    shown.settle()
    assert shown.get("view") == "lines"
    assert shown.root.get_by_role("grid").count() == 0
    paths = shown.root.locator(".hm-lines path:not([style*=none])")
    aligned = {(1, 0), (2, 1)}
    expected = sum(widget.shown[q, k] >= 0.02 or (q, k) in aligned for q in range(3) for k in range(2))
    assert paths.count() == expected
    queries, keys = (
        shown.root.get_by_role("group", name="queries"),
        shown.root.get_by_role("group", name="keys"),
    )
    queries.get_by_role("button", name="weasel").click()
    shown.settle()
    assert (shown.get("query"), shown.get("key")) == (1, None)
    opacity = "all => all.filter(e => e.q === 1).every(e => e.getAttribute('stroke-opacity') >= 0.3)"
    assert paths.evaluate_all(opacity)
    assert paths.evaluate_all(opacity.replace("=== 1).every(e =>", "!== 1).some(e =>")) is False
    assert queries.get_by_role("button", name="weasel").get_attribute("aria-pressed") == "true"
    shown.page.keyboard.press("ArrowDown")
    assert shown.page.evaluate("document.activeElement.textContent") == "runs"
    shown.page.keyboard.press("ArrowRight")
    shown.page.keyboard.press("Enter")
    shown.settle()
    assert (shown.get("query"), shown.get("key")) == (None, 1)
    assert keys.locator("[tabindex='0']").count() == 1
    assert queries.locator("[tabindex='0']").count() == 0
    assert shown.violations() == []


@pytest.mark.browser
def test_gallery_shows_all_heads_and_their_mean(mount):
    widget = heatmap(view="gallery")
    shown = mount(widget, lang="en")
    buttons = shown.root.get_by_role("group", name="all layers and heads").get_by_role("button")
    assert buttons.count() == 2 * (3 + 1)
    buttons.nth(5).click()
    shown.settle()
    assert (shown.get("layer"), shown.get("head")) == (1, 1)
    widget.layer, widget.head = 1, 1
    assert shown.root.get_by_role("gridcell").all_inner_texts() == [
        f"{v:.2f}" for v in widget.shown.flatten()
    ]
    shown.page.keyboard.press("ArrowRight")
    shown.page.keyboard.press("ArrowRight")
    shown.page.keyboard.press("ArrowRight")  # the last of its row: stays
    shown.page.keyboard.press("ArrowUp")
    shown.page.keyboard.press("Enter")
    assert (shown.get("layer"), shown.get("head")) == (0, "mean")
    shown.settle()
    assert buttons.evaluate_all("all => all.map(e => e.getAttribute('aria-pressed')).indexOf('true')") == 3
    assert shown.violations() == []


@pytest.mark.browser
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_gallery_pixels_are_the_colours_of_the_matrix(mount, theme):
    shown = mount(heatmap(view="gallery"), theme=theme)
    pixels = shown.js(
        """const c = el.querySelector(".hm-gal canvas");
        return [...c.getContext("2d").getImageData(0, 0, c.width, c.height).data]"""
    )
    colours = shown.root.get_by_role("gridcell").evaluate_all(
        "all => all.map(e => e.style.backgroundColor.match(/\\d+/g).map(Number))"
    )
    assert np.reshape(pixels, (6, 4))[:, :3].tolist() == colours


@pytest.mark.browser
def test_colours_can_be_stretched_to_the_largest_weight(mount):
    shown = mount(AttentionHeatmap(np.full((4, 4), 0.25), list("abcd")), lang="en")
    cell = shown.root.get_by_role("gridcell").first
    before = cell.evaluate("e => e.style.backgroundColor")
    shown.root.get_by_role("switch", name="stretch colours").check()
    assert cell.evaluate("e => e.style.backgroundColor") != before
    assert shown.root.locator(".anb-lg span").last.inner_text() == "0.25"


@pytest.mark.browser
@pytest.mark.parametrize("view", ["matrix", "lines", "gallery"])
@pytest.mark.parametrize("width", [360, 1000])
def test_all_kinds_of_tokens_are_text_and_fit(mount, view, width):
    shown = mount(AttentionHeatmap(weights(2, 9, 9), NASTY, view=view), lang="en", width=width)
    assert shown.root.locator("img, script").count() == 0
    if view == "lines":
        labels = shown.root.get_by_role("group", name="queries").get_by_role("button")
    else:
        labels = shown.root.get_by_role("rowheader")
    assert labels.evaluate_all("all => all.map(e => e.textContent)") == [*NASTY[:6], "∅", "⏎", "␣"]
    assert shown.overflow() == 0
    assert shown.violations() == []


@pytest.mark.browser
@pytest.mark.parametrize(("lang", "theme", "width"), [("zh", "dark", 360), ("en", "light", 800)])
def test_no_accessibility_violation(mount, lang, theme, width):
    shown = mount(heatmap(query=1, key=0), lang=lang, theme=theme, width=width)
    assert shown.violations() == []
    assert shown.overflow() == 0


@pytest.mark.browser
@pytest.mark.parametrize("view", ["matrix", "lines", "gallery"])
def test_export_of_each_view(mount, view):
    shown = mount(heatmap(view=view, title=("谁看谁", "Who looks at whom")), lang="zh", theme="dark")
    svg = shown.svg()
    tree = ElementTree.fromstring(svg)
    texts = [node.text for node in tree.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[0] == "谁看谁"
    assert {"鼬", "runs", "标准对齐"} <= set(texts)
    assert not re.search(r"var\(|currentColor|class=|(?:href|src)=\"(?!data:)", svg)
    images = list(tree.iter("{http://www.w3.org/2000/svg}image"))
    assert len(images) == (9 if view == "gallery" else 1)  # the legend is one
    assert (len(list(tree.iter("{http://www.w3.org/2000/svg}path"))) > 0) == (view == "lines")


@pytest.mark.browser
@pytest.mark.parametrize("view", ["matrix", "lines", "gallery"])
@pytest.mark.parametrize("width", [360, 1000])
def test_six_layers_of_eight_heads_over_forty_tokens(mount, view, width, record_property):
    tokens = [f"token{i}" for i in range(40)]
    shown = mount(AttentionHeatmap(weights(6, 8, 40, 40), tokens, view=view), width=width)
    assert shown.overflow() == 0
    cost = shown.cost("model.set('head', (i + 1) % 8)")
    record_property("quiet_ms", cost)
    assert cost < 50
