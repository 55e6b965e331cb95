"""Machines as threads of this process: their blocks lie in memory and deliver late and out of order."""
import threading
import time

import numpy as np
from threads import at_once

from dglke_frugal.training.machines.transport import MachineError, Transport

PATIENCE_SECONDS = 60


class Network:
    """What the transports of all machines share.

    delay: (lane, number, sender, receiver) -> seconds until the block may be read. tamper: (lane, number, sender,
    receiver, block) -> the block that is delivered.
    """

    def __init__(self, machines, delay=lambda *_: 0.0, tamper=lambda *given: given[-1]):
        self.machines, self.delay, self.tamper = machines, delay, tamper
        self.delivered = {}
        self.changed = threading.Condition()
        self.failed = False

    def fail(self):
        with self.changed:
            self.failed = True
            self.changed.notify_all()


def together(network, work):
    """What work(machine, transport) returns for each machine, all at the same time. Raises the first error."""
    return at_once(lambda machine: work(machine, MemoryTransport(network, machine)), network.machines, network.fail)


class MemoryTransport(Transport):
    def __init__(self, network, machine):
        self.network, self.machine, self.machines = network, machine, network.machines
        self._received = {}

    def post(self, lane, number, block, sent, received):
        self._received[lane, number] = list(received)
        for receiver, part in enumerate(np.split(block, np.cumsum(sent)[:-1])):
            if receiver != self.machine:
                self._send((lane, number), receiver, part)

    def _send(self, place, receiver, part):
        network, key = self.network, (*place, self.machine, receiver)
        part = network.tamper(*key, part.copy())
        if part is None:
            return

        def deliver():
            with network.changed:
                network.delivered[key] = part
                network.changed.notify_all()

        delay = network.delay(*key)
        if delay:
            timer = threading.Timer(delay, deliver)
            timer.daemon = True
            timer.start()
        else:
            deliver()

    def wait(self, lane, number):
        network, blocks = self.network, []
        deadline = time.monotonic() + PATIENCE_SECONDS
        for sender, floats in enumerate(self._received.pop((lane, number))):
            if sender == self.machine:
                blocks.append(np.empty(0, np.float32))
                continue
            key = lane, number, sender, self.machine
            with network.changed:
                while key not in network.delivered and not network.failed:
                    if not network.changed.wait(deadline - time.monotonic()):
                        raise MachineError(f"block {key} has not come")
                if network.failed:
                    raise MachineError("another machine has failed")
                block = network.delivered.pop(key)
            assert len(block) == floats, (key, len(block), floats)
            blocks.append(block)
        return blocks
