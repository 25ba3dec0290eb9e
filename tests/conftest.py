"""What all tests share. Being here puts this folder on the path: `import browser` works everywhere."""

import pytest
import torch
from browser import running_chromium

torch.set_num_threads(1)  # the tensors of the tests are small, and pytest-xdist already uses every core


@pytest.fixture(scope="module")
def chromium():
    with running_chromium() as browser:
        yield browser
