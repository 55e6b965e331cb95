"""Optimizers of embedding rows: what a row becomes once per step, from the sum of its gradients.

With g the sum of a row's gradients in one lookup, w the row, s, m and v its state (0 at first), and t the number of
updates that the table has had, this one included:

    SGD              w -= lr * g
    RowwiseAdagrad   s += mean(g * g), one s per row;    w -= lr * g / (sqrt(s) + eps)
    Adagrad          s += g * g, one s per element;      w -= lr * g / (sqrt(s) + eps)
    Adam             m += (1 - b1) (g - m), v += (1 - b2) (g * g - v), one of each per element;
                     w -= lr / (1 - b1^t) * m / (sqrt(v) / sqrt(1 - b2^t) + eps)
    RowwiseAdam      the same with v += (1 - b2) (mean(g * g) - v), one v per row

SGD and Adagrad are torch's for sparse gradients. Adam is torch.optim.Adam for the rows that a step uses; the others
stay as they are, as with torch.optim.SparseAdam. The row-wise ones are those of DLRM and FBGEMM.
All numbers of rows are float32, operations are in the order written and rounded one by one, on CPU and GPU alike.

Each is a torch.optim.Optimizer whose `step` has nothing to do, since rows are updated in backward. One may be for
several tables. torch.optim.lr_scheduler changes its learning rate:

    optimizer = optim.Adam(0.01, clip=1.0)
    table = Embedding(1_000_000, 64, optimizer)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 1000)
"""
from __future__ import annotations

import ctypes
import math
from collections import defaultdict
from typing import Any, Callable, Mapping, Optional, Tuple

import torch

from . import _native

__all__ = ["SGD", "Adagrad", "Adam", "RowOptimizer", "RowwiseAdagrad", "RowwiseAdam"]


class RowOptimizer(torch.optim.Optimizer):
    """The common part of the optimizers.

    Attributes:
        name: as kernels know it.
        counts_updates: whether an update depends on how many the table has had.
        param_groups: one, without parameters, whose "lr" counts for the gradients that prefetch from now on.
    """

    name: str
    counts_updates = False
    _step_supports_amp_scaling = True  # torch.amp.GradScaler then leaves gradients to `step`, which has none

    def __init__(self, lr: float, *, clip: Optional[float] = None, **settings: Any):
        """lr: the step size, at least 0. clip: the largest norm of the sum of a row's gradients; a larger one is scaled
        down to it. settings: of a derived class, for param_groups. Raises ValueError."""
        if clip is not None and not 0 < _float32(clip) < math.inf:
            raise ValueError(f"clip is a float32 norm above 0, not {clip!r}")
        settings.update(lr=_rate(lr), clip=clip)
        # In place of Optimizer.__init__, which imports torch's compiler for the sake of parameters.
        self.__setstate__({"defaults": settings, "state": defaultdict(dict),
                           "param_groups": [{"params": [], **settings}]})

    @property
    def lr(self) -> float:
        """The learning rate."""
        return self.param_groups[0]["lr"]

    @lr.setter
    def lr(self, value: float) -> None:
        self.param_groups[0]["lr"] = _rate(value)

    def add_param_group(self, param_group: Any) -> None:
        """Refused by ValueError: `step` does nothing, so that no parameter would be trained."""
        raise ValueError("an optimizer of rows has no parameters, which its step would leave as they are; give them to "
                         "one of torch.optim")

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """As torch's. Raises ValueError for the state of an optimizer of another kind."""
        groups = state_dict.get("param_groups") or [{}]
        missing = [name for name in self.defaults if name in self.param_groups[0] and name not in groups[0]]
        if missing:
            raise ValueError(f"this is the state of another optimizer than {type(self).__name__}: it has no "
                             f"{' and no '.join(missing)}")
        super().load_state_dict(dict(state_dict))

    @torch.no_grad()
    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """Nothing: backward has updated the rows. The closure's result, if there is one."""
        if closure is None:
            return None
        with torch.enable_grad():
            return closure()

    def native(self) -> _native.SummedUpdate:
        """The update of one table, as kernels know it."""
        return _native.SummedUpdate(self.name)

    def next_update(self, update: _native.SummedUpdate, settings: Optional[Mapping[str, Any]] = None) -> None:
        """The table's next update is by the settings of this moment, or by these: what param_groups[0] was before."""
        self._opt_called = True  # the order of updates and schedules that torch looks after
        group = self.param_groups[0] if settings is None else settings
        update.next(_rate(group["lr"]), group.get("eps", 0.0), group["clip"] or 0.0, *group.get("betas", ()))


class SGD(RowOptimizer):
    """Stochastic gradient descent, without momentum; no state."""

    name = "sgd"

    def __init__(self, lr: float, *, clip: Optional[float] = None):
        """lr, clip: as of every optimizer of rows."""
        super().__init__(lr, clip=clip)


class _WithState(RowOptimizer):
    def __init__(self, lr: float, eps: float, **settings):
        if not 0 < _float32(eps) < math.inf:
            raise ValueError(f"eps is a float32 number above 0, not {eps!r}")
        super().__init__(lr, eps=eps, **settings)

    @property
    def eps(self) -> float:
        """A small number that keeps divisions finite."""
        return self.param_groups[0]["eps"]


class _Adagrad(_WithState):
    def __init__(self, lr: float, eps: float = 1e-10, *, clip: Optional[float] = None):
        """eps: above 0, which keeps the first division finite."""
        super().__init__(lr, eps, clip=clip)


class RowwiseAdagrad(_Adagrad):
    """Adagrad with one state per row."""

    name = "rowwise_adagrad"


class Adagrad(_Adagrad):
    """Adagrad with one state per element, which doubles a row."""

    name = "adagrad"


class _Adam(_WithState):
    counts_updates = True

    def __init__(self, lr: float = 1e-3, betas: Tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, *,
                 clip: Optional[float] = None):
        """betas: the shares of mean and mean square that an update keeps, from 0 to below 1."""
        if not isinstance(betas, (tuple, list)) or len(betas) != 2 or not all(
                _float32(beta) >= 0 and beta < 1 for beta in betas):
            raise ValueError(f"betas are two numbers from 0 to below 1, not {betas}")
        super().__init__(lr, eps, betas=tuple(betas), clip=clip)

    @property
    def betas(self) -> Tuple[float, float]:
        """The shares of mean and mean square that an update keeps."""
        return self.param_groups[0]["betas"]


class Adam(_Adam):
    """Adam with two states per element, which triples a row."""

    name = "adam"


class RowwiseAdam(_Adam):
    """Adam with a mean per element and one mean square per row, which doubles a row."""

    name = "rowwise_adam"


def _rate(value: Any) -> float:
    if not 0 <= _float32(value) < math.inf:
        raise ValueError(f"a learning rate is a float32 number of at least 0, not {value!r}")
    return float(value)


def _float32(value: Any) -> float:
    """A number of Python, NumPy or torch as kernels have it, where small ones are 0 and large ones infinite; NaN of
    what is no number."""
    try:
        return ctypes.c_float(value).value
    except (TypeError, ValueError, OverflowError, RuntimeError):  # of text, of a tensor of several, of a huge integer
        return math.nan
