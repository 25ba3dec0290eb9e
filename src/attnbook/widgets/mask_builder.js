import {fmt, frame, legend} from "./common.js";
import {h, uid} from "./dom.js";
import {matmul, softmax} from "./maths.js";
import {matrix} from "./matrix.js";

// What was meant: rows of booleans, true = may attend. `hand` overrules the rest.
export function buildMask({isPad, causal, padding, window, hand}) {
  const mask = isPad.map((_, q) => isPad.map((pad, k) => !(causal && k > q) && !(padding && pad) && (window == null || Math.abs(q - k) <= window)));
  for (const [q, k, may] of hand) mask[q][k] = may;
  return mask;
}

// What a library takes it for: true = may attend. A float mask has one meaning, a boolean one has two.
export const readMask = (mask, {passed, library, inverted}) => mask.map(row => row.map(may => (passed === "float" ? may : (library === "mha") === (inverted ? may : !may))));

export function attendMasked(scores, allowed, values, library) {
  const masked = scores.map((row, q) => row.map((s, k) => (allowed[q][k] ? s : -Infinity)));
  // nn.MultiheadAttention divides 0 by 0 where nothing may be attended.
  const weights = masked.map(row => (library === "mha" && row.every(s => s === -Infinity) ? row.map(() => NaN) : softmax(row)));
  return {masked, weights, output: matmul(weights, values)};
}

const CSS_MASK = `
.anb .mk-two{display:flex;flex-wrap:wrap;gap:6px 26px;align-items:flex-start;margin:0 0 12px}
.anb .mk-batch{border:0;padding:0;margin:0;min-width:0;max-width:100%}
.anb .mk-batch legend{font-size:.83em;color:var(--dim);padding:0;margin:0 0 3px;float:none;width:auto}
.anb .mk-row{display:flex;gap:8px;align-items:center;margin:0;padding:2px 8px 2px 6px;border-radius:7px;border:1px solid transparent;cursor:pointer;font-size:13px;min-height:32px}
.anb .mk-row:has(:checked){border-color:var(--q);background:var(--soft)}
.anb .mk-row:has(:focus-visible){outline:2px solid var(--ring);outline-offset:1px}
.anb .mk-row input{accent-color:var(--q);width:15px;height:15px;flex:none}
.anb .mk-row>span{display:flex;flex-wrap:wrap;gap:3px}
.anb .mk-row i{font-style:normal;padding:0 5px;border:1px solid var(--line);border-radius:5px;background:var(--face);line-height:1.6}
.anb .mk-row i.mk-pad{border-style:dashed;color:var(--dim)}
.anb .mk-set{display:flex;flex-wrap:wrap;gap:8px 16px;align-items:end;flex:1 1 300px}
.anb .mk-flow{display:flex;flex-wrap:wrap;gap:12px 14px;align-items:flex-start;margin:0 0 14px}
.anb .mk-op{align-self:center;color:var(--dim);font-size:15px}
.anb .mk-code{margin:0;padding:8px 10px;background:var(--soft);border-radius:8px;font:12.5px/1.6 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;white-space:pre-wrap;overflow-wrap:anywhere;color:var(--ink);border:0}
.anb .mk-side{flex:1 1 176px;min-width:0;max-width:460px}
.anb:has(.mk-flow) .anb-say:empty{display:none}
.anb .mk-facts{display:grid;grid-template-columns:1fr auto;gap:2px 12px;margin:10px 0 0;font-size:13.5px}
.anb .mk-facts dt{color:var(--dim);margin:0;font-weight:400}
.anb .mk-facts dd{margin:0;text-align:end;font-variant-numeric:tabular-nums;font-weight:650}
.anb .mk-note{margin:10px 0 0;font-size:13.5px;border-inline-start:4px solid var(--v);padding:2px 10px}
.anb .mk-note.mk-bad{border-color:var(--k)}
.anb .mk-lg{display:flex;flex-wrap:wrap;gap:4px 18px;align-items:center;font-size:11.5px;color:var(--dim)}
.anb .mk-lg b{display:inline-block;width:13px;height:13px;border-radius:2px;margin-inline-end:5px;vertical-align:-2px}
.anb .mk-lg .anb-c{display:inline-block}
.anb .mk-hand{border:2px solid var(--v)}
.anb .mk-m .anb-mt{color:var(--k)}.anb .mk-w .anb-mt{color:var(--w)}.anb .mk-v .anb-mt{color:var(--v)}
@container (max-width:560px){.anb .mk-op{display:none}.anb .mk-side{max-width:none;flex-basis:100%}}
`;

// Cells of the mask: what stands in them, and a colour for what it does (the hatching is set beside it).
const CELLS = {open: {true: 5, false: 5.01, float: 5.02}, shut: {false: 0, true: 0.01, float: 0.02}};
const SIGNS = new Map([[5, "T"], [5.01, "F"], [5.02, "0"], [0, "F"], [0.01, "T"], [0.02, "−∞"]]);
const plain = x => String(Math.round(x * 100) / 100).replace("-", "−");
const largestOf = rows => Math.max(1e-9, ...rows.flat().map(Math.abs).filter(Number.isFinite));

function render({model, el}) {
  const get = name => model.get(name);
  const sentences = get("sentences").map(tokens => tokens.map(([zh, en]) => ({zh, en})));
  const n = get("scores")[0].length, width = get("values")[0][0].length, PAD = {zh: "⟨填充⟩", en: "⟨pad⟩"};
  const ui = frame({model, el}, {
    name: "mask-builder", css: CSS_MASK,
    title: {zh: "掩码搭建器：谁可以看谁", en: "Mask builder: who may look at whom"},
    caption: {
      zh: "行是查询，列是键。点掩码里的一格（或用方向键走到那里按 Enter），就亲手改掉它。有斜线的格子是被遮住的。分数和值是编出来的；填充的分数故意很高，值故意很怪，漏进来一看便知。",
      en: "Rows are queries, columns are keys. Click a cell of the mask (or go there with the arrow keys and press Enter) to change it by hand. Hatched cells are masked. Scores and values are made up; those of the padding are high and odd on purpose, so that a leak shows.",
    },
  });
  const {t} = ui;

  // What is on display.
  let now;
  const padding = () => n - sentences[get("sentence")].length;
  const item = place => (get("side") === "left" ? (place - padding() + n) % n : place);
  const token = place => sentences[get("sentence")][item(place)] ?? PAD;
  const labels = Array.from({length: n}, (_, place) => () => t(token(place)));

  // The batch: one row is looked at.
  const group = uid();
  const batch = sentences.map((tokens, i) => {
    const input = h("input", {type: "radio", name: group, value: i, onchange: () => ui.set({sentence: i, hand: []})});
    const chips = Array.from({length: n}, () => h("i", {dir: "auto"}));
    return {input, chips, el: h("label", {class: "mk-row"}, input, h("span", {}, ...chips))};
  });
  const rows = h("fieldset", {class: "mk-batch"}, ui.text(h("legend"), {zh: `一批 ${sentences.length} 句，补到一样长`, en: `a batch of ${sentences.length}, padded to one length`}), ...batch.map(row => row.el));

  // Tool bar.
  const side = ui.segmented({label: {zh: "填充在", en: "padding at the"}, value: get("side"), options: [["right", {zh: "末尾", en: "end"}], ["left", {zh: "开头", en: "beginning"}]], onChange: v => ui.set({side: v, hand: []})});
  const causal = ui.toggle({label: {zh: "因果：遮住后面", en: "causal: hide the future"}, value: get("causal"), onChange: on => ui.set({causal: on})});
  const pads = ui.toggle({label: {zh: "填充：遮住填充", en: "padding: hide it"}, value: get("padding"), onChange: on => ui.set({padding: on})});
  const reach = ui.slider({label: {zh: "窗口：最远看几格", en: "window: farthest key"}, min: 0, max: n - 1, value: get("window") ?? n - 1, format: v => (v === n - 1 ? {zh: "不限", en: "any"} : String(v)), onInput: v => ui.set({window: v === n - 1 ? null : v})});
  const clear = ui.button({label: () => ({zh: `撤销手改的 ${get("hand").length} 格`, en: `undo ${get("hand").length} by hand`}), onClick: () => ui.set({hand: []})});
  const passed = ui.segmented({label: {zh: "掩码写成", en: "mask written as"}, value: get("passed"), options: [["bool", {zh: "布尔 T / F", en: "boolean T / F"}], ["float", {zh: "加性 0 / −∞", en: "additive 0 / −∞"}]], onChange: v => ui.set({passed: v})});
  const library = ui.segmented({label: {zh: "交给谁", en: "handed to"}, value: get("library"), options: [["sdpa", {zh: "本书、F.scaled_dot…", en: "this book, F.scaled_dot…"}], ["mha", "nn.MultiheadAttention"]], onChange: v => ui.set({library: v})});
  const inverted = ui.toggle({label: {zh: "取反再交：~mask", en: "hand over ~mask"}, value: get("inverted"), onChange: on => ui.set({inverted: on})});
  ui.controls.append(h("div", {class: "mk-two"}, rows, h("div", {class: "mk-set"}, causal.el, pads.el, side.el, reach.el, clear.el)), passed.el, library.el, inverted.el);

  // Matrices.
  const pair = (q, k) => `${t({zh: "查询", en: "query"})} ${t(token(q))} → ${t({zh: "键", en: "key"})} ${t(token(k))}`;
  const emphasise = (q, k, keys) => { for (const [name, m] of Object.entries(all)) m.emphasise(name === "values" ? {row: keys ?? k} : {row: q, col: name === "output" ? null : k}); };
  const hover = name => (r, c) => (r == null ? emphasise(null, null) : name === "values" ? emphasise(null, null, r) : emphasise(r, name === "output" ? null : c));
  const size = {size: 37, min: 29, numbers: 0};
  const square = (name, label, cls, more) => {
    const m = matrix(ui, {rows: labels, cols: labels, label, showLabel: true, cell: size, onHover: hover(name), ...more});
    if (cls) m.el.classList.add(cls);
    return m;
  };
  const features = Array.from({length: width}, (_, i) => String(i + 1)), feature = {zh: "特征 →", en: "feature →"};
  const narrow = (name, label, rowAxis, describe) => {
    const m = matrix(ui, {rows: labels, cols: features, rowAxis, colAxis: feature, label, showLabel: true, cell: size, scale: {map: "diverging", min: -1, max: 1}, describe, format: name === "values" ? plain : number, onHover: hover(name)});
    m.el.classList.add("mk-v");
    return m;
  };
  const number = v => (Number.isNaN(v) ? "NaN" : v === 0 ? "0" : fmt(v));
  const written = () => (get("passed") === "float" ? {zh: "掩码 M，加到分数上", en: "mask M, added"} : get("inverted") ? {zh: "交出去的 ~mask", en: "~mask, as handed over"} : {zh: "交出去的 mask", en: "mask, as handed over"});
  const all = {
    scores: square("scores", {zh: "分数 QKᵀ/√dₖ", en: "scores QKᵀ/√dₖ"}, "", {scale: {map: "diverging", min: -1, max: 1}, format: v => fmt(v, 1), describe: (q, k, v) => `${pair(q, k)}\n${fmt(v, 1)}`}),
    mask: square("mask", written, "mk-m", {scale: {map: "sequential", min: 0, max: 16}, format: v => SIGNS.get(v) ?? "", onPick: toggle,
      describe: (q, k, v) => `${pair(q, k)}\n${SIGNS.get(v)}${t({zh: "，", en: ": "})}${t(now.allowed[q][k] ? {zh: "可以看", en: "may attend"} : {zh: "被遮住", en: "masked"})}${now.allowed[q][k] === now.mask[q][k] ? "" : t({zh: "（本意相反）", en: " (the opposite was meant)"})}`}),
    weights: square("weights", {zh: "权重 A = softmax", en: "weights A = softmax"}, "mk-w", {scale: {map: "sequential", min: 0, max: 1}, format: number, describe(q, k, v) {
      const row = now.masked[q], empty = row.every(s => s === -Infinity);
      if (empty) return `${pair(q, k)}\n${t(Number.isNaN(v) ? {zh: "整行被遮住：0 ÷ 0 = NaN", en: "the whole row is masked: 0 ÷ 0 = NaN"} : {zh: "整行被遮住：约定为 0", en: "the whole row is masked: 0 by convention"})}`;
      const z = row.reduce((sum, s) => sum + Math.exp(s), 0);
      return `${pair(q, k)}\n${row[k] === -Infinity ? "e^−∞" : `e^${fmt(row[k], 1)}`} ÷ ${fmt(z)} = ${fmt(v, 3)}`;
    }}),
    values: narrow("values", {zh: "值 V", en: "values V"}, {zh: "键 ↓", en: "key ↓"}, (r, c, v) => `${t(token(r))}, ${c + 1}: ${plain(v)}`),
    output: narrow("output", {zh: "输出 O = A V", en: "output O = A V"}, {zh: "查询 ↓", en: "query ↓"}, (r, c, v) => `${t(token(r))}, ${c + 1}: ${now.weights[r].map((w, k) => [w, k]).filter(([w]) => w !== 0).map(([w, k]) => `${number(w)}·(${plain(now.values[k][c])})`).join(" + ") || "0"}\n= ${number(v)}`),
  };
  const squares = ["mask", "weights"].map(name => labels.map((_, q) => labels.map((_, k) => all[name].cell(q, k))));
  const code = h("pre", {class: "mk-code", tabindex: 0, role: "group"}), note = h("p", {class: "mk-note", role: "status"});
  ui.attr(code, "aria-label", {zh: "等价的代码", en: "the same in code"});
  const fact = msg => { const dd = h("dd"); return {nodes: [ui.text(h("dt"), msg), dd], set: s => { if (dd.textContent !== s) dd.textContent = s; }}; };
  const facts = {future: fact({zh: "权重落在后面的词上", en: "weight on later tokens"}), pad: fact({zh: "权重落在填充上", en: "weight on padding"}), empty: fact({zh: "无处可看的查询", en: "queries with nothing to attend"})};
  const op = s => h("span", {class: "mk-op", "aria-hidden": "true"}, s);
  const sample = (cls, msg) => h("span", {}, h("b", {class: cls}), ui.text(h("span"), msg));
  ui.figure.append(
    h("div", {class: "mk-flow"}, all.scores.el, op("+"), all.mask.el, h("div", {class: "mk-side"}, code, h("dl", {class: "mk-facts"}, ...Object.values(facts).flatMap(f => f.nodes)), note)),
    h("div", {class: "mk-flow"}, op("→"), all.weights.el, op("×"), all.values.el, op("="), all.output.el),
    h("div", {class: "mk-lg"}, sample("anb-c anb-off", {zh: "被遮住", en: "masked"}), sample("mk-hand", {zh: "手改的", en: "set by hand"}),
      legend(ui, {map: "sequential", digits: 0, label: {zh: "权重", en: "weight"}}).el, legend(ui, {map: "diverging", min: -1, max: 1, digits: 0, label: {zh: "分数、值（各按最大值）", en: "scores, values (by their largest)"}}).el));

  function toggle(q, k) {
    const hand = get("hand").filter(([a, b]) => a !== q || b !== k);
    const base = buildMask({...now.settings, hand: []})[q][k], wanted = !now.mask[q][k];
    ui.set({hand: wanted === base ? hand : [...hand, [q, k, wanted]]});
  }

  // The mask as one would write it.
  function program() {
    const parts = [get("causal") && `causal_mask(${n})`, get("padding") && "padding_mask(tokens)", get("window") != null && `(distance <= ${get("window")})`].filter(Boolean);
    const float = get("passed") === "float", lines = [`mask = ${parts.join(" & ") || `torch.ones(${n}, ${n}).bool()`}`];
    const hand = get("hand");
    for (const [q, k, may] of hand.slice(0, 2)) lines.push(`mask[..., ${q}, ${k}] = ${may ? "True" : "False"}`);
    if (hand.length > 2) lines.push(`… (${hand.length})`);
    if (float) lines.push("M = torch.zeros(mask.shape)", "M = M.masked_fill(~mask, -inf)");
    const given = float ? "M" : get("inverted") ? "~mask" : "mask";
    lines.push(get("library") === "mha" ? `nn.MultiheadAttention(…)(\n    x, x, x, attn_mask=${given})` : `F.scaled_dot_product_attention(\n    q, k, v, attn_mask=${given})`);
    return lines.join("\n");
  }

  function update() {
    const state = Object.fromEntries(["sentence", "side", "causal", "padding", "window", "hand", "passed", "library", "inverted"].map(name => [name, get(name)]));
    const isPad = labels.map((_, place) => token(place) === PAD), places = labels.map((_, place) => item(place));
    const pick = rows => places.map(i => rows[i]);
    const settings = {...state, isPad}, mask = buildMask(settings), allowed = readMask(mask, state);
    const scores = pick(get("scores")[state.sentence]).map(pick), values = pick(get("values")[state.sentence]);
    now = {settings, mask, allowed, values, ...attendMasked(scores, allowed, values, state.library)};

    batch.forEach((row, i) => {
      row.input.checked = i === state.sentence;
      const gap = n - sentences[i].length;
      row.chips.forEach((chip, place) => {
        const msg = sentences[i][state.side === "left" ? place - gap : place];
        chip.textContent = t(msg ?? PAD); chip.classList.toggle("mk-pad", !msg);
      });
    });
    side.set(state.side); causal.set(state.causal); pads.set(state.padding); reach.set(state.window ?? n - 1);
    passed.set(state.passed); library.set(state.library); inverted.set(state.inverted);
    inverted.input.disabled = state.passed === "float";
    clear.el.disabled = !state.hand.length;
    ui.retext();

    const b = largestOf(scores), v = largestOf(values);
    all.scores.set(scores.flat(), {min: -b, max: b});
    all.mask.set(mask.flatMap((row, q) => row.map((may, k) => CELLS[allowed[q][k] ? "open" : "shut"][state.passed === "float" ? "float" : may !== state.inverted])));
    all.weights.set(now.weights.flat());
    all.values.set(values.flat(), {min: -v, max: v});
    all.output.set(now.output.flat(), {min: -v, max: v});
    const edited = new Set(state.hand.map(([q, k]) => q * n + k));
    all.mask.gold((q, k) => edited.has(q * n + k));
    for (const cells of squares) cells.forEach((row, q) => row.forEach((node, k) => node.classList.toggle("anb-off", !allowed[q][k])));

    // What leaks: the mean over the queries that are words.
    const queries = places.map((_, q) => q).filter(q => !isPad[q]), empty = allowed.filter(row => row.every(may => !may)).length;
    const share = test => queries.reduce((sum, q) => sum + now.weights[q].reduce((s, w, k) => s + w * test(q, k), 0), 0) / queries.length;
    const percent = x => (Number.isNaN(x) ? "NaN" : `${Math.round(100 * x)}%`);
    facts.future.set(percent(share((q, k) => k > q))); facts.pad.set(percent(share((q, k) => isPad[k]))); facts.empty.set(`${empty} / ${n}`);
    if (code.textContent !== program()) code.textContent = program();
    const wrong = allowed.some((row, q) => row.some((may, k) => may !== mask[q][k]));
    const nan = empty > 0 && state.library === "mha";
    note.classList.toggle("mk-bad", wrong || nan);
    ui.text(note, wrong
      ? (state.library === "mha" ? {zh: "读反了：nn.MultiheadAttention 把 True 当作“遮住”。没有报错，看到的却正是不该看的。", en: "Read the wrong way round: to nn.MultiheadAttention True means masked. No error, yet each query sees just what it must not."}
        : {zh: "读反了：在这里 True 表示“可以看”，交出去的却是 ~mask。", en: "Read the wrong way round: here True means may attend, and ~mask was handed over."})
      : nan ? {zh: "有的查询无处可看：nn.MultiheadAttention 算出 0 ÷ 0 = NaN，它会传遍整个网络。", en: "Some queries have nothing to attend: nn.MultiheadAttention computes 0 ÷ 0 = NaN, which spreads through the network."}
        : empty ? {zh: "有的查询无处可看：权重和输出都是 0，不是 NaN。", en: "Some queries have nothing to attend: their weights and outputs are 0, not NaN."}
          : {zh: "掩码的意思与本意一致。每行权重之和为 1。", en: "The mask is read as it was meant. Each row of weights sums to 1."});
  }
  ui.watch(["sentence", "side", "causal", "padding", "window", "hand", "passed", "library", "inverted"], update);
  update();
  return ui.done;
}

export default {render};
