"""Ranks that DGL-KE recorded after training, for every model."""

from dataclasses import replace

import numpy as np
import pytest
from golden_trace import TRACES, Trace

from dglke_frugal.evaluation import HEAD, TAIL, EmbeddingModel, KnownTriples, evaluate


@pytest.fixture(scope="module")
def known(graphs):
    """The triples of fb15k-small with ids in order of first appearance, as the traces have them."""
    entities, relations, rows = {}, {}, []
    for name in ("train", "valid", "test"):
        for line in (graphs / "fb15k-small" / f"{name}.txt").read_text().splitlines():
            head, relation, tail = line.split("\t")
            rows.append(
                (entities.setdefault(head, len(entities)),
                 relations.setdefault(relation, len(relations)),
                 entities.setdefault(tail, len(entities))))
    return KnownTriples([np.array(rows)])


def trained_model(path):
    trace = Trace(path)
    hidden_dim = int(trace.meta.argv[trace.meta.argv.index("--hidden_dim") + 1])
    return trace, EmbeddingModel(trace.meta.model, trace.meta.gamma, hidden_dim, trace.entity_final,
                                 trace.relation_final, getattr(trace, "projection_final", None), score_rule="dglke")


@pytest.mark.parametrize(
    "name, as_tensor",
    [(name, False) for name in TRACES]
    + [(name, True) for name in ("transe_l1", "transe_l2_adv", "complex", "rotate", "transr")])
def test_ranks_are_those_of_dglke(golden, known, name, as_tensor):
    trace, model = trained_model(golden / f"{name}.npz")
    if as_tensor:
        import torch

        model = replace(model, entity=torch.from_numpy(model.entity), device=torch.device("cpu"))
    for side, test, rank in ((HEAD, "test_head", "rank_head"), (TAIL, "test_tail", "rank_tail")):
        ranks = evaluate(model, tuple(getattr(trace, test).T), known).ranks(side)
        np.testing.assert_array_equal(ranks, getattr(trace, rank), err_msg=f"{name} {side}")
