"""How lookups stand in torch's graph of gradients."""
from __future__ import annotations

import numpy as np
import torch
from torch.autograd.function import once_differentiable

from .. import _native


class ReadRows(torch.autograd.Function):
    """Embeddings (n, dim) that were read, in another shape; their gradient goes to the table."""

    @staticmethod
    def forward(ctx, anchor, values, shape, receive, ticket):
        """anchor: any tensor that requires a gradient, so that one is computed. receive(ticket, gradients, order)."""
        ctx.kind, ctx.receive, ctx.ticket = ReadRows, receive, ticket
        return values.view(shape)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradients):
        """gradients: in that shape."""
        ctx.receive(ctx.ticket, gradients.reshape(-1, gradients.shape[-1]), None)
        return None, None, None, None, None


class ReadBags(torch.autograd.Function):
    """Sums (B, dim) of embeddings that were read, bag by bag, and their gradient to the table."""

    @staticmethod
    def forward(ctx, anchor, values, bags, receive, ticket):
        """bags: which bag each id is of."""
        ctx.kind, ctx.bags, ctx.receive, ctx.ticket = ReadBags, bags, receive, ticket
        return bags.sums(values)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradients):
        """gradients: (B, dim), of which each id of a bag gets its own bag's."""
        numbers = ctx.bags.of_id[ctx.ticket.request.lookup.order]
        ctx.receive(ctx.ticket, gradients, numbers)
        return None, None, None, None, None


class SumBags(torch.autograd.Function):
    """Sums (B, dim) of the rows of each bag."""

    @staticmethod
    def forward(ctx, values, bags):
        """values: (n, dim)."""
        ctx.bags = bags
        return bags.sums(values)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradients):
        """gradients: (B, dim)."""
        return gradients[torch.from_numpy(ctx.bags.of_id.astype(np.int64)).to(gradients.device)], None


class Bags:
    """Consecutive ids that belong together. of_id: (n,) int32, the bag of each id. offset: (B + 1,) int32."""

    def __init__(self, offset: np.ndarray):
        self.offset = np.ascontiguousarray(offset, np.int32)
        self.of_id = np.repeat(np.arange(len(offset) - 1, dtype=np.int32), np.diff(self.offset))

    def __len__(self):
        return len(self.offset) - 1

    def sums(self, values: torch.Tensor) -> torch.Tensor:
        """(B, dim): values (n, dim) added up in order, from 0."""
        sums = torch.empty(len(self), values.shape[1], device=values.device)
        if values.is_cuda:
            with torch.cuda.device(values.device):
                offset = torch.from_numpy(self.offset).pin_memory().to(values.device, non_blocking=True)
                stream = torch.cuda.current_stream(values.device).cuda_stream
                _native.segment_sums(values.detach(), offset, None, sums, stream)
        else:
            _native.segment_sums(values.detach().numpy(), self.offset, None, sums.numpy())
        return sums
