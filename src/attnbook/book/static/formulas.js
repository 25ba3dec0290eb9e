/* Formulas: MathJax (from this site) is loaded once the page has been painted, and only on pages that have any.
   Until then, and without scripts, a formula's source can be read. The event `attnbook-typeset` says that they stand. */
(() => {
  "use strict";
  const own = document.currentScript;
  const COMPONENTS = ["core", "input/tex", "output/chtml", "a11y/assistive-mml"];
  const load = () => {
    const options = JSON.parse(own.dataset.config || "{}");
    globalThis.MathJax = {
      ...options,
      loader: {load: COMPONENTS},
      startup: {
        pageReady: () =>
          MathJax.startup.defaultPageReady().then(() => document.dispatchEvent(new Event("attnbook-typeset"))),
      },
    };
    const script = document.createElement("script");
    script.src = new URL("mathjax/startup.js", own.src).href;
    document.head.append(script);
  };
  // A window in the background is not painted.
  let waiting = setTimeout(load, 1000);
  requestAnimationFrame(() => {
    clearTimeout(waiting);
    waiting = setTimeout(load);
  });
})();
