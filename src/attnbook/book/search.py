"""Search that finds Chinese words.

Sphinx splits Chinese text with jieba when it writes the index but leaves a Chinese query whole. Here jieba
also knows the terms of `glossary.yml`, and the page splits the query (`split-query.js`) into words of the
index, with the browser's own word segmentation for what the index does not hold.
"""

from pathlib import Path

import jieba
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.search.zh import SearchChinese

from .glossary import load_glossary

SPLIT_QUERY = Path(__file__).parent / "templates" / "split-query.js"


class _Terms(set):
    """In place of the list that Sphinx goes through for every word of every page."""

    extend = set.update


class SegmentedChinese(SearchChinese):
    """Sphinx's Chinese search, with a query that is split as the text was."""

    js_splitter_code = SPLIT_QUERY.read_text(encoding="utf-8")

    def init(self, options: dict[str, str]) -> None:
        super().init(options)
        self.latin_terms = _Terms()
        jieba.setLogLevel("WARNING")
        for word in options.get("words", "").split():
            jieba.add_word(word)


def configure(app: Sphinx, config: Config) -> None:
    """Use the segmented search, with the glossary's terms as words."""
    app.add_search_language(SegmentedChinese)
    path = Path(app.srcdir) / "glossary.yml"
    if path.exists():
        terms = [term for entry in load_glossary(path) for term in entry.all_zh]
        config.html_search_options = {**config.html_search_options, "words": " ".join(terms)}
