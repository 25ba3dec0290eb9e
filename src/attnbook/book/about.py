"""Which state of the package and of the repository a page was made from."""

import os
import subprocess
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path

from .repository import Repository


@dataclass(frozen=True)
class About:
    """What the foot of each page says."""

    version: str
    commit: str  # empty without git
    repository: Repository | None

    @property
    def commit_url(self) -> str:
        return f"{self.repository.url}/commit/{self.commit}" if self.repository and self.commit else ""


def about(root: Path, repository: Repository | None) -> About:
    """Version and commit: `$GITHUB_SHA` in GitHub's CI, else what is checked out in `root`."""
    return About(version("attnbook"), os.environ.get("GITHUB_SHA") or _head(root), repository)


@cache  # every page asks, and a build is made from one commit
def _head(root: Path) -> str:
    try:
        command = ["git", "-C", str(root), "rev-parse", "HEAD"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""  # no git, or no repository: a course in a folder of its own
