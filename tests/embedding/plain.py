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
