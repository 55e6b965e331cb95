"""What processes leave in the shared memory's file system, which tests that run at the same time use as well."""

import contextlib
import os
import time

FOLDER = "/dev/shm"


@contextlib.contextmanager
def nothing_left(seconds=180):
    """Fails if a name that has come up meanwhile stays. Names of tests that run at the same time go when they end."""
    before = set(os.listdir(FOLDER))
    yield
    new, deadline = set(os.listdir(FOLDER)) - before, time.monotonic() + seconds
    while new and time.monotonic() < deadline:
        time.sleep(0.05)
        new &= set(os.listdir(FOLDER))
    assert not new
