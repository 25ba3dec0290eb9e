"""The activation explorer: the library's functions and slopes, a unit that learns or is dead."""

import math

import numpy as np
import pytest
import torch

from attnbook.feedforward import ACTIVATIONS, DERIVATIVES
from attnbook.widgets import ActivationExplorer
from attnbook.widgets.base import bundle

NAMES = ["relu", "sigmoid", "tanh", "gelu"]


def teach(name, w, b, steps):
    """Gradient descent of one unit by autograd: its weight, its bias and its last loss."""
    x = torch.tensor([math.log((i + 0.5) / (39.5 - i)) / 1.702 for i in range(40)], dtype=torch.float64)
    f = ACTIVATIONS[name]
    unit = torch.tensor([w, b], dtype=torch.float64, requires_grad=True)

    def loss():
        return ((f(unit[0] * x + unit[1]) - f(1.5 * x + 0.5)) ** 2 / 2).mean()

    for _ in range(steps):
        (gradient,) = torch.autograd.grad(loss(), unit)
        unit.data -= gradient
    return [*unit.tolist(), loss().item()]


@pytest.mark.parametrize("name", [*NAMES, "identity"])
def test_functions_and_slopes_are_the_library_s(mount, name):
    z = torch.linspace(-9, 9, 181, dtype=torch.float64)
    values, slopes = mount(ActivationExplorer()).js(
        "return [0, 1].map(i => arg.z.map(z => module.ACTIVATIONS[arg.name][i](z)))",
        {"z": z.tolist(), "name": name},
    )
    np.testing.assert_allclose(values, ACTIVATIONS[name](z), atol=2e-6)
    np.testing.assert_allclose(slopes, DERIVATIVES[name](z), atol=2e-6)


@pytest.mark.parametrize("name", NAMES)
def test_grey_is_where_the_slope_is_small(mount, name):
    regions = mount(ActivationExplorer()).js("return module.flat(module.ACTIVATIONS[arg][1])", name)
    z = torch.arange(-300, 301, dtype=torch.float64) / 50
    small = DERIVATIVES[name](z).abs() < 0.05
    inside = torch.zeros_like(small)
    for start, stop in regions:
        inside |= (z >= start - 1e-9) & (z <= stop + 1e-9)
    assert torch.equal(inside, small)


@pytest.mark.parametrize("name", NAMES)
def test_descent_of_the_unit_equals_autograd(mount, name):
    path = mount(ActivationExplorer()).js("return module.descend(arg, 0.5, -0.5, 50)", name)
    assert len(path) == 51
    np.testing.assert_allclose(path[-1], teach(name, 0.5, -0.5, 50)[:2], atol=1e-5)


def test_a_dead_relu_does_not_move_and_says_so(mount):
    shown = mount(ActivationExplorer(activation="relu", weight=1.0, bias=-6.0))
    assert "The unit is dead" in shown.root.locator(".anb-say").inner_text()
    assert shown.root.locator("dd").nth(3).inner_text() == "40 / 40"
    shown.page.emulate_media(reduced_motion="reduce")
    shown.root.get_by_role("button", name="train 100 steps").click()
    assert [shown.get("weight"), shown.get("bias")] == [1, -6]


def test_a_living_unit_learns(mount):
    shown = mount(ActivationExplorer(activation="relu"))
    shown.page.emulate_media(reduced_motion="reduce")
    shown.root.get_by_role("button", name="train 100 steps").click()
    shown.settle()
    assert [shown.get("weight"), shown.get("bias")] == pytest.approx([1.5, 0.5], abs=0.01)
    assert shown.js("return module.unit('relu', model.get('weight'), model.get('bias')).loss") < 1e-4


def test_training_is_animated(mount):
    shown = mount(ActivationExplorer(activation="tanh"))
    shown.root.get_by_role("button", name="train 100 steps").click()
    shown.page.wait_for_function("shown[0].model.get('weight') > 1.4")


def test_slope_through_layers(mount):
    shown = mount(ActivationExplorer(activation="sigmoid", z=0.0, layers=10))
    numbers = shown.root.locator("dd").all_inner_texts()
    assert numbers[:3] == ["0.500", "0.250", "9.5\u00a0×\u00a010⁻⁷"]
    assert "through 10 layers, 9.5" in shown.root.locator(".anb-say").inner_text()
    shown.set(layers=1)
    assert "through 1 layer, 0.250" in shown.root.locator(".anb-say").inner_text()


def test_keyboard_moves_every_control(mount):
    shown = mount(ActivationExplorer())
    shown.root.get_by_role("radio", name="ReLU").press("ArrowRight")
    assert shown.get("activation") == "sigmoid"
    for name, trait, value in [
        ("pre-activation z", "z", 1.1),
        ("layers in a row", "layers", 11),
        ("weight w", "weight", 0.6),
        ("bias b", "bias", -0.4),
    ]:
        shown.root.get_by_role("slider", name=name).press("ArrowRight")
        assert shown.get(trait) == pytest.approx(value)
    shown.root.get_by_role("button", name="push it left").press("Enter")
    assert [shown.get("weight"), shown.get("bias")] == [1, -6]
    shown.root.get_by_role("button", name="start again").press("Enter")
    assert [shown.get("weight"), shown.get("bias")] == [0.5, -0.5]


def test_traits_set_in_python_are_shown(mount):
    shown = mount(ActivationExplorer())
    shown.set(activation="gelu", z=-2.0, layers=3)
    assert shown.root.get_by_role("radio", name="GELU").is_checked()
    assert shown.root.get_by_role("slider", name="pre-activation z").get_attribute("aria-valuetext") == "−2.0"
    slope = DERIVATIVES["gelu"](torch.tensor(-2.0, dtype=torch.float64)).item()
    assert f"the slope is −{abs(slope):.3f}" in shown.root.locator(".anb-say").inner_text()


@pytest.mark.parametrize("name", NAMES)
def test_the_key_names_each_region_once(mount, name):
    keys = mount(ActivationExplorer(activation=name)).root.locator(".anb-key").all_inner_texts()
    assert all(key.count("slope below") == 1 for key in keys)
    assert mount(ActivationExplorer(activation=name)).js(
        "return [...el.querySelectorAll('.anb-key span span')].every(s => s.textContent)"
    )


def test_both_languages_switch_live(mount):
    shown = mount(ActivationExplorer(), lang="zh")
    assert shown.root.get_by_role("slider", name="预激活值 z").is_visible()
    assert shown.root.locator(".anb-say").inner_text().startswith("z = 1.0 处的斜率是 1.000")
    shown.set(language="en")
    assert shown.root.get_by_role("slider", name="pre-activation z").is_visible()
    drawn = shown.root.locator(".anb-fig").inner_text()
    assert not any("一" <= character <= "鿿" for character in drawn)


@pytest.mark.parametrize("lang", ["zh", "en"])
@pytest.mark.parametrize(("theme", "width"), [("light", 360), ("dark", 360), ("light", 800), ("dark", 1200)])
def test_fits_and_is_accessible(mount, lang, theme, width):
    shown = mount(ActivationExplorer(activation="gelu"), lang=lang, theme=theme, width=width)
    assert shown.overflow() <= 0
    assert shown.violations() == []


def test_export_holds_the_labels(mount):
    svg = mount(ActivationExplorer()).svg()
    for part in ("Activations: bend, slope and saturation", "Function σ(z)", "σ′(z)^10", "∂L/∂w"):
        assert part in svg


def test_clean_up_leaves_nothing(mount):
    shown = mount(ActivationExplorer())
    shown.root.get_by_role("button", name="train 100 steps").click()
    shown.js("cleanup()")
    assert shown.js("return [model.listening(), el.childElementCount]") == [0, 0]


@pytest.mark.parametrize("action", ["model.set('z', i / 10)", "model.set('weight', i / 10)"])
def test_interaction_is_quick(mount, action, record_property):
    """Aim 16 ms; the bound leaves room for what differs between machines."""
    cost = mount(ActivationExplorer(activation="gelu")).cost(action)
    record_property("quiet_ms", cost)
    assert cost < 50


@pytest.mark.parametrize(
    ("traits", "error"),
    [
        ({"activation": "swish"}, ValueError),
        ({"activation": 1}, TypeError),
        ({"z": 7}, ValueError),
        ({"layers": 0}, ValueError),
        ({"layers": 1.5}, TypeError),
        ({"weight": "1"}, TypeError),
        ({"bias": -9}, ValueError),
    ],
)
def test_wrong_traits_are_explained(traits, error):
    (name,) = traits
    with pytest.raises(error, match=f"{name}: expected .*, found"):
        ActivationExplorer(**traits)


def test_module_is_small():
    """The kit aside, at most 25 KB: each instance stores its own copy."""
    assert len(ActivationExplorer._esm.encode()) - len(bundle("common.js").encode()) < 25_000
