"""Device memory of a step whose gradients kernels compute (training/step/device_kernels.py), counted as it is made."""

from __future__ import annotations

from ... import _native
from ...config import TrainConfig
from ...models import RowDims
from ..step.native_step import native_step
from ..step.step_config import step_config
from .row_bytes import FLOAT, row_bytes

PLAN_BYTES = 8 + 4 + 1 + 8  # of a row: its number, where it is read, how it leaves and whither (csrc/engine/plan.h)


def kernel_step_bytes(config: TrainConfig, dims: RowDims, entities: int, relations: int, entity_row: int,
                      held: int) -> int:
    """Of one process.

    entities, relations: distinct rows of a step at most. entity_row: bytes of an entity's row in the cache;
    held: of all that lie on the device.
    """
    from ...store.carried_rows import SHAPES  # with torch, which runs on the CPU do without
    from ...store.device_rows import BYTES_PER_COPY, STEPS_ON_DEVICE

    batch = config.batch
    chunk = batch.chunk
    layout = _native.StepBlock(batch.positives, chunk, batch.negatives, config.weights_per_triple > 0,
                               [("entity", entities, 0, config.uses_engine), ("relation", relations, 0, False)])
    negatives = batch.positives // chunk * batch.negatives
    optimizer = config.loss.optimizer
    records = sum(rows * row_bytes(dim, optimizer=optimizer)
                  for rows, dim in ((entities, dims.entity), (relations, dims.relation)))
    arriving = layout.bytes + records
    in_flight = 0
    if config.uses_engine:
        arriving += PLAN_BYTES * entities
        in_flight = STEPS_ON_DEVICE * entities * entity_row
        if config.store.bus_rows == "whole":  # where ranks carry rows for each other, room is there for all shapes
            in_flight += (SHAPES - 1) * STEPS_ON_DEVICE * entities * row_bytes(dims.entity)
    gradients = (entities + negatives) * (dims.entity + 1) + batch.positives * (dims.relation + 1)  # and mean squares
    workspace = _native.workspace_floats(native_step(step_config(config), threads=1), layout)
    beside = entity_row + row_bytes(dims.relation)  # a row of each table that padding uses
    beside += min(held, BYTES_PER_COPY)  # of rows that are copied home
    if optimizer != "row_adagrad":  # sums of gradients (step/summed_updates.py)
        gradients += 2 * entities * dims.entity + relations * dims.relation
    return STEPS_ON_DEVICE * arriving + in_flight + beside + FLOAT * (gradients + workspace)
