"""`Embedding`: torch.nn.Embedding for tables that do not fit into a GPU."""
from __future__ import annotations

import copy
import functools
import os
from dataclasses import replace
from typing import Any, Callable, Dict, Optional, Tuple, TypeVar, Union

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

from .. import _native
from ..errors import InputError, first_line
from ..optim import RowOptimizer
from ..options import AUTO
from ..store.request import Request
from ..store.rows.flush_config import StoreAddress
from . import files, init as start
from .compiling import not_compiled
from .config import CacheConfig
from .functions import ReadRows, of_type
from .keys import LARGEST, Evicted, KeyTable
from .loss_scaling import scaler_of_backward, unscaled
from .owners import OwnerTable, reach_each_other
from .table import OTHER_IDS, SharedTable, Table, Ticket

KINDS = (torch.int32, torch.int64)
UPDATES = "optimizer_updates"  # how many the table has had, in its state_dict and files
Method = TypeVar("Method", bound=Callable)


def one_thread_at_a_time(method: Method) -> Method:
    """Wrap a method of a module: of all wrapped methods of one module, one runs at a time."""
    @functools.wraps(method)
    def alone(self, *args, **settings):
        with self._table.alone:
            return method(self, *args, **settings)

    return alone


class Embedding(nn.Module):
    """A table of num_embeddings rows of embedding_dim float32 in host memory, hot rows cached on the device.

    forward(ids), int64 or int32 of any shape, gives the rows (*ids.shape, embedding_dim). Rows are no parameters: each
    lookup's gradient updates them when it comes in `backward`, by `optimizer`. The gradients of an id that occurs
    several times in a lookup are added, in the order of the flattened ids beginning with 0, and the row moves once.
    Two lookups before a backward both see the rows as they were, and each updates them when its gradient comes.
    Under torch.no_grad() ids are only read.

    Results do not depend on `cache`, prefetching, threads or device, to the bit: they are those of a plain table.
    Ids on the CPU are taken as they are; ids on a GPU cost a synchronisation. Importing needs no CUDA.

    In a PyTorch model:
    The module has one parameter, `handle`, a number that stays 0 and stands for all rows. If it does not require a
    gradient, after requires_grad_(False) of the module or of a model that holds it, ids are only read. As in
    torch.nn.Embedding, eval() changes nothing. What else is done to all parameters does not reach the rows: clipping of
    gradients, weight decay, averages of weights. `rows.register_hook(...)` changes their gradients before the update.
    A gradient that torch.amp.GradScaler has scaled is divided by the scaler's factor before the update; if one of its
    numbers is not finite, the rows stay as they are and the scaler lowers its factor. Any other factor on the loss has
    to be taken out by a hook of the rows.
    `to` moves the work, not the table, which stays in host memory as float32: half() and the like make forward give
    rows of that type.
    deepcopy and pickle, which torch.save uses, copy the whole table. state_dict has rows and optimizer state.
    Threads may share a module: its lookups and gradients take effect one after the other. A process that was forked has
    a copy of the table; call close() before forking if the table has a cache.
    """

    def __init__(self, num_embeddings: Optional[int] = None, embedding_dim: int = 0,
                 optimizer: Optional[RowOptimizer] = None, *,
                 device: Union[str, int, torch.device] = "cpu", cache: Optional[CacheConfig] = None,
                 padding_idx: Optional[int] = None, init: start.Init = start.Normal(), seed: int = 0,
                 check_finite: bool = False, keys: Optional[str] = None, capacity: Optional[int] = None,
                 policy: str = "lru", keep_evicted: bool = False, shared: Optional[SharedTable] = None):
        """cache: by default, in place on the CPU and 5 % of the rows on a GPU.

        keys="int64": ids are any 64-bit keys but -1, which get rows of a table of `capacity` rows, instead of
        num_embeddings, as they come. A full table makes room by `policy`, one of lru, lfu, epoch_lru, epoch_lfu and
        customized; rows that had to go are handed out by take_evicted if keep_evicted. Keys come in only with lookups
        that train; others read what a new key would begin with.

        padding_idx: an id that reads zeros and is never updated. init, seed: start values: Normal, Uniform, Xavier or
        Constant of dglke_frugal.embedding, or a function like those of torch.nn.init, which gets 65,536 rows at a time.
        shared: see `attach`.
        check_finite: look for NaN and infinity in each gradient, which costs a synchronisation on a GPU.
        Raises ValueError for sizes and settings that make no sense, InputError if there is no memory.
        """
        super().__init__()
        if keys not in (None, "int64"):
            raise ValueError(f"keys are 'int64' or not given, not {keys!r}")
        if (keys is None) != (capacity is None) or (keys is None) == (num_embeddings is None):
            raise ValueError("give num_embeddings, or keys='int64' with a capacity")
        if keys is not None:
            if padding_idx is not None:
                raise ValueError("padding_idx is for rows by number; leave the keys of padding out")
            num_embeddings = capacity
        if not all(isinstance(size, (int, np.integer)) for size in (num_embeddings, embedding_dim)):
            raise ValueError(f"rows and columns of a table are whole numbers, not {num_embeddings!r} x "
                             f"{embedding_dim!r}")
        if keys is not None and not 1 <= capacity <= LARGEST:
            raise ValueError(f"capacity is from 1 to {LARGEST}, not {capacity}")
        if num_embeddings < 1 or embedding_dim < 1:
            raise ValueError(f"a table has at least one row and one column, not {num_embeddings} x {embedding_dim}")
        if not isinstance(optimizer, RowOptimizer):
            raise ValueError("optimizer is one of dglke_frugal.optim: torch's optimizers do not see the rows, as they "
                             "are no parameters")
        if padding_idx is not None:
            if not isinstance(padding_idx, (int, np.integer)) or not -num_embeddings <= padding_idx < num_embeddings:
                raise ValueError(f"padding_idx {padding_idx!r} is outside the table of {num_embeddings} rows, which "
                                 "whole numbers name")
            padding_idx %= num_embeddings
        self.num_embeddings, self.embedding_dim = int(num_embeddings), int(embedding_dim)
        self.padding_idx, self.check_finite = padding_idx, check_finite
        self._init = start.of_table(init, num_embeddings, embedding_dim)
        if not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**64:
            raise ValueError(f"seed is an integer from 0 to 2**64 - 1, not {seed!r}")
        self._seed = int(seed)
        if isinstance(device, (str, int, torch.device)):
            device = torch.device(device)
            if device.type not in ("cpu", "cuda"):
                raise ValueError(f"an Embedding works on 'cpu' or 'cuda', not on {device}")
            device = torch.empty(0, device=device).device  # which says which GPU
        elif not hasattr(device, "torch_device"):  # of the store's devices, by which tests work
            raise ValueError(f"device is {device!r}; give 'cpu' or 'cuda', or leave it out for the CPU")
        if not isinstance(cache, (CacheConfig, type(None))):
            raise ValueError(f"cache is a CacheConfig of dglke_frugal.embedding, not {cache!r}")
        self._ranks = 1 if cache is None else cache.ranks
        if keys is not None and self._ranks > 1:
            raise ValueError("rows by key are for one process; share a table of rows by number")
        if self._ranks > 1 and cache.flush == "direct":
            self._table = OwnerTable(num_embeddings, embedding_dim, optimizer, cache, device, shared)
        else:
            self._table = Table(num_embeddings, embedding_dim, optimizer, cache, device, shared,
                                0 if keys is None else KeyTable.BYTES_PER_ROW)
        self._keys = None if keys is None else KeyTable(capacity, policy, self._init, seed, keep_evicted)
        self.handle = nn.Parameter(torch.zeros(1, device=self._table.torch_device))
        if shared is None:
            self.reset_parameters()

    @classmethod
    def attach(cls, address: StoreAddress, rank: int, optimizer: RowOptimizer, cache: CacheConfig,
               **settings: Any) -> "Embedding":
        """Rank `rank` of cache.ranks: a table that another process of this machine, rank 0, has made with ranks > 1.

        address: that module's `address`, sent here. optimizer and cache: as there. settings: as for Embedding.
        In each step every rank makes one lookup and takes its gradient; gradients that several ranks have for a row are
        added in the order of ranks, and the row is updated once. A lookup that gets no gradient has one of zeros, by
        which Adam moves rows. All ranks change the learning rate alike. Reads without gradient, `weight`, `state_dict`,
        `save` and `close` wait until all ranks make the same call. Raises RuntimeError if that process has ended.
        """
        return cls(address.rows, address.dim, optimizer, cache=cache, shared=SharedTable(address, rank), **settings)

    @classmethod
    def distributed(cls, num_embeddings: int, embedding_dim: int, optimizer: RowOptimizer, *, max_rows: int,
                    cache: Optional[CacheConfig] = None, group: Optional[object] = None,
                    **settings: Any) -> "Embedding":
        """One table of all processes of torch.distributed's group, which all make this call, on one machine.

        The first process makes the table, and the others `attach` to it. max_rows: the most distinct ids of one process
        in one lookup. group: the default one if not given. settings: as for Embedding; each process gives its own
        device. Where the GPUs of all processes reach each other each of them works on the rows that it owns, and stores
        them into host memory itself (cache.flush="direct"); else rows go through host memory, by flush threads. A group
        of one process gets an ordinary table. Raises what the first process raises, InputError if the processes are on
        several machines, and ValueError if their sizes, padding or optimizers differ.
        """
        ranks, rank = dist.get_world_size(group), dist.get_rank(group)
        cache = replace(cache or CacheConfig(), max_rows=max_rows, ranks=ranks)
        if ranks == 1:
            return cls(num_embeddings, embedding_dim, optimizer, cache=cache, **settings)
        shared = {"num_embeddings": num_embeddings, "embedding_dim": embedding_dim, "max_rows": max_rows,
                  "padding_idx": settings.get("padding_idx"), "optimizer": " ".join(repr(optimizer).split())}
        given: list = [None] * ranks
        dist.all_gather_object(given, (os.uname().nodename, shared), group)
        hosts = sorted({host for host, _ in given})
        if len(hosts) > 1:
            raise InputError(f"an Embedding is shared by processes of one machine, and these are on "
                             f"{', '.join(hosts)}; start them all on one with torchrun --nnodes 1")
        for number, (_, other) in enumerate(given):
            for name, value in given[0][1].items():
                if other[name] != value:
                    raise ValueError(f"all processes of a table give the same {name}, but process 0 gives {value} and "
                                     f"process {number} gives {other[name]}")
        table, found = None, [None]
        if cache.flush == AUTO:
            cache = replace(cache, flush="direct" if reach_each_other(settings.get("device", "cpu"), group) else "p2f")
        if rank == 0:
            try:
                table = cls(num_embeddings, embedding_dim, optimizer, cache=cache, **settings)
                found = [table.address]
            except Exception as error:  # for all, since the others wait
                found = [error]
        dist.broadcast_object_list(found, dist.get_global_rank(group or dist.group.WORLD, 0), group)
        if isinstance(found[0], Exception):
            raise found[0]
        return table or cls.attach(found[0], rank, optimizer, cache, **settings)

    @property
    @one_thread_at_a_time
    def address(self) -> StoreAddress:
        """For `attach` in the processes of other ranks; start values and `load` come before."""
        return self._table.address

    def __setattr__(self, name, value):
        if name == "weight":
            raise AttributeError("the weight of an Embedding cannot be another tensor, and cannot be shared with "
                                 "another module; load_state_dict({'weight': ...}) copies one into the table")
        super().__setattr__(name, value)

    def extra_repr(self) -> str:
        """For print."""
        return f"{self.num_embeddings}, {self.embedding_dim}, device={self._table.torch_device}"

    @not_compiled
    def forward(self, ids: torch.Tensor, scores: Optional[torch.Tensor] = None) -> torch.Tensor:
        """(*ids.shape, embedding_dim) on the module's device. Raises IndexError, with nothing changed.

        scores: int64 of ids' shape, at least 0, for keys with policy="customized".
        """
        values, ticket, _ = self._read(ids, scores)
        return self._rows(values, ticket, (*ids.shape, self.embedding_dim), self._handle.dtype)

    def _rows(self, values: torch.Tensor, ticket: Optional[Ticket], shape: tuple, dtype: torch.dtype) -> torch.Tensor:
        """What a lookup gives: values (n, embedding_dim) in another shape and of another type."""
        if ticket is None:
            return of_type(values.resize_(shape), dtype)
        return ReadRows.apply(self._handle, [values], shape, dtype, self._receive, ticket)

    def learn(self, rows: torch.Tensor, gradient: torch.Tensor) -> None:
        """What rows.backward(gradient) does, for rows that forward has given as they are, without autograd's engine: on
        a GPU it wakes a thread of its own, which takes longer than the update. Hooks of rows do not run. The gradient
        (the shape of rows) is that of the loss itself, without a factor of GradScaler. Raises ValueError for other rows
        or another shape."""
        node = getattr(rows, "grad_fn", None)
        kind = getattr(node, "kind", None)  # torch's own nodes have none
        if kind is None or node.receive != self._receive:
            raise ValueError("learn takes rows as forward has given them (without per_sample_weights), and their "
                             "gradient; use rows.backward(gradient) for others")
        if not isinstance(gradient, torch.Tensor):
            raise ValueError(f"the gradient of rows is a tensor, not of type {type(gradient).__name__}")
        if gradient.shape != rows.shape or gradient.device != rows.device:
            raise ValueError(f"the gradient of rows {tuple(rows.shape)} on {rows.device} is {tuple(gradient.shape)} on "
                             f"{gradient.device}")
        kind.deliver(node, gradient)

    @one_thread_at_a_time
    def prefetch(self, ids: torch.Tensor, scores: Optional[torch.Tensor] = None) -> None:
        """Tell ahead what will be looked up: the lookups to come must then be those prefetched, in the same order.

        The cache plans the transfer of their rows while earlier steps compute. Lookups beyond the lookahead of `cache`
        wait in a list. An id outside the table raises IndexError when it is looked up. The ids are copied; a
        lookup of the same tensor is known by that, unless torch has changed it in between.
        """
        if self._keys is None:
            request = self._request(ids)
        elif self._will_train:
            request = self._keys.resolve(self._flat(ids), self._scores(ids, scores), ahead=True)
        else:
            return  # a lookup that only reads brings no key in
        request.remember(ids)
        self._table.prefetch(request)

    @one_thread_at_a_time
    def discard_prefetched(self) -> None:
        """Forget prefetched ids that were not looked up."""
        self._table.discard_prefetched()
        if self._keys is not None:
            self._keys.forget_ahead()

    @one_thread_at_a_time
    def take_evicted(self) -> Optional[Evicted]:
        """Rows by key that have been evicted since the last call (see Evicted), None for none."""
        return self._keyed.take_evicted()

    @one_thread_at_a_time
    def set_epoch(self, epoch: int) -> None:
        """The epoch of policies epoch_lru and epoch_lfu; keys of an earlier one go first. Raises RuntimeError if
        ids are prefetched, ValueError for a table without keys."""
        self._nothing_prefetched()
        self._keyed.set_epoch(epoch)

    @one_thread_at_a_time
    def erase(self, keys: torch.Tensor) -> torch.Tensor:
        """Remove keys (n,) int64; returns (n,) bool: which of them were there. Raises RuntimeError if ids are
        prefetched, ValueError for a table without keys."""
        self._nothing_prefetched()
        return torch.from_numpy(self._keyed.erase(self._flat(keys)))

    @one_thread_at_a_time
    def items(self) -> Tuple[torch.Tensor, torch.Tensor]:
        """(keys (k,) int64, rows (k, embedding_dim)) that the table holds, by place."""
        keys, slots, _, _ = self._keyed.entries()
        return torch.from_numpy(keys), self.weight[torch.from_numpy(slots.astype(np.int64))]

    @property
    @one_thread_at_a_time
    def num_keys(self) -> int:
        """How many keys have a row. AttributeError for a table without keys."""
        if self._keys is None:
            raise AttributeError
        return len(self._keys)

    @property
    def learning_rate(self) -> float:
        """Of the optimizer, and so of all tables that have the same one; may be set between steps, and counts for
        gradients that come afterwards."""
        return self._table.optimizer.lr

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        self._table.optimizer.lr = value

    @property
    @one_thread_at_a_time
    def weight(self) -> torch.Tensor:
        """(num_embeddings, embedding_dim) view of the host table, strided, with every update so far. Read only it:
        what is written is lost where a row is cached; load_state_dict, load and reset_parameters write. Of several
        ranks the next step of any of them changes it: let them meet (torch.distributed.barrier) when all have read."""
        self._table.drain()
        self._table.meet()  # as behind what others may ask for at the same time, state_dict or save
        return torch.from_numpy(self._table.rows.embeddings)

    @one_thread_at_a_time
    def reset_parameters(self) -> None:
        """Start values again, and optimizer state 0."""
        self._table.check_alone("reset_parameters")
        self._table.drain()
        if self._keys is None:
            start.fill(self._table.rows, self._init, self._seed)
            if self.padding_idx is not None:
                self._table.rows.embeddings[self.padding_idx] = 0  # as forward reads it, in every copy of the table
        else:
            self.discard_prefetched()
            self._keys.clear()  # rows begin with their keys
        self._table.rule.updates = 0
        self._table.rewritten()

    @one_thread_at_a_time
    def statistics(self) -> Optional[Dict]:
        """Counters of cache and engine (csrc/engine/engine.h), None for a table in place."""
        return self._table.statistics()

    @one_thread_at_a_time
    def save(self, path: Union[str, os.PathLike]) -> None:
        """Write rows and optimizer state to a .safetensors file, or the rows alone to a .npy file, without a copy in
        memory. Raises InputError; an older file of that name is then as it was."""
        self._table.drain()
        try:
            files.save(path, self._table.rows, self._saved_extras())
        finally:
            self._table.meet()

    @one_thread_at_a_time
    def load(self, path: Union[str, os.PathLike]) -> None:
        """Read what `save` wrote; a .npy file sets the state to 0. Raises InputError, with nothing changed."""
        self._table.check_alone("load")
        self._table.drain()
        files.load(path, self._table.rows, self._restore)
        self._table.rewritten()

    @one_thread_at_a_time
    def close(self) -> None:
        """Write every update to the host table, stop what runs in the background and forget prefetched ids; the module
        may still be used, by several ranks for reads alone."""
        self._table.close()
        if self._keys is not None:
            self._keys.forget_ahead()

    @property
    def _handle(self) -> nn.Parameter:
        """The handle, for which nn.Module would search."""
        return self._parameters["handle"]

    @property
    def _keyed(self) -> KeyTable:
        if self._keys is None:
            raise ValueError("this table has no keys; make it with keys='int64'")
        return self._keys

    def _nothing_prefetched(self) -> None:
        if self._table.pending:
            raise RuntimeError("lookups are prefetched, whose keys are in already; look them up, or call "
                               "discard_prefetched() first")

    def _request(self, ids: torch.Tensor) -> Request:
        """Raises IndexError for a negative id."""
        numbers = self._numbers(ids)
        copied = self._table.ids_memory(len(numbers))
        _native.copy_ids(numbers, copied, _native.NO_ROW if self.padding_idx is None else self.padding_idx)
        return Request(copied, self.num_embeddings, self._table.owners)

    def _flat(self, ids: torch.Tensor) -> np.ndarray:
        """(n,) int64 on the CPU, in memory of its own."""
        return np.array(self._numbers(ids))

    def _numbers(self, ids: torch.Tensor) -> np.ndarray:
        """(n,) int64 on the CPU."""
        if not isinstance(ids, torch.Tensor) or ids.dtype not in KINDS:
            raise ValueError("ids are a tensor of int64 or int32")
        try:
            return np.ascontiguousarray(ids.numpy(force=True).reshape(-1), np.int64)
        except RuntimeError as error:
            raise RuntimeError(f"an Embedding looks up ids whose numbers it can read ({first_line(error)}); call it "
                               "outside of torch.vmap, torch.func and torch.export") from error

    @staticmethod
    def _scores(ids: torch.Tensor, scores: Optional[torch.Tensor]) -> Optional[np.ndarray]:
        if scores is None:
            return None
        if not isinstance(scores, torch.Tensor) or scores.dtype not in KINDS or scores.shape != ids.shape:
            raise ValueError("scores are a tensor of int64 or int32, of the same shape as the keys")
        flat = scores.detach().cpu().numpy().reshape(-1).astype(np.int64)
        if len(flat) and flat.min() < 0:
            raise ValueError("scores are at least 0")
        return flat.astype(np.uint64)

    @property
    def _will_train(self) -> bool:
        return self._parameters["handle"].requires_grad and torch.is_grad_enabled()

    def _read(self, ids: torch.Tensor, scores: Optional[torch.Tensor] = None):
        """(values (n, dim), Ticket, or None if they will have no gradient, Request)."""
        table = self._table
        with table.alone:
            head = table.next
            if head is not None and not head.is_of(ids):
                head = None
            if self._keys is not None:
                return self._read_keys(self._flat(ids) if head is None else head.keys, self._scores(ids, scores))
            if scores is not None:
                raise ValueError("scores are for rows by key")
            request = head or self._request(ids)
            if self._will_train:
                return (*table.look_up(request), request)
            return table.read(request), None, request

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
                keys.gradient_received(request, table.pending - 1)
            else:
                request = keys.resolve(flat, scores, ahead=False)
            values, ticket = table.look_up(request, lambda executor: keys.begin_rows(request, executor))
        keys.fill_absent(values, request.ids, flat)
        return values, ticket, request

    def _receive(self, ticket: Ticket, gradients: torch.Tensor, numbers: Optional[np.ndarray]) -> None:
        """Update with a lookup's gradient (m, dim); numbers as Executor.update takes them."""
        table = self._table
        with table.alone:
            if not self._handle.requires_grad:
                return  # as torch drops the gradient of a parameter that was frozen after forward
            gradients = gradients.detach()
            if gradients.device != table.torch_device:
                gradients = gradients.to(table.torch_device)
            if gradients.dtype != torch.float32 or gradients.stride(-1) != 1 or (
                    gradients.stride(0) < gradients.shape[-1]):
                # Not `contiguous`, which leaves the strides of one row as they are.
                gradients = torch.empty(gradients.shape, dtype=torch.float32, device=gradients.device).copy_(gradients)
            scaler = scaler_of_backward() or ticket.scaler
            if scaler is not None:
                gradients, finite = unscaled(gradients, scaler, self)
                if table.optimizer.counts_updates and not finite:
                    return table.drop(ticket)  # Adam moves rows even if their gradient is zero
            elif self.check_finite and not torch.isfinite(gradients).all():
                raise FloatingPointError(self._not_finite(ticket, gradients, numbers))
            if self._keys is not None and not table.is_open(ticket):
                # Rows that are gone meanwhile are left out.
                ticket = Ticket(Request(self._keys.still_there(ticket.request), self.num_embeddings))
            table.update(ticket, gradients, numbers)

    def _not_finite(self, ticket: Ticket, gradients: torch.Tensor, numbers: Optional[np.ndarray]) -> str:
        number, request = int((~torch.isfinite(gradients)).any(-1).nonzero()[0]), ticket.request
        has_it = np.arange(len(request.ids)) == number if numbers is None else numbers == number
        ids = (request.ids if self._keys is None else request.keys)[has_it & (request.ids != _native.NO_ROW)]
        of = f" of id {ids[0]}" if len(ids) else ""
        return (f"the gradient{of} (number {number} of its lookup) is not finite; nothing was updated: look for the "
                "first operation that gives NaN with torch.autograd.detect_anomaly(), or lower the learning rate")

    def _saved_extras(self) -> Dict[str, np.ndarray]:
        """Arrays that belong to the table besides its records, by name."""
        extras = {} if self._keys is None else self._keys.saved()
        if self._table.optimizer.counts_updates:
            extras[UPDATES] = np.array([self._table.rule.updates])
        return extras

    def _restore(self, extras: Dict[str, np.ndarray]) -> None:
        """Take back what _saved_extras gave. The optimizer begins to count where there is no count: the rows are those
        of a table without its state. Raises ValueError, with nothing changed."""
        updates = np.asarray(extras.get(UPDATES, [0]))
        if updates.shape != (1,) or not np.issubdtype(updates.dtype, np.integer) or not 0 <= updates[0] < 2**62:
            raise ValueError(f"{UPDATES} is one whole number from 0 to 2**62 - 1, not {updates!r}")
        if self._keys is not None:
            self._keys.restore(extras)
            self._table.discard_prefetched()
        self._table.rule.updates = int(updates[0])

    @one_thread_at_a_time
    def __deepcopy__(self, memo: Dict) -> "Embedding":
        """A module and a table of its own, without the lookups to come. Raises InputError if there is no memory."""
        other = memo[id(self)] = self.__new__(type(self))
        other.__setstate__(copy.deepcopy(self.__dict__, memo))
        return other

    def __setstate__(self, state: Dict) -> None:
        super().__setstate__(state)
        if self.handle.device != self._table.torch_device:  # after torch.load with map_location
            self._table.move(self.handle.device)

    def _apply(self, fn, recurse=True):
        """For `to`, `half`, `cuda` and the like, of the module or of one that holds it."""
        with torch.no_grad():
            handle = fn(self.handle.detach().clone())
        if handle.device.type not in ("cpu", "cuda"):
            raise ValueError(f"an Embedding works on 'cpu' or 'cuda', not on {handle.device}")
        if not handle.is_floating_point():
            raise ValueError(f"rows are floating point numbers, and cannot be given as {handle.dtype}")
        if not handle.is_cuda and handle.is_shared() and not self.handle.is_shared():
            raise RuntimeError("share_memory does not share the rows; make the table with CacheConfig(ranks=...), and "
                               "use Embedding.attach in the other processes")
        super()._apply(fn, recurse)
        if self.handle.device != self._table.torch_device:
            with self._table.alone:
                self._table.move(self.handle.device)
        return self

    @property
    def __jit_ignored_attributes__(self):
        """torch.jit asks for it first."""
        raise RuntimeError("torch.jit can neither script nor trace an Embedding; call it between the parts of a model "
                           "that are compiled, as torch.compile does")

    def _replicate_for_data_parallel(self):
        raise RuntimeError("DataParallel cannot copy the table to each GPU; use one process with one GPU for the table")

    @one_thread_at_a_time
    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        del destination[prefix + "handle"]
        self._table.drain()
        rows = self._table.rows
        records = torch.from_numpy(rows.records)  # both are views of it, so that torch.save writes it once
        if self._ranks > 1:  # the next step of any of them would change it
            records = records.clone()
            self._table.meet()
        destination[prefix + "weight"] = records[:, : rows.dim]
        if rows.state_floats:
            destination[prefix + "optimizer_state"] = records[:, rows.dim : rows.record_floats]
        for name, values in self._saved_extras().items():
            destination[prefix + name] = torch.from_numpy(values.copy())

    @one_thread_at_a_time
    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                              error_msgs):
        self._table.check_alone("load_state_dict")
        rows, extras = self._table.rows, self._saved_extras()
        ours = {"weight", "optimizer_state", *extras}
        # What a class that is derived from this one has besides.
        others = {name: value for name, value in state_dict.items() if name[len(prefix):] not in ours}
        others[prefix + "handle"] = self.handle
        super()._load_from_state_dict(others, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        found = {name: state_dict[prefix + name] for name in ours if prefix + name in state_dict}
        missing = [prefix + name for name in ("weight", *extras) if name not in found and name != UPDATES]
        if missing:
            missing_keys.extend(missing)
            return
        for name, value in found.items():
            if not isinstance(value, torch.Tensor):
                error_msgs.append(f"{prefix}{name} is of type {type(value).__name__}, not a tensor")
                return
            if value.is_meta or value.layout != torch.strided or value.is_complex() or (
                    name in extras and value.dtype == torch.bfloat16):
                error_msgs.append(f"{prefix}{name} is {value.dtype} on {value.device} ({value.layout}), not numbers as "
                                  "this table has them")
                return
        shapes = {"weight": rows.dim, "optimizer_state": rows.state_floats}
        for name in shapes.keys() & found.keys():
            if tuple(found[name].shape) != (rows.rows, shapes[name]):
                error_msgs.append(f"{prefix}{name} has shape {tuple(found[name].shape)}, but this table needs "
                                  f"{(rows.rows, shapes[name])}: use the sizes and the optimizer it was saved with")
                return
        try:
            self._restore({name: found[name].numpy(force=True) for name in extras if name in found})
        except ValueError as error:
            error_msgs.append(f"{prefix[:-1] or 'the table'}: {error}")
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
