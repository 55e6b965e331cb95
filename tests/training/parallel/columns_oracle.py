"""What ranks that each have some columns must compute, by plain loops over plain tables in one process.

All slices take part in each step one after the other: their raw scores are added in rank order, then each is
differentiated; their mean squares are added in rank order, and every slice has the state that follows.
"""
from __future__ import annotations

import numpy as np
from half_precision_oracle import noise, rounded
from training.parallel.ranks_oracle import penalty, sums_of_ends

from dglke_frugal import _native
from dglke_frugal.training.step.native_step import native_step

EPSILON = np.float32(1e-10)


def columns_of_rank(dim, halves, rank, ranks):
    """Indices of the columns that a rank has: as many of each half."""
    half = dim // halves
    own = half // ranks
    return np.concatenate([np.arange(own) + h * half + rank * own for h in range(halves)])


class ColumnsOracle:
    """Tables of `ranks` slices.

    step_config: of one slice. initial: by name, (rows, dim) float32 start values of whole rows. halves: by name.
    rounding: None, or (element, seed, table) of entities that are rounded once at the end of a step, as whole rows.
    """

    def __init__(self, step_config, initial, halves, ranks, rounding=None):
        self.config, self.ranks, self.halves, self.rounding = step_config, ranks, halves, rounding
        self.step = native_step(step_config, threads=1)
        self.dims = {name: values.shape[1] for name, values in initial.items()}
        self.slices = []
        for rank in range(ranks):
            tables = {}
            for name, values in initial.items():
                own = values[:, columns_of_rank(values.shape[1], halves[name], rank, ranks)]
                tables[name] = _native.HostTable(*own.shape)
                tables[name].embeddings[:] = own
            self.slices.append(tables)
        self.states = {name: np.zeros(len(values), np.float32) for name, values in initial.items()}
        self.losses = []  # of each step: of the positives, of the negatives

    def train(self, batch):
        """One step on the joined batch."""
        parts = []
        for tables in self.slices:
            self.step.differentiate(batch, *tables.values(), add_columns=lambda raw: parts.append(np.array(raw)))
        scores = parts[0]
        for part in parts[1:]:
            scores = scores + part

        def all_columns(raw):
            raw[:] = scores

        entries = {"entity": [], "relation": []}
        for tables in self.slices:
            losses, gradients = self.step.differentiate(batch, *tables.values(), add_columns=all_columns)
            negative, relation = np.asarray(batch.negative), np.asarray(batch.relation)
            entries["entity"].append([
                self.positives(batch, gradients, tables["entity"]),
                (negative, gradients["negative"] + self.penalty(tables["entity"], negative))])
            entries["relation"].append([(relation, gradients["relation"] + self.penalty(tables["relation"], relation))])
        self.losses.append((losses.positive, losses.negative))  # the same ones for each slice
        for name, of_slices in entries.items():
            for entry in zip(*of_slices):
                self.apply(name, entry[0][0], [gradients for _, gradients in entry])
        if self.rounding:
            self.round_entities(batch)

    def round_entities(self, batch):
        _, seed, table = self.rounding
        whole, dim = self.whole("entity"), self.dims["entity"]
        for row in np.unique(np.concatenate([batch.head, batch.tail, batch.negative])):
            values = rounded(whole[row], noise(seed, table, batch.step, int(row), dim))
            for rank, tables in enumerate(self.slices):
                own = columns_of_rank(dim, self.halves["entity"], rank, self.ranks)
                tables["entity"].embeddings[row] = values[own]

    def positives(self, batch, gradients, table):
        ids, sums = sums_of_ends(batch, gradients)
        return ids, sums + self.penalty(table, ids)

    def penalty(self, table, ids):
        return penalty(self.config.loss, table.embeddings[ids])

    def apply(self, name, ids, gradients):
        """One entry of row-wise Adagrad; gradients: of each slice, for the same ids."""
        means = None
        for own in gradients:
            mean = self.mean_squares(own)
            means = mean if means is None else means + mean
        means = means / np.float32(self.ranks)
        state = self.states[name]
        for i, row in enumerate(ids):
            state[row] += means[i]
        deviations = np.sqrt(state[ids]) + EPSILON
        for tables, own in zip(self.slices, gradients):
            tables[name].move_entry(ids, np.ascontiguousarray(own, np.float32), deviations, self.config.learning_rate)

    @staticmethod
    def mean_squares(gradients):
        """What row-wise Adagrad adds to states of 0."""
        table, states = _native.HostTable(*gradients.shape), np.empty(len(gradients), np.float32)
        table.accumulate_entry(np.arange(len(gradients)), np.ascontiguousarray(gradients, np.float32), states)
        return states

    def arrays(self):
        """Whole embeddings and states by name."""
        found = {}
        for name in self.dims:
            found[name], found[f"{name}_state"] = self.whole(name), self.states[name].copy()
        return found

    def whole(self, name):
        """The embeddings of all slices."""
        whole = np.empty((len(self.states[name]), self.dims[name]), np.float32)
        for rank, tables in enumerate(self.slices):
            own = columns_of_rank(self.dims[name], self.halves[name], rank, self.ranks)
            whole[:, own] = tables[name].embeddings
        return whole
