"""KvsAll: queries with all their answers, instead of triples."""

from __future__ import annotations

from typing import NamedTuple, Tuple

import numpy as np

from ...data import KnowledgeGraph
from ..batches.sampler import Batch, Sampler, SamplerConfig


class Queries(NamedTuple):
    """The distinct queries of a graph's training triples in one direction, and their answers.

    key: (Q,) int64, ascending: the known entity times the rows of the relation table, plus the relation. answer: the
    ids of query q are answer[offset[q] : offset[q + 1]], ascending and distinct. triple: (Q,) int64, one triple of
    each.
    """

    key: np.ndarray
    offset: np.ndarray
    answer: np.ndarray
    triple: np.ndarray

    @classmethod
    def of(cls, graph: KnowledgeGraph, corrupt_head: bool, reciprocal: bool = False) -> "Queries":
        """Of heads if corrupt_head, else of tails. reciprocal: heads are asked for as tails of inverse relations."""
        train, relations = graph.train, graph.n_relations
        known, answer = (train.tail, train.head) if corrupt_head else (train.head, train.tail)
        first = relations if reciprocal and corrupt_head else 0
        keys = known.astype(np.int64) * (2 * relations if reciprocal else relations) + train.relation + first
        answer = answer.astype(np.int64)
        order = np.lexsort((answer, keys))
        keys, answer = keys[order], answer[order]
        new = np.ones(len(keys), bool)
        new[1:] = (keys[1:] != keys[:-1]) | (answer[1:] != answer[:-1])
        order, keys, answer = order[new], keys[new], answer[new]
        key, first = np.unique(keys, return_index=True)
        return cls(key, np.append(first, len(keys)).astype(np.int64), answer, order[first])

    def and_others(self, others: "Queries") -> "Queries":
        """These queries and others, which are none of them."""
        keys = np.concatenate([np.repeat(each.key, np.diff(each.offset)) for each in (self, others)])
        order = np.argsort(keys, kind="stable")  # answers of a query stay together, and in their order
        key, first = np.unique(keys[order], return_index=True)
        triple = np.concatenate([self.triple, others.triple])[np.argsort(np.concatenate([self.key, others.key]))]
        answer = np.concatenate([self.answer, others.answer])[order]
        return Queries(key, np.append(first, len(keys)).astype(np.int64), answer, triple)


class QuerySampler:
    """Batches of queries, each as one of its triples: even steps ask for tails and odd steps for heads, and each of the
    two walks its own epochs over its queries. A batch is a pure function of (seed, step)."""

    made_ahead = False  # but when they are asked for

    def __init__(self, graph: KnowledgeGraph, queries: Tuple[Queries, Queries], config: SamplerConfig):
        """queries: of tails, and of heads. config: without negatives; with inverse relations if queries have them."""
        relations = 2 * graph.n_relations if config.inverse else graph.n_relations
        self._by_direction = [Sampler(*graph.train, graph.n_entities, relations, config, part=each.triple)
                              for each in queries]

    @property
    def batch_size(self) -> int:
        """Queries of a full batch of tails."""
        return self._by_direction[0].batch_size

    @property
    def steps_per_epoch(self) -> int:
        """Steps until every query has been asked."""
        return sum(each.steps_per_epoch // 2 for each in self._by_direction)

    def batch(self, step: int) -> Batch:
        """The batch of any step."""
        return self._by_direction[step % 2].batch(step)

    def batches(self, first_step: int = 0) -> "_Batches":
        """The batches from `first_step` on."""
        return _Batches(self, first_step)


class _Batches:
    """An endless iterator; a context manager as batches.sampler.Batches is. Batches are made when asked for."""

    def __init__(self, sampler: QuerySampler, step: int):
        self._sampler, self._step = sampler, step

    def __iter__(self):
        return self

    def __next__(self) -> Batch:
        self._step += 1
        return self._sampler.batch(self._step - 1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass
