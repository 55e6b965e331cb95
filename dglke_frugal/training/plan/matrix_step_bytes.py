"""Device memory of a step whose relations are matrices that are updated where they lie (training/step/device_torch.py,
device_gradients.py): its tensors as they live together where they are most, which a run's allocations have shown."""

from __future__ import annotations

from ... import _native
from ...models import Model, RowDims
from ...options import TrainConfig
from ...store.row_bytes import FLOAT
from .transfer_bytes import step_block, transfer_bytes

LEAST = 4  # floats to which what ranks send each other is rounded up, piece by piece
VECTORS = 16  # of each positive, as long as an entity's row: rows of edges, queries, factors and gradients
PRODUCT_WORKSPACE_BYTES = 32 << 20  # that torch gives cuBLAS on compute capability 9.0; 8 MiB before


def matrix_step_bytes(config: TrainConfig, dims: RowDims, entities: int, relations: int, entity_row: int) -> int:
    """Of one process. The graphs of both directions of corruption share their memory, and that of the first steps,
    which are no graphs, is given back before.

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
    transfer = transfer_bytes(config, step_block(config, dims, entities, relations), entities, entity_row, records)
    return transfer + workspace + FLOAT * floats


def factor_floats(model: Model, dims: RowDims, positives: int) -> int:
    """Bytes of the gradients of a step's matrices that a rank sends the others, at most
    (training/step/replicated_matrices.py): of each positive the number of its matrix; for RESCAL two pairs of vectors
    at most, one by the textbook's rule; for TransR two pairs and, for the negatives, a matrix."""
    lengths = [1]
    if model.projects:
        lengths += 2 * [dims.entity, dims.relation] + [dims.projection]
    else:
        lengths += [2 * dims.entity, 2 * dims.entity]
    return sum(-(-positives * length // LEAST) * LEAST for length in lengths)
