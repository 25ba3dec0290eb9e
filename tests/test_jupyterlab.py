"""Every widget live in a real JupyterLab: it mounts, and its traits go to Python and back.

One server, one page and one notebook for all of them. A widget is in a cell of its own; Python is asked
through the notebook's own kernel.
"""

import json
import os
import re
import signal
import struct
import subprocess
import sys
import time
import urllib.request
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import expect

from attnbook import widgets

pytestmark = pytest.mark.browser

SETUP = """
import torch
from torch import nn
import attnbook
from attnbook import LSTM, RNN, widgets
from attnbook.text.vocabulary import Vocabulary

attnbook.set_language("en")
torch.manual_seed(0)

class Reader(nn.Module):
    def __init__(self, recurrent, tokens, answers):
        super().__init__()
        self.embedding = nn.Embedding(tokens, 4)
        self.recurrent = recurrent
        self.output = nn.Linear(6, answers)

vocabulary = Vocabulary(["the", "weasel"])
"""

# What is passed to those that cannot do without.
ARGUMENTS = {
    "AttentionHeatmap": "torch.rand(2, 3, 4, 4).softmax(-1), list('abcd')",
    "GateExplorer": "Reader(LSTM(4, 6), 2, 1), ['', '('], ['in brackets'], 'a (b)'",
    "RecurrentStepper": "Reader(RNN(4, 6), len(vocabulary), len(vocabulary)), vocabulary, 'the weasel'",
}

# The control that is moved, by its role and English name, and the trait that follows it.
CONTROLS = {
    "ActivationExplorer": ("slider", "pre-activation z", "z"),
    "AlignmentExplorer": ("switch", "show gold alignment", "gold"),
    "AttentionCalculator": ("switch", "causal mask", "causal"),
    "AttentionHeatmap": ("combobox", "Layer", "layer"),
    "DataFlowExplorer": ("textbox", "Your Chinese sentence", "text"),
    "DecisionBoundary": ("slider", "units in each", "width"),
    "DecodingStepper": ("switch", "show later steps", "ahead"),
    "DepthExplorer": ("slider", "layers L", "depth"),
    "GateExplorer": ("combobox", "hold a gate", "hold"),
    "GradientFlow": ("radio", "ReLU", "activation"),
    "HeadGallery": ("radio", "Lines", "view"),
    "LiveTranslator": ("slider", "beam width", "width"),
    "MaskBuilder": ("switch", "causal: hide the future", "causal"),
    "ReceptiveField": ("slider", "kernel size k", "kernel"),
    "RecurrentStepper": ("slider", "temperature", "temperature"),
    "RotationExplorer": ("slider", "offset k", "offset"),
    "SoftmaxScaling": ("slider", "number of keys n", "num_keys"),
    "WordOrderMachine": ("textbox", "a sentence", "sentence"),
}

EXECUTE = """async code => {
  const kernel = jupyterapp.shell.currentWidget.sessionContext.session.kernel;
  const future = kernel.requestExecute({code, store_history: false});
  let said = "";
  future.onIOPub = ({header, content}) => {
    if (header.msg_type === "stream") said += content.text;
    if (header.msg_type === "error") said += `${content.ename}: ${content.evalue}`;
  };
  const {content} = await future.done;
  if (content.status !== "ok") throw new Error(said);
  return said;
}"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The address of a JupyterLab of its own, with the notebook `widgets.ipynb`."""
    folder = tmp_path_factory.mktemp("jupyterlab")
    cells = [nbformat.v4.new_code_cell(SETUP)]
    for name in widgets.__all__:
        made = f"{name} = widgets.{name}({ARGUMENTS.get(name, '')})"
        cells.append(nbformat.v4.new_code_cell(f"{made}\n{name}"))
    work, settings = folder / "work", folder / "settings" / "@jupyterlab" / "apputils-extension"
    work.mkdir()
    settings.mkdir(parents=True)  # JupyterLab would ask whether to look for news
    (settings / "notification.jupyterlab-settings").write_text('{"fetchNews": "false"}')
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})
    nbformat.write(notebook, work / "widgets.ipynb")
    environment = {**os.environ, "IPYTHONDIR": str(folder / "ipython"), "OMP_NUM_THREADS": "1"}
    environment["JUPYTERLAB_SETTINGS_DIR"] = str(folder / "settings")
    for name in ("CONFIG", "DATA", "RUNTIME"):
        environment[f"JUPYTER_{name}_DIR"] = str(folder / name.lower())
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ServerApp.port=0"]
    command += ["--LabApp.expose_app_in_browser=True"]
    command += ["--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            command, cwd=work, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        yield address(process, folder)
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(30)


def address(process: subprocess.Popen, folder: Path) -> str:
    """Waits until the server answers."""
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline and process.poll() is None:
        for file in (folder / "runtime").glob("jpserver-*.json"):
            try:
                about = json.loads(file.read_text())
                url = f"{about['url']}lab/tree/widgets.ipynb?token={about['token']}"
                with urllib.request.urlopen(url, timeout=30) as answer:
                    assert answer.status == 200
            except (OSError, ValueError):  # the file is there a little before the server listens
                continue
            return url
        time.sleep(0.1)
    pytest.fail(f"JupyterLab did not start:\n{(folder / 'log').read_text()}")


class Lab:
    """The open notebook."""

    def __init__(self, page):
        self.page = page
        self.errors: list[str] = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda line: self.errors.append(line.text) if line.type == "error" else None)

    def python(self, code: str) -> str:
        """What `code` prints in the notebook's kernel."""
        return self.page.evaluate(EXECUTE, code).strip()

    def wait(self, fact, what: str) -> None:
        """Until `fact()` holds: what the page tells the kernel is on its way for a moment."""
        deadline = time.monotonic() + 20
        while not fact():
            assert time.monotonic() < deadline, f"{what}; {self.errors}"
            self.page.wait_for_timeout(50)

    def cell(self, name: str):
        """The cell of one widget, scrolled into view."""
        cell = self.page.locator(".jp-Notebook .jp-Cell").nth(1 + widgets.__all__.index(name))
        cell.scroll_into_view_if_needed()
        return cell

    def widget(self, name: str):
        return self.cell(name).locator(".anb")


@pytest.fixture(scope="module")
def lab(server, chromium):
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    lab = Lab(context.new_page())
    lab.page.goto(server)
    lab.page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=60_000)
    ready = "jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'"
    lab.page.wait_for_function(ready, timeout=60_000)
    lab.page.evaluate("jupyterapp.commands.execute('notebook:run-all-cells')")
    yield lab
    context.close()


def state(control, role: str) -> str | bool:
    """What the control shows."""
    return control.is_checked() if role in ("switch", "radio") else control.input_value()


def move(control, role: str) -> None:
    """As a reader would: by the keyboard, a radio button by the mouse."""
    if role == "radio":
        control.check()
        return
    control.focus()
    if role == "slider":
        control.press("ArrowRight")
    elif role == "switch":
        control.press(" ")
    elif role == "combobox":
        control.press("ArrowDown")
    else:
        # Without care, JupyterLab would take these letters for commands: cut, delete and insert cells.
        control.press("Control+a")
        control.press_sequentially("add a box ")
        control.page.keyboard.insert_text("鼬")
        control.press("Enter")


@pytest.mark.parametrize("name", widgets.__all__)
def test_a_widget_mounts_and_its_traits_go_both_ways(lab, name):
    role, label, trait = CONTROLS[name]
    shown = lab.widget(name)
    expect(shown).to_be_visible(timeout=60_000)
    control = shown.get_by_role(role, name=label)
    cells = lab.page.locator(".jp-Notebook .jp-Cell").count()
    first = state(control, role)
    lab.python(f"before = {name}.{trait}")

    move(control, role)
    lab.wait(lambda: lab.python(f"print({name}.{trait} != before)") == "True", f"{trait} did not arrive")
    assert state(control, role) != first

    control.blur()  # as when the reader goes to run a cell
    lab.python(f"{name}.{trait} = before")
    lab.wait(lambda: state(control, role) == first, f"the control did not follow {trait}")

    assert lab.page.locator(".jp-Notebook .jp-Cell").count() == cells
    failed = lab.cell(name).locator("[data-mime-type*='error'], [data-mime-type*='stderr']")
    assert failed.all_inner_texts() == []
    assert lab.errors == []


@pytest.mark.parametrize("name", widgets.__all__)
def test_a_widget_saves_itself_as_svg_and_png(lab, name):
    shown = lab.widget(name)
    title = shown.locator(".anb-title").text_content()
    files = {}
    for kind in ("SVG", "PNG"):
        with lab.page.expect_download() as download:
            shown.get_by_role("button", name=f"Save figure as {kind}").click()
        assert download.value.suggested_filename.endswith(f"-en.{kind.lower()}")
        files[kind] = Path(download.value.path()).read_bytes()
    svg = ElementTree.fromstring(files["SVG"])
    texts = [node.text for node in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert svg.find("{http://www.w3.org/2000/svg}title").text == title == texts[0]
    assert "attnbook · CC BY 4.0" in texts
    # Nothing that another program would not find: only data inside the file, no variables or classes.
    foreign = re.findall(
        rb'href="(?!data:)|src=|url\(|@import|var\(|class=|currentColor|<script', files["SVG"]
    )
    assert foreign == []
    addresses = set(re.findall(rb'https?://[^"\s<]*', files["SVG"]))
    assert addresses <= {b"http://www.w3.org/2000/svg", b"http://www.w3.org/1999/xlink"}
    width, height = struct.unpack(">II", files["PNG"][16:24])
    assert (width, height) == (2 * int(svg.get("width")), 2 * int(svg.get("height")))
    assert lab.errors == []


def test_set_language_switches_every_widget(lab):
    han = re.compile(r"[\u4e00-\u9fff]")
    for name in widgets.__all__:
        lab.widget(name)
    for language, code in (("zh", "zh-CN"), ("en", "en")):
        lab.python(f"attnbook.set_language({language!r})")
        expect(lab.page.locator(f".anb[lang={code}]")).to_have_count(len(widgets.__all__))
        titles = lab.page.locator(".anb .anb-title").all_text_contents()
        assert [bool(han.search(title)) for title in titles] == [language == "zh"] * len(titles), titles
        for name in widgets.__all__:
            role, label, _ = CONTROLS[name]
            named = lab.widget(name).get_by_role(role, name=label)
            if not han.search(label) and label != "ReLU":
                assert named.count() == (language == "en"), name
    assert lab.errors == []


def test_widgets_follow_the_theme(lab):
    for theme, name in (("JupyterLab Dark", "dark"), ("JupyterLab Light", "light")):
        lab.page.evaluate("theme => jupyterapp.commands.execute('apputils:change-theme', {theme})", theme)
        expect(lab.page.locator(f".anb[data-anb-theme={name}]")).to_have_count(len(widgets.__all__))
    assert lab.errors == []
