"""The lock of a table, within which Ctrl-C waits."""
from __future__ import annotations

import threading
from _signal import SIGINT, getsignal, signal  # the module `signal` takes ten times as long, in each lookup
from typing import Any, Optional


class TableLock:
    """A lock for one thread at a time, which may enter it again.

    A lookup, a gradient or a write that Ctrl-C cuts off would leave the rows, the cache and the threads that work on
    them in states that do not belong together. In the main thread, where Python handles signals, the first SIGINT is
    therefore handled when the lock is released; a second one is handled at once.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._main = threading.main_thread().ident
        self._depth = 0  # of the main thread
        self._handler: Any = None  # which was there before, None while nothing waits
        self._waiting = False

    def __enter__(self) -> None:
        if threading.get_ident() != self._main:
            self._lock.acquire()
            return
        if not self._depth:
            handler = getsignal(SIGINT)
            if callable(handler):
                signal(SIGINT, self._wait)  # first: a lock that Ctrl-C takes in between would stay taken
                self._handler = handler
        self._depth += 1
        try:
            self._lock.acquire()
        except BaseException:  # a second Ctrl-C
            self._leave()
            raise

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        if threading.get_ident() == self._main:
            self._leave()

    def _leave(self) -> None:
        self._depth -= 1
        if self._depth:
            return
        handler, self._handler = self._handler, None
        if handler is None:
            return
        signal(SIGINT, handler)
        if self._waiting:
            self._waiting = False
            handler(SIGINT, None)

    def _wait(self, number: int, frame: Optional[object]) -> None:
        if not self._waiting or self._handler is None:
            self._waiting = True
            return
        handler, self._handler, self._waiting = self._handler, None, False
        signal(SIGINT, handler)
        handler(number, frame)
