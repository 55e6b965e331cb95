"""Models whose score is a product of the query with the corrupted entity: DistMult, ComplEx, SimplE, RESCAL."""
from __future__ import annotations

import torch

from .matrices import matrices_of
from .model import DeviceModel
from .similarity import CLAMP


class DistMult(DeviceModel):
    """score = sum h r t"""

    similarity = "dot"

    def forward(self, x):
        query = x.fixed * x.relation
        return query, (query * x.corrupted).sum(-1), query

    def backward(self, x, forward_query, slope, query):
        total = query + slope * x.corrupted
        return total * x.relation, total * x.fixed, slope * forward_query


class ComplEx(DeviceModel):
    """score = Re sum f r' conj(c): f the fixed, c the corrupted entity, r' = r, or conj(r) for corrupted heads."""

    similarity = "dot"

    def _relation(self, x):
        real, imaginary = x.relation.chunk(2, -1)
        return real, -imaginary if x.corrupt_head else imaginary

    def forward(self, x):
        a, b = x.fixed.chunk(2, -1)
        real, imaginary = self._relation(x)
        query = torch.cat([a * real - b * imaginary, a * imaginary + b * real], -1)
        return query, (query * x.corrupted).sum(-1), query

    def backward(self, x, forward_query, slope, query):
        a, b = x.fixed.chunk(2, -1)
        real, imaginary = self._relation(x)
        p, q = (query + slope * x.corrupted).chunk(2, -1)
        fixed = torch.cat([p * real + q * imaginary, q * real - p * imaginary], -1)
        of_imaginary = q * a - p * b
        relation = torch.cat([p * a + q * b, -of_imaginary if x.corrupt_head else of_imaginary], -1)
        return fixed, relation, slope * forward_query


class SimplE(DeviceModel):
    """score = 1/2 sum (h_1 r t_2 + t_1 r' h_2), clamped; a row is two halves. The query is 1/2 (p f_2, q f_1)."""

    similarity = "clamped_dot"

    def _halves(self, x):
        """p and q: r and r' where heads are corrupted, else the other way round."""
        halves = x.relation.chunk(2, -1)
        return halves if x.corrupt_head else halves[::-1]

    def forward(self, x):
        first, second = x.fixed.chunk(2, -1)
        p, q = self._halves(x)
        query = 0.5 * torch.cat([p * second, q * first], -1)
        raw = (query * x.corrupted).sum(-1)
        return query, raw.clamp(-CLAMP, CLAMP), (query, raw)

    def backward(self, x, saved, slope, query):
        forward_query, raw = saved
        slope = slope.masked_fill(raw[:, None].abs() > CLAMP, 0.0)
        first, second = x.fixed.chunk(2, -1)
        p, q = self._halves(x)
        u, v = (0.5 * (query + slope * x.corrupted)).chunk(2, -1)
        of_p, of_q = u * second, v * first
        relation = torch.cat([of_p, of_q] if x.corrupt_head else [of_q, of_p], -1)
        return torch.cat([v * q, u * p], -1), relation, slope * forward_query


class Rescal(DeviceModel):
    """score = h^T M t. The query of corrupted heads is M t, that of corrupted tails M^T h; by the rule "dglke" the
    query of corrupted tails is M h, and the positive's score is that of no candidate."""

    similarity = "dot"

    def _matrices(self, x):
        return matrices_of(x.relation, self.shape.entity_dim, self.products)

    def _has_other_formula(self, x) -> bool:
        return self.shape.score_rule == "dglke" and not x.corrupt_head

    def forward(self, x):
        if self._has_other_formula(x):
            query, through = self._matrices(x).times(torch.stack([x.head, x.tail], 1)).unbind(1)
            return query, (x.head * through).sum(-1), through
        matrices, fixed = self._matrices(x), x.fixed[:, None]
        query = (matrices.times(fixed) if x.corrupt_head else matrices.back(fixed))[:, 0]
        return query, (query * x.corrupted).sum(-1), query

    def backward(self, x, saved, slope, query):
        if self._has_other_formula(x):
            return self._backward_of_other(x, saved, slope, query)
        matrices, fixed, total = self._matrices(x), x.fixed[:, None], (query + slope * x.corrupted)[:, None]
        if x.corrupt_head:
            return matrices.back(total)[:, 0], matrices.gradient(total, fixed), slope * saved
        return matrices.times(total)[:, 0], matrices.gradient(fixed, total), slope * saved

    def _backward_of_other(self, x, through, slope, query):
        matrices, scaled = self._matrices(x), slope * x.head
        left, right = torch.stack([scaled, query], 1), torch.stack([x.tail, x.head], 1)
        of_tail, through_query = matrices.back(left).unbind(1)
        return slope * through + through_query, matrices.gradient(left, right), of_tail
