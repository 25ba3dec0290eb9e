"""Keeps a formula and the punctuation after it on one line.

Browsers may break a line next to a formula, which is a box to them, so that a line could begin with a comma.
"""

import re

from docutils import nodes
from sphinx.transforms import SphinxTransform

_CLOSING = re.compile(r"[，。；：！？、）》」』”’,.;:!?)\]]+")


class KeepPunctuation(SphinxTransform):
    """Puts each formula and the punctuation that follows it into one element of class `nobreak`."""

    default_priority = 500

    def apply(self, **kwargs: object) -> None:
        for formula in list(self.document.findall(nodes.math)):
            following = formula.next_node(descend=False, siblings=True)
            match = isinstance(following, nodes.Text) and _CLOSING.match(following)
            if not match:
                continue
            parent, place = formula.parent, formula.parent.index(formula)
            rest = following[match.end() :]
            together = nodes.inline("", "", formula.deepcopy(), nodes.Text(match[0]), classes=["nobreak"])
            parent[place : place + 2] = [together, *([nodes.Text(rest)] if rest else [])]
