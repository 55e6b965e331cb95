"""Small cases of a step against all entities."""
import numpy as np
from devices import run_step

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

RELATIONS, BATCH = 5, 37
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
