"""How queries are compared with the negatives of their chunk, and what a comparison's gradient is.

The reference is csrc/models/similarity. a: queries (c, C, k), b: negatives (c, N, k), c chunks; a score is (c, C, N).
"""
from __future__ import annotations

from typing import Tuple

import torch

from ... import _native

CLAMP = 20.0  # SimplE's bound on scores; inside it, bounds included, the slope is 1


class Dot:
    """a.b"""

    def __init__(self, gamma: float, stream: int):
        """stream: what kernels of ours take as their stream."""

    def score(self, a: torch.Tensor, b: torch.Tensor):
        """The scores, and what `gradients` needs again."""
        return torch.bmm(a, b.transpose(1, 2)), None

    def gradients(self, a, b, weight, saved) -> Tuple[torch.Tensor, torch.Tensor]:
        """Gradients of a and b, given weight = d loss / d score (c, C, N)."""
        return torch.bmm(weight, b), torch.bmm(weight.transpose(1, 2), a)


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

    def __init__(self, gamma: float, stream: int):
        self._gamma = gamma

    def score(self, a, b):
        squares = (a * a).sum(-1, keepdim=True) + (b * b).sum(-1)[:, None, :]
        squares = torch.baddbmm(squares, a, b.transpose(1, 2), alpha=-2.0)
        distance = squares.clamp(min=self.LEAST).sqrt_()
        return self._gamma - distance, (squares, distance)

    def gradients(self, a, b, weight, saved):
        squares, distance = saved
        # d score / d a = -(a - b) / distance, so a gradient is the sum of weights times its own row, less a product.
        weight = (-weight / distance).masked_fill_(squares < self.LEAST, 0.0)
        of_a = torch.baddbmm(weight.sum(2)[:, :, None] * a, weight, b, alpha=-1.0)
        of_b = torch.baddbmm(weight.sum(1)[:, :, None] * b, weight.transpose(1, 2), a, alpha=-1.0)
        return of_a, of_b


class _Pairwise:
    """gamma - a distance that no product gives: kernels make it pair by pair (csrc/models/pair_terms.h).

    The slope of the distance of equal rows is 0.
    """

    kind: _native.PairKind

    def __init__(self, gamma: float, stream: int):
        self._gamma, self._stream = gamma, stream

    def score(self, a, b):
        distance = a.new_empty(a.shape[0], a.shape[1], b.shape[1])
        _native.pair_distances(self.kind, a, b, distance, self._stream)
        return self._gamma - distance, None

    def gradients(self, a, b, weight, saved):
        of_a, of_b, weight = torch.empty_like(a), torch.empty_like(b), weight.neg()
        _native.pair_gradients(self.kind, a, b, weight, of_a, self._stream)
        _native.pair_gradients(self.kind, b, a, weight.transpose(1, 2), of_b, self._stream)
        return of_a, of_b


class L1(_Pairwise):
    """gamma - sum |a - b|"""

    kind = _native.PairKind.ABSOLUTE


class Modulus(_Pairwise):
    """gamma - sum of complex moduli of a - b, real parts in the first half of a row"""

    kind = _native.PairKind.MODULUS


SIMILARITIES = {"dot": Dot, "clamped_dot": ClampedDot, "l2": L2, "l1": L1, "modulus": Modulus}
