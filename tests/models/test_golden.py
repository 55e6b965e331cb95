"""Recorded runs of genuine DGL-KE replay to the same numbers, through the CPU's step and through that of devices."""
import numpy as np
import pytest
from devices import device, queued_device, run_step  # noqa: F401
from golden_trace import TRACES, Trace, assert_losses_agree, assert_tables_agree

from dglke_frugal import _native
from dglke_frugal.store.rows.resident_rows import ResidentRows
from dglke_frugal.training.step.device_step import DeviceStep
from dglke_frugal.training.step.native_step import native_step

RUNS = [*TRACES, "fb15k_transe_l2_400"]


def replay(recorded, device, **options):
    """Trains over all recorded batches. Returns the tables and the losses of each step."""
    tables = recorded.host_tables()
    rows = [ResidentRows(table, device) for table in tables]
    step, losses = DeviceStep(recorded.config(), device, **options), []
    for i in range(recorded.meta.steps):
        run_step(step, i, recorded.batch(i), rows)
        losses.append(step.take_losses())
    for each in rows:
        each.drain()
    return tables, losses


def assert_agrees(trace, tables, losses):
    assert_losses_agree(trace, [step.total for step in losses])
    # DGL-KE sums a million floats in float32, which is off by up to 2e-4; test_gradients.py checks ours.
    np.testing.assert_allclose([step.regularization for step in losses], trace.reg, rtol=3e-4)
    if not trace.meta.pairwise:
        np.testing.assert_allclose([step.positive for step in losses], trace.pos_loss, rtol=1e-5)
        np.testing.assert_allclose([step.negative for step in losses], trace.neg_loss, rtol=1e-5)
    assert_tables_agree(trace, [table.embeddings for table in tables], [table.state for table in tables])


@pytest.mark.parametrize("run", RUNS)
def test_replay(golden, run):
    trace = Trace(golden / f"{run}.npz")
    assert_agrees(trace, *trace.replay())


@pytest.mark.parametrize("run", RUNS)
def test_replay_on_a_device(golden, run, queued_device):
    trace = Trace(golden / f"{run}.npz")
    assert_agrees(trace, *replay(trace, queued_device))


@pytest.mark.parametrize("matmul, bound", [("tf32x3", 1e-5), ("tf32", 2e-3)])
def test_rounded_products_stay_near(golden, device, matmul, bound):
    """What --matmul gives up: the losses of a short run, relative."""
    recorded = Trace(golden / "complex.npz")
    _, losses = replay(recorded, device, matmul=matmul)
    np.testing.assert_allclose([step.total for step in losses], recorded.loss, rtol=bound)


def test_wrong_input_is_refused(golden):
    recorded = Trace(golden / "transe_l2_adv.npz")
    entities, relations = recorded.host_tables()
    step = native_step(recorded.config())
    with pytest.raises(IndexError):
        step.run_in_place(recorded.batch(0), _native.HostTable(10, entities.dim), relations)
    with pytest.raises(ValueError, match="rows of another length"):
        step.run_in_place(recorded.batch(0), entities, _native.HostTable(relations.rows, relations.dim + 1))
    with pytest.raises(ValueError, match="no projections"):
        step.run_in_place(recorded.batch(0), entities, relations, relations)
