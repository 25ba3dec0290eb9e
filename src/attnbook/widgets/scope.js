// Parts of a widget that are thrown away and made again, as when the reader's sentence changes its length.
//
//   const part = renewable(ui);      // once
//   const scoped = part.start();     // ends what the last start began; build the part with `scoped` in place of `ui`
//
// `scoped` is `ui`, except that what is bound, listened to and observed through it ends with the next start (nothing of the old part stays in memory).
// Covered: text, attr, retext, listen, onChange, onResize, tips; so also matrix(), tokenLabel() and legend(). Not covered: ui.select and the other controls; make those once.
export function renewable(ui) {
  let stop = null, refresh = () => {};
  ui.onChange(() => refresh());
  return {
    start() {
      stop?.();
      const abort = new AbortController(), bound = [], changed = [], observers = [];
      const bind = (node, key, msg) => {
        const apply = () => { const s = ui.t(msg); if (key) node.setAttribute(key, s); else if (node.textContent !== s) node.textContent = s; };
        const old = bound.findIndex(b => b.node === node && b.key === key);
        if (old >= 0) bound.splice(old, 1);
        if (typeof msg === "object" || typeof msg === "function") bound.push({node, key, apply, live: typeof msg === "function"});
        apply();
        return node;
      };
      refresh = () => { bound.forEach(b => b.apply()); changed.forEach(fn => fn()); };
      stop = () => { abort.abort(); observers.forEach(o => o.disconnect()); ui.hideTip(); };
      const scoped = Object.create(ui, Object.fromEntries(Object.entries({
        text: (node, msg) => bind(node, null, msg),
        attr: bind,
        retext: () => bound.forEach(b => { if (b.live) b.apply(); }),
        listen: (target, event, fn, options) => target.addEventListener(event, fn, {...options, signal: abort.signal}),
        onChange: fn => changed.push(fn),
        onResize(node, fn) {
          let width = 0;
          const observer = new ResizeObserver(([entry]) => { const w = Math.floor(entry.contentRect.width); if (w && w !== width) { width = w; fn(w); } });
          observer.observe(node);
          observers.push(observer);
        },
        tips(node, fn) {
          const show = event => { const msg = fn(event.target); if (msg == null) ui.hideTip(); else ui.showTip(event.target, msg); };
          for (const event of ["pointerover", "focusin"]) scoped.listen(node, event, show);
          for (const event of ["pointerleave", "focusout"]) scoped.listen(node, event, ui.hideTip);
        },
      }).map(([name, value]) => [name, {value}])));
      return scoped;
    },
    end() { stop?.(); stop = null; refresh = () => {}; },
  };
}
