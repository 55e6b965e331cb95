"""A run of several machines with sampled negatives, seen from one of them."""

from __future__ import annotations

import zlib
from dataclasses import replace
from pathlib import Path
from typing import Sequence

import numpy as np

from ...data import KnowledgeGraph
from ...options import TrainConfig
from ..batches.edge_partition import EdgePartition, partition_edges
from ..batches.metis_owners import OWNERS_FILE, keep_owners
from ..log.tracker import MakeTracker
from ..step.step_config import step_config
from .group import FoundByAll, Machines
from .machine_part import MachinePart
from .machine_tables import MachineTables, machine_tables
from .table_files import TableFiles


class MachineRun(MachinePart):
    """One machine's part in a run: it trains the triples of its entities."""

    tables: MachineTables

    def __init__(self, config: TrainConfig, graph: KnowledgeGraph, folder: Path, group: Machines, gpu=None,
                 trackers: Sequence[MakeTracker] = ()):
        """gpu: the store.device.Device that computes gradients; without one, csrc/step does."""
        self._gpu, self.rank = gpu, group.machine
        self._partition = _partition_of_all(config.device.edge_partition, graph, folder, group)
        super().__init__(config, graph, folder, group, self._partition.owners, None, trackers)

    @property
    def exchange(self):
        """See MachinePart."""
        return self.tables.boundaries

    def _make_tables(self) -> MachineTables:
        config = self.config.limited_to(len(self.graph.train))
        others = [None if machine == self.rank else self._sampler_of(machine) for machine in range(self.group.machines)]
        return machine_tables(config, self.graph, self.owners, self.group.transport, others,
                              TableFiles(self.group))

    def _sampler_of(self, machine: int):
        self.rank, own = machine, self.rank
        try:
            return super()._make_sampler(self._partition.parts[machine], self.group.machines)
        finally:
            self.rank = own

    def _make_sampler(self, part=None, ranks: int = 1):
        return self._sampler_of(self.rank)

    def _negative_owners(self):
        return self.owners if self.config.device.negatives == "local" else None

    def _make_step(self):
        if self._gpu is None:
            step = super()._make_step()
            step.early_done = self.tables.early_done
            return step
        from ..step.staged_step import StagedStep  # here, because it takes torch's import time

        now = replace(step_config(self.config), learning_rate=self.learning_rate.now)
        return StagedStep(now, self._gpu, self.config.device.matmul)


def _partition_of_all(how: str, graph: KnowledgeGraph, folder: Path, group: Machines) -> EdgePartition:
    """The partition of the run. One by METIS is computed by machine 0, and read by the others in the folder that they
    share. FoundByAll if there is none, or they have read different ones."""
    if how == "metis":
        group.of_first(lambda: keep_owners(folder, graph, group.machines))
    with group.together():
        partition = partition_edges(how, graph, group.machines, folder)
    if how != "metis":
        return partition
    checksums = group.all_of(zlib.crc32(partition.owners.owner(np.arange(graph.n_entities))))
    for machine, checksum in enumerate(checksums):
        if checksum != checksums[0]:
            raise FoundByAll(f"{group.name(machine)} has read other owners of entities than {group.name(0)} in "
                             f"{folder / OWNERS_FILE}; give a --save_path on a disk that all machines share")
    return partition
