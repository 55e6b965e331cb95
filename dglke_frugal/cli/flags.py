"""The flags of `dglke_train`, made from their declarations in options.py: DGL-KE's own and ours.

Two parsers, because old command lines must keep their meaning: argparse lets users abbreviate a flag, and a new flag
must not make an old abbreviation ambiguous. So ours are taken out first, by their full names alone.
"""

from __future__ import annotations

import argparse
import functools
import re
import sys
from dataclasses import dataclass
from typing import Any, Dict, Iterable, Optional, Sequence

from ..errors import one_line, shown
from ..flag_values import file_path, switch
from ..option import NEVER, Option, option, options
from ..options import OPTIONS
from ..removed_flags import instead_of_flag, instead_of_value

BACKENDS = ("frugal", "vanilla")
TRAINERS = ("native", "dglke")


@options("command")
@dataclass(frozen=True)
class CommandConfig:
    """Flags of the command line that are no part of a run's configuration."""

    preset: Optional[str] = option(None, "flags of a recipe, such as wn18rr/complex (dglke_frugal presets)",
                                   changes=NEVER, metavar="GRAPH/MODEL", dglke_loop=None, level="first")
    config: Optional[str] = option(None, "read flags from a file; flags on the command line override them",
                                   changes=NEVER, type=file_path, metavar="FILE.yaml", dglke_loop=None)
    resume: Optional[str] = option(
        None, "go on with the run in this folder, or with the newest (auto)", changes=NEVER, type=file_path,
        metavar="RUN_DIR|auto")
    backend: str = option("frugal", "frugal: our own store and steps; vanilla: DGL-KE 0.1.2 itself", changes=NEVER,
                          choices=BACKENDS, dglke_loop=None)
    trainer: str = option("native", "native: our own training step; dglke: DGL-KE's own loop over our store",
                          changes=NEVER, choices=TRAINERS, dglke_loop=None, level="rare")


EVERY: Dict[str, Option] = {**{each.name: each for each in CommandConfig.options}, **OPTIONS}


class Parser(argparse.ArgumentParser):
    """Ends with one line about the fault and exit code 2."""

    def error(self, message):
        """Print the fault and exit with code 2."""
        unknown = re.match(r"unrecognized arguments: (--\w+)", message)
        if unknown and unknown[1] not in self._flags():  # as behind "--", where no flag is read
            message = f"there is no flag {unknown[1]}{instead_of_flag(unknown[1], self._flags())}"
        choice = re.match(r"argument (?:-\w+/)?(--\w+): invalid choice: '(\w+)'", message)
        message = (choice and instead_of_value(*choice.groups())) or message
        message = re.sub(r"\S{200,}", lambda word: shown(word[0]), one_line(message))  # with a value that was given
        sys.stderr.write(f"{self.prog}: {message}; see --help\n")
        raise SystemExit(2)

    def _flags(self) -> list[str]:
        ours = new_flags()._option_string_actions if self.prog == "dglke_train" else ()
        return [name for name in (*self._option_string_actions, *ours) if name.startswith("--")]


@functools.lru_cache(maxsize=None)  # a command parses its flags some times, as files give more of them
def new_flags(**defaults: Any) -> Parser:
    """Parser of the flags that DGL-KE does not have. defaults: as of ArgumentParser's argument_default."""
    parser = Parser(prog="dglke_train", add_help=False, allow_abbrev=False, **defaults)
    return _with_options(parser, (each for each in EVERY.values() if not each.of_dglke))


@functools.lru_cache(maxsize=None)
def dglke_flags(**defaults: Any) -> Parser:
    """Parser of DGL-KE's flags (its git HEAD), with its names, defaults and abbreviations. defaults: as new_flags."""
    parser = Parser(prog="dglke_train", add_help=False, **defaults)
    return _with_options(parser, (each for each in EVERY.values() if each.of_dglke))


def _with_options(parser: Parser, declared: Iterable[Option]) -> Parser:
    for each in declared:
        names = [*([each.short] if each.short else []), f"--{each.name}"]
        default = list(each.default) if isinstance(each.default, tuple) else each.default
        about: Dict[str, Any] = {"default": parser.argument_default or default, "help": each.help.replace("%", "%%")}
        if each.is_switch:
            about.update(type=switch, nargs="?", const=True)
        else:
            about.update(type=each.parse, choices=each.choices, nargs="+" if each.many else None)
        parser.add_argument(*names, **about)
    return parser


def split(argv: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Our own flags out of `argv`, and the rest of it, untouched and in order."""
    return new_flags().parse_known_args(list(argv))


def given_ours(argv: Sequence[str]) -> Dict[str, Any]:
    """Our own flags that a command line gives."""
    return vars(new_flags(argument_default=argparse.SUPPRESS).parse_known_args(list(argv))[0])


def given(argv: Sequence[str]) -> Dict[str, Any]:
    """All flags that a command line gives, by their full names."""
    ours, rest = new_flags(argument_default=argparse.SUPPRESS).parse_known_args(list(argv))
    return {**vars(dglke_flags(argument_default=argparse.SUPPRESS).parse_args(rest)), **vars(ours)}
