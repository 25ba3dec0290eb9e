// The in-page inference runtime: a trained network of the course runs in the reader's browser, in float32, as PyTorch runs it.
//
//   import {readSafetensors, embedRow, applyLinear, probabilities, recurrentNetwork} from "./runtime.js";
//
//   const {tensors, metadata} = readSafetensors(model.get("weights"));       // a binary trait; or an ArrayBuffer, a typed array
//   const network = recurrentNetwork(tensors, "recurrent.");                 // an attnbook RNN, LSTM or GRU, from its state_dict
//   let state = network.start();
//   for (const id of ids) {
//     state = network.step(embedRow(tensors.get("embedding.weight"), id), state);
//     const logits = applyLinear(tensors.get("output.weight"), tensors.get("output.bias"), state.at(-1).h);
//     const p = probabilities(logits, temperature);
//   }
//
// A *tensor* is {shape, data}: data a Float32Array, row after row. A *vector* is a Float32Array. Functions change none
// of their arguments, and nothing is remembered between calls: a state goes in, the next one comes out.
//
// readSafetensors(bytes) -> {tensors: Map name -> tensor, metadata}   F32 and F16; throws an Error that says what is wrong
// applyLinear(W, b, x) -> W x + b                                      W (rows, columns); b a tensor (rows,) or null
// applyLinears(W, b, X) -> the same for every row of X                 X a tensor (time, columns), the result (time, rows)
// embedRow(W, id) -> row `id` of W
// probabilities(logits, temperature = 1) -> softmax(logits / temperature)   temperature 0: all on the largest
// drawFrom(p, u) -> index, for u uniform in [0, 1)
// normaliseLayer(x, weight, bias, epsilon = 1e-5)                      layer normalisation; weight and bias tensors or null
// normaliseRms(x, weight, epsilon = 1e-5)                              root-mean-square normalisation
// cellStep(cell, x, before) -> after                                   one step of one cell
// takeTensor(tensors, name, ...shape) -> tensor                        throws an Error if it is missing or has another shape
// recurrentNetwork(tensors, prefix, directions = 1) -> network         directions 2: bidirectional
//   network.kind "rnn" | "lstm" | "gru"; .resetAfter (GRU: torch's variant); .inputSize, .hiddenSize, .layers, .directions;
//          .cells, the {kind, W, U, b, bn} that cellStep takes, layer 0 forward, layer 0 backward, layer 1 forward, …
//   network.start() -> state            one cell state for each layer and direction, in the order of the Python class
//   network.step(x, state) -> state     one token (one direction only)
//   network.run(xs, state) -> {outputs, states, state}   a whole sequence, both directions; states[t][k] as below
//
// A cell state is {h} of an RNN, {h, c, i, f, g, o} of an LSTM (input, forget, candidate, output gate), {h, r, z, n} of a
// GRU (reset, update, candidate): the state after the step and what led to it. network.start() has zeros for h and c.

// ---------------------------------------------------------------------- files

const HEADER_LIMIT = 100_000_000; // bytes, as the format's own reader has it
const ELEMENT_BYTES = {F32: 4, F16: 2};
const isObject = value => typeof value === "object" && value !== null && !Array.isArray(value);

// https://huggingface.co/docs/safetensors: the header's length (8 bytes, little-endian), the header (JSON), the numbers. The tensors fill the file without gaps and without overlap.
export function readSafetensors(source) {
  const expect = (right, expected, found) => {
    if (!right) throw new Error(`safetensors: expected ${expected}, found ${found}`);
  };
  const isBytes = source instanceof ArrayBuffer || ArrayBuffer.isView(source);
  expect(isBytes, "bytes", source === null ? "null" : typeof source);
  const bytes = source instanceof ArrayBuffer ? new Uint8Array(source) : new Uint8Array(source.buffer, source.byteOffset, source.byteLength);
  expect(bytes.length >= 8, "a file of at least 8 bytes", bytes.length);
  const length = Number(new DataView(bytes.buffer, bytes.byteOffset, 8).getBigUint64(0, true));
  expect(length <= HEADER_LIMIT, `a header of at most ${HEADER_LIMIT} bytes`, length);
  expect(8 + length <= bytes.length, `a header of ${length} bytes`, `${bytes.length - 8} bytes after its length (a truncated or foreign file)`);
  let header;
  try {
    header = JSON.parse(new TextDecoder("utf-8", {fatal: true}).decode(bytes.subarray(8, 8 + length)));
  } catch (error) {
    expect(false, "a header in JSON", error.message);
  }
  expect(isObject(header), "a header that is an object", JSON.stringify(header).slice(0, 40));

  const body = bytes.subarray(8 + length), tensors = new Map(), metadata = new Map(), places = [];
  for (const [name, entry] of Object.entries(header)) {
    if (name === "__metadata__") {
      expect(isObject(entry), "__metadata__ that is an object", JSON.stringify(entry).slice(0, 40));
      for (const [key, value] of Object.entries(entry)) {
        expect(typeof value === "string", `text in __metadata__ ${key}`, typeof value);
        metadata.set(key, value);
      }
      continue;
    }
    const {dtype, shape, data_offsets: offsets} = isObject(entry) ? entry : {};
    const size = Object.hasOwn(ELEMENT_BYTES, dtype) ? ELEMENT_BYTES[dtype] : 0;
    const isCount = n => Number.isSafeInteger(n) && n >= 0;
    expect(size, `F32 or F16 for ${name}`, JSON.stringify(dtype));
    expect(Array.isArray(shape) && shape.length <= 8 && shape.every(isCount), `a shape for ${name}`, JSON.stringify(shape));
    expect(Array.isArray(offsets) && offsets.length === 2 && offsets.every(isCount), `two data_offsets for ${name}`, JSON.stringify(offsets));
    const [start, end] = offsets, count = shape.reduce((product, n) => product * n, 1);
    expect(end - start === count * size, `${count * size} bytes for ${name}`, end - start);
    expect(end <= body.length, `${end} bytes of numbers, for ${name}`, `${body.length} (a truncated file)`);
    places.push({name, start, end});
    tensors.set(name, {shape, data: [start, end, dtype]}); // read below, when all is known to be right
  }
  let reached = 0;
  for (const {name, start, end} of places.sort((a, b) => a.start - b.start || a.end - b.end)) {
    expect(start === reached, `${name} at byte ${reached}`, start);
    reached = end;
  }
  expect(reached === body.length, `${reached} bytes of numbers`, body.length);
  for (const tensor of tensors.values()) {
    const [start, end, dtype] = tensor.data, raw = body.slice(start, end).buffer; // a copy: aligned
    tensor.data = dtype === "F32" ? new Float32Array(raw) : widen(new Uint16Array(raw));
  }
  return {tensors, metadata};
}

// float16 to float32: sign, exponent with another offset, the same fraction; numbers below 2⁻¹⁴ have no leading one.
function widen(halves) {
  const out = new Float32Array(halves.length), bits = new Uint32Array(out.buffer);
  for (let i = 0; i < halves.length; i++) {
    const half = halves[i], sign = (half & 0x8000) << 16, exponent = (half >> 10) & 31, fraction = half & 1023;
    if (exponent === 0) out[i] = (sign ? -1 : 1) * fraction * 2 ** -24;
    else bits[i] = sign | ((exponent === 31 ? 255 : exponent + 112) << 23) | (fraction << 13);
  }
  return out;
}

// ---------------------------------------------------------------------- layers

const wrongSize = (what, expected, found) => new RangeError(`${what}: expected ${expected}, found ${found}`);

export function applyLinear(W, b, x) {
  const [rows, columns] = W.shape, y = new Float32Array(rows);
  if (W.shape.length !== 2 || x.length !== columns) throw wrongSize("x", `${columns} numbers for weights (${W.shape})`, x.length);
  if (b && b.data.length !== rows) throw wrongSize("b", `${rows} numbers`, b.data.length);
  const w = W.data;
  let r = 0;
  for (; r + 3 < rows; r += 4) {
    // Four rows at a time: each number of x is read once for them, and no sum waits for another.
    const k0 = r * columns, k1 = k0 + columns, k2 = k1 + columns, k3 = k2 + columns;
    let s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    for (let c = 0; c < columns; c++) {
      const v = x[c];
      s0 += w[k0 + c] * v;
      s1 += w[k1 + c] * v;
      s2 += w[k2 + c] * v;
      s3 += w[k3 + c] * v;
    }
    y[r] = s0;
    y[r + 1] = s1;
    y[r + 2] = s2;
    y[r + 3] = s3;
  }
  for (; r < rows; r++) {
    let sum = 0;
    for (let c = 0, k = r * columns; c < columns; c++) sum += w[k + c] * x[c];
    y[r] = sum;
  }
  if (b) for (let i = 0; i < rows; i++) y[i] += b.data[i];
  return y;
}

// Every row of X (time, columns) -> (time, rows). Four of them share each weight that is read.
export function applyLinears(W, b, X) {
  const [rows, columns] = W.shape, [time] = X.shape, w = W.data, x = X.data, out = new Float32Array(time * rows);
  if (X.shape[1] !== columns) throw wrongSize("X", `rows of ${columns} numbers for weights (${W.shape})`, X.shape[1]);
  if (b && b.data.length !== rows) throw wrongSize("b", `${rows} numbers`, b.data.length);
  let t = 0;
  for (; t + 3 < time; t += 4) {
    const i0 = t * columns, i1 = i0 + columns, i2 = i1 + columns, i3 = i2 + columns;
    for (let r = 0; r < rows; r++) {
      const k = r * columns;
      let s0 = 0, s1 = 0, s2 = 0, s3 = 0;
      for (let c = 0; c < columns; c++) {
        const v = w[k + c];
        s0 += v * x[i0 + c];
        s1 += v * x[i1 + c];
        s2 += v * x[i2 + c];
        s3 += v * x[i3 + c];
      }
      const o = t * rows + r;
      out[o] = s0;
      out[o + rows] = s1;
      out[o + 2 * rows] = s2;
      out[o + 3 * rows] = s3;
    }
  }
  for (; t < time; t++) out.set(applyLinear(W, null, x.subarray(t * columns, (t + 1) * columns)), t * rows);
  if (b) for (let o = 0; o < out.length; o++) out[o] += b.data[o % rows];
  return {shape: [time, rows], data: out};
}

export function embedRow(W, id) {
  const [rows, columns] = W.shape;
  if (!Number.isInteger(id) || id < 0 || id >= rows) throw wrongSize("id", `an integer in [0, ${rows - 1}]`, id);
  return W.data.slice(id * columns, (id + 1) * columns);
}

export function probabilities(logits, temperature = 1) {
  if (!(temperature >= 0)) throw wrongSize("temperature", "a number of at least 0", temperature);
  const p = new Float32Array(logits.length);
  let top = -Infinity, sum = 0;
  for (let i = 0; i < p.length; i++) if (logits[i] > top) top = logits[i];
  for (let i = 0; i < p.length; i++) sum += p[i] = logits[i] === top ? 1 : temperature > 0 ? Math.exp((logits[i] - top) / temperature) : 0;
  for (let i = 0; i < p.length; i++) p[i] /= sum;
  return p;
}

// The first index at which the sum of the probabilities exceeds u; a sum that rounding has left below u ends at the last possible one.
export function drawFrom(p, u) {
  let sum = 0, last = 0;
  for (let i = 0; i < p.length; i++) {
    if (p[i] > 0) last = i;
    sum += p[i];
    if (u < sum) return i;
  }
  return last;
}

export function normaliseLayer(x, weight = null, bias = null, epsilon = 1e-5) {
  const n = x.length, y = new Float32Array(n);
  let mean = 0, variance = 0;
  for (let i = 0; i < n; i++) mean += x[i] / n;
  for (let i = 0; i < n; i++) variance += (x[i] - mean) ** 2 / n;
  const scale = 1 / Math.sqrt(variance + epsilon);
  for (let i = 0; i < n; i++) y[i] = (x[i] - mean) * scale * (weight ? weight.data[i] : 1) + (bias ? bias.data[i] : 0);
  return y;
}

export function normaliseRms(x, weight, epsilon = 1e-5) {
  const n = x.length, y = new Float32Array(n);
  let square = 0;
  for (let i = 0; i < n; i++) square += x[i] ** 2 / n;
  const scale = 1 / Math.sqrt(square + epsilon);
  for (let i = 0; i < n; i++) y[i] = x[i] * scale * weight.data[i];
  return y;
}

// ---------------------------------------------------------------------- recurrent cells

const sigmoid = x => 1 / (1 + Math.exp(-x));
const GATES = {rnn: 1, gru: 3, lstm: 4};

// cell: {kind, W, U, b, bn}: weight_ih, weight_hh, bias of the Python class; bn its bias_hn (GRU that resets after the product) or null.
export function cellStep(cell, x, before) {
  const {kind, W, U, b, bn} = cell, {h, c} = before, n = h.length, a = applyLinear(W, b, x);
  const out = () => new Float32Array(n);
  if (kind === "rnn") {
    const u = applyLinear(U, null, h), after = out();
    for (let j = 0; j < n; j++) after[j] = Math.tanh(a[j] + u[j]);
    return {h: after};
  }
  if (kind === "lstm") {
    const u = applyLinear(U, null, h), i = out(), f = out(), g = out(), o = out(), memory = out(), after = out();
    for (let j = 0; j < n; j++) {
      i[j] = sigmoid(a[j] + u[j]);
      f[j] = sigmoid(a[n + j] + u[n + j]);
      g[j] = Math.tanh(a[2 * n + j] + u[2 * n + j]);
      o[j] = sigmoid(a[3 * n + j] + u[3 * n + j]);
      memory[j] = f[j] * c[j] + i[j] * g[j];
      after[j] = o[j] * Math.tanh(memory[j]);
    }
    return {h: after, c: memory, i, f, g, o};
  }
  const rows = (first, last) => ({shape: [(last - first) * n, n], data: U.data.subarray(first * n * n, last * n * n)});
  const u = applyLinear(rows(0, 2), null, h), r = out(), z = out(), reset = out(), candidate = out(), after = out();
  for (let j = 0; j < n; j++) {
    r[j] = sigmoid(a[j] + u[j]);
    z[j] = sigmoid(a[n + j] + u[n + j]);
    reset[j] = r[j] * h[j];
  }
  const m = bn ? applyLinear(rows(2, 3), bn, h) : applyLinear(rows(2, 3), null, reset);
  for (let j = 0; j < n; j++) {
    candidate[j] = Math.tanh(a[2 * n + j] + (bn ? r[j] * m[j] : m[j]));
    after[j] = (1 - z[j]) * candidate[j] + z[j] * h[j];
  }
  return {h: after, r, z, n: candidate};
}

// The tensor of that name, which must have that shape.
export function takeTensor(tensors, name, ...shape) {
  const tensor = tensors.get(name);
  if (!tensor) throw new Error(`weights: expected ${name}, found ${[...tensors.keys()].slice(0, 5).join(", ") || "nothing"} …`);
  if (shape.length && String(tensor.shape) !== String(shape)) throw wrongSize(name, `shape (${shape})`, `(${tensor.shape})`);
  return tensor;
}

// The cells of a state_dict; kind, sizes and the variant of the GRU are read from the shapes.
export function recurrentNetwork(tensors, prefix = "", directions = 1) {
  const cells = [];
  const take = (k, name, ...shape) => takeTensor(tensors, `${prefix}cells.${k}.${name}`, ...shape);
  const first = take(0, "weight_hh").shape, n = first[1], inputSize = take(0, "weight_ih").shape[1];
  const kind = Object.keys(GATES).find(name => first.length === 2 && GATES[name] * n === first[0] && n > 0);
  if (!kind) throw wrongSize(`${prefix}cells.0.weight_hh`, "1, 3 or 4 times as many rows as columns", `(${first})`);
  while (tensors.has(`${prefix}cells.${cells.length}.weight_ih`) || cells.length === 0) {
    const k = cells.length, rows = GATES[kind] * n, hasBn = kind === "gru" && tensors.has(`${prefix}cells.0.bias_hn`);
    cells.push({
      kind,
      W: take(k, "weight_ih", rows, k < directions ? inputSize : directions * n),
      U: take(k, "weight_hh", rows, n),
      b: take(k, "bias", rows),
      bn: hasBn ? take(k, "bias_hn", n) : null,
    });
  }
  if (cells.length % directions) throw wrongSize(`${prefix}cells`, `a multiple of ${directions}`, cells.length);
  const layers = cells.length / directions;
  const start = () => cells.map(() => ({h: new Float32Array(n), ...(kind === "lstm" && {c: new Float32Array(n)})}));

  function step(x, state) {
    if (directions !== 1) throw new Error("step: expected one direction, found 2; the second one has to see the whole sequence");
    return cells.reduce((after, cell, k) => [...after, cellStep(cell, k ? after[k - 1].h : x, state[k])], []);
  }
  function run(xs, state = start()) {
    const states = xs.map(() => []), final = [...state];
    let inputs = xs;
    for (let layer = 0; layer < layers; layer++) {
      for (let direction = 0; direction < directions; direction++) {
        const k = layer * directions + direction;
        for (let i = 0; i < inputs.length; i++) {
          const t = direction ? inputs.length - 1 - i : i;
          states[t][k] = final[k] = cellStep(cells[k], inputs[t], final[k]);
        }
      }
      inputs = states.map(at => {
        const parts = at.slice(layer * directions), joined = new Float32Array(directions * n);
        parts.forEach((part, d) => joined.set(part.h, d * n));
        return joined;
      });
    }
    return {outputs: inputs, states, state: final};
  }
  return {kind, resetAfter: Boolean(cells[0].bn), inputSize, hiddenSize: n, layers, directions, cells, start, step, run};
}
