"""How the processes of a run come to be: started by rank 0, or all of them by torchrun."""

from __future__ import annotations

import os
import re
import socket
import struct
import time
from multiprocessing.connection import Connection, Pipe
from typing import Dict

from ...errors import InputError
from ...options import TrainConfig
from .available_threads import torchrun_number
from .process_group import Rank0, RankError
from .rank_child import RankChild

CONNECT_SECONDS = 60.0


class OwnProcesses:
    """Rank 0 starts the others, with one end of a socket each."""

    def __init__(self, ranks: int):
        self.rank, self.ranks = 0, ranks
        self._children: Dict[int, RankChild] = {}

    def start(self) -> Rank0:
        """Start the other ranks: all of them or none."""
        connections: Dict[int, Connection] = {}
        try:
            for rank in range(1, self.ranks):
                connections[rank], there = Pipe()
                with there:
                    self._children[rank] = RankChild(there, rank)
        except BaseException:
            for child in self._children.values():
                child.process.kill()
                child.process.wait()
            raise
        return Rank0(connections, [child.process for child in self._children.values()])

    def explain(self, sentence: str) -> str:
        """A sentence that says that a rank has ended, with how it ended and what it said last."""
        ended = re.search(r"Rank (\d+)(?: \(process \d+\))? has ended\.$", sentence)  # whoever it was that heard of it
        child = self._children.get(int(ended[1])) if ended else None
        return f"{sentence[:-1]} {child.end()}" if child else sentence

    def exit_code(self) -> int:
        """The exit of this process when a rank has failed and all others have ended."""
        return 2 if any(child.process.poll() == 2 for child in self._children.values()) else 1

    def close(self) -> None:
        """Nothing is held before start()."""


class TorchrunProcesses:
    """All ranks were started with torchrun's environment variables; the others find rank 0 by a name made of them.

    The name is an abstract socket's: it ends with the process and is no file.
    """

    def __init__(self):
        self.rank, self.ranks = (torchrun_number(name) for name in ("RANK", "WORLD_SIZE"))
        parts = ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT")
        self._name = "\0dglke_frugal-" + "-".join(os.environ.get(part, "") for part in parts)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        if self.rank == 0:
            try:
                self._socket.bind(self._name)
            except OSError as error:
                raise InputError(
                    f"another run has the same --rdzv_id and port ({error.strerror}); give this one another "
                    "--master_port") from error
            self._socket.listen(self.ranks)

    def start(self) -> Rank0:
        """Rank 0: wait for the others."""
        connections: Dict[int, Connection] = {}
        self._socket.settimeout(CONNECT_SECONDS)
        while len(connections) < self.ranks - 1:
            try:
                accepted, _ = self._socket.accept()
            except socket.timeout as error:
                missing = sorted({*range(1, self.ranks)} - {*connections})
                raise RankError(f"Rank {missing[0]} has not come within {CONNECT_SECONDS:.0f} seconds.") from error
            _, user, _ = struct.unpack("3i", accepted.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            if user != os.getuid():
                accepted.close()
                continue
            accepted.setblocking(True)
            connection = Connection(accepted.detach())
            connections[int(connection.recv_bytes())] = connection
        return Rank0(connections)

    def explain(self, sentence: str) -> str:
        """The sentence: how other ranks end is torchrun's to say."""
        return sentence

    def exit_code(self) -> int:
        """Of this rank; each has its own."""
        return 1

    def connect(self) -> Connection:
        """Another rank: the way to rank 0."""
        deadline = time.monotonic() + CONNECT_SECONDS
        while True:
            try:
                self._socket.connect(self._name)
                break
            except OSError as error:
                if time.monotonic() > deadline:
                    raise RankError(f"Rank 0 has not come within {CONNECT_SECONDS:.0f} seconds.") from error
                time.sleep(0.1)
        connection = Connection(self._socket.detach())
        connection.send_bytes(str(self.rank).encode())
        return connection

    def close(self) -> None:
        """Nobody else is to come."""
        self._socket.close()


def find_processes(config: TrainConfig):
    """Who starts the ranks of this run. Raises InputError for contradicting numbers."""
    ranks = torchrun_number("WORLD_SIZE", 1)
    if ranks == 1:
        return OwnProcesses(config.device.ranks)
    if config.device.num_proc not in (1, ranks):
        raise InputError(
            f"torchrun starts {ranks} ranks and --num_proc says {config.device.num_proc}; leave --num_proc out")
    if ranks % len(config.device.gpu):
        raise InputError(
            f"torchrun starts {ranks} ranks, which cannot be shared out over {len(config.device.gpu)} GPUs; "
            "give --gpu as many, or a number that divides it")
    return TorchrunProcesses()
