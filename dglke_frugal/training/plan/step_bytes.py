"""Bytes of the buffers of one process's steps, on the processor or on a device, counted as they are made."""

from __future__ import annotations

from typing import Tuple

from ... import _native
from ...models import Model, RowDims, TorchModel, find_model
from ...options import TrainConfig
from ...store.cache_policy import keeps_hot_rows
from ...store.row_bytes import FLOAT, row_bytes
from ..full_softmax.flash_shape import flash_floats, flash_fits
from ..full_softmax.tiles import (DEVICE_TILE_FLOATS, HOST_HELD_FLOATS, HOST_TILE_FLOATS, ROUNDED_MATMUL, tile_rows,
                                  updates_at_once)
from ..step.native_step import native_step
from ..step.step_config import KERNEL_MODELS, gradient_stride, step_config

LEAST = 4  # floats to which what ranks send each other is rounded up, piece by piece
VECTORS = 16  # of each positive, as long as an entity's row: rows of edges, queries, factors and gradients
PRODUCT_WORKSPACE_BYTES = 32 << 20  # that torch gives cuBLAS on compute capability 9.0; 8 MiB before


def entity_row_bytes(config: TrainConfig) -> int:
    """Bytes of an entity's row, in host memory and in a device's cache alike."""
    return row_bytes(config.model.dims.entity, config.model.row_dtype, config.loss.optimizer)


def host_step_bytes(config: TrainConfig, model: Model, dims: RowDims, negatives: int) -> int:
    """Buffers of a step on the CPU. negatives: of all chunks."""
    batch, positives = config.batch, config.batch.positives
    if not isinstance(model, TorchModel):
        return native_step(step_config(config), threads=1).buffer_bytes(positives, batch.chunk, batch.negatives)
    # Gradients of edges and queries, and as autograd keeps what it multiplied for each positive and negative.
    own, columns = (positives, batch.chunk) if batch.neg_deg_sample else (0, 0)
    pairs = positives * (batch.neg_sample_size + columns)
    rows = 4 * positives + 3 * negatives + 2 * own + 3 * pairs
    return FLOAT * (rows * dims.entity + positives * dims.relation + pairs)


def full_softmax_bytes(config: TrainConfig, dims: RowDims, entities: int, relations: int) -> int:
    """Buffers of training/full_softmax: scores and gradients of tiles, and vectors of queries and of the batch's rows,
    counted as tensors, not measured."""
    on_gpu = config.device.gpu[0] >= 0
    scores = DEVICE_TILE_FLOATS if on_gpu else HOST_TILE_FLOATS
    positives, loss = config.batch.batch_size, config.loss

    model = find_model(config.model.model_name)
    distances, bound = model.similarity != "dot", model.bound
    matmul = config.device.matmul if on_gpu and not distances else "fp32"
    most_held = 0 if on_gpu or distances or loss.loss_genre == "BCE" else HOST_HELD_FLOATS

    def of_table(rows: int, dim: int, rate: float, in_batch: int) -> int:
        if flash_fits(matmul, rows, dim, loss.labels == "1vsall", bound, rate):
            return flash_floats(loss.optimizer, positives, rows, dim, in_batch)
        tile = tile_rows(positives, rows, dim, scores, copied=rate > 0, held=most_held)
        rounded = (tile.scores + 4 * positives) * dim // 2 if matmul == ROUNDED_MATMUL else 0
        held = 0 if updates_at_once(matmul, loss.optimizer, rate) else tile.gradients * dim
        held += tile.scores * dim if rate else 0
        if distances:  # also the scores, and a tile's rows as they are compared (full_softmax/tile_products.py)
            held += 2 * positives * tile.scores + tile.scores * dim
        return positives * tile.scores + held + rows + rounded

    floats = of_table(entities, dims.entity, loss.entity_dropout, 2 * positives)
    floats += positives * (24 * dims.entity + 12 * dims.relation)
    if loss.relation_prediction:
        floats += of_table(relations, dims.relation, loss.relation_dropout, positives)
        floats += positives * (6 * dims.entity + 6 * dims.relation)
    return FLOAT * floats


def device_step_bytes(config: TrainConfig, model: Model, dims: RowDims, distinct: int, relations: int, held: int,
                       host_step: int) -> int:
    """Buffers of a step: of kernels, and of matrices that lie on the device, as they are made; of a custom model by
    count of tensors, not measured, where no operation works in place of another, and the graphs of both directions of
    corruption share their buffers; the first steps, which are no graphs, have buffers of their own.
    """
    if isinstance(model, TorchModel):
        return 4 * host_step
    positives, row = config.batch.positives, entity_row_bytes(config)
    relations = min(relations, positives)
    if model.name in KERNEL_MODELS:
        return kernel_step_bytes(config, dims, distinct, relations, row, held)
    copied = 0
    if config.device.ranks > 1:  # of each edge its matrix and its gradients, of each matrix the records and the sums
        entries, floats = (2, dims.projection) if dims.projection else (1, dims.relation)
        copied = FLOAT * floats * ((2 + 2 * entries) * positives + (1 + entries) * relations)
    return copied + _matrix_step_bytes(config, dims, distinct, relations, row)


def kernel_step_bytes(config: TrainConfig, dims: RowDims, entities: int, relations: int, entity_row: int,
                      held: int) -> int:
    """Of one process, whose gradients kernels compute (training/step/device_kernels.py).

    entities, relations: distinct rows of a step at most. entity_row: bytes of an entity's row in the cache;
    held: of all that lie on the device.
    """
    from ...store.rows.device_rows import BYTES_PER_COPY  # with torch, which runs on the CPU do without

    batch = config.batch
    layout = _step_block(config, dims, entities, relations)
    negatives = batch.positives // batch.chunk * batch.negatives
    of_entity, of_relation = gradient_stride(dims.entity), gradient_stride(dims.relation)
    gradients = (entities + negatives) * (of_entity + 1) + batch.positives * (of_relation + 1)  # and mean squares
    workspace = _native.workspace_floats(native_step(step_config(config), threads=1), layout)
    extra = entity_row + row_bytes(dims.relation)  # a row of each table that padding uses
    extra += min(held, BYTES_PER_COPY)  # of rows that are copied to the host
    if config.loss.optimizer != "row_adagrad":  # sums of gradients (step/summed_updates.py)
        gradients += 2 * entities * dims.entity + relations * dims.relation
    records = (entities, dims.entity), (relations, dims.relation)
    transfer = _transfer_bytes(config, layout, entities, entity_row, records)
    return transfer + extra + FLOAT * (gradients + workspace)


def _matrix_step_bytes(config: TrainConfig, dims: RowDims, entities: int, relations: int, entity_row: int) -> int:
    """Of one process, whose relations are matrices that are updated where they lie (training/step/device_torch.py,
    device_gradients.py): its tensors as they live together where they are most, which a run's allocations have shown.
    The graphs of both directions of corruption share their memory, and that of the first steps, which are no graphs, is
    given back before.

    entities, relations: distinct rows of a step at most. entity_row: bytes of an entity's row in the cache.
    """
    batch = config.batch
    columns = batch.negatives + (batch.chunk if batch.neg_deg_sample else 0)  # scores of each positive
    chunks = batch.positives // batch.chunk
    records = ((entities, dims.entity),)
    floats = VECTORS * batch.positives * dims.entity + batch.positives * columns
    workspace = PRODUCT_WORKSPACE_BYTES
    if dims.projection:  # whose products are kernels of ours
        records, workspace = (*records, (relations, dims.relation)), 0
        floats += batch.positives * columns * (dims.relation + 1)  # every negative is projected for every positive
        floats += batch.positives * dims.projection + chunks * _native.MatrixRows.stripes * columns * dims.entity
    transfer = _transfer_bytes(config, _step_block(config, dims, entities, relations), entities, entity_row, records)
    return transfer + workspace + FLOAT * floats


def _step_block(config: TrainConfig, dims: RowDims, entities: int, relations: int) -> _native.StepBlock:
    """How a batch lies on the device. entities, relations: distinct rows of a step at most."""
    batch = config.batch
    tables = [("entity", entities, 0, config.uses_engine), ("relation", relations, 0, False)]
    if dims.projection:
        tables.append(("projection", relations, 0, False))
    return _native.StepBlock(batch.positives, batch.chunk, batch.negatives, config.weights_per_triple > 0, tables)


def _transfer_bytes(config: TrainConfig, layout: _native.StepBlock, entities: int, entity_row: int,
                    records: Tuple[Tuple[int, int], ...]) -> int:
    """Of one process, for the transfers of steps' batches and rows (training/step/device_batch.py).

    layout: of its batches. entities: distinct ones of a step at most; entity_row: bytes of one's row in the cache.
    records: (rows, floats of an embedding) of each table whose rows a step computes with in memory of its own.
    """
    from ...store.rows.device_rows import STEPS_ON_DEVICE  # with torch, which runs on the CPU do without
    from ...store.rows.plans_ahead import PLANS_AHEAD

    prefetched = layout.bytes + sum(rows * row_bytes(dim, optimizer=config.loss.optimizer) for rows, dim in records)
    buffered = ahead = 0
    if config.uses_engine:
        plan = _native.plan_bytes(entities, config.flush == "direct" and not keeps_hot_rows(config.store.cache_policy))
        prefetched += plan
    if config.flush == "direct":
        ahead = PLANS_AHEAD * plan
        buffered = entities * entity_row
    return STEPS_ON_DEVICE * (prefetched + buffered) + ahead
