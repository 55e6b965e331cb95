"""Which rows a device has of a table behind the engine."""

from __future__ import annotations

from typing import Optional

from .. import _native
from ..errors import InputError
from .carried_rows import CarriedRows
from .device import Device
from .engine_rows import DirectWriteRows, EngineRows
from .flush_config import FlushConfig
from .half_embeddings import Rounding
from .meeting_rows import MeetingRows


def make_engine_rows(table: _native.HostTable, port: _native.RankPort, slots: int, config: FlushConfig, device: Device,
                     rounding: Optional[Rounding] = None, exchange=None) -> EngineRows:
    """slots: of this rank's cache. rounding: of a table in halves. exchange: of ranks that meet.

    Raises InputError where the device cannot read host memory in place.
    """
    lookahead, max_rows = config.lookahead, config.max_rows_per_step
    try:
        if config.carried:
            return CarriedRows(table, port, slots, lookahead, device, max_rows, rounding)
        device.register(table)
        if config.meets:
            return MeetingRows(table, port, slots, lookahead, device, max_rows, exchange)
        if config.mode == "direct":
            return DirectWriteRows(table, port, slots, lookahead, device, max_rows, rounding)
        return EngineRows(table, port, slots, lookahead, device, rounding=rounding)
    except _native.DeviceError as error:
        raise InputError(f"the GPU cannot read the table in host memory: {error}; raise the limit of locked memory "
                         "(ulimit -l unlimited, in a container --ulimit memlock=-1), or use --flush none if the table "
                         "fits the GPU") from error
