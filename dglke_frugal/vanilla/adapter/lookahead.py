"""Reading DGL-KE's batches ahead, so that the store knows which rows the coming steps use."""
from __future__ import annotations

from collections import deque

import torch

from ...store import EmbeddingStore


class AnnouncingIterator:
    """DGL-KE's iterator over (positive graph, negative graph), read `lookahead` steps ahead in the same thread.

    Evaluation may draw from the sampler's random numbers too, so reading stops where a validation or the end of the
    training comes: there DGL-KE has not read further either.

    next() begins the step in the store; the store's apply() ends it.
    """

    def __init__(self, iterator, store: EmbeddingStore, lookahead: int, max_step: int, eval_interval: int):
        """eval_interval: steps between validations, 0 for none."""
        self._iterator, self._store, self._lookahead = iterator, store, lookahead
        self._max_step, self._eval_interval = max_step, eval_interval
        self._window = deque()
        self._announced = self._begun = 0

    def __iter__(self):
        return self

    def __next__(self):
        while self._announced <= self._horizon():
            batch = next(self._iterator)
            self._store.steps.announce(self._announced, entity_rows(*batch).numpy())
            self._window.append(batch)
            self._announced += 1
        self._store.begin(self._begun)
        self._begun += 1
        return self._window.popleft()

    def _horizon(self) -> int:
        """The last step that may be read now."""
        last = min(self._begun + self._lookahead, self._max_step - 1)
        if self._eval_interval:
            last = min(last, self._begun + self._eval_interval - 1 - self._begun % self._eval_interval)
        return max(last, self._begun)


def entity_rows(positive, negative) -> torch.Tensor:
    """Distinct entity ids that a step reads, ascending."""
    ends = negative.head_nid if negative.neg_head else negative.tail_nid
    return torch.unique(torch.cat([positive.ndata["id"], negative.ndata["id"][ends]]))
