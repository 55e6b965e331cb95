"""The process of a rank that rank 0 has started (rank_child.py), with a socket's number and the rank as arguments."""
from __future__ import annotations

import sys
from multiprocessing.connection import Connection

from ...errors import InputError, shortages_as_input_errors
from ...output import tolerant_output


def main() -> None:
    """Run the rank to its end."""
    with tolerant_output():
        connection, rank = Connection(int(sys.argv[1])), int(sys.argv[2])
        try:
            with shortages_as_input_errors():
                from .train_ranks import follow  # here, because the libraries that it needs may not fit into memory
        except InputError as error:
            sys.stderr.write(f"{error}\n")
            sys.exit(2)
        sys.exit(follow(connection, rank))
