"""The translator in the page computes what Python computes from the same file: text, logits, weights, decoded tokens."""

import base64
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from attnbook.decoding import beam_search, greedy
from attnbook.seq2seq import Seq2Seq, Seq2SeqConfig
from attnbook.text import Vocabulary, corpus
from attnbook.training.checkpoint import Translator, load_translator
from attnbook.widgets.base import bundle, checkpoint_bytes

BOS, EOS = 1, 2
GRAMMAR = ("grammar-rnn", "grammar-lstm", "grammar-gru", "grammar-gru-attention")

LOAD = """async esm => {
  window.module = await import(URL.createObjectURL(new Blob([esm], {type: "text/javascript"})));
  window.bytes = text => Uint8Array.from(atob(text), c => c.charCodeAt(0));
  window.packed = view => {  // numbers as base64: JSON would take most of the time
    const raw = new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
    let text = "";
    for (let i = 0; i < raw.length; i += 0x8000) text += String.fromCharCode(...raw.subarray(i, i + 0x8000));
    return btoa(text);
  };
}"""


@pytest.fixture(scope="module")
def page(chromium):
    context = chromium.new_context(offline=True)
    page = context.new_page()
    page.evaluate(LOAD, bundle("translator.js"))
    yield page
    context.close()


@pytest.fixture(scope="module")
def js(page):
    """`js(body, arg)`: evaluate with `module` (translator.js), `translator`, `bytes` and `packed` at hand."""
    return lambda body, arg=None: page.evaluate(f"(arg) => {{ const {{translator}} = window; {body} }}", arg)


@pytest.fixture(scope="module")
def load(js):
    """`load(checkpoint)`: the page has it as `translator`; returns Python's translator from the same bytes."""

    def load(checkpoint, tmp_path: Path | None = None) -> Translator:
        data = checkpoint_bytes(checkpoint)
        js("window.translator = module.loadTranslator(bytes(arg))", base64.b64encode(data).decode())
        if isinstance(checkpoint, str):
            return load_translator(checkpoint)
        path = tmp_path / "translator.safetensors"
        path.write_bytes(data)
        return load_translator(path)

    return load


def unpacked(text: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), dtype=np.float32)


def vocabulary(size: int, prefix: str) -> Vocabulary:
    return Vocabulary([f"{prefix}{i}" for i in range(size - 4)])


def random_translator(model: nn.Module, std: float = 0.3) -> Translator:
    """A translator with random weights, biases too: a model that reads none of them alike gives other logits."""
    torch.manual_seed(0)
    for name, p in model.named_parameters():
        nn.init.normal_(p, mean=float("norm" in name and name.endswith("weight")), std=std)
    config = model.config
    return Translator(
        model.eval(), vocabulary(config.src_vocab_size, "s"), vocabulary(config.tgt_vocab_size, "t")
    )


TEACHER = """return arg.map(([source, target]) => {
  const memory = translator.encode(source), steps = [];
  let state = translator.start(memory);
  for (const id of [1, ...target]) {
    const step = translator.step(memory, state, id);
    if (step.state.length !== state.length + 1) throw new Error("length");
    state = step.state;
    const rows = weights => weights && weights.map(layer => layer.map(packed));
    steps.push([packed(step.logits), rows(step.cross), rows(step.self)]);
  }
  const maps = memory.weights?.map(layer => layer.map(m => [m.rows, m.columns, packed(m.data)]));
  return {steps, maps, ids: memory.ids};
})"""


@torch.no_grad()
def assert_same_steps(
    js, translator: Translator, pairs: list[tuple[list[int], list[int]]], atol: float = 1e-3
):
    """Logits, attention weights and the source's ids of every step equal those of PyTorch."""
    model = translator.model
    attends = getattr(model.config, "attention", "yes") is not None
    for (source, target), found in zip(pairs, js(TEACHER, pairs), strict=True):
        assert found["ids"] == [*source, EOS]
        src, tgt = torch.tensor([[*source, EOS]]), torch.tensor([[BOS, *target]])
        logits, *weights = model(src, tgt, need_weights=True) if attends else (model(src, tgt),)
        steps = found["steps"]
        np.testing.assert_allclose([unpacked(step[0]) for step in steps], logits[0], atol=atol, rtol=0)
        if not attends:
            assert all(step[1] is None and step[2] is None for step in steps)
        elif isinstance(weights[0], torch.Tensor):
            cross = [unpacked(step[1][0][0]) for step in steps]
            np.testing.assert_allclose(cross, weights[0][0], atol=1e-4)
            assert all(len(step[1]) == 1 and len(step[1][0]) == 1 and step[2] is None for step in steps)
        else:
            assert_same_weights(found, weights[0])


def assert_same_weights(found: dict, weights) -> None:
    layers, heads = weights.cross.shape[0], weights.cross.shape[2]
    for layer, head in product(range(layers), range(heads)):
        cross = [unpacked(step[1][layer][head]) for step in found["steps"]]
        np.testing.assert_allclose(cross, weights.cross[layer, 0, head], atol=1e-4)
        for t, step in enumerate(found["steps"]):
            own = unpacked(step[2][layer][head])
            np.testing.assert_allclose(own, weights.decoder[layer, 0, head, t, : t + 1], atol=1e-4)
    assert len(found["maps"]) == len(weights.encoder)
    for layer, maps in enumerate(found["maps"]):
        for head, (rows, columns, data) in enumerate(maps):
            expected = weights.encoder[layer, 0, head]
            assert (rows, columns) == expected.shape
            np.testing.assert_allclose(unpacked(data).reshape(rows, columns), expected, atol=1e-4)


def random_pairs(config, number: int = 4, seed: int = 0) -> list[tuple[list[int], list[int]]]:
    rng = np.random.default_rng(seed)
    ids = lambda size, length: rng.integers(3, size, length).tolist()  # noqa: E731
    return [
        (ids(config.src_vocab_size, rng.integers(1, 13)), ids(config.tgt_vocab_size, rng.integers(0, 9)))
        for _ in range(number)
    ]


# ---------------------------------------------------------------------- recurrent models

SEQ2SEQ = [
    {
        "cell": cell,
        "attention": attention,
        "bidirectional": both,
        "reverse_source": reverse,
        "num_layers": layers,
    }
    for cell, attention, both, reverse, layers in product(
        ("rnn", "lstm", "gru"), (None, "additive", "dot", "general"), (False, True), (False, True), (1, 2)
    )
    if not (attention == "dot" and both)
]


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
def test_every_recurrent_model_gives_the_logits_of_torch(js, load, tmp_path, cell):
    for options in SEQ2SEQ:
        if options["cell"] == cell:
            model = Seq2Seq(Seq2SeqConfig(11, 13, embedding_size=5, hidden_size=7, **options))
            translator = load(random_translator(model), tmp_path)
            assert_same_steps(js, translator, random_pairs(model.config))


@pytest.mark.parametrize("name", GRAMMAR)
def test_shipped_model_gives_the_logits_of_torch(js, load, name):
    translator = load(name)
    pairs = [
        (translator.encode_source(pair.source)[:-1], translator.encode_target(pair.target)[1:-1])
        for pair in corpus(30, split="test")
    ]
    assert_same_steps(js, translator, pairs)


# ---------------------------------------------------------------------- decoding

GREEDY = """const start = performance.now();
const found = arg.map(source => {
  const {ids, score, ended, steps} = translator.greedy(translator.encode(source));
  return {ids, score, ended, steps: steps.length};
});
return [found, performance.now() - start];"""


def limits(sources: list[list[int]]) -> dict[int, list[int]]:
    """Indices of the sources (ids without `<eos>`) by the length after which Python cuts their translation."""
    classes: dict[int, list[int]] = {}
    for index, source in enumerate(sources):
        classes.setdefault(16 * (len(source) // 8) + 24, []).append(index)
    return classes


def decoded(translator: Translator, sources: list[list[int]], decode) -> tuple[list, list]:
    """What `decode(model, src, max_len)` gives for each source, as Translator.translate_tokens calls it."""
    ids, scores = [None] * len(sources), [0.0] * len(sources)
    for limit, members in limits(sources).items():
        for start in range(0, len(members), 64):
            part = members[start : start + 64]
            longest = max(len(sources[i]) for i in part) + 1
            src = torch.tensor([[*sources[i], EOS] + [0] * (longest - len(sources[i]) - 1) for i in part])
            for i, *found in zip(part, *decode(translator.model, src, limit), strict=True):
                ids[i], scores[i] = found
    return ids, scores


@pytest.mark.parametrize("name", GRAMMAR)
def test_greedy_writes_the_same_tokens_on_the_whole_test_split(js, load, name):
    translator = load(name)
    pairs = corpus(2000, split="test")
    sources = [translator.encode_source(pair.source)[:-1] for pair in pairs]
    expected, scores = decoded(translator, sources, lambda model, src, limit: greedy(model, src, limit))
    found, _ = js(GREEDY, sources)
    assert [one["ids"] for one in found] == expected
    np.testing.assert_allclose([one["score"] for one in found], scores, atol=5e-3)
    for one, ids in zip(found, expected, strict=True):
        assert one["steps"] == len(ids) + one["ended"]


BEAM = """return arg.sources.map(source => {
  const {history, ...found} = translator.beamSearch(translator.encode(source), arg.width, arg.alpha, arg.limit);
  return found;
})"""


@pytest.mark.parametrize("name", GRAMMAR)
@pytest.mark.parametrize(("width", "alpha"), [(4, 0.6)])
def test_beam_search_finds_the_same_tokens(js, load, name, width, alpha):
    translator = load(name)
    sources = [translator.encode_source(pair.source)[:-1] for pair in corpus(200, split="test")]
    expected, scores = decoded(
        translator, sources, lambda model, src, limit: beam_search(model, src, width, alpha, limit)
    )
    found = js(BEAM, {"sources": sources, "width": width, "alpha": alpha})
    assert [one["ids"] for one in found] == expected
    np.testing.assert_allclose([one["score"] for one in found], scores, atol=2e-3)
