"""What a run says of how its ranks share the work."""
import os
from dataclasses import replace

import pytest
from training.parallel.conftest import CARRIES

from dglke_frugal import _native
from dglke_frugal.options import TrainConfig, check
from dglke_frugal.errors import InputError
from dglke_frugal.resolve import resolve, resolve_workers
from dglke_frugal.training.plan import parallel
from dglke_frugal.training.plan.column_config import uses_owner_transfer
from dglke_frugal.training.plan.memory_plan import GraphSize

SLOWER = "on the CPU was slower"


def config(**given):
    return TrainConfig.from_flags({"model_name": "TransE_l2", "dataset": "FB15k", "hidden_dim": 400, **given})


@pytest.mark.parametrize("mode", ["auto", "rows"])
def test_processes_on_the_cpu_train_data_parallel(mode):
    found, _ = resolve_workers(config(num_proc=48, parallel=mode))
    assert found.device.parallel == "rows"
    line = parallel.slow_processes(48)
    assert line.startswith("--num_proc 48 " + SLOWER)
    assert "leave --num_proc out" in line and "OMP_NUM_THREADS=48" in line


@pytest.mark.parametrize("given, sentence", [
    ({"num_proc": 129}, "129 ranks are more than the 128 that one machine can run; use fewer with --num_proc"),
    ({"gpu": [*range(9)]}, "9 ranks are more than the 8 that one machine can run; use fewer with --gpu"),
    ({"gpu": [0, 1, 2], "num_proc": 9},
     "9 ranks are more than the 8 that one machine can run; use fewer with --num_proc")])
def test_more_ranks_than_one_machine_can_run_are_refused(given, sentence):
    with pytest.raises(InputError, match=sentence):
        resolve_workers(config(**given))


@pytest.mark.parametrize("cores, processes, flush, expected",
                         [(2, 2, "auto", "sync"), (2, 4, "auto", "sync"), (8, 4, "auto", "p2f"), (2, 1, "auto", "none"),
                          (2, 2, "p2f", "p2f"), (8, 4, "sync", "sync"), (2, 2, "none", "none")])
def test_processes_that_take_all_cores_flush_with_each_step(monkeypatch, cores, processes, flush, expected):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    given = config(num_proc=processes)
    given = replace(given, store=replace(given.store, flush=flush))
    assert given.flush == expected
    plan = resolve(resolve_workers(given)[0], GraphSize(100, 10, 1000))
    assert plan.config.store.flush == expected and ("flush" in plan.reasons) == (flush == "auto")
    messages = [line for line in plan.log_lines() if line.startswith(f"--flush {expected}: ")]
    assert len(messages) == (flush == "auto" and processes > 1)


@pytest.mark.parametrize("given, expected", [
    ({"gpu": [0]}, "direct"), ({"gpu": [0, 1]}, "direct"), ({"gpu": [0], "row_dtype": "fp16"}, "direct"),
    ({"gpu": [0, 1], "row_dtype": "fp16", "parallel": "columns"}, "direct"),
    ({"gpu": [0, 1], "row_dtype": "fp16", "parallel": "rows"}, "p2f"), ({"gpu": [0, 1], "flush": "sync"}, "sync"),
], ids=str)
def test_gpus_write_rows_back_themselves_whatever_the_cores(monkeypatch, given, expected):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    assert config(**given).flush == expected


@pytest.mark.parametrize("given, sentence", [
    ({"gpu": [0, 1], "parallel": "rows", "row_dtype": "fp16", "flush": "direct"},
     "--flush direct does not go with --row_dtype fp16 on several GPUs that train data parallel; use --flush p2f"),
    *(({"gpu": [0, 1], "parallel": "columns", "flush": flush},
       f"--parallel columns has nothing for flush threads to do: leave --flush {flush} out; or use --parallel rows")
      for flush in ("p2f", "sync"))], ids=str)
def test_ways_of_flushing_that_cannot_be_are_refused(given, sentence):
    with pytest.raises(InputError, match=sentence):
        resolve_workers(config(**given))


def test_flush_threads_are_of_gpus_that_train_data_parallel(two_that_reach_each_other):
    found, reasons = resolve_workers(config(gpu=[0, 1], flush="p2f"))
    assert found.device.parallel == "rows" and "leave --flush p2f out" in reasons["parallel"]


def test_the_cpu_has_nothing_that_writes_rows_back_itself():
    with pytest.raises(InputError, match="--flush direct is for GPUs, .*; use --flush p2f on the CPU, or --gpu 0"):
        check(config(flush="direct"))


def test_a_run_of_several_processes_says_so_once(ranks):
    _, output = ranks.run("--num_proc", 2, "--max_step", 2)
    assert output.count("--num_proc 2 " + SLOWER) == 1
    _, output = ranks.run("--max_step", 2)
    assert SLOWER not in output


def test_a_run_sharded_by_columns_says_what_they_gained_elsewhere(ranks):
    ranks.gpu = "devices.Device()"
    _, output = ranks.run("--gpu", 0, 0, "--parallel", "columns", "--max_step", 2)
    (line,) = [line for line in output.splitlines() if line.startswith("scores are exchanged through ")]
    assert "through host memory" in line or "through peer access" in line
    assert "times as many triples/s as one" in line


def test_what_is_known_of_columns_depends_on_link_and_cache():
    assert len({parallel.known_gain(True, True), parallel.known_gain(True, False),
                parallel.known_gain(False, True)}) == 3
    assert parallel.known_gain(False, False) == parallel.known_gain(False, True)


def test_a_run_says_that_gpus_move_rows_for_each_other(ranks):
    ranks.gpu = "devices.Device()"
    _, output = ranks.run("--gpu", 0, 0, "--parallel", "columns", "--cache_ratio", 0.2, "--max_step", 2, first=CARRIES)
    (line,) = [line for line in output.splitlines() if line.startswith("scores are exchanged through ")]
    assert "move whole rows for each other" in line and "times as many triples/s as one" in line


@pytest.mark.parametrize("given, expected",
                         [({}, True), ({"gpu": [0, 0]}, False), ({"peer": "off"}, False), ({"flush": "none"}, False),
                          ({"gpu": [0, 2]}, False), ({"row_dtype": "fp16"}, True)], ids=str)
def test_rows_of_large_tables_cross_the_bus_whole_where_gpus_reach_each_other(two_that_reach_each_other, given,
                                                                              expected):
    asked = config(**{"gpu": [0, 1], "parallel": "columns", **given})
    assert uses_owner_transfer(asked, 10**6) == expected
    assert not uses_owner_transfer(asked, 10**4)


@pytest.fixture
def two_that_reach_each_other(monkeypatch):
    """GPUs 0 and 1, but no other."""
    monkeypatch.setattr(_native, "reach_each_other", lambda one, other: max(one, other) < 2)


@pytest.mark.parametrize("given, chosen, messages", [
    ({}, "columns", "so that --rel_part has nothing to divide, scores are added over peer access"),
    ({"peer": "off"}, "rows", "have relations for themselves"),
    ({"model_name": "RESCAL"}, "rows", "does not go with RESCAL"),
    ({"partition": "relation"}, "rows", "leave --partition, --rel_part and --negatives out")], ids=str)
def test_relations_are_divided_where_gpus_share_them(two_that_reach_each_other, given, chosen, messages):
    found, reasons = resolve_workers(config(**{"gpu": [0, 1], "rel_part": True, **given}))
    assert found.device.parallel == chosen and messages in reasons["parallel"]
    assert found.device.edge_partition == ("relation" if chosen == "rows" else "random")
    assert resolve_workers(found) == (found, {})  # as of a run that is gone on with


def test_local_negatives_alone_are_by_hash(two_that_reach_each_other):
    found, _ = resolve_workers(config(gpu=[0, 1], negatives="local"))
    assert (found.device.parallel, found.device.edge_partition) == ("rows", "hash")
    with pytest.raises(InputError, match="--partition random gives none an owner"):
        check(config(num_proc=2, negatives="local", partition="random"))


def test_columns_that_cannot_be_are_refused():
    with pytest.raises(InputError, match="needs GPUs"):
        resolve_workers(config(num_proc=2, parallel="columns"))
