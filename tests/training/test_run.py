"""What a run prints and leaves behind, and the flags that are a problem for DGL-KE."""

import contextlib
import errno
import fcntl
import json
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios

import numpy as np
import pytest
from training.conftest import logged, tables

from dglke_frugal.cli import flags
from dglke_frugal.cli.config_file import arguments_from
from dglke_frugal.errors import InputError
from dglke_frugal.options import TrainConfig
from dglke_frugal.training.checkpoint.lock import alone
from dglke_frugal.training.checkpoint.run_folder import FLAGS_FILE
from dglke_frugal.training.run import session
from dglke_frugal.training.run.run import TrainingRun
from dglke_frugal.training.train import train

EVERYTHING = ["--max_step", 250, "--log_interval", 100, "--valid", "--eval_interval", 100, "--test", "--flush", "p2f",
              "--cache_ratio", 0.2]


def messages(capsys):
    return capsys.readouterr().out


def test_prints_what_scripts_for_dglke_parse(runs, capsys):
    runs(*EVERYTHING)
    out = messages(capsys)
    for step in (100, 200, 250):
        for name in ("pos_loss", "neg_loss", "loss", "regularization"):
            assert re.search(rf"^\[proc 0\]\[Train\]\({step}/250\) average {name}: \d+\.\d+$", out, re.M)
    assert re.findall(r"^\[proc 0\]\[Train\] (\d+) steps take \d+\.\d{3} seconds$", out, re.M) == ["100", "100", "50"]
    assert re.search(r"^training takes \d+\.\d+ seconds$", out, re.M)
    assert re.search(r"^testing takes \d+\.\d{3} seconds$", out, re.M)
    for mode, count in (("Valid", 2), ("Test", 1)):
        for name in ("MRR", "MR", "HITS@1", "HITS@3", "HITS@10"):
            assert len(re.findall(rf"^\[0\]{mode} average {name}: \d+\.\d+", out, re.M)) == count


def test_everything_printed_is_there_for_programs(runs, capsys):
    folder = runs(*EVERYTHING)
    out = messages(capsys)
    result = json.loads((folder / "result.json").read_text())
    for split, metrics in (("Test", result["test"]), ("Valid", result["validation"])):
        printed = re.findall(rf"^\[0\]{split} average (\S+): (\S+)$", out, re.M)
        assert {name: metrics[name] for name, _ in printed} == {name: float(value) for name, value in printed}
    for name in ("pos_loss", "neg_loss", "loss", "regularization"):
        printed = [float(value) for value in re.findall(rf"average {name}: (\S+)", out)]
        assert [value for _, value in logged(folder, f"train/{name}")] == pytest.approx(printed, rel=5e-6)
    assert [step for step, _ in logged(folder, "train/loss")] == [100, 200, 250]
    assert [step for step, _ in logged(folder, "valid/MRR")] == [100, 200] and [
        step for step, _ in logged(folder, "test/MRR")
    ] == [250]
    training = result["training"]
    assert (training["steps"], training["triples"]) == (250, 250 * 256)
    assert result["best_validation"]["MRR"] == max(value for _, value in logged(folder, "valid/MRR"))
    assert result["steps"] == result["max_step"] == 250 and result["seed"] == 3 and result["threads"] == 1
    assert 0 < result["seconds"]["training"] and 0 <= training["stall_share"] < 1
    assert {path.name for path in folder.iterdir()} == {"small_TransE_l2_entity.npy", "small_TransE_l2_relation.npy",
                                                        "config.json", "config.yaml", "entities.tsv", "relations.tsv",
                                                        "metrics.jsonl", "optimizer", "result.json"}


def test_counters_add_up(runs):
    """Hits and misses are the distinct rows of all batches; what is logged between two lines sums to the whole."""
    folder = runs(*EVERYTHING)
    whole = json.loads((folder / "result.json").read_text())["training"]["store"]
    assert whole["hits"] > 0 and whole["misses"] > 0
    for name in ("hits", "misses", "bytes_read"):
        assert sum(value for _, value in logged(folder, f"store/{name}")) == whole[name]
    assert whole["bytes_read"] == whole["misses"] * 21 * 4
    in_place = json.loads((runs(*EVERYTHING[:-4]) / "result.json").read_text())["training"]
    assert in_place["store"] is None and in_place["stall_share"] == 0


def test_config_yaml_reruns_the_run(runs):
    folder = runs("--max_step", 30, "-adv", "--flush", "p2f", "-rc", "1e-7", "--cuda_graphs", "off")
    from dglke_frugal.cli.train import main

    main(["--config", str(folder / "config.yaml")])
    again = folder.with_name("TransE_l2_small_1")
    assert tables(again) == tables(folder)
    assert (again / "config.yaml").read_bytes() == (folder / "config.yaml").read_bytes()


def test_numbers_of_a_config_file_are_those_of_the_command_line(tmp_path):
    """YAML's rules would make 64 of 0100."""
    path = tmp_path / "flags.yaml"
    path.write_text("batch_size: 0100\nlr: 1e-3\ndataset: 007\ndata_files: [1_0, 2.50]\n")
    defaults = {"batch_size": 1, "lr": 0.1, "dataset": "g", "data_files": None}
    assert arguments_from(path, defaults) == ["--batch_size=0100", "--lr=1e-3", "--dataset=007", "--data_files", "1_0",
                                              "2.50"]


@pytest.mark.parametrize("content, messages", [
    ("learning_rate: 0.1", "there is no flag 'learning_rate'"),
    ("resume: x", "there is no flag 'resume'"),
    ("lr: [", "is not YAML"),
    ("- lr", "one 'flag: value' per line"),
    ("lr: {a: 1}", "must be a value"),
    ("lr: fast", "lr"),
    ("max_step: -1", "--max_step is -1")])
def test_config_files_that_cannot_be_used(content, messages, tmp_path, refused, runs):
    path = tmp_path / "flags.yaml"
    path.write_text(content)
    with refused(messages):
        runs("--config", path)


def test_the_command_line_goes_before_the_file(runs, tmp_path):
    path = tmp_path / "flags.yaml"
    path.write_text("max_step: 9\nlog_interval: 3\n")
    folder = runs("--config", path, "--max_step", 4)
    assert [step for step, _ in logged(folder, "train/loss")] == [3, 4]


@pytest.mark.parametrize(
    "flags",
    [["--batch_size", 1649, "--neg_sample_size", 1649],
     ["--neg_sample_size", 1],
     ["--batch_size", 1, "--neg_sample_size", 1],
     ["--batch_size", 7, "--neg_sample_size", 300],
     ["--batch_size", 1000, "--neg_sample_size", 300, "--neg_deg_sample"],
     ["--rel_part"],
     ["--force_sync_interval", 10],
     ["--async_update"],
     ["--num_thread", 3],
     ["--flush", "p2f", "--batch_size", 2000, "--neg_sample_size", 999],
     ["--has_edge_importance", "--data_files", "train_weighted.txt", "valid_weighted.txt", "test_weighted.txt"],
     ["--loss_genre", "Hinge", "-pw"],
     ["-rc", 0],
     ["-rn", 0],
     ["-rn", 1],
     ["--cache_size", "20KB", "--flush", "sync"]],
    ids=lambda flags: " ".join(map(str, flags[:2])))
def test_flags_that_are_a_problem_elsewhere(runs, flags):
    folder = runs("--max_step", 4, "--test", "--eval_percent", 0.05, *flags)
    for name, content in tables(folder).items():
        table = np.load(folder / name)
        assert np.isfinite(table).all() and table.dtype == np.float32 and len(content) > table.nbytes


def test_a_batch_larger_than_the_training_set_becomes_smaller(runs, capsys):
    folder = runs("--max_step", 3, "--batch_size", 20000, "--neg_sample_size", 1000)
    assert "batch size (20000) is larger than the training set (11397 triples). Change the batch size to 11000" in (
        messages(capsys))
    assert json.loads((folder / "result.json").read_text())["training"]["triples"] == 3 * 11000


def test_one_relation_and_few_triples(tmp_path, capsys):
    from training.conftest import Runs

    for name in ("train.txt", "valid.txt", "test.txt"):
        (tmp_path / name).write_text("".join(f"e{i}\tr\te{i + 1}\n" for i in range(5)))
    runs = Runs(tmp_path, tmp_path)
    folder = runs("--max_step", 50, "--rel_part", "--valid", "--test", "--eval_interval", 25, "--flush", "p2f")
    assert np.load(folder / "small_TransE_l2_entity.npy").shape == (6, 20)
    assert "Change the batch size to 5" in messages(capsys)


def test_no_steps_and_no_files(runs, capsys):
    folder = runs("--max_step", 0, "--test", "--eval_percent", 0.001)
    start = np.load(folder / "small_TransE_l2_entity.npy")
    assert np.abs(start).max() <= 14 / 20 and "Test average MRR" in messages(capsys)
    folder = runs("--max_step", 3, "--no_save_emb")
    assert sorted(path.name for path in folder.iterdir()) == ["config.yaml", "metrics.jsonl", "result.json"]


def test_sampled_candidates(runs):
    """Fewer candidates make ranks better; by degree they are harder; the same seed draws the same."""

    def mr(*flags):
        folder = runs("--max_step", 60, "--test", *flags)
        return json.loads((folder / "result.json").read_text())["test"]["MR"]

    sampled = ["--neg_sample_size_eval", 50, "--batch_size_eval", 16]
    everyone, some, by_degree = mr(), mr(*sampled), mr(*sampled, "--neg_deg_sample_eval", "--no_eval_filter")
    assert 1 <= some < 52 < everyone
    assert some < by_degree < 67
    assert mr(*sampled) == some


def test_the_gpu_is_refused_in_a_sentence(runs, refused, tmp_path):
    with refused("--gpu 0 needs a", "leave --gpu out to train on the CPU"):
        runs("--gpu", 0)
    assert not any(tmp_path.iterdir())


REFUSALS = [InputError("it does not fit"), MemoryError(), OSError(errno.ENOSPC, "No space left on device")]


def fail_in(monkeypatch, method, error):
    def fail(*_):
        raise error

    monkeypatch.setattr(TrainingRun, method, fail)


@pytest.mark.parametrize("error", REFUSALS, ids=["input", "memory", "disk"])
def test_a_run_that_is_refused_before_its_first_step_removes_its_own_folder_while_it_holds_it(runs, monkeypatch, error):
    """Else --resume auto of another process could have gone on with it meanwhile."""
    earlier, removed, remove = runs("--max_step", 3, "--no_save_emb"), [], shutil.rmtree

    def remove_held(folder, **given):
        with pytest.raises(InputError, match="another process is training"), alone(folder):
            pass
        removed.append(folder)
        remove(folder, **given)

    monkeypatch.setattr(shutil, "rmtree", remove_held)
    fail_in(monkeypatch, "keep_names", error)
    with pytest.raises(InputError):
        runs.on_device(None, "--max_step", 3, "--save_path", earlier.parent)
    assert [folder.name for folder in removed] == ["TransE_l2_small_1"]
    assert list(earlier.parent.iterdir()) == [earlier] and (earlier / "result.json").is_file()


@pytest.mark.parametrize("method, error", [("train", REFUSALS[0]), ("keep_names", KeyboardInterrupt())],
                         ids=["training", "ctrl-c"])
def test_a_run_that_has_begun_or_is_stopped_keeps_its_folder(runs, monkeypatch, method, error):
    arguments, folder = runs.arguments("--max_step", 3)
    fail_in(monkeypatch, method, error)
    with pytest.raises(type(error)):
        train(TrainConfig.from_flags(flags.given(arguments)))
    assert (folder / FLAGS_FILE).is_file()


def test_a_new_folder_that_another_process_holds_is_not_removed(runs, monkeypatch):
    """As that of somebody who resumes it before it is held."""
    arguments, folder = runs.arguments("--max_step", 3)
    made = session.create_run_folder

    with contextlib.ExitStack() as other:
        def made_and_held(config):
            other.enter_context(alone(made(config)))
            return folder

        monkeypatch.setattr(session, "create_run_folder", made_and_held)
        with pytest.raises(InputError, match="another process is training"):
            train(TrainConfig.from_flags(flags.given(arguments)))
        assert folder.is_dir()


def test_a_terminal_shows_a_bar(runs):
    """With the numbers that a person looks at; the lines for scripts are still there."""
    arguments, _ = runs.arguments("--max_step", 3000, "--log_interval", 1000, "--flush", "p2f", "--cache_ratio", 0.2)
    terminal, process_side = pty.openpty()
    fcntl.ioctl(process_side, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))
    command = [sys.executable, "-m", "dglke_frugal", "train", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=process_side, text=True)
    os.close(process_side)
    shown = b""
    with contextlib.suppress(OSError):  # the terminal's end, when the process has closed its side
        while block := os.read(terminal, 4096):
            shown += block
    os.close(terminal)
    out, _ = process.communicate(timeout=180)
    assert process.returncode == 0
    assert re.search(rb"training: .*/3000 \[.*<.*loss=.*triples/s=.*hits=.*stall=", shown)
    assert len(re.findall(r"^\[proc 0\]\[Train\] 1000 steps take", out, re.M)) == 3


def test_a_run_keeps_the_precision_that_was_resolved(runs):
    """So that it goes on with the same products on another machine."""
    folder = runs("--max_step", 2, "--matmul", "auto")
    assert "matmul: fp32" in (folder / FLAGS_FILE).read_text().splitlines()
