"""Device memory of a step whose gradients kernels compute (training/step/device_kernels.py), counted as it is made."""

from __future__ import annotations

from ... import _native
from ...models import RowDims
from ...options import TrainConfig
from ...store.row_bytes import FLOAT, row_bytes
from ..step.native_step import native_step
from ..step.step_config import gradient_stride, step_config
from .transfer_bytes import step_block, transfer_bytes


def kernel_step_bytes(config: TrainConfig, dims: RowDims, entities: int, relations: int, entity_row: int,
                      held: int) -> int:
    """Of one process.

    entities, relations: distinct rows of a step at most. entity_row: bytes of an entity's row in the cache;
    held: of all that lie on the device.
    """
    from ...store.rows.device_rows import BYTES_PER_COPY  # with torch, which runs on the CPU do without

    batch = config.batch
    layout = step_block(config, dims, entities, relations)
    negatives = batch.positives // batch.chunk * batch.negatives
    of_entity, of_relation = gradient_stride(dims.entity), gradient_stride(dims.relation)
    gradients = (entities + negatives) * (of_entity + 1) + batch.positives * (of_relation + 1)  # and mean squares
    workspace = _native.workspace_floats(native_step(step_config(config), threads=1), layout)
    beside = entity_row + row_bytes(dims.relation)  # a row of each table that padding uses
    beside += min(held, BYTES_PER_COPY)  # of rows that are copied to the host
    if config.loss.optimizer != "row_adagrad":  # sums of gradients (step/summed_updates.py)
        gradients += 2 * entities * dims.entity + relations * dims.relation
    records = (entities, dims.entity), (relations, dims.relation)
    transfer = transfer_bytes(config, layout, entities, entity_row, records)
    return transfer + beside + FLOAT * (gradients + workspace)
