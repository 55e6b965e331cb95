"""Plans of an engine's steps, each of which is prefetched to the device with the rows of the step before.

Rows cannot be asked for before the plan is looked at, and in host memory that takes as long as the first of them do."""
from __future__ import annotations

from typing import Callable, NamedTuple

import numpy as np
import torch

from ... import _native
from ..device.device import Device

PLANS_AHEAD = 2  # one is read while the next one comes


class PlanAddresses(NamedTuple):
    """Where the plan of the running step is read; from where and to where the next one comes meanwhile, 0: it does
    not."""

    cell: int
    next_cell: int = 0
    place: int = 0


class PlansAhead:
    """For prefetches that follow each other on one stream."""

    def __init__(self, client: _native.EngineClient, cell_of: Callable[[int], torch.Tensor], device: Device):
        """cell_of: where the engine has the plan of a step that is decided."""
        self._client, self._cell_of = client, cell_of
        self._memory = device.zeros(PLANS_AHEAD, client.plan_bytes, dtype=np.uint8)
        self._places = [place.data_ptr() for place in self._memory]  # used in turn
        self._sent = -1  # the last step whose plan was sent ahead

    def addresses(self, step: int) -> PlanAddresses:
        """Of the engine's step `step`, which is decided. Each step is asked for once, in order, and its prefetch is
        enqueued before the next one is asked for."""
        cell = self._places[step % PLANS_AHEAD] if self._sent == step else self._cell_of(step).data_ptr()
        following = step + 1
        if self._client.planned_steps <= following:  # nobody waits for it: its prefetch will find it
            return PlanAddresses(cell)
        self._sent = following
        return PlanAddresses(cell, self._cell_of(following).data_ptr(), self._places[following % PLANS_AHEAD])
