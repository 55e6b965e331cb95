"""`dglke_eval`: rank the test set with a trained run."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from ..errors import InputError, shown
from ..files import check_output, write_json
from ..score_rule import SCORE_RULES, log_if_two_formulas, score_rule_of_dglke_run, score_rule_of_run
from .errors import reports_input_errors
from .tool_flags import Parser, own_parser, parse, messages_apart_from

# DGL-KE's defaults. It ignores the run's config.json; we take from there what is not given and is not about the test.
_DEFAULTS = {"model_name": "TransE", "data_path": "data", "dataset": "FB15k", "format": "built_in", "data_files": None,
             "delimiter": "\t", "hidden_dim": 256, "gamma": 12.0, "double_ent": False, "double_rel": False}


def own_flags() -> Parser:
    """Flags that DGL-KE's command does not have."""
    parser = own_parser("dglke_eval")
    parser.add_argument("--rank_ties", choices=["pessimistic", "realistic", "optimistic"], default="pessimistic",
                        help="how candidates with an equal score count (pessimistic, as in DGL-KE)")
    parser.add_argument("--filter_rule", choices=["excluded", "penalized"], default="excluded",
                        help="known triples do not compete (default), or as in DGL-KE 0.1.2 with a lower score")
    parser.add_argument("--score_rule", choices=SCORE_RULES,
                        help="RESCAL, TransR: textbook, or by DGL-KE's two formulas (the rule of the training)")
    parser.add_argument(
        "--ogb", action="store_true",
        help="OGB's official protocol with its candidates: wikikg2, biokg (test), wikikg90M, wikikg90Mv2 (valid)")
    parser.add_argument("--breakdown", action="store_true", help="also print a table by relation and direction")
    parser.add_argument("--json", metavar="FILE", help="also write the metrics (and the breakdown) as JSON")
    parser.add_argument("--other_data", action="store_true",
                        help="rank on other data than those of the training; their ids must mean the same")
    parser.add_argument("--seed", type=int, default=0, help="seed of sampled candidates and triples (%(default)s)")
    return parser


def dglke_flags() -> Parser:
    """DGL-KE's flags, with its names and abbreviations. What is not given is missing in the result."""
    parser = Parser(prog="dglke_eval", add_help=False, argument_default=argparse.SUPPRESS)
    run = parser.add_argument_group("run (what is not given is read from its config.json)")
    run.add_argument("--model_path", default="ckpts", help="folder of the run (%(default)s)")
    run.add_argument("--model_name", help="score function, or MODULE:CLASS of a custom one")
    run.add_argument("--hidden_dim", type=int, help="size of an embedding in real numbers")
    run.add_argument("-g", "--gamma", type=float, help="margin of the score")
    run.add_argument("-de", "--double_ent", action="store_true", help="entities of twice the hidden size")
    run.add_argument("-dr", "--double_rel", action="store_true", help="relations of twice the hidden size")
    graph = parser.add_argument_group("graph (likewise)")
    graph.add_argument("--data_path", help="folder of the data sets")
    graph.add_argument("--dataset", help="name of the data set")
    graph.add_argument("--format", help="built_in, udd_{hrt} or raw_udd_{hrt}")
    graph.add_argument("--data_files", nargs="+", help="the files of a udd or raw_udd format")
    graph.add_argument("--delimiter", help="what separates the columns of all files")
    test = parser.add_argument_group("test")
    test.add_argument("--batch_size_eval", type=int, default=8,
                      help="triples that share sampled candidates (%(default)s)")
    test.add_argument("--neg_sample_size_eval", type=int, default=-1,
                      help="candidates per triple, -1 for all (%(default)s)")
    test.add_argument("--neg_deg_sample_eval", action="store_true", default=False, help="draw the candidates by degree")
    test.add_argument("--eval_percent", type=float, default=1,
                      help="share of the triples, drawn at random (%(default)s)")
    test.add_argument("--no_eval_filter", action="store_true", default=False,
                      help="let known triples count as candidates")
    device = parser.add_argument_group("device")
    device.add_argument("--gpu", type=int, nargs="+", default=[-1], help="GPU number; -1 is the CPU (-1)")
    device.add_argument("--mix_cpu_gpu", action="store_true", default=False, help="accepted, no effect")
    device.add_argument("--num_proc", type=int, default=1,
                        help="threads in all are this times --num_thread (%(default)s)")
    device.add_argument("--num_thread", type=int, default=1,
                        help="see --num_proc; 1 and 1 take all cores (%(default)s)")
    return parser


@reports_input_errors
def main(argv):
    """Entry point. argv: the arguments without the program's name."""
    own, rest = parse(own_flags(), dglke_flags(), argv, "Rank the test triples of a data set with a trained run.")
    if own.backend == "vanilla":
        from .. import vanilla

        for name in ("rank_ties", "filter_rule", "ogb", "breakdown", "json", "other_data"):
            if getattr(own, name) != own_flags().get_default(name):
                raise InputError(
                    f"--{name} is not a flag of DGL-KE, which --backend vanilla runs; leave one of them out")
        model_name = getattr(dglke_flags().parse_known_args(rest)[0], "model_name", _DEFAULTS["model_name"])
        log_if_two_formulas(model_name, score_rule_of_run(model_name, own.score_rule, dglke_loop=True))
        vanilla.run("eval", rest, seed=own.seed)
        return
    given = vars(dglke_flags().parse_args(rest))
    _check(given, own.seed)
    if own.json:
        check_output(own.json, rb'\{\s*"metrics"')
    with messages_apart_from(own.json):
        _evaluate(own, given)


def _evaluate(own, given):
    from .. import _native
    from ..data import load_graph
    from ..evaluation.device import on_device
    from ..inference.tables import read_model
    from ..options import check_dataset
    from ..training.processes.available_threads import check_threads

    settings = _settings(given)
    check_dataset(settings["dataset"])
    graph = load_graph(settings["dataset"], settings["data_path"], settings["format"], settings["data_files"],
                       settings["delimiter"])
    if not own.other_data:
        _check_data(graph, given["model_path"])
    model = read_model(given["model_path"], settings["dataset"], settings["model_name"], settings["hidden_dim"],
                       settings["gamma"], config=settings, score_rule=own.score_rule or settings["score_rule"])
    log_if_two_formulas(model.name, model.score_rule)
    ranks_lists = own.ogb or 0 < given["neg_sample_size_eval"] < len(model.entity)
    if not ranks_lists:  # which are ranked on the CPU
        model = on_device(model, given["gpu"])
    threads = given["num_proc"] * given["num_thread"]
    if threads > 1:
        check_threads({f"--num_proc {given['num_proc']} --num_thread {given['num_thread']}": threads})
        _native.set_num_threads(threads)
    if own.ogb:
        _run_ogb(model, graph, own)
    elif graph.test is None or not len(graph.test):
        raise InputError("the data set has no test triples; name a test file in --data_files")
    else:
        _run(model, graph, own, given, bool(settings["init_from"]))


def _check(given, seed):
    if not 0 <= seed < 2**32:
        raise InputError(f"--seed is {shown(seed)}; give a number in [0, 2**32)")
    if not 0 < given["eval_percent"] <= 1:
        raise InputError(f"--eval_percent is {given['eval_percent']}; give a share in (0, 1]")
    size = given["neg_sample_size_eval"]
    if (size < 1 and size != -1) or given["batch_size_eval"] < 1:
        raise InputError(
            "--neg_sample_size_eval must be -1 (all entities) or at least 1, and --batch_size_eval at least 1")
    if given["neg_deg_sample_eval"] and not given["no_eval_filter"]:
        raise InputError("--neg_deg_sample_eval cannot filter known triples; add --no_eval_filter")
    if min(given["num_proc"], given["num_thread"]) < 1:
        raise InputError("--num_proc and --num_thread must be at least 1")


def _settings(given):
    """The settings of the command line, else of the run, else DGL-KE's defaults."""
    from ..inference.tables import is_unsaved_run, read_config

    folder = Path(given["model_path"])
    without = any(folder.glob("*.npy")) and not (folder / "config.json").exists() and not is_unsaved_run(folder)
    config = {} if without else read_config(folder)
    settings = {name: given.get(name, config.get(name, default)) for name, default in _DEFAULTS.items()}
    settings["reciprocal"] = config.get("reciprocal", False)
    settings["init_from"] = config.get("init_from")
    settings["score_rule"] = config.get("score_rule", score_rule_of_dglke_run(settings["model_name"]))
    if not config:  # then double_ent is unknown, and tables of either size pass
        settings = {name: value for name, value in settings.items() if name != "double_ent" or name in given}
    return settings


def _check_data(graph, folder):
    """InputError if the graph is not the one that the run says it was trained on."""
    from ..data.fingerprint import Fingerprint
    from ..inference.tables import read_config

    config = read_config(folder) if (Path(folder) / "config.json").exists() else {}
    if "data" not in config:  # DGL-KE's own run
        return
    changed = Fingerprint.of(graph).difference(Fingerprint.of_mapping(config["data"]))
    if changed:
        raise InputError(f"the data are not those of the training of {folder}: {changed}; give those data, or add "
                         "--other_data if the ids mean the same")


def _run_ogb(model, graph, own):
    from ..evaluation import ogb

    arrays = graph.candidates
    if "head_neg" in arrays.get("test", {}):
        begin = time.perf_counter()
        evaluation = ogb.evaluate_link(model, tuple(graph.test), arrays["test"])
        facts = {"rank_ties": "realistic", "known_triples": "kept", "candidates": "ogb", "score_rule": model.score_rule}
        _report(evaluation, begin, graph, own, facts)
    elif "hr" in arrays.get("valid", {}):
        metrics = ogb.evaluate_challenge(model, arrays["valid"])
        print(f"[0]Valid average MRR: {metrics['mrr']}")
        if own.json:
            write_json(own.json, {"metrics": {"MRR": metrics["mrr"]}, "candidates": "ogb", "split": "valid"})
    else:
        raise InputError(f"the data set {graph.name} has no candidates of OGB; leave --ogb out")


def _run(model, graph, own, given, warm):
    from ..evaluation import KnownTriples, Protocol, evaluate, share_of
    from ..training.log.messages import held_out_facts, held_out_lines

    protocol = Protocol.from_flags(given, own.rank_ties, own.filter_rule, own.seed).among(len(model.entity), print)
    if given["neg_deg_sample_eval"] and not protocol.sampling:
        print("--neg_deg_sample_eval has no effect: all entities are candidates, and none are drawn "
              "(--neg_sample_size_eval)")
    triples = share_of(tuple(graph.test), given["eval_percent"], own.seed)
    print("|test|:", len(triples[0]))
    for line in held_out_lines(held_out_facts(graph, ["test"]), {"test": len(graph.test)}, warm):
        print(line)
    begin = time.perf_counter()
    known = KnownTriples(graph.splits.values())
    evaluation = evaluate(model, triples, known, protocol)
    _report(evaluation, begin, graph, own,
            {"rank_ties": protocol.ties, "known_triples": protocol.known,
             "candidates": protocol.sampling.count if protocol.sampling else "all", "score_rule": model.score_rule,
             "reciprocal": model.reciprocal})


def _report(evaluation, begin, graph, own, facts):
    """Print the metrics as DGL-KE does, and write them as JSON with what else must be known to compare them."""
    from ..evaluation.breakdown import by_relation, table_text
    from ..evaluation.metrics import process_lines

    metrics = evaluation.metrics()
    seconds = time.perf_counter() - begin
    print("\n".join(process_lines(metrics, "Test")))
    print(f"Test takes {seconds:.3f} seconds")
    rows = by_relation(evaluation) if own.breakdown else []
    if rows:
        print(table_text(rows, graph.relation_names))
    if own.json:
        write_json(own.json,
                   {"metrics": metrics.named(), "ranks": metrics.count, "seconds": seconds, **facts,
                    "by_relation": [row.as_dict(graph.relation_names) for row in rows]})
