"""Lookups as nodes of torch's graph of gradients."""
from __future__ import annotations

from typing import List, Optional

import numpy as np
import torch
from torch.autograd.function import once_differentiable

from .. import _native

NOTHING = torch.empty(0, device="cpu")  # each lookup saves it: torch refuses a second backward without retain_graph


def of_type(rows: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The same float32 numbers as another type; `to` takes long to find that there is nothing to do."""
    return rows if dtype == torch.float32 else rows.to(dtype)


class ReadRows(torch.autograd.Function):
    """Embeddings (n, dim) that were read, in another shape; their gradient goes to the table."""

    @staticmethod
    def forward(ctx, handle, values: List[torch.Tensor], shape, dtype, receive, ticket):
        """handle: the module's parameter, for which a gradient is computed if it requires one. values: the embeddings,
        in a list because torch refuses to change a view of an argument in place. receive(ticket, gradients, numbers)
        takes their gradient, numbers as Executor.update does."""
        _remember(ctx, ReadRows, handle, receive, ticket)
        return of_type(values[0].resize_(shape), dtype)

    @staticmethod
    def backward(ctx, gradients):
        """gradients: in that shape."""
        return _deliver(ctx, gradients), None, None, None, None, None

    @staticmethod
    def deliver(ctx, gradients):
        """Hand the gradient to the table."""
        rows = gradients if gradients.dim() == 2 else gradients.reshape(-1, gradients.shape[-1])
        ctx.receive(ctx.ticket, rows, None)


class ReadBags(torch.autograd.Function):
    """Sums or means (B, dim) of embeddings that were read, bag by bag, and their gradient to the table."""

    @staticmethod
    def forward(ctx, handle, values, bags, counts, dtype, receive, ticket):
        """bags: which bag each id is of. counts: (B, 1), by which sums are divided for means, or None. The rest is as
        for ReadRows, values without a list."""
        ctx.bags, ctx.counts = bags, counts
        _remember(ctx, ReadBags, handle, receive, ticket)
        sums = of_type(bags.sums(values), dtype)
        return sums if counts is None else sums / counts

    @staticmethod
    def backward(ctx, gradients):
        """gradients: (B, dim), of which each id of a bag gets its own bag's."""
        return _deliver(ctx, gradients), None, None, None, None, None, None

    @staticmethod
    def deliver(ctx, gradients):
        """Hand the gradient to the table."""
        if ctx.counts is not None:
            gradients = gradients / ctx.counts
        ctx.receive(ctx.ticket, gradients, ctx.bags.of_id)


def _remember(ctx, kind, handle, receive, ticket) -> None:
    ctx.kind, ctx.handle, ctx.receive, ctx.ticket = kind, handle, receive, ticket
    ctx.save_for_backward(NOTHING)


def _deliver(ctx, gradients) -> Optional[torch.Tensor]:
    """Backward has reached a lookup: its rows are updated. The gradient of the handle is always 0; None adds nothing to
    one that is there."""
    ctx.saved_tensors  # raises torch's error in a second backward of a graph that has been freed
    if torch.is_grad_enabled():
        raise RuntimeError("backward with create_graph=True has reached an Embedding, whose rows are updated at once "
                           "and have no second derivative; take the gradient of the rows that it returned instead")
    if _accumulates(ctx.next_functions[0][0]):
        ctx.kind.deliver(ctx, gradients)
        if ctx.handle.grad is not None:
            return None
    return torch.zeros_like(ctx.handle)


def _accumulates(node: Optional[torch.autograd.graph.Node]) -> bool:
    """Whether backward() runs, which adds to the gradient of a parameter, and not torch.autograd.grad, which adds to no
    parameter and so moves no rows. node: that adds the gradient."""
    try:
        return torch._C._will_engine_execute_node(node)
    except RuntimeError:  # torch says so of a parameter whose gradient torch.autograd.grad returns
        return False


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
        self.of_id = np.repeat(np.arange(len(self), dtype=np.int32), self.offset[1:] - self.offset[:-1])

    def __len__(self):
        return len(self.offset) - 1

    def sums(self, values: torch.Tensor) -> torch.Tensor:
        """(B, dim): values (n, dim) added up in order, from 0."""
        sums = torch.empty(len(self), values.shape[1], dtype=torch.float32, device=values.device)
        if values.is_cuda:
            with torch.cuda.device(values.device):
                offset = torch.from_numpy(self.offset).pin_memory().to(values.device, non_blocking=True)
                stream = torch.cuda.current_stream(values.device).cuda_stream
                _native.segment_sums(values.detach(), offset, None, sums, stream)
        else:
            _native.segment_sums(values.detach().numpy(), self.offset, None, sums.numpy())
        return sums
