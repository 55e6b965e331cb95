"""Training batches, made ahead of time by background threads.

A batch is a pure function of (seed, step, rank), so the order does not depend on threads and a resumed run continues at
any step. The scheme is DGL-KE's: even steps corrupt tails and odd steps heads, each direction walks its own epochs
without replacement, and the positives of a chunk share uniformly drawn negatives. With reciprocal relations odd steps
see the inverse of each triple instead, and corrupt its tail.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Optional, Tuple

import numpy as np

from ... import _native
from ...errors import InputError

Batch = _native.Batch
BatchRing = _native.BatchRing
MOST_THREADS = 4  # of one process: about 100 microseconds a batch each, by default


@dataclass(frozen=True)
class SamplerConfig:
    """The settings that batches depend on (all but threads and lookahead), and how they are made.

    batch_size: positives of a step and rank; rounded up to whole chunks if it is larger than one.
    neg_sample_size: negatives that the positives of a chunk share; 0: none.
    chunk: positives of a chunk (one chunk if it exceeds the batch); 0: as many as negatives.
    exclude_positive: whether negatives that make a triple of the graph with a positive of their chunk are drawn again.
    owners: negatives are drawn from the entities that this rank owns; None: from all.
    inverse: above 0, odd steps train on (tail, relation + inverse, head) and corrupt its tails, rather than heads.
    threads, lookahead: how many threads make batches (0: by the cores that this process may use, and by ranks), and how
        many batches wait for the trainer at most.
    """

    batch_size: int
    neg_sample_size: int
    seed: int = 0
    rank: int = 0
    ranks: int = 1
    inverse: int = 0
    chunk: int = 0
    exclude_positive: bool = False
    threads: int = 0
    lookahead: int = 16
    owners: Optional[_native.RowOwners] = None

    @property
    def used_threads(self) -> int:
        """How many threads make batches: a quarter of the cores that each rank has, if that is not said."""
        return self.threads or max(1, min(MOST_THREADS, len(os.sched_getaffinity(0)) // (4 * self.ranks)))


class Sampler:
    """The batches of one rank over the training triples."""

    made_ahead = True  # whether threads make batches, and may pack them

    def __init__(self, head, relation, tail, num_entities: int, num_relations: int, config: SamplerConfig, *,
                 weight=None, part=None):
        """Keep views of the arrays; nothing is copied but weights that are not contiguous float32.

        Args:
            head, relation, tail: (E,) int32 or int64, any stride; columns of one (E, 3) array are the fastest to read,
                and the arrays may be memory-mapped.
            weight: (E,) what multiplies the losses of an edge and of its negatives, or (2, E): in even steps and in odd
                ones; or None.
            part: indices of the edges of this rank, int32 or int64; or None for its share of a seeded random partition.
        Raises:
            InputError: if the sizes do not fit together or a rank has no edge.
        """
        self.config = config
        self.weighted = weight is not None  # whether something multiplies the losses of positives
        self._shared: Optional[Tuple[BatchRing, int]] = None
        even, odd = None, None
        if weight is not None:
            weight = np.ascontiguousarray(weight, dtype=np.float32)
            even, odd = weight if weight.ndim == 2 else (weight, None)
        try:
            self._native = _native.Sampler(
                head, relation, tail, even, odd, part, entities=num_entities, relations=num_relations,
                batch_size=config.batch_size, negatives=config.neg_sample_size, seed=config.seed, rank=config.rank,
                ranks=config.ranks, inverse=config.inverse, chunk=config.chunk,
                exclude_positive=config.exclude_positive, owners=config.owners)
        except ValueError as error:
            raise InputError(f"cannot sample batches: {error}") from error

    @property
    def edges(self) -> int:
        """Edges that batches are drawn from."""
        return self._native.edges

    @property
    def batch_size(self) -> int:
        """Positives of a full batch, after rounding to whole chunks."""
        return self._native.batch_size

    @property
    def chunk_size(self) -> int:
        """Positives that share negatives."""
        return self._native.chunk_size

    @property
    def steps_per_epoch(self) -> int:
        """Steps until every edge has been seen in both directions."""
        return 2 * self._native.batches_per_epoch

    def batch(self, step: int) -> Batch:
        """The batch of any step, made in the calling thread."""
        try:
            return self._native.batch(step)
        except IndexError as error:
            raise _of_graph(error) from error

    def batches(self, first_step: int = 0, packer: Optional[_native.BatchPacker] = None) -> Batches:
        """The batches from `first_step` on, made in the background, and packed there if there is a packer."""
        if self._shared is None:
            return Batches(self._native, self.config, first_step, packer=packer)
        shared = _native.SharedBatches(self._native, *self._shared, first_step, self.config.used_threads)
        return Batches(shared, self.config, first_step, threads=1, packer=packer)  # which only copies, and packs

    def make_ring(self, ranks: int) -> BatchRing:
        """A ring for `ranks` processes of this machine; BatchRing(ring.path) opens it in the others."""
        return BatchRing(ranks, self._native)

    def share(self, ring: BatchRing, rank: int) -> None:
        """Make every n-th batch alone, as process `rank` of the ring's n, which hand each other what they make. For one
        iteration over batches; all processes have the same sampler, and begin with the same step."""
        self._shared = ring, rank


class Batches:
    """An endless iterator over batches in the order of steps; a context manager that ends its threads.

    A batch, or any array taken from it, may be kept: its memory is used again only when nothing refers to it any more.
    """

    def __init__(self, source: _native.BatchSource, config: SamplerConfig, first_step: int, threads: int = 0,
                 packer: Optional[_native.BatchPacker] = None):
        try:
            self._stream = _native.BatchStream(source, first_step, threads or config.used_threads, config.lookahead,
                                               packer)
        except ValueError as error:
            raise InputError(f"cannot sample batches: {error}") from error

    def __iter__(self):
        return self

    def __next__(self) -> Batch:
        try:
            return self._stream.next()
        except (IndexError, _native.RankLost) as error:
            raise _of_graph(error) from error

    @property
    def wait_seconds(self) -> float:
        """How long the consumer has waited for batches, in all."""
        return self._stream.wait_seconds

    def close(self):
        """End the threads that sample."""
        self._stream.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _of_graph(error: Exception) -> Exception:
    """Ids outside the graph, which show up only when their edge is drawn, are the input's fault; that a rank is gone is
    the news of all others."""
    if isinstance(error, IndexError):
        return InputError(f"the training triples do not fit the graph: {error}; check the entity and relation maps")
    from ..processes.process_group import RankError  # here, because one rank alone has no process group

    return RankError(str(error))
