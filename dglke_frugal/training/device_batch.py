"""All that a step on a device is told, as one block of memory: packed on the host, transferred by one copy."""
from __future__ import annotations

from typing import Dict, List, Sequence, Tuple

import numpy as np
import torch

from ..store.device import Device
from ..store.device_rows import Plan

ALIGNMENT = 16
BUFFERS = 4  # steps whose packed block may be on its way

INDEX_FIELDS = ("head_slot", "tail_slot", "negative_slot", "relation_slot", "positive_offset", "positive_occurrence",
                "negative_offset", "negative_occurrence", "relation_offset", "relation_occurrence")


class Packing:
    """The layout of a block: named arrays of fixed lengths, one after the other."""

    def __init__(self, fields: Sequence[Tuple[str, np.dtype, int]]):
        self._fields, self.bytes = [], 0
        for name, dtype, length in fields:
            self._fields.append((name, np.dtype(dtype), length, self.bytes))
            self.bytes += -(-np.dtype(dtype).itemsize * length // ALIGNMENT) * ALIGNMENT

    def arrays(self, block: np.ndarray) -> Dict[str, np.ndarray]:
        """Views of a block (bytes,) uint8 in host memory."""
        return {name: block[start : start + dtype.itemsize * length].view(dtype)
                for name, dtype, length, start in self._fields}

    def tensors(self, block: torch.Tensor) -> Dict[str, torch.Tensor]:
        """Views of a block (bytes,) uint8 in device memory."""
        return {name: block[start : start + dtype.itemsize * length].view(getattr(torch, dtype.name))
                for name, dtype, length, start in self._fields}


class BatchTransfer:
    """The way of batches of one shape to the device.

    The arrays in `device` stay where they are from step to step: their addresses may be captured.
    """

    def __init__(self, device: Device, fields: Sequence[Tuple[str, np.dtype, int]]):
        packing = Packing(fields)
        self._device = device
        self._host = [device.pinned(packing.bytes, dtype=np.uint8) for _ in range(BUFFERS)]
        self._arrays = [packing.arrays(block.numpy()) for block in self._host]
        self._marks: List = [None] * BUFFERS
        self._block = device.zeros(packing.bytes, dtype=np.uint8)
        self._turn = 0
        self.device = packing.tensors(self._block)

    def arrays(self) -> Dict[str, np.ndarray]:
        """Host arrays for the next step, once their last transfer is over."""
        mark = self._marks[self._turn]
        if mark is not None:
            mark.wait()
        return self._arrays[self._turn]

    def send(self):
        """Work to submit: the copy of the arrays that were filled last."""
        host = self._host[self._turn]
        return lambda: self._block.copy_(host, non_blocking=True)

    def sent(self) -> None:
        """The copy has been submitted."""
        self._marks[self._turn] = self._device.mark()
        self._turn = (self._turn + 1) % BUFFERS


def plan_fields(table: str, rows: int) -> List[Tuple[str, np.dtype, int]]:
    """The fields of a table's plan."""
    return [(f"{table}_{name}", dtype, rows) for name, dtype in Plan.FIELDS]


def plan_of(table: str, arrays) -> Plan:
    """The plan of a table, out of a block's arrays or tensors."""
    return Plan(*(arrays[f"{table}_{name}"] for name, _ in Plan.FIELDS))


def index_fields(positives: int, negatives: int, entities: int, relations: int) -> List[Tuple[str, np.dtype, int]]:
    """The fields of a batch: B positives, N negatives in all, and room for the distinct entities and relations."""
    lengths = {"head_slot": positives, "tail_slot": positives, "negative_slot": negatives, "relation_slot": positives,
               "positive_offset": entities + 1, "positive_occurrence": 2 * positives, "negative_offset": entities + 1,
               "negative_occurrence": negatives, "relation_offset": relations + 1, "relation_occurrence": positives}
    return [(name, np.int32, lengths[name]) for name in INDEX_FIELDS] + [
        ("sum_offset", np.int32, entities + 1), ("sum_order", np.int32, entities), ("weight", np.float32, positives)]


def write_indices(batch, arrays: Dict[str, np.ndarray]) -> None:
    """Fill the fields of index_fields. Offsets of rows that only pad are those of no occurrence."""
    for name in INDEX_FIELDS:
        values, into = getattr(batch, name), arrays[name]
        into[: len(values)] = values
        if name.endswith("offset"):
            into[len(values) :] = values[-1]
    # The positives' entry has one gradient, their sum, for each row that occurs among them.
    occurs = np.diff(arrays["positive_offset"]) > 0
    arrays["sum_offset"][0] = 0
    np.cumsum(occurs, out=arrays["sum_offset"][1:])
    rows = np.flatnonzero(occurs)
    arrays["sum_order"][: len(rows)] = rows
    if len(batch.weight):
        arrays["weight"][:] = batch.weight
