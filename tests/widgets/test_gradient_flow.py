"""The gradient-flow explorer: torch's Jacobians, the bound, controls, words for what is seen."""

import math
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
import torch

from attnbook.recurrent import lstm_step, rnn_step
from attnbook.widgets.gradient_flow import GradientFlow

N = 12
STEPS = {
    "tanh": lambda z: z.tanh(),
    "sigmoid": lambda z: z.sigmoid(),
    "relu": lambda z: z.relu(),
    "identity": lambda z: z,
}


def drawn(shown, seed, matrix="random"):
    """The front end's draw: recurrent matrices (5, N, N) and inputs (100, 4, N)."""
    code = """const {matrices, inputs} = module.drawNetworks(arg.seed, arg.matrix);
        return [matrices.map(m => [...m]), [...inputs]]"""
    matrices, inputs = shown.js(code, {"seed": seed, "matrix": matrix})
    matrices = torch.tensor(matrices, dtype=torch.float64).view(5, N, N)
    return matrices, torch.tensor(inputs, dtype=torch.float64).view(100, 4, N)


def flow(shown, which, **traits):
    """What the front end computes for the traits."""
    code = f"""const found = module.{which}Flow(module.drawNetworks(arg.seed, arg.matrix), arg);
        return found"""
    defaults = {"radius": 0.9, "length": 20, "activation": "tanh", "matrix": "random", "strength": 0.5}
    return shown.js(code, {**defaults, "forget_bias": 1.0, "seed": 4, **traits})


def norms(jacobians):
    """Spectral norms of J_T … J_{k+1} for k = T … 0."""
    product = torch.eye(len(jacobians[0]), dtype=torch.float64)
    found = [product]
    for jacobian in reversed(jacobians):
        product = product @ jacobian
        found.append(product)
    return found


def row(shown, label):
    cells = shown.root.locator("tbody tr").filter(has_text=label).locator("td").all_inner_texts()
    return [float(text) if text != "–" else None for text in cells]


@pytest.mark.parametrize("activation", STEPS)
@pytest.mark.parametrize("matrix", ["random", "orthogonal"])
def test_rnn_equals_torch(mount, activation, matrix):
    shown = mount(GradientFlow())
    matrices, inputs = drawn(shown, 4, matrix)
    U, h, jacobians = 0.9 * matrices[0], torch.zeros(N, dtype=torch.float64), []
    step = STEPS[activation]
    for a in 0.5 * inputs[:20, 0]:
        jacobians.append(torch.autograd.functional.jacobian(lambda h, a=a: step(a + U @ h), h))
        h = step(a + U @ h)
    expected = [torch.linalg.matrix_norm(J, 2).item() for J in norms(jacobians)]
    found = flow(shown, "rnn", activation=activation, matrix=matrix)
    np.testing.assert_allclose(found["norms"], expected, rtol=1e-3)
    assert found["norm"] == pytest.approx(torch.linalg.matrix_norm(U, 2).item(), rel=1e-4)


def test_the_tanh_network_is_the_library_s(mount):
    shown = mount(GradientFlow())
    matrices, inputs = drawn(shown, 4)
    U, start = 0.9 * matrices[0], torch.zeros(N, dtype=torch.float64)

    def run(h):
        for a in 0.5 * inputs[:20, 0]:
            h = rnn_step(a[None], h[None], U)[0]
        return h

    expected = torch.linalg.matrix_norm(torch.autograd.functional.jacobian(run, start), 2).item()
    assert flow(shown, "rnn")["norms"][-1] == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(("forget_bias", "radius"), [(3.0, 0.9), (-1.0, 1.5)])
def test_lstm_equals_the_library_s(mount, forget_bias, radius):
    shown = mount(GradientFlow())
    matrices, inputs = drawn(shown, 7)
    U, a = radius * matrices[1:].reshape(4 * N, N), 0.5 * inputs[:20].reshape(20, 4 * N)
    a[:, N : 2 * N] += forget_bias
    h = c = torch.zeros(1, N, dtype=torch.float64)
    states = [(h, c)]
    for a_t in a:
        h, c = lstm_step(a_t[None], h, c, U)
        states.append((h, c))

    def rest(k):
        def run(c):
            h = states[k][0]
            for a_t in a[k:]:
                h, c = lstm_step(a_t[None], h, c, U)
            return c[0]

        return torch.autograd.functional.jacobian(run, states[k][1])[:, 0]

    found = flow(shown, "lstm", forget_bias=forget_bias, radius=radius, seed=7)
    expected = [torch.linalg.matrix_norm(rest(k), 2).item() for k in range(20, -1, -1)]
    np.testing.assert_allclose(found["norms"], expected, rtol=1e-3)
    gates = torch.stack([torch.sigmoid(a[t] + states[t][0] @ U.T)[0, N : 2 * N] for t in range(20)])
    direct = [1.0] + [gates[k:].prod(0).max().item() for k in range(19, -1, -1)]
    np.testing.assert_allclose(found["direct"], direct, rtol=1e-9)
    assert found["mean"] == pytest.approx(gates.mean().item(), rel=1e-9)


@pytest.mark.parametrize("seed", [0, 4, 11])
def test_radius_and_norm_are_numpy_s(mount, seed):
    shown = mount(GradientFlow())
    for matrix in drawn(shown, seed)[0]:
        assert max(abs(np.linalg.eigvals(matrix.numpy()))) == pytest.approx(1, rel=1e-5)
    for matrix in drawn(shown, seed, "orthogonal")[0]:
        np.testing.assert_allclose(matrix @ matrix.T, np.eye(N), atol=1e-12)


@pytest.mark.parametrize("activation", STEPS)
@pytest.mark.parametrize("radius", [0.3, 1.0, 2.0])
def test_no_gradient_exceeds_the_bound(mount, activation, radius):
    gamma = 0.25 if activation == "sigmoid" else 1.0
    found = flow(mount(GradientFlow()), "rnn", activation=activation, radius=radius, length=60)
    bounds = (gamma * found["norm"]) ** np.arange(61)
    assert (np.array(found["norms"]) <= bounds * (1 + 1e-3)).all()


def test_linear_orthogonal_network_meets_its_bound(mount):
    found = flow(mount(GradientFlow()), "rnn", activation="identity", matrix="orthogonal", radius=1.1)
    np.testing.assert_allclose(found["norms"], 1.1 ** np.arange(21), rtol=1e-6)


def test_dead_relu_leaves_no_gradient_and_no_error(mount):
    shown = mount(GradientFlow(activation="relu", radius=0.1, strength=2.0, length=100))
    shown.set(matrix="orthogonal")
    assert "vanished" in shown.root.locator(".anb-say").inner_text()


def test_clipping_a_line_keeps_what_is_inside_and_its_crossings(mount):
    shown = mount(GradientFlow())
    code = "return module.clipLine(arg, -2, 1)"
    assert shown.js(code, [[0, 0], [10, 5]]) == [[0, 0], [2, 1]]
    assert shown.js(code, [[0, -4], [8, 4]]) == [[2, -2], [5, 1]]
    assert shown.js(code, [[0, 2], [1, 3]]) == []
    assert shown.js(code, [[0, -1], [1, 0]]) == [[0, -1], [1, 0]]


def test_keyboard_moves_every_control(mount):
    shown = mount(GradientFlow())
    for label, trait, value in [
        ("spectral radius ρ", "radius", 0.95),
        ("steps T", "length", 51),
        ("input strength", "strength", 0.6),
        ("LSTM forget bias", "forget_bias", 3.5),
    ]:
        shown.root.get_by_role("slider", name=label).press("ArrowRight")
        assert shown.get(trait) == pytest.approx(value)
    shown.root.get_by_role("radio", name="tanh").press("ArrowRight")
    assert shown.get("activation") == "sigmoid"
    shown.root.get_by_role("radio", name="random").press("ArrowRight")
    assert shown.get("matrix") == "orthogonal"
    shown.root.get_by_role("button", name="new draw").press("Enter")
    assert shown.get("seed") == 5
    assert shown.js("return model.saved") == 7


def test_traits_set_in_python_are_shown(mount):
    shown = mount(GradientFlow())
    shown.set(radius=0.5, matrix="orthogonal", activation="sigmoid", length=10)
    assert row(shown, "spectral radius") == [0.5, 0.5]
    assert row(shown, "spectral norm") == [0.5, None]
    assert row(shown, "bound per step")[0] == pytest.approx(0.125, abs=0.006)
    said = shown.root.locator(".anb-say").inner_text()
    assert "Over 10 steps" in said
    assert "so it must vanish" in said


def test_table_shows_what_was_computed(mount):
    shown = mount(GradientFlow(length=20, forget_bias=1.0, radius=1.1, activation="identity"))
    rnn = flow(shown, "rnn", radius=1.1, activation="identity")
    lstm = flow(shown, "lstm", radius=1.1)
    factors = [network["norms"][-1] ** (1 / 20) for network in (rnn, lstm)]
    np.testing.assert_allclose(row(shown, "mean factor per step"), factors, atol=6e-4)
    np.testing.assert_allclose(row(shown, "mean σ′"), [1, lstm["mean"]], atol=6e-4)


@pytest.mark.parametrize(
    ("rnn", "en", "zh"),
    [(1e-6, "has vanished", "消失了"), (0.5, "has survived", "还在"), (1e4, "has exploded", "爆炸了")],
)
def test_sentence_names_what_happened(mount, rnn, en, zh):
    shown = mount(GradientFlow())
    say = "return module.sentence(arg.lang, 50, 1.2, arg.rnn, 0.3)"
    assert en in shown.js(say, {"lang": "en", "rnn": rnn})
    assert zh in shown.js(say, {"lang": "zh", "rnn": rnn})


def test_both_languages_switch_live(mount):
    shown = mount(GradientFlow(), lang="zh")
    assert shown.root.get_by_role("slider", name="谱半径 ρ").is_visible()
    assert shown.root.locator(".anb-say").inner_text().startswith("往回 50 步")
    shown.set(language="en")
    assert shown.root.get_by_role("slider", name="spectral radius ρ").is_visible()
    drawn_text = shown.root.locator(".anb-fig").inner_text()
    assert not any("一" <= character <= "鿿" for character in drawn_text)


@pytest.mark.parametrize("lang", ["zh", "en"])
@pytest.mark.parametrize(("theme", "width"), [("light", 360), ("dark", 360), ("light", 800), ("dark", 1200)])
def test_fits_and_is_accessible(mount, lang, theme, width):
    shown = mount(GradientFlow(radius=2, length=100), lang=lang, theme=theme, width=width)
    assert shown.overflow() <= 0
    assert shown.violations() == []


def test_export_holds_title_lines_and_table(mount):
    root = ElementTree.fromstring(mount(GradientFlow()).svg())
    texts = " ".join("".join(node.itertext()) for node in root.iter("{http://www.w3.org/2000/svg}text"))
    for part in ("How far back a gradient flows", "steps back T − k", "spectral norm", "LSTM"):
        assert part in texts
    assert len(root.findall(".//{http://www.w3.org/2000/svg}polyline")) == 5


def test_two_on_one_page_do_not_meet(mount):
    first = mount(GradientFlow(radius=0.5))
    second = mount(GradientFlow(radius=1.5), page=first.page)
    second.root.get_by_role("button", name="new draw").click()
    assert first.get("seed") == 4
    ids = first.page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))


def test_clean_up_leaves_nothing(mount):
    shown = mount(GradientFlow())
    shown.js("cleanup()")
    assert shown.js("return [model.listening(), el.childElementCount]") == [0, 0]


@pytest.mark.parametrize(
    "action", ["model.set('radius', 0.5 + i / 20)", "model.set('length', 45 + i)", "model.set('seed', 1 + i)"]
)
def test_interaction_is_quick(mount, action, record_property):
    """Aim 16 ms; the bound leaves room for what differs between machines."""
    cost = mount(GradientFlow()).cost(action)
    record_property("quiet_ms", cost)
    assert cost < 50


@pytest.mark.parametrize(
    ("traits", "error"),
    [
        ({"radius": 0}, ValueError),
        ({"radius": math.inf}, ValueError),
        ({"length": 101}, ValueError),
        ({"length": 7.5}, TypeError),
        ({"activation": "softmax"}, ValueError),
        ({"matrix": 3}, TypeError),
        ({"strength": -1}, ValueError),
        ({"forget_bias": "open"}, TypeError),
        ({"seed": -1}, ValueError),
    ],
)
def test_wrong_traits_are_explained(traits, error):
    (name,) = traits
    with pytest.raises(error, match=f"{name}: expected .*, found"):
        GradientFlow(**traits)
