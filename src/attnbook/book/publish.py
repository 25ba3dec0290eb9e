"""What publishing uploads, as two folders: the site with the package's wheel, and the branch of notebooks.

Everything that the workflow `publish.yml` needs is made here, so that it can be made and looked at anywhere.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from .errors import BookError
from .language import LANGUAGES
from .repository import Repository

README = """# attnbook：从循环到注意力 | From Recurrence to Attention

课程的笔记本，由 [{url}]({url}) 生成，请勿在此分支上编辑。点击即可在 Colab 中打开。

The notebooks of the course, made from [{url}]({url}); do not edit this branch. A click opens them in Colab.

| 中文 | English |
|---|---|
"""


def build_wheel(root: Path, folder: Path) -> Path:
    """The package's wheel, in `folder`; `BookError` with what pip said if there is none."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, root]
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    wheels = list(folder.glob("attnbook-*.whl"))
    if result.returncode or len(wheels) != 1:
        raise BookError(f"the wheel was not built:\n{result.stdout}{result.stderr}".rstrip())
    return wheels[0]


def build_tree(root: Path, site: Path, target: Path, repository: Repository | None) -> None:
    """Make `target/site` and `target/notebooks` from a built site.

    Raises:
        BookError: there is no site, no address to publish it at, or no wheel; `target` is then as it was.
    """
    if not (site / "index.html").is_file():
        raise BookError(f"{site}: expected a built site, found none; run make book first")
    if repository is None:
        raise BookError(
            "repository.url: expected an address in _config.yml (or $GITHUB_REPOSITORY), found none"
        )
    new = target.with_name(f".{target.name}")
    shutil.rmtree(new, ignore_errors=True)
    shutil.copytree(site, new / "site")
    wheel = build_wheel(root, new / "site")
    if wheel.name != repository.wheel:
        raise BookError(
            f"wheel: expected {repository.wheel}, which the notebooks install, found {wheel.name}"
        )
    branch = new / "notebooks"
    for language in LANGUAGES:
        shutil.copytree(site / language / "notebooks", branch / language)
    names = sorted(path.name for path in (branch / LANGUAGES[0]).glob("*.ipynb"))
    rows = (
        "| " + " | ".join(f"[{name}]({repository.colab(language, name)})" for language in LANGUAGES) + " |"
        for name in names
    )
    (branch / "README.md").write_text(
        README.format(url=repository.url) + "\n".join(rows) + "\n", encoding="utf-8"
    )
    shutil.rmtree(target, ignore_errors=True)
    new.rename(target)
