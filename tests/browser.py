"""Finds and starts Chromium for the browser tests; one place for all of them.

`CHROMIUM` (a path) overrides the search; without any Chromium a test is skipped, or fails when
`REQUIRE_BROWSER=1` (as in CI).
"""

import os
import shutil
from pathlib import Path

import pytest

ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def find_chromium(playwright) -> str | None:
    """The path of a Chromium: `$CHROMIUM`, one on the PATH, or the one that playwright has installed."""
    candidates = [os.environ.get("CHROMIUM"), *map(shutil.which, NAMES), playwright.chromium.executable_path]
    return next((path for path in candidates if path and Path(path).exists()), None)


def launch_chromium(playwright):
    """A running headless Chromium; skips the test (fails with `REQUIRE_BROWSER=1`) if there is none."""
    path = find_chromium(playwright)
    if path is None:
        message = "no Chromium found: install one, run `playwright install chromium`, or set CHROMIUM"
        if os.environ.get("REQUIRE_BROWSER") == "1":
            pytest.fail(message)
        pytest.skip(message)
    return playwright.chromium.launch(executable_path=path, args=ARGS)
