import {h, SVG} from "./dom.js";

// What is seen in the figure as one self-contained SVG: backgrounds, borders, texts, inputs, drawings and canvases with their computed colours.
export function exportSvg(ui) {
  const box = ui.figure.getBoundingClientRect(), pad = 16, head = 34, foot = 26;
  const W = Math.ceil(Math.max(box.width, ...[...ui.figure.querySelectorAll(".anb-g")].map(g => g.getBoundingClientRect().right - box.left))) + 2 * pad, H = Math.ceil(box.height) + head + foot + pad;
  const style = getComputedStyle(ui.root), clear = "rgba(0, 0, 0, 0)";
  const out = h("svg", {xmlns: SVG, viewBox: `0 0 ${W} ${H}`, width: W, height: H, "font-family": style.fontFamily.replaceAll('"', "'"), role: "img"});
  out.append(h("title", {}, ui.t(ui.title)), h("rect", {width: W, height: H, fill: style.backgroundColor}),
    h("text", {x: pad, y: 26, "font-size": 16, "font-weight": 650, fill: style.color}, ui.t(ui.title)),
    h("text", {x: W - pad, y: H - 9, "font-size": 10.5, "text-anchor": "end", fill: style.getPropertyValue("--dim")}, "attnbook · CC BY 4.0"));
  const dx = pad - box.left, dy = head + 6 - box.top;
  let into = out;
  const put = (tag, props, ...children) => into.append(h(tag, props, ...children));
  function write(s, rect, css) {
    const size = parseFloat(css.fontSize);
    s = css.whiteSpace.startsWith("pre") ? s.trimEnd() : s.trim();  // what takes no room on the screen
    if (!size || !s || !rect.width) return;
    const x = rect.left + dx, y = rect.top + dy, props = {"font-size": size, "font-weight": css.fontWeight, fill: css.color, "xml:space": "preserve"};
    if (css.fontStyle !== "normal") props["font-style"] = css.fontStyle;
    if (css.fontFamily !== style.fontFamily) props["font-family"] = css.fontFamily.replaceAll('"', "'");
    if (css.writingMode.startsWith("vertical")) {
      const cx = x + rect.width / 2;
      if (/^[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Extended_Pictographic}]+$/u.test(s)) [...s].forEach((ch, i, all) => put("text", {...props, x: cx, y: y + (rect.height * (i + 0.85)) / all.length, "text-anchor": "middle"}, ch));
      else put("text", {...props, "text-anchor": "middle", transform: `translate(${cx - size * 0.35},${y + rect.height / 2}) rotate(90)`}, s);
    } else put("text", {...props, x: x + rect.width / 2, y: y + rect.height / 2 + size * 0.35, "text-anchor": "middle"}, s);
  }
  // A text node line by line, as it wraps on the screen.
  function lines(node, css) {
    const range = document.createRange(), text = node.textContent;
    range.selectNodeContents(node);
    const clip = node.parentElement.getBoundingClientRect();
    if (css.textOverflow === "ellipsis" && (node.parentElement.scrollWidth > Math.ceil(clip.width) || node.parentElement.scrollHeight > Math.ceil(clip.height) + 1)) {
      const long = css.writingMode.startsWith("vertical") ? node.parentElement.scrollHeight / clip.height : node.parentElement.scrollWidth / clip.width;
      return write(`${[...text].slice(0, Math.max(1, Math.floor([...text].length / long) - 1)).join("")}…`, clip, css);
    }
    if (range.getClientRects().length < 2) return write(text, range.getBoundingClientRect(), css);
    let start = 0, top = null;
    const flush = end => { range.setStart(node, start); range.setEnd(node, end); write(text.slice(start, end), range.getBoundingClientRect(), css); start = end; };
    for (let i = 0; i < text.length; i++) {
      range.setStart(node, i); range.setEnd(node, i + 1);
      const r = range.getBoundingClientRect();
      if (!r.width) continue;
      if (top !== null && Math.abs(r.top - top) > r.height / 2) flush(i);
      top = r.top;
    }
    flush(text.length);
  }
  const DRAWN = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "fill-opacity", "opacity", "font-size", "font-weight"];
  function copy(node) {
    const css = getComputedStyle(node);
    if (css.display === "none") return null;
    const twin = node.cloneNode(false);
    for (const name of ["class", "style", "tabindex", "role", "aria-label", "data-lm-suppress-shortcuts"]) twin.removeAttribute(name);
    for (const name of DRAWN) { const v = css.getPropertyValue(name); if (v) twin.setAttribute(name, v); }
    for (const child of node.childNodes) { const c = child.nodeType === 1 ? copy(child) : child.nodeType === 3 ? child.cloneNode() : null; if (c) twin.append(c); }
    return twin;
  }
  function walk(node) {
    const css = getComputedStyle(node);
    if (css.display === "none" || css.visibility === "hidden" || node.classList.contains("anb-hid") || node.dataset?.anbExport === "no") return;
    const r = node.getBoundingClientRect(), x = r.left + dx, y = r.top + dy;
    if (node.tagName === "svg") {
      const g = h("g", {transform: `translate(${x},${y})`}), view = node.viewBox.baseVal;
      if (view?.width) g.setAttribute("transform", `translate(${x},${y}) scale(${r.width / view.width}) translate(${-view.x},${-view.y})`);
      g.append(...[...node.children].map(copy).filter(Boolean));
      return into.append(g);
    }
    if (css.display !== "contents" && r.width) {
      const rx = Math.min(parseFloat(css.borderRadius) || 0, r.height / 2), off = node.classList.contains("anb-off");
      if (css.backgroundColor !== clear || off) put("rect", {x, y, width: r.width, height: r.height, rx, fill: off ? style.getPropertyValue("--line") : css.backgroundColor, ...(off ? {"fill-opacity": 0.5} : {})});
      const bw = parseFloat(css.borderTopWidth);
      if (bw && css.borderTopColor !== clear && css.borderTopStyle !== "none") {
        if (parseFloat(css.borderBottomWidth)) put("rect", {x: x + bw / 2, y: y + bw / 2, width: r.width - bw, height: Math.max(0, r.height - bw), rx, fill: "none", stroke: css.borderTopColor, "stroke-width": bw, "stroke-dasharray": css.borderTopStyle === "dashed" ? "5 3" : null});
        else put("line", {x1: x, x2: x + r.width, y1: y, y2: y, stroke: css.borderTopColor, "stroke-width": bw, "stroke-dasharray": css.borderTopStyle === "dashed" ? "5 3" : null});
      }
      if (node.classList.contains("anb-gold")) put("rect", {x: x + 1, y: y + 1, width: r.width - 2, height: r.height - 2, fill: "none", stroke: style.getPropertyValue("--v"), "stroke-width": 2});
    }
    if (node.tagName === "CANVAS") return put("image", {x, y, width: r.width, height: r.height, href: node.toDataURL(), preserveAspectRatio: "none", style: "image-rendering:pixelated"});
    if (node.tagName === "INPUT") return /number|text/.test(node.type) ? write(node.value.replace("-", "−"), r, css) : undefined;
    if (node.tagName === "SELECT") return write(node.selectedOptions[0]?.textContent ?? "", r, css);
    // A box that scrolls (code, say) shows what it shows now; a wide matrix comes whole.
    const around = into, scrolls = css.overflowX !== "visible" && css.textOverflow !== "ellipsis" && (node.scrollWidth > node.clientWidth + 1 || node.scrollHeight > node.clientHeight + 1);
    if (scrolls && r.width && !node.querySelector(".anb-g")) around.append(into = h("svg", {x, y, width: r.width, height: r.height, viewBox: `${x} ${y} ${r.width} ${r.height}`}));
    for (const child of node.childNodes) { if (child.nodeType === 3) lines(child, css); else if (child.nodeType === 1) walk(child); }
    into = around;
  }
  walk(ui.figure);
  return new XMLSerializer().serializeToString(out);
}

// The same picture as PNG, at twice the size.
export async function exportPng(ui) {
  const svg = exportSvg(ui), image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const canvas = h("canvas", {width: image.width * 2, height: image.height * 2}), ctx = canvas.getContext("2d");
  ctx.scale(2, 2);
  ctx.drawImage(image, 0, 0);
  return new Promise(resolve => canvas.toBlob(resolve, "image/png"));
}

export async function download(ui, kind) {
  const blob = kind === "svg" ? new Blob([exportSvg(ui)], {type: "image/svg+xml"}) : await exportPng(ui);
  const link = h("a", {href: URL.createObjectURL(blob), download: `${ui.name}-${ui.lang}.${kind}`});
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
