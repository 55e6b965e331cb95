"""The query of (head, ?, tail): a relation's score is its product with the query."""

from __future__ import annotations

from typing import Any, Tuple

import torch

from ...models.device.model import DeviceModel, Positives


class SwappedQuery:
    """Of models whose scores stay when head and relation change places: the query of a head, with the head in the
    relation's place."""

    def __init__(self, model: DeviceModel):
        self._model = model

    def forward(self, head: torch.Tensor, tail: torch.Tensor) -> Tuple[torch.Tensor, Any]:
        """head, tail: (B, dim). Returns the query (B, relation_dim), and what `backward` needs again."""
        x = Positives(tail, head, tail, corrupt_head=True)  # no positive is scored by itself
        return self._model.query(x), x

    def backward(self, saved: Any, of_query: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        """Gradients (head, tail), given d loss / d query."""
        of_tail, of_head = self._model.of_query(saved, of_query)
        return of_head, of_tail


class OuterQuery:
    """Of RESCAL, whose score is h^T M t: h t^T."""

    def forward(self, head, tail):
        """See SwappedQuery.forward."""
        return (head[:, :, None] * tail[:, None, :]).flatten(1), (head, tail)

    def backward(self, saved, of_query):
        """See SwappedQuery.backward."""
        head, tail = saved
        matrices = of_query.reshape(len(head), head.shape[1], -1)
        of_head = torch.bmm(tail[:, None], matrices.transpose(1, 2))[:, 0]
        return of_head, torch.bmm(head[:, None], matrices)[:, 0]
