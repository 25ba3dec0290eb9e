import {ACTIVATIONS} from "./activations.js";
import {frame, fmt, legend} from "./common.js";
import {h} from "./dom.js";
import {normal, random, scientific} from "./maths.js";

// Six ways to stack the block F(x) = W₂ σ(W₁ x), run forward and backward in the page. TOKENS random vectors go in; the
// gradient that comes in at the output is random too, of total length 1. Batches are flat, token by token.
export const TOKENS = 8,
  EPS = 1e-5;

export const DESIGNS = [
  {residual: false, norm: "none", formula: "F(x)", name: {zh: "普通", en: "plain"}},
  {residual: true, norm: "none", formula: "x + F(x)", name: {zh: "残差", en: "residual"}},
  {residual: false, norm: "post", formula: "LN(F(x))", name: {zh: "只归一化", en: "norm only"}},
  {residual: true, norm: "post", formula: "LN(x + F(x))", name: {zh: "后归一化", en: "post-norm"}},
  {residual: false, norm: "pre", formula: "F(LN(x))", name: {zh: "只归一化", en: "norm only"}},
  {residual: true, norm: "pre", formula: "x + F(LN(x))", name: {zh: "前归一化", en: "pre-norm"}},
];
const TINTS = {none: "var(--s2)", post: "var(--s1)", pre: "var(--s3)"};

const norm2 = values => {
  let sum = 0;
  for (let i = 0; i < values.length; i++) sum += values[i] * values[i];
  return Math.sqrt(sum);
};

// The draw: inputs of mean square 1, the gradient at the output, and layers, of which `grow` adds as many as are asked for.
// Standard normal numbers; `run` scales the matrices.
export function drawStack(seed, width) {
  const uniform = random(seed),
    numbers = count => Float64Array.from({length: count}, () => normal(uniform)),
    scaled = (values, length) => {
      const by = length / norm2(values);
      return values.map(v => v * by);
    };
  const count = TOKENS * width;
  return {
    width,
    inputs: scaled(numbers(count), Math.sqrt(count)),
    probe: scaled(numbers(count), 1),
    layers: [],
    draw: () => [numbers(width * width), numbers(width * width)],
  };
}
export function grow(stack, depth) {
  while (stack.layers.length < depth) stack.layers.push(stack.draw());
  return stack;
}

// s W x for every token, or s Wᵀ x with steps of `width` from one column to the next: four tokens at a time, because
// four sums that do not wait for each other are quicker.
function apply(W, x, width, s, row = width, column = 1) {
  const out = new Float64Array(x.length);
  for (let p = 0; p < x.length; p += 4 * width) {
    const q = p + width,
      r = q + width,
      t = r + width;
    for (let i = 0; i < width; i++) {
      let a = 0,
        b = 0,
        c = 0,
        d = 0;
      for (let j = 0, at = i * row; j < width; j++, at += column) {
        const w = W[at];
        a += w * x[p + j];
        b += w * x[q + j];
        c += w * x[r + j];
        d += w * x[t + j];
      }
      out[p + i] = s * a;
      out[q + i] = s * b;
      out[r + i] = s * c;
      out[t + i] = s * d;
    }
  }
  return out;
}
const applyTransposed = (W, g, width, s) => apply(W, g, width, s, 1, width);

// Layer normalisation with scale 1 and shift 0, and its derivative: {out, inverse}, inverse = 1 / √(σ² + ε) of each token.
function normalise(x, width) {
  const out = new Float64Array(x.length),
    inverse = new Float64Array(x.length / width);
  for (let t = 0; t < x.length; t += width) {
    let mean = 0,
      variance = 0;
    for (let i = t; i < t + width; i++) mean += x[i] / width;
    for (let i = t; i < t + width; i++) variance += (x[i] - mean) ** 2 / width;
    const by = 1 / Math.sqrt(variance + EPS);
    inverse[t / width] = by;
    for (let i = t; i < t + width; i++) out[i] = (x[i] - mean) * by;
  }
  return {out, inverse};
}
function normaliseBack(g, {out, inverse}, width) {
  const back = new Float64Array(g.length);
  for (let t = 0; t < g.length; t += width) {
    let mean = 0,
      along = 0;
    for (let i = t; i < t + width; i++) {
      mean += g[i] / width;
      along += (g[i] * out[i]) / width;
    }
    for (let i = t; i < t + width; i++) back[i] = inverse[t / width] * (g[i] - mean - out[i] * along);
  }
  return back;
}

// ‖Σ g uᵀ‖ over the tokens, from the two Gram matrices.
function outerNorm(g, u, width) {
  let sum = 0;
  for (let a = 0; a < g.length; a += width)
    for (let b = 0; b <= a; b += width) {
      let gg = 0,
        uu = 0;
      for (let i = 0; i < width; i++) {
        gg += g[a + i] * g[b + i];
        uu += u[a + i] * u[b + i];
      }
      sum += (a === b ? 1 : 2) * gg * uu;
    }
  return Math.sqrt(Math.max(0, sum));
}

// One stack, there and back: state[l] = ‖∂ℒ/∂h_l‖ and size[l] = root mean square of h_l, for l = 0 … depth;
// weights[l − 1] = ‖∂ℒ/∂W₂‖ of layer l.
export function run(stack, {depth, scale, activation, residual, norm}, withWeights = true) {
  const {width, layers} = grow(stack, depth),
    [f, slope] = ACTIVATIONS[activation],
    s = scale / Math.sqrt(width),
    steps = [],
    size = [1],
    unit = Math.sqrt(stack.inputs.length);
  let x = stack.inputs;
  for (let l = 0; l < depth; l++) {
    const [W1, W2] = layers[l],
      before = norm === "pre" ? normalise(x, width) : null,
      z = apply(W1, before ? before.out : x, width, s),
      u = z.map(f),
      y = apply(W2, u, width, s);
    if (residual) for (let i = 0; i < y.length; i++) y[i] += x[i];
    const after = norm === "post" ? normalise(y, width) : null;
    steps.push({before, z, u, after});
    x = after ? after.out : y;
    size.push(norm2(x) / unit);
  }
  // Nothing in a pre-norm stack normalises the sum that leaves it, so one more norm does.
  let g = norm === "pre" ? normaliseBack(stack.probe, normalise(x, width), width) : stack.probe;
  const state = [norm2(g)],
    weights = [];
  for (let l = depth - 1; l >= 0; l--) {
    const [W1, W2] = layers[l],
      {before, z, u, after} = steps[l],
      at = after ? normaliseBack(g, after, width) : g; // at the output of F, and at the sum
    if (withWeights) weights.push(outerNorm(at, u, width));
    let back = applyTransposed(W2, at, width, s);
    for (let i = 0; i < back.length; i++) back[i] *= slope(z[i]);
    back = applyTransposed(W1, back, width, s);
    if (before) back = normaliseBack(back, before, width);
    if (residual) for (let i = 0; i < back.length; i++) back[i] += at[i];
    g = back;
    state.push(norm2(g));
  }
  return {size, state: state.reverse(), weights: weights.reverse()};
}

// The same numbers as they would be on average in infinitely wide layers; null where σ has no closed form.
export function theory({depth, scale, activation, residual, norm, width}) {
  const kept = {relu: 1 / 2, identity: 1}[activation]; // of the mean square, by σ
  if (!kept) return null;
  const q = kept * scale ** 4, // of the mean square, by F
    x = residual ? 1 : 0,
    size = [1],
    state = [],
    weights = [];
  for (let l = 1; l <= depth; l++) size.push(norm === "post" ? 1 : norm === "pre" ? x * size[l - 1] + q : (x + q) * size[l - 1]);
  for (let l = 0; l <= depth; l++) {
    state.push(norm === "none" ? (x + q) ** (depth - l) : norm === "post" ? 1 : 1 / size[l]);
    if (l) weights.push((state[l] / (norm === "post" ? x + q : 1)) * kept * scale ** 2 * width * (norm === "none" ? size[l - 1] : 1));
  }
  return Object.fromEntries(Object.entries({size, state, weights}).map(([key, squares]) => [key, squares.map(Math.sqrt)]));
}

// "vanishes", "holds" or "explodes": which side the values stray to, if any leaves 10^±2.
export const LIMIT = 2;
export function verdict(values) {
  const logs = values.map(v => Math.log10(v)),
    worst = logs.reduce((far, v) => (Math.abs(v) > Math.abs(far) ? v : far), 0);
  return worst < -LIMIT ? "vanishes" : worst > LIMIT ? "explodes" : "holds";
}

// The parts of a line between y = low and y = high, each from where it enters to where it leaves.
export function within(points, low, high) {
  const parts = [];
  let open = false;
  points.forEach(([x, y], i) => {
    const crossings = [];
    if (i) {
      const [x0, y0] = points[i - 1];
      for (const edge of [low, high]) if ((y0 - edge) * (y - edge) < 0) crossings.push([x0 + ((edge - y0) / (y - y0)) * (x - x0), edge]);
      crossings.sort((p, q) => p[0] - q[0]);
    }
    for (const crossing of crossings) {
      if (open) parts.at(-1).push(crossing);
      else parts.push([crossing]);
      open = !open;
    }
    if (y >= low && y <= high) {
      if (open) parts.at(-1).push([x, y]);
      else parts.push([[x, y]]);
      open = true;
    } else open = false;
  });
  return parts.filter(part => part.length > 1);
}

const VERDICTS = {
  vanishes: {zh: "↓ 消失", en: "↓ vanishes"},
  holds: {zh: "→ 稳住", en: "→ holds"},
  explodes: {zh: "↑ 爆炸", en: "↑ explodes"},
};
const QUANTITIES = {
  state: {zh: "梯度 ‖∂ℒ/∂h‖", en: "gradient ‖∂ℒ/∂h‖"},
  weights: {zh: "梯度 ‖∂ℒ/∂W₂‖", en: "gradient ‖∂ℒ/∂W₂‖"},
  size: {zh: "h 的大小", en: "size of h"},
};
const AXES = {
  state: {zh: "‖∂ℒ/∂h_l‖（对数刻度）", en: "‖∂ℒ/∂h_l‖ (log scale)"},
  weights: {zh: "第 l 层的 ‖∂ℒ/∂W₂‖（对数刻度）", en: "‖∂ℒ/∂W₂‖ of layer l (log scale)"},
  size: {zh: "h_l 的均方根（对数刻度）", en: "root mean square of h_l (log scale)"},
};
const ALONG = {
  there: {zh: "输入 → 层 l → 输出", en: "input → layer l → output"},
  back: {zh: "输入 ← 层 l ← 输出（梯度往回走）", en: "input ← layer l ← output (gradients run back)"},
};
const SUPERSCRIPT = "⁰¹²³⁴⁵⁶⁷⁸⁹";
const decade = v => (v === 0 ? "1" : `10${String(v).replace(/./g, c => (c === "-" ? "⁻" : SUPERSCRIPT[c]))}`);
const short = x => (x !== 0 && (x < 0.01 || x >= 1e5) ? scientific(x) : fmt(x, x >= 100 ? 0 : x >= 10 ? 1 : x >= 1 ? 2 : x >= 0.1 ? 3 : 4));

const STYLE = `
.anb .anb-dx{display:flex;flex-direction:column;gap:2px;margin:0 0 10px}
.anb .anb-dx-r{display:grid;grid-template-columns:17em minmax(60px,1fr) 6.2em 6em;gap:0 10px;align-items:center;margin:0;padding:2px 8px 2px 6px;border-radius:8px;border:1.5px solid transparent;font-size:13px;line-height:1.35;min-height:30px}
.anb label.anb-dx-r{cursor:pointer}
.anb label.anb-dx-r:hover{border-color:var(--line)}
.anb .anb-dx-on.anb-dx-on{background:var(--soft);border-color:var(--dim)}
.anb .anb-dx-h{color:var(--dim);min-height:0;font-size:12px}
.anb .anb-dx-n{display:flex;align-items:center;gap:6px;min-width:0}
.anb .anb-dx-n i{flex:none;width:20px;height:0;border-top:3px solid}
.anb .anb-dx-n input{flex:none;accent-color:var(--q);width:14px;height:14px}
.anb .anb-dx-n small{font-size:12px;color:var(--dim);white-space:nowrap}
.anb .anb-dx-f{font-weight:600;white-space:nowrap}
.anb .anb-dx-v{text-align:end;font-variant-numeric:tabular-nums;white-space:nowrap}
.anb .anb-dx-w{white-space:nowrap}
.anb .anb-dx-s{display:flex;justify-content:space-between}
@container (max-width:640px){.anb .anb-dx-r{grid-template-columns:minmax(0,1fr) auto 5.6em;row-gap:3px}.anb .anb-dx-s{grid-row:2;grid-column:1/-1}.anb .anb-dx-n small{display:none}}
`;

function render({model, el}) {
  const ui = frame(
    {model, el},
    {
      name: "depth-explorer",
      title: {zh: "叠得越深：梯度还过得去吗", en: "Stacked deep: does the gradient get through?"},
      caption: {
        zh: "每层都是 F(x) = W₂σ(W₁x)，权重是标准差 g/√d 的正态随机数，没有偏置；LN 的缩放是 1，平移是 0；前归一化在最后一层之后还有一个 LN。输入是 8 个随机的词元，输出处的梯度也是随机的，总长 1。色块从左到右是从输入到输出，无色是 1，越橙越大，越蓝越小。点线是选中的那一种在层宽无穷时的理论值（只有 ReLU 与恒等有公式）。",
        en: "Every layer is F(x) = W₂σ(W₁x); weights are normal with standard deviation g/√d, without biases; LN has scale 1 and shift 0; pre-norm has one more LN after the last layer. 8 random tokens go in, and the gradient at the output is random too, of total length 1. Cells run from input to output: no colour is 1, the more orange the larger, the bluer the smaller. The dotted line is the theory of infinitely wide layers for the selected row (ReLU and identity have a formula).",
      },
      css: STYLE,
    },
  );
  let found = null,
    stripWidth = 0,
    plotWidth = 0;
  const get = name => model.get(name);
  const slider = (name, label, min, max, step, digits) =>
    ui.slider({label, min, max, step, value: get(name), format: v => fmt(v, digits), onInput: v => ui.set({[name]: v})});
  const segmented = (name, label, options) => ui.segmented({label, options, value: get(name), onChange: v => ui.set({[name]: v})});
  const controls = {
    depth: slider("depth", {zh: "层数 L", en: "layers L"}, 2, 64, 1, 0),
    scale: slider("scale", {zh: "初始权重的尺度 g", en: "scale g of initial weights"}, 0.3, 2, 0.01, 2),
    activation: segmented("activation", {zh: "激活函数 σ", en: "activation σ"}, [
      ["relu", "ReLU"],
      ["gelu", "GELU"],
      ["tanh", "tanh"],
      ["sigmoid", "sigmoid"],
      ["identity", {zh: "恒等", en: "identity"}],
    ]),
    width: slider("width", {zh: "层宽 d", en: "width d"}, 8, 64, 8, 0),
    quantity: segmented("quantity", {zh: "画什么", en: "show"}, Object.entries(QUANTITIES)),
  };
  const layer = ui.slider({label: {zh: "看哪一层 l", en: "look at layer l"}, min: 0, max: get("depth"), value: get("layer"), onInput: v => ui.set({layer: v})});
  const again = ui.button({label: {zh: "重新抽样", en: "new draw"}, onClick: () => ui.set({seed: (get("seed") + 1) % 2 ** 31})});
  ui.controls.append(controls.depth.el, controls.scale.el, controls.activation.el, controls.quantity.el, controls.width.el, layer.el, again.el);

  const traits = () => Object.fromEntries(["depth", "scale", "activation", "width"].map(name => [name, get(name)]));
  // The first layer that has the quantity, and the one that is looked at.
  const first = () => (get("quantity") === "weights" ? 1 : 0);
  const looked = () => Math.max(first(), Math.min(get("layer"), get("depth")));

  // Six rows: a radio button, the stack as coloured cells, the value at one layer, the verdict.
  const group = `${ui.name}-${Math.random().toString(36).slice(2, 10)}`,
    column = ui.text(h("span", {class: "anb-dx-v"}), () => ({zh: `第 ${looked()} 层`, en: `layer ${looked()}`})),
    ends = h("span", {class: "anb-dx-s"}, ui.text(h("span"), {zh: "输入", en: "input"}), ui.text(h("span"), {zh: "输出", en: "output"}));
  const rows = DESIGNS.map(({residual, norm, formula, name}) => {
    const input = h("input", {type: "radio", name: group, value: formula, onchange: () => ui.set({residual, norm})}),
      strip = h("svg", {class: "anb-ch", height: 18, "aria-hidden": "true"}),
      value = h("span", {class: "anb-dx-v"}),
      word = h("span", {class: "anb-dx-w"}),
      swatch = h("i", {style: {"border-top-color": TINTS[norm], "border-top-style": residual ? "solid" : "dashed"}});
    const node = h(
      "label",
      {class: "anb-dx-r"},
      h("span", {class: "anb-dx-n"}, input, swatch, h("span", {class: "anb-dx-f"}, formula), ui.text(h("small"), name)),
      h("span", {class: "anb-dx-s"}, strip),
      value,
      word,
    );
    return {node, input, strip, value, word};
  });
  const list = ui.attr(
    h("div", {class: "anb-dx", role: "radiogroup"}, h("div", {class: "anb-dx-r anb-dx-h"}, ui.text(h("span"), {zh: "一层怎样搭", en: "how a layer is built"}), ends, column, h("span")), ...rows.map(row => row.node)),
    "aria-label",
    {zh: "一层怎样搭", en: "how a layer is built"},
  );
  const scale = legend(ui, {map: "diverging", min: -6, max: 6, digits: 0, label: {zh: "色块：log₁₀", en: "cells: log₁₀"}});
  const plot = ui.attr(h("svg", {class: "anb-ch", role: "img", height: 270}), "aria-label", () => `${ui.t(AXES[get("quantity")])}. ${words()}`);
  plot.style.cursor = "pointer";
  const box = h("div", {class: "anb-m"}, plot);
  ui.figure.append(list, scale.el, box);

  ui.onResize(rows[0].strip, width => {
    stripWidth = width;
    drawStrips();
  });
  ui.onResize(box, width => {
    plotWidth = width;
    drawPlot();
  });

  function drawStrips() {
    if (!stripWidth || !found) return;
    rows.forEach(({strip}, r) => {
      const values = found[r],
        step = stripWidth / values.length;
      const cells = values.map((v, i) =>
        h("rect", {x: (i * step).toFixed(2), y: 1, width: (step > 5 ? step - 1 : step + 0.3).toFixed(2), height: 16, fill: ui.colour("diverging", Math.log10(Math.max(v, 1e-300)), -6, 6)}),
      );
      const at = (looked() - first() + 0.5) * step;
      strip.replaceChildren(...cells, h("rect", {x: (at - 1).toFixed(2), y: 0, width: 2, height: 18, fill: "var(--ink)"}));
    });
  }

  const LEFT = 52,
    RIGHT = 10,
    TOP = 8,
    FOOT = 40;
  function drawPlot() {
    if (!plotWidth || !found) return;
    const height = 270,
      from = first(),
      depth = get("depth"),
      chosen = DESIGNS.findIndex(d => d.residual === get("residual") && d.norm === get("norm"));
    const lines = found.map(values => values.map((v, i) => [i + from, Math.log10(v)]).filter(p => Number.isFinite(p[1])));
    const range = points => [Math.min(0, ...points.map(p => p[1])), Math.max(0, ...points.map(p => p[1]))];
    // The frame is the selected line's; the others may leave it.
    const [lowest, highest] = range(lines.flat()),
      [lower, upper] = range(lines[chosen]);
    const low = Math.floor(Math.max(lowest, lower - 3) - 0.5),
      high = Math.ceil(Math.min(highest, upper + 3) + 0.5);
    const X = l => LEFT + ((l - from) / (depth - from || 1)) * (plotWidth - LEFT - RIGHT),
      Y = v => TOP + ((high - v) / (high - low)) * (height - TOP - FOOT);
    const parts = [],
      segment = (x1, y1, x2, y2, stroke, more) => parts.push(h("line", {x1, y1, x2, y2, stroke, ...more})),
      text = (x, y, s, anchor, more) => parts.push(h("text", {x, y, "text-anchor": anchor, ...more}, s));
    // What counts as exploding and as vanishing.
    for (const [a, b, tint, msg] of [
      [Math.max(LIMIT, low), high, 6, {zh: "爆炸", en: "exploding"}],
      [low, Math.min(-LIMIT, high), -6, {zh: "消失", en: "vanishing"}],
    ])
      if (a < b) {
        parts.push(h("rect", {x: LEFT, y: Y(b), width: plotWidth - LEFT - RIGHT, height: Y(a) - Y(b), fill: ui.colour("diverging", tint, -6, 6), "fill-opacity": 0.1}));
        if (Y(a) - Y(b) > 20) text(plotWidth - RIGHT - 6, tint > 0 ? Y(b) + 15 : Y(a) - 6, ui.t(msg), "end");
      }
    const every = [1, 2, 5, 10, 20].find(n => (high - low) / n <= 7) ?? 40;
    for (let v = Math.ceil(low / every) * every; v <= high; v += every) {
      segment(LEFT, Y(v), plotWidth - RIGHT, Y(v), "var(--line)");
      text(LEFT - 6, Y(v) + 4, decade(v), "end");
    }
    const stride = [1, 2, 4, 8, 16].find(n => depth / n <= (plotWidth < 420 ? 6 : 12));
    for (let l = from; l <= depth; l++)
      if (l % stride === 0 || (l === from && stride === 1)) {
        segment(X(l), height - FOOT, X(l), height - FOOT + 4, "var(--dim)");
        text(X(l), height - FOOT + 17, String(l), "middle");
      }
    segment(LEFT, height - FOOT, plotWidth - RIGHT, height - FOOT, "var(--dim)");
    segment(X(looked()), TOP, X(looked()), height - FOOT, "var(--ink)", {"stroke-dasharray": "4 3"});
    const line = (points, stroke, more) => {
      const d = within(points, low, high).map(part => `M${part.map(([x, y]) => `${X(x).toFixed(1)} ${Y(y).toFixed(1)}`).join("L")}`);
      parts.push(h("path", {d: d.join(""), fill: "none", stroke, "stroke-linejoin": "round", ...more}));
    };
    const order = DESIGNS.map((_, i) => i).sort((a, b) => (a === chosen) - (b === chosen));
    for (const i of order)
      line(lines[i], TINTS[DESIGNS[i].norm], {
        "stroke-width": i === chosen ? 3.5 : 1.75,
        "stroke-opacity": i === chosen ? 1 : 0.6,
        "stroke-dasharray": DESIGNS[i].residual ? null : "7 4",
      });
    const expected = theory({...traits(), ...DESIGNS[chosen]})?.[get("quantity")];
    if (expected) line(expected.map((v, i) => [i + from, Math.log10(v)]), "var(--ink)", {"stroke-width": 1.75, "stroke-dasharray": "1.5 4", "stroke-linecap": "round"});
    text((LEFT + plotWidth - RIGHT) / 2, height - 6, ui.t(get("quantity") === "size" ? ALONG.there : ALONG.back), "middle");
    text(-(TOP + height - FOOT) / 2, 13, ui.t(AXES[get("quantity")]), "middle", {transform: "rotate(-90)"});
    plot.replaceChildren(...parts);
  }
  ui.listen(plot, "click", event => {
    const share = (event.clientX - plot.getBoundingClientRect().left - LEFT) / (plotWidth - LEFT - RIGHT);
    ui.set({layer: Math.round(first() + Math.max(0, Math.min(1, share)) * (get("depth") - first()))});
  });

  function words() {
    const {residual, norm, quantity, depth} = Object.fromEntries(["residual", "norm", "quantity", "depth"].map(name => [name, get(name)])),
      chosen = DESIGNS.findIndex(d => d.residual === residual && d.norm === norm);
    return found ? sentence(ui.lang, DESIGNS[chosen].formula, depth, quantity, found[chosen]) : "";
  }

  let drawn = {},
    runs = {};
  function update() {
    for (const [name, control] of Object.entries(controls)) control.set(get(name));
    const quantity = get("quantity"),
      {width, seed} = {width: get("width"), seed: get("seed")};
    layer.range(first(), get("depth"));
    layer.set(looked());
    if (drawn.seed !== seed || drawn.width !== width) drawn = {seed, width, stack: drawStack(seed, width)};
    const key = JSON.stringify([traits(), seed, quantity === "weights"]);
    if (runs.key !== key) runs = {key, found: DESIGNS.map(design => run(drawn.stack, {...traits(), ...design}, quantity === "weights"))};
    found = runs.found.map(result => result[quantity]);
    rows.forEach(({node, input, value, word}, r) => {
      const {residual, norm} = DESIGNS[r],
        on = residual === get("residual") && norm === get("norm");
      input.checked = on;
      node.classList.toggle("anb-dx-on", on);
      value.textContent = short(found[r][looked() - first()]);
      ui.text(word, VERDICTS[verdict(found[r])]);
    });
    ui.retext();
    drawStrips();
    drawPlot();
    ui.say(words);
  }

  ui.watch(["depth", "scale", "activation", "width", "quantity", "layer", "seed", "residual", "norm"], update);
  update();
  return ui.done;
}

// What is seen of one design, in words.
export function sentence(lang, formula, depth, quantity, values) {
  const zh = lang === "zh",
    from = values[0],
    to = values.at(-1),
    fate = verdict(values);
  const factor = x => fmt(x ** (1 / depth), 2);
  const end = zh ? {vanishes: "消失了。", holds: "稳住了。", explodes: "爆炸了。"}[fate] : {vanishes: "It vanishes.", holds: "It holds.", explodes: "It explodes."}[fate];
  if (quantity === "state")
    return zh
      ? `${depth} 层 ${formula}：输出处长度为 1 的梯度，传到输入处是 ${short(from)}，平均每层乘以 ${factor(from)}。${end}`
      : `${depth} layers of ${formula}: of a gradient of length 1 at the output, ${short(from)} arrives at the input, a factor of ${factor(from)} a layer. ${end}`;
  if (quantity === "size")
    return zh
      ? `${depth} 层 ${formula}：输入处大小为 1 的特征，到输出处是 ${short(to)}，平均每层乘以 ${factor(to)}。${end}`
      : `${depth} layers of ${formula}: features of size 1 at the input have size ${short(to)} at the output, a factor of ${factor(to)} a layer. ${end}`;
  return zh
    ? `${depth} 层 ${formula}：W₂ 的梯度在第 1 层是 ${short(from)}，在第 ${depth} 层是 ${short(to)}。${end}`
    : `${depth} layers of ${formula}: the gradient of W₂ is ${short(from)} in layer 1 and ${short(to)} in layer ${depth}. ${end}`;
}
export default {render};
