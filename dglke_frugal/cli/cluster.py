"""DGL-KE's commands for several machines: each says in one sentence what to use instead.

The two that prepare files run DGL-KE's own with --backend vanilla.
"""

from __future__ import annotations

from functools import partial

from ..errors import InputError
from .errors import reports_input_errors
from .tool_flags import own_parser

ONE_MACHINE = "dglke_train with --num_proc N or --gpu 0 1 ... on one machine"
INSTEAD = {
    "server": f"the table of dglke_frugal lies in host memory and needs no server; use {ONE_MACHINE}",
    "client": f"ranks of dglke_frugal reach the table through host memory and are no clients; use {ONE_MACHINE}",
    "dist_train": f"dglke_frugal does not train on several machines; use {ONE_MACHINE}, which is exact, and "
    "dglke_frugal plan to see whether the graph fits there",
    "partition": "it cuts a graph up for several machines; use dglke_train with "
    "--num_proc N --partition metis, which partitions by itself, or --backend vanilla for DGL-KE's own files",
    "convert": "it makes its files; dglke_train reads names "
    "and ids as they are (--format raw_udd_hrt, udd_hrt), or use --backend vanilla for DGL-KE's own files",
}
_RUN_BY_VANILLA = ("partition", "convert")


def _main(command: str, argv) -> None:
    own, rest = own_parser(f"dglke_{command}").parse_known_args(argv)
    if command in _RUN_BY_VANILLA and own.backend == "vanilla":
        from .. import compat

        compat.run(command, rest)
        return
    raise InputError(f"dglke_{command} belongs to DGL-KE's cluster mode: {INSTEAD[command]}")


server, client, dist_train, partition, convert = (
    reports_input_errors(partial(_main, command)) for command in INSTEAD
)
