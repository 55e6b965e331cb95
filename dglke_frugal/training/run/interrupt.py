"""Ctrl-C and other signals as a request that a loop reads between two of its rounds: training between two steps."""
from __future__ import annotations

import contextlib
import os
import signal
import threading
from typing import Callable, Optional

BY_HAND = (signal.SIGINT, signal.SIGTERM)
ANNOUNCED = (signal.SIGHUP, signal.SIGUSR1)  # by a terminal that goes (which sends it twice), by Slurm before a limit


class Interrupt:
    """While entered, the first signal only makes this object true. A second SIGINT or SIGTERM raises KeyboardInterrupt;
    SIGHUP and SIGUSR1 never do, and after one of them the first SIGINT or SIGTERM does not either.

        with Interrupt() as interrupt:
            while step < max_step and not interrupt:
                ...

    what_follows: what the first signal is answered with, None for nothing. agree: of a loop that several processes run
    alike, makes of the signal that this one has had, or None, the one that all of them react to. signal: which one
    came, or None. Handlers belong to the main thread; entered in another thread, nothing is caught.
    """

    def __init__(self, what_follows: Optional[str] = "stopping after this step",
                 agree: Callable[[Optional[int]], Optional[int]] = lambda signal: signal):
        self._what_follows, self._agree = what_follows, agree
        self._agreed: Optional[int] = None
        self.signal: Optional[signal.Signals] = None
        self._by_hand = False  # whether a SIGINT or SIGTERM has come
        self._previous = {}

    def __bool__(self) -> bool:
        self._agreed = self._agree(self.signal)
        return bool(self._agreed)

    @property
    def exit_code(self) -> int:
        """What a shell expects of a command that a signal ended; 0 if none came."""
        ended_by = self._agreed or self.signal
        return 128 + ended_by if ended_by else 0

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            for number in (*BY_HAND, *ANNOUNCED):
                if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup: it was to be ignored
                    self._previous[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *_):
        for number, handler in self._previous.items():
            # None: a handler that was not installed from Python, which cannot be restored
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._previous = {}

    def _receive(self, number, _frame):
        if number in BY_HAND:
            if self._by_hand:
                raise KeyboardInterrupt
            self._by_hand = True
        if self.signal is None:
            self.signal = signal.Signals(number)
            # Not print: the signal may have come in the middle of one, and buffered output cannot be entered twice.
            again = "; once more to stop at once" if self._by_hand else ""
            with contextlib.suppress(OSError):
                if self._what_follows:
                    os.write(2, f"\n{self.signal.name}: {self._what_follows}{again}\n".encode())
