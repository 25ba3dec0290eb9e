/* Every page: the language switch keeps the section, the choice is remembered, search works from disk. */
(() => {
  "use strict";
  const remember = language => {
    try {
      localStorage.setItem("attnbook-language", language);
    } catch {
      // Storage may be closed (private window, file:// in some browsers); the links work without it.
    }
  };
  remember(document.documentElement.lang.startsWith("zh") ? "zh" : "en");

  // The section that is being read: the first that begins in the upper third of the window, or the one that goes on there.
  const currentSection = () => {
    const start = parseFloat(getComputedStyle(document.documentElement).scrollPaddingTop) || 0; // below the header
    let current = null;
    for (const section of document.querySelectorAll("article section[id]")) {
      const {top} = section.getBoundingClientRect();
      if (top > innerHeight / 3) break;
      current = section;
      if (top >= start - 1) break;
    }
    return current && current.parentElement.closest("section") ? current.id : "";
  };
  document.addEventListener("DOMContentLoaded", () => {
    for (const link of document.querySelectorAll(".attnbook-languages a")) {
      const page = link.getAttribute("href");
      const update = () => {
        const section = currentSection();
        link.setAttribute("href", page + location.search + (section ? `#${section}` : ""));
      };
      for (const event of ["pointerdown", "focus", "click"]) link.addEventListener(event, update);
    }
  });

  // What scrolls sideways can be reached by keyboard.
  const SCROLLING = "article :is(mjx-container, div.math, pre, .output, .attnbook-table, .pst-scrollable-table-container)";
  const reach = () => {
    for (const box of document.querySelectorAll(SCROLLING)) {
      const scrolls = box.scrollWidth > box.clientWidth + 1 && getComputedStyle(box).overflowX !== "visible";
      if (scrolls) box.tabIndex = 0;
      else if (box.matches("mjx-container, div.math, .output")) box.removeAttribute("tabindex");
    }
  };
  addEventListener("load", () => {
    reach();
    document.addEventListener("attnbook-typeset", reach);
    // The window, the side bars and paper, on which nothing scrolls, all change the article's width.
    new ResizeObserver(reach).observe(document.querySelector("article") ?? document.body);
    document.addEventListener("toggle", reach, true);
  });

  // The search page is for searching.
  addEventListener("DOMContentLoaded", () => document.querySelector(".bd-search-container input")?.select());

  // Paper is light and shows every widget and figure. What is not there yet when the browser's own command prints stays
  // a text; the button in the page's header waits for it.
  const root = document.documentElement;
  const PAPER = 665; // CSS pixels of an A4 page between its margins
  let theme = null;
  addEventListener("beforeprint", () => {
    theme ??= root.dataset.theme;
    root.dataset.theme = "light";
    const width = document.querySelector(".bd-article")?.clientWidth || PAPER;
    root.style.setProperty("--attnbook-paper", Math.min(1, PAPER / width).toFixed(3));
    // What scrolls on the screen and is wider than paper is printed smaller.
    for (const box of document.querySelectorAll(`:is(${SCROLLING}, .anb-scroll)`)) {
      const room = box.closest(".anb") ? box.clientWidth : PAPER;
      box.style.setProperty("--attnbook-fit", Math.min(1, room / (box.scrollWidth || room)).toFixed(3));
    }
    dispatchEvent(new Event("attnbook-show-all"));
  });
  addEventListener("afterprint", () => {
    if (theme !== null) root.dataset.theme = theme;
    theme = null;
  });
  const LOADING =
    '.attnbook-widget:is([data-state="waiting"], [data-state="loading"]), .attnbook-figure:not([data-state])';
  const PATIENCE = 20; // seconds
  const print = async () => {
    dispatchEvent(new Event("attnbook-show-all"));
    for (let waited = 0; waited < PATIENCE; waited += 0.1) {
      if (![...document.querySelectorAll(LOADING)].some(place => !place.closest("details:not([open])"))) break;
      await new Promise(done => setTimeout(done, 100));
    }
    window.print();
  };
  addEventListener("DOMContentLoaded", () => {
    for (const button of document.querySelectorAll(".attnbook-print")) button.addEventListener("click", print);
  });

  // Search results on file:// come without excerpts: a page may not fetch its neighbours there.
  if (location.protocol === "file:" && typeof DOCUMENTATION_OPTIONS !== "undefined")
    DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
})();
