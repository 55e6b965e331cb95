"""A trained run in Python: `dglke_frugal.load(folder)`."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import cached_property, partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Optional, Sequence, Tuple, Union, overload

import numpy as np

from ..arguments import Columns, integer, one_of, path, read_ids, read_together, read_triples, switch
from ..data.graph import KnowledgeGraph, Names, Triples
from ..data.layouts import SPLITS
from ..errors import InputError, shortages_as_input_errors
from ..evaluation import Evaluation, KnownTriples, Protocol, evaluate
from ..evaluation.device import on_device
from ..evaluation.model import HEAD, TAIL, EmbeddingModel
from ..frames import data_frame
from ..score_rule import SCORE_RULES, two_formulas_line
from ..training.checkpoint.run_folder import finished_steps, read_result
from .answers import AnswerLists, Answers, Column, TripleAnswers
from .completion import MOST_RESULTS, best_entities, best_triples, check_range, triple_keys
from .embeddings import Embeddings
from .known import are_known, graph_of_run
from .name_maps import find_map, names_of_file, names_of_run
from .similarity import MEASURES, SimilaritySearch
from .tables import PathLike, read_config, read_model

if TYPE_CHECKING:
    from pandas import DataFrame

_MOST_LOOKED_UP, _LOOKED_UP = 100_000, 100  # for a warning: names of so many rows are read, so many ids looked up
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
    def load(cls, folder: PathLike, entity_map: Optional[PathLike] = None, relation_map: Optional[PathLike] = None,
             device: int = -1, check_values: bool = True, score_rule: Optional[str] = None,
             data_path: Optional[PathLike] = None) -> "Run":
        """Load the folder that a training run of ours or of DGL-KE wrote; the tables are memory-mapped.

        Args:
            entity_map, relation_map: files of ids and names; by default the files that the run's config names.
            device: number of the GPU that the entity table goes to, -1 for none.
            check_values: look for NaN and infinite numbers, which reads the tables once.
            score_rule: by which `rank` scores corrupted triples: "textbook" or "dglke" (score_rule.py); by default that
                by which the run was trained.
            data_path: folder of the data set, which `rank` and exclude_known need; by default where the training found
                it, or where it is relative to the run if both were moved together.

        Raises:
            InputError: in one sentence, whatever is missing or damaged. A file of names that has changed since the
                training, or has another number of them, is refused when a name is first needed.
        """
        with shortages_as_input_errors():
            folder = path("the folder of the run", folder).absolute()
            device = integer("device", device, -1)
            rule = None if score_rule is None else one_of("score rule", score_rule, SCORE_RULES)
            given_maps = {role: None if given is None else path(f"{role}_map", given).absolute()
                          for role, given in (("entity", entity_map), ("relation", relation_map))}
            config = read_config(folder)
            if data_path is not None:
                config["data_path"] = str(path("data_path", data_path).absolute())
            model = read_model(folder, config["dataset"], config["model_name"], config["hidden_dim"], config["gamma"],
                               switch("check_values", check_values), config, rule)
            maps: Dict[str, Optional[Path]] = {}
            names: Dict[str, Optional[Names]] = {}
            for role, size in (("entity", len(model.entity)), ("relation", model.n_relations)):
                given = given_maps[role]
                found = maps[role] = given or find_map(folder, config, role)
                if given:
                    names[role] = names_of_file(folder, role, given, size)
                else:
                    names[role] = names_of_run(folder, config, role, found, size) if found else None
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
        names = self.names[role]
        if names is None:
            raise InputError(f"the run in {self.folder} names no file of {role} names that is still there; use ids, or "
                             f"give the file: load(..., {role}_map=...), or "
                             f"{'--entity_mfile' if role == 'entity' else '--rel_mfile'} on the command line")
        return names

    def score(self, heads: Any, relations: Optional[Items] = None, tails: Optional[Items] = None) -> np.ndarray:
        """Scores (n,) float32 of triples; larger is more likely.

        heads, relations, tails: names or ids, one of each or (n,) of them, and single ones are repeated; or triples as
        the only argument. Raises InputError for unknown ones, and for columns of different lengths.
        """
        if (relations is None) != (tails is None):
            raise InputError("score() takes heads, relations and tails, or triples as its only argument")
        triples = heads if relations is None else {"heads": heads, "relations": relations, "tails": tails}
        return self.model.scores(triple_keys(self.model, *self._read_triples(triples)))

    @overload
    def tails(self, head: Item, relation: Item, k: int = ..., exclude_known: bool = ...) -> Answers: ...

    @overload
    def tails(self, head: Items, relation: Items, k: int = ..., exclude_known: bool = ...) -> Union[
        Answers, AnswerLists]: ...

    def tails(self, head: Items, relation: Items, k: int = 10, exclude_known: bool = False) -> Union[
            Answers, AnswerLists]:
        """The k best tails of (head, relation, ?), which `to_pandas()` makes a frame of, with the columns head,
        relation, tail, score and known.

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

    @overload
    def heads(self, relation: Item, tail: Item, k: int = ..., exclude_known: bool = ...) -> Answers: ...

    @overload
    def heads(self, relation: Items, tail: Items, k: int = ..., exclude_known: bool = ...) -> Union[
        Answers, AnswerLists]: ...

    def heads(self, relation: Items, tail: Items, k: int = 10, exclude_known: bool = False) -> Union[
            Answers, AnswerLists]:
        """The k best heads of (?, relation, tail). Lists, exclude_known, result and errors as for `tails`."""
        return self._entities_for(HEAD, k, exclude_known, tail=tail, relation=relation)

    @overload
    def relations(self, head: Item, tail: Item, k: int = ..., exclude_known: bool = ...) -> Answers: ...

    @overload
    def relations(self, head: Items, tail: Items, k: int = ..., exclude_known: bool = ...) -> Union[
        Answers, AnswerLists]: ...

    def relations(self, head: Items, tail: Items, k: int = 10, exclude_known: bool = False) -> Union[
            Answers, AnswerLists]:
        """The k best relations of (head, ?, tail). Lists, exclude_known, result and errors as for `tails`."""
        k, known = self._wanted(k, exclude_known)
        single, (heads, tails) = read_together(self._ids, head=head, tail=tail)
        everything, answers, make_columns = np.arange(self.model.n_relations), [], partial(self._columns, "relation")
        for question in range(len(heads)):
            ends = (ids[question : question + 1] for ids in (heads, tails))
            found = best_triples(self.model, next(ends), everything, next(ends), "all", k, known=known)[0]
            given = int(heads[question]), int(tails[question])
            answers.append(Answers(found.relations, found.scores, self.names["relation"], make_columns, given))
        return answers[0] if single else AnswerLists(answers, make_columns)

    def missing(self, relation: Optional[Items] = None, k: int = 100, loops: bool = False) -> TripleAnswers:
        """The k best triples that train, valid and test do not have, of all pairs of entities, which are scored block
        by block.

        Args:
            relation: one, or several, which then share the k; all by default.
            loops: whether an entity may be linked with itself, which models of products like to propose.

        Raises:
            InputError: an unknown relation, k below 1, or a data set that is not there any more or has changed.
        """
        k, loops = integer("k", k, 1, MOST_RESULTS), switch("loops", loops)
        relations = (np.arange(self.model.n_relations) if relation is None
                     else np.unique(self._ids("relation", relation)))
        everyone, known = np.arange(len(self.model.entity)), self.known_triples
        if not loops:
            repeated = np.repeat(relations, len(everyone))
            itself = np.tile(everyone, len(relations))
            known = KnownTriples([*self.graph.splits.values(), (itself, repeated, itself)])
        found = best_triples(self.model, everyone, relations, everyone, "all", k, known=known)[0]
        return TripleAnswers(found.heads, found.relations, found.tails, found.scores, partial(self._columns, TAIL))

    @cached_property
    def graph(self) -> KnowledgeGraph:
        """The data set that the run was trained on, read when first asked for.

        Raises InputError if it is not there any more, or is another one; load(..., data_path=...) says where it is.
        """
        return graph_of_run(self.folder, self.config, len(self.model.entity), self.model.n_relations)

    @cached_property
    def known_triples(self) -> KnownTriples:
        """Train, valid and test of `graph`. Raises InputError as that."""
        return KnownTriples(self.graph.splits.values())

    @overload
    def nearest(self, entity: Item, k: int = ..., measure: str = ...) -> Answers: ...

    @overload
    def nearest(self, entity: Items, k: int = ..., measure: str = ...) -> Union[Answers, AnswerLists]: ...

    def nearest(self, entity: Items, k: int = 10, measure: str = "cosine") -> Union[Answers, AnswerLists]:
        """The k entities most similar to one, itself left out; measure as in similarity.MEASURES. A list as for
        `tails`. As a frame they have the columns entity, neighbour and score.

        The table is prepared for a measure when it is first asked for; for cosine a copy with unit rows is kept. Raises
        InputError for an unknown entity or measure, and for a k below 1.
        """
        k, _ = self._wanted(k)
        one_of("measure", measure, MEASURES)
        single, (ids,) = read_together(self._ids, entity=entity)
        answers = []
        for own, (_, found, scores) in zip(ids, self._similarity(measure).batch_left(ids, min(k + 1, MOST_RESULTS))):
            others = found != own
            answers.append(Answers(found[others][:k], scores[others][:k], self.names["entity"], self._neighbours,
                                   (int(own),)))
        return answers[0] if single else AnswerLists(answers, self._neighbours)

    def _similarity(self, measure: str) -> SimilaritySearch:
        searches = self.__dict__.setdefault("_searches", {})
        if measure not in searches:
            everyone = np.arange(len(self.model.entity))
            search = SimilaritySearch(self.model.entity, everyone, measure, self.model.device)
            searches.clear()  # one at a time: each may hold a copy of the table
            searches[measure] = search
        return searches[measure]

    def rank(self, triples: Any, known: Any = None, protocol: Protocol = Protocol()) -> Evaluation:
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
        lists = self._read_triples(triples)
        if known is None and isinstance(protocol, Protocol) and protocol.known != "kept":
            try:
                known = self.known_triples
            except InputError as error:
                unfiltered = 'protocol=evaluation.Protocol(known="kept")'
                raise InputError(f"{error}; to rank unfiltered, give {unfiltered}") from error
        elif known is not None and not isinstance(known, KnownTriples):
            try:
                known = KnownTriples([self._read_triples(known)])
            except InputError as error:
                raise InputError(f"known triples: {error}; several parts are KnownTriples([train, valid])") from None
        return evaluate(self.model, lists, known, protocol)

    def evaluate(self, triples: Any = "test", known: Any = None, protocol: Protocol = Protocol()) -> Evaluation:
        """Rank triples as `rank` does. triples: "train", "valid" or "test" of the run's data set, or triples.

        Returns an `Evaluation`: a mapping with MRR, MR, AMRI and HITS@k for any k, by side and by relation as a frame.
        Raises InputError as `rank`, or if the data set has no such triples.
        """
        if isinstance(triples, str):
            split = one_of("part of the data", triples, SPLITS)
            triples = self.graph.splits.get(split)
            if triples is None or not len(triples):
                raise InputError(f"{self.graph.name} has no {split} triples; give triples: run.evaluate(triples)")
        return replace(self.rank(triples, known, protocol), relation_names=self.names["relation"])

    @cached_property
    def metrics(self) -> Evaluation:
        """`evaluate` of the test triples, or of the validation triples where there are none; ranked when first asked
        for. InputError as `evaluate`."""
        splits = self.graph.splits
        return self.evaluate("test" if len(splits.get("test", ())) or not len(splits.get("valid", ())) else "valid")

    @property
    def history(self) -> DataFrame:
        """The run's log: a pandas DataFrame with a row for each step after which it logged, which is the index,
        and columns such as train/loss and valid/MRR, NaN where a step has none.

        Raises InputError without pandas, and for a run of DGL-KE's, which has no metrics.jsonl.
        """
        from ..report.run_log import RunLog  # here, because reports are made of runs

        curves = RunLog.read(self.folder).curves
        steps = sorted({step for curve in curves.values() for step, _ in curve})
        by_step = {name: dict(curve) for name, curve in curves.items()}
        columns = {name: [values.get(step, float("nan")) for step in steps] for name, values in by_step.items()}
        frame = data_frame(columns, "run.history", steps)
        frame.index.name = "step"
        return frame

    def embedding(self, entity: Items) -> np.ndarray:
        """The row (dim,) float32 of an entity, or the rows (n, dim) of several, as copies. InputError for an unknown
        name or id."""
        return self.embeddings[entity]

    @cached_property
    def embeddings(self) -> Embeddings:
        """The rows of all entities, by name: see Embeddings."""
        return Embeddings(self.model.entity, self._name_list("entity", len(self.model.entity)),
                          partial(self._ids, "entity"))

    @cached_property
    def relation_embeddings(self) -> Embeddings:
        """The rows of all relations, by name; those of a run with inverse relations are of the relations alone."""
        count = self.model.n_relations
        return Embeddings(self.model.relation[:count], self._name_list("relation", count),
                          partial(self._ids, "relation"))

    def _name_list(self, role: str, count: int) -> Sequence[str]:
        names = self.names[role]
        return [str(number) for number in range(count)] if names is None else names

    def export(self, output: PathLike, format: Optional[str] = None) -> None:
        """Write the tables with their names in a format of export.FORMATS, by default the one that the ending of
        `output` names.

        Raises InputError: an unknown format, a place that cannot be written, or a format that needs a package.
        """
        from .export import export

        export(self, output, format)

    def summary(self) -> str:
        """One line on the training and its result."""
        result = read_result(self.folder) or {}
        config = self.config
        message = f"{config['model_name']} on {config['dataset']}"
        finished = finished_steps(self.folder)
        if finished:
            seconds = (result.get("seconds") or {}).get("training") or 0
            message += (f": {finished[0]:,} steps ({result.get('epochs') or 0:.1f} epochs) in {seconds:.1f} s"
                        f"{', stopped early' * bool(result.get('stopped_early'))}")
        for split in ("test", "best_validation"):
            if result.get(split) and result[split].get("MRR") is not None:
                near = " (near chance)" * bool((result.get("chance") or {}).get("near"))
                message += f"; {split.replace('best_validation', 'validation')} MRR {result[split]['MRR']:.4f}{near}"
                message += f", HITS@10 {result[split].get('HITS@10') or 0:.4f}"
                break
        return f"{message}; {self.folder}"

    def _repr_html_(self) -> str:
        return f"<p>{escape(self.summary())}</p><p>{escape(str(self.model)[1:-1])}</p>"

    def __repr__(self) -> str:
        return f"<Run {self.folder} {str(self.model)[1:]}"

    def _entities_for(self, side: str, k: int, exclude_known: bool, **given: Items) -> Union[Answers, AnswerLists]:
        k, known = self._wanted(k, exclude_known)
        single, (stays, relations) = read_together(self._ids, **given)
        found = best_entities(self.model, side, stays, relations, k, known)
        make_columns = partial(self._columns, side)
        answers = [Answers(ids, scores, self.names["entity"], make_columns, question)
                   for (ids, scores), question in zip(found, zip(stays.tolist(), relations.tolist()))]
        return answers[0] if single else AnswerLists(answers, make_columns)

    def _columns(self, asked: str, given: Tuple[np.ndarray, ...], ids: np.ndarray,
                 scores: np.ndarray) -> Dict[str, Column]:
        """asked: which part of the triples the answers are. given: the other entity and the relation, or both
        entities."""
        first, second = given
        heads, relations, tails = {TAIL: (first, second, ids), HEAD: (ids, second, first)}.get(asked, (
            first, ids, second))
        try:
            known: Column = are_known(self.known_triples, heads, relations, tails) if len(ids) else np.empty(0, bool)
        except InputError:  # a frame without it is better than none
            known = [None] * len(ids)
        return {"head": self._shown("entity", heads), "relation": self._shown("relation", relations),
                "tail": self._shown("entity", tails), "score": scores, "known": known}

    def _neighbours(self, given: Tuple[np.ndarray, ...], ids: np.ndarray, scores: np.ndarray) -> Dict[str, Column]:
        return {"entity": self._shown("entity", given[0]), "neighbour": self._shown("entity", ids), "score": scores}

    def _shown(self, role: str, ids: np.ndarray) -> Column:
        """Names of ids, or the ids where the run has no names."""
        names = self.names[role]
        return ids if names is None else [names[number] for number in ids.tolist()]

    def _wanted(self, k: int, exclude_known: bool = False) -> Tuple[int, Optional[KnownTriples]]:
        """k, and the triples that are no answers."""
        return integer("k", k, 1, MOST_RESULTS), self.known_triples if switch("exclude_known", exclude_known) else None

    def _read_triples(self, triples: Any) -> Columns:
        return read_triples(triples, partial(self._ids, are_ids=isinstance(triples, Triples)))

    def _ids(self, what: str, items: Items, are_ids: bool = False) -> np.ndarray:
        """The ids (n,) int64 of names and ids. what: relation, heads and so on.

        are_ids: whether they cannot be meant as names. Raises InputError: an unknown name, or an id that the model does
        not have. Warns of integers that are names of other rows, too.
        """
        role, rows = ("relation", self.model.n_relations) if what.startswith("relation") else (
            "entity", len(self.model.entity))
        given_names = []

        def id_of(name: str) -> int:
            given_names.append(name)
            return self._names_of(role).id_of(name)

        found = read_ids(what, items, id_of).astype(np.int64, copy=False)
        check_range(role, found, rows)
        if len(found) and not (are_ids or given_names) and rows <= _MOST_LOOKED_UP:
            self._warn_of_numbers(role, np.unique(found[:_LOOKED_UP]).tolist())
        return found

    def _warn_of_numbers(self, role: str, ids: Sequence[int]) -> None:
        """Warn, once, if all ids, read as names, are those of rows as well, and of other ones: a table of names that
        are numbers has integers as soon as a program has read it."""
        names, warned = self.names[role], self.__dict__.setdefault("_warned", set())
        if names is None or role in warned:
            return
        try:
            as_names = [names.id_of(str(each)) for each in ids]
        except InputError:  # of one that is no name
            return
        for own, other in zip(ids, as_names):
            if own != other:
                warned.add(role)
                warnings.warn(f"the names of this run's {'entities' if role == 'entity' else 'relations'} are numbers, "
                              f"and integers are ids: {own} is the row of {names[own]!r}, and the name '{own}' has the "
                              f"id {other}; give names as text, such as triples.astype(str)", stacklevel=5)
                return
