"""What all tests share. Being here puts this folder on the path: `import browser` works everywhere."""

import pytest
import torch
from browser import launch_chromium

torch.set_num_threads(1)  # the tensors of the tests are small, and pytest-xdist already uses every core


@pytest.fixture(scope="module")
def chromium():
    """A headless Chromium; one for each module, because playwright allows one at a time in a process."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = launch_chromium(playwright)
        yield browser
        browser.close()
