"""What several ranks must compute, by plain loops over plain tables in one process.

In each step all ranks differentiate at the same values; then the first entries of all ranks, in rank order, are one
entry, and so are the second ones. No plan, no cache, no engine, no row that is in two places.
"""

from __future__ import annotations

import numpy as np
from halves_oracle import noise, rounded

from dglke_frugal import _native
from dglke_frugal.training.step.native_step import native_step


class Oracle:
    """Entity, relation and projection tables that are trained in order.

    step_config: of every rank. initial: by name, (rows, dim) float32 start values; projections only for TransR.
    rounding: None, or (element, seed, table) of entities that are rounded once when all ranks' updates are applied.
    """

    def __init__(self, step_config, initial, rounding=None):
        self.config, self.rounding = step_config, rounding
        self.step = native_step(step_config, threads=1)
        self.tables = {name: _native.HostTable(*values.shape) for name, values in initial.items()}
        for name, values in initial.items():
            self.tables[name].embeddings[:] = values

    def train(self, batches):
        """One step on the batches of all ranks, in rank order. Returns the ranks' losses."""
        losses, entries = [], {name: [] for name in self.tables}
        for batch in batches:
            loss, gradients = self.step.differentiate(batch, *self.tables.values())
            losses.append(loss)
            entries["entity"].append((self.positives(batch, gradients), self.negatives(batch, gradients)))
            relations = np.asarray(batch.relation)
            entries["relation"].append(((relations, gradients["relation"] + self.penalty("relation", relations)),))
            if "projection" in self.tables:
                entries["projection"].append(((relations, gradients["projection"]),
                                              (relations, gradients["projection_of_negatives"])))
        for name, of_ranks in entries.items():
            for entry in zip(*of_ranks):
                ids, gradients = (np.concatenate(parts) for parts in zip(*entry))
                self.tables[name].apply_entry(
                    ids, np.ascontiguousarray(gradients, np.float32), self.config.learning_rate
                )
        if self.rounding:
            self.round_entities(batches)
        return losses

    def round_entities(self, batches):
        element, seed, table = self.rounding
        entities = self.tables["entity"].embeddings
        for row in np.unique(np.concatenate([ids for batch in batches for ids in (batch.head, batch.tail,
                                                                                  batch.negative)])):
            numbers = noise(seed, table, batches[0].step, int(row), entities.shape[1])
            entities[row] = rounded(np.array(entities[row]), numbers, element)

    def positives(self, batch, gradients):
        """Each distinct row of the positives once, with the sum over its ends: all heads, then all tails."""
        ids = np.concatenate([batch.head, batch.tail])
        ends = np.concatenate([gradients["head"], gradients["tail"]])
        distinct, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
        sums = ends[first]
        for i in range(len(ids)):
            if i != first[inverse[i]]:
                sums[inverse[i]] += ends[i]
        return distinct, sums + self.penalty("entity", distinct)

    def negatives(self, batch, gradients):
        ids = np.asarray(batch.negative)
        return ids, gradients["negative"] + self.penalty("entity", ids)

    def penalty(self, table, ids):
        """Gradient of coefficient * sum |x|^3 at the rows of `ids`, one per read."""
        loss = self.config.loss
        rows = self.tables[table].embeddings[ids]
        if not loss.regularization_coefficient:
            return np.zeros_like(rows)
        assert loss.regularization_norm == 3
        factor = np.float32(loss.regularization_coefficient) * np.float32(3)
        return factor * (np.abs(rows) * rows)

    def arrays(self):
        """Embeddings and states by name, copies."""
        return {f"{name}{suffix}": np.array(array) for name, table in self.tables.items()
                for suffix, array in (("", table.embeddings), ("_state", table.state))}
