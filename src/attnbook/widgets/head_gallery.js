import {attentionView} from "./attention_view.js";
import {fmt, frame, pixels} from "./common.js";
import {h} from "./dom.js";
import {grammarReader} from "./grammar.js";
import {loadTranslator} from "./translator.js";

const TYPED = 80; // characters of a sentence, as in Python
const KINDS = ["encoder", "decoder", "cross"];

// All weights of one translation, {encoder, decoder, cross}: each {shape: [layers, heads, rows, columns], maps[layer][head]: Float32Array}.
// steps: what the decoder gave, token by token; a target token attends to itself and those before it, the rest of its row is 0.
export function allHeads(memory, steps) {
  const time = steps.length, source = memory.ids.length;
  const stack = (layers, columns) => layers.map(heads => heads.map(rows => {
    const data = new Float32Array(time * columns);
    rows.forEach((row, t) => data.set(row, t * columns));
    return data;
  })), perHead = name => steps[0][name].map((heads, l) => heads.map((_, k) => steps.map(step => step[name][l][k])));
  const shaped = (maps, rows, columns) => ({shape: [maps.length, maps[0].length, rows, columns], maps});
  return {
    encoder: shaped(memory.weights.map(heads => heads.map(m => m.data)), source, source),
    decoder: shaped(stack(perHead("self"), time), time, time),
    cross: shaped(stack(perHead("cross"), source), time, source),
  };
}

// What a head does, as means over its queries: entropy in nats, e^entropy ("keys"), the largest weight, the shares of the first and the last key, of the
// key at each offset (key − query), the distance |key − query|; with gold pairs the share on gold keys, over the queries that have one.
export function headMeasures(data, rows, columns, gold = null) {
  const m = {entropy: 0, keys: 0, largest: 0, first: 0, last: 0, distance: 0, offsets: new Map(), gold: NaN};
  const wanted = gold && new Set(gold.map(([q, k]) => q * columns + k)), aligned = gold && new Set(gold.map(([q]) => q));
  let onGold = 0;
  for (let q = 0; q < rows; q++) {
    let entropy = 0, largest = 0;
    for (let k = 0; k < columns; k++) {
      const w = data[q * columns + k];
      if (!w) continue;
      entropy -= w * Math.log(w);
      if (w > largest) largest = w;
      m.distance += w * Math.abs(k - q) / rows;
      m.offsets.set(k - q, (m.offsets.get(k - q) ?? 0) + w / rows);
      if (wanted?.has(q * columns + k)) onGold += w;
    }
    m.entropy += entropy / rows; m.keys += Math.exp(entropy) / rows; m.largest += largest / rows;
    m.first += data[q * columns] / rows; m.last += data[(q + 1) * columns - 1] / rows;
  }
  if (aligned?.size) m.gold = onGold / aligned.size;
  return m;
}

// How far apart two heads are: the mean over queries of half the sum of |differences|; 0 = alike, 1 = never on the same key.
export function headDifference(a, b, rows) {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += Math.abs(a[i] - b[i]);
  return sum / 2 / rows;
}

const CSS_GALLERY = `
.anb .hg-text{flex:1 1 100%}
.anb .hg-text input{width:100%;min-height:38px;padding:4px 10px;border:1px solid var(--dim);border-radius:8px;background:var(--face);font-size:1em}
.anb .hg-pick{flex:1 1 220px}
.anb .hg-pick select{width:100%}
.anb .hg-out{margin:0 0 12px;font-size:.95em;line-height:1.6;overflow-wrap:anywhere}
.anb .hg-out p{margin:0 0 2px}
.anb .hg-out .hg-dim{color:var(--dim)}
.anb .hg-all{display:flex;flex-wrap:wrap;gap:14px 22px;margin:0 0 16px}
.anb .hg-kind{flex:1 1 258px;min-width:0;max-width:420px}
.anb .hg-kind h4{font-size:.95em;font-weight:650;margin:0;line-height:1.4;color:var(--ink);border:0;padding:0}
.anb .hg-kind p{font-size:12px;color:var(--dim);margin:0 0 4px;line-height:1.4}
.anb .hg-layer{font-size:11px;color:var(--dim);margin:4px 0 2px}
.anb .hg-heads{display:grid;grid-template-columns:repeat(4,minmax(0,1fr));gap:5px}
.anb .hg-heads button{display:flex;flex-direction:column;gap:2px;padding:3px;min-height:0;border:2px solid var(--line);border-radius:7px;background:var(--face);color:var(--ink);font-size:11px;line-height:1.25;text-align:center;min-width:0;overflow:hidden}
.anb .hg-heads button[aria-pressed=true]{border-color:var(--q);background:var(--soft);color:var(--ink)}
.anb .hg-heads canvas{width:100%;display:block;image-rendering:pixelated;border-radius:2px;margin:0 0 1px}
.anb .hg-heads b{font-weight:650;overflow-wrap:anywhere}
.anb .hg-heads span{color:var(--dim);overflow-wrap:anywhere}
.anb .hg-big{display:flex;flex-wrap:wrap;gap:12px 26px;align-items:flex-start;border-top:1px solid var(--line);padding-top:12px}
.anb .hg-big>div:first-child{flex:1 1 320px;min-width:0}
.anb .hg-facts{flex:0 1 250px;min-width:0}
.anb .hg-facts dl{display:grid;grid-template-columns:1fr auto;gap:2px 14px;margin:4px 0 0;font-size:13.5px}
.anb .hg-facts dt{color:var(--dim);margin:0;font-weight:400}
.anb .hg-facts dd{margin:0;text-align:end;font-variant-numeric:tabular-nums;font-weight:650}
@container (max-width:560px){.anb .hg-facts{flex-basis:100%}}
`;

const share = p => (Number.isNaN(p) ? "–" : `${Math.round(100 * p)}%`);
const back = o => (o === 0 ? {zh: "自己", en: "itself"} : o === -1 ? {zh: "前一个", en: "previous"} : o === 1 ? {zh: "后一个", en: "next"}
  : o < 0 ? {zh: `往前第 ${-o} 个`, en: `${-o} back`} : {zh: `往后第 ${o} 个`, en: `${o} ahead`});

// The relation that takes the most weight, {name, share}; for cross-attention the gold words, if they are known.
export function strongest(kind, m) {
  const end = {name: "<eos>", share: m.last};
  if (kind === "cross") return Number.isNaN(m.gold) ? (m.last > 0.4 ? end : {name: {zh: "最大权重", en: "largest"}, share: m.largest}) : {name: {zh: "对应的词", en: "its word"}, share: m.gold};
  const near = [-3, -2, -1, 0, 1, 2, 3].map(o => ({name: back(o), share: m.offsets.get(o) ?? 0}));
  return [...near, kind === "encoder" ? end : {name: "<bos>", share: m.first}].reduce((best, one) => (one.share > best.share ? one : best));
}

function render({model, el}) {
  const get = name => model.get(name);
  const ui = frame({model, el}, {
    name: "head-gallery", css: CSS_GALLERY,
    title: {zh: "注意力头的画廊：每个头在看什么", en: "Head gallery: what every head looks at"},
    caption: {
      zh: "小图的行是查询，列是键，颜色各按自己的最大值；点一张放大。标签是在这句话上量出的平均值：最重的一种关系占多少权重，以及有效键数 e^H（H 是熵：只看一个键时是 1，平均看 n 个键时是 n）。交叉注意力的每一行是正要写的词（→）。",
      en: "In the small pictures rows are queries and columns keys, each picture coloured by its own largest weight; click one to enlarge it. The labels are means measured on this sentence: the relation that takes most of the weight, and the effective number of keys e^H (H is the entropy: 1 for a single key, n for n keys alike). In cross-attention each row is the word about to be written (→).",
    },
  });
  const {t} = ui;
  let translator;
  try { translator = loadTranslator(get("checkpoint")); } catch (error) {
    ui.figure.append(h("p", {role: "alert"}, error.message));
    return ui.done;
  }
  let reader = null;
  const readByGrammar = tokens => (reader ??= grammarReader(get("rules").grammar, get("rules").forms))(tokens);
  const NAMES = {encoder: {zh: "编码器自注意力", en: "encoder self-attention"}, decoder: {zh: "解码器自注意力（因果）", en: "decoder self-attention (causal)"}, cross: {zh: "交叉注意力", en: "cross-attention"}};
  const WHO = {encoder: {zh: "源词问源词", en: "source asks source"}, decoder: {zh: "译文问译文的前面", en: "target asks the target before it"}, cross: {zh: "译文问原文", en: "target asks source"}};

  // Tool bar.
  const input = h("input", {type: "text", maxlength: TYPED, spellcheck: "false", autocomplete: "off", lang: "zh-CN"});
  let typing;
  const begin = text => { clearTimeout(typing); ui.set({text, query: null, key: null}); };
  ui.listen(input, "input", () => { clearTimeout(typing); typing = setTimeout(() => begin(input.value), 300); });
  ui.listen(input, "keydown", event => { if (event.key === "Enter") begin(input.value); });
  const examples = get("examples"), OWN = "own";
  const pick = ui.select({label: {zh: "或者选一句", en: "or choose one"}, value: OWN, options: [[OWN, {zh: "（自己的句子）", en: "(your own)"}], ...examples.map((text, i) => [i, text])], onChange(v) { if (v !== OWN) { input.value = examples[v]; begin(examples[v]); } }});
  pick.el.classList.add("hg-pick");
  const view = attentionView(ui, {onChange: ui.set, views: ["matrix", "lines"]});
  ui.controls.append(h("label", {class: "anb-f hg-text"}, ui.text(h("span", {class: "anb-l"}), {zh: "你的中文句子", en: "Your Chinese sentence"}), input), pick.el, view.controls);

  // The gallery: a button for each head, made once.
  const all = h("div", {class: "hg-all"}), heads = [], sections = {};
  for (const kind of KINDS) {
    const layers = kind === "encoder" ? translator.encoderLayers : translator.layers, apart = h("p");
    const title = ui.text(h("h4"), NAMES[kind]);
    const box = ui.attr(h("div", {class: "hg-kind", role: "group"}, title, apart), "aria-label", NAMES[kind]);
    for (let l = 0; l < layers; l++) {
      const line = Array.from({length: translator.heads}, (_, k) => {
        const canvas = h("canvas", {width: 1, height: 1, "aria-hidden": "true"}), best = h("b"), keys = h("span");
        const node = h("button", {type: "button", tabindex: -1, "aria-pressed": "false", onclick: () => choose(one)}, canvas, best, keys);
        const one = {kind, layer: l, head: k, canvas, best, keys, node};
        heads.push(one);
        return node;
      });
      box.append(ui.text(h("div", {class: "hg-layer", "aria-hidden": "true"}), {zh: `第 ${l} 层`, en: `layer ${l}`}), h("div", {class: "hg-heads"}, ...line));
    }
    sections[kind] = apart;
    all.append(box);
  }
  const choose = ({kind, layer, head}) => ui.set({kind, layer, head, ...(kind !== get("kind") && {query: null, key: null})});
  ui.listen(all, "keydown", event => {
    const i = heads.findIndex(one => one.node === event.target), n = translator.heads; if (i < 0) return;
    const to = {ArrowLeft: i - 1, ArrowRight: i + 1, ArrowUp: i - n, ArrowDown: i + n, Home: 0, End: heads.length - 1}[event.key];
    if (to === undefined) return;
    event.preventDefault();
    heads[to]?.node.focus();
  });
  ui.listen(all, "focusin", event => { for (const one of heads) one.node.tabIndex = one.node === event.target ? 0 : -1; });

  const lead = h("b"), translated = h("span", {lang: "en"}), remark = h("p", {class: "hg-dim"});
  const bigName = h("div", {class: "anb-mt"}), list = h("dl"), big = h("div", {class: "hg-big"}, view.el, h("div", {class: "hg-facts"}, bigName, list));
  ui.figure.append(h("div", {class: "hg-out"}, h("p", {}, lead, translated), remark), all, big);

  let now = null, drawn = {};
  function translate(text) {
    const [first = "", second] = translator.sentences(text), tokens = first ? translator.tokenize(first) : [];
    if (!tokens.length) return {text, tokens};
    const memory = translator.encode(tokens.map(token => token.id)), {ids, steps} = translator.greedy(memory);
    const names = ids.map(id => translator.targetTokens[id]), known = readByGrammar(tokens.map(token => token.token));
    const right = Boolean(known) && names.join(" ") === known.target.join(" ");
    const kinds = allHeads(memory, steps), gold = right ? known.alignment.map(([s, target]) => [target, s]) : null;
    const written = [...names, "<eos>"].slice(0, steps.length), read = ["<bos>", ...names].slice(0, steps.length);
    const source = [...tokens.map(token => (token.known ? token.token : `${token.token}?`)), "<eos>"];
    const labels = {encoder: [source, source], decoder: [read, read], cross: [written.map(name => `→ ${name}`), source]};
    for (const kind of KINDS) {
      const {shape: [, , rows, columns], maps} = kinds[kind], flat = maps.flat();
      kinds[kind].measures = maps.map(layer => layer.map(data => headMeasures(data, rows, columns, kind === "cross" ? gold : null)));
      kinds[kind].apart = maps.map(layer => layer.map(data => flat.filter(other => other !== data).reduce((sum, other, _, rest) => sum + headDifference(data, other, rows) / rest.length, 0)));
    }
    return {text, tokens, kinds, labels, gold, right, known, more: second !== undefined, sentence: translator.detokenize(translator.decodeTarget(ids)), cut: steps.length === ids.length};
  }

  function paint() {
    for (const {kind, layer, head, canvas, best, keys, node} of heads) {
      const {shape: [, , rows, columns], maps, measures} = now.kinds[kind], data = maps[layer][head], m = measures[layer][head], top = strongest(kind, m);
      if (canvas.width !== columns) canvas.width = columns;
      if (canvas.height !== rows) canvas.height = rows;
      pixels(canvas, data, {map: "sequential", min: 0, max: data.reduce((a, b) => Math.max(a, b), 0)}, ui.theme);
      best.textContent = `${t(top.name)} ${share(top.share)}`;
      keys.textContent = t({zh: `≈ ${fmt(m.keys, 1)} 键`, en: `≈ ${fmt(m.keys, 1)} keys`});
      node.setAttribute("aria-label", t({zh: `${NAMES[kind].zh}，第 ${layer} 层，头 ${head}：${t(top.name)} ${share(top.share)}，有效键数 ${fmt(m.keys, 1)}`, en: `${NAMES[kind].en}, layer ${layer}, head ${head}: ${t(top.name)} ${share(top.share)}, ${fmt(m.keys, 1)} effective keys`}));
    }
    for (const kind of KINDS) {
      const apart = now.kinds[kind].apart.flat(), mean = apart.reduce((a, b) => a + b, 0) / apart.length;
      sections[kind].textContent = t({zh: `${WHO[kind].zh}；各头平均相差 ${share(mean)}`, en: `${WHO[kind].en}; heads differ by ${share(mean)} on average`});
    }
  }

  function facts(kind, m, apart) {
    const rows = [[{zh: "有效键数 e^H", en: "effective keys e^H"}, fmt(m.keys, 1)], [{zh: "熵 H（nat）", en: "entropy H (nat)"}, fmt(m.entropy)], [{zh: "最大权重", en: "largest weight"}, share(m.largest)]];
    if (kind !== "cross") {
      rows.push([{zh: "平均距离", en: "mean distance"}, fmt(m.distance, 1)], ...[-1, 0, ...(kind === "encoder" ? [1] : [])].map(o => [back(o), share(m.offsets.get(o) ?? 0)]));
      rows.push(kind === "encoder" ? ["<eos>", share(m.last)] : ["<bos>", share(m.first)]);
    } else rows.push(["<eos>", share(m.last)], [{zh: "对应的词（标准对齐）", en: "its word (gold alignment)"}, share(m.gold)]);
    rows.push([{zh: "与其余各头相差", en: "difference from the other heads"}, share(apart)]);
    list.replaceChildren(...rows.flatMap(([name, value]) => [h("dt", {}, t(name)), h("dd", {}, value)]));
  }

  function update() {
    const text = get("text"), renewed = now?.text !== text;
    if (renewed) now = translate(text);
    if (input.value !== text && document.activeElement !== input) input.value = text;
    pick.set(examples.includes(text) ? examples.indexOf(text) : OWN);
    const there = Boolean(now.kinds);
    all.hidden = big.hidden = !there;
    all.style.display = big.style.display = there ? "" : "none";
    if (!there) {
      ui.text(lead, {zh: "写一句中文，每个头会告诉你它看哪里。", en: "Write a Chinese sentence, and every head tells where it looks."});
      translated.textContent = ""; ui.text(remark, ""); ui.say("");
      return;
    }
    ui.text(lead, {zh: "译文：", en: "Translation: "});
    translated.textContent = now.sentence;
    const unknown = now.tokens.filter(token => !token.known).length, remarks = [];
    if (unknown) remarks.push({zh: `有 ${unknown} 个字不在词表里（带问号），模型读到的是 <unk>。`, en: `${unknown} character(s) not in the vocabulary (with a question mark), which the model reads as <unk>.`});
    if (now.more) remarks.push({zh: "只译第一句。", en: "Only the first sentence is translated."});
    if (now.cut) remarks.push({zh: "译文太长，被截断了。", en: "The translation is too long and was cut."});
    remarks.push(now.right ? {zh: "与语料库的标准译文一字不差，所以知道每个词对应哪个字。", en: "Exactly the corpus' own translation, so it is known which characters each word stands for."}
      : now.known ? {zh: `标准译文是：${translator.detokenize(now.known.target)}`, en: `The true translation is: ${translator.detokenize(now.known.target)}`}
        : {zh: "内置的语法写不出这句话，所以不知道标准对齐。", en: "The built-in grammar cannot write this sentence, so its gold alignment is not known."});
    ui.text(remark, {zh: remarks.map(r => r.zh).join(""), en: remarks.map(r => r.en).join(" ")});

    const look = ui.theme + ui.lang;
    if (renewed || drawn.look !== look) { paint(); drawn.look = look; }
    const kind = get("kind"), {shape, maps, measures, apart} = now.kinds[kind], layer = Math.min(get("layer"), shape[0] - 1), head = Math.min(get("head"), shape[1] - 1);
    for (const one of heads) {
      const on = one.kind === kind && one.layer === layer && one.head === head;
      one.node.setAttribute("aria-pressed", String(on));
      if (!all.contains(document.activeElement)) one.node.tabIndex = on ? 0 : -1;
    }
    ui.text(bigName, {zh: `${NAMES[kind].zh}，第 ${layer} 层，头 ${head}`, en: `${NAMES[kind].en}, layer ${layer}, head ${head}`});
    facts(kind, measures[layer][head], apart[layer][head]);
    const [queries, keys] = now.labels[kind], limit = (value, size) => (value != null && value < size ? value : null);
    view.update({weights: maps[layer][head], shape: [1, 1, shape[2], shape[3]], queries, keys, gold: kind === "cross" ? now.gold : [], view: get("view"),
      query: limit(get("query"), shape[2]), key: limit(get("key"), shape[3])});
  }
  ui.watch(["text", "kind", "layer", "head", "view", "query", "key"], update);
  input.value = get("text");
  update();
  return () => { clearTimeout(typing); ui.done(); };
}

export default {render};
