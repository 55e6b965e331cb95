"""The text of `dglke_train --help`, and the page of flags (docs/flags.md)."""

from __future__ import annotations

import argparse
import importlib
import re
import textwrap
import types
from typing import Dict, Iterator, List, Tuple

from ..models import model_names
from ..option import Option
from .flags import EVERY
from .main import COMMANDS

USAGE = """\
usage: dglke_train --preset wn18rr/complex --gpu 0        train by a recipe (dglke_frugal presets lists them)
       dglke_train --dataset FB15k --model_name ComplEx   train a data set that is downloaded, with flags of your choice
       dglke_train --data_path DIR                        train on DIR/train.tsv, valid.tsv and test.tsv (or .csv ...)
       dglke_train --resume RUN_DIR --max_step STEPS      go on with a run
       dglke_train --help | --help-all                    explain the usual flags | all flags"""
_FIRST = "the flags that matter first"
WITH_FLAGS_OF_TRAIN = ("plan", "search")
_COLUMN = 36  # where help begins, if the flag leaves room


def help_lines(every: bool) -> Iterator[str]:
    """The lines of --help, or with `every` those of --help-all."""
    yield USAGE
    for title, members in sections().items():
        others = [] if every else [each for each in members if each.level == "rare"]
        yield from ("", f"{title}:")
        yield from (_line(each) for each in members if each not in others)
        if others:
            yield f"  --help-all explains {' '.join('--' + each.name for each in others)}"
    named = f"MODEL is one of {', '.join(model_names())} (TransE is TransE_l2), or MODULE:CLASS."
    yield from ("", *textwrap.wrap(named, 120, break_on_hyphens=False),
                "DGL-KE's flags may be abbreviated. The default stands in brackets.")


def sections() -> Dict[str, List[Option]]:
    """The options by title: the ones that matter most first, then by group."""
    found: Dict[str, List[Option]] = {_FIRST: []}
    for each in EVERY.values():
        found.setdefault(_FIRST if each.level == "first" else each.group, []).append(each)
    return found


def described(each: Option) -> str:
    """The help of an option, with its default."""
    words = _default(each)
    return f"{each.help} ({words})" if words else each.help


def page() -> str:
    """docs/flags.md: every flag with its default."""
    lines = [
        "# Flags", "", "<!-- made by python -m dglke_frugal.cli.flag_help > docs/flags.md -->", "",
        "First the flags of `dglke_train`, then those of [the other commands](#dglke_frugal-eval).", "",
        "`dglke_train --help` lists the flags that matter first, `dglke_train --help-all` all of them. DGL-KE's own",
        "flags, marked D, may be abbreviated. Flags on the command line override those of `--preset` and `--config`.",
        "The path of a flag may begin with `~`, the home folder, in a file of `--config` and in Python as well.", "",
        "The last column says whether step k of a run computes other values if the flag has another value. `--resume`",
        "refuses to change such flags. `--max_step` changes no step: it only ends the run, so a run can be extended."]
    for title, members in sections().items():
        lines += ["", f"## {title[0].upper()}{title[1:]}", "",
                  "| flag | | default | what it does | changes numbers |", "|---|---|---|---|---|"]
        lines += map(_row, members)
    for command, (module, about) in COMMANDS.items():
        if command != "train":
            lines += _section(command, importlib.import_module(f".{module}", __package__), about)
    return "\n".join(lines) + "\n"


def _section(command: str, module: types.ModuleType, about: str) -> Iterator[str]:
    """The flags of another command."""
    yield from ("", f"## dglke_frugal {command}", "", f"{about[0].upper()}{about[1:]}.")
    if command in WITH_FLAGS_OF_TRAIN:
        yield "All other flags are those of `dglke_train`."
    yield from ("", "| flag | | what it does |", "|---|---|---|")
    for name, words in described_arguments(module.own_flags()):
        yield _cells(name, "", _escaped(words))
    for name, words in described_arguments(module.dglke_flags()) if hasattr(module, "dglke_flags") else ():
        yield _cells(name, "D", _escaped(words))


def described_arguments(parser: argparse.ArgumentParser) -> Iterator[Tuple[str, str]]:
    """(name, help) of each argument of a command."""
    for each in parser._actions:
        if each.dest not in ("help", "version"):
            named = "FILE" if "file" in each.dest else "DIR" if "path" in each.dest else each.dest.upper()
            value = each.metavar or "|".join(each.choices or ()) or {int: "N", float: "X"}.get(each.type, named)
            value = "" if each.nargs == 0 else f"{value} ..." if each.nargs == "+" else value
            name = f"`{', '.join(each.option_strings)}` {value}" if each.option_strings else value
            yield name.strip(), each.help % {**vars(each), "prog": parser.prog}


def _cells(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _row(each: Option) -> str:
    default = _default(each) or ("off" if each.is_switch else "")
    name = f"`{_names(each)}` {_value(each)}".strip()
    return _cells(name, "D" if each.of_dglke else "", default, _escaped(each.help), each.changes.words)


def _escaped(words: str) -> str:
    """Without Markdown's links and emphasis."""
    return re.sub(r"[\[*]", r"\\\g<0>", words)


def _line(each: Option) -> str:
    return f"  {f'{_names(each)} {_value(each)}'.strip():<{_COLUMN - 4}}  {described(each)}"


def _names(each: Option) -> str:
    """A flag, with its short name."""
    return f"{each.short + ', ' if each.short else ''}--{each.name}"


def _value(each: Option) -> str:
    """The word that stands for a flag's values."""
    value = "on|off" if each.is_switch else each.metavar or "|".join(each.choices or ())
    return "" if each.default is False else f"{value}{' ...' if each.many else ''}"


def _default(each: Option) -> str:
    """The default in words; empty for none."""
    if each.default_words is not None:
        return each.default_words
    if each.is_switch:
        return "on" if each.default else ""
    return "" if each.default is None or each.default == () else str(each.default)


if __name__ == "__main__":
    print(page(), end="")
