"""The site's first page: what the course is, in both languages, and a link into each."""

import html
from pathlib import Path

TEMPLATE = Path(__file__).parent / "templates" / "landing.html"


def write_landing(site: Path, titles: dict[str, str], first_pages: dict[str, str]) -> None:
    """Write `index.html`; `titles` and `first_pages` (addresses) are by language."""
    text = TEMPLATE.read_text(encoding="utf-8")
    for language in titles:
        text = text.replace(f"@title_{language}@", html.escape(titles[language]))
        text = text.replace(f"@first_{language}@", html.escape(first_pages[language]))
    (site / "index.html").write_text(text, encoding="utf-8")
