"""The ids that a lookup asks for, and where they occur, sorted out when somebody needs it."""
from __future__ import annotations

from typing import TYPE_CHECKING, Optional, Union

import numpy as np
import torch

from .. import _native

if TYPE_CHECKING:
    from .device.device import Device

Sorted = Union[_native.Lookup, _native.DeviceLookup]


class Request:
    """A lookup to come: ids (n,) int64 in [0, rows), or NO_ROW for ids that stand for no row.

    Attributes:
        ids: of the rows.
        packed_in: (bytes,) uint8 in which `sorted` lies when it is there, if it was sorted out into such memory.
    """

    packed_in: Optional[np.ndarray] = None
    _given: Optional[tuple] = None

    def __init__(self, ids: np.ndarray, rows: int, owners: int = 1):
        """The ids must not change afterwards. owners: of the rows, by whom `sorted` has them in order."""
        self.ids, self._rows, self._owners = ids, rows, owners
        self._sorted: Optional[Sorted] = None
        self._error: Optional[Exception] = None
        self._sorting: Optional[Union[_native.SortedAhead, _native.DeviceLookup]] = None

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

    def sort_on(self, device: Device) -> None:
        """Have the ids sorted out by a device (Device.sort)."""
        self._sorting = device.sort(self.ids, self._rows, self._owners)

    @property
    def is_ready(self) -> bool:
        """Whether `sorted` is there, without waiting and without an error."""
        if self._sorting is not None and self._sorting.ready:
            self._take()
        return self._sorted is not None and self._sorting is None

    @property
    def sorted(self) -> Sorted:
        """The distinct rows, and where they occur, in the memory of the host or of the device that has sorted them.
        Raises IndexError for an id outside the table."""
        if self._sorting is not None:
            self._take()
        if self._error is not None:
            raise self._error
        if self._sorted is None:
            self._sorted = _native.Lookup(self.ids, self._rows, self._owners)
        return self._sorted

    @property
    def lookup(self) -> _native.Lookup:
        """The same in the memory of the host."""
        if isinstance(self.sorted, _native.DeviceLookup):
            self._sorted = _native.Lookup(self.ids, self._rows, self._owners)
        return self._sorted

    def forget_sorted(self) -> None:
        """The memory of `sorted` is somebody else's from now on."""
        self._sorted = None

    def leave_behind(self) -> object:
        """In a forked process, which lacks the thread or the device that sorts: the ids are sorted out when somebody
        needs it. Returns the sort and its result, which must not be deleted here: the one waits, the other is a
        device's."""
        left, self._sorting, self._sorted, self.packed_in = (self._sorting, self._sorted), None, None, None
        return left

    def _take(self) -> None:
        sorting, self._sorting = self._sorting, None
        try:
            self._sorted = sorting.take()
        except (IndexError, ValueError) as error:  # it is for whoever looks the ids up
            self._error = error
