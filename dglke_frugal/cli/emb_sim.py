"""`dglke_emb_sim`: the most similar embeddings."""

from __future__ import annotations

from ..errors import InputError
from .errors import reports_input_errors
from .tool_flags import Parser, own_parser, parse

_FORMATS = {"l_r": 2, "l_*": 1, "*_r": 1, "*": 0}


def dglke_flags() -> Parser:
    """DGL-KE's flags, with its names, defaults and abbreviations."""
    parser = Parser(prog="dglke_emb_sim", add_help=False)
    parser.add_argument("--mfile", help="file of ids and names, for --raw_data")
    parser.add_argument("--emb_file", help="npy file of the embeddings")
    parser.add_argument(
        "--format", help="which lists --data_files gives, * standing for everything: " + ", ".join(_FORMATS)
    )
    parser.add_argument("--data_files", nargs="+", help="the lists that --format names, one id (or name) per line")
    parser.add_argument("--raw_data", action="store_true", help="the lists hold names, and so will the result")
    parser.add_argument(
        "--exec_mode",
        default="all",
        help="pairwise: list element by element; all: all combinations; "
        "batch_left: the best for each left object (%(default)s)",
    )
    parser.add_argument("--topK", type=int, default=10, help="how many (%(default)s)")
    parser.add_argument("--sim_func", default="cosine", help="cosine, l2, l1, dot or ext_jaccard (%(default)s)")
    parser.add_argument("--output", default="result.tsv", help="file for the result (%(default)s)")
    parser.add_argument(
        "--gpu", type=int, default=-1, help="accepted for old command lines; the CPU is used (%(default)s)"
    )
    return parser


@reports_input_errors
def main(argv):
    """Entry point. argv: the arguments without the program's name."""
    own, rest = parse(own_parser("dglke_emb_sim"), dglke_flags(), argv, "Find the most similar embeddings.")
    if own.backend == "vanilla":
        from .. import compat

        compat.run("emb_sim", rest)
        return
    options = dglke_flags().parse_args(rest)
    if options.emb_file is None:
        raise InputError("--emb_file is missing; give the npy file of the embeddings")
    if options.format not in _FORMATS:
        raise InputError(f"--format is {options.format}; choose one of {', '.join(_FORMATS)}")
    given, needed = len(options.data_files or []), _FORMATS[options.format]
    if given != needed:
        raise InputError(f"--format {options.format} needs {needed} lists in --data_files, but {given} are given")
    if options.raw_data and options.mfile is None:
        raise InputError("--raw_data needs --mfile, the file with an id and a name per line")
    _search(options)
    print("Inference Done")
    print(f"The result is saved in {options.output}")


def _search(options):
    import numpy as np

    from ..inference.lists import read_list, read_names, write_table
    from ..inference.similarity import most_similar
    from ..inference.tables import read_table

    table = read_table(options.emb_file)
    names = read_names(options.mfile) if options.raw_data else None
    files = iter(options.data_files or [])
    left, right = (
        read_list(next(files), names) if given else np.arange(len(table))
        for given in (options.format.startswith("l"), options.format.endswith("r"))
    )
    results = most_similar(table, left, right, options.exec_mode, options.sim_func, options.topK)
    lefts, rights, scores = (np.concatenate(column).tolist() for column in zip(*results))
    if names is not None:
        lefts, rights = ([names[i] for i in ids] for ids in (lefts, rights))
    write_table(options.output, ("left", "right", "score"), (lefts, rights, scores))


if __name__ == "__main__":
    main()
