"""`dglke_train`: train embeddings with our store, or with DGL-KE itself."""
from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Optional

from ..errors import InputError
from ..option import NEVER
from ..options import AUTO, OPTIONS, TrainConfig, check, lines_on_unused_flags
from ..output import tolerant_output
from ..presets.auto import DEFAULT_MODEL, PREFIX, Situation, advice, auto_flags, auto_model, is_auto
from ..presets.catalogue import find_preset
from ..score_rule import log_if_two_formulas, score_rule_of_run
from . import config_file, flags
from .errors import reports_input_errors
from .flag_help import help_lines

if TYPE_CHECKING:
    from ..data import KnowledgeGraph


@tolerant_output()  # what cannot be printed is no reason to lose a training
@reports_input_errors
def main(argv):
    """Entry point. argv: the arguments without the program's name."""
    if {"-h", "--help", "--help-all"} & {*argv}:
        print("\n".join(help_lines(every="--help-all" in argv)))
        return
    own, rest = flags.split(argv)
    if own.backend == "vanilla":
        _vanilla(own, rest, flags.given_ours(argv).get("score_rule"))
        return
    own, config = configuration(argv)
    if own.trainer == "dglke":
        _refuse_ours(own, "--trainer dglke")
        if config.counts_epochs:
            raise InputError("--trainer dglke counts steps; give --max_step, and --eval_interval in steps")
        from ..vanilla.adapter.train import train

        train(config)
    else:
        from ..training.train import train

        log_unused_flags(own, config)
        train(config, own.resume if own.resume in (None, AUTO) else Path(own.resume), trackers=reports(own.report),
              graph=own.graph)


def reports(wanted):
    """Trackers that write the report of --report."""
    if wanted is None:
        return []
    from ..report.live import LiveReport

    return [lambda folder: LiveReport(folder, live=wanted == "live")]


def configuration(argv, graph=None):
    """(all flags, the checked configuration of a run): flags of files, and those of the command line, which win.

    graph: the graph by which --preset auto goes; None if it is to read the graph that the flags name.

    The flags also have `given`, the names of the flags that the command line gives, and `graph`, the graph that
    --preset auto went by, else None. Raises InputError.
    """
    from ..training.full_softmax.config import check_full_softmax  # here, because --help does not need the extension

    defaults = {name: each.default for name, each in flags.EVERY.items()}
    given = flags.given(argv)
    first = argparse.Namespace(**{**defaults, **given})
    if is_auto(first.preset):  # whose flags go by the graph
        _find_data(first, given)
    files, graph = _from_files(first, given, graph)
    asked = flags.given([*files, *argv]) if files else given
    own = argparse.Namespace(**{**defaults, **asked}, given=given.keys(), graph=graph)
    _find_data(own, asked)
    _count_epochs(own, asked, given)
    own.score_rule = score_rule_of_run(own.model_name, asked.get("score_rule"), own.trainer == "dglke")
    config = TrainConfig.from_flags(vars(own))
    try:
        check(config)
        check_full_softmax(config)
    except InputError:
        _check_resumed(own, given, flags.given(files))
        raise
    return own, config


def _check_resumed(own, given, of_run):
    """InputError if the command line gives other values than the run that --resume names has, of flags that its numbers
    depend on. of_run: the run's flags."""
    if own.resume in (None, AUTO):
        return
    from ..training.checkpoint.checkpoint import refuse_other_configuration

    before = {name: of_run.get(name, each.default) for name, each in OPTIONS.items() if each.changes is not NEVER}
    refuse_other_configuration(own.resume, [f"--{name} was {before[name]} and is {given[name]}" for name in given
                                            if name in before and given[name] != before[name]])


def _count_epochs(own, asked, given):
    """Of --max_step and --max_epoch the one of the command line counts; validations are by epochs with --max_epoch."""
    if "max_step" in given and "max_epoch" in given:
        raise InputError("--max_step and --max_epoch both say how long to train; leave one of the two out")
    if "max_step" in given:
        own.max_epoch = None
    if own.max_epoch is not None and own.valid and "eval_interval" not in asked:
        own.eval_interval = "1epochs"


def _find_data(own, asked):
    """Where no --format is given: the files of a folder with a train file, --data_path/--dataset or --data_path, or of
    a --data_path that is a file."""
    from ..data.find_files import LOOKED_FOR, flags_of_path
    from ..data.load import BUILT_IN

    if asked.keys() & {"format", "data_files"} or own.dataset in BUILT_IN and "dataset" in asked:
        return
    path = Path(own.data_path)
    named = "dataset" in asked
    if not named and (path / own.dataset).exists():
        return
    found = (named and flags_of_path(path / own.dataset)) or flags_of_path(path)
    if not (found or named) and "data_path" in asked:  # whose user did not ask for the default data set
        raise InputError(f"{path} has neither a file {LOOKED_FOR} nor the data set {own.dataset}; correct --data_path, "
                         f"name the files with --format and --data_files, or fetch it with --dataset {own.dataset}")
    vars(own).update({**found, **({"dataset": own.dataset} if named else {})})


def log_unused_flags(own, config):
    """Print a line for each flag that has no effect in the run, in the first of torchrun's processes."""
    from ..training.machines.group import several_machines
    from ..training.processes.available_threads import torchrun_number

    if torchrun_number("RANK", default=0) == 0:
        ranks = max(config.device.num_proc, torchrun_number("WORLD_SIZE", default=1))
        config = replace(config, device=replace(config.device, num_proc=ranks))
        for line in lines_on_unused_flags(config, own.given, own.resume not in (None, AUTO), several_machines()):
            print(line, flush=True)


def _from_files(own, given, graph) -> tuple[list[str], Optional[KnowledgeGraph]]:
    """(arguments from --config or --preset, and from the run that --resume names; the graph that --preset auto read).
    The arguments of the command line come later, and win."""
    defaults = {**TrainConfig().to_flags(), "trainer": "native"}
    arguments = []
    for name in ("preset", "config", "resume", "init_from"):
        if getattr(own, name) == "":  # as of a shell's variable that is not set, and no new run is meant
            raise InputError(f"--{name} is empty; name one, or leave it out")
    if own.preset:
        _refuse(own, "--preset, for both give all flags", "config", "resume")
        if is_auto(own.preset) and own.trainer == "dglke":
            raise InputError("--preset auto chooses flags that --trainer dglke does not have; leave one of the two out")
        if is_auto(own.preset):
            arguments, graph = _auto_arguments(own, given, defaults, graph)
        else:
            arguments = config_file.arguments_from(find_preset(own.preset).file, defaults)
    if own.config:
        _refuse(own, "--config, for the run has its flags in its own folder", "resume")
        arguments += config_file.arguments_from(own.config, defaults)
    if own.resume and own.resume != AUTO:
        from ..training.checkpoint.run_folder import FLAGS_FILE

        path = Path(own.resume) / FLAGS_FILE
        if not path.is_file():
            raise InputError(f"{own.resume} is not the folder of a run, there is no {FLAGS_FILE} in it; "
                             "give the folder that the run printed")
        arguments += config_file.arguments_from(path, defaults)
    return arguments, graph


def _auto_arguments(own, given, defaults, graph) -> tuple[list[str], KnowledgeGraph]:
    """(arguments by the rules of --preset auto, the graph, which is read if it is None). Raises InputError."""
    from ..data import load_graph
    from ..training.processes.available_threads import torchrun_number

    named = auto_model(own.preset)
    model = given.get("model_name") or named or DEFAULT_MODEL
    graph = graph or load_graph(own.dataset, own.data_path, own.format, own.data_files, own.delimiter,
                                own.has_edge_importance)
    if not len(graph.train):
        return [f"--model_name={model}"], graph  # which the run refuses
    processes = max(given.get("num_proc") or 1, torchrun_number("WORLD_SIZE", default=1))
    at = Situation.of(graph, model, {**given, "num_proc": processes})
    found = {"model_name": model, **auto_flags(at)}
    arguments = [config_file.arguments_of("--preset auto", name, value, defaults[name])
                 for name, value in found.items() if name not in given]
    if torchrun_number("RANK", default=0) == 0:
        print(f"--preset {PREFIX}/{model} for {graph.n_entities:,} entities, {graph.n_relations:,} relations and "
              f"{len(graph.train):,} training triples: {' '.join(word for each in arguments for word in each)}",
              flush=True)
        if sentence := advice(at):
            print(sentence, flush=True)
    return [word for each in arguments for word in each], graph


def _refuse(own, why, *names):
    given = [f"--{name}" for name in names
             if getattr(own, name) and (name, getattr(own, name)) != ("resume", AUTO)]  # which gives no flags
    if given:
        raise InputError(f"{', '.join(given)} cannot be used with {why}; leave one of the two out")


def _refuse_ours(own, why):
    """Refuse flags that DGL-KE's own loop does not have, and would ignore."""
    for name, value in vars(own).items():
        each = flags.EVERY.get(name)
        value = tuple(value) if isinstance(value, list) else value
        if each and each.dglke_loop is not None and value not in (each.default, *each.dglke_loop):
            shows = each.default is not None and not each.is_switch and not each.many
            flag = f"--{name} {value}" if shows else f"--{name}"
            raise InputError(f"{flag} cannot be used with {why}; leave one of the two out")


def _vanilla(own, argv, score_rule):
    from .. import vanilla

    _refuse(own, "--backend vanilla", "config", "preset")
    _refuse_ours(own, "--backend vanilla")
    if unknown := vanilla.unknown_flags("train", argv):
        raise InputError(f"{', '.join(unknown)}: not a flag of DGL-KE 0.1.2, which --backend vanilla runs; "
                         "leave it out or use --backend frugal")
    model_name = flags.dglke_flags().parse_known_args(argv)[0].model_name
    log_if_two_formulas(model_name, score_rule_of_run(model_name, score_rule, dglke_loop=True))
    vanilla.run("train", argv, seed=own.seed)
