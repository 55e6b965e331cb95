"""Ranks as threads over shared stores, on the CPU and on devices, which are the CPU behind a queue: tables equal the
oracle's to the bit, whatever the setting."""
import itertools

import numpy as np
import pytest
import torch
from devices import STREAMS, FailingDevice, QueuedDevice, make_device
from training.parallel.conftest import assert_same
from training.parallel.thread_ranks import (SETTINGS, STEPS, ThreadRanks, run_oracle, samplers, step_config,
                                            trained_by_threads)

from dglke_frugal.training.step.step_config import KERNEL_MODELS


pytestmark = pytest.mark.usefixtures("one_torch_thread")


def on_devices(config, ranks, flush, kind="queued", **options):
    """kind: None for rows on the CPU."""
    made = {"make_device": lambda: make_device(kind)} if kind else {}
    return trained_by_threads(config, ranks, flush, **made, **options)


IN_STEP_SYNC = {"mode": "direct"}  # of devices
MODELS = ["TransE_l1", "TransE_l2", "DistMult", "ComplEx", "RotatE", "SimplE", "RESCAL", "TransR"]
MATRICES = [("RESCAL", "textbook"), ("RESCAL", "dglke"), ("TransR", "textbook")]


@pytest.mark.parametrize("kind, flush, delay", [(None, {}, 0.0), ("queued", {}, 0.0), ("queued", IN_STEP_SYNC, 0.001)])
@pytest.mark.parametrize("model, rule", [*((model, "textbook") for model in MODELS), ("RESCAL", "dglke"),
                                         ("TransR", "dglke")])
def test_every_model_equals_the_oracle(model, rule, kind, flush, delay):
    config = step_config(model, rule)
    arrays, statistics = on_devices(config, 2, flush, kind, delay=delay)
    expected = run_oracle(config, 2)
    if model in KERNEL_MODELS or kind is None:
        assert_same(arrays, expected)
    else:  # torch multiplies their matrices, and sums in its own order
        for name, array in arrays.items():
            np.testing.assert_allclose(array, expected[name], rtol=0, atol=1e-4, err_msg=name)
    for rank in statistics:
        assert rank["gradients_sent"] > 0 and rank["steps"] == STEPS


@pytest.fixture(scope="module")
def expected():
    return {(ranks, element): run_oracle(step_config(), ranks, element=element)
            for ranks in (1, 2, 3, 4) for element in ("fp32", "fp16")}


@pytest.mark.parametrize("ranks, kind", [*((ranks, None) for ranks in (1, 2, 3, 4)), (2, "queued"), (4, "queued")])
@pytest.mark.parametrize("flush, slots", SETTINGS, ids=str)
def test_no_setting_changes_a_bit(expected, ranks, kind, flush, slots):
    arrays, _ = on_devices(step_config(), ranks, flush, kind, entity_slots=slots)
    assert_same(arrays, expected[ranks, "fp32"])


@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("flush, slots, delay", [
    ({"lookahead": 1}, 0, 0.0), ({"lookahead": 2}, 5, 0.002), ({"lookahead": 10, "policy": "lfu"}, 30, 0.0),
    ({"lookahead": 3}, 90, 0.001)], ids=str)
def test_devices_that_synchronise_in_each_step_need_no_flush_threads(expected, ranks, flush, slots, delay):
    arrays, statistics = on_devices(step_config(), ranks, {**flush, **IN_STEP_SYNC}, entity_slots=slots, delay=delay)
    assert_same(arrays, expected[ranks, "fp32"])
    assert all(rank["gradients_sent"] > 0 and rank["gate_stall_nanoseconds"] == 0 for rank in statistics)


@pytest.mark.parametrize("slots, policy", [(0, "static"), (10, "lfu")])
@pytest.mark.parametrize("kinds", [*itertools.product(STREAMS, repeat=2)], ids="; ".join)
def test_streams_of_devices_that_synchronise(expected, kinds, slots, policy):
    """As far ahead and as late as their waits allow. Each has to come as far as the other one waits for."""
    made = iter(kinds)
    arrays, _ = trained_by_threads(step_config(), 2, {**IN_STEP_SYNC, "lookahead": 15, "policy": policy},
                                   entity_slots=slots, make_device=lambda: make_device(next(made)))
    assert_same(arrays, expected[2, "fp32"])


@pytest.mark.parametrize("model, rule", MATRICES)
def test_replicas_of_matrices_are_alike_however_ranks_are_timed(model, rule):
    """Rank 0 writes its own host table; so each takes a turn at being rank 0's device that is late."""
    config = step_config(model, rule)
    expected = run_oracle(config, 3)
    first, _ = on_devices(config, 3, IN_STEP_SYNC)
    for name, array in first.items():
        np.testing.assert_allclose(array, expected[name], rtol=0, atol=1e-4, err_msg=name)
    for flush, slots, delay in (({**IN_STEP_SYNC, "lookahead": 2}, 5, 0.002), ({"lookahead": 1}, 0, 0.001)):
        assert_same(on_devices(config, 3, flush, entity_slots=slots, delay=delay)[0], first)
    run = ThreadRanks(config, 3, IN_STEP_SYNC, make_device=lambda: make_device("queued"))
    try:
        run.run()
        replicas = [[rows.steps.cache[: rows.rows].clone() for rows in stores.values() if rows.steps.replicated]
                    for stores in run.stores]
        assert len(replicas[0]) == (2 if model == "TransR" else 1)
        for other in replicas[1:]:
            for mine, theirs in zip(replicas[0], other):
                assert torch.equal(mine.view(torch.int32), theirs.view(torch.int32))
    finally:
        run.close()


@pytest.mark.parametrize("model, rule", MATRICES)
def test_ranks_whose_last_batches_differ_in_length(model, rule):
    """600 edges of 7 ranks, 16 at a time: the sixth batch of each direction has 5 or 6."""
    config, steps = step_config(model, rule), 14
    run = ThreadRanks(config, 7, IN_STEP_SYNC, make_device=lambda: make_device("queued"), negatives=1)
    try:
        run.run(steps)
        arrays = run.arrays()
    finally:
        run.close()
    assert any(len({len(source.batch(step)) for source in samplers(7, negatives=1)}) > 1 for step in range(steps))
    for name, array in run_oracle(config, 7, steps, negatives=1).items():
        np.testing.assert_allclose(arrays[name], array, rtol=0, atol=1e-4, err_msg=name)


@pytest.mark.parametrize("ranks, kind", [(1, None), (2, None), (4, None), (2, "queued"), (4, "queued")])
@pytest.mark.parametrize("flush, slots", SETTINGS[:4], ids=str)
def test_half_precision_rows_are_rounded_once_when_all_ranks_have_updated_them(expected, ranks, kind, flush, slots):
    arrays, entities = on_devices(step_config(), ranks, flush, kind, entity_slots=slots, element="fp16", delay=0.001)
    assert_same(arrays, expected[ranks, "fp16"])
    assert all((rank["gradients_sent"] > 0) == (ranks > 1) for rank in entities)


@pytest.mark.parametrize("model", ["TransE_l1", "ComplEx", "RESCAL", "TransR"])
def test_half_precision_rows_of_every_model(model):
    arrays, _ = trained_by_threads(step_config(model), 2, {}, element="fp16")
    assert_same(arrays, run_oracle(step_config(model), 2, element="fp16"))


@pytest.mark.parametrize("ranks, kind, seconds", [(3, None, 0.001), (3, None, 0.005), (4, "queued", 0.002)])
def test_delays_of_ranks_change_nothing(expected, ranks, kind, seconds):
    arrays, _ = on_devices(step_config(), ranks, {"lookahead": 3}, kind, delay=seconds)
    assert_same(arrays, expected[ranks, "fp32"])


@pytest.mark.parametrize("model", ["TransE_l2", "RESCAL"])
def test_a_device_that_fails_stops_all_ranks_with_a_sentence(model):
    devices = iter([QueuedDevice(), FailingDevice(STEPS // 2), QueuedDevice()])
    run = ThreadRanks(step_config(model), 3, {"lookahead": 2}, make_device=lambda: next(devices))
    try:
        run.run()
        assert len(run.errors) == 3
        assert all("the device" in str(error) and "the bus is gone" in str(error) for error in run.errors)
    finally:
        run.close()


def test_a_rank_that_fails_stops_the_others_with_its_sentence():
    run = ThreadRanks(step_config(), 3, {"lookahead": 2})
    try:
        run.stores[1]["relation"].fail("rank 1: no more coffee")
        run.run()
        assert len(run.errors) == 3
        assert all("no more coffee" in str(error) for error in run.errors)
    finally:
        run.close()
