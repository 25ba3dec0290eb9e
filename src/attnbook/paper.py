"""What Vaswani et al. 2017 print about the sizes of their models, to be set beside ours.

Appendix B and the tests read it: table 3 row by row, and the two vocabularies that come into question.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import nn

from attnbook._validation import check_positive
from attnbook.attention import MultiHeadAttention
from attnbook.transformer import Transformer, TransformerConfig

__all__ = ["CODE_VOCABULARY", "PAPER_VOCABULARY", "TABLE_3", "Variant", "build"]

# Section 5.1: "a shared source-target vocabulary of about 37000 tokens". The authors' published code
# (tensor2tensor, problem `wmt_ende_bpe32k`) gives the embedding 40960 rows for it.
PAPER_VOCABULARY, CODE_VOCABULARY = 37_000, 40_960


@dataclass(frozen=True)
class Variant:
    """A row of table 3: its name, what differs from the base model, and the printed parameters in millions.

    `changes` holds fields of `TransformerConfig`, and `d_k` where queries and keys are narrower than d / h.
    """

    name: str
    millions: int
    changes: Mapping[str, float] = field(default_factory=dict)


BIG = {"d_model": 1024, "d_ff": 4096, "num_heads": 16, "dropout": 0.3}

TABLE_3 = (
    Variant("base", 65),
    Variant("(A) h = 1", 65, {"num_heads": 1}),
    Variant("(A) h = 4", 65, {"num_heads": 4}),
    Variant("(A) h = 16", 65, {"num_heads": 16}),
    Variant("(A) h = 32", 65, {"num_heads": 32}),
    Variant("(B) d_k = 16", 58, {"d_k": 16}),
    Variant("(B) d_k = 32", 60, {"d_k": 32}),
    Variant("(C) N = 2", 36, {"num_encoder_layers": 2, "num_decoder_layers": 2}),
    Variant("(C) N = 4", 50, {"num_encoder_layers": 4, "num_decoder_layers": 4}),
    Variant("(C) N = 8", 80, {"num_encoder_layers": 8, "num_decoder_layers": 8}),
    Variant("(C) d_model = 256", 28, {"d_model": 256}),
    Variant("(C) d_model = 1024", 168, {"d_model": 1024}),
    Variant("(C) d_ff = 1024", 53, {"d_ff": 1024}),
    Variant("(C) d_ff = 4096", 90, {"d_ff": 4096}),
    Variant("(D) P_drop = 0", 65, {"dropout": 0.0}),
    Variant("(D) P_drop = 0.2", 65, {"dropout": 0.2}),
    Variant("big", 213, BIG),
)


def build(variant: Variant, vocabulary: int = PAPER_VOCABULARY) -> Transformer:
    """The model of a row, on the meta device: shapes without numbers, which take no memory."""
    check_positive(vocabulary=vocabulary)
    sizes = {name: value for name, value in variant.changes.items() if name != "d_k"}
    with torch.device("meta"):
        model = Transformer(dataclasses.replace(TransformerConfig.base(vocabulary, vocabulary), **sizes))
        for module in model.modules():
            # Rows (B) narrow queries and keys, but not values; `MultiHeadAttention` keeps all at d / h.
            if isinstance(module, MultiHeadAttention) and "d_k" in variant.changes:
                width = module.num_heads * variant.changes["d_k"]
                module.W_q = nn.Linear(module.d_model, width, bias=False)
                module.W_k = nn.Linear(module.d_model, width, bias=False)
    return model
