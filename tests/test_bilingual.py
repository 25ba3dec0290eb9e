"""Every chapter says the same in both languages, in well-set Chinese. The rules: attnbook.book.bilingual."""

import json
from pathlib import Path

import pytest

from attnbook.book.bilingual import check_notebook
from attnbook.book.glossary import load_glossary

ROOT = Path(__file__).parents[1]
CHAPTERS = sorted((ROOT / "chapters").glob("*.ipynb"))


@pytest.fixture(scope="module")
def terms():
    return load_glossary(ROOT / "glossary.yml")


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_both_languages_agree(path, terms):
    problems = check_notebook(json.loads(path.read_text(encoding="utf-8")), f"chapters/{path.name}", terms)
    assert not problems, "\n" + "\n".join(problems)


def test_there_are_chapters():
    assert len(CHAPTERS) >= 3
