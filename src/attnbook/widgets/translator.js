// A trained translator of the course in the reader's browser, from a checkpoint file: text in, text out, and everything between.
//
//   import {loadTranslator} from "./translator.js";
//
//   const translator = loadTranslator(model.get("checkpoint"));        // a trait Checkpoint, as save_translator writes it
//   const ids = translator.tokenize("我喜欢茶。").map(token => token.id);
//   const memory = translator.encode(ids);
//   const {ids: found, score, steps} = translator.greedy(memory);
//   translator.detokenize(translator.decodeTarget(found));             // "I like tea."
//   let state = translator.start(memory);                              // or token by token
//   const next = translator.step(memory, state, BOS);                  // {logits, state, cross, self}
//
// It computes what Python computes (tests/widgets/test_translator.py). A memory and a state are values: step changes neither,
// so a state can be kept and continued in several ways. Wrong arguments throw an Error that says what was expected.
//
// loadTranslator(bytes) -> translator
//   .kind "Seq2Seq" | "Transformer" | "GPT"; .config, .decoding {beam_width, alpha}, .about: what the file says
//   .attends       false: a Seq2Seq without attention
//   .layers, .heads  of the cross-attention (1, 1 of a Seq2Seq); .encoderLayers: of the encoder's self-attention, or 0.
//       A GPT has self-attention only: what it gives to the source (with <bos>, which ends it) is returned as cross, the rest as self
//   .sourceTokens, .targetTokens  the vocabularies; ids 0 to 3 are <pad>, <bos>, <eos>, <unk>
//   .sentences(text) -> the sentences of a normalised text, as Python's translate cuts them
//   .tokenize(text) -> [{token, id, known}]      one sentence, normalised and cut; without <eos>
//   .tokenizeTarget(text) -> tokens              of an English sentence
//   .encodeTarget(tokens) -> ids                 subwords where the model has them, without <bos> and <eos>
//   .decodeTarget(ids) -> tokens                 up to the first <eos>, subwords joined
//   .detokenize(tokens) -> text                  with spaces and capitals
//   .encode(ids) -> memory                       ids of the source without <eos>, which encode adds; 1 to 200 of them
//       memory.ids (with <eos>; <bos> of a GPT); .limit: tokens after which Python cuts the translation;
//       .weights[layer][head] {rows, columns, data}: the encoder's self-attention (Transformer only)
//   .start(memory) -> state                      before <bos>; state.length: tokens that it has read
//   .step(memory, state, id) -> {logits, state, cross, self}
//       logits Float32Array(target vocabulary), of the token after this one; cross[layer][head] Float32Array(source + 1);
//       self[layer][head] Float32Array(target so far); null where the model has none
//   .follow(memory, ids) -> steps                what step gives after <bos> and after each of the ids
//   .greedy(memory, limit, prefix) -> {ids, score, ended, steps}    ids without <eos>; score: log P; ended: with <eos>, or cut
//   .beamSearch(memory, width, alpha, limit, prefix) -> {ids, score, ended, logProb, history}   score: log P / length penalty
//       prefix: ids that the translation has to begin with; they count like those that are chosen
//       history[t]: the candidates that were kept after step t, {parent, id, logProb, ended, score}, parent an index into the
//       open ones of history[t - 1] (those that have not ended)
//   steps[t]: what step gave after <bos> and t tokens; the model's choice of token t comes from it
//   .trace(ids, targetIds) -> [{name, shape, data}]   every intermediate tensor of one pass over a source and the target so far
//       (ids as for encode and from encodeTarget); the names stand in transformer.js. null of a Seq2Seq
// logProbabilities(logits) -> Float32Array, −∞ for <pad> and <bos>, which are never chosen
// mostLikely(values, k) -> indices of the k largest above −∞, the largest first, of equals the lowest index
// lengthPenalty(length, alpha)
//
// greedy and beamSearch block the page. Those who want to draw while it writes call the generators greedySteps(…) and
// beamSteps(…) with the same arguments: they yield after each token ({ids, logProb, step} and the history's newest entry)
// and return what the others return.

import {readSafetensors} from "./runtime.js";
import {seq2seqNetwork} from "./seq2seq.js";
import {bytePairs, detokenizeEnglish, normalizeChinese, normalizeEnglish, splitSentences, tokenizeChinese, tokenizeEnglish} from "./text.js";
import {gptNetwork, transformerNetwork} from "./transformer.js";

const FORMAT = "attnbook translator 1";
const SPECIALS = ["<pad>", "<bos>", "<eos>", "<unk>"], [PAD_ID, BOS_ID, EOS_ID, UNK_ID] = [0, 1, 2, 3];
const LONGEST_SOURCE = 200; // tokens, as in Python

// How the kinds of models are made, what ends their sources, and which entries of the config count their tokens.
const MODELS = {
  Seq2Seq: {make: seq2seqNetwork, end: EOS_ID, sizes: ["src_vocab_size", "tgt_vocab_size"]},
  Transformer: {make: transformerNetwork, end: EOS_ID, sizes: ["src_vocab_size", "tgt_vocab_size"]},
  GPT: {make: translatingGpt, end: BOS_ID, sizes: ["vocab_size", "vocab_size"]},
};

// A GPT continues the prompt "source <bos>" with the target. What its self-attention gives to the prompt stands for
// cross-attention, what it gives to <bos> and the target for the target's self-attention.
function translatingGpt(tensors, config) {
  const network = gptNetwork(tensors, config);
  return {
    attends: true, layers: network.layers, heads: network.heads,
    encode: ids => ({prompt: network.skip(network.start(), ids.slice(0, -1))}),
    start: memory => ({length: 0, read: memory.prompt}),
    step(memory, state, id) {
      const {logits, state: read, self} = network.step(state.read, id), end = memory.ids.length, part = (...range) => self.map(layer => layer.map(row => row.slice(...range)));
      return {logits, state: {length: state.length + 1, read}, cross: part(0, end), self: part(end - 1)};
    },
    trace: (ids, target) => network.trace([...ids, ...target.slice(1)]),
  };
}

export function logProbabilities(logits) {
  const out = new Float32Array(logits.length), allowed = i => i !== PAD_ID && i !== BOS_ID;
  let top = -Infinity, sum = 0;
  for (let i = 0; i < out.length; i++) if (allowed(i) && logits[i] > top) top = logits[i];
  for (let i = 0; i < out.length; i++) if (allowed(i)) sum += Math.exp(logits[i] - top);
  const shift = top + Math.log(sum);
  for (let i = 0; i < out.length; i++) out[i] = allowed(i) ? logits[i] - shift : -Infinity;
  return out;
}

export const lengthPenalty = (length, alpha) => ((5 + length) / 6) ** alpha;

function largest(values) {
  let best = 0;
  for (let i = 1; i < values.length; i++) if (values[i] > values[best]) best = i;
  return best;
}

export function mostLikely(values, k) {
  const found = [];
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    if (value === -Infinity || (found.length === k && value <= values[found[k - 1]])) continue;
    let at = found.length;
    while (at > 0 && value > values[found[at - 1]]) at--;
    found.splice(at, 0, i);
    if (found.length > k) found.pop();
  }
  return found;
}

function* greedySteps(model, memory, limit = memory.limit, prefix = []) {
  const ids = [], steps = [];
  let state = model.start(memory), token = BOS_ID, score = 0, ended = false;
  while (ids.length < limit && !ended) {
    const step = model.step(memory, state, token), logProbs = logProbabilities(step.logits);
    steps.push(step);
    token = prefix[ids.length] ?? largest(logProbs);
    score += logProbs[token];
    state = step.state;
    ended = token === EOS_ID;
    if (!ended) ids.push(token);
    yield {ids: [...ids], logProb: score, step};
  }
  return {ids, score, ended, steps};
}

// As decoding.beam_search: one that ends takes its place with it, and it is over when no open one can overtake the best that ended.
function* beamSteps(model, memory, width = 4, alpha = 0.6, limit = memory.limit, prefix = []) {
  const largestPenalty = lengthPenalty(limit, alpha), history = [];
  let open = [{ids: [], logProb: 0, token: BOS_ID, state: model.start(memory)}], places = width;
  let best = {ids: [], score: -Infinity, ended: false, logProb: -Infinity};
  while (open.length) {
    const length = open[0].ids.length + 1, forced = prefix[length - 1];
    const candidates = open.flatMap((old, parent) => {
      const {logits, state} = model.step(memory, old.state, old.token), logProbs = logProbabilities(logits);
      return (forced === undefined ? mostLikely(logProbs, width) : [forced]).map(id => ({parent, token: id, ids: old.ids, logProb: old.logProb + logProbs[id], state}));
    });
    candidates.sort((a, b) => b.logProb - a.logProb); // stable: of equals the one that was better before
    const kept = candidates.slice(0, places);
    open = [];
    history.push(kept.map(({parent, token, ids, logProb, state}) => {
      const ended = token === EOS_ID, entry = {parent, id: token, logProb, ended, score: logProb / lengthPenalty(length, alpha)};
      const all = ended ? ids : [...ids, token];
      if (ended || length === limit) {
        if (entry.score > best.score) best = {ids: all, score: entry.score, ended, logProb};
        places--;
      } else open.push({ids: all, logProb, token, state});
      return entry;
    }));
    yield history.at(-1);
    if (open.length && open[0].logProb / largestPenalty <= best.score) open = [];
  }
  return {...best, history};
}

function finish(generator) {
  for (;;) {
    const {done, value} = generator.next();
    if (done) return value;
  }
}

function readMetadata(texts) {
  const metadata = {};
  for (const [key, text] of texts)
    try { metadata[key] = JSON.parse(text); } catch { throw new Error(`checkpoint: expected JSON for ${key}, found ${text.slice(0, 40)}`); }
  return metadata;
}

export function loadTranslator(bytes) {
  const expect = (right, expected, found) => { if (!right) throw new Error(`checkpoint: expected ${expected}, found ${found}`); };
  const {tensors, metadata: texts} = readSafetensors(bytes), {format, model: kind, config, merges, casing, decoding, about, ...rest} = readMetadata(texts);
  expect(format === FORMAT, `the format "${FORMAT}"`, JSON.stringify(format ?? null));
  expect(Object.hasOwn(MODELS, kind), `a model of ${Object.keys(MODELS).join(", ")}`, JSON.stringify(kind ?? null));
  const isList = list => Array.isArray(list) && list.every(entry => typeof entry === "string");
  const isMap = map => typeof map === "object" && map !== null && !Array.isArray(map);
  expect(isMap(config), "a config", JSON.stringify(config ?? null));
  expect(isList(merges), "merges", typeof merges);
  expect(isMap(casing), "a casing", typeof casing);
  const vocabulary = (side, size) => {
    const tokens = rest[`${side}_vocabulary`];
    expect(isList(tokens), `a ${side} vocabulary`, typeof tokens);
    expect(tokens.length + SPECIALS.length === size, `${size} tokens in the ${side} vocabulary`, tokens.length + SPECIALS.length);
    const all = [...SPECIALS, ...tokens], index = new Map(all.map((token, id) => [token, id]));
    return {all, id: token => index.get(token) ?? UNK_ID, has: token => index.has(token)};
  };
  const {make, end, sizes} = MODELS[kind], source = vocabulary("source", config[sizes[0]]), target = vocabulary("target", config[sizes[1]]);
  if (kind === "GPT") expect(String(source.all) === String(target.all), "one vocabulary for both languages", "two");
  const used = new Set(), seen = {get: name => (used.add(name), tensors.get(name)), has: name => tensors.has(name), keys: () => tensors.keys()};
  const model = make(seen, config);
  const unused = [...tensors.keys()].filter(name => !used.has(name));
  expect(!unused.length, "no other weights", unused.slice(0, 4).join(", "));
  const subwords = merges.length ? bytePairs(merges) : null, written = new Map(Object.entries(casing));

  const checked = (ids, tokens, lowest = 0) => {
    for (const id of ids) if (!Number.isInteger(id) || id < lowest || id >= tokens.length) throw new RangeError(`ids: expected integers in [${lowest}, ${tokens.length - 1}], found ${id}`);
    return ids;
  };
  function encode(ids) {
    if (!(ids.length >= 1 && ids.length <= LONGEST_SOURCE)) throw new RangeError(`ids: expected 1 to ${LONGEST_SOURCE} tokens in a sentence, found ${ids.length}`);
    const all = [...checked(ids, source.all, PAD_ID + 1), end];
    return {ids: all, limit: 16 * Math.floor(ids.length / 8) + 24, ...model.encode(all)};
  }
  const start = memory => model.start(memory);
  const step = (memory, state, id) => model.step(memory, state, checked([id], target.all)[0]);
  const stepper = {start, step};
  function follow(memory, ids) {
    let state = start(memory);
    return [BOS_ID, ...ids].map(id => {
      const found = step(memory, state, id);
      state = found.state;
      return found;
    });
  }
  const decode = ids => {
    const stop = checked(ids, target.all).indexOf(EOS_ID);
    return (stop < 0 ? ids : ids.slice(0, stop)).filter(id => id !== PAD_ID && id !== BOS_ID).map(id => target.all[id]);
  };
  return {
    kind, config, decoding, about, attends: model.attends, layers: model.layers, heads: model.heads, encoderLayers: model.encoderLayers ?? 0,
    sourceTokens: source.all, targetTokens: target.all,
    sentences: text => splitSentences(normalizeChinese(text)),
    tokenize: text => tokenizeChinese(normalizeChinese(text)).map(token => ({token, id: source.id(token), known: source.has(token)})),
    tokenizeTarget: text => tokenizeEnglish(normalizeEnglish(text)),
    encodeTarget: tokens => (subwords ? subwords.encode(tokens) : [...tokens]).map(target.id),
    decodeTarget: ids => (subwords ? subwords.decode(decode(ids)) : decode(ids)),
    detokenize: tokens => detokenizeEnglish(tokens, written),
    encode, start, step, follow,
    trace: model.trace ? (ids, targetIds) => model.trace([...checked(ids, source.all, PAD_ID + 1), end], [BOS_ID, ...checked(targetIds, target.all)]) : null,
    greedySteps: (...rest) => greedySteps(stepper, ...rest),
    beamSteps: (...rest) => beamSteps(stepper, ...rest),
    greedy: (...rest) => finish(greedySteps(stepper, ...rest)),
    beamSearch: (...rest) => finish(beamSteps(stepper, ...rest)),
  };
}
