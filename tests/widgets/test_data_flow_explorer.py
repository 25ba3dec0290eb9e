"""The data-flow explorer: its tensors are PyTorch's, its code is ours, and every block can be reached."""

import base64
import functools
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

import attnbook
from attnbook import Transformer, TransformerConfig, num_parameters
from attnbook.training.checkpoint import Translator, load_translator
from attnbook.transformer import EncoderLayer
from attnbook.widgets import DataFlowExplorer
from attnbook.widgets.data_flow_explorer import source_excerpt

ROOT = Path(attnbook.__file__).parents[2]
TEXT = "小鼬昨天没吃那条鱼。"
MODELS = {
    "shipped": None,  # pre-norm, rotary, target tied
    "paper": {"position": "sinusoidal", "norm_first": False, "tie_weights": "target"},
    "learned": {"position": "learned", "norm_first": True, "tie_weights": "none", "activation": "gelu"},
}


@functools.cache
def translator(name):
    shipped = load_translator("grammar-transformer")
    if MODELS[name] is None:
        return shipped
    torch.manual_seed(0)
    sizes = (len(shipped.source_vocabulary), len(shipped.target_vocabulary), 16, 2, 3, 1, 24)
    model = Transformer(TransformerConfig(*sizes, max_len=80, **MODELS[name])).half().float().eval()
    return Translator(model, shipped.source_vocabulary, shipped.target_vocabulary, casing=shipped.casing)


def explorer(name="shipped", text=TEXT, **traits):
    return DataFlowExplorer("grammar-transformer" if name == "shipped" else translator(name), text, **traits)


def ready(shown):
    """Wait until the sentence has been worked on and drawn."""
    shown.settle()
    shown.page.wait_for_function("i => !shown[i].el.querySelector('[aria-busy]')", arg=shown.index)
    shown.settle()
    return shown


# ---------------------------------------------------------------------- Python


@pytest.mark.parametrize("name", MODELS)
def test_the_blocks_hold_every_parameter_once(name):
    widget, model = explorer(name), translator(name).model
    assert sum(block["parameters"] for block in widget.blocks) == num_parameters(model)
    norm_first, position = model.config.norm_first, model.config.position
    assert ("encoder.0.residual_1" in widget.paths) == norm_first
    assert ("encoder_norm" in widget.paths) == norm_first
    assert ("src_position" in widget.paths) == (position != "rotary")
    layer = [path for path in widget.paths if path.startswith("decoder.0")]
    order = ["self_attention", "cross_attention", "feed_forward"]
    assert [path.split(".")[2] for path in layer if path.split(".")[2] in order] == order
    assert widget.paths[0] == "src_embedding"
    assert widget.paths[-1] == "output"


def test_shared_matrices_are_said_to_be_shared():
    shared = {block["path"]: block["shared"] for block in explorer().blocks}
    assert shared["output"] == "tgt_embedding"
    assert not any(owner for path, owner in shared.items() if path != "output")
    assert not any(block["shared"] for block in explorer("learned").blocks)


@pytest.mark.parametrize("name", MODELS)
def test_the_code_is_the_packages_own(name):
    widget = explorer(name)
    assert set(widget.code) == {re.sub(r"\.\d+", "", path) for path in widget.paths}
    for key, names in widget.code.items():
        assert names, key
        for excerpt in map(widget.excerpts.get, names):
            lines = (ROOT / excerpt["file"]).read_text("utf-8").splitlines()
            assert excerpt["lines"], key
            for number, text, _ in excerpt["lines"]:
                assert lines[number - 1].strip() == text.strip(), (excerpt["file"], number)
    said = {key: "\n".join(line[1] for n in names for line in widget.excerpts[n]["lines"])
            for key, names in widget.code.items()}  # fmt: skip
    assert "* math.sqrt(self.config.d_model)" in said["src_embedding"]
    assert "self.feed_forward, self.norm_3" in said["decoder.feed_forward"]
    assert "ACTIVATIONS[self.activation](self.W_1(x))" in said["encoder.feed_forward"]
    assert "memory_kv = self.cross_attention.project_key_value" in said["decoder.cross_attention"]
    assert "/ math.sqrt(d_k)" in said["encoder.self_attention"]
    assert "self.output(" in said["output"]


def test_docstrings_are_left_out_and_marks_must_be_found():
    excerpt = source_excerpt(EncoderLayer.forward, "self.norm_2")
    text = "\n".join(line[1] for line in excerpt["lines"])
    assert '"""' not in text
    assert text.startswith("def forward(")
    assert [line[1].strip()[:12] for line in excerpt["lines"] if line[2]] == ["x = residual"]
    with pytest.raises(ValueError, match="marks: expected statements of EncoderLayer.forward, found none"):
        source_excerpt(EncoderLayer.forward, "norm_9")


def test_bad_arguments_are_named():
    with pytest.raises(TypeError, match="checkpoint: expected a shipped checkpoint's name or a Translator"):
        DataFlowExplorer(3)
    with pytest.raises(ValueError, match="checkpoint: expected a Transformer, found Seq2Seq"):
        DataFlowExplorer("grammar-gru")
    with pytest.raises(
        ValueError, match="block: expected one of src_embedding, .*, found 'encoder.7.norm_1'"
    ):
        explorer(block="encoder.7.norm_1")
    with pytest.raises(ValueError, match="block: expected one of"):
        explorer("paper", block="encoder.0.residual_1")
    with pytest.raises(ValueError, match=r'head: expected an int in \[0, 3\] or "mean", found 4'):
        explorer(head=4)
    with pytest.raises(TypeError, match="head: expected"):
        explorer(head=None)
    with pytest.raises(ValueError, match="text: expected a str of at most 80"):
        explorer(text="鼬" * 81)
    widget = explorer()
    with pytest.raises(ValueError, match="step: expected"):
        widget.step = -1


def test_it_opens_with_an_example_and_describes_itself():
    widget = DataFlowExplorer(block="output", head="mean")
    assert widget.text == widget.examples[0][0]
    for sentence, english in widget.examples:
        assert load_translator("grammar-transformer").translate(sentence) == english
    text = widget.describe()
    for said in (text.zh, text.en):
        assert widget.text in said
        assert "777,856" in said
        assert "output" in said


# ---------------------------------------------------------------------- numbers


def record(name, source, target):
    """What each module of the model puts out and takes in, without the batch dimension."""
    model, found = translator(name).model, {}

    def keep(path):
        def hook(module, inputs, output):
            if isinstance(output, torch.Tensor):
                found[path] = inputs[0][0], output[0]

        return hook

    hooks = [m.register_forward_hook(keep(path)) for path, m in model.named_modules()]
    with torch.no_grad():
        _, weights = model(torch.tensor([source]), torch.tensor([target]), need_weights=True)
    for hook in hooks:
        hook.remove()
    return found, weights


def flow_in_page(shown):
    """Tokens, and for each block its tensors as the page has them, by name."""
    return shown.js(
        """const translator = module.loadTranslator(model.get("checkpoint"));
        const work = module.flowSteps(translator, model.get("text"));
        let part; do part = work.next(); while (!part.done);
        const flow = part.value, ids = translator.tokenize(model.get("text")).map(token => token.id);
        const blocks = Object.fromEntries(model.get("blocks").map(({path}) => [path,
          module.blockTensors(path, translator.config).map(({tensor, rows}) => ({tensor, rows}))]));
        const used = new Set(Object.values(blocks).flat().map(({tensor}) => tensor));
        const tensors = Object.fromEntries([...flow.tensors].filter(([name]) => used.has(name))
          .map(([name, {shape, data}]) => [name, {shape, data: [...data]}]));
        const target = [1, ...translator.encodeTarget(flow.target.slice(1))];
        return {blocks, tensors, source: [...ids, 2], target,
          words: [flow.source, flow.target, flow.produced], english: flow.english};"""
    )


@pytest.mark.browser
@pytest.mark.parametrize("name", MODELS)
def test_every_block_shows_what_pytorch_computes(mount, name):
    shown = ready(mount(explorer(name)))
    page = flow_in_page(shown)
    found, weights = record(name, page["source"], page["target"])
    model = translator(name).model
    config = model.config

    def tensor(key):
        return np.array(page["tensors"][key]["data"]).reshape(page["tensors"][key]["shape"])

    def same(key, expected):
        np.testing.assert_allclose(tensor(key), expected, rtol=1e-3, atol=2e-4, err_msg=key)

    for path, parts in page["blocks"].items():
        names = [part["tensor"] for part in parts]
        rows = page["source"] if path.startswith(("enc", "src")) else page["target"]
        assert len(tensor(names[-1])) == len(rows)
        last = path.split(".")[-1]
        if last.endswith("attention"):
            stack, layer, _ = path.split(".")
            kept = {"encoder": weights.encoder, "decoder": weights.decoder}[stack]
            kept = weights.cross if last == "cross_attention" else kept
            same(f"{path}.weights", kept[int(layer), 0])
            same(f"{path}.W_o", found[f"{path}.W_o"][1])
            joined = tensor(f"{path}.heads").transpose(1, 0, 2).reshape(len(rows), -1)
            np.testing.assert_allclose(joined, found[f"{path}.W_o"][0], rtol=1e-3, atol=2e-4)
            v = (
                found[f"{path}.W_v"][1]
                .numpy()
                .reshape(-1, config.num_heads, config.d_model // config.num_heads)
            )
            np.testing.assert_allclose(tensor(f"{path}.v").transpose(1, 0, 2), v, rtol=1e-3, atol=2e-4)
        elif last == "feed_forward":
            same(names[0], found[path][0])
            same(f"{path}.W_1", found[f"{path}.W_1"][1])
            same(f"{path}.hidden", found[f"{path}.W_2"][0])
            same(f"{path}.W_2", found[path][1])
        elif last.startswith("residual"):
            x, f, total = map(tensor, names)
            np.testing.assert_allclose(x + f, total, atol=1e-5)
        elif last.endswith("embedding"):
            same(names[0], found[path][1])
            same(names[1], found[path][1] * config.d_model**0.5)
        elif last.endswith("position"):
            embed = model.embed_source if path.startswith("src") else model.embed_target
            same(names[1], embed(torch.tensor([rows]))[0].detach())
        elif last == "output":
            same(names[0], found[path][0])
            same(names[1], found[path][1])
        else:  # a norm
            assert names[-1] == path
            same(names[-1], found[path][1])
            same(names[-2], found[path][0])
            if len(names) == 4:
                np.testing.assert_allclose(tensor(names[0]) + tensor(names[1]), tensor(names[2]), atol=1e-5)
    # the sums of a pre-norm stack are what the next norm takes in
    if config.norm_first:
        for key in ("encoder.0.residual_1", "decoder.0.residual_2"):
            after = {"encoder.0.residual_1": "encoder.0.norm_2", "decoder.0.residual_2": "decoder.0.norm_3"}[
                key
            ]
            same(key, found[after][0])


@pytest.mark.browser
def test_the_translation_is_pythons(mount):
    page = flow_in_page(ready(mount(explorer())))
    assert page["english"] == translator("shipped").translate(TEXT)
    source, target, produced = page["words"]
    assert source == [*TEXT, "<eos>"]
    assert target[0] == "<bos>"
    assert produced == [*target[1:], "<eos>"]


@pytest.mark.browser
def test_one_head_or_all_of_them(mount):
    shown = ready(mount(explorer()))
    data = np.arange(2 * 3 * 4)
    both = shown.js(
        """const tensor = {shape: [2, 3, 4], data: Float32Array.from(arg)};
        const parts = [1, "mean"].map(head => module.headOf(tensor, head));
        return parts.map(({shape, data}) => [shape, [...data]]);""",
        data.tolist(),
    )
    heads = data.reshape(2, 3, 4)
    assert both[0] == [[3, 4], heads[1].ravel().tolist()]
    assert both[1] == [[3, 8], heads.transpose(1, 0, 2).ravel().tolist()]


@pytest.mark.browser
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("width", [262, 326, 380])
def test_the_diagram_fits_and_nothing_overlaps(mount, name, width):
    shown = ready(mount(explorer(name)))
    code = "return module.layoutOf(arg, module.loadTranslator(model.get('checkpoint')).config)"
    plan = shown.js(code, width)
    boxes = [(b["x"], b["y"], b["x"] + b["w"], b["y"] + b["h"]) for b in plan["blocks"]]
    for left, top, right, bottom in boxes:
        assert 0 <= left < right <= width
        assert 0 <= top < bottom <= plan["height"]
    for i, a in enumerate(boxes):
        for b in boxes[:i]:
            assert a[0] >= b[2] or b[0] >= a[2] or a[1] >= b[3] or b[1] >= a[3]
    assert len(plan["blocks"]) == len(
        {re.sub(r"\.\d+\.", ".", block["path"]) for block in explorer(name).blocks}
    )


# ---------------------------------------------------------------------- what the reader does


def pressed(shown):
    return shown.root.locator(".df-map button[aria-pressed=true]").get_attribute("aria-label")


@pytest.mark.browser
@pytest.mark.parametrize(
    ("lang", "name", "said"),
    [
        ("zh", "解码器第 0 层：交叉注意力", "65,536 个参数"),
        ("en", "Decoder layer 0: cross-attention", "65,536 parameters"),
    ],
)
def test_a_click_chooses_a_block(mount, lang, name, said):
    shown = ready(mount(explorer(step=3), lang=lang))
    shown.root.get_by_role("button", name=name).click()
    shown.settle()
    assert shown.get("block") == "decoder.0.cross_attention"
    assert shown.root.locator(".df-top .anb-mt").inner_text() == name
    assert said in shown.root.locator(".df-facts").inner_text()
    assert pressed(shown) == name
    sizes = shown.root.locator(".df-heat:visible .df-name span").all_inner_texts()
    steps = shown.root.locator(".df-words button:visible").count()
    assert [size.split(" ±")[0] for size in sizes] == [
        f"({steps}, 32)", "(11, 32)", "(11, 32)", f"({steps}, 32)", f"({steps}, 128)"
    ]  # fmt: skip
    files = shown.root.locator(".df-file").all_inner_texts()
    assert any("attention.py" in file and "scaled_dot_product_attention" in file for file in files)
    assert (
        "“eat”" in shown.root.locator(".anb-say").inner_text()
        or "“did”" in shown.root.locator(".anb-say").inner_text()
    )


@pytest.mark.browser
def test_previous_and_next_walk_the_whole_flow(mount):
    widget = explorer(block="src_embedding")
    shown = ready(mount(widget, lang="en"))
    forth, back = (shown.root.get_by_role("button", name=f"{way} block") for way in ("next", "previous"))
    visited = [shown.get("block")]
    assert back.is_disabled()
    while not forth.is_disabled():
        forth.click()
        shown.settle()
        visited.append(shown.get("block"))
        assert shown.root.locator(".df-facts").inner_text().startswith(visited[-1])
        assert pressed(shown) == shown.root.locator(".df-top .anb-mt").inner_text()
    assert visited == widget.paths
    back.click()
    shown.settle()
    assert shown.get("block") == "decoder_norm"


@pytest.mark.browser
def test_arrow_keys_walk_the_diagram(mount):
    shown = ready(mount(explorer(block="encoder.0.self_attention"), lang="en"))
    shown.root.get_by_role("button", name="Encoder layer 0: multi-head self-attention").focus()

    def press(key):
        shown.page.keyboard.press(key)
        shown.settle()
        return shown.get("block")

    assert press("ArrowUp") == "encoder.0.residual_1"
    assert press("ArrowDown") == "encoder.0.self_attention"
    assert press("ArrowRight") == "decoder.0.self_attention"
    assert press("ArrowLeft") == "encoder.0.self_attention"
    assert press("Home") == "src_embedding"
    assert press("ArrowDown") == "src_embedding"
    assert press("End") == "encoder_norm"
    focused = shown.page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert focused == "Final layer norm of the encoder"
    assert shown.root.locator(".df-map button[tabindex='0']").count() == 1


@pytest.mark.browser
def test_the_step_is_the_token_that_is_produced(mount):
    shown = ready(mount(explorer(block="decoder.1.self_attention"), lang="en"))
    words = shown.root.locator(".df-words button:visible")
    produced = words.all_inner_texts()
    assert produced[-1] == "<eos>"
    words.nth(2).click()
    shown.settle()
    assert shown.get("step") == 2
    rows = shown.root.locator(".df-look .anb-rl").all_inner_texts()
    assert rows == ["<bos>", *produced[:2]]  # what it has read so far
    assert shown.root.locator(".df-out").inner_text().startswith(produced[2])
    assert shown.js("return el.querySelector('.df-heat:not([hidden]) canvas').height") == 3
    assert f"Step 2 produces “{produced[2]}”" in shown.root.locator(".anb-say").inner_text()
    words.nth(2).focus()
    for key, step in (
        ("ArrowRight", 3),
        ("ArrowLeft", 2),
        ("Home", 0),
        ("ArrowLeft", 0),
        ("End", len(produced) - 1),
    ):
        shown.page.keyboard.press(key)
        shown.settle()
        assert shown.get("step") == step
    assert shown.page.evaluate("document.activeElement.textContent") == "<eos>"


@pytest.mark.browser
def test_layer_and_head(mount):
    shown = ready(mount(explorer(block="encoder.0.norm_2"), lang="en"))
    shown.root.get_by_role("radio", name="1").click()
    shown.settle()
    assert shown.get("block") == "encoder.1.norm_2"
    shown.set(block="src_embedding")
    shown.root.get_by_role("radio", name="0").click()
    shown.settle()
    assert shown.get("block") == "src_embedding"
    assert "layer 0" in shown.root.locator(".df-layer").first.inner_text()
    shown.set(block="encoder.0.self_attention")
    shown.root.get_by_role("combobox", name="Head").select_option("2")
    shown.settle()
    assert shown.get("head") == 2
    page = flow_in_page(shown)
    weights = np.array(page["tensors"]["encoder.0.self_attention.weights"]["data"]).reshape(4, 11, 11)[2]
    cells = shown.root.locator(".df-look .anb-c").all_inner_texts()
    assert cells == [("·" if w < 0.005 else f"{w:.2f}") for w in weights.ravel()]
    shown.root.get_by_role("combobox", name="Head").select_option("mean")
    shown.settle()
    assert shown.get("head") == "mean"
    assert "(11, 128)" in shown.root.locator(".df-heat:visible .df-name span").first.inner_text()
    shown.root.get_by_role("combobox", name="Layer").select_option("1")
    shown.settle()
    assert shown.get("block") == "encoder.1.self_attention"


@pytest.mark.browser
def test_numbers_can_be_read_by_mouse_and_by_keyboard(mount):
    shown = ready(mount(explorer(block="encoder_norm"), lang="en"))
    page = flow_in_page(shown)
    memory = np.array(page["tensors"]["encoder_norm"]["data"]).reshape(11, 128)
    picture = shown.root.locator(".df-heat:visible .df-picture").nth(1)
    picture.focus()
    for key in ("Home", "ArrowDown", "ArrowRight", "ArrowRight"):
        shown.page.keyboard.press(key)
    value = f"{memory[1, 2]:.3f}".replace("-", "−")
    assert shown.root.locator(".anb-tip").inner_text() == f"“鼬”, feature 2: {value}"
    assert shown.root.locator(".anb-say").inner_text() == f"“鼬”, feature 2: {value}"
    box = picture.bounding_box()
    picture.hover(position={"x": box["width"] * 10.5 / 128, "y": 14 * 3 + 7})
    value = f"{memory[3, 10]:.3f}".replace("-", "−")
    assert shown.root.locator(".anb-tip").inner_text() == f"“天”, feature 10: {value}"


@pytest.mark.browser
def test_the_readers_sentence_flows_through(mount):
    shown = ready(mount(explorer(block="output"), lang="en"))
    field = shown.root.get_by_label("Your Chinese sentence")
    field.fill("我喜欢茶。")
    field.press("Enter")
    ready(shown)
    assert shown.get("text") == "我喜欢茶。"
    english = translator("shipped").translate("我喜欢茶。")
    assert english in shown.root.locator(".df-steps").inner_text()
    assert shown.root.locator(".df-list li").count() == 8
    field.fill("<b>鼬</b>。鱼。")
    field.press("Enter")
    ready(shown)
    assert shown.root.locator("b").filter(has_text="鼬").count() == 0
    said = shown.root.locator(".df-steps").inner_text()
    assert "The model has never seen: <, b, >" in said
    assert "Only the first sentence is read." in said
    field.fill("")
    field.press("Enter")
    ready(shown)
    assert "Type a Chinese sentence" in shown.root.locator(".anb-say").inner_text()
    assert shown.root.locator(".df-heat:visible").count() == 0
    shown.root.get_by_role("combobox", name="or choose one").select_option("0")
    ready(shown)
    assert shown.get("text") == shown.get("examples")[0][0]
    assert field.input_value() == shown.get("text")


@pytest.mark.browser
def test_the_kernel_steers(mount):
    shown = ready(mount(explorer(), lang="en"))
    shown.set(text="我喜欢茶。", block="decoder.1.feed_forward", step=50, head=3)
    ready(shown)
    assert shown.root.get_by_label("Your Chinese sentence").input_value() == "我喜欢茶。"
    assert "<eos>" in shown.root.locator(".anb-say").inner_text()
    assert shown.root.locator(".df-heat:visible").count() == 4
    shown.set(block="encoder.1.self_attention")
    assert shown.root.get_by_role("combobox", name="Head").input_value() == "3"


@pytest.mark.browser
def test_a_file_of_another_kind_is_refused(mount):
    shown = mount(explorer(), lang="en")
    gru = (ROOT / "src/attnbook/checkpoints/grammar-gru.safetensors").read_bytes()
    said = shown.js(
        """const bytes = Uint8Array.from(atob(arg), c => c.charCodeAt(0)).buffer;
        const get = name => name === "checkpoint" ? bytes : model.get(name);
        const other = {...model, get};
        const place = document.createElement("div"); document.body.append(place);
        const stop = module.default.render({model: other, el: place});
        const said = place.querySelector("[role=alert]").textContent; stop(); place.remove();
        return said;""",
        base64.b64encode(gru).decode(),
    )
    assert said == "checkpoint: expected a Transformer, found Seq2Seq"


# ---------------------------------------------------------------------- form


@pytest.mark.browser
@pytest.mark.parametrize(
    ("lang", "theme", "block"),
    [
        ("zh", "light", "decoder.1.cross_attention"),
        ("en", "dark", "decoder.1.cross_attention"),
        ("en", "light", "output"),
        ("zh", "dark", "encoder.0.feed_forward"),
    ],
)
def test_fits_a_phone_and_is_accessible(mount, lang, theme, block):
    long = "因为小鼬昨天晚上在厨房里吃了一条很大的鱼，所以它今天早上没吃那只苹果。"
    shown = ready(mount(explorer(text=long, block=block), lang=lang, theme=theme, width=360))
    assert shown.overflow() <= 0
    assert shown.violations() == []
    cut = shown.js(
        "return [...el.querySelectorAll('.df-map button')].filter(b => b.scrollWidth > b.clientWidth).length"
    )
    assert cut == 0


@pytest.mark.browser
@pytest.mark.parametrize("width", [360, 900])
def test_the_panel_stands_beside_the_diagram_where_there_is_room(mount, width):
    shown = ready(mount(explorer(), width=width))
    diagram, panel = (shown.root.locator(part).bounding_box() for part in (".df-map", ".df-panel"))
    beside = panel["x"] >= diagram["x"] + diagram["width"]
    assert beside == (width == 900)
    assert beside or panel["y"] >= diagram["y"] + diagram["height"]


@pytest.mark.browser
def test_language_and_theme_are_followed(mount):
    shown = ready(mount(explorer(block="encoder.0.norm_1"), lang="zh"))
    picture = "return el.querySelector('.df-heat:not([hidden]) canvas').toDataURL()"
    before = shown.js(picture)
    shown.page.evaluate(
        "document.documentElement.lang = 'en'; document.documentElement.dataset.theme = 'dark'"
    )
    shown.settle()
    assert shown.root.locator(".df-top .anb-mt").inner_text() == "Encoder layer 0: first layer norm"
    assert shown.js(picture) != before
    assert "层" not in shown.root.locator(".df-panel").inner_text()


@pytest.mark.browser
def test_export_and_clean_up(mount):
    shown = ready(mount(explorer(block="decoder.0.cross_attention"), lang="en"))
    svg = shown.svg()
    saved = ElementTree.fromstring(svg)
    assert "Masked self-attention" in svg
    assert "memory → K, V" in svg
    # Code stays in its box, which scrolls on the page, and in its font.
    boxes = list(saved.iterfind("{http://www.w3.org/2000/svg}svg"))
    code = [text for box in boxes for text in box.iter("{http://www.w3.org/2000/svg}text")]
    assert any("def " in text.text for text in code)
    assert all("monospace" in text.get("font-family") for text in code)
    shown.js("cleanup()")
    assert shown.js("return model.listening()") == 0
    assert shown.root.inner_html() == ""


@pytest.mark.browser
def test_choosing_and_stepping_are_quick(mount):
    shown = ready(mount(explorer(block="decoder.0.feed_forward"), width=900))
    walk = 'const all = model.get("blocks"); model.set("block", all[(3 * i) % all.length].path)'
    assert shown.cost(walk) < 50
    shown.set(block="decoder.0.cross_attention")
    assert shown.cost('model.set("step", i % 9)') < 50


@pytest.mark.browser
def test_a_new_sentence_is_worked_on_in_pieces_while_the_old_one_stays(mount):
    shown = ready(mount(explorer(), lang="en"))
    old = shown.root.locator(".df-steps p").first.inner_text()
    # one long task would have finished within the frame in which it began
    seen = shown.js(
        """return (async () => {
          const frame = () => new Promise(f => requestAnimationFrame(f)), seen = [];
          const said = () => el.querySelector(".df-steps p").textContent;
          model.set("text", arg);
          await frame(); await frame();
          while (el.querySelector("[aria-busy]")) { seen.push(said()); await frame(); }
          return seen;
        })()""",
        "因为小鼬昨天晚上在厨房里吃了一条鱼，所以它今天早上没吃那只苹果。",
    )
    assert seen
    assert set(seen) == {old}
    assert shown.root.locator(".df-steps p").first.inner_text() != old
