"""Plotly figures in a page without a kernel: the figure's JSON, drawn when it comes into view."""

import html
import json
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

MIME_TYPE = "application/vnd.plotly.v1+json"
SCRIPT = "plotly-figures.js"
_CLASS = 'class="attnbook-figure"'


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
    """The placeholder of a figure; the script draws into it, so its height is reserved."""
    layout = {key: value for key, value in figure.get("layout", {}).items() if key != "template"}
    height = layout.get("height", 400)
    title = layout.get("title", {})
    title = title.get("text", "") if isinstance(title, dict) else str(title)
    body = json.dumps({"data": figure["data"], "layout": layout}, ensure_ascii=False, separators=(",", ":"))
    body = body.replace("</", "<\\/").replace("<!--", "<\\!--")
    label = f' aria-label="{html.escape(title)}"' if title else ""
    return (
        f'<div {_CLASS} role="figure"{label} style="min-height:{int(height)}px">'
        f'<script type="application/json">{body}</script></div>'
    )


def count_figures(app: Sphinx, pagename: str, templatename: str, context: dict, doctree: Any) -> None:
    """Event `html-page-context`: note whether any page has a figure, so that plotly.js is copied."""
    app.attnbook_figures = getattr(app, "attnbook_figures", 0) + context.get("body", "").count(_CLASS)
