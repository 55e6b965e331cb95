"""Which rows a device has of a table behind the engine: how they cross the bus."""

from __future__ import annotations

from typing import Optional

from .. import _native
from ..errors import InputError
from .carried_rows import CarriedRows
from .device import Device
from .engine_rows import CopiedRows, DirectWriteRows, EngineRows, MappedRows
from .flush_config import FlushConfig
from .half_embeddings import Rounding
from .meeting_rows import MeetingRows


def make_engine_rows(table: _native.HostTable, port: _native.RankPort, slots: int, config: FlushConfig, device: Device,
                     rounding: Optional[Rounding] = None, exchange=None) -> EngineRows:
    """Rows that cross the bus as config.host_read says: uva (in place), copy, or auto: the faster one that is possible.

    slots: of this rank's cache. rounding: of a table in halves, which is read in place. exchange: of ranks that meet.
    Raises InputError if uva is asked for and refused.
    """
    lookahead, max_rows = config.lookahead, config.max_rows_per_step
    if config.carried:
        try:
            return CarriedRows(table, port, slots, lookahead, device, max_rows, rounding)
        except _native.DeviceError as error:
            raise InputError(f"--bus_rows whole is not possible: {error}; use --bus_rows own") from error
    host_read = "uva" if rounding else config.host_read
    try:
        way = device.host_read(table, max_rows, host_read)
    except InputError as error:
        if config.meets:
            raise InputError("GPUs that meet read host rows in place; use --host_read copy, with which flush threads "
                             f"bring values home, since that is refused: {error}") from error
        if rounding is None:
            raise
        raise InputError(f"--row_dtype {rounding.element} needs host rows that the device reads in place; use "
                         f"--row_dtype fp32, since that is refused: {error}") from error
    if way == "uva":
        try:
            if config.meets:
                return MeetingRows(table, port, slots, lookahead, device, max_rows, exchange)
            if port.reads_follow_stores:
                return DirectWriteRows(table, port, slots, lookahead, device, max_rows, rounding)
            return MappedRows(table, port, slots, lookahead, device, rounding=rounding)
        except _native.DeviceError as error:
            if host_read == "uva":
                raise InputError(f"--host_read uva is not possible: {error}; use --host_read copy") from error
            print(f"host rows are copied to the device instead of read in place: {error}", flush=True)
    return CopiedRows(table, port, slots, lookahead, device, max_rows, config.max_gradients_per_step)
