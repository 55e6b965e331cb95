"""What --cache_ratio auto, the default, stands for: as many rows as fit beside the plan."""

import json

import pytest

from dglke_frugal import available_memory
from dglke_frugal.cli.main import main
from dglke_frugal.config import DEFAULT_CACHE_RATIO, TrainConfig
from dglke_frugal.training.cache_choice import RANKING_BYTES, SPARE_BYTES, cache_line, choose_cache
from dglke_frugal.training.memory.memory_plan import DEVICE, GraphSize, plan_memory

SIZE, ROW = GraphSize(10**6, 100, 10**7, 10**5), 416 * 4


def chosen(monkeypatch, free, **flags):
    monkeypatch.setattr(available_memory, "device_bytes", lambda gpu: free if gpu >= 0 else None)
    config = TrainConfig.from_flags({"model_name": "TransE_l2", "hidden_dim": 400, "gpu": [0], **flags})
    return config, choose_cache(config, SIZE)


def test_a_table_that_fits_lies_on_the_device(monkeypatch):
    _, config = chosen(monkeypatch, 4 << 30)
    assert not config.uses_engine
    assert plan_memory(config, SIZE).parts[DEVICE]["entity table"] == SIZE.entities * ROW
    assert cache_line(config, SIZE) == "the device holds all 1000000 entity rows"


@pytest.mark.parametrize("flags", [{}, {"flush": "p2f"}, {"cache_policy": "lfu"}, {"valid": True}], ids=str)
@pytest.mark.parametrize("room", [600 << 20, 1500 << 20])
def test_the_cache_fills_what_the_plan_leaves(monkeypatch, room, flags):
    _, config = chosen(monkeypatch, room + SPARE_BYTES + (RANKING_BYTES if "valid" in flags else 0), **flags)
    parts = plan_memory(config, SIZE).parts[DEVICE]
    assert config.uses_engine and 0 < parts["entity cache"] < SIZE.entities * ROW
    assert 0 <= room - sum(parts.values()) < ROW


def test_a_way_of_flushing_that_was_asked_for_is_kept(monkeypatch):
    _, config = chosen(monkeypatch, 80 << 30, flush="sync")
    assert config.store.flush == "sync" and config.store.cache_slots(SIZE.entities, ROW) == SIZE.entities


def test_where_nothing_fits_nothing_is_cached_and_the_plan_says_so(monkeypatch):
    _, config = chosen(monkeypatch, 1 << 20)
    assert config.store.cache_slots(SIZE.entities, ROW) == 0
    assert "device memory" in plan_memory(config, SIZE).problem


def test_gpus_that_have_rows_and_meet_cache_none(monkeypatch):
    _, config = chosen(monkeypatch, 80 << 30, gpu=[0, 1], parallel="rows")
    assert config.uses_engine and config.store.cache_slots(SIZE.entities, ROW) == 0
    assert cache_line(config, SIZE) == "the device caches 0 of 1000000 entity rows"


@pytest.mark.parametrize("flags", [{"gpu": [-1], "flush": "p2f"}, {"gpu": [0, 1], "flush": "p2f"},
                                   {"gpu": [0, 1], "flush": "sync"}, {"cache_ratio": 0.05},
                                   {"cache_size": 10**6}, {"flush": "none"}], ids=str)
def test_nothing_is_chosen_for_several_ranks_the_cpu_and_what_was_asked_for(monkeypatch, flags):
    config, same = chosen(monkeypatch, 80 << 30, **flags)
    assert same is config
    if "cache_size" not in flags:
        assert config.store.cache_slots(SIZE.entities, ROW) == SIZE.entities * DEFAULT_CACHE_RATIO


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
