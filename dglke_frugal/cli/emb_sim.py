"""`dglke_emb_sim`: the most similar embeddings."""

from __future__ import annotations

from pathlib import Path

from ..errors import InputError
from ..files import check_output
from .errors import reports_input_errors
from .tool_flags import Parser, add_search_flags, check_lists, own_search_parser, parse, log_saved

_FORMATS = ("l_r", "l_*", "*_r", "*")


def own_flags() -> Parser:
    """Flags that DGL-KE's command does not have."""
    parser = own_search_parser("dglke_emb_sim")
    parser.add_argument("--model_path", help="folder of a run: its entities; instead of --emb_file and --mfile")
    return parser


def dglke_flags() -> Parser:
    """DGL-KE's flags, with its names, defaults and abbreviations."""
    parser = Parser(prog="dglke_emb_sim", add_help=False)
    parser.add_argument("--mfile", help="file of ids and names, for --raw_data")
    parser.add_argument("--emb_file", help="npy file of the embeddings")
    add_search_flags(parser, _FORMATS)
    parser.add_argument(
        "--exec_mode", default="all",
        help="all: the best pairs; batch_left: the best for each left one; pairwise: by line (%(default)s)")
    parser.add_argument("--sim_func", default="cosine", help="cosine, l2, l1, dot or ext_jaccard (%(default)s)")
    return parser


@reports_input_errors
def main(argv):
    """Entry point. argv: the arguments without the program's name."""
    own, rest = parse(own_flags(), dglke_flags(), argv, "Find the most similar embeddings.")
    if own.backend == "vanilla":
        from .. import vanilla

        if own.model_path:
            raise InputError("--model_path is not a flag of DGL-KE, which --backend vanilla runs; give --emb_file")
        vanilla.run("emb_sim", rest)
        return
    options = dglke_flags().parse_args(rest)
    if own.model_path and (options.emb_file or options.mfile):
        raise InputError("--model_path names the embeddings and their names; leave out --emb_file and --mfile")
    if own.model_path is None and options.emb_file is None:
        raise InputError("give --model_path, the folder of a run, or --emb_file, the npy file of the embeddings")
    check_lists(options, _FORMATS)
    if options.raw_data and not (own.model_path or options.mfile):
        raise InputError("--raw_data needs --mfile, the file with an id and a name per line, or --model_path")
    _search(options, own)
    log_saved(options.output)


def _table_and_names(options, own):
    """The embeddings, and their names if they are asked for."""
    from ..inference.lists import read_names
    from ..inference.name_maps import with_inverses
    from ..inference.run import Run
    from ..inference.tables import is_reciprocal, read_table

    if own.model_path:
        run = Run.load(own.model_path)
        return run.model.entity, run.entity_names if options.raw_data else None
    table = read_table(options.emb_file)
    names = read_names(options.mfile) if options.raw_data else None
    if names is not None and is_reciprocal(Path(options.emb_file).parent) and len(table) == 2 * len(names):
        names = with_inverses(names)
    return table, names


def _search(options, own):
    import numpy as np

    from ..evaluation.device import torch_device
    from ..inference.lists import TABLE, read_list, write_table
    from ..inference.similarity import most_similar

    check_output(options.output, TABLE)
    table, names = _table_and_names(options, own)
    files = iter(options.data_files or [])
    left, right = (read_list(next(files), names, len(table)) if given else np.arange(len(table))
                   for given in (options.format.startswith("l"), options.format.endswith("r")))
    device = torch_device(options.gpu)
    results = most_similar(table, left, right, options.exec_mode, options.sim_func, options.topK, device, own.index)
    lefts, rights, scores = (np.concatenate(column).tolist() for column in zip(*results))
    if names is not None:
        lefts, rights = ([names[i] for i in ids] for ids in (lefts, rights))
    write_table(options.output, ("left", "right", "score"), (lefts, rights, scores))
