"""A step whose rows stay in host memory: their records are copied to the device, which computes gradients, and the
gradients are copied back, by which the host updates the rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Callable, Dict, List, NamedTuple, Sequence

import numpy as np
import torch

from ... import _native
from ...store.device.device import Device
from ...store.rows.device_rows import arrays_of
from .device_batch import BatchForm, BatchSizes
from .device_kernels import KernelGradients
from .losses import Losses
from .step import HostStep
from .step_config import StepConfig

ALIGNED = 32  # floats between which records lie in device memory


class StagedStep(HostStep):
    """Trains rows of _native.StepRows, with the gradients that a DeviceStep of a table on the device would have."""

    def __init__(self, config: StepConfig, device: Device, matmul: str = "fp32"):
        """matmul: one of options.MATMULS. config: of one of KERNEL_MODELS."""
        super().__init__()
        self._config, self._device, self._matmul = config, device, matmul
        self._compute()

    def _compute(self) -> None:
        self._losses = self._device.zeros(4, dtype=np.float64)
        self._gradients = KernelGradients(self._config, self._device, self._losses, self._matmul)
        self._shaped: Dict[BatchSizes, _ShapedStep] = {}

    def set_learning_rate(self, rate):
        self._config = replace(self._config, learning_rate=rate)
        self._compute()

    def _train(self, batch, entities, relations):
        sizes = BatchSizes(len(batch), batch.chunk_size, batch.negatives_per_chunk, batch.weighted)
        if sizes not in self._shaped:
            self._shaped[sizes] = _ShapedStep(self._device, self._gradients, self._losses, sizes, self._config)
        positive, negative, relation, sums = self._shaped[sizes].run(batch, entities, relations)
        slots = np.flatnonzero(np.diff(batch.positive_offset))
        for rows, entries in ((relations, [(batch.relation, relation)]),
                              (entities, [(batch.entities[slots], positive[slots]), (batch.negative, negative)])):
            rows.copy_to_destination()
            rows.apply_entries(entries, self._config.learning_rate)
        return Losses(*sums)


class _StagedTable:
    """A table as KernelGradients uses it, whose records are on the device already."""

    planned = True  # so that the step's block says nothing of its rows
    scratch = 0

    def __init__(self, most_rows: int):
        self.most_rows = most_rows

    def reads(self, plan):
        """See DeviceRows.reads."""

    def gather(self, plan, records):
        """See DeviceRows.gather."""


class _Block(NamedTuple):
    """As a DeviceBlock."""

    layout: _native.StepBlock
    block: torch.Tensor
    fields: dict
    records: Sequence[torch.Tensor]
    plans: Sequence[None] = (None, None)


class _ShapedStep:
    """Steps of batches of one shape: their memory on both sides, and their work."""

    def __init__(self, device: Device, gradients: KernelGradients, sums: torch.Tensor, sizes: BatchSizes,
                 config: StepConfig):
        self._device, self._sums = device, sums
        form = BatchForm(sizes.positives, sizes.positives // sizes.chunk_size, sizes.negatives, False, sizes.weighted)
        negatives = form.chunks * form.negatives
        tables = [_StagedTable(most) for most in (2 * sizes.positives + negatives, sizes.positives)]
        layout = sizes.layout(tables)
        most, dims = layout.table_rows, (config.entity_dim, config.relation_dim)
        self._packed = device.pinned(layout.bytes, dtype=np.uint8)
        self._staged = [device.pinned(count, dim) for count, dim in zip(most, dims)]
        self._gradients = [device.pinned(most[0], dims[0]), device.pinned(negatives, dims[0]),
                           device.pinned(sizes.positives, dims[1])]
        self._losses = device.pinned(len(sums), dtype=np.float64)
        block = device.zeros(layout.bytes, dtype=np.uint8)
        records = [device.zeros(count, -(-dim // ALIGNED) * ALIGNED) for count, dim in zip(most, dims)]
        self._at = _Block(layout, block, arrays_of(block, layout.fields), records)
        self._compute: Callable[[bool], List[list]] = gradients.of_block(form, self._at, tables)

    def run(self, batch: _native.Batch, *tables: _native.StepRows):
        """Returns gradients, of positives by distinct row (U, dim), of negatives (N, dim), of relations (B, dim), and
        the losses; all of them until the next step."""
        self._at.layout.pack(batch, self._packed.numpy())
        counts = len(batch.entities), len(batch.relations)
        for rows, ids, staged in zip(tables, (batch.entities, batch.relations), self._staged):
            rows.gather(ids, staged.numpy()[: len(ids)])

        def work():
            self._at.block.copy_(self._packed, non_blocking=True)
            for records, staged, count in zip(self._at.records, self._staged, counts):
                records[:count, : staged.shape[1]].copy_(staged[:count], non_blocking=True)
            (positive, negative), (relation,) = self._compute(batch.corrupt_head)
            lengths = counts[0], len(self._gradients[1]), len(self._gradients[2])
            for to, (gradient, *_), count in zip(self._gradients, (positive, negative, relation), lengths):
                to[:count].copy_(gradient[:count], non_blocking=True)
            self._losses.copy_(self._sums, non_blocking=True)
            self._sums.zero_()

        self._device.submit(work)
        self._device.synchronize()
        positive, negative, relation = (each.numpy() for each in self._gradients)
        return positive[: counts[0]], negative, relation, self._losses.tolist()
