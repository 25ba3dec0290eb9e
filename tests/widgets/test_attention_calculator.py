"""The attention calculator: torch's numbers in the page, edits back in Python."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from attnbook.widgets import AttentionCalculator

# The numbers of the default example, worked by hand for the query 追: q = [2, 0, 1, 1].
SCORES = [5, 1, 3]
WEIGHTS = [0.6652, 0.0900, 0.2447]
MATRICES = ["Q", "K", "V", "scores", "divided", "masked", "weights", "output"]


def random_calculator(seed=0, tokens=4, d_model=3, d_k=2, d_v=5, **arguments):
    draw = np.random.default_rng(seed).normal
    return AttentionCalculator(
        X=draw(size=(tokens, d_model)),
        W_Q=draw(size=(d_model, d_k)),
        W_K=draw(size=(d_model, d_k)),
        W_V=draw(size=(d_model, d_v)),
        **arguments,
    )


def test_default_example_is_the_one_worked_by_hand():
    calculator = AttentionCalculator()
    assert [pair[0] for pair in calculator.tokens] == ["鼬", "追", "球"]
    np.testing.assert_allclose(
        calculator.weights[1], np.exp(np.array(SCORES) / 2) / np.exp(np.array(SCORES) / 2).sum()
    )
    np.testing.assert_allclose(calculator.weights[1], WEIGHTS, atol=1e-4)
    np.testing.assert_allclose(calculator.output[1], [0.6652, 0.0900, 0.2447, 1.0752], atol=1e-4)


@pytest.mark.parametrize("mask", [None, "causal"])
def test_output_is_that_of_torch(mask):
    calculator = random_calculator(mask=mask)
    x, w_q, w_k, w_v = (
        torch.tensor(getattr(calculator, name)).double() for name in ("X", "W_Q", "W_K", "W_V")
    )
    want = F.scaled_dot_product_attention(
        (x @ w_q)[None], (x @ w_k)[None], (x @ w_v)[None], is_causal=mask == "causal"
    )[0]
    torch.testing.assert_close(calculator.output, want, atol=1e-6, rtol=0)  # the fused kernel rounds
    torch.testing.assert_close(calculator.weights.sum(-1), torch.ones(4, dtype=torch.float64))


def test_without_scaling_the_scores_are_taken_as_they_are():
    calculator = AttentionCalculator(scaled=False)
    torch.testing.assert_close(calculator.weights[1], torch.tensor(SCORES, dtype=torch.float64).softmax(0))


def test_traits_take_arrays_and_tensors():
    calculator = AttentionCalculator()
    calculator.X = np.ones((3, 4), dtype=np.float32)
    calculator.W_V = torch.zeros(4, 4, requires_grad=True)
    assert calculator.X == [[1.0] * 4] * 3
    assert calculator.output.abs().max() == 0


def test_missing_matrices_are_made_to_fit_and_the_same_each_time():
    first, second = AttentionCalculator(X=np.eye(2, 3)), AttentionCalculator(X=np.eye(2, 3))
    assert np.shape(first.W_Q) == (3, 3)
    assert first.W_K == second.W_K
    assert first.W_Q != first.W_K
    assert first.tokens == [["x1", "x1"], ["x2", "x2"]]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"X": [1, 2]}, ValueError, "X: expected shape (tokens, d_model), found (2,)"),
        ({"X": np.ones((9, 2))}, ValueError, "X: expected 1 to 8 rows and columns, found shape (9, 2)"),
        ({"X": [[np.nan]]}, ValueError, "X: expected finite numbers, found NaN or infinity"),
        ({"X": "abc"}, TypeError, "X: expected an array of numbers, found str"),
        ({"W_Q": np.ones((3, 2))}, ValueError, "W_Q: expected shape (4, columns), found (3, 2)"),
        ({"W_K": np.ones((4, 2))}, ValueError, "W_K: expected the shape of W_Q (4, 4), found (4, 2)"),
        ({"tokens": ["a"]}, ValueError, "tokens: expected 3 tokens, found 1"),
        ({"mask": "padding"}, ValueError, "mask: expected None or 'causal', found 'padding'"),
        ({"scaled": 1}, TypeError, "scaled: expected True or False, found 1 (int)"),
        ({"query": 3}, ValueError, "query: expected an int in [0, 2], found 3"),
    ],
)
def test_wrong_arguments_are_explained(arguments, error, message):
    with pytest.raises(error) as caught:
        AttentionCalculator(**arguments)
    assert str(caught.value) == message


def test_wrong_assignments_are_explained_and_change_nothing():
    calculator = AttentionCalculator()
    before = calculator.X
    with pytest.raises(ValueError, match=re.escape("X: expected shape (3, 4), found (2, 4)")):
        calculator.X = np.ones((2, 4))
    with pytest.raises(ValueError, match=re.escape("query: expected an int in [0, 2], found 5")):
        calculator.query = 5
    assert before == calculator.X
    assert calculator.query == 1


def test_description_names_the_sentence():
    data, _ = AttentionCalculator()._repr_mimebundle_()
    assert "鼬 追 球" in data["text/plain"]
    assert "weasel chases ball" in data["text/html"]


# In the page.


@pytest.mark.browser
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("scaled", [False, True])
def test_page_and_torch_agree(mount, causal, scaled):
    calculator = random_calculator(seed=3, mask="causal" if causal else None, scaled=scaled)
    shown = mount(calculator)
    got = shown.js(
        """const names = ["X", "W_Q", "W_K", "W_V", "causal", "scaled"];
        const {weights, output} = module.attention(Object.fromEntries(names.map(n => [n, model.get(n)])));
        return {weights, output}"""
    )
    np.testing.assert_allclose(got["weights"], calculator.weights, atol=1e-6)
    np.testing.assert_allclose(got["output"], calculator.output, atol=1e-6)
    cells = (
        shown.root.get_by_role("grid", name=re.compile("^weights")).get_by_role("gridcell").all_inner_texts()
    )
    assert cells == [f"{value:.2f}" for value in calculator.weights.flatten()]


@pytest.mark.browser
@pytest.mark.parametrize("lang", ["zh", "en"])
def test_every_matrix_is_shown_and_the_row_is_written_out(mount, lang):
    shown = mount(AttentionCalculator(), lang=lang)
    assert shown.root.get_by_role("grid").count() == len(MATRICES)
    names = [grid.get_attribute("aria-label") for grid in shown.root.get_by_role("grid").all()]
    assert (
        names[6]
        == {
            "zh": "权重 A = softmax · 查询 query ↓ · 键 key →",
            "en": "weights A = softmax · query ↓ · key →",
        }[lang]
    )
    follow = shown.root.locator(".calc-follow").inner_text()
    assert "q₂ = [2.00, 0.00, 1.00, 1.00]" in follow
    assert "2·2 + 0·0 + 1·0 + 1·1 = 5.00" in follow
    assert "e^2.50 = 12.18" in follow
    assert "o₂ = 0.67·v₁ + 0.09·v₂ + 0.24·v₃" in follow
    assert "0.67·[1.00, 0.00, 0.00, 1.50] + 0.09·[0.00, 1.00, 0.00, −0.50]" in follow
    assert "= [0.67, 0.09, 0.24, 1.08]" in follow
    said = shown.root.locator(".anb-say").inner_text()
    assert (
        said
        == {
            "zh": "查询“追”最看重“鼬”：权重 0.67。",
            "en": "The query “chases” attends most to “weasel”: weight 0.67.",
        }[lang]
    )


@pytest.mark.browser
def test_an_edited_number_moves_every_later_matrix(mount):
    calculator = AttentionCalculator()
    shown = mount(calculator, lang="en")
    cell = shown.root.get_by_label("X (token vectors) [chases, 1]")
    cell.fill("-1.5")
    shown.settle()
    calculator.X = shown.get("X")
    assert calculator.X == [[1, 0, 0, 1], [-1.5, 1, 0, 1], [0, 0, 1, 1]]
    for name, want in (("weights", calculator.weights), ("output", calculator.output)):
        texts = (
            shown.root.get_by_role("grid", name=re.compile(f"^{name}"))
            .get_by_role("gridcell")
            .all_inner_texts()
        )
        assert [float(text.replace("−", "-")) for text in texts] == pytest.approx(
            want.flatten().tolist(), abs=0.0051
        )
    cell.press("ArrowUp")
    assert shown.get("X")[1][0] == -1
    assert shown.js("return model.saved") == 2


@pytest.mark.browser
def test_mask_hides_the_future(mount):
    shown = mount(AttentionCalculator(), lang="en")
    shown.root.get_by_role("switch", name="causal mask").check()
    shown.settle()
    assert shown.get("causal") is True
    masked = shown.root.get_by_role("grid", name=re.compile("^causal mask")).get_by_role("gridcell")
    assert [text == "−∞" for text in masked.all_inner_texts()] == [False, True, True, False, False, True] + [
        False
    ] * 3
    weights = shown.root.get_by_role("grid", name=re.compile("^weights")).get_by_role("gridcell")
    assert weights.all_inner_texts()[:3] == ["1.00", "0.00", "0.00"]
    assert "o₂ = 0.88·v₁ + 0.12·v₂ + 0.00·v₃" in shown.root.locator(".calc-follow").inner_text()


@pytest.mark.browser
def test_scaling_off_makes_the_weights_sharper(mount):
    shown = mount(AttentionCalculator(), lang="en")
    shown.root.get_by_role("switch", name="divide by").uncheck()
    shown.settle()
    assert shown.get("scaled") is False
    assert "o₂ = 0.87·v₁ + 0.02·v₂ + 0.12·v₃" in shown.root.locator(".calc-follow").inner_text()
    assert shown.root.get_by_role("grid", name=re.compile("^not scaled")).count() == 1


@pytest.mark.browser
def test_query_is_chosen_in_the_bar_or_by_a_click_on_its_row(mount):
    shown = mount(AttentionCalculator(), lang="zh")
    shown.root.get_by_role("radio", name="球").check()
    assert shown.get("query") == 2
    shown.settle()
    assert "跟着查询“球”走一遍" in shown.root.inner_text()
    shown.root.get_by_role("grid", name=re.compile("^权重")).get_by_role("gridcell").nth(1).click()
    assert shown.get("query") == 0
    shown.settle()
    assert shown.root.get_by_role("radio", name="鼬").is_checked()
    shown.set(query=1)
    assert "q₂ =" in shown.root.locator(".calc-follow").inner_text()


@pytest.mark.browser
def test_a_cell_says_how_it_was_computed(mount):
    shown = mount(AttentionCalculator(), lang="en")
    tip = shown.root.locator(".anb-tip")
    expected = {
        "Q = X W_Q": "Q[weasel, 1] = x₁·W_Q[:, 1]\n= 1·0 + 0·2 + 0·1 + 1·0\n= 0.00",
        "scores": "query weasel → key weasel\nq₁·k₁ = 0·2 + 2·0 + 0·0 + 1·1 = 1.00",
        "divided": "query weasel → key weasel\n1.00 ÷ 2.00 = 0.50",
        "weights": "query weasel → key weasel\ne^0.50 ÷ 15.48 = 0.107",
        "output": "O[weasel, 1] = 0.11·1 + 0.79·0 + 0.11·0\n= 0.11",
    }
    for name, text in expected.items():
        shown.root.get_by_role("grid", name=re.compile(f"^{name}")).get_by_role("gridcell").first.focus()
        assert tip.inner_text() == text


@pytest.mark.browser
def test_reset_and_randomise(mount):
    shown = mount(AttentionCalculator(), lang="en")
    start = {name: shown.get(name) for name in ("X", "W_Q", "W_K", "W_V")}
    shown.root.get_by_role("button", name="Randomise").click()
    for name, matrix in start.items():
        assert np.shape(shown.get(name)) == np.shape(matrix)
        assert np.abs(shown.get(name)).max() <= 2
    assert shown.get("W_Q") != start["W_Q"]
    shown.root.get_by_role("button", name="Reset").click()
    assert {name: shown.get(name) for name in start} == start


@pytest.mark.browser
def test_tokens_are_text(mount):
    nasty = ["<img src=x onerror=alert(1)>", "非常非常长的一个词元", "שלום", "👩‍🚀"]
    shown = mount(AttentionCalculator(np.eye(4), tokens=nasty), width=360)
    assert shown.root.locator("img").count() == 0
    assert nasty[0] in shown.root.get_by_role("rowheader").first.get_attribute("title")
    assert shown.overflow() == 0


@pytest.mark.browser
@pytest.mark.parametrize(("tokens", "d_model", "d_k", "d_v"), [(1, 1, 1, 1), (8, 8, 8, 8), (2, 5, 3, 1)])
@pytest.mark.parametrize("width", [360, 1200])
def test_all_sizes_fit(mount, tokens, d_model, d_k, d_v, width):
    shown = mount(random_calculator(1, tokens, d_model, d_k, d_v, mask="causal"), lang="zh", width=width)
    assert shown.overflow() == 0


@pytest.mark.browser
@pytest.mark.parametrize(("lang", "theme", "width"), [("zh", "light", 360), ("en", "dark", 800)])
def test_no_accessibility_violation(mount, lang, theme, width):
    shown = mount(AttentionCalculator(mask="causal"), lang=lang, theme=theme, width=width)
    assert shown.violations() == []


@pytest.mark.browser
def test_export_holds_all_numbers(mount):
    shown = mount(AttentionCalculator(), lang="zh")
    texts = [
        node.text for node in ElementTree.fromstring(shown.svg()).iter("{http://www.w3.org/2000/svg}text")
    ]
    assert texts[0] == "注意力计算器：改一个数，看每一步"
    assert texts.count("−1") == 2  # the negative input and the legend
    assert {"权重 A = softmax", "0.67", "−0.18", "追"} <= set(texts)


@pytest.mark.browser
def test_a_change_is_drawn_well_within_a_frame(mount, record_property):
    shown = mount(AttentionCalculator())
    cost = shown.cost("model.set('X', model.get('X').map(r => r.map(x => x + (i % 2 ? 0.5 : -0.5))))")
    record_property("quiet_ms", cost)
    assert cost < 50
