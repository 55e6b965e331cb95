"""Runs of several machines by a softmax over all entities, as processes over loopback."""
import json
import re
import signal
import subprocess

import numpy as np
import pytest
from training.machines.conftest import at_step
from training.parallel.conftest import assert_same, trained

ALL = ["--loss_genre", "Softmax", "--neg_sample_size", "all", "--flush", "auto"]
SOFTMAX = ["--model_name", "ComplEx", *ALL]


def metrics(output):
    return {name: float(value) for name, value in re.findall(r"Test average (\S+): (\S+)", output)}


def saved(folder):
    return {name: np.load(next(folder.glob(f"*_{name}.npy"))) for name in ("entity", "relation")}


@pytest.mark.parametrize("count, given", [
    (3, ["--model_name", "ComplEx", "--optimizer", "adam", "--entity_dropout", 0.2, "--reciprocal",
         "--relation_prediction", 0.5]),
    (2, ["--model_name", "DistMult", "--labels", "kvsall", "--label_smoothing", 0.1, "--optimizer", "adagrad",
         "--lr", 0.01]),
    (2, ["--model_name", "TransE_l2", "--normalize_entities"]),
    (3, ["--model_name", "ComplEx", "--labels", "kvsall", "--loss_genre", "BCE", "--lr", 0.05]),
    (2, ["--model_name", "RESCAL", "--lr_decay_at", 5, "--lr_patience", 1, "--valid", "--eval_interval", 3,
         "--early_stop_delta", 10])],
    ids=["adam", "kvsall", "transe", "bce", "rates"])
def test_they_train_as_one_process_does_and_their_files_are_read_as_its_are(machines, count, given):
    flags = [*ALL, *given, "--max_step", 12, "--test"]
    folder, outputs = machines.run_all(count, *flags)
    one, output = machines.run(*flags)
    found, expected = saved(folder), saved(one)
    for name, rows in found.items():
        np.testing.assert_allclose(rows, expected[name], rtol=0, atol=2e-4)
    of_all, of_one = metrics(outputs[0]), metrics(output)
    assert of_all["MRR"] == pytest.approx(of_one["MRR"], rel=0.02)
    read = subprocess.run([machines.interpreter, "-m", "dglke_frugal", "eval", "--model_path", folder],
                          capture_output=True, text=True, check=True).stdout
    assert metrics(read) == of_all
    assert all(output == "" for output in outputs[1:])


def test_they_go_on_to_the_bit(machines):
    flags = [*SOFTMAX, "--optimizer", "adam", "--relation_dropout", 0.2]
    whole, _ = machines.run_all(2, *flags, "--max_step", 14)
    part, _ = machines.run_all(2, *flags, "--max_step", 5)
    folder, _ = machines.run_all(2, "--max_step", 14, resume=part)
    assert_same(trained(folder), trained(whole))


def test_any_number_goes_on_and_says_so(machines):
    whole, _ = machines.run(*SOFTMAX, "--max_step", 15)
    part, _ = machines.run_all(2, *SOFTMAX, "--max_step", 5, "--checkpoint_interval", 0)
    folder, outputs = machines.run_all(3, "--max_step", 10, resume=part)
    assert "the number of machines was 2 and is 3" in outputs[0]
    folder, output = machines.run("--max_step", 15, resume=folder)
    assert "the number of machines was 3 and is 1" in output
    for name, rows in saved(folder).items():
        np.testing.assert_allclose(rows, saved(whole)[name], rtol=0, atol=2e-4)


def test_a_run_that_began_with_the_rows_of_another_goes_on(machines):
    other, _ = machines.run(*SOFTMAX, "--max_step", 3)
    flags = [*SOFTMAX, "--init_from", other]
    part, _ = machines.run(*flags, "--max_step", 3)
    folder, _ = machines.run_all(2, "--max_step", 6, resume=part)
    whole, _ = machines.run(*flags, "--max_step", 6)
    for name, rows in saved(folder).items():
        np.testing.assert_allclose(rows, saved(whole)[name], rtol=0, atol=2e-4)


def test_auto_refuses_a_run_against_all_entities_for_its_loss(machines):
    begun, _ = machines.run_all(2, *SOFTMAX, "--max_step", 3)
    arguments, _ = machines.arguments("--model_name", "ComplEx", "--max_step", 6, "--save_path", begun.parent,
                                      "--resume", "auto")
    codes, outputs = machines.end_all(machines.start_all(2, arguments))
    assert codes == [2, 2]
    assert all('--neg_sample_size was "all" and is 20' in output.splitlines()[-1] for output in outputs), outputs


STOPS = """
from dglke_frugal.training.log.tracker import Trackers
if os.environ["RANK"] == "0": Trackers.wants_stop = True
"""


def test_a_callback_of_machine_0_stops_all(machines):
    flags = [*SOFTMAX, "--max_step", 60, "--valid", "--eval_interval", 3]
    folder, outputs = machines.run_all(2, *flags, first=STOPS)
    assert "stopping early: a callback has asked for it" in outputs[0]
    assert json.loads((folder / "result.json").read_text())["steps"] == 3


def test_a_killed_machine_is_named_and_the_run_goes_on_to_the_bit(machines):
    arguments, folder = machines.arguments(*SOFTMAX, "--max_step", 14, "--checkpoint_interval", 3, "--resume", "auto")
    codes, outputs = machines.end_all(machines.start_all(
        2, arguments, suffering=at_step(7, 1, "os.kill(os.getpid(), signal.SIGKILL)")))
    assert codes == [1, -signal.SIGKILL]
    last = outputs[0].splitlines()[-1]
    assert "machine 1 (" in last and f"--resume {folder}" in last
    assert machines.end_all(machines.start_all(2, arguments))[0] == [0, 0]
    whole, _ = machines.run_all(2, *SOFTMAX, "--max_step", 14)
    assert_same(trained(folder), trained(whole))


def test_a_signal_to_one_stops_all_after_the_same_step(machines):
    arguments, folder = machines.arguments(*SOFTMAX, "--max_step", 14)
    codes, outputs = machines.end_all(machines.start_all(
        2, arguments, suffering=at_step(5, 1, "os.kill(os.getpid(), signal.SIGTERM)")))
    assert codes == [128 + signal.SIGTERM] * 2 and "stopped after step" in outputs[0]
    folder, _ = machines.run_all(2, "--max_step", 14, resume=folder)
    whole, _ = machines.run_all(2, *SOFTMAX, "--max_step", 14)
    assert_same(trained(folder), trained(whole))


def test_a_divergence_ends_all_and_saves_nothing(machines):
    arguments, folder = machines.arguments(*SOFTMAX, "--max_step", 40, "--lr", "1e30", "--log_interval", 5)
    codes, outputs = machines.end_all(machines.start_all(2, arguments))
    assert codes == [2, 2]
    assert all("the training has diverged" in output.splitlines()[-1] for output in outputs)
    assert not list(folder.glob("*.npy"))


def test_validations_and_early_stopping(machines):
    flags = [*SOFTMAX, "--max_step", 60, "--valid", "--eval_interval", 3, "--early_stop_patience", 2, "--lr", 2]
    folder, _ = machines.run_all(2, *flags)
    result = json.loads((folder / "result.json").read_text())
    assert result["stopped_early"] and result["best_validation"]["step"] < result["steps"]
    assert json.loads((folder / "config.json").read_text())["saved"]["step"] == result["best_validation"]["step"]
    assert [report["machine"] for report in result["machines"]] == [0, 1]


@pytest.mark.parametrize("given, sentence", [
    (["--gpu", 0], "--gpu: of several machines it does not compute a softmax over all entities"),
    (["--partition", "hash"], "--partition: of a softmax over all entities each machine has a range, and not by hash"),
    (["--num_proc", 2], "leave --num_proc out"),
    (["--init_from", "run"], "a run of several machines starts with rows of its own")])
def test_what_several_machines_do_not_train_is_refused(machines, given, sentence):
    assert all(sentence in said for said in machines.refused_by_all(2, *SOFTMAX, *given))


NO_MEMORY = """
import dglke_frugal.training.machines.{module} as module
from dglke_frugal.errors import InputError
def refuse(*given): raise InputError("the machine refuses the memory")
if os.environ["RANK"] == "1": module.{tables} = refuse
"""


@pytest.mark.parametrize("given, module, tables", [(SOFTMAX, "softmax_run", "softmax_tables"),
                                                   ((), "machine_run", "machine_tables")], ids=["softmax", "sampled"])
def test_tables_that_one_machine_has_no_memory_for_are_refused_by_all(machines, given, module, tables):
    for said in machines.refused_by_all(2, *given, first=NO_MEMORY.format(module=module, tables=tables)):
        assert said.endswith("): the machine refuses the memory")


def test_more_machines_than_entities_are_refused(machines, tmp_path):
    data = tmp_path / "tiny"
    data.mkdir()
    (data / "train.txt").write_text("a\tr\tb\nb\tr\ta\n")
    for said in machines.refused_by_all(3, *SOFTMAX, "--data_path", data, "--data_files", "train.txt"):
        assert "2 entities cannot be divided over 3" in said
