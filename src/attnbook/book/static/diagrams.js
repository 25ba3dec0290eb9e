/* Diagrams save themselves as SVG or PNG, as widgets do: in the page's colours, with the line of the licence. */
(() => {
  "use strict";
  const SVG = "http://www.w3.org/2000/svg";
  const LICENCE = "attnbook · CC BY 4.0";
  const FOOT = 24; // units for that line
  const zh = document.documentElement.lang.startsWith("zh");

  /* The drawing with everything that the page's style sheets gave it. */
  const standalone = drawing => {
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
    const line = document.createElementNS(SVG, "text");
    const place = {x: width - 10, y: height + 14, "font-size": 11, "text-anchor": "end", opacity: 0.75};
    for (const [name, value] of Object.entries(place)) line.setAttribute(name, value);
    line.textContent = LICENCE;
    copy.append(line);
    return copy;
  };

  const text = drawing => new XMLSerializer().serializeToString(standalone(drawing));

  const picture = async drawing => {
    const image = new Image();
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text(drawing))}`;
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = 2 * image.width;
    canvas.height = 2 * image.height;
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return new Promise(resolve => canvas.toBlob(resolve, "image/png"));
  };

  const save = async (diagram, kind, name) => {
    const drawing = [...diagram.querySelectorAll("svg")].find(svg => getComputedStyle(svg).display !== "none");
    const file = kind === "svg" ? new Blob([text(drawing)], {type: "image/svg+xml"}) : await picture(drawing);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(file);
    link.download = `${name}-${drawing.lang || drawing.getAttribute("lang")}.${kind}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };

  const page = decodeURIComponent(location.pathname).split("/").pop().replace(/\.html$/, "") || "diagram";
  document.querySelectorAll(".attnbook-diagram").forEach((diagram, i) => {
    const row = document.createElement("div");
    row.className = "attnbook-save";
    for (const kind of ["svg", "png"]) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = kind.toUpperCase();
      button.ariaLabel = zh ? `把图保存为 ${button.textContent}` : `Save figure as ${button.textContent}`;
      button.addEventListener("click", () => save(diagram, kind, `${page}-${i + 1}`));
      row.append(button);
    }
    diagram.after(row);
  });
})();
