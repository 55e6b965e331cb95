"""Lengths that are given in epochs, as steps of a graph."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Optional

import numpy as np

from ...data import KnowledgeGraph
from ...flag_values import epochs_of
from ...options import TrainConfig, check


def epoch_steps(config: TrainConfig, triples: int, graph: Optional[KnowledgeGraph] = None) -> float:
    """Steps, of all ranks together, that see as many training triples as there are.

    graph: what a step of queries, each with all its answers (--labels kvsall), is counted on; not needed otherwise.
    """
    positives = config.limited_to(triples).batch.positives
    if graph is not None and config.positives == "queries":
        train = graph.train
        queries = sum(len(np.unique(np.asarray(column, np.int64) * graph.n_relations + train.relation))
                      for column in (train.head, train.tail)) / 2
        return max(1.0, queries / positives)
    return triples / (positives * config.device.ranks)


def in_steps(config: TrainConfig, triples: int, graph: Optional[KnowledgeGraph] = None) -> TrainConfig:
    """The configuration with --max_epoch as --max_step, and --eval_interval in steps. triples, graph: as epoch_steps.

    Raises InputError if flags contradict each other then.
    """
    if not config.counts_epochs:
        return config
    of_epoch = epoch_steps(config, triples, graph)
    run, evaluation = config.run, config.evaluation
    if run.max_epoch is not None:
        run = replace(run, max_step=math.ceil(run.max_epoch * of_epoch), max_epoch=None)
    if isinstance(evaluation.eval_interval, str):
        interval = max(1, int(epochs_of(evaluation.eval_interval) * of_epoch))
        evaluation = replace(evaluation, eval_interval=min(interval, max(1, run.max_step)))
    config = replace(config, run=run, evaluation=evaluation)
    check(config)
    return config
