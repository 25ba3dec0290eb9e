"""What axe-core finds in a page that some readers cannot read or reach."""

from axe_playwright_python.sync_playwright import Axe

CONTRAST = {"runOnly": ["color-contrast"]}
SCROLLING = {"runOnly": ["scrollable-region-focusable"]}


def without(*rules: str) -> dict:
    moderate = "region"  # what it finds is never serious, and takes long
    return {"rules": {rule: {"enabled": False} for rule in (*rules, moderate)}}


ALL, ALL_BUT_CONTRAST = without(), without("color-contrast")

LOOKS = """
const grounds = new Map();
const ground = node => { // its colour, and how opaque the text on it is
  if (!node) return {colour: "", opacity: 1};
  if (!grounds.has(node)) {
    const {backgroundColor, opacity} = getComputedStyle(node), below = ground(node.parentElement);
    const colour = backgroundColor === "rgba(0, 0, 0, 0)" ? below.colour : backgroundColor;
    grounds.set(node, {colour, opacity: below.opacity * opacity});
  }
  return grounds.get(node);
};
const seen = new Set();
const looks = found.map(piece => { // all of them before the first is changed
  const {color, fontSize, fontWeight, visibility} = getComputedStyle(piece);
  const {colour, opacity} = ground(piece);
  const isOff = Boolean(piece.closest(":disabled, [aria-disabled=true]")); // which may be faint
  const look = [piece.tagName, color, fontSize, fontWeight, visibility, colour, opacity, isOff].join();
  const isFirst = !seen.has(look);
  seen.add(look);
  return {piece, isFirst, isVisible: visibility === "visible"};
});"""

# A page has thousands of pieces of code and of formulas; these are taken away, all but one of each look.
TAKE_AWAY = f"""() => {{
  const found = [...document.querySelectorAll("pre span:not(:has(*)), mjx-container > *")];
  {LOOKS}
  const others = looks.filter(({{isFirst}}) => !isFirst);
  const away = others.map(({{piece}}) => [piece, document.createComment("")]);
  for (const [piece, place] of away) piece.replaceWith(place);
  window.bringBack = () => {{
    for (const [piece, place] of away) place.replaceWith(piece);
  }};
}}"""

# Texts in pictures all stay: what is behind them is not in the styles.
HIDE = f"""() => {{
  const isText = node => node.nodeType === Node.TEXT_NODE && node.data.trim();
  const isWritten = node => node instanceof HTMLElement && [...node.childNodes].some(isText);
  const found = [...document.querySelectorAll("body *")].filter(isWritten);
  {LOOKS}
  const visible = looks.filter(({{isVisible}}) => isVisible).map(one => [one, one.piece.style.visibility]);
  for (const [{{piece, isFirst}}] of visible)
    piece.style.visibility = isFirst ? "visible" : "hidden"; // in a hidden one too
  window.show = () => {{
    for (const [{{piece}}, before] of visible) piece.style.visibility = before;
  }};
}}"""


def findings(page, options: dict, within: str | None = None) -> list[str]:
    """What the rules of `options` find that is serious or critical."""
    if page.evaluate("typeof axe") == "undefined":
        page.evaluate(Axe().axe_script)
    run = "([within, options]) => axe.run(within ?? document, options)"
    found = page.evaluate(run, [within, {"resultTypes": ["violations"], **options}])["violations"]
    return [
        f"{violation['id']}: {node['html'][:160]} ({' '.join(node.get('failureSummary', '').split())[:200]})"
        for violation in found
        if violation["impact"] in ("serious", "critical")
        for node in violation["nodes"]
    ]


def findings_of_a_long_page(page, looks_only: bool = False) -> list[str]:
    """The same of all rules, in steps: of what looks the same, one piece is looked at.

    With `looks_only` what depends on theme and width: contrast, and places that scroll.
    """
    found = findings(page, SCROLLING)  # while all are there that overflow
    page.evaluate(TAKE_AWAY)
    if not looks_only:
        found += findings(page, ALL_BUT_CONTRAST)
    page.evaluate(HIDE)
    found += findings(page, CONTRAST)
    page.evaluate("() => { show(); bringBack(); }")
    return found
