"""Ranking by several machines: each compares all triples with the entities that it owns, and counts are summed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ... import _native
from ...evaluation import Evaluation, evaluate
from ...evaluation.known_triples import Lists
from ...evaluation.ranking import Share
from ...store import EmbeddingStore
from ..run.ranker import Ranker, comparisons, counts_of_all
from .group import Machines


class GatheredRows:
    """The entities of all machines, as an EmbeddingModel reads them: by lists of ids, the same on all machines at
    once."""

    ndim, dtype = 2, np.dtype(np.float32)

    def __init__(self, store: EmbeddingStore, owners: _native.RowOwners, group: Machines):
        self._store, self._owners, self._group = store, owners, group
        self.shape = (owners.rows, store.dim)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, ids) -> np.ndarray:
        distinct, place = np.unique(np.asarray(ids, np.int64), return_inverse=True)
        owner = self._owners.owner(distinct)
        own = self._store.embeddings[self._owners.local(distinct[owner == self._group.machine])]
        rows = np.empty((len(distinct), self.shape[1]), np.float32)
        for machine, part in enumerate(self._group.all_bytes(np.ascontiguousarray(own, np.float32).tobytes())):
            rows[owner == machine] = np.frombuffer(part, np.float32).reshape(-1, self.shape[1])
        return rows[place.reshape(np.shape(ids))]


class MachineRanker(Ranker):
    """Gives all machines the same metrics: those of one process."""

    def __init__(self, config, graph, group: Machines, owners: _native.RowOwners):
        super().__init__(config, graph)
        self._group, self._owners, self.shows = group, owners, group.machine == 0

    def _evaluate(self, triples, tables) -> Evaluation:
        model = self._model({name: store.embeddings for name, store in tables.stores.items()},
                            self._config.model.reciprocal)
        own = model.entity if isinstance(model.entity, np.ndarray) else model.entity[:]
        model = replace(model, entity=GatheredRows(tables.entity, self._owners, self._group))
        known = self._known_triples() if self._protocol.known == "excluded" else None
        if self._protocol.sampling is not None:  # whose candidates are gathered anyway
            return evaluate(model, triples, known, self._protocol, show=self.shows)
        found = evaluate(model, triples, known, self._protocol, show=self.shows, share=Share(own, self._among))
        return replace(found, compared=comparisons(sum(counts_of_all(self._group, found.compared))))

    def _among(self, lists: Lists) -> Lists:
        owner = self._owners.owner(lists.items)
        queries = np.repeat(np.arange(len(lists.pointers) - 1), np.diff(lists.pointers))
        own = owner == self._group.machine
        return Lists.from_pairs(queries[own], self._owners.local(lists.items[own]), len(lists.pointers) - 1)
