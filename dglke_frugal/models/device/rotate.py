"""RotatE on a device: the fixed entity is rotated by the relation's phases (backwards where heads are corrupted)."""
from __future__ import annotations

import math

import torch

from .model import DeviceModel


class RotatE(DeviceModel):
    """score = gamma - sum |h o e^(i phase) - t|; real parts come first in a row; phase = r pi / embedding_range."""

    def _rotation(self, x):
        phase = x.relation / (self.shape.embedding_range / math.pi)
        sine = torch.sin(phase)
        return torch.cos(phase), -sine if x.corrupt_head else sine

    @staticmethod
    def _rotated(x, cosine, sine):
        real, imaginary = x.fixed.chunk(2, -1)
        return torch.cat([real * cosine - imaginary * sine, real * sine + imaginary * cosine], -1)

    def query(self, x):
        return self._rotated(x, *self._rotation(x))

    def of_query(self, x, gradient):
        (cosine, sine), (gx, gy) = self._rotation(x), gradient.chunk(2, -1)
        fixed = torch.cat([gx * cosine + gy * sine, gy * cosine - gx * sine], -1)
        real, imaginary = self._rotated(x, cosine, sine).chunk(2, -1)
        turn = (gy * real - gx * imaginary) / (self.shape.embedding_range / math.pi)
        return fixed, -turn if x.corrupt_head else turn
