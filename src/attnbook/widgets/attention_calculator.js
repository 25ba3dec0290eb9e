import {fmt, frame, legend} from "./common.js";
import {h} from "./dom.js";
import {matmul, random, softmax, transpose} from "./maths.js";
import {matrix} from "./matrix.js";

// Every matrix of scaled dot-product attention, in the order in which they are computed.
export function attention({X, W_Q, W_K, W_V, causal, scaled}) {
  const Q = matmul(X, W_Q), K = matmul(X, W_K), V = matmul(X, W_V);
  const divisor = scaled ? Math.sqrt(K[0].length) : 1;
  const scores = matmul(Q, transpose(K));
  const divided = scores.map(row => row.map(s => s / divisor));
  const masked = divided.map((row, i) => row.map((s, j) => (causal && j > i ? -Infinity : s)));
  const weights = masked.map(softmax);
  return {Q, K, V, divisor, scores, divided, masked, weights, output: matmul(weights, V)};
}

const CSS_CALCULATOR = `
.anb .calc-row{display:flex;flex-wrap:wrap;gap:10px 12px;align-items:flex-start}
.anb .calc-two{display:flex;flex-wrap:wrap;gap:0 26px}
.anb .calc-two>.calc-step:first-child{border-top:1px solid var(--line);padding-top:8px}
.anb .calc-two>.calc-step{flex:1 0 auto;max-width:100%}
.anb .calc-grid{display:grid;grid-template-columns:auto auto 1fr;gap:10px 8px}
.anb .calc-row>.anb-m{flex:0 1 auto}
.anb .calc-step{margin:0 0 14px;border-top:1px solid var(--line);padding-top:8px}
.anb .calc-step:first-child{border-top:0;padding-top:0}
.anb .calc-h{display:flex;gap:8px;align-items:baseline;flex-wrap:wrap;margin:0 0 6px;font-size:.95em;line-height:1.4}
.anb .calc-h b{flex:none;width:1.55em;height:1.55em;border-radius:50%;background:var(--ink);color:var(--face);font-size:.8em;text-align:center;line-height:1.55em}
.anb .calc-h strong{font-weight:650}
.anb .calc-h span{color:var(--dim)}
.anb .calc-op{align-self:center;color:var(--dim);font-size:13px;white-space:nowrap;}
.anb .calc-pale .anb-mt{color:var(--dim);font-weight:400}
.anb .calc-q .anb-mt{color:var(--q)}.anb .calc-k .anb-mt{color:var(--k)}.anb .calc-v .anb-mt{color:var(--v)}.anb .calc-w .anb-mt{color:var(--w)}
.anb .calc-lg{display:flex;flex-direction:column;gap:2px;margin-top:12px}
.anb .calc-follow{background:var(--soft);border-radius:10px;padding:10px 12px;font-variant-numeric:tabular-nums;font-size:.92em}
.anb .calc-follow p{margin:0 0 6px}
.anb .calc-t{display:grid;grid-template-columns:auto 1fr auto auto minmax(110px,170px);gap:3px 14px;align-items:center;margin:0 0 8px}
.anb .calc-t>div{display:contents}
.anb .calc-t .calc-th{color:var(--dim);font-size:.88em}
.anb .calc-t .calc-off{color:var(--dim)}
.anb .calc-e{min-width:0;overflow-wrap:anywhere}
.anb .calc-n{text-align:end;white-space:nowrap}
.anb .calc-p{display:flex;gap:8px;align-items:center;white-space:nowrap}
.anb .calc-p i{display:block;height:12px;border-radius:3px;background:var(--w);width:calc(var(--p)*(100% - 46px));min-width:1px}
.anb .calc-sum{line-height:1.75;overflow-wrap:anywhere}
.anb .calc-sum:last-child{margin:0}
.anb .calc-cq{color:var(--q)}.anb .calc-ck{color:var(--k)}.anb .calc-cv{color:var(--v)}.anb .calc-cw{color:var(--w);font-weight:650}
@container (max-width:560px){.anb .calc-grid{display:flex;flex-wrap:wrap;gap:10px 12px}.anb .calc-grid .calc-op{display:none}.anb .calc-two>.calc-step{flex:1 1 100%}.anb .calc-t{grid-template-columns:auto 1fr minmax(84px,110px);gap:2px 10px}.anb .calc-t .calc-e{grid-column:1/-1;grid-row:auto;order:0}.anb .calc-t .calc-th{display:none}.anb .calc-t .calc-s{display:none}.anb .calc-t .calc-n{text-align:start;grid-column:1/3}.anb .calc-t .calc-p{grid-column:3}}
`;

const SUBSCRIPTS = "₀₁₂₃₄₅₆₇₈₉";
const sub = n => SUBSCRIPTS[n];
// As typed, at most two decimals.
const plain = x => String(Math.round(x * 100) / 100).replace("-", "−");
const inBrackets = x => (x < 0 ? `(${plain(x)})` : plain(x));
const sumOf = (a, b) => a.map((x, i) => `${inBrackets(x)}·${inBrackets(b[i])}`).join(" + ");
const vector = row => `[${row.map(x => fmt(x)).join(", ")}]`;
const bound = rows => Math.max(1e-9, ...rows.flat().map(Math.abs).filter(Number.isFinite));

function render({model, el}) {
  const tokens = model.get("tokens").map(([zh, en]) => ({zh, en}));
  const names = ["X", "W_Q", "W_K", "W_V"], initial = Object.fromEntries(names.map(n => [n, model.get(n)]));
  const n = tokens.length, width = initial.X[0].length, dk = initial.W_Q[0].length, dv = initial.W_V[0].length;
  const ui = frame({model, el}, {
    name: "attention-calculator", css: CSS_CALCULATOR,
    title: {zh: "注意力计算器：改一个数，看每一步", en: "Attention calculator: change a number, watch every step"},
    caption: {
      zh: "点一行就跟着这个查询走；把鼠标、手指或焦点放到一格上，看它怎么算出来。X 和三个 W 里的数都能改：上下键加减，Enter 到下一格，Ctrl + 方向键换格。",
      en: "Choose a row to follow that query; point at a cell (or focus it) to see how it was computed. Every number in X and the three W can be edited: arrow up and down step, Enter goes on, Ctrl + arrow moves between cells.",
    },
  });
  const {t} = ui;

  // Tool bar.
  const query = ui.segmented({label: {zh: "跟着哪个查询走", en: "Follow the query"}, options: tokens.map((token, i) => [i, token]), value: model.get("query"), onChange: i => ui.set({query: i})});
  const causal = ui.toggle({label: {zh: "因果掩码", en: "causal mask"}, value: model.get("causal"), onChange: on => ui.set({causal: on})});
  const scaled = ui.toggle({label: {zh: "除以 √dₖ", en: "divide by √dₖ"}, value: model.get("scaled"), onChange: on => ui.set({scaled: on})});
  const randomise = ui.button({label: {zh: "随机", en: "Randomise"}, onClick() {
    const uniform = random(Math.floor(Math.random() * 2 ** 31));
    ui.set(Object.fromEntries(names.map(name => [name, initial[name].map(row => row.map(() => Math.round(uniform() * 8 - 4) / 2))])));
  }});
  const reset = ui.button({label: {zh: "重置", en: "Reset"}, onClick: () => ui.set({...initial})});
  ui.controls.append(query.el, causal.el, scaled.el, randomise.el, reset.el);

  // Matrices. `now` holds all numbers; a description is made from them when it is asked for.
  let now = {}, hovered = null;
  const features = k => Array.from({length: k}, (_, i) => String(i + 1));
  const token = (msg, key = null) => ({rowAxis: msg, colAxis: key});
  const rowAxis = {zh: "词元 ↓", en: "token ↓"}, feature = {zh: "特征 →", en: "feature →"};
  const pick = r => ui.set({query: r});
  const input = (name, rows, label, cls) => {
    const m = matrix(ui, {rows, cols: features(initial[name][0].length), ...token(name === "X" ? rowAxis : null, name === "X" ? feature : null), label, showLabel: true,
      scale: {map: "diverging", min: -2, max: 2}, cell: {size: 31, share: 2, numbers: 0},
      editable: {step: 0.5, min: -99, max: 99, onInput(r, c, v) { ui.set({[name]: model.get(name).map((row, i) => (i === r ? row.map((x, j) => (j === c ? v : x)) : row))}); }}});
    m.el.classList.add(cls);
    return m;
  };
  const derived = (name, {cols, axes, label, cls, map = "diverging", size = 44, describe, key = false}) => {
    const m = matrix(ui, {rows: tokens, cols, ...axes, label, showLabel: true, scale: {map, min: map === "diverging" ? -1 : 0, max: 1}, cell: {size, share: 2, numbers: 0},
      describe, onPick: pick, onHover: (r, c) => hover(r == null ? null : {name, r, c: key ? c : null})});
    m.el.classList.add(cls);
    return m;
  };
  const at = (symbol, r, c) => `${symbol}[${t(tokens[r])}, ${c}]`;
  const projection = (name, W, cls) => derived(name, {cols: features(initial[W][0].length), axes: token(name === "K" || name === "V" ? {zh: "键 key ↓", en: "key ↓"} : {zh: "查询 query ↓", en: "query ↓"}, feature), cls, size: 38,
    label: {zh: `${name} = X ${W}`, en: `${name} = X ${W}`},
    describe: (r, c, v) => `${at(name, r, c + 1)} = x${sub(r + 1)}·${W}[:, ${c + 1}]\n= ${sumOf(model.get("X")[r], model.get(W).map(row => row[c]))}\n= ${fmt(v)}`});
  const pair = (name, label, cls, describe, map) => derived(name, {cols: tokens, axes: {}, label, cls, map, key: true,
    describe: (r, c, v) => `${t({zh: "查询", en: "query"})} ${t(tokens[r])} → ${t({zh: "键", en: "key"})} ${t(tokens[c])}\n${t(describe(r, c, v))}`});

  const inputs = {
    X: input("X", tokens, {zh: "X（词元的表示）", en: "X (token vectors)"}, "calc-x"),
    W_Q: input("W_Q", features(width), "W_Q", "calc-q"), W_K: input("W_K", features(width), "W_K", "calc-k"), W_V: input("W_V", features(width), "W_V", "calc-v"),
  };
  const m = {
    Q: projection("Q", "W_Q", "calc-q"), K: projection("K", "W_K", "calc-k"), V: projection("V", "W_V", "calc-v"),
    scores: pair("scores", {zh: "得分 QKᵀ", en: "scores QKᵀ"}, "calc-s", (r, c, v) => `q${sub(r + 1)}·k${sub(c + 1)} = ${sumOf(now.Q[r], now.K[c])} = ${fmt(v)}`),
    divided: pair("divided", () => (now.divisor === 1 ? {zh: "不缩放", en: "not scaled"} : {zh: "除以 √dₖ", en: "divided by √dₖ"}), "calc-s", (r, c, v) => `${fmt(now.scores[r][c])} ÷ ${fmt(now.divisor)} = ${fmt(v)}`),
    masked: pair("masked", () => (model.get("causal") ? {zh: "加因果掩码", en: "causal mask"} : {zh: "无掩码", en: "no mask"}), "calc-s", (r, c, v) => (v === -Infinity ? {zh: "未来的键：−∞", en: "a future key: −∞"} : {zh: `可以看：${fmt(v)}`, en: `may attend: ${fmt(v)}`})),
    weights: pair("weights", {zh: "权重 A = softmax", en: "weights A = softmax"}, "calc-w", (r, c, v) => {
      const z = now.masked[r].reduce((s, x) => s + Math.exp(x), 0);
      return `e^${fmt(now.masked[r][c])} ÷ ${fmt(z)} = ${fmt(v, 3)}`;
    }, "sequential"),
    output: derived("output", {cols: features(dv), axes: token({zh: "查询 query ↓", en: "query ↓"}, feature), cls: "calc-v", label: {zh: "输出 O = A V", en: "output O = A V"},
      describe: (r, c, v) => `${at("O", r, c + 1)} = ${now.weights[r].map((w, j) => `${fmt(w)}·${inBrackets(now.V[j][c])}`).join(" + ")}\n= ${fmt(v)}`}),
  };

  let number = 0;
  const step = (heading, hint, ...nodes) => h("div", {class: "calc-step"},
    h("p", {class: "calc-h"}, h("b", {"aria-hidden": "true"}, String(++number)), ui.text(h("strong"), heading), ui.text(h("span"), hint)), ...nodes);
  const row = (...nodes) => h("div", {class: "calc-row"}, ...nodes);
  const op = msg => ui.text(h("span", {class: "calc-op", "aria-hidden": "true"}), msg);
  const follow = h("div", {class: "calc-follow"});
  ui.figure.append(
    step({zh: "输入", en: "Inputs"}, {zh: "都能改", en: "all editable"}, row(inputs.X.el, inputs.W_Q.el, inputs.W_K.el, inputs.W_V.el)),
    step({zh: "投影", en: "Project"}, {zh: "每个词元得到一个查询、一个键、一个值", en: "every token gets a query, a key and a value"}, row(m.Q.el, m.K.el, m.V.el)),
    h("div", {class: "calc-two"},
      step({zh: "比较，归一化", en: "Compare, normalise"}, {zh: "每行权重之和为 1", en: "each row of weights sums to 1"},
        h("div", {class: "calc-grid"}, m.scores.el, op("→"), m.divided.el, m.masked.el, op("→"), m.weights.el)),
      step({zh: "加权求和", en: "Weighted sum"}, "", m.output.el, h("div", {class: "calc-lg"},
        legend(ui, {map: "sequential", digits: 0, label: {zh: "权重", en: "weight"}}).el, legend(ui, {map: "diverging", min: -1, max: 1, digits: 0, label: {zh: "其余", en: "others"}}).el))),
    step(() => ({zh: `跟着查询“${t(tokens[model.get("query")])}”走一遍`, en: `Follow the query “${t(tokens[model.get("query")])}”`}), "", follow),
  );

  // The followed row, written out. Its nodes are made once; only texts change.
  const word = cls => h("span", {class: cls});
  const head = ["", "q·k", "", "", ""].map(() => h("span", {class: "calc-th"}));
  const lines = tokens.map((msg, j) => {
    const line = {name: word("calc-ck"), dot: word("calc-e"), divided: word("calc-n calc-s"), exp: word("calc-n"), bar: h("i", {"aria-hidden": "true"}), weight: word("calc-cw")};
    ui.text(line.name, () => `k${sub(j + 1)} ${t(msg)}`);
    line.el = h("div", {}, line.name, line.dot, line.divided, line.exp, h("span", {class: "calc-p"}, line.bar, line.weight));
    return line;
  });
  const q = h("p"), qText = word("calc-cq"), sum = h("p", {class: "calc-sum"});
  q.append(qText);
  head[2].classList.add("calc-n", "calc-s"); head[3].classList.add("calc-n");
  [[0, {zh: "键", en: "key"}], [1, {zh: "得分 q·k", en: "score q·k"}], [2, {zh: "缩放", en: "scaled"}], [3, "exp"], [4, {zh: "权重", en: "weight"}]].forEach(([i, msg]) => ui.text(head[i], msg));
  const parts = tokens.map((_, j) => ({w: word("calc-cw"), v: word("calc-cv"), w2: word("calc-cw"), v2: word("calc-cv")}));
  const o = word("calc-cq"), result = word("calc-cv"), joined = pick => parts.flatMap((p, j) => [j ? " + " : "", ...pick(p)]);
  sum.append(o, " = ", ...joined(p => [p.w, p.v]), h("br"), "= ", ...joined(p => [p.w2, p.v2]), h("br"), "= ", result);
  follow.append(q, h("div", {class: "calc-t"}, h("div", {}, ...head), ...lines.map(line => line.el)), sum);
  const put = (node, s) => { if (node.textContent !== s) node.textContent = s; };

  function followRow(i) {
    put(qText, `q${sub(i + 1)} = ${vector(now.Q[i])}`);
    lines.forEach((line, j) => {
      const off = now.masked[i][j] === -Infinity, w = now.weights[i][j];
      line.el.className = off ? "calc-off" : "";
      put(line.dot, `${sumOf(now.Q[i], now.K[j])} = ${fmt(now.scores[i][j])}`);
      put(line.divided, off ? "−∞" : fmt(now.divided[i][j]));
      put(line.exp, `e^${off ? "−∞" : fmt(now.divided[i][j])} = ${fmt(Math.exp(now.masked[i][j]))}`);
      put(line.weight, fmt(w)); line.bar.style.setProperty("--p", w.toFixed(4));
      put(parts[j].w, fmt(w)); put(parts[j].v, `·v${sub(j + 1)}`);
      put(parts[j].w2, fmt(w)); put(parts[j].v2, `·${vector(now.V[j])}`);
    });
    put(o, `o${sub(i + 1)}`); put(result, vector(now.output[i]));
  }
  function highlight() {
    const i = hovered?.r ?? model.get("query"), key = hovered?.c ?? null;
    const keySide = hovered && (hovered.name === "K" || hovered.name === "V");
    for (const name of ["Q", "scores", "divided", "masked", "weights", "output"]) m[name].emphasise({row: keySide ? model.get("query") : i, col: name === "Q" || name === "output" ? null : keySide ? hovered.r : key});
    for (const name of ["K", "V"]) m[name].emphasise({row: keySide ? hovered.r : key});
    inputs.X.emphasise({row: keySide ? hovered.r : i});
  }
  function hover(what) { hovered = what; highlight(); }

  function update() {
    const state = Object.fromEntries([...names, "causal", "scaled"].map(name => [name, model.get(name)]));
    now = attention(state);
    for (const name of names) { const b = Math.max(2, bound(state[name])); inputs[name].set(state[name].flat(), {min: -b, max: b}); }
    for (const name of Object.keys(m)) { const b = bound(now[name]); m[name].set(now[name].flat(), name === "weights" ? undefined : {min: -b, max: b}); }
    m.divided.el.classList.toggle("calc-pale", !state.scaled);
    m.masked.el.classList.toggle("calc-pale", !state.causal);
    query.set(model.get("query")); causal.set(state.causal); scaled.set(state.scaled);
    const i = model.get("query");
    followRow(i); highlight();
    ui.retext();
    const top = now.weights[i].indexOf(Math.max(...now.weights[i]));
    ui.say({zh: `查询“${tokens[i].zh}”最看重“${tokens[top].zh}”：权重 ${fmt(now.weights[i][top])}。`, en: `The query “${tokens[i].en}” attends most to “${tokens[top].en}”: weight ${fmt(now.weights[i][top])}.`});
  }
  ui.watch([...names, "causal", "scaled", "query"], update);
  update();
  return ui.done;
}

export default {render};
