/* Plotly figures: plotly.js (from this site) is loaded when the first figure comes near the viewport; each figure
   follows the page's light or dark theme. */
(() => {
  "use strict";
  const OWN = document.currentScript.src;
  const FAILURE = {zh: "这幅图没能画出来。", en: "This figure could not be drawn."};
  let library;
  const load = () =>
    (library ??= new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = new URL("plotly.min.js", OWN).href;
      script.onload = () => resolve(globalThis.Plotly);
      script.onerror = () => reject(new Error(`${script.src} cannot be loaded`));
      document.head.append(script);
    }));

  // Okabe and Ito's colours, which colour-blind readers can tell apart; black becomes the text colour.
  const template = () => {
    const dark = document.documentElement.dataset.theme === "dark";
    const text = dark ? "#ced6dd" : "#323232";
    const line = dark ? "#3d444d" : "#d8dee4";
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
        hoverlabel: {font: {family: getComputedStyle(document.body).fontFamily}},
        margin: {l: 56, r: 16, t: 48, b: 48},
      },
    };
  };
  const CONFIG = {responsive: true, displaylogo: false, locale: "en"};
  const drawn = new Set();

  const draw = async place => {
    try {
      const Plotly = await load();
      const {data, layout} = JSON.parse(place.querySelector("script").textContent);
      const target = document.createElement("div");
      place.append(target);
      await Plotly.newPlot(target, data, {autosize: true, ...layout, template: template()}, CONFIG);
      drawn.add(target);
      place.dataset.state = "drawn";
    } catch (error) {
      console.error(error);
      place.dataset.state = "failed";
      for (const [language, text] of Object.entries(FAILURE)) {
        const part = document.createElement("p");
        part.className = "attnbook-lang attnbook-failure";
        part.lang = language;
        part.textContent = text;
        place.append(part);
      }
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
    new MutationObserver(() => {
      for (const target of drawn) globalThis.Plotly.relayout(target, {template: template()});
    }).observe(document.documentElement, {attributes: true, attributeFilter: ["data-theme"]});
  };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
