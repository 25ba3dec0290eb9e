import {fmt, frame, pixels} from "./common.js";
import {ACTIVATIONS} from "./activations.js";
import {chart} from "./chart.js";
import {h} from "./dom.js";
import {normal, random, scientific} from "./maths.js";

// A small network that learns in the page to tell two classes of points apart: full-batch gradient descent on the
// cross-entropy, in float64 and without any chance but the seed, so that the same settings give the same picture.

export const REACH = 2.5; // the plane is ±REACH in both directions
const GRID = 50,
  MOST = 20000,
  PER_CLASS = 60;
const PALE = {map: "diverging", min: -0.4, max: 1.4}; // so that the points stand out
const RATES = [0.01, 0.03, 0.1, 0.3, 1, 3];

// The points of a data set: [x1, x2, class].
const SHAPES = {
  blobs: (label, t, noise) => [(label ? 1 : -1) + noise() * 2.5, (label ? 0.6 : -0.6) + noise() * 2.5],
  xor: (label, t, noise) => {
    const side = t < 0.5 ? 1 : -1;
    return [1.1 * side + noise() * 2, 1.1 * side * (label ? -1 : 1) + noise() * 2];
  },
  circles: (label, t, noise) => {
    const r = label ? 1.9 : 0.7,
      a = 2 * Math.PI * t;
    return [r * Math.cos(a) + noise(), r * Math.sin(a) + noise()];
  },
  moons: (label, t, noise) => {
    const a = Math.PI * t;
    return label
      ? [0.7 - 1.4 * Math.cos(a) + noise(), 0.35 - 1.4 * Math.sin(a) + noise()]
      : [-0.7 + 1.4 * Math.cos(a) + noise(), -0.35 + 1.4 * Math.sin(a) + noise()];
  },
  spiral: (label, t, noise) => {
    const r = 0.2 + 2 * t,
      a = 1.25 * 2 * Math.PI * t + (label ? Math.PI : 0);
    return [r * Math.cos(a) + noise() / 2, r * Math.sin(a) + noise() / 2];
  },
};
export function dataset(name, seed) {
  const uniform = random(seed),
    noise = () => 0.12 * normal(uniform),
    inside = v => Math.max(-REACH, Math.min(REACH, v));
  return Array.from({length: 2 * PER_CLASS}, (_, i) => [
    ...SHAPES[name](i % 2, ((i >> 1) + 0.5) / PER_CLASS, noise).map(inside),
    i % 2,
  ]);
}

// Weights and biases, uniform in ±1/√inputs as attnbook.MLP starts them: layer l has W (out × in, flat) and b.
export function initial(depth, width, seed) {
  const sizes = [2, ...Array(depth).fill(width), 1],
    uniform = random(seed + 1);
  return sizes.slice(1).map((out, l) => {
    const bound = 1 / Math.sqrt(sizes[l]),
      draw = n => Float64Array.from({length: n}, () => (2 * uniform() - 1) * bound);
    return {in: sizes[l], out, W: draw(out * sizes[l]), b: draw(out)};
  });
}
export const countParameters = net => net.reduce((sum, {W, b}) => sum + W.length + b.length, 0);

// Forward: for each layer its inputs and its pre-activations z (points × units, flat); the last z are the logits.
export function forward(net, points, f) {
  let h = Float64Array.from(points.flatMap(p => [p[0], p[1]]));
  const n = points.length;
  return net.map((layer, l) => {
    const input = h,
      z = new Float64Array(n * layer.out);
    for (let i = 0, k = 0; i < n; i++)
      for (let o = 0; o < layer.out; o++, k++) {
        let sum = layer.b[o];
        for (let j = 0, a = i * layer.in, w = o * layer.in; j < layer.in; j++) sum += layer.W[w + j] * input[a + j];
        z[k] = sum;
      }
    if (l < net.length - 1) h = z.map(v => f(v));
    return {input, z};
  });
}

// ln(1 + e^s), without overflow.
const softplus = s => Math.max(s, 0) + Math.log1p(Math.exp(-Math.abs(s)));
const probability = s => 1 / (1 + Math.exp(-s));

// Mean cross-entropy, share of right answers, and the gradient of every W and b by the chain rule.
export function gradients(net, points, activation) {
  const [f, slope] = ACTIVATIONS[activation],
    n = points.length,
    passes = forward(net, points, f),
    logits = passes.at(-1).z;
  let loss = 0,
    right = 0;
  let delta = logits.map((s, i) => {
    const y = points[i][2];
    loss += softplus(y ? -s : s) / n;
    right += s > 0 === (y === 1) ? 1 : 0;
    return (probability(s) - y) / n;
  });
  const found = [];
  for (let l = net.length - 1; l >= 0; l--) {
    const layer = net[l],
      {input} = passes[l],
      W = new Float64Array(layer.W.length),
      b = new Float64Array(layer.out),
      below = new Float64Array(n * layer.in);
    for (let i = 0; i < n; i++)
      for (let o = 0; o < layer.out; o++) {
        const d = delta[i * layer.out + o];
        b[o] += d;
        for (let j = 0, a = i * layer.in, w = o * layer.in; j < layer.in; j++) {
          W[w + j] += d * input[a + j];
          below[a + j] += d * layer.W[w + j];
        }
      }
    found.unshift({W, b});
    if (l > 0) delta = below.map((d, k) => d * slope(passes[l - 1].z[k]));
  }
  return {loss, accuracy: right / n, layers: found};
}

// One step: θ ← θ − η ∂L/∂θ, in place. Returns the loss and the accuracy before it.
export function descendOnce(net, points, activation, rate) {
  const {loss, accuracy, layers} = gradients(net, points, activation);
  layers.forEach(({W, b}, l) => {
    for (let k = 0; k < W.length; k++) net[l].W[k] -= rate * W[k];
    for (let k = 0; k < b.length; k++) net[l].b[k] -= rate * b[k];
  });
  return {loss, accuracy};
}

// Where values (GRID × GRID) cross 0.5: line pieces [x1, y1, x2, y2] in grid units (marching squares).
export function contour(values, size) {
  const pieces = [],
    at = (r, c) => values[r * size + c] - 0.5;
  for (let r = 0; r < size - 1; r++)
    for (let c = 0; c < size - 1; c++) {
      const corners = [
        [c, r, at(r, c)],
        [c + 1, r, at(r, c + 1)],
        [c + 1, r + 1, at(r + 1, c + 1)],
        [c, r + 1, at(r + 1, c)],
      ];
      const cuts = [];
      corners.forEach(([x, y, v], i) => {
        const [x2, y2, v2] = corners[(i + 1) % 4];
        if (v > 0 !== v2 > 0) cuts.push([x + ((x2 - x) * v) / (v - v2), y + ((y2 - y) * v) / (v - v2)]);
      });
      for (let i = 0; i + 1 < cuts.length; i += 2) pieces.push([...cuts[i], ...cuts[i + 1]]);
    }
  return pieces;
}

// The part of the line a·x1 + b·x2 + c = 0 inside the plane, or null.
export function lineInside(a, b, c) {
  const ends = [];
  for (const edge of [-REACH, REACH]) {
    if (b) ends.push([edge, -(a * edge + c) / b]);
    if (a) ends.push([-(b * edge + c) / a, edge]);
  }
  const kept = ends.filter(p => p.every(v => Math.abs(v) <= REACH + 1e-9));
  return kept.length < 2 ? null : [kept[0], kept.reduce((far, p) => (Math.hypot(p[0] - kept[0][0], p[1] - kept[0][1]) > Math.hypot(far[0] - kept[0][0], far[1] - kept[0][1]) ? p : far))];
}

const CSS_BOUNDARY = `
.anb .db-grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,300px),1fr));gap:16px 24px}
.anb .db-plane{position:relative;aspect-ratio:1;width:100%;max-width:420px;margin:auto;cursor:crosshair;border-radius:8px;overflow:hidden;touch-action:manipulation}
.anb .db-plane canvas,.anb .db-plane svg{position:absolute;inset:0;width:100%;height:100%;display:block}
.anb .db-num{display:grid;grid-template-columns:1fr auto;gap:2px 14px;font-size:.92em;margin:8px 0 0}
.anb .db-num dt{color:var(--dim);font-weight:400}
.anb .db-num dd{margin:0;text-align:end;font-variant-numeric:tabular-nums;font-weight:600}`;

function render({model, el}) {
  const ui = frame(
    {model, el},
    {
      name: "decision-boundary",
      css: CSS_BOUNDARY,
      title: {zh: "决策边界：看一个小网络学习", en: "Decision boundary: watch a small network learn"},
      caption: {
        zh: "圆点是 A 类，方块是 B 类；底色是网络给 B 类的概率，粗线是 0.5。点一下平面就加一个点；用键盘时，方向键移动十字，Enter 加点，Backspace 拿走最后一个。同样的设置和种子总是给出同样的结果。",
        en: "Circles are class A, squares class B; the colour is the probability that the network gives to B, and the thick line is 0.5. Click the plane to add a point; by keyboard, arrow keys move the cross, Enter adds a point, Backspace takes the last one back. The same settings and seed always give the same result.",
      },
    },
  );
  const get = name => model.get(name);

  // State of the training; everything else is in the traits.
  let data = [],
    net = [],
    now = {loss: NaN, accuracy: 0},
    history = [],
    done = 0,
    running = false,
    frameId = 0,
    key = "";

  const dataKey = () => JSON.stringify([get("dataset"), get("seed")]);
  const netKey = () => JSON.stringify([get("dataset"), get("seed"), get("depth"), get("width"), get("activation")]);
  const points = () => [...data, ...get("points")];

  function restart() {
    if (key !== dataKey()) {
      key = dataKey();
      data = dataset(get("dataset"), get("seed"));
    }
    net = initial(get("depth"), get("width"), get("seed"));
    done = 0;
    history = [];
    measure();
  }
  function measure() {
    const {loss, accuracy} = gradients(net, points(), get("activation"));
    now = {loss, accuracy};
  }
  function train(count) {
    const all = points();
    for (let i = 0; i < count && done < MOST; i++) {
      history.push(descendOnce(net, all, get("activation"), get("learning_rate")).loss);
      done++;
    }
    measure();
  }

  // Controls.
  const chosen = (name, label, options, kind = "segmented") =>
    ui[kind]({label, options, value: get(name), onChange: v => ui.set({[name]: v})});
  const sets = chosen("dataset", {zh: "数据", en: "data"}, [
    ["blobs", {zh: "两团", en: "two blobs"}],
    ["xor", {zh: "异或", en: "XOR"}],
    ["circles", {zh: "圆环", en: "circles"}],
    ["moons", {zh: "月牙", en: "moons"}],
    ["spiral", {zh: "螺旋", en: "spiral"}],
  ], "select");
  const activation = chosen("activation", {zh: "激活函数", en: "activation"}, [
    ["relu", "ReLU"],
    ["tanh", "tanh"],
    ["sigmoid", "sigmoid"],
    ["identity", {zh: "没有", en: "none"}],
  ], "select");
  const slider = (name, label, min, max) =>
    ui.slider({label, min, max, value: get(name), onInput: v => ui.set({[name]: v})});
  const depth = slider("depth", {zh: "隐藏层数", en: "hidden layers"}, 0, 4),
    width = slider("width", {zh: "每层单元数", en: "units in each"}, 1, 16);
  const nearest = rate => RATES.reduce((best, r, i) => (Math.abs(Math.log(r / rate)) < Math.abs(Math.log(RATES[best] / rate)) ? i : best), 0);
  const rate = ui.slider({
    label: {zh: "学习率 η", en: "learning rate η"},
    min: 0,
    max: RATES.length - 1,
    value: nearest(get("learning_rate")),
    format: i => String(i === nearest(get("learning_rate")) ? get("learning_rate") : RATES[i]),
    onInput: i => ui.set({learning_rate: RATES[i]}),
  });
  const go = ui.button({label: () => ui.t(running ? {zh: "暂停", en: "pause"} : {zh: "训练", en: "train"}), primary: true, onClick: () => (running ? pause() : start())});
  const step = ui.button({label: {zh: "走一步", en: "one step"}, onClick: () => { halt(); train(1); settle(); }});
  const again = ui.button({label: {zh: "重来", en: "start again"}, onClick: () => { halt(); restart(); settle(); }});
  const other = ui.button({label: {zh: "换种子", en: "new seed"}, onClick: () => ui.set({seed: (get("seed") + 1) % 2 ** 31})});
  const clear = ui.button({label: {zh: "拿走加的点", en: "remove added points"}, onClick: () => ui.set({points: []})});
  const units = ui.toggle({label: {zh: "显示第一层", en: "show first layer"}, value: get("show_units"), onChange: on => ui.set({show_units: on})});
  let brush = 1;
  const label = ui.segmented({
    label: {zh: "加哪一类", en: "add class"},
    options: [[0, "● A"], [1, "■ B"]],
    value: brush,
    onChange: v => { brush = v; },
  });
  ui.controls.append(go.el, step.el, again.el, other.el, sets.el, activation.el, depth.el, width.el, rate.el, units.el, label.el, clear.el);

  const few = x => (x !== 0 && Math.abs(x) < 0.001 ? scientific(x) : fmt(x, 3));
  function status() {
    const percent = `${Math.round(1000 * now.accuracy) / 10}%`;
    return ui.t({zh: `第 ${done} 步：损失 ${few(now.loss)}，正确率 ${percent}`, en: `step ${done}: loss ${few(now.loss)}, accuracy ${percent}`});
  }

  // The plane.
  const canvas = h("canvas", {width: GRID, height: GRID, "aria-hidden": "true"}),
    scale = h("canvas", {width: 64, height: 1, "aria-hidden": "true"}),
    svg = h("svg", {viewBox: "0 0 100 100", "aria-hidden": "true"}),
    lines = h("g"),
    border = h("path", {fill: "none", stroke: "var(--ink)", "stroke-width": 0.9, "stroke-linecap": "round"}),
    marks = h("g"),
    cross = h("path", {stroke: "var(--ink)", "stroke-width": 0.8, fill: "none", visibility: "hidden"});
  svg.append(lines, border, marks, cross);
  const plane = ui.attr(h("div", {class: "db-plane", tabindex: "0", role: "application"}, canvas, svg), "aria-label", () =>
    ui.t({zh: "平面，", en: "plane, "}) + status() + ui.t({zh: "。方向键移动十字，Enter 加点", en: ". Arrow keys move the cross, Enter adds a point"}));
  const toX = v => 50 + (50 * v) / REACH,
    toY = v => 50 - (50 * v) / REACH;
  const gridPoints = Array.from({length: GRID * GRID}, (_, i) => [
    ((2 * (i % GRID)) / (GRID - 1) - 1) * REACH,
    (1 - (2 * Math.floor(i / GRID)) / (GRID - 1)) * REACH,
  ]);
  const cursor = [0, 0];
  const round = v => Math.round(v * 100) / 100;
  const add = (x, y) => ui.set({points: [...get("points"), [round(x), round(y), brush]]});
  ui.listen(plane, "click", event => {
    const box = plane.getBoundingClientRect();
    add(((event.clientX - box.left) / box.width) * 2 * REACH - REACH, REACH - ((event.clientY - box.top) / box.height) * 2 * REACH);
  });
  ui.listen(plane, "keydown", event => {
    const move = {ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, 0.1], ArrowDown: [0, -0.1]}[event.key];
    if (move) move.forEach((d, i) => { cursor[i] = round(Math.max(-REACH, Math.min(REACH, cursor[i] + d))); });
    else if (event.key === "Enter" || event.key === " ") add(...cursor);
    else if (event.key === "Backspace" || event.key === "Delete") ui.set({points: get("points").slice(0, -1)});
    else return;
    event.preventDefault();
    drawCross();
  });
  function drawCross() {
    const [x, y] = [toX(cursor[0]), toY(cursor[1])];
    cross.setAttribute("d", `M${x - 3} ${y}H${x + 3}M${x} ${y - 3}V${y + 3}`);
    cross.setAttribute("visibility", "visible");
  }
  ui.listen(plane, "focusout", () => cross.setAttribute("visibility", "hidden"));

  const curve = chart(ui, {
    label: {zh: "损失随步数的变化", en: "loss over the steps"},
    height: 200,
    series: [],
    x: {label: {zh: "步数", en: "steps"}, min: 0, max: 100},
    y: {label: {zh: "损失 L", en: "loss L"}, min: 0, max: 0.8},
  });
  const cells = {};
  const ROWS = {
    steps: {zh: "步数", en: "steps"},
    loss: {zh: "损失（交叉熵）", en: "loss (cross-entropy)"},
    accuracy: {zh: "正确率", en: "accuracy"},
    parameters: {zh: "参数个数", en: "parameters"},
  };
  const list = h("dl", {class: "db-num"}, ...Object.entries(ROWS).flatMap(([name, msg]) => [ui.text(h("dt"), msg), (cells[name] = h("dd"))]));
  const panel = (msg, ...nodes) => h("div", {style: {"min-width": "0"}}, ui.text(h("div", {class: "anb-mt"}), msg), ...nodes);
  ui.figure.append(
    h(
      "div",
      {class: "db-grid"},
      panel({zh: "平面与决策边界", en: "The plane and the boundary"}, plane, h("div", {class: "anb-lg"}, ui.text(h("span"), {zh: "B 的概率", en: "probability of B"}), "0", scale, "1")),
      panel({zh: "损失", en: "Loss"}, curve.el, list),
    ),
  );

  // What changes while it learns.
  function draw() {
    const logits = forward(net, gridPoints, ACTIVATIONS[get("activation")][0]).at(-1).z,
      values = logits.map(probability);
    pixels(canvas, values, PALE, ui.theme);
    pixels(scale, Array.from({length: 64}, (_, i) => i / 63), PALE, ui.theme);
    const unit = 100 / (GRID - 1);
    border.setAttribute("d", contour(values, GRID).map(([a, b, c, d]) => `M${(a * unit).toFixed(2)} ${(b * unit).toFixed(2)}L${(c * unit).toFixed(2)} ${(d * unit).toFixed(2)}`).join(""));
    const first = net[0],
      shown = get("show_units") && net.length > 1 ? Array.from({length: first.out}, (_, o) => lineInside(first.W[2 * o], first.W[2 * o + 1], first.b[o])).filter(Boolean) : [];
    lines.replaceChildren(
      ...shown.map(([p, q]) => h("line", {x1: toX(p[0]), y1: toY(p[1]), x2: toX(q[0]), y2: toY(q[1]), stroke: "var(--ink)", "stroke-opacity": 0.55, "stroke-width": 0.5, "stroke-dasharray": "2 1.5"})),
    );
    const stride = Math.max(1, Math.ceil(history.length / 160)),
      losses = history.flatMap((loss, i) => (i % stride ? [] : [[i, loss]]));
    const all = [...losses, [done, now.loss]];
    curve.set({
      x: {max: Math.max(100, done)},
      y: {max: Math.max(0.8, ...all.map(p => p[1]).filter(Number.isFinite)) * 1.05},
      series: [{name: "L", colour: "var(--w)", points: all}],
    });
    cells.steps.textContent = String(done);
    cells.loss.textContent = few(now.loss);
    cells.accuracy.textContent = `${Math.round(1000 * now.accuracy) / 10}%`;
    cells.parameters.textContent = String(countParameters(net));
  }
  function drawPoints() {
    const own = data.length;
    marks.replaceChildren(
      ...points().map(([x, y, label], i) => {
        const props = {fill: label ? "var(--k)" : "var(--q)", stroke: i < own ? "var(--face)" : "var(--ink)", "stroke-width": i < own ? 0.5 : 0.9};
        return label
          ? h("rect", {x: toX(x) - 1.4, y: toY(y) - 1.4, width: 2.8, height: 2.8, ...props})
          : h("circle", {cx: toX(x), cy: toY(y), r: 1.6, ...props});
      }),
    );
  }

  // Training goes on frame by frame; how many steps fit into a frame changes nothing but the speed.
  function tick() {
    frameId = 0;
    const until = performance.now() + 12;
    do train(1);
    while (performance.now() < until && done < MOST);
    draw();
    if (done < MOST) frameId = requestAnimationFrame(tick);
    else pause();
  }
  function start() {
    if (running || done >= MOST) return;
    running = true;
    ui.retext();
    frameId = requestAnimationFrame(tick);
  }
  function halt() {
    running = false;
    cancelAnimationFrame(frameId);
    frameId = 0;
    ui.retext();
  }
  function settle() {
    draw();
    ui.retext();
    seen = done;
    if (get("steps") !== done) ui.set({steps: done});
    ui.say(() => { const s = status(); return s[0].toUpperCase() + s.slice(1) + ui.t({zh: "。", en: "."}); });
  }
  function pause() {
    halt();
    settle();
  }

  let made = "",
    seen = 0; // the number of steps that we wrote last: another one was asked for from outside
  function update() {
    sets.set(get("dataset"));
    activation.set(get("activation"));
    depth.set(get("depth"));
    width.set(get("width"));
    rate.set(nearest(get("learning_rate")));
    units.set(get("show_units"));
    const going = running,
      asked = get("steps");
    if (made !== netKey()) {
      made = netKey();
      halt();
      restart();
      if (asked !== seen) train(asked);
      settle();
      if (going) start();
    } else if (!going && asked !== seen) {
      if (asked < done) restart();
      train(asked - done);
      settle();
    } else {
      measure();
      if (going) draw();
      else settle();
    }
    drawPoints();
  }

  ui.watch(["dataset", "depth", "width", "activation", "learning_rate", "seed", "points", "show_units", "steps"], update);
  update();
  return () => {
    cancelAnimationFrame(frameId);
    ui.done();
  };
}

export default {render};
