"""How long a device had nothing to do because rows were not ready."""

from __future__ import annotations

import time
from typing import Callable, TypeVar

Answer = TypeVar("Answer")
NOTICEABLE_SECONDS = 20e-6  # what is shorter is no wait but the call itself


class Stalls:
    """Waits of the host, for a plan, a gate or room in staging, that left the device without work.

    While the device still has work, the host may wait. A wait counts if the device has nothing left when it ends, and
    then as a whole: `seconds` is an upper bound. Neither host rows on the bus nor earlier steps that are waited for
    count.

    Attributes:
        steps: how many have stalled.
        seconds: in all.
    """

    def __init__(self):
        self.steps, self.seconds = 0, 0.0
        self._last = -1

    def watch(self, wait: Callable[[int], Answer], step: int, idle: Callable[[], bool]) -> Answer:
        """wait(step), which is counted if it was long and the device is idle after it."""
        began = time.perf_counter()
        answer = wait(step)
        waited = time.perf_counter() - began
        if waited > NOTICEABLE_SECONDS and idle():
            self.seconds += waited
            self.steps += step != self._last
            self._last = step
        return answer
