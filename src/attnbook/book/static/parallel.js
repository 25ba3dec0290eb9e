/* The parallel edition: text comes in both languages; figures and widgets speak one, which the reader chooses.
   `<html lang>` holds it (early.js has set it), and all that runs in the page follows it. */
(() => {
  "use strict";
  const root = document.documentElement;
  const make = (tag, text, props = {}) => Object.assign(document.createElement(tag), {textContent: text}, props);
  const choose = language => {
    root.lang = language === "zh" ? "zh-CN" : "en";
    try {
      localStorage.setItem("attnbook-language", language);
    } catch {
      // Storage may be closed; then the choice holds for this page.
    }
  };
  document.addEventListener("DOMContentLoaded", () => {
    const title = document.querySelector("article h1");
    if (!title || !document.querySelector("article :is(.attnbook-widget, .attnbook-lang)")) return;
    const name = make("span", "图与控件 · Figures and widgets", {id: "attnbook-choice"});
    const buttons = Object.entries({zh: "中文", en: "English"}).map(([lang, text]) =>
      make("button", text, {type: "button", lang}),
    );
    const update = () => {
      for (const button of buttons) button.setAttribute("aria-pressed", String(root.lang.startsWith(button.lang)));
    };
    for (const button of buttons)
      button.addEventListener("click", () => {
        choose(button.lang);
        update();
      });
    update();
    const row = make("div", "", {className: "attnbook-choice"});
    row.setAttribute("role", "group");
    row.setAttribute("aria-labelledby", name.id);
    const together = make("span", "");
    together.append(...buttons);
    row.append(name, together);
    title.after(row);
  });
})();
