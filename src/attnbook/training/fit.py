r"""The training loop, written to be read: forward, loss, backward, clip, step; again.

Around those five lines stands what a run of an hour needs:

- **Resume.** From time to time the whole state goes to a file: weights, Adam's moments, averages, place in
  the data. A run that was killed goes on from the file exactly as it would have gone on. Nothing random is
  kept in it, because there is nothing to keep: the order of an epoch is a function of seed and epoch, and the
  dropout of a step one of seed and step.
- **Averaged weights** (Polyak & Juditsky 1992). The last steps circle around a good place; the running
  average $\bar\theta \leftarrow \beta\bar\theta + (1 - \beta)\theta$ is nearer to it than any of them.
- **Several processes** (`torchrun`). Each computes the gradient of its rows of every batch; the sum of these
  is the gradient of the batch, because the loss is a sum over words divided by the words of all rows.
"""

import copy
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from attnbook._validation import check_choice, check_positive, check_probability
from attnbook.text.batching import Batch
from attnbook.training.files import FileError, read_tensors, write_tensors
from attnbook.training.losses import cross_entropy
from attnbook.training.progress import Progress

__all__ = ["History", "fit"]


@dataclass
class History:
    """What happened in a run; all of it is in the state file too.

    `losses` has the training loss of every step, `validations` what `validate` returned, with the step.
    """

    step: int = 0
    epoch: int = 0
    position: int = 0  # batches of this epoch that were done
    words: int = 0  # target words seen
    seconds: float = 0.0
    best_step: int = 0
    best_score: float = -math.inf
    losses: list[float] = field(default_factory=list)
    validations: list[dict[str, float]] = field(default_factory=list)


def fit(
    model: nn.Module,
    batches: Callable[[int], Sequence[Batch]],
    steps: int,
    learning_rate: Callable[[int], float],
    *,
    label_smoothing: float = 0.0,
    clip: float = 1.0,
    weight_decay: float = 0.0,
    average: float | None = None,
    precision: str = "float32",
    validate: Callable[[nn.Module], dict[str, float]] | None = None,
    validate_every: int = 500,
    patience: int | None = None,
    state: str | Path | None = None,
    save_every: int = 500,
    run: dict[str, Any] | None = None,
    seed: int = 0,
    label: str = "train",
    show: bool = True,
) -> History:
    """Train `model` with Adam (Vaswani et al. 2017, section 5.3); it ends with the best weights of all.

    Args:
        model: maps ids (src, tgt without its last token) to logits (batch, target, vocab).
        batches: the batches of an epoch (see `attnbook.text.batching`), given its number from 0 on; the same
            number gives the same batches.
        steps: number of steps after which the run ends.
        learning_rate: the rate at a step, counted from 1.
        label_smoothing: of the training loss.
        clip: the largest norm of a gradient; a longer one is shortened to it (Pascanu et al. 2013).
        weight_decay: decoupled from the gradient (Loshchilov & Hutter 2019).
        average: β of the running average of the weights; it is then what is validated and what remains. Over
            the first steps the average is shorter: β is at most (1 + step) / (10 + step).
        precision: "float32", or "bfloat16" for the products of matrices (autocast).
        validate: measures a model; its "score" decides which weights are the best, the larger the better.
            Without it the last weights remain.
        validate_every: steps between two validations.
        patience: stop after so many validations without a better score; None never stops early.
        state: file to resume from if it exists, and to save to; None keeps nothing.
        save_every: steps between two saves; a validation and Ctrl-C save too.
        run: what the run is (recipe, data); a state file of another run is refused.
        seed: of dropout.
        label: the first word of the progress line.
        show: False shows no progress.

    Returns:
        What happened, from the first step on, also of a run that was resumed.

    Raises:
        FileError: the state file cannot be read or written, or is of another run.
        ArithmeticError: a gradient that is infinite or NaN; the state file is of an earlier step.
        KeyboardInterrupt: Ctrl-C; the step was finished and the state saved. (A second Ctrl-C waits for
            nothing.)
        TypeError, ValueError: arguments that make no sense.
    """
    check_positive(steps=steps, validate_every=validate_every, save_every=save_every)
    check_probability(label_smoothing=label_smoothing)
    check_choice(("float32", "bfloat16"), precision=precision)
    if average is not None:
        check_probability(average=average)
    if patience is not None:
        check_positive(patience=patience)
    rank, world = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9, weight_decay=weight_decay, fused=True
    )
    models = {"model": model}  # all the weights that a state file has to keep
    if average is not None:
        models["averaged"] = copy.deepcopy(model)
    if validate is not None:
        models["best"] = copy.deepcopy(model)
    averaged = models.get("averaged", model)
    best = models.get("best", averaged)
    run = {**(run or {}), "seed": seed}
    history = History()
    if state is not None and Path(state).exists():
        history = _load_state(Path(state), models, optimizer, run)

    def save() -> None:
        if state is not None and rank == 0:
            _save_state(Path(state), models, optimizer, run, history)

    def stops_early() -> bool:
        later = sum(validation["step"] > history.best_step for validation in history.validations)
        return patience is not None and later >= patience

    device = next(model.parameters()).device
    model.train()
    epoch_batches = batches(history.epoch)
    progress = Progress(steps, history.step, label, show=show and rank == 0)
    with progress, _ctrl_c_as_flag() as interrupted, torch.random.fork_rng(devices=[]):
        while history.step < steps and not stops_early():
            started = time.monotonic()
            if history.position == len(epoch_batches):
                history.epoch, history.position = history.epoch + 1, 0
                epoch_batches = batches(history.epoch)
            batch = epoch_batches[history.position].to(device)
            src, tgt = batch.src[rank::world], batch.tgt[rank::world]  # the rows of this process
            rate = learning_rate(history.step + 1)
            for group in optimizer.param_groups:
                group["lr"] = rate
            torch.manual_seed(_mix(seed, history.step, rank))

            optimizer.zero_grad()
            loss = torch.zeros((), device=device)
            if len(src):
                with _bfloat16(device) if precision == "bfloat16" else nullcontext():
                    logits = model(src, tgt[:, :-1])  # (batch, target, vocab)
                loss = cross_entropy(logits, tgt[:, 1:], label_smoothing, reduction="sum") / batch.num_tokens
                loss.backward()
            loss, stop = _sum_over_processes(model, loss.detach(), interrupted.is_set())
            norm = nn.utils.clip_grad_norm_(model.parameters(), clip)
            if not norm.isfinite():
                raise ArithmeticError(f"step {history.step + 1}: the norm of the gradient is {norm.item()}")
            optimizer.step()

            history.step, history.position = history.step + 1, history.position + 1
            if average is not None:
                _average(averaged, model, min(average, (1 + history.step) / (10 + history.step)))
            history.words += batch.num_tokens
            history.losses.append(loss)
            history.seconds += time.monotonic() - started
            speed = history.words / history.seconds
            progress.advance(loss=f"{loss:.3f}", rate=f"{rate:.1e}", tokens_per_s=f"{speed:.0f}")

            validation_is_due = history.step % validate_every == 0 or history.step == steps
            if validate is not None and validation_is_due:
                _validate(validate, averaged, best, history, progress)
                model.train()
            if stop or history.step % save_every == 0 or (validate is not None and validation_is_due):
                save()
            if stop:
                raise KeyboardInterrupt
    save()
    if best is not model:
        model.load_state_dict(best.state_dict())
    return history


def _validate(validate, averaged: nn.Module, best: nn.Module, history: History, progress: Progress) -> None:
    """Measure the weights (in the first process, for all) and keep them if they are the best so far."""
    averaged.eval()
    scores: dict[str, float] = {"score": 0.0}
    if not dist.is_initialized() or dist.get_rank() == 0:
        with torch.no_grad():
            scores = {name: float(value) for name, value in validate(averaged).items()}
    if dist.is_initialized():
        score = torch.tensor(scores["score"], dtype=torch.float64)
        dist.broadcast(score, src=0)
        scores["score"] = score.item()
    history.validations.append({"step": history.step, **scores})
    if scores["score"] > history.best_score:
        history.best_score, history.best_step = scores["score"], history.step
        best.load_state_dict(averaged.state_dict())
    shown = ", ".join(f"{name} {value:.4g}" for name, value in scores.items())
    mark = " (best)" if history.best_step == history.step else ""
    progress.write(f"step {history.step}, epoch {history.epoch}: {shown}{mark}")


def _sum_over_processes(model: nn.Module, loss: Tensor, stop: bool) -> tuple[float, bool]:
    """Sums gradients and loss over all processes; any process's wish to stop stops all of them."""
    if not dist.is_initialized():
        return loss.item(), stop
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
    parts = [loss.reshape(1), loss.new_tensor([float(stop)]), *(gradient.flatten() for gradient in gradients)]
    summed = torch.cat(parts)  # one message instead of one for each parameter
    dist.all_reduce(summed)
    sizes = [1, 1, *(parameter.numel() for parameter in parameters)]
    loss, stop, *gradients = summed.split(sizes)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient.view_as(parameter)
    return loss.item(), stop.item() > 0


@torch.no_grad()
def _average(averaged: nn.Module, model: nn.Module, beta: float) -> None:
    ours, theirs = list(averaged.parameters()), list(model.parameters())
    torch._foreach_lerp_(ours, theirs, 1 - beta)


@contextmanager
def _bfloat16(device: torch.device) -> Iterator[None]:
    """Products of matrices in bfloat16; attention in plain steps, whose backward pass is faster in it."""
    with torch.autocast(device.type, torch.bfloat16), sdpa_kernel(SDPBackend.MATH):
        yield


def _mix(seed: int, step: int, rank: int) -> int:
    """One seed out of three numbers: different for different steps and processes."""
    return (seed * 1_000_003 + step) * 1_009 + rank


@contextmanager
def _ctrl_c_as_flag() -> Iterator[threading.Event]:
    """Within it the first Ctrl-C only sets the flag, so that no step is left half done."""
    flag = threading.Event()
    if threading.current_thread() is not threading.main_thread():  # only the main thread gets signals
        yield flag
        return
    before = signal.getsignal(signal.SIGINT)

    def on_signal(number: int, frame: Any) -> None:
        flag.set()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, on_signal)
    try:
        yield flag
    finally:
        signal.signal(signal.SIGINT, before)


def _save_state(path: Path, models: dict[str, nn.Module], optimizer, run: dict, history: History) -> None:
    tensors = {f"{kind}.{name}": value for kind in models for name, value in _named_tensors(models[kind])}
    for index, moments in optimizer.state_dict()["state"].items():
        tensors.update({f"optimizer.{index}.{name}": value for name, value in moments.items()})
    write_tensors(path, tensors, {"run": run, "history": asdict(history)})


@torch.no_grad()
def _load_state(path: Path, models: dict[str, nn.Module], optimizer, run: dict) -> History:
    tensors, metadata = read_tensors(path)
    if "history" not in metadata:
        raise FileError(f"{path}: not the state of a training run")
    if metadata["run"] != run:
        names = sorted({*run, *metadata["run"]})
        differing = [name for name in names if run.get(name) != metadata["run"].get(name)]
        raise FileError(
            f"{path}: the state of another run (its {', '.join(differing)} differ); "
            "move it away to train from the start"
        )
    moments: dict[int, dict[str, Tensor]] = {}
    try:
        for kind, module in models.items():
            for name, value in _named_tensors(module):
                value.copy_(tensors[f"{kind}.{name}"])
        for name, value in tensors.items():
            if name.startswith("optimizer."):
                _, index, moment = name.split(".")
                moments.setdefault(int(index), {})[moment] = value
    except (KeyError, RuntimeError) as error:
        raise FileError(f"{path}: the state of another model ({error})") from error
    optimizer.load_state_dict({"state": moments, "param_groups": optimizer.state_dict()["param_groups"]})
    return History(**metadata["history"])


def _named_tensors(module: nn.Module) -> list[tuple[str, Tensor]]:
    """Parameters and buffers; a matrix that two layers share stands there once."""
    return [(name, value.detach()) for name, value in [*module.named_parameters(), *module.named_buffers()]]
