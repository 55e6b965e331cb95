"""What --cache_ratio auto, the default, stands for: as many rows as fit next to the plan."""

import json

import pytest

from dglke_frugal import available_memory
from dglke_frugal.cli.main import main
from dglke_frugal.options import DEFAULT_CACHE_RATIO, TrainConfig
from dglke_frugal.resolve import RANKING_BYTES, SPARE_BYTES, resolve
from dglke_frugal.training.plan.memory_plan import DEVICE, GraphSize

SIZE, ROW = GraphSize(10**6, 100, 10**7, 10**5), 416 * 4


def chosen(monkeypatch, free, **flags):
    monkeypatch.setattr(available_memory, "device_bytes", lambda gpu: free if gpu >= 0 else None)
    config = TrainConfig.from_flags({"model_name": "TransE_l2", "hidden_dim": 400, "gpu": [0], **flags})
    return resolve(config, SIZE)


def test_a_table_that_fits_lies_on_the_device(monkeypatch):
    plan = chosen(monkeypatch, 4 << 30)
    assert not plan.config.uses_engine and plan.cached_rows is None
    assert plan.memory.parts[DEVICE]["entity table"] == SIZE.entities * ROW
    assert plan.log_lines() == ["--flush none: the GPU holds all 1000000 entity rows"]


@pytest.mark.parametrize("flags", [{}, {"flush": "p2f"}, {"cache_policy": "lfu"}, {"valid": True}], ids=str)
@pytest.mark.parametrize("room", [600 << 20, 1500 << 20])
def test_the_cache_fills_what_the_plan_leaves(monkeypatch, room, flags):
    plan = chosen(monkeypatch, room + SPARE_BYTES + (RANKING_BYTES if "valid" in flags else 0), **flags)
    parts = plan.memory.parts[DEVICE]
    assert plan.config.store.flush == flags.get("flush", "direct") and plan.cached_rows * ROW == parts["entity cache"]
    assert plan.log_lines()[-1] == (f"cache {plan.cached_rows} of 1000000 entity rows: as many as the GPU has room for")
    assert 0 < parts["entity cache"] < SIZE.entities * ROW
    assert 0 <= room - sum(parts.values()) < ROW


def test_a_way_of_flushing_that_was_asked_for_is_kept(monkeypatch):
    plan = chosen(monkeypatch, 80 << 30, flush="sync")
    assert plan.config.store.flush == "sync" and plan.cached_rows == SIZE.entities


def test_where_nothing_fits_nothing_is_cached_and_the_plan_says_so(monkeypatch):
    plan = chosen(monkeypatch, 1 << 20)
    assert plan.cached_rows == 0
    assert "device memory" in plan.memory.problem


def test_data_parallel_gpus_that_synchronise_in_each_step_cache_none(monkeypatch):
    plan = chosen(monkeypatch, 80 << 30, gpu=[0, 1], parallel="rows")
    assert plan.config.uses_engine and plan.cached_rows == 0
    assert plan.log_lines()[-1].startswith("cache 0 of 1000000 entity rows: data-parallel GPUs")


@pytest.mark.parametrize("flags", [{"gpu": [-1], "flush": "p2f"}, {"gpu": [0, 1], "flush": "p2f"},
                                   {"gpu": [0, 1], "flush": "sync"}, {"cache_ratio": 0.05},
                                   {"cache_size": 10**6}, {"flush": "none"}], ids=str)
def test_several_ranks_the_cpu_and_what_was_asked_for_have_the_default(monkeypatch, flags):
    plan = chosen(monkeypatch, 80 << 30, **flags)
    rows = {10**6: 10**6 // ROW}.get(flags.get("cache_size"), SIZE.entities * DEFAULT_CACHE_RATIO)
    assert plan.cached_rows == (None if flags.get("flush") == "none" else rows)
    assert all(getattr(plan.config.store, name) == value for name, value in flags.items() if name != "gpu")


def test_the_plan_says_what_a_run_would_take(monkeypatch, capsys):
    flags = ["plan", "--json", "--entities", "1000000", "--gpu", "0", "--hidden_dim", "400"]
    monkeypatch.setattr(available_memory, "device_bytes", lambda gpu: 1 << 30)
    main(flags)
    device = json.loads(capsys.readouterr().out)["device"]
    assert 0 < device["parts"]["entity cache"] < 10**6 * ROW and device["bytes"] <= (1 << 30) - SPARE_BYTES
    main([*flags, "--cache_ratio", "0.05"])
    assert json.loads(capsys.readouterr().out)["device"]["parts"]["entity cache"] == 50_000 * ROW
    monkeypatch.setattr(available_memory, "device_bytes", lambda gpu: 8 << 30)
    main([*flags, "--cache_ratio", "auto"])
    assert json.loads(capsys.readouterr().out)["device"]["parts"]["entity table"] == 10**6 * ROW
