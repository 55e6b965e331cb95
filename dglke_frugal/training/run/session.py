"""From flags to a finished run: load the graph, resolve, plan, make the run, train, and say what was done."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, ContextManager, List, Optional

from ... import _native
from ...data import KnowledgeGraph, load_graph
from ...data.name_maps import name_map_bytes
from ...errors import InputError, refused_path, shortage
from ...files import finish_replacing, is_being_replaced
from ...options import TrainConfig
from ...resolve import ExecutionPlan, resolve
from ...saved_tables import SavedTables
from ...score_rule import log_if_two_formulas
from ..batches.metis_owners import check_metis
from ..checkpoint.final_state import last_state
from ..checkpoint.lock import alone
from ..checkpoint.run_folder import check_same_flags, create_run_folder, finished_steps, write_flags
from ..log.messages import end_lines, graph_facts, reading_lines, start_lines
from ..plan.memory_plan import DEVICE, HOST, GraphSize
from ..processes.process_group import RankError
from ..tables.unit_rows import normalize_table
from .epochs import in_steps
from .resume import with_seed_of
from .run import TrainingRun


class Session:
    """A run from its flags to its files, as this process sees it. Several machines have to agree, and override what
    one process decides for itself (machines/train_machines.py).

    Attributes:
        leads: whether this process prints, and writes the run's files.
    """

    leads = True

    def __init__(self, config: TrainConfig, resume: Optional[Path], make_run: Callable[..., "TrainingRun"],
                 graph: Optional[KnowledgeGraph] = None):
        """resume: the folder of the run to go on with. make_run(config, graph, folder): the run. graph: the run's, if
        it has been read."""
        self._config, self._resume, self._make_run, self._graph = config, resume, make_run, graph

    def together(self) -> ContextManager:
        """A context for what each process does alone: an InputError of one is raised by all of them."""
        return contextlib.nullcontext()

    def of_first(self, value: Callable[[], Any]) -> Any:
        """The value, of JSON, that the process which leads makes; all processes get it, or its InputError."""
        return value()

    def own_config(self, config: TrainConfig) -> TrainConfig:
        """The configuration by which this process chooses its number of threads."""
        return config

    def check_graph(self, config: TrainConfig, graph: KnowledgeGraph) -> None:
        """Raise InputError if the processes of the run have read different graphs."""

    def plan(self, config: TrainConfig, graph: KnowledgeGraph) -> ExecutionPlan:
        """How the run is carried out."""
        return resolve(config, graph_size(graph), self._resume)

    def make_folder(self, config: TrainConfig) -> Path:
        """A new folder for the run."""
        return create_run_folder(config)

    def enter(self, folder: Path) -> None:
        """The run's folder is there. Raise InputError if a process of the run does not see it."""

    def network_lines(self, config: TrainConfig, graph: KnowledgeGraph, threads: int) -> List[str]:
        """Lines of the log on the network between the processes of the run."""
        return []

    @staticmethod
    def _take(folder: Path, stack: contextlib.ExitStack) -> None:
        """In the process that leads: hold the folder of an earlier run, and end what that has begun. InputError."""
        stack.enter_context(alone(folder))
        finish_replacing(folder)

    def _check_metis(self, config: TrainConfig) -> None:
        """Raise InputError if a new run needs METIS and the process that leads cannot use it."""
        if not self._resume and config.device.ranks > 1 and config.device.edge_partition == "metis":
            self.of_first(check_metis)

    def carry_out(self) -> Path:
        """As train."""
        began = time.perf_counter()
        config, resume, graph = self._config, self._resume, self._graph
        with contextlib.ExitStack() as stack:
            if resume:
                if config.counts_epochs:
                    with self.together():
                        graph = load(config, graph)
                        config = in_steps(config, len(graph.train), graph)
                if self.of_first(lambda: not is_being_replaced(resume) and is_finished(resume, config)):
                    return resume  # without a lock, which a folder that is only read has none of
                self.of_first(lambda: self._take(resume, stack))
                if self.of_first(lambda: is_finished(resume, config)):
                    return resume
                with self.together():
                    check_saves(config, resume)
                    config = with_seed_of(config, resume)
                    check_same_flags(config, last_state(resume))
            threads = thread_count(self.own_config(config))
            _native.set_num_threads(threads)
            warm_start = open_warm_start(config, resume)
            with self.together(), reading_lines(config.evaluation.eval_percent) as read:
                graph = load(config, graph)
                read.append(graph)
            facts = graph_facts(graph)
            if config.run.seed is None:
                config = replace(config, run=replace(config.run, seed=self.of_first(lambda: secrets.randbits(32))))
            with self.together():
                config = in_steps(config, len(graph.train), graph)
            self.check_graph(config, graph)
            self._check_metis(config)
            with self.together():
                plan = self.plan(config, graph)
                plan.memory.check()
            for line in plan.log_lines():
                print(line, flush=True)
            folder = resume or self.make_folder(config)
            log_if_two_formulas(config.model.model_name, config.model.score_rule)
            unless_refused = contextlib.ExitStack()
            if not resume:
                self.of_first(lambda: stack.enter_context(alone(folder)))
                if self.leads:
                    stack.enter_context(unless_refused).push(_removes(folder))
                self.of_first(lambda: write_flags(folder, config))
            self.enter(folder)
            with self.together():
                run = stack.enter_context(self._make_run(plan.config, graph, folder))
            if resume:
                run.restore()
                if self.leads:
                    write_flags(folder, config)
            run.keep_names()
            lines = self.network_lines(config, graph, threads)
            lines += start_lines(plan.config, graph, facts, run.step_positives, run.epochs(plan.config.run.max_step),
                                 folder, warm_start is not None)
            print("\n".join(lines), flush=True)
            if warm_start:
                run.summary["init_from"] = warm_start.fill(run.tables, graph, run.custom_model)
            if plan.config.model.normalize_entities and not run.steps_done:
                normalize_table(run.tables.embeddings()["entity"])
            run.summary.update(graph=facts, threads=threads, planned_host_bytes=plan.memory.bytes(HOST),
                               planned_device_bytes=plan.memory.bytes(DEVICE))
            run.seconds["initialization"] = time.perf_counter() - began
            print(f"Total initialize time {run.seconds['initialization']:.3f} seconds", flush=True)
            began = time.perf_counter()
            run.start()
            unless_refused.pop_all()
            run.train()
            print(f"training takes {time.perf_counter() - began:.3f} seconds", flush=True)
            run.summary["epochs"] = run.epochs(run.steps_done)
            run.finish()
            if self.leads:
                print("\n".join(end_lines(config, graph, folder, run.steps_done)), flush=True)
        return folder


def _removes(folder: Path):
    """What a stack calls at its end: a run that is refused before its first step has no folder, which --resume auto
    would go on with. This process holds the folder, so that no other one has gone on with it."""
    def remove(_, error, __) -> None:
        if isinstance(error, (InputError, RankError)) or shortage(error) or refused_path(error):
            shutil.rmtree(folder, ignore_errors=True)

    return remove


def check_saves(config: TrainConfig, folder: Path) -> None:
    """Raise InputError if the result of more steps would stand next to tables that are saved already."""
    if config.run.no_save_emb and SavedTables.of(folder).step is not None:
        raise InputError(f"--no_save_emb: {folder} has saved tables, next to which the result of more steps would "
                         "stand; leave it out, or start a new run from its rows with --init_from")


def open_warm_start(config: TrainConfig, resume: Optional[Path]):
    """The WarmStart of --init_from; None where it is not given, or the run is to go on from where it was."""
    if not config.run.init_from or (resume and last_state(resume)):
        return None
    from .warm_start import WarmStart  # here, because few runs need what reads other runs

    return WarmStart(config)


def open_device(config: TrainConfig, rank: int = 0):
    """The store.device.Device of a rank, or None for the CPU's own step. Raises InputError if there is no such
    device."""
    gpu = config.device.gpu_of(rank)
    if gpu < 0 and not config.computes_on_device:
        return None
    if gpu >= 0:
        from ...store.device.cuda_device import CudaDevice  # here, because it takes torch's import time

        return CudaDevice(gpu, graphs=config.device.cuda_graphs)
    from ...store.device.device import Device, HostDevice

    return HostDevice() if config.batch.against_all else Device()


def is_finished(folder: Path, config: TrainConfig) -> bool:
    """Whether the run has nothing left to do, which is then reported. InputError if it is asked for more and cannot, or
    for other numbers than it has."""
    finished = finished_steps(folder)
    if finished is None:
        return False
    steps, reached = finished
    if config.run.max_step <= reached:
        check_same_flags(with_seed_of(config, folder), last_state(folder))
        print(f"{folder} is finished: {steps} steps are trained; give a larger --max_step to go on with it")
        return True
    if last_state(folder) is None:
        raise InputError(f"{folder} is finished after {steps} steps and has nothing to go on from; train it again "
                         "without --no_save_emb, or start a new run from its rows with --init_from")
    return False


def thread_count(config: TrainConfig) -> int:
    """Threads of this process: OMP_NUM_THREADS, else all cores; one of several has --num_thread, with GPUs its share
    of the cores if that is more."""
    device, cores = config.device, len(os.sched_getaffinity(0))
    if device.ranks > 1:  # where GPUs train, threads of the host fill tables and put them together, and no more
        return max(device.num_thread, cores // device.ranks if device.gpu[0] >= 0 else 0)
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    with contextlib.suppress(ValueError):  # of a number of thousands of digits
        if wanted.isdecimal() and int(wanted) > 0:
            return int(wanted)
    return cores


def load(config: TrainConfig, read: Optional[KnowledgeGraph] = None) -> KnowledgeGraph:
    """The graph that the flags name, unless it is `read` already. Raises InputError if it lacks triples that the flags
    ask for."""
    graph = config.graph
    loaded = read or load_graph(graph.dataset, graph.data_path, graph.format, graph.data_files, graph.delimiter,
                                graph.has_edge_importance)
    needed = {"--valid": (config.evaluation.valid, loaded.valid), "--test": (config.evaluation.test, loaded.test)}
    for flag, (wanted, split) in needed.items():
        if wanted and (split is None or not len(split)):
            raise InputError(f"{flag} needs triples that {graph.dataset} does not have; give them with --data_files, "
                             f"or leave out what asks for them, {flag} or a --preset that has it")
    if not len(loaded.train):
        raise InputError(f"{graph.dataset} has no training triples; give a training file that is not empty")
    return loaded


def graph_size(graph: KnowledgeGraph) -> GraphSize:
    """The facts of a graph that the memory plan needs."""
    sizes = {split: len(triples) for split, triples in graph.splits.items()}
    ranked = max(sizes.get("valid", 0), sizes.get("test", 0))
    return GraphSize(graph.n_entities, graph.n_relations, sum(sizes.values()), ranked,
                     graph.train.head.itemsize, len(graph.train), name_map_bytes(graph))
