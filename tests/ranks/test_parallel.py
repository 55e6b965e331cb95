"""What a run says of how its ranks share the work."""
import os
from dataclasses import replace

import pytest
from ranks.conftest import Ranks

from dglke_frugal.config import TrainConfig, check
from dglke_frugal.errors import InputError
from dglke_frugal.training import parallel, run_training

SLOWER = "on the CPU was slower"


def config(**given):
    return TrainConfig.from_flags({"model_name": "TransE_l2", "dataset": "FB15k", "hidden_dim": 400, **given})


def said_of(given):
    lines = []
    return parallel.settle(given, lines.append).device.parallel, lines


@pytest.mark.parametrize("mode", ["auto", "rows"])
def test_several_processes_on_the_cpu_are_told_of_threads(mode):
    chosen, (line, *_) = said_of(config(num_proc=48, parallel=mode))
    assert chosen == "rows" and line.startswith("--num_proc 48 " + SLOWER)
    assert "leave --num_proc out" in line and "OMP_NUM_THREADS=48" in line


@pytest.mark.parametrize("given, sentence", [
    ({"num_proc": 129}, "129 ranks are more than the 128 that meet on one machine; use fewer with --num_proc"),
    ({"gpu": [*range(9)]}, "9 ranks are more than the 8 that meet on one machine; use fewer with --gpu"),
    ({"gpu": [0, 1, 2], "num_proc": 9}, "9 ranks are more than the 8 that meet on one machine; use fewer with --num_proc")])
def test_more_ranks_than_can_meet_are_refused(given, sentence):
    with pytest.raises(InputError, match=sentence):
        parallel.settle(config(**given), print)


@pytest.mark.parametrize("cores, processes, flush, expected",
                         [(2, 2, None, "sync"), (2, 4, None, "sync"), (8, 4, None, "p2f"), (2, 1, None, "p2f"),
                          (2, 2, "p2f", "p2f"), (8, 4, "sync", "sync"), (2, 2, "none", "none")])
def test_processes_that_take_all_cores_flush_with_each_step(monkeypatch, cores, processes, flush, expected):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    given = config(num_proc=processes)
    given = replace(given, store=replace(given.store, flush=flush))
    assert given.flush_mode == expected
    said = [line for line in said_of(given)[1] if line.startswith("--flush sync")]
    assert len(said) == (flush is None and expected == "sync")


def test_gpus_flush_by_p2f_whatever_the_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    assert config(gpu=(0, 1)).flush_mode == "p2f"


def test_one_process_is_told_nothing_of_threads():
    assert said_of(config())[1] == []


def test_a_run_of_several_processes_says_so_once(ranks):
    _, output = ranks.run("--num_proc", 2, "--max_step", 2)
    assert output.count("--num_proc 2 " + SLOWER) == 1
    _, output = ranks.run("--max_step", 2)
    assert SLOWER not in output


def test_a_run_by_columns_says_what_they_gained_elsewhere(ranks):
    ranks.gpu = "devices.Device()"
    _, output = ranks.run("--gpu", 0, 0, "--parallel", "dims", "--max_step", 2)
    (line,) = [line for line in output.splitlines() if line.startswith("scores are exchanged through ")]
    assert "through host memory" in line or "through peer access" in line
    assert "times as many triples/s as one" in line


def test_what_is_known_of_columns_depends_on_link_and_cache():
    assert len({parallel.known_gain(True, True), parallel.known_gain(True, False),
                parallel.known_gain(False, True)}) == 3
    assert parallel.known_gain(False, False) == parallel.known_gain(False, True)


def test_a_run_says_that_gpus_carry_rows_for_each_other(ranks):
    ranks.gpu = "devices.Device()"
    _, output = ranks.run("--gpu", 0, 0, "--parallel", "dims", "--bus_rows", "whole", "--max_step", 2)
    (line,) = [line for line in output.splitlines() if line.startswith("scores are exchanged through ")]
    assert "carry whole rows for each other" in line and "times as many triples/s as one" in line


@pytest.mark.parametrize("given, expected",
                         [({}, "whole"), ({"bus_rows": "own"}, "own"), ({"parallel": "rows"}, "own"), ({"gpu": [0, 0]}, "own"),
                          ({"gpu": [0]}, "own"), ({"peer": "off"}, "own"), ({"host_read": "copy"}, "own"),
                          ({"host_write": "staged"}, "own"), ({"gpu": [0, 2]}, "own")], ids=str)
def test_rows_of_large_tables_cross_the_bus_whole_where_gpus_reach_each_other(two_that_reach_each_other, given, expected):
    asked = config(**{"gpu": [0, 1], "parallel": "dims", **given})
    assert parallel.choose_bus_rows(asked, 10**6).store.bus_rows == expected
    if "bus_rows" not in given:
        assert parallel.choose_bus_rows(asked, 10**4).store.bus_rows == "own"


@pytest.fixture
def two_that_reach_each_other(monkeypatch):
    """GPUs 0 and 1, but no other."""
    monkeypatch.setattr(parallel._native, "reach_each_other", lambda one, other: max(one, other) < 2)


@pytest.mark.parametrize("given, chosen, said", [
    ({}, "dims", "so that --rel_part has nothing to divide, scores meet over peer access"),
    ({"peer": "off"}, "rows", "have relations for themselves"), ({"model_name": "RESCAL"}, "rows", "does not go with RESCAL"),
    ({"partition": "relation"}, "rows", "leave --partition and --rel_part out")], ids=str)
def test_relations_are_divided_where_gpus_share_them(two_that_reach_each_other, given, chosen, said):
    lines = []
    found = parallel.settle(config(**{"gpu": [0, 1], "rel_part": True, **given}), lines.append)
    assert found.device.parallel == chosen and said in lines[0]
    assert found.device.edge_partition == ("relation" if chosen == "rows" else "random")
    assert parallel.settle(found, lines.append) == found  # as of a run that is gone on with


def test_rows_are_carried_by_gpus_with_columns_alone():
    with pytest.raises(InputError, match="--bus_rows whole is for several GPUs that share out columns"):
        said_of(config(gpu=[0, 1], parallel="rows", bus_rows="whole"))
    with pytest.raises(InputError, match="--bus_rows whole is for several GPUs, which"):
        check(config(gpu=[0], bus_rows="whole"))
    for contradiction in ({"peer": "off"}, {"flush": "sync"}, {"host_read": "copy"}, {"host_write": "staged"}):
        with pytest.raises(InputError, match=f"does not go with --{next(iter(contradiction))}"):
            check(config(gpu=[0, 1], bus_rows="whole", **contradiction))


def test_columns_that_cannot_be_are_refused():
    with pytest.raises(InputError, match="needs GPUs"):
        said_of(config(num_proc=2, parallel="dims"))


def measured(own_us, whole_us, **given):
    lines, asked = [], []

    def measure(*size):
        asked.append(size)
        return own_us * 1e-6, whole_us * 1e-6

    whole = parallel.choose_bus_rows(config(gpu=[0, 1], parallel="dims", bus_rows="whole", **given), 10**6)
    return parallel.measured_bus_rows(whole, 10**6, measure, lines.append), lines, asked


@pytest.mark.parametrize("whole_us, expected", [(50, "whole"), (99, "whole"), (101, "own"), (200, "own")])
def test_rows_cross_the_bus_as_it_takes_them_faster(whole_us, expected):
    found, (line,), (size,) = measured(100, whole_us)
    assert found == {"bus_rows": expected, "own_us": pytest.approx(100), "whole_us": pytest.approx(whole_us)}
    assert line == (f"--bus_rows {expected}: rows of 896 bytes, as each GPU has them, took 100 us of this bus, and as many "
                    f"bytes of whole rows {whole_us}")
    assert size == (224, 2, 10**6 * 2 * 896)


def test_the_bus_is_measured_with_rows_of_their_length():
    *_, (size,) = measured(100, 50, row_dtype="fp16", hidden_dim=400)
    assert size[0] * 4 == 512  # 200 halves, the state, whole lines


def test_each_gpu_moves_its_own_rows_where_nothing_can_be_measured():
    def refuse(*_):
        raise parallel._native.DeviceError("no host memory can be registered")

    lines = []
    whole = config(gpu=[0, 1], parallel="dims", bus_rows="whole")
    assert parallel.measured_bus_rows(whole, 10**6, refuse, lines.append) == {"bus_rows": "own"}
    assert lines == ["--bus_rows own: nothing could be measured: no host memory can be registered"]


class Begun(Exception):
    """A run that was about to be made."""


@pytest.mark.parametrize("given, whole_us, expected", [([], 50, "whole"), ([], 200, "own"), (["--bus_rows", "whole"], 200, "whole"),
                                                       (["--bus_rows", "own"], 50, "own")], ids=str)
def test_a_run_measures_the_bus_unless_it_is_told(two_that_reach_each_other, small, tmp_path, monkeypatch, given, whole_us,
                                                  expected):
    monkeypatch.setattr(parallel, "SMALL_TABLE", 0)
    asked, begun = [], []

    def measure(*size):
        asked.append(size)
        return 100e-6, whole_us * 1e-6

    def make_run(chosen, *_):
        begun.append(chosen)
        raise Begun

    asking = Ranks(small, tmp_path).config("--gpu", 0, 1, "--parallel", "dims", "--cache_ratio", 0.05, "--hidden_dim", 64, *given)
    asking = replace(asking, store=replace(asking.store, flush=None))
    with pytest.raises(Begun):
        run_training.run_training(asking, None, make_run, measure)
    assert begun[0].store.bus_rows == expected and len(asked) == (not given)
