"""The ids that a lookup asks for, and where they occur, sorted out when somebody needs it."""
from __future__ import annotations

from concurrent.futures import Executor, Future
from typing import Optional

import numpy as np

from .. import _native


class Request:
    """A lookup to come: ids (n,) int64 in [0, rows), or NO_ROW for ids that stand for no row.

    Attributes:
        ids: of the rows.
    """

    def __init__(self, ids: np.ndarray, rows: int):
        """The ids must not change afterwards."""
        self.ids, self._rows = ids, rows
        self._lookup: Optional[_native.Lookup] = None
        self._sorting: Optional[Future] = None

    def sort_ahead(self, workers: Executor) -> None:
        """Have the ids sorted out in the background."""
        self._sorting = workers.submit(_native.Lookup, self.ids, self._rows)

    @property
    def is_sorted(self) -> bool:
        """Whether `lookup` is there without waiting."""
        return self._sorting is None or self._sorting.done()

    @property
    def lookup(self) -> _native.Lookup:
        """The rows, and where they occur. Raises IndexError for an id outside the table."""
        if self._lookup is None:
            self._lookup = self._sorting.result() if self._sorting else _native.Lookup(self.ids, self._rows)
        return self._lookup
