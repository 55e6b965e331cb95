"""RotatE on a device: the fixed entity is rotated by the relation's phases (backwards where heads are corrupted)."""
from __future__ import annotations

import math

import torch

from .model import DeviceModel


class RotatE(DeviceModel):
    """score = gamma - sum |h o e^(i phase) - t|; real parts come first in a row; phase = r pi / embedding_range."""

    similarity = "modulus"

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
        rotation = self._rotation(x)
        return self._back(x, rotation, self._rotated(x, *rotation), gradient)

    def _back(self, x, rotation, rotated, gradient):
        (cosine, sine), (gx, gy) = rotation, gradient.chunk(2, -1)
        fixed = torch.cat([gx * cosine + gy * sine, gy * cosine - gx * sine], -1)
        real, imaginary = rotated.chunk(2, -1)
        turn = (gy * real - gx * imaginary) / (self.shape.embedding_range / math.pi)
        return fixed, -turn if x.corrupt_head else turn

    def forward(self, x):
        rotation = self._rotation(x)
        query = self._rotated(x, *rotation)
        difference = query - x.corrupted
        dx, dy = difference.chunk(2, -1)
        modulus = (dx * dx + dy * dy).sqrt_()
        return query, self.shape.gamma - modulus.sum(-1), (rotation, query, difference, modulus)

    def backward(self, x, saved, slope, query):
        rotation, rotated, difference, modulus = saved
        factor = (-slope / modulus).masked_fill_(modulus == 0, 0.0)
        positive = difference * factor.repeat(1, 2)
        return (*self._back(x, rotation, rotated, query + positive), -positive)
