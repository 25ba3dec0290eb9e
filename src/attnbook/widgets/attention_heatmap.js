import {floats, fmt, frame, legend, pixels} from "./common.js";
import {h} from "./dom.js";
import {matrix, tokenLabel} from "./matrix.js";

// The (query, key) matrix of a layer and head out of all weights; head "mean" averages the layer's heads.
export function select(weights, [, heads, rows, columns], layer, head) {
  const size = rows * columns, start = layer * heads * size;
  if (head !== "mean") return weights.subarray(start + head * size, start + (head + 1) * size);
  const out = new Float32Array(size);
  for (let k = 0; k < heads; k++) for (let i = 0; i < size; i++) out[i] += weights[start + k * size + i] / heads;
  return out;
}

// Indices of the largest values, largest first.
export const largest = (row, count) => [...row.keys()].sort((a, b) => row[b] - row[a]).slice(0, count);

const CSS_HEATMAP = `
.anb .hm-top{display:flex;flex-wrap:wrap;gap:2px 18px;align-items:center;justify-content:space-between;margin:0 0 4px;font-size:.9em}
.anb .hm-what{font-weight:600}
.anb .hm-gold{color:var(--v)}
.anb .hm-gold i{display:inline-block;width:12px;height:12px;border:2px solid var(--v);border-radius:2px;margin-inline-end:5px;vertical-align:-1px}
.anb .hm-lines{display:grid;grid-template-columns:minmax(60px,auto) minmax(90px,1fr) minmax(60px,auto);max-width:620px}
.anb .hm-lines .hm-ax{font-size:11px;color:var(--q);padding:0 6px 2px;text-align:end}
.anb .hm-lines .hm-ax+.hm-ax{grid-column:3;color:var(--k);text-align:start}
.anb .hm-col{display:flex;flex-direction:column;min-width:0}
.anb .hm-col button{border:0;background:none;border-radius:4px;padding:0 6px;margin:0;min-height:0;height:var(--rh);line-height:var(--rh);font-size:13px;overflow:hidden;text-overflow:ellipsis;white-space:nowrap;text-align:right;unicode-bidi:isolate;max-width:150px}
.anb .hm-col:last-child button{text-align:left}
.anb .hm-col button[aria-pressed=true]{background:var(--q);color:var(--face)}
.anb .hm-col:last-child button[aria-pressed=true]{background:var(--k)}
.anb .hm-col button[data-near]{background:color-mix(in srgb,var(--w) calc(var(--p)*55%),var(--face))}
.anb .hm-lines svg{width:100%;display:block}
.anb .hm-gal{display:grid;gap:4px;justify-content:start;font-size:11px;color:var(--dim);margin:0 0 14px}
.anb .hm-gal>div{display:contents}
.anb .hm-gal span{align-self:center;text-align:center;white-space:nowrap}
.anb .hm-gal button{padding:2px;min-height:0;border:2px solid var(--line);border-radius:5px;line-height:0;background:var(--face)}
.anb .hm-gal button[aria-pressed=true]{border-color:var(--q);background:var(--q)}
.anb .hm-gal canvas{width:100%;display:block;image-rendering:pixelated;border-radius:2px}
@container (max-width:420px){.anb .hm-col button{max-width:104px}.anb .hm-gal{gap:2px}.anb .hm-gal button{padding:1px;border-width:1px}}
`;

// Tokens that would be invisible are shown by a sign.
const visible = s => (s === "" ? "∅" : s === "\n" ? "⏎" : s.trim() === "" ? "␣" : s);
const THINNEST = 0.02;

function render({model, el}) {
  const shape = model.get("shape"), [layers, heads, rows, columns] = shape;
  const weights = floats(model.get("attention")), gold = model.get("gold"), title = model.get("title");
  const label = ([zh, en]) => ({zh: visible(zh), en: visible(en)});
  const queries = model.get("query_tokens").map(label), keys = model.get("key_tokens").map(label);
  const isGold = new Set(gold.map(([q, k]) => q * columns + k));
  const ui = frame({model, el}, {
    name: "attention-heatmap", css: CSS_HEATMAP,
    title: title.length ? label(title) : {zh: "注意力热图", en: "Attention heatmap"},
    caption: {
      zh: "行是查询，列是键，每行之和为 1。指着看数值，点一下选定，再点一下放开；方向键在格子间移动。",
      en: "Rows are queries, columns are keys; each row sums to 1. Point to read a weight, click to keep it, click again to let go; arrow keys move between cells.",
    },
  });
  const {t} = ui, one = layers * heads === 1;
  const headName = k => (k === "mean" ? {zh: "各头平均", en: "mean of heads"} : {zh: `头 ${k}`, en: `head ${k}`});

  // Tool bar: only what there is to choose.
  const view = ui.segmented({label: {zh: "视图", en: "View"}, value: model.get("view"), onChange(v) { ui.hideTip(); ui.set({view: v}); },
    options: [["matrix", {zh: "矩阵", en: "Matrix"}], ["lines", {zh: "连线", en: "Lines"}], ...(one ? [] : [["gallery", {zh: "所有头", en: "All heads"}]])]});
  const layer = ui.select({label: {zh: "层", en: "Layer"}, options: Array.from({length: layers}, (_, i) => [i, String(i)]), value: model.get("layer"), onChange: v => ui.set({layer: Number(v)})});
  const head = ui.select({label: {zh: "头", en: "Head"}, options: [...Array.from({length: heads}, (_, i) => [i, String(i)]), ["mean", {zh: "平均", en: "mean"}]], value: model.get("head"), onChange: v => ui.set({head: v === "mean" ? v : Number(v)})});
  let stretch = false;
  const contrast = ui.toggle({label: {zh: "拉伸颜色", en: "stretch colours"}, value: stretch, onChange(on) { stretch = on; update(); }});
  ui.controls.append(view.el, ...(layers > 1 ? [layer.el] : []), ...(heads > 1 ? [head.el] : []), contrast.el);

  // What is chosen (kept) and what is pointed at (passing).
  let now = new Float32Array(rows * columns), passing = null;
  const kept = () => ({q: model.get("query"), k: model.get("key")});
  const choose = (q, k) => { const was = kept(); ui.set(was.q === q && was.k === k ? {query: null, key: null} : {query: q, key: k}); };
  const point = where => { passing = where; emphasise(); };
  const describe = (q, k, w) => ({
    zh: `查询“${queries[q].zh}” → 键“${keys[k].zh}”：${fmt(w, 3)}${isGold.has(q * columns + k) ? "，标准对齐" : ""}`,
    en: `query “${queries[q].en}” → key “${keys[k].en}”: ${fmt(w, 3)}${isGold.has(q * columns + k) ? ", gold alignment" : ""}`,
  });

  const what = ui.text(h("span", {class: "hm-what"}), () => (one ? {zh: "权重", en: "weights"} : {zh: `第 ${model.get("layer")} 层，${headName(model.get("head")).zh}`, en: `layer ${model.get("layer")}, ${headName(model.get("head")).en}`}));
  const scale = legend(ui, {map: "sequential", label: {zh: "权重", en: "weight"}});
  const top = h("div", {class: "hm-top"}, what, gold.length ? h("span", {class: "hm-gold"}, h("i"), ui.text(h("span"), {zh: "标准对齐", en: "gold alignment"})) : null, scale.el);
  const places = {gallery: h("div", {}), matrix: h("div", {}), lines: h("div", {})};
  ui.figure.append(places.gallery, top, places.matrix, places.lines);
  // A view is built when it is first shown.
  const built = {};
  const need = (name, build) => (built[name] ??= build());

  function buildMatrix() {
    const m = matrix(ui, {rows: queries, cols: keys, label: {zh: "注意力权重", en: "attention weights"}, scale: {map: "sequential", min: 0, max: 1},
      format: v => (v < 0.005 ? "·" : fmt(v)), cell: {min: 11, max: 46, numbers: 30}, describe, onPick: choose, onHover: (q, k) => point(q == null ? null : {q, k})});
    m.gold((q, k) => isGold.has(q * columns + k));
    places.matrix.append(m.el);
    return m;
  }

  function buildLines() {
    const rowHeight = Math.max(rows, columns) > 24 ? 20 : 26, height = Math.max(rows, columns) * rowHeight;
    const svg = h("svg", {"aria-hidden": "true", height}), lines = {};
    const side = (tokens, first) => tokens.map((token, i) => tokenLabel(ui, h("button", {type: "button", tabindex: first && i === 0 ? 0 : -1, "aria-pressed": "false"}), token));
    const left = side(queries, true), right = side(keys, false);
    const column = (nodes, msg) => ui.attr(h("div", {class: "hm-col", role: "group"}, ...nodes), "aria-label", msg);
    const axis = msg => ui.text(h("span", {class: "hm-ax", "aria-hidden": "true"}), msg);
    const box = h("div", {class: "hm-lines", style: {"--rh": `${rowHeight}px`}}, axis({zh: "查询 query", en: "query"}), axis({zh: "键 key", en: "key"}),
      column(left, {zh: "查询", en: "queries"}), svg, column(right, {zh: "键", en: "keys"}));
    places.lines.append(box);
    const at = node => { const q = left.indexOf(node), k = right.indexOf(node); return q >= 0 ? {q, k: null} : k >= 0 ? {q: null, k} : null; };
    for (const [event, leave] of [["pointerover", "pointerleave"], ["focusin", "focusout"]]) {
      ui.listen(box, event, e => { const where = at(e.target.closest("button")); if (where) point(where); });
      ui.listen(box, leave, () => point(null));
    }
    ui.listen(box, "click", e => { const where = at(e.target.closest("button")); if (where) choose(where.q, where.k); });
    ui.listen(box, "keydown", e => {
      const where = at(e.target); if (!where) return;
      const here = where.q != null ? left : right, i = where.q ?? where.k;
      const to = {ArrowUp: here[i - 1], ArrowDown: here[i + 1], Home: here[0], End: here.at(-1), ArrowLeft: left[Math.min(i, rows - 1)], ArrowRight: right[Math.min(i, columns - 1)]}[e.key];
      if (to) { e.preventDefault(); to.focus(); }
    });
    ui.listen(box, "focusin", e => { if (at(e.target)) for (const node of [...left, ...right]) node.tabIndex = node === e.target ? 0 : -1; });
    let width = 0;
    const y = i => (i + 0.5) * rowHeight;
    // One line for each pair that has ever been worth one; from head to head only widths change.
    function draw() {
      if (!width) return;
      for (let i = 0; i < now.length; i++) {
        const w = now[i], wanted = w >= THINNEST || isGold.has(i);
        let line = lines[i];
        if (line) line.style.display = wanted ? "" : "none";
        if (!wanted) { if (line) line.w = null; continue; }
        if (!line) {
          line = lines[i] = svg.appendChild(h("path", {fill: "none", stroke: isGold.has(i) ? "var(--v)" : "var(--w)"}));
          line.q = Math.floor(i / columns); line.k = i % columns;
        }
        line.w = w;
        line.setAttribute("stroke-width", w < THINNEST ? 1.5 : (0.6 + 5 * w).toFixed(2));
        if (isGold.has(i)) line.setAttribute("stroke-dasharray", w < THINNEST ? "3 3" : "none");
        if (line.width !== width) {
          line.width = width;
          line.setAttribute("d", `M0,${y(line.q)}C${width / 2},${y(line.q)} ${width / 2},${y(line.k)} ${width},${y(line.k)}`);
        }
      }
    }
    function show({q, k}) {
      const none = q == null && k == null, by = stretchTo();
      for (const line of Object.values(lines)) {
        if (line.w === null) continue;
        const on = none || ((q == null || line.q === q) && (k == null || line.k === k)), strength = Math.max(0.12, Math.min(1, line.w / by));
        line.setAttribute("stroke-opacity", on ? (none ? strength * 0.85 : Math.max(0.3, strength)).toFixed(2) : "0.05");
      }
      const mark = (nodes, chosen, near) => nodes.forEach((node, i) => {
        node.setAttribute("aria-pressed", String(i === chosen));
        const p = near?.(i);
        if (p > THINNEST && i !== chosen) { node.dataset.near = ""; node.style.setProperty("--p", p.toFixed(3)); } else delete node.dataset.near;
      });
      mark(left, q, q == null && k != null ? i => now[i * columns + k] : null);
      mark(right, k, k == null && q != null ? i => now[q * columns + i] : null);
    }
    ui.onResize(svg.parentNode, () => { width = svg.getBoundingClientRect().width; draw(); emphasise(); });
    return {draw, show};
  }

  function buildGallery() {
    const names = [...Array(heads).keys(), ...(heads > 1 ? ["mean"] : [])], size = Math.max(16, Math.min(96, 240 / Math.max(rows, columns) * 8));
    const box = ui.attr(h("div", {class: "hm-gal", role: "group", style: {"grid-template-columns": `auto repeat(${names.length},minmax(14px,${size}px))`}}), "aria-label", {zh: "所有层和头", en: "all layers and heads"});
    box.append(h("span"), ...names.map(k => ui.text(h("span"), k === "mean" ? {zh: "平均", en: "mean"} : String(k))));
    const cells = [];
    for (let l = 0; l < layers; l++) {
      const line = names.map(k => {
        const canvas = h("canvas", {width: columns, height: rows, "aria-hidden": "true"});
        const node = ui.attr(h("button", {type: "button", tabindex: -1, onclick: () => ui.set({layer: l, head: k})}, canvas), "aria-label", () => ({zh: `第 ${l} 层，${headName(k).zh}`, en: `layer ${l}, ${headName(k).en}`}));
        cells.push({l, k, node, canvas});
        return node;
      });
      box.append(h("div", {}, ui.text(h("span"), {zh: `层 ${l}`, en: `layer ${l}`}), ...line));
    }
    places.gallery.append(box);
    ui.tips(box, node => node.closest("button")?.getAttribute("aria-label"));
    ui.listen(box, "keydown", e => {
      const i = cells.findIndex(cell => cell.node === e.target), n = names.length; if (i < 0) return;
      const to = {ArrowUp: i - n, ArrowDown: i + n, ArrowLeft: i % n ? i - 1 : -1, ArrowRight: (i + 1) % n ? i + 1 : -1}[e.key];
      if (to === undefined) return;
      e.preventDefault();
      cells[to]?.node.focus();
    });
    function paint() {
      const by = stretchTo(weights);
      for (const {l, k, canvas} of cells) pixels(canvas, select(weights, shape, l, k), {map: "sequential", min: 0, max: by}, ui.theme);
    }
    const show = () => cells.forEach(({l, k, node}) => {
      const on = l === model.get("layer") && k === model.get("head");
      node.setAttribute("aria-pressed", String(on)); node.tabIndex = on ? 0 : -1;
    });
    let painted = "";
    return {update() { const state = ui.theme + stretch; if (state !== painted) { painted = state; paint(); } show(); }};
  }

  // The value that gets the full colour: 1, or the largest there is.
  const stretchTo = (values = now) => { if (!stretch) return 1; let top = 0; for (const v of values) if (v > top) top = v; return top || 1; };

  function emphasise() {
    const {q, k} = passing ?? kept(), chosen = model.get("view");
    if (chosen === "lines") built.lines?.show({q, k}); else built.matrix?.emphasise({row: q, col: k});
    if (passing) return;
    if (q != null && k != null) ui.say(describe(q, k, now[q * columns + k]));
    else if (q != null) {
      const row = now.subarray(q * columns, (q + 1) * columns), best = largest(row, 3).filter(i => row[i] > 0);
      ui.say({zh: `查询“${queries[q].zh}”最看重：${best.map(i => `${keys[i].zh} ${fmt(row[i])}`).join("，")}`, en: `query “${queries[q].en}” attends most to: ${best.map(i => `${keys[i].en} ${fmt(row[i])}`).join(", ")}`});
    } else if (k != null) {
      const column = Float32Array.from({length: rows}, (_, i) => now[i * columns + k]), best = largest(column, 3).filter(i => column[i] > 0);
      ui.say({zh: `最看重键“${keys[k].zh}”的查询：${best.map(i => `${queries[i].zh} ${fmt(column[i])}`).join("，")}`, en: `key “${keys[k].en}” is attended most by: ${best.map(i => `${queries[i].en} ${fmt(column[i])}`).join(", ")}`});
    } else ui.say("");
  }

  function update() {
    const chosen = model.get("view"), by = () => ({min: 0, max: stretchTo()});
    now = select(weights, shape, model.get("layer"), model.get("head"));
    view.set(chosen); layer.set(model.get("layer")); head.set(model.get("head"));
    places.gallery.hidden = chosen !== "gallery"; places.lines.hidden = chosen !== "lines"; places.matrix.hidden = chosen === "lines";
    if (chosen === "lines") need("lines", buildLines).draw();
    else need("matrix", buildMatrix).set(now, by());
    if (chosen === "gallery") need("gallery", buildGallery).update();
    scale.set(by());
    ui.retext();
    emphasise();
  }
  ui.watch(["layer", "head", "view", "query", "key"], update);
  update();
  return ui.done;
}

export default {render};
