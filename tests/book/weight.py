"""What a network carries to a reader, in bytes after gzip: `python tests/book/weight.py SITE` lists pages."""

import gzip
import json
import re
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_SHEET = re.compile(r'<link\b[^>]*\brel="(?:stylesheet|preload)"[^>]*>')
_SCRIPT = re.compile(r'<script\b[^>]*\bsrc="[^"]+"[^>]*>')
_ADDRESS = re.compile(r'\b(?:src|href)="([^"?#]+)')
_STATE = re.compile(r'<script type="application/vnd\.jupyter\.widget-state\+json">(.*?)</script>', re.S)
_MODELS = ("checkpoint", "weights")  # the traits in which widgets keep trained models
MATHJAX = (
    "startup.js",
    "core.js",
    "input/tex.js",
    "output/chtml.js",
    "output/chtml/fonts/tex.js",
    "a11y/assistive-mml.js",
)


# Budgets in thousands of bytes after gzip, except "page" and "site"; the READMEs show them.
BUDGETS = {
    "page": 360,  # HTML of a page, as it is
    "first paint": 110,  # page, style sheets, scripts that hold up the text
    "complete": 330,  # also what comes by itself afterwards: other scripts, MathJax without its fonts
    "landing": 20,  # the first page, complete
    "widget": 75,  # the module of a widget and its own data
    "site": 80_000,  # everything on disk
}
LANGUAGE_RATIO = 0.25  # what one language adds to the site, at most, as a part of the whole


@cache
def zipped(path: Path) -> int:
    """Bytes of a file after gzip, as a web server sends it; fonts and pictures are sent as they are."""
    data = path.read_bytes()
    return len(gzip.compress(data, 6)) if path.suffix in (".html", ".css", ".js", ".svg") else len(data)


@dataclass
class Weight:
    """Of a page: what the first paint waits for, what comes by itself after it, what waits for the reader."""

    html: int  # the page itself
    blocking: int  # style sheets, and scripts that hold up the text
    deferred: int  # scripts that come after the text
    formulas: int  # MathJax without its fonts, 0 on a page without formulas
    widgets: dict[str, int]  # module and data of each widget, when it comes near the window
    models: int  # trained models that its widgets run

    @property
    def first_paint(self) -> int:
        return self.html + self.blocking

    @property
    def complete(self) -> int:
        """Everything that comes without the reader doing anything."""
        return self.first_paint + self.deferred + self.formulas


def weigh(page: Path) -> Weight:
    """The weight of a built page."""
    text = page.read_text(encoding="utf-8")

    def files(tags: list[str]) -> list[Path]:
        found = (page.parent / _ADDRESS.search(tag)[1] for tag in tags)
        return list(dict.fromkeys(path.resolve() for path in found))

    scripts = _SCRIPT.findall(text)
    deferred = [tag for tag in scripts if "defer" in tag or "async" in tag]
    blocking = files(_SHEET.findall(text)) + files([tag for tag in scripts if tag not in deferred])
    formulas = [path for path in files(deferred) if path.name == "formulas.js"]
    mathjax = [formulas[0].parent / "mathjax" / name for name in MATHJAX] if formulas else []
    widgets, models = _widgets(page, text)
    return Weight(
        html=zipped(page),
        blocking=sum(map(zipped, blocking)),
        deferred=sum(map(zipped, files(deferred))),
        formulas=sum(map(zipped, mathjax)),
        widgets=widgets,
        models=models,
    )


def _widgets(page: Path, text: str) -> tuple[dict[str, int], int]:
    """Bytes of each widget without trained models, by its identifier, and of all models."""
    host = re.search(r'src="([^"?]*)widget-host\.js', text)
    if not host:
        return {}, 0
    folder = (page.parent / host[1] / "widgets").resolve()
    sizes: dict[str, int] = {}
    models: set[str] = set()
    for state in _STATE.findall(text):
        for identifier, model in json.loads(state)["state"].items():
            if "_esm" not in model["state"]:
                continue
            own = {model["state"]["_esm"]["asset"]}
            for buffer in model.get("buffers", []):
                (models if buffer["path"][0] in _MODELS else own).update(buffer.get("assets", []))
            sizes[identifier] = sum(zipped(folder / f"{key}.js") for key in own)
    return sizes, sum(zipped(folder / f"{key}.js") for key in models)


def main(site: Path) -> None:
    for page in sorted(site.glob("*/chapters/*.html")):
        weight = weigh(page)
        widest = max(weight.widgets.values(), default=0)
        print(
            f"{page.relative_to(site).as_posix():55} raw {page.stat().st_size:7,} html {weight.html:6,} "
            f"first paint {weight.first_paint:7,} complete {weight.complete:7,} "
            f"widgets {len(weight.widgets)} (largest {widest:7,}) models {weight.models:10,}"
        )
    print(f"site {sum(path.stat().st_size for path in site.rglob('*') if path.is_file()):,}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
