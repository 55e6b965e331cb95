"""TransR on a device: entities are projected by a matrix M per relation; score = gamma - sum |h M + r - t M|.

As in DGL-KE the queries are t M - r for corrupted heads and h M - r for corrupted tails (csrc/models/transr.cpp).
"""
from __future__ import annotations

import torch

from .model import DeviceModel, Positives


class TransR(DeviceModel):
    """Its negatives are projected for each positive, so it has gradients of its own; see device_gradients.projected."""

    similarity = "l1"

    def matrices(self, x: Positives) -> torch.Tensor:
        """(B, entity_dim, relation_dim)"""
        return x.projection.unflatten(-1, (self.shape.entity_dim, self.shape.relation_dim))

    def forward(self, x):
        ends = self.products.bmm(torch.stack([x.fixed, x.head - x.tail], 1), self.matrices(x))
        translation = ends[:, 1] + x.relation
        return ends[:, 0] - x.relation, self.shape.gamma - translation.abs().sum(-1), translation

    def backward(self, x, translation, slope, query):
        """query: (B, relation_dim). Also returns the gradient of M through the positive's own score, (B, -1)."""
        positive = translation.sign() * -slope
        back = self.products.bmm(torch.stack([positive, query], 1), self.matrices(x).transpose(1, 2))
        of_head, through_query = back[:, 0], back[:, 1]
        fixed = (-of_head if x.corrupt_head else of_head) + through_query
        corrupted = of_head if x.corrupt_head else -of_head
        matrix = (x.head - x.tail)[:, :, None] * positive[:, None, :]
        return fixed, positive - query, corrupted, matrix.flatten(1)
