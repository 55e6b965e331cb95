"""A step against all entities: cross-entropy of each query's softmax over the whole table, and the tables' update.

Every row is updated once, from the sum of its gradients: those by its scores, of every row, and those through the
queries, of the batch's rows. With relation prediction each triple is a query of its relation besides, which is
scored with the relation table as its others are with the entities.
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Callable, Dict, List, Optional, Sequence, Tuple

import torch

from ... import _native
from ...models import find_model
from ...models.device import make_device_model
from ...models.device.model import ModelShape, Positives
from ...store.device.device import Device
from ...store.rows.device_rows import DeviceRows
from ..step.device_batch import EVERY, BatchForm, DeviceBlock
from ..step.summed_updates import OptimizerRule
from ..tables.unit_rows import LEAST
from .config import FullSoftmaxConfig
from .entity_share import BatchEntities, EntityShare
from .flash_shape import flash_fits
from .flash_softmax import FlashSoftmax
from .penalty import weighted_penalty
from .relation_query import OuterQuery, SwappedQuery
from .rounded_products import RoundedProducts, multiplies_half_precision
from .table_softmax import TableSoftmax
from .table_update import TableShape
from .targets import OneAnswer
from .tile_products import DISTANCES, DeviceProducts, HostProducts
from .tiles import ROUNDED_MATMUL

# Whose numbers dropout drops: parts of a step's random numbers. The fixed side of a query is its head or its tail.
ALL_ENTITIES, FIXED_SIDE, RELATION, ALL_RELATIONS, ANSWER_SIDE = range(5)


def products_on_device(matmul: str) -> type:
    """By what a GPU multiplies. A PyTorch that cannot multiply numbers of 16 bits has cuBLAS's TF32 for tf32."""
    return RoundedProducts if matmul == ROUNDED_MATMUL and multiplies_half_precision() else DeviceProducts


@contextmanager
def one_torch_thread():
    """For steps of our own kernels on the CPU: torch's threads spin on after its operations, here all of them small,
    and would take cores from those of the kernels."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class FullSoftmax:
    """Computes what KernelGradients does, but updates the tables where they lie; to be used by DeviceStep."""

    def __init__(self, config: FullSoftmaxConfig, device: Device, sums: torch.Tensor, targets, matmul: str = "fp32",
                 share: Optional[EntityShare] = None):
        """sums: (5,) float64 in device memory, to which losses are added. targets: OneAnswer or AllAnswers. share: of
        the entities, those in this process's table; None for all."""
        self._config, self._device, self._sums, self._targets = config, device, sums, targets
        self._share = share
        on_cpu = device.torch_device.type == "cpu"
        self._matmul = "fp32" if on_cpu else matmul
        step = config.step
        shape = ModelShape(step.entity_dim, step.relation_dim, step.gamma, step.embedding_range, step.score_rule)
        self._model = make_device_model(step.model, shape, device.stream)
        distances = DISTANCES.get(find_model(step.model).similarity)
        if distances:
            self._matmul, self._products = "fp32", distances[not on_cpu]
        else:
            self._products = HostProducts if on_cpu else products_on_device(matmul)
        self._offset = None if not config.binary else step.gamma if distances else 0.0
        self._torch_threads = one_torch_thread if self._products is HostProducts and not config.binary else nullcontext
        self._relation_query = (OuterQuery() if find_model(step.model).matrices == "relation" else
                                SwappedQuery(self._model))
        self._rule = OptimizerRule(config.optimizer, step.learning_rate, device)
        self._buffers: Dict[Tuple, _Buffers] = {}  # steps run one by one, so those of one shape share theirs

    def in_place(self, tables: Sequence[DeviceRows]) -> int:
        """See TorchGradients.in_place: every table is."""
        return EVERY

    def of_block(self, form: BatchForm, at: DeviceBlock, tables: Sequence[DeviceRows]) -> Callable[[bool], List]:
        """See TorchGradients.of_block; there are no entries, for the tables are updated here."""
        in_batch = len(at.fields["entity_rows"]), len(at.fields["relation_rows"])
        if (form.positives, *in_batch) not in self._buffers:
            self._buffers[(form.positives, *in_batch)] = self._make_buffers(form.positives, tables, in_batch)
        buffers = self._buffers[(form.positives, *in_batch)]
        entities, relations = (rows.resident[: rows.table.rows] for rows in tables)

        def compute(corrupt_head: bool) -> List:
            with self._torch_threads():
                self._step(form._replace(corrupt_head=corrupt_head), at.fields, buffers, entities, relations)
            return [[], []]

        return compute

    def _make_buffers(self, positives: int, tables: Sequence[DeviceRows], in_batch: Tuple[int, int]) -> "_Buffers":
        config = self._config
        dims = config.step.entity_dim, config.step.relation_dim
        entity, relation = (TableShape(positives, rows.table.rows, dim, most)
                            for rows, dim, most in zip(tables, dims, in_batch))

        share = self._share or EntityShare(entity.rows)

        def softmax(shape: TableShape, rate: float, part: int, beside_update: bool = False, share=None):
            if flash_fits(self._matmul, shape.rows, shape.dim, isinstance(self._targets, OneAnswer), config.bound,
                          rate):
                return FlashSoftmax(self._device, self._matmul, shape, self._rule.native)
            drop = (lambda values, step, first: self._drop(values, part, step, first)) if rate else None
            return TableSoftmax(self._device, self._matmul, self._products, shape, self._rule.native, config.bound,
                                drop, beside_update, self._offset, share)

        of_entities = softmax(entity, config.entity_dropout, ALL_ENTITIES, share=share)
        of_relations = None
        if config.relation_prediction:
            beside_update = isinstance(of_entities, TableSoftmax)
            of_relations = softmax(relation, config.relation_dropout, ALL_RELATIONS, beside_update)
        return _Buffers(self._device, positives, dims[0], share, of_entities, of_relations)

    def _step(self, form: BatchForm, batch, buffers: "_Buffers", entities: torch.Tensor, relations: torch.Tensor):
        """entities, relations: (rows, stride), embedding and state."""
        config, step = self._config, batch["step"]
        dim, relation_dim = config.step.entity_dim, config.step.relation_dim
        found = buffers.share.find(batch)
        relation_ids = batch["relation_rows"].clamp(max=len(relations) - 1)  # beyond the batch's own they only pad
        fixed_slot, answer_slot = batch["head_slot"], batch["tail_slot"]
        if form.corrupt_head:
            fixed_slot, answer_slot = answer_slot, fixed_slot
        ids, lookup = [], self._device.side_stream()
        lookup.run(lambda: ids.extend(each.index_select(0, slot) for each, slot in (
            (found.ids, fixed_slot), (relation_ids, batch["relation_slot"]), (found.ids, answer_slot))))
        lookup.run(buffers.ends.zero_)
        buffers.entities.begin(entities, found.rows)
        if buffers.relations is not None:
            buffers.relations.begin(relations, batch["relation_rows"])
        old_relations = relations[:, :relation_dim].index_select(0, relation_ids)
        old_entities = buffers.share.embeddings(found, entities[:, :dim], old_relations)
        fixed = self._drop(old_entities.index_select(0, fixed_slot), FIXED_SIDE, step)
        relation = self._drop(old_relations.index_select(0, batch["relation_slot"]), RELATION, step)
        x = Positives(fixed, relation, fixed, form.corrupt_head)  # no positive is scored by itself
        buffers.entities.query.copy_(self._model.query(x))

        self._rule.start(step)
        # Of the rows before the step, so that they need nothing of it, and nothing but its end needs them.
        side_stream, penalties = self._device.side_stream(fills_device=True), []
        side_stream.run(lambda: penalties.extend(self._penalties(form, batch, old_entities, old_relations)))
        scale = buffers.mean if not form.weighted else buffers.mean * batch["weight"]
        lookup.join()
        known, relation_id, answer = ids
        targets = self._targets.of(form.corrupt_head, known, relation_id, answer)
        of_query = buffers.entities.apply(entities, targets, scale, step)
        of_fixed, of_relation = self._model.of_query(x, of_query)

        ends = buffers.ends
        of_heads, of_tails = ends.split(form.positives)
        of_fixed_side, of_answer_side = (of_tails, of_heads) if form.corrupt_head else (of_heads, of_tails)
        if buffers.relations is not None:
            answers = self._drop(old_entities.index_select(0, answer_slot), ANSWER_SIDE, step)
            targets = self._targets.of(form.corrupt_head, known, relation_id, relation_id)
            of_known, of_answers = self._predict_relations(form, batch, buffers.relations, relations, fixed, answers,
                                                           targets, scale)
            of_fixed = of_fixed + of_known
            of_answer_side.copy_(self._drop(of_answers.contiguous(), ANSWER_SIDE, step))
        self._drop(of_fixed_side.copy_(of_fixed), FIXED_SIDE, step)  # a copy: of_relation may be the same tensor
        of_relation = self._drop(of_relation.contiguous(), RELATION, step)
        self._update_batch(batch, found, buffers, entities, relations, of_relation, side_stream, penalties)

    def _predict_relations(self, form: BatchForm, batch, softmax, relations: torch.Tensor,
                           fixed: torch.Tensor, answers: torch.Tensor, targets: tuple, scale: torch.Tensor):
        """Updates all relations but the batch's, and returns the loss's gradients by the entities (B, dim) that a query
        of the step knows and asks for."""
        weight = self._config.relation_prediction
        ends = (answers, fixed) if form.corrupt_head else (fixed, answers)
        query, saved = self._relation_query.forward(*ends)
        softmax.query.copy_(query)
        of_query = softmax.apply(relations, targets, scale, batch["step"], weight)
        of_head, of_tail = self._relation_query.backward(saved, of_query)
        return (of_tail, of_head) if form.corrupt_head else (of_head, of_tail)

    def _penalties(self, form: BatchForm, batch, old_entities: torch.Tensor, old_relations: torch.Tensor) -> List:
        """(amount, slopes) of the batch's entities, and of its relations; none where nothing is penalized. The amounts
        are added to their sum."""
        config, loss = self._config, self._config.step.loss
        if not loss.regularized:
            return []
        times = self._targets.times(batch, form.corrupt_head), batch["relation_offset"].diff()
        found = []
        for rows, of_each in zip((old_entities, old_relations), times):
            found.append(weighted_penalty(config.regularizer, loss, rows, of_each, form.positives, self._device.stream))
            self._sums[2] += found[-1][0]
        return found

    def _update_batch(self, batch, found: BatchEntities, buffers, entities, relations, of_relation, side_stream,
                      penalties):
        """The rows of the batch: entities from what waits aside and what comes through the queries, and relations.
        side_stream: which computes the penalties."""
        side_stream.join()
        ends, relation_count = buffers.ends, batch["counts"].split(1)[1]
        slopes = [slope for _, slope in penalties] or [None, None]
        update_relations = partial(self._update_relations, batch, buffers, relations, of_relation, slopes[1],
                                   relation_count)
        if buffers.relations is None:
            side_stream = self._device.side_stream()
            side_stream.run(update_relations)
        sums = slopes[0] if penalties else ends.new_zeros(len(batch["entity_rows"]), ends.shape[1])
        _native.segment_sums(ends, batch["positive_offset"], batch["positive_occurrence"], sums, self._device.stream,
                             adds=True)
        if buffers.relations is not None:
            update_relations()  # it waits for side streams, as only work of the main stream can
        loss = buffers.entities.end(found.rows, sums)  # late, for the update of all other rows takes long
        _native.softmax_update_rows(entities, ends.shape[1], found.rows[found.own], found.count, sums[found.own],
                                    self._rule.native, self._device.stream)
        self._sums[3] += sum((amount for amount, _ in penalties), loss)
        if self._config.unit_entities:
            rows = entities[:, : ends.shape[1]]
            rows.div_((rows * rows).sum(1, keepdim=True).sqrt_().clamp_(min=LEAST))
        if buffers.relations is None:
            side_stream.join()

    def _update_relations(self, batch, buffers, relations, of_relation, slopes, count):
        """The batch's relations, from the gradients of its triples. slopes: of the penalty, or None. count: (1,), of
        them."""
        stream, relation_dim, rule = self._device.stream, of_relation.shape[1], self._rule
        sums = of_relation.new_zeros(len(batch["relation_rows"]), relation_dim) if slopes is None else slopes
        _native.segment_sums(of_relation, batch["relation_offset"], batch["relation_occurrence"], sums, stream,
                             adds=True)
        if buffers.relations is not None:
            loss = buffers.relations.end(batch["relation_rows"], sums)
            self._sums[3] += self._config.relation_prediction * loss
            self._sums[4] += loss
        if rule.corrections is None or buffers.relations is not None:
            _native.softmax_update_rows(relations, relation_dim, batch["relation_rows"], count, sums, rule.native,
                                        stream)
            return
        # Adam moves rows without a gradient, too; that of relation prediction has moved them.
        every = relations.new_zeros(len(relations) + 1, relation_dim)  # the last one for what only pads
        every.index_copy_(0, batch["relation_rows"].clamp(max=len(relations)), sums)
        nowhere = batch["counts"].new_full((len(relations),), -1)
        _native.softmax_update_tile(relations, relation_dim, 0, every[: len(relations)], nowhere, sums, rule.native,
                                    stream)

    def _drop(self, values: torch.Tensor, part: int, step: torch.Tensor, first: int = 0) -> torch.Tensor:
        """`values`, after dropout in place; of gradients, too: what was dropped has none."""
        of_relations = part in (RELATION, ALL_RELATIONS)
        rate = self._config.relation_dropout if of_relations else self._config.entity_dropout
        if rate:
            _native.drop(values, rate, self._config.seed, step, part, first, self._device.stream)
        return values


class _Buffers:
    """The buffers of steps of B queries."""

    def __init__(self, device: Device, positives: int, dim: int, share: EntityShare, entities, relations):
        """entities, relations: a TableSoftmax or a FlashSoftmax each; relations: None without relation prediction."""
        self.share, self.entities, self.relations = share, entities, relations
        self.ends = device.zeros(2 * positives, dim)  # gradients of heads, then of tails, through their queries
        self.mean = device.zeros(positives)
        device.submit(lambda: self.mean.fill_(1 / positives))
