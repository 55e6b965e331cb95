"""The target of each query's softmax, as the kernels take it: (ids, begin, end, on, off), see
csrc/full_softmax/tiles.h."""

from __future__ import annotations

from typing import Mapping, Sequence, Tuple

import numpy as np
import torch

from ...store.device.device import Device
from .queries import Queries


class OneAnswer:
    """1vsAll: a triple's query has its own answer alone."""

    def __init__(self, device: Device, positives: int):
        """positives: of a batch, at most."""
        self._places = device.zeros(positives + 1, dtype=np.int64)
        device.submit(lambda: self._places.copy_(torch.arange(positives + 1)))

    def of(self, corrupt_head: bool, known: torch.Tensor, relation: torch.Tensor, answer: torch.Tensor) -> Tuple:
        """Of the queries (known entity, relation), with their triples' answers: (B,) int64 ids."""
        return answer, self._places[: len(answer)], self._places[1 : len(answer) + 1], None, None

    def times(self, batch: Mapping[str, torch.Tensor], corrupt_head: bool) -> torch.Tensor:
        """(U,) int32: how often a penalty is of each of the batch's entities."""
        return batch["positive_offset"].diff()


class AllAnswers:
    """KvsAll: a query's answers in the training triples have equal shares.

    With smoothing e > 0, labels y become (1 - e) y + 1 / entities before they are normalised, as LibKGE's do
    (kge/job/train_KvsAll.py). Those of a binary cross-entropy are not shares, and are not normalised.
    """

    def __init__(self, device: Device, queries: Sequence[Queries], entities: int, relations: int, smoothing: float,
                 binary: bool = False):
        """queries: of tails, and of heads if steps ask for those. relations: rows of their table. binary: whether
        labels are those of a binary cross-entropy."""
        self._entities, self._relations, self._smoothing, self._binary = entities, relations, smoothing, binary
        self._queries = [self._on_device(device, each) for each in queries]

    def _on_device(self, device: Device, queries: Queries) -> Tuple:
        """key, offset and ids, and labels (Q,): of each answer of a query, and of every entity besides (None: of none).

        They are here for all queries, so that a step only has to look its own up.
        """
        tensors = tuple(device.zeros(len(array), dtype=np.int64) for array in queries[:3])
        on, off = device.zeros(len(queries.key)), device.zeros(len(queries.key)) if self._smoothing else None

        def fill():
            for tensor, array in zip(tensors, queries):
                tensor.copy_(torch.from_numpy(array))
            answers, kept = tensors[1].diff().float(), 1 - self._smoothing
            if off is None and not self._binary:
                on.copy_(1 / answers)
                return
            whole = torch.ones_like(answers) if self._binary else 1 / (kept * answers + 1)
            on.copy_(kept * whole)
            if off is not None:
                off.copy_(whole / self._entities)

        device.submit(fill)
        return (*tensors, on, off)

    def of(self, corrupt_head: bool, known: torch.Tensor, relation: torch.Tensor, answer: torch.Tensor) -> Tuple:
        """See OneAnswer.of."""
        key, offset, ids, on, off = self._queries[corrupt_head]
        query = torch.searchsorted(key, known * self._relations + relation)
        begin, end = offset[:-1].index_select(0, query), offset[1:].index_select(0, query)
        return ids, begin, end, on.index_select(0, query), None if off is None else off.index_select(0, query)

    def times(self, batch, corrupt_head):
        """See OneAnswer.times. Of a query, the entity that it knows."""
        known = batch["tail_slot" if corrupt_head else "head_slot"]
        return known.new_zeros(len(batch["entity_rows"])).index_add_(0, known, torch.ones_like(known))
