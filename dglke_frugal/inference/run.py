"""A trained run in Python: `dglke_frugal.load(folder)`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Dict, Optional, Sequence, Tuple, Union

import numpy as np

from ..data.graph import Names
from ..errors import InputError
from ..evaluation import Evaluation, KnownTriples, Protocol, evaluate
from ..evaluation.device import on_device
from ..evaluation.model import EmbeddingModel
from .answers import Answers, Scored
from .completion import best_triples, check_range, triple_keys
from .known import known_triples
from .lists import read_names
from .similarity import SimilaritySearch
from .tables import PathLike, read_config, read_model

Item = Union[int, str]
Items = Union[Item, Sequence[Item], np.ndarray]


@dataclass(frozen=True)
class Run:
    """A trained run. Entities and relations are given as ids, or as names where the run has map files.

    Attributes:
        folder: where it was loaded from.
        config: its config.json under DGL-KE's flag names.
        model: its tables.
        entity_map, relation_map: files with ids and names, or None.
    """

    folder: Path
    config: Dict[str, Any]
    model: EmbeddingModel
    entity_map: Optional[Path]
    relation_map: Optional[Path]

    @classmethod
    def load(
        cls,
        folder: PathLike,
        entity_map: Optional[PathLike] = None,
        relation_map: Optional[PathLike] = None,
        device: int = -1,
        check_values: bool = True,
    ) -> "Run":
        """Load the folder that a training run of ours or of DGL-KE wrote; the tables are memory-mapped.

        Args:
            entity_map, relation_map: files of ids and names; by default those that the run's config names.
            device: number of the GPU that the entity table goes to, -1 for none.
            check_values: look for NaN and infinite numbers, which reads the tables once.

        Raises:
            InputError: in one sentence, whatever is missing or damaged.
        """
        folder = Path(folder)
        config = read_config(folder)
        model = read_model(
            folder, config["dataset"], config["model_name"], config["hidden_dim"], config["gamma"], check_values, config
        )
        maps = [
            Path(given) if given else _find_map(folder, config, key)
            for given, key in ((entity_map, "emap_file"), (relation_map, "rmap_file"))
        ]
        return cls(folder, config, on_device(model, device), *maps)

    @property
    def entity_names(self) -> Names:
        """Names by entity id. InputError if the run has none."""
        return self._names("entity", self.entity_map)

    @property
    def relation_names(self) -> Names:
        """Names by relation id. InputError if the run has none."""
        return self._names("relation", self.relation_map)

    def _names(self, what, path) -> Names:
        cache = self.__dict__.setdefault("_cached_names", {})
        if what not in cache:
            if path is None:
                raise InputError(
                    f"the run in {self.folder} names no file of {what} names that is still there; use ids, or "
                    f"give the file ({'--entity_mfile' if what == 'entity' else '--rel_mfile'} on the command line)"
                )
            cache[what] = read_names(path)
        return cache[what]

    def score(self, heads: Items, relations: Items, tails: Items) -> np.ndarray:
        """Scores (n,) float32 of triples, element by element; single items are repeated. Larger is more likely."""
        lists = np.broadcast_arrays(self._entities(heads), self._relations(relations), self._entities(tails))
        return self.model.scores(triple_keys(self.model, *(np.ascontiguousarray(ids) for ids in lists)))

    def tails(self, head: Item, relation: Item, k: int = 10, exclude_known: bool = False) -> Answers:
        """The k best tails of (head, relation, ?); with exclude_known, of triples that the data set does not have."""
        known = self.known_triples if exclude_known else None
        found = self._best(
            self._entities(head), self._relations(relation), self._all_entities(), "batch_head", k, known
        )
        return self._scored(found.tails, found.scores)

    def heads(self, relation: Item, tail: Item, k: int = 10, exclude_known: bool = False) -> Answers:
        """The k best heads of (?, relation, tail); exclude_known as for tails."""
        known = self.known_triples if exclude_known else None
        found = self._best(
            self._all_entities(), self._relations(relation), self._entities(tail), "batch_tail", k, known
        )
        return self._scored(found.heads, found.scores)

    def relations(self, head: Item, tail: Item, k: int = 10, exclude_known: bool = False) -> Answers:
        """The k best relations of (head, ?, tail); exclude_known as for tails."""
        everything = np.arange(len(self.model.relation))
        known = self.known_triples if exclude_known else None
        found = self._best(self._entities(head), everything, self._entities(tail), "all", k, known)
        return self._scored(found.relations, found.scores, entities=False)

    @cached_property
    def known_triples(self) -> KnownTriples:
        """Train, valid and test of the data set that the run was trained on, read when first asked for.

        Raises InputError if it is not there any more, or is another one.
        """
        return known_triples(self.folder, self.config, len(self.model.entity), len(self.model.relation))

    def nearest(self, entity: Item, k: int = 10, measure: str = "cosine") -> Answers:
        """The k entities most similar to one, itself left out; measure as in similarity.MEASURES.

        The table is prepared for a measure when it is first asked for; for cosine a copy with unit rows is kept.
        """
        ids = self._entities(entity)
        _, found, scores = self._similar(ids, measure, k + 1)
        others = found != ids[0]
        return self._scored(found[others][:k], scores[others][:k])

    def _similar(self, ids, measure, k):
        searches = self.__dict__.setdefault("_searches", {})
        if measure not in searches:
            search = SimilaritySearch(self.model.entity, self._all_entities(), measure, self.model.device)
            searches.clear()  # one at a time: each may hold a copy of the table
            searches[measure] = search
        return searches[measure].batch_left(ids, k)[0]

    def rank(
        self,
        triples: Tuple[Items, Items, Items],
        known: Optional[KnownTriples] = None,
        protocol: Optional[Protocol] = None,
    ) -> Evaluation:
        """Rank triples against all entities in both directions; `known` triples do not compete.

        triples: (heads, relations, tails). protocol: see evaluation.Protocol; without `known`, nothing is filtered.
        """
        lists = self._entities(triples[0]), self._relations(triples[1]), self._entities(triples[2])
        return evaluate(self.model, lists, known, protocol or Protocol(known="kept" if known is None else "excluded"))

    def __repr__(self) -> str:
        return f"<Run {self.folder} {str(self.model)[1:]}"

    def _best(self, heads, relations, tails, mode, k, known):
        return best_triples(self.model, heads, relations, tails, mode, k, known=known)[0]

    def _all_entities(self):
        return np.arange(len(self.model.entity))

    def _entities(self, items: Items) -> np.ndarray:
        return self._ids("entity", items, len(self.model.entity))

    def _relations(self, items: Items) -> np.ndarray:
        return self._ids("relation", items, len(self.model.relation))

    def _ids(self, what, items, rows) -> np.ndarray:
        if isinstance(items, (str, int, np.integer)):
            items = [items]
        names = None
        ids = []
        for item in np.asarray(items, dtype=object).tolist():
            if isinstance(item, str):
                names = names or self._names(what, self.entity_map if what == "entity" else self.relation_map)
                item = names.id_of(item)
            ids.append(item)
        ids = np.array(ids, dtype=np.int64)
        check_range(what, ids, rows)
        return ids

    def _scored(self, ids, scores, entities=True) -> Answers:
        path = self.entity_map if entities else self.relation_map
        names = self._names("entity" if entities else "relation", path) if path else None
        return Answers(
            Scored(int(i), names[i] if names is not None else str(i), float(score)) for i, score in zip(ids, scores)
        )


def _find_map(folder: Path, config: Dict[str, Any], key: str) -> Optional[Path]:
    """DGL-KE writes the file's name without saying where it is: beside the run, or in the folder of the data set."""
    name = config.get(key)
    if not isinstance(name, str):
        return None
    data = Path(str(config.get("data_path", "data")))
    for path in (
        Path(name),
        folder / name,
        folder / Path(name).name,
        data / name,
        data / str(config["dataset"]) / name,
    ):
        if path.is_file():
            return path
    return None
