"""One seed for every random number that DGL-KE draws."""
from __future__ import annotations

import random

from .installation import install


def seed_everything(seed: int) -> None:
    """Seed Python, numpy, torch and the C++ sampler of dgl, in this process and for the calling thread.

    Same seed, one process and one thread (OMP_NUM_THREADS=1) make DGL-KE write the same bytes every time.
    """
    install()
    import dgl
    import numpy
    import torch

    random.seed(seed)
    numpy.random.seed(seed % 2**32)
    torch.manual_seed(seed)
    dgl.seed(seed % 2**31)  # a C int
