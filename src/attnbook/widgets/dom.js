// Building blocks of the page.

const UID = Math.random().toString(36).slice(2, 8);
let serial = 0;
export const uid = () => `anb-${UID}-${++serial}`;

// Element builder: h("p", {class: "x", onclick: f}, "text", node). Text goes in as text, never as HTML.
export const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set("svg g rect line path circle polyline text title image defs tspan".split(" "));
export function h(tag, props = {}, ...children) {
  const node = SVG_TAGS.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (value == null || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "style" && typeof value === "object") for (const [p, v] of Object.entries(value)) node.style.setProperty(p, v);
    else node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.filter(child => child != null));
  return node;
}
