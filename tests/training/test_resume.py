"""A run that was interrupted, killed or prolonged ends with the bytes of one that was not."""

import json
import os
import random
import shutil
import signal
import time

import pytest
from training.conftest import tables

from dglke_frugal.cli.train import main
from dglke_frugal.training.checkpoint.lock import alone


@pytest.fixture
def runs(runs, interpreter):
    runs.interpreter = interpreter
    return runs


def last_checkpoint(folder):
    return max([int(path.name[5:]) for path in folder.glob("checkpoints/step-*")], default=0)


def test_killed_at_twenty_moments(runs):
    """SIGKILL wherever the run is: starting, training, validating, in the middle of a checkpoint. Every second kill
    waits for a new checkpoint, so that the run gets on however slow the machine is."""
    flags = ["--checkpoint_interval", 40, "--valid", "--eval_interval", 90, "--eval_percent", 0.05, "--max_step"]
    arguments, folder = runs.arguments(*flags, 10**7)
    chance = random.Random(5)
    steps = [0]
    for moment in range(20):
        process = runs.process(["--resume", str(folder)] if (folder / "config.yaml").exists() else arguments)
        while moment % 2 and last_checkpoint(folder) == steps[-1]:
            assert process.poll() is None, process.communicate()[0]
            time.sleep(0.001)
        time.sleep(chance.uniform(0, 0.05 if moment % 2 else 0.8))
        assert process.poll() is None, process.communicate()[0]
        process.kill()
        process.communicate()
        if folder.exists() and not (folder / "config.yaml").exists():
            shutil.rmtree(folder)  # killed before the run had its flags: it starts again under the same name
        steps.append(last_checkpoint(folder))
    assert steps == sorted(steps)  # a kill costs no more than the work since the last checkpoint
    assert len(set(steps)) > 10
    last = steps[-1] + 13
    runs.resume(folder, "--max_step", last)
    whole = runs(*flags, last)
    assert tables(folder) == tables(whole)
    results = [json.loads((each / "result.json").read_text()) for each in (folder, whole)]
    for key in ("best_validation", "validation"):  # the last one may be of an earlier part
        assert results[0][key] == results[1][key]


def started(runs, arguments, folder, **options):
    """A process that has begun to train in the folder."""
    before = logged_lines(folder)
    process = runs.process(arguments, **options)
    while logged_lines(folder) < before + 2:
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.01)
    return process


def logged_lines(folder):
    path = folder / "metrics.jsonl"
    return len(path.read_text().splitlines()) if path.exists() else 0


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129),
                                          (signal.SIGUSR1, 138)])
def test_a_signal_ends_the_run_after_a_checkpoint(runs, number, code):
    arguments, folder = runs.arguments("--max_step", 10**7, "--log_interval", 50)
    process = started(runs, arguments, folder)
    process.send_signal(number)
    output, _ = process.communicate(timeout=180)
    assert process.returncode == code
    assert f"--resume {folder}" in output and "Traceback" not in output
    (checkpoint,) = folder.glob("checkpoints/step-*")
    step = int(checkpoint.name[5:])
    runs.resume(folder, "--max_step", step + 7)
    assert tables(folder) == tables(runs("--max_step", step + 7))
    assert not (folder / "checkpoints").exists()  # the run goes on from its saved tables


@pytest.mark.parametrize("resumed", [False, True])
def test_a_run_that_is_being_trained_cannot_be_resumed(runs, resumed):
    arguments, folder = runs.arguments("--max_step", 10**7, "--log_interval", 50)
    first = started(runs, arguments, folder)
    if resumed:
        first.terminate()
        assert first.wait() == 143
        first = started(runs, ["--resume", str(folder)], folder)
    try:
        second = runs.process(["--resume", str(folder)])
        output, _ = second.communicate(timeout=180)
        assert second.returncode == 2 and first.poll() is None
        assert f"another process is training the run in {folder}" in output and "Traceback" not in output
    finally:
        first.kill()  # and nothing that it held outlives it
    first.communicate()
    steps = [int(path.name[5:]) for path in folder.glob("checkpoints/step-*")]
    runs.resume(folder, "--max_step", max(steps, default=3))


def test_a_run_on_relative_paths_is_resumed_from_another_folder(runs, monkeypatch, tmp_path):
    arguments, folder = runs.arguments("--checkpoint_interval", 4, "--max_step", 4)
    for flag in ("--data_path", "--save_path"):
        at = arguments.index(flag) + 1
        arguments[at] = os.path.relpath(arguments[at], tmp_path)
    monkeypatch.chdir(tmp_path)
    main(arguments)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    runs.resume(folder, "--max_step", 8)
    assert tables(folder) == tables(runs("--max_step", 8))


def test_a_finished_run_has_nothing_to_resume_but_can_be_prolonged(runs, capsys):
    folder = runs("--max_step", 20, "--checkpoint_interval", 15)
    before = tables(folder)
    capsys.readouterr()
    runs.resume(folder)
    assert "is finished: 20 steps" in capsys.readouterr().out
    assert tables(folder) == before
    # The store may be another one for the rest of the run.
    runs.resume(folder, "--max_step", 33, "--flush", "sync", "--cache_ratio", 0.3, "--lookahead", 3, "--flush_threads",
                1)
    assert tables(folder) == tables(runs("--max_step", 33))
    assert json.loads((folder / "result.json").read_text())["steps"] == 33


@pytest.mark.parametrize("flags", [[], ["--flush", "p2f"], ["--model_name", "TransR", "--hidden_dim", 8]])
def test_a_finished_run_without_checkpoints_can_be_prolonged(runs, flags):
    """From its saved tables and the optimizer states next to them, as often as one likes."""
    folder = runs("--max_step", 5, *flags)
    assert not (folder / "checkpoints").exists()
    for steps in (9, 20):
        runs.resume(folder, "--max_step", steps)
        assert json.loads((folder / "result.json").read_text())["steps"] == steps
    whole = runs("--max_step", 20, *flags)
    assert tables(folder) == tables(whole)
    states = [sorted(path.read_bytes() for path in each.glob("optimizer/step-000000000020/*.npy"))
              for each in (folder, whole)]
    assert states[0] == states[1] and len(states[0]) == len(tables(folder))


def test_a_prolongation_that_is_interrupted_goes_on(runs):
    folder = runs("--max_step", 5)
    process = runs.process(["--resume", str(folder), "--max_step", "10000000", "--log_interval", "50"])
    while len((folder / "metrics.jsonl").read_text().splitlines()) < 5:
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    assert process.wait(180) == 143
    (checkpoint,) = folder.glob("checkpoints/step-*")
    step = int(checkpoint.name[5:])
    assert step > 5
    runs.resume(folder, "--max_step", step + 4)
    runs.resume(folder, "--max_step", step + 7)  # now the final state is younger than the checkpoint
    assert tables(folder) == tables(runs("--max_step", step + 7))


def test_a_run_that_saved_nothing_cannot_be_prolonged(runs, refused):
    folder = runs("--max_step", 5, "--no_save_emb")
    with refused("has nothing to go on from"):
        runs.resume(folder, "--max_step", 9)
    assert json.loads((folder / "result.json").read_text())["steps"] == 5


@pytest.mark.parametrize("content", ["{}", "[]", "null", '{"steps": 5, "stopped_early": true}', '{"steps": "5"}'])
def test_a_damaged_result_is_reported(runs, refused, content):
    folder = runs("--max_step", 5)
    (folder / "result.json").write_text(content)
    with refused(str(folder / "result.json"), "remove it to go on from the last checkpoint"):
        runs.resume(folder, "--max_step", 9)


def test_a_table_that_is_missing_is_reported(runs, refused):
    folder = runs("--max_step", 5)
    (folder / "small_TransE_l2_relation.npy").unlink()
    with refused("small_TransE_l2_relation.npy does not exist"):
        runs.resume(folder, "--max_step", 9)


@pytest.mark.parametrize("change, messages", [
    (["--lr", "0.2"], "lr was 0.1 and is 0.2"), (["-adv"], "neg_adversarial_sampling was false and is true"),
    (["--data_files", "valid.txt", "train.txt", "test.txt"], "11,397 training triples then and 1,154 now"),
    (["--data_files", "reordered.txt", "valid.txt", "test.txt"], "as many training triples as then, but other ones")])
def test_another_configuration_is_refused_and_the_run_left_alone(runs, small, change, messages, capsys):
    folder = runs("--max_step", 4, "--checkpoint_interval", 4)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    lines = (small / "train.txt").read_text().splitlines(keepends=True)
    (small / "reordered.txt").write_text("".join(lines[:-2] + lines[:-3:-1]))
    with pytest.raises(SystemExit) as stopped:
        runs.resume(folder, "--max_step", 6, *change)
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert messages in error and "checksum" not in error
    assert before == {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_less_than_what_is_trained_is_refused(runs, refused):
    folder = runs("--max_step", 6, "--checkpoint_interval", 6)
    (folder / "result.json").unlink()  # as if killed before it was written
    with refused("has been trained for 6 steps"):
        runs.resume(folder, "--max_step", 5)


def test_a_folder_that_is_no_run_is_refused(tmp_path, refused, runs):
    with refused("is not the folder of a run"):
        runs.resume(tmp_path)


def test_early_stopping_keeps_the_best_tables(runs, capsys):
    """A learning rate that is far too high makes validation worse from some point on."""
    flags = ["--valid", "--eval_interval", 25, "--lr", 3]
    folder = runs(*flags, "--max_step", 4000, "--early_stop_patience", 2, "--test")
    messages = capsys.readouterr().out
    result = json.loads((folder / "result.json").read_text())
    best = result["best_validation"]
    assert result["stopped_early"] and result["steps"] == best["step"] + 50
    assert f"taking the tables of step {best['step']}" in messages
    stopped_there = runs(*flags, "--max_step", best["step"], "--test")
    assert tables(folder) == tables(stopped_there)
    assert result["test"] == json.loads((stopped_there / "result.json").read_text())["test"]
    capsys.readouterr()
    runs.resume(folder)
    assert "is finished" in capsys.readouterr().out


def test_early_stopping_counts_the_validations_of_earlier_parts(runs):
    """Stopped between the first validation that is not better and the second, after which the run ends."""
    flags = ["--valid", "--eval_interval", 25, "--lr", 3, "--early_stop_patience", 2]
    whole = runs(*flags, "--max_step", 4000)
    result = json.loads((whole / "result.json").read_text())
    folder = runs(*flags, "--max_step", result["steps"] - 10)
    assert not json.loads((folder / "result.json").read_text())["stopped_early"]
    runs.resume(folder, "--max_step", 4000)
    again = json.loads((folder / "result.json").read_text())
    assert again["stopped_early"] and again["steps"] == result["steps"]
    assert tables(folder) == tables(whole)


def test_a_finished_run_is_reported_to_be_finished_without_a_lock(runs, capsys, refused):
    """As in a folder that is only read, or that another process goes on with meanwhile."""
    folder = runs("--max_step", 3)
    with alone(folder):
        runs.resume(folder)
        assert "is finished: 3 steps are trained" in capsys.readouterr().out
        with refused("another process is training the run"):
            runs.resume(folder, "--max_step", 4)


def test_auto_goes_on_with_the_newest_run_if_there_is_one(runs):
    flags = ["--checkpoint_interval", 10, "--resume", "auto", "--max_step"]
    arguments, folder = runs.arguments(*flags, 17)
    for steps, messages in ((17, ""), (30, "resuming after step 17 of 30")):
        process = runs.process([*arguments[:-1], str(steps)])
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 0 and messages in output, output
        assert last_checkpoint(folder) == steps
    assert len(list(folder.parent.iterdir())) == 1
    assert tables(folder) == tables(runs("--checkpoint_interval", 10, "--max_step", 30))


def test_a_finished_run_refuses_flags_that_would_change_its_numbers(runs, refused):
    folder = runs("--max_step", 3)
    with refused("--lr was .* and is 0.5; resume with the same flags or start a new run"):
        runs.resume(folder, "--lr", "0.5")
    with refused('--model_name was .* and is "DistMult"'):
        runs.resume(folder, "--model_name", "DistMult", "--max_step", 2)


def test_flags_that_do_not_go_with_those_of_the_run_are_said_to_be_others(runs, refused):
    folder = runs("--max_step", 3, "--num_proc", 2)
    with refused("--neg_sample_size was 64 and is all; resume with the same flags or start a new run"):
        runs.resume(folder, "--max_step", 6, "--loss_genre", "Softmax", "--neg_sample_size", "all")
    with refused("--max_step is -1"):
        runs.resume(folder, "--max_step", -1)
