"""A run of several machines by a softmax over all entities, seen from one of them. Its configuration is that of one
process, whose batches and whose files it has, so that it goes on with any number of machines."""

from __future__ import annotations

from pathlib import Path
from typing import Sequence

from ...data import KnowledgeGraph
from ...options import TrainConfig
from ..batches.edge_partition import row_owners
from ..log.tracker import MakeTracker
from ..run.full_softmax_run import FullSoftmaxRun
from .group import Machines
from .machine_part import MachinePart
from .softmax_share import MachineShare
from .softmax_tables import softmax_tables
from .table_files import TableFiles


class MachineSoftmaxRun(MachinePart, FullSoftmaxRun):
    """One machine's part in a run: it trains all triples on a range of the entities."""

    exchange: MachineShare

    def __init__(self, config: TrainConfig, graph: KnowledgeGraph, folder: Path, group: Machines, device,
                 trackers: Sequence[MakeTracker] = ()):
        """device: the CPU, as a store.device.Device."""
        with group.together():
            owners = row_owners("range", graph.n_entities, group.machines)
        self.machines, self.exchange = group.machines, MachineShare(group.transport, owners)
        super().__init__(config, graph, folder, group, owners, device, trackers)

    def _make_tables(self):
        return softmax_tables(self.config, self.graph, self.owners, self.group.machine, self.device,
                              TableFiles(self.group))

    def _entity_share(self):
        return self.exchange

    def _exchange_seconds(self):
        return self.exchange.traffic.wait_seconds

    def _give_up(self, error):
        raise error  # the network has failed, and no device
