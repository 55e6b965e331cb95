"""A run of several ranks, each a process: they train through host memory exactly as one would. See docs/exactness.md.

Rank 0 leads: it loads, allocates, runs the engines, says what all have to agree on, and writes all files.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any, Dict, Iterator, Optional, Sequence

import numpy as np

from ..._native import EngineError
from ...data import KnowledgeGraph
from ...errors import first_line, shortage
from ...evaluation import Evaluation
from ...options import TrainConfig
from ..batches.edge_partition import EdgePartition, SharedArray, partition_of_run
from ..log.tracker import MakeTracker, Trackers
from ..processes.process_group import Worker, Rank0, ProcessGroup, RankError
from ..processes.process_watch import ProcessWatch
from ..run.interrupt import Interrupt
from ..run.ranker import Ranker, comparisons, counts_of_all
from ..run.run import TrainingRun
from ..run.session import open_device
from .rank_report import RankReport
from .rank_tables import RankTables, RowTables, attach_tables, host_tables


class DeviceFailure(RuntimeError):
    """The device of this rank has failed; no other rank can go on."""


class RankRun(TrainingRun):
    """One rank's part in a run.

    Everything that is not a step happens in a pause: all ranks stand between the same two steps, the tables are
    drained, and nobody goes on before rank 0 does.
    """

    group: ProcessGroup
    tables: RankTables

    def __init__(self, config: TrainConfig, graph: KnowledgeGraph, folder: Path, device,
                 trackers: Sequence[MakeTracker] = ()):
        super().__init__(config, graph, folder, device, trackers)
        self.ranker = RankRanker(self)

    @property
    def leads(self) -> bool:
        """Whether this is rank 0, which prints, saves and decides."""
        return self.rank == 0

    @property
    def ahead(self) -> int:
        """How many steps one rank may be ahead of another, at most."""
        return self.config.store.lookahead

    def __exit__(self, kind, error, trace):
        if error is not None and not isinstance(error, SystemExit):
            self.tables.fail(sentence_of(self.rank, error))
        super().__exit__(kind, error, trace)

    def _make_interrupt(self) -> Interrupt:
        return super()._make_interrupt() if self.leads else Interrupt(None, self._stop_signal)

    def _stop_signal(self, own):
        stops = self.group.stops_after(self.steps_done, own, self.ahead, self.config.run.max_step)
        return self.group.stop_signal if stops else None

    def _give_up(self, error: RuntimeError) -> None:
        if isinstance(error, (EngineError, RankError)):  # of another rank, which has said so
            raise error
        raise DeviceFailure(f"the device failed in step {self.steps_done + 1}: {first_line(error)}") from error

    def train(self) -> None:
        self._join()
        others = {rank: process for rank, process in enumerate(self.group.all_of(os.getpid())) if rank != self.rank}
        self._watch = ProcessWatch(  # or a device would wait for a rank that has ended for ever
            others, lambda rank, process: self.tables.fail(f"Rank {rank} (process {process}) has ended."))
        super().train()

    def _join(self) -> None:
        """What all ranks do together once they are there."""
        self.tables.connect(self.group, self.config.device.peer)

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        """Between two steps of all ranks; pauses within a pause are the same one."""
        if self.tables.still:
            yield
            return
        self.tables.drain()
        self.group.barrier()
        self.tables.still = True
        yield
        self.tables.still = False
        self.summary["stopped_early"] = self.group.from_first(self.summary["stopped_early"])

    def checkpoint(self) -> None:
        with self.pause():
            if self.leads:
                super().checkpoint()

    def _validate(self) -> None:
        with self.pause():
            if self.leads:
                super()._validate()
            else:
                self.ranker.rank("Valid", self.graph.valid, self.tables)

    def _end_training(self) -> None:
        """Bring all updates into the tables and end the training of all ranks; print and keep each rank's report."""
        statistics = {name: store.statistics() for name, store in self.tables.stores.items()}
        own = {name: self.tables.own_statistics(each) for name, each in statistics.items() if each is not None}
        training = self.summary["training"]
        report = RankReport.of(self.rank, training["steps"], training["seconds"], own, self.tables.stores)
        self.tables.drain()
        reports = [RankReport(**part) for part in self.group.all_of(asdict(report))]
        if self.leads:
            print("\n".join(each.line() for each in reports), flush=True)
            self.summary["ranks"] = [each.to_dict() for each in reports]
        self._watch.close()
        self.group.barrier()  # from here on a rank may end
        self.tables.still = True
        self.tables.close()


class Rank0Run(RankRun):
    """Rank 0."""

    group: Rank0

    def __init__(self, config: TrainConfig, graph: KnowledgeGraph, folder: Path, processes, device,
                 trackers: Sequence[MakeTracker]):
        self._processes = processes
        self._partition: EdgePartition = partition_of_run(folder, config.device.edge_partition, graph, processes.ranks)
        self._group: Optional[Rank0] = None
        super().__init__(config, graph, folder, device, trackers)
        self.tables.still = True  # the others have not come yet

    @property
    def group(self) -> Rank0:
        """The other ranks, once they are started."""
        return self._group

    def _make_tables(self) -> RowTables:
        return host_tables(self.config.limited_to(len(self.graph.train)), self.graph, self._partition, self.device)

    def _make_sampler(self, part=None, ranks: int = 1):
        return super()._make_sampler(self._partition.parts and self._partition.parts[0], self._partition.ranks)

    def __exit__(self, kind, error, trace):
        super().__exit__(kind, error, trace)
        if self._group is not None:
            self._group.close(failed=error is not None and not isinstance(error, SystemExit))

    def start(self) -> None:
        self._group = self._processes.start()
        self._group.from_first(self._hello())
        self._group.barrier()  # all are ready
        self.tables.still = False

    def _hello(self) -> Dict[str, Any]:
        """What the others have to know."""
        self._parts = [SharedArray(part) for part in self._partition.parts or ()]
        return {"ranks": self._group.ranks, "pid": os.getpid(), "flags": self.config.to_flags(),
                "folder": str(self.folder), "steps_done": self.steps_done,
                "stopped_early": self.summary["stopped_early"], "tables": self.tables.addresses(),
                "parts": [part.address for part in self._parts]}

    def finish(self) -> None:
        self._end_training()
        super().finish()


class WorkerRun(RankRun):
    """Another rank than 0."""

    def __init__(self, config: TrainConfig, graph: KnowledgeGraph, group: Worker, hello: Dict[str, Any]):
        self.rank, self.group, self._hello = group.rank, group, hello
        super().__init__(config, graph, Path(hello["folder"]), open_device(config, group.rank))
        self.steps_done, self.summary["stopped_early"] = hello["steps_done"], hello["stopped_early"]
        self.tracker = Trackers([])

    def _make_tables(self) -> RowTables:
        config = self.config.limited_to(len(self.graph.train))
        return attach_tables(config, self.graph, self._hello["tables"], self.rank, self.device)

    def _make_sampler(self, part=None, ranks: int = 1):
        parts = self._hello["parts"]
        return super()._make_sampler(SharedArray.attach(parts[self.rank]) if parts else None, self.group.ranks)

    def _log_batch_size(self) -> None:
        pass

    def _stop(self, interrupt) -> None:
        raise SystemExit(interrupt.exit_code)

    def finish(self) -> None:
        self._end_training()
        if self.config.evaluation.test:
            self.ranker.rank("Test", self.graph.test, self.tables)


class RankRanker(Ranker):
    """Each rank ranks a share of the triples; rank 0 puts the ranks together in their order."""

    def __init__(self, run: RankRun):
        super().__init__(run.config, run.graph, run.device)
        self._run, self.shows = run, run.leads

    def rank(self, mode, triples, tables):
        with self._run.pause():
            self._run.group.barrier()
            if self._run.leads:
                return super().rank(mode, triples, tables)
            return self._evaluate(self._share(triples), tables)

    def _evaluate(self, triples, tables) -> Optional[Evaluation]:
        group = self._run.group
        protocol = self._protocol
        if protocol.sampling:  # which candidates a triple has depends on its place among all triples
            return super()._evaluate(triples, tables) if self._run.leads else None
        shares = [tuple(columns) for columns in zip(*(np.array_split(column, group.ranks) for column in triples))]
        own = shares[group.rank]
        counts = counts_of_all(group, super()._evaluate(own, tables).compared if len(own[0]) else None)
        return Evaluation(triples, comparisons(np.concatenate(counts, axis=2)), protocol) if self._run.leads else None


def sentence_of(rank: int, error: BaseException) -> str:
    """What the other ranks are told when one fails."""
    return f"Rank {rank} stopped: {first_line(shortage(error) or error)}"
