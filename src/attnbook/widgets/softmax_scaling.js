import {frame, fmt, legend} from "./common.js";
import {chart} from "./chart.js";
import {h} from "./dom.js";
import {random, scientific, softmax} from "./maths.js";
import {raster} from "./raster.js";

// Why attention divides by √d_k: random queries and keys, their scores, the softmax of one row, its Jacobian.

// The draw: 32 queries and 64 keys with 512 independent standard normal features each. At d_k the first d_k
// features count, so that a longer vector continues a shorter one and moving the slider shows one draw growing.
export const QUERIES = 32,
  KEYS = 64,
  FEATURES = 512;
export const STEPS = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512];

// `count` standard normal numbers: Box-Muller, both of each pair.
export function normals(count, uniform) {
  const out = new Float64Array(count + (count % 2));
  for (let i = 0; i < count; i += 2) {
    const radius = Math.sqrt(-2 * Math.log(1 - uniform())),
      angle = 2 * Math.PI * uniform();
    out[i] = radius * Math.cos(angle);
    out[i + 1] = radius * Math.sin(angle);
  }
  return out.subarray(0, count);
}

// Feature-major: entry [f * count + i] is feature f of vector i.
export function drawVectors(seed) {
  const uniform = random(seed);
  return {q: normals(FEATURES * QUERIES, uniform), k: normals(FEATURES * KEYS, uniform)};
}

// Scores q · k (QUERIES × KEYS, flat) at each of the ascending sizes: one pass over the features.
export function scoresAt({q, k}, sizes) {
  const sum = new Float64Array(QUERIES * KEYS),
    found = new Map();
  let f = 0;
  for (const size of sizes) {
    for (; f < size; f++)
      for (let i = 0; i < QUERIES; i++) {
        const x = q[f * QUERIES + i];
        for (let j = 0, s = i * KEYS, t = f * KEYS; j < KEYS; j++) sum[s + j] += x * k[t + j];
      }
    found.set(size, sum.slice());
  }
  return found;
}

// The Jacobian of the softmax, diag(p) − p pᵀ (flat).
export function jacobian(p) {
  const n = p.length,
    J = new Float64Array(n * n);
  for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) J[i * n + j] = (i === j ? p[i] : 0) - p[i] * p[j];
  return J;
}

// What the softmax makes of n scores (from `start` on, times `factor`): the largest weight and whose it is, the
// entropy, the Frobenius norm and the largest entry of the Jacobian. Its diagonal is p_i (1 − p_i); where one p_i
// is almost 1 the difference would cancel, so 1 − p_i is taken as the sum of the others.
export function softmaxStatistics(scores, start = 0, n = scores.length, factor = 1) {
  let winner = 0;
  for (let j = 1; j < n; j++) if (scores[start + j] > scores[start + winner]) winner = j;
  let others = 0,
    weighted = 0;
  for (let j = 0; j < n; j++)
    if (j !== winner) {
      const x = factor * (scores[start + j] - scores[start + winner]),
        e = Math.exp(x);
      others += e;
      weighted += e * x;
    }
  const total = 1 + others,
    top = 1 / total,
    diagonal = top * (others / total);
  let squares = diagonal * diagonal,
    before = top * top,
    largest = diagonal;
  for (let j = 0; j < n; j++)
    if (j !== winner) {
      const p = Math.exp(factor * (scores[start + j] - scores[start + winner])) / total,
        d = p * (1 - p);
      squares += d * d + 2 * p * p * before; // the diagonal, and both triangles
      before += p * p;
      if (d > largest) largest = d;
    }
  return {winner, top, entropy: Math.log1p(others) - weighted / total, frobenius: Math.sqrt(squares), largest};
}

// Mean entropy and mean Jacobian norm: every query with every whole group of n keys.
export function means(scores, n, factor) {
  let H = 0,
    J = 0,
    count = 0;
  for (let i = 0; i < QUERIES; i++)
    for (let j = 0; j + n <= KEYS; j += n, count++) {
      const {entropy, frobenius} = softmaxStatistics(scores, i * KEYS + j, n, factor);
      H += entropy;
      J += frobenius;
    }
  return {entropy: H / count, gradient: J / count};
}

export function variance(x) {
  let sum = 0,
    squares = 0;
  for (const v of x) {
    sum += v;
    squares += v * v;
  }
  return squares / x.length - (sum / x.length) ** 2;
}

const gaussian = (x, v) => Math.exp((-x * x) / (2 * v)) / Math.sqrt(2 * Math.PI * v);
const HALF = 60; // the histogram shows scores in ±60: 99.2 % of them at d_k = 512

function render({model, el}) {
  const ui = frame(
    {model, el},
    {
      name: "softmax-scaling",
      title: {zh: "为什么要除以 √d_k", en: "Why divide by √d_k"},
      caption: {
        zh: "32 个查询和 64 个键的每个特征都独立取自标准正态分布；d_k 变大时向量接着变长，前面的特征不变。权重与雅可比矩阵属于第一个查询，曲线是 32 个查询与每 n 个键一组的平均。",
        en: "Every feature of 32 queries and 64 keys is an independent standard normal number; a larger d_k makes the same vectors longer. Weights and Jacobian belong to the first query, the curves are means over all queries and all groups of n keys.",
      },
    },
  );
  const get = name => model.get(name);
  const nearest = d =>
    STEPS.reduce((best, s, i) => (Math.abs(Math.log(s / d)) < Math.abs(Math.log(STEPS[best] / d)) ? i : best), 0);

  const size = ui.slider({
    label: {zh: "维度 d_k", en: "dimension d_k"},
    min: 0,
    max: STEPS.length - 1,
    value: nearest(get("d_k")),
    format: i => (i === nearest(get("d_k")) ? get("d_k") : STEPS[i]),
    onInput: i => ui.set({d_k: STEPS[i]}),
  });
  const keys = ui.slider({
    label: {zh: "键的个数 n", en: "number of keys n"},
    min: 2,
    max: KEYS,
    value: get("num_keys"),
    onInput: n => ui.set({num_keys: n}),
  });
  const scaled = ui.toggle({
    label: {zh: "除以 √d_k", en: "divide by √d_k"},
    value: get("scaled"),
    onChange: on => ui.set({scaled: on}),
  });
  const sorted = ui.toggle({
    label: {zh: "按权重排序", en: "sorted"},
    value: get("sort_keys"),
    onChange: on => ui.set({sort_keys: on}),
  });
  const again = ui.button({label: {zh: "重新抽样", en: "new draw"}, onClick: () => ui.set({seed: (get("seed") + 1) % 2 ** 31})});
  ui.controls.append(size.el, scaled.el, keys.el, sorted.el, again.el);

  // Everything is computed both ways: unscaled first, scaled second.
  const NAMES = [
      {zh: "不缩放", en: "unscaled"},
      {zh: "缩放", en: "scaled"},
    ],
    FACTORS = [() => 1, size => 1 / Math.sqrt(size)];
  const panel = (msg, ...nodes) => h("div", {style: {"min-width": "0"}}, ui.text(h("div", {class: "anb-mt"}), msg), ...nodes);

  const histogram = chart(ui, {
    label: {zh: "分数的直方图", en: "histogram of the scores"},
    height: 200,
    series: [],
    x: {label: {zh: "分数（softmax 的输入）", en: "score (what goes into the softmax)"}, min: -HALF, max: HALF},
    y: {label: {zh: "相对频率", en: "relative frequency"}, min: 0, max: 1.05},
  });
  const bars = chart(ui, {
    label: {zh: "第一个查询的注意力权重", en: "attention weights of the first query"},
    height: 200,
    series: [],
    x: {label: "", min: 0.5, max: 16.5},
    y: {label: {zh: "权重", en: "weight"}, min: 0, max: 1},
  });
  const overSize = (label, y) =>
    chart(ui, {
      label,
      height: 190,
      series: [],
      y,
      x: {label: {zh: "维度 d_k（对数刻度）", en: "dimension d_k (log scale)"}, min: 1, max: FEATURES, log: true},
    });
  const entropies = overSize(
    {zh: "平均熵随 d_k 的变化", en: "mean entropy over d_k"},
    {label: {zh: "熵 / ln n", en: "entropy / ln n"}, min: 0, max: 1},
  );
  const gradients = overSize(
    {zh: "平均梯度随 d_k 的变化", en: "mean gradient over d_k"},
    {label: "‖diag(p) − ppᵀ‖", min: 0, max: 0.5},
  );

  const square = raster(ui, {
    rows: 2,
    cols: 2,
    scale: {map: "diverging", min: -0.25, max: 0.25},
    width: "230px",
    height: "230px",
    label: {zh: "softmax 的雅可比矩阵 diag(p) − ppᵀ", en: "Jacobian of the softmax, diag(p) − ppᵀ"},
    rowAxis: {zh: "权重 p_i ↓", en: "weight p_i ↓"},
    colAxis: {zh: "分数 e_j →", en: "score e_j →"},
    describe: (i, j, v) => `∂p${i + 1}/∂e${j + 1} = ${fmt(v, 4)}`,
  });

  // The same numbers unscaled and scaled, side by side.
  const ROWS = {
    variance: {zh: "分数的方差，抽样", en: "variance of the scores, measured"},
    theory: {zh: "分数的方差，理论", en: "variance of the scores, in theory"},
    top: {zh: "最大的权重", en: "largest weight"},
    entropy: () =>
      ui.t({zh: "熵（最大 ", en: "entropy (at most "}) +
      `ln ${get("num_keys")} = ${fmt(Math.log(get("num_keys")))}` +
      ui.t({zh: "）", en: ")"}),
    frobenius: {zh: "梯度 ‖diag(p) − ppᵀ‖（Frobenius 范数）", en: "gradient ‖diag(p) − ppᵀ‖ (Frobenius)"},
    largest: {zh: "其中最大的元素（最多 0.25）", en: "its largest entry (at most 0.25)"},
  };
  const cells = {},
    heads = NAMES.map(name => ui.text(h("th", {scope: "col"}), name));
  const style = {
    border: "0",
    "border-bottom": "1px solid var(--line)",
    padding: "4px 4px",
    "text-align": "end",
    "font-variant-numeric": "tabular-nums",
    "vertical-align": "bottom",
  };
  const dress = node => {
    for (const [key, value] of Object.entries(style)) node.style.setProperty(key, value);
    return node;
  };
  const table = h(
    "table",
    {
      style: {
        "border-collapse": "collapse",
        width: "100%",
        "font-size": "13px",
        "line-height": "1.4",
        margin: "0",
        display: "table",
      },
    },
    h("thead", {}, h("tr", {}, dress(h("td")), ...heads.map(dress))),
    h(
      "tbody",
      {},
      ...Object.entries(ROWS).map(([key, msg]) => {
        cells[key] = NAMES.map(() => dress(h("td")));
        const head = dress(ui.text(h("th", {scope: "row"}), msg));
        head.style.textAlign = "start";
        head.style.fontWeight = "400";
        return h("tr", {}, head, ...cells[key]);
      }),
    ),
  );

  ui.figure.append(
    h(
      "div",
      {style: {display: "grid", "grid-template-columns": "repeat(auto-fit, minmax(min(100%, 290px), 1fr))", gap: "16px 24px"}},
      panel({zh: "分数 q·k 的分布", en: "Distribution of the scores q·k"}, histogram.el),
      panel({zh: "一个查询的注意力权重", en: "Attention weights of one query"}, bars.el),
      panel(
        {zh: "梯度：softmax 的雅可比矩阵", en: "Gradient: the Jacobian of the softmax"},
        square.el,
        legend(ui, {map: "diverging", min: -0.25, max: 0.25, label: {zh: "∂p_i/∂e_j", en: "∂p_i/∂e_j"}}).el,
      ),
      panel({zh: "同一次抽样的两种算法", en: "The same draw, both ways"}, table),
      panel({zh: "权重有多平均", en: "How even the weights are"}, entropies.el),
      panel({zh: "能学到多少", en: "How much gradient is left"}, gradients.el),
    ),
  );

  // The draw depends on the seed only, the curves on seed and n only: both are kept.
  let drawn, curves;
  function prepare(d, n) {
    if (drawn?.seed !== get("seed")) {
      const vectors = drawVectors(get("seed"));
      drawn = {seed: get("seed"), vectors, at: scoresAt(vectors, STEPS)};
      curves = null;
    }
    if (!drawn.at.has(d)) drawn.at.set(d, scoresAt(drawn.vectors, [d]).get(d));
    if (curves?.n === n) return {};
    const found = FACTORS.map(factor => STEPS.map(size => means(drawn.at.get(size), n, factor(size))));
    curves = {n};
    const series = (key, unit) => ({
      series: NAMES.map((name, i) => ({
        name,
        colour: `var(--s${2 - i})`,
        dash: i ? null : "6 4",
        points: STEPS.map((size, s) => [size, found[i][s][key] / unit]),
      })),
    });
    return {entropy: series("entropy", Math.log(n)), gradient: series("gradient", 1)};
  }

  function update() {
    const d = get("d_k"),
      n = get("num_keys"),
      on = Number(get("scaled")),
      sorting = get("sort_keys");
    size.set(nearest(d));
    keys.set(n);
    scaled.set(get("scaled"));
    sorted.set(sorting);
    const fresh = prepare(d, n),
      scores = drawn.at.get(d),
      factors = FACTORS.map(f => f(d));
    const found = factors.map(factor => softmaxStatistics(scores, 0, n, factor)),
      {winner, top} = found[on];

    const v = on ? 1 : d,
      other = on ? d : 1,
      bin = Math.max(1, Math.sqrt(v) / 3),
      counts = new Map();
    for (const s of scores) {
      const x = Math.round((s * factors[on]) / bin);
      counts.set(x, (counts.get(x) ?? 0) + 1 / scores.length / bin);
    }
    const peak = Math.max(gaussian(0, v), ...counts.values());
    const curve = (w, high) => Array.from({length: 4 * HALF + 1}, (_, i) => -HALF + i / 2).map(x => [x, gaussian(x, w) / high]);
    histogram.set({
      series: [
        {
          name: {zh: `${scores.length} 个分数`, en: `${scores.length} scores`},
          kind: "bar",
          colour: "var(--w)",
          width: bin,
          opacity: 0.55,
          points: [...counts].map(([x, c]) => [x * bin, c / peak]).filter(([x]) => Math.abs(x) <= HALF - bin / 2),
        },
        {name: `N(0, ${v})`, colour: "var(--ink)", points: curve(v, peak)},
        ...(other === v
          ? []
          : [
              {
                name: () => `N(0, ${other}): ${ui.t(NAMES[1 - on])}`,
                colour: "var(--s2)",
                dash: "3 4",
                points: curve(other, gaussian(0, other)),
              },
            ]),
      ],
    });

    const p = softmax([...scores.subarray(0, n)].map(x => x * factors[on])),
      order = p.map((_, j) => j);
    if (sorting) order.sort((a, b) => p[b] - p[a]);
    const points = order.map((j, x) => [x + 1, p[j]]),
      best = order.indexOf(winner);
    bars.set({
      x: {label: sorting ? {zh: "名次", en: "rank"} : {zh: "键 key", en: "key"}, max: n + 0.5},
      series: [
        {
          name: {zh: "权重", en: "weight"},
          kind: "bar",
          width: 1,
          colour: "var(--w)",
          points: points.filter((_, x) => x !== best),
        },
        {
          name: {zh: `最大：键 ${winner + 1}，${fmt(top)}`, en: `largest: key ${winner + 1}, ${fmt(top)}`},
          kind: "bar",
          width: 1,
          colour: "var(--k)",
          opacity: 1,
          points: [points[best]],
        },
        {
          name: `1/n = ${fmt(1 / n, 3)}`,
          colour: "var(--ink)",
          dash: "3 4",
          points: [
            [0.5, 1 / n],
            [n + 0.5, 1 / n],
          ],
        },
      ],
    });
    square.set(jacobian(p), {rows: n, cols: n});

    factors.forEach((factor, c) => {
      const write = (key, text) => {
        cells[key][c].textContent = text;
      };
      write("variance", significant(variance(scores) * factor ** 2));
      write("theory", String(c ? 1 : d));
      write("top", fmt(found[c].top, 3));
      write("entropy", fmt(found[c].entropy, 3));
      write("frobenius", significant(found[c].frobenius));
      write("largest", significant(found[c].largest));
      for (const node of [heads[c], ...Object.values(cells).map(pair => pair[c])]) {
        node.style.fontWeight = on === c ? "700" : "400";
        node.style.background = on === c ? "var(--soft)" : "transparent";
      }
    });
    entropies.set({...fresh.entropy, marker: d});
    gradients.set({...fresh.gradient, marker: d});
    ui.say(() => sentence(ui.lang, d, n, on, found));
  }

  ui.watch(["d_k", "scaled", "num_keys", "seed", "sort_keys"], update);
  update();
  return ui.done;
}

// Three significant digits; very small numbers with a power of ten.
const significant = x => (x !== 0 && x < 0.001 ? scientific(x) : fmt(x, x >= 100 ? 0 : x >= 10 ? 1 : x >= 1 ? 2 : 3));

// What is seen, in words. found: the statistics of the first query, unscaled and scaled; on: which of them is shown (0, 1).
export function sentence(lang, d, n, on, found) {
  const {winner, top, entropy, frobenius} = found[on],
    r = frobenius / found[1 - on].frobenius;
  const most = `ln ${n} = ${fmt(Math.log(n))}`;
  const same = Math.abs(r - 1) < 0.005,
    size = r >= 1 ? fmt(r, r < 10 ? 1 : 0) : r > 0.1 ? `${Math.round(100 * r)}%` : `1/${Math.min(10000, Math.round(1 / r))}`,
    tiny = r < 1e-4;
  if (lang === "zh") {
    const other = on ? "不缩放" : "缩放",
      gradient = same
        ? `与${other}时相同`
        : r >= 1
          ? `是${other}时的 ${size} 倍`
          : `${tiny ? "不到" : "只有"}${other}时的 ${size}`;
    return `${on ? "缩放" : "不缩放"}，d_k = ${d}：最大的权重 ${fmt(top)} 归键 ${winner + 1}；熵 ${fmt(entropy)}，最多是 ${most}。梯度${gradient}。`;
  }
  const other = on ? "unscaled" : "scaled",
    gradient = same
      ? `as large as the ${other} one`
      : `${r >= 1 ? `${size} times` : `${tiny ? "less than " : ""}${size} of`} the ${other} one`;
  return `${on ? "Scaled" : "Unscaled"}, d_k = ${d}: key ${winner + 1} takes ${fmt(top)} of the weight; the entropy is ${fmt(entropy)} of at most ${most}. The gradient is ${gradient}.`;
}

export default {render};
