"""A table as a plain loop has it: what every setting of the store has to give, to the bit."""
import copy
import math

import numpy as np
import torch

from dglke_frugal import optim


def with_rate(optimizer, lr):
    """A copy, with another learning rate."""
    other = copy.deepcopy(optimizer)
    other.lr = lr
    return other


STATE_FLOATS = {optim.SGD: lambda dim: 0, optim.RowwiseAdagrad: lambda dim: 1, optim.Adagrad: lambda dim: dim,
                optim.Adam: lambda dim: 2 * dim, optim.RowwiseAdam: lambda dim: dim + 1}


class PlainTable:
    """Rows, state and optimizer in NumPy, one row and one operation after the other."""

    def __init__(self, weight, optimizer):
        self.weight = weight.numpy().copy()
        rows, dim = self.weight.shape
        self.state = np.zeros((rows, STATE_FLOATS[type(optimizer)](dim)), np.float32)
        self.optimizer, self.updates = optimizer, 0

    def read(self, ids):
        return torch.from_numpy(self.weight[ids.reshape(-1).numpy()]).view(*ids.shape, self.weight.shape[1])

    def update(self, ids, gradients):
        self.updates += 1
        sums = {}
        for row, gradient in zip(ids.reshape(-1).tolist(), gradients.reshape(-1, self.weight.shape[1]).numpy()):
            sums[row] = sums.get(row, np.zeros_like(gradient)) + gradient
        for row, gradient in sums.items():
            self._move(row, gradient)

    def _move(self, row, gradient):
        optimizer, (f32, dim) = self.optimizer, (np.float32, self.weight.shape[1])
        weight, state, clip = self.weight[row], self.state[row], optimizer.param_groups[0]["clip"]
        squares = torch.from_numpy(gradient)[None]
        square = squares.mul(squares).mean(1).numpy()[0]  # torch's order of sums
        if clip is not None and np.sqrt(square * f32(dim)) > f32(clip):
            unit = f32(clip) / np.sqrt(square * f32(dim))
            gradient, square = unit * gradient, unit * (unit * square)
        if isinstance(optimizer, (optim.Adam, optim.RowwiseAdam)):
            beta1, beta2 = optimizer.betas
            mean, second = state[:dim], state[dim:]
            mean += f32(1 - beta1) * (gradient - mean)
            second += f32(1 - beta2) * ((gradient * gradient if isinstance(optimizer, optim.Adam) else square) - second)
            rate = f32(optimizer.lr / (1 - beta1**self.updates))
            root = f32(1 / math.sqrt(1 - beta2**self.updates))
            weight -= rate * mean / (np.sqrt(second) * root + f32(optimizer.eps))
            return
        step = f32(-optimizer.lr) * gradient
        if isinstance(optimizer, optim.SGD):
            weight += step
            return
        state += square if isinstance(optimizer, optim.RowwiseAdagrad) else gradient * gradient
        weight += step / (np.sqrt(state) + f32(optimizer.eps))


class Row:
    """One row, and whether the table has it."""

    def __init__(self, values, optimizer):
        self.plain, self.there = PlainTable(values[None], optimizer), True

    @property
    def values(self):
        return torch.from_numpy(self.plain.weight[0].copy())

    def move(self, gradients, rate):
        self.plain.optimizer = with_rate(self.plain.optimizer, rate)
        self.plain.update(torch.zeros(len(gradients), dtype=torch.long), gradients)


class PlainKeys:
    """Rows by key, in one set. places: [key, score, time of the last use, row], or None."""

    def __init__(self, policy, capacity, optimizer, start):
        """start: what a key's row begins with."""
        self.policy, self.optimizer, self.start, self.places = policy, optimizer, start, [None] * capacity
        self.time = self.epoch = 0
        self.evicted = []

    @property
    def used(self):
        return [place for place in self.places if place]

    def find(self, keys):
        held = {place[0]: place[3] for place in self.used}
        return [held.get(key) for key in keys]

    def score(self, old, given):
        epoch = self.epoch << 32
        return {"lru": self.time, "lfu": old + given, "epoch_lru": epoch | self.time, "customized": given,
                "epoch_lfu": epoch | (old & 0xFFFFFFFF) + given}[self.policy]

    def bring_in(self, keys, scores):
        self.time += 1
        given = {}
        for key, score in zip(keys, scores):
            given[key] = max(given.get(key, 0), score) if self.policy == "customized" else given.get(key, 0) + 1
        for place in self.used:
            if place[0] in given:
                place[1:3] = self.score(place[1], given.pop(place[0])), self.time
        for key, count in given.items():
            self.insert(key, self.score(0, count))
        return self.find(keys)

    def insert(self, key, score):
        taken = len(self.used)
        if taken < len(self.places):  # the place behind as many as are taken, or the first one that is free
            at = taken if self.places[taken] is None else self.places.index(None)
        else:
            old = [(place[1], place[2], at) for at, place in enumerate(self.places) if place[2] != self.time]
            if not old or min(old)[0] > score:
                return
            at = min(old)[2]
            gone = self.places[at]
            gone[3].there = False
            self.evicted.append((gone[0], gone[3].values, gone[1]))
        self.places[at] = [key, score, self.time, Row(self.start(key), self.optimizer)]

    def erase(self, keys):
        there = [row is not None for row in self.find(keys)]
        for at, place in enumerate(self.places):
            if place and place[0] in keys:
                place[3].there, self.places[at] = False, None
        return there

    def reload(self):
        """Rows that are loaded are other rows."""
        self.evicted = []
        for place in self.used:
            place[3].there, place[3] = False, copy.deepcopy(place[3])
