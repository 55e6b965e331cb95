"""By what a data set is known again: a run keeps it, and refuses to go on, or to be ranked, with other data."""
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


@dataclass(frozen=True)
class Fingerprint:
    """What the ids of a graph depend on. None: not known.

    Attributes:
        training_checksum: CRC-32 of the training triples' columns in order.
        entity_names, relation_names: CRC-32 of the map files, or of what they will be where there are none yet.
    """

    entities: Optional[int] = None
    relations: Optional[int] = None
    training_triples: Optional[int] = None
    training_checksum: Optional[int] = None
    entity_names: Optional[int] = None
    relation_names: Optional[int] = None

    @classmethod
    def of(cls, graph: KnowledgeGraph) -> "Fingerprint":
        """That of a graph; reads its map files. Raises InputError if one cannot be read."""
        maps = ((graph.entity_map, graph.entity_names), (graph.relation_map, graph.relation_names))
        return cls(graph.n_entities, graph.n_relations, len(graph.train),
                   _checksum(np.ascontiguousarray(column) for column in graph.train),
                   *(_of_names(path, names, graph.ids_by_appearance) for path, names in maps))

    @classmethod
    def of_mapping(cls, mapping: Any) -> "Fingerprint":
        """What a run wrote down; unknown where it did not, or not as numbers."""
        mapping = mapping if isinstance(mapping, Mapping) else {}
        known = {field.name: mapping.get(field.name) for field in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in known.items() if isinstance(value, int)})

    def to_dict(self) -> Dict[str, Optional[int]]:
        """As JSON."""
        return dataclasses.asdict(self)

    def difference(self, earlier: "Fingerprint") -> str:
        """What has changed since an earlier fingerprint, in words; empty if nothing that both know."""
        then = {name: value for name, value in earlier.to_dict().items() if value is not None}
        now = {name: value for name, value in self.to_dict().items() if value is not None}
        changed = [name for name, value in now.items() if then.get(name, value) != value]
        said = [f"{then[name]:,} {what} then and {now[name]:,} now"
                for name, what in (("entities", "entities"), ("relations", "relations"),
                                   ("training_triples", "training triples")) if name in changed]
        if not said and "training_checksum" in changed:
            said = ["as many training triples as then, but other ones or in another order"]
        return ", ".join(said or [f"other names of {what}" for name, what in (("entity_names", "entities"),
                                                                             ("relation_names", "relations"))
                                  if name in changed])


def file_checksum(path: Path) -> int:
    """CRC-32 of a file. Raises InputError if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return _checksum(iter(lambda: file.read(_BLOCK), b""))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}; check the file") from error


def _of_names(path: Optional[Path], names: Optional[Names], by_appearance: bool) -> Optional[int]:
    if path is not None:
        return file_checksum(path)
    return _checksum(map_lines(names)) if by_appearance else None


def _checksum(parts: Iterable) -> int:
    checksum = 0
    for part in parts:
        checksum = zlib.crc32(part, checksum)
    return checksum
