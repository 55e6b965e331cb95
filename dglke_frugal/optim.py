"""Optimizers of embedding rows: what a row becomes once per step, from the sum of its gradients.

With g the sum of a row's gradients in one lookup, w the row, s its state (0 at first):

    SGD              w -= lr * g
    RowwiseAdagrad   s += mean(g * g), one s per row;    w -= lr * g / (sqrt(s) + eps)
    Adagrad          s += g * g, one s per element;      w -= lr * g / (sqrt(s) + eps)

SGD and Adagrad are torch's for sparse gradients; the row-wise form is that of DLRM and FBGEMM, with a state of 4 bytes
a row. All numbers are float32, operations are in the order written and rounded one by one, on CPU and GPU alike.
"""
from __future__ import annotations

import math
from dataclasses import dataclass

from . import _native

__all__ = ["SGD", "Adagrad", "RowwiseAdagrad", "RowOptimizer"]


@dataclass(frozen=True)
class RowOptimizer:
    """What the optimizers have in common. lr: the step size, at least 0."""

    lr: float

    def __post_init__(self):
        if not (math.isfinite(self.lr) and self.lr >= 0):
            raise ValueError(f"a learning rate is a number of at least 0, not {self.lr}")

    def native(self) -> _native.SummedUpdate:
        """The update as kernels know it."""
        raise NotImplementedError


@dataclass(frozen=True)
class SGD(RowOptimizer):
    """Stochastic gradient descent, without momentum; no state."""

    def native(self) -> _native.SummedUpdate:
        return _native.SummedUpdate("sgd", self.lr)


@dataclass(frozen=True)
class _WithState(RowOptimizer):
    eps: float = 1e-10

    def __post_init__(self):
        super().__post_init__()
        if not (math.isfinite(self.eps) and self.eps > 0):
            raise ValueError(f"eps is a number above 0, not {self.eps}")


@dataclass(frozen=True)
class RowwiseAdagrad(_WithState):
    """Adagrad with one state per row. eps > 0 keeps the first division finite."""

    def native(self) -> _native.SummedUpdate:
        return _native.SummedUpdate("rowwise_adagrad", self.lr, self.eps)


@dataclass(frozen=True)
class Adagrad(_WithState):
    """Adagrad with one state per element, which doubles a row. eps > 0 keeps the first division finite."""

    def native(self) -> _native.SummedUpdate:
        return _native.SummedUpdate("adagrad", self.lr, self.eps)
