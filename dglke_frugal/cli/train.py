"""`dglke_train`: train embeddings with our store, or with unmodified DGL-KE."""
from __future__ import annotations

from pathlib import Path

from ..config import TrainConfig, check
from ..errors import InputError
from . import config_file, flags
from .errors import reports_input_errors


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
        _refuse(own, "--trainer dglke", "resume", "checkpoint_interval", "early_stop_patience", "trackers", "init_from")
        from ..adapter.trainer import train

        train(config)
    else:
        from ..training.trainer import train

        train(config, Path(own.resume) if own.resume else None)


def configuration(argv):
    """Our own flags as given, and the checked configuration of all: those of files, and those of the command line,
    which win.

    Raises InputError.
    """
    own, _ = flags.split(argv)
    own, rest = flags.split([*_from_files(own), *argv])
    config = TrainConfig.from_flags({**vars(flags.dglke_flags().parse_args(rest)), **vars(own)})
    check(config)
    return own, config


def _from_files(own) -> list[str]:
    """Arguments from --config, and from the run that --resume names; those on the command line come later and win."""
    names = set(TrainConfig().to_flags()) | {"trainer"}
    arguments = []
    if own.config:
        _refuse(own, "--config, for the run has its flags in its own folder", "resume")
        arguments += config_file.arguments_from(own.config, names)
    if own.resume:
        from ..training.run_folder import FLAGS_FILE

        path = Path(own.resume) / FLAGS_FILE
        if not path.is_file():
            raise InputError(f"{own.resume} is not the folder of a run, there is no {FLAGS_FILE} in it; "
                             "give the folder that the run printed")
        arguments += config_file.arguments_from(path, names)
    return arguments


def _refuse(own, why, *names):
    given = [f"--{name}" for name in names if getattr(own, name)]
    if given:
        raise InputError(f"{', '.join(given)} cannot be used with {why}; leave one of the two out")


def _vanilla(own, argv):
    from .. import compat

    _refuse(own, "--backend vanilla", "resume", "checkpoint_interval", "early_stop_patience", "trackers", "config",
            "init_from")
    if unknown := compat.unknown_flags("train", argv):
        raise InputError(f"{', '.join(unknown)}: not a flag of DGL-KE 0.1.2, which --backend vanilla runs; "
                         "leave it out or use --backend frugal")
    compat.run("train", argv, seed=own.seed)


if __name__ == "__main__":
    main()
