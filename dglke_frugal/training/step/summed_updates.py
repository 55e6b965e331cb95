"""Updates of a device's step that move a row once, from the sum of its gradients, where it lies: Adagrad per element,
and Adam. Rows that a step does not have stay as they are: with Adam as torch.optim.SparseAdam has it."""

from __future__ import annotations

from typing import Optional, Sequence

import torch

from ... import _native
from ...store.device.device import Device
from ...store.rows.device_rows import DeviceRows

EPSILONS = {"row_adagrad": 1e-10, "adagrad": 1e-10, "adam": 1e-8}  # as torch.optim has them


class OptimizerRule:
    """The numbers of an optimizer for kernels.

    Attributes:
        native: as _native.softmax_update_rows takes it.
        corrections: Adam's, of the step that has started; else None.
    """

    def __init__(self, optimizer: str, learning_rate: float, device: Device):
        """optimizer: one of options.OPTIMIZERS."""
        self._learning_rate = learning_rate
        self.corrections: Optional[torch.Tensor] = device.zeros(2) if optimizer == "adam" else None
        self.native = (optimizer, learning_rate, EPSILONS[optimizer], self.corrections)

    def start(self, step: torch.Tensor) -> None:
        """Before the updates of a step; its number, from 0, in device memory."""
        if self.corrections is not None:
            number = step.double() + 1
            self.corrections[:1] = self._learning_rate / (1 - torch.pow(0.9, number))
            self.corrections[1:] = 1 / torch.sqrt(1 - torch.pow(0.999, number))


def update_from_entries(rows: DeviceRows, ids: torch.Tensor, used: torch.Tensor, entries: Sequence[tuple],
                        rule: OptimizerRule) -> None:
    """Update the rows ids[:used] of a table that lies on the device as a whole. entries: as DeviceRows.update has them;
    their gradients are added in their order."""
    stream = rows.device.stream
    sums = [gradients.new_empty(len(ids), rows.dim) for gradients, *_ in entries]
    for (gradients, offset, order, *_), of_entry in zip(entries, sums):
        _native.segment_sums(gradients, offset, order, of_entry, stream)
    total, *others = sums
    for each in others:
        total += each
    _native.softmax_update_rows(rows.resident, rows.dim, ids, used, total, rule.native, stream)
