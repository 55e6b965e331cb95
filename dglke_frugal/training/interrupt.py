"""Ctrl-C and SIGTERM as a request that the training loop meets between two steps."""
from __future__ import annotations

import contextlib
import os
import signal
import threading
from typing import Optional

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupt:
    """While entered, the first SIGINT or SIGTERM only makes this object true; a second one raises KeyboardInterrupt.

        with Interrupt() as interrupt:
            while step < max_step and not interrupt:
                ...

    signal: which one came, or None. Handlers belong to the main thread; entered in another thread, nothing is caught.
    """

    def __init__(self):
        self.signal: Optional[signal.Signals] = None
        self._previous = {}

    def __bool__(self) -> bool:
        return self.signal is not None

    @property
    def exit_code(self) -> int:
        """What a shell expects of a command that a signal ended; 0 if none came."""
        return 128 + self.signal if self.signal else 0

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup: it was to be ignored
                    self._previous[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *_):
        for number, handler in self._previous.items():
            # None: a handler that was not installed from Python, which cannot be restored
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._previous = {}

    def _receive(self, number, _frame):
        if self.signal is not None:
            raise KeyboardInterrupt
        self.signal = signal.Signals(number)
        # Not print: the signal may have come in the middle of one, and buffered output cannot be entered twice.
        with contextlib.suppress(OSError):
            os.write(2, f"\n{self.signal.name}: stopping after this step; once more to stop at once\n".encode())
