"""RESCAL and TransR on a device, whose matrices are updated where they lie, against the CPU's step."""
import numpy as np
import pytest
from devices import device, queued_device, run_step  # noqa: F401
from models.test_gradients import CHUNK, CHUNKS, ENTITIES, LOSSES, NEGATIVES, RELATIONS

from dglke_frugal import _native
from dglke_frugal.score_rule import SCORE_RULES
from dglke_frugal.store.rows.resident_rows import ResidentRows
from dglke_frugal.training.step.device_step import DeviceStep
from dglke_frugal.training.step.native_step import native_step
from dglke_frugal.training.step.step_config import LossConfig, StepConfig

STEPS = 3
SHAPES = [("RESCAL", dim, dim * dim) for dim in (1, 7, 50, 127, 200)] + [
    ("TransR", *dims) for dims in ((1, 3), (7, 5), (50, 50), (33, 129), (127, 64), (100, 200))]
PENALTY = 1e-2


def make_tables(config):
    """Rows with some state: where it is 0, a gradient of mere rounding would move a row as far as any."""
    random = np.random.default_rng(5)
    sizes = [(ENTITIES, config.entity_dim), (RELATIONS + 2, config.relation_dim)]
    if config.model == "TransR":
        sizes.append((RELATIONS + 2, config.entity_dim * config.relation_dim))
    tables = []
    for rows, dim in sizes:
        tables.append(_native.HostTable(rows, dim))
        tables[-1].embeddings[:] = random.uniform(-1, 1, (rows, dim)) / config.entity_dim**0.5
        tables[-1].state[:] = 1e-3
    return tables


def make_batches(weighted, chunk=CHUNK):
    """Three relations of five, so that all occur more than once and two never."""
    random, positives = np.random.default_rng(11), chunk * CHUNKS
    return [
        _native.make_batch(
            random.integers(0, ENTITIES, positives), random.integers(1, 1 + RELATIONS, positives),
            random.integers(0, ENTITIES, positives), random.integers(0, ENTITIES, CHUNKS * NEGATIVES), step % 2 == 1,
            chunk, ENTITIES, RELATIONS + 2, step=step,
            weight=random.uniform(0.2, 3, positives).astype(np.float32) if weighted else None)
        for step in range(STEPS)]


def train_on(device, config, batches):
    """Tables and mean losses of a run on `device`."""
    tables = make_tables(config)
    rows, step = [ResidentRows(table, device) for table in tables], DeviceStep(config, device)
    for i, batch in enumerate(batches):
        run_step(step, i, batch, rows)
    losses = step.take_losses()
    for each in rows:
        each.drain()
    return tables, losses


def assert_cpu_agrees(config, batches, device):
    found, losses = train_on(device, config, batches)
    expected, step = make_tables(config), native_step(config, 1)
    by_step = [step.run_in_place(batch, *expected) for batch in batches]
    for name in ("total", "regularization"):
        mean = np.mean([getattr(each, name) for each in by_step])
        np.testing.assert_allclose(getattr(losses, name), mean, rtol=1e-4, err_msg=name)
    for ours, theirs in zip(found, expected):
        for values, wanted in ((ours.embeddings, theirs.embeddings), (ours.state, theirs.state)):
            np.testing.assert_allclose(values, wanted, rtol=0, atol=1e-4 * np.abs(wanted).max())


def config_for(shape, loss, degree_negatives=False, rule="textbook"):
    model, entity, relation = shape
    return StepConfig(model, entity, relation, 8.0, 0.3, 0.05, loss, degree_negatives, rule)


@pytest.mark.parametrize("rule", SCORE_RULES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shapes(shape, rule, queued_device):
    loss = LossConfig(adversarial=True, regularization_coefficient=PENALTY)
    assert_cpu_agrees(config_for(shape, loss, rule=rule), make_batches(weighted=False), queued_device)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("degree_negatives", [False, True], ids=["sampled", "degree"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("shape", [("RESCAL", 9, 81), ("TransR", 9, 12)], ids=str)
def test_losses(shape, loss, degree_negatives, weighted, device):
    assert_cpu_agrees(config_for(shape, LOSSES[loss], degree_negatives), make_batches(weighted), device)


@pytest.mark.parametrize("norm", [1, 2, 3, 2.5])
@pytest.mark.parametrize("shape", [("RESCAL", 20, 400), ("TransR", 20, 17)], ids=str)
def test_regularization(shape, norm, device):
    loss = LossConfig(regularization_coefficient=PENALTY, regularization_norm=norm)
    assert_cpu_agrees(config_for(shape, loss), make_batches(weighted=False), device)


@pytest.mark.parametrize("chunk", [11, 40, 150])
@pytest.mark.parametrize("shape", [("RESCAL", 9, 81), ("TransR", 9, 12)], ids=str)
def test_many_edges_of_a_relation(shape, chunk, device):
    """More than one piece of them, and chunks that have no whole groups."""
    assert_cpu_agrees(config_for(shape, LossConfig()), make_batches(False, chunk), device)


@pytest.mark.parametrize("shape", [("RESCAL", 50, 2500), ("TransR", 40, 30)], ids=str)
def test_two_runs_have_the_same_bits(shape, device):
    config, batches = config_for(shape, LossConfig(adversarial=True)), make_batches(False, 40)
    (one, losses), (other, same) = (train_on(device, config, batches) for _ in range(2))
    assert losses == same
    for ours, theirs in zip(one, other):
        np.testing.assert_array_equal(ours.records, theirs.records)
