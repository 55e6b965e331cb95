"""A whole training run with our own step: graph, tables, loop, checkpoints, validation, files."""
from __future__ import annotations

import os
import secrets
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Optional

import numpy as np

from .. import _native
from ..config import TrainConfig
from ..data import KnowledgeGraph, load_graph
from ..errors import InputError
from ..evaluation import EmbeddingModel, Evaluation, KnownTriples, Protocol, evaluate
from ..evaluation.metrics import process_lines
from ..models import find_model
from .checkpoint import CheckpointFolder
from .interrupt import Interrupt
from .loop import TrainingLoop
from .memory_plan import GraphSize, plan_memory
from .report import Report
from .run_folder import create_run_folder, write_config, write_flags
from .sampler import Sampler, SamplerConfig
from .step import LossConfig, StepConfig, make_step
from .tables import Tables
from .tracker import make_tracker


def train(config: TrainConfig, resume: Optional[Path] = None) -> Path:
    """Train as the configuration says, or go on with the run in the folder `resume`. Returns the run's folder.

    Raises InputError for a graph that cannot be read, memory or disk that does not suffice, or a checkpoint of another
    configuration; SystemExit with a shell's exit code if a signal ended the run after a checkpoint was written.
    """
    began = time.perf_counter()
    _native.set_num_threads(thread_count(config))
    graph = load(config)
    plan_memory(config, graph_size(graph)).check()
    if config.run.seed is None:
        config = replace(config, run=replace(config.run, seed=secrets.randbits(32)))
    folder = resume or create_run_folder(config)
    write_flags(folder, config)
    run = Run(config, graph, folder)
    if resume:
        run.restore()
    print(f"Total initialize time {time.perf_counter() - began:.3f} seconds")
    run.train()
    if not config.run.no_save_emb:
        run.save()
    if config.evaluation.test:
        began = time.perf_counter()
        run.rank("Test", graph.test)
        print(f"testing takes {time.perf_counter() - began:.3f} seconds")
    return folder


def thread_count(config: TrainConfig) -> int:
    """Threads of this process: --num_thread if there are several processes, else OMP_NUM_THREADS, else all cores."""
    if config.device.num_proc > 1:
        return config.device.num_thread
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    return int(wanted) if wanted.isdigit() and int(wanted) > 0 else len(os.sched_getaffinity(0))


def load(config: TrainConfig) -> KnowledgeGraph:
    """The graph that the flags name. As in DGL-KE, raw_udd formats leave their id maps beside the data."""
    graph = config.graph
    loaded = load_graph(graph.dataset, graph.data_path, graph.format, graph.data_files, graph.delimiter,
                        graph.has_edge_importance, map_folder=graph.data_path)
    for flag, wanted, split in (("--valid", config.evaluation.valid, loaded.valid), ("--test", config.evaluation.test, loaded.test)):
        if wanted and (split is None or not len(split)):
            raise InputError(f"{flag} needs triples that {graph.dataset} does not have; leave it out or give another file")
    return loaded


def hot_entities(graph: KnowledgeGraph) -> np.ndarray:
    """Entity ids by degree in the training graph, highest first: the order of expected use."""
    degree = np.bincount(graph.train.head, minlength=graph.n_entities) + np.bincount(graph.train.tail, minlength=graph.n_entities)
    return np.argsort(-degree, kind="stable")


def graph_size(graph: KnowledgeGraph) -> GraphSize:
    """What the memory plan needs to know of a graph."""
    return GraphSize(graph.n_entities, graph.n_relations, sum(len(triples) for triples in graph.splits.values()),
                     graph.train.head.itemsize, graph.train.weight is not None)


class Run:
    """One training run in its folder."""

    def __init__(self, config: TrainConfig, graph: KnowledgeGraph, folder: Path):
        self.config, self.graph, self.folder = config, graph, folder
        self.steps_done = 0
        self.best_mrr, self.validations_since_best = -1.0, 0
        seed = config.run.seed
        self.tables = Tables(config, graph.n_entities, graph.n_relations, seed, hot_entities(graph) if config.uses_engine else None)
        self.sampler = Sampler(*graph.train, graph.n_entities, graph.n_relations,
                               SamplerConfig(config.batch.batch_size, config.batch.neg_sample_size, seed),
                               weight=graph.train.weight)
        if self.sampler.batch_size != config.batch.batch_size:
            print(f"batch size ({config.batch.batch_size}) is incompatible to the negative sample size "
                  f"({config.batch.neg_sample_size}). Change the batch size to {self.sampler.batch_size}")
        self.step = make_step(step_config(config))
        self.checkpoints = CheckpointFolder(folder / "checkpoints")
        self._known: Optional[KnownTriples] = None

    # ---- checkpoints

    def restore(self) -> None:
        """Continue from the last checkpoint of the folder; from the start if there is none."""
        checkpoint = self.checkpoints.last()
        if checkpoint is None:
            return
        checkpoint.check_config(self._identity())
        checkpoint.load_into(self.tables.arrays())
        self.steps_done = checkpoint.step
        self.best_mrr = checkpoint.state["best_mrr"]
        self.validations_since_best = checkpoint.state["validations_since_best"]
        print(f"resuming after step {checkpoint.step} of {self.config.run.max_step}")

    def checkpoint(self) -> None:
        """Write the state after the finished steps."""
        state = {"best_mrr": self.best_mrr, "validations_since_best": self.validations_since_best}
        self.checkpoints.save(self.steps_done, self.tables.arrays(), self._identity(), state)

    def _identity(self) -> dict:
        """What the numbers of a run depend on: a checkpoint of another identity is refused."""
        flags = self.config.to_flags()
        names = ("dataset", "format", "has_edge_importance", "model_name", "hidden_dim", "gamma", "double_ent", "double_rel",
                 "loss_genre", "margin", "pairwise", "neg_adversarial_sampling", "adversarial_temperature",
                 "regularization_coef", "regularization_norm", "lr", "batch_size", "neg_sample_size", "neg_deg_sample",
                 "num_proc", "seed")
        return {**{name: flags[name] for name in names}, "entities": self.graph.n_entities,
                "relations": self.graph.n_relations, "training_triples": len(self.graph.train)}

    # ---- training

    def train(self) -> None:
        """Run the steps that are left, with validations and checkpoints on the way."""
        config = self.config
        tracker = make_tracker(self.folder, config.run.trackers)
        tracker.start(config.to_flags(), self.steps_done)
        report = Report(self.steps_done, config.run.max_step, config.run.log_interval, self.sampler.batch_size, tracker)
        loop = TrainingLoop(self.tables, self.sampler, self.step, self.steps_done, config.run.max_step, config.store.lookahead)
        began = time.perf_counter()
        with Interrupt() as interrupt:
            try:
                for losses in loop:
                    self.steps_done += 1
                    report.step(self.steps_done, losses, loop)
                    if self._validation_is_due() and self._validate(tracker):
                        break
                    if config.run.checkpoint_interval and self.steps_done % config.run.checkpoint_interval == 0:
                        self.checkpoint()
                    if interrupt:
                        break
            finally:
                report.close()
                tracker.close()
            if interrupt:
                self._stop(interrupt)
        print(f"training takes {time.perf_counter() - began} seconds")

    def _stop(self, interrupt) -> None:
        self.checkpoint()
        sys.stderr.write(f"stopped after step {self.steps_done}; go on with: dglke_train --resume {self.folder}\n")
        raise SystemExit(interrupt.exit_code)

    # ---- evaluation

    def _validation_is_due(self) -> bool:
        evaluation = self.config.evaluation
        return evaluation.valid and self.steps_done % evaluation.eval_interval == 0

    def _validate(self, tracker) -> bool:
        """Rank the validation triples. Returns whether the run has stopped improving."""
        began = time.perf_counter()
        metrics = self.rank("Valid", self.graph.valid).metrics()
        print(f"[proc 0]validation take {time.perf_counter() - began:.3f} seconds:")
        tracker.log({f"valid/{name}": value for name, value in metrics.named().items()}, self.steps_done)
        patience = self.config.run.early_stop_patience
        if metrics.mrr > self.best_mrr:
            self.best_mrr, self.validations_since_best = metrics.mrr, 0
            if patience or self.config.run.checkpoint_interval:
                self.checkpoint()
                self.checkpoints.mark_best(self.steps_done)
        else:
            self.validations_since_best += 1
        if patience and self.validations_since_best >= patience:
            print(f"stopping early: {patience} validations without a better MRR than {self.best_mrr:.6f}")
            return True
        return False

    def rank(self, mode: str, triples) -> Evaluation:
        """Rank a share of the triples against all entities and print DGL-KE's lines. mode: Valid or Test."""
        self.tables.drain()
        evaluation = self.config.evaluation
        columns = tuple(triples)
        if evaluation.eval_percent < 1:
            chosen = np.random.default_rng(self.config.run.seed).integers(len(triples), size=int(len(triples) * evaluation.eval_percent))
            columns = tuple(column[chosen] for column in columns)
        tables = {name: store.embeddings for name, store in self.tables.stores.items()}
        model = EmbeddingModel(self.config.model.model_name, self.config.model.gamma, self.config.model.hidden_dim, **tables)
        if evaluation.no_eval_filter:
            result = evaluate(model, columns, protocol=Protocol(known="kept"))
        else:
            result = evaluate(model, columns, self._known_triples())
        print("\n".join(process_lines(result.metrics(), mode)))
        return result

    def _known_triples(self) -> KnownTriples:
        if self._known is None:
            self._known = KnownTriples([tuple(triples) for triples in self.graph.splits.values()])
        return self._known

    # ---- results

    def save(self) -> None:
        """Write the tables and config.json as DGL-KE does."""
        print(f"Save model to {self.folder}")
        self.tables.save(self.folder, self.config.graph.dataset, self.config.model.model_name)
        maps = (self.graph.entity_map, self.graph.relation_map)
        write_config(self.folder, self.config, *(None if path is None else str(path) for path in maps))


def step_config(config: TrainConfig) -> StepConfig:
    """The step that the flags describe."""
    model = find_model(config.model.model_name)
    dims = model.dims(config.model.hidden_dim, config.model.double_ent, config.model.double_rel)
    loss = config.loss
    return StepConfig(
        model.name, dims.entity, dims.relation, config.model.gamma,
        model.embedding_range(config.model.gamma, config.model.hidden_dim), loss.lr,
        LossConfig(loss.loss_genre, loss.margin, loss.pairwise, loss.neg_adversarial_sampling, loss.adversarial_temperature,
                   loss.regularization_coef, loss.regularization_norm), config.batch.neg_deg_sample)
