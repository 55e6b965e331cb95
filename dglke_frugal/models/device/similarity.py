"""How queries are compared with the negatives of their chunk, and what a comparison's gradient is.

Twins of csrc/models/similarity. a: queries (c, C, k), b: negatives (c, N, k), c chunks; a score is (c, C, N).
"""
from __future__ import annotations

from typing import Tuple

import torch

from .products import Products

CLAMP = 20.0  # SimplE's bound on scores; inside it, bounds included, the slope is 1
BLOCK = 1 << 26  # elements of a difference tensor that may exist at a time


class Dot:
    """a.b"""

    def __init__(self, gamma: float, products: Products):
        self._products = products

    def score(self, a: torch.Tensor, b: torch.Tensor):
        """The scores, and what `gradients` needs again."""
        return self._products.bmm(a, b.transpose(1, 2)), None

    def gradients(self, a, b, weight, saved) -> Tuple[torch.Tensor, torch.Tensor]:
        """Gradients of a and b, given weight = d loss / d score (c, C, N)."""
        return self._products.bmm(weight, b), self._products.bmm(weight.transpose(1, 2), a)


class ClampedDot(Dot):
    """a.b, clamped to [-20, 20]"""

    def score(self, a, b):
        raw, _ = super().score(a, b)
        return raw.clamp(-CLAMP, CLAMP), raw

    def gradients(self, a, b, weight, raw):
        return super().gradients(a, b, weight.masked_fill(raw.abs() > CLAMP, 0.0), None)


class L2:
    """gamma - |a - b|, from |a|^2 - 2 a.b + |b|^2; a distance below 1e-15 counts as 1e-15 with gradient 0."""

    LEAST = 1e-30

    def __init__(self, gamma: float, products: Products):
        self._gamma, self._products = gamma, products

    def score(self, a, b):
        squares = (a * a).sum(-1, keepdim=True) + (b * b).sum(-1)[:, None, :]
        squares = self._products.baddbmm(squares, a, b.transpose(1, 2), alpha=-2.0)
        distance = squares.clamp(min=self.LEAST).sqrt_()
        return self._gamma - distance, (squares, distance)

    def gradients(self, a, b, weight, saved):
        squares, distance = saved
        # d score / d a = -(a - b) / distance, so each gradient is a sum of the weights times its own row, less a product.
        weight = (-weight / distance).masked_fill_(squares < self.LEAST, 0.0)
        of_a = self._products.baddbmm(weight.sum(2)[:, :, None] * a, weight, b, alpha=-1.0)
        of_b = self._products.baddbmm(weight.sum(1)[:, :, None] * b, weight.transpose(1, 2), a, alpha=-1.0)
        return of_a, of_b


class _Elementwise:
    """gamma minus a sum over columns of a function of a - b, over blocks of columns that fit into memory."""

    def __init__(self, gamma: float, products: Products):
        self._gamma = gamma

    @staticmethod
    def _blocks(a, b, columns: int):
        pairs = a.shape[0] * a.shape[1] * b.shape[1]
        step = max(1, min(columns, BLOCK // max(1, pairs)))
        return [slice(first, min(columns, first + step)) for first in range(0, columns, step)]


class L1(_Elementwise):
    """gamma - sum |a - b|; the slope where they are equal is 0."""

    def score(self, a, b):
        distance = a.new_zeros(a.shape[0], a.shape[1], b.shape[1])
        for k in self._blocks(a, b, a.shape[2]):
            distance += (a[:, :, None, k] - b[:, None, :, k]).abs_().sum(-1)
        return self._gamma - distance, None

    def gradients(self, a, b, weight, saved):
        of_a, of_b = torch.empty_like(a), torch.empty_like(b)
        for k in self._blocks(a, b, a.shape[2]):
            pull = (a[:, :, None, k] - b[:, None, :, k]).sign_().mul_(weight[..., None])
            torch.sum(pull, 2, out=of_a[:, :, k]).neg_()
            torch.sum(pull, 1, out=of_b[:, :, k])
        return of_a, of_b


class Modulus(_Elementwise):
    """gamma - sum of complex moduli of a - b, real parts in the first half of a row; the slope where they are equal is 0."""

    @staticmethod
    def _difference(a, b, k, half):
        imaginary = slice(half + k.start, half + k.stop)
        return a[:, :, None, k] - b[:, None, :, k], a[:, :, None, imaginary] - b[:, None, :, imaginary], imaginary

    def score(self, a, b):
        half = a.shape[2] // 2
        distance = a.new_zeros(a.shape[0], a.shape[1], b.shape[1])
        for k in self._blocks(a, b, half):
            x, y, _ = self._difference(a, b, k, half)
            distance += x.mul_(x).addcmul_(y, y).sqrt_().sum(-1)
        return self._gamma - distance, None

    def gradients(self, a, b, weight, saved):
        half = a.shape[2] // 2
        of_a, of_b = torch.empty_like(a), torch.empty_like(b)
        for k in self._blocks(a, b, half):
            x, y, imaginary = self._difference(a, b, k, half)
            modulus = (x * x).addcmul_(y, y).sqrt_()
            ratio = (weight[..., None] / modulus).masked_fill_(modulus == 0, 0.0)
            for part, columns in ((x, k), (y, imaginary)):
                pull = part.mul_(ratio)
                torch.sum(pull, 2, out=of_a[:, :, columns]).neg_()
                torch.sum(pull, 1, out=of_b[:, :, columns])
        return of_a, of_b


SIMILARITIES = {"dot": Dot, "clamped_dot": ClampedDot, "l2": L2, "l1": L1, "modulus": Modulus}
