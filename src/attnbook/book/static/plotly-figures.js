/* Plotly figures: plotly.js (from this site) is loaded when the first figure comes near the viewport; each figure
   follows the page's light or dark theme. A figure that fails keeps its text alternative and can be tried again. */
(() => {
  "use strict";
  const OWN = document.currentScript.src;
  const FAILURE = {zh: "这幅图没能画出来。", en: "This figure could not be drawn."};
  const AGAIN = {zh: "再试一次", en: "Try again"};
  let library, failures = 0;
  const load = () =>
    (library ??= new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = new URL("plotly.min.js" + (failures ? `?again=${failures}` : ""), OWN).href;
      const done = () => {
        if (globalThis.Plotly) resolve(globalThis.Plotly);
        else {
          library = undefined;
          failures++;
          script.remove();
          reject(new Error("plotly.min.js cannot be loaded"));
        }
      };
      script.onload = script.onerror = done;
      document.head.append(script);
    }));

  const inBothLanguages = (node, message) => {
    for (const [language, text] of Object.entries(message)) {
      const part = document.createElement("span");
      part.className = "attnbook-lang";
      part.lang = language;
      part.textContent = text;
      node.append(part);
    }
    return node;
  };

  // Okabe and Ito's colours, which colour-blind readers can tell apart; black becomes the text colour.
  const template = () => {
    const dark = document.documentElement.dataset.theme === "dark";
    const text = dark ? "#ced6dd" : "#323232";
    const line = dark ? "#3d444d" : "#d8dee4";
    const quiet = dark ? "#9aa4ad" : "#6b7480";
    const axis = {gridcolor: line, linecolor: line, zerolinecolor: line, automargin: true};
    return {
      layout: {
        colorway: ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"].map(c =>
          dark && c === "#0072b2" ? "#5aa9e6" : c,
        ),
        font: {color: text, family: getComputedStyle(document.body).fontFamily},
        paper_bgcolor: "rgba(0,0,0,0)",
        plot_bgcolor: "rgba(0,0,0,0)",
        colorscale: {sequential: "Viridis"},
        xaxis: axis,
        yaxis: axis,
        scene: {xaxis: {...axis, backgroundcolor: "rgba(0,0,0,0)"}, yaxis: {...axis, backgroundcolor: "rgba(0,0,0,0)"}},
        modebar: {bgcolor: dark ? "rgba(18,18,18,0.9)" : "rgba(255,255,255,0.9)", color: quiet, activecolor: text},
        hoverlabel: {font: {family: getComputedStyle(document.body).fontFamily}, namelength: -1},
        margin: {l: 56, r: 16, t: 48, b: 48},
      },
    };
  };
  const zh = document.documentElement.lang.startsWith("zh");
  const CONFIG = {
    responsive: true,
    displaylogo: false,
    modeBarButtonsToRemove: ["sendChartToCloud", "toImage", "select2d", "lasso2d"], // save-figures.js saves
    locale: zh ? "zh-CN" : "en",
    locales: {
      "zh-CN": {
        dictionary: {
          Autoscale: "自动缩放",
          "Double-click to zoom back out": "双击复原",
          Pan: "平移",
          "Reset axes": "复原坐标轴",
          Zoom: "框选放大",
          "Zoom in": "放大",
          "Zoom out": "缩小",
        },
      },
    },
  };
  // A finger that goes over a chart scrolls the page.
  const DRAG = matchMedia("(pointer: coarse)").matches ? {dragmode: false} : {};
  const drawn = new Set();

  const draw = async place => {
    const target = document.createElement("div");
    try {
      const Plotly = await load();
      const {data, layout} = JSON.parse(place.querySelector("script").textContent);
      place.append(target);
      await Plotly.newPlot(target, data, {autosize: true, ...layout, ...DRAG, template: template()}, CONFIG);
      drawn.add(target);
      place.dataset.state = "drawn";
    } catch (error) {
      console.error(error);
      target.remove();
      place.dataset.state = "failed";
      const note = inBothLanguages(document.createElement("p"), FAILURE);
      note.setAttribute("role", "status");
      const again = inBothLanguages(document.createElement("button"), AGAIN);
      again.type = "button";
      const failure = document.createElement("div");
      failure.className = "attnbook-failure";
      failure.append(note, again);
      again.addEventListener("click", () => {
        failure.remove();
        delete place.dataset.state;
        draw(place);
      });
      place.prepend(failure);
    }
  };

  const start = () => {
    const observer = new IntersectionObserver(
      entries => {
        for (const {isIntersecting, target} of entries)
          if (isIntersecting) {
            observer.unobserve(target);
            draw(target);
          }
      },
      {rootMargin: "600px"},
    );
    for (const place of document.querySelectorAll(".attnbook-figure")) observer.observe(place);
    addEventListener("attnbook-show-all", () => {
      for (const place of document.querySelectorAll(".attnbook-figure:not([data-state])")) {
        observer.unobserve(place);
        if (!place.closest("details:not([open])")) draw(place);
      }
    });
    new MutationObserver(() => {
      for (const target of drawn) globalThis.Plotly.relayout(target, {template: template()});
    }).observe(document.documentElement, {attributes: true, attributeFilter: ["data-theme"]});
  };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
