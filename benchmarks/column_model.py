"""Several GPUs by columns, on paper: the time of a step from that of one GPU and the rates of links.

Of results of `benchmarks.ranks --gpu` (several_gpus.py).
"""
from __future__ import annotations

from typing import Any, List, Mapping, Tuple

from .train import BATCH, NEGATIVES

RANKS = (2, 4, 8)
LINK = 4 * 2**20 / 27e-6  # bytes a second: a copy of 4 MiB from one H200 to another took 27 us
MEETING = 5e-6  # assumed: a launch, words over NVLink and back
FACTS = 8  # floats of a positive that go with its weights
ROW_BYTES = 1616  # of a row of dim 400
# Microseconds of the bus for a row of so many bytes of a table of 8 GB, both ways at once (docs/gpu_measured.md): 43 rows
# of 1.6 kB and 58 of .9 kB a microsecond.
BUS_ROW = ((ROW_BYTES, 1 / 43), (900, 1 / 58))
ABOUT = """\
A step of n ranks by columns takes d + x. d is a step of one GPU alone (measured): with an nth of the columns and n times
the batch, products and rows are as many. x is the exchange: the bytes that a rank sends at the rate of a copy between
two H200 (4 MiB in 27 us), or, without peers, those that it writes and reads at the rate of the bus, which is solved for
from FB15k's two GPUs without peers; and 5 us for each meeting (assumed). Behind a cache of a large table, where one
GPU waits for the bus, rows and computation go on beside each other, and a step takes what takes longer. Computation: d + x
as of a small table on the devices. Rows: d times what n times as many rows of an nth of the bytes take over those of one
GPU, by rates of 43 rows of 1.6 kB and 58 of .9 kB a microsecond, a line through which says what shorter ones take; where
GPUs carry whole rows for each other each moves as many as one alone, and there are two more meetings beside them. "All to
all": each rank
sends all of its raw scores to all others, and there are two meetings, as up to commit 1365fc7. "Shares": it sends each
its share of them and the weights of its own share to all, and there are three. "Model over that" is of the way by which
it was measured.
"""
# What is compared: its name, the part, the leg of several GPUs, that of one.
LEGS = [("FB15k, on the devices", "fb15k", "columns_on_device", "one_on_device"),
        ("FB15k, 5 % cached", "fb15k", "columns", "one"),
        ("FB15k, no peers", "fb15k", "columns_no_peer", "one_on_device"),
        ("FB15k, ComplEx", "models", "ComplEx_columns", "ComplEx_one"),
        ("FB15k, RotatE", "models", "RotatE_columns", "RotatE_one"),
        ("20 M rows, 5 % cached", "large", "columns", "one"),
        ("20 M rows, 5 % cached, whole", "large", "columns_whole", "one"),
        ("20 M rows, no peers", "large", "columns_no_peer", "one")]


def sent(ranks: int, shares: bool) -> float:
    """Bytes that a rank sends to others' devices in a step."""
    positives = ranks * BATCH
    scores, weights = 4 * positives * (1 + NEGATIVES), 4 * positives * (NEGATIVES + FACTS)
    return (ranks - 1) / ranks * (scores + weights) if shares else (ranks - 1) * scores


def over_bus(ranks: int, shares: bool) -> float:
    """Bytes that a rank writes to host memory and reads there in a step without peers."""
    positives = ranks * BATCH
    scores, weights = 4 * positives * (1 + NEGATIVES), 4 * positives * (NEGATIVES + FACTS)
    if not shares:
        return ranks * scores
    return (ranks - 1) / ranks * scores + weights / ranks + sent(ranks, True)


def rows_over_one(ranks: int) -> float:
    """What a rank's rows take of the bus in a step of so many ranks, over those of one GPU alone."""
    (long, of_long), (short, of_short) = BUS_ROW
    a_byte = (of_long - of_short) / (long - short)
    return ranks * (of_long - a_byte * (ROW_BYTES - ROW_BYTES / ranks)) / of_long


class ColumnModel:
    """See ABOUT. Times are in seconds."""

    def __init__(self, result: Mapping[str, Any]):
        self._result = result
        self.shares = result.get("exchange") == "shares"  # by which it was measured
        self._waits_for_bus = result.get("one_gpu_waits_for") == "bus"  # behind a cache of the large table
        both = self.measured("fb15k", "columns_no_peer", 2)
        alone = self.measured("fb15k", "one_on_device", 1)
        meetings = (3 if self.shares else 2) * MEETING
        self.bus = over_bus(2, self.shares) / (both - alone - meetings) if both and alone else None

    def measured(self, part: str, leg: str, ranks: int) -> float | None:
        """A step of all ranks; None if it was not measured."""
        rate = self._result.get(part, {}).get(leg if ranks == 1 else f"{leg}_{ranks}", {}).get("triples_per_second")
        return ranks * BATCH / rate if rate else None

    def step(self, part: str, leg: str, one: str, ranks: int, shares: bool) -> float | None:
        """A step of that many GPUs; None if there is nothing to go by."""
        alone, whole = self.measured(part, one, 1), leg.endswith("whole")
        meetings = (3 if shares else 2) * MEETING
        if alone is None:
            return None
        if leg.endswith("no_peer"):
            return alone + over_bus(ranks, shares) / self.bus + meetings if self.bus else None
        exchange = sent(ranks, shares) / LINK + meetings
        if part != "large" or not self._waits_for_bus:
            return alone + exchange
        rows = alone + 2 * MEETING if whole else alone * rows_over_one(ranks)
        return max(rows, (self.measured("fb15k", "one_on_device", 1) or alone) + exchange)


def is_measured(result: Mapping[str, Any]) -> bool:
    """Whether a result has what the model is for."""
    return "n_gpus_over_one" in result


def rows(result: Mapping[str, Any]) -> Tuple[List[str], List[list]]:
    """Heads and rows of a table: microseconds of a step by leg and number of GPUs."""
    model = ColumnModel(result)
    heads = ["what, GPUs", "all to all, us", "shares, us", "measured, us", "model over that", "shares, triples/s"]
    table = []
    for name, part, leg, one in LEGS:
        for ranks in RANKS:
            before, after = (model.step(part, leg, one, ranks, shares) for shares in (False, True))
            if before is not None and after is not None:
                measured = model.measured(part, leg, ranks)
                of_model = after if model.shares else before
                table.append([f"{name}, {ranks}", 1e6 * before, 1e6 * after, measured and 1e6 * measured,
                              measured and of_model / measured, ranks * BATCH / after])
    return heads, table
