"""Steps of tests of stores."""
import numpy as np


def skewed_step(step, rows, dim):
    """The ids of two entries, skewed and with duplicates, and noise that differs everywhere."""
    rng = np.random.default_rng(step)
    entries = []
    for size in (30, 20):
        ids = np.minimum((rng.random(size) ** 3 * rows).astype(np.int64), rows - 1)
        entries.append((ids, rng.normal(size=(size, dim)).astype(np.float32)))
    return entries
