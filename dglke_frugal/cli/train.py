"""`dglke_train`: train embeddings with our store, or with unmodified DGL-KE."""
from __future__ import annotations

from ..config import TrainConfig, check
from ..errors import InputError
from . import flags
from .errors import reports_input_errors


@reports_input_errors
def main(argv):
    """Entry point. argv: the arguments without the program's name."""
    if "-h" in argv or "--help" in argv:
        flags.print_help()
        return
    own, rest = flags.split(argv)
    if own.backend == "vanilla":
        _vanilla(rest, own.seed)
        return
    config = TrainConfig.from_flags({**vars(flags.dglke_flags().parse_args(rest)), **vars(own)})
    check(config)
    from ..adapter.trainer import train

    train(config)


def _vanilla(argv, seed):
    from .. import compat

    if unknown := compat.unknown_flags("train", argv):
        raise InputError(f"{', '.join(unknown)}: not a flag of DGL-KE 0.1.2, which --backend vanilla runs; "
                         "leave it out or use --backend frugal")
    compat.run("train", argv, seed=seed)


if __name__ == "__main__":
    main()
