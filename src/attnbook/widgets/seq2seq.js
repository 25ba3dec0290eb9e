// The recurrent encoder-decoder of attnbook.seq2seq in the page.
//
// seq2seqNetwork(tensors, config) -> {attends, layers: 1, heads: 1, encode(ids), start(memory), step(memory, state, id)}
// as translator.js describes them; here ids of a source end in <eos>.
//   memory: {outputs, states, final, keys}   outputs: a tensor (source, features) of encoder states; states: the cells' states
//           at each position (see recurrentNetwork), one for each layer and direction; final: the decoder's first state;
//           keys: the projected outputs that scores are made from (attention only)
//   step    also returns hidden (the decoder's state s_t), context (c_t), and with attention scores (before the softmax)

import {applyLinear, applyLinears, embedRow, probabilities, recurrentNetwork, takeTensor} from "./runtime.js";

const CELLS = ["rnn", "lstm", "gru"], ATTENTIONS = [null, "additive", "dot", "general"];

export function seq2seqNetwork(tensors, config) {
  const {src_vocab_size: sources, tgt_vocab_size: targets, embedding_size: embedded, hidden_size: hidden, num_layers: layers} = config;
  const {cell, attention, bidirectional, reverse_source: reversed} = config, directions = bidirectional ? 2 : 1;
  const expect = (name, list) => { if (!list.includes(config[name])) throw new Error(`config: expected ${name} in ${list.join(", ")}, found ${config[name]}`); };
  expect("cell", CELLS);
  expect("attention", ATTENTIONS);
  const take = (name, ...shape) => takeTensor(tensors, name, ...shape);
  const network = (prefix, inputs, ways) => {
    const made = recurrentNetwork(tensors, prefix, ways);
    const found = [made.kind, made.inputSize, made.hiddenSize, made.layers], expected = [cell, inputs, hidden, layers];
    if (String(found) !== String(expected)) throw new Error(`weights: expected ${prefix} of kind, input, hidden size and layers ${expected}, found ${found}`);
    return made;
  };
  const attends = attention !== null, memorySize = directions * hidden, contextSize = attends ? memorySize : hidden;
  const queriesBefore = attention === "additive";
  const E = take("encoder.embedding.weight", sources, embedded), encoder = network("encoder.recurrent.", embedded, directions);
  const parts = cell === "lstm" ? ["h", "c"] : ["h"];
  const bridges = bidirectional ? parts.map((_, i) => [take(`encoder.bridges.${i}.weight`, hidden, 2 * hidden), take(`encoder.bridges.${i}.bias`, hidden)]) : null;
  const D = take("decoder.embedding.weight", targets, embedded);
  const decoder = network("decoder.recurrent.", embedded + (attends && !queriesBefore ? 0 : contextSize), 1);
  const C = [take("decoder.combine.weight", hidden, hidden + contextSize), take("decoder.combine.bias", hidden)];
  const O = [take("decoder.output.weight", targets, hidden), take("decoder.output.bias", targets)];
  const keysOf = {additive: ["decoder.attention.W_k.weight", hidden, memorySize], general: ["decoder.attention.W.weight", hidden, memorySize]}[attention];
  const K = keysOf ? take(...keysOf) : null;
  const Q = queriesBefore ? take("decoder.attention.W_q.weight", hidden, hidden) : null, v = queriesBefore ? take("decoder.attention.v.weight", 1, hidden).data : null;
  const joined = (...vectors) => {
    const out = new Float32Array(vectors.reduce((n, x) => n + x.length, 0));
    vectors.reduce((at, x) => (out.set(x, at), at + x.length), 0);
    return out;
  };
  const bent = vector => { for (let i = 0; i < vector.length; i++) vector[i] = Math.tanh(vector[i]); return vector; };

  function encode(ids) {
    const order = xs => (reversed ? [...xs].reverse() : xs);
    const read = encoder.run(order(ids).map(id => embedRow(E, id)));
    const outputs = {shape: [ids.length, memorySize], data: joined(...order(read.outputs))}, states = order(read.states);
    // The decoder has one direction: its first state is made of both final ones.
    const final = !bidirectional ? read.state : Array.from({length: layers}, (_, layer) =>
      Object.fromEntries(parts.map((part, i) => [part, bent(applyLinear(...bridges[i], joined(read.state[2 * layer][part], read.state[2 * layer + 1][part])))])));
    return {outputs, states, final, ...(attends && {keys: K ? applyLinears(K, null, outputs) : outputs})};
  }

  function attend(memory, query) {
    const {shape: [time], data: keys} = memory.keys, scores = new Float32Array(time), values = memory.outputs.data;
    const q = queriesBefore ? applyLinear(Q, null, query) : query, context = new Float32Array(memorySize);
    for (let t = 0; t < time; t++) {
      let sum = 0;
      if (queriesBefore) for (let j = 0, k = t * hidden; j < hidden; j++) sum += v[j] * Math.tanh(q[j] + keys[k + j]);
      else for (let j = 0, k = t * hidden; j < hidden; j++) sum += q[j] * keys[k + j];
      scores[t] = sum;
    }
    const weights = probabilities(scores);
    for (let t = 0; t < time; t++) for (let j = 0, k = t * memorySize, w = weights[t]; j < memorySize; j++) context[j] += w * values[k + j];
    return {scores, weights, context};
  }

  const top = cells => cells.at(-1).h;
  const start = memory => ({length: 0, cells: memory.final});
  function step(memory, state, id) {
    const y = embedRow(D, id);
    let seen = attends ? null : {context: top(memory.final)};
    if (queriesBefore) seen = attend(memory, top(state.cells));
    const cells = decoder.step(seen ? joined(y, seen.context) : y, state.cells), output = top(cells);
    seen ??= attend(memory, output);
    const logits = applyLinear(...O, bent(applyLinear(...C, joined(output, seen.context))));
    return {
      logits, state: {length: state.length + 1, cells}, cross: attends ? [[seen.weights]] : null, self: null,
      hidden: output, context: seen.context, ...(attends && {scores: seen.scores}),
    };
  }
  return {attends, layers: 1, heads: 1, encode, start, step};
}
