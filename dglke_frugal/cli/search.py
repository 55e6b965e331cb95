"""`dglke_frugal search`: find the flags with the best validation by trials over a space."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any, Dict, Iterable, List, Mapping, Sequence

from ..errors import InputError
from ..files import check_output
from ..options import GraphConfig, TrainConfig, numbers_flags
from ..presets.auto import Situation
from ..saved_tables import SavedTables
from . import config_file, flags
from .errors import reports_input_errors
from .train import configuration

METRICS = ("MRR", "HITS@1", "HITS@3", "HITS@10")
SAMPLERS = ("tpe", "gp", "random")
REFUSED = ("resume", "config", "preset", "report", "trackers", "checkpoint_interval")


def own_flags() -> argparse.ArgumentParser:
    """Flags of the search; all others are dglke_train's."""
    parser = flags.Parser(prog="dglke_frugal search", add_help=False, allow_abbrev=False)
    group = parser.add_argument_group("search")
    group.add_argument("space", metavar="SPACE", help="YAML file of the space, or the model that it is for: one of the "
                                                      "package's spaces")
    group.add_argument("--variants", nargs="+", metavar="NAME", help="variants of the space to try (all)")
    group.add_argument("--trials", type=int, default=20, metavar="N",
                       help="number of trials, with those of earlier parts of this search (%(default)s)")
    group.add_argument("--out", type=Path, required=True, metavar="DIR",
                       help="folder of the search; the same command goes on with one that was stopped")
    group.add_argument("--parallel", type=int, default=1, metavar="K", help="trials at a time (%(default)s)")
    group.add_argument("--seconds", type=float, metavar="S", help="start no trial after S seconds (no limit)")
    group.add_argument("--metric", choices=METRICS, default=METRICS[0],
                       help="metric of validations that compares trials (%(default)s)")
    group.add_argument("--sampler", choices=SAMPLERS, default=SAMPLERS[0],
                       help="chooses flags after ten trials; gp is a Gaussian process and needs scipy (%(default)s)")
    group.add_argument("--no_prune", action="store_true",
                       help="let every trial end, also one that is worse than the median of the others")
    group.add_argument("--search_seed", type=int, default=0, help="seed of the search and of its trials (%(default)s)")
    group.add_argument("--best", type=Path, metavar="FILE.yaml",
                       help="write the flags of the best trial to this file, for --config")
    return parser


@reports_input_errors
def main(argv):
    """Entry point. argv: the arguments without the program's name."""
    if not argv or "-h" in argv or "--help" in argv:
        parser = argparse.ArgumentParser(
            prog="dglke_frugal search", parents=[own_flags()],
            description="Try flags of dglke_train and keep those with the best validation.",
            epilog="All other flags are dglke_train's, for all trials: --dataset, --data_path, --gpu and so on. They "
                   "override those of the space. See docs/search.md.")
        parser.print_help()
        return
    own, rest = own_flags().parse_known_args(argv)
    from ..search.results import OF_THE_MACHINE, flags_in_full, recipe_flags, table, write_recipe
    from ..search.run_search import SearchConfig, run_search, trial_flags
    from ..search.space import Space, plain
    from ..search.study import import_optuna

    import_optuna()
    config = SearchConfig(own.out, own.trials, own.parallel, own.seconds, not own.no_prune, own.search_seed,
                          metric=own.metric, sampler=own.sampler)
    if own.best:
        check_output(own.best, rb"# [^\n]*, found by dglke_frugal search in ", made=own.out)
    space = Space.read(own.space)
    if own.variants:
        space = space.with_variants(own.variants)
    given, graph, threads = _given(rest, space), None, None
    if space.of_package:
        space, graph, at = _fitted(space, given, bool(own.variants))
        if at.small and not at.on_gpu:  # whose steps end before several threads have begun
            threads = 1
    space = space.with_flags(plain({name: value for name, value in given.items() if name not in OF_THE_MACHINE}))
    where = {name: value for name, value in given.items() if name in OF_THE_MACHINE}

    def trial(params, full=False):
        over = space.full_of(params) if full else {}
        return configuration(_arguments({**trial_flags(space, params, own.search_seed), **over, **where}))[1]

    usual = {"metric": METRICS[0], "sampler": SAMPLERS[0]}
    chosen = {name: getattr(own, name) for name in usual if getattr(own, name) != usual[name]}
    identity = {**_identity(map(trial, space.examples()), graph), **chosen}
    for params in space.examples():
        try:
            trial(params, full=True)
        except InputError as error:
            raise InputError(f"the full run of {space.name}: {error}") from error
    study = run_search(replace(config, arguments=_arguments(where), identity=identity, threads=threads), space)
    print("\n".join(table(study)))
    print(f"Saved {own.out / 'results.json'} and {own.out / 'results.html'}")
    if own.best:
        params = {} if study.best is None else study.best.params
        recipe = recipe_flags(trial(params))
        write_recipe(own.best, recipe, study, space)
        where = {name: value for name, value in where.items() if name not in recipe}
        command = ["dglke_train", "--config", str(own.best), *_arguments(where)]
        print(f"Saved {own.best}; train with: {shlex.join(command)}")
        if full := flags_in_full(recipe, trial(params, full=True)):
            print(f"In full, as the space has it: {shlex.join([*command, *_arguments(full)])}")


def _given(rest: Sequence[str], space) -> Mapping[str, Any]:
    """The flags of dglke_train on the command line, by full names. Raises InputError."""
    given = flags.given(rest)
    for name in REFUSED:
        if given.pop(name, None):
            raise InputError(f"--{name} is of one run; leave it out of a search")
    if given.pop("backend", "frugal") != "frugal" or given.pop("trainer", "native") != "native":
        raise InputError("a search trains with --backend frugal --trainer native; leave the others out")
    searched = sorted(set(given) & space.searched)
    if searched:
        raise InputError(f"--{searched[0]} is searched by {space.name}; leave it out here or there")
    if "max_epoch" in given:
        raise InputError("a search compares trials by steps; give --max_step in place of --max_epoch")
    for name in ("valid", "test"):  # which trials have as they need them
        given.pop(name, None)
    if "seed" in given:
        raise InputError("--seed of a search is --search_seed; give that")
    return given


def _fitted(space, given: Mapping[str, Any], every: bool):
    """(the space of the package, fitted to the graph that the flags name; that graph; its situation). Raises
    InputError."""
    from ..search.fitting import fitted
    from ..training.run.session import load

    of_graph = {each.name for each in GraphConfig.options}
    where = {name: value for name, value in given.items() if name in of_graph}
    graph = load(configuration(_arguments({**where, "valid": True}))[1])
    model = given.get("model_name", space.flags["model_name"])
    at = Situation.of(graph, model, given)
    return fitted(space, at, every), graph, at


def _identity(examples: Iterable[TrainConfig], graph=None) -> Dict[str, Any]:
    """All that the numbers of trials depend on: flags, of the checked configurations of trials, the data, and the
    tables that they start with. graph: that of all trials, if it has been read.

    Raises InputError if trials could not be started, or would have no validation.
    """
    from ..data.fingerprint import Fingerprint
    from ..training.run.session import load

    configs = list(examples)
    for config in configs:
        if config.counts_epochs:
            raise InputError("a search compares trials by steps; give --max_step, and --eval_interval in steps")
        interval, most = config.evaluation.eval_interval, config.run.max_step
        if interval > most:
            raise InputError(f"--eval_interval {interval} is more than --max_step {most}, so trials would have no "
                             "validation to be compared by; give a smaller one")
    starts = {config.run.init_from for config in configs if config.run.init_from}
    return {**({"init_from": {run: SavedTables.of(run).to_dict() for run in starts}} if starts else {}),
            "numbers": [numbers_flags(config) for config in configs],
            "data": Fingerprint.of(graph or load(configs[0]), ("valid", "test")).to_dict()}


def _arguments(given: Mapping[str, Any]) -> List[str]:
    defaults = TrainConfig().to_flags()
    found = []
    for name, value in given.items():
        value = list(value) if isinstance(value, tuple) else value
        found += config_file.arguments_of("the search", name, value, defaults[name])
    return found
