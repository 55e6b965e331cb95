"""What the commands for trained runs have in common: two parsers each, for the reason that flags.py explains."""

from __future__ import annotations

import argparse
from typing import Sequence, Tuple

from .flags import Parser


def own_parser(prog: str) -> Parser:
    """Parser of flags that DGL-KE does not have: full names only, so that its abbreviations stay unambiguous."""
    parser = Parser(prog=prog, add_help=False, allow_abbrev=False)
    parser.add_argument(
        "--backend",
        choices=["frugal", "vanilla"],
        default="frugal",
        help="frugal: our own arithmetic (default); vanilla: unmodified DGL-KE, for comparison",
    )
    return parser


def parse(own: Parser, dglke: Parser, argv: Sequence[str], description: str) -> Tuple[argparse.Namespace, list]:
    """Our flags of `argv` and the rest of it. Answers --help with both groups and exits."""
    if "-h" in argv or "--help" in argv:
        parser = argparse.ArgumentParser(prog=own.prog, parents=[own, dglke], description=description)
        parser.print_help()
        raise SystemExit(0)
    return own.parse_known_args(list(argv))
