"""What several machines send in a step and what that does to their speed, from sizes alone."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Dict, List, Optional

import numpy as np

from ...models import find_model
from ...options import TrainConfig
from ...store.row_bytes import FLOAT
from ..plan.memory_plan import GraphSize
from .softmax_blocks import blocks_of_step, floats_of_step

USABLE = 0.9  # of a network's nominal speed
LATENCY_SECONDS = 2e-4  # of a block between two machines
OVERLAPPED = 0.25  # of a step's computation on the CPU, that follows when urgent blocks have left
CORE_TRIPLES, CORE_DIM = 50_000, 400  # a second, that a core trains with entity rows so long
WORKED_BYTES = 6e8  # a second, of blocks that a machine packs, unpacks and applies
# Numbers of pairs of a query and an entity that a core goes through in a second, by what a model compares them with.
CORE_PAIRED = {"dot": 1.3e10, "l2": 5e9, "l1": 1.3e9, "modulus": 3.4e8}
QUERY_ENTITIES = 200  # comparisons that take as long as all else that a step does for a query


@dataclass(frozen=True)
class NetworkPlan:
    """A step of one of several machines.

    bytes_per_second: of the network, in each direction. background_bytes: sent while a step computes; urgent_bytes:
    that the next step waits for. compute_seconds: of a step, without boundaries. alone_seconds: that one machine alone
    would take for what all machines train in a step; positives: how many that are; unit: their name,
    TrainConfig.positives. boundary_seconds: that a boundary takes on a network without limit. overlapped: the part of
    the computation during which urgent blocks travel. work_seconds: that the thread of the blocks works on those of a
    step, one after the other with their travel; on urgent ones in proportion to their bytes.
    """

    machines: int
    bytes_per_second: float
    background_bytes: float
    urgent_bytes: float
    compute_seconds: float
    alone_seconds: float
    positives: int
    unit: str
    boundary_seconds: float = 2 * LATENCY_SECONDS
    overlapped: float = OVERLAPPED
    work_seconds: float = 0.0

    @property
    def bytes_per_step(self) -> float:
        """That a machine sends."""
        return self.background_bytes + self.urgent_bytes

    @property
    def step_seconds(self) -> float:
        """From the beginning of a step to that of the next one."""
        sent = self.bytes_per_step / (USABLE * self.bytes_per_second) + self.work_seconds
        urgent = sent * self.urgent_bytes / max(1.0, self.bytes_per_step)
        waited = max(0.0, urgent - self.overlapped * self.compute_seconds)
        return max(self.compute_seconds + waited, sent) + self.boundary_seconds

    @property
    def over_one(self) -> float:
        """How many times as many positives a second as one machine alone."""
        return self.alone_seconds / self.step_seconds

    def to_dict(self) -> Dict[str, Any]:
        """As plain data."""
        return {**asdict(self), "bytes_per_step": self.bytes_per_step,
                "step_seconds": self.step_seconds, "over_one_machine": self.over_one,
                "triples_per_second": self.positives / self.step_seconds}

    def lines(self) -> List[str]:
        """As sentences."""
        plan = self.to_dict()
        lines = [f"network {'sent by a machine in a step':<28}{plan['bytes_per_step'] / 2**20:>8.2f} MiB   "
                 f"{self.urgent_bytes / 2**20:.2f} MiB of it are waited for",
                 f"network {'a step takes':<28}{1e3 * self.step_seconds:>8.2f} ms    of which "
                 f"{1e3 * self.compute_seconds:.2f} ms compute",
                 f"network {f'{self.unit} a second':<28}{plan['triples_per_second']:>8,.0f}       "
                 f"{self.over_one:.2f} times one machine alone"]
        if self.over_one < 1:
            lines.append("one machine alone would be faster, if it has the memory")
        return lines


def network_plan(config: TrainConfig, size: GraphSize, machines: int, bytes_per_second: float, cores: int,
                 triples_per_second: Optional[float] = None) -> NetworkPlan:
    """The plan of a run. cores: of a machine. triples_per_second: positives that one machine alone trains, by default
    what its cores are assumed to.

    Relations are taken to be as frequent as by Zipf's law, entities of a step to be distinct.
    """
    config = config.limited_to(size.triples if size.training is None else size.training)
    if config.batch.against_all:
        return _softmax_plan(config, size, machines, bytes_per_second, cores, triples_per_second)
    dims, batch, away = config.model.dims, config.batch, 1 - 1 / machines
    positives, negatives = batch.positives, batch.positives // batch.chunk * batch.negatives
    local = config.device.negatives == "local"
    embedding = (dims.entity + 1) // 2 if config.model.is_half else dims.entity
    record = FLOAT * (embedding + 1)
    entities = positives * away + (0 if local else negatives * away)
    share = 1 / np.arange(1, config.model.relation_rows(size.relations) + 1)
    used = 1 - (1 - share / share.sum()) ** positives  # how probable a relation is in a step of a machine
    by_any = 1 - (1 - used) ** machines
    sums = used**2 * (machines - 1)  # to others that use it, too
    values = used * (1 - used / by_any)  # for one that has not used it when it was used last
    row = FLOAT * (dims.relation + 1)
    urgent = float((sums * used + values * by_any).sum()) * row  # for those that use it in the next step, too
    sent = 2 * entities * record + float((sums + values).sum()) * row
    rate = triples_per_second or CORE_TRIPLES * cores * CORE_DIM / dims.entity
    of_all = machines * positives
    return NetworkPlan(machines, bytes_per_second, sent - urgent, urgent, positives / rate, of_all / rate, of_all,
                       config.positives, work_seconds=sent / WORKED_BYTES)


def _softmax_plan(config: TrainConfig, size: GraphSize, machines: int, bytes_per_second: float, cores: int,
                  triples_per_second: Optional[float]) -> NetworkPlan:
    """As network_plan, of a softmax over all entities, where a step waits for all its blocks. Entities of a batch are
    taken to be drawn from all alike."""
    dims, loss, queries = config.model.dims, config.loss, config.batch.positives
    of_relations = config.model.relation_rows(size.relations) * dims.relation if loss.relation_prediction else 0

    def seconds(entities: float) -> float:
        """Of a step of a machine that scores so many."""
        paired = CORE_PAIRED[find_model(config.model.model_name).similarity] * cores
        return queries * ((entities + QUERY_ENTITIES) * dims.entity + of_relations) / paired

    alone = queries / triples_per_second if triples_per_second else seconds(size.entities)
    own = alone * seconds(size.entities / machines) / seconds(size.entities)
    distinct = size.entities * (1 - (1 - 1 / size.entities) ** (2 * queries))
    binary = loss.loss_genre == "BCE"
    sent = FLOAT * floats_of_step(machines, distinct, queries, dims.entity, binary)
    return NetworkPlan(machines, bytes_per_second, 0.0, sent, own, alone, queries, config.positives,
                       blocks_of_step(binary) * LATENCY_SECONDS, 0.0, sent / WORKED_BYTES)
