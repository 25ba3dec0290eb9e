"""The depth explorer: torch's gradients through the library's blocks, the theory, controls, words."""

import math
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
import torch
from torch import nn

from attnbook.feedforward import FeedForward
from attnbook.normalization import LayerNorm, Residual
from attnbook.widgets.depth_explorer import DepthExplorer

TOKENS = 8
DESIGNS = {
    "F(x)": {"residual": False, "norm": "none"},
    "x + F(x)": {"residual": True, "norm": "none"},
    "LN(F(x))": {"residual": False, "norm": "post"},
    "LN(x + F(x))": {"residual": True, "norm": "post"},
    "F(LN(x))": {"residual": False, "norm": "pre"},
    "x + F(LN(x))": {"residual": True, "norm": "pre"},
}


class Plus(nn.Module):
    """x + F(x), without a norm."""

    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, x):
        return x + self.block(x)


def layer(residual, norm, block, width):
    if norm == "none":
        return Plus(block) if residual else block
    if residual:
        return Residual(block, width, norm_first=norm == "pre")
    return nn.Sequential(LayerNorm(width), block) if norm == "pre" else nn.Sequential(block, LayerNorm(width))


def drawn(shown, seed, width, depth):
    """The front end's draw: inputs and probe (tokens, width), and W_1, W_2 of each layer, standard normal."""
    code = """const stack = module.grow(module.drawStack(arg.seed, arg.width), arg.depth);
        return [[...stack.inputs], [...stack.probe], stack.layers.map(pair => pair.map(W => [...W]))]"""
    inputs, probe, layers = shown.js(code, {"seed": seed, "width": width, "depth": depth})
    inputs, probe = (torch.tensor(v, dtype=torch.float64).view(TOKENS, width) for v in (inputs, probe))
    return inputs, probe, torch.tensor(layers, dtype=torch.float64).view(depth, 2, width, width)


def run(shown, formula, **traits):
    """What the front end computes."""
    code = "return module.run(module.drawStack(arg.seed, arg.width), arg)"
    defaults = {"depth": 6, "scale": 1.0, "activation": "relu", "width": 16, "seed": 10}
    return shown.js(code, {**defaults, **DESIGNS[formula], **traits})


def by_torch(shown, formula, depth=6, scale=1.0, activation="relu", width=16, seed=10):
    """The same with the library's modules and automatic differentiation."""
    inputs, probe, layers = drawn(shown, seed, width, depth)
    blocks = [FeedForward(width, width, activation=activation).double() for _ in range(depth)]
    for block, (W_1, W_2) in zip(blocks, scale / math.sqrt(width) * layers, strict=True):
        for linear, W in ((block.W_1, W_1), (block.W_2, W_2)):
            linear.weight.data.copy_(W)
            nn.init.zeros_(linear.bias)
    states = [inputs.requires_grad_()]
    for block in blocks:
        states.append(layer(**DESIGNS[formula], block=block, width=width).double()(states[-1]))
        states[-1].retain_grad()
    last = LayerNorm(width).double() if DESIGNS[formula]["norm"] == "pre" else nn.Identity()
    (probe * last(states[-1])).sum().backward()
    return {
        "size": [h.square().mean().sqrt().item() for h in states],
        "state": [h.grad.norm().item() for h in states],
        "weights": [block.W_2.weight.grad.norm().item() for block in blocks],
    }


@pytest.mark.parametrize("formula", DESIGNS)
@pytest.mark.parametrize("activation", ["relu", "gelu", "tanh", "sigmoid", "identity"])
def test_every_stack_equals_torch(mount, formula, activation):
    shown = mount(DepthExplorer())
    found, expected = (f(shown, formula, activation=activation, scale=1.3, seed=3) for f in (run, by_torch))
    for quantity, values in expected.items():
        # gelu's normal distribution is a fit, correct to 1.2e-7
        np.testing.assert_allclose(found[quantity], values, rtol=1e-5 if activation == "gelu" else 1e-9)


@pytest.mark.parametrize("formula", ["F(x)", "LN(x + F(x))", "x + F(LN(x))"])
def test_deep_stack_equals_torch(mount, formula):
    shown = mount(DepthExplorer())
    found, expected = (f(shown, formula, depth=64, width=8, seed=2) for f in (run, by_torch))
    for quantity, values in expected.items():
        np.testing.assert_allclose(found[quantity], values, rtol=1e-6)


def test_draw_is_normal_and_layers_stay_when_more_are_drawn(mount):
    shown = mount(DepthExplorer())
    inputs, probe, layers = drawn(shown, 5, 32, 8)
    assert inputs.square().mean().item() == pytest.approx(1, rel=1e-12)
    assert probe.norm().item() == pytest.approx(1, rel=1e-12)
    assert abs(layers.mean()) < 0.03
    assert layers.std().item() == pytest.approx(1, abs=0.03)
    code = """const stack = module.grow(module.drawStack(5, 32), 2), before = stack.layers[1][1];
        module.grow(stack, 8);
        return [stack.layers[1][1] === before, stack.layers[7][1][1023]]"""
    assert shown.js(code) == [True, layers[7, 1, -1, -1].item()]


@pytest.mark.parametrize("formula", DESIGNS)
@pytest.mark.parametrize(("activation", "scale"), [("relu", 1.0), ("identity", 0.9)])
def test_theory_is_the_mean_over_wide_layers(mount, formula, activation, scale):
    shown = mount(DepthExplorer())
    traits = {"depth": 8, "width": 64, "scale": scale, "activation": activation}
    found = [run(shown, formula, seed=seed, **traits) for seed in range(20)]
    expected = shown.js("return module.theory(arg)", {**traits, **DESIGNS[formula]})
    for quantity, values in expected.items():
        mean = np.sqrt(np.mean(np.square([result[quantity] for result in found]), axis=0))
        np.testing.assert_allclose(mean, values, rtol=0.35)


def test_no_theory_without_a_formula(mount):
    code = "return module.theory({...arg, activation: 'tanh'})"
    assert mount(DepthExplorer()).js(code, {"depth": 3, "scale": 1, "width": 8, **DESIGNS["F(x)"]}) is None


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 0.5, 0.02], "holds"),
        ([0.002, 1], "vanishes"),
        ([1, 500, 0.1], "explodes"),
        ([1, 20, 0.005], "vanishes"),
        ([0, 1], "vanishes"),
    ],
)
def test_verdict(mount, values, expected):
    assert mount(DepthExplorer()).js("return module.verdict(arg)", values) == expected


def test_line_is_cut_at_the_frame(mount):
    shown = mount(DepthExplorer())
    code = "return module.within(arg, -2, 1)"
    assert shown.js(code, [[0, 0], [10, 5]]) == [[[0, 0], [2, 1]]]
    assert shown.js(code, [[0, -4], [8, 4]]) == [[[2, -2], [5, 1]]]
    assert shown.js(code, [[0, 0], [1, 2], [2, 3], [3, 0]]) == [[[0, 0], [0.5, 1]], [[8 / 3, 1], [3, 0]]]
    assert shown.js(code, [[0, 1], [1, -2]]) == [[[0, 1], [1, -2]]]
    assert shown.js(code, [[0, 2], [1, 3]]) == []


def cells(shown, row):
    return shown.root.locator(".anb-dx-r").nth(row + 1)


def test_rows_show_what_was_computed(mount):
    shown = mount(DepthExplorer(depth=24, layer=20))
    for number, formula in enumerate(DESIGNS):
        found = run(shown, formula, depth=24, width=32)["state"]
        assert float(cells(shown, number).locator(".anb-dx-v").inner_text()) == pytest.approx(
            found[20], rel=6e-3
        )
    words = shown.root.locator("label .anb-dx-w").all_inner_texts()
    assert words == ["↓ vanishes", "↑ explodes", "→ holds", "→ holds", "→ holds", "→ holds"]
    assert cells(shown, 0).locator("svg rect").count() == 25 + 1  # and the mark of the layer


def test_choosing_a_row_sets_both_traits(mount):
    shown = mount(DepthExplorer())
    for formula, traits in DESIGNS.items():
        shown.root.get_by_role("radio", name=f" {formula} ").or_(
            shown.root.locator(f"input[value='{formula}']")
        ).first.check()
        assert {name: shown.get(name) for name in traits} == traits


def test_keyboard_moves_every_control(mount):
    shown = mount(DepthExplorer())
    for label, trait, value in [
        ("layers L", "depth", 25),
        ("scale g of initial weights", "scale", 1.01),
        ("width d", "width", 40),
        ("look at layer l", "layer", 1),
    ]:
        shown.root.get_by_role("slider", name=label).press("ArrowRight")
        assert shown.get(trait) == pytest.approx(value)
    shown.root.get_by_role("radio", name="ReLU").press("ArrowRight")
    assert shown.get("activation") == "gelu"
    shown.root.get_by_role("radio", name="gradient ‖∂ℒ/∂h‖").press("ArrowRight")
    assert shown.get("quantity") == "weights"
    shown.root.locator("input[value='F(x)']").press("ArrowDown")
    assert shown.get("residual") is True
    assert shown.get("norm") == "none"
    shown.root.get_by_role("button", name="new draw").press("Enter")
    assert shown.get("seed") == 11
    assert shown.js("return model.saved") == 8


def test_layer_stays_within_the_stack(mount):
    shown = mount(DepthExplorer(depth=10, layer=50))
    slider = shown.root.get_by_role("slider", name="look at layer l")
    assert slider.input_value() == "10"
    assert shown.get("layer") == 50
    shown.set(depth=60)
    assert slider.input_value() == "50"
    shown.set(quantity="weights", layer=0)
    assert slider.input_value() == "1"  # the weights of layer 0 do not exist
    assert shown.root.locator(".anb-dx-h .anb-dx-v").inner_text() == "layer 1"


def test_click_in_the_plot_chooses_the_layer(mount):
    shown = mount(DepthExplorer(depth=24))
    plot = shown.root.locator("svg[role=img]")
    box = plot.bounding_box()
    plot.click(position={"x": 52 + (box["width"] - 62) / 2, "y": 100})
    assert shown.get("layer") == 12
    plot.click(position={"x": box["width"] - 2, "y": 100})
    assert shown.get("layer") == 24


def test_traits_set_in_python_are_shown(mount):
    shown = mount(DepthExplorer())
    shown.set(depth=64, residual=True, norm="post", scale=0.5)
    assert shown.root.locator("input:checked[value='LN(x + F(x))']").count() == 1
    said = shown.root.locator(".anb-say").inner_text()
    assert said.startswith("64 layers of LN(x + F(x))")
    assert said.endswith("It holds.")


@pytest.mark.parametrize(
    ("quantity", "values", "en", "zh"),
    [
        ("state", [1e-6, 1e-3, 1], "1.0 × 10⁻⁶ arrives at the input", "消失了"),
        ("state", [0.5, 0.7, 1], "a factor of 0.71 a layer. It holds.", "稳住了"),
        ("weights", [3, 900, 2], "3.00 in layer 1 and 2.00 in layer 2. It explodes.", "爆炸了"),
        ("size", [1, 2, 4], "have size 4.00 at the output, a factor of 2.00 a layer. It holds.", "稳住了"),
    ],
)
def test_sentence_says_what_is_seen(mount, quantity, values, en, zh):
    shown = mount(DepthExplorer())
    say = "return module.sentence(arg.lang, 'F(x)', 2, arg.quantity, arg.values).replaceAll('\\u00a0', ' ')"
    assert en in shown.js(say, {"lang": "en", "quantity": quantity, "values": values})
    assert zh in shown.js(say, {"lang": "zh", "quantity": quantity, "values": values})


def test_both_languages_switch_live(mount):
    shown = mount(DepthExplorer(), lang="zh")
    assert shown.root.get_by_role("slider", name="层数 L").is_visible()
    assert shown.root.locator(".anb-say").inner_text().startswith("24 层 F(x)")
    shown.set(language="en")
    assert shown.root.get_by_role("slider", name="layers L").is_visible()
    for text in (shown.root.locator(".anb-fig").inner_text(), shown.root.locator(".anb-say").inner_text()):
        assert not any("一" <= character <= "鿿" for character in text)


@pytest.mark.parametrize("lang", ["zh", "en"])
@pytest.mark.parametrize(("theme", "width"), [("light", 360), ("dark", 360), ("light", 800), ("dark", 1200)])
def test_fits_and_is_accessible(mount, lang, theme, width):
    shown = mount(
        DepthExplorer(depth=64, scale=2, activation="identity"), lang=lang, theme=theme, width=width
    )
    assert shown.overflow() <= 0
    assert shown.violations() == []


def test_export_holds_title_rows_and_lines(mount):
    root = ElementTree.fromstring(mount(DepthExplorer()).svg())
    texts = " ".join("".join(node.itertext()) for node in root.iter("{http://www.w3.org/2000/svg}text"))
    for part in ("Stacked deep", "LN(x + F(x))", "post-norm", "vanishes", "exploding", "log scale"):
        assert part in texts
    assert len(root.findall(".//{http://www.w3.org/2000/svg}path")) == 7  # six, and the theory


def test_two_on_one_page_do_not_meet(mount):
    first = mount(DepthExplorer())
    second = mount(DepthExplorer(residual=True), page=first.page)
    second.root.locator("input[value='x + F(LN(x))']").check()
    assert first.root.locator("input:checked[value='F(x)']").count() == 1
    assert first.get("norm") == "none"
    ids = first.page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))


def test_clean_up_leaves_nothing(mount):
    shown = mount(DepthExplorer())
    shown.js("cleanup()")
    assert shown.js("return [model.listening(), el.childElementCount]") == [0, 0]


@pytest.mark.parametrize(
    "action",
    [
        "model.set('scale', 0.5 + i / 20)",
        "model.set('depth', 15 + i)",
        "model.set('norm', i % 2 ? 'pre' : 'post')",
        "model.set('layer', i)",
    ],
)
def test_interaction_is_quick(mount, action, record_property):
    """Aim 16 ms; the bound leaves room for what differs between machines."""
    cost = mount(DepthExplorer()).cost(action)
    record_property("quiet_ms", cost)
    assert cost < 50


@pytest.mark.parametrize(
    ("traits", "error"),
    [
        ({"depth": 1}, ValueError),
        ({"depth": 7.5}, TypeError),
        ({"residual": 1}, TypeError),
        ({"norm": "batch"}, ValueError),
        ({"quantity": "loss"}, ValueError),
        ({"scale": math.nan}, ValueError),
        ({"activation": "softmax"}, ValueError),
        ({"width": 65}, ValueError),
        ({"layer": -1}, ValueError),
        ({"seed": 2**31}, ValueError),
    ],
)
def test_wrong_traits_are_explained(traits, error):
    (name,) = traits
    with pytest.raises(error, match=f"{name}: expected .*, found"):
        DepthExplorer(**traits)
