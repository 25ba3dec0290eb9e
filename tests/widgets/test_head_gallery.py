"""The head gallery: the page's heads are torch's, and the labels are measured on them."""

import re

import numpy as np
import pytest
import torch

from attnbook.seq2seq import Seq2Seq, Seq2SeqConfig
from attnbook.text import Vocabulary, corpus
from attnbook.training.checkpoint import Translator, load_translator
from attnbook.transformer import Transformer, TransformerConfig
from attnbook.widgets import HeadGallery

TEXT = "我们昨天看见的鼬看见过那六只羊。"
KINDS = ("encoder", "decoder", "cross")


@pytest.fixture(scope="module")
def translator():
    return load_translator("grammar-transformer")


@torch.no_grad()
def torch_weights(translator, tokens):
    """(layers, heads, query, key) of each kind, while the translator writes its own words."""
    target = translator.translate_tokens([tokens])[0]
    src = torch.tensor([translator.encode_source(tokens)])
    tgt = torch.tensor([translator.encode_target(target)[:-1]])
    _, weights = translator.model(src, tgt, need_weights=True)
    return {kind: getattr(weights, kind)[:, 0].double() for kind in KINDS}, target


def torch_measures(w, gold=None):
    """As the front end measures: w (query, key)."""
    rows, columns = w.shape
    distance = torch.arange(columns) - torch.arange(rows)[:, None]
    entropy = torch.special.entr(w).sum(-1)
    measures = {
        "entropy": entropy.mean(),
        "keys": entropy.exp().mean(),
        "largest": w.amax(-1).mean(),
        "first": w[:, 0].mean(),
        "last": w[:, -1].mean(),
        "distance": (w * distance.abs()).sum() / rows,
        "offsets": {str(o): (w * (distance == o)).sum() / rows for o in (-2, -1, 0, 1)},
    }
    if gold:
        queries = {q for q, _ in gold}
        measures["gold"] = sum(w[q, k] for q, k in gold) / len(queries)
    return measures


def small_transformer(layers=(1, 3), heads=2):
    torch.manual_seed(0)
    config = TransformerConfig(
        12, 11, d_model=8, num_heads=heads, num_encoder_layers=layers[0], num_decoder_layers=layers[1], d_ff=8
    )
    vocabularies = [Vocabulary([f"{side}{i}" for i in range(n)]) for side, n in (("s", 8), ("t", 7))]
    return Translator(Transformer(config).eval(), *vocabularies)


def test_only_a_transformer_will_do():
    config = Seq2SeqConfig(12, 11, hidden_size=8, embedding_size=8)
    vocabularies = Vocabulary([f"s{i}" for i in range(8)]), Vocabulary([f"t{i}" for i in range(7)])
    with pytest.raises(ValueError, match="expected a translator that is a Transformer, found a Seq2Seq"):
        HeadGallery(Translator(Seq2Seq(config), *vocabularies))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"kind": "gate"}, ValueError, "kind: expected one of 'encoder', 'decoder', 'cross', found 'gate'"),
        ({"layer": 2}, ValueError, "layer: expected an int in [0, 1], found 2"),
        ({"head": 4}, ValueError, "head: expected an int in [0, 3], found 4"),
        ({"examples": "鼬"}, TypeError, "examples: expected a list of sentences, found str"),
        ({"examples": [3]}, TypeError, "examples: expected a str at 0, found int"),
        ({"examples": ["鼬" * 81]}, ValueError, "examples: expected at most 80 characters at 0, found 81"),
        (
            {"text": "鼬" * 81},
            ValueError,
            "text: expected a str of at most 80 characters, found 81 characters",
        ),
    ],
)
def test_wrong_arguments_are_explained(translator, arguments, error, message):
    with pytest.raises(error) as caught:
        HeadGallery(translator, **arguments)
    assert str(caught.value) == message


def test_layers_are_those_of_the_kind():
    gallery = HeadGallery(small_transformer(), kind="cross", layer=2)
    gallery.kind = "encoder"
    with pytest.raises(ValueError, match=re.escape("layer: expected an int in [0, 0], found 1")):
        gallery.layer = 1


def test_description_names_the_sentence_and_counts_the_heads(translator):
    data, _ = HeadGallery(translator, text=TEXT)._repr_mimebundle_()
    assert TEXT in data["text/plain"]
    assert "Each of 24 heads" in data["text/html"]


# ---------------------------------------------------------------------- in the page

ALL = """const translator = module.loadTranslator(model.get("checkpoint"));
const ids = translator.tokenize(arg.text).map(token => token.id);
const memory = translator.encode(ids), {steps} = translator.greedy(memory);
const kinds = module.allHeads(memory, steps), out = {};
for (const [name, {shape, maps}] of Object.entries(kinds)) {
  const gold = name === "cross" ? arg.gold : null, [layers, heads, rows, columns] = shape;
  out[name] = maps.map(layer => layer.map(data => {
    const m = module.headMeasures(data, rows, columns, gold);
    return {data: [...data], shape: [rows, columns], ...m, offsets: Object.fromEntries(m.offsets)};
  }));
}
return out"""


@pytest.mark.browser
@pytest.mark.parametrize("text", [TEXT, "鼬喜欢茶。"])
def test_every_head_and_measure_equals_torch(mount, translator, text):
    tokens = list(text)
    weights, target = torch_weights(translator, tokens)
    pair = next((p for p in corpus(60, split="test") if p.source_text == text), None)
    gold = sorted((t, s) for s, t in pair.alignment) if pair and list(pair.target) == target else None
    found = mount(HeadGallery(translator, text=text)).js(ALL, {"text": text, "gold": gold})
    for kind in KINDS:
        for layer, heads in enumerate(weights[kind]):
            for head, want in enumerate(heads):
                got = found[kind][layer][head]
                assert tuple(got["shape"]) == want.shape
                np.testing.assert_allclose(np.reshape(got["data"], want.shape), want, atol=1e-4)
                for name, value in torch_measures(want, gold if kind == "cross" else None).items():
                    if name == "offsets":
                        for offset, share in value.items():
                            assert got[name].get(offset, 0) == pytest.approx(share.item(), abs=1e-3)
                    else:
                        assert got[name] == pytest.approx(value.item(), abs=5e-3)


@pytest.mark.browser
def test_measures_of_heads_that_are_known(mount, translator):
    """One looks at itself, one everywhere, one at the key before; and how far they are apart."""
    found = mount(HeadGallery(translator)).js(
        """const n = 4, of = f => Float32Array.from({length: n * n}, (_, i) => f(Math.floor(i / n), i % n));
        const same = of((q, k) => Number(q === k)), all = of(() => 1 / n);
        const back = of((q, k) => Number(k === Math.max(0, q - 1)));
        const m = [same, all, back].map(data => module.headMeasures(data, n, n));
        const each = name => m.map(one => one[name]);
        return {
          entropy: each("entropy"), keys: each("keys"), distance: each("distance"),
          names: m.map(one => module.strongest("encoder", one)),
          apart: [same, back, all].map(other => module.headDifference(same, other, n)),
        }"""
    )
    assert found["entropy"] == pytest.approx([0, np.log(4), 0], abs=1e-6)
    assert found["keys"] == pytest.approx([1, 4, 1])
    assert found["distance"] == pytest.approx([0, 20 / 16, 3 / 4])
    assert [one["name"] for one in (found["names"][0], found["names"][2])] == [
        {"zh": "自己", "en": "itself"},
        {"zh": "前一个", "en": "previous"},
    ]
    assert [found["names"][0]["share"], found["names"][2]["share"]] == [1, 0.75]
    assert found["apart"] == pytest.approx([0, 0.75, 0.75])


@pytest.mark.browser
@pytest.mark.parametrize("lang", ["zh", "en"])
def test_a_head_is_enlarged_by_click_and_keys(mount, translator, lang):
    shown = mount(HeadGallery(translator, text="鼬喜欢茶。"), lang=lang)
    buttons = shown.root.locator(".hg-heads button")
    assert buttons.count() == 24
    name = {"zh": "交叉注意力，第 1 层，头 2", "en": "cross-attention, layer 1, head 2"}[lang]
    shown.root.get_by_role("button", name=name).click()
    shown.settle()
    assert [shown.get(trait) for trait in ("kind", "layer", "head")] == ["cross", 1, 2]
    assert shown.root.locator(".hg-facts .anb-mt").inner_text() == name
    assert buttons.nth(22).get_attribute("aria-pressed") == "true"
    buttons.nth(22).press("ArrowUp")
    buttons.nth(18).press("ArrowRight")
    buttons.nth(19).press("Enter")
    shown.settle()
    assert [shown.get(trait) for trait in ("kind", "layer", "head")] == ["cross", 0, 3]
    grid = shown.root.get_by_role("grid")
    assert grid.get_by_role("rowheader").all_inner_texts()[0].startswith("→")
    assert grid.get_by_role("columnheader").all_inner_texts()[-1] == "<eos>"


@pytest.mark.browser
def test_the_enlarged_matrix_and_its_facts_are_those_of_the_head(mount, translator):
    weights, _ = torch_weights(translator, list(TEXT))
    shown = mount(HeadGallery(translator, text=TEXT, kind="decoder", layer=1, head=3), width=900)
    want = weights["decoder"][1, 3]
    texts = shown.root.get_by_role("grid").get_by_role("gridcell").all_inner_texts()
    numbers = [0.0 if text in ("·", "") else float(text) for text in texts]
    np.testing.assert_allclose(numbers, want.flatten(), atol=0.0051)
    measures = torch_measures(want)
    facts = dict(
        zip(
            shown.root.locator("dt").all_inner_texts(),
            shown.root.locator("dd").all_inner_texts(),
            strict=True,
        )
    )
    assert facts["effective keys e^H"] == f"{measures['keys']:.1f}"
    assert facts["mean distance"] == f"{measures['distance']:.1f}"
    assert facts["itself"] == f"{100 * measures['offsets']['0']:.0f}%"


@pytest.mark.browser
def test_the_reader_types_a_sentence(mount, translator):
    shown = mount(HeadGallery(translator), lang="en")
    field = shown.root.get_by_label("Your Chinese sentence")
    field.fill("鼬喜欢茶。")
    field.press("Enter")
    shown.settle()
    assert shown.get("text") == "鼬喜欢茶。"
    assert translator.translate("鼬喜欢茶。") in shown.root.locator(".hg-out").inner_text()
    canvas = shown.root.locator(".hg-heads canvas").first
    assert canvas.evaluate("c => [c.width, c.height]") == [6, 6]
    field.fill("鼬龘茶。")
    field.press("Enter")
    shown.settle()
    assert "1 character(s) not in the vocabulary" in shown.root.locator(".hg-out").inner_text()
    field.fill(" ")
    field.press("Enter")
    shown.settle()
    assert not shown.root.locator(".hg-all").is_visible()
    shown.root.get_by_label("or choose one").select_option(index=2)
    shown.settle()
    assert shown.get("text") == HeadGallery(translator).examples[1]
    assert shown.root.locator(".hg-all").is_visible()


@pytest.mark.browser
def test_gold_alignment_is_outlined_where_the_grammar_knows_it(mount, translator):
    shown = mount(HeadGallery(translator, text="杯子上个月被猫打破了。", kind="cross", layer=1), lang="en")
    pair = next((p for p in corpus(400, split="test") if p.source_text == "杯子上个月被猫打破了。"), None)
    gold = shown.root.locator(".anb-gold")
    assert gold.count() > 8
    if pair:
        assert gold.count() == len(pair.alignment)
    label = shown.root.get_by_role("button", name="cross-attention, layer 1, head 0").get_attribute(
        "aria-label"
    )
    assert "its word" in label
    shown.set(text="鼬今天在月球上喝茶。")
    assert shown.root.locator(".anb-gold").count() == 0


@pytest.mark.browser
def test_another_transformer_of_another_shape(mount):
    shown = mount(HeadGallery(small_transformer(), text="鼬喜欢茶。", examples=[], kind="decoder", layer=2))
    assert shown.root.locator(".hg-heads button").count() == 2 * (1 + 3 + 3)
    assert shown.overflow() == 0


@pytest.mark.browser
def test_a_file_that_is_no_checkpoint_is_told(mount, translator):
    gallery = HeadGallery(translator)
    gallery.checkpoint = b"something else"
    shown = mount(gallery)
    assert "safetensors" in shown.root.get_by_role("alert").inner_text()


@pytest.mark.browser
@pytest.mark.parametrize(("lang", "theme", "width"), [("zh", "dark", 360), ("en", "light", 900)])
def test_it_fits_and_has_no_accessibility_violation(mount, translator, lang, theme, width):
    text = "因为乌龟昨天很饿，所以狐狸在湖边帮助了六个女孩。"
    shown = mount(HeadGallery(translator, text=text), lang=lang, theme=theme, width=width)
    assert shown.overflow() == 0
    assert shown.violations() == []


@pytest.mark.browser
def test_another_head_is_shown_well_within_a_frame(mount, translator, record_property):
    shown = mount(HeadGallery(translator, text=TEXT))
    cost = shown.cost("model.set('head', i % 4)")
    record_property("quiet_ms", cost)
    assert cost < 50
    shown.js("cleanup()")
    assert shown.js("return model.listening()") == 0
