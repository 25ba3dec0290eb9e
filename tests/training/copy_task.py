"""A tiny task for the tests of training: copy the source. Also run as a script, to be killed or in torchrun.

    python copy_task.py STATE RESULT [SECONDS_A_STEP]

trains for 12 steps and writes losses and weights to RESULT.
"""

import os
import sys
import time
from pathlib import Path
from random import Random

import torch
import torch.distributed as dist

from attnbook.text.batching import batches
from attnbook.training.files import write_tensors
from attnbook.training.fit import History, fit
from attnbook.transformer import Transformer, TransformerConfig

STEPS = 12
random = Random(0)
SENTENCES = [[random.randrange(4, 12) for _ in range(random.randrange(1, 7))] for _ in range(30)]
PAIRS = [([*sentence, 2], [1, *sentence, 2]) for sentence in SENTENCES]


def tiny_model(dropout: float = 0.1) -> Transformer:
    torch.manual_seed(1)
    return Transformer(
        TransformerConfig(
            12,
            12,
            d_model=16,
            num_heads=2,
            num_encoder_layers=1,
            num_decoder_layers=1,
            d_ff=32,
            dropout=dropout,
        )
    )


def epoch_batches(epoch: int) -> list:
    return list(batches(PAIRS, batch_size=7, seed=0, epoch=epoch))  # 5 batches, the last of 2 pairs


def train(model: Transformer, state: Path | None = None, steps: int = STEPS, **options) -> History:
    options = {
        "label_smoothing": 0.1,
        "average": 0.9,
        "validate": lambda model: {"score": -sum(p.abs().sum().item() for p in model.parameters())},
        "validate_every": 5,
        "save_every": 1,
        "show": False,
    } | options
    return fit(model, epoch_batches, steps, lambda step: 0.01 / step, state=state, **options)


def main(state: str, result: str, seconds_a_step: str = "0") -> None:
    distributed = "RANK" in os.environ
    if distributed:
        dist.init_process_group("gloo")
    model = tiny_model(dropout=0.0 if distributed else 0.1)
    model.register_forward_hook(lambda *_: time.sleep(float(seconds_a_step)))
    history = train(model, Path(state))
    if not distributed or dist.get_rank() == 0:
        weights = {name: value.detach() for name, value in model.named_parameters()}
        write_tensors(result, weights, {"losses": history.losses})
    if distributed:
        dist.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(*sys.argv[1:])
