"""What all editions have in common is in the site once: who changes the language loads nothing again.

Each edition is built whole. Then the files that are the same in all of them (and those whose name is the hash
of what they hold) move from `<language>/_static/` to `_static/`, and the pages name them there.
"""

import hashlib
import re
from pathlib import Path

from . import styles, widgets

_ADDRESS = re.compile(r'((?:src|href)=")((?:\.\./)*)_static/([^"?#]+)(\?[^"#]*)?')


def share(site: Path, languages: tuple[str, ...]) -> None:
    """Slim the style sheets and move common files; `site` holds one folder a language."""
    pages = {language: sorted((site / language).rglob("*.html")) for language in languages}
    common, folders = site / "_static", [site / language / "_static" for language in languages]
    names = styles.names_in_use(
        [page for found in pages.values() for page in found],
        [script for folder in folders for script in folder.rglob("*.js") if "mathjax" not in script.parts],
    )
    versions = {}
    for sheet in styles.SHEETS:
        text = styles.used_rules((folders[0] / sheet).read_text(encoding="utf-8"), names)
        for folder in folders:
            (folder / sheet).write_text(text, encoding="utf-8")
        versions[sheet] = f"?v={hashlib.sha256(text.encode()).hexdigest()[:8]}"
    moved = set()
    for folder in folders:
        for path in [path for path in folder.rglob("*") if path.is_file()]:
            name = path.relative_to(folder).as_posix()
            if name.startswith(f"{widgets.FOLDER}/") or _same(name, folders):
                (common / name).parent.mkdir(parents=True, exist_ok=True)
                moved.add(name)
    for name in moved:
        for folder in folders:
            if (folder / name).exists():
                (folder / name).replace(common / name)
    for folder in folders:
        _remove_empty(folder)

    def address(match: re.Match) -> str:
        start, up, name, version = match.groups()
        up = f"../{up}" if name in moved else up
        return f"{start}{up}_static/{name}{versions.get(name, version or '')}"

    for page in (page for found in pages.values() for page in found):
        page.write_text(_ADDRESS.sub(address, page.read_text(encoding="utf-8")), encoding="utf-8")


def _same(name: str, folders: list[Path]) -> bool:
    paths = [folder / name for folder in folders]
    return all(path.is_file() for path in paths) and len({path.read_bytes() for path in paths}) == 1


def _remove_empty(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()
