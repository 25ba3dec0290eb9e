import {colourStep, colourSteps, fmt, frame, legend, pixels} from "./common.js";
import {h} from "./dom.js";
import {grammarReader} from "./grammar.js";
import {probabilities} from "./runtime.js";
import {loadTranslator, logProbabilities} from "./translator.js";

const PAD_TOKEN = 0, BOS_TOKEN = 1, EOS_TOKEN = 2, UNK_TOKEN = 3;
const CANDIDATES = 6; // of each step that are listed

// Every beginning of a translation that has been looked at, as a tree: what two runs have in common is computed once.
//   root: after <bos>; next(place, id): one token further. A place is {step, p, best}: what `translator.step` gave, the
//   probabilities of the next token, and the token that greedy decoding takes.
export function beginnings(translator, memory) {
  const place = (state, id) => {
    const step = translator.step(memory, state, id), logProbs = logProbabilities(step.logits);
    let best = EOS_TOKEN;
    for (let i = 0; i < logProbs.length; i++) if (logProbs[i] > logProbs[best] || (logProbs[i] === logProbs[best] && i < best)) best = i;
    return {step, best, p: probabilities(step.logits), after: new Map()};
  };
  const next = (from, id) => {
    if (!from.after.has(id)) from.after.set(id, place(from.step.state, id));
    return from.after.get(id);
  };
  return {root: place(translator.start(memory), BOS_TOKEN), next};
}

// Places of a run that is fed `ids` (with <eos> at the end), whatever it predicts.
export function taught(tree, ids) {
  const places = [tree.root];
  for (const id of ids.slice(0, -1)) places.push(tree.next(places.at(-1), id));
  return {places, written: places.map(place => place.best)};
}

// A run that is fed what it writes; forced: a Map from a step, counted from 1, to the id that is written there in any case.
export function unaided(tree, limit, forced = new Map()) {
  const places = [], written = [];
  for (let place = tree.root; ; place = tree.next(place, written.at(-1))) {
    places.push(place);
    written.push(forced.get(places.length) ?? place.best);
    if (written.at(-1) === EOS_TOKEN) return {places, written, ended: true};
    if (written.length === limit) return {places, written, ended: false};
  }
}

// The fewest changes that make `found` out of `wanted`: which of found's items are other or too many ("other"), and before which
// something is missing ("gap"; also behind the last). Equal beginnings are always kept.
export function editsBetween(found, wanted) {
  const n = found.length, m = wanted.length, D = Array.from({length: n + 1}, () => new Array(m + 1).fill(0));
  for (let i = n; i >= 0; i--) for (let j = m; j >= 0; j--) {
    if (i === n || j === m) D[i][j] = n - i + m - j;
    else D[i][j] = found[i] === wanted[j] ? D[i + 1][j + 1] : 1 + Math.min(D[i + 1][j + 1], D[i + 1][j], D[i][j + 1]);
  }
  const marks = new Array(n + 1).fill("");
  let i = 0, j = 0;
  while (i < n || j < m) {
    if (i < n && j < m && found[i] === wanted[j]) i++, j++;
    else if (i < n && j < m && D[i][j] === 1 + D[i + 1][j + 1]) marks[i++] = "other", j++;
    else if (i < n && D[i][j] === 1 + D[i + 1][j]) marks[i++] = "other";
    else marks[i] ||= "gap", j++;
  }
  let parts = 0;
  while (parts < n && parts < m && found[parts] === wanted[parts]) parts++;
  return {distance: D[0][0], marks, parts: parts === n && parts === m ? null : parts};
}

// Only what has changed is written: every write makes the browser lay the grid out again.
const putText = (node, text) => { if (node.textContent !== text) node.textContent = text; };
const putStyle = (node, name, value) => { if (node.style[name] !== value) node.style[name] = value; };
const putAttribute = (node, name, value) => { if (node.getAttribute(name) !== value) node.setAttribute(name, value); };

const CSS_DECODING = `
.anb .ds-text{flex:1 1 100%}
.anb .ds-text input,.anb .ds-force input{width:100%;min-height:38px;padding:4px 10px;border:1px solid var(--dim);border-radius:8px;background:var(--face);font-size:1em}
.anb .ds-text input::placeholder{color:var(--dim);opacity:1}
.anb .ds-pick{flex:1 1 220px}
.anb .ds-pick select{width:100%}
.anb .ds-buttons{display:flex;flex-wrap:wrap;gap:6px}
.anb .ds-source{display:flex;flex-wrap:wrap;gap:4px 8px;align-items:center;margin:0 0 10px;font-size:.9em}
.anb .ds-source>canvas{width:min(100%,240px);height:14px;border-radius:3px;border:1px solid var(--line);image-rendering:pixelated}
.anb .ds-chips{display:flex;flex-wrap:wrap;gap:3px;margin:0}
.anb .ds-chips span{padding:0 4px;border-radius:4px;border:1px solid var(--line);text-align:center;line-height:1.5;unicode-bidi:isolate;min-width:24px;forced-color-adjust:none}
.anb .ds-chips small{display:block;font-size:10px;line-height:1.2;font-variant-numeric:tabular-nums}
.anb .ds-chips .ds-unknown{text-decoration:underline wavy var(--k);text-underline-offset:3px}
.anb .ds-scroll{overflow-x:auto;padding:2px 2px 8px 0;position:relative}
.anb .ds-grid{display:grid;width:max-content;gap:2px 0;font-size:13px;line-height:1.3;align-items:stretch}
.anb .ds-row{display:contents}
.anb .ds-name{position:sticky;left:0;background:var(--face);z-index:2;padding:3px 8px 3px 0;max-width:92px;color:var(--dim);font-size:12px;display:flex;align-items:center;border-inline-end:1px solid var(--line)}
.anb .ds-num{text-align:center;color:var(--dim);font-size:11px;padding:0 4px;font-variant-numeric:tabular-nums;white-space:nowrap}
.anb .ds-num.ds-parts{color:var(--k);font-weight:700}
.anb .ds-cell{padding:3px 6px 4px;min-width:40px;max-width:112px;text-align:center;border:2px solid transparent;border-radius:6px;cursor:pointer;display:flex;flex-direction:column;gap:2px;justify-content:center}
.anb .ds-cell:hover{border-color:var(--line)}
.anb .ds-word{white-space:nowrap;overflow:hidden;text-overflow:ellipsis;unicode-bidi:isolate;display:block}
.anb .ds-sure{height:3px;border-radius:2px;background:var(--w);min-width:1px;display:block}
.anb .ds-other{color:var(--k);font-weight:650}
.anb .ds-gap{border-inline-start-color:var(--k)}
.anb .ds-forced{color:var(--w);font-weight:650;background:color-mix(in srgb,var(--w) 12%,var(--face))}
.anb .ds-now{background:var(--soft)}
.anb .ds-forced.ds-now{background:color-mix(in srgb,var(--w) 18%,var(--face))}
.anb .ds-cell[aria-selected=true]{border-color:var(--q)}
.anb .ds-cell.ds-fed{border:2px dashed var(--v)}
.anb .ds-later .ds-word,.anb .ds-later .ds-sure{visibility:hidden}
.anb .ds-start{cursor:default;color:var(--dim)}
.anb .ds-sums{list-style:none;margin:8px 0 0;padding:0;font-size:.92em;line-height:1.55}
.anb .ds-sums li{margin:0 0 3px;overflow-wrap:anywhere}
.anb .ds-sums b{font-weight:650}
.anb .ds-sums .ds-count{color:var(--dim);font-variant-numeric:tabular-nums}
.anb .ds-two{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,270px),1fr));gap:14px 26px;margin-top:12px}
.anb .ds-two>div{min-width:0}
.anb .ds-reads{font-size:.9em;margin:0 0 4px;color:var(--dim)}
.anb .ds-list{display:grid;grid-template-columns:minmax(64px,max-content) 1fr auto;gap:3px 8px;align-items:center;font-size:13px;margin:4px 0 0;padding:0;list-style:none}
.anb .ds-list li{display:contents}
.anb .ds-list button,.anb .ds-token{min-height:26px;padding:2px 8px;text-align:start;overflow:hidden;text-overflow:ellipsis;white-space:nowrap;max-width:140px;border-radius:7px;border:1px solid transparent;line-height:20px;font-size:13px}
.anb .ds-list button{border-color:var(--line)}
.anb .ds-track{height:13px;border-radius:3px;background:var(--soft)}
.anb .ds-bar{display:block;height:13px;border-radius:3px;background:var(--w);min-width:1px}
.anb .ds-pc{font-variant-numeric:tabular-nums;text-align:end;white-space:nowrap}
.anb .ds-true .ds-bar{background:var(--v)}
.anb .ds-true .ds-token,.anb .ds-true button{border-color:var(--v);font-weight:650}
.anb .ds-list button.ds-chosen{border:2px solid var(--w);font-weight:650}
.anb .ds-cost{font-size:.9em;margin:6px 0 0;font-variant-numeric:tabular-nums}
.anb .ds-force{display:flex;flex-wrap:wrap;gap:6px;margin-top:8px;align-items:end}
.anb .ds-force label{flex:1 1 130px}
.anb .ds-force input{min-height:32px}
.anb .ds-looks{margin-top:8px;font-size:.9em}
.anb .ds-looks p{margin:0 0 3px;color:var(--dim)}
@container (max-width:420px){.anb .ds-name{max-width:66px;font-size:11px;padding-inline-end:4px}.anb .ds-cell{padding:3px 4px 4px;min-width:34px}}
`;

function render({model, el}) {
  const get = name => model.get(name);
  const ui = frame({model, el}, {
    name: "decoding-stepper", css: CSS_DECODING,
    title: {zh: "解码步进器：喂它真话，还是喂它自己的话", en: "Decoding stepper: fed with the truth, or with its own words"},
    caption: {
      zh: "每一列是一步，从 <bos> 开始。教师强制：每一步读参考译文的上一个词，不管自己说了什么；自由运行：读自己写的上一个词（虚线框）。✗ 与参考译文不同（改词以后的一行与没改时比；都按最少的改动来算，整段错位不算错），‸ 前面缺了词，✎ 强行写的词；▾ 是自由运行第一次走岔的地方。词下面的细条是它的概率。点一步看概率，再点右边的词，就强行写它。",
      en: "Every column is a step, from <bos> on. Under teacher forcing each step reads the last word of the reference, whatever was predicted; a free run reads the last word that it wrote itself (dashed). ✗ differs from the reference (after forcing: from the run without forcing), by the fewest changes, so that a rest which is only shifted is not wrong, ‸ something is missing before it, ✎ a forced word; ▾ is where the free run first goes astray. The thin bar below a word is its probability. Choose a step to see the probabilities, then click a word on the right to force it.",
    },
  });
  const {t} = ui;
  let translator;
  try { translator = loadTranslator(get("checkpoint")); } catch (error) {
    ui.figure.append(h("p", {role: "alert"}, error.message));
    return ui.done;
  }
  const {targetTokens, attends} = translator, idOf = new Map(targetTokens.map((token, id) => [token, id]));
  const examples = get("examples"), rules = get("rules");
  const percent = p => (p >= 0.9995 ? "100%" : p >= 0.0995 ? `${Math.round(100 * p)}%` : p >= 0.001 ? `${(100 * p).toFixed(1)}%` : "<0.1%");
  let reader = null;
  const byGrammar = tokens => (rules.grammar ? (reader ??= grammarReader(rules.grammar, rules.forms))(tokens) : null);

  // ---------------------------------------------------------------- what is shown
  // sentence: what is read; truth: what is taken for its translation; runs: the three ways to write it
  let sentence = null, truth = null, runs = null, at = 1, most = 1;
  const forcedIds = () => new Map(get("forced").map(([step, token]) => [step, idOf.get(token) ?? UNK_TOKEN]).filter(([, id]) => id !== PAD_TOKEN && id !== BOS_TOKEN));

  function read(text) {
    const tokens = translator.tokenize(text);
    if (!tokens.length) return {text, tokens};
    const memory = translator.encode(tokens.map(token => token.id)), tree = beginnings(translator, memory);
    return {text, tokens, memory, tree, own: unaided(tree, memory.limit)};
  }
  function trust(typed) {
    const example = examples.find(([source]) => source === sentence.text)?.[1];
    const words = typed.trim() ? translator.tokenizeTarget(typed) : example ? translator.tokenizeTarget(example) : byGrammar(sentence.tokens.map(token => token.token))?.target;
    const kind = typed.trim() && typed !== example ? "typed" : words ? "corpus" : "own";
    if (words?.length) return {typed, kind, ids: [...translator.encodeTarget(words), EOS_TOKEN]};
    const ids = [...sentence.own.written];
    if (!sentence.own.ended) ids.push(EOS_TOKEN);
    return {typed, kind: "own", ids};
  }
  const wordsOf = ids => translator.detokenize(translator.decodeTarget(ids));

  // ---------------------------------------------------------------- tool bar
  const input = h("input", {type: "text", maxlength: 120, spellcheck: "false", autocomplete: "off", lang: "zh-CN"});
  const reference = h("input", {type: "text", maxlength: 400, spellcheck: "false", autocomplete: "off", lang: "en"});
  const REFERENCE_LABEL = {
    typed: {zh: "参考译文（你写的）", en: "Reference translation (yours)"},
    corpus: {zh: "参考译文（语料库的；也可以自己写）", en: "Reference translation (the corpus'; or write your own)"},
    own: {zh: "参考译文（没有，拿模型自己的译文当参考；也可以自己写）", en: "Reference translation (none: the model's own stands in; or write one)"},
  };
  const fresh = {step: null, forced: []};
  for (const [node, begin] of [[input, text => ({text, reference: "", ...fresh})], [reference, text => ({reference: text, ...fresh})]]) {
    const typed = event => { if (event.isComposing) return; stop(); ui.set(begin(node.value)); };
    ui.listen(node, "input", typed);
    ui.listen(node, "compositionend", () => typed({}));
  }
  const field = (node, msg) => h("label", {class: "anb-f ds-text"}, ui.text(h("span", {class: "anb-l"}), msg), node);
  const OWN = "own";
  const pick = ui.select({label: {zh: "选一句", en: "Choose a sentence"}, value: OWN, options: [[OWN, {zh: "（自己的句子）", en: "(your own)"}], ...examples.map(([text], i) => [i, text])],
    onChange: v => { if (v === OWN) { input.focus(); input.select(); return; } stop(); ui.set({text: examples[v][0], reference: "", ...fresh}); }});
  pick.el.classList.add("ds-pick");
  const go = step => { stop(); ui.set({step: Math.max(1, Math.min(most, step))}); };
  const back = ui.button({label: {zh: "◀ 上一步", en: "◀ Back"}, onClick: () => go(at - 1)});
  const forth = ui.button({label: {zh: "下一步 ▶", en: "Step ▶"}, primary: true, onClick: () => go(at + 1)});
  let timer = null;
  const play = ui.button({label: () => (timer ? {zh: "停", en: "Stop"} : {zh: "从头写", en: "Write from the start"}), onClick: () => {
    if (timer) { stop(); return; }
    ui.set({step: 1, ahead: false});
    timer = setInterval(() => { if (at < most) ui.set({step: at + 1}); if (at >= most) { stop(); ui.set({ahead: true}); } }, ui.calm ? 1200 : 650);
    ui.retext();
  }});
  function stop() { if (timer === null) return; clearInterval(timer); timer = null; ui.retext(); }
  const undo = ui.button({label: {zh: "放开所有改过的词", en: "Undo all forcing"}, onClick: () => { stop(); ui.set({forced: []}); }});
  const ahead = ui.toggle({label: {zh: "显示后面的步", en: "show later steps"}, value: get("ahead"), onChange: on => { stop(); ui.set({ahead: on}); }});
  ui.controls.append(pick.el, field(input, {zh: "中文句子", en: "Chinese sentence"}), field(reference, () => REFERENCE_LABEL[truth?.kind ?? "own"]),
    h("div", {class: "ds-buttons"}, back.el, forth.el, play.el, undo.el), ahead.el);

  // ---------------------------------------------------------------- the source
  const chips = () => h("p", {class: "ds-chips"});
  const line = chips(), vector = h("canvas", {height: 1, "aria-hidden": "true"});
  const through = h("span");
  const scale = legend(ui, attends ? {map: "sequential", label: {zh: "权重", en: "weight"}} : {map: "diverging", min: -1, max: 1, digits: 0});
  const source = h("div", {class: "ds-source"}, line, through, ...(attends ? [] : [vector, scale.el]));
  function fillChips(node) {
    node.replaceChildren(...[...sentence.tokens, {token: "<eos>", known: true}].map(({token, known}) => h("span", {class: known ? null : "ds-unknown", title: known ? null : "<unk>"}, token)));
  }

  // ---------------------------------------------------------------- the three runs, step by step
  const ROWS = {
    reference: () => (truth?.kind === "own" ? {zh: "参考（模型自己的）", en: "reference (its own)"} : {zh: "参考译文", en: "reference"}),
    teacher: {zh: "教师强制", en: "teacher forcing"},
    free: {zh: "自由运行", en: "free running"},
    forced: {zh: "改词以后", en: "after forcing"},
  };
  const head = h("div", {class: "ds-row", role: "row"}, ui.text(h("div", {class: "ds-name", role: "columnheader"}), {zh: "步", en: "step"}));
  const grid = ui.attr(h("div", {class: "ds-grid", role: "grid"}, head), "aria-label", {zh: "每一步写的词", en: "what each step writes"});
  const numbers = [], lanes = {};
  for (const [name, msg] of Object.entries(ROWS)) {
    const node = h("div", {class: "ds-row", role: "row"}, ui.text(h("div", {class: "ds-name", role: "rowheader"}), msg));
    lanes[name] = {node, cells: []};
    grid.append(node);
  }
  const scroll = h("div", {class: "ds-scroll"}, grid);
  const names = Object.keys(lanes);
  function addColumn() {
    const step = numbers.length, number = h("div", {class: "ds-num", role: "columnheader"});
    numbers.push(number);
    head.append(number);
    for (const name of names) {
      const sign = h("span"), word = h("span", {dir: "auto"}), sure = h("span", {class: "ds-sure", "aria-hidden": "true"});
      const node = h("div", {class: `ds-cell${step ? "" : " ds-start"}`, role: "gridcell", tabindex: step ? -1 : null}, h("span", {class: "ds-word"}, sign, word), name === "reference" || !step ? null : sure);
      if (step) node.addEventListener("click", () => { go(step); });
      lanes[name].cells.push({node, sign, word, sure});
      lanes[name].node.append(node);
    }
  }
  const placeOf = node => { for (const name of names) { const step = lanes[name].cells.findIndex(cell => cell.node === node); if (step > 0) return {name, step}; } return null; };
  const present = () => names.filter(name => !lanes[name].hidden);
  let focused = "free";
  ui.listen(grid, "focusin", event => { const place = placeOf(event.target); if (place) focused = place.name; });
  ui.listen(grid, "keydown", event => {
    const place = placeOf(event.target);
    if (!place) return;
    const rows = present(), r = rows.indexOf(place.name), {step} = place;
    const to = {ArrowLeft: [r, step - 1], ArrowRight: [r, step + 1], ArrowUp: [r - 1, step], ArrowDown: [r + 1, step], Home: [r, 1], End: [r, most], Enter: [r, step], " ": [r, step]}[event.key];
    if (!to) return;
    event.preventDefault();
    const name = rows[Math.max(0, Math.min(rows.length - 1, to[0]))], column = Math.max(1, Math.min(most, to[1]));
    go(column);
    lanes[name].cells[column].node.focus();
  });

  function lay(name, ids, run, edits, forced) {
    const {cells} = lanes[name], isRun = name !== "reference";
    for (let step = 0; step <= most; step++) {
      const cell = cells[step], {node, sign, word, sure} = cell;
      const id = step ? ids[step - 1] : name === "teacher" ? undefined : BOS_TOKEN, there = id !== undefined;
      const isForced = step > 0 && Boolean(forced?.has(step)) && there, mark = step && there ? edits?.marks[step - 1] : "";
      putText(word, there ? targetTokens[id] : step && isRun && !run.ended && step === ids.length + 1 ? "…" : "\u00a0");
      putText(sign, isForced ? "✎ " : mark === "other" ? "✗ " : mark === "gap" ? "‸ " : "");
      node.classList.toggle("ds-other", mark === "other" && !isForced);
      node.classList.toggle("ds-gap", mark === "gap");
      node.classList.toggle("ds-forced", isForced);
      node.classList.toggle("ds-now", step === at);
      node.classList.toggle("ds-later", isRun && step > at && !get("ahead"));
      const last = runs.forced ? "forced" : "free";
      node.classList.toggle("ds-fed", step === at - 1 && there && (name === "reference" || name === last));
      if (!step) continue;
      const p = isRun && there ? run.places[step - 1].p[id] : 0;
      if (isRun) { putStyle(sure, "width", `${(100 * p).toFixed(2)}%`); putStyle(sure, "visibility", there ? "" : "hidden"); }
      putAttribute(node, "aria-selected", String(step === at));
      putAttribute(node, "tabindex", step === at && name === (lanes[focused].hidden ? "free" : focused) ? "0" : "-1");
      const unseen = node.classList.contains("ds-later"), saysZh = [], saysEn = [];
      if (isForced) { saysZh.push("强行写的"); saysEn.push("forced"); }
      else if (mark === "other") { saysZh.push("与参考不同"); saysEn.push("differs"); }
      if (mark === "gap") { saysZh.push("前面缺词"); saysEn.push("something is missing before it"); }
      const row = ROWS[name], title = typeof row === "function" ? row() : row;
      putAttribute(node, "aria-label", t(unseen ? {zh: `${title.zh}，第 ${step} 步，还没写`, en: `${title.en}, step ${step}, not written yet`}
        : !there ? {zh: `${title.zh}，第 ${step} 步，没有`, en: `${title.en}, step ${step}, nothing`}
        : {zh: [`${title.zh}，第 ${step} 步：${targetTokens[id]}`, ...(isRun ? [percent(p)] : []), ...saysZh].join("，"), en: [`${title.en}, step ${step}: ${targetTokens[id]}`, ...(isRun ? [percent(p)] : []), ...saysEn].join(", ")}));
    }
  }

  // ---------------------------------------------------------------- sentences and counts
  const sums = h("ul", {class: "ds-sums"});
  const sum = () => { const name = h("b"), text = h("span", {lang: "en"}), count = h("span", {class: "ds-count"}), node = h("li", {}, name, text, " ", count); sums.append(node); return {node, name, text, count}; };
  const sumOf = {teacher: sum(), free: sum(), forced: sum()};

  // ---------------------------------------------------------------- one step in numbers
  function panel(canForce) {
    const title = h("div", {class: "anb-mt"}), reads = h("p", {class: "ds-reads"}), list = h("ol", {class: "ds-list"}), cost = h("p", {class: "ds-cost"});
    const rows = Array.from({length: CANDIDATES + 1}, () => {
      const token = canForce ? h("button", {type: "button", dir: "auto"}) : h("span", {class: "ds-token", dir: "auto"});
      const bar = h("span", {class: "ds-bar"}), pc = h("span", {class: "ds-pc"}), node = h("li", {}, token, h("span", {class: "ds-track", "aria-hidden": "true"}, bar), pc);
      const row = {node, token, bar, pc, id: EOS_TOKEN};
      if (canForce) token.addEventListener("click", () => force(row.id));
      list.append(node);
      return row;
    });
    const looks = attends ? chips() : null;
    const looking = attends ? h("div", {class: "ds-looks"}, ui.text(h("p"), {zh: "这一步看源句的哪里（权重）", en: "Where this step looks in the source (weights)"}), looks) : null;
    const node = h("div", {}, title, reads, list, cost, looking);
    return {node, title, reads, list, rows, cost, looks, looking};
  }
  const left = panel(false), right = panel(true);
  const other = h("input", {type: "text", maxlength: 40, spellcheck: "false", autocomplete: "off", autocapitalize: "none", lang: "en"});
  const put = ui.button({label: {zh: "强行写它", en: "Force it"}, onClick: () => forceTyped()});
  const release = ui.button({label: {zh: "放开这一步", en: "Release this step"}, onClick: () => { stop(); ui.set({forced: get("forced").filter(([step]) => step !== at)}); }});
  ui.listen(other, "keydown", event => { if (event.key === "Enter" && !event.isComposing) forceTyped(); });
  const forceBox = h("div", {class: "ds-force"}, h("label", {class: "anb-f"}, ui.text(h("span", {class: "anb-l"}), {zh: "或者写别的英文词", en: "or another English word"}), other), put.el, release.el);
  right.node.append(forceBox);
  ui.figure.append(source, scroll, sums, h("div", {class: "ds-two"}, left.node, right.node), attends ? scale.el : "");
  for (const node of [forceBox]) node.dataset.anbExport = "no";

  // From this step on the old course is another one's: later forced words go, earlier ones stay.
  function forceAll(ids) {
    stop();
    const kept = get("forced").filter(([step]) => step < at), next = new Map(kept.map(([step, token]) => [step, idOf.get(token)]));
    ids.forEach((id, i) => {
      const run = unaided(sentence.tree, sentence.memory.limit, next), place = run.places[at + i - 1];
      if (place && place.best !== id) next.set(at + i, id);
    });
    ui.set({forced: [...next].map(([step, id]) => [step, targetTokens[id]])});
  }
  const force = id => forceAll([id]);
  function forceTyped() {
    const word = other.value.trim(), tokens = word === "<eos>" ? [] : translator.tokenizeTarget(word), ids = word === "<eos>" ? [EOS_TOKEN] : translator.encodeTarget(tokens);
    if (!ids.length || right.node.dataset.over) return;
    if (ids.includes(UNK_TOKEN)) { warning = {zh: `“${word}”不在模型的词表里。`, en: `“${word}” is not in the model's vocabulary.`}; ui.say(warning); return; }
    other.value = "";
    forceAll(ids);
  }
  let warning = null;

  function show(side, run, ids, lane) {
    const place = run.places[at - 1], wanted = truth.ids[at - 1], isFree = side === right, forced = isFree ? forcedIds() : null;
    const hidden = !place;
    for (const node of [side.list, side.cost, side.looking, isFree ? forceBox : null]) if (node) node.style.display = hidden ? "none" : "";
    if (isFree) { if (hidden) side.node.dataset.over = "yes"; else delete side.node.dataset.over; }
    const lead = {left: {zh: "教师强制", en: "Teacher forcing"}, right: lane === "forced" ? {zh: "改词以后", en: "After forcing"} : {zh: "自由运行", en: "Free running"}}[isFree ? "right" : "left"];
    ui.text(side.title, {zh: `${lead.zh}，第 ${at} 步`, en: `${lead.en}, step ${at}`});
    if (hidden) { ui.text(side.reads, {zh: "已经写完了。", en: "It has ended."}); return; }
    const fed = at === 1 ? "<bos>" : targetTokens[(isFree ? ids : truth.ids)[at - 2]];
    ui.text(side.reads, at === 1 ? {zh: "读入“<bos>”，下一个词元：", en: "It reads “<bos>”; the next token:"} : isFree ? {zh: `读入自己写的“${fed}”，下一个词元：`, en: `It reads “${fed}”, its own word; the next token:`} : {zh: `读入参考译文的“${fed}”，下一个词元：`, en: `It reads “${fed}” of the reference; the next token:`});
    const {p} = place, order = [...p.keys()].filter(id => id !== PAD_TOKEN && id !== BOS_TOKEN).sort((a, b) => p[b] - p[a] || a - b), shown = order.slice(0, CANDIDATES);
    // The one that matters is always there: the true token on the left, a forced one on the right.
    const extra = isFree ? forced.get(at) : wanted;
    if (extra !== undefined && !shown.includes(extra)) shown.push(extra);
    side.rows.forEach((row, i) => {
      putStyle(row.node, "display", i < shown.length ? "" : "none");
      if (i >= shown.length) return;
      const id = row.id = shown[i], word = targetTokens[id];
      putText(row.token, i < CANDIDATES ? word : `#${order.indexOf(id) + 1} ${word}`);
      putStyle(row.bar, "width", `${(100 * p[id]).toFixed(2)}%`);
      putText(row.pc, percent(p[id]));
      row.node.classList.toggle("ds-true", id === wanted && (!isFree || truth.kind !== "own"));
      if (isFree) {
        const chosen = id === ids[at - 1];
        row.token.classList.toggle("ds-chosen", chosen);
        putAttribute(row.token, "aria-pressed", String(chosen));
        putAttribute(row.token, "aria-label", t({zh: `第 ${at} 步强行写 ${word}，概率 ${percent(p[id])}`, en: `force ${word} at step ${at}, probability ${percent(p[id])}`}));
      }
    });
    if (isFree) {
      const isForced = forced.has(at);
      release.el.style.display = isForced ? "" : "none";
      ui.text(side.cost, isForced ? {zh: `强行写了“${targetTokens[ids[at - 1]]}”，它自己要写“${targetTokens[place.best]}”。`, en: `“${targetTokens[ids[at - 1]]}” is forced; on its own it would write “${targetTokens[place.best]}”.`} : {zh: "点一个词，强行写它。", en: "Click a word to force it."});
    } else ui.text(side.cost, wanted === undefined ? "" : {zh: `真的词是“${targetTokens[wanted]}”，这一步的损失 −ln ${fmt(p[wanted], 3)} = ${fmt(-Math.log(p[wanted]))}`, en: `The true word is “${targetTokens[wanted]}”; this step's loss is −ln ${fmt(p[wanted], 3)} = ${fmt(-Math.log(p[wanted]))}`});
    if (side.looks) {
      const weights = place.step.cross[0].map(head => [...head]).reduce((sum, head, _, all) => sum.map((v, i) => v + head[i] / all.length), new Array(sentence.tokens.length + 1).fill(0));
      const steps = colourSteps("sequential", ui.theme);
      [...side.looks.children].forEach((chip, i) => {
        const colour = steps[colourStep(weights[i], 0, 1)];
        putStyle(chip, "backgroundColor", colour.css); putStyle(chip, "color", colour.ink);
        const number = chip.querySelector("small") ?? chip.appendChild(h("small"));
        putText(number, weights[i] < 0.005 ? "·" : fmt(weights[i]));
      });
    }
  }

  // ---------------------------------------------------------------- update
  let toScroll = null, painted = null;
  function update() {
    const text = get("text");
    if (sentence?.text !== text) {
      sentence = read(text);
      truth = null;
      fillChips(line);
      if (attends) { fillChips(left.looks); fillChips(right.looks); }
    }
    const active = el.getRootNode().activeElement;
    if (active !== input && input.value !== text) input.value = text;
    const chosen = examples.findIndex(([example]) => example === text);
    pick.set(chosen < 0 ? OWN : chosen);
    ahead.set(get("ahead"));
    const there = Boolean(sentence.memory);
    for (const node of [scroll, sums, left.node, right.node]) node.hidden = !there;
    left.node.parentNode.style.display = there ? "" : "none";
    for (const control of [back, forth, play, undo]) control.el.disabled = !there;
    source.style.display = there ? "" : "none";
    if (!there) { ui.say({zh: "写一句中文，或者选一句。", en: "Write a Chinese sentence, or choose one."}); return; }

    const typed = get("reference");
    if (truth?.typed !== typed) truth = trust(typed);
    if (active !== reference && reference.value !== typed) reference.value = typed;
    if (!typed) reference.placeholder = wordsOf(truth.ids);
    const forced = forcedIds(), {tree, memory, own} = sentence;
    const teacher = taught(tree, truth.ids);
    runs = {teacher, free: own, forced: forced.size ? unaided(tree, memory.limit, forced) : null};
    const edits = {free: editsBetween(own.written, truth.ids), teacher: {marks: teacher.written.map((id, i) => (id === truth.ids[i] ? "" : "other"))}};
    if (runs.forced) edits.forced = editsBetween(runs.forced.written, own.written);
    const widths = [truth.ids.length, own.written.length + (own.ended ? 0 : 1), runs.forced ? runs.forced.written.length + (runs.forced.ended ? 0 : 1) : 0];
    most = Math.max(...widths);
    at = Math.min(get("step") ?? Math.min(...forced.keys(), (edits.free.parts ?? 0) + 1), most);

    while (numbers.length <= most) addColumn();
    numbers.forEach((node, step) => {
      const on = step <= most, parts = edits.free.parts !== null && step === edits.free.parts + 1 && (get("ahead") || step <= at);
      putStyle(node, "display", on ? "" : "none");
      putText(node, step ? `${step}${parts ? " ▾" : ""}` : "");
      if (!step) putAttribute(node, "aria-label", t({zh: "开头", en: "start"}));
      node.classList.toggle("ds-parts", parts);
      for (const name of names) putStyle(lanes[name].cells[step].node, "display", on ? "" : "none");
    });
    lanes.forced.hidden = !runs.forced;
    putStyle(lanes.forced.node, "display", runs.forced ? "" : "none");
    putStyle(grid, "gridTemplateColumns", `auto repeat(${most + 1}, auto)`);
    lay("reference", truth.ids, null, null, null);
    lay("teacher", teacher.written, {...teacher, ended: true}, edits.teacher, null);
    lay("free", own.written, own, edits.free, null);
    if (runs.forced) lay("forced", runs.forced.written, runs.forced, edits.forced, forced);
    keepInView();

    back.el.disabled = at === 1; forth.el.disabled = at === most; undo.el.disabled = !forced.size;
    const losses = truth.ids.map((id, i) => -Math.log(teacher.places[i].p[id])), total = losses.reduce((a, b) => a + b, 0);
    const wrong = edits.teacher.marks.filter(Boolean).length;
    const about = (line, name, words, count) => { ui.text(line.name, name); ui.text(line.text, words); ui.text(line.count, count); };
    const open = length => !get("ahead") && at < length, begun = ids => (open(ids.length) ? `${wordsOf(ids.slice(0, at))} …` : wordsOf(ids));
    about(sumOf.teacher, {zh: "教师强制：", en: "Teacher forcing: "}, "", open(truth.ids.length) ? "…" : {zh: `${truth.ids.length} 步中错了 ${wrong} 步；损失之和 ${fmt(total)}，每步 ${fmt(total / losses.length)}`, en: `${wrong} of ${truth.ids.length} steps wrong; the losses sum to ${fmt(total)}, ${fmt(total / losses.length)} a step`});
    const away = edits.free.distance;
    about(sumOf.free, {zh: "自由运行：", en: "Free running: "}, begun(own.written), open(own.written.length) ? "" : truth.kind === "own" ? {zh: "（就是这里的参考）", en: "(the reference here)"}
      : away ? {zh: `（与参考译文相差 ${away} 处）`, en: `(${away} change${away === 1 ? "" : "s"} from the reference)`} : {zh: "（与参考译文一字不差）", en: "(exactly the reference)"});
    sumOf.forced.node.style.display = runs.forced ? "" : "none";
    if (runs.forced) {
      const spoilt = edits.forced.distance;
      about(sumOf.forced, {zh: "改词以后：", en: "After forcing: "}, begun(runs.forced.written), open(runs.forced.written.length) ? "" : {zh: `（改了 ${forced.size} 个词，与没改时相差 ${spoilt} 处）`, en: `(${forced.size} word${forced.size === 1 ? "" : "s"} forced, ${spoilt} change${spoilt === 1 ? "" : "s"} from the unforced run)`});
    }

    show(left, {places: teacher.places}, teacher.written, "teacher");
    const shownRun = runs.forced ?? own;
    show(right, shownRun, shownRun.written, runs.forced ? "forced" : "free");

    if (attends) ui.text(through, {zh: `编码器给出 ${memory.ids.length} 个状态，每一步都回看它们。`, en: `The encoder gives ${memory.ids.length} states, and every step looks at them.`});
    else {
      const c = memory.final.at(-1).h;
      if (painted !== `${ui.theme} ${text}`) {
        painted = `${ui.theme} ${text}`;
        vector.width = c.length;
        pixels(vector, c, {map: "diverging", min: -1, max: 1}, ui.theme);
      }
      ui.text(through, {zh: `→ 全部装进这 ${c.length} 个数：`, en: `→ all of it in these ${c.length} numbers:`});
    }
    ui.retext();
    report(edits, forced);
    warning = null;
  }
  function keepInView() {
    if (toScroll === `${sentence.text} ${at}`) return;
    toScroll = `${sentence.text} ${at}`;
    const cell = lanes.free.cells[at].node, side = lanes.free.node.firstChild.offsetWidth;
    const before = cell.offsetLeft - side - 44, after = cell.offsetLeft + cell.offsetWidth + 44;
    if (before < scroll.scrollLeft) scroll.scrollLeft = Math.max(0, before);
    else if (after > scroll.scrollLeft + scroll.clientWidth) scroll.scrollLeft = after - scroll.clientWidth;
  }
  function report(edits, forced) {
    const teacher = runs.teacher.places[at - 1], shown = runs.forced ?? runs.free, free = shown.places[at - 1], unknown = sentence.tokens.filter(token => !token.known).map(token => token.token);
    const zh = [], en = [];
    if (teacher && free) {
      const a = targetTokens[teacher.best], b = targetTokens[free.best];
      if (teacher === free) { zh.push(`第 ${at} 步：两边读到的完全相同，都最看好“${a}”（${percent(teacher.p[teacher.best])}）。`); en.push(`Step ${at}: both have read the same, and expect “${a}” most (${percent(teacher.p[teacher.best])}).`); }
      else { zh.push(`第 ${at} 步：教师强制最看好“${a}”（${percent(teacher.p[teacher.best])}），${runs.forced ? "改词以后" : "自由运行"}最看好“${b}”（${percent(free.p[free.best])}）。`); en.push(`Step ${at}: teacher forcing expects “${a}” most (${percent(teacher.p[teacher.best])}), ${runs.forced ? "after forcing it is" : "the free run"} “${b}” (${percent(free.p[free.best])}).`); }
    }
    if (!forced.size && truth.kind !== "own" && (get("ahead") || at >= most)) {
      const {parts} = edits.free;
      zh.push(parts === null ? "自由运行与参考译文没有分开。" : `自由运行在第 ${parts + 1} 步与参考译文分开。`);
      en.push(parts === null ? "The free run never parts from the reference." : `The free run parts from the reference at step ${parts + 1}.`);
    }
    if (!runs.free.ended) { zh.push("译文太长，被截断了。"); en.push("The translation is too long and was cut."); }
    if (truth.ids.includes(UNK_TOKEN)) { zh.push("参考译文里有模型不认识的词（<unk>）。"); en.push("The reference has words that the model does not know (<unk>)."); }
    if (unknown.length) { zh.push(`模型不认识：${unknown.slice(0, 5).join("、")}。`); en.push(`Unknown to the model: ${unknown.slice(0, 5).join(", ")}.`); }
    ui.say({zh: zh.join(""), en: en.join(" ")});
  }
  ui.watch(["text", "reference", "step", "forced", "ahead"], update);
  input.value = get("text");
  update();
  return () => { stop(); ui.done(); };
}

export default {render};
