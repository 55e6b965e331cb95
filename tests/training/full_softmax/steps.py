"""Small cases of a step against all entities."""
import numpy as np
import torch
from devices import run_step
from threads import compute_with, threads_as_before
from training.full_softmax.oracle import Oracle

from dglke_frugal import _native
from dglke_frugal.options import state_floats
from dglke_frugal.models import find_model
from dglke_frugal.store.device.device import HostDevice
from dglke_frugal.store.rows.resident_rows import ResidentRows
from dglke_frugal.training.full_softmax.config import FullSoftmaxConfig
from dglke_frugal.training.full_softmax.full_softmax import FullSoftmax
from dglke_frugal.training.full_softmax.targets import OneAnswer
from dglke_frugal.training.step.device_step import DeviceStep
from dglke_frugal.training.step.step_config import LossConfig, StepConfig

ENTITIES, RELATIONS, BATCH, STEPS = 150, 5, 37, 4
HIDDEN = {"DistMult": (21, False, False), "ComplEx": (22, False, False), "SimplE": (9, True, True),
          "RESCAL": (7, False, False), "TransE_l2": (21, False, False), "TransE_l1": (21, False, False),
          "RotatE": (11, True, False)}


def make_config(model, coefficient=0.05, norm=3, learning_rate=0.1, **settings):
    dims = find_model(model).dims(*HIDDEN[model])
    loss = LossConfig("Softmax", regularization_coefficient=coefficient, regularization_norm=norm)
    return FullSoftmaxConfig(StepConfig(model, dims.entity, dims.relation, 12.0, 0.5, learning_rate, loss), **settings)


def make_tables(config, entities, scale=1.0, relations=RELATIONS):
    random = np.random.default_rng(3)
    tables = []
    for rows, dim in ((entities, config.step.entity_dim), (relations, config.step.relation_dim)):
        table = _native.HostTable(rows, dim, False, state_floats(config.optimizer, dim))
        table.embeddings[:] = scale * random.uniform(-1, 1, (rows, dim))
        tables.append(table)
    return tables


def make_batch(number, entities, weighted=False):
    """Few entities take part, so that most occur more than once; odd batches corrupt heads."""
    random = np.random.default_rng(number)
    some = random.choice(entities, 12, replace=False)
    weight = random.uniform(0.2, 3, BATCH).astype(np.float32) if weighted else None
    return _native.make_batch(random.choice(some, BATCH), random.integers(0, RELATIONS - 1, BATCH),
                              random.choice(some, BATCH), np.empty(0, np.int64), bool(number % 2), 1, entities,
                              RELATIONS, weight=weight, step=number)


class Trained:
    """Trains tables with a step, batch after batch."""

    def __init__(self, config, tables, device=None, matmul="fp32", targets=None):
        self.tables, device = tables, device or HostDevice()
        targets = targets or OneAnswer(device, BATCH)
        self.step = DeviceStep(config.step, device, make_gradients=lambda _, device, sums: FullSoftmax(
            config, device, sums, targets, matmul))
        self.rows = [ResidentRows(table, device) for table in tables]

    def run(self, batch, number):
        """Returns the loss."""
        run_step(self.step, number, batch, self.rows)
        losses = self.losses = self.step.take_losses()
        for rows in self.rows:
            rows.drain()
        return losses.total


def assert_agrees(config, device, entities=ENTITIES, weighted=False, scale=1.0):
    """Losses and tables are the oracle's. With relation prediction a relation that is in no batch moves, too."""
    tables = make_tables(config, entities, scale)
    oracle, trained = Oracle(config, *(table.embeddings for table in tables)), Trained(config, tables, device)
    before = tables[1].embeddings[RELATIONS - 1].copy()
    for number in range(STEPS):
        batch = make_batch(number, entities, weighted)
        assert RELATIONS - 1 not in batch.relation
        np.testing.assert_allclose(trained.run(batch, number), oracle.step(batch, number), rtol=2e-5)
        if config.relation_prediction:
            np.testing.assert_allclose(trained.losses.relation, oracle.relation_loss, rtol=2e-5)
        for table, expected in zip(tables, oracle.tables):
            np.testing.assert_allclose(table.embeddings, expected.numpy(), rtol=0, atol=3e-4)
    if config.relation_prediction:
        assert (tables[1].embeddings[RELATIONS - 1] != before).any()


def answers_of(graph, known, relation, corrupt_head):
    """As a set, by looking at every triple."""
    train = graph.train
    sides = (train.tail, train.head) if corrupt_head else (train.head, train.tail)
    return {int(a) for k, r, a in zip(sides[0], train.relation, sides[1]) if (k, r) == (known, relation)}


def labels_of(graph, batch, smoothing, binary):
    """By which a batch of queries is trained, (n, entities): of binary losses 1 for each answer, else shares of 1.
    Relations from RELATIONS on are inverse ones."""
    labels = torch.zeros(len(batch), graph.n_entities, dtype=torch.float64)
    for row, known, relation in zip(labels, batch.tail if batch.corrupt_head else batch.head, batch.relation):
        heads = batch.corrupt_head or relation >= RELATIONS
        row[list(answers_of(graph, known, relation % RELATIONS, heads))] = 1
    if smoothing:
        labels = (1 - smoothing) * labels + 1 / graph.n_entities
    return labels if binary else labels / labels.sum(1, keepdim=True)


def records_after(config, device=None, entities=ENTITIES):
    """Both tables after some steps, as bytes."""
    tables = make_tables(config, entities)
    trained = Trained(config, tables, device)
    for number in range(STEPS):
        trained.run(make_batch(number, entities), number)
    return [table.records.tobytes() for table in tables]


def assert_threads_change_no_bit(config, entities=ENTITIES):
    found = []
    with threads_as_before():
        for count in (1, 2, 5):
            compute_with(count)
            found.append(records_after(config, entities=entities))
    assert found[0] == found[1] == found[2]
