"""The rows of a run's table with the names that they are of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Callable, Iterator, List, Sequence, Union

import numpy as np

from ..arguments import is_single
from ..errors import InputError
from ..evaluation.model import take_rows
from ..frames import data_frame

if TYPE_CHECKING:
    from pandas import DataFrame


class Embeddings(Mapping):
    """A table of embeddings by name: `embeddings["anna"]` is a row (dim,), `embeddings[["anna", "ben"]]` rows (2, dim),
    float32. Ids do as well. NumPy takes it as an array (n, dim) in the order of the ids.

    Raises InputError for a name or an id that there is not.
    """

    def __init__(self, table: Any, names: Sequence[str], ids: Callable[[Any], np.ndarray]):
        """table: (n, dim), an array, memory-mapped or not, or a tensor. ids: from names or ids to ids (m,)."""
        self._table, self.names, self._ids = table, names, ids

    @property
    def vectors(self) -> np.ndarray:
        """The table (n, dim) float32, memory-mapped where it is a file; a copy of one that is on a GPU."""
        return self._table if isinstance(self._table, np.ndarray) else self._table.detach().cpu().numpy()

    def __getitem__(self, items: Union[str, int, Sequence[Any], np.ndarray]) -> np.ndarray:
        rows = np.array(take_rows(self._table, self._ids(items)), np.float32)
        return rows[0] if is_single(items) else rows

    def get(self, items: Any, default: Any = None) -> Any:
        """The row or the rows; `default` in place of the InputError for a name or an id that there is not."""
        try:
            return self[items]
        except InputError:
            return default

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __contains__(self, name: object) -> bool:
        try:
            self._ids(name)
        except InputError:
            return False
        return True

    def __len__(self) -> int:
        return len(self._table)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.array(self.vectors, dtype=dtype) if copy or dtype is not None else self.vectors

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"<Embeddings of {len(self):,} names, {self._table.shape[1]} numbers each>"

    def to_pandas(self) -> DataFrame:
        """A DataFrame with a row for each name, which is its index, and a column for each number. InputError without
        pandas."""
        vectors = self.vectors
        names: List[str] = list(self.names)
        return data_frame({str(number): vectors[:, number] for number in range(vectors.shape[1])}, "to_pandas()", names)
