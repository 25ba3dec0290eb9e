import {frame, fmt} from "./common.js";
import {chart} from "./chart.js";
import {h} from "./dom.js";
import {normal, random, scientific} from "./maths.js";

// How gradients flow back through time: the Jacobians of an RNN and of an LSTM, multiplied in the page.
// Matrices are flat, row by row, N × N.
export const N = 12,
  LONGEST = 100;
const CELLS = N * N;

const logistic = z => 1 / (1 + Math.exp(-z));
// f, its derivative at the pre-activation z, and the derivative's largest value γ.
export const ACTIVATIONS = {
  tanh: {name: "tanh", f: Math.tanh, d: z => 1 - Math.tanh(z) ** 2, gamma: 1},
  sigmoid: {name: "sigmoid", f: logistic, d: z => logistic(z) * (1 - logistic(z)), gamma: 0.25},
  relu: {name: "ReLU", f: z => Math.max(0, z), d: z => (z > 0 ? 1 : 0), gamma: 1},
  identity: {name: {zh: "恒等", en: "identity"}, f: z => z, d: () => 1, gamma: 1},
};

export function multiply(A, B) {
  const C = new Float64Array(CELLS);
  for (let i = 0; i < N; i++)
    for (let k = 0; k < N; k++) {
      const a = A[i * N + k];
      if (a) for (let j = 0; j < N; j++) C[i * N + j] += a * B[k * N + j];
    }
  return C;
}
// A Aᵀ, and so the square of a symmetric A.
function gram(A) {
  const G = new Float64Array(CELLS);
  for (let i = 0; i < N; i++)
    for (let j = i; j < N; j++) {
      let sum = 0;
      for (let k = 0; k < N; k++) sum += A[i * N + k] * A[j * N + k];
      G[i * N + j] = G[j * N + i] = sum;
    }
  return G;
}
const frobenius = A => Math.sqrt(A.reduce((sum, x) => sum + x * x, 0));

// ρ(A) as the limit of ‖A^m‖^(1/m): A is squared 24 times, its size kept apart.
export function spectralRadius(A) {
  let log = 0;
  for (let s = 0; s <= 24; s++) {
    const size = frobenius(A);
    if (!size) return 0;
    log += Math.log(size) / 2 ** s;
    A = A.map(x => x / size);
    A = multiply(A, A);
  }
  return Math.exp(log);
}

// ‖A‖₂: a row of (A Aᵀ)^64 points where Aᵀ stretches most; by how much is the norm.
export function spectralNorm(A) {
  const size = frobenius(A);
  if (!size) return 0;
  const B = A.map(x => x / size);
  let M = gram(B);
  for (let s = 0; s < 6; s++) {
    const top = frobenius(M);
    for (let at = 0; at < CELLS; at++) M[at] /= top;
    M = gram(M);
  }
  let best = 0;
  for (let i = 0; i < N; i++) {
    let before = 0,
      after = 0;
    for (let j = 0; j < N; j++) {
      let sum = 0;
      for (let r = 0; r < N; r++) sum += M[i * N + r] * B[r * N + j];
      after += sum * sum;
      before += M[i * N + j] ** 2;
    }
    if (before > 0) best = Math.max(best, after / before);
  }
  return size * Math.sqrt(best);
}

// The draw: five recurrent matrices of spectral radius 1 (the RNN's, then the LSTM's i, f, g, o), and 4 N normal
// numbers for each step, of which the RNN uses the first N.
export function drawNetworks(seed, matrix) {
  const uniform = random(seed),
    numbers = count => Float64Array.from({length: count}, () => normal(uniform));
  const matrices = Array.from({length: 5}, () => {
    const A = numbers(CELLS);
    if (matrix === "random") {
      const radius = spectralRadius(A);
      return A.map(x => x / radius);
    }
    for (let i = 0; i < N; i++) {
      const row = A.subarray(i * N, i * N + N);
      for (const again of [0, 1])  // twice is exact
        for (let r = 0; r < i; r++) {
          const other = A.subarray(r * N, r * N + N),
            share = row.reduce((sum, x, j) => sum + x * other[j], 0);
          row.forEach((x, j) => (row[j] = x - share * other[j]));
        }
      const size = Math.hypot(...row);
      row.forEach((x, j) => (row[j] = x / size));
    }
    return A;
  });
  return {matrices, inputs: numbers(LONGEST * 4 * N)};
}

const times = (A, x) => Array.from({length: N}, (_, i) => x.reduce((sum, v, j) => sum + A[i * N + j] * v, 0));

// ‖∂h_T/∂h_k‖₂ for T − k = 0 … T, and the mean of σ'.
export function rnnFlow({matrices, inputs}, {radius, length, activation, strength}) {
  const {f, d} = ACTIVATIONS[activation],
    W = matrices[0].map(x => radius * x),
    slopes = [];
  let state = new Array(N).fill(0);
  for (let t = 0; t < length; t++) {
    const z = times(W, state).map((x, i) => x + strength * inputs[t * 4 * N + i]);
    state = z.map(f);
    slopes.push(z.map(d));
  }
  let P = Float64Array.from({length: CELLS}, (_, at) => (at % (N + 1) ? 0 : 1));
  const norms = [1];
  for (let t = length - 1; t >= 0; t--) {
    P = multiply(P.map((x, at) => x * slopes[t][at % N]), W);  // P diag(σ'(z_t)) W
    norms.push(spectralNorm(P));
  }
  return {norms, norm: spectralNorm(W), mean: slopes.flat().reduce((a, b) => a + b, 0) / (length * N)};
}

// ‖∂c_T/∂c_k‖₂ through every path, the direct path's share max Π f, and the mean forget gate.
export function lstmFlow({matrices, inputs}, {radius, length, strength, forget_bias}) {
  const U = matrices.slice(1).map(A => A.map(x => radius * x)),
    steps = [];
  let state = new Array(N).fill(0),
    cell = new Array(N).fill(0),
    gates = 0;
  for (let t = 0; t < length; t++) {
    const [i, f, g, o] = U.map((A, gate) =>
      times(A, state).map((x, n) => {
        const z = x + strength * inputs[(t * 4 + gate) * N + n] + (gate === 1 ? forget_bias : 0);
        return gate === 2 ? Math.tanh(z) : logistic(z);
      }),
    );
    const before = cell;
    cell = before.map((c, n) => f[n] * c + i[n] * g[n]);
    const shown = cell.map(Math.tanh);
    state = shown.map((s, n) => o[n] * s);
    gates += f.reduce((a, b) => a + b, 0);
    // the four factors in front of U_i, U_f, U_g in ∂c/∂h, and of U_o in ∂h/∂h; ∂h/∂c is `out`
    steps.push({
      f,
      out: shown.map((s, n) => o[n] * (1 - s * s)),
      factors: [
        i.map((x, n) => g[n] * x * (1 - x)),
        f.map((x, n) => before[n] * x * (1 - x)),
        g.map((x, n) => i[n] * (1 - x * x)),
        o.map((x, n) => shown[n] * x * (1 - x)),
      ],
    });
  }
  // Rows of ∂c_T/∂(c_k, h_k), from k = T back.
  let C = Float64Array.from({length: CELLS}, (_, at) => (at % (N + 1) ? 0 : 1)),
    H = new Float64Array(CELLS);
  const norms = [1],
    direct = [1],
    kept = new Array(N).fill(1);
  for (let t = length - 1; t >= 0; t--) {
    const {f, out, factors} = steps[t];
    const total = C.map((c, at) => c + H[at] * out[at % N]);  // what reaches c_t, directly and through h_t
    const next = new Float64Array(CELLS);
    factors.forEach((factor, gate) => {
      const part = multiply((gate === 3 ? H : total).map((x, at) => x * factor[at % N]), U[gate]);
      part.forEach((x, at) => (next[at] += x));
    });
    C = total.map((x, at) => x * f[at % N]);
    H = next;
    f.forEach((x, n) => (kept[n] *= x));
    norms.push(spectralNorm(C));
    direct.push(Math.max(...kept));
  }
  return {norms, direct, mean: gates / (length * N)};
}

// The part of a line that lies between y = low and y = high, with its crossing points.
export function clipLine(points, low, high) {
  const out = [];
  points.forEach(([x, y], i) => {
    if (i) {
      const [x0, y0] = points[i - 1];
      const crossings = [low, high].filter(edge => (y0 - edge) * (y - edge) < 0).map(edge => [x0 + ((edge - y0) / (y - y0)) * (x - x0), edge]);
      out.push(...crossings.sort((a, b) => a[0] - b[0]));
    }
    if (y >= low && y <= high) out.push([x, y]);
  });
  return out;
}

const DIGITS = "⁰¹²³⁴⁵⁶⁷⁸⁹";
const power = v => (v === 0 ? "1" : `10${String(v).replace(/./g, c => (c === "-" ? "⁻" : c === "." ? "·" : DIGITS[c]))}`);
const significant = x => (x !== 0 && (x < 0.001 || x >= 1e5) ? scientific(x) : fmt(x, x >= 100 ? 0 : x >= 10 ? 1 : x >= 1 ? 2 : 3));

function render({model, el}) {
  const ui = frame(
    {model, el},
    {
      name: "gradient-flow",
      title: {zh: "梯度往回走多远", en: "How far back a gradient flows"},
      caption: {
        zh: "两个网络各有 12 个单元，权重与输入由同一个种子抽取。谱半径用在 RNN 的 W_hh 和 LSTM 的四个循环矩阵上；激活函数只换 RNN 的。两行色块是同样的数，每格一步：颜色越鲜明，剩得越多。",
        en: "Both networks have 12 units; one seed draws weights and inputs. The spectral radius is that of the RNN's W_hh and of the LSTM's four recurrent matrices; the activation is the RNN's only. The two rows of cells hold the same numbers, one for each step: the stronger the colour, the more is left.",
      },
    },
  );
  const get = name => model.get(name);
  const slider = (name, label, min, max, step, digits) =>
    ui.slider({label, min, max, step, value: get(name), format: () => fmt(get(name), digits), onInput: v => ui.set({[name]: v})});
  const sliders = {
    radius: slider("radius", {zh: "谱半径 ρ", en: "spectral radius ρ"}, 0.1, 2, 0.05, 2),
    length: slider("length", {zh: "步数 T", en: "steps T"}, 5, LONGEST, 1, 0),
    strength: slider("strength", {zh: "输入强度", en: "input strength"}, 0, 2, 0.1, 1),
    forget_bias: slider("forget_bias", {zh: "LSTM 遗忘门偏置", en: "LSTM forget bias"}, -2, 5, 0.5, 1),
  };
  const activation = ui.segmented({
    label: {zh: "RNN 的激活函数", en: "activation of the RNN"},
    options: Object.entries(ACTIVATIONS).map(([key, {name}]) => [key, name]),
    value: get("activation"),
    onChange: v => ui.set({activation: v}),
  });
  const matrix = ui.segmented({
    label: {zh: "循环矩阵", en: "recurrent matrices"},
    options: [
      ["random", {zh: "随机", en: "random"}],
      ["orthogonal", {zh: "正交", en: "orthogonal"}],
    ],
    value: get("matrix"),
    onChange: v => ui.set({matrix: v}),
  });
  const again = ui.button({label: {zh: "重新抽样", en: "new draw"}, onClick: () => ui.set({seed: (get("seed") + 1) % 2 ** 31})});
  ui.controls.append(sliders.radius.el, sliders.length.el, activation.el, matrix.el, sliders.strength.el, sliders.forget_bias.el, again.el);

  const lines = chart(ui, {
    label: {zh: "梯度的大小随往回走的步数变化", en: "size of the gradient against the number of steps back"},
    height: 280,
    series: [],
    x: {label: {zh: "往回走的步数 T − k", en: "steps back T − k"}, min: 0, max: 50},
    y: {label: {zh: "梯度（对数刻度）", en: "gradient (log scale)"}, min: -10, max: 1, format: power},
  });

  // The same numbers as two rows of cells, one for each step back.
  const strip = ui.attr(h("svg", {class: "anb-ch", role: "img", height: 74}), "aria-label", {
    zh: "每往回一步剩下的梯度，颜色越深剩得越多",
    en: "gradient that is left at each step back; the stronger the colour, the more",
  });
  let width = 0,
    shown = null;
  const SCALE = 8; // decades
  function drawStrip() {
    if (!width || !shown) return;
    const left = 52,
      inner = width - left - 10,
      count = shown[0].length;
    strip.replaceChildren(
      ...["RNN", "LSTM"].map((name, row) => h("text", {x: left - 6, y: 22 + 32 * row, "text-anchor": "end"}, name)),
      ...shown.flatMap((norms, row) =>
        norms.map((x, k) => {
          const strength = Math.max(0, Math.min(1, 1 + Math.log10(Math.max(x, 1e-300)) / SCALE));
          return h("rect", {
            x: left + (inner * k) / count,
            y: 4 + 32 * row,
            width: Math.max(0.5, inner / count - (count < 60 ? 1 : 0)),
            height: 28,
            fill: ui.colour("sequential", strength, 0, 1),
          });
        }),
      ),
    );
  }
  ui.onResize(strip, w => {
    width = w;
    drawStrip();
  });

  const ROWS = {
    radius: {zh: "谱半径 ρ", en: "spectral radius ρ"},
    norm: {zh: "谱范数 ‖W_hh‖₂", en: "spectral norm ‖W_hh‖₂"},
    bound: {zh: "每步上界 γ‖W_hh‖₂", en: "bound per step γ‖W_hh‖₂"},
    factor: {zh: "每步平均乘上", en: "mean factor per step"},
    end: {zh: "T 步之后剩下", en: "left after T steps"},
    mean: {zh: "平均 σ′；平均遗忘门", en: "mean σ′; mean forget gate"},
  };
  const cells = {},
    cell = (tag, ...children) =>
      h(tag, {style: {border: "0", "border-bottom": "1px solid var(--line)", padding: "3px 6px", "text-align": "end", "font-variant-numeric": "tabular-nums"}}, ...children);
  const table = h(
    "table",
    {style: {"border-collapse": "collapse", width: "100%", "font-size": "13px", "line-height": "1.4", margin: "0", display: "table"}},
    h("thead", {}, h("tr", {}, cell("td"), ...["RNN", "LSTM"].map(name => cell("th", name)))),
    h(
      "tbody",
      {},
      ...Object.entries(ROWS).map(([key, msg]) => {
        const head = ui.text(cell("th"), msg);
        head.scope = "row";
        Object.assign(head.style, {textAlign: "start", fontWeight: "400"});
        cells[key] = [cell("td"), cell("td")];
        return h("tr", {}, head, ...cells[key]);
      }),
    ),
  );
  table.querySelectorAll("thead th").forEach(node => (node.scope = "col"));
  ui.figure.append(lines.el, strip, h("div", {style: {"max-width": "460px", "margin-top": "8px"}}, table));

  let drawn;
  function update() {
    for (const [name, control] of Object.entries(sliders)) control.set(get(name));
    activation.set(get("activation"));
    matrix.set(get("matrix"));
    if (drawn?.seed !== get("seed") || drawn.matrix !== get("matrix"))
      drawn = {seed: get("seed"), matrix: get("matrix"), networks: drawNetworks(get("seed"), get("matrix"))};
    const traits = Object.fromEntries(["radius", "length", "activation", "strength", "forget_bias"].map(name => [name, get(name)]));
    const rnn = rnnFlow(drawn.networks, traits),
      lstm = lstmFlow(drawn.networks, traits),
      T = traits.length,
      {gamma} = ACTIVATIONS[traits.activation],
      bound = gamma * rnn.norm;

    const logs = norms => norms.map((x, k) => [k, Math.log10(x)]).filter(p => Number.isFinite(p[1]));
    const measured = [logs(rnn.norms), logs(lstm.norms)],
      ys = measured.flat().map(p => p[1]),
      line = base => [
        [0, 0],
        [T, T * Math.log10(base)],
      ];
    // The bounds may run far away: the frame leaves them a few decades around what was measured.
    const ends = [T * Math.log10(bound), T * Math.log10(traits.radius)];
    const low = Math.floor(Math.max(Math.min(...ys, ...ends), Math.min(...ys) - 4, -40)) - 1,
      high = Math.ceil(Math.min(Math.max(...ys, ...ends), Math.max(...ys) + 4)) + 1;
    const series = (name, points, more) => ({name, points: clipLine(points, low, high), ...more});
    lines.set({
      x: {max: T},
      y: {min: low, max: high},
      series: [
        series("RNN ‖∂h_T/∂h_k‖", measured[0], {colour: "var(--s1)"}),
        series({zh: "RNN 的上界 (γ‖W_hh‖₂)ᵀ⁻ᵏ", en: "RNN's bound (γ‖W_hh‖₂)ᵀ⁻ᵏ"}, line(bound), {colour: "var(--s1)", dash: "7 4"}),
        series("ρᵀ⁻ᵏ", line(traits.radius), {colour: "var(--dim)", dash: "2 3"}),
        series("LSTM ‖∂c_T/∂c_k‖", measured[1], {colour: "var(--s2)"}),
        series({zh: "LSTM 的直通路 Πf", en: "LSTM's direct path Πf"}, logs(lstm.direct), {colour: "var(--s2)", dash: "7 4"}),
      ],
    });
    shown = [rnn.norms, lstm.norms];
    drawStrip();

    [rnn, lstm].forEach((network, c) => {
      const write = (key, text) => (cells[key][c].textContent = text);
      write("radius", fmt(traits.radius));
      write("norm", c ? "–" : fmt(rnn.norm));
      write("bound", c ? "–" : fmt(bound));
      write("factor", fmt(network.norms[T] ** (1 / T), 3));
      write("end", significant(network.norms[T]));
      write("mean", fmt(network.mean, 3));
    });
    ui.say(() => sentence(ui.lang, T, bound, rnn.norms[T], lstm.norms[T]));
  }

  ui.watch(["radius", "length", "activation", "matrix", "strength", "forget_bias", "seed"], update);
  update();
  return ui.done;
}

// What is seen, in words. bound: γ‖W_hh‖₂; rnn, lstm: what is left after T steps.
export function sentence(lang, T, bound, rnn, lstm) {
  const zh = lang === "zh",
    left = significant(rnn),
    kept = significant(lstm);
  const fate = rnn < 0.01 ? 0 : rnn > 100 ? 2 : 1;
  const law =
    bound < 1
      ? zh
        ? `γ‖W_hh‖₂ = ${fmt(bound)} < 1，消失是必然的。`
        : `γ‖W_hh‖₂ = ${fmt(bound)} < 1, so it must vanish.`
      : zh
        ? `γ‖W_hh‖₂ = ${fmt(bound)} ≥ 1，理论上消失与爆炸都有可能。`
        : `γ‖W_hh‖₂ = ${fmt(bound)} ≥ 1, so in theory it may vanish or explode.`;
  const verdict = zh ? ["消失了", "还在", "爆炸了"][fate] : ["vanished", "survived", "exploded"][fate];
  return zh
    ? `往回 ${T} 步，RNN 的梯度${verdict}，是起点的 ${left} 倍。${law}LSTM 细胞状态的梯度是起点的 ${kept} 倍。`
    : `Over ${T} steps back the RNN's gradient has ${verdict}: ${left} times what it was. ${law} That of the LSTM's cell is ${kept} times what it was.`;
}
export default {render};
