"""Ranking during and after a training run, as the flags of DGL-KE say."""
from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Dict, List, Mapping, Optional

import numpy as np

from ...data import KnowledgeGraph, Triples
from ...divergence import check_rows, longest_row
from ...evaluation import SIDES, EmbeddingModel, Evaluation, KnownTriples, Metrics, Protocol, evaluate, share_of
from ...evaluation.chance import LOOKED_AT, Chance, candidate_counts, chance
from ...evaluation.device import on_device
from ...evaluation.metrics import process_lines
from ...evaluation.ranking import Comparison
from ...options import TrainConfig
from ...store.rows.half_embeddings import HalfEmbeddings
from ..processes.process_group import Group
from ..tables.tables import Tables

_PROBED = 256  # training triples whose scores tell whether those of a custom model are finite


class Ranker:
    """Ranks triples of a graph with the tables as they are. Flags and seed choose the triples and candidates.

    shows: whether it shows how far it is.
    """

    shows = True

    def __init__(self, config: TrainConfig, graph: KnowledgeGraph, device=None, custom_model=None):
        """device: the store.device.Device that the run computes on, if any; a GPU then ranks as well. custom_model: the
        models.TorchModel that is trained, if it is a custom one."""
        self._config, self._graph, self._custom_model = config, graph, custom_model
        self._remarks: List[str] = []  # to be printed with the first ranking
        gpu = device is not None and device.torch_device.type == "cuda"
        self._gpu: int = device.torch_device.index if gpu else -1
        asked = Protocol.from_flags(vars(config.evaluation), seed=config.run.seed)
        self._protocol = asked.among(graph.n_entities, log=self._remarks.append)
        self._known: Optional[KnownTriples] = None  # indexed when first needed

    def rank(self, mode: str, triples: Triples, tables: Tables) -> Metrics:
        """Rank a share of the triples and print DGL-KE's lines. mode: Valid or Test. Raises Diverged."""
        tables.drain()
        while self._remarks:
            print(self._remarks.pop())
        metrics = self._evaluate(self._share(triples), tables).metrics()
        print("\n".join(process_lines(metrics, mode)), flush=True)
        return metrics

    def check(self, tables: Tables, others: Mapping[str, np.ndarray]) -> None:
        """Raise Diverged unless all numbers of the tables, of their optimizers' states and of `others`, by name, are
        finite, and so are scores: of the largest rows, or of training triples where the model is a custom one."""
        embeddings, largest = tables.embeddings(), {}
        for name, rows in embeddings.items():
            id_of = partial(tables.row_id, name)
            check_rows(tables.stores[name].state, f"the optimizer's state of the {name} table", id_of)
            largest[name] = longest_row(rows, f"the {name} table", id_of)
        for name, array in others.items():
            check_rows(array, name)
        if self._config.model.is_custom:
            from ...evaluation.custom_model import scores_of_triples  # here, because it takes torch's import time

            some = (column[:_PROBED] for column in tuple(self._graph.train)[:3])
            scores_of_triples(self._model(embeddings, reciprocal=False), *some)
        else:
            first = np.zeros(1, np.int64)
            evaluate(self._model(largest, reciprocal=False), (first,) * 3, None, Protocol(known="kept"), show=False)

    def chance(self, mrr: float, triples: Triples) -> Optional[Chance]:
        """How the MRR of a ranking of these triples compares to that of random ranks; None if it is far above."""
        if not mrr < LOOKED_AT:
            return None
        protocol, shared = self._protocol, self._share(triples)
        if protocol.sampling is not None:
            counts = np.full(1, 1 + protocol.sampling.count)
        else:
            known = self._known_triples() if protocol.known == "excluded" else None
            counts = candidate_counts(shared, self._graph.n_entities, known)
        return chance(mrr, counts)

    def _evaluate(self, triples, tables: Tables) -> Evaluation:
        model = self._model({name: store.embeddings for name, store in tables.stores.items()},
                            self._config.model.reciprocal)
        protocol = self._protocol
        if protocol.sampling is None:
            model = on_device(model, self._gpu)
            if model.device is None and isinstance(model.entity, HalfEmbeddings):
                model = replace(model, entity=model.entity[:])  # the CPU's kernels compare float32 rows
        known = self._known_triples() if protocol.known == "excluded" else None
        return evaluate(model, triples, known, protocol, show=self.shows)

    def _model(self, tables: Mapping[str, Any], reciprocal: bool) -> EmbeddingModel:
        model = self._config.model
        return EmbeddingModel(model.model_name, model.gamma, model.hidden_dim, **tables, score_rule=model.score_rule,
                              scorer=self._custom_model, reciprocal=reciprocal)

    def _share(self, triples: Triples):
        return share_of(tuple(triples), self._config.evaluation.eval_percent, self._config.run.seed)

    def _known_triples(self) -> KnownTriples:
        if self._known is None:
            self._known = KnownTriples(self._graph.splits.values())
        return self._known


def counts_of_all(group: Group, compared: Optional[Mapping[str, Comparison]]) -> List[np.ndarray]:
    """What each process of a group has counted: (sides, 2, its triples) int64, better and equal candidates.

    compared: of this process, None for no triples."""
    own = [] if compared is None else [(compared[side].better, compared[side].equal) for side in SIDES]
    parts = group.all_bytes(np.asarray(own, np.int64).tobytes())
    return [np.frombuffer(part, np.int64).reshape(len(SIDES), 2, -1) for part in parts]


def comparisons(counts: np.ndarray) -> Dict[str, Comparison]:
    """By side, of counts (sides, 2, n)."""
    return {side: Comparison(*of_side, 0) for side, of_side in zip(SIDES, counts)}
