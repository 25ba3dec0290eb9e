import {frame, fmt, legend} from "./common.js";
import {chart} from "./chart.js";
import {h} from "./dom.js";
import {dot, scientific} from "./maths.js";
import {matrix} from "./matrix.js";
import {raster} from "./raster.js";

// Sinusoidal and rotary positions as clocks: the same maths as attnbook.position.

export const frequencies = (d, base) => Array.from({length: d / 2}, (_, i) => base ** ((-2 * i) / d));

// [sin ω₀p, cos ω₀p, sin ω₁p, cos ω₁p, …]
export const encode = (position, d, base) => frequencies(d, base).flatMap(w => [Math.sin(w * position), Math.cos(w * position)]);

// M(k) with encode(p + k) = M(k) encode(p), flat, row after row: blocks [[cos ωk, sin ωk], [−sin ωk, cos ωk]].
export function rotationMatrix(k, d, base) {
  const M = new Array(d * d).fill(0);
  frequencies(d, base).forEach((w, i) => {
    const c = Math.cos(w * k),
      s = Math.sin(w * k),
      at = 2 * i * (d + 1);
    M[at] = c;
    M[at + 1] = s;
    M[at + d] = -s;
    M[at + d + 1] = c;
  });
  return M;
}
export const multiply = (M, x) => x.map((_, r) => dot(M.slice(r * x.length, (r + 1) * x.length), x));

// The two features of pair i: neighbours, or one from each half.
export const pairOf = (i, d, interleaved) => (interleaved ? [2 * i, 2 * i + 1] : [i, i + d / 2]);

// RoPE: pair i of x turned by ω_i · position.
export function rotary(x, position, base, interleaved) {
  const out = [...x];
  frequencies(x.length, base).forEach((w, i) => {
    const [a, b] = pairOf(i, x.length, interleaved),
      c = Math.cos(w * position),
      s = Math.sin(w * position);
    out[a] = x[a] * c - x[b] * s;
    out[b] = x[a] * s + x[b] * c;
  });
  return out;
}
export const rotaryScore = (q, k, m, n, base, interleaved) =>
  dot(rotary(q, m, base, interleaved), rotary(k, n, base, interleaved));

// A query and a key that fit each other, in 16 features; d_model takes the first of them.
export const QUERY = [0.9, 0.5, -0.6, 0.8, 0.7, -0.4, 0.3, 0.9, -0.5, 0.6, 0.8, 0.2, -0.7, 0.5, 0.4, -0.8];
export const KEY = [0.8, 0.7, -0.3, 0.9, 0.9, -0.1, 0.5, 0.6, -0.7, 0.4, 0.6, 0.5, -0.4, 0.8, 0.6, -0.6];

const LAST = 32; // the largest position and offset
const ROWS = 2 * LAST + 1;

// One dial: hands are vectors of length ≤ 1, the first component to the right, the second upwards.
function dial(ui, right, up) {
  const X = 82,
    Y = 80,
    R = 56;
  const line = (colour, dash, width) =>
    h("line", {x1: X, y1: Y, stroke: colour, "stroke-width": width, "stroke-linecap": "round", "stroke-dasharray": dash});
  const text = (x, y, props = {}) => h("text", {x, y, "text-anchor": "middle", "font-size": 11.5, ...props});
  const hands = [
    line("var(--q)", null, 1.5),
    line("var(--k)", "2 3", 1.5),
    line("var(--q)", null, 3.5),
    line("var(--k)", "6 4", 3.5),
  ];
  const tips = [
    h("circle", {r: 5, fill: "var(--q)"}),
    h("circle", {r: 5, fill: "var(--face)", stroke: "var(--k)", "stroke-width": 3}),
  ];
  const drops = [0, 1].map(() => h("line", {stroke: "var(--q)", "stroke-width": 1, "stroke-dasharray": "2 2"}));
  const arc = h("polyline", {fill: "none", stroke: "var(--w)", "stroke-width": 2, "stroke-opacity": 0.9});
  const arrow = h("path", {fill: "var(--w)"});
  const axes = [text(X + R + 19, Y + 4), text(X, Y - R - 10)],
    lines = [0, 1, 2].map(i => text(X, Y + R + 18 + 15 * i));
  lines[0].setAttribute("font-weight", 650);
  lines[0].style.fill = "var(--ink)";
  const svg = h(
    "svg",
    {class: "anb-ch", role: "img", viewBox: "-4 0 172 190", style: {"max-width": "190px", margin: "0 auto"}},
    h("circle", {cx: X, cy: Y, r: R, fill: "var(--soft)", stroke: "var(--line)"}),
    h("line", {x1: X - R, x2: X + R, y1: Y, y2: Y, stroke: "var(--line)"}),
    h("line", {x1: X, x2: X, y1: Y - R, y2: Y + R, stroke: "var(--line)"}),
    ...drops,
    arc,
    arrow,
    ...hands,
    ...tips,
    h("circle", {cx: X, cy: Y, r: 3, fill: "var(--ink)"}),
    ...axes,
    ...lines,
  );
  const place = ([x, y]) => [X + R * x, Y - R * y];
  const put = (node, names, values) => names.forEach((name, i) => node.setAttribute(name, values[i].toFixed(2)));
  const point = (node, at) => {
    node.style.display = at ? "" : "none";
    if (at) put(node, ["x2", "y2"], place(at));
  };
  return {
    el: svg,
    // strong: the two hands; faint: the same before turning; turn: {from, by} an arc in radians; words: up to three lines; names of the axes
    set({strong, faint = [], turn, words, names = [right, up], describe}) {
      strong.forEach((at, i) => {
        point(hands[2 + i], at);
        put(tips[i], ["cx", "cy"], place(at));
      });
      [0, 1].forEach(i => point(hands[i], faint[i]));
      const [x, y] = place(strong[0]);
      put(drops[0], ["x1", "y1", "x2", "y2"], [x, y, x, Y]);
      put(drops[1], ["x1", "y1", "x2", "y2"], [x, y, X, y]);
      for (const node of drops) node.style.display = faint.length ? "none" : "";
      arc.style.display = turn ? "" : "none";
      arrow.style.display = turn && Math.abs(turn.by) > 0.4 ? "" : "none";
      if (turn) {
        // more than one turn is drawn as a spiral
        const steps = Math.max(2, Math.ceil(Math.abs(turn.by) / 0.15)),
          grow = Math.min(3.2, 26 / (Math.abs(turn.by) / 2 / Math.PI || 1));
        const at = f => {
          const a = turn.from + f * turn.by,
            r = 16 + (grow * Math.abs(f * turn.by)) / 2 / Math.PI;
          return [X + r * Math.cos(a), Y - r * Math.sin(a)];
        };
        arc.setAttribute(
          "points",
          Array.from({length: steps + 1}, (_, i) =>
            at(i / steps)
              .map(v => v.toFixed(1))
              .join(),
          ).join(" "),
        );
        const [ax, ay] = at(1),
          sign = Math.sign(turn.by),
          a = turn.from + turn.by,
          along = [-Math.sin(a) * sign, -Math.cos(a) * sign],
          out = [Math.cos(a), -Math.sin(a)];
        const corner = (f, g) => `${(ax + f * along[0] + g * out[0]).toFixed(1)} ${(ay + f * along[1] + g * out[1]).toFixed(1)}`;
        arrow.setAttribute("d", `M${corner(4, 0)}L${corner(-4, 4)}L${corner(-4, -4)}Z`);
      }
      axes.forEach((node, i) => ui.text(node, names[i]));
      lines.forEach((node, i) => ui.text(node, words[i] ?? ""));
      ui.attr(svg, "aria-label", describe);
    },
  };
}

const sub = n =>
  String(n)
    .replace(/\d/g, c => "₀₁₂₃₄₅₆₇₈₉"[c])
    .replace("-", "₋");
const VECTORS = ["PEₚₒₛ", "M(k)·PEₚₒₛ", "PEₚₒₛ₊ₖ"],
  TURNED = ["q", "qₘ", "k", "kₙ"];
const short = w => String(Number(w.toPrecision(3)));
const degrees = a => fmt((a * 180) / Math.PI, Math.abs(a) < 0.17 ? 1 : 0);

function render({model, el}) {
  const ui = frame(
    {model, el},
    {
      name: "rotation-explorer",
      title: {zh: "位置就是一组钟的转角", en: "A position is a set of clock hands"},
      caption: () =>
        model.get("tab") === "rotary"
          ? {
              zh: "q 和 k 是两个固定的向量。RoPE 把 q 的每一对特征转过 m·ωᵢ，把 k 的转过 n·ωᵢ；点积只看两根指针的夹角，也就是 m − n。",
              en: "q and k are two fixed vectors. RoPE turns each feature pair of q by m·ωᵢ and of k by n·ωᵢ; a dot product sees only the angle between the hands, that is, m − n.",
            }
          : {
              zh: "每一对特征是一个钟：指针的高度是 sin ωᵢ·pos，水平分量是 cos ωᵢ·pos，所以 PE = [sin ω₀pos, cos ω₀pos, sin ω₁pos, …]。移动 k 个位置，每个钟转过 ωᵢk，与出发点无关。",
              en: "Each feature pair is a clock: the hand's height is sin ωᵢ·pos, its horizontal part cos ωᵢ·pos, so PE = [sin ω₀pos, cos ω₀pos, sin ω₁pos, …]. A step of k positions turns every clock by ωᵢk, wherever it starts.",
            },
    },
  );
  const get = name => model.get(name);
  const clamp = v => Math.max(0, Math.min(LAST, v));
  const rotaryTab = () => get("tab") === "rotary";

  // Controls.
  const tab = ui.segmented({
    label: {zh: "编码", en: "encoding"},
    value: get("tab"),
    onChange: v => ui.set({tab: v}),
    options: [
      ["sinusoidal", {zh: "正弦", en: "sinusoidal"}],
      ["rotary", {zh: "旋转 RoPE", en: "rotary (RoPE)"}],
    ],
  });
  const size = ui.slider({
    label: {zh: "特征数 d_model", en: "features d_model"},
    min: 4,
    max: 16,
    step: 2,
    value: get("d_model"),
    onInput: v => ui.set({d_model: v}),
  });
  const bases = () => [...new Set([10, 100, 1000, 10000, get("base")])].sort((a, b) => a - b).map(v => [v, String(v)]);
  const base = ui.select({
    label: {zh: "底数 base", en: "base"},
    options: bases(),
    value: get("base"),
    onChange: v => ui.set({base: Number(v)}),
  });
  const position = ui.slider({
    label: {zh: "位置 pos", en: "position pos"},
    min: 0,
    max: LAST,
    value: get("position"),
    onInput: v => {
      halt();
      ui.set({position: v});
    },
  });
  const offset = ui.slider({
    label: {zh: "位移 k", en: "offset k"},
    min: -LAST,
    max: LAST,
    value: get("offset"),
    format: v => fmt(v, 0),
    onInput: v => ui.set({offset: v}),
  });
  const run = ui.button({label: "", onClick: () => (running ? halt() : start())});
  // With m and n tied together, both move as far as neither leaves its range.
  const move = (name, v) => {
    const other = name === "m" ? "n" : "m",
      step = v - get(name),
      moved = together.input.checked ? clamp(get(other) + step) : get(other);
    ui.set({[other]: moved, [name]: together.input.checked ? get(name) + moved - get(other) : v});
  };
  const together = ui.toggle({label: {zh: "m 和 n 一起移动", en: "move m and n together"}, value: false, onChange: () => {}});
  const m = ui.slider({
    label: {zh: "查询的位置 m", en: "query position m"},
    min: 0,
    max: LAST,
    value: get("m"),
    onInput: v => move("m", v),
  });
  const n = ui.slider({
    label: {zh: "键的位置 n", en: "key position n"},
    min: 0,
    max: LAST,
    value: get("n"),
    onInput: v => move("n", v),
  });
  const pairing = ui.segmented({
    label: {zh: "特征怎样配对", en: "pairing of features"},
    value: "",
    onChange: v => ui.set({interleaved: v === "near"}),
    options: [
      ["near", {zh: "相邻 interleaved", en: "interleaved"}],
      ["halves", {zh: "前后两半 half-split", en: "half-split"}],
    ],
  });
  const only = [
    {rotary: false, nodes: [position.el, offset.el, run.el]},
    {rotary: true, nodes: [m.el, n.el, together.el, pairing.el]},
  ];
  ui.controls.append(tab.el, size.el, base.el, ...only.flatMap(part => part.nodes));

  // Running: the hands turn smoothly, the trait `position` follows in whole steps. Without motion there is no button.
  let running = null,
    exact = null;
  const label = () => ui.text(run.el, running ? {zh: "■ 停", en: "■ stop"} : {zh: "▶ 让钟走", en: "▶ run the clocks"});
  const halt = () => {
    running?.();
    running = exact = null;
    label();
  };
  function start() {
    const from = get("position") >= LAST ? 0 : get("position");
    running = ui.animate((LAST - from) * 250, f => {
      exact = from + f * (LAST - from);
      ui.set({position: Math.floor(exact)});
      clocks();
      if (f === 1) {
        halt();
        update();
      }
    });
    label();
  }
  label();

  // Building blocks of the drawing.
  const columns = {
    display: "grid",
    "grid-template-columns": "repeat(auto-fit, minmax(min(100%, 300px), 1fr))",
    gap: "16px 24px",
    "grid-auto-flow": "row dense",
  };
  const panel = (msg, ...nodes) => h("div", {style: {"min-width": "0"}}, ui.text(h("div", {class: "anb-mt"}), msg), ...nodes);
  const note = () =>
    h("p", {style: {margin: "4px 0 0", "font-size": "13px", "font-variant-numeric": "tabular-nums", color: "var(--ink)"}});
  const dials = (right, up) => {
    const all = Array.from({length: 8}, () => dial(ui, right, up));
    return {
      all,
      el: h(
        "div",
        {style: {display: "grid", "grid-template-columns": "repeat(auto-fill, minmax(min(46%, 150px), 1fr))", gap: "4px 8px"}},
        ...all.map(d => d.el),
      ),
    };
  };
  const key = (...items) =>
    h(
      "div",
      {class: "anb-key", style: {margin: "0 0 6px"}},
      ...items.map(([colour, line, msg]) =>
        h(
          "span",
          {},
          h("i", {style: {"border-top-color": `var(--${colour})`, "border-top-style": line}}),
          ui.text(h("span"), msg),
        ),
      ),
    );
  // A matrix keeps its shape, so there is one for each d_model that was asked for.
  const bySize = make => {
    const made = new Map(),
      el = h("div");
    return {
      el,
      get(d) {
        if (!made.has(d)) made.set(d, make(d));
        if (el.firstChild !== made.get(d).el) el.replaceChildren(made.get(d).el);
        return made.get(d);
      },
    };
  };
  const waves = d => Array.from({length: d}, (_, i) => `${i % 2 ? "cos" : "sin"}${sub(i >> 1)}`);
  const scale = {map: "diverging", min: -1, max: 1},
    cell = {min: 12, max: 44, height: 30, numbers: 27};

  // Sinusoidal.
  const faces = dials({zh: "cos", en: "cos"}, {zh: "sin", en: "sin"});
  const M = bySize(d =>
    matrix(ui, {
      rows: waves(d),
      cols: waves(d),
      scale,
      cell,
      format: v => (v === 0 ? "0" : fmt(v)),
      label: {zh: "旋转矩阵 M(k)", en: "rotation matrix M(k)"},
      rowAxis: {zh: "位置 pos + k 的特征 ↓", en: "feature at pos + k ↓"},
      colAxis: {zh: "位置 pos 的特征 →", en: "feature at pos →"},
      describe: (r, c, v) => `${waves(d)[r]} ← ${waves(d)[c]}: ${fmt(v, 4)}`,
    }),
  );
  const vectors = bySize(d =>
    matrix(ui, {
      rows: VECTORS,
      cols: waves(d),
      rowAxis: "",
      colAxis: {zh: "特征 →", en: "feature →"},
      scale,
      cell,
      label: {zh: "三个向量", en: "three vectors"},
      describe: (r, c, v) => `${VECTORS[r]}, ${waves(d)[c]}: ${fmt(v, 4)}`,
    }),
  );
  const residual = note(),
    product = note();
  const heat = raster(ui, {
    rows: ROWS,
    cols: get("d_model"),
    scale,
    width: "300px",
    height: "300px",
    rowTicks: [0, 16, 32, 48, 64].map(r => [r, String(r)]),
    label: {
      zh: "位置编码的热图：行是位置 0 到 64，列是特征；快的钟在左，慢的钟在右",
      en: "heatmap of the encoding: rows are positions 0 to 64, columns are features, fast clocks on the left, slow ones on the right",
    },
    rowAxis: {zh: "位置 ↓", en: "position ↓"},
    colAxis: {zh: "特征：快 → 慢", en: "feature: fast → slow"},
    describe: (r, c, v) => ({zh: `位置 ${r}，${waves(16)[c]}：${fmt(v, 3)}`, en: `position ${r}, ${waves(16)[c]}: ${fmt(v, 3)}`}),
    onPick: r => {
      halt();
      ui.set({position: clamp(r)});
    },
  });
  const offsets = {label: {zh: "位移 k", en: "offset k"}, min: -LAST, max: LAST};
  const products = chart(ui, {
    label: {zh: "点积 PEₚₒₛ · PEₚₒₛ₊ₖ 随 k 的变化", en: "dot product PEₚₒₛ · PEₚₒₛ₊ₖ over k"},
    height: 220,
    series: [],
    x: offsets,
    y: {label: {zh: "点积", en: "dot product"}, min: -4, max: 4},
  });
  // More than 8 features need the whole width to show their numbers.
  const wide = (part, d) => {
    part.el.parentNode.style.gridColumn = d > 8 ? "1 / -1" : "";
    return part.get(d);
  };
  const sinusoidal = h(
    "div",
    {style: columns},
    h(
      "div",
      {style: {"grid-column": "1 / -1", "min-width": "0"}},
      key(
        ["q", "solid", {zh: "位置 pos（实心）", en: "position pos (filled)"}],
        ["k", "dashed", {zh: "位置 pos + k（空心）", en: "position pos + k (open)"}],
        ["w", "solid", {zh: "转过 ωᵢk", en: "turned by ωᵢk"}],
      ),
      faces.el,
    ),
    panel({zh: "M(k)：每对特征一个 2×2 旋转", en: "M(k): one 2×2 rotation for each pair"}, M.el),
    panel(
      {zh: "位置编码 PE：当前的两行", en: "The encoding PE, with the two rows in use"},
      heat.el,
      legend(ui, {map: "diverging", min: -1, max: 1, digits: 0}).el,
    ),
    panel({zh: "同一个 M(k) 适用于每个位置", en: "The same M(k) works at every position"}, vectors.el, residual),
    panel({zh: "点积只取决于 k", en: "The dot product depends on k only"}, products.el, product),
  );

  // Rotary.
  const planes = dials("", "");
  const strip = h("svg", {class: "anb-ch", role: "img", height: 96});
  const turned = bySize(d =>
    matrix(ui, {
      rows: TURNED,
      cols: Array.from({length: d}, (_, i) => String(i)),
      rowAxis: "",
      colAxis: {zh: "特征 →", en: "feature →"},
      scale: {map: "diverging", min: -1.3, max: 1.3},
      cell,
      label: {zh: "转动前后的 q 和 k", en: "q and k before and after turning"},
      describe: (r, c, v) => ({zh: `${TURNED[r]}，特征 ${c}：${fmt(v, 4)}`, en: `${TURNED[r]}, feature ${c}: ${fmt(v, 4)}`}),
    }),
  );
  const scores = chart(ui, {
    label: {zh: "分数随 m − n 的变化", en: "score over m − n"},
    height: 220,
    series: [],
    x: {...offsets, label: "m − n"},
    y: {label: {zh: "分数 qₘᵀkₙ", en: "score qₘᵀkₙ"}, min: -1, max: 1},
  });
  const same = note();
  const rope = h(
    "div",
    {style: columns},
    h(
      "div",
      {style: {"grid-column": "1 / -1", "min-width": "0"}},
      ui.text(h("div", {class: "anb-mt"}), {zh: "哪两个特征组成一对", en: "Which two features make a pair"}),
      strip,
    ),
    h(
      "div",
      {style: {"grid-column": "1 / -1", "min-width": "0"}},
      key(
        ["q", "solid", {zh: "qₘ（实心；细线：转动前）", en: "qₘ (filled; thin: before turning)"}],
        ["k", "dashed", {zh: "kₙ（空心；细线：转动前）", en: "kₙ (open; thin: before turning)"}],
      ),
      planes.el,
    ),
    panel({zh: "转动前后的 q 和 k", en: "q and k before and after turning"}, turned.el),
    panel({zh: "分数只取决于 m − n", en: "The score depends on m − n only"}, scores.el, same),
  );
  ui.figure.append(sinusoidal, rope);

  // The features in a row, each pair joined by an arc.
  let stripWidth = 0;
  function drawStrip() {
    const d = get("d_model"),
      side = Math.min(44, Math.floor(stripWidth / d)),
      y = get("interleaved") ? 26 : 58;
    if (!side) return;
    const mid = i => i * side + side / 2,
      parts = [];
    for (let i = 0; i < d / 2; i++) {
      const [a, b] = pairOf(i, d, get("interleaved")),
        colour = `var(--s${(i % 4) + 1})`,
        rise = Math.min(66, 14 + (mid(b) - mid(a)) / 3) + (get("interleaved") ? 0 : i);
      parts.push(
        h("path", {
          d: `M${mid(a)} ${y}C${mid(a)} ${y - rise} ${mid(b)} ${y - rise} ${mid(b)} ${y}`,
          fill: "none",
          stroke: colour,
          "stroke-width": 2.5,
          "stroke-dasharray": i > 3 ? "5 3" : null,
        }),
      );
      for (const f of [a, b])
        parts.push(
          h("rect", {
            x: f * side + 1.5,
            y,
            width: side - 3,
            height: 26,
            rx: 4,
            fill: "var(--soft)",
            stroke: colour,
            "stroke-width": 2,
            "stroke-dasharray": i > 3 ? "5 3" : null,
          }),
          h("text", {x: mid(f), y: y + 18, "text-anchor": "middle", "font-size": 12, style: {fill: "var(--ink)"}}, String(f)),
        );
    }
    strip.setAttribute("height", y + 36);
    strip.replaceChildren(...parts);
  }
  ui.onResize(strip.parentNode, w => {
    stripWidth = w;
    drawStrip();
  });
  const pairNames = () => {
    const d = get("d_model");
    return Array.from({length: d / 2}, (_, i) => `(${pairOf(i, d, get("interleaved")).join(",\u00a0")})`).join(" ");
  };
  ui.attr(strip, "aria-label", () => `${ui.t({zh: "特征对：", en: "feature pairs: "})}${pairNames()}`);

  function clocks() {
    const d = get("d_model"),
      p = exact ?? get("position"),
      k = get("offset"),
      omega = frequencies(d, get("base"));
    faces.all.forEach((face, i) => {
      face.el.style.display = i < d / 2 ? "" : "none";
      if (i >= d / 2) return;
      const w = omega[i],
        at = a => [Math.cos(a), Math.sin(a)],
        turn = `ω${sub(i)}k = ${fmt(w * k, Math.abs(w * k) < 0.1 ? 3 : 2)} = ${degrees(w * k)}°`;
      face.set({
        strong: [at(w * p), at(w * (p + k))],
        turn: {from: w * p, by: w * k},
        words: [
          `ω${sub(i)} = ${short(w)}`,
          turn,
          {zh: `一圈 ${short((2 * Math.PI) / w)} 个位置`, en: `one turn: ${short((2 * Math.PI) / w)} positions`},
        ],
        describe: {
          zh: `钟 ${i}，ω = ${short(w)}：位置 ${Math.floor(p)} 的 sin ${fmt(Math.sin(w * p))}、cos ${fmt(Math.cos(w * p))}；${turn}`,
          en: `clock ${i}, ω = ${short(w)}: at position ${Math.floor(p)} sin ${fmt(Math.sin(w * p))}, cos ${fmt(Math.cos(w * p))}; ${turn}`,
        },
      });
    });
  }

  let shown = "",
    drawn = "";
  function updateSinusoidal() {
    const d = get("d_model"),
      b = get("base"),
      p = get("position"),
      k = get("offset");
    clocks();
    const here = encode(p, d, b),
      there = encode(p + k, d, b),
      matrixOfK = rotationMatrix(k, d, b),
      moved = multiply(matrixOfK, here);
    wide(M, d).set(matrixOfK);
    wide(vectors, d).set([...here, ...moved, ...there]);
    const miss = Math.hypot(...there.map((v, i) => v - moved[i]));
    residual.textContent = `‖PEₚₒₛ₊ₖ − M(k)·PEₚₒₛ‖ = ${scientific(miss)}`;
    if (drawn !== `${d} ${b}`) {
      heat.set(Array.from({length: ROWS}, (_, r) => encode(r, d, b)).flat(), {rows: ROWS, cols: d});
      drawn = `${d} ${b}`;
    }
    heat.mark([{row: p}, {row: p + k >= 0 ? p + k : null, dashed: true}]);
    const along = from => {
      const start = encode(from, d, b);
      return Array.from({length: ROWS}, (_, i) => [i - LAST, dot(start, encode(from + i - LAST, d, b))]);
    };
    const now = along(p),
      zero = along(0),
      apart = Math.max(...now.map(([, v], i) => Math.abs(v - zero[i][1])));
    products.set({
      marker: k,
      y: {min: -d / 2, max: d / 2},
      series: [
        {name: {zh: `pos = ${p}`, en: `pos = ${p}`}, points: now},
        {
          name: {zh: "pos = 0（点）", en: "pos = 0 (dots)"},
          colour: "var(--s2)",
          kind: "dots",
          points: zero.filter((_, i) => i % 4 === 0),
        },
      ],
    });
    ui.text(product, {
      zh: `PE${sub(p)} · PE${sub(p + k)} = ${fmt(dot(here, there), 3)}；两条曲线最多相差 ${scientific(apart)}`,
      en: `PE${sub(p)} · PE${sub(p + k)} = ${fmt(dot(here, there), 3)}; the two curves differ by at most ${scientific(apart)}`,
    });
    const omega = frequencies(d, b),
      fast = omega[0] * k,
      slow = omega.at(-1) * k;
    if (!running)
      ui.say({
        zh: `从位置 ${fmt(p, 0)} 到 ${fmt(p + k, 0)}（k = ${fmt(k, 0)}${p + k < 0 ? "，在热图第 0 行之前" : ""}），最快的钟转过 ${degrees(fast)}°，最慢的转过 ${degrees(slow)}°。M(k) 里没有 pos：残差 ${scientific(miss)} 只是舍入误差。`,
        en: `From position ${fmt(p, 0)} to ${fmt(p + k, 0)} (k = ${fmt(k, 0)}${p + k < 0 ? ", before row 0 of the heatmap" : ""}) the fastest clock turns by ${degrees(fast)}°, the slowest by ${degrees(slow)}°. M(k) does not contain pos: the residual of ${scientific(miss)} is rounding only.`,
      });
  }

  function updateRotary() {
    const d = get("d_model"),
      b = get("base"),
      at = get("m"),
      from = get("n"),
      near = get("interleaved");
    const q = QUERY.slice(0, d),
      k = KEY.slice(0, d),
      qm = rotary(q, at, b, near),
      kn = rotary(k, from, b, near),
      omega = frequencies(d, b);
    const pairs = omega.map((_, i) => pairOf(i, d, near)),
      longest = Math.max(...pairs.flatMap(([x, y]) => [Math.hypot(q[x], q[y]), Math.hypot(k[x], k[y])]));
    planes.all.forEach((plane, i) => {
      plane.el.style.display = i < d / 2 ? "" : "none";
      if (i >= d / 2) return;
      const [x, y] = pairs[i],
        hand = v => [v[x] / longest, v[y] / longest],
        part = fmt(qm[x] * kn[x] + qm[y] * kn[y]);
      plane.set({
        strong: [hand(qm), hand(kn)],
        faint: [hand(q), hand(k)],
        names: [`x${sub(x)}`, `x${sub(y)}`],
        words: [
          {zh: `特征 ${x} 和 ${y}`, en: `features ${x} and ${y}`},
          `ω${sub(i)} = ${short(omega[i])}`,
          {zh: `对分数的贡献 ${part}`, en: `part of the score: ${part}`},
        ],
        describe: {
          zh: `特征 ${x} 和 ${y}：q 转过 ${degrees(omega[i] * at)}°，k 转过 ${degrees(omega[i] * from)}°，对分数的贡献 ${part}`,
          en: `features ${x} and ${y}: q turned by ${degrees(omega[i] * at)}°, k by ${degrees(omega[i] * from)}°, part of the score ${part}`,
        },
      });
    });
    drawStrip();
    ui.attr(strip, "aria-label", () => `${ui.t({zh: "特征对：", en: "feature pairs: "})}${pairNames()}`);
    wide(turned, d).set([...q, ...qm, ...k, ...kn]);
    const curve = pairing =>
      Array.from({length: ROWS}, (_, i) => [
        i - LAST,
        rotaryScore(q, k, Math.max(0, i - LAST), Math.max(0, LAST - i), b, pairing),
      ]);
    const own = curve(near),
      other = curve(!near),
      most = Math.ceil(2 * Math.max(...[...own, ...other].map(([, v]) => Math.abs(v)))) / 2;
    const names = [
      {zh: "前后两半", en: "half-split"},
      {zh: "相邻", en: "interleaved"},
    ];
    scores.set({
      marker: at - from,
      y: {min: -most, max: most},
      series: [
        {name: names[Number(near)], points: own},
        {name: names[Number(!near)], colour: "var(--dim)", dash: "2 4", points: other},
      ],
    });
    const score = dot(qm, kn),
      to = [Math.max(0, at - from), Math.max(0, from - at)],
      apart = Math.abs(score - rotaryScore(q, k, ...to, b, near));
    ui.text(same, {
      zh: `(m, n) = (${at}, ${from})：${fmt(score, 4)}；移到 (${to.join(", ")})：相差 ${scientific(apart)}`,
      en: `(m, n) = (${at}, ${from}): ${fmt(score, 4)}; moved to (${to.join(", ")}): differs by ${scientific(apart)}`,
    });
    ui.say({
      zh: `查询在 ${at}，键在 ${from}：分数 ${fmt(score, 3)}，只取决于 m − n = ${fmt(at - from, 0)}。特征对：${pairNames()}。`,
      en: `Query at ${at}, key at ${from}: the score is ${fmt(score, 3)} and depends on m − n = ${fmt(at - from, 0)} only. Feature pairs: ${pairNames()}.`,
    });
  }

  function update() {
    const turning = rotaryTab();
    tab.set(get("tab"));
    size.set(get("d_model"));
    base.options(bases());
    base.set(get("base"));
    position.set(get("position"));
    offset.set(get("offset"));
    m.set(get("m"));
    n.set(get("n"));
    pairing.set(get("interleaved") ? "near" : "halves");
    if (shown !== get("tab")) {
      shown = get("tab");
      if (turning) halt();
      for (const part of only)
        for (const node of part.nodes)
          node.style.display = part.rotary === turning && !(node === run.el && ui.calm) ? "" : "none";
      sinusoidal.style.display = turning ? "none" : "grid";
      rope.style.display = turning ? "grid" : "none";
    }
    if (turning) updateRotary();
    else updateSinusoidal();
  }
  ui.watch(["tab", "d_model", "base", "position", "offset", "m", "n", "interleaved"], update);
  update();
  return ui.done;
}

export default {render};
