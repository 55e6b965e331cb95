"""Flags that the commands for trained runs share: two parsers each, for the reason that flags.py explains."""

from __future__ import annotations

import argparse
import contextlib
import sys
from typing import ContextManager, Optional, Sequence, Tuple

from ..errors import InputError
from ..files import is_standard_output
from .flags import Parser


def own_parser(prog: str) -> Parser:
    """Parser of flags that DGL-KE does not have: full names only, so that its abbreviations stay unambiguous."""
    parser = Parser(prog=prog, add_help=False, allow_abbrev=False)
    parser.add_argument("--backend", choices=["frugal", "vanilla"], default="frugal",
                        help="frugal: our own arithmetic (default); vanilla: DGL-KE 0.1.2 itself, for comparison")
    return parser


def own_search_parser(prog: str) -> Parser:
    """The same for the commands that search."""
    parser = own_parser(prog)
    parser.add_argument("--index", choices=["exact", "faiss"], default="exact",
                        help="exact: all candidates (default); faiss: only the cells where the best ones likely are")
    return parser


def add_search_flags(parser: Parser, formats: Sequence[str]) -> None:
    """DGL-KE's flags of dglke_predict and dglke_emb_sim. formats: which lists a search takes."""
    parser.add_argument("--format", help=f"lists that --data_files gives, * for everything: {' '.join(formats)}")
    parser.add_argument("--data_files", nargs="+", help="the lists that --format names, one id (or name) per line")
    parser.add_argument("--raw_data", action="store_true", help="the lists hold names, and so will the result")
    parser.add_argument("--topK", type=int, default=10, help="number of results (%(default)s)")
    parser.add_argument("--output", default="result.tsv", help="file of the result (%(default)s)")
    parser.add_argument("--gpu", type=int, default=-1, help="GPU number; -1 is the CPU (%(default)s)")


def check_lists(options: argparse.Namespace, formats: Sequence[str]) -> None:
    """InputError for a --format that is not one of `formats`, or that --data_files do not fit."""
    if options.format not in formats:
        raise InputError(f"--format is {options.format}; choose one of {', '.join(formats)}")
    given, needed = len(options.data_files or []), sum(part != "*" for part in options.format.split("_"))
    if given != needed:
        raise InputError(f"--format {options.format} needs {needed} lists in --data_files, but {given} are given")


def messages_apart_from(output: Optional[str]) -> ContextManager:
    """A context in which messages go to standard error if `output`, the file of the result, is standard output."""
    if output and is_standard_output(output):
        return contextlib.redirect_stdout(sys.stderr)
    return contextlib.nullcontext()


def log_saved(output: str) -> None:
    """DGL-KE's last lines."""
    with messages_apart_from(output):
        print(f"Inference Done\nThe result is saved in {output}")


def parse(own: Parser, dglke: Parser, argv: Sequence[str], description: str) -> Tuple[argparse.Namespace, list]:
    """Our flags of `argv` and the rest of it. Answers --help with both groups and exits."""
    if "-h" in argv or "--help" in argv:
        parser = argparse.ArgumentParser(prog=own.prog, parents=[own, dglke], description=description)
        parser.print_help()
        raise SystemExit(0)
    return own.parse_known_args(list(argv))
