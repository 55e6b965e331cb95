"""What a training run is told, as frozen data. Field names are DGL-KE's flag names, so flags, files and code agree."""

from __future__ import annotations

import dataclasses
import math
import os
import re
from dataclasses import dataclass
from typing import Any, Mapping, Optional, Sequence, Union

from .errors import InputError, shown, unencodable
from .models import built_in_model, is_own
from .score_rule import compares_two_formulas

LOSSES = ("Hinge", "Logistic", "Logsigmoid", "BCE", "Softmax")
CACHE_POLICIES = ("static", "lru", "lfu", "epoch_lru", "epoch_lfu", "next_use")
FLUSH_MODES = ("p2f", "sync", "none")
PARTITIONS = ("random", "relation", "metis")
HOST_READS = ("auto", "uva", "copy")
HOST_WRITES = ("auto", "direct", "staged")
BUS_ROWS = ("auto", "own", "whole")
LARGEST = 1e6  # of gamma and the like: float32 holds the square of a product of two numbers of this size
PARALLELS = ("auto", "rows", "dims")
PEERS = ("auto", "off")
MATMULS = ("auto", "fp32", "tf32x3", "tf32", "bf16")
ROW_DTYPES = ("fp32", "fp16", "bf16")
INITS = ("uniform", "normal", "xavier")
OPTIMIZERS = ("row_adagrad", "adagrad", "adam")
REGULARIZERS = ("lp", "n3")
LABELS = ("1vsall", "kvsall")
SUBSAMPLINGS = ("none", "base", "uniq")
ALL = "all"  # entities, instead of a number of negatives
AUTO = "auto"
# Where auto has nothing to go by: ranks by rows that do not meet, a GPU whose memory is not known, and the CPU.
DEFAULT_CACHE_RATIO = 0.05


@dataclass(frozen=True)
class GraphConfig:
    """Which triples to train on."""

    data_path: str = "data"
    dataset: str = "FB15k"
    format: str = "built_in"
    data_files: Optional[Sequence[str]] = None
    delimiter: str = "\t"
    has_edge_importance: bool = False


@dataclass(frozen=True)
class ModelConfig:
    """Which score function, and how large its embeddings are. score_rule: see score_rule.py.

    reciprocal: each relation r has an inverse, row r + R of 2 R, and heads are ranked as tails of the inverse.
    init, init_scale: start values, see training/start_values.py.
    row_dtype: how entity rows are kept and travel; steps compute in float32 (docs/half_rows.md).
    """

    model_name: str = "TransE"
    hidden_dim: int = 400
    gamma: float = 12.0
    double_ent: bool = False
    double_rel: bool = False
    score_rule: str = "textbook"
    reciprocal: bool = False
    init: str = "uniform"
    init_scale: Optional[float] = None
    row_dtype: str = "fp32"

    @property
    def in_halves(self) -> bool:
        """Whether entity rows are kept in halves."""
        return self.row_dtype != "fp32"

    @property
    def is_own(self) -> bool:
        """Whether it is a TorchModel: the user's own, named MODULE:CLASS, or one of the package."""
        return is_own(self.model_name)

    def relation_rows(self, relations: int) -> int:
        """Rows of the relation table for so many relations of a graph."""
        return 2 * relations if self.reciprocal else relations


@dataclass(frozen=True)
class LossConfig:
    """What is minimised, and by which steps. Fields from regularizer on: of a softmax over all entities
    alone.

    subsampling: by what a triple's losses are weighed (training/batches/subsampling.py).
    """

    loss_genre: str = "Logsigmoid"
    margin: float = 1.0
    pairwise: bool = False
    neg_adversarial_sampling: bool = False
    adversarial_temperature: float = 1.0
    regularization_coef: float = 2e-6
    regularization_norm: int = 3
    lr: float = 0.01
    subsampling: str = "none"
    optimizer: str = "row_adagrad"
    regularizer: str = "lp"
    entity_dropout: float = 0.0
    relation_dropout: float = 0.0
    labels: str = "1vsall"
    label_smoothing: float = 0.0
    relation_prediction: float = 0.0


@dataclass(frozen=True)
class BatchConfig:
    """Positives and negatives of a step.

    neg_chunk_size: positives that share negatives; None: as many as there are negatives. exclude_positive: whether
        negatives are drawn again that are training triples with a positive of their chunk.
    """

    batch_size: int = 1024
    neg_sample_size: Union[int, str] = 256  # or ALL
    neg_chunk_size: Optional[int] = None
    exclude_positive: bool = False
    neg_deg_sample: bool = False

    @property
    def against_all(self) -> bool:
        """Whether positives meet all entities, rather than sampled negatives."""
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


@dataclass(frozen=True)
class EvaluationConfig:
    """When and against which candidates the model is ranked."""

    valid: bool = False
    test: bool = False
    eval_interval: int = 10000
    eval_percent: float = 1.0
    batch_size_eval: int = 8
    neg_sample_size_eval: int = -1
    neg_deg_sample_eval: bool = False
    no_eval_filter: bool = False


@dataclass(frozen=True)
class DeviceConfig:
    """What the run computes on.

    matmul: precision of matrix products on a GPU; auto goes by model and GPU (training/matmul_choice.py). cuda_graphs:
        whether a step becomes one launch there.
    """

    gpu: Sequence[int] = (-1,)
    matmul: str = AUTO
    cuda_graphs: bool = True
    num_proc: int = 1
    num_thread: int = 1
    mix_cpu_gpu: bool = False
    rel_part: bool = False
    partition: Optional[str] = None  # how edges are divided over ranks; None: by relation with rel_part, else at random
    parallel: str = "auto"  # what ranks share out: see training/parallel.py
    peer: str = "auto"  # whether devices may reach each other's memory
    async_update: bool = False
    force_sync_interval: int = -1

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
        return self.partition or ("relation" if self.rel_part else "random")


@dataclass(frozen=True)
class RunConfig:
    """How long the run is, what it says and what it leaves behind.

    lr_patience, lr_decay_at, lr_factor: after so many validations without a better MRR, and after these steps, the
        learning rate is multiplied by this.
    save_dtype: what the file of the saved entities holds.
    """

    save_path: str = "ckpts"
    no_save_emb: bool = False
    save_dtype: str = "fp32"
    max_step: int = 80000
    log_interval: int = 1000
    seed: Optional[int] = None
    deterministic: bool = True
    checkpoint_interval: int = 0
    early_stop_patience: int = 0
    lr_patience: int = 0
    lr_decay_at: Sequence[int] = ()
    lr_factor: float = 0.5
    trackers: Sequence[str] = ()
    report: Optional[str] = None
    init_from: Optional[str] = None  # folder of a run whose rows are taken by name


@dataclass(frozen=True)
class StoreConfig:
    """How rows move between the host table and what computes with them. Never changes a bit of the result.

    cache_size (bytes) goes before cache_ratio (share of the rows). auto is what a GPU has room for, also one of several
    by columns, no row for several by rows that meet, and elsewhere DEFAULT_CACHE_RATIO (training/cache_choice.py).
    sampler_threads: 0 for as many as the cores of each process suggest. flush: p2f, sync, or none, which updates the
    host table in place, and with a GPU keeps the whole table there; None chooses none for one process on the CPU, which
    has nothing to cache, and with an auto cache for a GPU where the table fits, and otherwise goes by cores
    (TrainConfig.flush_mode). host_read: how a GPU gets the rows that its
    cache does not hold (store/host_read.py).
    host_write: how new values of such rows come home: direct, stored into the host row by the step itself, or staged,
    through staging and flush threads; auto is direct for one GPU, and for several where they can meet (TrainConfig.meets).
    bus_rows: what each of several GPUs by columns moves over the bus, its own columns of every row, or whole rows, of which
    it carries every n-th (store/carried_rows.py); auto goes by whether they reach each other (training/parallel.py).
    flush_threads: None goes by ranks and cores (TrainConfig.flush_threads).
    """

    cache_ratio: Union[float, str] = AUTO
    cache_size: Optional[int] = None
    cache_policy: str = "static"
    lookahead: int = 10
    sampler_threads: int = 0
    flush: Optional[str] = None
    flush_threads: Optional[int] = None
    host_read: str = "auto"
    host_write: str = "auto"
    bus_rows: str = AUTO

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
        triples = -(-triples // device.ranks) if device.parallel == "dims" else triples  # whose batches are joined
        return dataclasses.replace(self, batch=self.batch.limited_to(triples))

    @property
    def computes_on_device(self) -> bool:
        """Whether steps are those of devices even on the CPU, which has no own: a softmax over all entities, and other
        optimizers than row-wise Adagrad."""
        return self.batch.against_all or self.loss.optimizer != "row_adagrad"

    @property
    def uses_engine(self) -> bool:
        """Whether rows of one process go through cache and flush engine, rather than being updated where they lie, in
        the host table or a GPU's. Several by rows always have an engine, on the CPU too (ranks/rank_tables.py)."""
        if self.computes_on_device:
            return False  # every step reads every row, or updates rows where they lie
        return self.store.flush != "none" and (self.store.flush is not None or self.device.gpu[0] >= 0)

    @property
    def keeps_rows_apart(self) -> Optional[str]:
        """The flag, as it was given, with which GPUs cannot carry rows for each other (--bus_rows whole); None if there is
        none."""
        flags = self.to_flags()
        refused = (("peer", "off"), ("flush", "sync"), ("host_read", "copy"), ("host_write", "staged"))
        return next((f"--{name} {value}" for name, value in refused if flags[name] == value), None)

    @property
    def weights_per_triple(self) -> int:
        """Numbers of a triple by which its losses are multiplied: edge importance, or subsampling weights."""
        return {"none": int(self.graph.has_edge_importance), "base": 1, "uniq": 2}[self.loss.subsampling]

    @property
    def flush_threads(self) -> int:
        """Threads that flush: two for one rank, and for several up to eight, which share the cores with the ranks."""
        ranks = self.device.ranks
        by_cores = 2 if ranks == 1 else max(2, min(8, len(os.sched_getaffinity(0)) // (2 * ranks)))
        return self.store.flush_threads or by_cores

    @property
    def flush_mode(self) -> str:
        """How rows get home: --flush, or P2F. With processes that leave the CPU no core for flush threads they do so with
        each step, which was up to 5 % faster where it was measured (docs/p2f.md)."""
        device = self.device
        crowded = device.gpu[0] < 0 and 1 < device.ranks >= len(os.sched_getaffinity(0))
        return self.store.flush or ("sync" if crowded else "p2f")

    @property
    def writes_host_rows(self) -> bool:
        """Whether a step stores new values into host rows itself, rather than handing them to flush threads."""
        device, wanted = self.device, self.store.host_write
        if wanted == "auto":
            return device.gpu[0] >= 0 and (device.ranks == 1 or self._can_meet)
        return wanted == "direct"

    @property
    def meets(self) -> bool:
        """Whether the GPUs of ranks that train by rows meet in each step, so that none waits for flush threads."""
        return self._can_meet and self.writes_host_rows

    @property
    def _can_meet(self) -> bool:
        device, store = self.device, self.store
        return (device.gpu[0] >= 0 and device.ranks > 1 and store.flush in (None, "p2f")
                and store.host_read != "copy" and not self.model.in_halves)

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
        raise InputError(f"--dataset {shown(repr(name))} cannot be used: files are named after it, so give a name "
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
    _at_least(
        flags,
        1,
        "hidden_dim",
        "batch_size",
        *([] if config.batch.against_all else ["neg_sample_size"]),
        *([] if config.batch.neg_chunk_size is None else ["neg_chunk_size"]),
        "batch_size_eval",
        "log_interval",
        "eval_interval",
        "num_proc",
        "num_thread",
    )
    _at_least(flags, 1, "lookahead")
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
    if config.loss.pairwise and config.loss.loss_genre not in ("Logistic", "Hinge"):
        raise InputError(f"--pairwise does not go with --loss_genre {config.loss.loss_genre}; use Logistic or Hinge")
    if config.loss.pairwise and config.loss.neg_adversarial_sampling:
        raise InputError("--pairwise does not go with -adv; give one of the two")
    if config.loss.loss_genre == "Softmax" and config.loss.margin != LossConfig.margin:
        raise InputError("--margin is of --loss_genre Hinge, and Softmax has none; leave it out")
    if config.loss.loss_genre == "Softmax" and config.loss.neg_adversarial_sampling:
        raise InputError("-adv does not go with --loss_genre Softmax, which weighs negatives by their scores itself; "
                         "leave it out")
    if config.loss.neg_adversarial_sampling and not config.loss.adversarial_temperature > 0:
        raise InputError("--adversarial_temperature must be above 0 for -adv")
    _check_model(config.model)
    if config.model.is_own and config.evaluation.neg_sample_size_eval > 0:
        raise InputError("a model of your own is ranked against all entities; leave --neg_sample_size_eval out")
    _check_device(config.device)
    _check_halves(config)
    _check_saved(config)
    _check_bus_rows(config)
    share = config.store.cache_ratio
    if share != AUTO and not 0 <= share <= 1:
        raise InputError(f"--cache_ratio is {share}; give a share of the rows, at least 0 and at most 1, or auto")
    _check_patience(config)
    if config.run.seed is not None and not 0 <= config.run.seed < 2**32:
        raise InputError(f"--seed is {shown(config.run.seed)}; give a number in [0, 2**32)")


def _check_model(model: ModelConfig) -> None:
    built_in = built_in_model(model.model_name)
    if model.reciprocal and (model.is_own or built_in and built_in.projects):
        raise InputError(f"--reciprocal does not go with --model_name {model.model_name}; leave one of the two out")
    if model.reciprocal and compares_two_formulas(model.model_name, model.score_rule):
        raise InputError("--reciprocal ranks heads as tails, by one formula; use --score_rule textbook")
    if model.init_scale is not None and not 0 < model.init_scale <= LARGEST:
        raise InputError(f"--init_scale is {model.init_scale}; give a number above 0 and at most {LARGEST:.0f}")
    if built_in:
        built_in.check_flags(model.hidden_dim, model.double_ent, model.double_rel)


def _check_saved(config: TrainConfig) -> None:
    """What files can hold."""
    if config.run.save_dtype == "bf16":
        raise InputError("--save_dtype bf16: .npy files have no such type; use fp16, or fp32, which holds what bf16 rows "
                         "are to the bit")


def _check_halves(config: TrainConfig) -> None:
    """What rows in halves do not have."""
    flag = f"--row_dtype {config.model.row_dtype}"
    if not config.model.in_halves:
        return
    if config.device.gpu[0] >= 0 and config.store.host_read == "copy":
        raise InputError(f"{flag} needs host rows that the GPU reads in place; leave --host_read copy out")


def _check_bus_rows(config: TrainConfig) -> None:
    """What rows that GPUs carry for each other do not have."""
    if config.store.bus_rows != "whole":
        return
    if config.device.ranks == 1:
        raise InputError("--bus_rows whole is for several GPUs, which move rows for each other; leave it out")
    if flag := config.keeps_rows_apart:
        raise InputError(f"--bus_rows whole does not go with {flag}: GPUs hand each other rows that they read and write in "
                         "place; leave one of the two out")


def _check_patience(config: TrainConfig) -> None:
    run, evaluation = config.run, config.evaluation
    for flag in ("early_stop_patience", "lr_patience"):
        if getattr(run, flag) and not evaluation.valid:
            raise InputError(f"--{flag} watches the validation metrics; add --valid")
        if getattr(run, flag) and evaluation.eval_interval > run.max_step:
            raise InputError(
                f"--{flag} watches validations, and there are none: --eval_interval "
                f"{evaluation.eval_interval} is more than --max_step {run.max_step}; give a smaller one"
            )
    if not 0 < run.lr_factor < 1:
        raise InputError(f"--lr_factor is {run.lr_factor}; give a factor between 0 and 1")
    for flag in ("lr_patience", "lr_decay_at"):
        if getattr(run, flag) and config.device.ranks > 1:
            raise InputError(f"--{flag} changes the learning rate of one process alone; leave it out, or the others")
    if len({*run.lr_decay_at}) < len(run.lr_decay_at) or any(step < 1 for step in run.lr_decay_at):
        given = shown(" ".join(map(str, run.lr_decay_at)))
        raise InputError(f"--lr_decay_at {given}: give steps of at least 1, each once")


def _check_device(device: DeviceConfig) -> None:
    gpus = list(device.gpu)
    if any(gpu < -1 for gpu in gpus) or (-1 in gpus and len(gpus) > 1):
        raise InputError(f"--gpu {' '.join(map(str, gpus))}: give device numbers from 0, or -1 alone for the CPU")
    if device.rel_part and device.edge_partition != "relation":
        raise InputError(f"--rel_part and --partition {device.partition} contradict each other; give one of them")
    if device.parallel == "dims" and gpus == [-1]:
        raise InputError("--parallel dims shares columns out over GPUs; add --gpu 0 1, or leave it out")
    if device.mix_cpu_gpu and gpus == [-1]:
        raise InputError("--mix_cpu_gpu needs a GPU; add --gpu 0 or leave it out")
    if len(gpus) > 1 and device.num_proc > 1 and device.num_proc % len(gpus):
        raise InputError(
            f"--num_proc {device.num_proc} cannot be shared out over {len(gpus)} GPUs; use a multiple of it"
        )
