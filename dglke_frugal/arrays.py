"""Arithmetic of rows that models share where they are ranked: float32, the same bits however many rows together."""
from __future__ import annotations

import sys

import numpy as np

_ROWS_AT_ONCE = 1 << 12  # multiplied together by a relation's matrix


def is_tensor(rows) -> bool:
    """Whether rows are a torch tensor; asked without torch's import time."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(rows, torch.Tensor)


def rounded_product(rows, matrix: np.ndarray):
    """rows @ matrix summed in float64, then float32: the same whatever multiplies, and however many rows together.

    rows (n, k), numpy or torch; matrix (k, m) float32.
    """
    if not is_tensor(rows):
        wide, out = matrix.astype(np.float64), np.empty((len(rows), matrix.shape[1]), np.float32)
        block, product = (np.empty((min(len(rows), _ROWS_AT_ONCE), k)) for k in matrix.shape)
        for begin in range(0, len(rows), _ROWS_AT_ONCE):  # whole tables of doubles take longer to get than to fill
            here = rows[begin : begin + _ROWS_AT_ONCE]
            block[: len(here)] = here
            out[begin : begin + len(here)] = np.matmul(block[: len(here)], wide, out=product[: len(here)])
        return out
    import torch

    return (rows.double() @ torch.from_numpy(matrix).to(rows.device).double()).float()


def rotated(rows, real, imaginary, conjugate: bool) -> np.ndarray:
    """Rows (n, 2 k), real parts and then imaginary ones, times complex numbers (n, k), or their conjugates."""
    if conjugate:
        imaginary = -imaginary
    rows_real, rows_imaginary = np.split(rows, 2, axis=1)
    return np.concatenate([rows_real * real - rows_imaginary * imaginary,
                           rows_real * imaginary + rows_imaginary * real], axis=1)
