"""Runs readers' notebooks where only what Colab brings is installed; `make test-colab` calls it.

    python tests/colab.py SITE 'en/14-*' ...     # SITE/en/notebooks/14-*.ipynb; '*/*' means all

Before each notebook the package is removed; the notebook's own first cell has to install it, without touching
anything that was there: `pip freeze` is compared. An error, a line on stderr and an error inside a widget's
output are failures. Runs in an environment of its own, on Colab's versions, with nbclient and ipykernel.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

# What tells a notebook that it is in Colab, and what anywidget asks there to have widgets shown.
STARTUP = """
def pretend():
    import sys, types

    output = types.ModuleType("google.colab.output")
    output._widgets = types.SimpleNamespace(_installed_url=None)
    output.enable_custom_widget_manager = lambda: setattr(output._widgets, "_installed_url", "manager")
    sys.modules.update({"google.colab": types.ModuleType("google.colab"), "google.colab.output": output})

pretend()
del pretend
"""
STATE = "application/vnd.jupyter.widget-state+json"
VIEW = "application/vnd.jupyter.widget-view+json"
SECONDS = 300  # for one cell; a whole chapter takes at most 60 on a free core


def pip(*arguments: str) -> str:
    """What `pip` says; its failure ends the run."""
    return subprocess.run(
        [sys.executable, "-m", "pip", *arguments], check=True, capture_output=True, text=True
    ).stdout


def freeze() -> set[str]:
    """Every installed package with its version, but for ours."""
    return {line for line in pip("freeze", "--all").splitlines() if not line.startswith("attnbook")}


def run(path: Path, home: Path) -> list[str]:
    """What went wrong in one notebook."""
    notebook = nbformat.read(path, as_version=4)
    environment = {**os.environ, "IPYTHONDIR": str(home), "PYTHONNOUSERSITE": "1", "OMP_NUM_THREADS": "1"}
    environment.pop("PYTHONPATH", None)
    client = NotebookClient(
        notebook,
        timeout=SECONDS,
        resources={"metadata": {"path": str(home)}},
        store_widget_state=True,
        extra_arguments=["--log-level=ERROR"],  # of the kernel itself; what a cell says is kept
    )
    try:
        client.execute(env=environment)
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        return [str(error)]
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    said = [output.text.strip() for output in outputs if output.get("name") == "stderr"]
    widgets = notebook.metadata.get("widgets", {}).get(STATE, {}).get("state", {})
    inside = [
        f"{output['ename']}: {output['evalue']}"
        for widget in widgets.values()
        for output in widget["state"].get("outputs", [])
        if output["output_type"] == "error"
    ]
    return said + inside + [text for output in outputs for text in not_shown(output, widgets)]


def not_shown(output: dict, widgets: dict) -> list[str]:
    """Why Colab would not show one of our widgets: it prefers HTML, and needs the manager's address."""
    data = output.get("data", {})
    if VIEW not in data or "_esm" not in widgets[data[VIEW]["model_id"]]["state"]:
        return []
    wrong = [f"a widget brings {kind}" for kind in data if kind == "text/html"]
    if output["metadata"].get(VIEW, {}).get("colab", {}).get("custom_widget_manager", {}).get("url") is None:
        wrong.append("a widget does not ask for the manager of custom widgets")
    return wrong


def main() -> int:
    """Command line; 0 if every notebook ran."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("site", type=Path, metavar="SITE")
    parser.add_argument("patterns", nargs="+", metavar="LANGUAGE/NAME")
    options = parser.parse_args()
    chosen: set[Path] = set()
    for pattern in options.patterns:
        language, _, name = pattern.partition("/")
        found = set(options.site.glob(f"{language}/notebooks/{name}.ipynb"))
        if not found:
            parser.error(f"{pattern}: expected notebooks in {options.site}, found none")
        chosen |= found
    failed = 0
    before = freeze()
    for path in sorted(chosen):
        name = path.relative_to(options.site)
        pip("uninstall", "--quiet", "--yes", "attnbook")
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as home:
            startup = Path(home, "profile_default", "startup")
            startup.mkdir(parents=True)
            (startup / "00-colab.py").write_text(STARTUP)
            wrong = run(path, Path(home))
        if not any(line.startswith("attnbook==") for line in pip("list", "--format=freeze").splitlines()):
            wrong.append("the first cell did not install the package")
        changed = before ^ freeze()
        if changed:
            wrong.append(f"the first cell changed what was installed: {', '.join(sorted(changed))}")
            before = freeze()
        print(f"{'FAILED' if wrong else 'passed'}  {name}  {time.perf_counter() - start:.0f} s", flush=True)
        for message in wrong:
            print(message, file=sys.stderr, flush=True)
        failed += bool(wrong)
    print(f"{len(chosen) - failed} passed, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
