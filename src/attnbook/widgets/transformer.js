// The Transformer and the GPT of attnbook.transformer and attnbook.gpt in the page.
//
// transformerNetwork(tensors, config) -> {attends, layers, heads, encoderLayers, encode(ids), start(memory), step(memory, state, id), trace(ids, target)}
// as translator.js describes them; here ids of a source end in <eos>, and the target's begin with <bos>.
//   memory: {outputs, weights, cross}   outputs (source, d_model); weights[layer][head] of the encoder; cross[layer] {k, v}:
//           keys and values for cross-attention, projected once
//   state:  {length, past}              past[layer] {k, v} (tokens so far, features): the KV cache. step makes a longer copy.
//
// gptNetwork(tensors, config) -> {layers, heads, read(state, ids), step(state, id), start(), trace(ids)}
//   state: as above; start() has read nothing
//   read(state, ids) -> {logits (time, vocabulary), state, self}    self[layer][head] {rows: time, columns: tokens so far, data}
//   step(state, id) -> {logits Float32Array, state, self}           self[layer][head] Float32Array(tokens so far)
//
// trace(…) -> [{name, shape, data}, …], every intermediate tensor in the order of its computation. Names are the paths of
// the Python modules for their outputs ("encoder.0.self_attention.W_q", "decoder.1.norm_2", "output"), and below them:
//   src_embedding.scaled               times √d (tgt_embedding.scaled)
//   ….self_attention.q, .k, .v         (heads, time, d_k), after rotary positions; .scores before mask and softmax,
//   .weights (heads, query, key), .heads = weights · v (heads, query, d_k)      likewise ….cross_attention
//   ….feed_forward.hidden              after the activation
//   encoder.0.residual_1               the sum x + F(…) of the first sublayer
//   probabilities                      softmax of output

import {ACTIVATIONS} from "./activations.js";
import {applyLinear, applyLinears, embedRow, normaliseLayer, normaliseRms, probabilities, takeTensor} from "./runtime.js";

const unrecorded = () => {};

// Rows of a tensor (time, features).
const rowOf = ({shape: [, width], data}, t) => data.subarray(t * width, (t + 1) * width);
const oneRow = vector => ({shape: [1, vector.length], data: vector});
function appended(first, second) {
  const data = new Float32Array(first.data.length + second.data.length);
  data.set(first.data);
  data.set(second.data, first.data.length);
  return {shape: [first.shape[0] + second.shape[0], second.shape[1]], data};
}
function added(x, y) {
  const data = new Float32Array(x.data.length);
  for (let i = 0; i < data.length; i++) data[i] = x.data[i] + y.data[i];
  return {shape: x.shape, data};
}
// (time, heads · d_k) -> (heads, time, d_k), for the record.
function splitHeads({shape: [time, width], data}, size) {
  const heads = width / size, out = new Float32Array(data.length);
  for (let t = 0; t < time; t++) for (let h = 0; h < heads; h++) out.set(data.subarray(t * width + h * size, t * width + (h + 1) * size), (h * time + t) * size);
  return {shape: [heads, time, size], data: out};
}

const angular = (position, i, width) => position * 10000 ** (-2 * i / width);
function withSinusoids(x, offset) {
  const [time, width] = x.shape, data = x.data.slice();
  for (let t = 0; t < time; t++)
    for (let i = 0; 2 * i < width; i++) {
      const angle = angular(offset + t, i, width), at = t * width + 2 * i;
      data[at] += Math.fround(Math.sin(angle));
      data[at + 1] += Math.fround(Math.cos(angle));
    }
  return {shape: x.shape, data};
}
// Feature pairs (0, 1), (2, 3), … of every head, turned by their position.
function rotated(x, size, offset) {
  const [time, width] = x.shape, data = new Float32Array(x.data.length);
  for (let t = 0; t < time; t++)
    for (let i = 0; 2 * i < size; i++) {
      const angle = angular(offset + t, i, size), c = Math.cos(angle), s = Math.sin(angle);
      for (let at = t * width + 2 * i; at < (t + 1) * width; at += size) {
        data[at] = x.data[at] * c - x.data[at + 1] * s;
        data[at + 1] = x.data[at] * s + x.data[at + 1] * c;
      }
    }
  return {shape: x.shape, data};
}

// The parts of which both models are made; they read their weights, and say which are missing or of another shape.
function layersOf(tensors, {d_model: width, bias = false}) {
  const take = (name, ...shape) => takeTensor(tensors, name, ...shape);
  const linear = (name, rows, columns, hasBias) => [take(`${name}.weight`, rows, columns), hasBias ? take(`${name}.bias`, rows) : null];

  function norm(name, kind = "layernorm") {
    const weight = take(`${name}.weight`, width), shift = kind === "layernorm" ? take(`${name}.bias`, width) : null;
    return (x, record) => {
      const data = new Float32Array(x.data.length);
      for (let t = 0; t < x.shape[0]; t++) data.set(shift ? normaliseLayer(rowOf(x, t), weight, shift) : normaliseRms(rowOf(x, t), weight), t * width);
      record(name, {shape: x.shape, data});
      return {shape: x.shape, data};
    };
  }

  function embedding(name, size) {
    const E = take(`${name}.weight`, size, width);
    return ids => ({shape: [ids.length, width], data: ids.reduce((data, id, t) => (data.set(embedRow(E, id), t * width), data), new Float32Array(ids.length * width))});
  }

  function learnedPosition(name, places) {
    const P = take(`${name}.weight`, places, width);
    return (x, offset) => {
      const end = offset + x.shape[0];
      if (end > places) throw new RangeError(`ids: expected at most ${places} tokens, which have learned positions, found ${end}`);
      return added(x, {data: P.data.subarray(offset * width, end * width)});
    };
  }

  function feedForward(name, inner, activation) {
    const [bend] = ACTIVATIONS[activation], first = linear(`${name}.W_1`, inner, width, true), second = linear(`${name}.W_2`, width, inner, true);
    return (x, record) => {
      const before = applyLinears(...first, x), hidden = {shape: before.shape, data: new Float32Array(before.data.length)};
      for (let i = 0; i < hidden.data.length; i++) hidden.data[i] = bend(before.data[i]);
      const out = applyLinears(...second, hidden);
      record(`${name}.W_1`, before);
      record(`${name}.hidden`, hidden);
      record(`${name}.W_2`, out);
      return out;
    };
  }

  // keys(x, offset) -> {k, v, plain}: keys and values of tokens, and those before the turn; attend(x, {k, v}, offset, causal)
  // -> {out, weights[head] {rows, columns, data}}.
  function attention(name, heads, keyHeads = heads, turned = false) {
    const size = width / heads, shared = heads / keyHeads, inner = keyHeads * size, scale = 1 / Math.sqrt(size);
    const Q = linear(`${name}.W_q`, width, width, bias), K = linear(`${name}.W_k`, inner, width, bias), V = linear(`${name}.W_v`, inner, width, bias);
    const O = linear(`${name}.W_o`, width, width, bias), turn = (x, offset) => (turned ? rotated(x, size, offset) : x);

    function keys(x, offset) {
      const plain = applyLinears(...K, x);
      return {k: turn(plain, offset), v: applyLinears(...V, x), plain};
    }
    function attend(x, {k, v, plain}, offset, causal, record) {
      const projected = applyLinears(...Q, x), q = turn(projected, offset), [rows] = x.shape, [columns] = k.shape, whole = record !== unrecorded;
      const joined = {shape: [rows, width], data: new Float32Array(rows * width)};
      const weights = Array.from({length: heads}, () => ({rows, columns, data: new Float32Array(rows * columns)}));
      const allScores = whole && new Float32Array(heads * rows * columns);
      for (let head = 0; head < heads; head++) {
        const own = head * size, theirs = Math.floor(head / shared) * size, {data} = weights[head];
        for (let i = 0; i < rows; i++) {
          const seen = causal ? columns - rows + i + 1 : columns, scores = new Float32Array(whole ? columns : seen);
          for (let j = 0, a = i * width + own; j < scores.length; j++) {
            let sum = 0;
            for (let c = 0, b = j * inner + theirs; c < size; c++) sum += q.data[a + c] * k.data[b + c];
            scores[j] = sum * scale;
          }
          if (whole) allScores.set(scores, (head * rows + i) * columns);
          const row = probabilities(scores.subarray(0, seen));
          data.set(row, i * columns);
          for (let j = 0, a = i * width + own; j < seen; j++)
            for (let c = 0, b = j * inner + theirs, w = row[j]; c < size; c++) joined.data[a + c] += w * v.data[b + c];
        }
      }
      const out = applyLinears(...O, joined);
      if (whole) {
        for (const [part, y] of [["W_q", projected], ["W_k", plain], ["W_v", v]]) record(`${name}.${part}`, y);
        for (const [part, y] of [["q", q], ["k", k], ["v", v]]) record(`${name}.${part}`, splitHeads(y, size));
        record(`${name}.scores`, {shape: [heads, rows, columns], data: allScores});
        record(`${name}.weights`, {shape: [heads, rows, columns], data: Float32Array.from(weights.flatMap(({data}) => [...data]))});
        record(`${name}.heads`, splitHeads(joined, size));
        record(`${name}.W_o`, out);
      }
      return {out, weights};
    }
    return {keys, attend, none: () => ({k: {shape: [0, inner], data: new Float32Array(0)}, v: {shape: [0, inner], data: new Float32Array(0)}})};
  }

  // Causal or full self-attention of the tokens x, which follow those in `past`.
  function attendSelf(attention, x, past, causal, record) {
    const offset = past.k.shape[0], own = attention.keys(x, offset), all = {k: appended(past.k, own.k), v: appended(past.v, own.v)};
    return {...attention.attend(x, {...all, plain: own.plain}, offset, causal, record), past: all};
  }

  return {take, norm, embedding, learnedPosition, feedForward, attention, attendSelf};
}

// One sublayer with its residual, in both orders of the norm.
function addSublayer(x, sublayer, norm, normFirst, name, record) {
  const sum = added(x, sublayer(normFirst ? norm(x, record) : x));
  record(name, sum);
  return normFirst ? sum : norm(sum, record);
}

const oneOf = (config, name, list) => {
  if (!list.includes(config[name])) throw new Error(`config: expected ${name} in ${list.join(", ")}, found ${config[name]}`);
};
const divides = (config, part, whole) => {
  if (!(config[whole] % config[part] === 0)) throw new Error(`config: expected ${part} to divide ${whole}, found ${config[part]} and ${config[whole]}`);
};
// What trace returns: the calls of a record, in order.
function recorder() {
  const all = [];
  return {all, record: (name, {shape, data}) => all.push({name, shape, data})};
}
const singles = weights => weights.map(layer => layer.map(({data}) => data));

export function transformerNetwork(tensors, config) {
  const {src_vocab_size: sources, tgt_vocab_size: targets, d_model: width, num_heads: heads, d_ff: inner, norm_first: normFirst, max_len: places} = config;
  oneOf(config, "position", ["sinusoidal", "learned", "rotary"]);
  oneOf(config, "tie_weights", ["all", "target", "none"]);
  oneOf(config, "activation", Object.keys(ACTIVATIONS));
  divides(config, "num_heads", "d_model");
  const {take, norm, embedding, learnedPosition, feedForward, attention, attendSelf} = layersOf(tensors, config);
  const rotary = config.position === "rotary", shared = config.tie_weights === "all", targetName = shared ? "src_embedding" : "tgt_embedding";
  const identity = x => x, scale = Math.fround(Math.sqrt(width));
  const side = (name, embeddingName, size) => {
    const embed = embedding(embeddingName, size);
    const place = {sinusoidal: () => withSinusoids, learned: () => learnedPosition(`${name}_position`, places), rotary: () => null}[config.position]();
    return (ids, offset, record) => {
      const x = embed(ids), scaled = {shape: x.shape, data: x.data.map(v => v * scale)}, placed = place ? place(scaled, offset) : scaled;
      record(`${name}_embedding`, x);
      record(`${name}_embedding.scaled`, scaled);
      if (place) record(`${name}_position`, placed);
      return placed;
    };
  };
  const embedSource = side("src", "src_embedding", sources), embedTarget = side("tgt", targetName, targets);
  const output = take(config.tie_weights === "none" ? "output.weight" : `${targetName}.weight`, targets, width);
  const layer = (name, parts) => ({
    name, self: attention(`${name}.self_attention`, heads, heads, rotary), network: feedForward(`${name}.feed_forward`, inner, config.activation),
    norms: parts.map((_, i) => norm(`${name}.norm_${i + 1}`)),
  });
  const encoder = Array.from({length: config.num_encoder_layers}, (_, i) => layer(`encoder.${i}`, ["self", "network"]));
  const decoder = Array.from({length: config.num_decoder_layers}, (_, i) => ({...layer(`decoder.${i}`, ["self", "cross", "network"]), cross: attention(`decoder.${i}.cross_attention`, heads)}));
  const encoderNorm = normFirst ? norm("encoder_norm") : identity, decoderNorm = normFirst ? norm("decoder_norm") : identity;

  function encode(ids, record = unrecorded) {
    let x = embedSource(ids, 0, record);
    const weights = [];
    for (const {name, self, network, norms} of encoder) {
      const attend = y => { const found = attendSelf(self, y, self.none(), false, record); weights.push(found.weights); return found.out; };
      x = addSublayer(x, attend, norms[0], normFirst, `${name}.residual_1`, record);
      x = addSublayer(x, y => network(y, record), norms[1], normFirst, `${name}.residual_2`, record);
    }
    const outputs = encoderNorm(x, record);
    return {outputs, weights, cross: decoder.map(({cross}) => cross.keys(outputs, 0))};
  }

  // The logits after each of the target's tokens, which follow those of the state.
  function decode(memory, state, ids, record = unrecorded) {
    let x = embedTarget(ids, state.length, record);
    const past = [], selfWeights = [], crossWeights = [];
    decoder.forEach(({name, self, cross, network, norms}, i) => {
      const look = y => { const found = attendSelf(self, y, state.past[i], true, record); selfWeights.push(found.weights); past.push(found.past); return found.out; };
      const lookAcross = y => {
        const found = cross.attend(y, memory.cross[i], 0, false, record);
        crossWeights.push(found.weights);
        return found.out;
      };
      x = addSublayer(x, look, norms[0], normFirst, `${name}.residual_1`, record);
      x = addSublayer(x, lookAcross, norms[1], normFirst, `${name}.residual_2`, record);
      x = addSublayer(x, y => network(y, record), norms[2], normFirst, `${name}.residual_3`, record);
    });
    const logits = applyLinears(output, null, decoderNorm(x, record));
    return {logits, state: {length: state.length + ids.length, past}, self: selfWeights, cross: crossWeights};
  }

  const start = () => ({length: 0, past: decoder.map(({self}) => self.none())});
  function step(memory, state, id) {
    const found = decode(memory, state, [id]);
    return {logits: found.logits.data, state: found.state, cross: singles(found.cross), self: singles(found.self)};
  }
  function trace(ids, target) {
    const {all, record} = recorder(), {logits} = decode(encode(ids, record), start(), target, record);
    recordOutput(logits, record);
    return all;
  }
  return {attends: true, layers: decoder.length, heads, encoderLayers: encoder.length, encode, start, step, trace};
}

function recordOutput(logits, record) {
  const data = new Float32Array(logits.data.length), [time, size] = logits.shape;
  for (let t = 0; t < time; t++) data.set(probabilities(rowOf(logits, t)), t * size);
  record("output", logits);
  record("probabilities", {shape: logits.shape, data});
}

export function gptNetwork(tensors, config) {
  const {vocab_size: size, d_model: width, num_heads: heads, num_key_value_heads: keyHeads, max_len: places} = config;
  oneOf(config, "norm", ["layernorm", "rmsnorm"]);
  oneOf(config, "position", ["learned", "rotary"]);
  divides(config, "num_heads", "d_model");
  divides(config, "num_key_value_heads", "num_heads");
  const {take, norm, embedding, learnedPosition, feedForward, attention, attendSelf} = layersOf(tensors, config);
  const embed = embedding("embedding", size), place = config.position === "learned" ? learnedPosition("position", places) : null;
  const blocks = Array.from({length: config.num_layers}, (_, i) => ({
    name: `blocks.${i}`, self: attention(`blocks.${i}.self_attention`, heads, keyHeads, !place), network: feedForward(`blocks.${i}.feed_forward`, config.d_ff, "gelu"),
    norms: [norm(`blocks.${i}.norm_1`, config.norm), norm(`blocks.${i}.norm_2`, config.norm)],
  }));
  const lastNorm = norm("norm", config.norm), output = take(config.tie_weights ? "embedding.weight" : "output.weight", size, width);

  function read(state, ids, record = unrecorded) {
    const embedded = embed(ids), past = [], weights = [];
    record("embedding", embedded);
    let x = place ? place(embedded, state.length) : embedded;
    if (place) record("position", x);
    blocks.forEach(({name, self, network, norms}, i) => {
      const look = y => { const found = attendSelf(self, y, state.past[i], true, record); weights.push(found.weights); past.push(found.past); return found.out; };
      x = addSublayer(x, look, norms[0], true, `${name}.residual_1`, record);
      x = addSublayer(x, y => network(y, record), norms[1], true, `${name}.residual_2`, record);
    });
    return {hidden: lastNorm(x, record), state: {length: state.length + ids.length, past}, self: weights};
  }
  const start = () => ({length: 0, past: blocks.map(({self}) => self.none())});
  return {
    layers: blocks.length, heads, start,
    read(state, ids) {
      const {hidden, ...found} = read(state, ids);
      return {logits: applyLinears(output, null, hidden), ...found};
    },
    // The cache after tokens of which no logits are wanted.
    skip: (state, ids) => read(state, ids).state,
    step(state, id) {
      const found = read(state, [id]);
      return {logits: applyLinear(output, null, found.hidden.data), state: found.state, self: singles(found.self)};
    },
    trace(ids) {
      const {all, record} = recorder();
      recordOutput(applyLinears(output, null, read(start(), ids, record).hidden), record);
      return all;
    },
  };
}
