"""The gradients of a step by torch operations: for custom models, and for models with matrices, which
device_kernels.py has not. Not the CPU's bits, but near them."""
from __future__ import annotations

from typing import Callable, List, NamedTuple, Optional, Sequence, Tuple

import torch

from ... import _native
from ...models import TorchModel, built_in_model, find_model
from ...models.device import make_device_model
from ...models.device.matrices import TableMatrices
from ...models.device.model import ModelShape
from ...models.device.products import set_matmul
from ...store.device.device import Device
from ...store.rows.device_rows import DeviceRows
from .device_batch import BatchForm, DeviceBlock
from .device_gradients import AutogradPass, GradientPass, EdgeRows, ProjectedPass, SharedPass
from .step_config import StepConfig

ENTITIES, RELATIONS, PROJECTIONS = range(3)  # of a step's tables
MATRIX_TABLES = {"relation": RELATIONS, "projection": PROJECTIONS}  # far larger than what an edge needs of them


def make_gradient_pass(config: StepConfig, device: Device) -> GradientPass:
    """The function that computes the gradients of `config`: closed forms, or autograd for a custom model."""
    model = find_model(config.model)
    if isinstance(model, TorchModel):
        model.gamma, model.range = config.gamma, config.embedding_range
        return AutogradPass(model, config.loss, config.degree_negatives, device)
    shape = ModelShape(config.entity_dim, config.relation_dim, config.gamma, config.embedding_range, config.score_rule)
    closed = make_device_model(model.name, shape, device.stream)
    make = ProjectedPass if model.projects else SharedPass
    return make(closed, config.loss, config.degree_negatives, device)


class _Penalties(NamedTuple):
    """The results of a step's penalties; without any, nothing."""

    amounts: Optional[torch.Tensor] = None  # numbers whose sum times the coefficient is the penalty
    of_matrices: Optional[torch.Tensor] = None  # those of them that the update of matrices writes
    squares: Tuple[Optional[torch.Tensor], ...] = (None,) * 3  # of each table's gradients, see _native.penalize


class TorchGradients:
    """Computes the gradients of any model."""

    def __init__(self, config: StepConfig, device: Device, sums: torch.Tensor, matmul: str):
        """sums: (4,) float64 in device memory, to which losses are added. matmul: see models.device.products."""
        set_matmul(matmul)
        self._config, self._device, self._sums = config, device, sums
        self._pass = make_gradient_pass(config, device)
        model = built_in_model(config.model)
        self._matrix_table = model and MATRIX_TABLES.get(model.matrices)

    def in_place(self, tables: Sequence[DeviceRows]) -> Optional[int]:
        """Which table's rows are read and updated where they lie, and neither gathered nor updated by DeviceRows."""
        table = self._matrix_table
        return None if table is None or tables[table].resident is None else table

    def of_block(self, form: BatchForm, at: DeviceBlock, tables: Sequence[DeviceRows]) -> Callable[[bool], List[list]]:
        """A function that computes the gradients of the batch in a block, whose direction of corruption it is told.

        It is called in submitted work; it gathers the block's records, adds the losses to the sums, and returns the
        entries of each table as DeviceRows.update takes them. It updates itself the table that is `in_place`.
        """
        matrices = self._matrices(at) if at.in_place is not None else None

        def compute(corrupt_head: bool):
            for rows, plan, records in zip(tables, at.plans, at.records):
                if records is not None:
                    rows.gather(plan, records)
            return self._compute(form._replace(corrupt_head=corrupt_head), at, matrices)

        return compute

    def _matrices(self, at: DeviceBlock) -> TableMatrices:
        config, batch = self._config, at.fields
        shape = config.entity_dim, config.relation_dim if at.in_place == PROJECTIONS else config.entity_dim
        return TableMatrices(at.resident, at.plans[at.in_place].rows, shape, batch["relation_offset"],
                             batch["relation_occurrence"], batch["relation_slot"], self._device.stream)

    def _compute(self, form: BatchForm, at: DeviceBlock, matrices: Optional[TableMatrices]) -> List[list]:
        config, batch = self._config, at.fields
        dims = config.entity_dim, config.relation_dim, config.entity_dim * config.relation_dim
        rows = [None if records is None else records[:, :dim] for records, dim in zip(at.records, dims)]

        def read(table: int, slots: str):
            return matrices if table == at.in_place else rows[table].index_select(0, batch[slots])

        edges = EdgeRows(*(read(ENTITIES if name != "relation" else RELATIONS, f"{name}_slot")
                          for name in ("head", "tail", "relation", "negative")))
        if len(rows) == 3:
            edges = edges._replace(projection=read(PROJECTIONS, "relation_slot"))
        gradients, slopes = self._pass.run(form, edges, batch["weight"] if form.weighted else None)

        gradients = gradients._replace(negative=gradients.negative.contiguous())  # kernels write to them
        if at.in_place != RELATIONS:
            gradients = gradients._replace(relation=gradients.relation.contiguous())
        sums = torch.empty_like(rows[ENTITIES], memory_format=torch.contiguous_format)
        ends = torch.cat([gradients.head, gradients.tail])
        _native.segment_sums(ends, batch["positive_offset"], batch["positive_occurrence"], sums, self._device.stream)
        # A row counts once for being among the positives, and once for each time it is a negative, or a relation.
        tables = [(rows[ENTITIES], None, batch["sum_offset"], sums),
                  (rows[ENTITIES], batch["negative_slot"], None, gradients.negative)]
        if at.in_place != RELATIONS:
            tables.append((rows[RELATIONS], batch["relation_slot"], None, gradients.relation))
        penalties = self._penalize(tables, matrices if at.in_place == RELATIONS else None)
        of_sums, of_negatives, of_relations = penalties.squares
        by_edge = batch["relation_offset"], batch["relation_occurrence"]
        entries = [
            [(sums, batch["sum_offset"], batch["sum_order"], of_sums),
             (gradients.negative, batch["negative_offset"], batch["negative_occurrence"], of_negatives)],
            [(gradients.relation, *by_edge, of_relations)],
            [(gradient, *by_edge) for gradient in (gradients.projection, gradients.projection_of_negatives)]]
        if matrices is not None:
            loss, factors = config.loss, [gradient for gradient, *_ in entries[at.in_place]]
            matrices.update(factors, config.learning_rate, float(loss.regularization_norm),
                            loss.regularization_coefficient, penalties.of_matrices)
        _native.add_losses(config.loss, slopes.losses, penalties.amounts, self._sums, self._device.stream)
        return entries

    def _penalize(self, tables: List[Tuple], matrices: Optional[TableMatrices]) -> _Penalties:
        """Adds the penalty's gradients, if there is a penalty. tables: at most three of (rows, slots, offsets of reads,
        gradients), see _native.penalize. matrices: which are penalized when they are updated."""
        loss = self._config.loss
        if not loss.regularized:
            return _Penalties()
        counts, new = [len(gradients) for *_, gradients in tables], tables[0][0].new_empty
        of_matrices = 0 if matrices is None else matrices.amounts
        amounts, squares = new(sum(counts) + of_matrices), new(sum(counts)).split(counts)
        *shares, rest = amounts.split([*counts, of_matrices])
        _native.penalize(loss, [(*table, *of_table) for table, *of_table in zip(tables, shares, squares)],
                         self._device.stream)
        return _Penalties(amounts, None if matrices is None else rest, (*squares, None)[:3])
