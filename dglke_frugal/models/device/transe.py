"""TransE on a device: score = gamma - |h + r - t|, Euclidean (l2) or a sum of absolute values (l1)."""
from __future__ import annotations

from .model import DeviceModel, Positives


class _TransE(DeviceModel):
    def query(self, x):
        return x.fixed - x.relation if x.corrupt_head else x.fixed + x.relation

    def of_query(self, x, gradient):
        return gradient, -gradient if x.corrupt_head else gradient

    def _queries(self, x: Positives):
        query = self.query(x)
        # |h + r - t| is the distance from the query to the corrupted side, whichever that is.
        return query, query - x.corrupted

    def _expand(self, x: Positives, positive, query):
        """positive: gradient of query - corrupted through the positive's score."""
        return (*self.of_query(x, query + positive), -positive)


class TransEL2(_TransE):
    """Distances are Euclidean."""
    similarity = "l2"

    def forward(self, x):
        query, difference = self._queries(x)
        norm = (difference * difference).sum(-1, keepdim=True).sqrt_()
        return query, self.shape.gamma - norm[:, 0], (difference, norm)

    def backward(self, x, saved, slope, query):
        difference, norm = saved
        factor = (-slope / norm).masked_fill_(norm == 0, 0.0)
        return self._expand(x, factor * difference, query)


class TransEL1(_TransE):
    """Distances are sums of absolute values."""
    similarity = "l1"

    def forward(self, x):
        query, difference = self._queries(x)
        return query, self.shape.gamma - difference.abs().sum(-1), difference

    def backward(self, x, difference, slope, query):
        return self._expand(x, difference.sign() * -slope, query)
