"""What axe-core finds in a page that some readers cannot read or reach."""

from axe_playwright_python.sync_playwright import Axe

SCROLLING = {"runOnly": ["scrollable-region-focusable"]}
CONTRAST = {"runOnly": ["color-contrast"]}


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

# Texts in pictures all stay: what is behind them is not in the styles.
HIDE = f"""within => {{
  const isText = node => node.nodeType === Node.TEXT_NODE && node.data.trim();
  const isWritten = node => node instanceof HTMLElement && [...node.childNodes].some(isText);
  const found = [...document.querySelectorAll(`${{within ?? "body"}} *`)].filter(isWritten);
  {LOOKS}
  const hidden = [];
  for (const {{piece, isFirst, isVisible}} of looks) {{
    if (!isVisible) continue;
    hidden.push([piece, piece.style.visibility]);
    piece.style.visibility = isFirst ? "visible" : "hidden"; // in a hidden one too
  }}
  window.restore = () => {{
    for (const [piece, visibility] of hidden) piece.style.visibility = visibility;
  }};
}}"""

REMOVE = f"""() => {{
  const found = [...document.querySelectorAll("pre span:not(:has(*)), mjx-container > *")];
  {LOOKS}
  for (const {{piece, isFirst}} of looks) if (!isFirst) piece.remove();
}}"""


def findings(page, options: dict, within: str | None = None) -> list[str]:
    """What the rules of `options` find that is serious or critical."""
    axe = Axe()
    if page.evaluate("typeof axe") == "undefined":
        page.evaluate(axe.axe_script)
    run = "([within, options]) => axe.run(within ?? document, options)"
    found = page.evaluate(run, [within, {"resultTypes": ["violations"], **options}])["violations"]
    return [
        f"{violation['id']}: {node['html'][:160]} ({' '.join(node.get('failureSummary', '').split())[:200]})"
        for violation in found
        if violation["impact"] in ("serious", "critical")
        for node in violation["nodes"]
    ]


def contrasts(page, within: str | None = None) -> list[str]:
    """Texts that stand out too little; of each look on each ground, one text is looked at."""
    page.evaluate(HIDE, within)
    found = findings(page, CONTRAST, within)
    page.evaluate("() => restore()")
    return found


def thin_out(page) -> None:
    """Take away all pieces of code and formulas but one of each look: a page has thousands."""
    page.evaluate(REMOVE)
