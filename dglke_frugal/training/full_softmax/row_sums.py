"""Sums of the rows of a matrix whose bits do not depend on torch's threads."""

from __future__ import annotations

import torch


def sums_of_rows(matrix: torch.Tensor) -> torch.Tensor:
    """(n,) of (n, m). torch adds up a single row in parts, one of each thread, and several rows whole."""
    return matrix.sum(1) if len(matrix) != 1 else matrix.repeat(2, 1).sum(1)[:1]
