"""Matrix products, in the precision that --matmul names."""
from __future__ import annotations

import torch

from ... import _native
from ...config import MATMULS


def set_matmul(matmul: str) -> None:
    """Let float32 products of this process use TF32, or not. tf32x3 means float32 here: torch has no such product."""
    torch.set_float32_matmul_precision("high" if matmul == "tf32" else "highest")


class Products:
    """Batched matrix products of float32 tensors, with a float32 result.

    Attributes:
        stream: what kernels of ours take as their stream.
    """

    def __init__(self, matmul: str = "fp32", stream: int = 0):
        """matmul: "bf16" rounds the factors to bfloat16; the others leave them (see set_matmul)."""
        self.stream = stream
        if matmul not in MATMULS:
            raise ValueError(f"there is no matrix product '{matmul}'; there are {', '.join(MATMULS)}")
        self._rounded = matmul == "bf16"

    def bmm(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """(c, m, k) times (c, k, n)."""
        if self._rounded:
            return torch.bmm(a.bfloat16(), b.bfloat16()).float()
        return torch.bmm(a, b)

    def baddbmm(self, start: torch.Tensor, a: torch.Tensor, b: torch.Tensor, alpha: float = 1.0) -> torch.Tensor:
        """start + alpha * a b; start broadcasts to (c, m, n)."""
        if self._rounded:
            return start + alpha * self.bmm(a, b)
        return torch.baddbmm(start, a, b, alpha=alpha)

    def complex(self, x: torch.Tensor, y: torch.Tensor, conjugate: bool) -> torch.Tensor:
        """x y, or conj(x) y, number by number, of rows (n, 2 k) of complex numbers whose real parts come first."""
        product = torch.empty(y.shape, device=y.device)
        _native.multiply_complex(x, y, conjugate, product, self.stream)
        return product
