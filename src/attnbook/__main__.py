"""The command line: `python -m attnbook train | evaluate | seeds | translate`."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

OUTPUT_FOLDER = Path("runs")
TATOEBA_HELP = "the Tatoeba file cmn.txt (default: the environment variable ATTNBOOK_TATOEBA)"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status: 0 done, 1 an error that was explained, 130 Ctrl-C."""
    options = parser().parse_args(arguments)
    # torch is imported only here, so that --help and mistyped options answer at once.
    from attnbook.training.files import FileError

    try:
        options.command(options)
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output, such as `head`, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (FileError, FileNotFoundError, ModuleNotFoundError, ArithmeticError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    whole = argparse.ArgumentParser(
        prog="python -m attnbook", description="Train, measure and use the translators of the course."
    )
    commands = whole.add_subparsers(required=True, metavar="command")

    command = _command(commands, "train", train, "train a model as a recipe says; call again to resume")
    command.add_argument("recipe", help="a name; `list` shows all of them")
    command.add_argument("--output", type=Path, help="the checkpoint (default: runs/RECIPE.safetensors)")
    command.add_argument("--state", type=Path, help="the state to resume from (default: runs/RECIPE.state)")
    command.add_argument("--fresh", action="store_true", help="forget the state, train from the start")
    command.add_argument("--data", type=Path, help=TATOEBA_HELP)
    command.add_argument("--download", type=Path, metavar="FOLDER", help="fetch the Tatoeba file into FOLDER")
    command.add_argument("--threads", type=int, help="threads of each process (default: torch's choice)")
    command.add_argument("--quiet", action="store_true", help="show no progress")

    command = _command(commands, "evaluate", evaluate, "measure a checkpoint on its test set")
    command.add_argument("checkpoint", help="a file, or the name of a shipped checkpoint")
    command.add_argument("--split", choices=("valid", "test"), default="test", help="default: test")
    command.add_argument("--data", type=Path, help=TATOEBA_HELP)
    command.add_argument("--record", action="store_true", help="write the scores into the file")
    command.add_argument("--threads", type=int, help="threads (default: torch's choice)")

    command = _command(commands, "seeds", seeds, "train recipes from several seeds and measure each run")
    command.add_argument(
        "recipes", nargs="+", metavar="recipe", help="names of recipes on the built-in corpus"
    )
    command.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3], help="default: 0 1 2 3")
    command.add_argument(
        "--output", type=Path, default=OUTPUT_FOLDER / "seeds.json", help="the scores (default: %(default)s)"
    )
    command.add_argument("--threads", type=int, help="threads (default: torch's choice)")
    command.add_argument("--quiet", action="store_true", help="show no progress")

    command = _command(commands, "translate", translate, "translate Chinese text into English")
    command.add_argument("checkpoint", help="a file, or the name of a shipped checkpoint")
    command.add_argument("text", nargs="*", help="a text each; without any, the lines of standard input")
    command.add_argument(
        "--beam", type=int, metavar="WIDTH", help="hypotheses at once (default: the recipe's)"
    )
    command.add_argument("--alpha", type=float, help="strength of the length penalty (default: the recipe's)")
    command.add_argument("--threads", type=int, help="threads (default: torch's choice)")
    return whole


def _command(commands: Any, name: str, function: Callable, description: str) -> argparse.ArgumentParser:
    command = commands.add_parser(
        name, help=description, description=description[0].upper() + description[1:]
    )
    command.set_defaults(command=function)
    return command


def train(options: argparse.Namespace) -> None:
    """`train RECIPE`."""
    import torch.distributed as dist

    from attnbook._validation import check_choice
    from attnbook.text.tatoeba import download
    from attnbook.training.recipes import RECIPES
    from attnbook.training.runs import train

    if options.recipe == "list":
        for name, recipe in RECIPES.items():
            print(f"{name:24}{recipe.model:14}{recipe.steps:6} steps on the corpus {recipe.corpus}")
        return
    check_choice(tuple(RECIPES), recipe=options.recipe)
    _set_threads(options.threads)
    output = options.output or OUTPUT_FOLDER / f"{options.recipe}.safetensors"
    state = options.state or OUTPUT_FOLDER / f"{options.recipe}.state"
    if "RANK" in os.environ:  # started by torchrun: several processes share each batch
        dist.init_process_group("gloo")
    first = not dist.is_initialized() or dist.get_rank() == 0
    try:
        if first:
            if options.fresh:
                state.unlink(missing_ok=True)
            elif state.exists() and not options.quiet:
                print(f"resuming from {state}")
            if options.download is not None:
                download(options.download)
        if dist.is_initialized():
            dist.barrier()
        data = options.data or (options.download and options.download / "cmn.txt")
        _, history = train(
            options.recipe, RECIPES[options.recipe], output, state, data, show=not options.quiet
        )
    except KeyboardInterrupt:
        if first:
            print(f"\nstopped; the same command goes on from {state}", file=sys.stderr)
        raise
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
    if first:
        print(f"{output}: step {history.best_step}, validation score {history.best_score:.4g}")


def evaluate(options: argparse.Namespace) -> None:
    """`evaluate CHECKPOINT`."""
    from attnbook.training.checkpoint import find_checkpoint, load_translator, save_translator
    from attnbook.training.runs import evaluate

    _set_threads(options.threads)
    path = find_checkpoint(options.checkpoint)
    translator = load_translator(path)
    scores = evaluate(translator, options.data, options.split)
    print(json.dumps(scores, indent=2))
    if options.record:
        translator.about["scores"] = {**translator.about["scores"], options.split: scores}
        save_translator(path, translator)
        print(f"recorded in {path}", file=sys.stderr)


def seeds(options: argparse.Namespace) -> None:
    """`seeds RECIPE ...`."""
    from attnbook.training.comparison import run_seeds

    _set_threads(options.threads)
    run_seeds(options.recipes, options.seeds, options.output, OUTPUT_FOLDER, show=not options.quiet)


def translate(options: argparse.Namespace) -> None:
    """`translate CHECKPOINT [TEXT ...]`."""
    from attnbook.training.checkpoint import load_translator

    _set_threads(options.threads)
    translator = load_translator(options.checkpoint)
    if not options.text and sys.stdin.isatty():
        print("Chinese text, a line each; Ctrl-D ends.", file=sys.stderr)
    for text in options.text or sys.stdin:
        print(translator.translate(text, options.beam, options.alpha), flush=True)


def _set_threads(threads: int | None) -> None:
    if threads is not None:
        import torch

        from attnbook._validation import check_positive

        check_positive(threads=threads)
        torch.set_num_threads(threads)


if __name__ == "__main__":
    sys.exit(main())
