"""`dglke_train`: train embeddings with our store, or with unmodified DGL-KE."""
from __future__ import annotations

from pathlib import Path

from ..config import TrainConfig, check
from ..errors import InputError
from ..output import tolerant_output
from ..presets.catalogue import find_preset
from ..score_rule import say_if_two_formulas, score_rule_of_run
from . import config_file, flags
from .errors import reports_input_errors

# What DGL-KE's own loop does not have: flags that may not be given, and flags that must have their default, or the
# value that says what it does anyway, as config.yaml of our own trainer's runs has it. The flags of the store, --peer
# and --cuda_graphs never change numbers, so they may be given.
GIVEN = ("resume", "checkpoint_interval", "early_stop_patience", "trackers", "report", "init_from", "lr_patience",
         "lr_decay_at", "init", "init_scale", "reciprocal", "neg_chunk_size", "exclude_positive", "partition")
VALUES = ("row_dtype", "save_dtype", "subsampling", "lr_factor", "parallel", "matmul", "optimizer", "regularizer",
          "entity_dropout", "relation_dropout", "labels", "label_smoothing", "relation_prediction")
AS_IN_DGLKE = {"matmul": "fp32", "parallel": "rows"}


@tolerant_output()  # what cannot be printed is no reason to lose a training
@reports_input_errors
def main(argv):
    """Entry point. argv: the arguments without the program's name."""
    if "-h" in argv or "--help" in argv:
        flags.print_help()
        return
    own, rest = flags.split(argv)
    if own.backend == "vanilla":
        _vanilla(own, rest)
        return
    own, config = configuration(argv)
    if own.trainer == "dglke":
        _refuse(own, "--trainer dglke", *GIVEN)
        _refuse_values(own, "--trainer dglke")
        from ..adapter.trainer import train

        train(config)
    else:
        from ..training.trainer import train

        train(config, Path(own.resume) if own.resume else None, trackers=reports(own.report))


def reports(wanted):
    """What makes the report that --report asks for, as trackers of the run."""
    if wanted is None:
        return []
    from ..report.live import LiveReport

    return [lambda folder: LiveReport(folder, live=wanted == "live")]


def configuration(argv):
    """Our own flags as given, and the checked configuration of all: those of files, and those of the command line,
    which win.

    Raises InputError.
    """
    from ..training.full_softmax.config import check_full_softmax  # here, because --help does not need the extension

    own, _ = flags.split(argv)
    own, rest = flags.split([*_from_files(own), *argv])
    given = flags.dglke_flags().parse_args(rest)
    own.score_rule = score_rule_of_run(given.model_name, own.score_rule, own.trainer == "dglke")
    config = TrainConfig.from_flags({**vars(given), **vars(own)})
    check(config)
    check_full_softmax(config)
    return own, config


def _from_files(own) -> list[str]:
    """Arguments from --config or --preset, and from the run that --resume names; those on the command line come later
    and win."""
    defaults = {**TrainConfig().to_flags(), "trainer": "native"}
    arguments = []
    if own.preset:
        _refuse(own, "--preset, for both give all flags", "config", "resume")
        arguments += config_file.arguments_from(find_preset(own.preset).file, defaults)
    if own.config:
        _refuse(own, "--config, for the run has its flags in its own folder", "resume")
        arguments += config_file.arguments_from(own.config, defaults)
    if own.resume:
        from ..training.folder.run_folder import FLAGS_FILE

        path = Path(own.resume) / FLAGS_FILE
        if not path.is_file():
            raise InputError(f"{own.resume} is not the folder of a run, there is no {FLAGS_FILE} in it; "
                             "give the folder that the run printed")
        flags_of_run = config_file.arguments_from(path, defaults)
        if not any(flag.startswith("--score_rule") for flag in flags_of_run):
            flags_of_run.append("--score_rule=dglke")  # there was no other when the run was started
        arguments += flags_of_run
    return arguments


def _refuse(own, why, *names):
    given = [f"--{name}" for name in names if getattr(own, name)]
    if given:
        raise InputError(f"{', '.join(given)} cannot be used with {why}; leave one of the two out")


def _refuse_values(own, why):
    defaults = TrainConfig().to_flags()
    for name in VALUES:
        if getattr(own, name) not in (defaults[name], AS_IN_DGLKE.get(name, defaults[name])):
            raise InputError(f"--{name} {getattr(own, name)} cannot be used with {why}; leave one of the two out")


def _vanilla(own, argv):
    from .. import compat

    _refuse(own, "--backend vanilla", *GIVEN, "config", "preset")
    _refuse_values(own, "--backend vanilla")
    if unknown := compat.unknown_flags("train", argv):
        raise InputError(f"{', '.join(unknown)}: not a flag of DGL-KE 0.1.2, which --backend vanilla runs; "
                         "leave it out or use --backend frugal")
    model_name = flags.dglke_flags().parse_known_args(argv)[0].model_name
    say_if_two_formulas(model_name, score_rule_of_run(model_name, own.score_rule, dglke_loop=True))
    compat.run("train", argv, seed=own.seed)


if __name__ == "__main__":
    main()
