"""How the processes of a run talk to each other between steps: a star of local sockets around rank 0.

Messages are a line of JSON and bytes behind it; nothing that is received is executed. Rows never travel here: they go
through the tables and engines in shared memory (store/flushing.py).
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections import deque
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Deque, Dict, List, Optional, Sequence, Tuple

if TYPE_CHECKING:  # most runs are of one process
    from multiprocessing.connection import Connection

Message = Tuple[Dict[str, Any], bytes]

PATIENCE_SECONDS = 10.0  # for processes that have nothing left to do
MERCY_SECONDS = 3.0  # for processes that another one's failure stops
LOOK_STEPS, LOOK_SECONDS = 8, 0.01  # between two looks at the sockets, whichever comes first


class RankError(RuntimeError):
    """A rank has stopped, so the others cannot go on; the message says which one, and why if it could tell."""


class Group(ABC):
    """Processes that train together, as one of them sees it: collectives that all of them call in the same order."""

    @abstractmethod
    def all_bytes(self, content: bytes) -> List[bytes]:
        """What each process gives, in their order, in all of them."""

    def all_of(self, fact: Any) -> List[Any]:
        """The same of values of JSON."""
        return [json.loads(part) for part in self.all_bytes(json.dumps(fact).encode())]

    def from_first(self, fact: Any = None) -> Any:
        """What the first process gives, in all of them."""
        return self.all_of(fact)[0]

    def barrier(self) -> None:
        """Wait until all processes are here."""
        self.all_bytes(b"")


class Channel:
    """One end of the socket between rank 0 and another rank. Messages that nobody asked for yet are kept in
    order."""

    def __init__(self, connection: Connection, rank: int):
        self.connection, self.rank = connection, rank  # rank: of the other end
        self._kept: Deque[Message] = deque()

    def send(self, kind: str, content: bytes = b"", **fields: Any) -> None:
        """Raises RankError if the other end has gone."""
        try:
            self.connection.send_bytes(json.dumps({"kind": kind, **fields}).encode() + b"\n" + content)
        except OSError as error:
            self._find_last_words()
            raise RankError(f"Rank {self.rank} has ended.") from error

    def expect(self, kind: str) -> Message:
        """The next message of this kind. Raises RankError if the other end has gone or says that it failed."""
        while (message := self._first_kept(kind)) is None:
            self._kept.append(self._receive())
        return message

    def take(self, kind: str) -> Optional[Message]:
        """A message of this kind if one has arrived."""
        while self.connection.poll(0):
            self._kept.append(self._receive())
        return self._first_kept(kind)

    def _first_kept(self, kind: str) -> Optional[Message]:
        for message in self._kept:
            if message[0]["kind"] == kind:
                self._kept.remove(message)
                return message
        return None

    def _receive(self) -> Message:
        try:
            data = self.connection.recv_bytes()
        except (EOFError, OSError) as error:
            raise RankError(f"Rank {self.rank} has ended.") from error
        head, _, content = data.partition(b"\n")
        fields = json.loads(head)
        if fields["kind"] == "error":
            raise RankError(fields["sentence"])
        return fields, content

    def _find_last_words(self) -> None:
        """Raises RankError with what the other end said before it went, if it did."""
        while self.connection.poll(0):
            self._receive()

    def close(self) -> None:
        self.connection.close()


class ProcessGroup(Group):
    """What both sides know of an interrupt: after which step all ranks stop, and for which signal."""

    def __init__(self, rank: int, ranks: int):
        self.rank, self.ranks = rank, ranks
        self.stop_step: Optional[int] = None
        self.stop_signal: Optional[int] = None
        self._resolved = False
        self._looked = -LOOK_STEPS, 0.0  # after which step, and when

    def _looks(self, done: int) -> bool:
        """Whether this end looks at its sockets after step number `done`; it does within LOOK_STEPS steps."""
        step, moment = self._looked
        now = time.monotonic()
        if done - step < LOOK_STEPS and now - moment < LOOK_SECONDS:
            return False
        self._looked = done, now
        return True

    def _stop(self, step: int, signal: int) -> None:
        self.stop_step, self.stop_signal = step, signal

    def _stopped(self, done: int) -> bool:
        return self.stop_step is not None and done >= self.stop_step


class Rank0(ProcessGroup):
    """Rank 0. processes: the ones that it started itself."""

    def __init__(self, connections: Dict[int, Connection], processes: Sequence = ()):
        super().__init__(0, len(connections) + 1)
        self._channels = [Channel(connections[rank], rank) for rank in sorted(connections)]
        self._processes = list(processes)

    def all_bytes(self, content):
        parts = [content] + [channel.expect("part")[1] for channel in self._channels]
        for channel in self._channels:
            channel.send("all", b"".join(parts), sizes=[len(part) for part in parts])
        return parts

    def stops_after(self, done: int, signal: Optional[int], ahead: int, last: int) -> bool:
        """Whether all ranks stop after step number `done`, because one of them got a signal.

        ahead: how many steps another rank may be ahead of this one, at most. last: the number of the last step.
        """
        if self.stop_step is None:
            ready = self._ready() if self._looks(done) else []
            asked = [channel.take("interrupt") for channel in ready]
            signal = signal or next((message[0]["signal"] for message in asked if message), None)
            if signal:
                self._stop(done + ahead + LOOK_STEPS, signal)
                for channel in self._channels:
                    channel.send("stop", step=self.stop_step, signal=signal)
        if (
            done >= last and not self._resolved
        ):  # a late signal must not reach some ranks before their end and others after
            self._resolved = True
            if self.stop_signal:
                self._stop(done, self.stop_signal)
            for channel in self._channels:
                channel.send("resolved", signal=self.stop_signal)
        return self._stopped(done)

    def _ready(self) -> List[Channel]:
        from multiprocessing.connection import wait

        readable = wait([channel.connection for channel in self._channels], 0)
        return [channel for channel in self._channels if channel.connection in readable]

    def close(self, failed: bool) -> None:
        """End the processes that this one started: wait a little, then insist."""
        deadline = time.monotonic() + (MERCY_SECONDS if failed else PATIENCE_SECONDS)
        for channel in self._channels:
            channel.close()
        for process in self._processes:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except Exception:  # subprocess.TimeoutExpired, or a second Ctrl-C while waiting
                process.kill()
        for process in self._processes:
            process.wait()


class Worker(ProcessGroup):
    """Another rank than 0."""

    def __init__(self, connection: Connection, rank: int):
        super().__init__(rank, 0)  # rank 0 says how many there are
        self._channel = Channel(connection, 0)
        self._told = False

    def all_bytes(self, content):
        self._channel.send("part", content)
        fields, joined = self._channel.expect("all")
        return [joined[end - size : end] for size, end in zip(fields["sizes"], accumulate(fields["sizes"]))]

    def stops_after(self, done: int, signal: Optional[int], ahead: int, last: int) -> bool:
        if signal and not self._told:
            self._told = True
            self._channel.send("interrupt", signal=int(signal))
        # "resolved" takes every signal into account; a "stop" that is read later must not take its place.
        message = self._channel.take("stop") if not self._resolved and self._looks(done) else None
        if message:
            self._stop(message[0]["step"], message[0]["signal"])
        if done >= last and not self._resolved:
            self._resolved = True
            agreed = self._channel.expect("resolved")[0]["signal"]
            self.stop_step, self.stop_signal = (done if agreed else None), agreed
        return self._stopped(done)

    def tell_error(self, sentence: str) -> None:
        """Last words, if rank 0 still listens."""
        try:
            self._channel.send("error", sentence=sentence)
        except RankError:
            pass
