"""What several ranks must compute, by plain loops over plain tables in one process.

In each step all ranks differentiate at the same values. Of entities the first entries of all ranks, in rank order, are
then one entry, and so are the second ones. Of relations and projections each rank has added up its gradients of a row
in an entry, and their mean squares; such a sum is one occurrence in the entry of all ranks. No plan, no cache, no
engine, no row that is in two places.
"""

from __future__ import annotations

import numpy as np
from half_precision_oracle import noise, rounded

from dglke_frugal import _native
from dglke_frugal.training.step.native_step import native_step


def sums_of_ends(batch, gradients):
    """Each distinct row of the positives once, with the sum over its ends: all heads, then all tails."""
    ids = np.concatenate([batch.head, batch.tail])
    ends = np.concatenate([gradients["head"], gradients["tail"]])
    distinct, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
    sums = ends[first]
    for i in range(len(ids)):
        if i != first[inverse[i]]:
            sums[inverse[i]] += ends[i]
    return distinct, sums


def penalty(loss, rows):
    """Gradient of coefficient * sum |x|^3, one per row that is read."""
    if not loss.regularization_coefficient:
        return np.zeros_like(rows)
    assert loss.regularization_norm == 3
    factor = np.float32(loss.regularization_coefficient) * np.float32(3)
    return factor * (np.abs(rows) * rows)


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
                if name == "entity":
                    self.apply_in_order(self.tables[name], entry)
                else:
                    self.apply_relations(self.tables[name], entry)
        if self.rounding:
            self.round_entities(batches)
        return losses

    def apply_in_order(self, table, entry):
        """entry: (ids, gradients) of each rank."""
        ids, gradients = (np.concatenate(parts) for parts in zip(*entry))
        table.apply_entry(ids, np.ascontiguousarray(gradients, np.float32), self.config.learning_rate)

    def apply_relations(self, table, entry):
        """The same of relations and projections."""
        self.apply_sums(table, [self.sums(*part) for part in entry])

    @staticmethod
    def sums(ids, gradients):
        """By row: the sum of its gradients, and that of their mean squares, in the order of its occurrences."""
        gradients = np.ascontiguousarray(gradients, np.float32)
        squares, found = np.empty(len(ids), np.float32), {}
        _native.mean_squares(gradients, squares)
        for row, gradient, square in zip(ids.tolist(), gradients, squares):
            total, squared = found.get(row, (np.zeros_like(gradient), np.float32(0)))
            found[row] = total + gradient, squared + square
        return found

    def apply_sums(self, table, of_ranks):
        """Row-wise Adagrad, where each rank's sum is one occurrence."""
        rate = np.float32(-self.config.learning_rate)
        for row in sorted(set().union(*of_ranks)):
            given = [found[row] for found in of_ranks if row in found]
            for _, square in given:
                table.state[row] += square
            deviation = np.sqrt(table.state[row]) + np.float32(1e-10)
            for total, _ in given:
                table.embeddings[row] += rate * total / deviation

    def round_entities(self, batches):
        _, seed, table = self.rounding
        entities = self.tables["entity"].embeddings
        for row in np.unique(np.concatenate([ids for batch in batches for ids in (batch.head, batch.tail,
                                                                                  batch.negative)])):
            numbers = noise(seed, table, batches[0].step, int(row), entities.shape[1])
            entities[row] = rounded(np.array(entities[row]), numbers)

    def positives(self, batch, gradients):
        ids, sums = sums_of_ends(batch, gradients)
        return ids, sums + self.penalty("entity", ids)

    def negatives(self, batch, gradients):
        ids = np.asarray(batch.negative)
        return ids, gradients["negative"] + self.penalty("entity", ids)

    def penalty(self, table, ids):
        return penalty(self.config.loss, self.tables[table].embeddings[ids])

    def arrays(self):
        """Embeddings and states by name, copies."""
        return {f"{name}{suffix}": np.array(array) for name, table in self.tables.items()
                for suffix, array in (("", table.embeddings), ("_state", table.state))}
