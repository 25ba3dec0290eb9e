"""Text: tokens, vocabularies, batches and two corpora.

The built-in corpus is `corpus()` (a written grammar, with gold word alignments; module `grammar`). Real
sentences come through `attnbook.text.tatoeba`, which is imported by who needs it.
"""

from attnbook.text.batching import Batch, batches, pad
from attnbook.text.grammar import Pair, corpus, count_pairs
from attnbook.text.normalize import normalize_chinese, normalize_english, to_simplified
from attnbook.text.subwords import BytePairEncoding
from attnbook.text.tokenizers import (
    CASING,
    detokenize_chinese,
    detokenize_english,
    learn_casing,
    tokenize_chinese,
    tokenize_english,
)
from attnbook.text.vocabulary import BOS, EOS, PAD, SPECIALS, UNK, Vocabulary

__all__ = [
    "BOS",
    "CASING",
    "EOS",
    "PAD",
    "SPECIALS",
    "UNK",
    "Batch",
    "BytePairEncoding",
    "Pair",
    "Vocabulary",
    "batches",
    "corpus",
    "count_pairs",
    "detokenize_chinese",
    "detokenize_english",
    "learn_casing",
    "normalize_chinese",
    "normalize_english",
    "pad",
    "to_simplified",
    "tokenize_chinese",
    "tokenize_english",
]
