"""Progress of long work: a bar on a terminal, a plain line now and then elsewhere."""
from __future__ import annotations

import sys
import time


class _Lines:
    """Stands in for tqdm where the output is no terminal: one line at most every `seconds`."""

    def __init__(self, total, desc, unit, initial=0, seconds=10.0, delay=None):
        self.total, self.desc, self.unit, self.seconds = total, desc, unit, seconds
        self.n, self._last = initial, time.monotonic() + ((delay or seconds) - seconds)

    def update(self, n=1):
        self.n += n
        now = time.monotonic()
        if now - self._last >= self.seconds and sys.stderr:  # None in a process without one; print takes stdout then
            self._last = now
            of = f" of {self.total:,}" if self.total else ""
            print(f"{self.desc}: {self.n:,}{of} {self.unit}", file=sys.stderr, flush=True)

    def close(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def shows_bars() -> bool:
    """Whether a bar that moves can be seen: on a terminal, and in a notebook."""
    return bool(sys.stderr) and sys.stderr.isatty() or "ipykernel" in sys.modules


def progress(total: int | None, desc: str, unit: str = "it", initial: int = 0, delay: float = 0.0, **options):
    """A progress display with `update(n)` and `close()`, usable as a context manager; written to stderr.

    delay: seconds before it shows anything.
    """
    if shows_bars():
        from tqdm import tqdm

        return tqdm(total=total, desc=desc, unit=unit, initial=initial, leave=False, delay=delay, **options)
    return _Lines(total, desc, unit, initial, delay=delay)
