import io
import json
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from attnbook.__main__ import main
from attnbook.training import data, recipes
from attnbook.training.checkpoint import load_translator
from attnbook.training.recipes import Recipe

SIZES = {"d_model": 16, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 1, "d_ff": 32}
TINY = Recipe("grammar", "Transformer", SIZES, steps=4, batch_size=16, rate=1e-3, warmup_steps=2)


@pytest.fixture(autouse=True)
def _tiny(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ATTNBOOK_TATOEBA", raising=False)
    monkeypatch.setattr(data, "GRAMMAR_SIZES", {"train": 60, "valid": 6, "test": 8})
    monkeypatch.setitem(recipes.RECIPES, "tiny", TINY)
    monkeypatch.setitem(recipes.RECIPES, "tiny-tatoeba", replace(TINY, corpus="tatoeba"))
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def checkpoint(tmp_path):
    assert main(["train", "tiny", "--quiet", "--threads", "1"]) == 0
    return tmp_path / "runs" / "tiny.safetensors"


def test_train_evaluate_translate(checkpoint, capsys):
    capsys.readouterr()
    assert main(["evaluate", str(checkpoint), "--record", "--threads", "1"]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores["sentences"] == 8
    assert load_translator(checkpoint).about["scores"] == {"test": scores}
    assert main(["translate", str(checkpoint), "汤姆喝茶。", "", "--beam", "2", "--alpha", "1"]) == 0
    lines = capsys.readouterr().out.split("\n")
    assert len(lines) == 3
    assert lines[1] == ""


def test_translate_reads_lines_where_no_text_is_given(checkpoint, capsys, monkeypatch):
    capsys.readouterr()
    monkeypatch.setattr("sys.stdin", io.StringIO("汤姆喝茶。\n\n我们看书。\n"))
    assert main(["translate", str(checkpoint)]) == 0
    lines = capsys.readouterr().out.split("\n")
    assert len(lines) == 4
    assert lines[1] == ""


def test_ctrl_c_says_how_to_go_on_and_the_same_command_does(tmp_path, capsys, monkeypatch):
    from attnbook.training import fit

    real, calls = fit.cross_entropy, []

    def press_ctrl_c(*arguments, **options):
        calls.append(1)
        if len(calls) == 2:
            signal.raise_signal(signal.SIGINT)
        return real(*arguments, **options)

    monkeypatch.setattr(fit, "cross_entropy", press_ctrl_c)
    assert main(["train", "tiny", "--threads", "1"]) == 130
    assert "the same command goes on from runs/tiny.state" in capsys.readouterr().err
    assert not (tmp_path / "runs" / "tiny.safetensors").exists()
    assert main(["train", "tiny", "--threads", "1"]) == 0
    assert "resuming from runs/tiny.state" in capsys.readouterr().out
    assert len(calls) == 4
    assert (tmp_path / "runs" / "tiny.safetensors").exists()


def test_fresh_forgets_the_state(checkpoint, capsys):
    assert main(["train", "tiny", "--fresh", "--threads", "1"]) == 0
    output = capsys.readouterr().out
    assert "resuming" not in output
    assert "tiny 4/4, loss=" in output


def test_list_shows_every_recipe(capsys):
    assert main(["train", "list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(recipes.RECIPES)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "grammar-perceptron"], "recipe: expected one of 'grammar-rnn', "),
        (["train", "tiny-tatoeba"], "manythings.org"),
        (["train", "tiny-tatoeba", "--data", "nowhere.txt"], "found no file nowhere.txt"),
        (["train", "tiny", "--threads", "0"], "threads: expected a positive int, found 0"),
        (["seeds", "tiny-tatoeba"], "recipe: expected one of 'grammar-rnn', "),
        (["seeds", "tiny", "--seeds", "-1"], "seeds: expected ints of at least 0, found -1"),
        (["evaluate", "nowhere"], "nowhere: no such file, and no checkpoint of that name"),
        (["translate", "broken.safetensors", "茶"], "broken.safetensors: not a checkpoint of attnbook"),
    ],
)
def test_error_of_the_user_is_one_line_and_no_traceback(arguments, message, tmp_path, capsys):
    (tmp_path / "broken.safetensors").write_bytes(b"broken")
    assert main(arguments) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert message in error
    assert error.count("\n") == 1


def test_beam_of_width_zero_is_explained(checkpoint, capsys):
    assert main(["translate", str(checkpoint), "茶", "--beam", "0"]) == 1
    assert "error: beam_width: expected a positive int, found 0" in capsys.readouterr().err


@pytest.mark.parametrize("command", [[], ["train"], ["evaluate"], ["seeds"], ["translate"]])
def test_help_explains_each_command(command, capsys):
    with pytest.raises(SystemExit) as exit_:
        main([*command, "--help"])
    assert exit_.value.code == 0
    assert "usage: python -m attnbook" in capsys.readouterr().out


def test_unknown_option_is_a_usage_error(capsys):
    with pytest.raises(SystemExit) as exit_:
        main(["train", "tiny", "--fast"])
    assert exit_.value.code == 2
    assert "unrecognized arguments: --fast" in capsys.readouterr().err


def test_module_is_a_program():
    command = [sys.executable, "-m", "attnbook", "translate", "nowhere", "茶"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert done.stderr.startswith("error: nowhere: no such file")
