"""What the bus of a device takes of rows at random places of a large table, by their length.

A bus takes bytes or rows, whichever it has less room for, and that differs by machine. So who may choose what crosses it
(`--bus_rows auto`) measures, with the kernels that move rows beside the steps, in both directions at once.
"""
from __future__ import annotations

import time
from typing import Sequence, Tuple

import numpy as np
import torch

from .. import _native
from .device import Device
from .plan_kernels import FROM_HOST, IN_FLIGHT, prepare_gather, prepare_return

MOST_BYTES = 8 << 30  # of host memory that stands for a larger table: more translates addresses as slowly
ROWS = 4096  # short ones that go each way in a pass
PASSES, REPEATS = 16, 5


def bus_seconds(device: Device, floats: int, ranks: int, table_bytes: int) -> Tuple[float, float]:
    """What it takes to bring ROWS rows of `floats` float32 (a multiple of 32) from a table of so many bytes, and as many to
    it, at once; and the same of a `ranks`-th of them, each `ranks` times as long. Medians of REPEATS.

    Takes as much host memory, up to MOST_BYTES, while it measures. Raises _native.DeviceError if that cannot be registered.
    """
    rows = max(ROWS, min(table_bytes, MOST_BYTES) // (4 * ranks * floats))
    table = _native.HostTable(rows, ranks * floats - 1)  # and the state
    table.records[:, 0] = 0.0  # pages are there then
    registered = _native.HostRegistration(table.records) if device.torch_device.type == "cuda" else None
    try:
        return tuple(_median_seconds(device, table.records.reshape(-1, length), ROWS * floats // length)
                     for length in (floats, ranks * floats))
    finally:
        del registered


def _median_seconds(device: Device, host: np.ndarray, count: int) -> float:
    """Of `count` rows of `host` (n, floats) each way."""
    both_ways = _both_ways(device, host, count)
    both_ways()  # warms up
    return float(np.median([_seconds(both_ways) for _ in range(REPEATS)])) / PASSES


def _both_ways(device: Device, host: np.ndarray, count: int):
    """Work that moves them PASSES times in each direction, and waits."""
    random = np.random.default_rng(0)
    arriving, departing = (_some_rows(random, len(host), count) for _ in range(2))
    here = device.zeros(2 * count, host.shape[1])  # records, then the slots of what departs

    def put(array: Sequence, dtype) -> torch.Tensor:
        return torch.as_tensor(array, dtype=dtype, device=device.torch_device)

    source = put([FROM_HOST] * count, torch.int32)
    leave, slots = put([IN_FLIGHT] * count, torch.uint8), put(range(count), torch.int64)
    dim = host.shape[1] - 1
    arrive = prepare_gather(dim, host, None, put(arriving, torch.int64), source, here[:count], "bus", "host", 1)
    depart = prepare_return(dim, host, here[count:], put(departing, torch.int64), leave, slots, "bus", 1, IN_FLIGHT)
    device.synchronize()

    def repeat(kernel):
        def work():
            for _ in range(PASSES):
                kernel(count, device.stream)

        return work

    def both_ways():
        departed = device.depart(repeat(depart))  # first, since it would wait for arrivals
        device.arrive(repeat(arrive)).wait()
        departed.wait()

    return both_ways


def _some_rows(random: np.random.Generator, rows: int, count: int) -> np.ndarray:
    """As the rows of a step: distinct and ascending."""
    found = np.unique(random.integers(0, rows, count))
    while len(found) < count:
        found = np.unique(np.append(found, random.integers(0, rows, count - len(found))))
    return found


def _seconds(work) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
