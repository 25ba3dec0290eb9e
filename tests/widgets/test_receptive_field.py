"""The receptive-field explorer: torch's gradient masks, the formula, controls, words for what is seen."""

import xml.etree.ElementTree as ElementTree

import pytest
import torch

from attnbook.convolution import conv1d, receptive_field
from attnbook.widgets.receptive_field import ReceptiveField


def found(shown, **arguments):
    """The inputs that reach the output, as the front end has them."""
    code = "return module.paths(arg).levels[0].flatMap((on, i) => on ? [i] : [])"
    return shown.js(code, {"kernel": 3, "causal": True, "length": 32, "output": 31, **arguments})


def gradient_mask(kernel, dilations, causal, length, output):
    """The inputs whose gradient is not zero: positive weights, so that no two paths cancel."""
    x = torch.ones(1, length, 1, dtype=torch.float64, requires_grad=True)
    weight = torch.ones(1, 1, kernel, dtype=torch.float64)
    h = x
    for dilation in dilations:
        before = (kernel - 1 if causal else (kernel - 1) // 2) * dilation
        padding = (before, (kernel - 1) * dilation - before)
        h = conv1d(h, weight, dilation=dilation, padding=padding)
    h[0, output, 0].backward()
    return x.grad[0, :, 0].nonzero()[:, 0].tolist()


def row(shown, label):
    return shown.root.locator("tbody tr").filter(has_text=label).locator("td").all_inner_texts()


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(
    ("kernel", "dilations", "output"),
    [
        (3, [1, 1, 1], 31),
        (3, [1, 3, 9], 31),
        (2, [1, 2, 4, 8], 20),
        (4, [1, 2], 0),
        (2, [1, 3, 9], 31),
        (5, [1], 15),
    ],
)
def test_paths_are_the_gradient_mask(mount, kernel, dilations, output, causal):
    arguments = {"kernel": kernel, "dilations": dilations, "causal": causal, "length": 32, "output": output}
    assert found(mount(ReceptiveField()), **arguments) == gradient_mask(**arguments)


def test_edges_join_reached_positions_only(mount):
    code = """const {levels, edges} = module.paths(arg);
        return edges.every((pairs, l) => pairs.every(([i, j]) => levels[l][i] && levels[l + 1][j]))"""
    arguments = {"kernel": 3, "dilations": [1, 2, 4], "causal": False, "length": 16, "output": 3}
    assert mount(ReceptiveField()).js(code, arguments) is True


@pytest.mark.parametrize(("kernel", "dilations"), [(2, [1]), (3, [1, 1]), (3, [1, 3, 9]), (5, [1, 2, 4, 8])])
def test_formula_is_the_library_s(mount, kernel, dilations):
    seen = mount(ReceptiveField()).js("return module.field(arg.k, arg.d)", {"k": kernel, "d": dilations})
    assert seen == receptive_field(kernel, dilations)


@pytest.mark.parametrize("n", [2, 3, 9, 10, 32, 48])
@pytest.mark.parametrize(("kernel", "growth"), [(2, 1), (3, 1), (3, 2), (3, 3), (5, 5)])
def test_layers_to_connect_are_the_fewest(mount, n, kernel, growth):
    code = "return module.layersToConnect(arg.n, arg.k, arg.g)"
    layers = mount(ReceptiveField()).js(code, {"n": n, "k": kernel, "g": growth})
    dilations = [growth**layer for layer in range(layers)]
    assert receptive_field(kernel, dilations) >= n
    assert layers == 1 or receptive_field(kernel, dilations[:-1]) < n


def test_table_shows_both_stacks(mount):
    shown = mount(ReceptiveField())
    assert row(shown, "dilations") == ["1, 1, 1", "1, 3, 9"]
    assert row(shown, "receptive field") == ["7", "27"]
    assert row(shown, "inputs seen here") == ["7", "27"]
    assert row(shown, "future") == ["0", "0"]
    assert row(shown, "layers to join the ends of 32") == ["16", "4"]
    said = shown.root.locator(".anb-say").inner_text()
    assert "sees 7 inputs through the plain stack and 27 through the dilated one" in said
    assert "holes" not in said
    assert "future" not in said


def test_holes_and_future_are_named(mount):
    shown = mount(ReceptiveField(kernel=2, growth=3))
    assert "leaves holes" in shown.root.locator(".anb-say").inner_text()
    shown.set(causal=False, kernel=3, growth=3, output=15)
    assert row(shown, "future") == ["3", "13"]
    said = shown.root.locator(".anb-say").inner_text()
    assert "A centred window sees the future." in said
    assert "holes" not in said


def test_keyboard_moves_every_control(mount):
    shown = mount(ReceptiveField())
    for label, trait, key, value in [
        ("kernel size k", "kernel", "ArrowRight", 4),
        ("layers L", "layers", "ArrowRight", 4),
        ("dilation grows by", "growth", "ArrowRight", 4),
        ("length n", "length", "ArrowLeft", 31),
        ("output position t", "output", "ArrowLeft", 29),
    ]:
        shown.root.get_by_role("slider", name=label).press(key)
        shown.settle()
        assert shown.get(trait) == value
    shown.root.get_by_role("radio", name="causal").press("ArrowRight")
    assert shown.get("causal") is False
    assert shown.js("return model.saved") == 6


def test_a_click_chooses_the_output(mount):
    shown = mount(ReceptiveField())
    drawing = shown.root.locator("svg.anb-ch").first
    circle = drawing.locator("circle").nth(5)
    box, frame = circle.bounding_box(), drawing.bounding_box()
    center = {"x": box["x"] + box["width"] / 2 - frame["x"], "y": 14 + 3 * 38}
    drawing.click(position=center)
    assert shown.get("output") == 5
    drawing.click(position={"x": 5, "y": 20})  # on the labels: nothing
    assert shown.get("output") == 5


def test_a_shorter_sequence_keeps_the_output_inside(mount):
    shown = mount(ReceptiveField(output=30))
    shown.set(length=10)
    assert "Output 9 sees" in shown.root.locator(".anb-say").inner_text()
    shown.set(length=40)
    assert "Output 30 sees" in shown.root.locator(".anb-say").inner_text()


def test_both_languages_switch_live(mount):
    shown = mount(ReceptiveField(), lang="zh")
    assert shown.root.get_by_role("slider", name="核宽 k").is_visible()
    label = shown.root.locator("svg.anb-ch").first
    assert "看得见 7 个输入" in label.get_attribute("aria-label")
    shown.set(language="en")
    assert shown.root.get_by_role("slider", name="kernel size k").is_visible()
    assert "output 31 sees 7 inputs" in label.get_attribute("aria-label")
    assert not any("一" <= character <= "鿿" for character in shown.root.locator(".anb-fig").inner_text())


@pytest.mark.parametrize("lang", ["zh", "en"])
@pytest.mark.parametrize(("theme", "width"), [("light", 360), ("dark", 360), ("light", 800), ("dark", 1200)])
def test_fits_and_is_accessible(mount, lang, theme, width):
    shown = mount(ReceptiveField(layers=6, growth=5, length=48), lang=lang, theme=theme, width=width)
    assert shown.overflow() <= 0
    assert shown.violations() == []


def test_export_holds_title_positions_and_table(mount):
    root = ElementTree.fromstring(mount(ReceptiveField()).svg())
    svg = "{http://www.w3.org/2000/svg}"
    texts = " ".join("".join(node.itertext()) for node in root.iter(f"{svg}text"))
    for part in ("Which inputs an output sees", "δ = 9", "receptive field"):
        assert part in texts
    assert len(root.findall(f".//{svg}circle")) == 2 * 4 * 32


def test_two_on_one_page_do_not_meet(mount):
    first = mount(ReceptiveField(kernel=2))
    second = mount(ReceptiveField(kernel=5), page=first.page)
    second.root.get_by_role("slider", name="layers L").press("ArrowRight")
    assert first.get("layers") == 3
    ids = first.page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))


def test_clean_up_leaves_nothing(mount):
    shown = mount(ReceptiveField())
    shown.js("cleanup()")
    assert shown.js("return [model.listening(), el.childElementCount]") == [0, 0]


@pytest.mark.parametrize("action", ["model.set('output', 37 + i)", "model.set('kernel', 2 + i % 4)"])
def test_interaction_is_quick(mount, action, record_property):
    """Aim 16 ms; the bound leaves room for what differs between machines."""
    cost = mount(ReceptiveField(layers=6, length=48, growth=2)).cost(action)
    record_property("quiet_ms", cost)
    assert cost < 50


@pytest.mark.parametrize(
    ("traits", "error"),
    [
        ({"kernel": 1}, ValueError),
        ({"layers": 7}, ValueError),
        ({"growth": 2.5}, TypeError),
        ({"causal": "yes"}, TypeError),
        ({"length": 49}, ValueError),
        ({"output": -1}, ValueError),
    ],
)
def test_wrong_traits_are_explained(traits, error):
    (name,) = traits
    with pytest.raises(error, match=f"{name}: expected .*, found"):
        ReceptiveField(**traits)
