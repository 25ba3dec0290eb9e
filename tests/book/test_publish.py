"""What is published, from a fork with no edit: the tree, the wheel that notebooks install, the branch."""

import json
import os
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
import yaml

from attnbook.book import notebooks, publish
from attnbook.book.build import main
from attnbook.book.errors import BookError
from attnbook.book.repository import Repository, repository_of

ROOT = Path(__file__).parents[2]
FORK = Repository("Some", "course")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A site of which publishing needs the notebooks."""
    site = tmp_path_factory.mktemp("publish") / "site"
    site.mkdir()
    (site / "index.html").write_text("<!doctype html>")
    for language in ("zh", "en"):
        folder = site / language / "notebooks"
        notebooks.write_notebooks(
            ROOT, ["chapters/appendix-d-references"], language, folder, FORK, [ROOT / "references.bib"]
        )
    return site


def test_the_tree_holds_the_wheel_that_the_notebooks_install(site, tmp_path):
    publish.build_tree(ROOT, site, tmp_path / "publish", FORK)
    tree = tmp_path / "publish"
    assert sorted(path.name for path in tree.iterdir()) == ["notebooks", "site"]
    assert (tree / "site" / "index.html").exists()
    for language in ("zh", "en"):
        notebook = json.loads(
            (tree / "notebooks" / language / "appendix-d-references.ipynb").read_text("utf-8")
        )
        first = "".join(notebook["cells"][0]["source"])
        assert f'"attnbook @ https://some.github.io/course/{FORK.wheel}"' in first
    wheel = tree / "site" / FORK.wheel
    names = zipfile.ZipFile(wheel).namelist()
    for name in (
        "transformer.py",
        "widgets/live_translator.js",
        "checkpoints/tatoeba-transformer.safetensors",
    ):
        assert f"attnbook/{name}" in names
    assert "attnbook/book/templates/landing.html" in names
    assert "attnbook/book/static/card.png" in names
    readme = (tree / "notebooks" / "README.md").read_text(encoding="utf-8")
    assert FORK.colab("zh", "appendix-d-references.ipynb") in readme
    assert readme.count("colab.research.google.com/github/Some/course/blob/notebooks/") == 2


def test_without_a_site_or_an_address_nothing_is_published(site, tmp_path):
    (tmp_path / "publish").mkdir()
    (tmp_path / "publish" / "good").write_text("")
    for arguments, message in [
        ((tmp_path, tmp_path / "publish", FORK), "expected a built site, found none; run make book first"),
        ((site, tmp_path / "publish", None), "repository.url: expected an address"),
    ]:
        with pytest.raises(BookError, match=message):
            publish.build_tree(ROOT, *arguments)
    with pytest.raises(BookError, match="the wheel was not built:\n.+"):
        publish.build_tree(tmp_path, site, tmp_path / "publish", FORK)
    assert [path.name for path in (tmp_path / "publish").iterdir()] == ["good"]


def test_the_command_line_says_what_is_missing(tmp_path, capsys):
    for name in ("_config.yml", "_toc.yml"):
        shutil.copy(ROOT / name, tmp_path)
    assert main(["--root", str(tmp_path), "--publish"]) == 1
    assert "run make book first" in capsys.readouterr().err


def test_a_domain_of_ones_own(monkeypatch):
    monkeypatch.setenv("GITHUB_REPOSITORY", "Some/course")
    assert repository_of("").site == "https://some.github.io/course/"
    assert repository_of("").base == "/course/"
    monkeypatch.setenv("SITE_URL", "https://course.example.org")
    assert repository_of("").page("en", "a") == "https://course.example.org/en/a.html"
    assert repository_of("").base == "/"
    assert repository_of("").requirement.startswith("attnbook @ https://course.example.org/attnbook-")


def test_the_branch_of_notebooks_goes_on(tmp_path):
    script = tmp_path / "project" / ".ci" / "push-notebooks"
    tree = tmp_path / "project" / "build" / "publish" / "notebooks"
    (tree / "zh").mkdir(parents=True)
    script.parent.mkdir()
    shutil.copy2(ROOT / ".ci" / "push-notebooks", script)
    remote = tmp_path / "remote.git"
    subprocess.run(["git", "init", "--quiet", "--bare", remote], check=True)

    def push(sha):
        environment = {**os.environ, "GITHUB_SHA": sha}
        subprocess.run([script, remote], check=True, env=environment, cwd=tmp_path, capture_output=True)

    def git(*arguments):
        return subprocess.run(
            ["git", "-C", remote, *arguments], check=True, capture_output=True, text=True
        ).stdout

    (tree / "zh" / "a.ipynb").write_text("1")
    push("one")
    push("the same")
    (tree / "zh" / "a.ipynb").rename(tree / "zh" / "b.ipynb")
    push("two")
    assert git("log", "--format=%s", "notebooks").split("\n") == ["Notebooks of two", "Notebooks of one", ""]
    assert git("ls-tree", "-r", "--name-only", "notebooks") == "zh/b.ipynb\n"


def test_the_workflow_does_nothing_that_cannot_be_done_here():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "publish.yml").read_text(encoding="utf-8"))
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    commands = [step["run"].split()[:2] for step in steps if "run" in step]
    assert [command[0] for command in commands] == ["make", ".ci/push-notebooks"]
    assert commands[0] == ["make", "publish-tree"]
    upload = next(step for step in steps if step.get("uses", "").startswith("actions/upload-pages-artifact"))
    assert upload["with"]["path"] == "build/publish/site"
    assert "attnbook/attnbook" not in json.dumps(workflow)  # a fork needs no edit
