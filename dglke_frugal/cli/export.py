"""`dglke_frugal export`: a run's tables, with their names, in formats that other programs read."""

from __future__ import annotations

from .errors import reports_input_errors
from .tool_flags import Parser, messages_apart_from


def own_flags() -> Parser:
    """The command's flags."""
    parser = Parser(prog="dglke_frugal export", description=__doc__)
    parser.add_argument("run", help="folder of the run")
    parser.add_argument("output", help="file to write; for tsv and word2vec a folder")
    parser.add_argument("--format", choices=["safetensors", "tsv", "npz", "parquet", "word2vec"],
                        help="file format (by the file's ending, else safetensors)")
    parser.add_argument("--entity_mfile", help="file of entity ids and names; by default the one the run names")
    parser.add_argument("--rel_mfile", help="file of relation ids and names; by default the one the run names")
    return parser


@reports_input_errors
def main(argv):
    """Entry point. argv: the arguments without the program's name."""
    options = own_flags().parse_args(argv)
    from ..inference.export import export, format_of
    from ..inference.run import Run

    form = options.format or format_of(options.output) or "safetensors"
    export(Run.load(options.run, options.entity_mfile, options.rel_mfile), options.output, form)
    with messages_apart_from(options.output):
        print(f"Saved {options.output}")
