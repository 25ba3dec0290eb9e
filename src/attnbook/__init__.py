"""Sequence models from feed-forward nets to the Transformer, each written to be read.

The concept modules stand here in the reading order of the course. Their public names are also names of the
package: `attnbook.MultiHeadAttention`.
"""

from attnbook import (
    feedforward,
    recurrent,
    convolution,
    attention,
    normalization,
    position,
    seq2seq,
    transformer,
    convolutional_seq2seq,
    gpt,
)
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

CONCEPTS = (
    feedforward,
    recurrent,
    convolution,
    attention,
    normalization,
    position,
    seq2seq,
    transformer,
    convolutional_seq2seq,
    gpt,
)

__all__ = [name for concept in CONCEPTS for name in concept.__all__]
__all__ += ["get_language", "set_language", "show_source"]
