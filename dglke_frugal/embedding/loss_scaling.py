"""torch.amp.GradScaler multiplies a loss, and with it each gradient, by a factor that its `step` takes out again.

Rows are updated in backward, before `step`, so the factor has to be known there. Nothing that autograd hands to a
backward leads to the root of its graph. Importing this module therefore wraps `scale` of GradScaler and of the classes
derived from it: each loss that it returns gets a hook, which notes for the running backward which scaler its gradients
come from.
"""
from __future__ import annotations

import functools
import threading
from typing import Any, Dict, Hashable, NamedTuple, Optional, Tuple

import torch
from torch.amp import GradScaler
from torch.autograd import Variable

from .compiling import not_compiled


class _Running(NamedTuple):
    """A backward: the scaler of its loss, and the thread that it began in."""

    scaler: GradScaler
    thread: int


_running: Dict[int, _Running] = {}  # by torch's number of the backward


class _End:
    """A callback of a backward, which torch drops when the backward has ended or failed."""

    def __init__(self, backward: int):
        self._backward = backward

    def __call__(self):
        pass

    def __del__(self):
        del _running[self._backward]


def scaler_of_backward() -> Optional[GradScaler]:
    """The scaler of the loss whose backward runs in this thread; None if there is no backward, or no scaler."""
    backward = torch._C._current_graph_task_id() if _running else -1
    if backward == -1:
        return None
    noted = _running.get(backward) or _around(threading.get_ident())
    return None if noted is None else noted.scaler


def _around(thread: int) -> Optional[_Running]:
    """The backward around one without a scaler of its own, as where a part of a model is computed again."""
    return next((noted for _, noted in sorted(_running.items(), reverse=True) if noted.thread == thread), None)


def unscaled(gradients: torch.Tensor, scaler: GradScaler, owner: Hashable) -> Tuple[torch.Tensor, torch.Tensor]:
    """float32 gradients without the scaler's factor, and whether they are all finite; zeros if they are not, as
    GradScaler skips a step.

    The scaler learns which it was, as of an optimizer of its own, and lowers its factor at its next `update`. Nothing
    here waits for a device. owner: whose gradients they are.
    """
    inverse = scaler._scale.to(gradients.device).double().reciprocal().float()
    finite = torch.isfinite(gradients).all()
    found, device = scaler._per_optimizer_states[id(owner)]["found_inf_per_device"], gradients.device
    overflow = (~finite).float()
    found[device] = torch.maximum(found[device], overflow) if device in found else overflow
    return torch.where(finite, gradients * inverse, 0.0), finite


def _note(scaled: Any, scaler: GradScaler) -> Any:
    """The same tensor or iterable of tensors, each with the hook."""
    if isinstance(scaled, torch.Tensor):
        if scaled.requires_grad:
            scaled.register_hook(functools.partial(_note_backward, scaler))
        return scaled
    noted = map(functools.partial(_note, scaler=scaler), scaled)
    return type(scaled)(noted) if isinstance(scaled, (list, tuple)) else noted


@not_compiled
def _note_backward(scaler: GradScaler, gradient: torch.Tensor) -> None:
    backward = torch._C._current_graph_task_id()
    if backward not in _running:
        _running[backward] = _Running(scaler, threading.get_ident())
        Variable._execution_engine.queue_callback(_End(backward))


def _wrap(kind: type) -> None:
    """For a class of scalers, which may have a `scale` of its own."""
    if "scale" in vars(kind):
        kind.scale = _wrapped(kind.scale)
    for derived in kind.__subclasses__():
        _wrap(derived)


def _wrapped(scale):
    @functools.wraps(scale)
    def scale_and_note(self, outputs):
        scaled = scale(self, outputs)
        return _note(scaled, self) if self.is_enabled() else scaled

    return scale_and_note


def _derived(kind: type, **settings) -> None:
    """A class is derived from GradScaler."""
    super(GradScaler, kind).__init_subclass__(**settings)
    _wrap(kind)


_wrap(GradScaler)
GradScaler.__init_subclass__ = classmethod(_derived)
