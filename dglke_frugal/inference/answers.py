"""What a run answers: the best ids with their names and scores, to one question or to a list of questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Dict, List, Optional

import numpy as np

from ..data.graph import Names
from ..errors import InputError

_SHOWN = 3  # in a repr


@dataclass(frozen=True)
class Scored:
    """One answer: its id, its name (the id as text where the run has no names) and its score."""

    id: int
    name: str
    score: float


class Answers(Sequence):
    """The answers to one question, best first: a sequence of `Scored`, printed as a table. A slice is `Answers` again.

    Attributes:
        ids: (n,) int64.
        scores: (n,) float32, falling.
    """

    def __init__(self, ids: np.ndarray, scores: np.ndarray, names: Optional[Names] = None):
        """names: of all ids; None where the run has none."""
        self.ids, self.scores, self._names = ids, scores, names

    @property
    def names(self) -> List[str]:
        """The n names; ids as text where the run has no names."""
        return [str(i) if self._names is None else self._names[i] for i in self.ids.tolist()]

    def columns(self) -> Dict[str, Any]:
        """Columns id, name and score of equal length, as `pandas.DataFrame` takes them."""
        return {"id": self.ids, "name": self.names, "score": self.scores}

    def to_pandas(self):
        """The columns as a pandas DataFrame. InputError without pandas."""
        return _data_frame(self.columns())

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, place):
        if isinstance(place, slice):
            return Answers(self.ids[place], self.scores[place], self._names)
        found = int(self.ids[place])
        return Scored(found, str(found) if self._names is None else self._names[found], float(self.scores[place]))

    def __eq__(self, other) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None

    def __repr__(self) -> str:
        said = [f"{answer.name!r} {answer.score:.4g}" for answer in self[:_SHOWN]]
        return f"Answers({', '.join(said)}{', ...' if len(self) > _SHOWN else ''}; {len(self)} in all)"

    def __str__(self) -> str:
        return "\n".join(f"{answer.score:12.6g}  {answer.name}" for answer in self) or "no answers"


class AnswerLists(Sequence):
    """The answers to a list of questions: element i is the `Answers` to question i. Printed as a table for each."""

    def __init__(self, answers: List[Answers]):
        self._answers = answers

    def columns(self) -> Dict[str, Any]:
        """All answers, one after the other, as columns question (from 0), id, name and score of equal length."""
        parts = [answers.columns() for answers in self._answers]
        return {
            "question": np.repeat(np.arange(len(parts)), [len(answers) for answers in self._answers]),
            "id": np.concatenate([np.empty(0, np.int64), *(part["id"] for part in parts)]),
            "name": [name for part in parts for name in part["name"]],
            "score": np.concatenate([np.empty(0, np.float32), *(part["score"] for part in parts)]),
        }

    def to_pandas(self):
        """The columns as a pandas DataFrame. InputError without pandas."""
        return _data_frame(self.columns())

    def __len__(self) -> int:
        return len(self._answers)

    def __getitem__(self, place):
        return AnswerLists(self._answers[place]) if isinstance(place, slice) else self._answers[place]

    def __eq__(self, other) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None

    def __repr__(self) -> str:
        said = [repr(answers) for answers in self._answers[:_SHOWN]]
        return f"AnswerLists({', '.join(said)}{', ...' if len(self) > _SHOWN else ''}; {len(self)} questions)"

    def __str__(self) -> str:
        return "\n".join(f"question {i}:\n{answers}" for i, answers in enumerate(self._answers)) or "no questions"


def _data_frame(columns: Dict[str, Any]):
    try:
        from pandas import DataFrame
    except ImportError:
        raise InputError("to_pandas() needs pandas, which is not installed; pip install pandas") from None
    return DataFrame(columns)
