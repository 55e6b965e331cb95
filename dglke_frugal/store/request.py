"""The ids that a lookup asks for, and where they occur, sorted out when somebody needs it."""
from __future__ import annotations

from typing import Optional

import numpy as np
import torch

from .. import _native


class Request:
    """A lookup to come: ids (n,) int64 in [0, rows), or NO_ROW for ids that stand for no row.

    Attributes:
        ids: of the rows.
        packed_in: (bytes,) uint8 in which `lookup` lies when it is there, if it was sorted out into such memory.
    """

    packed_in: Optional[np.ndarray] = None
    _given: Optional[tuple] = None

    def __init__(self, ids: np.ndarray, rows: int, owners: int = 1):
        """The ids must not change afterwards. owners: of the rows, by whom `lookup` has them in order."""
        self.ids, self._rows, self._owners = ids, rows, owners
        self._lookup: Optional[_native.Lookup] = None
        self._error: Optional[Exception] = None
        self._sorting: Optional[_native.SortedAhead] = None

    def remember(self, given: torch.Tensor) -> None:
        """The tensor that the ids were taken from."""
        if not given.is_inference():  # which does not say whether it was changed
            self._given = given, given._version

    def is_of(self, given: torch.Tensor) -> bool:
        """Whether the ids are those of this very tensor, which has not been changed since."""
        return self._given is not None and given is self._given[0] and given._version == self._given[1]

    def sort_ahead(self, memory: Optional[np.ndarray] = None) -> None:
        """Have the ids sorted out in the background, in memory (Lookup.most_packed_bytes,) uint8 if it is given: as
        long as the lookup is used, it holds this array."""
        self.packed_in = memory
        self._sorting = _native.SortedAhead(self.ids, self._rows, memory, self._owners)

    @property
    def is_ready(self) -> bool:
        """Whether `lookup` is there, without waiting and without an error."""
        if self._lookup is None and self._sorting is not None and self._sorting.ready:
            self._take()
        return self._lookup is not None

    @property
    def lookup(self) -> _native.Lookup:
        """The rows, and where they occur. Raises IndexError for an id outside the table."""
        if self._lookup is None and self._sorting is not None:
            self._take()
        if self._error is not None:
            raise self._error
        if self._lookup is None:
            self._lookup = _native.Lookup(self.ids, self._rows, self._owners)
        return self._lookup

    def leave_behind(self) -> object:
        """In a forked process, which lacks the thread that sorts: the ids are sorted out when somebody needs it. What
        waits for that thread, and must not be deleted here."""
        sorting, self._sorting, self.packed_in = self._sorting, None, None
        return sorting

    def _take(self) -> None:
        try:
            self._lookup = self._sorting.take()
        except (IndexError, ValueError) as error:  # it is for whoever looks the ids up
            self._error = error
        self._sorting = None
