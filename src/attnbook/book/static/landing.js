/* The first page: its language, and the translator once the reader asks for it. Nothing of the translator is loaded
   before that: neither the widget's host nor its module nor the weights. */
(() => {
  "use strict";
  const root = document.documentElement, here = document.currentScript.src;
  const TITLES = document.title.split(" · ");

  const show = language => {
    root.dataset.language = language;
    root.lang = language === "zh" ? "zh-CN" : "en";
    document.title = TITLES[language === "zh" ? 0 : 1];
    for (const button of document.querySelectorAll("[data-show]"))
      button.setAttribute("aria-pressed", String(button.dataset.show === language));
  };
  const remember = language => {
    try {
      localStorage.setItem("attnbook-language", language);
    } catch {
      // The choice then lasts as long as the page.
    }
  };
  show(root.dataset.language);
  for (const button of document.querySelectorAll("[data-show]"))
    button.addEventListener("click", () => {
      show(button.dataset.show);
      remember(button.dataset.show);
    });
  for (const link of document.querySelectorAll("[data-choose]"))
    link.addEventListener("click", () => remember(link.dataset.choose));

  const box = document.querySelector(".translator"), form = box.querySelector("form");
  const before = [...box.childNodes];
  form.addEventListener("submit", event => {
    event.preventDefault();
    const live = box.querySelector("template").content.cloneNode(true);
    const state = live.querySelector("script"), place = live.querySelector(".attnbook-widget");
    const saved = JSON.parse(state.textContent);
    saved.state[place.dataset.model].state.text = form.elements.sentence.value;
    state.textContent = JSON.stringify(saved);
    // The height that the translator will have: what stands below moves now, when the reader has pressed, and not later.
    box.classList.add("open");
    box.replaceChildren(live);
    place.tabIndex = -1;
    place.focus();
    new MutationObserver((records, observer) => {
      if (place.dataset.state !== "mounted") return;
      observer.disconnect();
      place.removeAttribute("tabindex");
      if (document.activeElement === place || document.activeElement === document.body)
        place.querySelector("input")?.focus({preventScroll: true});
    }).observe(place, {attributes: true, attributeFilter: ["data-state"]});
    const host = document.createElement("script");
    host.src = new URL("widget-host.js", here).href;
    host.onerror = () => {
      host.remove();
      box.classList.remove("open");
      box.replaceChildren(...before);
      form.querySelector("[role=status]").hidden = false;
      form.elements.sentence.focus();
    };
    document.head.append(host);
  });
})();
