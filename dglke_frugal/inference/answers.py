"""The answers to a question: a list that prints as a table and becomes a pandas DataFrame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import List

from ..errors import InputError


@dataclass(frozen=True)
class Scored:
    """One answer: its id, its name (the id as text where the run has no names) and its score."""

    id: int
    name: str
    score: float


class Answers(List[Scored]):
    """Scored, best first. A list in every way, with a short form for people and one for pandas."""

    def to_pandas(self):
        """A pandas DataFrame with the columns id, name and score, best first. InputError without pandas."""
        try:
            from pandas import DataFrame
        except ImportError:
            raise InputError("to_pandas() needs pandas, which is not installed; pip install pandas") from None
        return DataFrame({name: [getattr(each, name) for each in self] for name in ("id", "name", "score")})

    def __repr__(self) -> str:
        lines = [f"{each.score:12.6g}  {each.name}" for each in self]
        return "\n".join(lines) if lines else "no answers"
