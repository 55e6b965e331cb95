"""`Embedding`: torch.nn.Embedding for tables that do not fit into a GPU."""
from __future__ import annotations

import os
from concurrent.futures import Executor
from typing import Dict, Optional, Union

import numpy as np
import torch
from torch import nn

from .. import _native
from ..optim import RowOptimizer
from ..store.request import Request
from . import files, init as start
from .config import CacheConfig
from .functions import ReadRows
from .table import Table, Ticket

KIND = {torch.int32: np.int32, torch.int64: np.int64}


class Embedding(nn.Module):
    """A table of num_embeddings rows of embedding_dim float32 in host memory, hot rows cached on the device.

    forward(ids), int64 or int32 of any shape, gives the rows (*ids.shape, embedding_dim). Rows are no parameters: each
    lookup's gradient updates them when it arrives in `backward`, by `optimizer`. The gradients of an id that occurs
    several times in a lookup are added, in the order of the flattened ids beginning with 0, and the row moves once.
    Two lookups before a backward both see the rows as they were, and each updates them when its gradient arrives.
    Under torch.no_grad(), or after requires_grad_(False), ids are only read.

    Results do not depend on `cache`, prefetching, threads or device, to the bit: they are those of a plain table.
    Ids on the CPU are taken as they are; ids on a GPU cost a synchronisation. Importing needs no CUDA.
    """

    def __init__(self, num_embeddings: int, embedding_dim: int, optimizer: RowOptimizer, *,
                 device: Union[str, torch.device] = "cpu", cache: Optional[CacheConfig] = None,
                 padding_idx: Optional[int] = None, init: start.Init = start.Normal(), seed: int = 0,
                 check_finite: bool = False):
        """cache: by default, in place on the CPU and 5 % of the rows on a GPU.

        padding_idx: an id that reads zeros and is never updated. init, seed: start values, see dglke_frugal.embedding.
        check_finite: look for NaN and infinity in each gradient, which costs a synchronisation on a GPU.
        Raises ValueError for sizes and settings that make no sense, InputError if there is no memory.
        """
        super().__init__()
        if num_embeddings < 1 or embedding_dim < 1:
            raise ValueError(f"a table has at least one row and one column, not {num_embeddings} x {embedding_dim}")
        if not isinstance(optimizer, RowOptimizer):
            raise ValueError("optimizer is one of dglke_frugal.optim: torch's optimizers do not see the rows, as they "
                             "are no parameters")
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise ValueError(f"padding_idx {padding_idx} is outside the table of {num_embeddings} rows")
            padding_idx %= num_embeddings
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx, self.check_finite = padding_idx, check_finite
        self._init, self._seed = init, seed
        if isinstance(device, (str, torch.device)):
            device = torch.device(device)
            if device.type not in ("cpu", "cuda"):
                raise ValueError(f"an Embedding works on 'cpu' or 'cuda', not on {device}")
        if cache is None:
            cache = CacheConfig(flush="none" if device == torch.device("cpu") else "p2f")
        self._table = Table(num_embeddings, embedding_dim, optimizer.native(), cache, device)
        self._trains = True
        self._anchor = torch.zeros((), requires_grad=True)
        self.reset_parameters()

    def extra_repr(self) -> str:
        """For print."""
        return f"{self.num_embeddings}, {self.embedding_dim}, device={self._table.torch_device}"

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """(*ids.shape, embedding_dim) on the module's device. Raises IndexError, with nothing changed."""
        values, ticket = self._read(self._request(ids))
        if ticket is not None:
            values = ReadRows.apply(self._anchor, values, self._receive, ticket)
        return values.view(*ids.shape, self.embedding_dim)

    def prefetch(self, ids: torch.Tensor, sorter: Optional[Executor] = None) -> None:
        """Tell ahead what will be looked up: the lookups to come must then be those prefetched, in the same order.

        A cache and the way of its rows are planned while earlier steps compute. Lookups ahead beyond the lookahead of
        `cache` wait in a list. sorter: a thread that sorts the ids out; without one the caller does. Raises IndexError
        for an id outside the table, with a sorter only when it is looked up.
        """
        request = self._request(ids)
        if sorter is None:
            request.lookup
        else:
            request.sort_ahead(sorter)
        self._table.prefetch(request)

    def discard_prefetched(self) -> None:
        """Forget prefetched ids that were not looked up."""
        self._table.discard_prefetched()

    @property
    def learning_rate(self) -> float:
        """Of the optimizer; may be set between steps, and counts for gradients that arrive afterwards."""
        return self._table.rule.learning_rate

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        if not 0 <= value < float("inf"):
            raise ValueError(f"a learning rate is a number of at least 0, not {value}")
        self._table.rule.learning_rate = value

    @property
    def weight(self) -> torch.Tensor:
        """(num_embeddings, embedding_dim) view of the host table, strided, with every update so far. Read only it:
        what is written is lost where a row is cached; load_state_dict, load and reset_parameters write."""
        self._table.drain()
        return torch.from_numpy(self._table.rows.embeddings)

    def requires_grad_(self, requires_grad: bool = True) -> "Embedding":
        """Whether lookups from now on train their rows."""
        super().requires_grad_(requires_grad)
        self._trains = requires_grad
        return self

    def reset_parameters(self) -> None:
        """Start values again, and optimizer state 0."""
        self._table.drain()
        start.fill(self._table.rows, self._init, self._seed)
        self._table.rewritten()

    def statistics(self) -> Optional[Dict]:
        """Counters of cache and engine (csrc/engine/engine.h), None for a table in place."""
        return self._table.statistics()

    def save(self, path: Union[str, os.PathLike]) -> None:
        """Write rows and optimizer state to a .safetensors file, or the rows alone to a .npy file, without a copy in
        memory. Raises InputError; an older file of that name is then as it was."""
        self._table.drain()
        files.save(path, self._table.rows, self._saved_beside())

    def load(self, path: Union[str, os.PathLike]) -> None:
        """Read what `save` wrote; a .npy file sets the state to 0. Raises InputError, with nothing changed."""
        self._table.drain()
        self._restore(files.load(path, self._table.rows))
        self._table.rewritten()

    def close(self) -> None:
        """Bring every update home and stop what runs in the background; the module may still be used."""
        self._table.close()

    def _request(self, ids: torch.Tensor) -> Request:
        flat = self._flat(ids)
        if self.padding_idx is not None:
            flat = np.where(flat == self.padding_idx, _native.NO_ROW, flat)
        return Request(flat, self.num_embeddings)

    @staticmethod
    def _flat(ids: torch.Tensor) -> np.ndarray:
        """(n,) int64 on the CPU, the caller's memory no longer."""
        if not isinstance(ids, torch.Tensor) or ids.dtype not in KIND:
            raise ValueError("ids are a tensor of int64 or int32")
        flat = np.array(ids.detach().cpu().numpy().reshape(-1), np.int64)
        if len(flat) and flat.min() < 0:
            position = int((flat < 0).argmax())
            raise IndexError(f"id {flat[position]} at position {position} is negative")
        return flat

    def _read(self, request: Request):
        """(values (n, dim), Ticket, or None if they will have no gradient)."""
        if torch.is_grad_enabled() and self._trains:
            return self._table.look_up(request)
        return self._table.read(request), None

    def _receive(self, ticket: Ticket, gradients: torch.Tensor, order: Optional[np.ndarray]) -> None:
        """A lookup's gradient (m, dim) has arrived."""
        gradients = gradients.detach()
        if gradients.dtype != torch.float32 or gradients.stride(-1) != 1 or gradients.stride(0) < gradients.shape[-1]:
            gradients = gradients.to(torch.float32).contiguous()
        if self.check_finite and not torch.isfinite(gradients).all():
            raise FloatingPointError(self._not_finite(ticket, gradients, order))
        self._table.update(ticket, gradients, order)

    def _not_finite(self, ticket: Ticket, gradients: torch.Tensor, order: Optional[np.ndarray]) -> str:
        number = int((~torch.isfinite(gradients)).any(-1).nonzero()[0])
        lookup = ticket.request.lookup
        numbers = lookup.order if order is None else order
        ids = ticket.request.ids[np.sort(lookup.order[np.flatnonzero(numbers == number)])]
        of = f" of id {ids[0]}" if len(ids) else ""
        return (f"the gradient{of} (number {number} of its lookup) is not finite; nothing was updated: look for the "
                "first operation that gives NaN with torch.autograd.detect_anomaly(), or lower the learning rate")

    def _saved_beside(self) -> Dict[str, np.ndarray]:
        """Arrays that belong to the table besides its records, by name."""
        return {}

    def _restore(self, beside: Dict[str, np.ndarray]) -> None:
        """Take back what _saved_beside gave."""

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        self._table.drain()
        rows = self._table.rows
        records = torch.from_numpy(rows.records)  # both are views of it, so that torch.save writes it once
        destination[prefix + "weight"] = records[:, : rows.dim]
        if rows.state_floats:
            destination[prefix + "optimizer_state"] = records[:, rows.dim : rows.record_floats]
        for name, values in self._saved_beside().items():
            destination[prefix + name] = torch.from_numpy(values.copy())

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                              error_msgs):
        rows = self._table.rows
        found = {key[len(prefix):]: value for key, value in state_dict.items()
                 if key.startswith(prefix) and "." not in key[len(prefix):]}
        unexpected_keys.extend(prefix + name for name in found
                               if name not in {"weight", "optimizer_state", *self._saved_beside()})
        if "weight" not in found:
            missing_keys.append(prefix + "weight")
            return
        shapes = {"weight": rows.dim, "optimizer_state": rows.state_floats}
        for name in shapes.keys() & found.keys():
            if tuple(found[name].shape) != (rows.rows, shapes[name]):
                error_msgs.append(f"{prefix}{name} has shape {tuple(found[name].shape)}, but this table needs "
                                  f"{(rows.rows, shapes[name])}: use the sizes and the optimizer it was saved with")
                return
        self._table.drain()
        records = torch.from_numpy(rows.records)
        records[:, : rows.dim] = found["weight"].detach()
        state = records[:, rows.dim : rows.record_floats]
        if "optimizer_state" in found:
            state.copy_(found["optimizer_state"].detach())
        else:
            state.zero_()  # of a plain torch.nn.Embedding
        self._restore({name: found[name].cpu().numpy() for name in self._saved_beside() if name in found})
        self._table.rewritten()
