import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from copy_task import STEPS, epoch_batches, tiny_model, train

from attnbook.training.files import FileError, read_metadata, read_tensors
from attnbook.training.fit import fit

SCRIPT = Path(__file__).with_name("copy_task.py")


def weights(model):
    return {name: value.detach().clone() for name, value in model.named_parameters()}


def assert_same(ours, theirs):
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        assert torch.equal(value, theirs[name]), name


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory):
    """A run from the first step to the last, without interruption."""
    model = tiny_model()
    history = train(model, tmp_path_factory.mktemp("whole") / "state")
    return history, weights(model)


def test_model_learns_the_task():
    model = tiny_model(dropout=0.0)
    history = fit(model, epoch_batches, 150, lambda step: 0.01, show=False)
    assert history.losses[0] > 2
    assert sum(history.losses[-5:]) / 5 < 0.3


def test_one_step_is_adam_on_the_mean_loss():
    model, twin = tiny_model(dropout=0.0), tiny_model(dropout=0.0)
    fit(model, epoch_batches, 1, lambda step: 0.01, label_smoothing=0.1, clip=1.0, show=False)
    batch = epoch_batches(0)[0]
    optimizer = torch.optim.Adam(twin.parameters(), lr=0.01, betas=(0.9, 0.98), eps=1e-9)
    logits = twin(batch.src, batch.tgt[:, :-1])
    torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), batch.tgt[:, 1:].flatten(), ignore_index=0, label_smoothing=0.1
    ).backward()
    torch.nn.utils.clip_grad_norm_(twin.parameters(), 1.0)
    optimizer.step()
    for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-5)


def test_run_that_ends_and_goes_on_equals_the_whole_run(tmp_path, whole_run):
    for steps in (1, 4, 5, 8):  # in the middle of an epoch, at its end, at a validation
        state = tmp_path / f"state-{steps}"
        _stop_after(steps, tiny_model(), state)
        model = tiny_model()
        history = train(model, state)
        assert history.losses == whole_run[0].losses
        assert history.validations == whole_run[0].validations
        assert_same(weights(model), whole_run[1])


def _stop_after(steps, model, state):
    """Ctrl-C while the given step is computed."""
    calls = []

    def press_ctrl_c(*_):
        calls.append(1)
        if len(calls) == steps:
            signal.raise_signal(signal.SIGINT)

    handle = model.register_forward_hook(press_ctrl_c)
    with pytest.raises(KeyboardInterrupt):
        train(model, state)
    handle.remove()


def test_ctrl_c_finishes_the_step_and_saves(tmp_path):
    state = tmp_path / "state"
    handler = signal.getsignal(signal.SIGINT)
    _stop_after(3, tiny_model(), state)
    assert read_metadata(state)["history"]["step"] == 3
    assert signal.getsignal(signal.SIGINT) is handler


def test_killed_run_goes_on_as_if_nothing_had_happened(tmp_path, whole_run):
    state, result = tmp_path / "state", tmp_path / "result"
    command = [sys.executable, str(SCRIPT), str(state), str(result), "0.05"]
    process = subprocess.Popen(command, env=_environment())
    while not (state.exists() and read_metadata(state)["history"]["step"] >= 2):
        assert process.poll() is None, "the run ended before it could be killed"
        time.sleep(0.01)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert not result.exists()
    assert 2 <= read_metadata(state)["history"]["step"] < STEPS
    model = tiny_model()
    history = train(model, state)
    assert history.losses == whole_run[0].losses
    assert_same(weights(model), whole_run[1])


def test_two_processes_of_torchrun_give_the_losses_of_one(tmp_path):
    result = tmp_path / "result"
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*launcher, str(SCRIPT), str(tmp_path / "state"), str(result)]
    subprocess.run(command, env=_environment(), check=True, capture_output=True, timeout=300)
    found, metadata = read_tensors(result)
    model = tiny_model(dropout=0.0)
    history = train(model, tmp_path / "one")
    assert metadata["losses"] == pytest.approx(history.losses, rel=1e-5)
    for name, value in weights(model).items():
        torch.testing.assert_close(found[name], value, atol=1e-5, rtol=1e-4)


def _environment():
    root = str(SCRIPT.parent)
    return {**os.environ, "PYTHONPATH": root, "OMP_NUM_THREADS": "1"}


def test_full_disk_leaves_the_state_that_was_there(tmp_path):
    state = tmp_path / "state"
    train(tiny_model(), state, steps=2)
    before = state.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, hard))  # writing stops half way
    try:
        with pytest.raises(FileError, match=r"state: cannot be written .* what was there before is kept"):
            train(tiny_model(), state, steps=4)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert state.read_bytes() == before
    assert list(tmp_path.iterdir()) == [state]
    assert train(tiny_model(), state, steps=4).step == 4


def test_state_of_another_run_is_refused(tmp_path):
    state = tmp_path / "state"
    train(tiny_model(), state, steps=2, run={"recipe": "a", "data": 1})
    with pytest.raises(FileError, match=r"state: the state of another run \(its recipe, seed differ\)"):
        train(tiny_model(), state, run={"recipe": "b", "data": 1}, seed=3)


def test_truncated_state_is_refused(tmp_path):
    state = tmp_path / "state"
    train(tiny_model(), state, steps=2)
    state.write_bytes(state.read_bytes()[:-100])
    with pytest.raises(FileError, match="state: not a checkpoint of attnbook, or only a part of one"):
        train(tiny_model(), state)


def test_average_follows_the_weights():
    model, averaged = tiny_model(), {}
    path, beta = [], 0.5
    train(
        model,
        steps=4,
        average=beta,
        validate_every=1,
        validate=lambda model: averaged.update(weights(model)) or {"score": 0.0},
    )
    for steps in range(1, 5):
        twin = tiny_model()
        train(twin, steps=steps, average=None, validate=None)
        path.append(weights(twin))
    expected = weights(tiny_model())
    for step, current in enumerate(path, start=1):
        share = min(beta, (1 + step) / (10 + step))
        expected = {name: share * expected[name] + (1 - share) * current[name] for name in expected}
    for name, value in expected.items():
        torch.testing.assert_close(averaged[name], value)


def test_best_weights_remain():
    seen = []

    def validate(model):
        seen.append(weights(model))
        return {"score": [0.1, 0.9, 0.5, 0.3][len(seen) - 1]}

    model = tiny_model()
    history = train(model, steps=8, validate_every=2, validate=validate)
    assert history.best_step == 4
    assert history.best_score == 0.9
    assert_same(weights(model), seen[1])


def test_early_stop_after_patience():
    history = train(tiny_model(), steps=12, validate_every=1, patience=2, validate=lambda _: {"score": 0.0})
    assert history.step == 3  # the first was the best, two were not better


def test_dropout_leaves_the_callers_random_numbers_alone():
    model = tiny_model()
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    train(model, steps=2)
    assert torch.equal(torch.rand(3), expected)


def test_infinite_gradient_stops_the_run_and_keeps_the_state(tmp_path):
    state = tmp_path / "state"
    train(tiny_model(), state, steps=3)
    before = state.read_bytes()
    model = tiny_model()
    model.register_forward_hook(lambda module, args, logits: logits * float("inf"))
    with pytest.raises(ArithmeticError, match="step 4: the norm of the gradient is nan"):
        train(model, state)
    assert state.read_bytes() == before


def test_bfloat16_trains_too():
    losses = train(tiny_model(dropout=0.0), average=None, validate=None, precision="bfloat16").losses
    exact = train(tiny_model(dropout=0.0), average=None, validate=None).losses
    assert losses != exact
    assert losses == pytest.approx(exact, rel=0.02)


def test_progress_is_plain_lines_where_there_is_no_terminal(capsys):
    train(tiny_model(), show=True, label="copy")
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2].startswith("copy 12/12, loss=")
    assert "tokens_per_s=" in lines[-2]
    assert lines[-2].endswith("0.0 min left")
    assert lines[-1].startswith("step 12, epoch 2: score ")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"steps": 0}, ValueError, "steps"),
        ({"label_smoothing": 1.0}, ValueError, "label_smoothing"),
        ({"average": 1.0}, ValueError, "average"),
        ({"patience": 0}, ValueError, "patience"),
        ({"precision": "float16"}, ValueError, "precision"),
    ],
)
def test_fit_refuses_what_makes_no_sense(options, error, message):
    with pytest.raises(error, match=message):
        train(tiny_model(), **options)


def test_state_is_read_without_pickle(tmp_path):
    state = tmp_path / "state"
    train(tiny_model(), state, steps=1)
    header = json.loads(state.read_bytes()[8 : 8 + int.from_bytes(state.read_bytes()[:8], "little")])
    assert set(header) >= {"__metadata__", "model.decoder.0.norm_1.weight", "optimizer.0.exp_avg"}
