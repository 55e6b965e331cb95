"""The flags of `dglke_train`: DGL-KE's own, and ours beside them.

Two parsers, because old command lines must keep their meaning: argparse lets users abbreviate a flag, and a new flag
must not make an old abbreviation ambiguous. So ours are taken out first, by their full names alone.
"""

from __future__ import annotations

import argparse
import re
import sys
from typing import Sequence, Union

from ..config import (ALL, AUTO, BUS_ROWS, CACHE_POLICIES, DEFAULT_CACHE_RATIO, FLUSH_MODES, HOST_READS, HOST_WRITES, INITS,
                      LABELS, LOSSES, MATMULS, OPTIMIZERS, PARALLELS, PARTITIONS, PEERS, REGULARIZERS,
                      ROW_DTYPES, SUBSAMPLINGS, DeviceConfig, RunConfig, StoreConfig, TrainConfig)
from ..errors import shown
from ..models import model_names
from ..nearest import or_nearest
from ..score_rule import SCORE_RULES


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line and exits with code 2."""

    def error(self, message):
        """Say it and exit with code 2."""
        unknown = re.match(r"unrecognized arguments: (--\w+)", message)
        if unknown:
            message = f"there is no flag {unknown[1]}{or_nearest(unknown[1], self._flags())}"
        message = re.sub(r"\S{200,}", lambda word: shown(word[0]), message)
        sys.stderr.write(f"{self.prog}: {message}; see --help\n")
        raise SystemExit(2)

    def _flags(self) -> list[str]:
        ours = new_flags()._option_string_actions if self.prog == "dglke_train" else ()
        return [name for name in (*self._option_string_actions, *ours) if name.startswith("--")]


def new_flags() -> argparse.ArgumentParser:
    """Parser of the flags that DGL-KE does not have."""
    parser = Parser(prog="dglke_train", add_help=False, allow_abbrev=False)
    group = parser.add_argument_group("dglke_frugal")
    group.add_argument("--backend", choices=["frugal", "vanilla"], default="frugal",
                       help="frugal: rows in our store (default); vanilla: unmodified DGL-KE, for comparison")
    group.add_argument("--seed", type=int, help="seed of everything random, 0 to 2**32-1 (default: a new one each run)")
    group.add_argument("--deterministic", type=switch, nargs="?", const=True, default=True, metavar="on|off",
                       help="on (default): the same flags and seed give the same bytes; off allows faster sums in an "
                            "order that differs between runs, of which there are none so far")
    group.add_argument("--trainer", choices=["native", "dglke"], default="native",
                       help="native: our own training step (default); dglke: DGL-KE's own loop over our store")
    group.add_argument("--score_rule", choices=SCORE_RULES,
                       help="how RESCAL and TransR score corrupted tails: textbook, as true triples (default); dglke, "
                            "by another formula, as --trainer dglke does, so that ranks are not comparable with others")
    group.add_argument("--row_dtype", choices=ROW_DTYPES, default="fp32",
                       help="how entity rows are kept in host memory and caches, and travel: fp16 and bf16 take half "
                            "of the memory and of the bus; steps compute in fp32, and round at random what they store, so "
                            "that the numbers are no longer DGL-KE's (%(default)s)")
    group.add_argument("--save_dtype", choices=ROW_DTYPES, default="fp32",
                       help="what the file of the saved entities holds: fp16 takes half of the disk, and rounds rows that "
                            "are kept in fp32 to the nearest; relations stay in fp32 (%(default)s)")
    group.add_argument("--checkpoint_interval", type=int, default=0, metavar="STEPS",
                       help="write a checkpoint every so many steps, and at the end (default: only when interrupted)")
    group.add_argument("--resume", metavar="RUN_DIR",
                       help="go on with the run in this folder, from its last checkpoint, with the flags it was "
                            "started with; those that its numbers do not depend on, and --max_step, may be given anew")
    group.add_argument("--init_from", metavar="RUN_DIR",
                       help="start with the rows of this run for entities and relations of the same names; the others "
                            "start at random")
    group.add_argument("--early_stop_patience", type=int, default=0, metavar="N",
                       help="stop when N validations in a row have not improved the MRR, and keep the best tables "
                            "(default: never)")
    group.add_argument("--lr_patience", type=int, default=0, metavar="N",
                       help="multiply the learning rate by --lr_factor when N validations in a row have not improved "
                            "the MRR (default: never)")
    group.add_argument("--lr_decay_at", type=int, nargs="+", default=[], metavar="STEP",
                       help="multiply the learning rate by --lr_factor after each of these steps")
    group.add_argument("--lr_factor", type=float, default=RunConfig().lr_factor, metavar="F",
                       help="see --lr_patience and --lr_decay_at (%(default)s)")
    group.add_argument("--reciprocal", action="store_true",
                       help="give each relation r an inverse, row r + R of a table of 2 R: odd steps train on (tail, "
                            "inverse, head), negatives replace tails alone, and heads are ranked as tails of inverses")
    group.add_argument("--subsampling", choices=SUBSAMPLINGS, default="none",
                       help="weigh the losses of a triple and of its negatives so that frequent queries count less: base, by "
                            "how many triples have its head and relation or its relation and tail; uniq, of these by the "
                            "one that is asked (%(default)s)")
    group.add_argument("--neg_chunk_size", type=int, metavar="N",
                       help="positives that share negatives; 1: each has its own (default: as many as --neg_sample_size)")
    group.add_argument("--exclude_positive", action="store_true",
                       help="draw negatives again that make a training triple with a positive of their chunk; for small "
                            "chunks (--neg_chunk_size), or what many queries answer is never a negative")
    group.add_argument("--init", choices=INITS,
                       help="start values of the rows: uniform between -S and S (default; S is --init_scale, or "
                            "DGL-KE's (gamma + 2) / hidden_dim), normal with deviation S (0.001), or xavier: uniform up to "
                            "S sqrt(6 / (rows + columns)) (S is 1)")
    group.add_argument("--init_scale", type=float, metavar="S", help="see --init")
    group.add_argument("--trackers", nargs="+", default=[], choices=["tensorboard", "wandb"],
                       help="where metrics go besides metrics.jsonl in the run's folder")
    group.add_argument("--report", choices=["live", "end"],
                       help="write report.html into the run's folder: while the run trains, or at its end")
    group.add_argument("--config", metavar="FILE.yaml",
                       help="read flags from a file; flags on the command line go before it")
    group.add_argument("--preset", metavar="GRAPH/MODEL",
                       help="the flags of a recipe that comes with the package, for instance wn18rr/complex "
                            "(dglke_frugal presets lists them); flags on the command line go before it")
    group.add_argument("--partition", choices=PARTITIONS,
                       help="how the edges are divided over several processes: at random, by relation (as --rel_part), "
                            "or by METIS, which keeps neighbouring entities together (default: random)")
    group.add_argument("--parallel", choices=PARALLELS, default="auto",
                       help="what several GPUs share out: rows, each training on batches of its own, or dims, each "
                            "with some columns of every row; auto: dims where the model allows it (%(default)s)")
    group.add_argument("--peer", choices=PEERS, default="auto",
                       help="off: GPUs meet through host memory even if they reach each other (%(default)s)")
    softmax = parser.add_argument_group("softmax over all entities (--loss_genre Softmax --neg_sample_size all)")
    softmax.add_argument("--optimizer", choices=OPTIMIZERS, default="row_adagrad",
                         help="row_adagrad: one number of state per row; adagrad: one per element; adam; all of them "
                              "with sampled negatives, too (%(default)s)")
    softmax.add_argument("--regularizer", choices=REGULARIZERS, default="lp",
                         help="of the rows of a batch, by how often they occur in it: lp, coefficient / (p B) sum "
                              "|x|^p; n3, coefficient / (3 B) sum |z|^3 of complex numbers; -rc is the coefficient, -rn p "
                              "(%(default)s)")
    softmax.add_argument("--entity_dropout", type=float, default=0.0, metavar="RATE",
                         help="share of the numbers of entity rows that a step leaves out (%(default)s)")
    softmax.add_argument("--relation_dropout", type=float, default=0.0, metavar="RATE",
                         help="the same for relation rows (%(default)s)")
    softmax.add_argument("--labels", choices=LABELS, default="1vsall",
                         help="1vsall: each triple is a query with one answer; kvsall: each pair of an entity and a "
                              "relation is one, with all its answers of the training triples (%(default)s)")
    softmax.add_argument("--label_smoothing", type=float, default=0.0, metavar="SHARE",
                         help="of kvsall: labels become (1 - SHARE) y + 1 / entities, and are normalised (%(default)s)")
    softmax.add_argument("--relation_prediction", type=float, default=0.0, metavar="WEIGHT",
                         help="weight of a further loss: the softmax over all relations of each triple's head and tail "
                              "(%(default)s)")
    gpu = parser.add_argument_group("GPU")
    gpu.add_argument(
        "--matmul",
        choices=MATMULS,
        default=DeviceConfig.matmul,
        help="precision of matrix products on a GPU: fp32, with the CPU's bits; tf32x3, on tensor cores in three passes, as "
        "near to exact sums but with other bits; tf32 and bf16, which no longer give DGL-KE's numbers; auto: tf32x3 "
        "where the GPUs and the model have use for it, else fp32 (%(default)s)",
    )
    gpu.add_argument("--cuda_graphs", type=switch, nargs="?", const=True, default=True, metavar="on|off",
                     help="launch a step as one CUDA graph (on)")
    store = parser.add_argument_group("store (never changes a bit of the result)")
    default = StoreConfig()
    store.add_argument("--cache_ratio", type=cache_share, default=default.cache_ratio, metavar="auto|SHARE",
                       help="share of the entity rows that a device caches; auto: as many as a GPU has room for, all of "
                            f"them where they fit; of several GPUs by rows none where they meet, else {DEFAULT_CACHE_RATIO} "
                            "(%(default)s)")
    store.add_argument("--cache_size", type=byte_count, help="the same in bytes, for instance 8GiB")
    store.add_argument("--cache_policy", choices=CACHE_POLICIES, default=default.cache_policy,
                       help="which rows are cached (%(default)s)")
    store.add_argument("--lookahead", type=int, default=default.lookahead, help="steps sampled ahead (%(default)s)")
    store.add_argument("--sampler_threads", type=int, default=default.sampler_threads,
                       help="threads that sample, of each process; 0: by its cores (%(default)s)")
    store.add_argument("--flush", choices=FLUSH_MODES,
                       help="p2f: in the background, by next use (default for several processes, and on a GPU that the "
                            "table does not fit on); sync: before the next step (default for processes that leave the "
                            "CPU no core to flush on); none: update rows where they lie, in the host table (default "
                            "for one process on the CPU) or, with the whole table there, in the memory of a GPU or of "
                            "several by columns (default where it fits and the cache is auto)")
    store.add_argument("--flush_threads", type=int,
                       help="threads that flush (2; for several processes up to 8, by cores)")
    store.add_argument(
        "--host_read",
        choices=HOST_READS,
        default=default.host_read,
        help="how a GPU gets the rows that it does not cache: uva reads them in place, copy gathers them on the "
        "CPU; auto measures both (%(default)s)",
    )
    store.add_argument(
        "--host_write",
        choices=HOST_WRITES,
        default=default.host_write,
        help="how new values of such rows come home: direct, stored into the host row by the step itself, "
        "or staged, brought there by flush threads; auto: direct for GPUs, but for rows that several of them share by "
        "rows and read by copies, in halves, or flush by sync (%(default)s)",
    )
    store.add_argument(
        "--bus_rows",
        choices=BUS_ROWS,
        default=default.bus_rows,
        help="what each of several GPUs by columns moves over the bus: its own columns of every row, or every n-th row "
        "whole, whose other columns go to and from the other GPUs over peer access; auto: where there is such access "
        "and the table is large, whole if a probe at the start finds that faster (%(default)s)",
    )
    return parser


def sample_size(text: str) -> Union[int, str]:
    """A number, or all."""
    try:
        return ALL if text == ALL else int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{shown(text)}' is neither a number nor all") from None


def model_name(text: str) -> str:
    """One of the package's, or MODULE:CLASS."""
    if text not in model_names() and ":" not in text:
        known = ", ".join(model_names())
        raise argparse.ArgumentTypeError(f"there is no model '{text}'; choose from {known}, or give MODULE:CLASS")
    return text


def switch(text: str) -> bool:
    """on or off."""
    values = {"on": True, "true": True, "1": True, "off": False, "false": False, "0": False}
    if text.lower() not in values:
        raise argparse.ArgumentTypeError(f"'{text}' is neither on nor off")
    return values[text.lower()]


_UNITS = {"": 1, "B": 1, "K": 2**10, "KIB": 2**10, "KB": 10**3, "M": 2**20, "MIB": 2**20, "MB": 10**6, "G": 2**30,
          "GIB": 2**30, "GB": 10**9, "T": 2**40, "TIB": 2**40, "TB": 10**12}


def cache_share(text: str) -> Union[float, str]:
    """A number, or auto."""
    try:
        return AUTO if text == AUTO else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is neither auto nor a share; write for instance 0.05") from None


def byte_count(text: str) -> int:
    """Bytes of a size such as 8GiB, 500MB or 4096."""
    match = re.fullmatch(r"\s*([0-9.]+)\s*([A-Za-z]*)\s*", text)
    if not match or match[2].upper() not in _UNITS:
        raise argparse.ArgumentTypeError(f"'{text}' is not a size; write for instance 8GiB")
    try:
        return int(float(match[1]) * _UNITS[match[2].upper()])
    except (ValueError, OverflowError):  # 1.2.3, or a number of hundreds of digits
        raise argparse.ArgumentTypeError(f"'{shown(text)}' is not a size; write for instance 8GiB") from None


def dglke_flags() -> argparse.ArgumentParser:
    """Parser of DGL-KE's flags (its git HEAD), with its names, defaults and abbreviations."""
    default = TrainConfig().to_flags()
    parser = Parser(prog="dglke_train", add_help=False)

    def value(group, *names, help, **options):
        name = names[-1].lstrip("-")
        group.add_argument(*names, default=default[name], help=help, **options)

    def switch(group, *names, help):
        group.add_argument(*names, action="store_true", help=help)

    graph = parser.add_argument_group("graph")
    value(graph, "--data_path", help="folder of the data sets; built-in ones are downloaded into it (%(default)s)")
    value(graph, "--dataset", help="name of the data set; files are named after it (%(default)s)")
    value(graph, "--format", help="built_in, or udd_{hrt} / raw_udd_{hrt} in any order of the letters (%(default)s)")
    value(graph, "--data_files", nargs="+",
          help="udd: entity_map relation_map train [valid] [test]; raw_udd: train [valid] [test]")
    value(graph, "--delimiter", help="what separates the columns of all files (TAB)")
    switch(graph, "--has_edge_importance", help="the files have a fourth column, the weight of the edge")

    model = parser.add_argument_group("model")
    value(model, "--model_name", type=model_name, metavar="MODEL",
          help=f"score function: {', '.join(model_names())}, or MODULE:CLASS for a TorchModel of your own; TransE is "
               "TransE_l2 (%(default)s)")
    value(model, "--hidden_dim", type=int, help="size of an embedding (%(default)s)")
    value(model, "-g", "--gamma", type=float, help="margin of the score, and scale of the initial values (%(default)s)")
    switch(model, "-de", "--double_ent", help="entities of twice the hidden size (RotatE, SimplE)")
    switch(model, "-dr", "--double_rel", help="relations of twice the hidden size (SimplE)")

    loss = parser.add_argument_group("loss and optimiser")
    value(loss, "--lr", type=float, help="learning rate of the --optimizer (%(default)s)")
    value(loss, "--loss_genre", choices=LOSSES, help="loss of a score (%(default)s)")
    value(loss, "-m", "--margin", type=float, help="margin of the Hinge loss (%(default)s)")
    switch(loss, "-pw", "--pairwise", help="compare each negative with its positive (Logistic, Hinge)")
    switch(loss, "-adv", "--neg_adversarial_sampling", help="weigh negatives by the softmax of their scores")
    value(loss, "-a", "--adversarial_temperature", type=float, help="temperature of that softmax (%(default)s)")
    value(loss, "-rc", "--regularization_coef", type=float, help="coefficient of the regularization (%(default)s)")
    value(loss, "-rn", "--regularization_norm", type=int, help="norm of the regularization (%(default)s)")

    batch = parser.add_argument_group("batches")
    value(batch, "--batch_size", type=int, help="positives of a step (%(default)s)")
    value(batch, "--neg_sample_size", type=sample_size, metavar="NUMBER|all",
          help="negatives that a chunk of positives shares, or all entities, for --loss_genre Softmax (%(default)s)")
    switch(batch, "--neg_deg_sample", help="the chunk's own entities serve as negatives too")

    evaluation = parser.add_argument_group("evaluation")
    switch(evaluation, "--valid", help="rank the validation set every --eval_interval steps")
    switch(evaluation, "--test", help="rank the test set at the end")
    value(evaluation, "--eval_interval", type=int, help="steps between validations (%(default)s)")
    value(evaluation, "--eval_percent", type=float, help="share of the triples that is ranked (%(default)s)")
    value(evaluation, "--batch_size_eval", type=int, help="triples that share sampled candidates (%(default)s)")
    value(evaluation, "--neg_sample_size_eval", type=int, help="candidates per triple, -1 for all (%(default)s)")
    switch(evaluation, "--neg_deg_sample_eval", help="draw those candidates by degree")
    switch(evaluation, "--no_eval_filter", help="let known triples count as candidates")

    device = parser.add_argument_group("devices")
    device.add_argument("--gpu", type=int, nargs="+", default=list(default["gpu"]),
                        help="GPU numbers, with a process for each; -1 is the CPU (-1)")
    value(device, "--num_proc", type=int, help="training processes (%(default)s, or one per GPU)")
    value(device, "--num_thread", type=int,
          help="CPU threads of a process when there are several (%(default)s; with GPUs at least its share of the cores)")
    switch(device, "--mix_cpu_gpu", help="rows on the host, arithmetic on the GPU; what the frugal backend always does")
    switch(device, "--rel_part", help="give each process its own relations")
    switch(device, "--async_update",
           help="update entities in a process of their own; frugal flushes in the background anyway")
    value(device, "--force_sync_interval", type=int,
          help="steps between barriers of several processes; frugal synchronizes each step anyway (%(default)s)")

    run = parser.add_argument_group("run")
    value(run, "--save_path", help="folder that gets a folder per run (%(default)s)")
    switch(run, "--no_save_emb", help="do not save the embeddings")
    value(run, "--max_step", type=int, help="steps of each process (%(default)s)")
    value(run, "-log", "--log_interval", type=int, help="steps between log lines (%(default)s)")
    return parser


def split(argv: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Our own flags out of `argv`, and the rest of it, untouched and in order."""
    return new_flags().parse_known_args(list(argv))


def print_help() -> None:
    """Both groups of flags as one help text."""
    parser = argparse.ArgumentParser(
        prog="dglke_train", parents=[new_flags(), dglke_flags()], add_help=True,
        description="Train knowledge-graph embeddings. All flags of DGL-KE, with its defaults; abbreviations work "
                    "for them.")
    parser.print_help()
