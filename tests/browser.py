"""Starts Chromium for the browser tests; one place for all of them.

`CHROMIUM` (a path) overrides the search; without any Chromium a test is skipped, or fails when
`REQUIRE_BROWSER=1` (as in CI).
"""

import os
from contextlib import contextmanager

import pytest

from attnbook._chromium import launch


def launch_chromium(playwright):
    """A running headless Chromium; skips the test (fails with `REQUIRE_BROWSER=1`) if there is none."""
    try:
        return launch(playwright)
    except FileNotFoundError as error:
        if os.environ.get("REQUIRE_BROWSER") == "1":
            pytest.fail(str(error))
        pytest.skip(str(error))


@contextmanager
def running_chromium():
    """A headless Chromium; one at a time in a process, and no asyncio beside it: so playwright wants it."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = launch_chromium(playwright)
        yield browser
        browser.close()
