"""What the softmax of each query should be, as the kernels take it: (ids, begin, end, on, off), see
csrc/full_softmax/tiles.h."""

from __future__ import annotations

from typing import Sequence, Tuple

import numpy as np
import torch

from ...store.device import Device
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

    def counts(self, heads: torch.Tensor, tails: torch.Tensor, corrupt_head: bool) -> Sequence[torch.Tensor]:
        """Those of a batch's slots whose rows a penalty is of."""
        return heads, tails


class AllAnswers:
    """KvsAll: a query's answers in the training triples have equal shares.

    With smoothing e > 0, labels y become (1 - e) y + 1 / entities before they are normalised, as LibKGE's do
    (kge/job/train_KvsAll.py).
    """

    def __init__(self, device: Device, queries: Sequence[Queries], entities: int, relations: int, smoothing: float):
        """queries: of tails, and of heads if steps ask for those. relations: rows of their table."""
        self._entities, self._relations, self._smoothing = entities, relations, smoothing
        self._queries = []
        for each in queries:
            tensors = tuple(device.zeros(len(array), dtype=np.int64) for array in each[:3])
            device.submit(lambda to=tensors, arrays=each[:3]: [
                tensor.copy_(torch.from_numpy(array)) for tensor, array in zip(to, arrays)])
            self._queries.append(tensors)

    def of(self, corrupt_head: bool, known: torch.Tensor, relation: torch.Tensor, answer: torch.Tensor) -> Tuple:
        """See OneAnswer.of."""
        key, offset, ids = self._queries[corrupt_head]
        query = torch.searchsorted(key, known * self._relations + relation)
        begin, end = offset.index_select(0, query), offset.index_select(0, query + 1)
        answers, kept = (end - begin).float(), 1 - self._smoothing
        if not self._smoothing:
            return ids, begin, end, 1 / answers, None
        whole = 1 / (kept * answers + 1)
        return ids, begin, end, kept * whole, whole / self._entities

    def counts(self, heads, tails, corrupt_head):
        """See OneAnswer.counts. Of a query, the entity that it knows."""
        return (tails if corrupt_head else heads,)
