"""Which answers to a query are already known, so that ranking can leave them out (the filtered protocol)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterable, List

import numpy as np

from ..arguments import Columns, read_triples
from ..data.graph import Triples
from ..errors import InputError, shown
from .model import HEAD, EmbeddingModel

_BLOCK = 1 << 20  # triples looked at together: what is made of them stays in a processor's cache or near it


@dataclass(frozen=True, eq=False)
class Lists:
    """Ascending ids per query in CSR form: `items[pointers[q]:pointers[q + 1]]`; both int64."""

    pointers: np.ndarray
    items: np.ndarray

    @classmethod
    def empty(cls, queries: int) -> "Lists":
        """No item for any of `queries` queries."""
        return cls(np.zeros(queries + 1, dtype=np.int64), np.zeros(0, dtype=np.int64))

    @classmethod
    def from_pairs(cls, queries: np.ndarray, items: np.ndarray, count: int) -> "Lists":
        """The distinct items of each of `count` queries, from pairs (query, item) in any order."""
        width = int(items.max(initial=0)) + 1
        pairs = np.sort(
            queries.astype(np.int64) * width + items)  # one number each: much faster than sorting by two keys
        distinct = np.append(pairs[:1], pairs[1:][pairs[1:] != pairs[:-1]])
        return cls(np.searchsorted(distinct, np.arange(count + 1) * width).astype(np.int64), distinct % width)

    def take(self, queries: np.ndarray) -> "Lists":
        """The lists of `queries`, in their order, repeated where they repeat."""
        lengths = np.diff(self.pointers)[queries]
        pointers = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        source = np.repeat(self.pointers[:-1][queries] - pointers[:-1], lengths) + np.arange(pointers[-1])
        return Lists(pointers, self.items[source])

    def of(self, query: int) -> np.ndarray:
        """The items of one query."""
        return self.items[self.pointers[query] : self.pointers[query + 1]]

    def contain(self, queries: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Whether items (n,) are in the lists of queries (n,): (n,) bool."""
        low, high = self.pointers[queries], self.pointers[queries + 1]
        ends = high
        while (open_ := low < high).any():
            middle = (low + high) // 2
            less = np.zeros(len(items), bool)
            less[open_] = self.items[middle[open_]] < items[open_]
            low, high = np.where(less, middle + 1, low), np.where(open_ & ~less, middle, high)
        found = low < ends
        found[found] = self.items[low[found]] == items[found]
        return found

    def with_items(self, queries: np.ndarray, items: np.ndarray) -> "Lists":
        """The lists with one more item for each of these queries, which has not had it so far."""
        owners = np.repeat(np.arange(len(self.pointers) - 1), np.diff(self.pointers))
        return Lists.from_pairs(np.concatenate([owners, queries]), np.concatenate([self.items, items]),
                                len(self.pointers) - 1)


class KnownTriples:
    """All triples that count as true: usually train, valid and test together.

    Holds references to the arrays. Each question goes once through all triples and keeps the triples that answer it, so
    ask about many queries at once.
    """

    def __init__(self, parts: Iterable[Any]):
        """`parts`: triples of ids in any form of arguments.read_triples, as many parts as there are.

        Raises InputError: no list of parts, triples in another form, or a negative id.
        """
        if isinstance(parts, (str, bytes)) or not hasattr(parts, "__iter__") or hasattr(parts, "dtype"):
            raise InputError(f"KnownTriples takes a list of parts, such as [train, valid, test], and not "
                             f"{shown(parts, repr)}")
        self._parts: List[Columns] = []
        self._ids = {"entity": 0, "relation": 0}  # above the largest one that a caller has given
        for number, part in enumerate(parts):
            try:
                self._parts.append(read_triples(part))
            except InputError as error:
                raise InputError(f"part {number} of KnownTriples: {error}") from None
            if not isinstance(part, Triples):  # whose reader has checked its ids
                self._check(self._parts[-1])

    def _check(self, columns: Columns) -> None:
        for role, column in zip(("entity", "relation", "entity"), columns):
            if column.min(initial=0) < 0:
                raise InputError(f"{role} id {column.min()} of a known triple is negative; give ids from 0")
            self._ids[role] = max(self._ids[role], int(column.max(initial=-1)) + 1)

    def check_ids(self, model: EmbeddingModel) -> None:
        """InputError if a known triple names an entity or relation that the model does not have."""
        for role, rows in (("entity", len(model.entity)), ("relation", model.n_relations)):
            if self._ids[role] > rows:
                raise InputError(f"{role} {self._ids[role] - 1} of a known triple is not in the model, which has "
                                 f"{rows} of them; give the known triples of the data that the model was trained on")

    def tails(self, heads: np.ndarray, relations: np.ndarray) -> Lists:
        """For each query (head, relation): the known tails."""
        return self._answers(heads, relations, fixed=0, answer=2)

    def heads(self, tails: np.ndarray, relations: np.ndarray) -> Lists:
        """For each query (tail, relation): the known heads."""
        return self._answers(tails, relations, fixed=2, answer=0)

    def _answers(self, entities, relations, fixed, answer) -> Lists:
        entities, relations = np.asarray(entities, np.int64), np.asarray(relations, np.int64)
        if not len(entities):
            return Lists.empty(0)
        width = int(relations.max()) + 1
        wanted, inverse = np.unique(entities * width + relations, return_inverse=True)
        index = _Places(wanted)
        found, answers = [], []
        for part in self._parts:
            for begin in range(0, len(part[0]), _BLOCK):
                block = slice(begin, begin + _BLOCK)
                keys = np.multiply(part[fixed][block], width, dtype=np.int64)
                keys += part[1][block]
                rows, place = index.find(keys)
                sound = part[1][block][rows] < width  # a larger relation makes another entity's key
                found.append(place[sound])
                answers.append(part[answer][block][rows[sound]].astype(np.int64))
        if not found:
            return Lists.empty(len(entities))
        lists = Lists.from_pairs(np.concatenate(found), np.concatenate(answers), len(wanted))
        if len(wanted) == len(entities) and np.array_equal(inverse, np.arange(len(entities))):
            return lists
        return lists.take(inverse)


class _Places:
    """Where numbers stand in an ascending list, by one look-up for most numbers that are not in it.

    A hash table of one slot: numbers that lost theirs to another one are looked for in a list of their own.
    """

    _MOST_BITS = 25
    _MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio: Knuth, section 6.4

    def __init__(self, wanted: np.ndarray):
        """wanted: (n,) int64, ascending."""
        bits = min(max(10, (16 * len(wanted)).bit_length()), self._MOST_BITS)
        self._wanted, self._shift = wanted, np.uint64(64 - bits)
        self._place = np.full(1 << bits, -1, dtype=np.int32)
        slots = self._slots(wanted)
        self._place[slots] = np.arange(len(wanted))
        self._lost = np.flatnonzero(self._place[slots] != np.arange(len(wanted)))

    def find(self, keys: np.ndarray):
        """Positions of the keys (m,) int64 that are wanted, and their places among the wanted ones."""
        place = self._place[self._slots(keys)]
        rows = np.flatnonzero(place >= 0)
        place, keys = place[rows].astype(np.int64), keys[rows]
        hits = self._wanted[place] == keys
        if len(self._lost):
            others = np.flatnonzero(~hits)
            lost = self._wanted[self._lost]
            nearest = np.minimum(np.searchsorted(lost, keys[others]), len(lost) - 1)
            place[others] = self._lost[nearest]
            hits[others] = lost[nearest] == keys[others]
        return rows[hits], place[hits]

    def _slots(self, keys):
        return ((keys.view(np.uint64) * self._MULTIPLIER) >> self._shift).view(np.int64)


class KnownAnswers:
    """The known answers of many queries, found in one pass and kept once where queries repeat."""

    def __init__(self, side: str, stays: np.ndarray, relations: np.ndarray, known: KnownTriples):
        """side: the place of the answers, HEAD or TAIL. stays, relations: (n,) what is given of each query."""
        width = int(relations.max(initial=0)) + 1
        distinct, self._query_of = np.unique(stays * width + relations, return_inverse=True)
        ask = known.heads if side == HEAD else known.tails
        self._lists = ask(*np.divmod(distinct, width))

    def of(self, queries: np.ndarray) -> Lists:
        """The answers of the queries with these numbers."""
        return self._lists.take(self._query_of[queries])

    def counts(self, queries: np.ndarray) -> np.ndarray:
        """How many answers each of these queries has."""
        return np.diff(self._lists.pointers)[self._query_of[queries]]

    def contain(self, queries: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Which of items (n, k) are answers of their query, of n: bool (n, k). Takes time for the items, not the
        answers."""
        own = np.repeat(self._query_of[queries], items.shape[1])
        return self._lists.contain(own, items.ravel()).reshape(items.shape)
