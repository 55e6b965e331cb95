"""One training step on a device: rows in, updated rows out, no synchronisation with the host and no autograd.

The same code runs on the CPU (torch tensors in host memory) and on CUDA. Shapes are fixed and addresses stay, so that
on CUDA a step is one graph per direction of corruption; losses are summed on the device and read when somebody asks.
"""
from __future__ import annotations

from typing import Dict, Tuple

import numpy as np
import torch

from ..models import TorchModel, find_model
from ..models.device import make_device_model
from ..models.device.model import ModelShape
from ..models.device.products import Products, set_matmul
from ..store.device import Device
from ..store.device_rows import DeviceRows
from ..store.plan_kernels import segment_sums
from .device_batch import BatchTransfer, index_fields, plan_fields, plan_of, write_indices
from .device_gradients import AutogradPass, BatchForm, GradientPass, Leaves, ProjectedPass, SharedPass
from .device_loss import is_regularized, penalty
from .losses import Losses
from .step import StepConfig

TABLES = ("entity", "relation", "projection")


def make_gradient_pass(config: StepConfig, matmul: str = "fp32", stream: int = 0) -> GradientPass:
    """What computes the gradients of `config`: closed forms, or autograd for one's own model. stream: the device's."""
    model = find_model(config.model)
    if isinstance(model, TorchModel):
        model.gamma, model.range = config.gamma, config.embedding_range
        return AutogradPass(model, config.loss, config.degree_negatives)
    shape = ModelShape(config.entity_dim, config.relation_dim, config.gamma, config.embedding_range)
    closed = make_device_model(model.name, shape, Products(matmul, stream))
    make = ProjectedPass if model.name == "TransR" else SharedPass
    return make(closed, config.loss, config.degree_negatives)


class DeviceStep:
    """Trains on batches, one after the other, with rows that DeviceRows bring."""

    def __init__(self, config: StepConfig, device: Device, matmul: str = "fp32"):
        """matmul: "fp32", "tf32" or "bf16", see models.device.products."""
        set_matmul(matmul)
        self._config, self._device = config, device
        self._pass = make_gradient_pass(config, matmul, device.stream)
        self._sums = device.zeros(4, dtype=np.float64)  # positive, negative, regularization, total
        self._steps = 0
        self._shaped: Dict[Tuple, _ShapedStep] = {}

    def run_rows(self, batch, *tables: DeviceRows) -> None:
        """Enqueue the step of `batch` on the running step's rows: entities, relations and, for TransR, projections."""
        form = BatchForm(len(batch), batch.chunks, batch.negatives_per_chunk, batch.corrupt_head, len(batch.weight) > 0)
        shape = (form._replace(corrupt_head=False), tables)
        if shape not in self._shaped:  # full batches, and perhaps the rest of an epoch
            self._shaped[shape] = _ShapedStep(self, form, tables)
        self._shaped[shape].run(batch, form)
        self._steps += 1

    def take_losses(self) -> Losses:
        """Means over the steps since the last call. Waits for the device."""
        taken = []

        def work():
            taken.append(self._sums.to("cpu", copy=True))
            self._sums.zero_()

        self._device.submit(work)
        self._device.synchronize()
        count, self._steps = max(1, self._steps), 0
        return Losses(*(value / count for value in taken[0].tolist()))

    def compute(self, form: BatchForm, tables, plans, records, batch: Dict[str, torch.Tensor]) -> None:
        """The whole step on the device, from reading rows to writing them."""
        config = self._config
        for rows, plan, record in zip(tables, plans, records):
            rows.gather(plan, record)
        entity, relation = (record[:, : rows.dim] for rows, record in zip(tables[:2], records))
        leaves = Leaves(*(source.index_select(0, batch[f"{name}_slot"]) for name, source in
                          (("head", entity), ("tail", entity), ("relation", relation), ("negative", entity))))
        if len(tables) == 3:
            projection = records[2][:, : tables[2].dim].index_select(0, batch["relation_slot"])
            leaves = leaves._replace(projection=projection)
        gradients, slopes = self._pass.run(form, leaves, batch["weight"] if form.weighted else None)

        sums = torch.empty_like(entity, memory_format=torch.contiguous_format)
        ends = torch.cat([gradients.head, gradients.tail])
        segment_sums(ends, batch["positive_offset"], batch["positive_occurrence"], sums, self._device.stream)
        regularization = 0.0
        if is_regularized(config.loss):
            regularization = self._regularize(batch, entity, relation, sums, gradients)
        by_edge = batch["relation_offset"], batch["relation_occurrence"]
        entries = [
            [(sums, batch["sum_offset"], batch["sum_order"]),
             (gradients.negative, batch["negative_offset"], batch["negative_occurrence"])],
            [(gradients.relation, *by_edge)],
            [(gradients.projection, *by_edge), (gradients.projection_of_negatives, *by_edge)],
        ]
        for rows, plan, record, entry in zip(tables, plans, records, entries):
            rows.update(plan, record, entry, config.learning_rate)
        self._count(slopes, regularization)

    def _regularize(self, batch, entity, relation, sums, gradients: Leaves) -> torch.Tensor:
        """Adds the penalty's gradient to every gradient of an entity or a relation. Returns the penalty, () float64.

        A row counts once for being among the positives, and once for each time it is a negative, or a relation.
        """
        reads = (batch["sum_offset"] + batch["negative_offset"]).diff()
        total = 0.0
        for rows, times, entries in (
            (entity, reads, ((sums, None), (gradients.negative, batch["negative_slot"]))),
            (relation, batch["relation_offset"].diff(), ((gradients.relation, batch["relation_slot"]),)),
        ):
            amounts, slopes = penalty(self._config.loss, rows)
            total = total + (amounts.double() * times).sum()
            for gradient, slots in entries:
                gradient += slopes if slots is None else slopes.index_select(0, slots)
        return total

    def _count(self, slopes, regularization) -> None:
        if slopes.positive_loss is None:
            self._sums[3] += slopes.negative_loss + regularization
        else:
            self._sums[0] += slopes.positive_loss
            self._sums[1] += slopes.negative_loss
            self._sums[3] += 0.5 * (slopes.positive_loss + slopes.negative_loss) + regularization
        self._sums[2] += regularization


class _ShapedStep:
    """Steps of batches of one shape: their buffers, and their repeatable work."""

    def __init__(self, step: DeviceStep, form: BatchForm, tables: Tuple[DeviceRows, ...]):
        device = step._device
        negatives = form.chunks * form.negatives
        sizes = [min(tables[0].table.rows, 2 * form.positives + negatives)]
        sizes += [min(rows.table.rows, form.positives) for rows in tables[1:]]
        fields = index_fields(form.positives, negatives, sizes[0], sizes[1])
        for name, size in zip(TABLES, sizes[: len(tables)]):
            fields += plan_fields(name, size)
        self._device, self._tables = device, tables
        self._transfer = BatchTransfer(device, fields)
        plans = [plan_of(name, self._transfer.device) for name, _ in zip(TABLES, tables)]
        records = [device.zeros(size, rows.stride) for rows, size in zip(tables, sizes)]

        def work(form: BatchForm):
            return lambda: step.compute(form, tables, plans, records, self._transfer.device)

        self._work = {side: device.repeated(work(form._replace(corrupt_head=side))) for side in (False, True)}

    def run(self, batch, form: BatchForm) -> None:
        arrays = self._transfer.arrays()
        write_indices(batch, arrays)
        for name, rows in zip(TABLES, self._tables):
            rows.write_plan(plan_of(name, arrays))
        send, compute, tables = self._transfer.send(), self._work[form.corrupt_head], self._tables

        def work():
            send()
            for rows in tables:
                rows.prepare()
            compute()

        self._device.submit(work)
        self._transfer.sent()
