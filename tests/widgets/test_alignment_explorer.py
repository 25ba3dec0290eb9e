"""The alignment explorer: the page against Python, what is known of a sentence, every control."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from attnbook.seq2seq import Seq2Seq, Seq2SeqConfig
from attnbook.text.grammar import corpus
from attnbook.text.inflection import inflect
from attnbook.text.vocabulary import Vocabulary
from attnbook.training.checkpoint import Translator, load_translator
from attnbook.training.evaluation import _links
from attnbook.training.files import FileError
from attnbook.training.metrics import alignment_error_rate, attention_links
from attnbook.widgets import AlignmentExplorer
from attnbook.widgets.alignment_explorer import EXAMPLES
from attnbook.widgets.grammar_rules import english_forms

CUP = "杯子上个月被猫打破了。"
ENGLISH = "The cup was broken by the cat last month."


@pytest.fixture(scope="module")
def translator():
    return load_translator("grammar-gru-attention")


@pytest.fixture(scope="module")
def pairs():
    return corpus(400, seed=9) + corpus(200, seed=9, split="test")


def untrained(**choices):
    """A translator with random weights and a handful of words."""
    torch.manual_seed(0)
    source, target = Vocabulary(list("鼬喜欢茶。我")), Vocabulary(["the", "weasel", "likes", "tea", ".", "i"])
    config = Seq2SeqConfig(len(source), len(target), embedding_size=8, hidden_size=8, **choices)
    return Translator(Seq2Seq(config), source, target)


def test_reading_is_what_evaluation_chose(translator):
    widget = AlignmentExplorer()
    chosen = translator.about["scores"]["test"]["alignment"]
    assert (widget.shift, widget.threshold) == (chosen["shift"], chosen["threshold"])
    assert widget.text == EXAMPLES[0]
    assert "破" in widget.alternative["zh"]


def test_own_translator_and_own_sentences():
    widget = AlignmentExplorer(untrained(attention="general"), examples=["鼬喜欢茶。"], threshold=0.4)
    assert (widget.text, widget.threshold, widget.shift) == ("鼬喜欢茶。", 0.4, 0)
    assert AlignmentExplorer(untrained(attention="dot"), examples=[]).text == ""


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"checkpoint": "grammar-gru"}, ValueError, "checkpoint: expected a translator with attention, found one without"),  # noqa: E501
        ({"checkpoint": "nowhere"}, FileError, "nowhere: no such file"),
        ({"examples": "鼬"}, TypeError, "examples: expected a list of sentences, found str"),
        ({"examples": [1]}, TypeError, "examples: expected a str at 0, found int"),
        ({"examples": ["鼬" * 81]}, ValueError, "examples: expected at most 80 characters at 0, found 81"),
        ({"text": "鼬" * 81}, ValueError, "text: expected a str of at most 80 characters, found "),
        ({"target": "mine"}, ValueError, "target: expected one of 'model', 'reference', found 'mine'"),
        ({"shift": 2}, ValueError, "shift: expected an int in [0, 1], found 2"),
        ({"threshold": 0}, ValueError, "threshold: expected a number in [0.01, 1], found 0"),
        ({"gold": 1}, TypeError, "gold: expected True or False, found 1 (int)"),
        ({"layer": 1}, ValueError, "layer: expected an int in [0, 0], found 1"),
        ({"head": 1}, ValueError, 'head: expected an int in [0, 0] or "mean", found 1'),
        ({"step": -1}, ValueError, "step: expected an int in [0, 1000] or None, found -1"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_explained(arguments, error, message):
    with pytest.raises(error) as caught:
        AlignmentExplorer(**arguments)
    assert str(caught.value).startswith(message)


def test_examples_are_of_the_test_split_and_known():
    sources = {pair.source_text for pair in corpus(2000, split="test")}
    assert set(EXAMPLES) <= sources


@pytest.mark.parametrize(
    ("word", "form", "agreement"),
    [
        ("see", "past", "sg"),
        ("be", "pres", "i"),
        ("be", "past", "pl"),
        ("have", "pres", "sg"),
        ("wolf", "pl", "sg"),
        ("tall", "er", "sg"),
        ("they", "obj", "pl"),
        ("put", "past", "i"),
    ],
)
def test_forms_are_those_of_the_grammar(word, form, agreement):
    forms = english_forms()
    found = forms.get(f"{word} {form} {agreement}", forms.get(f"{word} {form}", word))
    assert found == inflect(word, form, agreement)


# In the page.


@pytest.mark.browser
def test_the_page_reads_sentences_as_the_grammar_writes_them(mount, pairs):
    shown = mount(AlignmentExplorer())
    read = """const {grammar, forms} = model.get("rules"), read = module.grammarReader(grammar, forms);
      return arg.map(tokens => read(tokens))"""
    found = shown.js(read, [pair.source for pair in pairs])
    for pair, known in zip(pairs, found, strict=True):
        assert known is not None, pair.source_text
        assert tuple(known["target"]) == pair.target
        assert {tuple(link) for link in known["alignment"]} == pair.alignment
    nonsense = ["我爱北京天安门。", "鼬鼬鼬鼬。", "杯子上个月被猫打破了", "鼬", "那杯猫很大。"]
    assert shown.js(read, [list(text) for text in nonsense]) == [None] * len(nonsense)


@pytest.mark.browser
@pytest.mark.parametrize("shift", [0, 1])
def test_weights_and_error_rate_are_pythons(mount, translator, pairs, shift):
    shown = mount(AlignmentExplorer())
    code = """const translator = module.loadTranslator(model.get("checkpoint")), {shift, sentences} = arg;
      return sentences.map(([source, target, gold]) => {
        const memory = translator.encode(translator.tokenize(source).map(t => t.id));
        const ids = translator.encodeTarget(target);
        const {weights, shape} = module.crossWeights(translator, memory, ids, shift);
        const links = module.linksAbove(weights, shape[3], target.length, 0.2);
        return {weights: [...weights], shape, rate: module.alignmentError(links, gold).rate};
      })"""
    chosen = sorted(pairs[-200:], key=lambda pair: len(pair.source))[::25]
    sentences = [(p.source_text, p.target, [(t, s) for s, t in sorted(p.alignment)]) for p in chosen]
    for pair, found in zip(chosen, shown.js(code, {"shift": shift, "sentences": sentences}), strict=True):
        expected = translator.cross_attention(pair.source, pair.target)[0]
        rows = expected[shift : len(pair.target) + 1]
        assert found["shape"] == [1, 1, *rows.shape]
        np.testing.assert_allclose(np.reshape(found["weights"], rows.shape), rows, atol=1e-4)
        links = _links(expected, shift, 0.2)
        assert found["rate"] == pytest.approx(alignment_error_rate([links], [pair.alignment]))


@pytest.mark.browser
@pytest.mark.parametrize("lang", ["zh", "en"])
def test_opens_with_an_example_translated_and_aligned(mount, translator, lang):
    shown = mount(AlignmentExplorer(), lang=lang)
    text = shown.root.inner_text()
    assert ENGLISH in text
    assert {"zh": "与语料库的标准译文一字不差。", "en": "Exactly the corpus' own translation."}[lang] in text
    tokens = ENGLISH.lower().replace(".", " .").split()
    assert shown.root.get_by_role("rowheader").all_inner_texts() == [*tokens, "<eos>"]
    assert shown.root.get_by_role("columnheader").all_inner_texts()[1:] == [*CUP, "<eos>"]
    expected = translator.cross_attention(list(CUP), tokens)[0]
    assert shown.root.get_by_role("gridcell").all_inner_texts() == [
        "·" if v < 0.005 else f"{v:.2f}" for v in expected.flatten().tolist()
    ]
    pair = next(p for p in corpus(2000, split="test") if p.source_text == CUP)
    links = attention_links(expected[:-1, :-1], 0.2)
    marked = shown.root.locator(".anb-gold").count(), shown.root.locator(".hm-linked").count()
    assert marked == (len(pair.alignment), len(links))
    assert f"= {alignment_error_rate([links], [pair.alignment]):.2f}" in text


def type_in(shown, text):
    field = shown.root.get_by_role("textbox", name="Your Chinese sentence")
    field.fill(text)
    field.press("Enter")
    shown.page.wait_for_function(
        "([el, text]) => shown[el].model.get('text') === text", arg=[shown.index, text]
    )
    wait_until_written(shown)


def wait_until_written(shown):
    finished = """i => {
      const steps = shown[i].el.querySelector(".al-steps input");
      return steps.disabled || steps.value === steps.max;
    }"""
    shown.page.wait_for_function(finished, arg=shown.index)


@pytest.mark.browser
def test_gold_follows_the_readers_edits_and_is_not_invented(mount):
    shown = mount(AlignmentExplorer(), lang="en")
    type_in(shown, CUP.replace("猫", "狗"))
    assert ENGLISH.replace("cat", "dog") in shown.root.inner_text()
    assert shown.root.locator(".anb-gold").count() == 11
    assert shown.root.get_by_role("combobox").input_value() == "own"
    type_in(shown, "我爱北京天安门。")
    text = shown.root.inner_text()
    assert "The built-in grammar cannot write this sentence" in text
    assert "Without a gold alignment there is no alignment error rate." in text
    assert "not in the vocabulary" not in text
    assert shown.root.locator(".anb-gold").count() == 0
    assert shown.root.get_by_role("switch", name="show gold").is_disabled()


@pytest.mark.browser
def test_unknown_characters_are_marked(mount, translator):
    shown, text = mount(AlignmentExplorer(), lang="en"), "我怕鲸鱼。"
    unknown = [character for character in text if character not in translator.source_vocabulary]
    type_in(shown, text)
    assert shown.root.locator(".al-unknown").all_inner_texts() == unknown == ["怕", "鲸"]
    assert "2 character(s) not in the vocabulary" in shown.root.inner_text()
    assert shown.root.get_by_role("columnheader").all_inner_texts()[1:] == [
        "我",
        "怕?",
        "鲸?",
        "鱼",
        "。",
        "<eos>",
    ]


@pytest.mark.browser
def test_an_empty_field_and_a_second_sentence(mount):
    shown = mount(AlignmentExplorer(), lang="en")
    type_in(shown, " ")
    assert "Write a Chinese sentence" in shown.root.inner_text()
    assert shown.root.get_by_role("grid").count() == 0
    assert shown.violations() == []
    type_in(shown, CUP + "我高兴。")
    assert "Only the first sentence is translated." in shown.root.inner_text()
    assert ENGLISH in shown.root.inner_text()


@pytest.mark.browser
def test_what_is_typed_stays_text(mount):
    shown = mount(AlignmentExplorer(), lang="en")
    type_in(shown, "<img src=x onerror=alert(1)>")
    assert shown.root.locator("img, script").count() == 0
    assert "img" in shown.root.locator(".al-chars").inner_text()


@pytest.mark.browser
def test_rows_appear_one_by_one_and_can_be_stepped(mount):
    shown = mount(AlignmentExplorer(), lang="en")
    words = shown.root.get_by_role("slider", name="words written")
    assert (words.input_value(), words.get_attribute("max")) == ("11", "11")
    words.fill("3")
    shown.settle()
    assert shown.get("step") == 3
    visible = shown.root.get_by_role("rowheader").evaluate_all(
        "all => all.filter(e => getComputedStyle(e).visibility === 'visible').map(e => e.textContent)"
    )
    assert visible == ["the", "cup", "was"]
    assert "The cup was …" in shown.root.inner_text()
    assert "alignment error rate" not in shown.root.inner_text()
    words.press("ArrowRight")
    shown.settle()
    assert shown.get("step") == 4
    shown.root.get_by_role("button", name="write word by word").click()
    wait_until_written(shown)
    assert shown.get("step") is None
    assert ENGLISH in shown.root.inner_text()


@pytest.mark.browser
def test_without_motion_everything_is_there_at_once(mount):
    shown = mount(AlignmentExplorer(), lang="en")
    shown.page.emulate_media(reduced_motion="reduce")
    shown.root.get_by_role("combobox").select_option("1")
    shown.settle()
    assert shown.get("text") == EXAMPLES[1]
    assert shown.root.get_by_role("slider", name="words written").input_value() == "8"  # with <eos>
    assert "Who will wash that bowl tomorrow?" in shown.root.inner_text()


@pytest.mark.browser
def test_each_row_can_be_from_one_step_later(mount, translator):
    shown = mount(AlignmentExplorer(), lang="en")
    shown.root.get_by_role("radio", name="one step later").check()
    shown.settle()
    assert shown.get("shift") == 1
    tokens = shown.root.get_by_role("rowheader").all_inner_texts()
    assert tokens[-1] == "."
    expected = translator.cross_attention(list(CUP), tokens)[0, 1:]
    assert shown.root.get_by_role("gridcell").all_inner_texts() == [
        "·" if v < 0.005 else f"{v:.2f}" for v in expected.flatten().tolist()
    ]


@pytest.mark.browser
def test_a_transformer_has_layers_and_heads(mount):
    transformer = load_translator("grammar-transformer")
    widget = AlignmentExplorer("grammar-transformer")
    chosen = transformer.about["scores"]["test"]["alignment"]
    assert (widget.layer, widget.head, widget.threshold) == (chosen["layer"], "mean", chosen["threshold"])
    shown = mount(widget, lang="en")
    tokens = shown.root.get_by_role("rowheader").all_inner_texts()[:-1]
    expected = transformer.cross_attention(list(CUP), tokens)
    cells = shown.root.get_by_role("gridcell")
    for layer in (chosen["layer"], 0):
        shown.root.get_by_role("combobox", name="Layer").select_option(str(layer))
        shown.settle()
        found = [0 if text == "·" else float(text) for text in cells.all_inner_texts()]
        np.testing.assert_allclose(found, expected[layer].flatten(), atol=6e-3)
    shown.root.get_by_role("radio", name="All heads").check()
    shown.settle()
    assert shown.root.locator(".hm-gal button").count() == 2 * 5
    assert shown.violations() == []


@pytest.mark.browser
def test_threshold_and_gold_outlines(mount):
    shown = mount(AlignmentExplorer(), lang="en")
    before = shown.root.locator(".hm-linked").count()
    shown.root.get_by_role("slider", name="threshold of a link").fill("0.5")
    shown.settle()
    assert shown.get("threshold") == 0.5
    assert 0 < shown.root.locator(".hm-linked").count() < before
    assert "weight ≥ 0.50" in shown.root.inner_text()
    shown.root.get_by_role("switch", name="show gold").click()
    shown.settle()
    assert shown.get("gold") is False
    assert shown.root.locator(".anb-gold").count() == 0


@pytest.mark.browser
def test_the_true_translation_can_be_forced(mount, translator):
    wrong = Translator(
        translator.model.__class__(translator.model.config),
        translator.source_vocabulary,
        translator.target_vocabulary,
        casing=translator.casing,
    )
    shown = mount(AlignmentExplorer(wrong, text=CUP), lang="en")
    assert f"The true translation is: {ENGLISH}" in shown.root.inner_text()
    assert "the gold alignment does not know them" in shown.root.inner_text()
    assert shown.root.locator(".anb-gold").count() == 0
    shown.root.get_by_role("radio", name="the true translation").check()
    shown.settle()
    assert shown.get("target") == "reference"
    assert shown.root.get_by_role("rowheader").all_inner_texts()[:3] == ["the", "cup", "was"]
    assert shown.root.locator(".anb-gold").count() == 11
    assert "alignment error rate of this sentence" in shown.root.inner_text()


@pytest.mark.browser
def test_a_broken_checkpoint_says_what_is_wrong(mount):
    widget = AlignmentExplorer()
    widget.checkpoint = b"broken"
    shown = mount(widget, lang="en")
    assert "expected a file of at least 8 bytes" in shown.root.get_by_role("alert").inner_text()


@pytest.mark.browser
@pytest.mark.parametrize(("lang", "theme", "width"), [("zh", "dark", 360), ("en", "light", 900)])
def test_fits_and_is_accessible(mount, lang, theme, width):
    shown = mount(AlignmentExplorer(text=EXAMPLES[-1]), lang=lang, theme=theme, width=width)
    assert shown.overflow() == 0
    assert shown.violations() == []
    shown.set(view="lines", query=2)
    assert shown.overflow() == 0
    assert shown.violations() == []


@pytest.mark.browser
def test_export_holds_sentence_weights_and_outlines(mount):
    svg = mount(AlignmentExplorer(), lang="zh").svg()
    tree = ElementTree.fromstring(svg)
    texts = [node.text for node in tree.iter("{http://www.w3.org/2000/svg}text")]
    assert {"杯", "broken", "标准对齐", ENGLISH} <= set(texts)
    assert "stroke-dasharray" in svg
    assert not re.search(r"var\(|currentColor|class=|(?:href|src)=\"(?!data:)", svg)


@pytest.mark.browser
def test_an_interaction_is_fast(mount, record_property):
    shown = mount(AlignmentExplorer(text=EXAMPLES[-1]))
    cost = shown.cost("model.set('threshold', 0.2 + (i % 5) / 10)")
    record_property("quiet_ms", cost)
    assert cost < 50
