"""Device memory for the transfers of steps' batches and rows (training/step/device_batch.py)."""

from __future__ import annotations

from typing import Tuple

from ... import _native
from ...models import RowDims
from ...options import TrainConfig
from ...store.row_bytes import row_bytes



def step_block(config: TrainConfig, dims: RowDims, entities: int, relations: int) -> _native.StepBlock:
    """How a batch lies on the device. entities, relations: distinct rows of a step at most."""
    batch = config.batch
    tables = [("entity", entities, 0, config.uses_engine), ("relation", relations, 0, False)]
    if dims.projection:
        tables.append(("projection", relations, 0, False))
    return _native.StepBlock(batch.positives, batch.chunk, batch.negatives, config.weights_per_triple > 0, tables)


def transfer_bytes(config: TrainConfig, layout: _native.StepBlock, entities: int, entity_row: int,
                   records: Tuple[Tuple[int, int], ...]) -> int:
    """Of one process.

    layout: of its batches. entities: distinct ones of a step at most; entity_row: bytes of one's row in the cache.
    records: (rows, floats of an embedding) of each table whose rows a step computes with in memory of its own.
    """
    from ...store.rows.device_rows import STEPS_ON_DEVICE  # with torch, which runs on the CPU do without
    from ...store.rows.plans_ahead import PLANS_AHEAD

    prefetched = layout.bytes + sum(rows * row_bytes(dim, optimizer=config.loss.optimizer) for rows, dim in records)
    buffered = ahead = 0
    if config.uses_engine:
        plan = _native.plan_bytes(entities, config.flush == "direct" and config.store.cache_policy != "static")
        prefetched += plan
    if config.flush == "direct":
        ahead = PLANS_AHEAD * plan
        buffered = entities * entity_row
    return STEPS_ON_DEVICE * (prefetched + buffered) + ahead
