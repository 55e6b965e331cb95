"""Machines of their own network on one host: namespaces joined by a pair of virtual cards of limited speed. Needs root.

    python -m benchmarks.namespaces [--gbit 2.5] -- COMMAND ...

runs COMMAND in each of two namespaces, with RANK and what else torch.distributed reads in the environment, so that for
instance `python -m dglke_frugal train ...` is a run of two machines. --cores gives each machine its own.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import uuid
from typing import Dict, Iterator, List, Optional, Sequence

ADDRESSES = ("10.77.0.1", "10.77.0.2")
PORT, CARD = "29555", "frugal0"


def can_make() -> bool:
    """Whether this process may make namespaces."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    return subprocess.run(["ip", "netns", "list"], capture_output=True, check=False).returncode == 0


@contextlib.contextmanager
def two_namespaces(gbit: Optional[float]) -> Iterator[Sequence[str]]:
    """Names of two namespaces that reach each other over a card CARD, each with so many Gb/s to send; None: no
    limit."""
    mark = uuid.uuid4().hex[:6]
    names, cards = [f"frugal-{mark}-{end}" for end in (0, 1)], [f"fr{mark}{end}" for end in (0, 1)]
    try:
        for name in names:
            _ip("netns", "add", name)
        _ip("link", "add", cards[0], "type", "veth", "peer", "name", cards[1])
        for name, card, address in zip(names, cards, ADDRESSES):
            _ip("link", "set", card, "netns", name, "name", CARD)
            _ip("-n", name, "addr", "add", f"{address}/24", "dev", CARD)
            for each in (CARD, "lo"):
                _ip("-n", name, "link", "set", each, "up")
            if gbit:
                _run("tc", "-n", name, "qdisc", "add", "dev", CARD, "root", "tbf", "rate", f"{gbit}gbit", "burst",
                     "1mb", "latency", "50ms")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def environments(addresses: Sequence[str] = ADDRESSES, port: str = PORT) -> List[Dict[str, str]]:
    """What tells each of the machines of the others."""
    run = uuid.uuid4().hex
    return [{**os.environ, "RANK": str(machine), "WORLD_SIZE": str(len(addresses)), "LOCAL_WORLD_SIZE": "1",
             "LOCAL_RANK": "0", "MASTER_ADDR": addresses[0], "MASTER_PORT": port, "TORCHELASTIC_RUN_ID": run}
            for machine in range(len(addresses))]


def on_loopback(machines: int) -> List[Dict[str, str]]:
    """The same of machines without networks of their own."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = str(listening.getsockname()[1])
    return environments(["127.0.0.1"] * machines, port)


def in_namespaces(names: Sequence[str], command: Sequence[str], cores: Sequence[Sequence[int]] = ()) -> List[str]:
    """Runs the command as both machines and returns their outputs. cores: of each machine. SystemExit if one fails."""
    commands = [["ip", "netns", "exec", name, *on_cores(cores[machine] if cores else None), *command]
                for machine, name in enumerate(names)]
    return together(commands, [{**each, "GLOO_SOCKET_IFNAME": CARD} for each in environments()])


def on_cores(cores: Optional[Sequence[int]]) -> List[str]:
    """The beginning of a command that has these cores."""
    return ["taskset", "-c", ",".join(map(str, cores))] if cores else []


def together(commands: Sequence[Sequence[str]], variables: Sequence[Dict[str, str]]) -> List[str]:
    """Outputs of commands that run at once. SystemExit if one fails."""
    processes = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                 for command, environment in zip(commands, variables)]
    outputs = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        raise SystemExit("\n".join(outputs))
    return outputs


def _ip(*arguments: str) -> None:
    _run("ip", *arguments)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr.strip()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gbit", type=float, help="Gb/s of each machine (no limit)")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    with two_namespaces(options.gbit) as names:
        sys.stdout.write(in_namespaces(names, command)[0])


if __name__ == "__main__":
    main()
