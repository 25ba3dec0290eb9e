/* Diagrams and charts save themselves as SVG or PNG, as widgets do: in the page's colours, with a title and the line
   of the licence. */
(() => {
  "use strict";
  const SVG = "http://www.w3.org/2000/svg";
  const LICENCE = "attnbook · CC BY 4.0";
  const FOOT = 24; // units for that line
  const HEAD = 34; // for the title of a chart; a diagram needs none on its face
  const chinese = () => document.documentElement.lang.startsWith("zh"); // the reader may change it

  const element = (name, attributes, text = "") => {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.textContent = text;
    return made;
  };
  const licence = (width, height, style = {}) =>
    element("text", {x: width - 10, y: height - 10, "font-size": 11, "text-anchor": "end", opacity: 0.75, ...style}, LICENCE);

  /* The drawing with everything that the page's style sheets gave it. */
  const diagram = place => {
    const drawing = [...place.querySelectorAll("svg")].find(svg => getComputedStyle(svg).display !== "none");
    const copy = drawing.cloneNode(true);
    const shown = [drawing, ...drawing.querySelectorAll("*")];
    [copy, ...copy.querySelectorAll("*")].forEach((node, i) => {
      for (const name of ["fill", "stroke"])
        if (node.getAttribute(name)?.includes("var(")) node.setAttribute(name, getComputedStyle(shown[i])[name]);
    });
    for (const name of ["class", "style"]) copy.removeAttribute(name);
    const {width, height} = drawing.viewBox.baseVal;
    copy.setAttribute("viewBox", `0 0 ${width} ${height + FOOT}`);
    copy.setAttribute("height", height + FOOT);
    copy.querySelector("rect").setAttribute("height", height + FOOT); // the background
    copy.append(licence(width, height + FOOT));
    return copy;
  };

  /* The chart as it is shown now, under the heading of its section. */
  const chart = async place => {
    const drawing = place.querySelector(".js-plotly-plot");
    const page = getComputedStyle(document.body);
    const {clientWidth: width, clientHeight: inside} = drawing;
    const height = inside + HEAD + FOOT;
    const address = await globalThis.Plotly.toImage(drawing, {format: "svg", width, height: inside});
    const text = decodeURIComponent(address.slice(address.indexOf(",") + 1));
    const inner = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
    inner.setAttribute("y", HEAD);
    const heading = place.closest("section")?.querySelector("h1, h2, h3")?.cloneNode(true);
    heading?.querySelectorAll(".headerlink").forEach(link => link.remove());
    const title = heading?.textContent.trim() ?? "";
    const style = {fill: page.color, "font-family": page.fontFamily.replaceAll('"', "'")};
    const pen = document.createElement("canvas").getContext("2d");
    pen.font = `650 16px ${page.fontFamily}`;
    const size = Math.min(16, (16 * (width - 32)) / pen.measureText(title).width); // on a phone a long one is smaller
    const whole = element("svg", {viewBox: `0 0 ${width} ${height}`, width, height});
    whole.append(
      element("title", {}, title),
      element("rect", {width, height, fill: page.backgroundColor}),
      element("text", {x: 16, y: 24, "font-size": size, "font-weight": 650, ...style}, title),
      inner,
      licence(width, height, style),
    );
    return whole;
  };

  const picture = async text => {
    const image = new Image();
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = 2 * image.width;
    canvas.height = 2 * image.height;
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return new Promise(resolve => canvas.toBlob(resolve, "image/png"));
  };

  const save = async (drawing, kind, name) => {
    const text = new XMLSerializer().serializeToString(await drawing);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(kind === "svg" ? new Blob([text], {type: "image/svg+xml"}) : await picture(text));
    link.download = `${name}.${kind}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };

  const nameButtons = () => {
    for (const button of document.querySelectorAll(".attnbook-save button"))
      button.ariaLabel = chinese() ? `把图保存为 ${button.textContent}` : `Save figure as ${button.textContent}`;
  };

  const page = decodeURIComponent(location.pathname).split("/").pop().replace(/\.html$/, "") || "figure";
  document.querySelectorAll(".attnbook-diagram, .attnbook-figure").forEach((place, i) => {
    const draw = place.classList.contains("attnbook-diagram") ? diagram : chart;
    const row = document.createElement("div");
    row.className = "attnbook-save";
    for (const kind of ["svg", "png"]) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = kind.toUpperCase();
      button.addEventListener("click", () => save(draw(place), kind, `${page}-${i + 1}-${chinese() ? "zh" : "en"}`));
      row.append(button);
    }
    place.after(row);
  });
  nameButtons();
  new MutationObserver(nameButtons).observe(document.documentElement, {attributeFilter: ["lang"]});
})();
