// Uses every part of the kit; see test_kit.py.
import {fmt, frame, legend} from "./common.js";
import {matrix} from "./matrix.js";
import {chart} from "./chart.js";
import {softmax} from "./maths.js";

function render({model, el}) {
  const ui = frame({model, el}, {name: "sample", title: {zh: "样例", en: "Sample"},
    caption: {zh: "说明", en: "Caption"}, alt: {zh: "图", en: "Figure"}});
  const slider = ui.slider({label: {zh: "数", en: "number"}, min: 0, max: 9, value: model.get("number"), format: v => ({zh: `第 ${v}`, en: `no. ${v}`}), onInput: v => ui.set({number: v})});
  const select = ui.select({label: {zh: "颜色", en: "colour"}, options: [["a", {zh: "甲", en: "A"}], ["b", {zh: "乙", en: "B"}]], value: model.get("letter"), onChange: v => ui.set({letter: v})});
  const segmented = ui.segmented({label: {zh: "形", en: "shape"}, options: [["a", "A"], ["b", "B"]], value: model.get("letter"), onChange: v => ui.set({letter: v})});
  const toggle = ui.toggle({label: {zh: "开关", en: "switch"}, value: model.get("on"), onChange: on => ui.set({on})});
  const button = ui.button({label: {zh: "重置", en: "reset"}, onClick: () => ui.set({number: 0})});
  ui.controls.append(slider.el, select.el, segmented.el, toggle.el, button.el);
  const m = matrix(ui, {rows: ["a", "<b>"], cols: [{zh: "猫", en: "cat"}, "y", "z"], label: {zh: "表", en: "Table"}, showLabel: true,
    scale: {map: "diverging", min: -1, max: 1},
    describe: (r, c, v) => ({zh: `行 ${r} 列 ${c} 值 ${fmt(v)}`, en: `row ${r} column ${c} value ${fmt(v)}`}), onPick: (r, c) => ui.set({number: r * 3 + c})});
  const edit = matrix(ui, {rows: ["a", "b"], cols: ["x", "y"],
    rowAxis: null, colAxis: null, label: "E", scale: {map: "sequential", min: 0, max: 1},
    editable: {step: 0.5, min: -5, max: 5, onInput: (r, c, v) => ui.set({number: v})}});
  const lines = chart(ui, {label: {zh: "曲线", en: "Curve"}, x: {label: "x", min: 1, max: 64, log: true}, y: {label: {zh: "高", en: "height"}, min: -1, max: 1},
    series: [{name: {zh: "线", en: "line"}, points: [[1, 0], [64, 1]]},
      {name: "bars", kind: "bar", points: [[2, 0.5]], width: 1}]});
  ui.figure.append(m.el, edit.el, lines.el, legend(ui, {map: "sequential"}).el);
  edit.set([0, 0.5, 1, 0.25]);
  function update() {
    const n = model.get("number");
    slider.set(n);
    select.set(model.get("letter"));
    segmented.set(model.get("letter"));
    toggle.set(model.get("on"));
    m.set([0, 0.1 * n, -0.1 * n, NaN, -1, 1]);
    m.emphasise({row: n % 2, col: 0});
    lines.set({marker: n + 1});
    ui.say({zh: `现在 ${n}`, en: `now ${n}`});
  }
  ui.watch(["number", "letter", "on"], update);
  update();
  return ui.done;
}

export default {render};
