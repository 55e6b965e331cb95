"""What somebody writes who uses the package, for a type checker; nothing here is run."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Optional, Union

import numpy as np
from typing_extensions import assert_type

import dglke_frugal
from dglke_frugal.data import KnowledgeGraph, Names, Triples, load_graph
from dglke_frugal.evaluation import (EmbeddingModel, Evaluation, KnownTriples, Metrics, Protocol, Sampling, evaluate,
                                      share_of)
from dglke_frugal.inference.answers import AnswerLists, Answers, Scored, TripleAnswers
from dglke_frugal.inference.embeddings import Embeddings
from dglke_frugal.inference.run import Run
from dglke_frugal.training.log.tracker import Validation


def stop(validation: Validation) -> bool:
    assert_type(validation.metrics, Dict[str, float])
    return validation.step > 3


def train(frame: Any) -> Run:
    dglke_frugal.train(resume=Path("ckpts/x"), max_step=3)
    dglke_frugal.train(dataset="FB15k", model_name="ComplEx", gpu=[0, 1], lr_decay_at=3, test=True, trackers="csv")
    dglke_frugal.train("families", valid=[("a", "r", "b")], neg_sample_size="all", loss_genre="Softmax")
    return dglke_frugal.train(frame, split=(0.9, 0.05, 0.05), hidden_dim=64, max_epoch=3, callbacks=[stop],
                              verbose=True)


def embed() -> None:
    rows = dglke_frugal.Embedding(100, 8, optimizer=dglke_frugal.optim.RowwiseAdagrad(lr=0.1))
    rows.save("rows.safetensors")
    dglke_frugal.EmbeddingBag(100, 8, optimizer=dglke_frugal.optim.SGD(lr=0.1)).close()


def wrong(frame: Any) -> None:  # warn_unused_ignores makes an error of each that is accepted
    dglke_frugal.train(frame, hiden_dim=64)  # type: ignore[call-arg]
    dglke_frugal.train(frame, hidden_dim="many")  # type: ignore[arg-type]
    dglke_frugal.train(frame, loss_genre="hinge")  # type: ignore[arg-type]
    dglke_frugal.load("x").tails("a", "r").nothing  # type: ignore[attr-defined]


def ask(run: Run) -> None:
    assert_type(dglke_frugal.load("ckpts/x", device=0), Run)
    assert_type(run.tails("a", "r", k=3), Answers)
    assert_type(run.heads("r", "b"), Answers)
    assert_type(run.relations("a", 3), Answers)
    assert_type(run.nearest("a"), Answers)
    assert_type(run.tails(["a"], "r"), Union[Answers, AnswerLists])
    assert_type(run.missing("r", k=3), TripleAnswers)
    assert_type(run.score("a", "r", "b"), np.ndarray)
    assert_type(run.tails("a", "r").columns, List[str])
    assert_type(run.tails("a", "r").names, List[str])
    run.tails("a", "r").to_pandas()
    assert_type(run.embedding("a"), np.ndarray)
    assert_type(run.embeddings, Embeddings)
    assert_type(run.relation_embeddings["r"], np.ndarray)
    assert_type(run.entity_names.id_of("a"), int)
    assert_type(run.graph, KnowledgeGraph)
    assert_type(run.known_triples, KnownTriples)
    assert_type(run.summary(), str)
    run.export("x.npz")
    run.history


def measure(run: Run, triples: np.ndarray, model: EmbeddingModel) -> None:
    assert_type(run.metrics, Evaluation)
    assert_type(run.metrics["MRR"], float)
    assert_type(run.evaluate("test").hits(5), float)
    assert_type(run.rank(triples, protocol=Protocol(sampling=Sampling(10, 2))).metrics(), Metrics)
    assert_type(run.metrics.to_dict(ks=[1]), Dict[str, float])
    run.metrics.to_pandas()
    assert_type(run.metrics.candidate_counts(), Optional[np.ndarray])
    graph = load_graph("families", Path("families"))
    assert_type(graph.train, Triples)
    assert_type(graph.entity_names, Optional[Names])
    assert_type(evaluate(model, share_of(graph.train, 0.5), KnownTriples(graph.splits.values())), Evaluation)
    assert_type(Metrics.of([triples]).named(), Dict[str, float])


def scored(answers: Answers) -> List[Scored]:
    return list(answers)
