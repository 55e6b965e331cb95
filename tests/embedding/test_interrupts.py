"""Ctrl-C at any line of a table's own work: rows are those before or after a gradient, and the table goes on."""
import signal
import sys
import threading
from pathlib import Path

import pytest
import torch

import dglke_frugal
from dglke_frugal import Embedding, optim
from dglke_frugal.embedding import CacheConfig, Constant, Lookahead
from dglke_frugal.embedding.table_lock import TableLock

PACKAGE = str(Path(dglke_frugal.__file__).parent)
BATCHES = [torch.tensor(ids) for ids in ([1, 2, 2], [3, 1], [6, 7, 8], [2], [9, 1])]
CACHED = CacheConfig(cache_ratio=0.3, lookahead=2)
TABLES = {
    "in place": lambda optimizer: Embedding(10, 2, optimizer, init=Constant(0)),
    "cached": lambda optimizer: Embedding(10, 2, optimizer, init=Constant(0), cache=CACHED),
    # Three keys have room: those that a key puts out begin anew.
    "keys": lambda optimizer: Embedding(embedding_dim=2, optimizer=optimizer, init=Constant(0), cache=CACHED,
                                        keys="int64", capacity=3),
}


class InterruptAt:
    """While entered, SIGINT comes at the package's line number `at` that runs; `lines`: that have run."""

    def __init__(self, at):
        self.at, self.lines = at, 0

    def __enter__(self):
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_):
        sys.settrace(None)

    def _trace(self, frame, event, _):
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if event == "line":
            self.lines += 1
            if self.lines == self.at:
                signal.raise_signal(signal.SIGINT)
        return self._trace


def rows_of(table):
    """By id or key."""
    if table._keys is None:
        return dict(enumerate(table.weight.tolist()))
    keys, rows = table.items()
    return dict(zip(keys.tolist(), rows.tolist()))


def train(table, batches):
    for ids in Lookahead(batches, lambda ids: {table: ids}, lookahead=3):
        table(ids).sum().backward()


def states(make):
    """Rows before each lookup by which keys come in, before its gradient, and behind it."""
    table, found = make(optim.SGD(1.0)), []
    found.append(rows_of(table))
    for ids in BATCHES:
        rows = table(ids)
        found.append(rows_of(table))
        rows.sum().backward()
        found.append(rows_of(table))
    return found


@pytest.mark.parametrize("name", list(TABLES))
def test_a_table_is_whole_after_an_interrupt_at_any_line(name):
    make = TABLES[name]
    expected = states(make)
    with InterruptAt(0) as counted:
        train(make(optim.SGD(1.0)), BATCHES)
    for at in range(1, counted.lines, 7):
        table = make(optim.SGD(1.0))
        try:
            with InterruptAt(at):
                train(table, BATCHES)
        except KeyboardInterrupt:
            pass
        assert rows_of(table) in expected, at
        again = make(optim.SGD(1.0))
        again.load_state_dict(table.state_dict())
        train(table, BATCHES)
        train(again, BATCHES)
        assert rows_of(table) == rows_of(again), at
        table.close()


def test_a_second_interrupt_does_not_wait():
    lock, handler = TableLock(), signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        with lock, lock:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            pytest.fail("the second interrupt waited")
    assert signal.getsignal(signal.SIGINT) is handler
    entered = threading.Thread(target=lock.__enter__)
    entered.start()
    entered.join(10)
    assert not entered.is_alive()  # so the lock was released


def test_an_interrupt_that_waited_comes_when_the_table_is_released_and_only_once():
    lock, handler = TableLock(), signal.getsignal(signal.SIGINT)
    passed = False
    with pytest.raises(KeyboardInterrupt):
        with lock:
            signal.raise_signal(signal.SIGINT)
            passed = True
    assert passed and signal.getsignal(signal.SIGINT) is handler
    with lock:
        pass
