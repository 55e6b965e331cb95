"""What the part of one machine in a run has in addition to a run of one process, whatever is trained."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Dict, Sequence

from ... import _native
from ...data import KnowledgeGraph
from ...options import TrainConfig
from ..log.tracker import MakeTracker, Trackers
from ..run.run import TrainingRun
from .group import Machines
from .machine_ranker import MachineRanker
from .owned_tables import OwnedTables


@dataclass(frozen=True)
class MachineReport:
    """What a machine did in this part of a run. bytes: sent to other machines, by block (boundary.py,
    softmax_blocks.py). wait_seconds: for the blocks of others; gate_share: the part of the training's seconds that
    exchanges took."""

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
                f"{self.steps / max(self.seconds, 1e-9):.1f} a second; {self.gate_share:.1%} of the time in exchanges; "
                f"sent {sent / max(1, self.steps) / 1e6:.3f} MB a step")


class MachinePart(TrainingRun):
    """One machine's part in a run. All do the same in the same order; machine 0 writes and prints.

    Attributes:
        exchange: between the steps of all machines, with signal and own_signal (boundary.py) and the traffic.
    """

    tables: OwnedTables
    exchange: Any

    def __init__(self, config: TrainConfig, graph: KnowledgeGraph, folder: Path, group: Machines,
                 owners: _native.RowOwners, device=None, trackers: Sequence[MakeTracker] = ()):
        """owners: of the entities. device: as of TrainingRun."""
        self.group, self.owners, self.leads = group, owners, group.machine == 0
        if not self.leads:
            config = replace(config, run=replace(config.run, trackers=()))
        super().__init__(config, graph, folder, device, trackers if self.leads else ())
        self.ranker = MachineRanker(config, graph, group, owners)
        if not self.leads:  # machine 0 alone writes
            self.tracker.close()
            self.tracker = Trackers([])
            self.checkpoints.mark_best = lambda step: None

    def _stop_signal(self, own):
        self.exchange.own_signal = int(own or 0)
        return self.exchange.signal

    def _wants_stop(self):
        return self.group.of_first(super()._wants_stop)

    def _written_by_all(self, write) -> None:
        """Call `write` on machine 0, which writes files, while the others write their shares."""
        self.tables.drain()
        if not self.leads:
            self.tables.serve()
            return
        write()
        self.tables.files_of_all.finish()

    def checkpoint(self) -> None:
        if not self.leads:  # its own numbers may be the only ones that are not finite
            self._check_tables()
        self._written_by_all(super().checkpoint)

    def save(self, step: int) -> None:
        self._written_by_all(lambda: super(MachinePart, self).save(step))

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

    def _exchange_seconds(self) -> float:
        """Of the training, that exchanges took."""
        return self.summary["training"]["seconds_by_part"]["gate"]

    def _reports(self):
        training, traffic = self.summary["training"], self.exchange.traffic
        own = MachineReport(self.group.machine, self.group.host, training["steps"], training["seconds"],
                            traffic.wait_seconds, self._exchange_seconds() / max(training["seconds"], 1e-9),
                            traffic.bytes)
        reports = [MachineReport(**fact) for fact in self.group.all_of(asdict(own))]
        print("\n".join(report.line() for report in reports), flush=True)
        return reports
