"""The recurrent stepper: PyTorch's states and probabilities, the library's tokens, every control."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
import torch
from torch import nn

from attnbook import LSTM, RNN
from attnbook.text import BOS, EOS, Vocabulary, corpus, tokenize_chinese, tokenize_english
from attnbook.widgets import RecurrentStepper
from attnbook.widgets.recurrent_stepper import EXAMPLE

PAIRS = corpus(150, seed=5)
ENGLISH = "These two weasels are reading a book."
CHINESE = "这两只鼬在看书。"


class LanguageModel(nn.Module):
    def __init__(self, vocab_size, size=10, hidden=16, recurrent=None):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, size)
        self.recurrent = recurrent or RNN(size, hidden)
        self.output = nn.Linear(hidden, vocab_size)

    def forward(self, tokens, state=None):
        outputs, state = self.recurrent(self.embedding(tokens), state)
        return self.output(outputs), outputs


@pytest.fixture(scope="module")
def vocabulary():
    return Vocabulary.build([side for pair in PAIRS for side in (pair.source, pair.target)])


@pytest.fixture(scope="module")
def model(vocabulary):
    torch.manual_seed(0)
    model = LanguageModel(len(vocabulary))
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn_like(p).mul(0.7).half())  # what the page gets, exactly
    return model.eval()


@pytest.fixture
def stepper(mount, model, vocabulary):
    """`stepper(text, lang=…, width=…, **traits)`: a mounted stepper."""

    def make(text, lang="en", theme="light", width=800, page=None, **traits):
        widget = RecurrentStepper(model, vocabulary, text, **traits)
        return mount(widget, lang=lang, theme=theme, width=width, page=page)

    return make


def ids_of(vocabulary, text):
    tokens = tokenize_chinese(text) if any("一" <= c <= "鿿" for c in text) else tokenize_english(text)
    return vocabulary.encode(tokens, bos=True)


def columns(shown):
    return shown.root.locator(".rs-cell:visible")


def button(shown, name):
    return shown.root.get_by_role("button", name=name, exact=True)


def candidates(shown):
    """(token, percent) of the list of next tokens."""
    rows = shown.root.locator(".rs-list li")
    return [(row.locator("button").inner_text(), row.locator(".rs-pc").inner_text()) for row in rows.all()]


def field(shown):
    return shown.root.locator(".rs-text input")


# ---------------------------------------------------------------------- text


def test_text_is_cut_as_the_corpus_is(stepper):
    shown = stepper("")
    texts = [text for pair in PAIRS for text in (pair.source_text, pair.target_text)]
    expected = [list(tokens) for pair in PAIRS for tokens in (pair.source, pair.target)]
    assert shown.js("return arg.map(module.cutTokens)", texts) == expected


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", []),
        ("  \t ", []),
        ("DON’T", ["do", "n't"]),
        (
            "I can't, Mom's café at 6 o'clock",
            ["i", "ca", "n't", ",", "mom", "'s", "café", "at", "6", "o'clock"],
        ),
        ("a well-known 'so-called' ’ - sound", ["a", "well-known", "'", "so-called", "'", "'", "-", "sound"]),
        ("鼬likes鱼3条！", ["鼬", "likes", "鱼", "3", "条", "！"]),
        ("<b>🦡</b>", ["<", "b", ">", "🦡", "<", "/", "b", ">"]),
    ],
)
def test_any_text_can_be_typed(stepper, text, tokens):
    assert stepper("").js("return module.cutTokens(arg)", text) == tokens


def test_joined_tokens_are_cut_into_the_same_tokens(stepper):
    sentences = [list(tokens) for pair in PAIRS for tokens in (pair.source, pair.target)]
    body = "return arg.map(tokens => module.cutTokens(module.joinTokens(tokens)))"
    assert stepper("").js(body, sentences) == sentences
    assert (
        stepper("").js("return module.joinTokens(['我', '们', 'the', 'weasel', 'is', '.'])")
        == "我们the weasel is."
    )


# ---------------------------------------------------------------------- numbers

READ = """const model_ = module.languageModel(model.get("weights"));
const plain = trace => trace.map(({h, logits, input, memory}) =>
  ({h: [...h], logits: [...logits], z: [...input].map((x, i) => x + memory[i])}));
"""


@torch.no_grad()
@pytest.mark.parametrize("text", [ENGLISH, CHINESE])
def test_states_and_logits_equal_torch(stepper, model, vocabulary, text):
    ids = ids_of(vocabulary, text)
    found = stepper(text).js(READ + "return plain(model_.read(arg))", ids)
    logits, outputs = model(torch.tensor([ids]))
    np.testing.assert_allclose([r["h"] for r in found], outputs[0], atol=1e-4)
    np.testing.assert_allclose([r["logits"] for r in found], logits[0], atol=1e-4)
    np.testing.assert_allclose(np.tanh([r["z"] for r in found]), outputs[0], atol=1e-4)


@torch.no_grad()
def test_an_erased_memory_is_a_fresh_start(stepper, model, vocabulary):
    ids = ids_of(vocabulary, ENGLISH)
    found = stepper(ENGLISH).js(READ + "return plain(model_.read(arg, 3))", ids)
    before, after = model(torch.tensor([ids[:3]]))[1][0], model(torch.tensor([ids[3:]]))[1][0]
    np.testing.assert_allclose([r["h"] for r in found], torch.cat([before, after]), atol=1e-4)


def test_what_is_kept_from_the_last_reading_changes_nothing(stepper):
    body = (
        READ
        + """const random = n => Math.floor(Math.random() * n), wrong = [];
      let ids = [1, 5, 6, 7, 8];
      for (let i = 0; i < 60; i++) {
        const more = Array.from({length: random(4)}, () => 4 + random(20));
        ids = [...ids.slice(0, 1 + random(ids.length)), ...more];
        const erase = random(3) ? null : random(ids.length + 2);
        const kept = JSON.stringify(plain(model_.read(ids, erase)));
        const fresh = JSON.stringify(plain(module.languageModel(model.get("weights")).read(ids, erase)));
        if (kept !== fresh) wrong.push([ids, erase]);
      }
      return wrong;"""
    )
    assert stepper("").js(body) == []


@torch.no_grad()
@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_candidates_are_the_most_probable_tokens(stepper, model, vocabulary, temperature):
    shown = stepper(ENGLISH, step=4, temperature=temperature)
    ids = ids_of(vocabulary, ENGLISH)[:5]
    p = (model(torch.tensor([ids]))[0][0, -1] / temperature).softmax(-1)
    top = p.topk(8)
    tokens = list(vocabulary)
    special = {"<eos>": "⟨end⟩", "<bos>": "⟨start⟩", "<unk>": "⟨unknown⟩"}
    assert [token for token, _ in candidates(shown)] == [
        special.get(tokens[i], tokens[i]) for i in top.indices.tolist()
    ]
    for (_, shown_percent), value in zip(candidates(shown), top.values.tolist(), strict=True):
        assert float(shown_percent.strip("%<")) == pytest.approx(100 * value, abs=0.51)


@torch.no_grad()
def test_surprise_is_in_bits(stepper, model, vocabulary):
    ids = ids_of(vocabulary, ENGLISH)
    p = model(torch.tensor([ids]))[0][0].softmax(-1)
    expected = [-p[t - 1, ids[t]].log2().item() for t in range(1, len(ids))]
    shown = stepper(ENGLISH, temperature=2.0)  # of the model itself, whatever the temperature
    bits = [float(text) for text in shown.root.locator(".rs-bits").all_inner_texts()[1:]]
    np.testing.assert_allclose(bits, expected, atol=0.051)


@torch.no_grad()
def test_formula_adds_up(stepper, model, vocabulary):
    shown = stepper(ENGLISH, step=3, unit=5)
    ids = ids_of(vocabulary, ENGLISH)[:4]
    outputs = model(torch.tensor([ids]))[1][0]
    (cell,) = model.recurrent.cells
    x = cell(model.embedding.weight[ids[3]])[5].item()
    m = (cell.weight_hh @ outputs[2])[5].item()
    text = shown.root.locator(".rs-sum").inner_text().replace("−", "-")
    for value in (x, m, x + m, outputs[3, 5].item()):
        assert f"{value:.2f}" in text


# ---------------------------------------------------------------------- controls


def test_typing_is_read_at_once(stepper):
    shown = stepper("")
    assert columns(shown).count() == 1
    field(shown).fill("the weasel likes platypuses")
    shown.settle()
    assert shown.get("text") == "the weasel likes platypuses"
    assert columns(shown).count() == 5
    assert shown.root.locator(".rs-unknown").all_inner_texts() == ["platypuses"]
    assert "Not in the vocabulary: platypuses." in shown.root.locator(".anb-say").inner_text()
    field(shown).fill("鼬")
    shown.settle()
    assert columns(shown).count() == 2
    assert shown.root.locator(".rs-unknown:visible").count() == 0


def test_text_is_never_html(stepper):
    shown = stepper("<img src=x onerror=alert(1)> <b>weasel</b>")
    assert shown.root.locator("img, b").count() == 0


def test_buttons_step_and_stop_at_the_ends(stepper):
    shown = stepper("the weasel", step=0)
    assert button(shown, "◀ Back").is_disabled()
    assert shown.root.locator(".rs-later").count() == 2
    for step in (1, 2):
        button(shown, "Step ▶").click()
        shown.settle()
        assert shown.get("step") == step
    assert button(shown, "Step ▶").is_disabled()
    assert shown.root.locator(".rs-later").count() == 0
    button(shown, "◀ Back").press("Enter")
    shown.settle()
    assert shown.get("step") == 1
    assert columns(shown).nth(1).get_attribute("aria-pressed") == "true"


def test_arrow_keys_walk_along_the_steps(stepper):
    shown = stepper(ENGLISH, step=2)
    columns(shown).nth(2).focus()
    for key, step in (("ArrowRight", 3), ("ArrowLeft", 2), ("End", 8), ("ArrowRight", 8), ("Home", 0)):
        shown.page.keyboard.press(key)
        shown.settle()
        assert shown.get("step") == step
        assert shown.js("return document.activeElement.getAttribute('aria-pressed')") == "true"


def test_a_click_chooses_step_and_unit(stepper):
    shown = stepper(ENGLISH)
    canvas = columns(shown).nth(2).locator("canvas")
    canvas.click(position={"x": 10, "y": canvas.bounding_box()["height"] * 5.5 / 16})
    shown.settle()
    assert (shown.get("step"), shown.get("unit")) == (2, 5)
    assert "Unit 5 at step 2" in shown.root.inner_text()


def test_playing_starts_at_the_beginning_and_ends_at_the_end(stepper):
    shown = stepper("the weasel")
    button(shown, "Play").click()
    shown.settle()
    assert shown.get("step") == 0
    button(shown, "Stop").wait_for()
    button(shown, "Play").wait_for(timeout=20_000)
    assert shown.get("step") == 2


def test_a_candidate_continues_from_the_present_step(stepper):
    shown = stepper(ENGLISH, step=2)
    row = shown.root.locator(".rs-list button:not([disabled])").first
    token = row.inner_text()
    row.click()
    shown.settle()
    assert shown.get("step") == 3
    assert shown.js("return module.cutTokens(model.get('text'))") == ["these", "two", token]


@torch.no_grad()
def test_at_temperature_zero_it_writes_what_is_most_probable(stepper, model, vocabulary):
    shown = stepper("the weasel", temperature=0)
    ids, tokens = ids_of(vocabulary, "the weasel"), list(vocabulary)
    expected = ["the", "weasel"]
    while len(expected) < 42:
        best = int(model(torch.tensor([ids]))[0][0, -1].argmax())
        if best == EOS:
            break
        ids.append(best)
        expected.append(tokens[best])
    button(shown, "Draw a token").click()
    shown.settle()
    assert shown.js("return module.cutTokens(model.get('text'))") == expected[:3]
    button(shown, "Let it finish").click()
    shown.settle()
    text = shown.js("return module.cutTokens(model.get('text'))")
    assert text[: len(expected)] == expected
    assert len(text) <= 43


def test_the_end_of_a_sentence_is_said(mount, vocabulary, model):
    ending = LanguageModel(len(vocabulary))
    ending.load_state_dict(model.state_dict())
    with torch.no_grad():
        ending.output.bias[EOS] = 1000.0
    shown = mount(RecurrentStepper(ending, vocabulary, "the weasel"))
    button(shown, "Draw a token").click()
    shown.settle()
    assert shown.get("text") == "the weasel"
    assert "ends the sentence here" in shown.root.locator(".anb-say").inner_text()
    assert shown.root.locator(".rs-list button").first.is_disabled()


def test_memory_can_be_erased(stepper):
    shown = stepper(ENGLISH, step=3)
    before = candidates(shown)
    switch = shown.root.get_by_role("switch", name="erase the memory before this token")
    switch.click()
    shown.settle()
    assert shown.get("erase") == 3
    assert candidates(shown) != before
    assert columns(shown).nth(3).locator("xpath=..").locator(".rs-arrow").inner_text() == "✂"
    assert "Everything before step 3 is erased." in shown.root.locator(".anb-say").inner_text()
    switch.press("Space")
    shown.settle()
    assert shown.get("erase") is None
    assert candidates(shown) == before
    shown.set(step=0)
    assert switch.is_disabled()


def test_sliders_move_the_traits(stepper):
    shown = stepper(ENGLISH)
    shown.root.get_by_role("slider", name="temperature τ").press("ArrowRight")
    assert shown.get("temperature") == pytest.approx(1.1)
    shown.root.get_by_role("slider", name="unit to follow").press("End")
    assert shown.get("unit") == 15


def test_traits_set_in_python_are_shown(stepper):
    shown = stepper("")
    shown.set(text=CHINESE, step=2, unit=9, temperature=0.5)
    assert field(shown).input_value() == CHINESE
    assert columns(shown).nth(2).get_attribute("aria-pressed") == "true"
    assert shown.root.get_by_role("slider", name="unit to follow").input_value() == "9"
    shown.set(step=200)  # beyond the sentence: its end
    assert columns(shown).last.get_attribute("aria-pressed") == "true"


# ---------------------------------------------------------------------- page


def test_both_languages_switch_live(stepper):
    shown = stepper(ENGLISH, lang="zh", step=3)
    assert button(shown, "下一步 ▶").is_visible()
    assert "读完 3 个词元" in shown.root.locator(".anb-say").inner_text()
    shown.set(language="en")
    assert button(shown, "Step ▶").is_visible()
    assert "After 3 tokens the model expects" in shown.root.locator(".anb-say").inner_text()
    assert shown.root.locator(".rs-cell span", has_text="⟨start⟩").count() == 1


@pytest.mark.parametrize("lang", ["zh", "en"])
@pytest.mark.parametrize(("theme", "width"), [("light", 360), ("dark", 360), ("light", 800), ("dark", 1200)])
def test_fits_and_is_accessible(stepper, lang, theme, width):
    text = {"en": ENGLISH + " The platypus that we saw yesterday is a friend.", "zh": CHINESE * 4}[lang]
    shown = stepper(text, lang=lang, theme=theme, width=width, step=5, erase=4)
    assert shown.overflow() <= 0
    assert shown.violations() == []


def test_the_present_step_is_scrolled_into_view(stepper):
    shown = stepper(CHINESE * 6, width=360)
    box, roll = columns(shown).last.bounding_box(), shown.root.locator(".rs-roll").bounding_box()
    assert box["x"] >= roll["x"]
    assert box["x"] + box["width"] <= roll["x"] + roll["width"]
    assert shown.js("return scrollY") == 0


def test_export_holds_tokens_states_and_candidates(stepper):
    shown = stepper(ENGLISH)
    root = ElementTree.fromstring(shown.svg())
    space = "{http://www.w3.org/2000/svg}"
    texts = " ".join("".join(node.itertext()) for node in root.iter(f"{space}text"))
    for part in ("Recurrent stepper", "weasels", "⟨start⟩", "tanh", candidates(shown)[0][0]):
        assert part in texts
    assert len(list(root.iter(f"{space}image"))) >= 9


def test_two_on_one_page_do_not_meet(stepper):
    first = stepper(ENGLISH)
    second = stepper(CHINESE, page=first.page)
    field(second).fill("the weasel")
    second.settle()
    assert first.get("text") == ENGLISH
    assert columns(first).count() == 9
    ids = first.page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))


def test_it_opens_with_a_sentence_in_the_readers_language(mount, model, vocabulary):
    widget = RecurrentStepper(model, vocabulary)
    assert widget.text == list(EXAMPLE)
    for lang, text in zip(("zh", "en"), EXAMPLE, strict=True):
        shown = mount(widget, lang=lang)
        assert field(shown).input_value() == text
        assert columns(shown).count() == len(ids_of(vocabulary, text))
    shown.js("document.documentElement.lang = 'zh-CN'")
    shown.settle()
    assert field(shown).input_value() == EXAMPLE[0]
    field(shown).fill("鼬在睡觉。")  # what the reader types stays in every language
    shown.js("document.documentElement.lang = 'en'")
    shown.settle()
    assert field(shown).input_value() == shown.get("text") == "鼬在睡觉。"


def test_clean_up_leaves_nothing(stepper):
    shown = stepper(ENGLISH)
    button(shown, "Play").click()
    shown.js("cleanup()")
    assert shown.js("return [model.listening(), el.childElementCount]") == [0, 0]
    step = shown.get("step")
    shown.page.wait_for_timeout(900)
    assert shown.get("step") == step


@pytest.mark.parametrize(
    "action",
    ["model.set('step', i)", "model.set('unit', i)", "model.set('text', model.get('text') + ' the')"],
)
def test_interaction_is_quick(mount, action, record_property):
    """At the size of chapter 3's model. Aim 16 ms; the bound leaves room for what differs."""
    large = Vocabulary(f"w{i}" for i in range(909))
    model = LanguageModel(len(large), 48, 96)
    text = " ".join(f"w{i}" for i in range(20))
    cost = mount(RecurrentStepper(model, large, text)).cost(action)
    record_property("quiet_ms", cost)
    assert cost < 50


# ---------------------------------------------------------------------- Python


def test_weights_are_few_bytes_and_rounded(model, vocabulary):
    widget = RecurrentStepper(model, vocabulary)
    parameters = sum(p.numel() for p in model.parameters())
    assert len(widget.weights) < 2 * parameters + 1000
    assert "reads “weasel”" in RecurrentStepper(model, vocabulary, "weasel").describe().en
    assert widget.tokens[BOS] == "<bos>"


def test_wrong_models_are_explained(vocabulary):
    size = len(vocabulary)
    cases = [
        (nn.Linear(2, 2), TypeError, "model.embedding: expected Embedding, found NoneType"),
        (LanguageModel(size, recurrent=LSTM(10, 16)), TypeError, "model.recurrent: expected RNN, found LSTM"),
        (LanguageModel(size, recurrent=RNN(10, 16, 2)), ValueError, "expected one layer and one direction"),
        (LanguageModel(size, recurrent=RNN(10, 16, 1, True)), ValueError, "found 1 and 2"),
        (LanguageModel(size + 1), ValueError, r"model.embedding: expected weights \(\d+, 10\), found"),
        (LanguageModel(size, recurrent=RNN(10, 12)), ValueError, "model.output: expected weights"),
    ]
    for model, error, message in cases:
        with pytest.raises(error, match=message):
            RecurrentStepper(model, vocabulary)


@pytest.mark.parametrize(
    ("traits", "error"),
    [
        ({"text": 3}, TypeError),
        ({"text": ("鼬", 3)}, TypeError),
        ({"text": "鼬" * 301}, ValueError),
        ({"text": ("鼬" * 301, "weasel")}, ValueError),
        ({"step": -1}, ValueError),
        ({"step": 1.5}, TypeError),
        ({"unit": 16}, ValueError),
        ({"temperature": 3.5}, ValueError),
        ({"erase": "now"}, TypeError),
    ],
)
def test_wrong_traits_are_explained(model, vocabulary, traits, error):
    (name,) = traits
    with pytest.raises(error, match=f"{name}: expected .*, found"):
        RecurrentStepper(model, vocabulary, **traits)
