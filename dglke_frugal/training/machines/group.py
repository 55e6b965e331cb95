"""The machines of a run: their numbers and names, their messages outside of steps, and how a failure is noticed.

All goes through torch.distributed, by the gloo backend, and the key-value store of its rendezvous. Messages are JSON;
nothing that is received is executed or unpickled.

Collectives have no timeout of their own, since a machine may validate or write for minutes. Instead a thread of each
machine writes to the store several times a second that the machine is alive, and looks for such messages of the others.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
import time
import uuid
from datetime import timedelta
from typing import Any, Callable, Dict, Iterator, List, Optional, Set

import numpy as np

from ...divergence import DIVERGED
from ...errors import InputError, first_line, shortage, shown
from ..processes.available_threads import torchrun_number
from ..processes.process_group import Group
from ..run.interrupt import Interrupt
from .transport import LANES, GlooTransport, MachineError

INTERFACES = "GLOO_SOCKET_IFNAME"
BEAT_SECONDS = 0.2
CONNECT_SECONDS = 60.0
QUIET_SECONDS = 3.0  # after which a machine says that it waits for others
LOOK_SECONDS = 0.05  # between two looks for machines that come
MEASURED_BYTES = 4 << 20  # for each other machine
LOST_SECONDS = 1.0  # without a beat, of a machine whose connection is closed
COLLECTIVE_HOURS = 24  # a bound that no pause reaches


class FoundByAll(InputError):
    """An error that all machines find at the same time: each reports it, and none needs a message from another."""


@contextlib.contextmanager
def found_by_all() -> Iterator[None]:
    """An InputError in here is raised on all machines alike."""
    try:
        yield
    except InputError as error:
        raise FoundByAll(str(error)) from None


@contextlib.contextmanager
def _said_if_it_takes_long(sentence: str) -> Iterator[None]:
    timer = threading.Timer(QUIET_SECONDS, print, [sentence], {"file": sys.stderr, "flush": True})
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class Machines(Group):
    """This machine's place among all. A context manager.

    Attributes:
        machine, machines: which one this is, of how many.
        transport: for blocks of steps.
        advice: a function that says what to do after a failure, as the end of a sentence.
    """

    def __init__(self, timeout: float):
        """timeout: seconds after which a machine that is not heard of has failed. Raises InputError where the others
        cannot be reached."""
        self.machine, self.machines = (torchrun_number(name) for name in ("RANK", "WORLD_SIZE"))
        if torchrun_number("LOCAL_WORLD_SIZE", 1) != 1:
            raise InputError("each machine is one worker, with all its cores; start torchrun with --nproc_per_node 1")
        self.timeout, self.host = timeout, socket.gethostname()
        self.hosts = [""] * self.machines  # by machine, empty until a machine is heard of
        self.advice: Callable[[], str] = lambda: ""
        self.address = os.environ.get("MASTER_ADDR", ""), torchrun_number("MASTER_PORT")
        self._control, self._watch = None, None
        self._connect()

    @property
    def place(self) -> str:
        """Where the store is."""
        return ":".join(map(str, self.address))

    def _connect(self) -> None:
        # torch's C++ code prints a stack trace for each machine that it cannot reach; what is wrong is said below.
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")
        import torch.distributed as dist

        patience = timedelta(seconds=CONNECT_SECONDS)
        this = f"machine {self.machine} of {self.machines} ({self.host})"
        self._check_address(this)
        of_agent = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        try:  # the store is kept, since without torchrun machine 0 serves it
            with _said_if_it_takes_long(f"{this} waits for the others at {self.place}"):
                serves = self.machine == 0 and not of_agent
                if not serves:
                    self._wait_for_port()
                self._store = dist.TCPStore(*self.address, is_master=serves, wait_for_workers=False, timeout=patience)
                self._watch_from_now_on()
        except (RuntimeError, ValueError, OSError) as error:
            if "EADDRINUSE" in str(error):
                raise InputError(f"{this} cannot serve the rendezvous at {self.place}: another process has this port; "
                                 "give another one on all machines") from None
            raise InputError(f"{this} cannot reach the rendezvous at {self.place}, which machine 0 serves; start that "
                             f"one, too, and check the address and the port: {first_line(error)}") from None
        try:
            self._check_interfaces(this)
            dist.init_process_group("gloo", store=dist.PrefixStore(self.keys, self._store), rank=self.machine,
                                    world_size=self.machines, timeout=patience)
            forever = timedelta(hours=COLLECTIVE_HOURS)
            self._control, *lanes = (dist.new_group(backend="gloo", timeout=forever) for _ in range(1 + len(LANES)))
            self.transport = GlooTransport(lanes, self.machine, self.machines)
            self.hosts = [fact["host"] for fact in self.all_of({"host": self.host})]
        except (RuntimeError, ValueError, MachineError) as error:
            self._watch.explain()
            interface = os.environ.get(INTERFACES)
            over = f"over the interface {interface} ({INTERFACES})" if interface else (
                f"over the interface that this machine's name stands for; name another one with {INTERFACES}")
            sentence = f"{this} cannot reach the others {over}: {first_line(error)}"
            self._watch.fail(sentence)
            raise InputError(sentence) from None

    def _check_address(self, this: str) -> None:
        """Raise InputError if the rendezvous is at a host that nobody knows, for which torch would wait. this: the
        machine in a sentence."""
        try:
            socket.getaddrinfo(*self.address)
        except (OSError, UnicodeError) as error:
            raise InputError(f"{this} finds no host {shown(self.address[0])!r}, where the rendezvous is to be "
                             f"({first_line(error)}); check --rdzv_endpoint, or MASTER_ADDR") from None

    def _wait_for_port(self) -> None:
        """Wait until somebody listens at the rendezvous. Raises OSError after CONNECT_SECONDS; torch's store waits two
        or three times as long as it is told."""
        until = time.monotonic() + CONNECT_SECONDS
        while True:
            left = until - time.monotonic()
            try:
                socket.create_connection(self.address, max(left, LOOK_SECONDS)).close()
                return
            except OSError:
                if left <= 0:
                    raise
            time.sleep(LOOK_SECONDS)

    def _watch_from_now_on(self) -> None:
        """Agree on a new name for this start of the run, and let the machines hear of each other under it: in the store
        of torchrun lie the keys of earlier starts, and how often torchrun has restarted it differs between machines.
        Machine 0 makes the name, and answers whoever asks until all are heard of."""
        place = f"dglke_frugal/{os.environ.get('TORCHELASTIC_RUN_ID', '')}"
        own = uuid.uuid4().hex
        if self.machine > 0:
            self._store.set(f"{place}/asks/{self.machine}", own)
            own = self._store.get(f"{place}/answer/{own}").decode()
        self.keys = f"dglke_frugal/{own}/"
        self._watch = _Watch(self)
        missing = set(range(1, self.machines)) if self.machine == 0 else ()
        while missing:
            for machine in sorted(missing):
                if self._store.check([asks := f"{place}/asks/{machine}"]):  # an earlier start's, perhaps
                    self._store.set(f"{place}/answer/{self._store.get(asks).decode()}", own)
            missing -= self._watch.heard_of()
            time.sleep(LOOK_SECONDS)

    def _check_interfaces(self, this: str) -> None:
        """Raise FoundByAll if gloo cannot use an interface that a machine's environment names. The machines tell each
        other at the store, since they have no other way yet. this: the machine in a sentence."""
        own, found, known = why_no_interface(), self.keys_of("interface"), self.keys_of("known")
        self._store.set(found[self.machine], own and f"{this} {own}")
        self._wait_for(found)
        wrong = next(filter(None, (self._store.get(key).decode() for key in found)), None)
        if wrong is None:
            return
        self._store.set(known[self.machine], "")
        if self.machine == 0:  # with which the store may go
            self._wait_for(known)
        self.close()
        raise FoundByAll(wrong)

    def keys_of(self, topic: str) -> List[str]:
        """Of all machines, at the store."""
        return [f"{self.keys}{topic}/{machine}" for machine in range(self.machines)]

    def _wait_for(self, keys: List[str]) -> None:
        """Until they are at the store. The watch ends a process that waits in vain."""
        while not self._store.check(keys):
            time.sleep(LOOK_SECONDS)

    # ---- messages

    def all_bytes(self, content: bytes) -> List[bytes]:
        """What each machine gives, by machine, in all of them. Raises MachineError."""
        sizes = [int(size) for size in self._gather(np.array([len(content)], np.int64), [8] * self.machines)
                 .view(np.int64)]
        got = self._gather(np.frombuffer(content, np.uint8), sizes)
        return [part.tobytes() for part in np.split(got, np.cumsum(sizes)[:-1])]

    def _gather(self, content: np.ndarray, sizes: List[int]) -> np.ndarray:
        """content: any dtype. sizes: bytes of each machine."""
        own = content.view(np.uint8)
        return self.scatter(np.tile(own, self.machines), [len(own)] * self.machines, sizes)

    def scatter(self, content: np.ndarray, sent: List[int], received: List[int]) -> np.ndarray:
        """Bytes for each machine, one behind the other, for those that come: (sum of received,) uint8."""
        import torch
        import torch.distributed as dist

        got = torch.empty(sum(received), dtype=torch.uint8)
        try:
            given = torch.from_numpy(np.require(content.view(np.uint8), requirements="W"))
            dist.all_to_all_single(got, given, received, sent, group=self._control)
        except RuntimeError as error:
            raise MachineError(str(error)) from error
        return got.numpy()

    def of_first(self, value: Callable[[], Any]) -> Any:
        """The value, of JSON, that machine 0 makes, on all machines. Raises FoundByAll if that raises InputError."""
        made, why_not = None, None
        if self.machine == 0:
            try:
                made = value()
            except InputError as error:
                why_not = str(error)
        made, why_not = self.from_first((made, why_not))
        if why_not is not None:
            raise FoundByAll(why_not)
        return made

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """A context for what each machine does alone: all raise FoundByAll if one has an InputError. Collective."""
        why_not = None
        try:
            yield
        except InputError as error:
            why_not = str(error)
        of_all = self.all_of(why_not)
        for machine, found in enumerate(of_all):
            if found is not None:
                alike = all(other == found for other in of_all)
                raise FoundByAll(found if alike else f"{self.name(machine)}: {found}")

    def bytes_per_second(self) -> float:
        """What the network carries from this machine, all sending at once, by a short measurement; collective."""
        others = [0 if machine == self.machine else MEASURED_BYTES for machine in range(self.machines)]
        content = np.zeros(sum(others), np.uint8)
        self.scatter(content, others, others)  # opens what there is to open
        self.barrier()
        began = time.perf_counter()
        self.scatter(content, others, others)
        return sum(others) / (time.perf_counter() - began)

    # ---- failures

    def name(self, machine: int) -> str:
        """A machine in a sentence."""
        return f"machine {machine} ({self.hosts[machine]})" if self.hosts[machine] else f"machine {machine}"

    def fail(self, error: BaseException) -> None:
        """Tell all others why this machine ends."""
        if self._watch is not None:
            by_hand = isinstance(error, KeyboardInterrupt)
            why = "was stopped by Ctrl-C or a signal" if by_hand else (
                f"has stopped: {first_line(shortage(error) or error)}")
            self._watch.fail(f"{self.name(self.machine)} {why}")

    def explain(self) -> None:
        """After a MachineError: end this process with the sentence of the machine that failed. Returns only if none is
        found."""
        if self._watch is not None:
            self._watch.explain()

    def close(self) -> None:
        """After the last barrier of all machines, or one has failed."""
        if self._watch is not None:
            self._watch.close()

    def __enter__(self) -> "Machines":
        return self

    def __exit__(self, kind, error, trace):
        if isinstance(error, MachineError):
            self.explain()
        elif error is not None and not isinstance(error, (SystemExit, FoundByAll)):
            self.fail(error)
        self.close()
        if error is None or isinstance(error, FoundByAll):  # else it would wait for what no machine ends any more
            import torch.distributed as dist

            dist.destroy_process_group()


class _Watch:
    """Two threads: one writes to the store that this machine is alive, and reads what the others write there; one looks
    at clocks, and ends the process if a machine is lost. The second never waits for the network, which may have
    failed."""

    def __init__(self, group: Machines):
        self._group = group
        self._stop, self._wake, self._published = threading.Event(), threading.Event(), threading.Event()
        self._patience = group.timeout
        self._sentence: Optional[str] = None  # why this machine ends, and then why all do
        self._began = now = time.monotonic()
        self._heard: Dict[int, float] = {}  # when, of the machines that have come
        self._beats: Dict[int, str] = {}
        self._said, self._store = now, self._open()
        self._threads = [threading.Thread(target=target, name=name, daemon=True)
                         for target, name in ((self._beat, "machine-beat"), (self._look, "machine-watch"))]
        for thread in self._threads:
            thread.start()

    def _open(self):
        import torch.distributed as dist

        return dist.TCPStore(*self._group.address, is_master=False, timeout=timedelta(seconds=CONNECT_SECONDS))

    def _beat(self) -> None:
        number = 0
        while not self._stop.is_set():
            number += 1
            with contextlib.suppress(RuntimeError):  # the store has gone; the other thread finds out for how long
                self._exchange(number)
                self._said = time.monotonic()
            self._wake.wait(BEAT_SECONDS)
            self._wake.clear()

    def _exchange(self, number: int) -> None:
        group, store = self._group, self._store
        failed = group.keys + "failed"
        store.set(f"{group.keys}beat/{group.machine}", f"{number} {group.host}")
        if self._sentence is not None:
            self._sentence = store.compare_set(failed, "", self._sentence).decode() or self._sentence
            store.set(group.keys_of("knows")[group.machine], "")
            self._published.set()
        elif store.check([failed]):
            sentence = store.get(failed).decode()  # before it says so, since the store may then go with machine 0
            store.set(group.keys_of("knows")[group.machine], "")
            self._wait_until_others_know()
            self._end(sentence)
        for machine in range(group.machines):
            key = f"{group.keys}beat/{machine}"
            beat = store.get(key).decode() if store.check([key]) else None
            if beat != self._beats.get(machine):
                self._beats[machine], self._heard[machine] = beat, time.monotonic()
                group.hosts[machine] = beat.partition(" ")[2]

    def _look(self) -> None:
        group = self._group
        while not self._stop.wait(BEAT_SECONDS / 2):
            patience, now, said = self._patience, time.monotonic(), self._said
            others = {machine: heard for machine, heard in list(self._heard.items()) if machine != group.machine}
            longest = min(others, key=others.__getitem__, default=0)  # silent, of the others
            # Until the rendezvous last answered: nobody could be heard of since.
            silent = said - others[longest] if others else 0.0
            missing = set(range(group.machines)) - self.heard_of()
            if missing and now - self._began > CONNECT_SECONDS:
                self.fail(f"{group.name(min(missing))} has not come within {CONNECT_SECONDS:g} seconds; start it with "
                          "the same command")
                self._end(self._sentence)
            # The rendezvous goes with machine 0, which may have ended because another machine was silent for
            # LOST_SECONDS; this machine may have heard that one a beat later.
            elif silent > patience or (now - said > patience and silent > LOST_SECONDS - BEAT_SECONDS):
                self.fail(f"{group.name(longest)} has ended, hangs, or cannot be reached: it has not been heard of "
                          f"for {patience:g} s")
                self._end(self._sentence)
            elif now - said > patience:
                self._end(f"{group.name(0)}, or the network to it, is lost: the rendezvous at {group.place} has not "
                          f"answered for {patience:g} s")

    def heard_of(self) -> Set[int]:
        """The machines that have come."""
        return set(self._heard)

    def fail(self, sentence: str) -> None:
        """Say for all machines why the run ends. The first sentence counts, on all machines."""
        self._sentence = sentence
        self._wake.set()
        if self._published.wait(LOST_SECONDS):
            self._wait_until_others_know()

    def _wait_until_others_know(self) -> None:
        """Until all that are heard of have read why the run ends: the store may go with this process. A short while."""
        began, knows = time.monotonic(), self._group.keys_of("knows")
        with contextlib.suppress(RuntimeError):  # the store has gone
            while (now := time.monotonic()) - began < LOST_SECONDS:
                alive = [machine for machine, heard in list(self._heard.items()) if now - heard < LOST_SECONDS]
                if self._store.check([knows[machine] for machine in alive]):
                    return
                time.sleep(LOOK_SECONDS)

    def explain(self) -> None:
        """A connection is closed. Wait for this process to be ended with the sentence: that of a machine which said
        why, or that on the machine which is not heard of any more."""
        self._patience = LOST_SECONDS
        with Interrupt(None):  # torchrun, whose rendezvous may go with that machine, must not end this process first
            self._stop.wait(self._group.timeout + 2 * LOST_SECONDS)

    def _end(self, sentence: str) -> None:
        """End the process at once: its main thread may wait for a machine that is not there."""
        if self._stop.is_set():
            return
        diverged, advice = DIVERGED in sentence, ""  # a divergence would happen again
        try:
            if not diverged:
                with contextlib.suppress(OSError):  # of the run's folder
                    advice = self._group.advice()
            os.write(2, f"dglke_train: {sentence}{'; ' + advice if advice else ''}\n".encode())
        finally:  # also where nobody reads the sentence any more
            os._exit(2 if diverged else 1)

    def close(self) -> None:
        self._stop.set()
        self._wake.set()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(LOST_SECONDS)


def why_no_interface() -> str:
    """Why gloo cannot use an interface that the environment names, as the end of a sentence; empty if it can."""
    import torch.distributed as dist

    for name in filter(None, os.environ.get(INTERFACES, "").split(",")):
        try:
            dist.ProcessGroupGloo.create_device(interface=name)
        except RuntimeError:
            there = ", ".join(found for _, found in socket.if_nameindex())
            return (f"has no network interface {name} with an address, which {INTERFACES} names; name one of its own: "
                    f"{there}")
    return ""


def several_machines() -> bool:
    """Whether torchrun has started this process as one of several machines."""
    workers = torchrun_number("WORLD_SIZE", 1)
    return workers > 1 and torchrun_number("LOCAL_WORLD_SIZE", workers) < workers
