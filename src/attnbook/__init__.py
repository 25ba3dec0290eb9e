"""Sequence models from feed-forward nets to the Transformer, each written to be read.

The concept modules are imported here in the reading order of the course; their public names are also
names of the package: `attnbook.MultiHeadAttention`.
"""

from attnbook.attention import *
from attnbook.attention import __all__ as _attention
from attnbook.notebook import get_language, set_language, show_source
from attnbook.position import *
from attnbook.position import __all__ as _position

__all__ = [*_attention, *_position, "get_language", "set_language", "show_source"]
