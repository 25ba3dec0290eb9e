import {colourStep, colourSteps, fmt} from "./common.js";
import {h} from "./dom.js";

// A matrix as a grid: queries are rows, keys are columns, the axes say so.
//   rows, cols: messages; rowAxis, colAxis: messages (default query and key; null leaves an axis out); label: accessible name and title (showLabel)
//   scale: {map, min, max}; digits, or format(value) -> text; cell: {min, max, height, numbers} in px (numbers: the least size that shows them), or {size, share} for matrices that stand side by side, `share` of them in the width of a phone; editable: {step, min, max, onInput(row, col, value)}
//   describe(row, col, value) -> message for tooltip, live region and screen reader; onPick(row, col); onHover(row, col) or onHover(null)
// -> {el, set(values, {min, max} = {}), emphasise({row, col}), mask(fn(row, col)), gold(fn(row, col)), cell(row, col)}
//   values: a flat array, row after row. Not finite values and masked cells are hatched.
export function matrix(ui, {rows, cols, rowAxis, colAxis, label, showLabel, scale, digits = 2, format = v => fmt(v, digits), cell = {}, editable, describe, onPick, onHover}) {
  const R = rows.length, C = cols.length, interactive = Boolean(onPick || onHover || describe) && !editable;
  if (rowAxis === undefined) rowAxis = {zh: "查询 query ↓", en: "query ↓"};
  if (colAxis === undefined) colAxis = {zh: "键 key →", en: "key →"};
  const role = interactive ? ["grid", "gridcell"] : ["table", "cell"];
  const grid = ui.attr(h("div", {class: `anb-g${onPick ? " anb-pick" : ""}`, role: role[0]}), "aria-label",
    () => [label, rowAxis, colAxis].map(ui.t).filter(Boolean).join(" · "));
  grid.append(h("div", {class: "anb-ax", "aria-hidden": "true"}, ui.text(h("span"), rowAxis), ui.text(h("span"), colAxis)));
  const heads = cols.map(msg => tokenLabel(ui, h("div", {class: "anb-cl", role: "columnheader"}), msg));
  const sides = rows.map(msg => tokenLabel(ui, h("div", {class: "anb-rl", role: "rowheader"}), msg));
  grid.append(h("div", {class: "anb-r", role: "row"}, h("div", {role: "columnheader", "aria-label": " "}), ...heads));
  const cells = [], inputs = [], many = R * C > 400;
  for (let r = 0; r < R; r++) {
    const row = h("div", {class: "anb-r", role: "row"}, sides[r]);
    for (let c = 0; c < C; c++) {
      const node = h("div", {class: "anb-c", role: role[1]});
      if (editable) {
        const input = ui.numberCell({...editable, value: 0, onInput: v => editable.onInput(r, c, v),
          label: () => `${ui.t(label)} [${ui.t(rows[r])}, ${ui.t(cols[c])}]`});
        inputs.push(input); node.append(input.el);
      } else if (interactive) node.tabIndex = r || c ? -1 : 0;
      cells.push(node); row.append(node);
    }
    grid.append(row);
  }
  const at = node => { const i = cells.indexOf(node); return i < 0 ? null : [Math.floor(i / C), i % C]; };
  let values = new Array(R * C).fill(NaN), old = [], steps = [], masked = () => false, state = 0, focus = 0, big = true;
  const speak = (r, c) => ui.t(describe ? describe(r, c, values[r * C + c]) : `${ui.t(rows[r])}, ${ui.t(cols[c])}: ${fmt(values[r * C + c], digits)}`);

  if (interactive) {
    ui.tips(grid, node => { const p = at(node); return p && describe ? speak(...p) : null; });
    ui.listen(grid, "focusin", event => {
      const p = at(event.target); if (!p) return;
      cells[focus].tabIndex = -1; focus = p[0] * C + p[1]; cells[focus].tabIndex = 0;
      cells[focus].setAttribute("aria-label", speak(...p));
      onHover?.(...p);
    });
    ui.listen(grid, "pointerover", event => { const p = at(event.target); if (p) onHover?.(...p); });
    ui.listen(grid, "pointerleave", () => onHover?.(null));
    ui.listen(grid, "focusout", () => onHover?.(null));
    ui.listen(grid, "click", event => { const p = at(event.target); if (p) { onPick?.(...p); if (!onPick) onHover?.(...p); } });
    ui.listen(grid, "keydown", event => {
      const p = at(event.target); if (!p) return;
      const [r, c] = p;
      const to = {ArrowUp: [r - 1, c], ArrowDown: [r + 1, c], ArrowLeft: [r, c - 1], ArrowRight: [r, c + 1], Home: [event.ctrlKey ? 0 : r, 0], End: [event.ctrlKey ? R - 1 : r, C - 1]}[event.key];
      if (to) { event.preventDefault(); cells[Math.max(0, Math.min(R - 1, to[0])) * C + Math.max(0, Math.min(C - 1, to[1]))].focus(); }
      else if ((event.key === "Enter" || event.key === " ") && onPick) { event.preventDefault(); onPick(r, c); }
    });
  }
  // Between number cells: Enter goes down, Ctrl (or Alt) with an arrow goes that way.
  if (editable) ui.listen(grid, "keydown", event => {
    const i = inputs.findIndex(input => input.el === event.target); if (i < 0) return;
    const jump = event.ctrlKey || event.altKey || event.metaKey;
    const to = event.key === "Enter" ? (i + C) % (R * C) : jump ? {ArrowUp: i - C, ArrowDown: i + C, ArrowLeft: i - 1, ArrowRight: i + 1}[event.key] : undefined;
    if (to !== undefined) { event.preventDefault(); if (inputs[to]) { inputs[to].el.focus(); inputs[to].el.select(); } }
  });

  // Only what has changed is written: the colour if its step of 256 has, the number if it is shown.
  function draw(force) {
    const {map, min, max} = scale, show = !many || big;
    const colours = colourSteps(map, ui.theme);
    for (let i = 0; i < cells.length; i++) {
      const v = values[i], off = masked(Math.floor(i / C), i % C) || !Number.isFinite(v), step = off ? -1 : colourStep(v, min, max);
      const key = show && !off ? v : step;
      if (!force && old[i] === key && steps[i] === step) continue;
      const node = cells[i];
      if (force || steps[i] !== step) {
        if ((steps[i] === -1) !== off) node.classList.toggle("anb-off", off);
        node.style.backgroundColor = off ? "" : colours[step].css;
        node.style.color = off ? "" : colours[step].ink;
      }
      old[i] = key; steps[i] = step;
      if (editable) inputs[i].set(v);
      else if (show) node.textContent = format(v);
      if (i === focus && interactive) node.setAttribute("aria-label", speak(Math.floor(i / C), i % C));
      else if (node.hasAttribute("aria-label")) node.removeAttribute("aria-label");
    }
  }
  const bands = {row: h("div", {class: "anb-band", "aria-hidden": "true", hidden: true}), col: h("div", {class: "anb-band anb-kb", "aria-hidden": "true", hidden: true})};
  grid.append(bands.row, bands.col);
  const scroll = h("div", {class: "anb-scroll"}, grid);
  const el = h("div", {class: "anb-m"});
  if (showLabel) el.append(ui.text(h("div", {class: "anb-mt"}), label));
  el.append(scroll);

  // Cell size from the width there is; long column labels are turned.
  function fit(width) {
    const side = Math.min(96, Math.max(20, ...sides.map(node => node.scrollWidth)));
    const room = (of, margin) => Math.floor((of - margin - side) / C) - 1;
    const size = cell.size ? Math.min(cell.size, Math.max(cell.min ?? 29, room(width / (cell.share ?? 1), 14))) : Math.max(cell.min ?? 11, Math.min(cell.max ?? 46, room(width, 8)));
    if (size === state) return;
    state = size;
    big = size >= (cell.numbers ?? 28);
    grid.style.gridTemplateColumns = `auto repeat(${C}, ${size}px)`;
    grid.style.setProperty("--ch", `${editable ? Math.max(28, Math.min(size, 34)) : Math.min(size, cell.height ?? 34)}px`);
    grid.style.setProperty("--cf", size < 34 ? "10.5px" : size < 40 ? "11.5px" : "12.5px");
    grid.classList.toggle("anb-small", !big);
    // Column labels: as they are, else smaller, else turned.
    const cut = () => heads.some(node => node.scrollWidth > node.clientWidth);
    const font = Math.max(9, Math.min(12.5, size - 1));
    grid.classList.remove("anb-up");
    grid.style.setProperty("--lf", `${font}px`);
    if (cut() && font > 10.5) grid.style.setProperty("--lf", "10.5px");
    if (cut()) { grid.classList.add("anb-up"); grid.style.setProperty("--lf", `${font}px`); }
    if (scroll.scrollWidth > scroll.clientWidth + 1) { scroll.tabIndex = 0; scroll.setAttribute("role", "group"); ui.attr(scroll, "aria-label", label); } else { scroll.removeAttribute("tabindex"); scroll.removeAttribute("role"); scroll.removeAttribute("aria-label"); }
    draw(true);
  }
  const host = cell.size ? ui.figure : el;
  ui.onResize(host, fit);
  ui.onChange(() => { state = 0; draw(true); if (host.clientWidth) fit(host.clientWidth); });

  return {
    el, grid,
    set(next, limits) { if (limits) { const same = limits.min === scale.min && limits.max === scale.max; scale = {...scale, ...limits}; values = next; draw(!same); } else { values = next; draw(false); } },
    emphasise({row = null, col = null}) {
      sides.forEach((node, r) => node.classList.toggle("anb-hot", r === row));
      heads.forEach((node, c) => node.classList.toggle("anb-hot", c === col));
      bands.row.hidden = row == null; if (row != null) bands.row.style.gridArea = `${row + 3} / 2 / ${row + 4} / ${C + 2}`;
      bands.col.hidden = col == null; if (col != null) bands.col.style.gridArea = `3 / ${col + 2} / ${R + 3} / ${col + 3}`;
    },
    mask(fn) { masked = fn; draw(false); },
    gold(fn) { cells.forEach((node, i) => node.classList.toggle("anb-gold", fn(Math.floor(i / C), i % C))); },
    cell: (r, c) => (editable ? inputs[r * C + c].el : cells[r * C + c]),
  };
}

// A token as a label: its own direction, cut with an ellipsis, whole in the title.
export function tokenLabel(ui, node, msg) {
  node.dir = "auto";
  ui.text(node, msg);
  return ui.attr(node, "title", msg);
}
