import {attentionView, selectHead} from "./attention_view.js";
import {fmt, frame} from "./common.js";
import {h} from "./dom.js";
import {grammarReader} from "./grammar.js";
import {loadTranslator} from "./translator.js";

const LONGEST_TEXT = 80; // characters of a sentence, as in Python
const BEGIN = 1; // id of <bos>

// The cross-attention while `ids` are written, as weights of (layers, heads, rows, columns): row r is what the model looks at `shift` steps after it has
// written r words. Without shift the last row belongs to <eos>; with a shift of 1 there is no row for it. The last column is the source's <eos>.
export function crossWeights(translator, memory, ids, shift) {
  const {layers, heads} = translator, columns = memory.ids.length, rows = ids.length + 1 - shift;
  const weights = new Float32Array(layers * heads * rows * columns);
  let state = translator.start(memory);
  [BEGIN, ...ids].forEach((id, t) => {
    const step = translator.step(memory, state, id), row = t - shift;
    state = step.state;
    if (row >= 0) for (let l = 0; l < layers; l++) for (let k = 0; k < heads; k++) weights.set(step.cross[l][k], ((l * heads + k) * rows + row) * columns);
  });
  return {weights, shape: [layers, heads, rows, columns]};
}

// Pairs [row, column] of words with at least `threshold` between them, without <eos> on either side.
export function linksAbove(matrix, columns, words, threshold) {
  const links = [];
  for (let r = 0; r < words; r++) for (let c = 0; c < columns - 1; c++) if (matrix[r * columns + c] >= threshold) links.push([r, c]);
  return links;
}

// Alignment error rate, 1 − 2|A ∩ S| / (|A| + |S|), of links A and gold links S (Och & Ney 2003).
export function alignmentError(links, gold) {
  const known = new Set(gold.map(String)), common = links.filter(link => known.has(String(link))).length;
  return {common, links: links.length, gold: gold.length, rate: links.length + gold.length ? 1 - (2 * common) / (links.length + gold.length) : NaN};
}

const CSS_ALIGNMENT = `
.anb .al-text{flex:1 1 100%}
.anb .al-text input{width:100%;min-height:38px;padding:4px 10px;border:1px solid var(--dim);border-radius:8px;background:var(--face);font-size:1em}
.anb .al-pick{flex:1 1 220px}
.anb .al-pick select{width:100%}
.anb .al-out{margin:0 0 10px;font-size:.95em;line-height:1.6;overflow-wrap:anywhere}
.anb .al-out p{margin:0 0 2px}
.anb .al-out b{font-weight:650}
.anb .al-out .al-dim{color:var(--dim)}
.anb .al-chars{display:flex;flex-wrap:wrap;gap:3px;margin:0 0 4px}
.anb .al-chars span{padding:0 4px;border:1px solid var(--line);border-radius:5px;unicode-bidi:isolate}
.anb .al-chars .al-unknown{border:2px dashed var(--k);color:var(--k);font-weight:650}
.anb .al-sum{font-variant-numeric:tabular-nums;font-size:.95em;line-height:1.7;margin:8px 0 0}
.anb .al-steps button{white-space:nowrap}
.anb .al-steps{display:flex;gap:8px;align-items:end;flex:1 1 290px}
.anb .al-steps .anb-sl{flex:1 1 120px}
`;

function render({model, el}) {
  const get = name => model.get(name);
  const ui = frame({model, el}, {
    name: "alignment-explorer", css: CSS_ALIGNMENT,
    title: {zh: "对齐浏览器：写这个词的时候，它在看哪里", en: "Alignment explorer: where it looks while it writes"},
    caption: {
      zh: "行是写出的英文词（查询），列是读入的汉字（键），每行之和为 1。实线框是语法给出的标准对齐，虚线框是权重达到门槛的格子。指着看数值，点一下选定。",
      en: "Rows are the English words it writes (queries), columns the Chinese characters it has read (keys); each row sums to 1. Solid outlines are the gold alignment that the grammar gives, dashed ones the cells whose weight reaches the threshold. Point to read a number, click to keep it.",
    },
  });
  let translator;
  try { translator = loadTranslator(get("checkpoint")); } catch (error) {
    ui.figure.append(h("p", {role: "alert"}, error.message));
    return ui.done;
  }
  let reader = null;
  const readByGrammar = tokens => (reader ??= grammarReader(get("rules").grammar, get("rules").forms))(tokens);

  // Tool bar.
  const input = h("input", {type: "text", maxlength: LONGEST_TEXT, spellcheck: "false", autocomplete: "off", lang: "zh-CN"});
  let typing;
  const later = event => { clearTimeout(typing); if (!event.isComposing) typing = setTimeout(() => begin(input.value), 300); };
  ui.listen(input, "input", later);
  ui.listen(input, "compositionend", () => later({}));
  ui.listen(input, "keydown", event => { if (event.key === "Enter" && !event.isComposing) { clearTimeout(typing); begin(input.value); } });
  const field = h("label", {class: "anb-f al-text"}, ui.text(h("span", {class: "anb-l"}), {zh: "你的中文句子", en: "Your Chinese sentence"}), input);
  const examples = get("examples"), OWN = "own";
  const pick = ui.select({label: {zh: "或者选一句", en: "or choose one"}, value: OWN, options: [[OWN, {zh: "（自己的句子）", en: "(your own)"}], ...examples.map((text, i) => [i, text])], onChange: v => { if (v !== OWN) begin(examples[v]); }});
  pick.el.classList.add("al-pick");
  const play = ui.button({label: {zh: "逐词写出", en: "write word by word"}, onClick: () => { ui.set({step: null}); start(); }});
  const steps = ui.slider({label: {zh: "写到第几个词", en: "words written"}, min: 0, max: 1, value: 0, onInput: v => { stop(); ui.set({step: v}); }});
  const target = ui.segmented({label: {zh: "让它写", en: "Make it write"}, value: get("target"), onChange: v => ui.set({target: v, query: null, key: null}),
    options: [["model", {zh: "自己的译文", en: "its own words"}], ["reference", {zh: "标准译文", en: "the true translation"}]]});
  const shift = ui.segmented({label: {zh: "每行取自", en: "Each row is from"}, value: get("shift"), onChange: v => ui.set({shift: Number(v), query: null, key: null}),
    options: [[0, {zh: "预测这个词时", en: "when it predicts the word"}], [1, {zh: "晚一步，读入它时", en: "one step later"}]]});
  const threshold = ui.slider({label: {zh: "算作连线的门槛", en: "threshold of a link"}, min: 0.05, max: 0.95, step: 0.05, value: get("threshold"), format: v => fmt(v), onInput: v => ui.set({threshold: v})});
  const gold = ui.toggle({label: {zh: "显示标准对齐", en: "show gold alignment"}, value: get("gold"), onChange: on => ui.set({gold: on})});
  const view = attentionView(ui, {onChange: ui.set});
  ui.controls.append(field, pick.el, h("div", {class: "al-steps"}, play.el, steps.el), target.el, shift.el, threshold.el, gold.el, view.controls);

  const characters = ui.attr(h("div", {class: "al-chars", role: "group"}), "aria-label", {zh: "读入的字", en: "characters read"});
  const translated = h("b"), lead = h("span"), verdict = h("p", {class: "al-dim"}), sum = h("p", {class: "al-sum"});
  ui.figure.append(h("div", {class: "al-out"}, characters, h("p", {}, lead, translated), verdict), view.el, sum);

  // What is translated. `rows` words are written so far; an animation raises it.
  let sentence = null, traced = null, rows = 0, timer = 0;
  const stop = () => { clearTimeout(timer); timer = 0; };

  function translate(text) {
    const [first = ""] = translator.sentences(text), more = translator.sentences(text).length > 1, tokens = first ? translator.tokenize(first) : [];
    if (!tokens.length) return {text, tokens};
    const memory = translator.encode(tokens.map(token => token.id)), ids = translator.greedy(memory).ids, written = translator.decodeTarget(ids);
    const known = readByGrammar(tokens.map(token => token.token));
    return {text, more, tokens, memory, ids, written, known, right: known && written.join(" ") === known.target.join(" ")};
  }
  // The weights on display depend on the sentence, on what is written and on which step a row is.
  function trace() {
    const {memory, known} = sentence, which = known && get("target") === "reference" ? "reference" : "model";
    const ids = which === "reference" ? translator.encodeTarget(known.target) : sentence.ids;
    const names = ids.map(id => translator.targetTokens[id]), by = `${which} ${get("shift")}`;
    if (traced?.sentence === sentence && traced.by === by) return;
    const aligned = known && names.length === known.target.length && (which === "reference" || names.every((name, i) => name === known.target[i]));
    traced = {sentence, by, which, ids, names, ...crossWeights(translator, memory, ids, get("shift")), gold: aligned ? known.alignment.map(([s, t]) => [t, s]) : null};
  }

  function begin(text) {
    ui.set({text, step: null, query: null, key: null});
    start();
  }
  function start() {
    stop();
    rows = ui.calm ? Infinity : 0;
    update();
    if (!ui.calm) {
      const next = () => { rows++; update(); if (sentence.memory && rows < traced.shape[2]) timer = setTimeout(next, 110); };
      timer = setTimeout(next, 110);
    }
  }

  function update() {
    const text = get("text");
    if (sentence?.text !== text) {
      sentence = translate(text);
      characters.replaceChildren(...sentence.tokens.map(({token, known}) => h("span", {class: known ? null : "al-unknown"}, token)));
    }
    if (input.value !== text && document.activeElement !== input) input.value = text;
    pick.set(examples.includes(text) ? examples.indexOf(text) : OWN);
    const there = Boolean(sentence.memory);
    view.el.hidden = sum.hidden = !there;
    play.el.disabled = steps.input.disabled = !there;
    if (!there) {
      translated.textContent = "";
      ui.text(lead, {zh: "写一句中文，它会翻译。", en: "Write a Chinese sentence, and it will be translated."});
      ui.text(verdict, ""); ui.say("");
      return;
    }
    trace();
    const {shape, names} = traced, count = shape[2], columns = shape[3], upto = Math.min(count, get("step") ?? rows), done = upto >= count;
    steps.range(0, count); steps.set(upto);
    target.set(traced.which); target.el.style.display = sentence.known && !sentence.right ? "" : "none";
    shift.set(get("shift")); threshold.set(get("threshold")); gold.set(get("gold")); gold.input.disabled = !traced.gold;

    const queries = [...names, "<eos>"].slice(0, count), keys = [...sentence.tokens.map(({token, known}) => (known ? token : `${token}?`)), "<eos>"];
    const links = linksAbove(selectHead(traced.weights, shape, get("layer"), get("head")), columns, Math.min(names.length, upto), get("threshold"));
    view.update({weights: traced.weights, shape, queries, keys, upto, gold: get("gold") ? traced.gold : [],
      links, linksName: {zh: `权重 ≥ ${fmt(get("threshold"))}`, en: `weight ≥ ${fmt(get("threshold"))}`},
      ...Object.fromEntries(["layer", "head", "view", "query", "key"].map(name => [name, get(name)]))});

    const written = translator.detokenize(sentence.written), unknown = sentence.tokens.filter(token => !token.known).length;
    ui.text(lead, {zh: "译文：", en: "Translation: "});
    translated.textContent = done && traced.which === "model" ? written : `${translator.detokenize(translator.decodeTarget(traced.ids.slice(0, upto)))}${done ? "" : " …"}`;
    const remarks = [];
    if (unknown) remarks.push({zh: `有 ${unknown} 个字不在词表里（虚线框），模型读到的是 <unk>。`, en: `${unknown} character(s) not in the vocabulary (dashed), which the model reads as <unk>.`});
    if (sentence.more) remarks.push({zh: "只译第一句。", en: "Only the first sentence is translated."});
    if (sentence.right) remarks.push({zh: "与语料库的标准译文一字不差。", en: "Exactly the corpus' own translation."});
    else if (sentence.known) remarks.push({zh: `标准译文是：${translator.detokenize(sentence.known.target)}`, en: `The true translation is: ${translator.detokenize(sentence.known.target)}`});
    else remarks.push({zh: "这句话内置的语法写不出来，所以标准译文和标准对齐都不知道。", en: "The built-in grammar cannot write this sentence, so neither its true translation nor its gold alignment is known."});
    ui.text(verdict, {zh: remarks.map(r => r.zh).join(""), en: remarks.map(r => r.en).join(" ")});

    if (!done) ui.text(sum, "");
    else if (traced.gold) {
      const e = alignmentError(links, traced.gold);
      ui.text(sum, {
        zh: `连线 A ${e.links} 条，标准 S ${e.gold} 条，相同 ${e.common} 条：本句对齐错误率 = 1 − 2·${e.common} / (${e.links} + ${e.gold}) = ${fmt(e.rate)}`,
        en: `${e.links} links A, ${e.gold} gold links S, ${e.common} in common: alignment error rate of this sentence = 1 − 2·${e.common} / (${e.links} + ${e.gold}) = ${fmt(e.rate)}`,
      });
    } else if (sentence.known) ui.text(sum, {zh: "它写的不是标准译文，标准对齐不知道这些词。换成“标准译文”就能比较。", en: "These words are not the true translation's, so the gold alignment does not know them. Switch to “the true translation” to compare."});
    else ui.text(sum, {zh: "没有标准对齐，算不出对齐错误率。", en: "Without a gold alignment there is no alignment error rate."});
  }
  ui.watch(["text", "target", "shift", "threshold", "gold", "step", "layer", "head", "view", "query", "key"], update);
  rows = Infinity;
  input.value = get("text");
  update();
  return () => { stop(); clearTimeout(typing); ui.done(); };
}

export default {render};
