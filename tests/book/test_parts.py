"""The smaller parts of the book: repository, citations, links, widgets' state, figures, execution, build."""

import base64
import json
import re
import subprocess
import sys
import textwrap
import time
import types
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import nbformat
import numpy as np
import pytest

from attnbook.book import execution, links, plotly, styles, widgets
from attnbook.book.build import main, replace
from attnbook.book.citations import authors, cite, load_references, reference_list
from attnbook.book.errors import BookError
from attnbook.book.pages import launches
from attnbook.book.repository import Repository, find_repository
from attnbook.book.sharing import share

ROOT = Path(__file__).parents[2]


def config(url=""):
    return types.SimpleNamespace(
        html_theme_options={"repository_url": url}, attnbook_notebooks_branch="notebooks"
    )


class TestRepository:
    def test_ci_goes_before_the_configuration(self, monkeypatch):
        monkeypatch.setenv("GITHUB_REPOSITORY", "fork/course")
        assert find_repository(config("https://github.com/a/b")).url == "https://github.com/fork/course"

    def test_configuration(self, monkeypatch):
        monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
        assert find_repository(config("https://github.com/a/b.git/")) == Repository("a", "b")
        assert find_repository(config()) is None

    def test_another_host(self, monkeypatch):
        monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
        with pytest.raises(BookError, match="repository.url: expected https://github.com/OWNER/NAME, found"):
            find_repository(config("https://example.org/a/b"))

    def test_addresses(self):
        repository = Repository("Some", "course")
        assert repository.page("zh", "chapters/x") == "https://some.github.io/course/zh/chapters/x.html"
        assert repository.colab("en", "x.ipynb") == (
            "https://colab.research.google.com/github/Some/course/blob/notebooks/en/x.ipynb"
        )
        assert Repository("Some", "some.github.io").site == "https://some.github.io/"

    def test_hubs_pull_the_notebooks_of_the_language(self):
        """As nbgitpuller's own link generator writes them."""
        repository = Repository("Some", "course")
        pull = (
            "git-pull?repo=https%3A%2F%2Fgithub.com%2FSome%2Fcourse&branch=notebooks"
            "&urlpath=lab%2Ftree%2Fcourse%2Fen%2Fx.ipynb"
        )
        assert repository.jupyterhub("https://hub.example.edu/", "en", "x.ipynb") == (
            f"https://hub.example.edu/hub/user-redirect/{pull}"
        )
        address = urlsplit(repository.binder("https://mybinder.org", "en", "x.ipynb"))
        assert (address.netloc, address.path) == ("mybinder.org", "/v2/gh/Some/course/HEAD")
        assert parse_qs(address.query) == {"urlpath": [pull]}

    def test_only_hubs_that_are_configured_are_offered(self):
        repository = Repository("Some", "course")

        def offered(**hubs):
            return [label for label, _ in launches(repository, hubs, "zh", "x.ipynb")]

        assert offered() == ["Open in Colab"]
        assert offered(binderhub_url="https://b", jupyterhub_url="") == ["Open in Colab", "Open in Binder"]
        assert offered(jupyterhub_url="https://h") == ["Open in Colab", "Open in JupyterHub"]


class TestCitations:
    entries = load_references(ROOT / "references.bib")

    def test_every_work_of_the_syllabus_is_there(self):
        expected = (
            "vaswani2017 bahdanau2015 luong2015 he2016 hochreiter1997 cho2014 sutskever2014 pascanu2013"
        )
        assert set(f"{expected} ba2016 xiong2020 su2024 chung2014".split()) <= set(self.entries)

    def test_authors(self):
        assert authors(self.entries["elman1990"], "en") == "Elman"
        assert authors(self.entries["hochreiter1997"], "zh") == "Hochreiter 与 Schmidhuber"
        assert authors(self.entries["vaswani2017"], "en") == "Vaswani et al."

    def test_several_at_once(self):
        works = [self.entries["elman1990"], self.entries["ba2016"]]
        assert re.sub(r"\(http[^)]*\)", "", cite(works, "cite:p", "zh")) == "（[Elman，1990]；[Ba 等，2016]）"
        assert (
            re.sub(r"\(http[^)]*\)", "", cite(works, "cite:t", "en")) == "[Elman (1990)]; [Ba et al. (2016)]"
        )

    def test_reference_list_is_sorted(self):
        lines = reference_list({key: self.entries[key] for key in ("vaswani2017", "ba2016")}).split("\n")
        assert [line[:12] for line in lines] == ["- Jimmy Lei ", "- Ashish Vas"]


class TestLinks:
    def write(self, folder, **pages):
        for name, body in pages.items():
            (folder / f"{name}.html").write_text(f"<html><body>{body}</body></html>", encoding="utf-8")
        return links.broken_links(folder)

    def test_good_links(self, tmp_path):
        body = (
            '<a href="b.html#x">b</a><a href="#y">y</a><p id="y"><a href="https://example.org/none">away</a>'
        )
        assert self.write(tmp_path, a=body, b='<p id="x">') == []

    @pytest.mark.parametrize(
        ("body", "message"),
        [
            ('<a href="none.html">', "a.html: none.html leads to no file"),
            ('<a href="b.html#none">', "a.html: b.html#none leads to no such place in b.html"),
            ('<a href="#none">', "a.html: #none leads to no such place in a.html"),
            ('<img src="none.png">', "a.html: none.png leads to no file"),
            ('<script src="none.js"></script>', "a.html: none.js leads to no file"),
        ],
    )
    def test_broken_links(self, tmp_path, body, message):
        assert self.write(tmp_path, a=body, b="") == [message]


def anywidget(**state):
    return {
        "model_name": "AnyModel",
        "state": {"_esm": "export default {}", "layout": "IPY_MODEL_" + "a" * 32, **state},
    }


class TestWidgets:
    def test_layout_models_are_left_out_and_links_stay(self):
        one, two, layout, link, other = ("1" * 32, "2" * 32, "a" * 32, "c" * 32, "d" * 32)
        ends = {"source": [f"IPY_MODEL_{one}", "x"], "target": [f"IPY_MODEL_{two}", "x"]}
        saved = {
            one: anywidget(),
            two: anywidget(),
            layout: {"model_name": "LayoutModel", "state": {}},
            link: {"model_name": "LinkModel", "state": ends},
            other: anywidget(),
        }
        assert set(widgets.reachable(saved, [one, two])) == {one, two, link}
        assert set(widgets.reachable(saved, [one])) == {one}

    def test_module_and_big_buffers_become_references(self):
        model = anywidget(count=3, _model_name="AnyModel")
        model["buffers"] = [
            {"path": ["big"], "encoding": "base64", "data": "A" * 100},
            {"path": ["small"], "encoding": "base64", "data": "AAAA"},
        ]
        scripts = widgets.store(model)
        assert set(model["state"]) == {"count", "_esm"}
        assert json.loads(scripts[model["state"]["_esm"]["asset"]]) == "export default {}"
        big, small = model["buffers"]
        (key,) = big["assets"]
        assert json.loads(scripts[key]) == "A" * 100
        assert "data" not in big
        assert small["data"] == "AAAA"

    def test_many_megabytes_become_several_scripts(self):
        data = base64.b64encode(np.random.default_rng(0).bytes(2_000_000)).decode()
        model = anywidget()
        model["buffers"] = [{"path": ["big"], "encoding": "base64", "data": data}]
        scripts = widgets.store(model)
        parts = [json.loads(scripts[key]) for key in model["buffers"][0]["assets"]]
        assert [len(part) for part in parts] == [2**20, 2**20, len(data) - 2**21]
        assert b"".join(map(base64.b64decode, parts)) == base64.b64decode(data)

    def test_equal_texts_share_a_script(self):
        assert widgets.store(anywidget(count=1)).keys() == widgets.store(anywidget(count=2)).keys()

    @pytest.mark.parametrize(
        ("saved", "message"),
        [
            ({}, "expected the state of widget 1, found none"),
            (
                {"1": {"model_name": "IntSliderModel", "state": {}}},
                "expected an anywidget, found IntSliderModel",
            ),
        ],
    )
    def test_what_the_book_cannot_draw(self, saved, message):
        with pytest.raises(BookError, match=f"chapters/x: {message}"):
            widgets.check_models(saved, saved, ["1"], "chapters/x")

    def test_an_error_inside_an_output_widget_is_found(self):
        error = {"output_type": "error", "ename": "ValueError", "evalue": "no"}
        saved = {"1": anywidget(), "2": {"model_name": "OutputModel", "state": {"outputs": [error]}}}
        with pytest.raises(BookError, match="chapters/x: a widget's output holds an error: ValueError: no"):
            widgets.check_models(saved, saved, ["1"], "chapters/x")

    def test_the_alternative_is_text(self):
        state = {"1": anywidget(alternative={"zh": "甲<b>", "en": "a & b"})}
        shown = widgets.placeholder("1", state)
        assert '<p class="attnbook-lang" lang="zh">甲&lt;b&gt;</p>' in shown
        assert "a &amp; b" in shown


class TestFigures:
    def test_a_figure_keeps_no_template_and_cannot_end_its_script(self):
        figure = {
            "data": [{"name": "</script><b>"}],
            "layout": {"template": {"x": 1}, "title": {"text": 'a "b"'}},
        }
        shown = plotly.figure_html(figure)
        assert "template" not in shown
        assert shown.count("</script>") == 1
        assert 'aria-label="a &quot;b&quot;"' in shown
        body = re.search(r"json\">(.*)</script>", shown)[1]
        assert json.loads(body)["data"] == figure["data"]

    def test_other_types_are_not_ours(self):
        data = types.SimpleNamespace(mime_type="text/html", content="x")
        assert plotly.PlotlyRenderer.handle_mime(None, data, False) is None


class TestExecution:
    def notebook(self, *sources):
        cells = [nbformat.v4.new_markdown_cell("# x"), *map(nbformat.v4.new_code_cell, sources)]
        for index, cell in enumerate(cells):
            cell["id"] = f"c{index}"
        kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
        return nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})

    def test_a_failing_cell_is_named(self, tmp_path):
        notebook = self.notebook("a = 1", "1 / 0", "a")
        with pytest.raises(BookError, match=r"^chapters/x.ipynb, cell 3 \(id c2\) failed: ZeroDivisionError"):
            execution.Run(notebook, "chapters/x.ipynb", tmp_path / "x.ipynb", timeout=60).execute()

    def test_a_cell_that_takes_too_long_is_named(self, tmp_path):
        notebook = self.notebook("a = 1", "import time; time.sleep(60)")
        with pytest.raises(BookError, match=r"^x.ipynb, cell 3 \(id c2\) failed: .*timed out"):
            execution.Run(notebook, "x.ipynb", tmp_path / "x.ipynb", timeout=3).execute()

    def test_a_kernel_that_dies_is_named(self, tmp_path):
        notebook = self.notebook("a = 1", "import os; os._exit(1)")
        with pytest.raises(BookError, match=r"^x.ipynb, cell 3 \(id c2\) failed: Kernel died"):
            execution.Run(notebook, "x.ipynb", tmp_path / "x.ipynb", timeout=60).execute()

    def written(self, folder, *notebooks):
        (folder / "chapters").mkdir()
        paths = [folder / "chapters" / f"{i}.ipynb" for i in range(len(notebooks))]
        for path, notebook in zip(paths, notebooks, strict=True):
            nbformat.write(notebook, path)
        return paths

    def test_notebooks_run_at_the_same_time(self, tmp_path, monkeypatch):
        """Each waits for the other's file: one after the other, the first would wait too long."""
        monkeypatch.setattr(execution.os, "cpu_count", lambda: 2)
        meet = """
        import pathlib, time
        pathlib.Path("{0}").touch()
        while not pathlib.Path("{1}").exists(): time.sleep(0.1)
        """
        sources = [textwrap.dedent(meet.format(*names)) for names in (("a", "b"), ("b", "a"))]
        paths = self.written(tmp_path, *map(self.notebook, sources))
        seconds = execution.execute(paths, tmp_path, tmp_path / "cache", 90, lambda _: None)
        assert set(seconds) == {"chapters/0.ipynb", "chapters/1.ipynb"}

    @pytest.mark.parametrize("how", ["a failure", "Ctrl-C"])
    def test_when_one_stops_the_build_the_others_are_stopped(self, tmp_path, monkeypatch, how):
        monkeypatch.setattr(execution.os, "cpu_count", lambda: 2)
        sleep = "import pathlib, time; pathlib.Path('begun').touch(); time.sleep(3600)"
        wait = """
        import pathlib, time
        while not pathlib.Path("begun").exists(): time.sleep(0.1)
        raise ValueError("stop")
        """
        second = sleep if how == "Ctrl-C" else textwrap.dedent(wait)
        third = "import pathlib; pathlib.Path('third').touch()"
        paths = self.written(tmp_path, *map(self.notebook, (sleep, second, third)))
        if how == "Ctrl-C":

            def interrupted(futures):
                while not (tmp_path / "chapters" / "begun").exists():
                    time.sleep(0.1)
                raise KeyboardInterrupt

            monkeypatch.setattr(execution, "as_completed", interrupted)
        expected = {
            "a failure": (BookError, "1.ipynb, cell 2 .*ValueError: stop"),
            "Ctrl-C": (KeyboardInterrupt, None),
        }
        error, message = expected[how]
        with pytest.raises(error, match=message):
            execution.execute(paths, tmp_path, tmp_path / "cache", 3600, lambda _: None)
        assert not (tmp_path / "chapters" / "third").exists()

    def test_nothing_is_executed_twice(self, tmp_path):
        (tmp_path / "chapters").mkdir()
        path = tmp_path / "chapters" / "x.ipynb"
        nbformat.write(self.notebook("print(6 * 7)"), path)
        said = []
        for _ in range(2):
            seconds = execution.execute([path], tmp_path, tmp_path / "cache", 60, said.append)
        assert seconds == {}
        assert [line.split(" took")[0] for line in said] == [
            "running chapters/x.ipynb ...",
            "running chapters/x.ipynb",
        ]

    def test_the_fingerprint_follows_the_package_but_not_the_book(self, tmp_path):
        for name in ("attention.py", "book/pages.py"):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text("1")
        before = execution.fingerprint(tmp_path)
        (tmp_path / "book/pages.py").write_text("2")
        assert execution.fingerprint(tmp_path) == before
        (tmp_path / "attention.py").write_text("2")
        assert execution.fingerprint(tmp_path) != before

    def test_old_cache_folders_go(self, tmp_path, monkeypatch):
        for state in ("a", "b", "c"):
            monkeypatch.setattr(execution, "fingerprint", lambda state=state: state)
            folder = execution.cache_folder(tmp_path)
            (folder / "kept").write_text("")
        assert folder.name == "c"
        assert len(list(tmp_path.iterdir())) == execution.KEPT_FOLDERS

    def test_a_file_that_is_no_notebook(self, tmp_path):
        (tmp_path / "x.ipynb").write_text("no")
        with pytest.raises(BookError, match="chapters/x.ipynb: expected a notebook, found"):
            execution.read_notebook(tmp_path / "x.ipynb", "chapters/x.ipynb")


class TestBuild:
    def test_a_wrong_folder_is_named(self, tmp_path, capsys):
        assert main(["--root", str(tmp_path)]) == 1
        assert f"{tmp_path / '_config.yml'}: expected this file" in capsys.readouterr().err

    def test_the_old_site_comes_back_if_the_new_one_cannot_be_moved(self, tmp_path):
        site = tmp_path / "site"
        site.mkdir()
        (site / "good").write_text("")
        with pytest.raises(OSError, match="none"):
            replace(site, tmp_path / "none", tmp_path / "old")
        assert (site / "good").exists()

    def test_the_new_site_takes_the_place_of_the_old(self, tmp_path):
        for name in ("site", "new"):
            (tmp_path / name).mkdir()
            (tmp_path / name / name).write_text("")
        replace(tmp_path / "site", tmp_path / "new", tmp_path / "old")
        assert [path.name for path in (tmp_path / "site").iterdir()] == ["new"]


def test_importing_the_package_does_not_import_the_book():
    code = (
        "import sys, attnbook; print([m for m in sys.modules if m.startswith(('attnbook.book', 'sphinx'))])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "[]", result.stderr


class TestStyles:
    SHEET = """
        .used, .unused > a { color: red } .unused { color: blue } #here.used { margin: 0 } #gone { margin: 0 }
        p:not(.unused) { top: 0 } @media print { .unused { top: 0 } } @media print { .used { top: 0 } }
        @font-face { font-family: Font Awesome\\ 6 Free } @keyframes turn { to { rotate: 1turn } }
    """

    def test_a_rule_stays_if_one_of_its_selectors_can_match(self):
        kept = styles.used_rules(self.SHEET, {"used", "here"})
        assert kept == (
            ".used{color: red}#here.used{margin: 0}p:not(.unused){top: 0}@media print{.used{top: 0}}"
            "@keyframes turn { to { rotate: 1turn } }"
        )

    def test_names_of_pages_and_words_of_scripts(self, tmp_path):
        page, script = tmp_path / "page.html", tmp_path / "script.js"
        page.write_text('<p class="a b-c" id="d">e</p>')
        script.write_text('x.classList.add("is-open")')
        names = styles.names_in_use([page], [script])
        assert {"a", "b-c", "d", "is-open"} <= names
        assert "e" not in names

    def test_a_broken_sheet_stops_the_build(self):
        with pytest.raises(ValueError, match="sheet: expected CSS, found"):
            styles.used_rules(".a { color: red } .b", {"a"})


def test_what_editions_have_in_common_is_in_the_site_once(tmp_path):
    for language in ("zh", "en"):
        static = tmp_path / language / "_static"
        for sheet in styles.SHEETS:
            (static / sheet).parent.mkdir(parents=True, exist_ok=True)
            (static / sheet).write_text(".used { color: red } .unused { color: red }")
        (static / "same.js").write_text("same")
        (static / "own.js").write_text(language)
        (static / "widgets").mkdir()
        (static / "widgets" / f"{language}.js").write_text("named by its hash")
        (tmp_path / language / "chapters").mkdir()
        (tmp_path / language / "chapters" / "a.html").write_text(
            f'<p class="used"><script src="../_static/same.js?v=1"></script><script src="../_static/own.js">'
            f'</script><link href="../_static/{styles.SHEETS[0]}?v=2">'
        )
    share(tmp_path, ("zh", "en"))
    page = (tmp_path / "zh" / "chapters" / "a.html").read_text()
    assert 'src="../../_static/same.js?v=1"' in page
    assert 'src="../_static/own.js"' in page
    assert re.search(rf'href="../../_static/{styles.SHEETS[0]}\?v=[0-9a-f]{{8}}"', page)
    assert (tmp_path / "_static" / styles.SHEETS[0]).read_text() == ".used{color: red}"
    found = [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.js")]
    own = ["zh/_static/own.js", "en/_static/own.js"]
    assert sorted(found) == sorted(
        [*own, "_static/same.js", "_static/widgets/en.js", "_static/widgets/zh.js"]
    )
