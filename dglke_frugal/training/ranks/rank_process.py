"""The process of a rank that rank 0 has started (rank_child.py), with a socket's number and the rank as arguments."""
from __future__ import annotations

import sys
from multiprocessing.connection import Connection

from ...output import tolerant_output
from .train_ranks import follow


def main() -> None:
    """Run the rank to its end."""
    with tolerant_output():
        sys.exit(follow(Connection(int(sys.argv[1])), int(sys.argv[2])))
