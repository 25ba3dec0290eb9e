"""Plotly figures in a page without a kernel: the figure's JSON, drawn when it comes into view."""

import base64
import html
import re
from typing import Any

import numpy as np
from docutils import nodes
from sphinx.application import Sphinx

from .widgets import alternative, data_script

MIME_TYPE = "application/vnd.plotly.v1+json"
SCRIPT = "plotly-figures.js"
CLASS = 'class="attnbook-figure"'


class PlotlyRenderer:
    """Entry point of `myst_nb.mime_renderers` for Plotly's JSON."""

    mime_priority_overrides = [("html", MIME_TYPE, 10)]

    @staticmethod
    def handle_mime(renderer: Any, data: Any, inline: bool) -> list[nodes.Node] | None:
        """The figure as a placeholder with its JSON; None (not ours) for other types and inline output."""
        if inline or data.mime_type != MIME_TYPE:
            return None
        renderer.add_js_file("attnbook_plotly", SCRIPT, {"defer": "defer"})
        return [nodes.raw("", figure_html(data.content), format="html", classes=["output", "plotly"])]


def figure_html(figure: dict) -> str:
    """The placeholder of a figure: what it shows in words, and its JSON, from which the script draws it."""
    layout = {key: value for key, value in figure.get("layout", {}).items() if key != "template"}
    height = layout.get("height", 400)
    title = _text(layout)
    label = f' aria-label="{html.escape(title)}"' if title else ""
    return (
        f'<div {CLASS} role="figure"{label} style="min-height:{int(height)}px">'
        f"{alternative(describe(figure))}"
        f"{data_script('application/json', {'data': figure['data'], 'layout': layout})}</div>"
    )


def describe(figure: dict) -> dict[str, str]:
    """What a figure shows, for a page without scripts and for those who do not see it.

    The axes, and of each curve both ends and the extremes; of a heatmap its size and its extremes.
    """
    layout = figure.get("layout", {})
    title, across, up = (_text(part) for part in (layout, layout.get("xaxis", {}), layout.get("yaxis", {})))
    zh, en = [f"图：{title}" if title else "图"], [f"Figure: {title}" if title else "Figure"]
    for name, text in ((("横轴", "horizontal"), across), (("纵轴", "vertical"), up)):
        if text:
            zh[0] += f"，{name[0]}“{text}”"
            en[0] += f", {name[1]} axis “{text}”"
    for trace in figure["data"]:
        name = _plain(trace.get("name") or trace.get("type", "scatter"))
        y, z = _numbers(trace.get("y")), _numbers(trace.get("z"))
        found = z if z.ndim == 2 else y
        if not np.isfinite(found).any():
            zh.append(name)
            en.append(name)
            continue
        low, high = f"{np.nanmin(found):.3g}", f"{np.nanmax(found):.3g}"
        if z.ndim == 2:
            zh.append(f"{name}：{z.shape[0]} 行 {z.shape[1]} 列，从 {low} 到 {high}")
            en.append(f"{name}: {z.shape[0]} rows, {z.shape[1]} columns, from {low} to {high}")
        else:
            first, last = _ends(trace.get("x"), y)
            zh.append(f"{name}：{y.size} 个点，从 {first} 到 {last}，最小 {low}，最大 {high}")
            en.append(f"{name}: {y.size} points, from {first} to {last}, smallest {low}, largest {high}")
    return {"zh": "；".join(zh) + "。", "en": "; ".join(en) + "."}


def _plain(text: Any) -> str:
    """Text without the tags that Plotly understands."""
    return re.sub(r"<[^<>]*>", "", str(text))


def _text(part: dict) -> str:
    title = part.get("title", "")
    return _plain(title.get("text", "") if isinstance(title, dict) else title)


def _numbers(values: Any) -> np.ndarray:
    """Numbers as Plotly's JSON has them, written out or packed as base64; none for anything else."""
    if isinstance(values, dict) and "bdata" in values:
        shape = [int(size) for size in str(values.get("shape", "-1")).split(",")]
        return np.frombuffer(base64.b64decode(values["bdata"]), values["dtype"]).reshape(shape).astype(float)
    try:
        return np.array([] if values is None else values, dtype=float)
    except (TypeError, ValueError):
        return np.array([])


def _ends(x: Any, y: np.ndarray) -> tuple[str, str]:
    """The first and the last point as `(x, y)`; x may be names, or missing."""
    places = [f"{place:.4g}" for place in _numbers(x)] or (x if isinstance(x, list) else [])
    if len(places) != y.size:
        places = range(y.size)
    return f"({places[0]}, {y[0]:.3g})", f"({places[-1]}, {y[-1]:.3g})"


def count_figures(app: Sphinx, pagename: str, templatename: str, context: dict, doctree: Any) -> None:
    """Event `html-page-context`: note whether any page has a figure, so that plotly.js is copied."""
    app.attnbook_figures = getattr(app, "attnbook_figures", 0) + context.get("body", "").count(CLASS)
