import {frame} from "./common.js";
import {h} from "./dom.js";

// Which inputs reach an output of stacked convolutions, and on which paths.

// Where the taps of one layer stand, seen from the output's position.
export function taps(kernel, dilation, causal) {
  const last = causal ? kernel - 1 : Math.floor((kernel - 1) / 2);
  return Array.from({length: kernel}, (_, j) => (j - last) * dilation);
}

// levels[l][i]: whether position i of level l (0 = inputs) has a path to the output; edges[l]: pairs [i, j] from
// position i of level l to position j of the level above. Taps in the padding count for nothing.
export function paths({kernel, dilations, causal, length, output}) {
  const levels = Array.from({length: dilations.length + 1}, () => new Array(length).fill(false)),
    edges = dilations.map(() => []);
  levels[dilations.length][output] = true;
  for (let l = dilations.length - 1; l >= 0; l--)
    for (let j = 0; j < length; j++) {
      if (!levels[l + 1][j]) continue;
      for (const offset of taps(kernel, dilations[l], causal)) {
        const i = j + offset;
        if (i < 0 || i >= length) continue;
        levels[l][i] = true;
        edges[l].push([i, j]);
      }
    }
  return {levels, edges};
}

export const field = (kernel, dilations) => 1 + (kernel - 1) * dilations.reduce((a, b) => a + b, 0);

// How many layers it takes until the last of n positions can see the first.
export function layersToConnect(n, kernel, growth) {
  let layers = 0;
  for (let seen = 1, dilation = 1; seen < n; layers++, dilation *= growth) seen += (kernel - 1) * dilation;
  return layers;
}

const LEFT = 58,
  RIGHT = 8,
  ROW = 38;

function render({model, el}) {
  const ui = frame(
    {model, el},
    {
      name: "receptive-field",
      title: {zh: "一个输出看得见哪些输入", en: "Which inputs an output sees"},
      caption: {
        zh: "最下面一行是输入，每往上一行是一层卷积。用滑块，或在图里点一下，选一个输出。",
        en: "The lowest row holds the inputs, each row above is a layer of convolution. Choose an output with the slider, or click in a drawing.",
      },
    },
  );
  const get = name => model.get(name),
    output = () => Math.min(get("output"), get("length") - 1);
  const slider = (name, label, min, max) => ui.slider({label, min, max, value: get(name), onInput: v => ui.set({[name]: v})});
  const sliders = {
    kernel: slider("kernel", {zh: "核宽 k", en: "kernel size k"}, 2, 5),
    layers: slider("layers", {zh: "层数 L", en: "layers L"}, 1, 6),
    growth: slider("growth", {zh: "膨胀率逐层乘以", en: "dilation grows by"}, 1, 5),
    length: slider("length", {zh: "序列长度 n", en: "length n"}, 8, 48),
  };
  const position = ui.slider({label: {zh: "输出的位置 t", en: "output position t"}, min: 0, max: get("length") - 1, value: output(), onInput: v => ui.set({output: v})});
  const causal = ui.segmented({
    label: {zh: "窗口", en: "window"},
    options: [
      ["causal", {zh: "因果", en: "causal"}],
      ["centred", {zh: "居中", en: "centred"}],
    ],
    value: get("causal") ? "causal" : "centred",
    onChange: v => ui.set({causal: v === "causal"}),
  });
  ui.controls.append(sliders.kernel.el, sliders.layers.el, sliders.growth.el, causal.el, sliders.length.el, position.el);

  const stacks = [
    {name: {zh: "普通：膨胀率总是 1", en: "Plain: dilation 1 everywhere"}, growth: () => 1},
    {name: {zh: "膨胀：逐层变大", en: "Dilated: larger in each layer"}, growth: () => get("growth")},
  ];
  for (const stack of stacks) {
    stack.width = 0;
    stack.svg = ui.attr(h("svg", {class: "anb-ch", role: "img"}), "aria-label", () => (stack.found ? describe(stack) : ""));
    stack.svg.style.cursor = "pointer";
    stack.el = h("div", {style: {"min-width": "0"}}, ui.text(h("div", {class: "anb-mt"}), stack.name), stack.svg);
    ui.onResize(stack.el, width => {
      stack.width = width;
      draw(stack);
    });
    ui.listen(stack.svg, "click", event => {
      const step = (stack.width - LEFT - RIGHT) / get("length"),
        at = Math.floor((event.clientX - stack.svg.getBoundingClientRect().left - LEFT) / step);
      if (at >= 0 && at < get("length")) ui.set({output: at});
    });
  }

  function describe({name, found, dilations}) {
    const reached = found.levels[0].filter(Boolean).length;
    return ui.t({
      zh: `${ui.t(name)}（${dilations.join("、")}）：输出 ${output()} 看得见 ${reached} 个输入`,
      en: `${ui.t(name)} (${dilations.join(", ")}): output ${output()} sees ${reached} inputs`,
    });
  }

  function draw(stack) {
    if (!stack.width || !stack.found) return;
    const {levels, edges} = stack.found,
      length = get("length"),
      top = levels.length - 1,
      step = (stack.width - LEFT - RIGHT) / length,
      radius = Math.max(2.2, Math.min(5, step * 0.34)),
      X = i => LEFT + step * (i + 0.5),
      Y = l => 14 + ROW * (top - l),
      parts = [];
    const text = (x, y, s, more) => h("text", {x, y, ...more}, s);
    for (let l = 0; l <= top; l++)
      parts.push(text(0, Y(l) + 4, l ? `δ = ${stack.dilations[l - 1]}` : ui.t({zh: "输入", en: "input"}), {}));
    edges.forEach((pairs, l) => {
      const d = pairs.map(([i, j]) => `M${X(i).toFixed(1)} ${Y(l)}L${X(j).toFixed(1)} ${Y(l + 1)}`).join("");
      if (d) parts.push(h("path", {d, fill: "none", stroke: "var(--w)", "stroke-width": 1.3, "stroke-opacity": 0.55}));
    });
    levels.forEach((row, l) =>
      row.forEach((on, i) => {
        const fill = !on ? "var(--face)" : l === top ? "var(--q)" : l ? "var(--w)" : "var(--k)";
        parts.push(h("circle", {cx: X(i), cy: Y(l), r: on ? radius : radius * 0.75, fill, stroke: on ? fill : "var(--line)", "stroke-width": 1.2}));
      }),
    );
    for (let i = 0; i < length; i++)
      if (i % (step > 14 ? 4 : 8) === 0 || i === length - 1) {
        if (i !== length - 1 && (length - 1 - i) * step < 18) continue;
        parts.push(text(X(i), Y(0) + 22, String(i), {"text-anchor": "middle"}));
      }
    stack.svg.setAttribute("height", Y(0) + 28);
    stack.svg.replaceChildren(...parts);
  }

  const ROWS = {
    dilations: {zh: "各层膨胀率 δ", en: "dilations δ"},
    field: {zh: "感受野 r = 1 + (k − 1)Σδ", en: "receptive field r = 1 + (k − 1)Σδ"},
    reached: {zh: "这里看得见的输入", en: "inputs seen here"},
    future: {zh: "其中在它后面的（未来）", en: "of them after it (future)"},
    connect: () => ui.t({zh: `连起 ${get("length")} 个位置的两端要几层`, en: `layers to join the ends of ${get("length")} positions`}),
  };
  const cells = {},
    cell = (tag, ...children) =>
      h(tag, {style: {border: "0", "border-bottom": "1px solid var(--line)", padding: "3px 6px", "text-align": "end", "font-variant-numeric": "tabular-nums"}}, ...children);
  const heads = [
    {zh: "普通", en: "plain"},
    {zh: "膨胀", en: "dilated"},
  ].map(msg => {
    const node = ui.text(cell("th"), msg);
    node.scope = "col";
    return node;
  });
  const table = h(
    "table",
    {style: {"border-collapse": "collapse", width: "100%", "font-size": "13px", "line-height": "1.4", margin: "0", display: "table"}},
    h("thead", {}, h("tr", {}, cell("td"), ...heads)),
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
  ui.figure.append(
    h("div", {style: {display: "grid", "grid-template-columns": "repeat(auto-fit, minmax(min(100%, 420px), 1fr))", gap: "14px 24px"}}, ...stacks.map(stack => stack.el)),
    h("div", {style: {"max-width": "560px", "margin-top": "8px"}}, table),
  );

  function update() {
    for (const [name, control] of Object.entries(sliders)) control.set(get(name));
    const length = get("length"),
      t = output(),
      kernel = get("kernel");
    position.range(0, length - 1);
    position.set(t);
    causal.set(get("causal") ? "causal" : "centred");
    stacks.forEach((stack, c) => {
      const growth = stack.growth();
      stack.dilations = Array.from({length: get("layers")}, (_, l) => growth ** l);
      stack.found = paths({kernel, dilations: stack.dilations, causal: get("causal"), length, output: t});
      const inputs = stack.found.levels[0].flatMap((on, i) => (on ? [i] : []));
      stack.facts = {
        field: field(kernel, stack.dilations),
        reached: inputs.length,
        future: inputs.filter(i => i > t).length,
        holes: inputs.length < inputs.at(-1) - inputs[0] + 1,
        connect: layersToConnect(length, kernel, growth),
      };
      cells.dilations[c].textContent = stack.dilations.join(", ");
      for (const key of ["field", "reached", "future", "connect"]) cells[key][c].textContent = stack.facts[key];
      draw(stack);
    });
    ui.retext();
    ui.say(() => sentence(ui.lang, t, length, ...stacks.map(stack => stack.facts)));
  }

  ui.watch(["kernel", "layers", "growth", "causal", "length", "output"], update);
  update();
  return ui.done;
}

// What is seen, in words; plain and dilated: the facts of the two stacks.
export function sentence(lang, t, length, plain, dilated) {
  const zh = lang === "zh",
    parts = zh
      ? [
          `输出 ${t} 看得见的输入：普通 ${plain.reached} 个，膨胀 ${dilated.reached} 个。`,
          `要让 ${length} 个位置的两端相连，普通的要 ${plain.connect} 层，膨胀的要 ${dilated.connect} 层。`,
        ]
      : [
          `Output ${t} sees ${plain.reached} inputs through the plain stack and ${dilated.reached} through the dilated one.`,
          `To join the ends of ${length} positions takes ${plain.connect} plain layers and ${dilated.connect} dilated ones.`,
        ];
  if (dilated.holes) parts.push(zh ? "膨胀率比核宽长得还快，中间留下了空洞。" : "The dilation grows faster than the kernel is wide, which leaves holes.");
  if (plain.future || dilated.future) parts.push(zh ? "居中的窗口看得见未来。" : "A centred window sees the future.");
  return parts.join(zh ? "" : " ");
}
export default {render};
