"""Names in the shared memory's file system, which stay after processes that are killed."""

import contextlib
import os
from pathlib import Path

FOLDER = "/dev/shm/"


def names_of(*process_ids):
    """Files there that these processes have open or mapped and that a kill would leave: no memfd, no deleted file."""
    paths = set()
    for process in process_ids:
        for file in Path(f"/proc/{process}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed since
                paths.add(os.readlink(file))
        maps = Path(f"/proc/{process}/maps").read_text().splitlines()
        paths.update(line.split(maxsplit=5)[5] for line in maps if FOLDER in line)
    return {path for path in paths if path.startswith(FOLDER) and not path.endswith(" (deleted)")}
