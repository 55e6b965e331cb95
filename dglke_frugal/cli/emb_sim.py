"""`dglke_emb_sim`: the most similar embeddings."""

from __future__ import annotations

from pathlib import Path

from ..errors import InputError
from ..files import check_output
from .errors import reports_input_errors
from .tool_flags import Parser, add_search_flags, check_lists, own_search_parser, parse, say_saved

_FORMATS = ("l_r", "l_*", "*_r", "*")


def dglke_flags() -> Parser:
    """DGL-KE's flags, with its names, defaults and abbreviations."""
    parser = Parser(prog="dglke_emb_sim", add_help=False)
    parser.add_argument("--mfile", help="file of ids and names, for --raw_data")
    parser.add_argument("--emb_file", help="npy file of the embeddings")
    add_search_flags(parser, _FORMATS)
    parser.add_argument(
        "--exec_mode",
        default="all",
        help="pairwise: list element by element; all: all combinations; "
        "batch_left: the best for each left object (%(default)s)",
    )
    parser.add_argument("--sim_func", default="cosine", help="cosine, l2, l1, dot or ext_jaccard (%(default)s)")
    return parser


@reports_input_errors
def main(argv):
    """Entry point. argv: the arguments without the program's name."""
    own, rest = parse(own_search_parser("dglke_emb_sim"), dglke_flags(), argv, "Find the most similar embeddings.")
    if own.backend == "vanilla":
        from .. import compat

        compat.run("emb_sim", rest)
        return
    options = dglke_flags().parse_args(rest)
    if options.emb_file is None:
        raise InputError("--emb_file is missing; give the npy file of the embeddings")
    check_lists(options, _FORMATS)
    if options.raw_data and options.mfile is None:
        raise InputError("--raw_data needs --mfile, the file with an id and a name per line")
    _search(options, own.index)
    say_saved(options.output)


def _search(options, index):
    import numpy as np

    from ..evaluation.device import torch_device
    from ..inference.lists import TABLE, read_list, read_names, write_table
    from ..inference.name_maps import with_inverses
    from ..inference.similarity import most_similar
    from ..inference.tables import is_reciprocal, read_table

    check_output(options.output, TABLE)
    table = read_table(options.emb_file)
    names = read_names(options.mfile) if options.raw_data else None
    if names is not None and is_reciprocal(Path(options.emb_file).parent) and len(table) == 2 * len(names):
        names = with_inverses(names)
    files = iter(options.data_files or [])
    left, right = (
        read_list(next(files), names) if given else np.arange(len(table))
        for given in (options.format.startswith("l"), options.format.endswith("r"))
    )
    device = torch_device(options.gpu)
    results = most_similar(table, left, right, options.exec_mode, options.sim_func, options.topK, device, index)
    lefts, rights, scores = (np.concatenate(column).tolist() for column in zip(*results))
    if names is not None:
        lefts, rights = ([names[i] for i in ids] for ids in (lefts, rights))
    write_table(options.output, ("left", "right", "score"), (lefts, rights, scores))


if __name__ == "__main__":
    main()
