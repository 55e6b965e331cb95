"""DGL-KE's ExternalEmbedding, with the rows in an EmbeddingStore."""
from __future__ import annotations

import os

import torch

from ...store import EmbeddingStore

INIT_ELEMENTS = 1 << 24  # drawn at a time, so that initialising needs no second table


def torch_square_root(states):
    """Square roots as DGL-KE gets them: torch's CPU kernel may round them otherwise than IEEE 754 does (it is
    MKL's)."""
    return torch.from_numpy(states).sqrt().numpy()


class DGLKEAdapter:
    """Stands where DGL-KE looks up `ExternalEmbedding`; see dglke/models/pytorch/tensor_models.py for the contract.

    Reads and updates are synchronous and exact in every mode: `--async_update` and the per-process copies of relations
    (`--rel_part` on several GPUs) exist in DGL-KE to hide a cost that this store does not have, so they change nothing.

    With `flushing`, rows are cached and flushed by the engine, and every step must be announced (see lookahead.py).
    """

    def __init__(self, args, num, dim, device, flushing=None, hot_rows=()):
        shared = args.num_proc > 1 or args.async_update
        self.store = EmbeddingStore(num, dim, args.lr, shared=shared, square_root=torch_square_root, flushing=flushing,
                                    hot_rows=hot_rows)
        self.num = num
        self.trace = []
        self.emb = torch.from_numpy(self.store.embeddings)
        self.state_sum = torch.from_numpy(self.store.state)

    def init(self, emb_init):
        """Uniform in [-emb_init, emb_init], drawn from torch's generator in the order in which DGL-KE draws."""
        rows_at_a_time = max(1, INIT_ELEMENTS // self.store.dim)
        for begin in range(0, self.num, rows_at_a_time):
            block = self.emb[begin : begin + rows_at_a_time]
            block.copy_(torch.empty(block.shape).uniform_(-emb_init, emb_init))
        self.state_sum.zero_()

    def __call__(self, idx, gpu_id=-1, trace=True):
        """Rows of `idx` (n,) as an (n, dim) tensor on the device; recorded as a leaf of autograd if `trace`."""
        rows = torch.empty((len(idx), self.store.dim))
        self.store.gather(idx.cpu().contiguous(), rows)
        if gpu_id >= 0:
            rows = rows.cuda(gpu_id)
        if trace:
            rows.requires_grad_(True)
            self.trace.append((idx, rows))
        return rows

    def curr_emb(self):
        """All rows read with trace since the last update, (n, dim)."""
        return torch.cat([rows for _, rows in self.trace], 0)

    def update(self, gpu_id=-1):
        """Apply the gradients of the traced reads, one entry per read, in order."""
        self.store.apply((idx.cpu().contiguous(), rows.grad.cpu().contiguous()) for idx, rows in self.trace)
        self.trace = []

    def share_memory(self):
        """Nothing to do: a table that several processes use is allocated shared."""

    def create_async_update(self):
        """Nothing to do: updates are already off the trainer's critical path, or exact on it."""

    def finish_async_update(self):
        """Nothing is left to be done after it: all rows are in the host table."""
        self.store.drain()

    def save(self, path, name):
        """Write the rows to `<path>/<name>.npy`. Raises InputError."""
        self.store.save(os.path.join(path, name + ".npy"))

    def load(self, path, name):
        """Read them from there. Raises InputError."""
        self.store.load(os.path.join(path, name + ".npy"))
