import {h} from "./dom.js";

// A small chart. chart(ui, {label, height, x: {label, min, max, log, format}, y: {label, min, max, format}, series: [{name, colour, kind, points}]})
//   kind "line" (default), "bar" or "dots"; points [[x, y], …]; colour a CSS colour (default --s1 …); no name: not in the key.
// -> {el, set({series, x, y, marker})}  series, x, y replace the old ones; marker: an x that is marked by a vertical line.
export function chart(ui, {label, height = 190, x, y, series, describe}) {
  const svg = ui.attr(h("svg", {class: "anb-ch", role: "img", height}), "aria-label", () => [label, describe].filter(Boolean).map(ui.t).join(". "));
  const key = h("div", {class: "anb-key"}), el = h("div", {class: "anb-m"}, svg, key);
  let width = 0, marker = null;
  const colourOf = (s, i) => s.colour ?? `var(--s${(i % 4) + 1})`;
  const ticks = ({min, max, log}) => {
    if (log) { const out = []; for (let v = 2 ** Math.ceil(Math.log2(min) - 1e-9); v <= max * 1.0001; v *= 2) out.push(v); return out.length > 6 ? out.filter((_, i) => i % 2 === 0) : out; }
    const raw = (max - min) / 4 || 1, unit = 10 ** Math.floor(Math.log10(raw)), step = unit * [1, 2, 2.5, 5, 10].find(m => m * unit >= raw * 0.999);
    const out = []; for (let v = Math.ceil(min / step - 1e-9) * step; v <= max + step * 1e-6; v += step) out.push(Math.abs(v) < step * 1e-6 ? 0 : v); return out;
  };
  const scaleOf = ({min, max, log}, a, b) => { const f = log ? Math.log : v => v, lo = f(min), hi = f(max); return v => a + ((f(v) - lo) / (hi - lo || 1)) * (b - a); };
  const short = v => String(Number(v.toPrecision(3))).replace("-", "−");
  function draw() {
    if (!width) return;
    const left = 52, right = 10, top = 10, bottom = 40, X = scaleOf(x, left, width - right), Y = scaleOf(y, height - bottom, top);
    const line = (x1, y1, x2, y2, stroke, more) => h("line", {x1, y1, x2, y2, stroke, ...more});
    const text = (tx, ty, s, anchor, more) => h("text", {x: tx, y: ty, "text-anchor": anchor, ...more}, s);
    const parts = [];
    for (const v of ticks(y)) parts.push(line(left, Y(v), width - right, Y(v), "var(--line)"), text(left - 6, Y(v) + 4, (y.format ?? short)(v), "end"));
    for (const v of ticks(x)) parts.push(line(X(v), height - bottom, X(v), height - bottom + 4, "var(--dim)"), text(X(v), height - bottom + 17, (x.format ?? short)(v), "middle"));
    parts.push(line(left, height - bottom, width - right, height - bottom, "var(--dim)"));
    series.forEach((s, i) => {
      const colour = colourOf(s, i), pts = s.points.filter(p => Number.isFinite(p[1]));
      if (s.kind === "bar") {
        const w = s.width ?? (x.max - x.min) / Math.max(1, s.points.length), base = Y(Math.max(y.min, Math.min(y.max, 0)));
        for (const [px, py] of pts) { const a = X(px - w / 2), b = X(px + w / 2), t = Y(py); parts.push(h("rect", {x: a + 0.5, y: Math.min(t, base), width: Math.max(0.5, b - a - 1), height: Math.abs(base - t), fill: colour, "fill-opacity": s.opacity ?? 0.75})); }
      } else if (s.kind === "dots") for (const [px, py] of pts) parts.push(h("circle", {cx: X(px), cy: Y(py), r: 3.5, fill: colour}));
      else parts.push(h("polyline", {points: pts.map(p => `${X(p[0]).toFixed(1)},${Y(p[1]).toFixed(1)}`).join(" "), fill: "none", stroke: colour, "stroke-width": 2.5, "stroke-linejoin": "round", "stroke-dasharray": s.dash}));
    });
    if (marker != null) parts.push(line(X(marker), top, X(marker), height - bottom, "var(--ink)", {"stroke-dasharray": "4 3"}));
    parts.push(text((left + width - right) / 2, height - 6, ui.t(x.label), "middle"), text(-(top + height - bottom) / 2, 13, ui.t(y.label), "middle", {transform: "rotate(-90)"}));
    svg.replaceChildren(...parts);
  }
  function names() { key.replaceChildren(...(series.length > 1 ? series.map((s, i) => s.name && h("span", {}, h("i", {style: {"border-top-color": colourOf(s, i), "border-top-style": s.dash ? "dashed" : "solid"}}), ui.text(h("span"), s.name))).filter(Boolean) : [])); }
  names();
  ui.onResize(el, w => { width = w; draw(); });
  ui.onChange(draw);
  return {
    el,
    set(next) {
      if (next.series) { const renamed = next.series.map(s => ui.t(s.name)).join() !== series.map(s => ui.t(s.name)).join(); series = next.series; if (renamed) names(); }
      if (next.x) x = {...x, ...next.x};
      if (next.y) y = {...y, ...next.y};
      if ("marker" in next) marker = next.marker;
      draw();
      ui.attr(svg, "aria-label", () => [label, describe].filter(Boolean).map(ui.t).join(". "));
    },
  };
}
