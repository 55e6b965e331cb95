"""`dglke_frugal export`: a run's tables as safetensors or TSV."""

from __future__ import annotations

import sys

from .errors import reports_input_errors
from .tool_flags import Parser


@reports_input_errors
def main(argv):
    """Entry point. argv: the arguments without the program's name."""
    parser = Parser(prog="dglke_frugal export", description=__doc__)
    parser.add_argument("run", help="folder of the run")
    parser.add_argument("output", help="file for safetensors, folder for tsv")
    parser.add_argument("--format", choices=["safetensors", "tsv"], default="safetensors", help="(%(default)s)")
    parser.add_argument(
        "--entity_mfile", help="file of entity ids and names, for tsv; by default the one the run names"
    )
    parser.add_argument("--rel_mfile", help="file of relation ids and names, likewise")
    options = parser.parse_args(argv)
    from ..errors import InputError
    from ..files import is_standard_output
    from ..inference.export import export_safetensors, export_tsv
    from ..inference.run import Run

    run = Run.load(options.run, options.entity_mfile, options.rel_mfile)
    try:
        (export_tsv if options.format == "tsv" else export_safetensors)(run, options.output)
    except OSError as error:
        raise InputError(f"cannot write {options.output}: {error.strerror}; choose another place") from error
    print(f"Saved {options.output}", file=sys.stderr if is_standard_output(options.output) else sys.stdout)


if __name__ == "__main__":
    main()
