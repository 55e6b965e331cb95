"""`dglke_predict`: the best triples among combinations of heads, relations and tails."""

from __future__ import annotations

from ..errors import InputError
from ..files import check_output
from .errors import reports_input_errors
from .tool_flags import Parser, add_search_flags, check_lists, own_search_parser, parse, log_saved

_FORMATS = ("h_r_t", "h_r_*", "h_*_t", "*_r_t", "h_*_*", "*_r_*", "*_*_t")


def own_flags() -> Parser:
    """Flags that DGL-KE's command does not have."""
    parser = own_search_parser("dglke_predict")
    parser.add_argument("--exclude_known", action="store_true",
                        help="leave out triples that stand in train, valid or test of the run's data set")
    return parser


def dglke_flags() -> Parser:
    """DGL-KE's flags, with its names, defaults and abbreviations."""
    parser = Parser(prog="dglke_predict", add_help=False)
    parser.add_argument("--model_path", default="ckpts", help="folder of the run (%(default)s)")
    add_search_flags(parser, _FORMATS)
    parser.add_argument(
        "--exec_mode", default="all",
        help="all, batch_head, batch_rel, batch_tail: the best in all or for each; triplet_wise: by line (%(default)s)")
    parser.add_argument("--score_func", default="none",
                        help="none: the score without its margin; logsigmoid: log-sigmoid of the score (%(default)s)")
    parser.add_argument("--entity_mfile", help="file of entity ids and names; by default the one the run names")
    parser.add_argument("--rel_mfile", help="file of relation ids and names; by default the one the run names")
    return parser


@reports_input_errors
def main(argv):
    """Entry point. argv: the arguments without the program's name."""
    own, rest = parse(own_flags(), dglke_flags(), argv,
                      "Find the best triples among all combinations of given heads, relations and tails.")
    if own.backend == "vanilla":
        from .. import vanilla

        if own.exclude_known:
            raise InputError("--exclude_known is not a flag of DGL-KE, which --backend vanilla runs; leave one out")
        vanilla.run("predict", rest)
        return
    options = dglke_flags().parse_args(rest)
    check_lists(options, _FORMATS)
    if options.score_func not in ("none", "logsigmoid"):
        raise InputError(f"--score_func is {options.score_func}; choose none or logsigmoid")
    _predict(options, own)
    log_saved(options.output)


def _predict(options, own):
    import numpy as np

    from ..evaluation.device import on_device
    from ..inference.completion import best_triples
    from ..inference.lists import TABLE, read_list, write_table
    from ..inference.run import Run

    check_output(options.output, TABLE)
    run = Run.load(options.model_path, options.entity_mfile, options.rel_mfile)
    entity_names = run.entity_names if options.raw_data else None
    relation_names = run.relation_names if options.raw_data else None
    files = iter(options.data_files)
    lists = []
    places = ((entity_names, len(run.model.entity)),
              (relation_names, run.model.n_relations),
              (entity_names, len(run.model.entity)))
    for part, (names, count) in zip(options.format.split("_"), places):
        lists.append(np.arange(count) if part == "*" else read_list(next(files), names, count))
    model = on_device(run.model, options.gpu)
    known = run.known_triples if own.exclude_known else None
    results = best_triples(model, *lists, options.exec_mode, options.topK, _score(model, options.score_func),
                           index=own.index, known=known)
    heads, relations, tails, scores = (np.concatenate([getattr(result, column) for result in results]).tolist()
                                       for column in ("heads", "relations", "tails", "scores"))
    if options.raw_data:
        heads, tails = ([entity_names[i] for i in ids] for ids in (heads, tails))
        relations = [relation_names[i] for i in relations]
    write_table(options.output, ("head", "rel", "tail", "score"), (heads, relations, tails, scores))


def _score(model, name):
    """DGL-KE scores without the margin, or with it under a log-sigmoid."""
    import numpy as np

    if name == "none":
        return lambda keys: model.scores(keys, gamma=0.0)

    def log_sigmoid(keys):
        scores = model.scores(keys).astype(np.float64)
        return (np.minimum(scores, 0) - np.log1p(np.exp(-np.abs(scores)))).astype(np.float32)

    return log_sigmoid
