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

  // The section that is being read: the last heading above the upper third of the window.
  const currentSection = () => {
    let current = null;
    for (const section of document.querySelectorAll("article section[id]")) {
      if (section.getBoundingClientRect().top > innerHeight / 3) break;
      current = section;
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
    addEventListener("resize", reach);
    document.addEventListener("toggle", reach, true);
  });

  // The search page is for searching.
  addEventListener("DOMContentLoaded", () => document.querySelector(".bd-search-container input")?.select());

  // Search results on file:// come without excerpts: a page may not fetch its neighbours there.
  if (location.protocol === "file:" && typeof DOCUMENTATION_OPTIONS !== "undefined")
    DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
})();
