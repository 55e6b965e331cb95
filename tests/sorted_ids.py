"""What a lookup says of its ids, by NumPy."""
import numpy as np


def expected(ids, owners=1):
    """(rows, inverse, offset, order): rows by owner and then by number."""
    keys = np.where(ids < 0, 1 << 62, ids % owners * (1 << 45) + ids // owners)
    found, counts = np.unique(keys[ids >= 0], return_counts=True)
    inverse = np.where(ids < 0, len(found), np.searchsorted(found, keys))
    order = np.argsort(keys, kind="stable")[: counts.sum()]
    rows = found % (1 << 45) * owners + found // (1 << 45)
    return rows, inverse, np.concatenate([[0], np.cumsum(counts)]), order
