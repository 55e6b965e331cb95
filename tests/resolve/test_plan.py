"""What `dglke_frugal plan` says of how a run would be carried out, and with what reasons."""
import dataclasses
import json

import pytest

from dglke_frugal import _native, available_memory
from dglke_frugal.cli.main import main
from dglke_frugal.options import TrainConfig
from dglke_frugal.resolve import resolve, resolve_workers
from dglke_frugal.training.plan.memory_plan import GraphSize

SIZE = GraphSize(10**6, 100, 10**7)


@pytest.fixture
def gpus(monkeypatch):
    """Two that reach each other, with tensor cores and room for no table."""
    monkeypatch.setattr(_native, "cuda_devices", lambda with_free_memory: ([{"capability": (9, 0)}] * 2, ""))
    monkeypatch.setattr(_native, "reach_each_other", lambda one, other: True)
    monkeypatch.setattr(available_memory, "device_bytes", lambda gpu: 1 << 30 if gpu >= 0 else None)


def planned(**flags):
    config, reasons = resolve_workers(TrainConfig.from_flags({"model_name": "TransE_l2", "hidden_dim": 400, **flags}))
    return resolve(config, SIZE, reasons=reasons)


def test_every_decision_has_a_reason_and_none_is_left(gpus):
    plan = planned(gpu=[0, 1])
    assert plan.to_dict() == {
        "mode": "columns", "workers": 2, "gpu": [0, 1], "matmul": "tf32x3", "flush": "direct", "whole_rows": True,
        "cached_rows": plan.cached_rows, "reasons": plan.reasons}
    assert 0 < plan.cached_rows < SIZE.entities and plan.reasons.keys() == {"parallel", "matmul", "flush", "cache"}
    flags = plan.config.to_flags()
    assert "auto" not in [flags[name] for name in ("parallel", "matmul", "flush")] and flags["cache_size"]


def test_a_plan_stays_as_it_is(gpus):
    plan = planned(gpu=[0, 1])
    assert resolve(*resolve_workers(plan.config)[:1], SIZE).config == plan.config  # nothing is decided twice
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.entities = 3


def test_what_was_given_is_reported_to_be_given(gpus):
    plan = planned(gpu=[0, 1], parallel="rows", flush="sync", cache_ratio=0.25, matmul="fp32")
    assert plan.lines() == ["2 workers by rows on GPU 0 1", "--parallel rows: as given",
                            "--matmul fp32: as given",
                            "--flush sync: as given", "cache 250000 of 1000000 entity rows: as given"]
    assert plan.reasons == {} and plan.log_lines() == []


def test_one_process_on_the_cpu_has_nothing_to_say_in_its_log():
    plan = planned()
    assert plan.mode == "alone" and plan.cached_rows is None and plan.log_lines() == []
    assert plan.lines() == ["one process on the CPU",
                            "--flush none: one process on the CPU updates rows where they lie"]


@pytest.mark.parametrize("flags, mode, flush", [
    ([], "alone", "none"), (["--gpu", "0"], "alone", "direct"), (["--gpu", "0", "1"], "columns", "direct"),
    (["--gpu", "0", "1", "--flush", "p2f"], "rows", "p2f"), (["--num_proc", "2", "--flush", "p2f"], "rows", "p2f")])
def test_the_command_prints_it(gpus, capsys, flags, mode, flush):
    main(["plan", "--entities", "1000000", "--hidden_dim", "400", *flags, "--json"])
    execution = json.loads(capsys.readouterr().out)["execution"]
    assert (execution["mode"], execution["flush"]) == (mode, flush)
    main(["plan", "--entities", "1000000", "--hidden_dim", "400", *flags])
    assert f"--flush {flush}: " in capsys.readouterr().out
