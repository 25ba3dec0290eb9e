"""Finds and starts a headless Chromium, for the browser tests and for printing the book."""

import os
import shutil
from pathlib import Path
from typing import Any

ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# The headless shell first: the same engine without windows and menus, which takes about half the time.
NAMES = (
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
)
MISSING = "no Chromium found: install one, run `playwright install chromium`, or set CHROMIUM"


def find_chromium(playwright: Any) -> str | None:
    """The path of a Chromium: `$CHROMIUM`, one on the PATH, or the one that playwright has installed."""
    candidates = [os.environ.get("CHROMIUM"), *map(shutil.which, NAMES), playwright.chromium.executable_path]
    return next((path for path in candidates if path and Path(path).exists()), None)


def launch(playwright: Any) -> Any:
    """A running headless Chromium; FileNotFoundError with advice if there is none."""
    path = find_chromium(playwright)
    if path is None:
        raise FileNotFoundError(MISSING)
    return playwright.chromium.launch(executable_path=path, args=ARGS)
