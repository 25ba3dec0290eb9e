"""The in-page runtime computes what PyTorch computes, and reads files as the safetensors library does."""

import base64
import json
import re
from random import Random

import numpy as np
import pytest
import safetensors
import safetensors.torch
import torch
import torch.nn.functional as F
from fuzz import NUMBER, batches
from torch import nn

from attnbook.recurrent import GRU, LSTM, RNN, lstm_gates
from attnbook.text import Vocabulary, corpus, pad
from attnbook.widgets.base import bundle

# What is sent to the page and what comes back are plain numbers: bytes as base64, vectors as lists.
LOAD = """async esm => {
  window.module = await import(URL.createObjectURL(new Blob([esm], {type: "text/javascript"})));
  window.bytes = text => Uint8Array.from(atob(text), c => c.charCodeAt(0));
  window.tensor = ({shape, data}) => ({shape, data: Float32Array.from(data)});
}"""


@pytest.fixture(scope="module")
def page(chromium):
    context = chromium.new_context(offline=True)
    page = context.new_page()
    page.evaluate(LOAD, bundle("runtime.js"))
    yield page
    context.close()


@pytest.fixture
def js(page):
    """`js(body, arg)`: evaluate with `module` (the runtime), `bytes` and `tensor` at hand."""
    return lambda body, arg=None: page.evaluate(f"(arg) => {{ {body} }}", arg)


def text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def sent(tensor: torch.Tensor) -> dict:
    return {"shape": list(tensor.shape), "data": tensor.flatten().tolist()}


def saved(module: nn.Module, dtype=torch.float32) -> bytes:
    return safetensors.torch.save({name: p.detach().to(dtype) for name, p in module.named_parameters()})


def assert_equal(found, expected, atol=1e-5):
    np.testing.assert_allclose(np.asarray(found, dtype=np.float64), expected.detach().double(), atol=atol)


# ---------------------------------------------------------------------- files

READ = """try {
  const {tensors, metadata} = module.readSafetensors(bytes(arg));
  const number = x => Number.isFinite(x) ? x : String(x);
  return {metadata: Object.fromEntries(metadata),
          tensors: [...tensors].map(([name, {shape, data}]) => [name, shape, [...data].map(number)])};
} catch (error) { return {error: error.message, type: error.constructor.name}; }"""


def example() -> bytes:
    generator = torch.Generator().manual_seed(0)
    tensors = {
        "cells.0.weight": torch.randn(12, 20, generator=generator),
        "鼬": torch.randn(5, generator=generator).half(),
        "__proto__": torch.ones(1),
        "scalar": torch.tensor(2.5),
        "empty": torch.zeros(0, 7),
    }
    return safetensors.torch.save(tensors, {"vocabulary": '["鼬", "weasel"]'})


def build(header: object, body: bytes = b"", length: int | None = None) -> bytes:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(raw) if length is None else length).to_bytes(8, "little") + raw + body


def numbers(values: list) -> list[float]:
    """JSON has no infinity and no NaN: they come as text."""
    return [float(str(v).replace("Infinity", "inf")) for v in values]


def assert_same(found: dict, data: bytes) -> None:
    expected = safetensors.torch.load(data)
    assert sorted(name for name, _, _ in found["tensors"]) == sorted(expected)
    for name, shape, values in found["tensors"]:
        assert shape == list(expected[name].shape)
        np.testing.assert_array_equal(numbers(values), expected[name].flatten().double())


def test_tensors_and_metadata_are_those_of_the_library(js):
    found = js(READ, text(example()))
    assert found["metadata"] == {"vocabulary": '["鼬", "weasel"]'}
    assert_same(found, example())


def test_every_float16_is_read_exactly(js):
    bits = np.arange(2**16, dtype=np.uint16)
    data = safetensors.torch.save({"x": torch.from_numpy(bits.view(np.float16).copy())})
    ((_, _, values),) = js(READ, text(data))["tensors"]
    np.testing.assert_array_equal(numbers(values), bits.view(np.float16).astype(np.float64))


def test_bytes_may_lie_anywhere_in_a_buffer(js):
    body = """const all = bytes(arg), results = [];
      for (const shift of [0, 1, 2, 3, 7]) {
        const buffer = new Uint8Array(all.length + 16), place = [shift, shift + all.length];
        buffer.set(all, shift);
        for (const view of [new DataView(buffer.buffer, shift, all.length), buffer.subarray(...place)])
          results.push([...module.readSafetensors(view).tensors.get("cells.0.weight").data]);
      }
      results.push([...module.readSafetensors(all.slice().buffer).tensors.get("cells.0.weight").data]);
      return results;"""
    expected = safetensors.torch.load(example())["cells.0.weight"].flatten()
    for found in js(body, text(example())):
        assert_equal(found, expected, atol=0)


def entry(dtype="F32", shape=(1,), offsets=(0, 4)) -> dict:
    return {"x": {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "a file of at least 8 bytes, found 0"),
        (b"\x89PNG\r\n\x1a\n and more", "a header of at most 100000000 bytes"),
        (build({}, length=100), "a header of 100 bytes, found 2 bytes after its length"),
        (build(b"\xff\xfe{}"), "a header in JSON"),
        (build(b"{'a': 1}"), "a header in JSON"),
        (build(b"[" * 200_000), "a header in JSON"),
        (build([]), "a header that is an object"),
        (build(b"null"), "a header that is an object"),
        (build({"__metadata__": []}), "__metadata__ that is an object"),
        (build({"__metadata__": {"a": 1}}), "text in __metadata__ a, found number"),
        (build({"x": 3}), "F32 or F16 for x, found undefined"),
        (build(entry(dtype="BF16", offsets=(0, 2)), bytes(2)), 'F32 or F16 for x, found "BF16"'),
        (build(entry(dtype="toString"), bytes(4)), "F32 or F16 for x"),
        (build(entry(shape=[-1]), bytes(4)), "a shape for x, found [-1]"),
        (build(entry(shape=[0.5, 2]), bytes(4)), "a shape for x"),
        (build(entry(shape=["1"]), bytes(4)), "a shape for x"),
        (build(entry(shape=[2**40, 2**40]), bytes(4)), "bytes for x, found 4"),
        (build(entry(offsets=[0]), bytes(4)), "two data_offsets for x"),
        (build(entry(offsets=[4, 0]), bytes(4)), "4 bytes for x, found -4"),
        (build(entry(shape=[2]), bytes(4)), "8 bytes for x, found 4"),
        (
            build(entry(shape=[2], offsets=[0, 8]), bytes(7)),
            "8 bytes of numbers, for x, found 7 (a truncated",
        ),
        (build(entry(), bytes(6)), "4 bytes of numbers, found 6"),
        (build(entry(offsets=[2, 6]), bytes(6)), "x at byte 0, found 2"),
        (build(entry() | {"y": entry(offsets=(2, 6))["x"]}, bytes(6)), "y at byte 4, found 2"),
    ],
)
def test_what_is_no_such_file_is_said(js, data, message):
    found = js(READ, text(data))
    assert found["error"].startswith("safetensors: expected ")
    assert message in found["error"]


def test_what_is_no_bytes_is_said(js):
    body = "try { module.readSafetensors(arg) } catch (error) { return error.message }"
    assert js(body, None) == "safetensors: expected bytes, found null"
    assert js(body, "x") == "safetensors: expected bytes, found string"


def test_every_truncation_is_noticed(js):
    data = example()
    body = """const all = bytes(arg), missed = [];
      for (let n = 0; n < all.length; n++)
        try { module.readSafetensors(all.subarray(0, n)); missed.push(n); }
        catch (error) { if (!error.message.startsWith("safetensors: expected")) missed.push(error.message); }
      return missed;"""
    assert js(body, text(data)) == []


# What may stand in the header of such a file, and what may not.
PIECES = (
    rb"""0 1 2 9 -0 00 2.0 1e0 . - , : [ ] { } " \ \u0041 \ud800 null true F16 F32 __metadata__""".split()
)
PIECES += [b"", b" ", b"\n", b"\xff", "鼬".encode()]
PIECE = re.compile(rb'"[^"]*"|\d+|.', re.S)
SMALL = [
    example(),
    safetensors.torch.save({"a": torch.ones(2), "b": torch.zeros(2).half()}),
    safetensors.torch.save({"x": torch.arange(6.0).reshape(2, 3)}, {"k": "v", "l": ""}),
]


def garbled(rng: Random) -> bytes:
    """A small file with pieces of its header changed, or with a few bytes changed, cut out or doubled."""
    data = rng.choice(SMALL)
    end = 8 + int.from_bytes(data[:8], "little")
    pieces = PIECE.findall(data[8:end])
    for _ in range(rng.randint(0, 2)):
        at, other = rng.randrange(len(pieces)), rng.randrange(len(pieces))
        pieces[at : at + rng.randint(0, 2)] = [rng.choice([rng.choice(PIECES), pieces[other]])]
    out = bytearray(build(b"".join(pieces), data[end:]))
    if rng.random() < 0.3:
        at = rng.randrange(len(out))
        out[at : at + rng.randint(0, 6)] = rng.choice([b"", rng.randbytes(1), out[at : at + 12]])
    return bytes(out)


def plain(data: bytes) -> bytes:
    """The file as the library wants it: each name once (the last one counts), 2 for 2.0, whole characters.

    The page's JSON reads the other spellings too, and cannot tell.
    """
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end], parse_float=lambda number: int(float(number)))
    return build(json.dumps(header, ensure_ascii=False).encode("utf-8", "replace"), data[end:])


def test_garbled_files_are_refused_or_read_as_the_library_reads_them(js):
    body = """const base64 = ({buffer}) => btoa(String.fromCharCode(...new Uint8Array(buffer)));
      return JSON.stringify(arg.split(" ").map(file => {
        try {
          const {tensors} = module.readSafetensors(bytes(file));
          return [...tensors].map(([name, {shape, data}]) => [name, shape, base64(data)]);
        } catch (error) { return error.message; }
      }))"""
    accepted = total = 0
    for files in batches(garbled):
        read = json.loads(js(body, " ".join(map(text, files))))
        for file, found in zip(files, read, strict=True):
            total += 1
            if isinstance(found, str):
                assert found.startswith("safetensors: expected "), found
                with pytest.raises(safetensors.SafetensorError):
                    safetensors.torch.load(file)
                continue
            accepted += 1
            expected = safetensors.torch.load(plain(file))
            assert {name for name, _, _ in found} == set(expected)
            for name, shape, data in found:
                assert shape == list(expected[name].shape)
                numbers = np.frombuffer(base64.b64decode(data), dtype=np.float32)
                assert np.array_equal(numbers, expected[name].float().flatten(), equal_nan=True)
    assert 0.1 < accepted / total < 0.9  # both kinds are there


def test_random_bytes_are_refused_quickly(js):
    body = """const start = performance.now(); let read = 0, seed = 1;
      for (let i = 0; i < arg; i++) {
        const next = () => (seed = (Math.imul(seed, 1103515245) + 12345) & 0x7fffffff) >> 16;
        const noise = new Uint8Array(i % 97).map(next);
        if (i % 2 && noise.length > 7) noise.set([noise.length - 8, 0, 0, 0, 0, 0, 0, 0]);
        try { module.readSafetensors(noise); read++; }
        catch (error) { if (!error.message.startsWith("safetensors:")) throw error; }
      }
      return [read, performance.now() - start];"""
    read, milliseconds = js(body, NUMBER)
    assert read == 0
    assert milliseconds < 0.5 * NUMBER  # 0.02 ms each on a quiet core


# ---------------------------------------------------------------------- layers


def normal(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 5), (40, 64)])
def test_linear_equals_torch(js, rows, columns):
    W, b, x = normal(0, rows, columns), normal(1, rows), normal(2, columns)
    body = "return [...module.applyLinear(tensor(arg.W), arg.b && tensor(arg.b), Float32Array.from(arg.x))]"
    case = {"W": sent(W), "b": sent(b), "x": x.tolist()}
    assert_equal(js(body, case), F.linear(x, W, b))
    assert_equal(js(body, case | {"b": None}), F.linear(x, W))


@pytest.mark.parametrize("time", [1, 3, 4, 5, 9])
@pytest.mark.parametrize("bias", [True, False])
def test_linear_of_many_rows_equals_torch(js, time, bias):
    W, b, X = normal(0, 7, 6), normal(1, 7), normal(2, time, 6)
    body = """const y = module.applyLinears(tensor(arg.W), arg.b && tensor(arg.b), tensor(arg.X));
      return [y.shape, [...y.data]];"""
    shape, found = js(body, {"W": sent(W), "b": sent(b) if bias else None, "X": sent(X)})
    assert shape == [time, 7]
    assert_equal(np.reshape(found, shape), F.linear(X, W, b if bias else None))


def test_embedding_is_a_row_and_a_copy(js):
    W = normal(0, 4, 3)
    body = """const W = tensor(arg), row = module.embedRow(W, 2), copy = [...row]; row.fill(9);
      return [copy, [...W.data]]"""
    row, after = js(body, sent(W))
    assert_equal(row, W[2], atol=0)
    assert_equal(after, W.flatten(), atol=0)


@pytest.mark.parametrize("temperature", [0.05, 0.5, 1.0, 2.0, 100.0])
@pytest.mark.parametrize("scale", [0.1, 10.0, 1e4])
def test_probabilities_equal_torch(js, temperature, scale):
    logits = normal(0, 30) * scale
    found = js(
        "return [...module.probabilities(Float32Array.from(arg[0]), arg[1])]", [logits.tolist(), temperature]
    )
    assert_equal(found, (logits / temperature).softmax(-1), atol=1e-6)


def test_temperature_zero_takes_the_largest(js):
    body = "return [...module.probabilities(Float32Array.from(arg), 0)]"
    assert js(body, [1.0, 3.0, 2.0]) == [0, 1, 0]
    assert js(body, [3.0, 3.0, 2.0]) == [0.5, 0.5, 0]


def test_draw_takes_each_token_as_often_as_its_probability_says(js):
    p = torch.tensor([0.1, 0.0, 0.5, 0.4])
    body = """const p = Float32Array.from(arg), counts = p.map(() => 0);
      for (let i = 0; i < 1000; i++) counts[module.drawFrom(p, (i + 0.5) / 1000)]++;
      const short = Float32Array.of(0.3, 0.3, 0);
      return [...counts, module.drawFrom(p, 0.99999999), module.drawFrom(short, 0.9)]"""
    *counts, last, lost = js(body, p.tolist())
    np.testing.assert_allclose(counts, 1000 * p, atol=1)
    assert (last, lost) == (3, 1)


@pytest.mark.parametrize("affine", [True, False])
def test_layer_normalisation_equals_torch(js, affine):
    x, weight, bias = 3 * normal(0, 16) + 5, normal(1, 16), normal(2, 16)
    body = """const [w, b] = arg.affine.map(tensor);
      return [...module.normaliseLayer(Float32Array.from(arg.x), w, b)]"""
    found = js(body, {"x": x.tolist(), "affine": [sent(weight), sent(bias)] if affine else []})
    assert_equal(found, F.layer_norm(x, (16,), *([weight, bias] if affine else [])))


def test_rms_normalisation_equals_torch(js):
    x, weight = 3 * normal(0, 16) + 5, normal(1, 16)
    body = "return [...module.normaliseRms(Float32Array.from(arg.x), tensor(arg.weight))]"
    found = js(body, {"x": x.tolist(), "weight": sent(weight)})
    assert_equal(found, F.rms_norm(x, (16,), weight, eps=1e-5))


# ---------------------------------------------------------------------- recurrent networks

RUN = """const {tensors} = module.readSafetensors(bytes(arg.file));
const network = module.recurrentNetwork(tensors, "", arg.directions ?? 1);
const xs = arg.x.map(x => Float32Array.from(x));
const list = state => Object.fromEntries(Object.entries(state).map(([k, v]) => [k, [...v]]));
"""
WHOLE = (
    RUN
    + """const {outputs, states, state} = network.run(xs);
const {kind, resetAfter, inputSize, hiddenSize, layers, directions} = network;
return {outputs: outputs.map(o => [...o]), states: states.map(at => at.map(list)), state: state.map(list),
        about: [kind, resetAfter, inputSize, hiddenSize, layers, directions]};"""
)
KINDS = {
    "rnn": (RNN, nn.RNN, {}),
    "lstm": (LSTM, nn.LSTM, {}),
    "gru": (GRU, nn.GRU, {}),
    "gru reset before": (GRU, None, {"reset_after": False}),
}


def random_network(kind: str, layers: int, bidirectional: bool, size: int = 5, hidden: int = 7):
    """The network for the page, and the function that it must be equal to: torch's own where torch has it."""
    ours, theirs, options = KINDS[kind]
    torch.manual_seed(layers)
    if theirs is None:
        network = ours(size, hidden, layers, bidirectional, **options)
        for p in network.parameters():
            nn.init.normal_(p, std=0.6)  # biases too
        return network, network
    twin = theirs(size, hidden, layers, bidirectional=bidirectional, batch_first=True)
    for p in twin.parameters():
        nn.init.normal_(p, std=0.6)
    return ours.from_torch(twin), twin


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_random_network_equals_torch(js, kind, layers, bidirectional):
    network, twin = random_network(kind, layers, bidirectional)
    x, directions = normal(9, 1, 12, 5), 2 if bidirectional else 1
    outputs, state = twin(x)
    found = js(WHOLE, {"file": text(saved(network)), "x": x[0].tolist(), "directions": directions})
    assert found["about"] == [kind.split()[0], kind == "gru", 5, 7, layers, directions]
    assert_equal(found["outputs"], outputs[0])
    parts = state if isinstance(state, tuple) else (state,)
    for name, part in zip("hc", parts, strict=False):
        assert_equal([at[name] for at in found["state"]], part[:, 0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layers", [1, 2])
def test_steps_equal_a_whole_run(js, kind, layers):
    network, _ = random_network(kind, layers, bidirectional=False)
    body = (
        RUN
        + """let state = network.start(); const whole = network.run(xs), steps = [];
      for (const x of xs) { state = network.step(x, state); steps.push(state.map(list)); }
      const again = network.run(xs.slice(4), network.run(xs.slice(0, 4)).state);
      return [steps, whole.states.map(at => at.map(list)), again.state.map(list)];"""
    )
    steps, whole, again = js(body, {"file": text(saved(network)), "x": normal(9, 9, 5).tolist()})
    assert steps == whole
    assert again == whole[-1]


def test_gates_are_those_of_the_formulas(js):
    lstm, _ = random_network("lstm", 1, bidirectional=False)
    x = normal(9, 3, 5)
    found = js(WHOLE, {"file": text(saved(lstm)), "x": x.tolist()})["states"]
    (cell,) = lstm.cells
    h = torch.tensor(found[1][0]["h"])
    gates = lstm_gates(cell(x[2:]), h[None], cell.weight_hh)
    for name, gate in zip("ifgo", gates, strict=True):
        assert_equal(found[2][0][name], gate[0])

    gru, _ = random_network("gru", 1, bidirectional=False)
    before, after = js(WHOLE, {"file": text(saved(gru)), "x": x.tolist()})["states"][1:]
    h, r, z, n = (torch.tensor(part) for part in (before[0]["h"], *(after[0][k] for k in "rzn")))
    cell = gru.cells[0]
    a_r, a_z, a_n = cell(x[2]).chunk(3)
    u_r, u_z, u_n = (cell.weight_hh @ h).chunk(3)
    assert_equal(r.tolist(), torch.sigmoid(a_r + u_r))
    assert_equal(z.tolist(), torch.sigmoid(a_z + u_z))
    assert_equal(n.tolist(), torch.tanh(a_n + r * (u_n + cell.bias_hn)))
    assert_equal(after[0]["h"], (1 - z) * n + z * h)


def test_arguments_are_left_as_they_were(js):
    network, _ = random_network("lstm", 2, bidirectional=False)
    body = (
        RUN
        + """const state = network.run(xs).state;
      const seen = () => JSON.stringify([state.map(list), xs.map(x => [...x])]), before = seen();
      network.step(xs[0], state); network.run(xs, state);
      return before === seen();"""
    )
    assert js(body, {"file": text(saved(network)), "x": normal(9, 3, 5).tolist()})


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("read(new Map())", "weights: expected cells.0.weight_hh, found nothing"),
        ("read(tensors, 'recurrent.')", "weights: expected recurrent.cells.0.weight_hh"),
        ("read(tensors, '', 2)", "cells.1.weight_ih: expected shape (28,5), found (28,7)"),
        ("tensors.get('cells.0.weight_hh').shape = [27, 7]; read(tensors)", "1, 3 or 4 times"),
        ("tensors.get('cells.1.bias').shape = [7]; read(tensors)", "expected shape (28)"),
        ("tensors.delete('cells.1.bias'); read(tensors)", "weights: expected cells.1.bias"),
        ("module.embedRow(W, 28)", "id: expected an integer in [0, 27], found 28"),
        ("module.embedRow(W, 0.5)", "id: expected an integer"),
        ("module.applyLinear(W, null, [1, 2])", "x: expected 5 numbers"),
        ("module.applyLinears(W, null, {shape: [2, 4], data: [1]})", "X: expected rows of 5 numbers"),
        ("module.takeTensor(tensors, 'none')", "weights: expected none, found cells.0"),
        ("module.takeTensor(tensors, 'cells.0.bias', 27)", "cells.0.bias: expected shape (27), found (28)"),
        ("module.probabilities([1, 2], -1)", "temperature: expected a number of at least 0, found -1"),
    ],
)  # fmt: skip
def test_wrong_use_is_explained(js, body, message):
    network, _ = random_network("lstm", 2, bidirectional=False)
    found = js(
        f"""const {{tensors}} = module.readSafetensors(bytes(arg)), read = module.recurrentNetwork;
        const W = tensors.get("cells.0.weight_ih");
        try {{ {body}; return "no error"; }} catch (error) {{ return error.message; }}""",
        text(saved(network)),
    )
    assert message in found


def test_both_directions_cannot_be_stepped(js):
    network, _ = random_network("rnn", 1, bidirectional=True)
    body = RUN + "try { network.step(xs[0], network.start()) } catch (error) { return error.message }"
    found = js(body, {"file": text(saved(network)), "x": normal(9, 3, 5).tolist(), "directions": 2})
    assert found.startswith("step: expected one direction")


# ---------------------------------------------------------------------- a trained model


class LanguageModel(nn.Module):
    def __init__(self, vocab_size, recurrent, size=32, hidden=48):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, size)
        self.recurrent = recurrent(size, hidden)
        self.output = nn.Linear(hidden, vocab_size)

    def forward(self, tokens):
        return self.output(self.recurrent(self.embedding(tokens))[0])


@pytest.fixture(scope="module", params=[RNN, LSTM, GRU], ids=lambda kind: kind.__name__)
def trained(request):
    """A language model after a short training on the built-in corpus, its weights rounded to float16."""
    torch.manual_seed(0)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    sentences = [pair.target for pair in corpus(400)]
    vocabulary = Vocabulary.build(sentences, min_count=3)
    model = LanguageModel(len(vocabulary), request.param)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    ids = [vocabulary.encode(sentence, bos=True, eos=True) for sentence in sentences]
    for step in range(60):
        tokens, _ = pad(ids[(step % 8) * 50 : (step % 8) * 50 + 50])
        loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten(), ignore_index=0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.set_num_threads(threads)
    assert loss < 3.5  # it has learned something: unigrams alone have more than 5
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(p.half())
    return model, [vocabulary.encode(pair.target, bos=True) for pair in corpus(8, split="test")]


MODEL = """const {tensors} = module.readSafetensors(bytes(arg.file));
const network = module.recurrentNetwork(tensors, "recurrent.");
const E = tensors.get("embedding.weight"), W = tensors.get("output.weight"), b = tensors.get("output.bias");
const next = (id, state) => {
  state = network.step(module.embedRow(E, id), state);
  return [state, module.applyLinear(W, b, state.at(-1).h)];
};
"""


@torch.no_grad()
def test_trained_model_gives_the_same_logits(js, trained):
    model, sentences = trained
    body = (
        MODEL
        + """return arg.sentences.map(ids => { let state = network.start(), logits;
      return ids.map(id => { [state, logits] = next(id, state); return [...logits]; }); });"""
    )
    found = js(body, {"file": text(saved(model, torch.float16)), "sentences": sentences})
    for ids, logits in zip(sentences, found, strict=True):
        assert_equal(logits, model(torch.tensor([ids]))[0], atol=1e-4)


@torch.no_grad()
def test_trained_model_writes_the_same_tokens(js, trained):
    model, sentences = trained
    body = (
        MODEL
        + """return arg.sentences.map(ids => { let state = network.start(), logits; const out = [];
      for (const id of ids.slice(0, 3)) [state, logits] = next(id, state);
      for (let i = 0; i < 15; i++) {
        out.push(module.drawFrom(module.probabilities(logits, 0), 0));
        [state, logits] = next(out.at(-1), state);
      }
      return out; });"""
    )
    found = js(body, {"file": text(saved(model, torch.float16)), "sentences": sentences})
    for ids, written in zip(sentences, found, strict=True):
        outputs, state = model.recurrent(model.embedding(torch.tensor([ids[:3]])))
        expected = []
        for _ in range(15):
            expected.append(int(model.output(outputs[0, -1]).argmax()))
            outputs, state = model.recurrent(model.embedding(torch.tensor([expected[-1:]])), state)
        assert written == expected


def test_runtime_is_small_and_needs_nothing():
    assert len(bundle("runtime.js")) < 12_000
    assert "import" not in bundle("runtime.js")
