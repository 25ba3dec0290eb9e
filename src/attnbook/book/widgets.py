"""anywidgets in a page without a kernel.

nbclient stores each widget's state in the executed notebook, and myst-nb writes that state into the page.
Here the page keeps only what it needs: module texts and binary buffers go into scripts named by content hash
(shared between pages, cached, loaded when the widget comes near the viewport), models that no view reaches
are left out, and each view becomes a placeholder with the widget's text alternative in both languages.
A buffer of many megabytes becomes several scripts, so that the reader can be told how far it is.
`static/widget-host.js` does the rest in the reader's browser.
"""

import hashlib
import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

from .errors import BookError
from .language import LANGUAGES

STATE = "application/vnd.jupyter.widget-state+json"
VIEW = "application/vnd.jupyter.widget-view+json"
HOST = "widget-host.js"
FOLDER = "widgets"  # below _static
_VIEW_SCRIPT = re.compile(rf'<script type="{re.escape(VIEW)}">(.*?)</script>', re.S)
_MODEL_REFERENCE = re.compile(r"IPY_MODEL_([0-9a-f]{32})")
_SMALL = 64  # base64 characters; a smaller buffer is cheaper in the page than as a file of its own
_PART = 2**20  # base64 characters of one script; a multiple of 4, so that each part is decoded by itself
_LINKS = ("LinkModel", "DirectionalLinkModel")


def move_out(app: Sphinx, pagename: str, templatename: str, context: dict, doctree: Any) -> None:
    """Event `html-page-context`: slim the widget state of a page and turn its views into placeholders."""
    body = context.get("body", "")
    views = [json.loads(view)["model_id"] for view in _VIEW_SCRIPT.findall(body)]
    scripts = [script for script in context.get("script_files", []) if _is_state(script)]
    context["script_files"] = [script for script in context.get("script_files", []) if script not in scripts]
    if not views:
        return
    saved: dict[str, dict] = {}
    for script in scripts:
        saved |= json.loads(script.attributes["body"])["state"]
    state = reachable(saved, views)
    check_models(state, saved, views, pagename)
    write_assets(state, Path(app.outdir) / "_static" / FOLDER)
    # After the text: what comes before it in the page comes before it on the reader's screen.
    context["body"] = _VIEW_SCRIPT.sub(
        lambda view: placeholder(json.loads(view[1])["model_id"], state), body
    ) + state_script(state)


def write_assets(state: dict[str, dict], folder: Path) -> None:
    """Move what `store` takes out of each model into scripts in `folder`; one that is there stays."""
    folder.mkdir(parents=True, exist_ok=True)
    for model in state.values():
        for key, text in store(model).items():
            target = folder / f"{key}.js"
            if not target.exists():
                target.write_text(f'(globalThis.attnbookAssets??={{}})["{key}"]={text};', encoding="utf-8")


def state_script(state: dict[str, dict]) -> str:
    """The element in which the host finds the models' state."""
    return data_script(STATE, {"state": state})


def data_script(kind: str, value: Any) -> str:
    """A value as JSON in an element that runs nothing, whatever its texts hold."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    text = text.replace("</", "<\\/").replace("<!--", "<\\!--")
    return f'<script type="{kind}">{text}</script>'


def _is_state(script: Any) -> bool:
    return getattr(script, "attributes", {}).get("type") == STATE


def reachable(saved: dict[str, dict], views: list[str]) -> dict[str, dict]:
    """The models that the views of a page use, links between them included."""
    found: dict[str, dict] = {}
    waiting = list(views)
    while waiting:
        identifier = waiting.pop()
        if identifier in found or identifier not in saved:
            continue
        model = saved[identifier]
        found[identifier] = model
        if is_anywidget(model):  # its layout and style models belong to the classic front end
            own = {key: value for key, value in model["state"].items() if key != "layout"}
            waiting += _MODEL_REFERENCE.findall(json.dumps(own))
        else:
            waiting += _MODEL_REFERENCE.findall(json.dumps(model["state"]))
    for identifier, model in saved.items():
        if model.get("model_name") in _LINKS:
            ends = _MODEL_REFERENCE.findall(json.dumps(model["state"]))
            if all(end in found for end in ends):
                found[identifier] = model
    return found


def is_anywidget(model: dict) -> bool:
    return "_esm" in model.get("state", {})


def check_models(state: dict, saved: dict, views: list[str], pagename: str) -> None:
    """Every view must be an anywidget, and no saved `Output` may hide an error."""
    for view in views:
        if view not in state:
            raise BookError(f"{pagename}: expected the state of widget {view}, found none; was it closed?")
        if not is_anywidget(state[view]):
            raise BookError(
                f"{pagename}: expected an anywidget, found {state[view].get('model_name')}; "
                "the book runs without a kernel and only anywidgets can be drawn there"
            )
    for message in saved_errors(saved):
        raise BookError(f"{pagename}: a widget's output holds an error: {message}")


def saved_errors(saved: dict[str, dict]) -> Iterator[str]:
    """Errors that an `Output` or `interactive` widget caught: they stop neither the kernel nor the build."""
    for model in saved.values():
        outputs = model.get("state", {}).get("outputs", [])
        for output in outputs if isinstance(outputs, list | tuple) else []:
            if isinstance(output, dict) and output.get("output_type") == "error":
                yield f"{output.get('ename')}: {output.get('evalue')}"


def store(model: dict) -> dict[str, str]:
    """Replace module text, style and buffers of `model` by references; return their scripts' texts by key."""
    moved: dict[str, str] = {}

    def key_of(text: str) -> str:
        key = hashlib.sha256(text.encode()).hexdigest()[:16]
        moved[key] = json.dumps(text, ensure_ascii=False)
        return key

    if is_anywidget(model):
        kept = {
            k: v
            for k, v in model["state"].items()
            if not k.startswith("_") and k not in ("layout", "tabbable")
        }
        for name in ("_esm", "_css"):
            if model["state"].get(name):
                kept[name] = {"asset": key_of(model["state"][name])}
        model["state"] = kept
    for buffer in model.get("buffers", []):
        if len(buffer.get("data", "")) > _SMALL:
            data = buffer.pop("data")
            buffer["assets"] = [key_of(data[start : start + _PART]) for start in range(0, len(data), _PART)]
    return moved


def placeholder(identifier: str, state: dict[str, dict]) -> str:
    """The element that the host mounts into, with the text alternative for a page without scripts."""
    return (
        f'<div class="attnbook-widget" data-model="{html.escape(identifier)}" data-state="waiting">'
        f"{alternative(state[identifier]['state'].get('alternative') or {})}</div>"
    )


def alternative(texts: dict[str, str]) -> str:
    """What stands where a widget or a figure is not (yet): a text for each language."""
    words = "".join(
        f'<p class="attnbook-lang" lang="{language}">{html.escape(texts[language])}</p>'
        for language in LANGUAGES
        if texts.get(language)
    )
    return f'<div class="attnbook-alternative">{words}</div>'
