"""A run of several machines, seen from one of them. All do the same in the same order; machine 0 writes and prints."""

from __future__ import annotations

import zlib
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Dict, Sequence

import numpy as np

from ...data import KnowledgeGraph
from ...options import TrainConfig
from ..batches.edge_partition import EdgePartition, partition_edges
from ..batches.metis_owners import OWNERS_FILE, keep_owners
from ..log.tracker import MakeTracker, Trackers
from ..run.run import TrainingRun
from ..step.step_config import step_config
from .group import FoundByAll, Machines
from .machine_ranker import MachineRanker
from .machine_tables import MachineTables, machine_tables
from .table_files import TableFiles


@dataclass(frozen=True)
class MachineReport:
    """What a machine did in this part of a run. bytes: sent to other machines, by block (boundary.py). wait_seconds: at
    boundaries, for the blocks of others; gate_share: the part of the training's seconds that boundaries took."""

    machine: int
    host: str
    steps: int
    seconds: float
    wait_seconds: float
    gate_share: float
    bytes: Dict[str, int]

    def line(self) -> str:
        """As a line of the log."""
        sent = sum(self.bytes.values())
        return (f"[machine {self.machine}] {self.host}: {self.steps} steps, "
                f"{self.steps / max(self.seconds, 1e-9):.1f} a second; {self.gate_share:.1%} of the time between "
                f"steps; sent {sent / max(1, self.steps) / 1e6:.3f} MB a step")


class MachineRun(TrainingRun):
    """One machine's part in a run."""

    tables: MachineTables

    def __init__(self, config: TrainConfig, graph: KnowledgeGraph, folder: Path, group: Machines, gpu=None,
                 trackers: Sequence[MakeTracker] = ()):
        """gpu: the store.device.Device that computes gradients; without one, csrc/step does."""
        self._gpu = gpu
        self.group, self.rank, self.leads = group, group.machine, group.machine == 0
        self._partition = _partition_of_all(config.device.edge_partition, graph, folder, group)
        if not self.leads:
            config = replace(config, run=replace(config.run, trackers=()))
        super().__init__(config, graph, folder, None, trackers if self.leads else ())
        self.ranker = MachineRanker(config, graph, group, self._partition.owners)
        if not self.leads:  # machine 0 alone writes
            self.tracker.close()
            self.tracker = Trackers([])
            self.checkpoints.mark_best = lambda step: None

    def _make_tables(self) -> MachineTables:
        config = self.config.limited_to(len(self.graph.train))
        others = [None if machine == self.rank else self._sampler_of(machine) for machine in range(self.group.machines)]
        return machine_tables(config, self.graph, self._partition.owners, self.group.transport, others,
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
        return self._partition.owners if self.config.device.negatives == "local" else None

    def _make_step(self):
        if self._gpu is None:
            step = super()._make_step()
            step.early_done = self.tables.early_done
            return step
        from ..step.staged_step import StagedStep  # here, because it takes torch's import time

        now = replace(step_config(self.config), learning_rate=self.learning_rate.now)
        return StagedStep(now, self._gpu, self.config.device.matmul)

    def _stop_signal(self, own):
        boundaries = self.tables.boundaries
        boundaries.own_signal = int(own or 0)
        return boundaries.signal

    def _written_by_all(self, write) -> None:
        """Call `write` on machine 0, which writes files, while the others write their shares."""
        self.tables.drain()
        if not self.leads:
            self.tables.serve()
            return
        write()
        self.tables.files_of_all.finish()

    def checkpoint(self) -> None:
        if not self.leads:  # whose own numbers may be those that are not finite
            self._check_tables()
        self._written_by_all(super().checkpoint)

    def save(self, step: int) -> None:
        self._written_by_all(lambda: super(MachineRun, self).save(step))

    def keep_names(self) -> None:
        if self.leads:
            super().keep_names()

    def _write_result(self, folder: Path) -> None:
        if self.leads:
            super()._write_result(folder)

    def _stop(self, interrupt) -> None:
        if self.leads:
            super()._stop(interrupt)
        raise SystemExit(interrupt.exit_code)

    def finish(self) -> None:
        self.tables.drain()
        self.group.barrier()
        self.summary["machines"] = [asdict(report) for report in self._reports()]
        super().finish()

    def _reports(self):
        training, traffic = self.summary["training"], self.tables.boundaries.traffic
        gate = training["seconds_by_part"]["gate"] / max(training["seconds"], 1e-9)
        own = MachineReport(self.rank, self.group.host, training["steps"], training["seconds"], traffic.wait_seconds,
                            gate, traffic.bytes)
        reports = [MachineReport(**fact) for fact in self.group.all_of(asdict(own))]
        print("\n".join(report.line() for report in reports), flush=True)
        return reports


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
