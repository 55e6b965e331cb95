"""A step against all entities: cross-entropy of each query's softmax over the whole table, and the tables' update.

The table is met tile by tile, twice: for the sums of the softmax, and for the slopes of the scores, from which a tile's
gradients come and at once its update. Scores are never held for more than a tile. Rows of the batch have a gradient
besides, which needs all tiles: theirs wait aside. Every row is updated once, from the sum of its gradients.

The same code runs on the CPU and on CUDA devices; kernels: csrc/full_softmax.
"""

from __future__ import annotations

from typing import Callable, Dict, List, Sequence, Tuple

import numpy as np
import torch

from ... import _native
from ...models.device import make_device_model
from ...models.device.model import ModelShape, Positives
from ...models.device.products import Products
from ...store.device import Device
from ...store.device_rows import DeviceRows
from ...store.plan_kernels import segment_sums
from ..step.device_batch import EVERY, BatchForm, DeviceBlock
from ..step.device_loss import is_regularized
from .config import FullSoftmaxConfig
from .penalty import weighted_penalty
from .tile_products import DeviceProducts, HostProducts, padded
from .tiles import tile_rows

ALL_ENTITIES, FIXED_SIDE, RELATION = range(3)  # whose numbers dropout drops: parts of a step's random numbers


class FullSoftmax:
    """Computes what KernelGradients does, but updates the tables where they lie; to be used by DeviceStep."""

    def __init__(self, config: FullSoftmaxConfig, device: Device, sums: torch.Tensor, targets, matmul: str = "fp32"):
        """sums: (4,) float64 in device memory, to which losses are added. targets: OneAnswer or AllAnswers."""
        self._config, self._device, self._sums, self._targets = config, device, sums, targets
        self._products = HostProducts() if device.torch_device.type == "cpu" else DeviceProducts(matmul)
        step = config.step
        shape = ModelShape(step.entity_dim, step.relation_dim, step.gamma, step.embedding_range, step.score_rule)
        self._model = make_device_model(step.model, shape, Products("fp32", device.stream))
        self._corrections = device.zeros(2) if config.optimizer == "adam" else None
        self._rule = (config.optimizer, step.learning_rate, config.epsilon, self._corrections)
        self._buffers: Dict[Tuple, _Buffers] = {}  # steps run one by one, so those of one shape share theirs

    def in_place(self, tables: Sequence[DeviceRows]) -> int:
        """See TorchGradients.in_place: every table is."""
        return EVERY

    def of_block(self, form: BatchForm, at: DeviceBlock, tables: Sequence[DeviceRows]) -> Callable[[bool], List]:
        """See TorchGradients.of_block; there are no entries, for the tables are updated here."""
        sizes = form.positives, tables[0].table.rows, len(at.fields["entity_rows"])
        if sizes not in self._buffers:
            self._buffers[sizes] = _Buffers(self._device, self._config, self._products.tile_floats, *sizes)
        buffers = self._buffers[sizes]
        entities, relations = (rows.resident[: rows.table.rows] for rows in tables)

        def compute(corrupt_head: bool) -> List:
            self._step(form._replace(corrupt_head=corrupt_head), at.fields, buffers, entities, relations)
            return [[], []]

        return compute

    def _step(self, form: BatchForm, batch, buffers: "_Buffers", entities: torch.Tensor, relations: torch.Tensor):
        """entities, relations: (rows, stride), embedding and state."""
        config, step = self._config, batch["step"]
        dim, relation_dim = config.step.entity_dim, config.step.relation_dim
        entity_ids = batch["entity_rows"].clamp(max=len(entities) - 1)  # beyond the batch's own they only pad
        relation_ids = batch["relation_rows"].clamp(max=len(relations) - 1)
        fixed_slot, answer_slot = batch["head_slot"], batch["tail_slot"]
        if form.corrupt_head:
            fixed_slot, answer_slot = answer_slot, fixed_slot
        old_entities = entities[:, :dim].index_select(0, entity_ids)
        old_relations = relations[:, :relation_dim].index_select(0, relation_ids)
        fixed = self._drop(old_entities.index_select(0, fixed_slot), FIXED_SIDE, step)
        relation = self._drop(old_relations.index_select(0, batch["relation_slot"]), RELATION, step)
        x = Positives(fixed, relation, fixed, form.corrupt_head)  # no positive is scored by itself
        query, _, saved = self._model.forward(x)
        buffers.query.copy_(query)

        buffers.slots.index_copy_(0, batch["entity_rows"], buffers.numbers)  # those that pad share a slot of no row
        self._set_corrections(step)
        scale = buffers.mean if not form.weighted else buffers.mean * batch["weight"]
        known, answer = (entity_ids.index_select(0, slot) for slot in (fixed_slot, answer_slot))
        relation_id = relation_ids.index_select(0, batch["relation_slot"])
        targets = self._targets.of(form.corrupt_head, known, relation_id, answer)
        of_query = self._meet_entities(buffers, entities, targets, scale, step)

        of_fixed, of_relation, _ = self._model.backward(x, saved, buffers.no_slope, of_query)
        ends = buffers.ends.zero_()
        side = slice(form.positives, None) if form.corrupt_head else slice(0, form.positives)
        ends[side] = self._drop(of_fixed, FIXED_SIDE, step)
        of_relation = self._drop(of_relation.contiguous(), RELATION, step)
        self._update_batch(form, batch, buffers, entities, relations, old_entities, old_relations, ends, of_relation)
        buffers.slots.index_fill_(0, batch["entity_rows"], -1)

    def _meet_entities(self, buffers: "_Buffers", entities: torch.Tensor, targets: tuple, scale: torch.Tensor,
                       step: torch.Tensor) -> torch.Tensor:
        """Updates all rows but those that have a slot, adds the loss to the sums, and returns d loss / d query."""
        config, products, stream = self._config, self._products, self._device.stream
        dim, bound, query = config.step.entity_dim, config.bound, buffers.query
        buffers.largest.fill_(_native.LEAST_SCORE)
        buffers.total.zero_()
        buffers.wanted.zero_()
        for first, tile in self._tiles(buffers, entities, step):
            scores = buffers.scores[:, : len(tile)]
            products.scores(query, tile, scores)
            _native.softmax_add_tile(scores, first, bound, targets, buffers.largest, buffers.total, buffers.wanted,
                                     stream)
        log_sum = buffers.largest + buffers.total.log()
        self._count(((log_sum - buffers.wanted).double() * scale).sum())

        of_query = buffers.of_query.zero_()
        for first, tile in self._tiles(buffers, entities, step):
            scores, of_tile = buffers.scores[:, : len(tile)], buffers.of_tile[: len(tile)]
            if len(tile) < len(entities):  # else they are still there
                products.scores(query, tile, scores)
            _native.softmax_slopes(scores, first, bound, targets, log_sum, scale, stream)
            products.add_to_query(scores, tile, of_query)
            products.of_entities(scores, query, of_tile)
            if config.entity_dropout:
                self._drop(of_tile, ALL_ENTITIES, step, first)
            _native.softmax_update_tile(entities, dim, first, of_tile, buffers.slots, buffers.aside, self._rule, stream)
        return of_query

    def _tiles(self, buffers: "_Buffers", entities: torch.Tensor, step: torch.Tensor):
        """(first, rows (n, dim)) of each tile; a copy where dropout drops some of it."""
        dim = self._config.step.entity_dim
        for first in range(0, len(entities), buffers.tile):
            tile = entities[first : first + buffers.tile, :dim]
            if self._config.entity_dropout:
                copy = buffers.copy[: len(tile)]
                tile = self._drop(copy.copy_(tile), ALL_ENTITIES, step, first)
            yield first, tile

    def _update_batch(self, form, batch, buffers, entities, relations, old_entities, old_relations, ends, of_relation):
        """The rows of the batch: entities from what waits aside and what comes through the queries, and relations."""
        config, stream = self._config, self._device.stream
        dim, relation_dim, loss = config.step.entity_dim, config.step.relation_dim, config.step.loss
        sums, of_relations = torch.empty_like(old_entities), torch.empty_like(old_relations)
        segment_sums(ends, batch["positive_offset"], batch["positive_occurrence"], sums, stream)
        segment_sums(of_relation, batch["relation_offset"], batch["relation_occurrence"], of_relations, stream)
        sums += buffers.aside
        if is_regularized(loss):
            counted = torch.cat(self._targets.counts(batch["head_slot"], batch["tail_slot"], form.corrupt_head))
            for rows, slots, gradient in ((old_entities, counted, sums),
                                          (old_relations, batch["relation_slot"], of_relations)):
                times = rows.new_zeros(len(rows)).index_add_(0, slots, rows.new_ones(len(slots)))  # exact in any order
                amount, slope = weighted_penalty(config.regularizer, loss, rows, times, form.positives)
                gradient += slope
                self._sums[2] += amount
                self._sums[3] += amount
        entity_count, relation_count = batch["counts"].split(1)
        _native.softmax_update_rows(entities, dim, batch["entity_rows"], entity_count, sums, self._rule, stream)
        if self._corrections is None:
            _native.softmax_update_rows(relations, relation_dim, batch["relation_rows"], relation_count, of_relations,
                                        self._rule, stream)
            return
        # Adam moves rows without a gradient, too.
        every = relations.new_zeros(len(relations) + 1, relation_dim)  # the last one for what only pads
        every.index_copy_(0, batch["relation_rows"].clamp(max=len(relations)), of_relations)
        nowhere = batch["counts"].new_full((len(relations),), -1)
        _native.softmax_update_tile(relations, relation_dim, 0, every[: len(relations)], nowhere, of_relations,
                                    self._rule, stream)

    def _set_corrections(self, step: torch.Tensor) -> None:
        if self._corrections is not None:
            number = step.double() + 1
            self._corrections[:1] = self._config.step.learning_rate / (1 - torch.pow(0.9, number))
            self._corrections[1:] = 1 / torch.sqrt(1 - torch.pow(0.999, number))

    def _drop(self, values: torch.Tensor, part: int, step: torch.Tensor, first: int = 0) -> torch.Tensor:
        """`values`, after dropout in place; of gradients, too: what was dropped has none."""
        rate = self._config.relation_dropout if part == RELATION else self._config.entity_dropout
        if rate:
            _native.drop(values, rate, self._config.seed, step, part, first, self._device.stream)
        return values

    def _count(self, loss: torch.Tensor) -> None:
        self._sums[3] += loss


class _Buffers:
    """What a step of one shape works in. B queries, tiles of n entities, U rows of the batch at most."""

    def __init__(self, device: Device, config: FullSoftmaxConfig, scores: int, positives: int, entities: int,
                 rows: int):
        dim, zeros = config.step.entity_dim, device.zeros
        self.tile = tile_rows(positives, entities, scores)
        self.scores = zeros(positives, padded(self.tile))
        self.query, self.of_query = (zeros(positives, padded(dim))[:, :dim] for _ in range(2))
        self.of_tile = zeros(self.tile, padded(dim))[:, :dim]
        self.copy = zeros(self.tile, padded(dim))[:, :dim] if config.entity_dropout else None
        self.aside = zeros(rows, dim)  # (U, dim) gradients of entities of the batch by their scores
        self.ends = zeros(2 * positives, dim)  # gradients of heads, then of tails, through their queries
        self.slots = zeros(entities + 1, dtype=np.int32)  # of an entity among the batch's, and -1 for others
        self.numbers = zeros(rows, dtype=np.int32)
        self.largest, self.total, self.wanted = (zeros(positives) for _ in range(3))
        self.mean = zeros(positives)
        self.no_slope = zeros(positives, 1)
        device.submit(self._fill)

    def _fill(self) -> None:
        self.slots.fill_(-1)
        self.mean.fill_(1 / len(self.mean))
        self.numbers.copy_(torch.arange(len(self.numbers)))
