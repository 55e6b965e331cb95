"""What a finished run has saved belongs together: a mixture of two steps is refused wherever it is read."""
import itertools
import json
import os
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
from training.conftest import FLAGS, tables

import dglke_frugal
from dglke_frugal.cli.main import main
from dglke_frugal.errors import InputError
from dglke_frugal.files import COMPLETE, UNFINISHED
from dglke_frugal.inference.tables import read_table
from dglke_frugal.report.run_log import RunLog
from dglke_frugal.saved_tables import SavedTables
from dglke_frugal.training.checkpoint.final_state import last_state, optimizer_states
from dglke_frugal.training.checkpoint.checkpoint import CheckpointFolder
from dglke_frugal.training.checkpoint.run_folder import read_result
from dglke_frugal.training.run.ranker import Ranker
from dglke_frugal.training.run.run import TrainingRun

ENTITY, RELATION = "small_TransE_l2_entity.npy", "small_TransE_l2_relation.npy"


@pytest.fixture
def extended(runs):
    """A run of 6 steps, and the same after 12."""
    run = runs("--max_step", 6)
    before = shutil.copytree(run, run.parent / "before")
    return before, runs.resume(run, "--max_step", 12)


def readers(run, small, tmp_path):
    """Every way to read the tables of a run, by name."""
    (tmp_path / "one").write_text("1\n")
    one = ["--format", "h_*_*", "--data_files", str(tmp_path / "one"), "--topK", "2", "--output", str(tmp_path / "out")]
    graph = [*FLAGS[:8], "--data_path", str(small)]
    start = [*FLAGS, "--data_path", str(small), "--save_path", str(tmp_path / "warm"), "--max_step", "1"]
    return {"eval": ["eval", "--model_path", str(run), *graph, "--model_name", "TransE_l2", "--hidden_dim", "20"],
            "predict": ["predict", "--model_path", str(run), *one],
            "export": ["export", str(run), str(tmp_path / "run.safetensors")],
            "init_from": ["train", *start, "--init_from", str(run)],
            "resume": ["train", "--resume", str(run), "--max_step", "20"]}


def assert_refused(run, small, tmp_path, refused, sentence, but=()):
    """By every reader but these, and what the run holds stays as it is."""
    before = sorted(os.listdir(run))
    for name, arguments in readers(run, small, tmp_path).items():
        if name not in but:
            with refused(sentence):
                main(arguments)
    with pytest.raises(InputError, match=re.escape(sentence)):
        dglke_frugal.load(run)
    assert sorted(os.listdir(run)) == before


@pytest.mark.parametrize("name", [ENTITY, RELATION])
def test_a_table_of_another_step_is_refused_by_every_reader(extended, small, tmp_path, refused, name):
    before, run = extended
    shutil.copy(before / name, run / name)
    assert_refused(run, small, tmp_path, refused, f"{name} is not the file that was saved after step 12")
    emb_sim = ["emb_sim", "--format", "*", "--topK", "2", "--output", str(tmp_path / "sim"), "--emb_file"]
    with refused("is not the file that was saved after step 12"):
        main([*emb_sim, str(run / name)])
    main([*emb_sim, str(run / (RELATION if name == ENTITY else ENTITY))])  # which is whole


def test_what_was_changed_by_hand_can_be_taken_as_it_is(extended):
    """As the sentence says: without "saved" in config.json."""
    _, run = extended
    changed = np.load(run / ENTITY)
    changed[3] = 0
    np.save(run / ENTITY, changed)
    with pytest.raises(InputError, match='remove "saved" from .*config.json to take them as they are'):
        dglke_frugal.load(run)
    config = json.loads((run / "config.json").read_text())
    del config["saved"]
    (run / "config.json").write_text(json.dumps(config))
    assert not dglke_frugal.load(run).model.entity[3].any()


def test_one_changed_bit_is_seen(extended):
    _, run = extended
    content = bytearray((run / ENTITY).read_bytes())
    content[-2] ^= 1
    (run / ENTITY).write_bytes(content)
    with pytest.raises(InputError, match="its checksum is"):
        read_table(run / ENTITY)
    assert len(read_table(run / ENTITY, check_values=False))  # which reads nothing


def test_half_precision_rows_have_checksums_too(runs):
    run = runs("--max_step", 3, "--save_dtype", "fp16")
    assert set(SavedTables.of(run).checksums) == {ENTITY, RELATION}
    assert dglke_frugal.load(run).model.entity.dtype == np.float32


def half_saved(runs, run, moved):
    """The folder of a run of which a kill has left the saving after so many files were in their place."""
    before = shutil.copytree(run, run.parent / "before")
    done = runs.resume(run, "--max_step", 12)
    complete = before / COMPLETE
    complete.mkdir()
    names = sorted([*SavedTables.of(done).checksums, "config.json", "result.json", "optimizer"])
    for name in names:
        if (before / name).is_dir():
            shutil.rmtree(before / name)
        else:
            (before / name).unlink()
        target = before / name if names.index(name) < moved else complete / name
        (shutil.copytree if (done / name).is_dir() else shutil.copy)(done / name, target)
    return before, done


@pytest.mark.parametrize("moved", [0, 1, 3, 5])
def test_files_that_are_not_all_in_their_place_are_refused_until_a_resume_puts_them_there(
        runs, small, tmp_path, capsys, refused, moved):
    run, done = half_saved(runs, runs("--max_step", 6), moved)
    assert_refused(run, small, tmp_path, refused, f"end it with: dglke_train --resume {run}", but=["resume"])
    for read in (lambda: read_table(run / ENTITY), lambda: read_result(run), lambda: RunLog.read(run)):
        with pytest.raises(InputError, match="was interrupted"):
            read()
    runs.resume(run)
    assert "is finished: 12 steps are trained" in capsys.readouterr().out
    assert tables(run) == tables(done) and not (run / COMPLETE).exists()
    assert last_state(run).step == 12


def test_what_was_not_complete_is_removed_by_a_resume(runs):
    run = runs("--max_step", 6)
    (run / UNFINISHED).mkdir()
    (run / UNFINISHED / ENTITY).write_bytes(b"half")
    assert dglke_frugal.load(run).config["max_step"] == 6  # nothing of it is in place
    runs.resume(run)
    assert not (run / UNFINISHED).exists()


def test_an_extension_without_tables_is_refused_and_leaves_the_run(runs, refused):
    run = runs("--max_step", 6)
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    with refused("next to which the result of more steps would stand"):
        runs.resume(run, "--max_step", 12, "--no_save_emb")
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_an_extension_that_fails_leaves_what_was_saved(runs, monkeypatch):
    run = runs("--max_step", 6)
    written = {"config.yaml", "metrics.jsonl"}  # by a part of a run that ends without a result, too
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file() and path.name not in written}
    monkeypatch.setattr(TrainingRun, "_write_result", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        runs.resume(run, "--max_step", 12)
    assert before.items() <= {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}.items()
    assert last_state(run).step == 6 and read_result(run)["steps"] == 6 and not (run / UNFINISHED).exists()


def validations(monkeypatch, change):
    """From one validation to the next the MRR changes by so much."""
    ranked, count = Ranker.rank, itertools.count()

    def rank(self, *arguments):
        return replace(ranked(self, *arguments), mrr=0.5 + change * next(count))

    monkeypatch.setattr(Ranker, "rank", rank)


def test_optimizer_states_are_those_of_the_saved_tables(runs, monkeypatch):
    """Of a run that keeps its best checkpoint, but saves the tables of its last step."""
    validations(monkeypatch, -0.01)
    run = runs("--max_step", 12, "--valid", "--eval_interval", 3, "--checkpoint_interval", 3)
    checkpoints = CheckpointFolder(run / "checkpoints")
    assert checkpoints.best().step < checkpoints.last().step == SavedTables.of(run).step == 12
    states = optimizer_states(run, ("entity", "relation"))
    np.testing.assert_array_equal(states["entity"], checkpoints.last().mapped("entity_state", ""))
    config = json.loads((run / "config.json").read_text())
    config["saved"]["step"] = 11
    (run / "config.json").write_text(json.dumps(config))
    assert optimizer_states(run, ("entity", "relation")) is None


def test_tables_and_optimizer_states_of_two_steps_are_no_run(extended, refused, runs):
    before, run = extended
    shutil.rmtree(run / "optimizer")
    shutil.copytree(before / "optimizer", run / "optimizer")
    with refused("has tables of step 12 and optimizer states of step 6"):
        runs.resume(run, "--max_step", 20)


def test_a_run_that_was_killed_after_an_early_stop_does_not_go_on(runs, monkeypatch):
    """What is lost when it is killed between its last checkpoint and its end: tables and result."""
    validations(monkeypatch, -0.01)
    run = runs("--max_step", 40, "--valid", "--eval_interval", 3, "--early_stop_patience", 2)
    expected, stopped = tables(run), read_result(run)
    assert stopped["stopped_early"] and stopped["steps"] == 9 and SavedTables.of(run).step == 3
    for name in (ENTITY, RELATION, "config.json", "result.json"):
        (run / name).unlink()
    runs.resume(run)
    again = read_result(run)
    assert tables(run) == expected and again["steps"] == stopped["steps"] and again["stopped_early"]
    extended = runs.resume(run, "--max_step", 46)  # but more steps may be asked for
    assert read_result(extended)["steps"] == 12


def test_a_best_checkpoint_that_a_kill_left_unmarked_is_marked(runs, monkeypatch):
    validations(monkeypatch, 0.01)
    run = runs("--max_step", 12, "--valid", "--eval_interval", 3, "--early_stop_patience", 9)
    best = CheckpointFolder(run / "checkpoints").best()
    assert best.step == best.state["validation"]["step"] == 12
    expected = tables(run)
    for name in (ENTITY, RELATION, "config.json", "result.json", "checkpoints/best.json"):
        (run / name).unlink()
    runs.resume(run)
    assert CheckpointFolder(run / "checkpoints").best().step == 12 and tables(run) == expected
