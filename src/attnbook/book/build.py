"""Builds the site: both languages, notebooks, landing page. The old site stays until the new one is whole."""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import yaml
from jupyter_book.sphinx import build_sphinx
from sphinx_external_toc.parsing import MalformedError, parse_toc_yaml

from . import execution, landing, links, notebooks, sharing
from .errors import BookError
from .language import LANGUAGES, pick
from .repository import repository_of


def build_edition(root: Path, language: str, output: Path, cache: Path) -> int:
    """Build one language in this process; 0 if there was neither an error nor a warning."""
    os.environ["BOOK_LANG"] = language
    result = build_sphinx(
        root,
        output,
        noconfig=True,
        path_config=root / "_config.yml",
        confoverrides={
            "external_toc_path": (root / "_toc.yml").as_posix(),
            "attnbook_editions": list(LANGUAGES),
            "attnbook_cache_folder": str(cache),
            "latex_individualpages": False,
        },
        quiet=True,
        freshenv=True,  # what a page shows also depends on code that Sphinx does not watch
        warningiserror=True,
        keep_going=True,
    )
    return int(result != 0) if isinstance(result, int) else 1


def run_edition(root: Path, language: str, folder: Path, cache: Path) -> tuple[str, int, str]:
    """Build one language below `folder` in a process of its own; language, exit status, what it said."""
    command = [sys.executable, "-m", "attnbook.book", "--root", root, "--edition", language]
    command += ["--output", folder / language / "html", "--cache", cache]
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, encoding="utf-8")
    return language, result.returncode, (result.stdout + result.stderr).strip()


def chapters(root: Path) -> list[Path]:
    """The notebooks that `_toc.yml` lists, in its order."""
    found = []
    for docname in parse_toc_yaml(root / "_toc.yml"):
        path = root / (docname if docname.endswith(".ipynb") else f"{docname}.ipynb")
        if path.exists():
            found.append(path)
    return found


def build_site(root: Path, site: Path, say=print) -> None:
    """Build everything into `site`; `BookError` (and `site` as it was) if anything is wrong."""
    config = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    execute = config.get("execute", {})
    start = time.perf_counter()
    folder = execution.cache_folder(root / execute.get("cache", "build/.jupyter_cache"))
    execution.execute(chapters(root), root, folder, execute.get("timeout", 300), say=say)
    ran = time.perf_counter()

    site.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=site.parent, prefix=".building-") as temporary:
        new, scratch = Path(temporary, "site"), Path(temporary, "editions")
        say(f"building {' and '.join(LANGUAGES)} ...")
        with ThreadPoolExecutor(len(LANGUAGES)) as pool:
            results = list(pool.map(lambda language: run_edition(root, language, scratch, folder), LANGUAGES))
        failed = [
            f"The {language} edition was not built:\n{said}" for language, code, said in results if code
        ]
        if failed:
            raise BookError("\n\n".join(failed))
        new.mkdir()
        for language in LANGUAGES:
            (scratch / language / "html").rename(new / language)
        sharing.share(new, LANGUAGES)
        first = str(parse_toc_yaml(root / "_toc.yml").root.docname).removesuffix(".ipynb")
        landing.write_landing(
            new,
            titles={language: pick(config["title"], language) for language in LANGUAGES},
            first_pages={language: f"{language}/{first}.html" for language in LANGUAGES},
        )
        broken = links.broken_links(new)
        if broken:
            raise BookError("broken links:\n" + "\n".join(broken))
        replace(site, new, Path(temporary, "old"))
    say(f"Executed in {ran - start:.0f} s, built in {time.perf_counter() - ran:.0f} s.")
    say(f"Open {site / 'index.html'}")


def build_notebooks(root: Path, site: Path, say=print) -> None:
    """Write only the notebooks of each language; nothing is executed."""
    config = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    own = config.get("sphinx", {}).get("config", {})
    repository = repository_of(
        config.get("repository", {}).get("url", ""), own.get("attnbook_notebooks_branch", "notebooks")
    )
    docnames = [path.relative_to(root).with_suffix("").as_posix() for path in chapters(root)]
    bibfiles = [root / name for name in config.get("bibtex_bibfiles", [])]
    for language in LANGUAGES:
        folder = site / language / "notebooks"
        notebooks.write_notebooks(root, docnames, language, folder, repository, bibfiles)
        say(f"Wrote {len(docnames)} notebooks to {folder}")


def replace(site: Path, new: Path, old: Path) -> None:
    """Put `new` where `site` is; if that fails the old site is put back."""
    if site.exists():
        site.rename(old)
    try:
        new.rename(site)
    except OSError:
        if old.exists():
            old.rename(site)
        raise


def main(arguments: list[str] | None = None) -> int:
    """Command line; 0 on success, 1 with a message on an error."""
    parser = argparse.ArgumentParser(
        prog="python -m attnbook.book", description="Build the book in both languages."
    )
    parser.add_argument(
        "--root", type=Path, default=Path.cwd(), help="folder with _config.yml (default: this one)"
    )
    parser.add_argument("--output", type=Path, help="where the site goes (default: ROOT/build/site)")
    parser.add_argument("--notebooks", action="store_true", help="write only the notebooks of each language")
    parser.add_argument("--edition", choices=LANGUAGES, help=argparse.SUPPRESS)
    parser.add_argument("--cache", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    root = options.root.resolve()
    for name in ("_config.yml", "_toc.yml"):
        if not (root / name).is_file():
            print(
                f"{root / name}: expected this file; run in the project's folder or name it by --root",
                file=sys.stderr,
            )
            return 1
    site = (options.output or root / "build" / "site").resolve()
    if options.edition:
        return build_edition(root, options.edition, site, options.cache.resolve())
    try:
        (build_notebooks if options.notebooks else build_site)(root, site)
    except (BookError, yaml.YAMLError, MalformedError) as error:
        print(f"\n{error}\n\nNot built; {site} is as it was.", file=sys.stderr)
        return 1
    return 0
