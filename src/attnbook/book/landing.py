"""The site's first page: what the course is, in both languages, and a link into each."""

import html
from pathlib import Path

TEMPLATE = Path(__file__).parent / "templates" / "landing.html"
# The course's line of thought: year, name, colour.
ROAD = [
    ("", ("前馈网络", "feed-forward"), "one"),
    ("1990", ("RNN", "RNN"), "one"),
    ("1997", ("LSTM", "LSTM"), "two"),
    ("2014", ("Seq2Seq · GRU", "Seq2Seq · GRU"), "two"),
    ("2014", ("注意力", "attention"), "three"),
    ("2017", ("Transformer", "Transformer"), "four"),
]
DESCRIPTION = ("课程的路线：", "The road of the course: ")


def road() -> str:
    """The line of thought as two drawings, wide and for a phone; CSS shows one."""
    return _drawing("wide", 720, 84, lambda i: (60 + 120 * i, 22), upright=False) + _drawing(
        "tall", 260, 36 * len(ROAD), lambda i: (18, 18 + 36 * i), upright=True
    )


def _drawing(kind: str, width: int, height: int, place, upright: bool) -> str:
    places = [place(i) for i in range(len(ROAD))]
    names = [" → ".join(texts[i] for _, texts, _ in ROAD) for i in (0, 1)]
    label = html.escape(f"{DESCRIPTION[0]}{names[0]} / {DESCRIPTION[1]}{names[1]}")
    parts = [f'<svg class="{kind}" viewBox="0 0 {width} {height}" role="img" aria-label="{label}">']
    (x1, y1), (x2, y2) = places[0], places[-1]
    parts.append(f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="var(--line)" stroke-width="3"/>')
    for (x, y), (year, texts, colour) in zip(places, ROAD, strict=True):
        parts.append(f'<circle cx="{x}" cy="{y}" r="8" fill="var(--{colour})"/>')
        text_x, text_y = (x + 22, y + 5) if upright else (x, y + 32)
        for language, text in zip(("zh", "en"), texts, strict=True):
            shown = f"{text} {year}" if upright and year else text
            parts.append(
                f'<text data-text="{language}" x="{text_x}" y="{text_y}">{html.escape(shown)}</text>'
            )
        if year and not upright:
            parts.append(f'<text class="year" x="{x}" y="{y + 52}">{year}</text>')
    parts.append("</svg>")
    return "".join(parts)


def write_landing(site: Path, titles: dict[str, str], first_pages: dict[str, str]) -> None:
    """Write `index.html`; `titles` and `first_pages` (addresses) are by language."""
    text = TEMPLATE.read_text(encoding="utf-8").replace("@road@", road())
    for language in titles:
        text = text.replace(f"@title_{language}@", html.escape(titles[language]))
        text = text.replace(f"@first_{language}@", html.escape(first_pages[language]))
    (site / "index.html").write_text(text, encoding="utf-8")
