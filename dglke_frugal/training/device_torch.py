"""The gradients of a step by torch operations: for one's own models, for rounded products, and for models that have no
kernels (device_kernels.py). Not the CPU's bits, but near them."""
from __future__ import annotations

from typing import Callable, List

import torch

from ..models import TorchModel, find_model
from ..models.device import make_device_model
from ..models.device.model import ModelShape
from ..models.device.products import Products, set_matmul
from ..store.device import Device
from ..store.plan_kernels import segment_sums
from .device_batch import BatchForm, DeviceBlock
from .device_gradients import AutogradPass, GradientPass, Leaves, ProjectedPass, SharedPass
from .device_loss import is_regularized, penalty
from .step import StepConfig


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


class TorchGradients:
    """Computes the gradients of any model."""

    def __init__(self, config: StepConfig, device: Device, sums: torch.Tensor, matmul: str):
        """sums: (4,) float64 in device memory, to which losses are added. matmul: see models.device.products."""
        set_matmul(matmul)
        self._config, self._device, self._sums = config, device, sums
        self._pass = make_gradient_pass(config, matmul, device.stream)

    def of_block(self, form: BatchForm, at: DeviceBlock) -> Callable[[bool], List[list]]:
        """A function that computes the gradients of the batch in a block, whose direction of corruption it is told.

        It is called in submitted work, when the block has its records; it adds the losses to the sums, and returns the
        entries of each table as DeviceRows.update takes them.
        """
        return lambda corrupt_head: self._compute(form._replace(corrupt_head=corrupt_head), at)

    def _compute(self, form: BatchForm, at: DeviceBlock) -> List[list]:
        config, batch, records = self._config, at.fields, at.records
        entity, relation = records[0][:, : config.entity_dim], records[1][:, : config.relation_dim]
        leaves = Leaves(*(source.index_select(0, batch[f"{name}_slot"]) for name, source in
                          (("head", entity), ("tail", entity), ("relation", relation), ("negative", entity))))
        if len(records) == 3:
            projection = records[2][:, : config.entity_dim * config.relation_dim]
            leaves = leaves._replace(projection=projection.index_select(0, batch["relation_slot"]))
        gradients, slopes = self._pass.run(form, leaves, batch["weight"] if form.weighted else None)

        sums = torch.empty_like(entity, memory_format=torch.contiguous_format)
        ends = torch.cat([gradients.head, gradients.tail])
        segment_sums(ends, batch["positive_offset"], batch["positive_occurrence"], sums, self._device.stream)
        regularization = 0.0
        if is_regularized(config.loss):
            regularization = self._regularize(batch, entity, relation, sums, gradients)
        self._count(slopes, regularization)
        by_edge = batch["relation_offset"], batch["relation_occurrence"]
        return [
            [(sums, batch["sum_offset"], batch["sum_order"]),
             (gradients.negative, batch["negative_offset"], batch["negative_occurrence"])],
            [(gradients.relation, *by_edge)],
            [(gradients.projection, *by_edge), (gradients.projection_of_negatives, *by_edge)],
        ]

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
