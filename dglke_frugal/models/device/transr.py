"""TransR on a device: entities are projected by a matrix M per relation; score = gamma - sum |h M + r - t M|.

The query is t M - r for corrupted heads and h M + r for corrupted tails, by the rule "dglke" h M - r.
"""
from __future__ import annotations

import torch

from .matrices import matrices_of
from .model import DeviceModel, Positives


class TransR(DeviceModel):
    """Negatives are projected for each positive, so it has a pass of its own: see device_gradients.ProjectedPass."""

    def matrices(self, x: Positives):
        """Of each edge (entity_dim, relation_dim)."""
        return matrices_of(x.projection, self.shape.entity_dim)

    def _adds_relation(self, x: Positives) -> bool:
        return not x.corrupt_head and self.shape.score_rule == "textbook"

    def forward(self, x):
        """See bilinear.Rescal.forward."""
        ends = self.matrices(x).back(torch.stack([x.fixed, x.fixed - x.corrupted], 1))
        # from the fixed end to the corrupted one: h M + r - t M, where heads are corrupted with the other sign
        translation = ends[:, 1] - x.relation if x.corrupt_head else ends[:, 1] + x.relation
        query = ends[:, 0] + x.relation if self._adds_relation(x) else ends[:, 0] - x.relation
        return query, self.shape.gamma - torch.linalg.vector_norm(translation, 1, -1), translation

    def backward(self, x, translation, slope, query):
        """query: (B, relation_dim). Also returns the gradient of M through the positive's own score, as matrices keep
        it."""
        matrices, falling = self.matrices(x), translation.sign() * slope  # the gradient by `translation` is -falling
        corrupted, through_query = matrices.times(torch.stack([falling, query], 1)).unbind(1)
        own = matrices.gradient((x.corrupted - x.fixed)[:, None], falling[:, None])
        if x.corrupt_head:
            relation = falling - query
        else:
            relation = query - falling if self._adds_relation(x) else -(query + falling)
        return through_query - corrupted, relation, corrupted, own
