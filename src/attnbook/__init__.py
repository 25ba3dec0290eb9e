"""Sequence models from feed-forward nets to the Transformer, each written to be read.

The concept modules stand here in the reading order of the course. Their public names are also names of the
package: `attnbook.MultiHeadAttention`.
"""

from attnbook.feedforward import *
from attnbook.recurrent import *
from attnbook.convolution import *
from attnbook.attention import *
from attnbook.normalization import *
from attnbook.position import *
from attnbook.seq2seq import *
from attnbook.transformer import *
from attnbook.convolutional_seq2seq import *
from attnbook.gpt import *
from attnbook.notebook import get_language, set_language, show_source

# An import binds the module here, too: these are the modules above, those that say what is public, in order.
CONCEPTS = tuple(module for module in vars().values() if hasattr(module, "__all__"))

__all__ = [name for concept in CONCEPTS for name in concept.__all__]
__all__ += ["get_language", "set_language", "show_source"]
