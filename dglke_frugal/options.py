"""The configuration of a training run, as frozen data. Field names are DGL-KE's flag names, so flags, files and code
agree.

Each field declares its flag by `option`: see option.py.
"""

from __future__ import annotations

import dataclasses
import math
import os
import re
from dataclasses import dataclass
from typing import Any, Iterable, Mapping, Optional, Sequence, Union

from .errors import InputError, shown, unencodable
from .flag_values import ALL, AUTO, byte_count, cache_share, file_path, model_name, sample_size, steps_or_epochs
from .models import MODELS, RowDims, built_in_model, code_checksum, find_model, is_custom
from .models.model import INIT_EPSILON
from .option import ALWAYS, NEVER, Change, Option, When, only, option, options
from .score_rule import SCORE_RULES, compares_two_formulas, has_two_formulas


@dataclass(frozen=True)
class Loss:
    """A value of --loss_genre. margin: it has one. pairwise: it may compare each negative with its positive.
    weighs_itself: it weighs negatives by their scores, so that -adv does not go with it."""

    margin: bool = False
    pairwise: bool = False
    weighs_itself: bool = False


LOSSES = {"Hinge": Loss(margin=True, pairwise=True), "Logistic": Loss(pairwise=True), "Logsigmoid": Loss(),
          "BCE": Loss(), "Softmax": Loss(weighs_itself=True)}
WITH_MARGIN, WITH_PAIRS = (" or ".join(name for name, loss in LOSSES.items() if getattr(loss, attribute))
                           for attribute in ("margin", "pairwise"))
WITH_LONG_ENTITIES, WITH_LONG_RELATIONS = (", ".join(model.name for model in MODELS if model.doubled[table])
                                           for table in (0, 1))
WITH_PHASES = ", ".join(model.name for model in MODELS if model.phases)
CACHE_POLICIES = ("static", "lfu")
FLUSH_MODES = ("p2f", "direct", "sync", "none")
PARTITIONS = ("random", "relation", "metis", "hash", "range")
OWNED_PARTITIONS = ("hash", "range", "metis")  # by which each entity has an owner among the processes
NEGATIVES = ("local", "global")
LARGEST = 1e6  # of gamma and the like: float32 holds the square of a product of two numbers of this size
PARALLELS = ("auto", "rows", "columns")
PEERS = ("auto", "off")
MATMULS = ("auto", "fp32", "tf32x3", "tf32")
ROW_DTYPES = ("fp32", "fp16")
INITS = ("uniform", "normal", "xavier")
OPTIMIZERS = ("row_adagrad", "adagrad", "adam")
REGULARIZERS = ("lp", "n3")
LABELS = ("1vsall", "kvsall")
SUBSAMPLINGS = ("none", "base", "uniq", "bernoulli")
TRACKERS = ("tensorboard", "wandb", "mlflow", "csv")
REPORTS = ("live", "end")
# Where auto has nothing to go by: data-parallel ranks without in-step synchronisation, a GPU whose memory is not known,
# and the CPU.
DEFAULT_CACHE_RATIO = 0.05


# ---- conditions of options


def _on_gpu(config: TrainConfig) -> bool:
    return config.device.gpu[0] >= 0


def _is_data_parallel(config: TrainConfig) -> bool:
    return config.device.ranks > 1 and config.device.parallel != "columns" and not config.batch.against_all


def _gamma_matters(config: TrainConfig) -> bool:
    model = config.model
    described = built_in_model(model.model_name)
    starts_by_gamma = model.init == "uniform" and model.init_scale is None
    return starts_by_gamma or described is None or described.similarity != "dot"


def _model(config: TrainConfig, name: str) -> str:
    """The name of the model, and of a custom one what its code is known by."""
    code = code_checksum(name)
    return name if code is None else f"{name} (code {code})"


def _processor(config: TrainConfig, gpu: Sequence[int]) -> Optional[str]:
    """What of --gpu changes numbers: how many processes train, and whether a GPU computes what is not to the bit what
    the CPU computes (docs/exactness.md)."""
    if len(gpu) > 1 and config.device.num_proc <= len(gpu):
        return f"{len(gpu)} GPUs"
    model = built_in_model(config.model.model_name)
    same_bits = (model is not None and not config.model.is_custom and not model.matrices
                 and not config.batch.against_all
                 and config.loss.optimizer == "row_adagrad")
    return None if same_bits else "a GPU" if gpu[0] >= 0 else "the CPU"


_BY_VALIDATIONS = only("with --lr_patience or --early_stop_patience",
                       lambda config: config.run.lr_patience or config.run.early_stop_patience)
_RANKING = When("it is of rankings, and neither --valid nor --test is given",
                lambda config: config.evaluation.valid or config.evaluation.test)
_RANKING_SAMPLES = When("it is of candidates that are drawn, and this run draws none (--neg_sample_size_eval)",
                        lambda config: _RANKING.holds(config) and config.evaluation.neg_sample_size_eval > 0)
_GPU = When("it is of GPUs, and this run is on the CPU", _on_gpu)
_PROCESSES = When("it is of several processes, and this run has one", lambda config: config.device.ranks > 1)
_DATA_PARALLEL = When("it is of several data-parallel processes, and this run has none", _is_data_parallel)
_GPUS = When("it is of several GPUs, and this run has none or one",
             lambda config: config.device.ranks > 1 and _on_gpu(config))
_CACHE = When("rows are updated where they lie, and nothing is cached or flushed", lambda config: config.uses_engine)
_PENALTY = When("--regularization_coef is 0", lambda config: config.loss.regularization_coef > 0)
_SCHEDULE = When("neither --lr_patience nor --lr_decay_at is given",
                 lambda config: bool(config.run.lr_patience or config.run.lr_decay_at))
_SOFTMAX = "softmax over all entities (--loss_genre Softmax --neg_sample_size all)"


@options("graph")
@dataclass(frozen=True)
class GraphConfig:
    """Which triples to train on. Which triples they are is compared by their checksum (data/fingerprint.py)."""

    data_path: str = option("data", "folder of the data sets, or with files train, valid and test", changes=NEVER,
                            type=file_path, metavar="DIR", of_dglke=True)
    dataset: str = option("FB15k", "name of the data set; files are named after it", changes=ALWAYS, metavar="NAME",
                          of_dglke=True, level="first")
    format: str = option("built_in", "built_in, or udd_{hrt} / raw_udd_{hrt} in any order of the letters",
                         changes=ALWAYS, metavar="FORMAT", of_dglke=True)
    data_files: Optional[Sequence[str]] = option(
        None, "udd: entity_map relation_map train [valid test]; raw_udd: train [valid test]", changes=NEVER,
        type=file_path, many=True, metavar="FILE", of_dglke=True)
    delimiter: str = option("\t", "what separates the columns of all files", changes=NEVER, default_words="TAB",
                            metavar="TEXT", of_dglke=True)
    has_edge_importance: bool = option(False, "the files have a fourth column, the weight of the edge", changes=ALWAYS,
                                       of_dglke=True)


@options("model")
@dataclass(frozen=True)
class ModelConfig:
    """Which score function, and how large its embeddings are. score_rule: see score_rule.py.

    reciprocal: each relation r has an inverse, row r + R of 2 R, and heads are ranked as tails of the inverse.
    init, init_scale: start values, see training/tables/start_values.py.
    normalize_entities: as Bordes et al. (2013) train TransE.
    row_dtype: how entity rows are kept and travel; steps compute in float32 (docs/store.md).
    """

    model_name: str = option("TransE", "score function, or MODULE:CLASS for a custom TorchModel",
                             changes=Change("yes", _model), type=model_name, metavar="MODEL", of_dglke=True,
                             level="first")
    hidden_dim: int = option(400, "size of an embedding in real numbers", changes=ALWAYS, metavar="N", of_dglke=True,
                             level="first")
    gamma: float = option(
        12.0, "margin of distance models, and scale of the start values", changes=ALWAYS,
        used=When("scores that are products have no margin, and start values are those of --init", _gamma_matters),
        short="-g", metavar="G", of_dglke=True, level="first")
    double_ent: bool = option(False, f"entities of twice the hidden size ({WITH_LONG_ENTITIES})", changes=ALWAYS,
                              short="-de", of_dglke=True)
    double_rel: bool = option(False, f"relations of twice the hidden size ({WITH_LONG_RELATIONS})", changes=ALWAYS,
                              short="-dr", of_dglke=True)
    score_rule: str = option("textbook", "RESCAL, TransR: score corrupted tails as true triples, or as DGL-KE does",
                             changes=ALWAYS, choices=SCORE_RULES, dglke_loop=None, level="rare",
                             used=When("RESCAL and TransR alone have two formulas",
                                       lambda config: has_two_formulas(config.model.model_name)))
    reciprocal: bool = option(False, "give each relation an inverse, and rank heads as tails of the inverse",
                              changes=ALWAYS)
    init: str = option("uniform", "start values: uniform in +-S, normal of deviation S, xavier times S; not "
                       f"{WITH_PHASES} relations", changes=ALWAYS, choices=INITS)
    init_scale: Optional[float] = option(None, "S of --init", changes=ALWAYS, type=float, metavar="S",
                                         default_words="uniform: (gamma + 2) / hidden_dim; normal: 0.001; xavier: 1")
    normalize_entities: bool = option(False, "entity rows have length 1, at the start and after each step",
                                      changes=ALWAYS)
    row_dtype: str = option("fp32", "type of entity rows in memory and caches; fp16 is rounded at random",
                            changes=ALWAYS, choices=ROW_DTYPES, level="rare")

    @property
    def is_half(self) -> bool:
        """Whether entity rows are kept in half precision."""
        return self.row_dtype != "fp32"

    @property
    def is_custom(self) -> bool:
        """Whether it is a TorchModel: a custom one, named MODULE:CLASS, or one of the package."""
        return is_custom(self.model_name)

    @property
    def dims(self) -> RowDims:
        """Floats of a row of each table."""
        return find_model(self.model_name).dims(self.hidden_dim, self.double_ent, self.double_rel)

    def relation_rows(self, relations: int) -> int:
        """Rows of the relation table for so many relations of a graph."""
        return 2 * relations if self.reciprocal else relations


@options("loss and optimizer")
@dataclass(frozen=True)
class LossConfig:
    """The loss and the optimizer's steps. Fields from regularizer on: of a softmax over all entities
    alone.

    subsampling: by what a triple's losses are weighed (training/batches/subsampling.py).
    """

    loss_genre: str = option("Logsigmoid", "loss of a score", changes=ALWAYS, choices=tuple(LOSSES), of_dglke=True)
    margin: float = option(1.0, f"margin of the {WITH_MARGIN} loss", changes=ALWAYS, short="-m", metavar="M",
                           of_dglke=True, used=When(f"it is of --loss_genre {WITH_MARGIN}",
                                                    lambda config: LOSSES[config.loss.loss_genre].margin))
    pairwise: bool = option(False, f"compare each negative with its positive ({WITH_PAIRS})", changes=ALWAYS,
                            short="-pw", of_dglke=True)
    neg_adversarial_sampling: bool = option(False, "weigh negatives by the softmax of their scores", changes=ALWAYS,
                                            short="-adv", of_dglke=True, level="first")
    adversarial_temperature: float = option(
        1.0, "temperature of the softmax of -adv", changes=ALWAYS, short="-a", metavar="T", of_dglke=True,
        used=When("-adv is not given", lambda config: config.loss.neg_adversarial_sampling))
    regularization_coef: float = option(
        2e-6, "coefficient of the regularization", changes=ALWAYS, short="-rc", metavar="C", of_dglke=True,
        used=When("--regularization_norm is 0", lambda config: config.loss.regularization_norm > 0))
    regularization_norm: int = option(
        3, "norm of the regularization", changes=ALWAYS, short="-rn", metavar="P", of_dglke=True,
        used=When("--regularization_coef is 0, or --regularizer n3 has its own norm",  # which 0 leaves out, too
                  lambda config: _PENALTY.holds(config) and (config.loss.regularizer == "lp"
                                                             or config.loss.regularization_norm == 0)))
    lr: float = option(0.01, "learning rate of the --optimizer", changes=ALWAYS, metavar="RATE", of_dglke=True,
                       level="first")
    subsampling: str = option("none", "weigh losses by how frequent queries are, or sides of relations", changes=ALWAYS,
                              choices=SUBSAMPLINGS)
    optimizer: str = option("row_adagrad", "row_adagrad: one number of state per row; adagrad: one per element",
                            changes=ALWAYS, choices=OPTIMIZERS)
    regularizer: str = option("lp", "lp: sum of |x|^p; n3: sum of |z|^3 of complex numbers", changes=ALWAYS,
                              choices=REGULARIZERS, used=_PENALTY, group=_SOFTMAX)
    entity_dropout: float = option(0.0, "share of the numbers of entity rows that a step leaves out", changes=ALWAYS,
                                   metavar="RATE", group=_SOFTMAX)
    relation_dropout: float = option(0.0, "share of the numbers of relation rows that a step leaves out",
                                     changes=ALWAYS, metavar="RATE", group=_SOFTMAX)
    labels: str = option("1vsall", "1vsall: a query for each triple; kvsall: one for all answers of a query",
                         changes=ALWAYS, choices=LABELS, group=_SOFTMAX)
    label_smoothing: float = option(0.0, "kvsall: share of a label that all entities get alike", changes=ALWAYS,
                                    metavar="SHARE", group=_SOFTMAX)
    relation_prediction: float = option(0.0, "weight of a further loss, the softmax over all relations",
                                        changes=ALWAYS, metavar="WEIGHT", group=_SOFTMAX)


@options("batches")
@dataclass(frozen=True)
class BatchConfig:
    """Positives and negatives of a step.

    neg_chunk_size: positives that share negatives; None: as many as there are negatives. exclude_positive: whether
        negatives are drawn again that are training triples with a positive of their chunk.
    """

    batch_size: int = option(1024, "positive triples of a step", changes=ALWAYS, metavar="N", of_dglke=True,
                             level="first")
    neg_sample_size: Union[int, str] = option(  # or ALL
        256, "negatives that a chunk of positives shares, or all entities for Softmax", changes=ALWAYS,
        type=sample_size, metavar="NUMBER|all", of_dglke=True, level="first")
    neg_chunk_size: Optional[int] = option(None, "positives that share negatives", changes=ALWAYS, type=int,
                                           metavar="N", default_words="as many as --neg_sample_size")
    exclude_positive: bool = option(False, "draw negatives again that make a training triple with their chunk",
                                    changes=ALWAYS)
    neg_deg_sample: bool = option(False, "the entities of a chunk's positives are negatives, too", changes=ALWAYS,
                                  of_dglke=True)

    @property
    def against_all(self) -> bool:
        """Whether positives are compared with all entities, rather than with sampled negatives."""
        return self.neg_sample_size == ALL

    @property
    def negatives(self) -> int:
        """Sampled negatives of a chunk; 0 against all entities."""
        return 0 if self.against_all else int(self.neg_sample_size)

    @property
    def positives(self) -> int:
        """Positives of a step: batch_size, or if that is more than a chunk, whole chunks, as in csrc/sampler."""
        size, chunk = self.batch_size, self.neg_chunk_size or max(1, self.negatives)
        return size if size <= chunk else -(-size // chunk) * chunk

    @property
    def chunk(self) -> int:
        """Positives that share negatives."""
        return min(self.positives, self.neg_chunk_size or max(1, self.negatives))

    def limited_to(self, triples: int) -> "BatchConfig":
        """The batches that csrc/sampler makes of so many training triples, of which there may be fewer."""
        chunk = min(self.chunk, triples)
        return dataclasses.replace(self, batch_size=min(self.positives, triples // chunk * chunk))

    @property
    def most_entities(self) -> int:
        """Distinct ones of a step at most."""
        return 2 * self.positives + self.positives // self.chunk * self.negatives

    @property
    def most_edges(self) -> int:
        """Positives of a step at most, and sampled negatives at most."""
        return max(self.positives, self.positives // self.chunk * self.negatives)


@options("evaluation")
@dataclass(frozen=True)
class EvaluationConfig:
    """When and against which candidates the model is ranked."""

    valid: bool = option(False, "rank the validation set every --eval_interval steps", changes=NEVER, of_dglke=True)
    test: bool = option(False, "rank the test set at the end", changes=NEVER, of_dglke=True, level="first")
    eval_interval: Union[int, str] = option(
        10000, "steps between validations, or epochs: 1epoch", changes=_BY_VALIDATIONS, type=steps_or_epochs,
        metavar="STEPS|Nepochs", default_words="10000, or 1epoch with --max_epoch", of_dglke=True,
        used=When("--valid is not given", lambda config: config.evaluation.valid))
    eval_percent: float = option(1.0, "share of the triples that is ranked", changes=_BY_VALIDATIONS, used=_RANKING,
                                 metavar="SHARE", of_dglke=True)
    batch_size_eval: int = option(8, "triples that share sampled candidates", changes=_BY_VALIDATIONS,
                                  used=_RANKING_SAMPLES, metavar="N", of_dglke=True)
    neg_sample_size_eval: int = option(-1, "candidates per triple, -1 for all", changes=_BY_VALIDATIONS, used=_RANKING,
                                       metavar="N", of_dglke=True)
    neg_deg_sample_eval: bool = option(False, "draw those candidates by degree", changes=_BY_VALIDATIONS,
                                       used=_RANKING_SAMPLES, of_dglke=True)
    no_eval_filter: bool = option(False, "let known triples count as candidates", changes=_BY_VALIDATIONS,
                                  used=_RANKING, of_dglke=True)


@options("devices")
@dataclass(frozen=True)
class DeviceConfig:
    """The devices and processes of a run.

    matmul: precision of matrix products on a GPU; auto goes by model and GPU (resolve.py). cuda_graphs:
        whether a step becomes one launch there. partition: how edges are divided over ranks; None: by relation with
        rel_part, by hash over machines and with local negatives, else at random. negatives: one of NEGATIVES.
        parallel: what ranks share out, see resolve.py. peer: whether devices may reach each other's memory.
    """

    gpu: Sequence[int] = option(
        (-1,), "GPU numbers, with a process for each; -1 is the CPU",
        changes=Change("yes: the number of GPUs; and CPU or GPU for some models", _processor), type=int, many=True,
        metavar="N", default_words="-1", of_dglke=True, level="first")
    matmul: str = option(
        AUTO, "precision of products on a GPU; fp32: the bits of the CPU; tf32: rounded",
        changes=only("on a GPU", lambda config: config.device.matmul != "fp32"), used=_GPU,
        choices=MATMULS, dglke_loop=("fp32",))
    cuda_graphs: bool = option(True, "launch a step as one CUDA graph", changes=NEVER, used=_GPU, dglke_loop=None,
                               level="rare")
    num_proc: int = option(
        1, "training processes", changes=Change("yes", lambda config, value: config.device.ranks), metavar="N",
        default_words="1, or one per GPU", of_dglke=True)
    num_thread: int = option(1, "CPU threads of a process when there are several", changes=NEVER, metavar="N",
                             used=When("one process takes all cores, or OMP_NUM_THREADS", _PROCESSES.holds),
                             of_dglke=True)
    mix_cpu_gpu: bool = option(
        False, "accepted, no effect: rows that do not fit the GPU are on the host in any case", changes=NEVER,
        used=When("rows that do not fit the GPU are on the host in any case", lambda config: False), of_dglke=True,
        level="rare")
    rel_part: bool = option(False, "give each process its own relations", changes=ALWAYS, used=_DATA_PARALLEL,
                            of_dglke=True)
    partition: Optional[str] = option(
        None, "how edges are divided over processes; hash, range, metis: by heads", changes=ALWAYS,
        used=_DATA_PARALLEL, choices=PARTITIONS, default_words="random; machines: hash")
    negatives: str = option(
        "global", "local: of a process's own entities, and --partition is hash by default", changes=ALWAYS,
        used=_DATA_PARALLEL, choices=NEGATIVES)
    parallel: str = option(AUTO, "rows: each worker has its own batches; columns: its share of each row's columns",
                           changes=ALWAYS, used=_PROCESSES, choices=PARALLELS, dglke_loop=("rows",))
    peer: str = option("auto", "off: GPUs exchange through host memory even if they reach each other", changes=NEVER,
                       used=_GPUS, choices=PEERS, dglke_loop=None, level="rare")
    machine_timeout: float = option(
        10.0, "seconds after which a machine that is not heard of has failed", changes=NEVER, used=_PROCESSES,
        dglke_loop=None, metavar="SECONDS", level="rare")
    async_update: bool = option(
        False, "accepted, no effect", changes=NEVER,
        used=When("every step is synchronous, and --flush says how rows are written back", lambda config: False),
        of_dglke=True, level="rare")
    force_sync_interval: int = option(
        -1, "accepted, no effect: processes synchronise in each step", changes=NEVER, metavar="STEPS",
        used=When("processes synchronise in each step", lambda config: False), of_dglke=True, level="rare")

    @property
    def ranks(self) -> int:
        """Processes that train together: as many as there are GPUs, if --num_proc does not say more."""
        return max(self.num_proc, len(self.gpu))

    def gpu_of(self, rank: int) -> int:
        """The GPU of a rank, -1 for the CPU. Several ranks may have the same."""
        return self.gpu[rank % len(self.gpu)]

    @property
    def edge_partition(self) -> str:
        """One of PARTITIONS."""
        local = self.negatives == "local"
        return self.partition or ("relation" if self.rel_part else "hash" if local else "random")


@options("run")
@dataclass(frozen=True)
class RunConfig:
    """How long the run is, what it says and what it leaves behind.

    lr_patience, lr_decay_at, lr_factor: after so many validations without a better MRR, and after these steps, the
        learning rate is multiplied by this. save_dtype: what the file of the saved entities holds. init_from: folder of
        a run whose rows are taken by name.
    """

    save_path: str = option("ckpts", "folder that gets a folder per run", changes=NEVER, type=file_path, metavar="DIR",
                            of_dglke=True, new_runs_only=True)
    no_save_emb: bool = option(False, "do not save the embeddings", changes=NEVER, of_dglke=True)
    save_dtype: str = option(
        "fp32", "type of the saved entities: fp16 takes half of the disk, and rounds them", changes=NEVER,
        used=When("--no_save_emb saves none", lambda config: not config.run.no_save_emb), choices=ROW_DTYPES,
        level="rare")
    max_step: int = option(80000, "steps of each process", changes=NEVER, metavar="STEPS", of_dglke=True, level="first")
    max_epoch: Optional[float] = option(
        None, "epochs, passes over the training triples, instead of --max_step", changes=NEVER, type=float,
        metavar="EPOCHS", level="first")
    log_interval: int = option(1000, "steps between log lines", changes=NEVER, short="-log", metavar="STEPS",
                               of_dglke=True)
    seed: Optional[int] = option(None, "seed of everything random, 0 to 2**32-1", changes=ALWAYS, type=int,
                                 metavar="N", default_words="a new one", dglke_loop=None)
    checkpoint_interval: int = option(0, "write a checkpoint every so many steps, and at the end", changes=NEVER,
                                      metavar="STEPS", default_words="when interrupted")
    early_stop_patience: int = option(
        0, "stop after N validations without a better MRR, and keep the best tables",
        changes=only("yes", lambda config: config.run.early_stop_patience), metavar="N", default_words="never")
    early_stop_delta: float = option(
        0.0, "share of the best MRR by which a validation must exceed it to be a better one", changes=_BY_VALIDATIONS,
        metavar="SHARE", used=When("neither --early_stop_patience nor --lr_patience is given", lambda config: bool(
            config.run.early_stop_patience or config.run.lr_patience)))
    lr_patience: int = option(
        0, "multiply --lr by --lr_factor after N validations without a better MRR",
        changes=only("yes", lambda config: config.run.lr_patience), metavar="N", default_words="never")
    lr_decay_at: Sequence[int] = option(
        (), "multiply --lr by --lr_factor after each step of the list",
        changes=Change("yes", lambda config, value: sorted(value) or None), type=int, many=True, metavar="STEP",
        used=When("all these steps are after --max_step", by_part=True, holds=lambda config: (
            not config.run.lr_decay_at or min(config.run.lr_decay_at) < config.run.max_step)))
    lr_factor: float = option(0.5, "factor of --lr_patience and --lr_decay_at", changes=ALWAYS, used=_SCHEDULE,
                              metavar="F")
    trackers: Sequence[str] = option((), "where metrics go besides metrics.jsonl in the run's folder", changes=NEVER,
                                     choices=TRACKERS, many=True)
    report: Optional[str] = option(None, "write report.html into the run's folder, while it trains or at its end",
                                   changes=NEVER, choices=REPORTS)
    init_from: Optional[str] = option(None, "start with the rows of this run for names that both have",
                                      changes=ALWAYS, type=file_path, metavar="RUN_DIR")


@options("store (never changes a bit of the result)")
@dataclass(frozen=True)
class StoreConfig:
    """How rows move between the host table and what computes with them. Never changes a bit of the result.

    cache_size (bytes) overrides cache_ratio (share of the rows). auto is what a GPU has room for, also one of several
    sharded by columns, no row for data-parallel ranks that synchronise in each step, and elsewhere DEFAULT_CACHE_RATIO
    (resolve.py).
    sampler_threads: 0 for as many as the cores of each process suggest. flush: how new values reach the host table.
    p2f: by P2F's flush threads, in the background; direct: the GPU stores them there itself, during the next steps;
    sync: by flush threads, all of a step's before the next one; none: the host table is updated in place, and with a
    GPU the whole table lies there. auto is none on a GPU where the table fits, unless the cache was given a size
    (resolve.py), and otherwise TrainConfig.flush. flush_threads: None goes by ranks and cores
    (TrainConfig.flush_threads).
    """

    cache_ratio: Union[float, str] = option(
        AUTO, "share of the entity rows that a device caches; auto: as many as fit", changes=NEVER, type=cache_share,
        used=When(f"{_CACHE.words}, or --cache_size overrides it",
                  lambda config: config.uses_engine and config.store.cache_size is None),
        metavar="auto|SHARE", dglke_loop=None)
    cache_size: Optional[int] = option(
        None, "bytes of entity rows that a device caches, for instance 8GiB; overrides --cache_ratio", changes=NEVER,
        used=_CACHE, type=byte_count, metavar="BYTES", dglke_loop=None)
    cache_policy: str = option("static", "which rows are cached", changes=NEVER, used=_CACHE, choices=CACHE_POLICIES,
                               dglke_loop=None, level="rare")
    lookahead: int = option(10, "steps sampled ahead", changes=NEVER, metavar="STEPS", dglke_loop=None, level="rare")
    sampler_threads: int = option(0, "threads of each process that sample", changes=NEVER, metavar="N",
                                  default_words="by its cores", dglke_loop=None, level="rare")
    flush: str = option(
        AUTO, "who writes rows back: threads (p2f; sync: each step), the GPU (direct), nobody (none)",
        changes=NEVER, choices=(AUTO, *FLUSH_MODES), dglke_loop=None, level="rare")
    flush_threads: Optional[int] = option(
        None, "threads that flush", changes=NEVER, type=int, metavar="N", default_words="by processes and cores",
        used=When("no thread of this run flushes", lambda config: config.flush in ("p2f", "sync")),
        dglke_loop=None, level="rare")

    def cache_slots(self, rows: int, row_bytes: int) -> int:
        """Rows that a device's cache holds, of a table of `rows` rows of `row_bytes`."""
        share = DEFAULT_CACHE_RATIO if self.cache_ratio == AUTO else self.cache_ratio
        slots = int(rows * share) if self.cache_size is None else self.cache_size // row_bytes
        return min(rows, slots)


@dataclass(frozen=True)
class TrainConfig:
    """Everything `dglke_train` was told."""

    graph: GraphConfig = GraphConfig()
    model: ModelConfig = ModelConfig()
    loss: LossConfig = LossConfig()
    batch: BatchConfig = BatchConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    device: DeviceConfig = DeviceConfig()
    store: StoreConfig = StoreConfig()
    run: RunConfig = RunConfig()

    def limited_to(self, triples: int) -> "TrainConfig":
        """With the batches that there are of so many training triples; memory is counted and taken for these."""
        device = self.device
        triples = -(-triples // device.ranks) if device.parallel == "columns" else triples  # whose batches are joined
        return dataclasses.replace(self, batch=self.batch.limited_to(triples))

    @property
    def counts_epochs(self) -> bool:
        """Whether its length or its validations are given in epochs, which are steps as soon as the graph is known."""
        return self.run.max_epoch is not None or isinstance(self.evaluation.eval_interval, str)

    @property
    def positives(self) -> str:
        """The name of what steps are of: "queries", where each has all its answers, or "triples"."""
        return "queries" if self.batch.against_all and self.loss.labels == "kvsall" else "triples"

    @property
    def computes_on_device(self) -> bool:
        """Whether steps are those of devices even on the CPU, which has no own: a softmax over all entities, and other
        optimizers than row-wise Adagrad."""
        return self.batch.against_all or self.loss.optimizer != "row_adagrad"

    @property
    def flush(self) -> str:
        """One of FLUSH_MODES: --flush, or what auto stands for where the table does not lie on a GPU as a whole.

        Processes that leave the CPU no core for flush threads flush in each step (docs/p2f.md). Data-parallel GPUs
        with fp16 rows share them through flush threads.
        """
        device = self.device
        if self.store.flush != AUTO or self.computes_on_device:
            return "none" if self.computes_on_device else self.store.flush
        if _on_gpu(self):
            return "p2f" if _is_data_parallel(self) and self.model.is_half else "direct"
        crowded = device.ranks >= len(os.sched_getaffinity(0))
        return "none" if device.ranks == 1 else "sync" if crowded else "p2f"

    @property
    def uses_engine(self) -> bool:
        """Whether rows go through cache and flush engine, rather than being updated where they lie, in the host table
        or a GPU's. Several data-parallel ranks always have an engine."""
        return self.flush != "none" or _is_data_parallel(self)

    @property
    def weights_per_triple(self) -> int:
        """Numbers of a triple by which its losses are multiplied: edge importance, or subsampling weights."""
        return {"none": int(self.graph.has_edge_importance), "base": 1}.get(self.loss.subsampling, 2)

    @property
    def flush_threads(self) -> int:
        """Threads that flush: two for one rank, and for several up to eight, which share the cores with the ranks."""
        ranks = self.device.ranks
        by_cores = 2 if ranks == 1 else max(2, min(8, len(os.sched_getaffinity(0)) // (2 * ranks)))
        return self.store.flush_threads or by_cores

    @property
    def in_step_sync(self) -> bool:
        """Whether the GPUs of data-parallel ranks synchronise in each step, so that none waits for flush
        threads."""
        return _is_data_parallel(self) and self.flush == "direct"

    @classmethod
    def from_flags(cls, flags: Mapping[str, Any]) -> "TrainConfig":
        """Build from a flat mapping of flag name to value; names of no part are ignored, missing ones and None get
        defaults."""
        parts = {}
        for part in dataclasses.fields(cls):
            part_class = type(part.default)
            names = {field.name for field in dataclasses.fields(part_class)}
            given = {name: value for name, value in flags.items() if name in names and value is not None}
            parts[part.name] = part_class(**given)
        return cls(**parts)

    def to_flags(self) -> dict[str, Any]:
        """The flat mapping that `from_flags` reads."""
        flags: dict[str, Any] = {}
        for part in dataclasses.fields(self):
            flags.update(dataclasses.asdict(getattr(self, part.name)))
        return flags


OPTIONS: Mapping[str, Option] = {
    each.name: each for part in dataclasses.fields(TrainConfig) for each in part.default.options}


def numbers_flags(config: TrainConfig) -> dict[str, Any]:
    """All options that the numbers of a run depend on: name of each flag that they depend on -> value, as JSON.

    Of --gpu and --num_proc the value says how many processes train, and on what. Options that are auto count as such
    until they are resolved.
    """
    values = config.to_flags()
    found = {name: each.changes.part(config, values[name]) for name, each in OPTIONS.items()
             if each.used.by_part or each.used.holds(config)}
    return {name: list(value) if isinstance(value, tuple) else value
            for name, value in found.items() if value is not None}


_UNUSED_ON_MACHINES = {
    "num_thread": "the process of a machine takes all its cores, or OMP_NUM_THREADS",
    "peer": "it is of several GPUs of one machine",
    **dict.fromkeys(("cache_ratio", "cache_size", "cache_policy", "flush", "flush_threads"), _CACHE.words)}


def lines_on_unused_flags(config: TrainConfig, given: Iterable[str], resumed: bool,
                          on_machines: bool = False) -> list[str]:
    """A line for each flag that has no effect in this run: of the `given` ones, and in a new run of all with another
    value than their default.

    resumed: whether the run goes on in its folder. on_machines: whether several machines train.
    """
    values = config.to_flags()
    wanted = {*given, *(() if resumed else (name for name, each in OPTIONS.items() if values[name] != each.default))}
    reasons = {name: "a run that is resumed stays in its folder" if resumed and each.new_runs_only else
               each.used.words if not each.used.holds(config) else
               _UNUSED_ON_MACHINES.get(name) if on_machines else None
               for name, each in OPTIONS.items() if name in wanted}
    return [f"--{name} has no effect in this run: {reason}" for name, reason in reasons.items() if reason]


def state_floats(optimizer: str, dim: int) -> int:
    """Floats of an optimizer's state behind a row of `dim` floats. optimizer: one of OPTIMIZERS."""
    return {"row_adagrad": 1, "adagrad": dim, "adam": 2 * dim}[optimizer]


def _at_least(flags: Mapping[str, Any], minimum: float, *names: str) -> None:
    for name in names:
        value = flags[name]
        if not minimum <= value < math.inf:
            raise InputError(f"--{name} is {shown(value)}; give a number that is at least {minimum:g}")


def check_dataset(name: str) -> None:
    """Raise InputError for a --dataset that files cannot be named after."""
    if name in ("", ".", "..") or re.search(r"[/\x00-\x1f\x7f]", name):
        raise InputError(f"--dataset {shown(name, repr)} cannot be used: files are named after it, so give a name "
                         "without slashes; the folder of the data is --data_path")
    try:
        size = len(os.fsencode(name))
    except UnicodeEncodeError as error:
        raise unencodable(error) from None
    if size > 150:
        raise InputError(f"--dataset has {size} bytes; files are named after it, so give at most 150")


def _check_sizes(flags: Mapping[str, Any]) -> None:
    """Integers that 64 bits hold, and numbers with which scores and gradients stay within float32."""
    for name, value in flags.items():
        for number in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(number, int) and not -(2**63) <= number < 2**63:
                raise InputError(f"--{name} is {shown(number)}; give a number below 2**63")
    for name in ("gamma", "margin", "adversarial_temperature", "regularization_coef", "regularization_norm"):
        if not abs(flags[name]) <= LARGEST:
            raise InputError(f"--{name} is {shown(flags[name])}; give a number between {-LARGEST:.0f} and "
                             f"{LARGEST:.0f}, beyond which float32 overflows")


def check(config: TrainConfig) -> None:
    """Raise InputError for values that no run can use and for flags that contradict each other."""
    flags = config.to_flags()
    check_dataset(config.graph.dataset)
    _check_sizes(flags)
    _at_least(flags, 1, "hidden_dim", "batch_size", *([] if config.batch.against_all else ["neg_sample_size"]),
              *([] if config.batch.neg_chunk_size is None else ["neg_chunk_size"]), "batch_size_eval", "log_interval",
              *([] if isinstance(config.evaluation.eval_interval, str) else ["eval_interval"]), "num_proc",
              "num_thread", "machine_timeout")
    _at_least(flags, 1, "lookahead")
    if config.store.lookahead >= 2**31:
        raise InputError(f"--lookahead is {config.store.lookahead}; give a number of steps below 2**31")
    if config.store.flush_threads is not None:
        _at_least(flags, 1, "flush_threads")
    _at_least(flags, 0, "sampler_threads", "checkpoint_interval", "early_stop_patience", "lr_patience")
    _at_least(flags, 0, "max_step", "regularization_coef", "regularization_norm", "adversarial_temperature")
    if config.batch.exclude_positive and config.batch.neg_deg_sample:
        raise InputError("--neg_deg_sample takes the entities of positives, whatever they make; leave "
                         "--exclude_positive out")
    if config.loss.subsampling != "none" and config.graph.has_edge_importance:
        raise InputError("--subsampling and --has_edge_importance both weigh triples; leave one of the two out")
    if not 0 < config.loss.lr < math.inf:
        raise InputError(f"--lr is {config.loss.lr}; give a finite learning rate above 0")
    if not 0 < config.evaluation.eval_percent <= 1:
        raise InputError(f"--eval_percent is {config.evaluation.eval_percent}; give a share in (0, 1]")
    if config.evaluation.neg_sample_size_eval == 0 or config.evaluation.neg_sample_size_eval < -1:
        raise InputError("--neg_sample_size_eval must be -1 (all entities) or at least 1")
    if config.evaluation.neg_deg_sample_eval and not config.evaluation.no_eval_filter:
        raise InputError("--neg_deg_sample_eval cannot filter known triples; add --no_eval_filter")
    if config.loss.pairwise and not LOSSES[config.loss.loss_genre].pairwise:
        raise InputError(f"--pairwise does not go with --loss_genre {config.loss.loss_genre}; use {WITH_PAIRS}")
    if config.loss.pairwise and config.loss.neg_adversarial_sampling:
        raise InputError("--pairwise does not go with -adv; give one of the two")
    if config.loss.neg_adversarial_sampling and LOSSES[config.loss.loss_genre].weighs_itself:
        raise InputError(f"-adv does not go with --loss_genre {config.loss.loss_genre}, which weighs negatives by "
                         "their scores itself; leave it out")
    if config.loss.neg_adversarial_sampling and not config.loss.adversarial_temperature > 0:
        raise InputError("--adversarial_temperature must be above 0 for -adv")
    _check_model(config.model)
    if config.model.is_custom and config.evaluation.neg_sample_size_eval > 0:
        raise InputError(f"--model_name {config.model.model_name} is ranked against all entities; leave "
                         "--neg_sample_size_eval out")
    _check_device(config.device)
    if config.store.flush == "direct" and not _on_gpu(config):
        raise InputError("--flush direct is for GPUs, which store new values into the host table themselves; use "
                         "--flush p2f on the CPU, or --gpu 0")
    _check_lengths(config)
    share = config.store.cache_ratio
    if share != AUTO and not 0 <= share <= 1:
        raise InputError(f"--cache_ratio is {share}; give a share of the rows, at least 0 and at most 1, or auto")
    _check_patience(config)
    if config.run.seed is not None and not 0 <= config.run.seed < 2**32:
        raise InputError(f"--seed is {shown(config.run.seed)}; give a number in [0, 2**32)")


def _check_model(model: ModelConfig) -> None:
    built_in = built_in_model(model.model_name)
    if model.reciprocal and (model.is_custom or built_in and built_in.projects):
        raise InputError(f"--reciprocal does not go with --model_name {model.model_name}; leave one of the two out")
    if model.reciprocal and compares_two_formulas(model.model_name, model.score_rule):
        raise InputError("--reciprocal ranks heads as tails, by one formula; use --score_rule textbook")
    if model.init_scale is not None and not 0 < model.init_scale <= LARGEST:
        raise InputError(f"--init_scale is {model.init_scale}; give a number above 0 and at most {LARGEST:.0f}")
    if model.gamma <= -INIT_EPSILON:
        _check_start(model)
    if built_in:
        built_in.check_flags(model.hidden_dim, model.double_ent, model.double_rel)


def _check_start(model: ModelConfig) -> None:
    """Refuse a gamma by which all rows would start as zeros, or beyond."""
    found = find_model(model.model_name)
    if found.embedding_range(model.gamma, model.hidden_dim) > 0:
        return
    if found.phases or model.init == "uniform" and model.init_scale is None:
        other = "" if found.phases else ", or --init_scale"
        raise InputError(f"--gamma is {model.gamma:g}, and rows start in plus and minus (gamma + 2) / hidden_dim, "
                         f"which must be above 0; give a --gamma above {-INIT_EPSILON:g}{other}")


def _check_lengths(config: TrainConfig) -> None:
    """Refuse flags that do not go with --normalize_entities."""
    if not config.model.normalize_entities:
        return
    device, against_all = config.device, config.batch.against_all
    refused = {"--num_proc, and give one --gpu": device.ranks > 1,
               f"--row_dtype {config.model.row_dtype}": config.model.is_half,
               "--gpu, or give --loss_genre Softmax --neg_sample_size all": device.gpu[0] >= 0 and not against_all,
               f"--flush {config.store.flush}": config.uses_engine and not against_all and device.gpu[0] < 0,
               f"--optimizer {config.loss.optimizer}": config.computes_on_device and not against_all}
    for flag in (flag for flag, given in refused.items() if given):
        raise InputError(f"--normalize_entities is for rows in float32 that one process updates where they lie; "
                         f"leave out {flag}")


def _check_patience(config: TrainConfig) -> None:
    run, why = config.run, why_no_validations(config)
    for flag in ("early_stop_patience", "lr_patience"):
        if getattr(run, flag) and why:
            raise InputError(f"--{flag} watches validations, and there are none: {why}")
    if run.max_epoch is not None and not 0 < run.max_epoch < math.inf:
        raise InputError(f"--max_epoch is {run.max_epoch}; give a number of epochs above 0")
    if not 0 <= run.early_stop_delta < math.inf:
        raise InputError(f"--early_stop_delta is {run.early_stop_delta}; give a share of at least 0, such as 0.01")
    if not 0 < run.lr_factor < 1:
        raise InputError(f"--lr_factor is {run.lr_factor}; give a factor between 0 and 1")
    for flag in ("lr_patience", "lr_decay_at"):
        if getattr(run, flag) and config.device.ranks > 1:
            raise InputError(f"--{flag} changes the learning rate of one process alone; leave it out, or --num_proc "
                             "and all but one --gpu")
    if len({*run.lr_decay_at}) < len(run.lr_decay_at) or any(step < 1 for step in run.lr_decay_at):
        given = shown(" ".join(map(str, run.lr_decay_at)))
        raise InputError(f"--lr_decay_at {given}: give steps of at least 1, each once")


def why_no_validations(config: TrainConfig) -> Optional[str]:
    """Why a run never ranks its validation triples, and what to do about it; None if it does."""
    run, evaluation = config.run, config.evaluation
    if not evaluation.valid:
        return "add --valid"
    if not config.counts_epochs and evaluation.eval_interval > run.max_step:
        return (f"--eval_interval {evaluation.eval_interval} is more than --max_step {run.max_step}; give a smaller "
                "one, or more steps")
    return None


def _check_device(device: DeviceConfig) -> None:
    gpus = list(device.gpu)
    if any(gpu < -1 for gpu in gpus) or (-1 in gpus and len(gpus) > 1):
        raise InputError(f"--gpu {' '.join(map(str, gpus))}: give device numbers from 0, or -1 alone for the CPU")
    if device.rel_part and device.edge_partition != "relation":
        raise InputError(f"--rel_part and --partition {device.partition} contradict each other; give one of them")
    if device.negatives == "local" and device.edge_partition not in OWNED_PARTITIONS:
        raise InputError(f"--negatives local draws from the entities that a process owns, and --partition "
                         f"{device.edge_partition} gives none an owner; add --partition hash, range or metis")
    if device.parallel == "columns" and gpus == [-1]:
        raise InputError("--parallel columns shares columns out over GPUs; add --gpu 0 1, or leave it out")
    if device.mix_cpu_gpu and gpus == [-1]:
        raise InputError("--mix_cpu_gpu needs a GPU; add --gpu 0 or leave it out")
    if len(gpus) > 1 and device.num_proc > 1 and device.num_proc % len(gpus):
        raise InputError(
            f"--num_proc {device.num_proc} cannot be shared out over {len(gpus)} GPUs; use a multiple of it")
