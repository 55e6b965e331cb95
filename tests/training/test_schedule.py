"""A learning rate that falls on a plateau or after given steps, early stopping on a device, and start values: the same
bits whatever the store, and in a resumed run."""

import json

import numpy as np
import pytest
from scipy import stats
from training.conftest import logged, tables

from dglke_frugal import _native
from dglke_frugal.training.run.learning_rate import LearningRate
from dglke_frugal.training.step import native_step

PLATEAU = ["--valid", "--eval_interval", 20, "--eval_percent", 0.05, "--lr_patience", 1, "--lr_factor", 0.3, "--lr", 2]


def test_the_rule():
    plateau = LearningRate(1.0, 0.5, 2)
    lowered = [plateau.validated(better) for better in (True, False, True, False, False, False, False, False, True)]
    assert lowered == [False, False, False, False, True, False, True, False, False]
    assert plateau.now == 0.25
    again = LearningRate(1.0, 0.5, 2)
    assert again.restore(json.loads(json.dumps(plateau.state())), 9) and again.now == 0.25
    assert not again.validated(False) and again.validated(False)
    assert not LearningRate(1.0, 0.5).restore(None, 9)


def test_the_rule_of_given_steps():
    rates, decayed = [], LearningRate(0.7, 0.3, decay_at=(4, 2, 7))
    for steps in range(1, 9):
        decayed.trained(steps)
        rates.append(decayed.now)
        again = LearningRate(0.7, 0.3, decay_at=(7, 4, 2))
        assert again.restore(None, steps) == (steps >= 2) and again.now == decayed.now
    first, second, third = 0.7 * 0.3, 0.7 * 0.3 * 0.3, 0.7 * 0.3 * 0.3 * 0.3
    assert rates == [0.7, first, first, second, second, second, third, third]


DECAY = ["--lr", 2, "--lr_decay_at", 40, 61, "--lr_factor", 0.1]


def test_the_rate_of_given_steps_is_that_of_a_run_that_goes_on_with_another_rate(runs, capsys):
    """Whatever the store, and where the run was interrupted."""
    folder = runs("--max_step", 100, *DECAY)
    messages = capsys.readouterr().out
    assert ("40 steps are done: the learning rate is now 0.2\n" in messages
            and "61 steps are done: the learning rate is now 0.02\n" in messages)
    expected = tables(folder)
    assert expected != tables(runs("--max_step", 100, "--lr", 2))
    for flags in (["--flush", "p2f", "--cache_ratio", 0.1], ["--flush", "sync", "--cache_ratio", 1]):
        assert tables(runs("--max_step", 100, *DECAY, *flags)) == expected
        assert tables(runs.on_device("cpu", "--max_step", 100, *DECAY, *flags)) == expected
    for steps in (39, 40, 41, 70):
        assert tables(runs.resume(runs("--max_step", steps, *DECAY), "--max_step", 100)) == expected


def test_given_steps_hold_from_their_end_on(runs):
    """To the end of the step nothing differs from a run of the first rate."""
    assert tables(runs("--max_step", 40, *DECAY)) == tables(runs("--max_step", 40, "--lr", 2))
    assert tables(runs("--max_step", 41, *DECAY)) != tables(runs("--max_step", 41, "--lr", 2))


def test_both_rules_together(runs):
    both = ["--max_step", 160, *PLATEAU, "--lr_decay_at", 70]
    expected = tables(runs(*both))
    assert expected != tables(runs("--max_step", 160, *PLATEAU))
    assert tables(runs.resume(runs(*both[2:], "--max_step", 90), "--max_step", 160)) == expected


def test_the_rate_falls_is_logged_and_is_what_steps_use(runs, capsys, monkeypatch):
    rates = []
    make = native_step.native_step
    monkeypatch.setattr(native_step, "native_step", lambda config, *rest: (rates.append(config.learning_rate),
                                                                           make(config, *rest))[1])
    folder = runs("--max_step", 200, *PLATEAU)
    rate, best, expected = 2, -1.0, []
    for (step, mrr), (at, found) in zip(logged(folder, "valid/MRR"), logged(folder, "train/lr")):
        best, rate = max(best, mrr), rate * (1 if mrr > best else 0.3)
        expected.append(rate)
        assert step == at and found == pytest.approx(rate)
    changes = list(dict.fromkeys([2, *expected]))
    assert len(changes) > 2 and rates == pytest.approx(changes)
    assert capsys.readouterr().out.count("the learning rate is now") == len(changes) - 1


def test_no_store_and_no_interruption_changes_a_bit(runs):
    expected = tables(runs("--max_step", 160, *PLATEAU))
    assert expected != tables(runs("--max_step", 160, *PLATEAU, "--lr_factor", 0.9))
    for flags in (["--flush", "p2f", "--cache_ratio", 0.1], ["--flush", "sync", "--cache_ratio", 1]):
        assert tables(runs("--max_step", 160, *PLATEAU, *flags)) == expected
        assert tables(runs.on_device("cpu", "--max_step", 160, *PLATEAU, *flags)) == expected
    for steps in (75, 120):  # between two validations, and at one
        folder = runs("--max_step", steps, *PLATEAU, "--checkpoint_interval", 50)
        assert tables(runs.resume(folder, "--max_step", 160)) == expected


@pytest.mark.parametrize("flush", [["--flush", "p2f", "--cache_ratio", 0.1], ["--flush", "none"]])
def test_a_device_too_ends_with_the_best_tables(runs, flush):
    """What the device holds of the last step must not overwrite the best on the host."""
    flags = ["--max_step", 4000, "--valid", "--eval_interval", 25, "--lr", 3, "--early_stop_patience", 2, "--test"]
    expected, found = runs(*flags), runs.on_device("cpu", *flags, *flush)
    results = [json.loads((folder / "result.json").read_text()) for folder in (expected, found)]
    assert results[0]["stopped_early"] and results[0]["best_validation"] == results[1]["best_validation"]
    assert tables(found) == tables(expected)
    assert results[0]["test"] == results[1]["test"]


@pytest.mark.parametrize("flags, says", [
    (["--lr_patience", 2], "--lr_patience watches validations, and there are none: add --valid"),
    (["--lr_patience", 2, "--valid"], "--lr_patience watches validations, and there are none"),
    (["--lr_factor", 1], "--lr_factor is 1.0; give a factor between 0 and 1"),
    (["--lr_patience", 1, "--valid", "--eval_interval", 1, "--num_proc", 2], "of one process alone"),
    (["--lr_decay_at", 2, "--num_proc", 2], "--lr_decay_at changes the learning rate of one process alone"),
    (["--lr_decay_at", 0, 3], "--lr_decay_at 0 3: give steps of at least 1, each once"),
    (["--lr_decay_at", 3, 3], "--lr_decay_at 3 3: give steps of at least 1, each once"),
    (["--init_scale", 0], "--init_scale is 0.0; give a number above 0"),
    (["--trainer", "dglke", "--lr_patience", 1, "--valid", "--eval_interval", 1],
     "--lr_patience 1 cannot be used with --trainer dglke")])
def test_what_does_not_go_together(runs, refused, flags, says):
    with refused(says):
        runs("--max_step", 5, *flags)


def start(runs, *flags):
    folder = runs("--max_step", 0, *flags)
    return {path.stem.split("_")[-1]: np.load(path) for path in sorted(folder.glob("*.npy"))}


def test_start_values_are_what_the_flag_says(runs):
    uniform = start(runs)
    assert all(np.array_equal(rows, start(runs, "--init", "uniform")[name]) for name, rows in uniform.items())
    assert np.abs(uniform["entity"]).max() == pytest.approx(14 / 20, rel=1e-3)
    assert np.abs(start(runs, "--init_scale", 0.25)["entity"]).max() == pytest.approx(0.25, rel=1e-3)
    normal = start(runs, "--init", "normal", "--init_scale", 0.5)
    for name, rows in normal.items():
        assert stats.kstest(rows.ravel()[:20000] / 0.5, "norm").pvalue > 1e-3
        assert np.abs(np.corrcoef(rows[:300], rowvar=False) - np.eye(20)).max() < 0.3
    assert not np.array_equal(normal["entity"][:300], normal["relation"][:300])
    assert start(runs, "--init", "normal")["entity"].std() == pytest.approx(1e-3, rel=0.02)
    for name, rows in start(runs, "--init", "xavier").items():
        bound = np.sqrt(6 / sum(rows.shape))
        assert np.abs(rows).max() == pytest.approx(bound, rel=1e-2) and stats.kstest(
            rows.ravel()[:5000], "uniform", (-bound, 2 * bound)).pvalue > 1e-3


def test_phases_stay_uniform(runs):
    rotate = ["--model_name", "RotatE", "-de"]
    plain, normal = start(runs, *rotate), start(runs, *rotate, "--init", "normal")
    assert np.array_equal(plain["relation"], normal["relation"])
    assert not np.array_equal(plain["entity"], normal["entity"])


@pytest.mark.parametrize("init", ["normal", "xavier"])
def test_start_values_depend_on_neither_threads_nor_store(runs, init, monkeypatch):
    flags = ["--max_step", 30, "--init", init]
    expected = tables(runs(*flags))
    for threads, store in ((1, ["--flush", "p2f", "--cache_ratio", 0.2]), (3, ["--flush", "none"])):
        monkeypatch.setenv("OMP_NUM_THREADS", str(threads))
        assert tables(runs(*flags, *store)) == expected
        assert tables(runs.on_device("cpu", *flags, *store)) == expected


@pytest.mark.parametrize("ranges", [[(0, 7)], [(0, 3), (7, 4)], [(5, 6)]])
def test_slices_of_columns_start_as_the_whole_table(ranges):
    whole = _native.HostTable(40, 11, False)
    whole.init_normal(0.3, 5, 1)
    part = _native.HostTable(40, sum(count for _, count in ranges), False)
    part.init_normal(0.3, 5, 1, 11, ranges)
    columns = [column for first, count in ranges for column in range(first, first + count)]
    np.testing.assert_array_equal(part.embeddings, whole.embeddings[:, columns])
    with pytest.raises(ValueError, match="do not fill a row"):
        part.init_normal(0.3, 5, 1, 11, [(0, 1)])
