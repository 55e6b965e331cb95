"""DGL-KE's commands for several machines: each says in one sentence what to use instead.

The two that prepare files run DGL-KE's own with --backend vanilla.
"""

from __future__ import annotations

from functools import partial

from ..errors import InputError
from .errors import reports_input_errors
from .tool_flags import own_parser

TORCHRUN = ("torchrun --nnodes N --nproc_per_node 1 --rdzv_backend c10d --rdzv_endpoint HOST:PORT "
            "-m dglke_frugal train ...")
INSTEAD = {
    "server": f"machines hold the rows that they own, and there are no servers; type on each machine: {TORCHRUN}",
    "client": "each machine trains on the rows that it owns, and there are no clients; type on each machine: "
    f"{TORCHRUN}",
    "dist_train": f"type on each machine: {TORCHRUN}",
    "partition": "a graph need not be cut up, for each machine reads the same files and takes the triples of the heads "
    f"that it owns, with --partition metis by METIS; type on each machine: {TORCHRUN}; or use --backend vanilla for "
    "DGL-KE's own files",
    "convert": "it makes its files; dglke_train reads names "
    "and ids as they are (--format raw_udd_hrt, udd_hrt), or use --backend vanilla for DGL-KE's own files"}
_RUN_BY_VANILLA = ("partition", "convert")


def _main(command: str, argv) -> None:
    own, rest = own_parser(f"dglke_{command}").parse_known_args(argv)
    if command in _RUN_BY_VANILLA and own.backend == "vanilla":
        from .. import vanilla

        vanilla.run(command, rest)
        return
    raise InputError(f"dglke_{command} belongs to DGL-KE's cluster mode: {INSTEAD[command]}")


server, client, dist_train, partition, convert = (reports_input_errors(partial(_main, command)) for command in INSTEAD)
