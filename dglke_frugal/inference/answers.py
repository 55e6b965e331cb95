"""Answers of a run: the best ids with their names and scores, to one question or to a list of questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

import numpy as np

from ..data.graph import Names
from ..frames import data_frame, html_table

if TYPE_CHECKING:
    from pandas import DataFrame

_SHOWN = 3  # in a repr
Column = Any  # an array or a list
# From (the ids that the question gives, of each answer; ids, scores of the answers) to columns.
MakeColumns = Callable[[Tuple[np.ndarray, ...], np.ndarray, np.ndarray], Dict[str, Column]]


@dataclass(frozen=True)
class Scored:
    """One answer: its id, its name (the id as text where the run has no names) and its score."""

    id: int
    name: str
    score: float


class _Frame(Sequence):
    """Answers as a frame: columns of equal length by name."""

    def to_dict(self) -> Dict[str, Column]:
        """The columns by name: names (n,) of head, relation and tail, `score` (n,) float32, and `known` (n,) bool,
        whether train, valid or test has the triple, None where the data are not there; of `Run.nearest` the names
        `entity` and `neighbour`, and `score`."""
        raise NotImplementedError

    def to_pandas(self) -> DataFrame:
        """The columns as a pandas DataFrame. InputError without pandas."""
        return data_frame(self.to_dict(), "to_pandas()")

    @property
    def columns(self) -> List[str]:
        """The names of the columns."""
        return list(self.to_dict())

    def _column(self, name: str) -> Column:
        columns = self.to_dict()
        if name not in columns:
            raise KeyError(f"there is no column {name!r}; there are {', '.join(columns)}")
        return columns[name]

    def _repr_html_(self) -> str:
        return html_table(self.to_dict())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


class Answers(_Frame):
    """The answers to one question, best first: a sequence of `Scored`, printed as a table. A slice is `Answers` again,
    and `answers["tail"]` a column.

    Attributes:
        ids: (n,) int64.
        scores: (n,) float32, falling.
    """

    def __init__(self, ids: np.ndarray, scores: np.ndarray, names: Optional[Names], make_columns: MakeColumns,
                 given: Tuple[int, ...] = ()):
        """names: of all ids; None where the run has none. given: the ids of the question, which make_columns takes."""
        self.ids, self.scores, self._names, self._make_columns, self.given = ids, scores, names, make_columns, given

    @property
    def names(self) -> List[str]:
        """The n names; ids as text where the run has no names."""
        return [str(i) if self._names is None else self._names[i] for i in self.ids.tolist()]

    def to_dict(self) -> Dict[str, Column]:
        return AnswerLists([self], self._make_columns).to_dict()

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, str):
            return self._column(place)
        if isinstance(place, slice):
            return Answers(self.ids[place], self.scores[place], self._names, self._make_columns, self.given)
        found = int(self.ids[place])
        return Scored(found, str(found) if self._names is None else self._names[found], float(self.scores[place]))

    def __repr__(self) -> str:
        message = [f"{answer.name!r} {answer.score:.4g}" for answer in self[:_SHOWN]]
        return f"Answers({', '.join(message)}{', ...' if len(self) > _SHOWN else ''}; {len(self)} in all)"

    def __str__(self) -> str:
        return "\n".join(f"{answer.score:12.6g}  {answer.name}" for answer in self) or "no answers"


class AnswerLists(_Frame):
    """The answers to a list of questions: element i is the `Answers` to question i. Printed as a table for each; as a
    frame, the answers to all questions one after the other."""

    def __init__(self, answers: List[Answers], make_columns: MakeColumns):
        """make_columns: as that of the answers."""
        self._answers, self._make_columns = answers, make_columns

    def to_dict(self) -> Dict[str, Column]:
        lengths = [len(answers) for answers in self._answers]
        given = zip(*(answers.given for answers in self._answers))
        columns = tuple(np.repeat(np.array(column, np.int64), lengths) for column in given)
        ids = np.concatenate([np.empty(0, np.int64), *(answers.ids for answers in self._answers)])
        scores = np.concatenate([np.empty(0, np.float32), *(answers.scores for answers in self._answers)])
        return self._make_columns(columns or (np.empty(0, np.int64),) * 2, ids, scores)

    def __len__(self) -> int:
        return len(self._answers)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, str):
            return self._column(place)
        if isinstance(place, slice):
            return AnswerLists(self._answers[place], self._make_columns)
        return self._answers[place]

    def __repr__(self) -> str:
        message = [repr(answers) for answers in self._answers[:_SHOWN]]
        return f"AnswerLists({', '.join(message)}{', ...' if len(self) > _SHOWN else ''}; {len(self)} questions)"

    def __str__(self) -> str:
        return "\n".join(f"question {i}:\n{answers}" for i, answers in enumerate(self._answers)) or "no questions"


@dataclass(frozen=True)
class ScoredTriple:
    """A triple by names (ids as text where the run has none), and its score."""

    head: str
    relation: str
    tail: str
    score: float


class TripleAnswers(_Frame):
    """Triples with their scores, best first: a sequence of `ScoredTriple`, and a frame.

    Attributes:
        heads, relations, tails: (n,) int64.
        scores: (n,) float32, falling.
    """

    def __init__(self, heads: np.ndarray, relations: np.ndarray, tails: np.ndarray, scores: np.ndarray,
                 make_columns: MakeColumns):
        """make_columns: from ((heads, relations), tails, scores)."""
        self.heads, self.relations, self.tails, self.scores = heads, relations, tails, scores
        self._make_columns = make_columns

    def to_dict(self) -> Dict[str, Column]:
        return self._make_columns((self.heads, self.relations), self.tails, self.scores)

    def __len__(self) -> int:
        return len(self.scores)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, str):
            return self._column(place)
        if not isinstance(place, slice):
            place = range(len(self))[place]
            return self[place : place + 1]._only()
        return TripleAnswers(self.heads[place], self.relations[place], self.tails[place], self.scores[place],
                             self._make_columns)

    def _only(self) -> ScoredTriple:
        columns = self.to_dict()
        head, relation, tail = (str(columns[name][0]) for name in ("head", "relation", "tail"))
        return ScoredTriple(head, relation, tail, float(self.scores[0]))

    def __repr__(self) -> str:
        return f"TripleAnswers({', '.join(map(repr, self[:_SHOWN]))}{', ...' if len(self) > _SHOWN else ''})"

    def __str__(self) -> str:
        columns = self.to_dict()
        rows = zip(*(columns[name] for name in ("score", "head", "relation", "tail")))
        return "\n".join(f"{score:12.6g}  {head}  {relation}  {tail}" for score, head, relation, tail in rows) or (
            "no answers")
