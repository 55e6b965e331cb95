"""`Embedding`: torch.nn.Embedding for tables that do not fit into a GPU."""
from __future__ import annotations

import os
from typing import Dict, Optional, Tuple, Union

import numpy as np
import torch
from torch import nn

from .. import _native
from ..optim import RowOptimizer
from ..store.flush_config import StoreAddress
from ..store.request import Request
from . import files, init as start
from .config import CacheConfig
from .functions import ReadRows
from .keys import Evicted, KeyTable
from .table import OTHER_IDS, SharedTable, Table, Ticket

KINDS = (torch.int32, torch.int64)


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

    def __init__(self, num_embeddings: Optional[int] = None, embedding_dim: int = 0,
                 optimizer: Optional[RowOptimizer] = None, *,
                 device: Union[str, torch.device] = "cpu", cache: Optional[CacheConfig] = None,
                 padding_idx: Optional[int] = None, init: start.Init = start.Normal(), seed: int = 0,
                 check_finite: bool = False, keys: Optional[str] = None, capacity: Optional[int] = None,
                 policy: str = "lru", keep_evicted: bool = False, shared: Optional[SharedTable] = None):
        """cache: by default, in place on the CPU and 5 % of the rows on a GPU.

        keys="int64": ids are any 64-bit keys but -1, which get rows of a table of `capacity` rows, instead of
        num_embeddings, as they come. A full table makes room by `policy`, one of lru, lfu, epoch_lru, epoch_lfu and
        customized; rows that had to go are handed out by take_evicted if keep_evicted. Keys come in only with lookups
        that train; others read what a new key would begin with.

        padding_idx: an id that reads zeros and is never updated. init, seed: start values, see dglke_frugal.embedding.
        shared: see `attach`.
        check_finite: look for NaN and infinity in each gradient, which costs a synchronisation on a GPU.
        Raises ValueError for sizes and settings that make no sense, InputError if there is no memory.
        """
        super().__init__()
        if keys not in (None, "int64"):
            raise ValueError(f"keys are 'int64' or not given, not {keys!r}")
        if (keys is None) != (capacity is None) or (keys is None) == (num_embeddings is None):
            raise ValueError("give num_embeddings, or keys='int64' with a capacity")
        self._keys = None
        if keys is not None:
            if padding_idx is not None:
                raise ValueError("padding_idx is for rows by number; leave the keys of padding out")
            self._keys = KeyTable(capacity, policy, init, seed, keep_evicted)
            num_embeddings = capacity
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
        if self._keys is not None and cache.ranks > 1:
            raise ValueError("rows by key are for one process; share a table of rows by number")
        self._ranks = cache.ranks
        self._table = Table(num_embeddings, embedding_dim, optimizer.native(), cache, device, shared)
        self._trains = True
        self._anchor = torch.zeros((), requires_grad=True)
        if shared is None:
            self.reset_parameters()

    @classmethod
    def attach(cls, address: StoreAddress, rank: int, optimizer: RowOptimizer, cache: CacheConfig,
               **settings) -> "Embedding":
        """Rank `rank` of cache.ranks: a table that another process of this machine, rank 0, has made with ranks > 1.

        address: that module's `address`, sent here. optimizer and cache: as there. settings: as for Embedding.
        In each step every rank makes one lookup and takes its gradient; gradients that several ranks have for a row are
        added in the order of ranks, and the row is updated once. Reads without gradient, `weight`, `state_dict`, `save`
        and `close` wait until all ranks make the same call. Raises RuntimeError if that process has ended.
        """
        return cls(address.rows, address.dim, optimizer, cache=cache, shared=SharedTable(address, rank), **settings)

    @property
    def address(self) -> StoreAddress:
        """For `attach` in the processes of other ranks; start values and `load` come before."""
        return self._table.address

    def extra_repr(self) -> str:
        """For print."""
        return f"{self.num_embeddings}, {self.embedding_dim}, device={self._table.torch_device}"

    def forward(self, ids: torch.Tensor, scores: Optional[torch.Tensor] = None) -> torch.Tensor:
        """(*ids.shape, embedding_dim) on the module's device. Raises IndexError, with nothing changed.

        scores: int64 of ids' shape, at least 0, for keys with policy="customized".
        """
        values, ticket, _ = self._read(ids, scores)
        shape = (*ids.shape, self.embedding_dim)
        return values.view(shape) if ticket is None else ReadRows.apply(self._anchor, values, shape, self._receive,
                                                                         ticket)

    def learn(self, rows: torch.Tensor, gradient: torch.Tensor) -> None:
        """What rows.backward(gradient) does, for rows that forward has given as they are, without autograd's engine: on
        a GPU it wakes a thread of its own, which takes longer than the update. Hooks of rows do not run."""
        node = rows.grad_fn
        kind = getattr(node, "kind", None)  # torch's own nodes have none
        if kind is None or node.receive != self._receive:
            raise ValueError("learn takes rows as forward has given them, and their gradient; use rows.backward(gradient) "
                             "for others")
        if gradient.shape != rows.shape or gradient.device != rows.device:
            raise ValueError(f"the gradient of rows {tuple(rows.shape)} on {rows.device} is {tuple(gradient.shape)} on "
                             f"{gradient.device}")
        kind.backward(node, gradient.detach())

    def prefetch(self, ids: torch.Tensor, scores: Optional[torch.Tensor] = None) -> None:
        """Tell ahead what will be looked up: the lookups to come must then be those prefetched, in the same order.

        A cache and the way of its rows are planned while earlier steps compute. Lookups ahead beyond the lookahead of
        `cache` wait in a list. An id outside the table raises IndexError when it is looked up. The ids are copied; a
        lookup of the same tensor is known by that, unless torch has changed it in between.
        """
        flat = self._flat(ids)
        if self._keys is None:
            request = self._request(flat)
        elif self._will_train:
            request = self._keys.resolve(flat, self._scores(scores), ahead=True)
        else:
            return  # what only reads brings no key in
        request.remember(ids)
        self._table.prefetch(request)

    def discard_prefetched(self) -> None:
        """Forget prefetched ids that were not looked up."""
        self._table.discard_prefetched()
        if self._keys is not None:
            self._keys.forget_ahead()

    def take_evicted(self) -> Optional[Evicted]:
        """Rows by key that have been evicted since the last call (see Evicted), None for none."""
        return self._keyed.take_evicted()

    def set_epoch(self, epoch: int) -> None:
        """The epoch of policies epoch_lru and epoch_lfu; keys of an earlier one go first. Between two lookups, with
        nothing prefetched."""
        self._nothing_prefetched()
        self._keyed.set_epoch(epoch)

    def erase(self, keys: torch.Tensor) -> torch.Tensor:
        """Remove keys (n,); (n,) bool: which of them were there. With nothing prefetched."""
        self._nothing_prefetched()
        return torch.from_numpy(self._keyed.erase(self._flat(keys)))

    def items(self) -> Tuple[torch.Tensor, torch.Tensor]:
        """(keys (k,) int64, rows (k, embedding_dim)) that the table holds, by place."""
        keys, slots, _, _ = self._keyed.entries()
        return torch.from_numpy(keys), self.weight[torch.from_numpy(slots.astype(np.int64))]

    @property
    def num_keys(self) -> int:
        """How many keys have a row."""
        return len(self._keyed)

    @property
    def learning_rate(self) -> float:
        """Of the optimizer; may be set between steps, and counts for gradients that arrive afterwards."""
        return self._table.rule.learning_rate

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        if self._ranks > 1:
            raise ValueError("the learning rate of several ranks stays what it was")
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
        self._table.check_alone("reset_parameters")
        self._table.drain()
        if self._keys is None:
            start.fill(self._table.rows, self._init, self._seed)
        else:
            self.discard_prefetched()
            self._keys.clear()  # rows begin with their keys
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
        self._table.check_alone("load")
        self._table.drain()
        files.load(path, self._table.rows, self._restore if self._keys is not None else None)
        self._table.rewritten()

    def close(self) -> None:
        """Bring every update home and stop what runs in the background; the module may still be used."""
        self._table.close()

    @property
    def _keyed(self) -> KeyTable:
        if self._keys is None:
            raise ValueError("this table has no keys; make it with keys='int64'")
        return self._keys

    def _nothing_prefetched(self) -> None:
        if self._table.pending:
            raise RuntimeError("lookups are prefetched, whose keys are in already; look them up, or call "
                               "discard_prefetched() first")

    def _request(self, flat: np.ndarray) -> Request:
        if self.padding_idx is not None:
            flat = np.where(flat == self.padding_idx, _native.NO_ROW, flat)
        return Request(flat, self.num_embeddings)

    def _flat(self, ids: torch.Tensor) -> np.ndarray:
        """(n,) int64 on the CPU, the caller's memory no longer."""
        if not isinstance(ids, torch.Tensor) or ids.dtype not in KINDS:
            raise ValueError("ids are a tensor of int64 or int32")
        flat = np.array(ids.detach().cpu().numpy().reshape(-1), np.int64)
        if self._keys is None and len(flat) and flat.min() < 0:
            position = int((flat < 0).argmax())
            raise IndexError(f"id {flat[position]} at position {position} is negative")
        return flat

    @staticmethod
    def _scores(scores: Optional[torch.Tensor]) -> Optional[np.ndarray]:
        if scores is None:
            return None
        flat = scores.detach().cpu().numpy().reshape(-1).astype(np.int64)
        if len(flat) and flat.min() < 0:
            raise ValueError("scores are at least 0")
        return flat.astype(np.uint64)

    @property
    def _will_train(self) -> bool:
        return torch.is_grad_enabled() and self._trains

    def _read(self, ids: torch.Tensor, scores: Optional[torch.Tensor] = None):
        """(values (n, dim), Ticket, or None if they will have no gradient, Request)."""
        head = self._table.next
        if head is not None and not head.is_of(ids):
            head = None
        if self._keys is not None:
            return self._read_keys(self._flat(ids) if head is None else head.keys, self._scores(scores))
        if scores is not None:
            raise ValueError("scores are for rows by key")
        request = head or self._request(self._flat(ids))
        if self._will_train:
            return (*self._table.look_up(request), request)
        return self._table.read(request), None, request

    def _read_keys(self, flat: np.ndarray, scores: Optional[np.ndarray]):
        keys, table = self._keys, self._table
        if not self._will_train:
            request = Request(keys.find(flat), self.num_embeddings)
            values, ticket = table.read(request, prefetched=False), None  # only what trains is prefetched
        else:
            if table.pending:
                request = table.next
                if not np.array_equal(request.keys, flat):
                    raise RuntimeError(OTHER_IDS)
                keys.arrived(request, table.pending - 1)
            else:
                request = keys.resolve(flat, scores, ahead=False)
            values, ticket = table.look_up(request, lambda executor: keys.begin_rows(request, executor))
        keys.fill_absent(values, request.ids, flat)
        return values, ticket, request

    def _receive(self, ticket: Ticket, gradients: torch.Tensor, order: Optional[np.ndarray]) -> None:
        """A lookup's gradient (m, dim) has arrived."""
        gradients = gradients.detach()
        if gradients.dtype != torch.float32 or gradients.stride(-1) != 1 or gradients.stride(0) < gradients.shape[-1]:
            gradients = gradients.to(torch.float32).contiguous()
        if self.check_finite and not torch.isfinite(gradients).all():
            raise FloatingPointError(self._not_finite(ticket, gradients, order))
        if self._keys is not None and not self._table.is_open(ticket):
            ticket, order = self._where_they_are_now(ticket, order)
        self._table.update(ticket, gradients, order)

    def _where_they_are_now(self, ticket: Ticket, order: Optional[np.ndarray]):
        """Ticket and order for a late gradient by key: keys that have lost their row meanwhile are left out."""
        lookup = ticket.request.lookup
        numbers = np.empty(len(lookup), np.int32)
        numbers[lookup.order] = lookup.order if order is None else order
        now = Ticket(Request(self._keys.find(ticket.request.keys), self.num_embeddings))
        return now, numbers[now.request.lookup.order]

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
        if self._keys is None:
            return {}
        return self._keys.saved()

    def _restore(self, beside: Dict[str, np.ndarray]) -> None:
        """Take back what _saved_beside gave."""
        if self._keys is not None:
            self._keys.restore(beside)
            self._table.discard_prefetched()

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
        self._table.check_alone("load_state_dict")
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
        try:
            self._restore({name: values.cpu().numpy() for name, values in found.items() if name not in shapes})
        except ValueError as error:
            error_msgs.append(f"{prefix}: {error}")
            return
        self._table.drain()
        records = torch.from_numpy(rows.records)
        records[:, : rows.dim] = found["weight"].detach()
        state = records[:, rows.dim : rows.record_floats]
        if "optimizer_state" in found:
            state.copy_(found["optimizer_state"].detach())
        else:
            state.zero_()  # of a plain torch.nn.Embedding
        self._table.rewritten()
