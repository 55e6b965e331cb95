"""A step of one and of several GPUs by arithmetic, for cards without peer access, on which no benchmark has run.

    python -m benchmarks.gpu_model --json FILE

It measures nothing: four constants are solved from legs of `benchmarks.ranks`, and the other legs check the model. A
step of TransE_l2, ComplEx or RotatE (rows of 400 floats, batch 1024 on each GPU, 256 negatives; by columns a joined
batch, so that bytes and products of a GPU stay the same) takes

    max(slow x (launches + memory + exchange) + products, bus)

- launches: 4 us each, 2 of them between two kernels of a graph. memory: the step's bytes at MEMORY of the card's rate.
  products: the step's FLOP at a share of the card's float32 rate, solved from TransE_l2 and RotatE on one H100.
- exchange by columns: raw scores and weights, and three meetings; over NVLink, or through host memory, which each GPU
  writes and then reads. Data parallel: four meetings.
- bus, for a table in host memory: the rows that a cache of 5 % does not hold (data parallel: all rows, and the sums of
  relations), read and written at once while kernels run, at the rate solved from one H100 with 20 million rows, or at
  that of a slower bus or host memory.
- slow: kernels that use memory take longer while rows cross the bus; solved from two H100 with 20 million rows, else 1.

Not in the model: the L2 cache of a GPU, a table of a few MB in host memory (its rows cross a bus faster), flush
threads, and cards that share lanes of a bus.
"""
from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Dict, Mapping, NamedTuple, Optional, Tuple

from . import result_file
from .train import BATCH, NEGATIVES


class Card(NamedTuple):
    """Bytes a second of its memory, float32 FLOP a second, bytes a second of its bus each way and of host memory."""

    memory: float
    flops: float
    bus: float
    host: float = math.inf


X8, X16, PCIE5 = 15.75e9, 31.5e9, 63e9  # PCI-SIG: PCIe 4.0 and 5.0 have 16 and 32 GT/s a lane, 128 bits of 130
SERVER, DESKTOP = 204.8e9, 89.6e9  # JEDEC: eight channels of DDR4-3200, two of DDR5-5600
CARDS = {  # NVIDIA's data sheets of H100 SXM, H200 SXM, RTX 3090 and RTX 4090
    "H100": Card(3.35e12, 67e12, PCIE5), "H200": Card(4.8e12, 67e12, PCIE5),
    "RTX 3090": Card(936e9, 35.6e12, X16, SERVER), "RTX 4090": Card(1008e9, 82.6e12, X16, SERVER),
    "RTX 3090, desktop": Card(936e9, 35.6e12, X8, DESKTOP), "RTX 4090, desktop": Card(1008e9, 82.6e12, X8, DESKTOP)}
LAUNCH, MEETING = 4e-6, 5e-6  # seconds; a meeting is a launch, and words to the other GPUs and back
MEMORY, HOST = 0.8, 0.7  # the shares of their rates that a card's memory and host memory are taken to reach
LINK = 4 * 2**20 / 27e-6  # bytes a second: 4 MiB from one H200 to another over NVLink took 27 us
BUS = 0.57  # of a bus one way: two H100 took 196 us a step of FB15k with --peer off, of 4.3 MB (no result has it)
FLOATS, WITH_WEIGHTS = 400, 8  # of a row; of a positive, that go with its weights
ROW, HALF_ROW = 1664, 896  # bytes in host memory, with the state, in float32 and in fp16
PAIRS = BATCH * NEGATIVES
# For each triple four rows, one of them a negative, are read, updated (read and written), and have gradients (written
# and read); a query goes through memory four times, and so do scores.
BYTES = 4 * (BATCH * FLOATS * (4 * 5 + 4) + 4 * PAIRS)
FLOP = 3 * 2 * PAIRS * FLOATS  # scores, gradients of queries, gradients of negatives; RotatE's are solved
LAUNCHES = {"TransE_l2": 6, "ComplEx": 7, "RotatE": 7}
RELATION = {"TransE_l2": 400, "ComplEx": 400, "RotatE": 200}  # floats
# Distinct entities of a joined step of so many GPUs in the generated graph of 20 million, and how many of them caches
# of 5 % on each GPU do not hold; distinct relations of a GPU's batch. Counted.
TOUCHED, MISSED, RELATIONS = {1: 3030, 2: 6039, 4: 11995, 8: 23749}, {1: 1775, 2: 2445, 4: 3273, 8: 4898}, 551


@dataclass(frozen=True)
class Step:
    """way: alone, peer (by columns over peer access), columns (by columns through host memory) or rows (data parallel
    through host memory). host: the table lies there. missed: entities over the bus, unless as counted."""

    card: str
    model: str = "TransE_l2"
    gpus: int = 1
    way: str = "alone"
    host: bool = False
    row: int = ROW
    missed: Optional[int] = None


Leg = Tuple[str, str, str]
ON_CARD, IN_HOST, PEER = Step("H100"), Step("H100", host=True), Step("H100", gpus=2, way="peer")
ONE, TWO, FOUR = "train_gpu-1gpu", "ranks-2gpus", "ranks-4gpus"
SOLVED: Dict[Leg, Step] = {
    (TWO, "fb15k", "one_on_device"): ON_CARD, (TWO, "models", "RotatE_one"): replace(ON_CARD, model="RotatE"),
    (TWO, "large", "one"): IN_HOST, (TWO, "large", "columns_2"): replace(PEER, host=True)}
CHECKED: Dict[Leg, Step] = {  # the large graph of train_gpu has more triples, so a cache misses more
    (ONE, "fb15k", "frugal_default"): ON_CARD, (TWO, "models", "ComplEx_one"): replace(ON_CARD, model="ComplEx"),
    (ONE, "large", "frugal"): replace(IN_HOST, missed=1938),
    (ONE, "large", "frugal_fp16_rows"): replace(IN_HOST, missed=1938, row=HALF_ROW),
    (TWO, "large", "one_fp16"): replace(IN_HOST, row=HALF_ROW),
    (FOUR, "fb15k", "one_on_device"): Step("H200"), (FOUR, "large", "one"): Step("H200", host=True),
    (TWO, "fb15k", "columns_on_device_2"): PEER,
    **{(TWO, "models", f"{model}_columns_2"): replace(PEER, model=model) for model in ("ComplEx", "RotatE")},
    (TWO, "large", "columns_uncached_2"): replace(PEER, host=True, missed=TOUCHED[2]),
    (TWO, "large", "columns_fp16_2"): replace(PEER, host=True, row=HALF_ROW),
    (TWO, "large", "rows_meet_uncached_no_peer_2"): Step("H100", gpus=2, way="rows", host=True),
    **{(FOUR, part, f"{leg}_{gpus}"): Step("H200", gpus=gpus, way="peer", host=part == "large")
       for part, leg in (("fb15k", "columns_on_device"), ("large", "columns")) for gpus in (2, 4)}}


class Model:
    """Seconds of steps. measured: triples a second of the legs in SOLVED."""

    def __init__(self, measured: Mapping[Leg, float]):
        transe, rotate, one, two = ((step.gpus * BATCH / measured[leg], self.before_products(step))
                                    for leg, step in SOLVED.items())
        products = transe[0] - transe[1]
        self.flops_share = FLOP / products / CARDS["H100"].flops
        self.flop = {**dict.fromkeys(LAUNCHES, FLOP), "RotatE": FLOP * (rotate[0] - rotate[1]) / products}
        self.rows_rate = MISSED[1] * ROW / one[0]  # bytes a second each way
        self.slow = (two[0] - products) / two[1]

    def seconds(self, step: Step) -> float:
        """A joined step."""
        products = self.flop[step.model] / self.flops_share / CARDS[step.card].flops
        kernels = (self.slow if step.host else 1) * self.before_products(step) + products
        return max(kernels, self.rows(step) if step.host else 0)

    def before_products(self, step: Step) -> float:
        """Launches, memory and exchange."""
        card, (written, read) = CARDS[step.card], self.exchanged(step)
        exchange = {"peer": read / LINK, "columns": max((written + read) / BUS / card.bus,
                                                        step.gpus * (written + read) / HOST / card.host)}
        meetings = {"alone": 0, "rows": 4}.get(step.way, 3)
        return (LAUNCHES[step.model] * LAUNCH + BYTES / MEMORY / card.memory + exchange.get(step.way, 0)
                + meetings * MEETING)

    def rows(self, step: Step) -> float:
        """Rows of a table in host memory over the bus, with what else crosses it."""
        card, entities = CARDS[step.card], (step.missed or MISSED[step.gpus]) / step.gpus
        rows = step.row * (TOUCHED[1] if step.way == "rows" else entities)
        written, read = self.exchanged(step) if step.way in ("rows", "columns") else (0, 0)
        return max((rows + max(written, read)) / min(self.rows_rate, BUS * card.bus),
                   step.gpus * (2 * rows + written + read) / HOST / card.host)

    @staticmethod
    def exchanged(step: Step) -> Tuple[int, int]:
        """Bytes that a GPU writes and reads: raw scores of the others' positives and weights, or sums of relations."""
        others = step.gpus - 1
        if step.way == "rows":
            sums = 4 * RELATION[step.model] * RELATIONS
            return sums, others * sums
        scores, weights = 4 * BATCH * others * (NEGATIVES + 1), 4 * BATCH * (NEGATIVES + WITH_WEIGHTS)
        return scores + weights, scores + others * weights


def measured() -> Dict[Leg, float]:
    """Triples a second of all legs, from the published results."""
    files = {name: result_file.read(result_file.PUBLISHED / f"{name}.json") for name in (ONE, TWO, FOUR)}
    return {leg: files[leg[0]][leg[1]][leg[2]]["triples_per_second"] for leg in {**SOLVED, **CHECKED}}


def predictions(legs: Mapping[Leg, float]) -> Dict[str, Any]:
    """Constants; the model's step over the measured one by leg; triples a second of consumer cards, by setting, model,
    and number of GPUs on a server or a desktop."""
    model, checked, cards = Model(legs), {}, {}
    for leg, step in {**SOLVED, **CHECKED}.items():
        ours, theirs = model.seconds(step), step.gpus * BATCH / legs[leg]
        checked[" ".join(leg)] = {"gpus": step.gpus, "solved": leg in SOLVED, "way": step.way, "model_ms": 1e3 * ours,
                                  "measured_ms": 1e3 * theirs, "model_over_measured": ours / theirs}
    for card in ("RTX 3090", "RTX 4090"):
        for setting, way, host in (("fb15k", "columns", False), ("20m", "columns", True), ("20m_rows", "rows", True)):
            for name in LAUNCHES:
                steps = {str(gpus): Step(card, name, gpus, way if gpus > 1 else "alone", host) for gpus in TOUCHED}
                steps["2, desktop"] = replace(steps["2"], card=f"{card}, desktop")
                cards.setdefault(card, {}).setdefault(setting, {})[name] = {
                    gpus: step.gpus * BATCH / model.seconds(step) for gpus, step in steps.items()}
    return {"flops_share": model.flops_share, "rotate_flop": model.flop["RotatE"], "slow": model.slow,
            "rows_bytes_per_second": model.rows_rate, "checked": checked, "cards": cards}


def main() -> None:
    parser = result_file.parser(__doc__, required=True)
    result_file.write(parser.parse_args().json, predictions(measured()))


if __name__ == "__main__":
    main()
