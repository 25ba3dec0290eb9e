import {chart} from "./chart.js";
import {fmt, frame, legend, pixels} from "./common.js";
import {h} from "./dom.js";
import {random} from "./maths.js";
import {applyLinear, drawFrom, embedRow, probabilities, readSafetensors, recurrentNetwork} from "./runtime.js";

const BOS = 1;
const EOS = 2;
const UNK = 3;
const SHOWN = 8; // candidates for the next token
const MOST = 40; // tokens of a sentence that the model writes itself

// As text.tokenizers cuts the corpus: a Han character, a word in small letters, a contraction's part, a mark.
const LETTER = "(?:(?!\\p{Script=Han})[\\p{L}\\p{M}\\d])";
const CLITIC = `'(?:s|m|re|ll|d|ve)(?!${LETTER})`;
const PIECE = new RegExp(
  `\\p{Script=Han}|${LETTER}+?(?=n't(?!${LETTER}))|n't(?!${LETTER})|${CLITIC}|${LETTER}+(?:(?!${CLITIC})['-]${LETTER}+)*|\\S`,
  "gu",
);
export const cutTokens = text => text.toLowerCase().replaceAll("’", "'").match(PIECE) ?? [];

// Tokens as a text that is cut into the same tokens.
const isWord = token => /^[a-z\d]/.test(token);
export const joinTokens = tokens => tokens.reduce((text, token) => text + (text && isWord(token) && !/[\p{Script=Han}‘“(]$/u.test(text) ? " " : "") + token, "");

// The language model of chapter 3, read(ids, erase) -> one record for each id: what the cell got, its state, the logits.
export function languageModel(bytes) {
  const {tensors} = readSafetensors(bytes), network = recurrentNetwork(tensors, "recurrent."), {W, U, b} = network.cells[0];
  const E = tensors.get("embedding.weight"), V = tensors.get("output.weight"), bias = tensors.get("output.bias");
  let known = [], erased = null;
  function read(ids, erase = null) {
    // What was read before is kept as far as the two sentences agree.
    let same = 0;
    const limit = erase === erased ? Infinity : Math.min(erase ?? Infinity, erased ?? Infinity);
    while (same < Math.min(ids.length, known.length, limit) && known[same].id === ids[same]) same++;
    known = known.slice(0, same);
    erased = erase;
    for (let t = same; t < ids.length; t++) {
      const before = t && t !== erase ? known[t - 1].state : network.start(), x = embedRow(E, ids[t]);
      const state = network.step(x, before), logits = applyLinear(V, bias, state[0].h);
      known.push({id: ids[t], state, h: state[0].h, input: applyLinear(W, b, x), memory: applyLinear(U, null, before[0].h), logits});
    }
    return known;
  }
  return {units: network.hiddenSize, read};
}

const CSS_STEPPER = `
.anb .rs-text{flex:1 1 100%}
.anb .rs-text input{width:100%;min-height:38px;padding:4px 10px;border:1px solid var(--dim);border-radius:8px;background:var(--face);font-size:1em}
.anb .rs-buttons{display:flex;flex-wrap:wrap;gap:6px}
.anb .rs-roll{display:flex;overflow-x:auto;padding:4px 3px 8px;position:relative;align-items:stretch}
.anb .rs-col{display:flex;align-items:stretch;flex:none}
.anb .rs-arrow{width:17px;align-self:center;text-align:center;color:var(--k);font-size:14px;line-height:1}
.anb .rs-cell{display:flex;flex-direction:column;gap:3px;min-width:42px;max-width:96px;padding:3px;border-radius:8px;border:2px solid transparent;background:transparent;min-height:0;font-size:12.5px;text-align:center;position:relative}
.anb .rs-cell:hover{border-color:var(--line)}
.anb .rs-cell[aria-pressed=true]{background:var(--soft);border-color:var(--q);color:var(--ink)}
.anb .rs-cell span{overflow:hidden;text-overflow:ellipsis;white-space:nowrap;line-height:1.35;unicode-bidi:isolate}
.anb .rs-next{color:var(--w);font-size:11.5px}
.anb .rs-bits{color:var(--dim);font-size:11px;font-variant-numeric:tabular-nums}
.anb .rs-box{position:relative;height:192px;border-radius:4px;overflow:hidden;border:1px solid var(--line);background:var(--soft)}
.anb .rs-box canvas{width:100%;height:100%;display:block;image-rendering:pixelated}
.anb .rs-unit{position:absolute;left:0;right:0;height:6px;margin-top:-2px;border:2px solid var(--ink);pointer-events:none}
.anb .rs-later .rs-box{border-style:dashed}
.anb .rs-later .rs-box *{display:none}
.anb .rs-later .rs-next,.anb .rs-later .rs-bits{visibility:hidden}
.anb .rs-unknown{text-decoration:underline wavy var(--k);text-underline-offset:3px}
.anb .rs-side{display:flex;flex-direction:column;gap:3px;padding:5px 4px 5px 0;font-size:11px;color:var(--dim);flex:none;text-align:end;line-height:1.35}
.anb .rs-side span:nth-child(2){height:192px;display:flex;align-items:center;justify-content:flex-end}
.anb .rs-two{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,280px),1fr));gap:14px 26px;margin-top:12px}
.anb .rs-two>div{min-width:0}
.anb .rs-sum{font-variant-numeric:tabular-nums;font-size:13.5px;margin:2px 0 8px;line-height:1.6}
.anb .rs-x{color:var(--q);font-weight:600}.anb .rs-m{color:var(--k);font-weight:600}
.anb .rs-list{display:grid;grid-template-columns:minmax(64px,max-content) 1fr auto;gap:3px 8px;align-items:center;font-size:13px;margin:4px 0 0;padding:0;list-style:none}
.anb .rs-list li{display:contents}
.anb .rs-list button{min-height:26px;padding:0 8px;text-align:start;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.anb .rs-bar{height:13px;border-radius:3px;background:var(--w);min-width:1px}
.anb .rs-pc{font-variant-numeric:tabular-nums;text-align:end}
.anb .rs-true .rs-bar{background:var(--v)}
.anb .rs-true button{border-color:var(--v);font-weight:650}
`;

function render({model, el}) {
  const get = name => model.get(name);
  const vocabulary = get("tokens"), index = new Map(vocabulary.map((token, i) => [token, i]));
  const lm = languageModel(get("weights")), {units} = lm;
  const ui = frame({model, el}, {
    name: "recurrent-stepper", css: CSS_STEPPER,
    title: {zh: "循环网络步进器：输入一句话，逐步看它读", en: "Recurrent stepper: type a sentence, watch it being read"},
    caption: {
      zh: `每一列是同一个单元在一个时刻的样子：从左边来的箭头是上一步的隐状态，下面是读入的词元，上面是它最看好的下一个词元，最下面的数是这个词元有多出人意料（−log₂ p，单位比特）。颜色是 ${units} 个单元的值。词表只有 ${vocabulary.length} 个词元，不认识的词画波浪线。`,
      en: `Every column is the same cell at another time: the arrow from the left brings the hidden state of the step before, below stands the token that is read, above the next token that the cell thinks most likely, and the number at the bottom says how surprising the token was (−log₂ p, in bits). The colours are the values of the ${units} units. The vocabulary has only ${vocabulary.length} tokens; unknown words are underlined.`,
    },
  });
  const {t} = ui;
  const sentence = () => { const text = get("text"); return typeof text === "string" ? text : text[ui.lang === "zh" ? 0 : 1]; };
  const SPECIAL = {[BOS]: {zh: "⟨开始⟩", en: "⟨start⟩"}, [EOS]: {zh: "⟨结束⟩", en: "⟨end⟩"}, [UNK]: {zh: "⟨未知⟩", en: "⟨unknown⟩"}};
  const name = id => SPECIAL[id] ?? vocabulary[id];
  const percent = p => (p >= 0.0995 ? `${Math.round(100 * p)}%` : p >= 0.001 ? `${(100 * p).toFixed(1)}%` : "<0.1%");

  // What is shown: the tokens as typed (words), their ids, the records of the model, the step.
  let words = [], ids = [], trace = [], at = 0;
  const label = i => (i ? words[i - 1] : SPECIAL[BOS]);
  const uniform = random(Date.now() | 0);
  const distribution = step => probabilities(trace[step].logits, get("temperature"));
  const surprise = step => -Math.log2(probabilities(trace[step - 1].logits)[ids[step]]);

  // Tool bar.
  const input = h("input", {type: "text", maxlength: 300, spellcheck: "false", autocomplete: "off"});
  input.addEventListener("input", () => ui.set({text: input.value, step: null, erase: null}));
  const field = h("label", {class: "anb-f rs-text"}, ui.text(h("span", {class: "anb-l"}), {zh: "你的句子（中文或英文）", en: "Your sentence (Chinese or English)"}), input);
  const go = step => { stop(); ui.set({step: Math.max(0, Math.min(ids.length - 1, step))}); };
  const write = more => { const kept = words.slice(0, at), text = joinTokens([...kept, ...more]); if (text.length <= 300) ui.set({text, step: kept.length + more.length, ...(get("erase") > at && {erase: null})}); };
  const back = ui.button({label: {zh: "◀ 上一步", en: "◀ Back"}, onClick: () => go(at - 1)});
  const forth = ui.button({label: {zh: "下一步 ▶", en: "Step ▶"}, primary: true, onClick: () => go(at + 1)});
  let timer = null;
  const play = ui.button({label: () => (timer ? {zh: "停", en: "Stop"} : {zh: "从头播放", en: "Play"}), onClick: () => {
    if (timer) return stop();
    ui.set({step: 0});
    timer = setInterval(() => { if (at + 1 < ids.length) ui.set({step: at + 1}); if (at + 1 >= ids.length) stop(); }, ui.calm ? 1200 : 600);
    ui.retext();
  }});
  function stop() { clearInterval(timer); timer = null; ui.retext(); }
  const draw = () => drawFrom(distribution(at), uniform());
  const one = ui.button({label: {zh: "抽一个词", en: "Draw a token"}, onClick: () => {
    stop();
    const id = draw();
    if (id === EOS) ui.say({zh: "模型在这里结束句子。", en: "The model ends the sentence here."}); else write([vocabulary[id]]);
  }});
  const many = ui.button({label: {zh: "让它写完", en: "Let it finish"}, onClick: () => {
    stop();
    const more = [], start = ids.slice(0, at + 1);
    for (let id = draw(); id !== EOS && more.length < MOST; ) {
      more.push(vocabulary[id]);
      const next = lm.read([...start, ...more.map(token => index.get(token))], get("erase")).at(-1);
      id = drawFrom(probabilities(next.logits, get("temperature")), uniform());
    }
    write(more);
  }});
  const temperature = ui.slider({label: {zh: "温度 τ", en: "temperature τ"}, min: 0, max: 3, step: 0.1, value: get("temperature"), format: v => v.toFixed(1), onInput: v => ui.set({temperature: v})});
  const unit = ui.slider({label: {zh: "跟踪的单元", en: "unit to follow"}, min: 0, max: units - 1, value: get("unit"), onInput: v => ui.set({unit: v})});
  const erase = ui.toggle({label: {zh: "读这个词元之前清空记忆", en: "erase the memory before this token"}, value: false, onChange: on => ui.set({erase: on ? at : null})});
  ui.controls.append(field, h("div", {class: "rs-buttons"}, back.el, forth.el, play.el, one.el, many.el), temperature.el, unit.el, erase.el);

  // The unrolled network.
  const side = h("div", {class: "rs-side", "aria-hidden": "true"}, ...[{zh: "预测", en: "predicts"}, "hₜ", {zh: "读入", en: "reads"}, {zh: "比特", en: "bits"}].map(msg => ui.text(h("span"), msg)));
  const roll = ui.attr(h("div", {class: "rs-roll", role: "group"}, side), "aria-label", {zh: "按时间展开的网络：每个按钮是一步", en: "the network unrolled in time: each button is a step"});
  const columns = [];
  function column(i) {
    const canvas = h("canvas", {width: 1, height: units, "aria-hidden": "true"}), line = h("div", {class: "rs-unit"});
    const next = h("span", {class: "rs-next", dir: "auto"}), token = h("span", {dir: "auto"}), bits = h("span", {class: "rs-bits"});
    const cell = h("button", {type: "button", class: "rs-cell"}, next, h("div", {class: "rs-box"}, canvas, line), token, bits);
    const arrow = h("span", {class: "rs-arrow", "aria-hidden": "true"});
    const unitAt = event => { const r = canvas.getBoundingClientRect(); return r.height ? Math.max(0, Math.min(units - 1, Math.floor(((event.clientY - r.top) / r.height) * units))) : null; };
    cell.addEventListener("click", event => { const u = event.target === canvas ? unitAt(event) : null; stop(); ui.set({step: i, ...(u != null && {unit: u})}); });
    canvas.addEventListener("pointermove", event => { const u = unitAt(event); ui.showTip(cell, {zh: `单元 ${u}：${fmt(trace[i].h[u])}`, en: `unit ${u}: ${fmt(trace[i].h[u])}`}); });
    canvas.addEventListener("pointerleave", ui.hideTip);
    const node = h("div", {class: "rs-col"}, i ? arrow : null, cell);
    return {node, canvas, line, next, token, bits, cell, arrow, drawn: null};
  }
  ui.listen(roll, "keydown", event => {
    const to = {ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: ids.length - 1}[event.key];
    if (to === undefined || !columns.some(c => c.cell === event.target)) return;
    event.preventDefault();
    go(to);
    columns[Math.max(0, Math.min(ids.length - 1, to))].cell.focus();
  });

  // The step in numbers, the unit over time, the candidates.
  const parts = {x: h("span", {class: "rs-x"}), m: h("span", {class: "rs-m"}), sum: h("span")};
  const formula = h("p", {class: "rs-sum"}, h("span", {class: "rs-x"}, "W_xh xₜ + b"), " = ", parts.x, h("br"), h("span", {class: "rs-m"}, "W_hh hₜ₋₁"), " = ", parts.m, h("br"), parts.sum);
  const course = chart(ui, {label: {zh: "所跟踪的单元随时间的变化", en: "the followed unit over time"}, height: 150, series: [], x: {label: {zh: "步 t", en: "step t"}, min: 0, max: 1, format: v => (Number.isInteger(v) ? String(v) : "")}, y: {label: "hₜ", min: -1, max: 1}});
  const list = h("ol", {class: "rs-list"});
  const rows = Array.from({length: SHOWN}, () => {
    const button = h("button", {type: "button", dir: "auto"}), bar = h("span", {class: "rs-bar", "aria-hidden": "true"}), pc = h("span", {class: "rs-pc"}), node = h("li", {}, button, bar, pc);
    const row = {node, button, bar, pc, id: 0};
    button.addEventListener("click", () => { stop(); write([vocabulary[row.id]]); });
    list.append(node);
    return row;
  });
  const after = ui.text(h("div", {class: "anb-mt"}), () => ({zh: `读到“${t(label(at))}”之后，下一个词元`, en: `After “${t(label(at))}”: the next token`}));
  const insideHead = ui.text(h("div", {class: "anb-mt"}), () => ({zh: `单元 ${get("unit")} 在第 ${at} 步`, en: `Unit ${get("unit")} at step ${at}`}));
  ui.figure.append(roll, legend(ui, {map: "diverging", min: -1, max: 1, digits: 0, label: "hₜ"}).el,
    h("div", {class: "rs-two"}, h("div", {}, after, list), h("div", {}, insideHead, formula, course.el)));

  let themed = "";
  function update() {
    words = cutTokens(sentence());
    ids = [BOS, ...words.map(word => index.get(word) ?? UNK)];
    at = Math.min(get("step") ?? Infinity, ids.length - 1);
    const erased = get("erase"), u = get("unit");
    trace = lm.read(ids, erased);
    if (input.value !== sentence()) input.value = sentence();
    temperature.set(get("temperature")); unit.set(u); erase.set(erased === at && at > 0);
    erase.input.disabled = at === 0;
    back.el.disabled = at === 0; forth.el.disabled = at === ids.length - 1;

    while (columns.length < ids.length) { const c = column(columns.length); columns.push(c); roll.append(c.node); }
    const fresh = themed !== ui.theme;
    themed = ui.theme;
    columns.forEach((c, i) => {
      c.node.hidden = i >= ids.length;
      c.node.style.display = c.node.hidden ? "none" : "";
      if (c.node.hidden) return;
      if (fresh || c.drawn !== trace[i]) { pixels(c.canvas, trace[i].h, {map: "diverging", min: -1, max: 1}, ui.theme); c.drawn = trace[i]; }
      const best = trace[i].logits.indexOf(Math.max(...trace[i].logits));
      c.next.textContent = t(name(best));
      c.token.textContent = t(label(i));
      c.token.classList.toggle("rs-unknown", ids[i] === UNK);
      c.bits.textContent = i ? fmt(surprise(i), 1) : "\u00a0";
      c.arrow.textContent = i === erased ? "✂" : "→";
      c.line.style.top = `${(u / units) * 100}%`;
      c.node.classList.toggle("rs-later", i > at);
      c.cell.setAttribute("aria-pressed", String(i === at));
      c.cell.tabIndex = i === at ? 0 : -1;
      c.cell.setAttribute("aria-label", i > at ? t({zh: `第 ${i} 步：${t(label(i))}，还没读`, en: `step ${i}: ${t(label(i))}, not read yet`})
        : t({zh: `第 ${i} 步：${t(label(i))}，预测 ${t(name(best))}`, en: `step ${i}: ${t(label(i))}, predicts ${t(name(best))}`}));
    });
    const {cell} = columns[at], left = cell.offsetLeft - 30, right = cell.offsetLeft + cell.offsetWidth + 10;
    if (left < roll.scrollLeft) roll.scrollLeft = left; else if (right > roll.scrollLeft + roll.clientWidth) roll.scrollLeft = right - roll.clientWidth;

    const now = trace[at], x = now.input[u], m = now.memory[u];
    parts.x.textContent = fmt(x); parts.m.textContent = fmt(m);
    parts.sum.textContent = `hₜ = tanh(${fmt(x + m)}) = ${fmt(now.h[u])}`;
    course.set({x: {max: Math.max(1, ids.length - 1)}, marker: at, series: [{name: "hₜ", kind: at ? "line" : "dots", points: trace.slice(0, at + 1).map((record, i) => [i, record.h[u]])}]});

    const p = distribution(at), order = [...p.keys()].sort((a, b) => p[b] - p[a] || a - b).slice(0, SHOWN), top = p[order[0]];
    rows.forEach((row, i) => {
      row.id = order[i];
      row.button.textContent = t(name(row.id));
      row.button.disabled = row.id <= UNK;
      ui.attr(row.button, "aria-label", {zh: `接着写 ${t(name(row.id))}，概率 ${percent(p[row.id])}`, en: `write ${t(name(row.id))}, probability ${percent(p[row.id])}`});
      row.bar.style.width = `${(100 * p[row.id]) / top}%`;
      row.pc.textContent = percent(p[row.id]);
      row.node.classList.toggle("rs-true", at + 1 < ids.length && row.id === ids[at + 1]);
    });
    ui.retext();
    say(p, order[0], erased);
  }
  function say(p, best, erased) {
    const unknown = words.filter((_, i) => ids[i + 1] === UNK), next = ids[at + 1];
    const cut = erased != null && erased <= at && erased > 0;
    ui.say(() => {
      const zh = [`读完 ${at} 个词元，模型最看好“${t(name(best))}”（${percent(p[best])}）。`], en = [`After ${at} token${at === 1 ? "" : "s"} the model expects “${t(name(best))}” most (${percent(p[best])}).`];
      if (next !== undefined) { zh.push(`句子里接下来的“${t(label(at + 1))}”得到 ${percent(p[next])}。`); en.push(`“${t(label(at + 1))}”, which follows in the sentence, gets ${percent(p[next])}.`); }
      if (cut) { zh.push(`第 ${erased} 步之前的一切都已清空。`); en.push(`Everything before step ${erased} is erased.`); }
      if (unknown.length) { zh.push(`词表里没有：${unknown.slice(0, 5).join("、")}。`); en.push(`Not in the vocabulary: ${unknown.slice(0, 5).join(", ")}.`); }
      return {zh: zh.join(""), en: en.join(" ")};
    });
  }
  ui.watch(["text", "step", "unit", "temperature", "erase"], update);
  update();
  return () => { stop(); ui.done(); };
}

export default {render};
