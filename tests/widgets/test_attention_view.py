"""The attention view as any widget mounts it: its data change, rows appear one by one, nothing stays."""

import shutil

import pytest

from attnbook.notebook import Bilingual
from attnbook.widgets import base
from attnbook.widgets.base import Widget, bundle

MODULE = """
import {attentionView} from "./attention_view.js";
import {frame} from "./common.js";

function render({model, el}) {
  const ui = frame({model, el}, {name: "viewer", title: "viewer"});
  const told = [];
  const view = attentionView(ui, {onChange: change => { told.push(change); view.update(change); }});
  ui.controls.append(view.controls);
  ui.figure.append(view.el);
  Object.assign(el, {view, told, ui});
  return ui.done;
}

export default {render};
"""


class Viewer(Widget):
    def describe(self):
        return Bilingual("注意力", "attention")


@pytest.fixture
def viewer(tmp_path, monkeypatch, mount):
    for file in base.HERE.glob("*.js"):
        shutil.copy(file, tmp_path)
    (tmp_path / "viewer.js").write_text(MODULE)
    monkeypatch.setattr(base, "HERE", tmp_path)
    shown = mount(type("Viewer", (Viewer,), {"_esm": bundle("viewer.js")})())
    monkeypatch.undo()
    return shown


def show(viewer, queries, keys, layers=1, heads=1, **more):
    """Weights that tell the cells of all heads apart: 0, 0.1, … 0.6, 0, …"""
    code = """const {queries, keys, layers, heads, ...more} = arg;
      const rows = queries.length, columns = keys.length, length = layers * heads * rows * columns;
      const weights = Float32Array.from({length}, (_, i) => (i % 7) / 10);
      el.view.update({weights, shape: [layers, heads, rows, columns], queries, keys, ...more})"""
    viewer.js(code, {"queries": queries, "keys": keys, "layers": layers, "heads": heads, **more})
    viewer.settle()


def texts(viewer, role):
    return viewer.root.get_by_role(role).all_inner_texts()


@pytest.mark.browser
def test_new_tokens_take_the_place_of_the_old(viewer):
    assert viewer.root.get_by_role("grid").count() == 0
    show(viewer, ["a", "b"], ["x", "y", "z"])
    assert texts(viewer, "rowheader") == ["a", "b"]
    assert texts(viewer, "gridcell") == ["·", "0.10", "0.20", "0.30", "0.40", "0.50"]
    show(viewer, ["c"], ["u", "v"], gold=[[0, 1]])
    assert texts(viewer, "rowheader") == ["c"]
    assert texts(viewer, "columnheader")[1:] == ["u", "v"]
    assert texts(viewer, "gridcell") == ["·", "0.10"]
    assert viewer.root.locator(".anb-gold").all_inner_texts() == ["0.10"]
    viewer.root.get_by_role("radio", name="Lines").check()
    show(viewer, ["c", "d"], ["u", "v"])
    assert viewer.root.get_by_role("group", name="queries").get_by_role("button").all_inner_texts() == [
        "c",
        "d",
    ]
    assert viewer.js("return el.told") == [{"view": "lines"}]


@pytest.mark.browser
def test_layers_and_heads_can_be_chosen_when_there_are_several(viewer):
    show(viewer, ["a"], ["x", "y"])
    assert viewer.root.get_by_role("combobox").count() == 0
    assert viewer.root.get_by_role("radio").count() == 2
    show(viewer, ["a"], ["x", "y"], layers=2, heads=2, layer=1, head=1)
    assert texts(viewer, "gridcell") == ["0.60", "·"]
    viewer.root.get_by_role("combobox", name="Head").select_option("mean")
    viewer.settle()
    assert texts(viewer, "gridcell") == ["0.50", "0.25"]
    viewer.root.get_by_role("radio", name="All heads").check()
    viewer.settle()
    assert viewer.root.locator(".hm-gal button").count() == 2 * 3
    show(viewer, ["a"], ["x", "y"], view="matrix")  # layer 1 is no longer there: the first one is shown
    assert texts(viewer, "gridcell") == ["·", "0.10"]


@pytest.mark.browser
@pytest.mark.parametrize("view", ["matrix", "lines"])
def test_rows_that_have_not_appeared_keep_their_place_unseen(viewer, view):
    show(viewer, ["a", "b", "c"], ["x", "y"], view=view, upto=1)
    rows = viewer.root.locator("[role=rowheader], .hm-col:first-of-type button, .hm-col button").filter(
        has_text="b"
    )
    assert rows.count() == 1
    assert not rows.first.is_visible()
    before = viewer.root.bounding_box()
    viewer.js("el.view.update({upto: null})")
    viewer.settle()
    assert rows.first.is_visible()
    assert viewer.root.bounding_box() == before


@pytest.mark.browser
def test_links_are_dashed_and_named(viewer):
    show(viewer, ["a", "b"], ["x", "y"], links=[[0, 1], [1, 0]], linksName={"zh": "链", "en": "chosen"})
    assert viewer.root.locator(".hm-linked").all_inner_texts() == ["0.10", "0.20"]
    assert (
        viewer.root.locator(".hm-linked").first.evaluate("e => getComputedStyle(e).borderStyle") == "dashed"
    )
    assert viewer.root.get_by_text("chosen").is_visible()
    viewer.js("el.view.update({links: null})")
    assert viewer.root.locator(".hm-linked").count() == 0
    assert viewer.root.get_by_text("chosen").count() == 0


@pytest.mark.browser
def test_what_was_chosen_is_told_and_let_go_when_it_is_no_more(viewer):
    show(viewer, ["a", "b"], ["x", "y"])
    viewer.root.get_by_role("gridcell").nth(3).click()
    assert viewer.js("return el.told") == [{"query": 1, "key": 1}]
    viewer.root.locator(".anb-title").hover()
    assert viewer.root.locator(".anb-band:visible").count() == 2
    show(viewer, ["a"], ["x"])
    assert viewer.root.locator(".anb-band:visible").count() == 0
    assert viewer.root.locator(".anb-say").inner_text() == ""


@pytest.mark.browser
def test_the_old_parts_follow_neither_language_nor_theme(viewer):
    show(viewer, [{"zh": "旧", "en": "old"}], ["x"])
    viewer.js("el.old = el.querySelector('[role=rowheader]')")
    show(viewer, [{"zh": "新", "en": "new"}], ["x"])
    viewer.page.evaluate("document.documentElement.lang = 'zh-CN'")
    viewer.settle()
    assert texts(viewer, "rowheader") == ["新"]
    assert viewer.js("return el.old.textContent") == "old"
    assert "权重" in viewer.root.inner_text()
