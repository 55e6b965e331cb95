"""The random numbers of a custom model, as of torch.nn.Dropout: torch's, NumPy's and Python's, from generators that
each step seeds.

A step's numbers depend on the run's seed, the rank and the number of the step alone: not on what was drawn before, so
that neither a validation nor a resumed run changes them. Rankings and answers, too, are the same each time. The
caller's generators are as they were afterwards.
"""
from __future__ import annotations

from typing import ContextManager, Tuple

import numpy as np
import torch

from .registry import random_numbers


def random_numbers_of(step: int = 0, stream: Tuple[int, ...] = (),
                      device: torch.device = torch.device("cpu")) -> ContextManager[None]:
    """Within it the numbers of a step are drawn, on the CPU and on the device that it computes on.

    stream: the run's seed and the rank; none where no step of a run computes.
    """
    seed = int(np.random.SeedSequence([*stream, step]).generate_state(1, np.uint64)[0])
    gpus = []
    if device.type == "cuda":
        gpus.append(torch.cuda.current_device() if device.index is None else device.index)
    return random_numbers(seed, gpus)
