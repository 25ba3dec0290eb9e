/* Static host for anywidget front ends (AFM): no kernel, no network, works from file://.

   The page holds the widgets' state; the book's build has moved module texts and binary buffers into
   `widgets/<hash>.js` beside this script, each a script that registers one text (a module or a fetch would be blocked on
   file://, a script is not). A widget is mounted when it comes near the viewport. Each placeholder says how far
   it is in `data-state`: waiting, loading, mounted, failed. A widget that fails keeps its text alternative, says
   why in the page's language, can be tried again, and does not stop the others.

   A module may name traits that it can do without at first: `export default {render, later: ["checkpoint"]}`.
   Then it is mounted at once, `model.get("checkpoint")` is undefined, and
   `await model.load("checkpoint", share => …)` fetches the bytes (once for all widgets that have the same ones),
   tells the share that has arrived, from 0 to 1, and returns them. After a failure it may be called again. */
(() => {
  "use strict";
  const STATE = 'script[type="application/vnd.jupyter.widget-state+json"]';
  const WAITING = '.attnbook-widget[data-state="waiting"]';
  const NEAR = "600px";
  // What the page says of a file that did not come, and of any other error.
  const missing = file => ({
    zh: `这个交互控件的文件 ${file} 没能载入：可能网络断了，也可能网站刚刚更新过。请再试一次，或者重新载入本页。`,
    en: `This widget's file ${file} could not be loaded: the network may be down, or the site has just been updated. Try again, or reload the page.`,
  });
  const broken = reason => ({
    zh: `这个交互控件没能启动（${reason}），页面其余部分不受影响。`,
    en: `This widget could not start (${reason}); the rest of the page is not affected.`,
  });
  const AGAIN = {zh: "再试一次", en: "Try again"};
  const REFERENCE = /^IPY_MODEL_(.+)$/;
  const OWN = document.currentScript.src;

  // What is made for a key is made once; what failed is made anew.
  const once = make => {
    const made = new Map();
    return key => {
      if (!made.has(key)) {
        const promise = make(key);
        made.set(key, promise);
        promise.catch(() => made.delete(key));
      }
      return made.get(key);
    };
  };

  class MissingFile extends Error {
    constructor(file, what) {
      super(`${file} ${what}`);
      this.file = file;
    }
  }

  // A file that did not come is asked for by another address the next time: "not found" may be in a cache.
  const failures = new Map();
  const asset = key =>
    new Promise((resolve, reject) => {
      const script = document.createElement("script"), file = `widgets/${key}.js`, times = failures.get(key) || 0;
      const fail = what => {
        failures.set(key, times + 1);
        reject(new MissingFile(file, what));
      };
      script.src = new URL(file + (times ? `?again=${times}` : ""), OWN).href;
      script.onload = () => {
        const text = globalThis.attnbookAssets?.[key];
        script.remove();
        if (text === undefined) fail("registers nothing");
        else resolve(text);
      };
      script.onerror = () => {
        script.remove();
        fail("cannot be loaded");
      };
      document.head.append(script);
    });

  const module = once(async key => {
    const url = URL.createObjectURL(new Blob([await asset(key)], {type: "text/javascript"}));
    try {
      return (await import(url)).default;
    } finally {
      URL.revokeObjectURL(url);
    }
  });

  const style = once(async key => {
    const element = document.createElement("style");
    element.textContent = await asset(key);
    document.head.append(element);
  });

  const bytes = base64 => {
    const raw = atob(base64);
    const out = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
    return out;
  };

  /* The bytes of a buffer, from its parts; listeners hear the share that has arrived. */
  const download = once(async name => {
    const keys = name.split(" ");
    let arrived = 0;
    const parts = await Promise.all(
      keys.map(async key => {
        const part = bytes(await asset(key));
        delete globalThis.attnbookAssets[key]; // the text is not needed any more
        arrived++;
        for (const listener of listening.get(name) || []) listener(arrived / keys.length);
        return part;
      }),
    );
    const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
    parts.reduce((at, part) => (whole.set(part, at), at + part.length), 0);
    return new DataView(whole.buffer);
  });
  const listening = new Map();
  const content = async ({data, assets}, listener = () => {}) => {
    if (data !== undefined) return new DataView(bytes(data).buffer);
    const name = assets.join(" ");
    if (!listening.has(name)) listening.set(name, new Set());
    listening.get(name).add(listener);
    try {
      return await download(name);
    } finally {
      listening.get(name).delete(listener);
    }
  };

  /* One model: what the front end of a widget sees of its Python side. */
  class Model {
    #state;
    #later;
    #listeners = new Map();
    constructor(state, later) {
      this.#state = state;
      this.#later = later;
    }
    widget_manager = {
      get_model: reference => model(reference.replace(REFERENCE, "$1")),
    };
    get(key) {
      return this.#state[key];
    }
    async load(key, listener) {
      if (this.#later.has(key)) this.#state[key] = await content(this.#later.get(key), listener);
      this.#later.delete(key);
      return this.#state[key];
    }
    set(key, value) {
      if (typeof key === "object") {
        for (const [name, one] of Object.entries(key)) this.set(name, one);
        return;
      }
      if (this.#state[key] === value) return;
      this.#state[key] = value;
      this.#emit(`change:${key}`, value);
      this.#emit("change");
    }
    on(events, listener) {
      for (const event of events.split(/\s+/)) {
        if (!this.#listeners.has(event)) this.#listeners.set(event, new Set());
        this.#listeners.get(event).add(listener);
      }
    }
    off(events, listener) {
      for (const event of events ? events.split(/\s+/) : [...this.#listeners.keys()]) {
        if (listener) this.#listeners.get(event)?.delete(listener);
        else this.#listeners.delete(event);
      }
    }
    #emit(event, value) {
      // A copy: a listener may remove itself. One that throws does not keep the others from hearing.
      for (const listener of [...(this.#listeners.get(event) || [])])
        try {
          listener({changed: {}}, value);
        } catch (error) {
          console.error(error);
        }
    }
    save_changes() {}
    send() {}
  }

  const saved = {};
  const readState = () => {
    for (const element of document.querySelectorAll(STATE)) {
      if (element.dataset.read) continue;
      element.dataset.read = "yes";
      Object.assign(saved, JSON.parse(element.textContent).state);
    }
  };

  const front = once(async id => {
    const exported = await module(saved[id].state._esm.asset);
    const made = typeof exported === "function" ? await exported() : exported;
    if (typeof made?.render !== "function") throw new Error("the module's default export has no render()");
    return made;
  });

  const model = once(async id => {
    const entry = saved[id];
    if (!entry) throw new Error(`no saved state for widget ${id}`);
    const state = structuredClone(entry.state);
    const postponed = (entry.state._esm && (await front(id)).later) || [];
    const later = new Map();
    await Promise.all(
      (entry.buffers || []).map(async buffer => {
        const path = buffer.path;
        if (path.length === 1 && postponed.includes(path[0])) {
          later.set(path[0], buffer);
          return;
        }
        const data = await content(buffer);
        let place = state;
        for (const key of path.slice(0, -1)) place = place[key];
        place[path[path.length - 1]] = data;
      }),
    );
    return new Model(state, later);
  });

  /* ipywidgets' jslink and jsdlink: two traits that follow each other without Python. */
  const connect = once(async id => {
    const {state, model_name: kind} = saved[id];
    const [[from, fromTrait], [to, toTrait]] = await Promise.all(
      [state.source, state.target].map(async ([reference, trait]) => [
        await model(reference.replace(REFERENCE, "$1")),
        trait,
      ]),
    );
    const follow = (a, x, b, y) => a.on(`change:${x}`, () => b.set(y, a.get(x)));
    follow(from, fromTrait, to, toTrait);
    if (kind === "LinkModel") follow(to, toTrait, from, fromTrait);
    to.set(toTrait, from.get(fromTrait));
  });

  const connectLinks = () =>
    Promise.all(Object.keys(saved).filter(id => /^(Directional)?LinkModel$/.test(saved[id].model_name)).map(connect));

  const initialise = once(async id => {
    const own = await model(id);
    await (await front(id)).initialize?.({model: own, experimental: {}});
    return own;
  });

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

  const fail = (place, error) => {
    console.error(error);
    place.dataset.state = "failed";
    const message = error instanceof MissingFile ? missing(error.file) : broken(error?.message ?? error);
    const note = inBothLanguages(document.createElement("p"), message);
    note.setAttribute("role", "status");
    const again = inBothLanguages(document.createElement("button"), AGAIN);
    again.type = "button";
    const failure = document.createElement("div");
    failure.className = "attnbook-failure";
    failure.append(note, again);
    again.addEventListener("click", () => {
      failure.remove();
      place.dataset.state = "waiting";
      mount(place);
    });
    place.prepend(failure);
  };

  const mount = async place => {
    if (place.dataset.state !== "waiting") return;
    place.dataset.state = "loading";
    const alternative = place.querySelector(".attnbook-alternative");
    const element = document.createElement("div");
    try {
      readState();
      const id = place.dataset.model;
      if (!saved[id]) throw new Error(`no saved state for widget ${id}`);
      if (saved[id].state._css) await style(saved[id].state._css.asset);
      const own = await initialise(id);
      await connectLinks();
      place.append(element);
      await (await front(id)).render({model: own, el: element, experimental: {}});
      alternative?.remove();
      place.dataset.state = "mounted";
    } catch (error) {
      element.remove();
      fail(place, error);
    }
  };

  const observer = new IntersectionObserver(
    entries => {
      for (const {isIntersecting, target} of entries)
        if (isIntersecting) {
          observer.unobserve(target);
          mount(target);
        }
    },
    {rootMargin: NEAR},
  );
  const watch = node => {
    if (node.nodeType !== Node.ELEMENT_NODE) return;
    if (node.matches(WAITING)) observer.observe(node);
    for (const place of node.querySelectorAll(WAITING)) observer.observe(place);
  };

  const start = () => {
    watch(document.documentElement);
    new MutationObserver(records => {
      for (const record of records) record.addedNodes.forEach(watch);
    }).observe(document.body, {childList: true, subtree: true});
    // Paper shows every widget, wherever the reader has been.
    addEventListener("attnbook-show-all", () => {
      for (const place of document.querySelectorAll(WAITING)) if (!place.closest("details:not([open])")) mount(place);
    });
  };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
