"""torch.amp.GradScaler multiplies a loss, and with it each gradient, by a factor that its `step` takes out again.

Rows are updated in backward, before `step`, so the factor has to be known there. Nothing that autograd hands to a
backward leads to the root of its graph. Importing this module therefore wraps GradScaler.scale: each loss that it
returns gets a hook, which notes for the running backward which scaler its gradients come from.
"""
from __future__ import annotations

import functools
import weakref
from typing import Any, Dict, Hashable, Optional

import torch
from torch.amp import GradScaler
from torch.autograd import Variable

_of_backward: Dict[int, "weakref.ref[GradScaler]"] = {}  # by torch's number of the backward


def scaler_of_backward() -> Optional[GradScaler]:
    """The scaler of the loss whose backward runs in this thread; None if there is no backward, or no scaler."""
    scaler = _of_backward.get(torch._C._current_graph_task_id()) if _of_backward else None
    return None if scaler is None else scaler()


def unscaled(gradients: torch.Tensor, scaler: GradScaler, owner: Hashable) -> torch.Tensor:
    """float32 gradients without the scaler's factor; zeros, as GradScaler skips a step, if they are not all finite.

    The scaler learns which it was, as of an optimizer of its own, and lowers its factor at its next `update`. Nothing
    here waits for a device. owner: whose gradients they are.
    """
    inverse = scaler._scale.to(gradients.device).double().reciprocal().float()
    finite = torch.isfinite(gradients).all()
    found, device = scaler._per_optimizer_states[id(owner)]["found_inf_per_device"], gradients.device
    overflow = (~finite).float()
    found[device] = torch.maximum(found[device], overflow) if device in found else overflow
    return torch.where(finite, gradients * inverse, 0.0)


def _note(scaled: Any, scaler: GradScaler) -> Any:
    """The same tensor or iterable of tensors, each with the hook."""
    if isinstance(scaled, torch.Tensor):
        if scaled.requires_grad:
            scaled.register_hook(functools.partial(_note_backward, scaler))
        return scaled
    noted = map(functools.partial(_note, scaler=scaler), scaled)
    return type(scaled)(noted) if isinstance(scaled, (list, tuple)) else noted


def _note_backward(scaler: GradScaler, gradient: torch.Tensor) -> None:
    backward = torch._C._current_graph_task_id()
    if backward not in _of_backward:
        _of_backward[backward] = weakref.ref(scaler)
        Variable._execution_engine.queue_callback(lambda: _of_backward.pop(backward, None))


def _wrapped(scale):
    @functools.wraps(scale)
    def scale_and_note(self, outputs):
        scaled = scale(self, outputs)
        return _note(scaled, self) if self.is_enabled() else scaled

    return scale_and_note


GradScaler.scale = _wrapped(GradScaler.scale)
