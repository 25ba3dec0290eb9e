import {fmt, frame} from "./common.js";
import {h} from "./dom.js";
import {random} from "./maths.js";

// A sentence, read in two ways: as a bag (the sum of its word vectors) and as a sequence (a state that each word turns
// and moves). Shuffle the words, and the bag ends where it did, while the state ends elsewhere.

export const MOST = 10; // words
const ORDERS = 120; // so many orders are tried for the grey dots: all of them up to 5 words
const TURN = (55 * Math.PI) / 180,
  KEEP = 0.9;

// Chinese character by character, other scripts word by word; punctuation is left out.
export const tokenize = text => (text.match(/\p{Script=Han}|(?:(?!\p{Script=Han})[\p{L}\p{M}\p{N}'’-])+/gu) ?? []).slice(0, MOST);

// The vector of a word: its direction and length (0.5 … 1) come from its letters and the seed alone.
export function embed(word, seed) {
  let hash = 0x811c9dc5 ^ seed;
  for (const character of word.toLowerCase()) hash = Math.imul(hash ^ character.codePointAt(0), 0x01000193);
  const uniform = random(hash | 0),
    angle = 2 * Math.PI * uniform(),
    length = 0.5 + uniform() / 2;
  return [length * Math.cos(angle), length * Math.sin(angle)];
}

// Where the sum of the vectors stands after each word, the start included.
export function sums(vectors) {
  const path = [[0, 0]];
  for (const [x, y] of vectors) path.push([path.at(-1)[0] + x, path.at(-1)[1] + y]);
  return path;
}
// The same for the state h_t = tanh(0.9 R h_{t−1} + x_t), R a rotation by 55°.
export function states(vectors) {
  const path = [[0, 0]],
    c = KEEP * Math.cos(TURN),
    s = KEEP * Math.sin(TURN);
  for (const [x, y] of vectors) {
    const [a, b] = path.at(-1);
    path.push([Math.tanh(c * a - s * b + x), Math.tanh(s * a + c * b + y)]);
  }
  return path;
}

// How many different sentences a bag can be arranged into: n! / Π (count!).
export function arrangements(tokens) {
  const factorial = n => (n < 2 ? 1 : n * factorial(n - 1)),
    counts = new Map();
  for (const token of tokens) counts.set(token, (counts.get(token) ?? 0) + 1);
  return [...counts.values()].reduce((total, n) => total / factorial(n), factorial(tokens.length));
}

export function shuffled(n, uniform) {
  const order = Array.from({length: n}, (_, i) => i);
  for (let i = n - 1; i > 0; i--) {
    const j = Math.floor(uniform() * (i + 1));
    [order[i], order[j]] = [order[j], order[i]];
  }
  return order;
}

// All orders of n places if there are at most ORDERS, else ORDERS random ones.
export function orders(n, seed) {
  const uniform = random(seed);
  if (n > 5) return Array.from({length: ORDERS}, () => shuffled(n, uniform));
  const all = [];
  const grow = (start, rest) => (rest.length ? rest.forEach((x, i) => grow([...start, x], rest.toSpliced(i, 1))) : all.push(start));
  grow([], Array.from({length: n}, (_, i) => i));
  return all;
}

const CSS_ORDER = `
.anb .wo-text{flex:1 1 200px}
.anb .wo-text input{width:100%;border:1px solid var(--line);border-radius:7px;background:var(--face);padding:3px 10px;min-height:34px}
.anb .wo-text input[aria-invalid=true]{outline:2px dashed var(--k)}
.anb .wo-words{display:flex;flex-wrap:wrap;gap:6px;margin:0 0 14px;padding:0;list-style:none}
.anb .wo-words li{margin:0}
.anb .wo-words button{font-size:1.02em;min-width:40px;min-height:38px;border-width:2px}
.anb .wo-words button[aria-pressed=true]{background:var(--q);color:var(--face)}
.anb .wo-bag{display:flex;flex-wrap:wrap;gap:4px;margin:0 0 14px}
.anb .wo-bag div{border:1px solid var(--line);border-radius:6px;background:var(--soft);text-align:center;min-width:44px;padding:2px 8px;line-height:1.35;font-size:.92em}
.anb .wo-bag b{display:block;font-variant-numeric:tabular-nums}
.anb .wo-bag span{color:var(--dim)}
.anb .wo-two{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,280px),1fr));gap:14px 22px}
.anb .wo-two svg{display:block;width:100%;max-width:360px;margin:auto;border:1px solid var(--line);border-radius:8px}
.anb .wo-two p{margin:4px 0 0;font-size:.92em;font-variant-numeric:tabular-nums}`;

function render({model, el}) {
  const ui = frame(
    {model, el},
    {
      name: "word-order-machine",
      css: CSS_ORDER,
      title: {zh: "词序机：打乱一句话，什么变了？", en: "Word-order machine: shuffle a sentence, what changes?"},
      caption: {
        zh: "点两个词就交换；焦点在一个词上时，左右方向键移动它。左图把词向量首尾相接地加起来，右图是状态 h = tanh(0.9 R h + x)，R 转 55°。灰点是其他词序的终点（5 个词以内是全部，再多则抽 120 种），虚线是原来的词序。",
        en: "Click two words to swap them; with the focus on a word, the left and right arrow keys move it. The left picture joins the word vectors head to tail, the right one is the state h = tanh(0.9 R h + x), where R turns by 55°. Grey dots are where other orders end (all of them up to 5 words, else a sample of 120), the dashed line is the original order.",
      },
    },
  );
  const get = name => model.get(name);
  let uniform = random(get("seed") + 7),
    picked = -1;

  const sentence = () => get("sentence")[ui.lang === "zh" ? 0 : 1];
  const tokens = () => tokenize(sentence());
  const identity = n => Array.from({length: n}, (_, i) => i);
  // An order that does not fit the sentence (the languages differ in length) is the original one.
  function order() {
    const n = tokens().length,
      wanted = get("order");
    return [...wanted].sort((a, b) => a - b).join() === identity(n).join() ? wanted : identity(n);
  }
  const arrange = next => {
    picked = -1;
    ui.set({order: next});
  };

  // Controls.
  const input = h("input", {type: "text", maxlength: "80", autocomplete: "off", spellcheck: "false"});
  input.addEventListener("input", () => {
    const fine = tokenize(input.value).length > 0;
    if (!fine) return input.setAttribute("aria-invalid", "true");
    input.removeAttribute("aria-invalid");
    picked = -1;
    model.set("order", []);
    ui.set({sentence: [input.value, input.value]});
  });
  const field = h("label", {class: "anb-f wo-text"}, ui.text(h("span", {class: "anb-l"}), {zh: `一句话（最多 ${MOST} 个词）`, en: `a sentence (up to ${MOST} words)`}), input);
  const shuffle = ui.button({
    label: {zh: "打乱", en: "shuffle"},
    primary: true,
    onClick() {
      const words = tokens(),
        said = list => list.map(i => words[i]).join("\n");
      let next = order();
      for (let i = 0; i < 20 && said(next) === said(order()); i++) next = shuffled(words.length, uniform);
      arrange(next);
    },
  });
  const reverse = ui.button({label: {zh: "倒过来", en: "reverse"}, onClick: () => arrange([...order()].reverse())});
  const back = ui.button({label: {zh: "恢复", en: "restore"}, onClick: () => arrange([])});
  ui.controls.append(field, shuffle.el, reverse.el, back.el);

  // The words, as buttons that can be moved.
  const words = ui.attr(h("ul", {class: "wo-words"}), "aria-label", {zh: "现在的词序", en: "the present order"});
  function move(from, to) {
    const next = [...order()];
    if (to < 0 || to >= next.length) return;
    next.splice(to, 0, ...next.splice(from, 1));
    arrange(next);
    update();
    words.querySelectorAll("button")[to].focus();
  }
  function pick(i) {
    if (picked < 0 || picked === i) {
      picked = picked === i ? -1 : i;
      return update();
    }
    const next = [...order()];
    [next[i], next[picked]] = [next[picked], next[i]];
    arrange(next);
  }
  function chip(word, i) {
    const node = h("button", {type: "button", "aria-pressed": String(picked === i)}, word);
    node.addEventListener("click", () => pick(i));
    node.addEventListener("keydown", event => {
      const step = {ArrowLeft: -1, ArrowRight: 1}[event.key];
      if (!step) return;
      event.preventDefault();
      move(i, i + step);
    });
    return h("li", {}, node);
  }

  const bag = ui.attr(h("div", {class: "wo-bag", role: "group"}), "aria-label", {zh: "词袋向量", en: "bag vector"});
  const picture = () => ui.attr(h("svg", {viewBox: "0 0 240 240", role: "img"}), "aria-label", () => spoken());
  let spoken = () => "";
  const left = picture(),
    right = picture(),
    leftSays = h("p"),
    rightSays = h("p");
  const head = (msg, ...nodes) => [ui.text(h("div", {class: "anb-mt"}), msg), ...nodes];
  ui.figure.append(
    ...head({zh: "现在的词序", en: "The present order"}, words),
    ...head({zh: "词袋向量：每个词出现几次", en: "Bag vector: how often each word occurs"}, bag),
    h(
      "div",
      {class: "wo-two"},
      h("div", {}, ...head({zh: "词袋：词向量之和", en: "Bag: the sum of the word vectors"}, left, leftSays)),
      h("div", {}, ...head({zh: "序列：每读一个词之后的状态", en: "Sequence: the state after each word"}, right, rightSays)),
    ),
  );

  // One picture: grey ends, the original path dashed, the present one with its words.
  function draw(svg, paths, own, original, list, colour, reach) {
    const X = v => 120 + (104 * v) / reach,
      at = p => `${X(p[0]).toFixed(1)},${(240 - X(p[1])).toFixed(1)}`;
    const line = (path, props) => h("polyline", {points: path.map(at).join(" "), fill: "none", "stroke-linejoin": "round", ...props});
    const dot = (p, r, fill, more) => h("circle", {cx: X(p[0]).toFixed(1), cy: (240 - X(p[1])).toFixed(1), r, fill, ...more});
    svg.replaceChildren(
      h("line", {x1: 120, x2: 120, y1: 0, y2: 240, stroke: "var(--line)"}),
      h("line", {x1: 0, x2: 240, y1: 120, y2: 120, stroke: "var(--line)"}),
      ...paths.map(path => dot(path.at(-1), 2.4, "var(--dim)", {"fill-opacity": 0.4})),
      line(original, {stroke: "var(--dim)", "stroke-width": 1.4, "stroke-dasharray": "4 3"}),
      line(own, {stroke: colour, "stroke-width": 2}),
      ...own.slice(1, -1).map(p => dot(p, 2.6, colour)),
      dot(original.at(-1), 5.5, "none", {stroke: "var(--ink)", "stroke-width": 1.4, "stroke-dasharray": "3 2"}),
      dot(own.at(-1), 4.5, colour, {stroke: "var(--face)"}),
      ...own.slice(1).map((p, i) => {
        const x = Math.max(14, Math.min(226, X(p[0]))),
          y = 240 - X(p[1]);
        return h(
          "text",
          {x, y: y < 20 ? y + 15 : y - 7, "text-anchor": "middle", "font-size": 11, fill: "var(--ink)", stroke: "var(--face)", "stroke-width": 3, "paint-order": "stroke"},
          list[i].length > 9 ? `${list[i].slice(0, 8)}…` : list[i],
        );
      }),
    );
  }

  const distance = (a, b) => Math.hypot(a[0] - b[0], a[1] - b[1]);
  function update() {
    const list = tokens(),
      now = order(),
      present = now.map(i => list[i]),
      vectors = list.map(word => embed(word, get("seed")));
    if (el.getRootNode().activeElement !== input) input.value = sentence();
    // the words are made anew; the focus stays on its place
    const at = [...words.querySelectorAll("button")].indexOf(el.getRootNode().activeElement);
    words.replaceChildren(...present.map(chip));
    if (at >= 0) words.querySelectorAll("button")[at]?.focus();
    const counts = new Map();
    for (const word of list) counts.set(word, (counts.get(word) ?? 0) + 1);
    bag.replaceChildren(...[...counts].map(([word, n]) => h("div", {}, h("span", {}, word), h("b", {}, String(n)))));

    const tried = orders(list.length, get("seed")).map(o => o.map(i => vectors[i]));
    const bags = tried.map(sums),
      reach = Math.max(0.5, ...bags.flat().flatMap(p => p.map(Math.abs)));
    const both = [sums, states].map(read => [tried.map(read), read(now.map(i => vectors[i])), read(vectors)]);
    draw(left, ...both[0], present, "var(--v)", reach);
    draw(right, ...both[1], present, "var(--q)", 1);

    const [bagMoved, stateMoved] = both.map(([, own, original]) => distance(own.at(-1), original.at(-1))),
      many = arrangements(list);
    const vector = p => `[${p.map(v => fmt(v)).join(", ")}]`;
    ui.text(leftSays, {
      zh: `终点 ${vector(both[0][1].at(-1))}，离原来 ${fmt(bagMoved)}`,
      en: `ends at ${vector(both[0][1].at(-1))}, ${fmt(bagMoved)} from the original`,
    });
    ui.text(rightSays, {
      zh: `终点 ${vector(both[1][1].at(-1))}，离原来 ${fmt(stateMoved)}`,
      en: `ends at ${vector(both[1][1].at(-1))}, ${fmt(stateMoved)} from the original`,
    });
    const text = {
      zh: `这个词袋排得出 ${many} 个不同的句子。现在的词序里，词袋离原来 ${fmt(bagMoved)}，状态离原来 ${fmt(stateMoved)}。`,
      en: `This bag can be arranged into ${many} different sentences. In the present order the bag is ${fmt(bagMoved)} from the original, the state ${fmt(stateMoved)}.`,
    };
    spoken = () => ui.t(text);
    ui.retext();
    ui.say(text);
  }

  ui.watch(["sentence", "order"], update);
  ui.watch(["seed"], () => {
    uniform = random(get("seed") + 7);
    update();
  });
  update();
  return ui.done;
}

export default {render};
