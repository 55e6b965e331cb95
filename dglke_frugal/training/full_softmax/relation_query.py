"""What a relation's score of a head and a tail is the product of the relation with: the query of (head, ?, tail)."""

from __future__ import annotations

from typing import Any, Tuple

import torch

from ...models.device.model import DeviceModel, Positives
from ...models.device.products import Products


class SwappedQuery:
    """Of models whose scores stay when head and relation change places (DistMult, ComplEx, SimplE): the query of a
    head, with the head in the relation's place."""

    def __init__(self, model: DeviceModel):
        self._model = model

    def forward(self, head: torch.Tensor, tail: torch.Tensor) -> Tuple[torch.Tensor, Any]:
        """head, tail: (B, dim). Returns the query (B, relation_dim), and what `backward` needs again."""
        x = Positives(tail, head, tail, corrupt_head=True)  # no positive is scored by itself
        query, _, saved = self._model.forward(x)
        return query, (x, saved)

    def backward(self, saved: Any, of_query: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        """Gradients (head, tail), given d loss / d query."""
        x, of_model = saved
        no_slope = of_query.new_zeros(len(of_query), 1)
        of_tail, of_head, _ = self._model.backward(x, of_model, no_slope, of_query)
        return of_head, of_tail


class OuterQuery:
    """Of RESCAL, whose score is h^T M t: h t^T."""

    def __init__(self, products: Products):
        self._products = products

    def forward(self, head, tail):
        """See SwappedQuery.forward."""
        return (head[:, :, None] * tail[:, None, :]).flatten(1), (head, tail)

    def backward(self, saved, of_query):
        """See SwappedQuery.backward."""
        head, tail = saved
        matrices = of_query.reshape(len(head), head.shape[1], -1)
        of_head = self._products.bmm(tail[:, None], matrices.transpose(1, 2))[:, 0]
        return of_head, self._products.bmm(head[:, None], matrices)[:, 0]
