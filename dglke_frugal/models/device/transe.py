"""TransE on a device: score = gamma - |h + r - t|, Euclidean (l2) or a sum of absolute values (l1)."""
from __future__ import annotations

from .model import DeviceModel


class TransE(DeviceModel):
    """|h + r - t| is the distance from the query to the corrupted side, whichever that is."""

    def query(self, x):
        return x.fixed - x.relation if x.corrupt_head else x.fixed + x.relation

    def of_query(self, x, gradient):
        return gradient, -gradient if x.corrupt_head else gradient
