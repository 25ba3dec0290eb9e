"""The static host on pages of its own: buffers in parts, traits that come later, a second try."""

import base64
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from sitecheck import visit

from attnbook.book import widgets
from attnbook.training.checkpoint import load_translator
from attnbook.widgets import LiveTranslator

HOST = Path(widgets.__file__).parent / "static" / widgets.HOST

# Says how long its data are and what their sum is; the second one asks for them when its button is pressed.
READY = """export default {
  render({model, el}) {
    const data = model.get("data");
    let sum = 0;
    for (let i = 0; i < data.byteLength; i++) sum += data.getUint8(i);
    el.textContent = `${data.byteLength} bytes, sum ${sum}`;
  },
};"""
LATER = """export default {
  later: ["data", "none"],
  render({model, el}) {
    const button = document.createElement("button"), said = document.createElement("p");
    button.textContent = "load";
    said.textContent = String(model.get("data"));
    const shares = el.shares = [];
    button.onclick = async () => {
      try {
        const data = await model.load("data", share => shares.push(share));
        said.textContent = `${data.byteLength} bytes, ${data === model.get("data")}`;
      } catch (error) {
        said.textContent = error.message;
      }
    };
    el.append(button, said);
  },
};"""
DATA = np.random.default_rng(0).bytes(3_000_000)


FAR = '<p style="height:3000px"></p>'  # what follows is not near the window


def write_page(folder, *modules, data=DATA, between="", **state):
    """A page with one widget for each module text, with the same state and data, as the build leaves it."""
    saved, places, scripts = {}, [], folder / "_static" / "widgets"
    scripts.mkdir(parents=True)
    shutil.copy2(HOST, scripts.parent)
    for number, text in enumerate(modules):
        identifier = f"{number:032x}"
        buffer = {"path": ["data"], "encoding": "base64", "data": base64.b64encode(data).decode()}
        model = {"model_name": "AnyModel", "state": {"_esm": text, **state}, "buffers": [buffer]}
        for key, value in widgets.store(model).items():
            (scripts / f"{key}.js").write_text(f'(globalThis.attnbookAssets??={{}})["{key}"]={value};')
        saved[identifier] = model
        places.append(widgets.placeholder(identifier, saved))
    page = folder / "index.html"
    page.write_text(
        f'<!doctype html><html lang="en" data-content_root="./"><meta charset="utf-8"><title>x</title>'
        f"<body>{between.join(places)}<script type='{widgets.STATE}'>{json.dumps({'state': saved})}</script>"
        f'<script src="_static/{widgets.HOST}"></script></body></html>',
        encoding="utf-8",
    )
    return page, {key: scripts / f"{key}.js" for key in model["buffers"][0]["assets"]}


def mounted(page, number=0):
    place = page.page.locator(".attnbook-widget").nth(number)
    page.page.wait_for_function(
        "n => document.querySelectorAll('.attnbook-widget')[n].dataset.state === 'mounted'", arg=number
    )
    return place


def test_a_buffer_in_parts_is_whole_again(chromium, tmp_path):
    path, parts = write_page(tmp_path, READY)
    assert len(parts) == 4
    with visit(chromium) as page:
        page.open(path)
        said = mounted(page).inner_text()
        assert said == f"{len(DATA)} bytes, sum {sum(DATA)}"
        assert page.page.evaluate("Object.keys(attnbookAssets).length") == 1  # the module only
        assert page.problems == []


def test_a_trait_that_comes_later_is_loaded_once_for_all(chromium, tmp_path):
    path, parts = write_page(tmp_path, LATER, LATER, READY, between=FAR)
    requests = []
    with visit(chromium) as page:
        page.page.on("request", lambda request: requests.append(request.url.rsplit("/", 1)[1][:-3]))
        page.open(path)
        first = mounted(page)
        assert first.locator("p").inner_text() == "undefined"
        assert not set(parts) & set(requests)  # nothing was asked for yet
        first.get_by_role("button").evaluate("button => (button.click(), button.click())")  # at once
        page.page.get_by_text(f"{len(DATA)} bytes, true").wait_for()
        shares = first.evaluate("place => place.lastChild.shares")
        assert sorted(set(shares)) == shares[::2] == [0.25, 0.5, 0.75, 1]
        page.page.locator(".attnbook-widget").nth(1).scroll_into_view_if_needed()
        second = mounted(page, 1)
        second.get_by_role("button").click()
        second.get_by_text("bytes, true").wait_for()
        assert second.evaluate("place => place.lastChild.shares") == []  # it was there already
        page.page.locator(".attnbook-widget").nth(2).scroll_into_view_if_needed()
        assert mounted(page, 2).inner_text() == f"{len(DATA)} bytes, sum {sum(DATA)}"
        assert sorted(key for key in requests if key in parts) == sorted(parts)
        assert page.problems == []


def test_a_load_that_fails_says_what_and_can_be_repeated(chromium, tmp_path):
    path, parts = write_page(tmp_path, LATER)
    key, script = list(parts.items())[2]
    kept = script.read_text()
    script.unlink()
    with visit(chromium) as page:
        page.open(path)
        place = mounted(page)
        place.get_by_role("button").click()
        place.get_by_text(f"widgets/{key}.js cannot be loaded").wait_for()
        script.write_text("0;")
        place.get_by_role("button").click()
        place.get_by_text(f"widgets/{key}.js registers nothing").wait_for()
        script.write_text(kept)
        place.get_by_role("button").click()
        place.get_by_text(f"{len(DATA)} bytes, true").wait_for()
        assert page.page.evaluate("document.head.querySelectorAll('script').length") == 0


@pytest.mark.parametrize("kind", ["module", "data"])
def test_a_widget_that_failed_can_be_tried_again(chromium, tmp_path, kind):
    path, parts = write_page(tmp_path, READY)
    scripts = set((tmp_path / "_static" / "widgets").iterdir())
    script = next(iter(set(parts.values()) if kind == "data" else scripts - set(parts.values())))
    kept = script.read_text()
    script.unlink()
    with visit(chromium) as page:
        page.open(path)
        place = page.page.locator(".attnbook-widget")
        place.get_by_role("status").wait_for()
        assert page.states(".attnbook-widget") == ["failed"]
        place.get_by_role("button").click()
        page.page.wait_for_function("document.querySelector('.attnbook-widget').dataset.state === 'failed'")
        assert place.get_by_role("status").count() == 1
        script.write_text(kept)
        place.get_by_role("button").click()
        assert mounted(page).inner_text() == f"{len(DATA)} bytes, sum {sum(DATA)}"
        assert place.get_by_role("status").count() == 0


def test_a_translator_comes_in_parts_and_translates(chromium, tmp_path):
    widget = LiveTranslator("grammar-transformer", "这只鼬昨天在河边看见了一本书。")
    state = {name: value for name, value in widget.get_state().items() if name[0] != "_"}
    data, state["layout"] = state.pop("checkpoint"), None
    # The page's buffers are called "data"; so must be the trait.
    module = widget._esm.replace('"checkpoint"', '"data"')
    path, parts = write_page(tmp_path, module, data=data, **state)
    assert len(parts) == 3
    script = list(parts.values())[1]
    kept = script.read_text()
    script.unlink()
    with visit(chromium) as page:
        page.open(path)
        place = mounted(page)
        place.get_by_text("The model could not be loaded: widgets/").wait_for()
        script.write_text(kept)
        page.problems.clear()
        place.get_by_role("button", name="Try again").click()
        place.locator('.lt-out[aria-busy="false"]').wait_for()
        assert place.locator(".lt-out").inner_text() == load_translator("grammar-transformer").translate(
            widget.text, 1, 0.0
        )
        assert page.problems == []
