"""A table as a plain loop has it: what every setting of the store has to give, to the bit."""
import numpy as np
import torch

from dglke_frugal import optim


class PlainTable:
    """Rows, state and optimizer in NumPy, one row and one operation after the other."""

    def __init__(self, weight, optimizer):
        self.weight = weight.numpy().copy()
        rows, dim = self.weight.shape
        self.state = np.zeros((rows, {optim.SGD: 0, optim.RowwiseAdagrad: 1, optim.Adagrad: dim}[type(optimizer)]),
                              np.float32)
        self.optimizer = optimizer

    def read(self, ids):
        return torch.from_numpy(self.weight[ids.reshape(-1).numpy()]).view(*ids.shape, self.weight.shape[1])

    def update(self, ids, gradients):
        sums = {}
        for row, gradient in zip(ids.reshape(-1).tolist(), gradients.reshape(-1, self.weight.shape[1]).numpy()):
            sums[row] = sums.get(row, np.zeros_like(gradient)) + gradient
        for row, gradient in sums.items():
            self._move(row, gradient)

    def _move(self, row, gradient):
        step = np.float32(-self.optimizer.lr) * gradient
        if isinstance(self.optimizer, optim.SGD):
            self.weight[row] += step
            return
        if isinstance(self.optimizer, optim.RowwiseAdagrad):
            squares = torch.from_numpy(gradient)[None]
            self.state[row] += squares.mul(squares).mean(1).numpy()  # torch's order of sums
        else:
            self.state[row] += gradient * gradient
        self.weight[row] += step / (np.sqrt(self.state[row]) + np.float32(self.optimizer.eps))
