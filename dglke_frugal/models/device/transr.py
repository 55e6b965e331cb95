"""TransR on a device: entities are projected by a matrix M per relation; score = gamma - sum |h M + r - t M|.

The query is t M - r for corrupted heads and h M + r for corrupted tails, by the rule "dglke" h M - r.
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

    def _adds_relation(self, x: Positives) -> bool:
        return not x.corrupt_head and self.shape.score_rule == "textbook"

    def forward(self, x):
        ends = self.matrices(x).back(torch.stack([x.fixed, x.head - x.tail], 1))
        translation = ends[:, 1] + x.relation
        query = ends[:, 0] + x.relation if self._adds_relation(x) else ends[:, 0] - x.relation
        return query, self.shape.gamma - translation.abs().sum(-1), translation

    def backward(self, x, translation, slope, query):
        """query: (B, relation_dim). Also returns the gradient of M through the positive's own score, as matrices keep
        it."""
        matrices, positive = self.matrices(x), translation.sign() * -slope
        of_head, through_query = matrices.times(torch.stack([positive, query], 1)).unbind(1)
        fixed = (-of_head if x.corrupt_head else of_head) + through_query
        corrupted = of_head if x.corrupt_head else -of_head
        own = matrices.gradient((x.head - x.tail)[:, None], positive[:, None])
        relation = positive + query if self._adds_relation(x) else positive - query
        return fixed, relation, corrupted, own
