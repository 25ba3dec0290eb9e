import {attentionView} from "./attention_view.js";
import {fmt, frame, legend, pixels} from "./common.js";
import {h} from "./dom.js";
import {loadTranslator} from "./translator.js";

const LONGEST_INPUT = 80; // characters of a sentence, as in Python
const LINE = 14; // px of a row of a heat map

// ---------------------------------------------------------------------- what a block computes

const SUBLAYERS = {encoder: ["self_attention", "feed_forward"], decoder: ["self_attention", "cross_attention", "feed_forward"]};
const sideOf = path => (path.startsWith("enc") || path.startsWith("src") ? "source" : "target");

// A block's path in parts: "decoder.1.norm_2" -> {stack: "decoder", layer: 1, part: "norm_2", kind: "norm", number: 2}.
export function readPath(path) {
  const [stack, layer, part] = path.split(".");
  if (part === undefined) return {stack: null, layer: null, part: path, kind: path.replace(/^(src|tgt|encoder|decoder)_/, ""), number: null};
  const [, kind, number] = /^(norm|residual)_(\d)$/.exec(part) ?? [null, part, SUBLAYERS[stack].indexOf(part) + 1];
  return {stack, layer: Number(layer), part, kind, number: Number(number)};
}

// The tensors of a block, in the order in which they are computed: [{tensor, name, rows: "source" | "target", group}], names of a trace (transformer.js).
// group "heads": one of (heads, time, d_k); "after": what follows the weights of an attention.
export function blockTensors(path, config) {
  const {stack, layer, kind, number} = readPath(path), rows = sideOf(path), short = rows === "source" ? "src" : "tgt";
  const [encoderStart, decoderStart] = ["src", "tgt"].map(s => (config.position === "rotary" ? `${s}_embedding.scaled` : `${s}_position`));
  const start = rows === "source" ? encoderStart : decoderStart, ends = config.norm_first ? "residual" : "norm";
  const depth = {encoder: config.num_encoder_layers, decoder: config.num_decoder_layers};
  const last = name => `${name}.${depth[name] - 1}.${ends}_${SUBLAYERS[name].length}`;
  const before = stack && (number > 1 ? `${stack}.${layer}.${ends}_${number - 1}` : layer > 0 ? `${stack}.${layer - 1}.${ends}_${SUBLAYERS[stack].length}` : start);
  const sublayer = stack && `${stack}.${layer}.${SUBLAYERS[stack][number - 1]}`;
  const output = stack && `${sublayer}.${sublayer.endsWith("feed_forward") ? "W_2" : "W_o"}`;
  const input = config.norm_first ? `${stack}.${layer}.norm_${number}` : before; // of the sublayer
  const one = (tensor, zh, en, more = {}) => ({tensor, name: {zh, en}, rows, ...more});
  if (kind === "embedding") return [one(`${short}_embedding`, "嵌入 E_w", "embedding E_w"), one(`${short}_embedding.scaled`, "× √d", "× √d")];
  if (kind === "position") return [one(`${short}_embedding.scaled`, "√d · E_w", "√d · E_w"), one(`${short}_position`, "加上位置之后", "after adding the position")];
  if (kind === "output") return [one(config.norm_first ? "decoder_norm" : last("decoder"), "输入 x", "input x"), one("output", "分数（logits）", "logits")];
  if (kind === "norm" && !stack) return [one(last(rows === "source" ? "encoder" : "decoder"), "归一化之前", "before the norm"), one(path, rows === "source" ? "归一化之后：记忆" : "归一化之后", rows === "source" ? "after: the memory" : "after the norm")];
  if (kind === "norm" && config.norm_first) return [one(before, "x", "x"), one(path, "LN(x)", "LN(x)")];
  if (kind === "norm" || kind === "residual") {
    const sum = `${stack}.${layer}.residual_${number}`, of = config.norm_first ? "F(LN(x))" : "F(x)";
    return [one(before, "x", "x"), one(output, of, of), one(sum, `x + ${of}`, `x + ${of}`), ...(kind === "norm" ? [one(path, "LN(x + F(x))", "LN(x + F(x))")] : [])];
  }
  if (kind === "feed_forward") return [one(input, "输入", "input"), one(`${path}.W_1`, "W₁x + b₁", "W₁x + b₁"), one(`${path}.hidden`, "激活之后", "after the activation"), one(`${path}.W_2`, "W₂h + b₂", "W₂h + b₂")];
  const keys = kind === "cross_attention" ? "source" : rows;
  return [
    one(`${path}.q`, "查询 q", "query q", {group: "heads"}), one(`${path}.k`, "键 k", "key k", {group: "heads", rows: keys}), one(`${path}.v`, "值 v", "value v", {group: "heads", rows: keys}),
    one(`${path}.weights`, "权重", "weights", {group: "weights", keys}),
    one(`${path}.heads`, "权重 · v", "weights · v", {group: "after heads"}), one(`${path}.W_o`, "输出：× W_O", "output: × W_O", {group: "after"}),
  ];
}

// One head's matrix out of (heads, time, d_k); "mean": all heads side by side, (time, heads · d_k).
export function headOf({shape: [heads, time, size], data}, head) {
  if (head !== "mean") return {shape: [time, size], data: data.subarray(head * time * size, (head + 1) * time * size)};
  const out = new Float32Array(data.length);
  for (let k = 0; k < heads; k++) for (let t = 0; t < time; t++) out.set(data.subarray((k * time + t) * size, (k * time + t + 1) * size), (t * heads + k) * size);
  return {shape: [time, heads * size], data: out};
}

// All of it for one sentence: its tokens, the translation, and the trace of both; null where there is no token. A generator, so that the page
// is not blocked: it yields between parts of the work, and what it returns is the result.
export function* flowSteps(translator, text) {
  const sentences = translator.sentences(text), tokens = sentences.length ? translator.tokenize(sentences[0]) : [];
  if (!tokens.length) return null;
  const ids = tokens.map(token => token.id), memory = translator.encode(ids), writing = translator.greedySteps(memory);
  let written = writing.next();
  for (; !written.done; written = writing.next()) yield;
  const target = written.value.ids, tensors = new Map(translator.trace(ids, target).map(tensor => [tensor.name, tensor]));
  yield;
  const probabilities = tensors.get("probabilities"), [rows, size] = probabilities.shape;
  const likely = Array.from({length: rows}, (_, t) => {
    const row = probabilities.data.subarray(t * size, (t + 1) * size), order = [...row.keys()].sort((a, b) => row[b] - row[a]).slice(0, 8);
    return order.map(id => ({token: translator.targetTokens[id], p: row[id]}));
  });
  const pieces = target.map(id => translator.targetTokens[id]);
  return {
    tensors, likely, more: sentences.length > 1, unknown: tokens.filter(token => !token.known).map(token => token.token),
    source: [...tokens.map(token => token.token), "<eos>"], target: ["<bos>", ...pieces],
    produced: [...pieces, likely.at(-1)[0].token], english: translator.detokenize(translator.decodeTarget(target)),
  };
}

// The weights of an attention in all layers of its stack, the first rows and columns of them, as attention_view.js takes them.
export function weightsOf(flow, path, layers, rows, columns) {
  const {stack, part} = readPath(path), parts = Array.from({length: layers}, (_, l) => flow.tensors.get(`${stack}.${l}.${part}.weights`));
  const [heads, allRows, allColumns] = parts[0].shape, weights = new Float32Array(layers * heads * rows * columns);
  let to = 0;
  for (const {data} of parts) for (let k = 0; k < heads; k++) for (let r = 0; r < rows; r++, to += columns) {
    const from = (k * allRows + r) * allColumns;
    weights.set(data.subarray(from, from + columns), to);
  }
  return {weights, shape: [layers, heads, rows, columns]};
}

// ---------------------------------------------------------------------- the diagram

const KINDS_OF_BLOCKS = {
  embedding: {zh: "嵌入 × √d", en: "Embedding × √d"}, position: {zh: "加上位置", en: "Add position"}, norm: {zh: "层归一化", en: "Layer norm"}, residual: "+",
  self_attention: {zh: "多头自注意力", en: "Self-attention"}, cross_attention: {zh: "交叉注意力", en: "Cross-attention"}, feed_forward: {zh: "前馈网络", en: "Feed-forward"}, output: {zh: "投影 + softmax", en: "Linear + softmax"},
};
const MASKED = {zh: "带掩码的自注意力", en: "Masked self-attention"}, ADD_NORM = {zh: "相加与归一化", en: "Add & norm"};

// Places of all blocks for a width: {height, blocks: [{path, x, y, w, h}], lines: [svg path], heads: [svg path], frames, labels}. Flows upwards, as in the paper.
export function layoutOf(width, config) {
  const OUTER = 16, CHANNEL = 24, BOX = 27, SUM = 18, GAP = 9, PAD = 10, TOP = 20, WORDS = 20;
  const w = (width - 2 * OUTER - CHANNEL) / 2, blocks = [], lines = [], heads = [], frames = [];
  const arrow = (x, y, dx, dy) => heads.push(`M${x},${y}l${-5 * dx - 3 * dy},${-5 * dy - 3 * dx}l${6 * dy},${6 * dx}z`);
  const climb = (x, from, to, plain) => { lines.push(`M${x},${from}V${plain ? to : to + 4}`); if (!plain) arrow(x, to, 0, -1); };
  const position = config.position !== "rotary", first = config.norm_first;

  // Each column is laid out upwards from 0; `up` is how far it has come.
  function column(name, short, x, outside) {
    const middle = x + w / 2, made = [];
    let up = WORDS;
    const rise = (gap, plain) => { made.push({line: [middle, up, up + gap, plain]}); up += gap; };
    const put = (path, height = BOX, size = w) => { const block = {path, x: middle - size / 2, up, w: size, h: height}; made.push({block}); up += height; return block; };
    rise(GAP); put(`${short}_embedding`);
    if (position) { rise(GAP); put(`${short}_position`); }
    rise(GAP, true);
    const bottom = up;
    rise(PAD);
    let fork = up - 6;
    SUBLAYERS[name].forEach((sublayer, i) => {
      const path = part => `${name}.*.${part}`;
      if (i) { fork = up + GAP / 2; rise(GAP); }
      if (first) { put(path(`norm_${i + 1}`)); rise(GAP - 1); }
      const inner = put(path(sublayer));
      if (sublayer === "cross_attention") made.push({memory: inner});
      rise(GAP - 1);
      const sum = first ? put(path(`residual_${i + 1}`), SUM, SUM) : put(path(`norm_${i + 1}`));
      const edge = outside < 0 ? sum.x : sum.x + sum.w, rail = outside < 0 ? x - 8 : x + w + 8;
      made.push({bypass: [middle, fork, rail, sum.up + sum.h / 2, edge, -outside]});
    });
    rise(TOP, true);
    made.push({frame: {name, x: outside < 0 ? x - 14 : x - 6, up: bottom, w: w + 20, h: up - bottom}});
    if (first) { rise(GAP); put(`${name}_norm`); }
    return {made, top: () => up, rise, put, middle};
  }
  const left = column("encoder", "src", OUTER, -1), right = column("decoder", "tgt", OUTER + w + CHANNEL, 1);
  right.rise(GAP); right.put("output"); right.rise(GAP + 2);
  const memoryUp = left.top() + 12, height = Math.ceil(Math.max(right.top() + WORDS, memoryUp + 24)), y = up => height - up;
  for (const {made} of [left, right]) for (const {line, block, bypass, frame: box} of made) {
    if (line) climb(line[0], y(line[1]), y(line[2]), line[3]);
    if (block) blocks.push({...block, y: y(block.up + block.h)});
    if (box) frames.push({...box, y: y(box.up + box.h)});
    if (bypass) { const [x, fork, rail, to, edge, way] = bypass; lines.push(`M${x},${y(fork)}H${rail}V${y(to)}H${edge - 4 * way}`); arrow(edge, y(to), way, 0); }
  }
  const cross = right.made.find(part => part.memory).memory, channel = OUTER + w + CHANNEL / 2 - 1;
  lines.push(`M${left.middle},${y(left.top())}V${y(memoryUp)}H${channel}V${y(cross.up + cross.h / 2)}H${cross.x - 4}`);
  arrow(cross.x, y(cross.up + cross.h / 2), 1, 0);
  return {height, w, blocks, lines, heads, frames, memory: {x: OUTER, y: y(memoryUp)}, columns: {encoder: OUTER, decoder: OUTER + w + CHANNEL}, words: WORDS};
}

// ---------------------------------------------------------------------- texts

const BLOCK_TITLES = {
  embedding: {zh: "嵌入", en: "embedding"}, position: {zh: "位置编码", en: "positional encoding"}, output: {zh: "投影与 softmax", en: "projection and softmax"},
  self_attention: {zh: "多头自注意力", en: "multi-head self-attention"}, cross_attention: {zh: "交叉注意力", en: "cross-attention"}, feed_forward: {zh: "前馈网络", en: "feed-forward network"},
};
const ORDINAL = {zh: ["一", "二", "三"], en: ["first", "second", "third"]};

function titleOf(path, config) {
  const {stack, layer, kind, number} = readPath(path), source = sideOf(path) === "source";
  if (!stack) {
    if (kind === "norm") return source ? {zh: "编码器最后的层归一化", en: "Final layer norm of the encoder"} : {zh: "解码器最后的层归一化", en: "Final layer norm of the decoder"};
    if (kind === "output") return {zh: "投影与 softmax", en: "Projection and softmax"};
    return {zh: `${source ? "源句" : "译文"}的${BLOCK_TITLES[kind].zh}`, en: `${source ? "Source" : "Target"} ${BLOCK_TITLES[kind].en}`};
  }
  const where = {zh: `${stack === "encoder" ? "编码器" : "解码器"}第 ${layer} 层`, en: `${stack === "encoder" ? "Encoder" : "Decoder"} layer ${layer}`};
  const what = kind === "norm" ? (config.norm_first ? {zh: `第${ORDINAL.zh[number - 1]}个层归一化`, en: `${ORDINAL.en[number - 1]} layer norm`} : {zh: `第${ORDINAL.zh[number - 1]}处相加与归一化`, en: `${ORDINAL.en[number - 1]} add & norm`})
    : kind === "residual" ? {zh: `第${ORDINAL.zh[number - 1]}处残差相加`, en: `${ORDINAL.en[number - 1]} residual sum`}
      : kind === "self_attention" && stack === "decoder" ? {zh: "带因果掩码的多头自注意力", en: "multi-head self-attention with a causal mask"} : BLOCK_TITLES[kind];
  return {zh: `${where.zh}：${what.zh}`, en: `${where.en}: ${what.en}`};
}

function explain(path, config, flow) {
  const {stack, kind} = readPath(path), {d_model: d, num_heads: heads, d_ff: inner} = config, source = sideOf(path) === "source", size = d / heads;
  const turned = config.position === "rotary" ? {zh: "位置在这里进来：查询和键按各自的位置转过一个角度。", en: " Positions come in here: queries and keys are turned by angles that belong to their places."} : {zh: "", en: ""};
  switch (kind) {
    case "embedding": return {
      zh: `每个词元取出矩阵 E 的一行，${d} 个数，再乘以 √${d} ≈ ${fmt(Math.sqrt(d), 1)}。${config.position === "rotary" ? "这个模型不在这里加位置：它在自注意力里转动查询和键。" : ""}`,
      en: `Each token takes its row of the matrix E, ${d} numbers, times √${d} ≈ ${fmt(Math.sqrt(d), 1)}.${config.position === "rotary" ? " This model adds no position here: it turns queries and keys inside self-attention instead." : ""}`};
    case "position": return {zh: "给每一行加上它的位置的编码。同一个词站在不同的地方，从此是不同的向量。", en: "Each row gets the encoding of its place added. From here on a word is a different vector in every place."};
    case "norm": return stack === null
      ? source ? {zh: "前归一化的主干从头加到尾，出口要再归一化一次。得到的就是记忆：每一层解码器都从这一份里取键和值。", en: "With pre-norm the main road only ever adds, so its exit is normalised once more. The result is the memory: every decoder layer takes its keys and values from this one."} : {zh: "解码器主干出口的归一化。得到的向量去和每个词的嵌入比较。", en: "The norm at the exit of the decoder's main road. The vectors that leave it are compared with the embedding of every word."}
      : config.norm_first ? {zh: `把每个词元的 ${d} 个特征变成均值 0、方差 1，再乘学到的缩放、加学到的平移。各行互不相干。结果只交给后面的子层，主干上走的仍是 x。`, en: `Brings the ${d} features of each token to mean 0 and variance 1, then scales and shifts them as learned. Rows do not see one another. Only the sublayer gets the result; on the main road x goes on as it was.`}
        : {zh: "把子层的结果加回它的输入，再把每个词元归一化。", en: "Adds what the sublayer computed to its input, then normalises each token."};
    case "residual": return {zh: "子层只算该添什么；加号把它添到主干上。这条路上没有乘法，梯度原样回去。", en: "The sublayer only computes what to add; the sum adds it to the main road. Nothing is multiplied on this road, and the gradient comes back unchanged."};
    case "self_attention": return stack === "encoder"
      ? {zh: `每个源词元问所有的源词元。${heads} 个头，各用 ${size} 个特征。${turned.zh}`, en: `Each source token asks all of them. ${heads} heads, ${size} features each.${turned.en}`}
      : {zh: `每个目标词元只能问自己和前面的词元；后面的还没有写出来。${heads} 个头，各用 ${size} 个特征。${turned.zh}`, en: `Each target token asks itself and those before it; the later ones are not written yet. ${heads} heads, ${size} features each.${turned.en}`};
    case "cross_attention": return {zh: "查询来自译文，键和值来自编码器的输出。换一个目标词元，记忆的键和值不变。", en: "Queries come from the target, keys and values from the encoder's output. With another target token, the memory's keys and values stay the same."};
    case "feed_forward": {
      const {data} = flow.tensors.get(`${path}.hidden`), off = Math.round((100 * data.filter(v => v === 0).length) / data.length);
      const act = config.activation === "relu" ? {zh: `ReLU 把负数变成 0：这句话里 ${off}% 的单元关着。`, en: ` ReLU turns negative numbers into 0: ${off}% of the units are off in this sentence.`} : {zh: "", en: ""};
      return {zh: `每一行单独走同一个网络，${d} → ${inner} → ${d}，谁也看不见别人。${act.zh}`, en: `Each row goes through the same network by itself, ${d} → ${inner} → ${d}, and sees no other.${act.en}`};
    }
    default: return {zh: `与 ${config.tgt_vocab_size} 个词元的嵌入各做一次点积，得到 ${config.tgt_vocab_size} 个分数；softmax 把它们变成概率。`, en: `One dot product with the embedding of each of ${config.tgt_vocab_size} tokens gives ${config.tgt_vocab_size} scores; a softmax turns them into probabilities.`};
  }
}

const CSS_FLOW = `
.anb .df-text{flex:1 1 260px}
.anb .df-text input{width:100%;min-height:38px;padding:4px 10px;border:1px solid var(--dim);border-radius:8px;background:var(--face);font-size:1em}
.anb .df-pick{flex:1 1 200px}
.anb .df-pick select{width:100%}
.anb .df-all{display:grid;grid-template-columns:minmax(0,1fr);gap:14px 22px}
.anb .df-steps{font-size:.92em;line-height:1.6}
.anb .df-steps p{margin:0 0 3px}
.anb .df-steps .df-dim{color:var(--dim)}
.anb .df-words{display:flex;flex-wrap:wrap;gap:4px}
.anb .df-words button{min-height:30px;padding:1px 8px;unicode-bidi:isolate;max-width:100%;overflow:hidden;text-overflow:ellipsis}
.anb .df-words button[hidden]{display:none}
.anb .df-words .df-later{color:var(--dim);border-style:dashed}
.anb .df-map{position:relative;align-self:start;width:100%;max-width:380px;margin-inline:auto}
.anb .df-map svg{position:absolute;inset:0;width:100%;height:100%;overflow:visible}
.anb .df-map path{fill:none;stroke:var(--dim);stroke-width:1.4}
.anb .df-map .df-tip{fill:var(--dim);stroke:none}
.anb .df-map .df-memory{stroke:var(--k);stroke-width:2}
.anb .df-map .df-tip.df-memory{fill:var(--k);stroke:none}
.anb .df-map rect{fill:var(--soft);stroke:var(--line);stroke-dasharray:5 4}
.anb .df-map button{position:absolute;padding:0 2px;min-height:0;border-radius:6px;border:1.5px solid var(--dim);font-size:12px;line-height:1.1;background:color-mix(in srgb,var(--dim) 12%,var(--face));overflow:hidden;text-align:center}
.anb .df-map .df-attention{border-color:var(--w);background:color-mix(in srgb,var(--w) 14%,var(--face))}
.anb .df-map .df-feed{border-color:var(--v);background:color-mix(in srgb,var(--v) 14%,var(--face))}
.anb .df-map .df-ends{border-color:var(--k);background:color-mix(in srgb,var(--k) 10%,var(--face))}
.anb .df-map .df-sum{border-radius:50%;font-size:14px;font-weight:700}
.anb .df-map button[aria-pressed=true]{background:var(--q);border-color:var(--q);color:var(--face);font-weight:650}
.anb .df-map div{position:absolute;font-size:12px;line-height:1.3;color:var(--dim);overflow:hidden}
.anb .df-map .df-layer{display:flex;justify-content:space-between;font-size:11px}
.anb .df-map .df-io{text-align:center;white-space:nowrap;text-overflow:ellipsis;color:var(--ink)}
.anb .df-map .df-out{font-weight:650}
.anb .df-map .df-mem{color:var(--k);font-weight:600;white-space:nowrap}
.anb .df-map .df-share{line-height:1.55;font-variant-numeric:tabular-nums}
.anb .df-panel{min-width:0}
.anb .df-top{display:flex;gap:8px;align-items:flex-start;justify-content:space-between}
.anb .df-top .anb-mt{font-size:1em;scroll-margin-top:70px}
.anb .df-go{display:flex;gap:4px;flex:none}
.anb .df-facts{font-size:.86em;color:var(--dim);margin:2px 0;overflow-wrap:anywhere;font-variant-numeric:tabular-nums}
.anb .df-facts code,.anb .df-src code{font:12px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;color:inherit;background:none;padding:0;border:0}
.anb .df-why{font-size:.93em;margin:6px 0 8px;line-height:1.6}
.anb .df-heats{display:grid;gap:10px;margin:6px 0}
.anb .df-heats:empty{display:none}
.anb .df-three{grid-template-columns:repeat(3,minmax(0,1fr));gap:8px}
.anb .df-heat[hidden]{display:none}
.anb .df-heat{min-width:0;font-size:12px}
.anb .df-name{display:flex;flex-wrap:wrap;gap:0 8px;align-items:baseline;line-height:1.4;margin-bottom:2px}
.anb .df-name b{font-weight:600}
.anb .df-name span{color:var(--dim);font-variant-numeric:tabular-nums}
.anb .df-rows{display:grid;grid-template-columns:fit-content(64px) minmax(0,1fr);gap:0 5px}
.anb .df-three .df-rows{grid-template-columns:fit-content(40px) minmax(0,1fr)}
.anb .df-labels span{display:block;height:${LINE}px;line-height:${LINE}px;font-size:11px;color:var(--dim);text-align:end;overflow:hidden;text-overflow:ellipsis;white-space:nowrap;unicode-bidi:isolate}
.anb .df-labels .df-now{color:var(--q);font-weight:700}
.anb .df-picture{position:relative;align-self:start;border-radius:3px;background:repeating-linear-gradient(135deg,var(--soft) 0 5px,var(--line) 5px 6px);cursor:crosshair}
.anb .df-picture canvas{display:block;width:100%;image-rendering:pixelated;border-radius:3px}
.anb .df-band{position:absolute;left:-2px;right:-2px;height:${LINE + 2}px;border:2px solid var(--q);border-radius:3px;pointer-events:none}
.anb .df-cell{position:absolute;width:7px;height:${LINE}px;border:2px solid var(--ink);pointer-events:none;margin-left:-2px}
.anb .df-band[hidden],.anb .df-cell[hidden]{display:none}
.anb .df-look[hidden]{display:none}
.anb .df-look .anb-bar{margin:4px 0 6px}
.anb .df-note{font-size:.9em;margin:4px 0 0;min-height:1.5em;overflow-wrap:anywhere;font-variant-numeric:tabular-nums}
.anb .df-list{display:grid;grid-template-columns:minmax(56px,max-content) minmax(0,1fr) auto;gap:3px 8px;align-items:center;font-size:13px;margin:4px 0 10px;padding:0;list-style:none}
.anb .df-list[hidden]{display:none}
.anb .df-list li{display:contents}
.anb .df-bar{height:12px;border-radius:3px;background:var(--w);min-width:1px}
.anb .df-list span:last-child{font-variant-numeric:tabular-nums;text-align:end}
.anb .df-src{margin:10px 0 0;font-size:12px}
.anb .df-src .df-file{margin:6px 0 0;color:var(--dim);overflow-wrap:anywhere}
.anb .df-src pre{margin:2px 0 0;padding:6px 0;border:1px solid var(--line);border-radius:7px;background:var(--soft);color:var(--ink);overflow:auto;max-height:232px;line-height:1.5;box-shadow:none}
.anb .df-src pre span{display:block;width:max-content;min-width:100%;padding:0 10px 0 0}
.anb .df-src pre i{display:inline-block;width:3.6em;padding-inline-end:1em;text-align:end;font-style:normal;color:var(--dim);user-select:none}
.anb .df-src pre .df-hot{background:color-mix(in srgb,var(--q) 16%,transparent);box-shadow:inset 3px 0 var(--q)}
@container (min-width:640px){.anb .df-all{grid-template-columns:minmax(290px,340px) minmax(0,1fr)}.anb .df-all .df-steps{grid-column:1/-1}.anb .df-all .df-map{position:sticky;top:76px}}
`;

// ---------------------------------------------------------------------- the widget

function render({model, el}) {
  const get = name => model.get(name);
  const ui = frame({model, el}, {
    name: "data-flow-explorer", css: CSS_FLOW,
    title: {zh: "数据流浏览器：一句话流过整台 Transformer", en: "Data-flow explorer: a sentence flows through a whole Transformer"},
    caption: {
      zh: "框图从下往上走，左边是编码器，右边是解码器。点一块（或用方向键走过去），看它在这句话上真正算出的张量：每一行是一个词元，每一列是一个特征；斜纹行还没有轮到。形状省去了批次那一维。",
      en: "The diagram runs upwards, encoder on the left, decoder on the right. Click a block (or walk there with the arrow keys) to see the tensors that it really computes for this sentence: each row is a token, each column a feature; hatched rows have not had their turn. Shapes leave out the batch dimension.",
    },
  });
  let translator;
  try {
    translator = loadTranslator(get("checkpoint"));
    if (translator.kind !== "Transformer") throw new Error(`checkpoint: expected a Transformer, found ${translator.kind}`);
  } catch (error) {
    ui.figure.append(h("p", {role: "alert"}, error.message));
    return ui.done;
  }
  const {t} = ui, {config} = translator, blocks = get("blocks"), paths = blocks.map(block => block.path), about = new Map(blocks.map(block => [block.path, block]));
  const count = n => n.toLocaleString("en-US"), percent = p => (p >= 0.9995 ? "100%" : p >= 0.0995 ? `${Math.round(100 * p)}%` : p >= 0.001 ? `${(100 * p).toFixed(1)}%` : "<0.1%");
  const depth = {encoder: config.num_encoder_layers, decoder: config.num_decoder_layers}, layers = {encoder: 0, decoder: 0};

  // What is shown.
  let flow = null, text = null, work = null, at = 0, path = paths[0], head = 0;
  const rowsOf = rows => (rows === "source" ? flow.source : flow.target);

  // Tool bar.
  const input = h("input", {type: "text", maxlength: LONGEST_INPUT, spellcheck: "false", autocomplete: "off", lang: "zh-CN"});
  let typing = 0;
  const begin = sentence => { clearTimeout(typing); typing = 0; ui.set({text: sentence, step: null}); };
  const later = event => { clearTimeout(typing); typing = event.isComposing ? -1 : setTimeout(() => begin(input.value), 250); };
  ui.listen(input, "input", later);
  ui.listen(input, "compositionend", () => later({}));
  ui.listen(input, "keydown", event => { if (event.key === "Enter" && !event.isComposing) begin(input.value); });
  const field = h("label", {class: "anb-f df-text"}, ui.text(h("span", {class: "anb-l"}), {zh: "你的中文句子", en: "Your Chinese sentence"}), input);
  const examples = get("examples"), OWN = "own";
  const pick = ui.select({label: {zh: "或者选一句", en: "or choose one"}, value: OWN, onChange: v => { if (v !== OWN) begin(examples[v][0]); },
    options: [[OWN, {zh: "（自己的句子）", en: "(your own)"}], ...examples.map(([zh, en], i) => [i, {zh, en: en === zh ? zh : `${zh} ${en}`}])]});
  pick.el.classList.add("df-pick");
  const deepest = Math.max(depth.encoder, depth.decoder), numbers = Array.from({length: deepest}, (_, i) => [i, String(i)]);
  const layer = ui.segmented({label: {zh: "显示第几层", en: "Layer on display"}, value: 0, options: numbers, onChange: v => showLayer(Number(v))});
  ui.controls.append(field, ...(examples.length ? [pick.el] : []), ...(deepest > 1 ? [layer.el] : []));
  function showLayer(number) {
    for (const name of ["encoder", "decoder"]) layers[name] = Math.min(number, depth[name] - 1);
    const {stack, part} = readPath(path);
    if (stack) ui.set({block: `${stack}.${layers[stack]}.${part}`}); else draw();
  }

  // The translation: each token is a step of the decoder.
  const said = ui.text(h("p"), ""), unknown = ui.text(h("p", {class: "df-dim"}), "");
  const words = ui.attr(h("div", {class: "df-words", role: "group"}), "aria-label", {zh: "正在生成哪个目标词元", en: "the target token that is being produced"});
  const stepName = ui.text(h("p", {class: "df-dim"}), {zh: "解码器正在生成（点一个词元，回到它产生的那一步）：", en: "The decoder is producing (click a token to go back to the step that made it):"});
  const steps = h("div", {class: "df-steps"}, said, unknown, stepName, words), chips = [];
  ui.listen(words, "keydown", event => {
    const to = {ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: Infinity}[event.key];
    if (to === undefined || !flow) return;
    event.preventDefault();
    const step = Math.max(0, Math.min(flow.produced.length - 1, to));
    ui.set({step});
    chips[step].focus();
  });

  // The diagram: buttons over lines. It is laid out anew when its width changes.
  const svg = h("svg", {"aria-hidden": "true"}), map = ui.attr(h("div", {class: "df-map", role: "group"}, svg), "aria-label", {zh: "编码器与解码器的框图：每个按钮是一块", en: "diagram of encoder and decoder: each button is a block"});
  const nodes = [], realPath = node => node.path.replace("*", layers[readPath(node.path.replace("*", "0")).stack] ?? 0);
  const choose = (to, focus) => { ui.set({block: to}); if (focus) { draw(); nodes.find(node => realPath(node) === to)?.node.focus(); } };
  const inWords = h("div", {class: "df-io"}), inTarget = h("div", {class: "df-io"}), outWord = h("div", {class: "df-io df-out"}), memoryName = ui.text(h("div", {class: "df-mem"}), {zh: "记忆 → 键、值", en: "memory → K, V"});
  const layerNames = {}, share = h("div", {class: "df-share"});
  function build() {
    for (const place of layoutOf(340, config).blocks) {
      const {stack, kind} = readPath(place.path.replace("*", "0"));
      const name = kind === "self_attention" && stack === "decoder" ? MASKED : kind === "norm" && stack && !config.norm_first ? ADD_NORM : KINDS_OF_BLOCKS[kind];
      const look = {self_attention: "df-attention", cross_attention: "df-attention", feed_forward: "df-feed", residual: "df-sum", embedding: "df-ends", output: "df-ends", position: "df-ends"}[kind];
      const node = ui.text(h("button", {type: "button", class: look, "aria-pressed": "false", tabindex: -1}), name), entry = {path: place.path, node};
      ui.attr(node, "aria-label", () => titleOf(realPath(entry), config));
      node.addEventListener("click", event => { choose(realPath(entry)); if (event.detail && ui.root.clientWidth < 640) title.scrollIntoView({block: "nearest", behavior: ui.calm ? "auto" : "smooth"}); });
      nodes.push(entry);
    }
    for (const name of ["encoder", "decoder"]) {
      layerNames[name] = h("div", {class: "df-layer"}, ui.text(h("span"), () => ({zh: `第 ${layers[name]} 层`, en: `layer ${layers[name]}`})), ui.text(h("span"), {zh: `共 ${depth[name]} 层`, en: `of ${depth[name]}`}));
    }
    const total = blocks.reduce((sum, block) => sum + block.parameters, 0), part = test => percent(blocks.filter(block => test(readPath(block.path).kind)).reduce((sum, block) => sum + block.parameters, 0) / total);
    const lines = [
      [{zh: `${count(total)} 个参数`, en: `${count(total)} parameters`}], [{zh: "注意力", en: "attention"}, part(kind => kind.endsWith("attention"))], [{zh: "前馈网络", en: "feed-forward"}, part(kind => kind === "feed_forward")],
      [{zh: "嵌入与投影", en: "embeddings, output"}, part(kind => ["embedding", "position", "output"].includes(kind))], [{zh: "归一化", en: "norms"}, part(kind => kind === "norm")],
    ];
    share.append(...lines.flatMap(([name, value], i) => [...(i ? [h("br")] : []), ui.text(h("span"), value ? {zh: `${name.zh} ${value}`, en: `${name.en} ${value}`} : name)]));
    map.append(...nodes.map(({node}) => node), inWords, inTarget, outWord, memoryName, layerNames.encoder, layerNames.decoder, share);
  }
  const place = (node, x, y, w, height) => Object.assign(node.style, {left: `${x}px`, top: `${y}px`, width: `${w}px`, ...(height && {height: `${height}px`})});
  function arrange(width) {
    const plan = layoutOf(width, config);
    map.style.height = `${plan.height}px`;
    svg.setAttribute("viewBox", `0 0 ${width} ${plan.height}`);
    plan.blocks.forEach((block, i) => place(nodes[i].node, block.x, block.y, block.w, block.h));
    const last = plan.lines.length - 1;
    svg.replaceChildren(
      ...plan.frames.map(box => h("rect", {x: box.x, y: box.y, width: box.w, height: box.h, rx: 10})),
      ...plan.lines.map((d, i) => h("path", {d, class: i === last ? "df-memory" : null})),
      ...plan.heads.map((d, i) => h("path", {d, class: i === plan.heads.length - 1 ? "df-tip df-memory" : "df-tip"})),
    );
    place(inWords, plan.columns.encoder, plan.height - 17, plan.w); place(inTarget, plan.columns.decoder, plan.height - 17, plan.w); place(outWord, plan.columns.decoder, 0, plan.w);
    place(memoryName, plan.memory.x, plan.memory.y - 18, plan.w);
    for (const box of plan.frames) place(layerNames[box.name], box.x + 7, box.y + 2, box.w - 14);
    place(share, 0, 2, plan.columns.decoder - 12);
  }
  ui.listen(map, "keydown", event => {
    const here = nodes.find(({node}) => node === event.target);
    if (!here || !["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "Home", "End"].includes(event.key)) return;
    event.preventDefault();
    const inColumn = side => nodes.filter(node => sideOf(node.path) === side), side = sideOf(here.path), own = inColumn(side), i = own.indexOf(here);
    const middle = ({node}) => node.offsetTop + node.offsetHeight / 2;
    const across = name => (side === name ? here : inColumn(name).reduce((best, node) => (Math.abs(middle(node) - middle(here)) < Math.abs(middle(best) - middle(here)) ? node : best)));
    const to = {ArrowUp: own[i + 1], ArrowDown: own[i - 1], ArrowLeft: across("source"), ArrowRight: across("target"), Home: own[0], End: own.at(-1)}[event.key];
    if (to && to !== here) choose(realPath(to), true);
  });

  // The panel.
  const title = h("div", {class: "anb-mt"}), facts = h("p", {class: "df-facts"}), why = h("p", {class: "df-why"});
  const walk = by => choose(paths[Math.max(0, Math.min(paths.length - 1, paths.indexOf(path) + by))]);
  const back = ui.button({label: "◀", onClick: () => walk(-1)}), forth = ui.button({label: "▶", onClick: () => walk(1)});
  ui.attr(back.el, "aria-label", {zh: "上一块", en: "previous block"}); ui.attr(forth.el, "aria-label", {zh: "下一块", en: "next block"});
  const before = h("div", {class: "df-heats"}), after = h("div", {class: "df-heats"}), whole = h("div", {class: "df-heats"});
  const note = h("p", {class: "df-note"}), list = ui.attr(h("ol", {class: "df-list"}), "aria-label", {zh: "最可能的下一个词元", en: "most likely next tokens"});
  const look = attentionView(ui, {views: ["matrix", "gallery"], onChange: turn, say: msg => ui.text(note, msg)});
  const looking = h("div", {class: "df-look"}, h("div", {class: "anb-bar"}, look.controls), look.el, note);
  const source = h("div", {class: "df-src"}), colours = legend(ui, {map: "diverging", min: -1, max: 1, digits: 0, label: {zh: "颜色：数值 ÷ 最大绝对值", en: "colour: value ÷ largest |value|"}});
  const panel = h("div", {class: "df-panel"}, h("div", {class: "df-top"}, title, h("div", {class: "df-go"}, back.el, forth.el)), facts, why, colours.el, before, looking, after, list, whole, source);
  const all = h("div", {class: "df-all"}, steps, map, panel);
  ui.figure.append(all);
  function turn(changes) {
    if ("layer" in changes || "head" in changes) {
      const {stack, part} = readPath(path), {layer: to = layers[stack], head: of = head} = changes;
      return ui.set({head: of, block: `${stack}.${to}.${part}`});
    }
    if ("query" in changes && sideOf(path) === "target" && changes.query != null) { look.update(changes); return ui.set({step: changes.query}); }
    look.update(changes);
  }

  // Heat maps, made when they are first needed and used again.
  const heats = [];
  function heat() {
    const name = h("b"), size = h("span"), labels = h("div", {class: "df-labels", "aria-hidden": "true"}), canvas = h("canvas", {"aria-hidden": "true"});
    const band = h("div", {class: "df-band", hidden: true}), cell = h("div", {class: "df-cell", hidden: true}), picture = h("div", {class: "df-picture", role: "img", tabindex: 0}, canvas, band, cell);
    const node = h("div", {class: "df-heat"}, h("div", {class: "df-name"}, name, size), h("div", {class: "df-rows"}, labels, picture));
    const spans = [];
    let shown = null, row = 0, column = 0;
    const tell = () => {
      const v = fmt(shown.data[row * shown.columns + column], 3);
      return {zh: `“${shown.rows[row]}”的第 ${column} 个特征：${v}`, en: `“${shown.rows[row]}”, feature ${column}: ${v}`};
    };
    function point(r, c, aloud) {
      row = Math.max(0, Math.min(shown.upto - 1, r)); column = Math.max(0, Math.min(shown.columns - 1, c));
      cell.hidden = false;
      cell.style.left = `${((column + 0.5) / shown.columns) * picture.clientWidth - 2}px`; cell.style.top = `${row * LINE}px`;
      ui.showTip(cell, tell());
      if (aloud) ui.say(tell());
    }
    const leave = () => { cell.hidden = true; ui.hideTip(); };
    picture.addEventListener("pointermove", event => {
      const box = picture.getBoundingClientRect(), r = Math.floor((event.clientY - box.top) / LINE);
      if (r >= shown.upto) leave(); else point(r, Math.floor(((event.clientX - box.left) / box.width) * shown.columns));
    });
    picture.addEventListener("pointerleave", leave);
    picture.addEventListener("blur", leave);
    picture.addEventListener("focus", () => { if (picture.matches(":focus-visible")) point(shown.now ?? row, column, true); });
    picture.addEventListener("keydown", event => {
      const by = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Home: [0, -Infinity], End: [0, Infinity]}[event.key];
      if (!by) return;
      event.preventDefault();
      point(row + by[0], column + by[1], true);
    });
    function draw() {
      canvas.width = shown.columns; canvas.height = shown.upto;
      canvas.style.height = `${shown.upto * LINE}px`; picture.style.height = `${shown.rows.length * LINE}px`;
      pixels(canvas, shown.data, {map: "diverging", min: -shown.top, max: shown.top}, ui.theme);
    }
    return {node, draw: () => { if (shown && !node.hidden) draw(); }, set(next) {
      shown = next; shown.columns = next.shape[1];
      shown.top = next.data.reduce((top, v) => Math.max(top, Math.abs(v)), 0) || 1;
      cell.hidden = true;
      ui.text(name, next.name);
      size.textContent = `(${next.shape.join(", ")}) ±${fmt(shown.top, shown.top < 10 ? 2 : 1)}`;
      while (spans.length < next.rows.length) { spans.push(h("span")); labels.append(spans.at(-1)); }
      spans.forEach((span, i) => {
        span.hidden = i >= next.rows.length; span.style.display = span.hidden ? "none" : "";
        if (span.hidden) return;
        if (span.textContent !== next.rows[i]) { span.textContent = next.rows[i]; span.title = next.rows[i]; }
        span.classList.toggle("df-now", i === next.now);
      });
      band.hidden = next.now == null;
      if (next.now != null) band.style.top = `${next.now * LINE - 1}px`;
      ui.attr(picture, "aria-label", () => ({zh: `${t(next.name)}，形状 (${next.shape.join(", ")})，最大绝对值 ${fmt(shown.top)}；方向键读出每个数`, en: `${t(next.name)}, shape (${next.shape.join(", ")}), largest absolute value ${fmt(shown.top)}; arrow keys read each number`}));
      draw();
    }};
  }
  function showHeats(specs) {
    while (heats.length < specs.length) heats.push(heat());
    heats.forEach((entry, i) => {
      const spec = specs[i];
      entry.node.hidden = !spec;
      if (!spec) return;
      const home = spec.group === "heads" ? before : spec.group?.startsWith("after") ? after : whole;
      if (entry.node.parentNode !== home) home.append(entry.node);
      const found = flow.tensors.get(spec.tensor), flat = found.shape.length === 3 ? headOf(found, head) : found, rows = rowsOf(spec.rows), now = spec.rows === "target" ? at : null;
      entry.set({...flat, name: spec.name, rows, now, upto: now == null ? rows.length : at + 1});
    });
    before.classList.toggle("df-three", head !== "mean");
    for (const home of [before, after, whole]) home.append(...heats.filter(entry => entry.node.parentNode === home).map(entry => entry.node));
  }

  // The code, as it stands in the package.
  let cited = null;
  function cite(key) {
    if (cited === key) return;
    cited = key;
    const excerpts = get("excerpts"), groups = [];
    source.replaceChildren(ui.text(h("div", {class: "anb-mt"}), {zh: "计算它的代码", en: "The code that computes it"}));
    for (const name of get("code")[key] ?? []) {
      const {file, name: where, lines} = excerpts[name], end = lines.at(-1)[0];
      const pre = ui.attr(h("pre", {tabindex: 0, role: "region"}, ...lines.map(([number, line, hot]) => h("span", {class: hot ? "df-hot" : null}, h("i", {"aria-hidden": "true"}, String(number)), h("code", {}, line || " ")))), "aria-label", `${where}, ${file}`);
      groups.push(h("p", {class: "df-file"}, h("code", {}, `${file}:${lines[0][0]}${end > lines[0][0] ? `–${end}` : ""} · ${where}`)), pre);
    }
    source.append(...groups);
  }

  function likeliest() {
    const rows = flow.likely[at];
    list.replaceChildren(...rows.map(({token, p}) => h("li", {}, h("span", {dir: "auto"}, token), h("span", {class: "df-bar", "aria-hidden": "true", style: {width: `${Math.max(1, 100 * p)}%`}}), h("span", {}, percent(p)))));
  }

  function parametersOf(block) {
    const shapes = block.weights.map(([name, shape]) => `${name.replace(/\.weight$/, "").replace(/^weight$/, "W")} (${shape.join(", ")})`).join(" · ");
    if (block.shared) return {zh: `没有自己的参数：与 ${block.shared} 共用一个矩阵 (${block.weights[0][1].join(", ")})`, en: `no parameters of its own: shares the matrix (${block.weights[0][1].join(", ")}) with ${block.shared}`};
    return block.parameters ? {zh: `${count(block.parameters)} 个参数：${shapes}`, en: `${count(block.parameters)} parameters: ${shapes}`} : {zh: "没有参数", en: "no parameters"};
  }

  // A new sentence is worked on for a few milliseconds of each frame; until it is done the old one stays.
  let waiting = 0;
  function update() {
    if (text !== get("text")) {
      text = get("text");
      work = flowSteps(translator, text);
      all.setAttribute("aria-busy", "true");
      cancelAnimationFrame(waiting);
      waiting = requestAnimationFrame(proceed);
    }
    if (!typing && input.value !== text) input.value = text;
    draw();
  }
  function proceed() {
    const begun = performance.now();
    let part;
    do part = work.next(); while (!part.done && performance.now() - begun < 6);
    if (!part.done) { waiting = requestAnimationFrame(proceed); return; }
    flow = part.value; work = null;
    all.removeAttribute("aria-busy");
    draw();
  }

  function draw() {
    pick.set(examples.findIndex(([zh]) => zh === text) < 0 ? OWN : examples.findIndex(([zh]) => zh === text));
    path = paths.includes(get("block")) ? get("block") : paths[0];
    head = get("head");
    const {stack, kind} = readPath(path), block = about.get(path), specs = blockTensors(path, config);
    if (stack) { layers[stack] = readPath(path).layer; layers[stack === "encoder" ? "decoder" : "encoder"] = Math.min(layers[stack], depth[stack === "encoder" ? "decoder" : "encoder"] - 1); }
    layer.set(Math.max(layers.encoder, layers.decoder));
    nodes.forEach(entry => { const on = realPath(entry) === path; entry.node.setAttribute("aria-pressed", String(on)); entry.node.tabIndex = on ? 0 : -1; });
    ui.text(title, titleOf(path, config));
    ui.text(facts, () => ({zh: `${path} · ${parametersOf(block).zh}`, en: `${path} · ${parametersOf(block).en}`}));
    back.el.disabled = path === paths[0]; forth.el.disabled = path === paths.at(-1);
    cite(path.replace(/\.\d+/, ""));
    const present = Boolean(flow);
    for (const node of [words, stepName, before, after, whole, why, colours.el]) node.style.display = present ? "" : "none";
    looking.hidden = !present || !kind.endsWith("attention"); list.hidden = !present || kind !== "output";
    if (!present && work) return;
    if (!present) {
      ui.text(said, {zh: "输入一句中文。", en: "Type a Chinese sentence."}); ui.text(unknown, "");
      inWords.textContent = inTarget.textContent = outWord.textContent = "";
      ui.retext();
      return ui.say({zh: "输入一句中文，看它流过整台机器。", en: "Type a Chinese sentence and watch it flow through the whole machine."});
    }

    const {produced, likely, target} = flow;
    at = Math.max(0, Math.min(get("step") ?? Infinity, produced.length - 1));
    ui.text(said, {zh: `译文：${flow.english}`, en: `Translation: ${flow.english}`});
    ui.text(unknown, () => {
      const zh = [flow.unknown.length ? `这个模型没学过：${flow.unknown.join("、")}。` : "", flow.more ? "只看第一句。" : ""].join(""), en = [flow.unknown.length ? `The model has never seen: ${flow.unknown.join(", ")}.` : "", flow.more ? "Only the first sentence is read." : ""].join(" ").trim();
      return {zh, en};
    });
    while (chips.length < produced.length) { const i = chips.length, node = h("button", {type: "button", dir: "auto", onclick: () => ui.set({step: i})}); chips.push(node); words.append(node); }
    chips.forEach((node, i) => {
      node.hidden = i >= produced.length;
      if (node.hidden) return;
      if (node.textContent !== produced[i]) node.textContent = produced[i];
      node.setAttribute("aria-pressed", String(i === at)); node.tabIndex = i === at ? 0 : -1;
      node.classList.toggle("df-later", i > at);
      ui.attr(node, "aria-label", {zh: `第 ${i} 步：${produced[i]}`, en: `step ${i}: ${produced[i]}`});
    });
    inWords.textContent = flow.source.join(" ");
    inTarget.textContent = at > 2 ? `… ${target.slice(at - 1, at + 1).join(" ")}` : target.slice(0, at + 1).join(" ");
    outWord.textContent = `${produced[at]} ${percent(likely[at][0].p)}`;
    ui.text(why, explain(path, config, flow));
    showHeats(specs.filter(spec => spec.group !== "weights"));
    const weights = specs.find(spec => spec.group === "weights");
    if (weights) {
      const now = weights.rows === "target", queries = rowsOf(weights.rows).slice(0, now ? at + 1 : undefined), keys = kind === "cross_attention" ? flow.source : queries;
      look.update({...weightsOf(flow, path, depth[stack], queries.length, keys.length), queries, keys, layer: layers[stack], head, query: now ? at : null, key: null});
    }
    if (kind === "output") likeliest();
    ui.retext();
    const end = specs.at(-1), shape = rows => `(${rowsOf(rows).length}, ${config.d_model})`, given = shape(specs[0].rows), made = kind === "output" ? `(${target.length}, ${config.tgt_vocab_size})` : shape(end.rows);
    ui.say(() => {
      const name = titleOf(path, config), into = kind === "embedding" ? `(${rowsOf(end.rows).length},)` : given;
      const now = sideOf(path) === "target" ? {zh: `第 ${at} 步，生成“${produced[at]}”（${percent(likely[at][0].p)}）。`, en: ` Step ${at} produces “${produced[at]}” (${percent(likely[at][0].p)}).`} : {zh: "", en: ""};
      return {zh: `${name.zh}，${into} → ${made}。${now.zh}`, en: `${name.en}, ${into} → ${made}.${now.en}`};
    });
  }

  build();
  ui.onResize(map, arrange);
  ui.onChange(() => heats.forEach(entry => entry.draw()));
  ui.watch(["text", "block", "step", "head"], update);
  update();
  return () => { clearTimeout(typing); cancelAnimationFrame(waiting); ui.done(); };
}

export default {render};
