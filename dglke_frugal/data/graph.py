"""A knowledge graph in memory: columns of ids, and the names behind the ids."""
from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Optional, Tuple

import numpy as np

from .. import _native
from ..errors import InputError


@dataclass(frozen=True, eq=False)
class Triples:
    """Triples (head, relation, tail), one per element of three columns.

    head, relation, tail: (n,) int32, or int64 where an id may exceed 2^31 - 1; contiguous, possibly memory-mapped.
    weight: (n,) float32, finite and above 0, or None.
    """

    head: np.ndarray
    relation: np.ndarray
    tail: np.ndarray
    weight: Optional[np.ndarray] = None

    def __len__(self) -> int:
        return len(self.head)

    def __iter__(self) -> Iterator[np.ndarray]:
        """The three columns, so that `head, relation, tail = triples`."""
        return iter((self.head, self.relation, self.tail))

    def __repr__(self) -> str:
        return f"<{len(self):,} triples{'' if self.weight is None else ' with weights'}>"

    @property
    def nbytes(self) -> int:
        """Bytes of all columns."""
        return sum(column.nbytes for column in (*self, self.weight) if column is not None)


class Names(Sequence):
    """Names by id, read from their file when the first one is asked for.

    `load` returns all names as UTF-8, one after the other, and where each begins: uint8 (m,), int64 (n + 1,).
    """

    def __init__(self, load: Callable[[], Tuple[np.ndarray, np.ndarray]]):
        self._load = load

    @cached_property
    def packed(self) -> Tuple[np.ndarray, np.ndarray]:
        """The result of `load`: names as bytes, and where each begins."""
        return self._load()

    @cached_property
    def _table(self) -> _native.NameTable:
        return _native.NameTable(*self.packed)

    def __len__(self) -> int:
        return len(self.packed[1]) - 1

    def __repr__(self) -> str:
        return f"<Names of {len(self):,}: {', '.join(self[:3])}{', ...' if len(self) > 3 else ''}>"

    def __getitem__(self, index):
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        try:
            position = operator.index(index)
        except TypeError:
            raise TypeError(f"names are asked for by id, a whole number, not {index!r}; id_of gives the id of a "
                            "name") from None
        data, offsets = self.packed
        position += len(self) if position < 0 else 0
        if not 0 <= position < len(self):
            raise IndexError(f"no name has id {index}; ids go from 0 to {len(self) - 1}")
        return bytes(data[offsets[position] : offsets[position + 1]]).decode("utf-8")

    def id_of(self, name: str) -> int:
        """The id of a name; InputError if there is none, TypeError for what is no text."""
        if not isinstance(name, str):
            raise TypeError(f"a name is text, not {name!r}")
        found = self._table.find(name.encode("utf-8", "surrogatepass"))  # half a pair is in no file
        if found < 0:
            raise InputError(f"the graph has no {name!r}; names are case-sensitive and written as in its files")
        return found

    def ids_of(self, others: "Names") -> np.ndarray:
        """The ids here of other names, in their order: (len(others),) int64, -1 for a name that the graph does not
        have."""
        data, offsets = others.packed
        ids, together = np.empty(len(others), np.int64), 1 << 16
        for first in range(0, len(others), together):
            bounds = offsets[first : first + together + 1].tolist()
            text, start = data[bounds[0] : bounds[-1]].tobytes(), bounds[0]
            ids[first : first + together] = [self._table.find(text[begin - start : end - start])
                                             for begin, end in zip(bounds, bounds[1:])]
        return ids

    def told_apart_by_white_space(self) -> List[Tuple[str, str]]:
        """Pairs of names that differ in nothing but white space at their ends, which a reader hardly sees."""
        data, offsets = self.packed
        first, last = data[offsets[:-1]], data[offsets[1:] - 1]
        # By the bytes with which white space of Unicode begins and ends in UTF-8; most names are ruled out here.
        likely = (first <= 32) | (last <= 32) | np.isin(first, (0xC2, 0xE1, 0xE2, 0xE3)) | (last >= 0x80)
        found: Dict[str, str] = {}
        pairs = []
        for name in (self[i] for i in np.flatnonzero(likely).tolist()):
            bare = name.strip()
            if bare != name:
                other = bare if self._table.find(bare.encode("utf-8")) >= 0 else found.setdefault(bare, name)
                pairs += [(name, other)] if other != name else []
        return pairs

    def __getstate__(self):
        return {"_load": self._load}  # another process reads for itself


@dataclass(frozen=True, eq=False)
class KnowledgeGraph:
    """Triples of a data set with what their ids mean. Entity ids are below n_entities, relation ids below n_relations.

    entity_map, relation_map: files with the names (id TAB name), None where the data set has none.
    ids_by_appearance: whether ids were given in the order in which names appear (raw_udd), so that only the maps that
        a run keeps (`name_maps`) say later which id a name had.
    entity_names, relation_names: the names by id, read on first use, or None.
    candidates: what a data set with its own evaluation protocol says to rank against, by split and array name
        (arrays of OGB, e.g. `candidates["test"]["head_neg"]` (n, 500)), each a function that loads it.
    """

    name: str
    n_entities: int
    n_relations: int
    train: Triples
    valid: Optional[Triples] = None
    test: Optional[Triples] = None
    entity_map: Optional[Path] = None
    relation_map: Optional[Path] = None
    entity_names: Optional[Names] = None
    relation_names: Optional[Names] = None
    ids_by_appearance: bool = False
    candidates: Dict[str, Dict[str, Callable[[], np.ndarray]]] = field(default_factory=dict)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name} {len(triples):,}" for name, triples in self.splits.items())
        return f"<{self.name}: {self.n_entities:,} entities, {self.n_relations:,} relations; {sizes}>"

    @property
    def splits(self) -> Dict[str, Triples]:
        """The splits that there are, by name."""
        every = {"train": self.train, "valid": self.valid, "test": self.test}
        return {name: triples for name, triples in every.items() if triples is not None}
