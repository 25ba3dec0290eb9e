"""Style sheet, scripts and third-party libraries of the pages, all from the site itself."""

import importlib.util
import shutil
from pathlib import Path

from sphinx.application import Sphinx

MATHJAX = "mathjax/tex-chtml.js"
# What tex-chtml.js may load afterwards: fonts, and the extensions behind rarer TeX commands.
MATHJAX_FOLDERS = ("output/chtml/fonts", "input/tex/extensions")


def add_page_assets(app: Sphinx) -> None:
    """The style sheet and script of every page."""
    app.add_css_file("attnbook.css", priority=900)
    app.add_js_file("attnbook.js")


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
UNUSED = ("**/*.map", "vendor/fontawesome/webfonts/*.ttf", "*webpack-macros.html", "locales", "images/logo_*")


def copy_libraries(app: Sphinx, error: Exception | None) -> None:
    """Event `build-finished`: copy MathJax (trimmed), and plotly.js if needed; drop what no page uses."""
    if error is not None or app.builder.format != "html":
        return
    static = Path(app.outdir) / "_static"
    source, target = mathjax_folder(), static / "mathjax"
    for folder in MATHJAX_FOLDERS:
        shutil.copytree(source / folder, target / folder, dirs_exist_ok=True)
    shutil.copy2(source / "tex-chtml.js", static / MATHJAX)
    if getattr(app, "attnbook_figures", 0):
        shutil.copy2(plotly_script(), static / "plotly.min.js")
    for pattern in UNUSED:
        for path in list(static.glob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
