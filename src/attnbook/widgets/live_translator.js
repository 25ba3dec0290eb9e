// The live translator. It knows nothing of the page around it: its traits are in live_translator.py, the model's bytes are the trait
// "checkpoint", or come through model.load("checkpoint", progress) where they are not in the page yet (`later`).

import {attentionView} from "./attention_view.js";
import {frame} from "./common.js";
import {h} from "./dom.js";
import {scientific} from "./maths.js";
import {loadTranslator, logProbabilities, mostLikely} from "./translator.js";

const LONGEST_INPUT = 200; // characters, as in Python
const OFFERED = 8; // alternatives of a step
const END = 2, UNKNOWN = 3; // ids of <eos> and <unk>

// Weights of all layers, heads and steps as attentionView takes them; rows may be shorter than `columns` (what comes later is not attended to).
export function stackWeights(rowsOf, layers, heads, rows, columns) {
  const weights = new Float32Array(layers * heads * rows * columns);
  for (let l = 0; l < layers; l++) for (let k = 0; k < heads; k++) for (let r = 0; r < rows; r++) weights.set(rowsOf(r)[l][k], ((l * heads + k) * rows + r) * columns);
  return {weights, shape: [layers, heads, rows, columns]};
}

// The ids of a beam's best open hypothesis, or of its best that has just ended, from the history so far.
export function leading(history) {
  const open = history.map(kept => kept.filter(entry => !entry.ended));
  const last = history.at(-1), best = open.at(-1)[0] ?? last[0], ids = [];
  for (let t = history.length - 1, entry = best; t >= 0; t--) {
    if (!entry.ended) ids.unshift(entry.id);
    entry = open[t - 1]?.[entry.parent];
  }
  return ids;
}

// Lets the browser draw and answer the reader; in a hidden page nothing is drawn, and it goes on.
const breathe = () => new Promise(done => {
  const timer = setTimeout(done, 60);
  requestAnimationFrame(() => { clearTimeout(timer); setTimeout(done); });
});

// Browsers compile code that has run for a while. Three short translations that nobody sees, in pieces, and the reader's first is
// no slower than the others.
const REHEARSALS = 3, REHEARSED = 4; // tokens of each
async function rehearse(translator, over) {
  try {
    for (let n = 0; n < REHEARSALS; n++) {
      const memory = translator.encode(Array(REHEARSED).fill(UNKNOWN));
      for (let i = 0, state = translator.start(memory); i < REHEARSED; i++) {
        await breathe();
        if (over()) return;
        const step = translator.step(memory, state, UNKNOWN);
        mostLikely(logProbabilities(step.logits), OFFERED);
        state = step.state;
      }
    }
  } catch { /* what the model cannot do it says when it translates */ }
}

const CSS_LIVE = `
.anb .lt-text{flex:1 1 100%}
.anb .lt-text input{width:100%;min-height:38px;padding:4px 10px;border:1px solid var(--dim);border-radius:8px;background:var(--face);font-size:1em}
.anb .lt-pick{flex:1 1 240px}
.anb .lt-pick select{width:100%}
.anb .lt-load{display:flex;flex-wrap:wrap;gap:6px 14px;align-items:center;min-height:7em;align-content:center;justify-content:center}
.anb .lt-load progress{width:min(100%,320px);height:12px;accent-color:var(--q)}
.anb .lt-row{display:flex;flex-wrap:wrap;gap:4px;margin:2px 0 10px;align-items:stretch}
.anb .lt-chip{display:flex;flex-direction:column;align-items:center;gap:1px;padding:2px 6px;min-height:0;border:1px solid var(--line);border-radius:7px;background:var(--face);font-size:14px;line-height:1.35;max-width:170px}
.anb .lt-chip span{max-width:100%;overflow:hidden;text-overflow:ellipsis;white-space:nowrap;unicode-bidi:isolate}
.anb .lt-chip i{display:block;align-self:stretch;height:5px;border-radius:2px;background:var(--soft);overflow:hidden}
.anb .lt-chip i b{display:block;height:100%;background:var(--w)}
.anb .lt-chip small{font-size:11px;color:var(--dim);font-variant-numeric:tabular-nums}
.anb button.lt-chip[aria-pressed=true]{background:var(--soft);border-color:var(--q);box-shadow:inset 0 0 0 1px var(--q);color:var(--ink)}
.anb .lt-chip.lt-forced{border-style:dashed;border-color:var(--k)}
.anb .lt-chip.lt-unknown{border:2px dashed var(--k);color:var(--k);font-weight:650}
.anb .lt-out{margin:2px 0 4px;font-size:1.22em;font-weight:600;line-height:1.4;min-height:1.4em;overflow-wrap:anywhere}
.anb .lt-dim{color:var(--dim);font-size:.92em;margin:0 0 10px;line-height:1.5;font-variant-numeric:tabular-nums}
.anb .lt-two{display:flex;flex-wrap:wrap;gap:14px 26px;align-items:start}
.anb .lt-two>div{min-width:0;flex:1 1 240px}
.anb .lt-two>div:last-child{flex:3 1 min(100%,440px)}
.anb .lt-list{display:grid;grid-template-columns:minmax(64px,max-content) 1fr auto;gap:3px 8px;align-items:center;font-size:13px;margin:4px 0 0;padding:0;list-style:none}
.anb .lt-list li{display:contents}
.anb .lt-list button{min-height:26px;padding:0 8px;text-align:start;overflow:hidden;text-overflow:ellipsis;white-space:nowrap;max-width:190px}
.anb .lt-list button[aria-pressed=true]{background:var(--soft);border-color:var(--q);box-shadow:inset 0 0 0 1px var(--q);color:var(--ink);font-weight:650}
.anb .lt-bar{height:13px;border-radius:3px;background:var(--w);min-width:1px}
.anb .lt-pc{font-variant-numeric:tabular-nums;text-align:end}
.anb .lt-kinds{display:flex;flex-wrap:wrap;gap:8px 16px;align-items:end;margin:0 0 8px}
.anb .lt-old{filter:grayscale(1)}
`;

function render({model, el}) {
  const get = name => model.get(name);
  const ui = frame({model, el}, {
    name: "live-translator", css: CSS_LIVE,
    title: {zh: "实时翻译：模型就在这个页面里", en: "Live translation: the model runs in this page"},
    caption: {
      zh: "上面一排是读入的字，下面一排是写出的词元（@@ 表示这个词还没完），小数字是选中它时的概率。点一个词元，看那一步还有哪些候选；点一个候选，就强制选它，模型从那里接着写。字下面的紫条是那一步对它的交叉注意力。矩阵的行是查询，列是键。",
      en: "The first row shows the characters it reads, the second the tokens it writes (@@: the word goes on), with the probability at which each was chosen. Click a token to see what else that step considered; click an alternative to force it, and the model goes on from there. The purple bar below a character is that step's cross-attention to it. In the matrix, rows are queries and columns are keys.",
    },
  });
  const {t} = ui, NAMES = {1: {zh: "⟨开始⟩", en: "⟨start⟩"}, 2: {zh: "⟨结束⟩", en: "⟨end⟩"}, 3: {zh: "⟨未知⟩", en: "⟨unknown⟩"}};
  const name = id => NAMES[id] ?? translator.targetTokens[id];
  const percent = p => (p >= 0.9995 ? "100%" : p >= 0.0995 ? `${Math.round(100 * p)}%` : p >= 0.001 ? `${(100 * p).toFixed(1)}%` : "<0.1%");

  // What the model makes of the sentence: tokens and memory of the source, then ids and one record for each step, while `writing` from left to right.
  let translator = null, ended = false, source = null, result = null, wanted = "", job = 0, shownQuery = null, shownKey = null;

  // Tool bar.
  const input = h("input", {type: "text", maxlength: LONGEST_INPUT, spellcheck: "false", autocomplete: "off", lang: "zh-CN"});
  let typing = 0;
  const fresh = text => ui.set({text, sentence: 0, prefix: [], step: null});
  const take = () => { clearTimeout(typing); typing = 0; if (input.value !== get("text")) fresh(input.value); };
  const later = event => { clearTimeout(typing); if (!event.isComposing) typing = setTimeout(take, 350); };
  ui.listen(input, "input", later);
  ui.listen(input, "compositionend", () => later({}));
  ui.listen(input, "keydown", event => { if (event.key === "Enter" && !event.isComposing) { take(); again(); } });
  const field = h("label", {class: "anb-f lt-text"}, ui.text(h("span", {class: "anb-l"}), {zh: "你的中文句子", en: "Your Chinese sentence"}), input);
  const examples = get("examples"), OWN = "own";
  const pick = ui.select({label: {zh: "或者选一句", en: "or choose one"}, value: OWN, onChange: v => { if (v !== OWN) fresh(examples[v][0]); },
    options: [[OWN, {zh: "（自己的句子）", en: "(your own)"}], ...examples.map(([zh, en], i) => [i, {zh, en: `${zh} ${en}`}])]});
  pick.el.classList.add("lt-pick");
  const part = ui.select({label: {zh: "翻译第几句", en: "sentence"}, options: [], value: 0, onChange: v => ui.set({sentence: Number(v), prefix: [], step: null})});
  const width = ui.slider({label: {zh: "束宽", en: "beam width"}, min: 1, max: 12, value: get("width"), format: v => (v === 1 ? {zh: "1（贪心）", en: "1 (greedy)"} : String(v)), onInput: v => ui.set({width: v, step: null})});
  const alpha = ui.slider({label: {zh: "长度惩罚 α", en: "length penalty α"}, min: 0, max: 3, step: 0.1, value: get("alpha"), format: v => v.toFixed(1), onInput: v => ui.set({alpha: v, step: null})});
  const anew = ui.button({label: {zh: "再译一遍", en: "Translate again"}, primary: true, onClick: () => { take(); again(); }});
  const release = ui.button({label: {zh: "放开强制的词元", en: "Release what was forced"}, onClick: () => ui.set({prefix: [], step: null})});
  ui.controls.append(field, pick.el, part.el, width.el, alpha.el, anew.el, release.el);

  // Loading.
  const progress = ui.attr(h("progress", {max: 1}), "aria-label", {zh: "模型的下载进度", en: "download of the model"});
  const told = h("span", {role: "status"}), retry = ui.button({label: {zh: "再试一次", en: "Try again"}, onClick: () => load()});
  const loading = h("div", {class: "lt-load", "data-anb-export": "no"}, told, progress, retry.el);

  // The sentence, its translation, the step.
  const heading = msg => ui.text(h("div", {class: "anb-mt"}), msg);
  const read = ui.attr(h("div", {class: "lt-row", role: "list"}), "aria-label", {zh: "读入的字", en: "characters it reads"});
  const written = ui.attr(h("div", {class: "lt-row", role: "group"}), "aria-label", {zh: "写出的词元，每个按钮是一步", en: "tokens it writes; each button is a step"});
  const output = h("p", {class: "lt-out", lang: "en", "aria-live": "polite"}), remark = h("p", {class: "lt-dim"}), numbers = h("p", {class: "lt-dim"});
  const list = h("ol", {class: "lt-list"}), before = heading(() => ({zh: `第 ${at() + 1} 步的候选`, en: `What step ${at() + 1} considered`}));
  const offers = Array.from({length: OFFERED}, () => {
    const button = h("button", {type: "button", dir: "auto"}), bar = h("span", {class: "lt-bar", "aria-hidden": "true"}), pc = h("span", {class: "lt-pc"});
    const offer = {node: h("li", {}, button, bar, pc), button, bar, pc, id: 0};
    button.addEventListener("click", () => force(offer.id));
    list.append(offer.node);
    return offer;
  });
  const kinds = ui.segmented({label: {zh: "哪种注意力", en: "Which attention"}, value: get("attention"), onChange: v => { shownQuery = v === "encoder" ? null : at(); shownKey = null; ui.set({attention: v}); },
    options: [["cross", {zh: "交叉：译文 → 原文", en: "cross: target → source"}], ["decoder", {zh: "解码器：译文之内", en: "decoder: within the target"}], ["encoder", {zh: "编码器：原文之内", en: "encoder: within the source"}]]});
  const view = attentionView(ui, {say: () => {}, onChange: changes => {
    if ("query" in changes) {
      ({query: shownQuery, key: shownKey} = {key: shownKey, ...changes});
      if (shownQuery != null && get("attention") !== "encoder" && shownQuery !== at()) ui.set({step: shownQuery}); else update();
    } else ui.set(changes);
  }});
  const looking = h("div", {}, h("div", {class: "lt-kinds", "data-anb-export": "no"}, kinds.el, view.controls), view.el);
  const work = h("div", {}, heading({zh: "读入", en: "It reads"}), read, heading({zh: "写出", en: "It writes"}), written, output, remark, numbers, h("div", {class: "lt-two"}, h("div", {}, before, list), looking));
  ui.figure.append(loading, work);

  // The step whose alternatives are shown: the chosen one, the newest while it writes, else the one at which the model was least sure.
  function at() {
    const last = (result?.steps.length ?? 0) - 1, chosen = get("step");
    if (result?.writing) return last;
    if (chosen != null) return Math.min(chosen, last);
    let least = 0;
    result?.steps.forEach((step, i) => { if (i >= result.forced && !(step.p >= result.steps[least].p)) least = i; });
    return result?.steps[least] && least >= result.forced ? least : Math.max(0, last);
  }
  function force(id) {
    const t = at();
    ui.set({prefix: [...result.ids.slice(0, t), id].map(one => translator.targetTokens[one]), step: t});
  }

  // ---------------------------------------------------------------------- work

  const present = (node, on) => { node.style.display = on ? "" : "none"; };
  function state(kind, message, share) {
    present(loading, kind !== "ready");
    present(work, kind === "ready");
    present(progress, kind === "loading");
    present(retry.el, kind === "failed");
    if (share === undefined) progress.removeAttribute("value"); else progress.value = share;
    ui.text(told, message);
  }

  let loadings = 0;
  async function load() {
    const mine = ++loadings, waiting = {zh: "正在取模型……", en: "Fetching the model …"};
    translator = source = result = null;
    job++;
    state("loading", waiting);
    try {
      const bytes = get("checkpoint") ?? (await model.load("checkpoint", share => { if (mine === loadings && share < 1) state("loading", {zh: `正在取模型：${Math.round(100 * share)}%`, en: `Fetching the model: ${Math.round(100 * share)}%`}, share); }));
      if (mine !== loadings || ended) return;
      state("loading", {zh: "模型到了，正在热身……", en: "The model is here, and warms up …"}, 1);
      await breathe();
      const loaded = loadTranslator(bytes), over = () => mine !== loadings || ended;
      await rehearse(loaded, over);
      if (over()) return;
      translator = loaded;
    } catch (error) {
      if (mine !== loadings || ended) return;
      state("failed", {zh: `没能取到模型：${error.message}`, en: `The model could not be loaded: ${error.message}`});
      return;
    }
    wanted = "";
    state("ready", "");
    update();
  }

  function readSource() {
    const sentences = translator.sentences(get("text")), number = Math.min(get("sentence"), Math.max(0, sentences.length - 1));
    const tokens = sentences.length ? translator.tokenize(sentences[number]) : [], start = performance.now();
    source = {sentences, number, tokens, memory: null, problem: null};
    try { if (tokens.length) source.memory = translator.encode(tokens.map(token => token.id)); } catch (error) { source.problem = error.message; }
    source.took = performance.now() - start;
    read.replaceChildren(...[...tokens, ...(tokens.length ? [{token: "⟨⟩", known: true, end: true}] : [])].map(({token, known, end}) => {
      const bar = h("b"), label = h("span"), chip = h("span", {class: `lt-chip ${known ? "" : "lt-unknown"}`, role: "listitem"}, label, h("i", {"aria-hidden": "true"}, bar));
      if (end) ui.text(label, NAMES[translator.kind === "GPT" ? 1 : END]); else label.textContent = token;
      if (!known) ui.attr(chip, "title", {zh: "不在词表里，模型读到的是 <unk>", en: "not in the vocabulary; the model reads <unk>"});
      chip.bar = bar;
      return chip;
    }));
  }

  // Writes the translation; a newer call ends an older one.
  async function translate() {
    const mine = ++job, {memory} = source, beam = get("width") > 1;
    const index = new Map(translator.targetTokens.map((token, id) => [token, id])), prefix = get("prefix").map(token => index.get(token) ?? UNKNOWN).filter(id => id > 1);
    const forced = Math.min(prefix.length, memory?.limit ?? 0);
    result = memory && {writing: true, ids: [], steps: [], forced, score: 0, ended: false, took: 0};
    paint();
    if (!memory) return;
    const add = (step, id) => { const logProbs = logProbabilities(step.logits); result.steps.push({...step, logProbs, id, p: Math.exp(logProbs[id])}); };
    const timed = work => { const start = performance.now(), made = work(); result.took += performance.now() - start; return made; };
    const passed = async () => { paint(); await breathe(); return mine !== job || ended; };
    let found;
    try {
      if (beam) {
        const searching = translator.beamSteps(memory, get("width"), get("alpha"), undefined, prefix), history = [];
        let next = timed(() => searching.next());
        for (; !next.done; next = timed(() => searching.next())) {
          history.push(next.value);
          result.draft = leading(history);
          if (await passed()) return;
        }
        found = next.value;
        let cell = translator.start(memory), token = 1;
        for (const id of [...found.ids, ...(found.ended ? [END] : [])]) {
          const step = translator.step(memory, cell, token);
          add(step, id);
          [cell, token] = [step.state, id];
          if (result.steps.length % 4 === 0 && (await passed())) return;
        }
      } else {
        const writing = translator.greedySteps(memory, undefined, prefix);
        let next = timed(() => writing.next());
        for (; !next.done; next = timed(() => writing.next())) {
          const {ids, step} = next.value, id = ids.length > result.ids.length ? ids.at(-1) : END;
          result.ids = ids;
          add(step, id);
          if (await passed()) return;
        }
        found = next.value;
      }
    } catch (error) {
      result = null;
      paint();
      ui.say({zh: `没能翻译：${error.message}`, en: `Could not translate: ${error.message}`});
      return;
    }
    Object.assign(result, {writing: false, draft: null, ids: found.ids, ended: found.ended, score: found.score, logProb: found.logProb ?? found.score});
    shownQuery = get("attention") === "encoder" ? null : at();
    shownKey = null;
    paint();
  }
  const again = () => { wanted = ""; update(); };

  // ---------------------------------------------------------------------- drawing

  const chips = [];
  function chip(i) {
    const label = h("span"), small = h("small"), node = h("button", {type: "button", class: "lt-chip", dir: "auto"}, label, small);
    node.addEventListener("click", () => { shownQuery = get("attention") === "encoder" ? null : i; shownKey = null; ui.set({step: i}); if (get("step") === i) update(); });
    chips.push({node, label, small});
    written.append(node);
  }
  ui.listen(written, "keydown", event => {
    const i = chips.findIndex(one => one.node === event.target), to = {ArrowLeft: i - 1, ArrowRight: i + 1, Home: 0, End: result?.steps.length - 1}[event.key];
    if (i < 0 || !(to >= 0) || to >= (result?.steps.length ?? 0)) return;
    event.preventDefault();
    chips[to].node.focus();
    chips[to].node.click();
  });

  function paintTokens() {
    const draft = result?.draft ?? null, shown = draft ? draft.map(id => ({id})) : (result?.steps ?? []), step = at();
    while (chips.length < shown.length) chip(chips.length);
    chips.forEach(({node, label, small}, i) => {
      present(node, i < shown.length);
      if (i >= shown.length) return;
      const {id, p} = shown[i];
      label.textContent = t(name(id));
      small.textContent = p === undefined ? "…" : percent(p);
      node.disabled = Boolean(draft);
      node.classList.toggle("lt-forced", i < result.forced);
      node.setAttribute("aria-pressed", String(!draft && i === step));
      node.tabIndex = i === step ? 0 : -1;
      const forced = i < result.forced;
      ui.attr(node, "aria-label", {zh: `第 ${i + 1} 步：${t(name(id))}${p === undefined ? "" : `，概率 ${percent(p)}`}${forced ? "，强制选的" : ""}`, en: `step ${i + 1}: ${t(name(id))}${p === undefined ? "" : `, probability ${percent(p)}`}${forced ? ", forced" : ""}`});
    });
    output.textContent = result ? translator.detokenize(translator.decodeTarget(draft ?? result.ids)) : "";
  }

  function paintStep() {
    const now = result?.steps[at()], {layer, head} = {layer: Math.min(get("layer"), translator.layers - 1), head: get("head")};
    present(before.parentNode, now);
    const heads = now?.cross?.[layer] ?? null, chosen = heads && (heads[head] ? [heads[head]] : heads);
    [...read.children].forEach(({bar}, i) => {
      bar.parentNode.style.visibility = chosen ? "" : "hidden";
      if (chosen) bar.style.width = `${(100 * chosen.reduce((sum, row) => sum + row[i], 0)) / chosen.length}%`;
    });
    if (!now) return;
    const best = mostLikely(now.logProbs, OFFERED), all = best.includes(now.id) ? best : [...best.slice(0, -1), now.id], top = Math.exp(now.logProbs[all[0]]);
    offers.forEach((offer, i) => {
      present(offer.node, i < all.length);
      if (i >= all.length) return;
      const p = Math.exp(now.logProbs[all[i]]), mine = all[i] === now.id;
      offer.id = all[i];
      offer.button.textContent = t(name(offer.id));
      offer.button.setAttribute("aria-pressed", String(mine));
      offer.button.disabled = Boolean(result.writing);
      offer.bar.style.width = `${(100 * p) / top}%`;
      offer.pc.textContent = percent(p);
      ui.attr(offer.button, "aria-label", mine ? {zh: `${t(name(offer.id))}，概率 ${percent(p)}，现在选的`, en: `${t(name(offer.id))}, probability ${percent(p)}, the present choice`} : {zh: `改选 ${t(name(offer.id))}，概率 ${percent(p)}`, en: `force ${t(name(offer.id))}, probability ${percent(p)}`});
    });
  }

  // Attention is drawn when the sentence is complete; until then the last one stays, paler.
  let drawnFor = null;
  function paintAttention() {
    const has = {cross: translator.attends, decoder: Boolean(result?.steps[0]?.self), encoder: Boolean(source?.memory?.weights)};
    kinds.inputs.forEach(one => { present(one.parentNode, has[one.value]); });
    const kind = has[get("attention")] ? get("attention") : "cross";
    kinds.set(kind);
    present(looking, translator.attends && source.memory);
    view.el.classList.toggle("lt-old", Boolean(result?.writing));
    if (!translator.attends || !result || result.writing) return;
    const {steps} = result, {layers, heads} = translator, last = NAMES[translator.kind === "GPT" ? 1 : END];
    const sourceNames = [...source.tokens.map(({token, known}) => (known ? token : `${token}?`)), last], chosen = Object.fromEntries(["layer", "head", "view"].map(key => [key, get(key)]));
    const changes = {...chosen, query: shownQuery, key: shownKey};
    if (drawnFor?.result !== result || drawnFor.kind !== kind) {
      drawnFor = {result, kind};
      if (kind === "cross") Object.assign(changes, stackWeights(r => steps[r].cross, layers, heads, steps.length, sourceNames.length), {queries: steps.map(step => name(step.id)), keys: sourceNames});
      else if (kind === "decoder") {
        const inputs = [NAMES[1], ...steps.slice(0, -1).map(step => name(step.id))];
        Object.assign(changes, stackWeights(r => steps[r].self, layers, heads, steps.length, steps.length), {queries: inputs, keys: inputs});
      } else {
        const maps = source.memory.weights, size = sourceNames.length;
        Object.assign(changes, stackWeights(r => maps.map(layer => layer.map(({data}) => data.subarray(r * size, (r + 1) * size))), maps.length, heads, size, size), {queries: sourceNames, keys: sourceNames});
      }
    }
    view.update(changes);
  }

  function paint() {
    if (!translator) return;
    const unknown = [...new Set(source.tokens.filter(token => !token.known).map(token => token.token))], meaning = examples.find(([zh]) => zh === get("text"))?.[1];
    const remarks = [];
    if (source.problem) remarks.push({zh: `没能读入：${source.problem}`, en: `Could not be read: ${source.problem}`});
    else if (!source.memory) remarks.push({zh: "写一句中文，它会翻译。", en: "Write a Chinese sentence, and it will be translated."});
    if (meaning) remarks.push({zh: `意思是：${meaning} `, en: `It means: ${meaning}`});
    if (unknown.length) remarks.push({zh: `不在词表里（虚线框），模型读到的是 <unk>：${unknown.slice(0, 8).join("、")}。`, en: `Not in the vocabulary (dashed), so that the model reads <unk>: ${unknown.slice(0, 8).join(", ")}.`});
    if (source.sentences.length > 1) remarks.push({zh: `一共 ${source.sentences.length} 句，模型一次译一句，像训练时那样。`, en: `There are ${source.sentences.length} sentences; the model translates one at a time, as in training.`});
    ui.text(remark, {zh: remarks.map(r => r.zh).join(""), en: remarks.map(r => r.en).join(" ")});
    paintTokens();
    paintStep();
    paintAttention();
    const done = result && !result.writing, whole = done ? Math.exp(result.logProb) : 1, odds = whole < 0.001 ? scientific(whole) : percent(whole), ms = value => (value < 9.95 ? value.toFixed(1) : value.toFixed(0));
    ui.text(numbers, !done ? "" : {
      zh: `P = ${odds}（log P = ${signed(result.logProb)}${get("width") > 1 ? `，除以长度惩罚后 ${signed(result.score)}` : ""}）；编码用了 ${ms(source.took)} 毫秒，平均每个词元 ${ms(result.took / result.steps.length)} 毫秒`,
      en: `P = ${odds} (log P = ${signed(result.logProb)}${get("width") > 1 ? `, ${signed(result.score)} after the length penalty` : ""}); encoded in ${ms(source.took)} ms, then ${ms(result.took / result.steps.length)} ms a token`,
    });
    output.setAttribute("aria-busy", String(Boolean(result?.writing)));
    ui.say(done ? verdict() : "");
    ui.retext();
  }
  // The step on display in one sentence: what was chosen, and what came next.
  function verdict() {
    const step = result.steps[at()], [first, second] = mostLikely(step.logProbs, 2), p = id => percent(Math.exp(step.logProbs[id])), forced = at() < result.forced;
    const n = at() + 1, other = step.id === first ? second : first, said = id => `“${t(name(id))}”`;
    const lead = get("step") == null && !forced ? {zh: `第 ${n} 步最没把握：`, en: `It was least sure at step ${n}: `} : {zh: `第 ${n} 步：`, en: `Step ${n}: `};
    const chosen = forced ? {zh: `强制写了${said(step.id)}（${p(step.id)}）`, en: `${said(step.id)} was forced (${p(step.id)})`} : {zh: `写了${said(step.id)}（${p(step.id)}）`, en: `it wrote ${said(step.id)} (${p(step.id)})`};
    const rest = other === undefined ? {zh: "。", en: "."} : step.id === first ? {zh: `，其次是${said(other)}（${p(other)}）。`, en: `, then came ${said(other)} (${p(other)}).`} : {zh: `，最看好的是${said(other)}（${p(other)}）。`, en: `; most likely was ${said(other)} (${p(other)}).`};
    const cut = result.ended ? {zh: "", en: ""} : {zh: "译文到了长度上限，没有写完。", en: " The translation was cut at its greatest length."};
    return Object.fromEntries(["zh", "en"].map(lang => [lang, lead[lang] + chosen[lang] + rest[lang] + cut[lang]]));
  }
  const signed = value => value.toFixed(2).replace("-", "−");

  function update() {
    if (!typing && input.value !== get("text")) input.value = get("text");
    const example = examples.findIndex(([zh]) => zh === get("text"));
    pick.set(example < 0 ? OWN : example);
    width.set(get("width"));
    alpha.set(get("alpha"));
    present(alpha.el, get("width") > 1);
    present(release.el, get("prefix").length);
    present(part.el, source?.sentences.length > 1);
    if (!translator) return;
    const asked = JSON.stringify(["text", "sentence", "width", "alpha", "prefix"].map(get));
    if (asked !== wanted) {
      wanted = asked;
      readSource();
      part.options(source.sentences.map((sentence, i) => [i, `${i + 1}/${source.sentences.length} ${sentence}`]));
      part.set(source.number);
      present(part.el, source.sentences.length > 1);
      translate();
    } else paint();
  }
  ui.watch(["text", "sentence", "width", "alpha", "prefix", "step", "attention", "layer", "head", "view"], update);
  const reload = () => load();
  model.on("change:checkpoint", reload);
  update();
  load();
  return () => { ended = true; clearTimeout(typing); model.off("change:checkpoint", reload); ui.done(); };
}

export default {render, later: ["checkpoint"]};
