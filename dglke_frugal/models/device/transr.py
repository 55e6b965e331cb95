"""TransR on a device: entities are projected by a matrix M per relation; score = gamma - sum |h M + r - t M|.

As in DGL-KE the queries are t M - r for corrupted heads and h M - r for corrupted tails (csrc/models/transr.cpp).
"""
from __future__ import annotations

import torch

from .matrices import matrices_of
from .model import DeviceModel, Positives


class TransR(DeviceModel):
    """Negatives are projected for each positive, so it has a pass of its own: see device_gradients.ProjectedPass."""

    similarity = "l1"

    def matrices(self, x: Positives):
        """Of each edge (entity_dim, relation_dim)."""
        return matrices_of(x.projection, self.shape.entity_dim, self.products)

    def forward(self, x):
        ends = self.matrices(x).back(torch.stack([x.fixed, x.head - x.tail], 1))
        translation = ends[:, 1] + x.relation
        return ends[:, 0] - x.relation, self.shape.gamma - translation.abs().sum(-1), translation

    def backward(self, x, translation, slope, query):
        """query: (B, relation_dim). Also returns the gradient of M through the positive's own score, as matrices keep
        it."""
        matrices, positive = self.matrices(x), translation.sign() * -slope
        of_head, through_query = matrices.times(torch.stack([positive, query], 1)).unbind(1)
        fixed = (-of_head if x.corrupt_head else of_head) + through_query
        corrupted = of_head if x.corrupt_head else -of_head
        own = matrices.gradient((x.head - x.tail)[:, None], positive[:, None])
        return fixed, positive - query, corrupted, own
