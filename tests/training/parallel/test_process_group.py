"""What ranks of one machine tell each other, and how they hear that one has ended."""
import os
import signal
import subprocess
import sys
import threading
from multiprocessing.connection import Pipe

import pytest
from threads import at_once

from dglke_frugal.training.processes import process_group
from dglke_frugal.training.processes.process_group import Rank0, RankError, Worker
from dglke_frugal.training.processes.process_watch import ProcessWatch


@pytest.fixture
def groups():
    """Of three ranks, in their order."""
    pipes = {rank: Pipe() for rank in (1, 2)}
    made = [Rank0({rank: here for rank, (here, _) in pipes.items()}),
            *(Worker(there, rank) for rank, (_, there) in pipes.items())]
    yield made
    for here, there in pipes.values():
        here.close(), there.close()


def on_all(groups, call):
    """What call(group) returns or raises in each rank, which run at the same time."""
    def run(rank):
        try:
            return call(groups[rank])
        except RankError as error:
            return error

    return at_once(run, len(groups))


def test_all_ranks_hear_what_each_says(groups):
    parts = [b"", b"\n{", bytes(1 << 20)]  # nothing, what looks like the end of a header, more than a socket holds
    assert on_all(groups, lambda group: group.all_bytes(parts[group.rank])) == [parts] * 3
    facts = [{"rank": rank} for rank in range(3)]
    assert on_all(groups, lambda group: group.all_of(facts[group.rank])) == [facts] * 3
    assert on_all(groups, lambda group: group.from_first(group.rank + 7)) == [7] * 3
    assert on_all(groups, lambda group: group.barrier()) == [None] * 3


def test_a_rank_that_fails_says_so_in_its_last_words(groups):
    groups[2].tell_error("Rank 2 stopped: no room")
    groups[2]._channel.close()
    with pytest.raises(RankError, match="^Rank 2 stopped: no room$"):
        on_all(groups[1:2], lambda group: group._channel.send("part"))
        groups[0].barrier()


def test_a_rank_that_is_gone_is_named(groups):
    groups[1]._channel.close()
    with pytest.raises(RankError, match="^Rank 1 has ended.$"):
        groups[0].barrier()


def test_a_signal_in_the_last_steps_stops_all_ranks_after_the_last(groups, monkeypatch):
    """Also ranks that hear of it when they wait for each other already, and look for messages once more."""
    monkeypatch.setattr(process_group, "LOOK_SECONDS", 60.0)
    for group in groups[1:]:
        assert not group.stops_after(11, None, 0, 12)  # which looks, and will not so soon again
    assert not groups[0].stops_after(11, signal.SIGTERM, 0, 12)
    assert on_all(groups, lambda group: group.stops_after(12, None, 0, 12)) == [True] * 3
    monkeypatch.setattr(process_group, "LOOK_SECONDS", 0.0)
    for group in groups:
        assert group.stops_after(12, None, 0, 12) and group.stop_signal == signal.SIGTERM and group.stop_step == 12


def test_the_end_of_a_process_is_heard_of():
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    heard, found = threading.Event(), []
    watch = ProcessWatch({0: os.getpid(), 5: process.pid}, lambda *ended: (found.append(ended), heard.set()))
    process.communicate(b"\n")
    assert heard.wait(60) and found == [(5, process.pid)]
    watch.close()


def test_a_watch_that_is_closed_says_nothing():
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    found = []
    ProcessWatch({5: process.pid}, lambda *ended: found.append(ended)).close()
    process.communicate(b"\n")
    assert not found
