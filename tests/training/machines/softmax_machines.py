"""Machines as threads that train by a softmax over all entities, on the tables and batches of training.full_softmax."""
import numpy as np
import torch
from devices import run_step
from training.full_softmax.steps import BATCH, HIDDEN
from training.machines.memory_transport import Network, together

from dglke_frugal import _native
from dglke_frugal.data import KnowledgeGraph, Triples
from dglke_frugal.options import TrainConfig
from dglke_frugal.store.device.device import HostDevice
from dglke_frugal.training.full_softmax.full_softmax import FullSoftmax
from dglke_frugal.training.full_softmax.targets import OneAnswer
from dglke_frugal.training.machines.softmax_share import MachineShare
from dglke_frugal.training.machines.softmax_tables import softmax_tables
from dglke_frugal.training.step.device_step import DeviceStep


def owners_of(rows, machines):
    return _native.RowOwners(rows, machines, False)


class SoftmaxMachine:
    """One of several, with its part of tables that one process has.

    make_targets: of a device, instead of OneAnswer.
    """

    def __init__(self, config, tables, transport, make_targets=None):
        entities, relations = (table.embeddings for table in tables)
        hidden, *doubled = HIDDEN[config.step.model]
        flags = TrainConfig.from_flags({"model_name": config.step.model, "hidden_dim": hidden, "seed": 0,
                                        "double_ent": doubled[0], "double_rel": doubled[1],
                                        "optimizer": config.optimizer})
        graph = KnowledgeGraph("small", len(entities), len(relations), Triples(*(np.zeros(1, np.int32),) * 3))
        owners, device = owners_of(len(entities), transport.machines), HostDevice()
        self.share = MachineShare(transport, owners)
        self.tables = softmax_tables(flags, graph, owners, transport.machine, device)
        first = self.share.first
        self.tables.entity.embeddings[:] = entities[first : first + self.tables.entity.rows]
        self.tables.relation.embeddings[:] = relations
        targets = make_targets(device) if make_targets else OneAnswer(device, BATCH)
        self.step = DeviceStep(config.step, device, make_gradients=lambda _, device, sums: FullSoftmax(
            config, device, sums, targets, share=self.share))

    def train(self, batches):
        """The losses of steps from 0 on."""
        rows = [store.steps for store in self.tables.stores.values()]
        losses = []
        for number, batch in enumerate(batches):
            run_step(self.step, number, batch, rows)
            losses.append(self.step.take_losses())
        return losses


def run_softmax(config, tables, batches, machines, network=None, make_targets=None, mutate=lambda machine: None):
    """(losses, what all machines hold in the end put together by name, the machines). Losses and relations must be
    the same on all. mutate: changes a SoftmaxMachine before it trains."""
    def work(number, transport):
        machine = SoftmaxMachine(config, tables, transport, make_targets)
        mutate(machine)
        return machine, machine.train(batches)

    torch.ones(BATCH).exp().log()  # what torch sets up at the first call is not for several threads at a time
    found = together(network or Network(machines), work)
    all_machines, losses = zip(*found)
    arrays = [machine.tables.arrays() for machine in all_machines]
    assert all(each == losses[0] for each in losses)
    whole = {}
    for name, array in arrays[0].items():
        if name.startswith("entity"):
            whole[name] = np.concatenate([each[name].rows for each in arrays])
            continue
        for each in arrays[1:]:
            np.testing.assert_array_equal(each[name].view(np.uint32), array.view(np.uint32))
        whole[name] = np.array(array)
    return losses[0], whole, all_machines
