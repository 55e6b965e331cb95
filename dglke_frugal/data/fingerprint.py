"""The fingerprint of a data set: a run keeps it, and refuses to go on, or to be ranked, with other data."""
from __future__ import annotations

import dataclasses
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterable, Mapping, Optional

import numpy as np

from ..errors import InputError
from .graph import KnowledgeGraph, Names
from .name_maps import map_lines

_BLOCK = 8 << 20  # bytes read together
_OTHER = {"training_checksum": "as many training triples as then, but other ones or in another order",
          "training_weights": "other weights of the training triples", "entity_names": "other names of entities",
          "relation_names": "other names of relations", "validation_checksum": "other validation triples",
          "test_checksum": "other test triples"}


@dataclass(frozen=True)
class Fingerprint:
    """All that the ids of a graph, and the numbers of a run on it, depend on. None: not known, or not there.

    Attributes:
        training_checksum: CRC-32 of the training triples' columns in order. training_weights: of their weights.
        entity_names, relation_names: CRC-32 of the map files, or of what they will be where there are none yet.
        validation_checksum, test_checksum: CRC-32 of these triples' columns, of a run whose training depends on its
            validations.
    """

    entities: Optional[int] = None
    relations: Optional[int] = None
    training_triples: Optional[int] = None
    training_checksum: Optional[int] = None
    training_weights: Optional[int] = None
    entity_names: Optional[int] = None
    relation_names: Optional[int] = None
    validation_checksum: Optional[int] = None
    test_checksum: Optional[int] = None

    @classmethod
    def of(cls, graph: KnowledgeGraph, splits: Iterable[str] = ()) -> "Fingerprint":
        """That of a graph, whose map files are read. splits: "valid" and "test", whose triples count as well.

        Raises InputError if a map file cannot be read.
        """
        maps = ((graph.entity_map, graph.entity_names), (graph.relation_map, graph.relation_names))
        weight = graph.train.weight
        return cls(graph.n_entities, graph.n_relations, len(graph.train), checksum_of(graph.train),
                   None if weight is None else checksum_of([weight]),
                   *(_of_names(path, names, graph.ids_by_appearance) for path, names in maps),
                   *(checksum_of(graph.splits.get(split, ())) if split in splits else None
                     for split in ("valid", "test")))

    @classmethod
    def of_mapping(cls, mapping: Any) -> "Fingerprint":
        """The fingerprint that a run wrote; unknown where it wrote none, or no numbers."""
        mapping = mapping if isinstance(mapping, Mapping) else {}
        known = {field.name: mapping.get(field.name) for field in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in known.items() if isinstance(value, int)})

    def to_dict(self) -> Dict[str, Optional[int]]:
        """As JSON."""
        return dataclasses.asdict(self)

    def difference(self, earlier: "Fingerprint") -> str:
        """The changes since an earlier fingerprint, in words; empty if all that both know is equal."""
        then = {name: value for name, value in earlier.to_dict().items() if value is not None}
        now = {name: value for name, value in self.to_dict().items() if value is not None}
        changed = [name for name, value in now.items() if then.get(name, value) != value]
        message = [f"{then[name]:,} {what} then and {now[name]:,} now"
                for name, what in (("entities", "entities"), ("relations", "relations"),
                                   ("training_triples", "training triples")) if name in changed]
        return ", ".join(message or [words for name, words in _OTHER.items() if name in changed])


def file_checksum(path: Path) -> int:
    """CRC-32 of a file. Raises InputError if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return _checksum(iter(lambda: file.read(_BLOCK), b""))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}; check the file") from error


def checksum_of(columns: Iterable[np.ndarray]) -> int:
    """CRC-32 of arrays in order, such as the columns of triples."""
    return _checksum(np.ascontiguousarray(column) for column in columns)


def _of_names(path: Optional[Path], names: Optional[Names], by_appearance: bool) -> Optional[int]:
    if path is not None:
        return file_checksum(path)
    return _checksum(map_lines(names)) if by_appearance else None


def _checksum(parts: Iterable) -> int:
    checksum = 0
    for part in parts:
        checksum = zlib.crc32(part, checksum)
    return checksum
