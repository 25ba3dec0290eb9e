import {chart} from "./chart.js";
import {fmt, frame, legend, pixels} from "./common.js";
import {h} from "./dom.js";
import {applyLinear, embedRow, readSafetensors, recurrentNetwork} from "./runtime.js";

const COLUMN = 22; // px of a character
const UNIT = 9; // px of a unit

// What each kind of cell has to show. range: "gate" 0 … 1, "one" −1 … 1, "free" ± the largest value; row: of the gate in W, U and b.
const PARTS = {
  lstm: [
    {key: "f", name: {zh: "遗忘门 f", en: "forget f"}, range: "gate", row: 1},
    {key: "i", name: {zh: "输入门 i", en: "input i"}, range: "gate", row: 0},
    {key: "g", name: {zh: "候选 g", en: "candidate g"}, range: "one"},
    {key: "o", name: {zh: "输出门 o", en: "output o"}, range: "gate", row: 3},
    {key: "c", name: {zh: "细胞 c", en: "cell c"}, range: "free"},
    {key: "h", name: {zh: "隐状态 h", en: "state h"}, range: "one"},
  ],
  gru: [
    {key: "r", name: {zh: "重置门 r", en: "reset r"}, range: "gate", row: 0},
    {key: "z", name: {zh: "更新门 z", en: "update z"}, range: "gate", row: 1},
    {key: "n", name: {zh: "候选 n", en: "candidate n"}, range: "one"},
    {key: "h", name: {zh: "隐状态 h", en: "state h"}, range: "one"},
  ],
};
const COLOURS = {f: "var(--s1)", z: "var(--s1)", i: "var(--s2)", r: "var(--s2)", o: "var(--s3)", c: "var(--ink)", h: "var(--s4)"}; // of what the chart shows
const GATE_NAMES = {f: {zh: "遗忘门", en: "forget gate"}, i: {zh: "输入门", en: "input gate"}, o: {zh: "输出门", en: "output gate"}, r: {zh: "重置门", en: "reset gate"}, z: {zh: "更新门", en: "update gate"}};

// A model of the chapter: read(ids, hold) -> {states, said}, the cell's record and the probability of each label for every step.
// hold: null or {row, open, unit}: gate number `row` is held open or shut in one unit, or in all (unit null), by a bias that nothing outweighs.
export function gatedReader(tensors, prefix) {
  const network = recurrentNetwork(tensors, `${prefix}recurrent.`), [learned] = network.cells, units = network.hiddenSize;
  const E = tensors.get(`${prefix}embedding.weight`), V = tensors.get(`${prefix}output.weight`), bias = tensors.get(`${prefix}output.bias`);
  function read(ids, hold = null) {
    const b = {shape: learned.b.shape, data: learned.b.data.slice()};
    if (hold) for (let u = 0; u < units; u++) if (hold.unit === null || hold.unit === u) b.data[hold.row * units + u] = hold.open ? 1e4 : -1e4;
    network.cells[0] = {...learned, b};
    const {outputs, states} = network.run(ids.map(id => embedRow(E, id)));
    return {states: states.map(([cell]) => cell), said: outputs.map(x => applyLinear(V, bias, x).map(v => 1 / (1 + Math.exp(-v))))};
  }
  return {kind: network.kind, units, parts: PARTS[network.kind], read};
}

const CSS_GATES = `
.anb .ge-text{flex:1 1 100%}
.anb .ge-text input{width:100%;min-height:38px;padding:4px 10px;border:1px solid var(--dim);border-radius:8px;background:var(--face);font-size:1em}
.anb .ge-roll{overflow-x:auto;padding:3px 3px 8px}
.anb .ge-grid{position:relative;width:max-content;display:grid;grid-template-columns:78px auto;gap:5px 6px;align-items:center}
.anb .ge-name{position:sticky;left:-3px;z-index:3;background:var(--face);font-size:12px;line-height:1.3;color:var(--dim);text-align:end;align-self:stretch;display:flex;align-items:center;justify-content:flex-end;padding-inline-end:2px}
.anb .ge-chars{display:flex}
.anb .ge-chars button{flex:none;width:${COLUMN}px;min-height:28px;padding:0;border:0;border-radius:5px;background:none;font-size:14px;text-align:center;overflow:hidden;white-space:pre;unicode-bidi:isolate}
.anb .ge-chars button.ge-mark{color:var(--k);font-weight:700}
.anb .ge-chars button[aria-pressed=true]{background:var(--q);color:var(--face)}
.anb .ge-strip{position:relative;line-height:0;border:1px solid var(--line);width:max-content;cursor:pointer}
.anb .ge-strip canvas{display:block;image-rendering:pixelated}
.anb .ge-unit{position:absolute;left:-2px;right:-2px;height:${UNIT + 2}px;border:2px solid var(--ink);pointer-events:none}
.anb .ge-now{position:absolute;top:0;bottom:0;width:${COLUMN + 2}px;border:2px solid var(--q);border-radius:4px;pointer-events:none;z-index:2}
.anb .ge-legends{display:flex;flex-wrap:wrap;gap:2px 20px;margin:2px 0 0}
.anb .ge-grid[hidden],.anb .ge-legends [hidden]{display:none}
.anb .ge-two{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,290px),1fr));gap:10px 26px;margin-top:10px}
.anb .ge-two>div{min-width:0}
.anb .ge-sum{font-variant-numeric:tabular-nums;font-size:13.5px;margin:2px 0;line-height:1.7}
`;

function render({model, el}) {
  const get = name => model.get(name), {tensors} = readSafetensors(get("weights"));
  const names = get("names"), readers = names.map((_, k) => gatedReader(tensors, `${k}.`));
  const kinds = get("kinds"), labels = get("labels").map(([zh, en]) => ({zh, en}));
  const kindOf = character => Math.max(0, kinds.findIndex((set, k) => k && set.includes(character)));
  const ui = frame({model, el}, {
    name: "gate-explorer", css: CSS_GATES,
    title: {zh: "门浏览器：看每个门怎样开合", en: "Gate explorer: watch every gate open and close"},
    caption: {
      zh: "每一列是一个字符，每条带子里每一行是一个单元。门从 0（关）到 1（开）；候选与状态有正有负。点任意一格，选定字符与单元；方向键左右换字符，上下换单元。最下面几条是模型读到这里时说的话。",
      en: "Each column is a character, each row of a band is a unit. Gates run from 0 (shut) to 1 (open); candidate and state have a sign. Click anywhere to choose character and unit; arrow keys left and right change the character, up and down the unit. The bands at the bottom are what the model says at that point.",
    },
  });
  const {t} = ui;
  const reader = () => readers[get("shown")];
  const visible = c => (c === " " || c === "\u3000" ? "␣" : c);

  // What is shown.
  let characters = [], ids = [], read = {states: [], said: []}, at = 0, widest = 1;

  // Tool bar.
  const input = h("input", {type: "text", maxlength: 120, spellcheck: "false", autocomplete: "off"});
  input.addEventListener("input", () => ui.set({text: input.value, step: null}));
  const field = h("label", {class: "anb-f ge-text"}, ui.text(h("span", {class: "anb-l"}), {zh: "你的句子（中文或英文）", en: "Your sentence (Chinese or English)"}), input);
  const which = ui.segmented({label: {zh: "网络", en: "Network"}, value: get("shown"), options: names.map((name, k) => [k, name]), onChange: k => ui.set({shown: Number(k), hold: "none"})});
  const unit = ui.slider({label: {zh: "跟踪的单元", en: "unit to follow"}, min: 0, max: Math.min(...readers.map(r => r.units)) - 1, value: get("unit"), onInput: v => ui.set({unit: v})});
  const hold = ui.select({label: {zh: "扳住一个门", en: "hold a gate"}, options: [["none", {zh: "不扳", en: "none"}]], value: "none", onChange: v => ui.set({hold: v})});
  const everywhere = ui.toggle({label: {zh: "所有单元", en: "in all units"}, value: get("everywhere"), onChange: on => ui.set({everywhere: on})});
  ui.controls.append(field, ...(names.length > 1 ? [which.el] : []), unit.el, hold.el, everywhere.el);

  // The roll: characters, a band for each part of the cell, a band for each label.
  const bar = ui.attr(h("div", {class: "ge-chars", role: "group"}), "aria-label", {zh: "字符", en: "characters"});
  const now = h("div", {class: "ge-now", "aria-hidden": "true"});
  const grid = h("div", {class: "ge-grid"}), roll = h("div", {class: "ge-roll"}, grid), buttons = [];
  const sizes = {gate: legend(ui, {map: "sequential", label: {zh: "门、概率", en: "gates, probabilities"}, digits: 0}), free: legend(ui, {map: "diverging", min: -1, max: 1, label: {zh: "细胞 c", en: "cell c"}, digits: 1}), one: legend(ui, {map: "diverging", min: -1, max: 1, label: {zh: "候选与 h", en: "candidate and h"}, digits: 0})};
  let bands = [], built = null;

  function band(name, rows, height, values, scale, tell) {
    const canvas = h("canvas", {"aria-hidden": "true"}), line = rows > 1 ? h("div", {class: "ge-unit", "aria-hidden": "true"}) : null, strip = h("div", {class: "ge-strip"}, canvas, line);
    const where = event => {
      const r = canvas.getBoundingClientRect(), part = (x, size, n) => Math.max(0, Math.min(n - 1, Math.floor((x / size) * n)));
      return {step: part(event.clientX - r.left, r.width, ids.length), row: part(event.clientY - r.top, r.height, rows)};
    };
    canvas.addEventListener("click", event => { const {step, row} = where(event); ui.set(rows > 1 ? {step, unit: row} : {step}); });
    canvas.addEventListener("pointermove", event => { const {step, row} = where(event); if (step < ids.length) ui.showTip(buttons[step].node, tell(step, row)); });
    canvas.addEventListener("pointerleave", ui.hideTip);
    grid.append(ui.text(h("div", {class: "ge-name"}), name), strip);
    return {canvas, line, draw() {
      canvas.width = Math.max(1, ids.length); canvas.height = rows;
      canvas.style.width = `${canvas.width * COLUMN}px`; canvas.style.height = `${height}px`;
      const out = new Float32Array(canvas.width * rows);
      for (let s = 0; s < ids.length; s++) for (let r = 0; r < rows; r++) out[r * ids.length + s] = values(s, r);
      pixels(canvas, out, scale(), ui.theme);
    }};
  }
  function build() {
    const {units, parts} = reader();
    const scales = {gate: () => ({map: "sequential", min: 0, max: 1}), one: () => ({map: "diverging", min: -1, max: 1}), free: () => ({map: "diverging", min: -widest, max: widest})};
    grid.replaceChildren(ui.text(h("div", {class: "ge-name"}), {zh: "字符", en: "character"}), bar);
    bands = [
      ...parts.map(({key, name, range}) => band(name, units, units * UNIT, (s, u) => read.states[s][key][u], scales[range],
        (s, u) => ({zh: `“${characters[s]}” 单元 ${u}：${key} = ${fmt(read.states[s][key][u])}`, en: `“${characters[s]}” unit ${u}: ${key} = ${fmt(read.states[s][key][u])}`}))),
      ...labels.map((name, k) => band(name, 1, 16, s => read.said[s][k], scales.gate,
        s => ({zh: `“${characters[s]}” ${name.zh}：${fmt(read.said[s][k])}`, en: `“${characters[s]}” ${name.en}: ${fmt(read.said[s][k])}`}))),
    ];
    grid.append(now);
    sizes.free.el.hidden = !parts.some(part => part.range === "free");
    hold.options([["none", {zh: "不扳", en: "none"}], ...parts.filter(part => part.row !== undefined).flatMap(({key}) => [0, 1].map(open => [`${key}${open}`,
      {zh: `${GATE_NAMES[key].zh} = ${open}（${open ? "总开" : "总关"}）`, en: `${GATE_NAMES[key].en} = ${open} (${open ? "open" : "shut"})`}]))]);
    built = get("shown");
  }
  function button(i) {
    const node = h("button", {type: "button"});
    node.addEventListener("click", () => ui.set({step: i}));
    bar.append(node);
    return {node};
  }
  ui.listen(bar, "keydown", event => {
    const by = {ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity}[event.key], down = {ArrowUp: -1, ArrowDown: 1}[event.key];
    if (by === undefined && down === undefined) return;
    event.preventDefault();
    if (down) return ui.set({unit: Math.max(0, Math.min(reader().units - 1, get("unit") + down))});
    const to = Math.max(0, Math.min(ids.length - 1, at + by));
    ui.set({step: to});
    buttons[to].node.focus();
  });

  // One unit at one step in numbers, and over time.
  const sums = h("p", {class: "ge-sum"});
  const head = ui.text(h("div", {class: "anb-mt"}), () => ({zh: `单元 ${get("unit")} 读到“${characters[at] ?? ""}”（第 ${at + 1} 个字符）`, en: `Unit ${get("unit")} at “${characters[at] ?? ""}” (character ${at + 1})`}));
  const course = chart(ui, {label: {zh: "所跟踪的单元随时间的变化", en: "the followed unit over time"}, height: 170, series: [], x: {label: {zh: "字符", en: "character"}, min: 1, max: 2, format: v => (Number.isInteger(v) ? String(v) : "")}, y: {label: {zh: "值", en: "value"}, min: -1, max: 1}});
  ui.figure.append(roll, h("div", {class: "ge-legends"}, sizes.gate.el, sizes.one.el, sizes.free.el), h("div", {class: "ge-two"}, h("div", {}, head, sums), course.el));
  const signed = v => (v < 0 ? `(${fmt(v)})` : fmt(v));
  function formula(s, before, u) {
    const v = Object.fromEntries(reader().parts.map(({key}) => [key, s[key][u]]));
    if (reader().kind === "lstm") return [
      `f = ${fmt(v.f)}, i = ${fmt(v.i)}, g = ${fmt(v.g)}, o = ${fmt(v.o)}`,
      `cₜ = f·cₜ₋₁ + i·g = ${fmt(v.f)}·${signed(before.c)} + ${fmt(v.i)}·${signed(v.g)} = ${fmt(v.c)}`,
      `hₜ = o·tanh(cₜ) = ${fmt(v.o)}·${signed(Math.tanh(v.c))} = ${fmt(v.h)}`,
    ];
    return [
      `r = ${fmt(v.r)}, z = ${fmt(v.z)}, n = ${fmt(v.n)}`,
      `hₜ = (1−z)·n + z·hₜ₋₁ = ${fmt(1 - v.z)}·${signed(v.n)} + ${fmt(v.z)}·${signed(before.h)} = ${fmt(v.h)}`,
    ];
  }

  function update() {
    const u = get("unit"), held = get("hold");
    characters = [...get("text")];
    ids = characters.map(kindOf);
    at = Math.max(0, Math.min(get("step") ?? Infinity, ids.length - 1));
    if (built !== get("shown")) build();
    const {parts, units} = reader(), gate = parts.find(part => part.row !== undefined && part.key === held[0]);
    read = reader().read(ids, gate && held !== "none" ? {row: gate.row, open: held[1] === "1", unit: get("everywhere") ? null : u} : null);
    if (input.value !== get("text")) input.value = get("text");
    which.set(get("shown")); unit.set(u); hold.set(gate ? held : "none"); everywhere.set(get("everywhere"));
    everywhere.input.disabled = !gate;

    while (buttons.length < ids.length) buttons.push(button(buttons.length));
    buttons.forEach(({node}, i) => {
      node.hidden = i >= ids.length;
      if (node.hidden) return;
      node.textContent = visible(characters[i]);
      node.classList.toggle("ge-mark", ids[i] > 0);
      node.setAttribute("aria-pressed", String(i === at));
      node.tabIndex = i === at ? 0 : -1;
      node.setAttribute("aria-label", t({zh: `第 ${i + 1} 个字符：${visible(characters[i])}`, en: `character ${i + 1}: ${visible(characters[i])}`}));
    });
    widest = Math.max(1, ...read.states.flatMap(s => [...(s.c ?? [])].map(Math.abs)));
    sizes.free.set({min: -widest, max: widest});
    bands.forEach(b => { b.draw(); if (b.line) b.line.style.top = `${u * UNIT - 1}px`; });
    grid.hidden = ids.length === 0;
    if (!ids.length) { sums.textContent = ""; course.set({series: [], marker: null}); ui.retext(); return ui.say({zh: "输入一句话，让网络读一读。", en: "Type a sentence for the network to read."}); }

    now.style.left = `${84 + at * COLUMN}px`;
    const left = 84 + at * COLUMN;
    if (left - 84 < roll.scrollLeft) roll.scrollLeft = left - 110; else if (left + COLUMN > roll.scrollLeft + roll.clientWidth) roll.scrollLeft = left + 2 * COLUMN - roll.clientWidth;
    const s = read.states[at], last = at ? read.states[at - 1] : null;
    sums.replaceChildren(...formula(s, {h: last?.h[u] ?? 0, c: last?.c?.[u] ?? 0}, u).flatMap((text, i) => (i ? [h("br"), text] : [text])));
    const values = parts.filter(({key}) => COLOURS[key]).map(({key, name}) => ({name, colour: COLOURS[key], dash: key === "h" ? "5 3" : undefined, points: read.states.map((record, k) => [k + 1, record[key][u]])}));
    const all = values.flatMap(({points}) => points.map(p => p[1]));
    course.set({x: {max: Math.max(2, ids.length)}, y: {min: Math.min(0, Math.floor(Math.min(...all))), max: Math.max(1, Math.ceil(Math.max(...all)))}, marker: at + 1, series: values});
    ui.retext();
    ui.say(() => {
      const said = language => labels.map((name, k) => `${name[language]} ${Math.round(100 * read.said[at][k])}%`);
      return {
        zh: `读到第 ${at + 1} 个字符“${characters[at]}”，模型说：${said("zh").join("，")}。${gate ? `${GATE_NAMES[gate.key].zh}被扳在 ${held[1]}（${get("everywhere") ? `全部 ${units} 个单元` : `单元 ${u}`}）。` : ""}`,
        en: `At character ${at + 1}, “${characters[at]}”, the model says: ${said("en").join(", ")}.${gate ? ` The ${GATE_NAMES[gate.key].en} is held at ${held[1]} (${get("everywhere") ? `all ${units} units` : `unit ${u}`}).` : ""}`,
      };
    });
  }
  ui.watch(["text", "shown", "unit", "step", "hold", "everywhere"], update);
  update();
  return ui.done;
}

export default {render};
