// The widget kit: frame, controls, language, theme, tooltip, colours. Import only what you use; base.bundle joins the files.
//
//   import {frame, fmt, legend} from "./common.js";   // frame, controls, tooltip, theme, language, colours, legend
//   import {h} from "./dom.js";                       // h(tag, props, ...children), uid()
//   import {matrix} from "./matrix.js";               // a matrix with labelled rows and columns
//   import {chart} from "./chart.js";                 // lines, bars, dots
//   import {softmax, matmul} from "./maths.js";       // also entropy, dot, transpose, random(seed), normal(uniform)
//
//   function render({model, el}) {
//     const ui = frame({model, el}, {name: "softmax-scaling", title: {zh: "…", en: "…"}, caption: {zh: "…", en: "…"}});
//     const dk = ui.slider({label: {zh: "维度 d_k", en: "dimension d_k"}, min: 1, max: 256, value: model.get("d_k"),
//                           onInput: v => ui.set({d_k: v})});
//     ui.controls.append(dk.el);
//     const m = matrix(ui, {rows, cols, rowAxis, colAxis, label, scale: {map: "sequential", min: 0, max: 1}});
//     ui.figure.append(m.el);
//     const update = () => { dk.set(model.get("d_k")); m.set(values); };
//     ui.watch(["d_k"], update);      // runs once per frame however many traits changed; also on a language/theme switch
//     update();
//     return ui.done;                 // render returns the clean-up
//   }
//   export default {render};
//
// A *message* is a string, {zh, en}, or a function that returns one of them; messages follow the language live.
//
// frame(ctx, {name, title, caption, alt, css}) -> ui      css: rules of this widget alone, each under `.anb`
//   ui.root, ui.controls, ui.figure      containers: tool bar, drawing (what export saves)
//   ui.t(msg)                            text in the present language;   ui.lang "zh"|"en", ui.theme "light"|"dark", ui.calm (reduced motion)
//   ui.text(node, msg) ui.attr(node, name, msg)   bind a text / attribute to a message; return the node
//   ui.retext()                          say again the messages that are functions, after what they read has changed
//   ui.watch(names, fn)                  on trait changes (and a switch of language or theme) call fn in the next frame
//   ui.onChange(fn)                      language or theme switched (called synchronously)
//   ui.onResize(node, fn)                width of a node changed
//   ui.set({trait: value})               model.set + save_changes
//   ui.listen(target, event, fn, options)  addEventListener, removed on clean-up
//   ui.animate(ms, fn)                   fn(0..1) per frame, or fn(1) at once if motion is reduced; returns stop()
//   ui.say(msg)                          polite live region below the figure
//   ui.tips(node, fn)                    tooltip for mouse, touch and focus: fn(target) -> message | null
//   ui.colour(map, v, min, max) -> "rgb(…)" of the present theme;  map "sequential" | "diverging"
//   ui.done                              clean-up
//   controls, each {el, set(value)}:     ui.slider({label, min, max, step, value, format, onInput})  .range(min, max)
//     ui.select({label, options: [[value, msg]], value, onChange})  .options([[value, msg]])
//     ui.segmented({label, options, value, onChange})   ui.toggle({label, value, onChange})
//     ui.button({label, onClick, primary})   ui.numberCell({label, value, step, min, max, onInput})
// CSS variables: --q --k --v --w (query, key, value, weights)
//   --ink --dim --line --face --soft (text, secondary text, lines, background, soft background) --s1 … --s4 (series).

import {h, uid} from "./dom.js";
import {download} from "./export.js";

const CSS = `
.anb{--ink:#1d2330;--dim:#5a6274;--line:#d5d9e2;--face:#fff;--soft:#f4f5f9;--q:#0a62a8;--k:#b04a00;--v:#00755a;--w:#6a3fa8;--s1:#0a62a8;--s2:#c25400;--s3:#00805f;--s4:#a5428a;--ring:#0a62a8;
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","PingFang SC","Microsoft YaHei","Noto Sans CJK SC",sans-serif;color:var(--ink);background:var(--face);border:1px solid var(--line);border-radius:12px;margin:1rem 0;padding:14px 16px 12px;position:relative;box-sizing:border-box;width:100%;min-width:min(300px,80vw);max-width:100%;text-align:start;color-scheme:light;container-type:inline-size}
.anb[data-anb-theme=dark]{--ink:#e8eaf1;--dim:#a7aec0;--line:#3b4152;--face:#171a22;--soft:#20242f;--q:#6cb8f5;--k:#ff9f5f;--v:#45cfa3;--w:#c0a0f5;--s1:#6cb8f5;--s2:#ff9f5f;--s3:#45cfa3;--s4:#f08ccb;--ring:#6cb8f5;color-scheme:dark}
.anb *,.anb *::before{box-sizing:border-box}
.anb .anb-head{display:flex;gap:8px;align-items:flex-start;justify-content:space-between;margin:0 0 8px}
.anb .anb-title{font-weight:650;font-size:1.06em;line-height:1.35;margin:2px 0 0}
.anb .anb-save{display:flex;gap:4px;flex:none}
.anb .anb-bar{display:flex;flex-wrap:wrap;gap:8px 16px;align-items:end;margin:0 0 12px}
.anb .anb-bar:empty{display:none}
.anb.anb dl[class]{margin-bottom:0}
.anb .anb-fig{min-width:0;background:var(--face)}
.anb .anb-cap{color:var(--dim);font-size:.88em;line-height:1.5;margin:10px 0 0}
.anb .anb-say{min-height:1.5em;margin:8px 0 0;font-size:.92em;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
.anb button,.anb select,.anb input{font:inherit;color:inherit;margin:0;max-width:100%;box-shadow:none;width:auto}
.anb button,.anb select{font-size:.9em;background:var(--face);border:1px solid var(--line);border-radius:7px;padding:3px 10px;min-height:32px;line-height:1.4;cursor:pointer;text-transform:none;letter-spacing:0}
.anb button:hover,.anb select:hover{border-color:var(--dim)}
.anb button[aria-pressed=true],.anb .anb-primary{background:var(--q);border-color:var(--q);color:var(--face)}
.anb button:disabled{opacity:.5;cursor:default}
.anb .anb-save button{font-size:.74em;min-height:26px;padding:1px 7px;color:var(--dim)}
.anb :focus-visible{outline:2px solid var(--ring);outline-offset:2px;border-radius:4px}
.anb .anb-f{display:flex;flex-direction:column;gap:2px;min-width:0;font-size:.9em;margin:0}
.anb .anb-f>.anb-l{color:var(--dim);font-size:.92em;line-height:1.5}
.anb .anb-sl{display:grid;grid-template-columns:1fr auto;gap:0 10px;width:min(100%,230px);flex:1 1 170px}
.anb .anb-sl output{font-variant-numeric:tabular-nums;font-weight:600;color:var(--ink)}
.anb .anb-sl input{grid-column:1/-1;width:100%;accent-color:var(--q);height:28px;padding:0;cursor:pointer}
.anb .anb-seg{display:flex;flex-wrap:wrap;border:1px solid var(--line);border-radius:8px;overflow:hidden;width:fit-content;background:var(--soft)}
.anb .anb-seg label{position:relative;display:block;margin:0;cursor:pointer}
.anb .anb-seg input{position:absolute;inset:0;opacity:0;width:100%;height:100%;cursor:pointer}
.anb .anb-seg span{display:block;padding:4px 12px;min-height:30px}
.anb .anb-seg input:checked+span{background:var(--q);color:var(--face)}
.anb .anb-seg input:focus-visible+span{outline:2px solid var(--ring);outline-offset:-4px;box-shadow:inset 0 0 0 3px var(--face);border-radius:8px}
.anb .anb-tg{display:inline-flex;gap:8px;align-items:center;min-height:32px;cursor:pointer;font-size:.9em;margin:0}
.anb .anb-tg input{appearance:none;width:36px;height:20px;border-radius:10px;background:var(--dim);position:relative;flex:none;cursor:pointer;border:0;padding:0}
.anb .anb-tg input::before{content:"";position:absolute;width:14px;height:14px;border-radius:50%;left:3px;top:3px;background:var(--face)}
.anb .anb-tg input:checked{background:var(--q)}
.anb .anb-tg input:checked::before{left:19px}
.anb .anb-num{width:100%;min-width:0;height:100%;text-align:center;border:1px solid transparent;border-bottom:1px dashed color-mix(in srgb,currentColor 45%,transparent);border-radius:3px;background:transparent;padding:0;font-variant-numeric:tabular-nums;appearance:textfield;-moz-appearance:textfield;cursor:text}
.anb .anb-num::-webkit-inner-spin-button{display:none}
.anb .anb-num:hover{border-color:currentColor}
.anb .anb-num[aria-invalid=true]{outline:2px dashed var(--k)}
.anb .anb-scroll{overflow-x:auto;max-width:100%;padding:3px}
.anb .anb-m{min-width:0}
.anb .anb-mt{font-weight:600;font-size:.9em;margin:0 0 3px;line-height:1.4}
.anb .anb-g{display:grid;gap:1px;position:relative;width:max-content;font-size:13px;line-height:1.2}
.anb .anb-r{display:contents}
.anb .anb-ax{grid-column:1/-1;width:0;min-width:100%;display:flex;gap:12px;justify-content:space-between;font-size:11px;white-space:nowrap;padding-bottom:2px}
.anb .anb-ax span:first-child{color:var(--q)}
.anb .anb-ax span:last-child{color:var(--k)}
.anb .anb-c{display:flex;align-items:center;justify-content:center;height:var(--ch);border-radius:2px;font-variant-numeric:tabular-nums;cursor:default;user-select:none;forced-color-adjust:none;font-size:var(--cf,12.5px);white-space:nowrap}
.anb .anb-c:focus-visible{outline-offset:-1px;z-index:2}
.anb .anb-small .anb-c{font-size:0}
.anb .anb-pick .anb-c{cursor:pointer}
.anb .anb-c.anb-off{background:repeating-linear-gradient(135deg,var(--soft) 0 4px,var(--line) 4px 5px)!important;color:var(--dim)!important}
.anb .anb-c.anb-gold{box-shadow:inset 0 0 0 2px var(--face),inset 0 0 0 4px var(--v)}
.anb .anb-small .anb-c.anb-gold{box-shadow:inset 0 0 0 2px var(--v)}
.anb .anb-rl,.anb .anb-cl{font-size:var(--lf,12.5px);color:var(--dim);overflow:hidden;text-overflow:ellipsis;white-space:nowrap;unicode-bidi:isolate}
.anb .anb-rl{max-width:96px;padding:0 6px 0 2px;text-align:right;align-self:center}
.anb .anb-cl{align-self:end;text-align:center;padding:0 1px 3px;justify-self:center;max-width:100%}
.anb .anb-up .anb-cl{writing-mode:vertical-rl;max-height:92px;max-width:none;text-align:end;padding:0 0 3px}
.anb .anb-rl.anb-hot{color:var(--q);font-weight:700}
.anb .anb-cl.anb-hot{color:var(--k);font-weight:700}
.anb .anb-band{position:absolute;inset:-2px;border:2px solid var(--q);border-radius:4px;pointer-events:none;z-index:1}
.anb .anb-band.anb-kb{border-color:var(--k);border-style:dashed}
.anb .anb-tip{position:absolute;z-index:9;left:0;top:0;background:var(--ink);color:var(--face);border-radius:7px;padding:4px 9px;font-size:12.5px;line-height:1.45;max-width:min(280px,92%);pointer-events:none;white-space:pre-line;overflow-wrap:anywhere;font-variant-numeric:tabular-nums;width:max-content}
.anb .anb-tip[hidden]{display:none}
.anb .anb-lg{display:inline-flex;align-items:center;gap:6px;font-size:11.5px;color:var(--dim);font-variant-numeric:tabular-nums;flex-wrap:wrap}
.anb .anb-lg canvas{width:110px;height:10px;border-radius:3px}
.anb .anb-ch{display:block;width:100%;overflow:visible;font-size:12px}
.anb .anb-ch text{fill:var(--dim);font-family:inherit}
.anb .anb-key{display:flex;flex-wrap:wrap;gap:2px 14px;font-size:12.5px;margin:2px 0}
.anb .anb-key i{display:inline-block;width:18px;height:0;border-top:3px solid;margin-inline-end:5px;vertical-align:middle}
.anb .anb-hid{position:absolute!important;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
@media (prefers-reduced-motion:no-preference){.anb .anb-tg input::before{transition:left .15s}}
`;

// Numbers as text: a true minus sign, NaN as a dash.
export function fmt(x, digits = 2) {
  if (Number.isNaN(x) || x == null) return "–";
  if (!Number.isFinite(x)) return x > 0 ? "∞" : "−∞";
  const s = Math.abs(x).toFixed(digits);
  return x < 0 && Number(s) !== 0 ? `−${s}` : s;
}

// Float32 numbers out of a binary trait (a DataView or another view, whatever its alignment).
export function floats(view) {
  if (!view) return new Float32Array(0);
  const bytes = new Uint8Array(view.buffer ?? view, view.byteOffset ?? 0, view.byteLength);
  return new Float32Array(bytes.slice().buffer);
}

// Colour maps: stops from low to high for light and dark pages; lightness is monotonic (sequential) or symmetric (diverging), so they survive colour blindness and a grey print.
const STOPS = {
  sequential: {
    light: ["#f6f3fb", "#dccff0", "#b596dd", "#8a5cc4", "#5f2fa0", "#35106b"],
    dark: ["#221d30", "#3c2f5c", "#5d4792", "#8567c6", "#b296ea", "#e6d8ff"],
  },
  diverging: {
    light: ["#084a8a", "#3d86c6", "#a3cbea", "#f5f5f3", "#f7c29b", "#dd7a2e", "#9c3f00"],
    dark: ["#8accff", "#3f8fd0", "#215078", "#24262d", "#7a4520", "#d37a35", "#ffbd85"],
  },
};
// Each map has 256 steps, made once: {c: [r, g, b], css, ink, pixel}.
const TABLES = {};
export function colourSteps(map, theme) {
  return TABLES[map + theme] ??= (() => {
    const stops = STOPS[map][theme].map(hex => [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16)));
    return Array.from({length: 256}, (_, i) => {
      const at = (i / 255) * (stops.length - 1), k = Math.min(stops.length - 2, at | 0), f = at - k;
      const c = stops[k].map((low, j) => Math.round(low + f * (stops[k + 1][j] - low)));
      return {c, css: `rgb(${c})`, ink: inkOn(c), pixel: (255 << 24) | (c[2] << 16) | (c[1] << 8) | c[0]};
    });
  })();
}
export function colourStep(value, min = 0, max = 1) {
  const f = max > min ? (value - min) / (max - min) : 0;
  return Math.max(0, Math.min(255, Math.round((f || 0) * 255)));
}
export const rgb = (map, theme, value, min, max) => colourSteps(map, theme)[colourStep(value, min, max)].c;
// One pixel for each value on a canvas of columns × rows (a pixel is written as one 32-bit number; all browsers run on little-endian machines).
export function pixels(canvas, values, {map, min, max}, theme) {
  const ctx = canvas.getContext("2d"), image = ctx.createImageData(canvas.width, canvas.height), out = new Uint32Array(image.data.buffer), steps = colourSteps(map, theme);
  for (let i = 0; i < out.length; i++) out[i] = steps[colourStep(values[i], min, max)].pixel;
  ctx.putImageData(image, 0, 0);
}
const linear = c => ((c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
export const luminance = c => 0.2126 * linear(c[0]) + 0.7152 * linear(c[1]) + 0.0722 * linear(c[2]);
// Black or white, whichever is easier to read on the colour (always at least 4.5:1).
export const inkOn = c => (luminance(c) > 0.179 ? "#000" : "#fff");

// The language of a widget: its `language` trait, else <html lang>.
export function lang(model) {
  const wanted = model.get("language");
  if (wanted === "zh" || wanted === "en") return wanted;
  const page = document.documentElement.lang || navigator.language || "";
  return page.toLowerCase().startsWith("zh") ? "zh" : "en";
}

// The theme of the page: the book, JupyterLab, VS Code, Colab, else the operating system.
export function theme() {
  const html = document.documentElement, body = document.body;
  const said = html.dataset.theme ?? html.getAttribute("theme") ?? body?.dataset.vscodeThemeKind;
  if (/dark|high-contrast$/.test(said ?? "")) return "dark";
  if (/light/.test(said ?? "")) return "light";
  const jp = (body?.dataset.jpThemeLight ?? html.dataset.jpThemeLight);
  if (jp) return jp === "false" ? "dark" : "light";
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

export function frame({model, el}, {name, title, caption, alt, css}) {
  const stop = new AbortController(), bound = new Set(), changed = new Set(), cleanups = [];
  const motion = matchMedia("(prefers-reduced-motion: reduce)");
  const titleId = uid();
  const ui = {
    model, name, lang: lang(model), theme: theme(), get calm() { return motion.matches; },
    t: msg => { const m = typeof msg === "function" ? msg() : msg; return m == null ? "" : typeof m === "object" ? m[ui.lang] : String(m); },
    text: (node, msg) => bind(node, null, msg),
    attr: (node, key, msg) => bind(node, key, msg),
    listen: (target, event, fn, options) => target.addEventListener(event, fn, {...options, signal: stop.signal}),
    onChange: fn => changed.add(fn),
    retext: () => bound.forEach(b => { if (b.live) b.apply(); }),
    set(traits) { for (const [key, value] of Object.entries(traits)) model.set(key, value); model.save_changes(); },
    say: msg => { message = msg; const s = ui.t(msg); if (say.textContent !== s) say.textContent = s; },
    colour: (map, v, min, max) => `rgb(${rgb(map, ui.theme, v, min, max)})`,
    done() { stop.abort(); cleanups.forEach(fn => fn()); ui.root.remove(); },
  };
  let message = "";

  function bind(node, key, msg) {
    const apply = () => { const s = ui.t(msg); if (key) node.setAttribute(key, s); else if (node.textContent !== s) node.textContent = s; };
    // one binding per node and attribute: a new message replaces the old one
    for (const b of bound) if (b.node === node && b.key === key) bound.delete(b);
    if (typeof msg === "object" || typeof msg === "function") bound.add({node, key, apply, live: typeof msg === "function"});
    apply();
    return node;
  }

  // Frame-aligned updates: whatever changes within one frame is drawn once.
  const dirty = new Set();
  let frameId = 0;
  const schedule = fn => { dirty.add(fn); frameId ||= requestAnimationFrame(() => { frameId = 0; const run = [...dirty]; dirty.clear(); run.forEach(f => f()); }); };
  cleanups.push(() => cancelAnimationFrame(frameId));
  ui.watch = (names, fn) => {
    const later = () => schedule(fn);
    for (const n of names) { model.on(`change:${n}`, later); cleanups.push(() => model.off(`change:${n}`, later)); }
    changed.add(later);
  };
  ui.onResize = (node, fn) => {
    let width = 0;
    const observer = new ResizeObserver(([entry]) => { const w = Math.floor(entry.contentRect.width); if (w && w !== width) { width = w; fn(w); } });
    observer.observe(node);
    cleanups.push(() => observer.disconnect());
  };
  ui.animate = (ms, fn) => {
    if (ui.calm) { fn(1); return () => {}; }
    let id, start;
    const tick = now => { start ??= now; const f = Math.min(1, (now - start) / ms); fn(f); if (f < 1) id = requestAnimationFrame(tick); };
    id = requestAnimationFrame(tick);
    const halt = () => cancelAnimationFrame(id);
    cleanups.push(halt);
    return halt;
  };

  // Language and theme, live.
  const refresh = () => {
    const l = lang(model), t = theme();
    if (l === ui.lang && t === ui.theme) return;
    ui.lang = l; ui.theme = t; paint();
    bound.forEach(b => b.apply()); ui.say(message);
    changed.forEach(fn => fn());
  };
  const paint = () => { ui.root.dataset.anbTheme = ui.theme; ui.root.lang = ui.lang === "zh" ? "zh-CN" : "en"; };
  const observer = new MutationObserver(refresh);
  observer.observe(document.documentElement, {attributes: true, attributeFilter: ["lang", "data-theme", "theme", "data-jp-theme-light"]});
  if (document.body) observer.observe(document.body, {attributes: true, attributeFilter: ["data-jp-theme-light", "data-vscode-theme-kind"]});
  cleanups.push(() => observer.disconnect());
  ui.listen(matchMedia("(prefers-color-scheme: dark)"), "change", refresh);
  model.on("change:language", refresh);
  cleanups.push(() => model.off("change:language", refresh));

  // Layout.
  const say = h("p", {class: "anb-say", "aria-live": "polite"});
  const tip = h("div", {class: "anb-tip", role: "tooltip", hidden: true});
  ui.controls = h("div", {class: "anb-bar"});
  ui.figure = h("div", {class: "anb-fig"});
  const heading = h("p", {class: "anb-title", id: titleId});
  const save = kind => ui.attr(h("button", {type: "button", onclick: () => download(ui, kind)}, kind.toUpperCase()),
    "aria-label", {zh: `把图保存为 ${kind.toUpperCase()}`, en: `Save figure as ${kind.toUpperCase()}`});
  ui.root = h("section", {class: "anb", "aria-labelledby": titleId},
    h("div", {class: "anb-head"}, ui.text(heading, title), h("div", {class: "anb-save"}, save("svg"), save("png"))),
    ui.controls, ui.figure, say);
  // Lumino (JupyterLab) would take arrow keys and Enter for the notebook; it asks the very element that has the focus.
  ui.listen(ui.root, "focusin", event => event.target.setAttribute("data-lm-suppress-shortcuts", "true"));
  if (css) ui.root.prepend(h("style", {}, css));
  if (caption) ui.root.append(ui.text(h("p", {class: "anb-cap"}), caption));
  if (alt) ui.root.append(ui.text(h("p", {class: "anb-hid"}), alt));
  ui.root.append(tip);
  ui.title = title;
  paint();
  // The style sheet once per document or shadow root; into the widget itself while it is not yet attached.
  const home = el.getRootNode(), inDocument = home === document || home instanceof ShadowRoot;
  const sheet = h("style", {"data-anb": ""}, CSS);
  if (!inDocument) ui.root.prepend(sheet);
  else if (!home.querySelector("style[data-anb]:not(.anb *)")) (home.head ?? home).append(sheet);
  el.append(ui.root);

  // Controls.
  const field = (msg, cls, ...nodes) => h("label", {class: `anb-f ${cls}`}, ui.text(h("span", {class: "anb-l"}), msg), ...nodes);
  ui.slider = ({label, min, max, step = 1, value, format = String, onInput}) => {
    const id = uid(), input = h("input", {type: "range", id, min, max, step}), out = h("output", {"aria-hidden": "true"});  // `for`: an output is labelable too
    const show = () => { const s = ui.t(format(Number(input.value))); out.textContent = s; input.setAttribute("aria-valuetext", s); };
    const set = v => { if (Number(input.value) !== v || !out.textContent) input.value = v; show(); };
    input.addEventListener("input", () => { show(); onInput(Number(input.value)); });
    changed.add(show);
    const node = h("label", {class: "anb-f anb-sl", for: id}, ui.text(h("span", {class: "anb-l"}), label), out, input);
    set(value);
    return {el: node, input, set, range(low, high) { input.min = low; input.max = high; show(); }};
  };
  ui.select = ({label, options, value, onChange}) => {
    const input = h("select");
    const fill = list => { const was = input.value; input.replaceChildren(...list.map(([v, msg]) => ui.text(h("option", {value: v}), msg))); if (was) input.value = was; };
    fill(options);
    input.addEventListener("change", () => onChange(input.value));
    const set = v => { if (input.value !== String(v)) input.value = v; };
    set(value);
    return {el: field(label, "", input), input, set, options: fill};
  };
  ui.segmented = ({label, options, value, onChange}) => {
    const group = uid();
    const inputs = options.map(([v]) => h("input", {type: "radio", name: group, value: v, onchange: () => onChange(v)}));
    const set = v => inputs.forEach(input => { input.checked = input.value === String(v); });
    set(value);
    return {el: h("div", {class: "anb-f"}, ui.text(h("span", {class: "anb-l", "aria-hidden": "true"}), label),
      ui.attr(h("div", {class: "anb-seg", role: "radiogroup"}, ...options.map(([, msg], i) => h("label", {}, inputs[i], ui.text(h("span"), msg)))), "aria-label", label)), inputs, set};
  };
  ui.toggle = ({label, value, onChange}) => {
    const input = h("input", {type: "checkbox", role: "switch", onchange: () => onChange(input.checked)});
    input.checked = value;
    return {el: h("label", {class: "anb-tg"}, input, ui.text(h("span"), label)), input, set: v => { input.checked = v; }};
  };
  ui.button = ({label, onClick, primary}) => {
    const node = ui.text(h("button", {type: "button", class: primary && "anb-primary", onclick: onClick}), label);
    return {el: node};
  };
  // A number in a cell. What is not a number in range ("-", "", "1e9") is marked and not passed on; leaving the cell takes it back.
  ui.numberCell = ({label, value, step = 0.1, min = -99, max = 99, onInput}) => {
    const input = ui.attr(h("input", {type: "number", class: "anb-num", step, min, max, inputmode: "decimal"}), "aria-label", label);
    let last;
    const wrong = on => { if (on) input.setAttribute("aria-invalid", "true"); else input.removeAttribute("aria-invalid"); };
    const write = v => { last = v; wrong(false); if (input.value === "" || Number(input.value) !== v) input.value = v; };
    input.addEventListener("input", () => {
      const v = input.value === "" ? NaN : Number(input.value), good = v >= min && v <= max;
      wrong(!good);
      if (good) { last = v; onInput(v); }
    });
    input.addEventListener("blur", () => write(last));
    write(value);
    // What is half typed stays as long as the model has not moved.
    return {el: input, input, set: v => { if (v !== last || !input.hasAttribute("aria-invalid")) write(v); }};
  };

  // Tooltip: one box per widget, shown for what is under the mouse, the finger or the focus.
  const showTip = (target, msg) => {
    const s = ui.t(msg);
    if (!s) { tip.hidden = true; return; }
    tip.textContent = s; tip.hidden = false;
    const box = target.getBoundingClientRect(), all = ui.root.getBoundingClientRect(), w = tip.offsetWidth, hgt = tip.offsetHeight;
    const x = Math.max(4, Math.min(all.width - w - 6, box.left - all.left + box.width / 2 - w / 2));
    const above = box.top - all.top - hgt - 8;
    tip.style.transform = `translate(${x}px,${box.top - hgt - 8 < 0 ? box.bottom - all.top + 8 : above}px)`;
  };
  ui.hideTip = () => { tip.hidden = true; };
  ui.showTip = showTip;
  ui.tips = (node, fn) => {
    const show = event => { const msg = fn(event.target); if (msg == null) ui.hideTip(); else showTip(event.target, msg); };
    ui.listen(node, "pointerover", show);
    ui.listen(node, "focusin", show);
    ui.listen(node, "pointerleave", ui.hideTip);
    ui.listen(node, "focusout", ui.hideTip);
  };
  ui.listen(ui.root, "keydown", event => { if (event.key === "Escape") ui.hideTip(); });
  return ui;
}

// A colour legend: legend(ui, {map, min, max, label}) -> {el, set({min, max})}
export function legend(ui, {map, min = 0, max = 1, label, digits = 2}) {
  const canvas = h("canvas", {width: 64, height: 1, "aria-hidden": "true"}), low = h("span"), high = h("span");
  const draw = () => {
    const ctx = canvas.getContext("2d");
    for (let i = 0; i < 64; i++) { ctx.fillStyle = `rgb(${rgb(map, ui.theme, i, 0, 63)})`; ctx.fillRect(i, 0, 1, 1); }
    low.textContent = fmt(min, digits); high.textContent = fmt(max, digits);
  };
  draw();
  ui.onChange(draw);
  const el = h("div", {class: "anb-lg"}, label ? ui.text(h("span"), label) : null, low, canvas, high);
  return {el, set(limits) { ({min, max} = limits); draw(); }};
}
