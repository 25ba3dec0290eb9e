import {attentionView} from "./attention_view.js";
import {floats, frame} from "./common.js";

function render({model, el}) {
  const title = model.get("title"), pair = ([zh, en]) => ({zh, en});
  const ui = frame({model, el}, {
    name: "attention-heatmap",
    title: title.length ? pair(title) : {zh: "注意力热图", en: "Attention heatmap"},
    caption: {
      zh: "行是查询，列是键，每行之和为 1。指着看数值，点一下选定，再点一下放开；方向键在格子间移动。",
      en: "Rows are queries, columns are keys; each row sums to 1. Point to read a weight, click to keep it, click again to let go; arrow keys move between cells.",
    },
  });
  const view = attentionView(ui, {onChange: ui.set});
  ui.controls.append(view.controls);
  ui.figure.append(view.el);
  const names = ["layer", "head", "view", "query", "key"], chosen = () => Object.fromEntries(names.map(name => [name, model.get(name)]));
  ui.watch(names, () => view.update(chosen()));
  view.update({
    weights: floats(model.get("attention")), shape: model.get("shape"), gold: model.get("gold"),
    queries: model.get("query_tokens").map(pair), keys: model.get("key_tokens").map(pair), ...chosen(),
  });
  return ui.done;
}

export default {render};
