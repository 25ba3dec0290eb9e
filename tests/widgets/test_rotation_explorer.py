"""The rotation explorer: it computes what attnbook.position computes, and shows the two claims as numbers."""

import math
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
import torch

from attnbook.position import apply_rotary, frequencies, rotation_matrix, sinusoidal_encoding
from attnbook.widgets.rotation_explorer import RotationExplorer

DOUBLE = torch.float64


def say(shown):
    return shown.root.locator(".anb-say").inner_text()


def visible_dials(shown):
    return shown.root.locator("svg[viewBox]:visible")


@pytest.mark.parametrize("d", [4, 8, 16])
@pytest.mark.parametrize("base", [10.0, 10000.0])
def test_frequencies_encoding_and_matrix_equal_attnbook(mount, d, base):
    shown = mount(RotationExplorer())
    for position in (0, 7, 64):
        arg = {"p": position, "d": d, "base": base}
        omega, encoding, matrix = shown.js(
            """const {p, d, base} = arg;
            const {frequencies, encode, rotationMatrix} = module;
            return [frequencies(d, base), encode(p, d, base), rotationMatrix(p, d, base)]""",
            arg,
        )
        np.testing.assert_allclose(omega, frequencies(d, base), atol=1e-12)
        expected = sinusoidal_encoding(torch.tensor(position), d, base, DOUBLE)
        np.testing.assert_allclose(encoding, expected, atol=1e-6)
        expected = rotation_matrix(position, d, base, DOUBLE).flatten()
        np.testing.assert_allclose(matrix, expected, atol=1e-6)


@pytest.mark.parametrize("interleaved", [True, False])
@pytest.mark.parametrize("d", [4, 10, 16])
def test_rotary_equals_attnbook(mount, d, interleaved):
    shown = mount(RotationExplorer())
    x = torch.randn(3, d, dtype=DOUBLE, generator=torch.manual_seed(d))
    positions = torch.tensor([0, 5, 31])
    ours = shown.js(
        "return arg.x.map((row, t) => module.rotary(row, arg.positions[t], 100, arg.interleaved))",
        {"x": x.tolist(), "positions": positions.tolist(), "interleaved": interleaved},
    )
    np.testing.assert_allclose(ours, apply_rotary(x, positions, 100.0, interleaved), atol=1e-6)


@pytest.mark.parametrize("offset", [-32, 0, 3, 32])
def test_shown_matrix_carries_one_row_to_the_other(mount, offset):
    """The numbers in the page, to their two digits: M(k) as attnbook has it, and M(k) PE_pos = PE_pos+k."""
    shown = mount(RotationExplorer(position=9, offset=offset, d_model=8))
    numbers = [
        [float(text.replace("−", "-")) for text in grid.locator(".anb-c").all_inner_texts()]
        for grid in shown.root.locator(".anb-g:visible").all()
    ]
    matrix, vectors = numbers
    np.testing.assert_allclose(matrix, rotation_matrix(offset, 8, dtype=DOUBLE).flatten(), atol=0.0051)
    here, moved, there = np.reshape(vectors, (3, 8))
    np.testing.assert_allclose(here, sinusoidal_encoding(torch.tensor(9), 8), atol=0.0051)
    np.testing.assert_allclose(there, sinusoidal_encoding(torch.tensor(9 + offset), 8), atol=0.0051)
    np.testing.assert_allclose(moved, there, atol=0.0101)


def number(text):
    """1.9 × 10⁻¹⁶ as a float."""
    return float(text.replace("\u00a0×\u00a010", "e").translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")))


def test_residual_is_rounding_at_every_position_and_offset(mount):
    shown = mount(RotationExplorer(d_model=16))
    line = shown.root.get_by_text("‖PEₚₒₛ₊ₖ − M(k)·PEₚₒₛ‖ =")
    for position, offset in [(0, 0), (5, 3), (32, 32), (1, -32)]:
        shown.set(position=position, offset=offset)
        assert number(line.inner_text().split("= ")[1]) < 1e-13


def test_clock_hands_are_the_encoding(mount):
    """A hand's height over the centre is the sine, its horizontal part the cosine; so says the axis."""
    shown = mount(RotationExplorer(position=4, offset=-7, d_model=6, base=100))
    dials = shown.js(
        """return [...el.querySelectorAll("svg[viewBox]")].filter(s => s.getClientRects().length).map(svg => {
          const face = svg.querySelector("circle"), at = n => Number(face.getAttribute(n));
          const tips = [...svg.querySelectorAll("circle")].slice(1, 3);
          return {hands: tips.map(tip => [(at("cy") - tip.getAttribute("cy")) / at("r"),
                                          (tip.getAttribute("cx") - at("cx")) / at("r")]),
                  axes: [...svg.querySelectorAll("text")].slice(0, 2).map(text => text.textContent)};
        })"""
    )
    assert len(dials) == 3
    for which, position in enumerate((4, -3)):
        hands = [x for dial in dials for x in dial["hands"][which]]
        np.testing.assert_allclose(hands, sinusoidal_encoding(torch.tensor(position), 6, 100.0), atol=1e-3)
    assert all(dial["axes"] == ["cos", "sin"] for dial in dials)


def test_dot_product_depends_on_the_offset_only(mount):
    shown = mount(RotationExplorer(position=0, offset=6, d_model=8))
    expected = frequencies(8).mul(6).cos().sum().item()
    for position in (0, 11, 32):
        shown.set(position=position)
        assert f"= {expected:.3f};" in shown.root.get_by_text("the two curves differ by at most").inner_text()


def test_rotary_score_stays_when_both_positions_move(mount):
    shown = mount(RotationExplorer(tab="rotary", m=9, n=4))
    shown.root.get_by_role("switch", name="move m and n together").press("Space")
    score = say(shown).split("the score is ")[1].split()[0]
    for _ in range(3):
        shown.root.get_by_role("slider", name="query position m").press("ArrowRight")
    shown.settle()
    assert (shown.get("m"), shown.get("n")) == (12, 7)
    assert say(shown).split("the score is ")[1].split()[0] == score
    # neither leaves its range: at the end both stop
    shown.root.get_by_role("slider", name="query position m").press("End")
    assert (shown.get("m"), shown.get("n")) == (32, 27)
    shown.root.get_by_role("slider", name="key position n").press("Home")
    assert (shown.get("m"), shown.get("n")) == (5, 0)
    shown.settle()
    assert say(shown).split("the score is ")[1].split()[0] == score


@pytest.mark.parametrize("interleaved", [True, False])
def test_rotary_score_is_attnbooks(mount, interleaved):
    shown = mount(RotationExplorer(tab="rotary", m=20, n=3, d_model=10, interleaved=interleaved))
    query, key = shown.js("return [module.QUERY.slice(0, 10), module.KEY.slice(0, 10)]")
    turned = [
        apply_rotary(torch.tensor([x], dtype=DOUBLE), torch.tensor([at]), interleaved=interleaved)[0]
        for x, at in ((query, 20), (key, 3))
    ]
    assert f"the score is {turned[0] @ turned[1]:.3f} " in say(shown)


def test_pairing_is_shown(mount):
    shown = mount(RotationExplorer(tab="rotary", d_model=6))
    assert shown.root.get_by_role(
        "img", name="feature pairs: (0,\u00a01) (2,\u00a03) (4,\u00a05)"
    ).is_visible()
    shown.root.get_by_role("radio", name="half-split").press("Space")
    shown.settle()
    assert shown.get("interleaved") is False
    assert shown.root.get_by_role(
        "img", name="feature pairs: (0,\u00a03) (1,\u00a04) (2,\u00a05)"
    ).is_visible()
    assert "features 0 and 3" in visible_dials(shown).first.text_content()
    shown.set(interleaved=True)
    assert shown.root.get_by_role("radio", name="interleaved").is_checked()


def test_keyboard_moves_every_control(mount):
    shown = mount(RotationExplorer())
    shown.root.get_by_role("slider", name="position pos").press("ArrowRight")
    shown.root.get_by_role("slider", name="offset k").press("ArrowLeft")
    shown.root.get_by_role("slider", name="features d_model").press("ArrowRight")
    assert [shown.get(name) for name in ("position", "offset", "d_model")] == [6, 2, 10]
    shown.root.get_by_role("combobox", name="base").select_option("100")
    assert shown.get("base") == 100
    shown.settle()
    assert visible_dials(shown).count() == 5
    shown.root.get_by_role("radio", name="sinusoidal").press("ArrowRight")
    shown.settle()
    assert shown.get("tab") == "rotary"
    assert not shown.root.get_by_role("slider", name="position pos").is_visible()
    shown.root.get_by_role("slider", name="key position n").press("ArrowRight")
    assert (shown.get("m"), shown.get("n")) == (12, 8)


def test_any_base_set_in_python_is_an_option(mount):
    shown = mount(RotationExplorer())
    shown.set(base=500.0)
    assert shown.root.get_by_role("combobox", name="base").input_value() == "500"
    assert f"one turn: {2 * math.pi * 500**0.25:.1f} positions" in visible_dials(shown).nth(1).text_content()


def test_a_click_in_the_heatmap_chooses_the_row(mount):
    shown = mount(RotationExplorer())
    canvas = shown.root.locator("canvas[role=img]")
    box = canvas.bounding_box()
    canvas.click(position={"x": box["width"] / 2, "y": box["height"] * 20.5 / 65})
    assert shown.get("position") == 20
    assert "position 20, sin₂" in shown.root.get_by_role("tooltip").inner_text()


def test_running_clocks_move_the_position_and_stop(mount):
    shown = mount(RotationExplorer(position=0))
    shown.root.get_by_role("button", name="run the clocks").press("Enter")
    shown.page.wait_for_function("shown[0].model.get('position') >= 2")
    shown.root.get_by_role("button", name="stop").press("Enter")
    reached = shown.get("position")
    shown.page.wait_for_timeout(600)
    assert shown.get("position") == reached
    assert shown.root.get_by_role("button", name="run the clocks").is_visible()


def test_reduced_motion_has_no_running_clocks(mount):
    first = mount(RotationExplorer())
    first.page.emulate_media(reduced_motion="reduce")
    calm = mount(RotationExplorer(), page=first.page)
    assert calm.root.get_by_role("button", name="run the clocks").count() == 0
    assert calm.root.get_by_role("slider", name="position pos").is_visible()


@pytest.mark.parametrize("tab", ["sinusoidal", "rotary"])
def test_both_languages_switch_live(mount, tab):
    shown = mount(RotationExplorer(tab=tab), lang="zh")
    assert shown.root.get_by_role("radio", name="正弦").is_visible()
    shown.set(language="en")
    assert shown.root.get_by_role("radio", name="sinusoidal").is_visible()
    assert not any("一" <= character <= "鿿" for character in shown.root.inner_text())
    shown.set(language="zh")
    assert ("从位置 5 到 8" if tab == "sinusoidal" else "查询在 12，键在 7") in say(shown)


@pytest.mark.parametrize("lang", ["zh", "en"])
@pytest.mark.parametrize("tab", ["sinusoidal", "rotary"])
@pytest.mark.parametrize(("theme", "width", "d"), [("light", 360, 16), ("dark", 360, 8), ("dark", 900, 16)])
def test_fits_and_is_accessible(mount, lang, tab, theme, width, d):
    shown = mount(RotationExplorer(d_model=d, tab=tab, offset=-20), lang=lang, theme=theme, width=width)
    assert shown.overflow() <= 0
    assert shown.violations() == []


@pytest.mark.parametrize(
    ("tab", "expected", "absent"),
    [("sinusoidal", "one 2×2 rotation", "m − n"), ("rotary", "m − n only", "one 2×2 rotation")],
)
def test_export_holds_the_open_tab(mount, tab, expected, absent):
    root = ElementTree.fromstring(mount(RotationExplorer(tab=tab)).svg())
    texts = " ".join("".join(node.itertext()) for node in root.iter("{http://www.w3.org/2000/svg}text"))
    assert "A position is a set of clock hands" in texts
    assert expected in texts
    assert absent not in texts


def test_two_on_one_page_do_not_meet(mount):
    first = mount(RotationExplorer(position=5))
    second = mount(RotationExplorer(tab="rotary"), page=first.page)
    second.root.get_by_role("radio", name="half-split").press("Space")
    first.root.get_by_role("slider", name="position pos").press("ArrowRight")
    assert (first.get("tab"), first.get("interleaved"), first.get("position")) == ("sinusoidal", True, 6)
    assert (second.get("tab"), second.get("interleaved"), second.get("position")) == ("rotary", False, 5)
    ids = first.page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))


def test_clean_up_leaves_nothing(mount):
    shown = mount(RotationExplorer())
    shown.root.get_by_role("button", name="run the clocks").press("Enter")
    shown.js("cleanup()")
    shown.page.wait_for_timeout(400)
    assert shown.js("return [model.listening(), el.childElementCount, model.get('position')]")[:2] == [0, 0]
    at = shown.get("position")
    shown.page.wait_for_timeout(400)
    assert shown.get("position") == at


@pytest.mark.parametrize(
    ("tab", "action"),
    [
        ("sinusoidal", "model.set('position', 3 + i)"),
        ("sinusoidal", "model.set('offset', i - 5)"),
        ("sinusoidal", "model.set('d_model', 4 + 2 * (i % 7))"),
        ("rotary", "model.set('m', 3 + i)"),
        ("rotary", "model.set('interleaved', i % 2 === 1)"),
    ],
)
def test_interaction_is_quick(mount, tab, action, record_property):
    """Aim 16 ms; the bound leaves room for what differs between machines."""
    cost = mount(RotationExplorer(tab=tab, d_model=16)).cost(action)
    record_property("quiet_ms", cost)
    assert cost < 50


@pytest.mark.parametrize(
    ("traits", "error"),
    [
        ({"d_model": 7}, ValueError),
        ({"d_model": 18}, ValueError),
        ({"position": 33}, ValueError),
        ({"offset": 2.5}, TypeError),
        ({"base": 1}, ValueError),
        ({"tab": "learned"}, ValueError),
        ({"interleaved": 1}, TypeError),
    ],
)
def test_wrong_traits_are_explained(traits, error):
    (name,) = traits
    with pytest.raises(error, match=f"{name}: expected .*, found"):
        RotationExplorer(**traits)
