"""A trained run in Python: `dglke_frugal.load(folder)`."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import numpy as np

from ..arguments import integer, one_of, path, read_ids, read_together, read_triples, switch
from ..data.graph import Names
from ..errors import InputError
from ..evaluation import Evaluation, KnownTriples, Protocol, evaluate
from ..evaluation.device import on_device
from ..evaluation.model import HEAD, TAIL, EmbeddingModel
from ..score_rule import two_formulas_line
from .answers import AnswerLists, Answers
from .completion import MOST_RESULTS, best_entities, best_triples, check_range, triple_keys
from .known import known_triples
from .name_maps import find_map, names_of_file, names_of_run
from .similarity import MEASURES, SimilaritySearch
from .tables import PathLike, read_config, read_model

Item = Union[int, str]
Items = Union[Item, Sequence[Item], np.ndarray]


@dataclass(frozen=True, eq=False)
class Run:
    """A trained run.

    Entities and relations are given as ids, or as names where the run has map files: one, or a list, array or tensor of
    several. Triples are given in any form of arguments.read_triples: rows, as an array (n, 3) or a list, or a tuple of
    three columns.

    Attributes:
        folder: where it was loaded from, an absolute path.
        config: its config.json under DGL-KE's flag names; data_path is where the data set is found today.
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
        data_path: Optional[PathLike] = None,
    ) -> "Run":
        """Load the folder that a training run of ours or of DGL-KE wrote; the tables are memory-mapped.

        Args:
            entity_map, relation_map: files of ids and names; by default those that the run's config names.
            device: number of the GPU that the entity table goes to, -1 for none.
            check_values: look for NaN and infinite numbers, which reads the tables once.
            score_rule: by which `rank` scores corrupted triples: "textbook" or "dglke" (score_rule.py); by default that
                by which the run was trained.
            data_path: folder of the data set, which `rank` and exclude_known need; by default where the training found
                it, or where it is beside the run if both were moved together.

        Raises:
            InputError: in one sentence, whatever is missing or damaged. A file of names that has changed since the
                training, or has another number of them, is refused when a name is first needed.
        """
        folder = path("the folder of the run", folder).absolute()
        device = integer("device", device, -1)
        given_maps = {role: None if given is None else path(f"{role}_map", given).absolute()
                      for role, given in (("entity", entity_map), ("relation", relation_map))}
        config = read_config(folder)
        if data_path is not None:
            config["data_path"] = str(path("data_path", data_path).absolute())
        model = read_model(
            folder,
            config["dataset"],
            config["model_name"],
            config["hidden_dim"],
            config["gamma"],
            switch("check_values", check_values),
            config,
            score_rule,
        )
        maps, names = {}, {}
        for role, size in (("entity", len(model.entity)), ("relation", model.n_relations)):
            given = given_maps[role]
            maps[role] = given or find_map(folder, config, role)
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
                f"give the file: load(..., {role}_map=...), or "
                f"{'--entity_mfile' if role == 'entity' else '--rel_mfile'} on the command line"
            )
        return self.names[role]

    def score(self, heads: Any, relations: Optional[Items] = None, tails: Optional[Items] = None) -> np.ndarray:
        """Scores (n,) float32 of triples; larger is more likely.

        Given are three columns, of which single items are repeated, or triples as the only argument.
        """
        if (relations is None) != (tails is None):
            raise InputError("score() takes heads, relations and tails, or triples as its only argument")
        triples = heads if relations is None else {"heads": heads, "relations": relations, "tails": tails}
        return self.model.scores(triple_keys(self.model, *read_triples(triples, self._ids)))

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
        k, known = self._wanted(k, exclude_known)
        single, (heads, tails) = read_together(self._ids, head=head, tail=tail)
        everything, answers = np.arange(self.model.n_relations), []
        for question in range(len(heads)):
            ends = (ids[question : question + 1] for ids in (heads, tails))
            found = best_triples(self.model, next(ends), everything, next(ends), "all", k, known=known)[0]
            answers.append(Answers(found.relations, found.scores, self.names["relation"]))
        return answers[0] if single else AnswerLists(answers)

    @cached_property
    def known_triples(self) -> KnownTriples:
        """Train, valid and test of the data set that the run was trained on, read when first asked for.

        Raises InputError if it is not there any more, or is another one; load(..., data_path=...) says where it is.
        """
        return known_triples(self.folder, self.config, len(self.model.entity), self.model.n_relations)

    def nearest(self, entity: Items, k: int = 10, measure: str = "cosine") -> Union[Answers, AnswerLists]:
        """The k entities most similar to one, itself left out; measure as in similarity.MEASURES. A list as for
        `tails`.

        The table is prepared for a measure when it is first asked for; for cosine a copy with unit rows is kept.
        """
        k, _ = self._wanted(k)
        one_of("measure", measure, MEASURES)
        single, (ids,) = read_together(self._ids, entity=entity)
        answers = []
        for own, (_, found, scores) in zip(ids, self._similarity(measure).batch_left(ids, min(k + 1, MOST_RESULTS))):
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
        triples: Any,
        known: Any = None,
        protocol: Protocol = Protocol(),
    ) -> Evaluation:
        """Rank triples against all entities in both directions, known ones left out, as `dglke_eval` does.

        Args:
            triples: in any form that the class describes.
            known: triples that do not compete, likewise, or KnownTriples; by default train, valid and test of the data
                set that the run was trained on.
            protocol: see evaluation.Protocol; Protocol(known="kept") lets known triples compete.

        Raises:
            InputError: triples in another form, an unknown name or id, or no data set to filter by.

        Warns if the ranks compare two formulas (score_rule.py).
        """
        if self.model.compares_two_formulas:
            warnings.warn(two_formulas_line(self.model.name, 'load(..., score_rule="textbook")'), stacklevel=2)
        lists = read_triples(triples, self._ids)
        if known is None and isinstance(protocol, Protocol) and protocol.known != "kept":
            try:
                known = self.known_triples
            except InputError as error:
                unfiltered = 'protocol=evaluation.Protocol(known="kept")'
                raise InputError(f"{error}; to rank unfiltered, give {unfiltered}") from error
        elif known is not None and not isinstance(known, KnownTriples):
            try:
                known = KnownTriples([read_triples(known, self._ids)])
            except InputError as error:
                raise InputError(f"known triples: {error}; several parts are KnownTriples([train, valid])") from None
        return evaluate(self.model, lists, known, protocol)

    def __repr__(self) -> str:
        return f"<Run {self.folder} {str(self.model)[1:]}"

    def _entities_for(self, side: str, k: int, exclude_known: bool, **given: Items) -> Union[Answers, AnswerLists]:
        k, known = self._wanted(k, exclude_known)
        single, (stays, relations) = read_together(self._ids, **given)
        found = best_entities(self.model, side, stays, relations, k, known)
        answers = [Answers(ids, scores, self.names["entity"]) for ids, scores in found]
        return answers[0] if single else AnswerLists(answers)

    def _wanted(self, k: int, exclude_known: bool = False) -> Tuple[int, Optional[KnownTriples]]:
        """k, and the triples that are no answers."""
        return integer("k", k, 1, MOST_RESULTS), self.known_triples if switch("exclude_known", exclude_known) else None

    def _ids(self, what: str, items: Items) -> np.ndarray:
        """The ids (n,) int64 of names and ids. what: relation, heads and so on.

        Raises InputError: an unknown name, or an id that the model does not have.
        """
        role, rows = ("relation", self.model.n_relations) if what.startswith("relation") else (
            "entity", len(self.model.entity))
        found = read_ids(what, items, lambda name: self._names_of(role).id_of(name)).astype(np.int64, copy=False)
        check_range(role, found, rows)
        return found
