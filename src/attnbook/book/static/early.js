/* Before the first paint, on every page: light or dark as the reader has chosen, else as the system says, so that a
   dark page never flashes white; and a memory for a page whose storage is closed (the theme's own script asks for
   it unprotected), which lasts as long as the page. On pages that are in several languages: which one is shown. */
(() => {
  "use strict";
  for (const name of ["localStorage", "sessionStorage"])
    try {
      globalThis[name].getItem("mode");
    } catch {
      const kept = new Map();
      const storage = {
        getItem: key => kept.get(String(key)) ?? null,
        setItem: (key, value) => void kept.set(String(key), String(value)),
        removeItem: key => void kept.delete(String(key)),
      };
      Object.defineProperty(globalThis, name, {value: storage, configurable: true});
    }
  const root = document.documentElement, {dataset} = root;
  dataset.mode = localStorage.getItem("mode") || "auto";
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  dataset.theme = ["light", "dark"].includes(dataset.mode) ? dataset.mode : dark ? "dark" : "light";

  // A page in several languages: the one in its address, if it says so, or of an earlier visit, else the browser's.
  const own = document.currentScript.dataset, languages = own.languages?.split(" ");
  if (languages) {
    const asked = own.from === "address" ? location.pathname.split("/") : [];
    const spoken = navigator.languages.map(language => language.slice(0, 2).toLowerCase());
    const wanted = [...asked, localStorage.getItem("attnbook-language"), ...spoken, "en"];
    dataset.language = wanted.find(language => languages.includes(language)) ?? languages[0];
    root.lang = dataset.language === "zh" ? "zh-CN" : dataset.language;
  }
})();
