"""Products that models on a device have in common, and the precision that --matmul names."""
from __future__ import annotations

import torch

from ... import _native


def set_matmul(matmul: str) -> None:
    """Let float32 products of this process use TF32, or not. tf32x3 means float32 here: torch has no such product."""
    torch.set_float32_matmul_precision("high" if matmul == "tf32" else "highest")


def complex_product(x: torch.Tensor, y: torch.Tensor, conjugate: bool, stream: int) -> torch.Tensor:
    """x y, or conj(x) y, number by number, of rows (n, 2 k) of complex numbers whose real parts come first."""
    product = torch.empty(y.shape, device=y.device)
    _native.multiply_complex(x, y, conjugate, product, stream)
    return product
