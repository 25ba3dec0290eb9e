import {fmt, legend, pixels} from "./common.js";
import {h} from "./dom.js";
import {matrix, tokenLabel} from "./matrix.js";
import {renewable} from "./scope.js";

// Attention weights to look at: as a matrix, as lines, or all heads at once. Any widget can mount it.
//
//   const view = attentionView(ui, {onChange, say, views});
//   ui.controls.append(view.controls);            // view, layer, head, colours: only what there is to choose
//   ui.figure.append(view.el);                    // inside ui.figure, the widget's SVG and PNG buttons save it
//   view.update({weights, shape: [layers, heads, rows, columns], queries, keys, gold});
//
// update(changes) takes what has changed and draws; a part is built anew only when its tokens or sizes change:
//   weights   Float32Array of layers × heads × rows × columns, row after row (queries are rows, keys are columns)
//   shape     [layers, heads, rows, columns]; a change of it comes together with weights, queries and keys
//   queries, keys   a message for each token: a string or {zh, en}
//   gold      known alignments [[query, key], …], outlined; null or []: none, and no legend for them
//   links     pairs that something was decided on, such as weights above a threshold, [[query, key], …]: dashed outlines in the matrix; likewise
//   linksName a message: what the links are, for the legend
//   upto      how many rows have appeared so far; the others keep their place unseen. null: all
//   layer, head ("mean": average of the layer's heads), view ("matrix" | "lines" | "gallery"), query, key (an index or null)
// What the reader does is told to onChange({view} or {layer, head} or {query, key} …), which is to call update with it (a widget with traits sets
// those and updates from its watch); without onChange the view keeps it itself. An index that no longer exists counts as 0, or as nothing chosen.
// say(message): where the sentence on what is chosen goes; default ui.say.
// views: which of the three can be chosen; default all.
// -> {controls, el, update, state, shown() -> the matrix on display, cell(query, key) -> its node in the matrix}
export function attentionView(ui, {onChange, say = ui.say, views = ["matrix", "lines", "gallery"]} = {}) {
  const state = {weights: new Float32Array(0), shape: [1, 1, 0, 0], queries: [], keys: [], gold: [], links: [], linksName: "", upto: null, layer: 0, head: 0, view: views[0], query: null, key: null};
  const change = changes => (onChange ? onChange(changes) : update(changes));
  const headName = k => (k === "mean" ? {zh: "各头平均", en: "mean of heads"} : {zh: `头 ${k}`, en: `head ${k}`});
  const numbers = n => Array.from({length: n}, (_, i) => [i, String(i)]);

  // Tool bar: only what there is to choose.
  const NAMES = {matrix: {zh: "矩阵", en: "Matrix"}, lines: {zh: "连线", en: "Lines"}, gallery: {zh: "所有头", en: "All heads"}};
  const chooser = ui.segmented({label: {zh: "视图", en: "View"}, value: state.view, onChange(v) { ui.hideTip(); change({view: v}); }, options: views.map(name => [name, NAMES[name]])});
  const layerBox = ui.select({label: {zh: "层", en: "Layer"}, options: [], value: 0, onChange: v => change({layer: Number(v)})});
  const headBox = ui.select({label: {zh: "头", en: "Head"}, options: [], value: 0, onChange: v => change({head: v === "mean" ? v : Number(v)})});
  let stretch = false;
  const contrast = ui.toggle({label: {zh: "拉伸颜色", en: "stretch colours"}, value: stretch, onChange(on) { stretch = on; draw(); }});
  const controls = h("div", {style: {display: "contents"}}, chooser.el, layerBox.el, headBox.el, contrast.el);
  const present = (node, on) => { node.style.display = on ? "" : "none"; };

  const what = ui.text(h("span", {class: "hm-what"}), "");
  const goldName = h("span"), goldKey = h("span", {class: "hm-gold"}, h("i"), goldName);
  const linksName = h("span"), linksKey = h("span", {class: "hm-link"}, h("i"), linksName);
  const scale = legend(ui, {map: "sequential", label: {zh: "权重", en: "weight"}});
  const places = {gallery: h("div"), matrix: h("div"), lines: h("div")};
  const el = h("div", {class: "hm"}, h("style", {}, CSS_ATTENTION), places.gallery, h("div", {class: "hm-top"}, what, goldKey, linksKey, scale.el), places.matrix, places.lines);

  // What is on display; a view is built when it is first shown with these tokens.
  let layers, heads, rows, columns, layer, head, query, key, upto, queries = [], keys = [], isGold = new Set(), isLink = new Set();
  let now = new Float32Array(0), passing = null, built = {}, scoped;
  const part = renewable(ui);
  const need = (name, build) => (built[name] ??= build());
  const choose = (q, k) => change(query === q && key === k ? {query: null, key: null} : {query: q, key: k});
  const point = where => { passing = where; emphasise(); };
  const describe = (q, k, w) => ({
    zh: `查询“${queries[q].zh}” → 键“${keys[k].zh}”：${fmt(w, 3)}${isGold.has(q * columns + k) ? "，标准对齐" : ""}`,
    en: `query “${queries[q].en}” → key “${keys[k].en}”: ${fmt(w, 3)}${isGold.has(q * columns + k) ? ", gold alignment" : ""}`,
  });
  // The value that gets the full colour: 1, or the largest there is.
  const stretchTo = (values = now) => { if (!stretch) return 1; let top = 0; for (const v of values) if (v > top) top = v; return top || 1; };

  function buildMatrix() {
    const m = matrix(scoped, {rows: queries, cols: keys, label: {zh: "注意力权重", en: "attention weights"}, scale: {map: "sequential", min: 0, max: 1},
      format: v => (v < 0.005 ? "·" : fmt(v)), cell: {min: 11, max: 46, numbers: 30}, describe, onPick: choose, onHover: (q, k) => point(q == null ? null : {q, k})});
    places.matrix.append(m.el);
    const lines = queries.map((_, q) => m.cell(q, 0).parentNode), nodes = queries.flatMap((_, q) => keys.map((_, k) => m.cell(q, k)));
    let marked = null;
    return {...m, mark() { if (marked === isLink) return; marked = isLink; m.gold((q, k) => isGold.has(q * columns + k)); nodes.forEach((node, i) => node.classList.toggle("hm-linked", isLink.has(i))); }, wait: () => lines.forEach((line, q) => line.classList.toggle("hm-wait", q >= upto))};
  }

  function buildLines() {
    const rowHeight = Math.max(rows, columns) > 24 ? 20 : 26, height = Math.max(rows, columns) * rowHeight;
    const svg = h("svg", {"aria-hidden": "true", height}), lines = {};
    const side = (tokens, first) => tokens.map((token, i) => tokenLabel(scoped, h("button", {type: "button", tabindex: first && i === 0 ? 0 : -1, "aria-pressed": "false"}), token));
    const left = side(queries, true), right = side(keys, false);
    const column = (nodes, msg) => scoped.attr(h("div", {class: "hm-col", role: "group"}, ...nodes), "aria-label", msg);
    const axis = msg => scoped.text(h("span", {class: "hm-ax", "aria-hidden": "true"}), msg);
    const box = h("div", {class: "hm-lines", style: {"--rh": `${rowHeight}px`}}, axis({zh: "查询 query", en: "query"}), axis({zh: "键 key", en: "key"}),
      column(left, {zh: "查询", en: "queries"}), svg, column(right, {zh: "键", en: "keys"}));
    places.lines.append(box);
    const at = node => { const q = left.indexOf(node), k = right.indexOf(node); return q >= 0 ? {q, k: null} : k >= 0 ? {q: null, k} : null; };
    for (const [event, leave] of [["pointerover", "pointerleave"], ["focusin", "focusout"]]) {
      scoped.listen(box, event, e => { const where = at(e.target.closest("button")); if (where) point(where); });
      scoped.listen(box, leave, () => point(null));
    }
    scoped.listen(box, "click", e => { const where = at(e.target.closest("button")); if (where) choose(where.q, where.k); });
    scoped.listen(box, "keydown", e => {
      const where = at(e.target); if (!where) return;
      const here = where.q != null ? left : right, i = where.q ?? where.k;
      const to = {ArrowUp: here[i - 1], ArrowDown: here[i + 1], Home: here[0], End: here.at(-1), ArrowLeft: left[Math.min(i, rows - 1)], ArrowRight: right[Math.min(i, columns - 1)]}[e.key];
      if (to) { e.preventDefault(); to.focus(); }
    });
    scoped.listen(box, "focusin", e => { if (at(e.target)) for (const node of [...left, ...right]) node.tabIndex = node === e.target ? 0 : -1; });
    let width = 0;
    const y = i => (i + 0.5) * rowHeight;
    // One line for each pair that has ever been worth one; from head to head only widths change.
    function drawLines() {
      if (!width) return;
      left.forEach((node, q) => node.classList.toggle("hm-wait", q >= upto));
      for (let i = 0; i < now.length; i++) {
        const w = now[i], known = isGold.has(i), wanted = (w >= THINNEST || known) && i < upto * columns;
        let line = lines[i];
        if (line) line.style.display = wanted ? "" : "none";
        if (!wanted) { if (line) line.w = null; continue; }
        if (!line) {
          line = lines[i] = svg.appendChild(h("path", {fill: "none"}));
          line.q = Math.floor(i / columns); line.k = i % columns;
        }
        line.w = w;
        line.setAttribute("stroke", known ? "var(--v)" : "var(--w)");
        line.setAttribute("stroke-width", w < THINNEST ? 1.5 : (0.6 + 5 * w).toFixed(2));
        if (known && w < THINNEST) line.setAttribute("stroke-dasharray", "3 3"); else line.removeAttribute("stroke-dasharray");
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
    scoped.onResize(svg.parentNode, () => { width = svg.getBoundingClientRect().width; drawLines(); emphasise(); });
    return {draw: drawLines, show};
  }

  function buildGallery() {
    const names = [...Array(heads).keys(), ...(heads > 1 ? ["mean"] : [])], size = Math.max(16, Math.min(96, 240 / Math.max(rows, columns) * 8));
    const box = scoped.attr(h("div", {class: "hm-gal", role: "group", style: {"grid-template-columns": `auto repeat(${names.length},minmax(14px,${size}px))`}}), "aria-label", {zh: "所有层和头", en: "all layers and heads"});
    box.append(h("span"), ...names.map(k => scoped.text(h("span"), k === "mean" ? {zh: "平均", en: "mean"} : String(k))));
    const cells = [];
    for (let l = 0; l < layers; l++) {
      const line = names.map(k => {
        const canvas = h("canvas", {width: columns, height: rows, "aria-hidden": "true"});
        const node = scoped.attr(h("button", {type: "button", tabindex: -1, onclick: () => change({layer: l, head: k})}, canvas), "aria-label", () => ({zh: `第 ${l} 层，${headName(k).zh}`, en: `layer ${l}, ${headName(k).en}`}));
        cells.push({l, k, node, canvas});
        return node;
      });
      box.append(h("div", {}, scoped.text(h("span"), {zh: `层 ${l}`, en: `layer ${l}`}), ...line));
    }
    places.gallery.append(box);
    scoped.tips(box, node => node.closest("button")?.getAttribute("aria-label"));
    scoped.listen(box, "keydown", e => {
      const i = cells.findIndex(cell => cell.node === e.target), n = names.length; if (i < 0) return;
      const to = {ArrowUp: i - n, ArrowDown: i + n, ArrowLeft: i % n ? i - 1 : -1, ArrowRight: (i + 1) % n ? i + 1 : -1}[e.key];
      if (to === undefined) return;
      e.preventDefault();
      cells[to]?.node.focus();
    });
    let painted = {};
    function draw() {
      const {weights} = state;
      if (painted.theme !== ui.theme || painted.stretch !== stretch || painted.weights !== weights || painted.upto !== upto) {
        painted = {theme: ui.theme, stretch, weights, upto};
        const by = stretchTo(weights);
        for (const {l, k, canvas} of cells) pixels(canvas, selectHead(weights, state.shape, l, k).map((w, i) => (i < upto * columns ? w : 0)), {map: "sequential", min: 0, max: by}, ui.theme);
      }
      cells.forEach(({l, k, node}) => {
        const on = l === layer && k === head;
        node.setAttribute("aria-pressed", String(on)); node.tabIndex = on ? 0 : -1;
      });
    }
    return {draw};
  }

  function emphasise() {
    const {q, k} = passing ?? {q: query, k: key};
    if (state.view === "lines") built.lines?.show({q, k}); else built.matrix?.emphasise({row: q, col: k});
    if (passing) return;
    if (q != null && k != null) say(describe(q, k, now[q * columns + k]));
    else if (q != null) {
      const row = now.subarray(q * columns, (q + 1) * columns), best = heaviest(row, 3).filter(i => row[i] > 0);
      say({zh: `查询“${queries[q].zh}”最看重：${best.map(i => `${keys[i].zh} ${fmt(row[i])}`).join("，")}`, en: `query “${queries[q].en}” attends most to: ${best.map(i => `${keys[i].en} ${fmt(row[i])}`).join(", ")}`});
    } else if (k != null) {
      const column = Float32Array.from({length: rows}, (_, i) => now[i * columns + k]), best = heaviest(column, 3).filter(i => column[i] > 0);
      say({zh: `最看重键“${keys[k].zh}”的查询：${best.map(i => `${queries[i].zh} ${fmt(column[i])}`).join("，")}`, en: `key “${keys[k].en}” is attended most by: ${best.map(i => `${queries[i].en} ${fmt(column[i])}`).join(", ")}`});
    } else say("");
  }

  // New tokens or sizes: what was built for the old ones goes.
  function renew() {
    const [l, n] = [layers, heads];
    [layers, heads, rows, columns] = state.shape;
    queries = state.queries.map(shownToken); keys = state.keys.map(shownToken);
    passing = null; built = {}; scoped = part.start();
    for (const place of Object.values(places)) place.replaceChildren();
    if (l !== layers) { layerBox.options(numbers(layers)); present(layerBox.el, layers > 1); }
    if (n !== heads) { headBox.options([...numbers(heads), ["mean", {zh: "平均", en: "mean"}]]); present(headBox.el, heads > 1); }
    const gallery = chooser.inputs[views.indexOf("gallery")];
    if (gallery) present(gallery.parentNode, layers * heads > 1);
  }

  function draw() {
    if (!rows || !columns) return;
    const {view} = state, within = (i, size, otherwise) => (i != null && i < size ? i : otherwise), by = {min: 0, max: 1};
    layer = within(state.layer, layers, 0); head = state.head === "mean" ? "mean" : within(state.head, heads, 0);
    query = within(state.query, rows, null); key = within(state.key, columns, null);
    upto = Math.min(rows, state.upto ?? rows);
    now = selectHead(state.weights, state.shape, layer, head);
    by.max = stretchTo();
    chooser.set(view); layerBox.set(layer); headBox.set(head);
    ui.text(what, layers * heads === 1 ? {zh: "权重", en: "weights"} : {zh: `第 ${layer} 层，${headName(head).zh}`, en: `layer ${layer}, ${headName(head).en}`});
    ui.text(goldName, isGold.size ? {zh: "标准对齐", en: "gold alignment"} : "");
    ui.text(linksName, isLink.size ? state.linksName : "");
    goldKey.hidden = isGold.size === 0; linksKey.hidden = isLink.size === 0 || view === "lines";
    places.gallery.hidden = view !== "gallery"; places.lines.hidden = view !== "lines"; places.matrix.hidden = view === "lines";
    if (view === "lines") need("lines", buildLines).draw();
    else { const m = need("matrix", buildMatrix); m.set(now, by); m.mark(); m.wait(); }
    if (view === "gallery") need("gallery", buildGallery).draw();
    scale.set(by);
    emphasise();
  }

  const same = (a, b) => a.length === b.length && a.every((x, i) => x === b[i] || (x?.zh !== undefined && x.zh === b[i]?.zh && x.en === b[i]?.en));
  function update(changes = {}) {
    const old = {...state};
    Object.assign(state, changes);
    state.gold ??= []; state.links ??= [];
    const renewed = !same(old.shape, state.shape) || !same(old.queries, state.queries) || !same(old.keys, state.keys);
    if (renewed) renew();
    if (renewed || "gold" in changes || "links" in changes) [isGold, isLink] = [state.gold, state.links].map(pairs => new Set(pairs.map(([q, k]) => q * columns + k)));
    draw();
  }
  ui.onChange(draw);
  return {controls, el, update, state, shown: () => now, cell: (q, k) => built.matrix?.cell(q, k)};
}

// The (query, key) matrix of a layer and head out of all weights; head "mean" averages the layer's heads.
export function selectHead(weights, [, heads, rows, columns], layer, head) {
  const size = rows * columns, start = layer * heads * size;
  if (head !== "mean") return weights.subarray(start + head * size, start + (head + 1) * size);
  const out = new Float32Array(size);
  for (let k = 0; k < heads; k++) for (let i = 0; i < size; i++) out[i] += weights[start + k * size + i] / heads;
  return out;
}

// Indices of the largest values, largest first.
export const heaviest = (row, count) => [...row.keys()].sort((a, b) => row[b] - row[a]).slice(0, count);

// A message as {zh, en}; tokens that would be invisible are shown by a sign.
const tokenSign = s => (s === "" ? "∅" : s === "\n" ? "⏎" : s.trim() === "" ? "␣" : s);
const shownToken = msg => (typeof msg === "string" ? {zh: tokenSign(msg), en: tokenSign(msg)} : {zh: tokenSign(msg.zh), en: tokenSign(msg.en)});
const THINNEST = 0.02;

const CSS_ATTENTION = `
.anb .hm-top{display:flex;flex-wrap:wrap;gap:2px 18px;align-items:center;justify-content:space-between;margin:0 0 4px;font-size:.9em}
.anb .hm-what{font-weight:600}
.anb .hm-gold{color:var(--v)}
.anb .hm-gold i{display:inline-block;width:12px;height:12px;border:2px solid var(--v);border-radius:2px;margin-inline-end:5px;vertical-align:-1px}
.anb .hm-link i{display:inline-block;width:18px;height:12px;border:2px dashed var(--k);border-radius:2px;margin-inline-end:5px;vertical-align:-1px}
.anb .anb-c.hm-linked{border:2px dashed var(--k)}
.anb .anb-small .anb-c.hm-linked{border-width:1px}
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
.anb .hm-wait{visibility:hidden}
`;
