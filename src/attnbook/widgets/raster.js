import {pixels} from "./common.js";
import {h} from "./dom.js";

// A matrix too large for a grid of numbers: a canvas of one pixel a cell, without smoothing.
// raster(ui, {rows, cols, scale: {map, min, max}, label, rowAxis, colAxis, width, height, rowTicks, describe(row, col, value) -> message, onPick(row, col)})
//   width, height: CSS lengths of the canvas; rowTicks: [[row, text], …] on the left
// -> {el, set(values, {rows, cols} = {}), mark(bands)}   values: flat, row after row; bands: [{row, dashed}], null rows are not drawn
export function raster(
  ui,
  {rows, cols, scale, label, rowAxis, colAxis, width = "100%", height, rowTicks = [], describe, onPick},
) {
  const canvas = ui.attr(
    h("canvas", {
      role: "img",
      style: {
        width: "100%",
        height,
        display: "block",
        "image-rendering": "pixelated",
        "border-radius": "2px",
        cursor: onPick ? "pointer" : "default",
      },
    }),
    "aria-label",
    label,
  );
  const box = h("div", {style: {position: "relative", flex: "1 1 0", "min-width": "0", "max-width": width}}, canvas);
  const side = h("div", {
    "aria-hidden": "true",
    style: {position: "relative", width: rowTicks.length ? "26px" : "0", flex: "none", "font-size": "11px", color: "var(--dim)"},
  });
  const axes = h("div", {class: "anb-ax", "aria-hidden": "true"}, ui.text(h("span"), rowAxis), ui.text(h("span"), colAxis));
  let values = [],
    bands = [];
  const draw = () => {
    canvas.width = cols;
    canvas.height = rows;
    pixels(canvas, values, scale, ui.theme);
  };
  for (const [row, text] of rowTicks)
    side.append(
      h(
        "span",
        {style: {position: "absolute", right: "5px", top: `${((row + 0.5) / rows) * 100}%`, transform: "translateY(-50%)"}},
        text,
      ),
    );
  const at = event => {
    const r = canvas.getBoundingClientRect(),
      inside = (v, n) => Math.max(0, Math.min(n - 1, Math.floor(v * n)));
    return [inside((event.clientY - r.top) / r.height, rows), inside((event.clientX - r.left) / r.width, cols)];
  };
  const spot = h("div", {"aria-hidden": "true", style: {position: "absolute", "pointer-events": "none"}});
  box.append(spot);
  if (describe) {
    ui.listen(canvas, "pointermove", event => {
      const [r, c] = at(event);
      Object.assign(spot.style, {left: `${((c + 0.5) / cols) * 100}%`, top: `${(r / rows) * 100}%`});
      ui.showTip(spot, describe(r, c, values[r * cols + c]));
    });
    ui.listen(canvas, "pointerleave", ui.hideTip);
  }
  if (onPick) ui.listen(canvas, "click", event => onPick(...at(event)));
  ui.onChange(draw);
  return {
    el: h(
      "div",
      {class: "anb-m", style: {"max-width": `calc(${width} + ${rowTicks.length ? 26 : 0}px)`}},
      axes,
      h("div", {style: {display: "flex"}}, side, box),
    ),
    set(next, size) {
      values = next;
      if (size) ({rows, cols} = size);
      draw();
    },
    mark(next) {
      while (bands.length < next.length) {
        bands.push(h("div", {class: "anb-band", "aria-hidden": "true"}));
        box.append(bands.at(-1));
      }
      bands.forEach((band, i) => {
        const {row = null, dashed} = next[i] ?? {};
        band.hidden = row == null;
        band.classList.toggle("anb-kb", Boolean(dashed));
        if (row != null) band.style.inset = `calc(${(row / rows) * 100}% - 2px) -3px auto -3px`;
        band.style.height = `calc(${100 / rows}% + 4px)`;
      });
    },
  };
}
