"""Models whose score is a product of the query with the corrupted entity: DistMult, ComplEx, SimplE, RESCAL.

Rows of DistMult, ComplEx and SimplE are long where all entities are scored, so that what counts is how often they are
read and written.
"""
from __future__ import annotations

import torch

from .matrices import matrices_of
from .model import DeviceModel
from .products import complex_product


class DistMult(DeviceModel):
    """score = sum h r t"""

    def query(self, x):
        return x.fixed * x.relation

    def of_query(self, x, gradient):
        return gradient * x.relation, gradient * x.fixed


class ComplEx(DeviceModel):
    """score = Re sum f r' conj(c): f the fixed, c the corrupted entity, r' = r, or conj(r) for corrupted heads."""

    def query(self, x):
        return complex_product(x.relation, x.fixed, x.corrupt_head, self.stream)

    def of_query(self, x, gradient):
        fixed = complex_product(x.relation, gradient, not x.corrupt_head, self.stream)
        factors = (gradient, x.fixed) if x.corrupt_head else (x.fixed, gradient)
        return fixed, complex_product(*factors, True, self.stream)


class SimplE(DeviceModel):
    """score = 1/2 sum (h_1 r t_2 + t_1 r' h_2), clamped; a row is two halves. The query is 1/2 (p f_2, q f_1)."""

    def _halves(self, x):
        """p and q: r and r' where heads are corrupted, else the other way round."""
        halves = x.relation.chunk(2, -1)
        return halves if x.corrupt_head else halves[::-1]

    def query(self, x):
        first, second = x.fixed.chunk(2, -1)
        p, q = self._halves(x)
        return 0.5 * torch.cat([p * second, q * first], -1)

    def of_query(self, x, gradient):
        first, second = x.fixed.chunk(2, -1)
        p, q = self._halves(x)
        u, v = (0.5 * gradient).chunk(2, -1)
        of_p, of_q = u * second, v * first
        relation = torch.cat([of_p, of_q] if x.corrupt_head else [of_q, of_p], -1)
        return torch.cat([v * q, u * p], -1), relation


class Rescal(DeviceModel):
    """score = h^T M t. The query of corrupted heads is M t, that of corrupted tails M^T h; by the rule "dglke" the
    query of corrupted tails is M h, and the positive's score is that of no candidate."""

    def _matrices(self, x):
        return matrices_of(x.relation, self.shape.entity_dim)

    def _has_other_formula(self, x) -> bool:
        return self.shape.score_rule == "dglke" and not x.corrupt_head

    def query(self, x):
        matrices, fixed = self._matrices(x), x.fixed[:, None]
        through = matrices.times if x.corrupt_head or self._has_other_formula(x) else matrices.back
        return through(fixed)[:, 0]

    def of_query(self, x, gradient):
        matrices, fixed, total = self._matrices(x), x.fixed[:, None], gradient[:, None]
        if x.corrupt_head or self._has_other_formula(x):
            return matrices.back(total)[:, 0], matrices.gradient(total, fixed)
        return matrices.times(total)[:, 0], matrices.gradient(fixed, total)

    def forward(self, x):
        """Queries (B, entity_dim), scores of the positives (B,), and what `backward` needs again."""
        if not self._has_other_formula(x):
            query = self.query(x)
            return query, (query * x.corrupted).sum(-1), query
        query, through = self._matrices(x).times(torch.stack([x.head, x.tail], 1)).unbind(1)
        return query, (x.head * through).sum(-1), through

    def backward(self, x, saved, slope, query):
        """Gradients (fixed, relation, corrupted), given d loss / d score (B, 1) and / d query (B, entity_dim)."""
        if not self._has_other_formula(x):
            return (*self.of_query(x, query + slope * x.corrupted), slope * saved)
        matrices, scaled = self._matrices(x), slope * x.head
        left, right = torch.stack([scaled, query], 1), torch.stack([x.tail, x.head], 1)
        of_tail, through_query = matrices.back(left).unbind(1)
        return slope * saved + through_query, matrices.gradient(left, right), of_tail
