"""The sheet of exercises: every exercise of the chapters, in both languages, with a link to its place."""

import json
import re
from pathlib import Path

import pytest

from attnbook.book import exercises
from attnbook.book.errors import BookError
from attnbook.book.language import select_language
from attnbook.book.markdown import source_text

CHAPTERS = Path(__file__).parents[2] / "chapters"
SHEET = CHAPTERS / "appendix-e-exercises.ipynb"


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def filled():
    return exercises.fill(read(SHEET), SHEET, CHAPTERS.glob("*.ipynb"))


@pytest.mark.parametrize("language", ["zh", "en"])
def test_every_exercise_is_on_the_sheet_with_its_stub_and_room_to_write(filled, language):
    selected, anchors = select_language(filled, language, SHEET.name)
    text = "\n".join(source_text(cell) for cell in selected["cells"])
    stubs = [
        source_text(cell).split("\ncheck(")[0].strip()
        for path in sorted(CHAPTERS.glob("*.ipynb"))
        for cell in read(path)["cells"]
        if "exercise" in cell["metadata"].get("tags", [])
    ]
    assert len(stubs) > 50
    assert re.findall(r"```python\n(.*?)\n```", text, re.S) == stubs
    assert text.count("attnbook-room") == len(stubs)
    assert "check(" not in text
    assert len(anchors) == len(set(anchors))


def test_numbers_and_links_lead_to_the_exercise(filled):
    selected, _ = select_language(filled, "en", SHEET.name)
    text = "\n".join(source_text(cell) for cell in selected["cells"])
    numbers = re.findall(r"^### (\d+)\.(\d+) ", text, re.M)
    links = re.findall(r"\]\((\d\d)-[a-z0-9-]+\.ipynb#exercise-(\d)-", text)
    assert [(f"{int(chapter):02}", number) for chapter, number in numbers] == links
    for file, anchor in re.findall(r"\]\(([\w-]+\.ipynb)#([\w-]+)\)", text):
        assert anchor in select_language(read(CHAPTERS / file), "en", file)[1]


def test_an_exercise_without_its_heading_is_named(tmp_path):
    cells = [
        {"cell_type": "markdown", "metadata": {"tags": ["zh"]}, "source": "# 题\n\n### 题"},
        {"cell_type": "markdown", "metadata": {"tags": ["en"]}, "source": "# Title\n\n### Title"},
        {"cell_type": "code", "metadata": {"tags": ["exercise"]}, "source": "x = None"},
    ]
    (tmp_path / "01-x.ipynb").write_text(json.dumps({"cells": cells}))
    sheet = {"cells": [{"cell_type": "markdown", "metadata": {}, "source": "```{exercises}\n```"}]}
    with pytest.raises(BookError, match="01-x.ipynb, cell 3.*expected a pair of cells before this exercise"):
        exercises.fill(sheet, tmp_path / "sheet.ipynb", tmp_path.glob("01-*"))
