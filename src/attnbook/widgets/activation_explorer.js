import {frame, fmt} from "./common.js";
import {ACTIVATIONS} from "./activations.js";
import {chart} from "./chart.js";
import {h} from "./dom.js";
import {scientific} from "./maths.js";

// An activation, its derivative and where that is almost zero; and one unit σ(wx + b) that learns, or cannot.

export const LIMIT = 0.05; // below this slope hardly any gradient comes through
export const TEACHER = {w: 1.5, b: 0.5}; // the unit that the learning unit should become
export const RATE = 1,
  STEPS = 100;
const Z = 6;

// 40 inputs, spread like a standard normal: the logistic approximation of its quantiles.
export const INPUTS = Array.from({length: 40}, (_, i) => Math.log((i + 0.5) / (39.5 - i)) / 1.702);

// Where |σ′| < LIMIT within ±Z: a list of [from, to], on a grid of 0.02.
export function flat(slope) {
  const regions = [];
  for (let i = -300; i <= 300; i++) {
    if (Math.abs(slope(i / 50)) >= LIMIT) continue;
    const last = regions.at(-1);
    if (last && last[1] === (i - 1) / 50) last[1] = i / 50;
    else regions.push([i / 50, i / 50]);
  }
  return regions.filter(([from, to]) => to > from);
}

// The unit on its inputs: pre-activations z, outputs y, loss ½·mean (y − wanted)² and its gradient.
export function unit(name, w, b) {
  const [f, slope] = ACTIVATIONS[name];
  const z = INPUTS.map(x => w * x + b),
    y = z.map(f),
    slopes = z.map(slope);
  const error = y.map((v, i) => v - f(TEACHER.w * INPUTS[i] + TEACHER.b));
  const mean = values => values.reduce((sum, v) => sum + v, 0) / values.length;
  return {
    z,
    y,
    slopes,
    loss: mean(error.map(e => (e * e) / 2)),
    dw: mean(error.map((e, i) => e * slopes[i] * INPUTS[i])),
    db: mean(error.map((e, i) => e * slopes[i])),
    blocked: slopes.filter(s => Math.abs(s) < LIMIT).length,
    dead: slopes.every(s => s === 0),
  };
}

// STEPS steps of gradient descent: the (w, b) on the way, the start included.
export function descend(name, w, b, steps = STEPS) {
  const path = [[w, b]];
  for (let i = 0; i < steps; i++) {
    const {dw, db} = unit(name, w, b);
    w = Math.max(-4, Math.min(4, w - RATE * dw));
    b = Math.max(-8, Math.min(8, b - RATE * db));
    path.push([w, b]);
  }
  return path;
}

const shown = x => (x !== 0 && Math.abs(x) < 0.001 ? scientific(x) : fmt(x, 3));

// What is seen, in words.
export function sentence(lang, name, z, layers, {blocked, dead, loss}) {
  const slope = ACTIVATIONS[name][1](z),
    through = shown(slope ** layers);
  const n = INPUTS.length;
  if (lang === "zh")
    return (
      `z = ${fmt(z, 1)} 处的斜率是 ${shown(slope)}，连过 ${layers} 层只剩 ${through}。` +
      (dead
        ? `这个单元死了：${n} 个输入没有一个给它梯度，再训练也不会动。`
        : `这个单元的 ${n} 个输入中有 ${blocked} 个几乎没有梯度；损失 ${shown(loss)}。`)
    );
  return (
    `At z = ${fmt(z, 1)} the slope is ${shown(slope)}; through ${layers} ${layers === 1 ? "layer" : "layers"}, ${through} of a gradient is left. ` +
    (dead
      ? `The unit is dead: none of its ${n} inputs gives it a gradient, and training will not move it.`
      : `Of the unit's ${n} inputs, ${blocked} give hardly any gradient; its loss is ${shown(loss)}.`)
  );
}

function render({model, el}) {
  const ui = frame(
    {model, el},
    {
      name: "activation-explorer",
      title: {zh: "激活函数：弯曲、斜率与饱和", en: "Activations: bend, slope and saturation"},
      caption: {
        zh: "灰色区域里斜率的绝对值小于 0.05，梯度几乎传不过去。下方的单元要学会 w = 1.5、b = 0.5 的同类单元；“训练”做 100 步梯度下降，学习率 1。",
        en: "In the grey region the slope is below 0.05 in size and hardly any gradient passes. The unit below is to become one with w = 1.5 and b = 0.5; Train takes 100 steps of gradient descent at learning rate 1.",
      },
      css: `
.anb .act-grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,290px),1fr));gap:16px 24px}
.anb .act-unit{margin-top:16px;border-top:1px solid var(--line);padding-top:10px}
.anb .act-num{display:grid;grid-template-columns:1fr auto;gap:2px 14px;font-size:.92em;margin:0;align-content:start}
.anb .act-num dt{color:var(--dim);font-weight:400}
.anb .act-num dd{margin:0;text-align:end;font-variant-numeric:tabular-nums;font-weight:600}`,
    },
  );
  const get = name => model.get(name);

  const NAMES = [
    ["relu", "ReLU"],
    ["sigmoid", "sigmoid"],
    ["tanh", "tanh"],
    ["gelu", "GELU"],
  ];
  const activation = ui.segmented({
    label: {zh: "激活函数", en: "activation"},
    options: NAMES,
    value: get("activation"),
    onChange: v => ui.set({activation: v}),
  });
  const slider = (name, label, min, max, step) =>
    ui.slider({
      label,
      min,
      max,
      step,
      value: get(name),
      format: v => (step === 1 ? String(v) : fmt(v, 1)),
      onInput: v => {
        stop();
        ui.set({[name]: v});
      },
    });
  let stop = () => {};
  const sliders = {
    z: slider("z", {zh: "预激活值 z", en: "pre-activation z"}, -Z, Z, 0.1),
    layers: slider("layers", {zh: "连过几层", en: "layers in a row"}, 1, 20, 1),
    weight: slider("weight", {zh: "权重 w", en: "weight w"}, -4, 4, 0.1),
    bias: slider("bias", {zh: "偏置 b", en: "bias b"}, -8, 8, 0.1),
  };
  ui.controls.append(activation.el, sliders.z.el, sliders.layers.el);

  function train() {
    stop();
    const path = descend(get("activation"), get("weight"), get("bias"));
    stop = ui.animate(900, f => {
      const [weight, bias] = path[Math.round(f * STEPS)];
      ui.set({weight, bias});
    });
  }
  const place = (weight, bias) => () => {
    stop();
    ui.set({weight, bias});
  };
  const buttons = [
    ui.button({label: {zh: "训练 100 步", en: "train 100 steps"}, onClick: train, primary: true}),
    ui.button({label: {zh: "回到起点", en: "start again"}, onClick: place(0.5, -0.5)}),
    ui.button({label: {zh: "推到左边", en: "push it left"}, onClick: place(1, -6)}),
  ];

  const axis = {label: {zh: "预激活值 z", en: "pre-activation z"}, min: -Z, max: Z};
  const panel = (msg, ...nodes) => h("div", {style: {"min-width": "0"}}, ui.text(h("div", {class: "anb-mt"}), msg), ...nodes);
  const plot = (label, y) => chart(ui, {label, height: 210, series: [], x: axis, y: {label: y, min: 0, max: 1}});
  const bend = plot({zh: "激活函数与切线", en: "activation and tangent"}, "σ(z)"),
    slopes = plot({zh: "导数", en: "derivative"}, "σ′(z)"),
    dots = plot({zh: "单元在 40 个输入上的输出", en: "the unit's output for 40 inputs"}, "h = σ(wx + b)");

  const ROWS = {
    value: "σ(z)",
    slope: "σ′(z)",
    through: () => `σ′(z)^${get("layers")}`,
    blocked: {zh: "几乎没有梯度的输入", en: "inputs with hardly any gradient"},
    loss: {zh: "损失 L", en: "loss L"},
    dw: "∂L/∂w",
    db: "∂L/∂b",
  };
  const cells = {};
  const list = keys =>
    h("dl", {class: "act-num"}, ...keys.flatMap(key => [ui.text(h("dt"), ROWS[key]), (cells[key] = h("dd"))]));

  ui.figure.append(
    h(
      "div",
      {class: "act-grid"},
      panel({zh: "函数 σ(z)", en: "Function σ(z)"}, bend.el),
      panel({zh: "导数 σ′(z)", en: "Derivative σ′(z)"}, slopes.el, list(["value", "slope", "through"])),
    ),
    h(
      "div",
      {class: "act-unit"},
      ui.text(h("div", {class: "anb-mt"}), {zh: "一个单元 h = σ(wx + b) 与它的 40 个输入", en: "One unit h = σ(wx + b) and its 40 inputs"}),
      h("div", {class: "anb-bar", "data-anb-export": "no"}, sliders.weight.el, sliders.bias.el, ...buttons.map(b => b.el)),
      h("div", {class: "act-grid"}, dots.el, list(["blocked", "loss", "dw", "db"])),
    ),
  );

  const GRID = Array.from({length: 241}, (_, i) => -Z + i / 20);
  // a chart's bars have one width, so each region is a series of its own; the first names them all
  const shade = (name, low, high) =>
    flat(ACTIVATIONS[name][1]).map(([from, to], i) => ({
      name: i ? null : {zh: `斜率小于 ${LIMIT}`, en: `slope below ${LIMIT}`},
      kind: "bar",
      colour: "var(--dim)",
      opacity: 0.2,
      width: to - from,
      points: [high, low].map(y => [(from + to) / 2, y]),
    }));

  function update() {
    const name = get("activation"),
      z = get("z"),
      layers = get("layers"),
      [f, slope] = ACTIVATIONS[name];
    const bounded = name === "sigmoid" || name === "tanh",
      low = name === "tanh" ? -1.2 : bounded ? -0.2 : -1,
      high = bounded ? 1.2 : 6;
    activation.set(name);
    for (const [key, control] of Object.entries(sliders)) control.set(get(key));

    const curve = g => GRID.map(x => [x, g(x)]),
      s = slope(z),
      y = f(z);
    // the tangent, as far as it stays in the picture
    const ends = [-Z, Z].map(x => (s === 0 ? x : Math.max(-Z, Math.min(Z, z + (Math.max(low, Math.min(high, y + s * (x - z))) - y) / s))));
    bend.set({
      y: {min: low, max: high},
      series: [
        {name: "σ", colour: "var(--s1)", points: curve(f)},
        {name: {zh: "切线", en: "tangent"}, colour: "var(--s2)", dash: "6 4", points: ends.map(x => [x, y + s * (x - z)])},
        {name: "z", kind: "dots", colour: "var(--s2)", points: [[z, y]]},
        ...shade(name, low, high),
      ],
      marker: z,
    });
    slopes.set({
      y: {min: name === "gelu" ? -0.25 : 0, max: name === "sigmoid" ? 0.3 : 1.2},
      series: [
        {name: "σ′", colour: "var(--s3)", points: curve(slope)},
        {name: "z", kind: "dots", colour: "var(--s2)", points: [[z, s]]},
        ...shade(name, name === "gelu" ? -0.25 : 0, name === "sigmoid" ? 0.3 : 1.2),
      ],
      marker: z,
    });

    const now = unit(name, get("weight"), get("bias")),
      inside = now.z.map((v, i) => [v, now.y[i], now.slopes[i]]).filter(([v]) => Math.abs(v) <= Z);
    const pick = test => inside.filter(p => test(Math.abs(p[2]))).map(([a, b]) => [a, Math.min(b, high)]);
    dots.set({
      y: {min: low, max: high},
      series: [
        {name: "σ", colour: "var(--line)", points: curve(f)},
        {name: {zh: "有梯度的输入", en: "inputs with a gradient"}, kind: "dots", colour: "var(--s3)", points: pick(g => g >= LIMIT)},
        {name: {zh: "几乎没有", en: "hardly any"}, kind: "dots", colour: "var(--s2)", points: pick(g => g < LIMIT)},
        ...shade(name, low, high),
      ],
    });
    cells.value.textContent = fmt(y, 3);
    cells.slope.textContent = shown(s);
    cells.through.textContent = shown(s ** layers);
    cells.blocked.textContent = `${now.blocked} / ${INPUTS.length}`;
    cells.loss.textContent = shown(now.loss);
    cells.dw.textContent = shown(now.dw);
    cells.db.textContent = shown(now.db);
    ui.retext();
    ui.say(() => sentence(ui.lang, name, z, layers, now));
  }

  ui.watch(["activation", "z", "layers", "weight", "bias"], update);
  update();
  return () => {
    stop();
    ui.done();
  };
}

export default {render};
