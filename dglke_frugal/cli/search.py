"""`dglke_frugal search`: find the flags with the best validation MRR by trials over a space."""

from __future__ import annotations

import argparse
import math
import shlex
from pathlib import Path
from typing import Any, List, Mapping, Sequence

from ..config import TrainConfig
from ..errors import InputError
from ..files import check_output
from . import config_file, flags
from .errors import reports_input_errors
from .train import configuration

REFUSED = ("resume", "config", "preset", "report", "trackers", "checkpoint_interval")


def own_flags() -> argparse.ArgumentParser:
    """Flags of the search; all others are dglke_train's."""
    parser = flags.Parser(prog="dglke_frugal search", add_help=False, allow_abbrev=False)
    group = parser.add_argument_group("search")
    group.add_argument("space", metavar="SPACE", help="YAML file of the space, or the model that it is for: one of the "
                                                      "package's spaces")
    group.add_argument("--variants", nargs="+", metavar="NAME", help="of the space, these alone (all)")
    group.add_argument("--trials", type=int, default=20, metavar="N",
                       help="how many, those of earlier parts of this search included (%(default)s)")
    group.add_argument("--out", type=Path, required=True, metavar="DIR",
                       help="folder of the search; the same command goes on with one that was stopped")
    group.add_argument("--parallel", type=int, default=1, metavar="K", help="trials at a time (%(default)s)")
    group.add_argument("--seconds", type=float, help="start no trial after so many (no limit)")
    group.add_argument("--no_prune", action="store_true",
                       help="let every trial end, also those that are worse than the median of the others")
    group.add_argument("--search_seed", type=int, default=0, help="of the search and of its trials (%(default)s)")
    group.add_argument("--best", type=Path, metavar="FILE.yaml", help="write the flags of the best trial, for --config")
    return parser


@reports_input_errors
def main(argv):
    """Entry point. argv: the arguments without the program's name."""
    if not argv or "-h" in argv or "--help" in argv:
        parser = argparse.ArgumentParser(
            prog="dglke_frugal search", parents=[own_flags()],
            description="Try flags of dglke_train and keep those with the best validation MRR.",
            epilog="All other flags are dglke_train's, for all trials: --dataset, --data_path, --gpu and so on. They "
                   "go before those of the space. See docs/search.md.")
        parser.print_help()
        return
    own, rest = own_flags().parse_known_args(argv)
    from ..search.results import OF_THE_MACHINE, recipe_flags, table, write_recipe
    from ..search.run_search import SearchConfig, run_search
    from ..search.space import Space, plain
    from ..search.study import import_optuna

    import_optuna()
    _check(own)
    if own.best:
        check_output(own.best, rb"# [^\n]*, found by dglke_frugal search in ")
    space = Space.read(own.space)
    if own.variants:
        space = space.with_variants(own.variants)
    given = _given(rest, space)
    space = space.with_flags(plain({name: value for name, value in given.items() if name not in OF_THE_MACHINE}))
    where = {name: value for name, value in given.items() if name in OF_THE_MACHINE}
    config = SearchConfig(own.out, own.trials, own.parallel, own.seconds, not own.no_prune, own.search_seed,
                          _arguments(where))
    study = run_search(config, space)
    print("\n".join(table(study)))
    print(f"Saved {own.out / 'results.json'} and {own.out / 'results.html'}")
    if own.best:
        best = {} if study.best is None else study.best.params
        _, of_best = configuration(_arguments(space.flags_of(best)))
        write_recipe(own.best, recipe_flags(of_best, space.full_of(best), own.search_seed), study, space)
        print(f"Saved {own.best}; train with: dglke_train --config {shlex.quote(str(own.best))}")


def _check(own) -> None:
    for name in ("trials", "parallel"):
        if getattr(own, name) < 1:
            raise InputError(f"--{name} is {getattr(own, name)}; give a number that is at least 1")
    if own.seconds is not None and not 0 < own.seconds < math.inf:
        raise InputError(f"--seconds is {own.seconds}; give a number above 0")
    if not 0 <= own.search_seed < 2**32:
        raise InputError(f"--search_seed is {own.search_seed}; give a number in [0, 2**32)")


def _given(rest: Sequence[str], space) -> Mapping[str, Any]:
    """What the command line says of dglke_train, by full names. Raises InputError, also if a trial could not start."""
    own, others = flags.split(rest)
    for name in REFUSED:
        if getattr(own, name):
            raise InputError(f"--{name} is of one run; leave it out of a search")
    if own.backend != "frugal" or own.trainer != "native":
        raise InputError("a search trains with --backend frugal --trainer native; leave the others out")
    missing = object()
    known = [(flags.new_flags(), rest), (flags.dglke_flags(), others)]
    given = {}
    for parser, arguments in known:
        parser.set_defaults(**{action.dest: missing for action in parser._actions if action.dest != "help"})
        found = vars(parser.parse_known_args(list(arguments))[0] if arguments is rest else parser.parse_args(others))
        given.update({name: value for name, value in found.items() if value is not missing})
    for name in ("backend", "trainer"):
        given.pop(name, None)
    searched = sorted(set(given) & space.searched)
    if searched:
        raise InputError(f"--{searched[0]} is searched by {space.name}; leave it out here or there")
    if "seed" in given:
        raise InputError("--seed of a search is --search_seed; give that")
    for params in space.examples():
        configuration(_arguments({**space.flags_of(params), **given, "valid": True, "eval_interval": 1}))
    return given


def _arguments(given: Mapping[str, Any]) -> List[str]:
    defaults = TrainConfig().to_flags()
    found = []
    for name, value in given.items():
        value = list(value) if isinstance(value, tuple) else value
        found += config_file.arguments_of("the search", name, value, defaults[name])
    return found


if __name__ == "__main__":
    main()
