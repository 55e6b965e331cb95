"""A rank hears at once when the process of another rank ends."""

from __future__ import annotations

import os
import select
import threading
from typing import Callable, Mapping


class ProcessWatch:
    """A thread that waits for the ends of processes."""

    def __init__(self, processes: Mapping[int, int], ended: Callable[[int, int], None]):
        """processes: ids by rank. ended(rank, id): called in the thread for each process that ends first."""
        self._ended = ended
        self._files = {os.pidfd_open(process): (rank, process) for rank, process in processes.items()}
        self._stopped, self._stop = os.pipe()
        self._thread = threading.Thread(target=self._run, name="rank-watch", daemon=True)
        self._thread.start()

    def _run(self):
        readable, _, _ = select.select([*self._files, self._stopped], [], [])
        for file in readable:
            if file in self._files:
                self._ended(*self._files[file])

    def close(self) -> None:
        """The processes may end now."""
        os.close(self._stop)
        self._thread.join()
        for file in (*self._files, self._stopped):
            os.close(file)
