"""DGL-KE's own models over our store replay the traces of genuine DGL-KE."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from golden_trace import Trace, assert_losses_agree, assert_tables_agree

TRACES = ["transe_l1", "transe_l2_adv", "transe_l2_negdeg", "distmult", "complex", "rotate", "rescal", "transr",
          "fb15k_transe_l2_400"]


class PositiveGraph:
    """The dozen things that DGL-KE's models ask of a batch of positives."""

    def __init__(self, head, relation, tail):
        nodes, slots = np.unique(np.concatenate([head, tail]), return_inverse=True)
        self._head, self._tail = torch.from_numpy(slots).chunk(2)
        self.ndata = {"id": torch.from_numpy(nodes)}
        self.edata = {"id": torch.from_numpy(relation)}

    def all_edges(self, order="eid"):
        return self._head, self._tail

    def number_of_edges(self):
        return len(self._head)

    def apply_edges(self, function):
        edges = SimpleNamespace(src={name: value[self._head] for name, value in self.ndata.items()},
                                dst={name: value[self._tail] for name, value in self.ndata.items()}, data=self.edata)
        self.edata.update(function(edges))


def negative_graph(trace, step):
    meta = trace.meta
    chunks = meta.batch_size // meta.chunk_size
    negatives = torch.from_numpy(trace.neg[step].astype(np.int64))
    every = torch.arange(len(negatives))
    return SimpleNamespace(num_chunks=chunks, chunk_size=meta.chunk_size, neg_sample_size=meta.neg_sample_size,
                           neg_head=bool(trace.neg_head[step]), ndata={"id": negatives}, head_nid=every, tail_nid=every)


@pytest.mark.parametrize("name", TRACES)
def test_replays(name, golden, monkeypatch):
    from dglke_frugal import vanilla
    from dglke_frugal.vanilla.adapter.embedding import DGLKEAdapter

    vanilla.install()
    import dglke.models.general_models as general_models

    monkeypatch.setattr(general_models, "ExternalEmbedding", DGLKEAdapter)
    trace = Trace(golden / f"{name}.npz")
    meta = trace.meta
    double_ent = "-de" in meta.argv
    hidden_dim = meta.entity_dim // (2 if double_ent else 1)
    args = SimpleNamespace(gpu=[-1], lr=meta.lr, num_proc=1, async_update=False, mix_cpu_gpu=False,
                           strict_rel_part=False, soft_rel_part=False, has_edge_importance=False,
                           neg_deg_sample=meta.neg_deg_sample, neg_adversarial_sampling=meta.adv,
                           adversarial_temperature=meta.adv_temperature, regularization_coef=meta.regularization_coef,
                           regularization_norm=meta.regularization_norm)
    model = general_models.KEModel(args, meta.model, meta.n_entities, meta.n_relations, hidden_dim, meta.gamma,
                                   double_entity_emb=double_ent)
    adapters = [model.entity_emb, model.relation_emb]
    if meta.model == "TransR":
        adapters.append(model.score_func.projection_emb)
    for adapter, table in zip(adapters, trace.initial_tables()):
        adapter.store.embeddings[:] = table
        adapter.store.state[:] = 0

    losses = []
    for step in range(meta.steps):
        ids = [column[step].astype(np.int64) for column in (trace.head, trace.rel, trace.tail)]
        loss, _ = model.forward(PositiveGraph(*ids), negative_graph(trace, step))
        loss.backward()
        model.update()
        losses.append(loss.item())
    assert_losses_agree(trace, losses)
    assert_tables_agree(trace, [adapter.store.embeddings for adapter in adapters],
                        [adapter.store.state for adapter in adapters])
