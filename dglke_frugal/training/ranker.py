"""Ranking during and after a training run, as the flags of DGL-KE say."""
from __future__ import annotations

from dataclasses import replace
from typing import Optional

import numpy as np

from ..config import TrainConfig
from ..data import KnowledgeGraph, Triples
from ..evaluation import EmbeddingModel, Evaluation, KnownTriples, Metrics, Protocol, Sampling, evaluate
from ..evaluation.chance import LOOKED_AT, Chance, candidate_counts, chance
from ..evaluation.device import on_device
from ..evaluation.metrics import process_lines
from ..store.half_embeddings import HalfEmbeddings
from .tables import Tables


class Ranker:
    """Ranks triples of a graph with the tables as they are. Flags and seed choose the triples and candidates.

    shows: whether it shows how far it is.
    """

    shows = True

    def __init__(self, config: TrainConfig, graph: KnowledgeGraph, device=None, own_model=None):
        """device: the store.device.Device that the run computes on, if any; a GPU then ranks as well. own_model: the
        models.TorchModel that is trained, if it is one's own."""
        self._config, self._graph, self._own_model = config, graph, own_model
        gpu = device is not None and device.torch_device.type == "cuda"
        self._gpu: int = device.torch_device.index if gpu else -1
        self._known: Optional[KnownTriples] = None  # indexed when first needed

    def rank(self, mode: str, triples: Triples, tables: Tables) -> Metrics:
        """Rank a share of the triples and print DGL-KE's lines. mode: Valid or Test. Raises InputError for NaN."""
        tables.drain()
        metrics = self._evaluate(self._share(triples), tables).metrics()
        print("\n".join(process_lines(metrics, mode)), flush=True)
        return metrics

    def chance(self, mrr: float, triples: Triples) -> Optional[Chance]:
        """How the MRR of a ranking of these triples compares to that of random ranks; None if it is far above."""
        if not mrr < LOOKED_AT:
            return None
        protocol, shared = self._protocol(), self._share(triples)
        if protocol.sampling is not None:
            counts = np.full(1, 1 + protocol.sampling.count)
        else:
            known = self._known_triples() if protocol.known == "excluded" else None
            counts = candidate_counts(shared, self._graph.n_entities, known)
        return chance(mrr, counts)

    def _evaluate(self, triples, tables: Tables) -> Evaluation:
        config = self._config
        model = EmbeddingModel(config.model.model_name, config.model.gamma, config.model.hidden_dim,
                               **{name: store.embeddings for name, store in tables.stores.items()},
                               score_rule=config.model.score_rule, scorer=self._own_model,
                               reciprocal=config.model.reciprocal)
        protocol = self._protocol()
        if protocol.sampling is None:
            model = on_device(model, self._gpu)
            if model.device is None and isinstance(model.entity, HalfEmbeddings):
                model = replace(model, entity=model.entity[:])  # the CPU's kernels compare float32 rows
        known = self._known_triples() if protocol.known == "excluded" else None
        return evaluate(model, triples, known, protocol, show=self.shows)

    def _protocol(self) -> Protocol:
        evaluation = self._config.evaluation
        sampling = None
        if evaluation.neg_sample_size_eval > 0:
            sampling = Sampling(evaluation.neg_sample_size_eval, evaluation.batch_size_eval,
                                evaluation.neg_deg_sample_eval, self._config.run.seed)
        return Protocol(known="kept" if evaluation.no_eval_filter else "excluded", sampling=sampling)

    def _share(self, triples: Triples):
        """--eval_percent of the triples, at least one, drawn with repetition as in DGL-KE."""
        share = self._config.evaluation.eval_percent
        if share == 1:
            return tuple(triples)
        count = max(1, int(len(triples) * share))
        chosen = np.random.default_rng(self._config.run.seed).integers(len(triples), size=count)
        return tuple(column[chosen] for column in triples)

    def _known_triples(self) -> KnownTriples:
        if self._known is None:
            self._known = KnownTriples(self._graph.splits.values())
        return self._known
