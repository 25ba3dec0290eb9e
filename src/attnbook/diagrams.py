"""Diagrams as inline SVG, with text in both languages, readable in light and dark pages and on a phone.

    diagram = Diagram(520, 120, title=("编码器与解码器", "Encoder and decoder"), description=(..., ...))
    encoder = diagram.box(20, 30, 140, 50, ("编码器", "encoder"))
    decoder = diagram.box(360, 30, 140, 50, ("解码器", "decoder"), kind="query")
    diagram.arrow(encoder, decoder, text=("记忆", "memory"))
    diagram                       # as the last line of a cell: shown
    diagram.save("seq2seq.svg", "en")   # for slides

A text is a str (the same in both languages) or a pair (zh, en). In it, a line break starts a new line, and
`W_{Q}` and `K^{T}` set what is in braces low or high.

A diagram displays as HTML, not as image/svg+xml: Jupyter and the book would put that into an <img>, which
the page's language and theme do not reach. While the language is "auto", the HTML holds one SVG for each
language and a style sheet that shows one of them: English where <html lang> is English, else Chinese. Two
drawings rather than one with two texts: without any style sheet they stand below each other, not on top.
"""

import html
import math
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from attnbook._validation import check_choice
from attnbook.notebook import Bilingual, get_language

__all__ = ["Box", "Diagram"]

KINDS = ("plain", "query", "key", "value", "weights", "muted")
SIDES = ("above", "below", "left", "right")
LICENCE = "attnbook · CC BY 4.0"

# The widgets' colours, so that a query is blue everywhere. (light, dark)
_COLOURS = {
    "ink": ("#1d2330", "#e8eaf1"),
    "face": ("#ffffff", "#171a22"),
    "plain": ("#5a6274", "#a7aec0"),
    "muted": ("#8a91a1", "#7d8496"),
    "query": ("#0a62a8", "#6cb8f5"),
    "key": ("#b04a00", "#ff9f5f"),
    "value": ("#00755a", "#45cfa3"),
    "weights": ("#6a3fa8", "#c0a0f5"),
}
_FONT = (
    "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'PingFang SC', 'Microsoft YaHei', "
    "'Noto Sans CJK SC', sans-serif"
)
_PHONE = 326  # pixels that a phone of 360 leaves to a drawing
_SMALLEST_ON_A_PHONE = 8.75  # pixels; a diagram that would have smaller text there scrolls sideways

Point = tuple[float, float]
Text = str | tuple[str, str] | Bilingual
Paint = Callable[[str], str]  # colour name -> what stands in fill="…" and stroke="…"
Shape = Callable[[str, Paint], str]  # (language, paint) -> SVG elements


@dataclass(frozen=True)
class Box:
    """A rectangle in a diagram: what arrows start from and end at."""

    x: float
    y: float
    w: float
    h: float

    @property
    def left(self) -> Point:
        return self.x, self.y + self.h / 2

    @property
    def right(self) -> Point:
        return self.x + self.w, self.y + self.h / 2

    @property
    def top(self) -> Point:
        return self.x + self.w / 2, self.y

    @property
    def bottom(self) -> Point:
        return self.x + self.w / 2, self.y + self.h

    @property
    def center(self) -> Point:
        return self.x + self.w / 2, self.y + self.h / 2


class Diagram:
    """A drawing of `width` × `height` units (pixels, where there is room for it).

    Args:
        width, height: up to a width of 520, text of the usual size stays readable on a phone.
        title: the name that a screen reader says, (zh, en).
        description: what the diagram shows, for those who do not see it, (zh, en).
        size: font size where none is given.

    Raises:
        TypeError, ValueError: what is not a text or a number, does not lie inside the drawing, or is a text
            too long for its box in either language.
    """

    def __init__(self, width: float, height: float, title: Text, description: Text, size: float = 16):
        self.width, self.height = _positive(width=width), _positive(height=height)
        self.title, self.description = _text("title", title), _text("description", description)
        self.size = _positive(size=size)
        self._smallest = self.size
        self._below: list[Shape] = []  # frames of groups
        self._shapes: list[Shape] = []

    def box(
        self,
        x: float,
        y: float,
        w: float,
        h: float,
        text: Text = "",
        kind: str = "plain",
        size: float | None = None,
        radius: float = 8,
    ) -> Box:
        """A rounded box with text in its middle; `radius=h / 2` makes it a pill or a circle."""
        box = self._rectangle(x, y, w, h)
        check_choice(KINDS, kind=kind)
        text, size = _text("text", text, empty=True), self._font(size)
        for lang in ("zh", "en"):
            lines = getattr(text, lang).split("\n")
            wide, tall = max(_width(line, size) for line in lines), (1.3 * len(lines) - 0.3) * size
            if lines != [""] and (wide > w or tall > h):
                raise ValueError(
                    f"text: expected at most {w:g} × {h:g} of {lang} text in the box, "
                    f"found about {wide:.0f} × {tall:.0f} for {getattr(text, lang)!r}"
                )
        self._shapes.append(partial(_draw_box, box, kind, _number(radius=radius)))
        self._label(box.center, text, size)
        return box

    def arrow(
        self,
        start: Box | Point,
        end: Box | Point,
        text: Text = "",
        kind: str = "plain",
        via: Sequence[Point] = (),
        dashed: bool = False,
        head: bool = True,
        size: float | None = None,
    ) -> "Diagram":
        """An arrow between boxes or points (x, y), around the corners `via`, with a text on its longest part.

        Between two boxes that face each other it runs straight; the sides may be chosen by hand:
        `arrow(a.bottom, b.left)`.
        """
        check_choice(KINDS, kind=kind)
        start, end = self._end("start", start), self._end("end", end)
        corners = [self._point("via", corner) for corner in via]
        if corners:
            first = _attach(start, Box(*corners[0], 0, 0))[0]
            points = [first, *corners, _attach(Box(*corners[-1], 0, 0), end)[1]]
        else:
            points = list(_attach(start, end))
        if all(point == points[0] for point in points):
            raise ValueError(f"end: expected another place than start, found {points[0]} for both")
        self._shapes.append(partial(_draw_arrow, points, kind, dashed, head))
        a, b = max(zip(points, points[1:], strict=False), key=lambda part: math.dist(*part))
        middle = (a[0] + b[0]) / 2, (a[1] + b[1]) / 2
        self._label(middle, _text("text", text, empty=True), self._font(size or 0.875 * self.size), halo=True)
        return self

    def text(
        self,
        x: float,
        y: float,
        text: Text,
        kind: str = "ink",
        size: float | None = None,
        anchor: str = "middle",
        bold: bool = False,
    ) -> "Diagram":
        """Text centred on the height y, with its "start", "middle" or "end" (`anchor`) at x."""
        check_choice(("ink", *KINDS), kind=kind)
        check_choice(("start", "middle", "end"), anchor=anchor)
        at = self._point("x, y", (x, y))
        self._label(at, _text("text", text), self._font(size), kind, anchor, bold)
        return self

    def group(self, x: float, y: float, w: float, h: float, text: Text = "", kind: str = "muted") -> Box:
        """A dashed frame behind what belongs together, with its name in the upper left corner."""
        box = self._rectangle(x, y, w, h)
        check_choice(KINDS, kind=kind)
        self._below.append(partial(_draw_box, box, kind, 12, dashed=True))
        label = _text("text", text, empty=True)
        self._label((x + 12, y + 14), label, self._font(0.875 * self.size), "plain", "start")
        return box

    def brace(
        self, start: float, stop: float, at: float, text: Text = "", side: str = "below", kind: str = "plain"
    ) -> "Diagram":
        """A curly brace with a name, whose tip points to `side`.

        "above" and "below": from `start` to `stop` along x, at the height `at`; "left" and "right": along y,
        at the x `at`.
        """
        check_choice(SIDES, side=side)
        check_choice(KINDS, kind=kind)
        upright, sign = side in ("left", "right"), 1 if side in ("below", "right") else -1
        for name, value in (("start", start), ("stop", stop)):
            self._point(name, (at, value) if upright else (value, at))
        if stop <= start:
            raise ValueError(f"stop: expected more than start = {start}, found {stop}")
        self._shapes.append(partial(_draw_brace, start, stop, at, sign, upright, kind))
        label, size, middle = _text("text", text, empty=True), self._font(None), (start + stop) / 2
        if upright:
            self._label((at + 18 * sign, middle), label, size, anchor="start" if sign > 0 else "end")
        else:
            self._label((middle, at + sign * (14 + 0.6 * size)), label, size)
        return self

    def svg(self, lang: str, theme: str | None = None) -> str:
        """The drawing in one language, in the page's colours or in those of a `theme`, "light" or "dark"."""
        check_choice(("zh", "en"), lang=lang)
        if theme is not None:
            check_choice(("light", "dark"), theme=theme)
        return self._svg(lang, _paint(theme))

    def save(self, path: str | Path, lang: str, theme: str = "light") -> Path:
        """Write the drawing, in one language, as an SVG file with a line that names the licence."""
        check_choice(("zh", "en"), lang=lang)
        check_choice(("light", "dark"), theme=theme)
        path = Path(path)
        if path.suffix.lower() != ".svg":
            raise ValueError(f"path: expected a name that ends in .svg, found {str(path)!r}")
        path.write_text(self._svg(lang, _paint(theme), LICENCE), encoding="utf-8")
        return path

    def _svg(self, lang: str, paint: Paint, licence: str = "", attributes: str = "") -> str:
        height = self.height + (24 if licence else 0)
        body = [draw(lang, paint) for draw in [*self._below, *self._shapes]]
        if licence:
            at = (self.width - 10, self.height + 10)
            body.append(_draw_label(at, Bilingual.of(licence), 11, "plain", "end", False, False, lang, paint))
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" lang="{lang}" {attributes}'
            f'viewBox="0 0 {self.width:g} {height:g}" width="{self.width:g}" height="{height:g}" '
            f'font-family="{_FONT}" text-anchor="middle" fill="{paint("ink")}">'
            f"<title>{html.escape(getattr(self.title, lang))}</title>"
            f"<desc>{html.escape(getattr(self.description, lang))}</desc>"
            f'<rect width="{self.width:g}" height="{height:g}" rx="12" fill="{paint("face")}"/>'
            f"{''.join(body)}</svg>"
        )

    def _repr_html_(self) -> str:
        paint, language = _paint(None), get_language()
        narrowest = min(self.width, math.ceil(self.width * _SMALLEST_ON_A_PHONE / self._smallest))
        style = (
            f'style="display: block; width: 100%; height: auto; max-width: {self.width:g}px; '
            f'min-width: {narrowest:g}px; margin: auto" '
        )
        if language == "auto":
            drawings = [
                self._svg(lang, paint, attributes=f'class="attnbook-lang" {style}') for lang in ("zh", "en")
            ]
        else:
            drawings = [self._svg(language, paint, attributes=style)]
        scrolls = ' tabindex="0"' if narrowest > _PHONE else ""
        return (
            f'<div class="attnbook-diagram" style="overflow-x: auto"{scrolls}>'
            f"<style>{_STYLE}</style>{''.join(drawings)}</div>"
        )

    def __repr__(self) -> str:
        return f"Diagram: {self.title!r}"

    def _label(
        self,
        at: Point,
        text: Bilingual,
        size: float,
        kind: str = "ink",
        anchor: str = "middle",
        bold: bool = False,
        halo: bool = False,
    ) -> None:
        if text.zh or text.en:
            self._shapes.append(partial(_draw_label, at, text, size, kind, anchor, bold, halo))
            self._smallest = min(self._smallest, size)

    def _font(self, size: float | None) -> float:
        return self.size if size is None else _positive(size=size)

    def _point(self, name: str, point: Any) -> Point:
        if not isinstance(point, tuple | list) or len(point) != 2:
            raise TypeError(f"{name}: expected a point (x, y), found {point!r}")
        x, y = (_number(**{name: value}) for value in point)
        if not (0 <= x <= self.width and 0 <= y <= self.height):
            raise ValueError(
                f"{name}: expected a point within {self.width:g} × {self.height:g}, found ({x:g}, {y:g})"
            )
        return x, y

    def _rectangle(self, x: float, y: float, w: float, h: float) -> Box:
        _number(x=x), _number(y=y), _positive(w=w), _positive(h=h)
        if x < 0 or y < 0 or x + w > self.width or y + h > self.height:
            raise ValueError(
                f"x, y, w, h: expected a box within {self.width:g} × {self.height:g}, "
                f"found x {x:g} to {x + w:g}, y {y:g} to {y + h:g}"
            )
        return Box(x, y, w, h)

    def _end(self, name: str, end: Any) -> Box:
        return end if isinstance(end, Box) else Box(*self._point(name, end), 0, 0)


# Light and dark as the widgets find them: the book, Colab, VS Code, JupyterLab, else the operating system.
_DARK_PAGES = (
    ":is([data-theme=dark], html[theme=dark], [data-jp-theme-light=false], [data-vscode-theme-kind$=dark], "
    "[data-vscode-theme-kind$=high-contrast])"
)
_OF_NO_THEME = ":root:not([data-theme], [theme], :has([data-jp-theme-light], [data-vscode-theme-kind]))"
_DARK = "; ".join(f"--anb-{name}: {dark}" for name, (_, dark) in _COLOURS.items())
_STYLE = (
    f"{_DARK_PAGES} .attnbook-diagram {{{_DARK}}} "
    f"@media (prefers-color-scheme: dark) {{{_OF_NO_THEME} .attnbook-diagram {{{_DARK}}}}} "
    "html:not([lang^=en]) .attnbook-diagram > .attnbook-lang[lang=en], "
    "html[lang^=en] .attnbook-diagram > .attnbook-lang[lang=zh] {display: none !important}"
)


def _paint(theme: str | None) -> Paint:
    """Colours that follow the page, or the fixed ones of a theme (slides know no CSS variables)."""
    if theme is None:
        return lambda name: f"var(--anb-{name}, {_COLOURS[name][0]})"
    return lambda name: _COLOURS[name][theme == "dark"]


def _draw_box(box: Box, kind: str, radius: float, lang: str, paint: Paint, dashed: bool = False) -> str:
    place = f'<rect x="{box.x:g}" y="{box.y:g}" width="{box.w:g}" height="{box.h:g}" rx="{radius:g}"'
    colour = paint(kind)
    if dashed:
        return f'{place} fill="none" stroke="{colour}" stroke-width="1.5" stroke-dasharray="6 5"/>'
    return (  # a tint over the background, so that what runs behind the box stays hidden
        f'{place} fill="{paint("face")}"/>'
        f'{place} fill="{colour}" fill-opacity="0.1" stroke="{colour}" stroke-width="1.5"/>'
    )


def _draw_arrow(points: list[Point], kind: str, dashed: bool, head: bool, lang: str, paint: Paint) -> str:
    (x1, y1), (x2, y2) = points[-2:]
    length = math.dist(points[-2], points[-1]) or 1
    ux, uy = (x2 - x1) / length, (y2 - y1) / length
    stop = (x2 - 7 * ux, y2 - 7 * uy) if head else (x2, y2)
    path = " ".join(f"{x:.4g},{y:.4g}" for x, y in [*points[:-1], stop])
    colour, dashes = paint(kind), ' stroke-dasharray="6 5"' if dashed else ""
    line = (
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.75" '
        f'stroke-linejoin="round"{dashes}/>'
    )
    if not head:
        return line
    base = x2 - 10 * ux, y2 - 10 * uy
    corners = [(x2, y2), (base[0] - 4.5 * uy, base[1] + 4.5 * ux), (base[0] + 4.5 * uy, base[1] - 4.5 * ux)]
    tip = " ".join(f"{x:.4g},{y:.4g}" for x, y in corners)
    return f'{line}<polygon points="{tip}" fill="{colour}"/>'


def _draw_brace(
    start: float, stop: float, at: float, sign: int, upright: bool, kind: str, lang: str, paint: Paint
) -> str:
    bend, middle = min(6.0, (stop - start) / 4), (start + stop) / 2

    def place(along: float, out: float) -> str:
        x, y = (at + sign * out, along) if upright else (along, at + sign * out)
        return f"{x:.4g},{y:.4g}"

    path = (
        f"M{place(start, 0)} Q{place(start, bend)} {place(start + bend, bend)} "
        f"L{place(middle - bend, bend)} Q{place(middle, bend)} {place(middle, 2 * bend)} "
        f"Q{place(middle, bend)} {place(middle + bend, bend)} "
        f"L{place(stop - bend, bend)} Q{place(stop, bend)} {place(stop, 0)}"
    )
    return f'<path d="{path}" fill="none" stroke="{paint(kind)}" stroke-width="1.5"/>'


def _draw_label(
    at: Point,
    text: Bilingual,
    size: float,
    kind: str,
    anchor: str,
    bold: bool,
    halo: bool,
    lang: str,
    paint: Paint,
) -> str:
    lines = getattr(text, lang).split("\n")
    first = at[1] - 0.65 * size * (len(lines) - 1) + 0.35 * size  # the first baseline
    look = "" if kind == "ink" else f' fill="{paint(kind)}"'
    if anchor != "middle":
        look += f' text-anchor="{anchor}"'
    if bold:
        look += ' font-weight="600"'
    if halo:  # a line that passes behind the text is interrupted
        look += f' stroke="{paint("face")}" stroke-width="6" stroke-linejoin="round" paint-order="stroke"'
    return "".join(
        f'<text x="{at[0]:.4g}" y="{first + 1.3 * size * number:.4g}" font-size="{size:g}"'
        f"{look}>{_scripts(line)}</text>"
        for number, line in enumerate(lines)
    )


_SCRIPT = re.compile(r"([_^])\{([^{}]*)\}")


def _scripts(line: str) -> str:
    """Escaped text in which what stands in `_{}` is set low and what stands in `^{}` high."""
    pieces, end, level = [], 0, 0.0
    for match in _SCRIPT.finditer(line):
        pieces.append(_level(line[end : match.start()], level))
        if match.start() > end:
            level = 0.0
        shift = 0.25 if match[1] == "_" else -0.4
        pieces.append(
            f'<tspan dy="{(shift - level) / 0.7:.3g}em" font-size="70%">{html.escape(match[2])}</tspan>'
        )
        end, level = match.end(), shift
    return "".join([*pieces, _level(line[end:], level)])


def _level(text: str, level: float) -> str:
    if not text:
        return ""
    return f'<tspan dy="{-level:g}em">{html.escape(text)}</tspan>' if level else html.escape(text)


def _attach(a: Box, b: Box) -> tuple[Point, Point]:
    """Where a straight arrow leaves `a` and meets `b`: level or upright if they face each other."""
    top, bottom = max(a.y, b.y), min(a.y + a.h, b.y + b.h)
    left, right = max(a.x, b.x), min(a.x + a.w, b.x + b.w)
    across, down = left - right, top - bottom  # gaps; negative where the two overlap
    if down <= 0 and across >= 0:
        y = (top + bottom) / 2
        return ((a.right[0], y), (b.x, y)) if a.x <= b.x else ((a.x, y), (b.right[0], y))
    if across <= 0 and down >= 0:
        x = (left + right) / 2
        return ((x, a.bottom[1]), (x, b.y)) if a.y <= b.y else ((x, a.y), (x, b.bottom[1]))
    if across >= down:
        return (a.right, b.left) if a.x <= b.x else (a.left, b.right)
    return (a.bottom, b.top) if a.y <= b.y else (a.top, b.bottom)


def _text(name: str, value: Any, empty: bool = False) -> Bilingual:
    try:
        text = Bilingual.of(value)
    except TypeError:
        found = f"found {value!r} ({type(value).__name__})"
        raise TypeError(f"{name}: expected a str or a pair (zh, en), {found}") from None
    if not (empty and not text.zh and not text.en) and not (text.zh.strip() and text.en.strip()):
        raise ValueError(f"{name}: expected text in both languages, found {(text.zh, text.en)!r}")
    return text


def _width(line: str, size: float) -> float:
    """Roughly how wide a line is set."""
    plain = _SCRIPT.sub(lambda match: match[2], line)
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in plain)
    return size * (wide + 0.54 * (len(plain) - wide))


def _number(**value: Any) -> float:
    ((name, number),) = value.items()
    if not isinstance(number, int | float) or isinstance(number, bool):
        raise TypeError(f"{name}: expected a number, found {number!r} ({type(number).__name__})")
    if not math.isfinite(number):
        raise ValueError(f"{name}: expected a finite number, found {number}")
    return number


def _positive(**value: Any) -> float:
    ((name, number),) = value.items()
    if _number(**value) <= 0:
        raise ValueError(f"{name}: expected a positive number, found {number}")
    return number
