"""A trained run in Python: `dglke_frugal.load(folder)`."""

from __future__ import annotations

import operator
import warnings
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import numpy as np

from ..data.graph import Names
from ..errors import InputError, shown
from ..evaluation import Evaluation, KnownTriples, Protocol, evaluate
from ..evaluation.device import on_device
from ..evaluation.model import HEAD, TAIL, EmbeddingModel
from ..score_rule import two_formulas_line
from .answers import AnswerLists, Answers
from .completion import best_entities, best_triples, check_range, triple_keys
from .known import known_triples
from .name_maps import find_map, names_of_file, names_of_run
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
        names: what is in them, by "entity" and "relation"; read when they are needed, None where there is no file.
    """

    folder: Path
    config: Dict[str, Any]
    model: EmbeddingModel
    entity_map: Optional[Path]
    relation_map: Optional[Path]
    names: Dict[str, Optional[Names]]

    @classmethod
    def load(
        cls,
        folder: PathLike,
        entity_map: Optional[PathLike] = None,
        relation_map: Optional[PathLike] = None,
        device: int = -1,
        check_values: bool = True,
        score_rule: Optional[str] = None,
    ) -> "Run":
        """Load the folder that a training run of ours or of DGL-KE wrote; the tables are memory-mapped.

        Args:
            entity_map, relation_map: files of ids and names; by default those that the run's config names.
            device: number of the GPU that the entity table goes to, -1 for none.
            check_values: look for NaN and infinite numbers, which reads the tables once.
            score_rule: by which `rank` scores corrupted triples: "textbook" or "dglke" (score_rule.py); by default that
                by which the run was trained.

        Raises:
            InputError: in one sentence, whatever is missing or damaged. A file of names that has changed since the
                training, or has another number of them, is refused when a name is first needed.
        """
        folder = Path(folder)
        config = read_config(folder)
        model = read_model(
            folder,
            config["dataset"],
            config["model_name"],
            config["hidden_dim"],
            config["gamma"],
            check_values,
            config,
            score_rule,
        )
        maps, names = {}, {}
        sizes = {"entity": (entity_map, len(model.entity)), "relation": (relation_map, model.n_relations)}
        for role, (given, size) in sizes.items():
            maps[role] = Path(given) if given else find_map(folder, config, role)
            if given:
                names[role] = names_of_file(folder, role, maps[role], size)
            else:
                names[role] = maps[role] and names_of_run(folder, config, role, maps[role], size)
        return cls(folder, config, on_device(model, device), maps["entity"], maps["relation"], names)

    @property
    def entity_names(self) -> Names:
        """Names by entity id. InputError if the run has none."""
        return self._names_of("entity")

    @property
    def relation_names(self) -> Names:
        """Names by relation id. InputError if the run has none."""
        return self._names_of("relation")

    def _names_of(self, role: str) -> Names:
        if self.names[role] is None:
            raise InputError(
                f"the run in {self.folder} names no file of {role} names that is still there; use ids, or "
                f"give the file ({'--entity_mfile' if role == 'entity' else '--rel_mfile'} on the command line)"
            )
        return self.names[role]

    def score(self, heads: Items, relations: Items, tails: Items) -> np.ndarray:
        """Scores (n,) float32 of triples, element by element; single items are repeated. Larger is more likely."""
        _, lists = self._questions(heads=heads, relations=relations, tails=tails)
        return self.model.scores(triple_keys(self.model, *lists))

    def tails(
        self, head: Items, relation: Items, k: int = 10, exclude_known: bool = False
    ) -> Union[Answers, AnswerLists]:
        """The k best tails of (head, relation, ?).

        With lists of heads or relations, one answer for each question: lists are taken element by element, a single
        item stands for all questions. All questions together are quicker than one after the other.

        exclude_known: leave out triples that stand in train, valid or test of the run's data set.

        Returns:
            Answers for single items, AnswerLists for lists.

        Raises:
            InputError: an unknown name or id, lists of different length, k below 1; with exclude_known, a data set that
                is not there any more or has changed.
        """
        return self._entities_for(TAIL, k, exclude_known, head=head, relation=relation)

    def heads(
        self, relation: Items, tail: Items, k: int = 10, exclude_known: bool = False
    ) -> Union[Answers, AnswerLists]:
        """The k best heads of (?, relation, tail). Lists, exclude_known, result and errors as for `tails`."""
        return self._entities_for(HEAD, k, exclude_known, tail=tail, relation=relation)

    def relations(
        self, head: Items, tail: Items, k: int = 10, exclude_known: bool = False
    ) -> Union[Answers, AnswerLists]:
        """The k best relations of (head, ?, tail). Lists, exclude_known, result and errors as for `tails`."""
        single, (heads, tails) = self._questions(head=head, tail=tail)
        known = self.known_triples if exclude_known else None
        everything, answers = np.arange(self.model.n_relations), []
        for question in range(len(heads)):
            ends = (ids[question : question + 1] for ids in (heads, tails))
            found = best_triples(self.model, next(ends), everything, next(ends), "all", k, known=known)[0]
            answers.append(Answers(found.relations, found.scores, self.names["relation"]))
        return answers[0] if single else AnswerLists(answers)

    @cached_property
    def known_triples(self) -> KnownTriples:
        """Train, valid and test of the data set that the run was trained on, read when first asked for.

        Raises InputError if it is not there any more, or is another one.
        """
        return known_triples(self.folder, self.config, len(self.model.entity), self.model.n_relations)

    def nearest(self, entity: Items, k: int = 10, measure: str = "cosine") -> Union[Answers, AnswerLists]:
        """The k entities most similar to one, itself left out; measure as in similarity.MEASURES. A list as for
        `tails`.

        The table is prepared for a measure when it is first asked for; for cosine a copy with unit rows is kept.
        """
        single, (ids,) = self._questions(entity=entity)
        answers = []
        for own, (_, found, scores) in zip(ids, self._similarity(measure).batch_left(ids, k + 1)):
            others = found != own
            answers.append(Answers(found[others][:k], scores[others][:k], self.names["entity"]))
        return answers[0] if single else AnswerLists(answers)

    def _similarity(self, measure: str) -> SimilaritySearch:
        searches = self.__dict__.setdefault("_searches", {})
        if measure not in searches:
            everyone = np.arange(len(self.model.entity))
            search = SimilaritySearch(self.model.entity, everyone, measure, self.model.device)
            searches.clear()  # one at a time: each may hold a copy of the table
            searches[measure] = search
        return searches[measure]

    def rank(
        self,
        triples: Tuple[Items, Items, Items],
        known: Optional[KnownTriples] = None,
        protocol: Optional[Protocol] = None,
    ) -> Evaluation:
        """Rank triples against all entities in both directions; `known` triples do not compete.

        triples: (heads, relations, tails). protocol: see evaluation.Protocol; without `known`, nothing is filtered.
        Warns if the ranks compare two formulas (score_rule.py).
        """
        if self.model.compares_two_formulas:
            warnings.warn(two_formulas_line(self.model.name, 'load(..., score_rule="textbook")'), stacklevel=2)
        _, lists = self._questions(**dict(zip(("heads", "relations", "tails"), triples)))
        return evaluate(self.model, lists, known, protocol or Protocol(known="kept" if known is None else "excluded"))

    def __repr__(self) -> str:
        return f"<Run {self.folder} {str(self.model)[1:]}"

    def _entities_for(self, side: str, k: int, exclude_known: bool, **given: Items) -> Union[Answers, AnswerLists]:
        single, (stays, relations) = self._questions(**given)
        known = self.known_triples if exclude_known else None
        found = best_entities(self.model, side, stays, relations, k, known)
        answers = [Answers(ids, scores, self.names["entity"]) for ids, scores in found]
        return answers[0] if single else AnswerLists(answers)

    def _questions(self, **given: Items) -> Tuple[bool, List[np.ndarray]]:
        """Whether all that is given are single items, and the ids of each, (n,) int64. Keys: head, relations and so on.

        Raises InputError: an unknown name or id, or lists of different length.
        """
        ids = {what: self._ids("relation" if what.startswith("relation") else "entity", items)
               for what, items in given.items()}
        lengths = {what: len(ids[what]) for what, items in given.items() if not _is_single(items)}
        if len(set(lengths.values())) > 1:
            said = " and ".join(f"{length} for {what}" for what, length in lengths.items())
            raise InputError(f"lists are taken element by element, but their lengths are {said}; give one length")
        n = next(iter(lengths.values()), 1)
        return not lengths, [np.ascontiguousarray(np.broadcast_to(each, n)) for each in ids.values()]

    def _ids(self, role: str, items: Items) -> np.ndarray:
        """(n,) int64."""
        rows = len(self.model.entity) if role == "entity" else self.model.n_relations
        if isinstance(items, np.ndarray) and items.ndim == 1 and items.dtype == np.int64:
            check_range(role, items, rows)
            return items
        ids = []
        for item in [items] if _is_single(items) else items:
            if isinstance(item, str):
                item = self._names_of(role).id_of(item)
            try:
                ids.append(operator.index(item))
            except TypeError:
                raise InputError(
                    f"{shown(repr(item))} is neither the id nor the name of one {role}; give integers or text"
                ) from None
        try:
            found = np.array(ids, dtype=np.int64)
        except OverflowError:
            raise InputError(f"{role} id {shown(max(ids, key=abs))} is not in the model") from None
        check_range(role, found, rows)
        return found


def _is_single(items: Items) -> bool:
    return isinstance(items, (str, bytes)) or not hasattr(items, "__iter__") or getattr(items, "ndim", 1) == 0
