"""The gate explorer: PyTorch's gates and states, held gates, every control."""

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
import torch
from torch import nn

from attnbook import GRU, LSTM, RNN, lstm_gates
from attnbook.widgets import GateExplorer

KINDS = ["", "(（", ")）", '"“”']
LABELS = [("引号内", "in quotes"), ("括号内", "in brackets")]
TEXT = "The “鼬” (a (weasel)) sleeps."


class Reader(nn.Module):
    def __init__(self, recurrent, labels=2):
        super().__init__()
        self.embedding = nn.Embedding(4, 3)
        self.recurrent = recurrent
        self.output = nn.Linear(recurrent.hidden_size, labels)

    def forward(self, kinds):
        outputs = self.recurrent(self.embedding(kinds))[0]
        return outputs, self.output(outputs)


def reader(recurrent, seed=0):
    torch.manual_seed(seed)
    model = Reader(recurrent)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn_like(p) * 0.8)
    return model


@pytest.fixture(scope="module")
def models():
    return [reader(LSTM(3, 5)), reader(GRU(3, 5), 1), reader(GRU(3, 5, reset_after=False), 2)]


def kinds_of(text):
    return [next((k for k in range(1, 4) if character in KINDS[k]), 0) for character in text]


def explorer(models, text=TEXT, **traits):
    return GateExplorer(models, KINDS, LABELS, text, **traits)


def read_in_page(shown, index, ids, hold=None):
    return shown.js(
        """const {tensors} = module.readSafetensors(model.get("weights"));
        const {states, said} = module.gatedReader(tensors, `${arg.index}.`).read(arg.ids, arg.hold);
        const plain = record => Object.fromEntries(Object.entries(record).map(([k, v]) => [k, [...v]]));
        return {states: states.map(plain), said: said.map(v => [...v])};""",
        {"index": index, "ids": ids, "hold": hold},
    )


# In Python.


def test_weights_are_those_of_the_model(models):
    from safetensors.torch import load

    widget = explorer(models)
    tensors = load(widget.weights)
    assert widget.names == ["LSTM", "GRU", "GRU"]
    for k, model in enumerate(models):
        for name, parameter in model.named_parameters():
            assert torch.equal(tensors[f"{k}.{name}"], parameter)
    assert explorer(models[0]).names == ["LSTM"]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"text": "x" * 121}, ValueError, "text: expected a str of at most 120 characters"),
        ({"text": 5}, TypeError, "text: expected a str of at most 120 characters, found 5 (int)"),
        ({"unit": 5}, ValueError, "unit: expected an int in [0, 4], found 5"),
        ({"shown": 1}, ValueError, "shown: expected an int in [0, 0], found 1"),
        ({"hold": "f2"}, ValueError, "hold: expected one of 'none', "),
        ({"kinds": "()"}, TypeError, "kinds: expected a list of str, found '()'"),
        ({"kinds": ["(", ")"]}, ValueError, 'kinds: expected "" (every other character) and further kinds'),
        ({"kinds": ["", "(", ")("]}, ValueError, "kinds: expected each character in one kind only"),
        ({"kinds": ["", "("]}, ValueError, "model.embedding: expected weights (2, 3), found (4, 3)"),
        ({"labels": ["a"]}, ValueError, "model.output: expected weights (1, 5), found (2, 5)"),
        ({"labels": [1, 2]}, TypeError, "labels: expected a str or a pair (zh, en) at 0, found 1"),
    ],
)
def test_wrong_arguments_are_explained(models, arguments, error, message):
    with pytest.raises(error, match=re.escape(message)):
        GateExplorer(**{"model": models[0], "kinds": KINDS, "labels": LABELS, "text": TEXT, **arguments})


@pytest.mark.parametrize(
    ("recurrent", "error", "message"),
    [
        (RNN(3, 5), TypeError, "model.recurrent: expected LSTM or GRU, found RNN"),
        (LSTM(3, 5, num_layers=2), ValueError, "expected one layer, one direction .* found 2, 1 and 5"),
        (GRU(3, 5, bidirectional=True), ValueError, "found 1, 2 and 5"),
        (GRU(3, 33), ValueError, "found 1, 1 and 33"),
    ],
)  # fmt: skip
def test_a_model_that_does_not_fit_is_refused(recurrent, error, message):
    with pytest.raises(error, match=message):
        explorer(Reader(recurrent))


def test_a_model_without_its_parts_or_with_nan_is_refused(models):
    with pytest.raises(TypeError, match=r"model.embedding: expected Embedding, found NoneType"):
        explorer(nn.Linear(2, 2))
    broken = reader(LSTM(3, 5))
    nn.init.constant_(broken.output.bias, float("nan"))
    with pytest.raises(ValueError, match="expected finite weights"):
        explorer(broken)


# In the page.


@pytest.mark.browser
@pytest.mark.parametrize("index", [0, 1, 2], ids=["lstm", "gru after", "gru before"])
def test_states_and_labels_are_those_of_torch(mount, models, index):
    shown = mount(explorer(models))
    ids = kinds_of(TEXT)
    page = read_in_page(shown, index, ids)
    with torch.no_grad():
        outputs, logits = models[index](torch.tensor([ids]))
    np.testing.assert_allclose([state["h"] for state in page["states"]], outputs[0], atol=1e-5)
    np.testing.assert_allclose(page["said"], logits[0].sigmoid(), atol=1e-5)


@pytest.mark.browser
def test_gates_are_those_of_torch_and_obey_the_formula(mount, models):
    shown = mount(explorer(models))
    ids = kinds_of(TEXT)
    lstm, gru = (read_in_page(shown, k, ids)["states"] for k in (0, 1))
    cell = models[0].recurrent.cells[0]
    a = cell(models[0].embedding(torch.tensor(ids)))
    for t in range(1, len(ids)):
        now, before = ({k: np.array(v) for k, v in lstm[s].items()} for s in (t, t - 1))
        gates = lstm_gates(a[t][None], torch.tensor(before["h"])[None].float(), cell.weight_hh)
        for name, gate in zip("ifgo", gates, strict=True):
            np.testing.assert_allclose(now[name], gate[0].detach(), atol=1e-5)
        np.testing.assert_allclose(now["c"], now["f"] * before["c"] + now["i"] * now["g"], atol=1e-5)
        now, before = ({k: np.array(v) for k, v in gru[s].items()} for s in (t, t - 1))
        np.testing.assert_allclose(now["h"], (1 - now["z"]) * now["n"] + now["z"] * before["h"], atol=1e-5)


@pytest.mark.browser
@pytest.mark.parametrize(("row", "name", "open"), [(1, "f", True), (0, "i", False), (3, "o", False)])
def test_a_held_gate_stays_where_it_is_held(mount, models, row, name, open):  # noqa: A002
    shown, ids = mount(explorer(models)), kinds_of(TEXT)
    one = read_in_page(shown, 0, ids, {"row": row, "open": open, "unit": 2})["states"]
    free = read_in_page(shown, 0, ids)["states"]
    every = read_in_page(shown, 0, ids, {"row": row, "open": open, "unit": None})["states"]
    assert {state[name][2] for state in one} == {float(open)}
    assert one[0][name][:2] == free[0][name][:2]
    assert {value for state in every for value in state[name]} == {float(open)}


@pytest.mark.browser
@pytest.mark.parametrize("lang", ["zh", "en"])
def test_the_formula_of_the_chosen_unit_and_step(mount, models, lang):
    shown = mount(explorer(models[0], unit=3, step=6), lang=lang)
    state, before = (read_in_page(shown, 0, kinds_of(TEXT))["states"][t] for t in (6, 5))
    text = shown.root.locator(".ge-sum").inner_text().replace("−", "-")
    numbers = [float(x) for x in re.findall(r"-?\d+\.\d\d", text)]
    wanted = [state[k][3] for k in "figo"]
    wanted += [state["f"][3], before["c"][3], state["i"][3], state["g"][3], state["c"][3]]
    wanted += [state["o"][3], np.tanh(state["c"][3]), state["h"][3]]
    np.testing.assert_allclose(numbers, wanted, atol=0.006)
    names = {
        "zh": "字符|遗忘门 f|输入门 i|候选 g|输出门 o|细胞 c|隐状态 h|引号内|括号内",
        "en": "character|forget f|input i|candidate g|output o|cell c|state h|in quotes|in brackets",
    }
    assert shown.root.locator(".ge-name").all_inner_texts() == names[lang].split("|")


@pytest.mark.browser
def test_the_readers_sentence_is_read(mount, models):
    shown = mount(explorer(models), lang="en")
    field = shown.root.get_by_label("Your sentence")
    field.fill("鼬 “睡👩‍🚀”（了）")
    shown.settle()
    assert shown.get("text") == "鼬 “睡👩‍🚀”（了）"
    marks = shown.root.locator(".ge-mark:visible").all_inner_texts()
    assert marks == ["“", "”", "（", "）"]
    field.fill("<b>(</b>")
    shown.settle()
    assert shown.root.locator("b").count() == 0
    assert shown.root.locator(".ge-chars button:visible").count() == 8
    field.fill("")
    shown.settle()
    assert "Type a sentence" in shown.root.locator(".anb-say").inner_text()
    field.fill("(")
    shown.settle()
    assert "At character 1, “(”" in shown.root.locator(".anb-say").inner_text()


@pytest.mark.browser
def test_network_gate_and_unit_are_chosen(mount, models):
    shown = mount(explorer(models[:2]), lang="en")
    root = shown.root
    root.get_by_role("combobox", name="hold a gate").select_option("f0")
    shown.settle()
    assert shown.get("hold") == "f0"
    assert "forget gate is held at 0 (unit 0)" in root.locator(".anb-say").inner_text()
    root.get_by_role("switch", name="in all units").click()
    shown.settle()
    assert "held at 0 (all 5 units)" in root.locator(".anb-say").inner_text()
    root.get_by_role("radio", name="GRU").click()
    shown.settle()
    assert (shown.get("shown"), shown.get("hold")) == (1, "none")
    assert root.locator(".ge-name").all_inner_texts()[1:5] == [
        "reset r",
        "update z",
        "candidate n",
        "state h",
    ]
    options = root.get_by_role("combobox", name="hold a gate").locator("option")
    assert options.evaluate_all("all => all.map(o => o.value)") == ["none", "r0", "r1", "z0", "z1"]
    root.get_by_role("slider", name="unit to follow").fill("4")
    shown.settle()
    assert "Unit 4" in root.inner_text()


@pytest.mark.browser
def test_a_click_on_a_band_chooses_character_and_unit(mount, models):
    shown = mount(explorer(models[0]), lang="en")
    canvas = shown.root.locator(".ge-strip canvas").first
    canvas.click(position={"x": 22 * 4 + 5, "y": 9 * 2 + 4})
    shown.settle()
    assert (shown.get("step"), shown.get("unit")) == (4, 2)
    canvas.hover(position={"x": 22 * 4 + 5, "y": 9 * 2 + 4})
    value = read_in_page(shown, 0, kinds_of(TEXT))["states"][4]["f"][2]
    assert shown.root.locator(".anb-tip").inner_text() == f"“{TEXT[4]}” unit 2: f = {value:.2f}"


@pytest.mark.browser
def test_keyboard(mount, models):
    shown = mount(explorer(models[0], step=3), lang="en")
    shown.root.locator(".ge-chars button").nth(3).focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowDown", "ArrowUp"):
        shown.page.keyboard.press(key)
        shown.settle()
    assert (shown.get("step"), shown.get("unit")) == (5, 1)
    shown.page.keyboard.press("End")
    shown.settle()
    assert shown.get("step") == len(TEXT) - 1
    assert shown.root.locator(".ge-chars button[tabindex='0']").count() == 1
    shown.page.keyboard.press("Home")
    shown.settle()
    assert shown.get("step") == 0


@pytest.mark.browser
def test_the_kernel_steers(mount, models):
    shown = mount(explorer(models[:2]), lang="en")
    shown.set(text="((", shown=1, unit=2, step=50)
    assert "At character 2" in shown.root.locator(".anb-say").inner_text()
    assert shown.root.get_by_label("Your sentence").input_value() == "(("
    assert "Unit 2" in shown.root.inner_text()
    shown.set(hold="f1")  # a GRU has no forget gate
    assert shown.root.get_by_role("combobox", name="hold a gate").input_value() == "none"


@pytest.mark.browser
@pytest.mark.parametrize("lang", ["zh", "en"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_fits_a_phone_and_is_accessible(mount, models, lang, theme):
    shown = mount(explorer(models[:2], "(" * 120), lang=lang, theme=theme, width=360)
    assert shown.overflow() <= 0
    assert shown.violations() == []


@pytest.mark.browser
def test_export_and_clean_up(mount, models):
    shown = mount(explorer(models[0]), lang="zh")
    svg = shown.svg()
    ElementTree.fromstring(svg)
    assert "遗忘门 f" in svg
    shown.js("cleanup()")
    assert shown.js("return model.listening()") == 0
    assert shown.root.inner_html() == ""


@pytest.mark.browser
def test_typing_is_quick(mount, models):
    shown = mount(explorer(models[0], "a" * 100))
    assert shown.cost('model.set("text", "(".repeat(60 + i))') < 50
