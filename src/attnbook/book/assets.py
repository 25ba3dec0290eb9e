"""Style sheet, scripts and third-party libraries of the pages, all from the site itself."""

import importlib.util
import json
import re
import shutil
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.config import Config

from . import plotly

MATHJAX = "mathjax"  # below _static
FORMULAS = "formulas.js"
# What `formulas.js` names, and what those may load: fonts, and the extensions behind rarer TeX commands. The
# combined file would bring a menu that the book does not show, which is a third of it.
MATHJAX_PARTS = (
    "startup.js",
    "core.js",
    "input/tex.js",
    "input/tex/extensions",
    "output/chtml.js",
    "output/chtml/fonts",
    "a11y/assistive-mml.js",
)


def add_page_assets(app: Sphinx) -> None:
    """The style sheet and script of every page."""
    app.add_css_file("attnbook.css", priority=900)
    app.add_css_file("print.css", media="print", priority=990)
    app.add_js_file("attnbook.js")


def add_save_script(app: Sphinx, pagename: str, templatename: str, context: dict, doctree: Any) -> None:
    """Event `html-page-context`: the script that saves diagrams and charts, on pages that have some."""
    body = context.get("body", "")
    if 'class="attnbook-diagram"' in body or plotly.CLASS in body:
        app.add_js_file("save-figures.js", loading_method="defer")


def configure(app: Sphinx, config: Config) -> None:
    """MathJax is loaded by a script of ours, so Sphinx adds that one to the pages that have formulas.

    The parallel edition has a style sheet and a script of its own.
    """
    config.mathjax_path = FORMULAS
    if config.attnbook_language == "both":
        app.add_css_file("parallel.css", priority=901)
        app.add_js_file("parallel.js")


def postpone_scripts(app: Sphinx, pagename: str, templatename: str, context: dict, doctree: Any) -> None:
    """Event `html-page-context`: no script holds up the text of a page; MathJax's settings become data."""
    options = json.dumps(app.config.mathjax3_config or {})
    kept = []
    for script in context.get("script_files", []):
        # MathJax's settings, and what the theme notes for functions that this book does not use.
        if script.attributes.get("body", "").startswith(("window.MathJax", "DOCUMENTATION_OPTIONS.")):
            continue
        more = {}
        if script.filename and pagename != "search":  # whose scripts build on one another as the page is read
            more["defer"] = "defer"
        if Path(script.filename or "").name == FORMULAS:
            more["data-config"] = options
        kept.append(type(script)(script.filename, priority=script.priority, **script.attributes | more))
    context["script_files"] = kept


def write_translations(static: Path) -> None:
    """Sphinx's words for the search page, without the function that it would make of a text."""
    path = static / "translations.js"
    if not path.exists():
        return
    catalogue = json.loads(re.search(r"\{.*\}", path.read_text(encoding="utf-8"), re.S)[0])
    words = json.dumps(catalogue["messages"], ensure_ascii=False)
    path.write_text(
        f"Object.assign(Documentation.TRANSLATIONS, {words});\n"
        f"Documentation.PLURAL_EXPR = n => +({catalogue['plural_expr']});\n"
        f"Documentation.LOCALE = {json.dumps(catalogue['locale'])};\n",
        encoding="utf-8",
    )


def mathjax_folder() -> Path:
    """Where the `sphinx-mathjax-offline` wheel keeps MathJax (its package name is no identifier)."""
    spec = importlib.util.find_spec("sphinx-mathjax-offline")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("the book needs MathJax from the package sphinx-mathjax-offline")
    return Path(spec.origin).parent / "static" / "mathjax"


def plotly_script() -> Path:
    """`plotly.min.js` of the plotly wheel."""
    spec = importlib.util.find_spec("plotly")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("the book's figures need the package plotly")
    return Path(spec.origin).parent / "package_data" / "plotly.min.js"


# What the themes copy along and no page asks for: source maps, old fonts, their own templates and catalogues.
UNUSED = (
    "**/*.map",
    "**/*.LICENSE.txt",
    "vendor",
    "scripts/fontawesome.js",
    "*webpack-macros.html",
    "locales",
    "images/logo_*",
)


def copy_libraries(app: Sphinx, error: Exception | None) -> None:
    """Event `build-finished`: copy MathJax (trimmed), and plotly.js if needed; drop what no page uses."""
    if error is not None or app.builder.format != "html":
        return
    static = Path(app.outdir) / "_static"
    for part in MATHJAX_PARTS:
        source, target = mathjax_folder() / part, static / MATHJAX / part
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if source.is_dir() else shutil.copy2)(source, target)
    if getattr(app, "attnbook_figures", 0):
        shutil.copy2(plotly_script(), static / "plotly.min.js")
    write_translations(static)
    for pattern in UNUSED:
        for path in list(static.glob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
