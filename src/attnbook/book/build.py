"""Builds the site: every edition, notebooks, landing page. The old site stays until the new one is whole.

Whatever stops a build (an error, a full disk, Ctrl-C, a kill), the old site stays as it was, and the next
build removes what the stopped one left. Of two builds of one site the second waits for the first.
"""

import argparse
import errno
import io
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

import yaml
from jupyter_book.sphinx import build_sphinx
from sphinx_external_toc.parsing import MalformedError, parse_toc_yaml

from . import execution, landing, links, notebooks, pdf, publish, sharing, sitemap
from .about import about
from .errors import BookError
from .language import EDITIONS, LANGUAGES, pick
from .lock import alone
from .repository import Repository, repository_of

# Where processes can be forked, those of the editions share one import of this module, Sphinx and torch:
# most of the time that a small book takes.
if "forkserver" in multiprocessing.get_all_start_methods():
    PROCESSES = multiprocessing.get_context("forkserver")
    PROCESSES.set_forkserver_preload([__name__])
else:
    PROCESSES = multiprocessing.get_context("spawn")
    os.environ.setdefault("PYTHONUTF8", "1")  # for new interpreters, on Windows
OLD = "old"  # where the old site waits until the new one is in its place
FULL = [os.strerror(code) for code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)]


def build_edition(root: Path, language: str, output: Path, cache: Path) -> int:
    """Build one edition in this process; 0 if there was neither an error nor a warning."""
    os.environ["BOOK_LANG"] = language
    result = build_sphinx(
        root,
        output,
        noconfig=True,
        path_config=root / "_config.yml",
        confoverrides={
            "external_toc_path": (root / "_toc.yml").as_posix(),
            "attnbook_editions": list(EDITIONS),
            "attnbook_cache_folder": str(cache),
            "latex_individualpages": False,
        },
        quiet=True,
        freshenv=True,  # what a page shows also depends on code that Sphinx does not watch
        warningiserror=True,
        keep_going=True,
    )
    return int(result != 0) if isinstance(result, int) else 1


def run_editions(root: Path, folder: Path, cache: Path, editions: Iterable[str] = EDITIONS) -> None:
    """Build each edition into `folder/EDITION/html`, in a process of its own that ends when this one does.

    `BookError` with what they said if one fails.
    """
    running: dict[str, tuple[Connection, BaseProcess]] = {}
    failed = []
    try:
        for edition in editions:
            answer, end = PROCESSES.Pipe(duplex=False)
            given = (end, dict(os.environ), root, edition, folder / edition / "html", cache)
            process = PROCESSES.Process(target=_run_edition, args=given)
            process.start()
            end.close()
            running[edition] = answer, process
        for edition, (answer, process) in running.items():
            try:
                code, said = answer.recv()
            except EOFError:
                process.join()
                code, said = 1, f"Its process ended ({process.exitcode})."
            if code:
                failed.append(f"The {edition} edition was not built:\n{said}")
    finally:
        for _, process in running.values():
            process.kill()
            process.join()
    for reason in FULL:
        if any(reason in said for said in failed):  # once, not once for every file
            raise BookError(f"The site cannot be written: {reason}: {folder}")
    if failed:
        raise BookError("\n\n".join(failed))


def _run_edition(answer: Connection, environment: dict[str, str], *arguments) -> None:
    """What an edition's process does: `build_edition`, whose code and all that was said it sends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that waits
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ.update(environment)  # as it is now, not when the first edition began
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        try:
            code = build_edition(*arguments)
        except BaseException:
            traceback.print_exc()
            code = 1
    answer.send((code, said.getvalue().strip()))


def _end_with_parent() -> None:
    multiprocessing.parent_process().join()
    os._exit(1)


def chapters(root: Path) -> list[Path]:
    """The notebooks that `_toc.yml` lists, in its order."""
    found = []
    for docname in parse_toc_yaml(root / "_toc.yml"):
        path = root / (docname if docname.endswith(".ipynb") else f"{docname}.ipynb")
        if path.exists():
            found.append(path)
    return found


def build_site(root: Path, site: Path, say=print) -> None:
    """Build everything into `site`; an error (and `site` as it was) if anything is wrong.

    Raises BookError for a wrong source, OSError if something cannot be read or written.
    """
    ours = [site / name for name in ("index.html", *LANGUAGES)]
    if site.exists() and any(site.iterdir()) and not any(path.exists() for path in ours):
        raise BookError(f"{site}: expected an empty folder or an earlier site, found other files")
    config = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    execute = config.get("execute", {})
    start = time.perf_counter()
    folder = execution.cache_folder_of(root)
    execution.execute(chapters(root), root, folder, execute.get("timeout", 300), say=say)
    ran = time.perf_counter()

    with workplace(site, say) as work:
        new, scratch = work / "site", work / "editions"
        say(f"building {', '.join(EDITIONS)} ...")
        run_editions(root, scratch, folder)
        new.mkdir()
        for edition in EDITIONS:
            (scratch / edition / "html").rename(new / edition)
        sharing.share(new, EDITIONS)
        repository = configured_repository(config)
        landing.write_landing(new, root, config["title"], LANGUAGES, about(root, repository))
        if repository:
            docnames = [path.relative_to(root).with_suffix("").as_posix() for path in chapters(root)]
            sitemap.write_sitemap(new, repository.site, docnames, LANGUAGES)
        broken = links.broken_links(new, repository.base if repository else "/")
        if broken:
            raise BookError("broken links:\n" + "\n".join(broken))
        replace(site, new, work / OLD)
    say(f"Executed in {ran - start:.0f} s, built in {time.perf_counter() - ran:.0f} s.")
    say(f"Open {site / 'index.html'}")


def configured_repository(config: dict) -> Repository | None:
    """The repository that `_config.yml` (or GitHub's CI) names."""
    return repository_of(
        config.get("repository", {}).get("url", ""),
        _own(config).get("attnbook_notebooks_branch", "notebooks"),
    )


def _own(config: dict) -> dict:
    """What `_config.yml` sets of Sphinx and its extensions."""
    return config.get("sphinx", {}).get("config", {})


def build_pdfs(root: Path, site: Path, say=print) -> None:
    """Print the built site, one PDF for each language, into the folder `pdf` beside it."""
    config = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    toc = parse_toc_yaml(root / "_toc.yml")
    parts = [("", [toc.root.docname])]
    parts += [(subtree.caption or "", [str(item) for item in subtree.items]) for subtree in toc.root.subtrees]
    repository = configured_repository(config)
    books = {
        language: pdf.Book(
            title=pick(config["title"], language),
            author=pick(config["author"], language),
            address=f"{repository.site}{language}/" if repository else "",
            parts=[
                (pick(caption, language), [name.removesuffix(".ipynb") for name in docnames])
                for caption, docnames in parts
            ],
        )
        for language in LANGUAGES
    }
    pdf.build_pdfs(site, site.parent / "pdf", books, say)


def build_notebooks(
    root: Path, site: Path, package: str | None = None, solutions: bool = True, say=print
) -> None:
    """Write only the notebooks of each language; nothing is executed.

    `package` is what their first cell has pip install instead of the repository. Without `solutions` they go
    into a folder of their own, so that a teacher has both.
    """
    config = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    repository = configured_repository(config)
    docnames = [path.relative_to(root).with_suffix("").as_posix() for path in chapters(root)]
    bibfiles = [root / name for name in config.get("bibtex_bibfiles", [])]
    for language in LANGUAGES:
        folder = site / language / ("notebooks" if solutions else "notebooks-without-solutions")
        notebooks.write_notebooks(
            root,
            docnames,
            language,
            folder,
            repository,
            bibfiles,
            package,
            solutions and _own(config).get("attnbook_solutions", True),
        )
        say(f"Wrote {len(docnames)} notebooks to {folder}")


def publish_tree(root: Path, site: Path, say=print) -> None:
    """Make what is published from the built site, in the folder `publish` beside it."""
    config = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    target = site.parent / "publish"
    publish.build_tree(root, site, target, configured_repository(config))
    say(f"Wrote {target}")


@contextmanager
def workplace(site: Path, say: Callable[[str], None]) -> Iterator[Path]:
    """A folder beside `site` for one build, after what builds that were killed have left is tidied up."""
    prefix = f".building-{site.name}-"
    with alone(site, say):
        for left in site.parent.glob(f"{prefix}*"):
            if (left / OLD).exists() and not site.exists():  # killed between the two steps of `replace`
                (left / OLD).rename(site)
            shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(dir=site.parent, prefix=prefix, ignore_cleanup_errors=True) as work:
            yield Path(work)


def replace(site: Path, new: Path, old: Path) -> None:
    """Put `new` where `site` is, and that to `old`; if that fails, the old site is put back."""
    try:
        if site.exists():
            site.rename(old)
        new.rename(site)
    except BaseException:
        if old.exists() and not site.exists():
            old.rename(site)
        raise


def main(arguments: list[str] | None = None) -> int:
    """Command line; 0 on success, 1 with a message on an error."""
    parser = argparse.ArgumentParser(
        prog="python -m attnbook.book", description="Build the book in all its editions."
    )
    parser.add_argument(
        "--root", type=Path, default=Path.cwd(), help="folder with _config.yml (default: this one)"
    )
    parser.add_argument("--output", type=Path, help="where the site goes (default: ROOT/build/site)")
    parser.add_argument("--notebooks", action="store_true", help="write only the notebooks of each language")
    parser.add_argument("--without-solutions", action="store_true", help="with --notebooks: leave them out")
    parser.add_argument("--package", help="with --notebooks: what their first cell installs with pip")
    parser.add_argument("--publish", action="store_true", help="from the built site make what is published")
    parser.add_argument("--pdf", action="store_true", help="print the built site as PDF (needs Chromium)")
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
    if not options.notebooks and (options.without_solutions or options.package):
        parser.error("--without-solutions and --package go with --notebooks")
    try:
        if options.notebooks:
            build_notebooks(root, site, options.package, not options.without_solutions)
        elif options.publish:
            publish_tree(root, site)
        elif options.pdf:
            build_pdfs(root, site)
        else:
            build_site(root, site)
    except (BookError, OSError, yaml.YAMLError, MalformedError) as error:
        print(f"\n{error}\n\nNot built; {site} is as it was.", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"\nInterrupted; {site} is as it was.", file=sys.stderr)
        return 130
    return 0
