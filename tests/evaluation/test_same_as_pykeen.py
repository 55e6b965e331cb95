"""PyKEEN's evaluator gives a trained run the metrics that ours gives it, where PyKEEN is installed."""

import numpy as np
import pytest
import torch

import dglke_frugal
from dglke_frugal.evaluation import Protocol

PYKEEN = "PyKEEN is not installed (pip install '.[pykeen]')"
NAMES = {"MRR": "inverse_harmonic_mean_rank", "MR": "arithmetic_mean_rank", "HITS@1": "hits_at_1",
         "HITS@10": "hits_at_10", "AMRI": "adjusted_arithmetic_mean_rank_index"}


def hierarchy():
    """A tree of 254 links, each said in both directions, and siblings."""
    rows = []
    for child in range(1, 128):
        parent, sibling = (child - 1) // 2, child + 1 if child % 2 else child - 1
        rows += [(f"e{parent}", "parent", f"e{child}"), (f"e{child}", "child", f"e{parent}"),
                 (f"e{child}", "sibling", f"e{sibling}")]
    return rows


def as_pykeen(run, model_class, **settings):
    """PyKEEN's model with the rows of a run, and its triples by split."""
    from pykeen.triples import TriplesFactory

    ids = [{name: number for number, name in enumerate(names)} for names in (run.entity_names, run.relation_names)]
    factories = {split: TriplesFactory(torch.tensor(np.stack([*triples], axis=1).astype(np.int64)), *ids)
                 for split, triples in run.graph.splits.items()}
    model = model_class(triples_factory=factories["train"], random_seed=0, **settings)
    for representations, table in ((model.entity_representations, run.embeddings),
                                   (model.relation_representations, run.relation_embeddings)):
        rows = torch.tensor(np.array(table.vectors))
        weight = representations[0]._embeddings.weight
        if representations[0].is_complex:
            real, imaginary = rows.chunk(2, dim=1)
            rows = torch.stack([real, imaginary], dim=-1)
        weight.data[:] = rows.reshape(weight.shape)
    return model.eval(), {split: factory.mapped_triples for split, factory in factories.items()}


@pytest.mark.parametrize("name", ["DistMult", "ComplEx", "TransE_l2"])
def test_both_evaluators_agree_to_six_digits(name, tmp_path):
    pytest.importorskip("pykeen", reason=PYKEEN)
    from pykeen import models
    from pykeen.evaluation import RankBasedEvaluator

    # PyKEEN's models ask for heads by the same row of a relation as for tails.
    run = dglke_frugal.train(hierarchy(), split=(0.8, 0.1, 0.1), model_name=name, hidden_dim=16, gamma=8, lr=0.1,
                             batch_size=64, neg_sample_size=16, max_epoch=40, reciprocal=False, seed=1,
                             save_path=tmp_path)
    dim = {"embedding_dim": 8 if name == "ComplEx" else 16}
    options = {"TransE_l2": {"scoring_fct_norm": 2, "entity_constrainer": None},
               "DistMult": {"entity_constrainer": None}}
    model, triples = as_pykeen(run, getattr(models, name.partition("_")[0]), **dim, **options.get(name, {}))
    found = RankBasedEvaluator().evaluate(model, triples["test"], use_tqdm=False, batch_size=32,
                                          additional_filter_triples=[triples["train"], triples["valid"]])
    ours = run.evaluate("test", protocol=Protocol(ties="realistic"))
    for metric, theirs in NAMES.items():
        for side, of_pykeen in ((None, "both"), ("head", "head"), ("tail", "tail")):
            assert ours.to_dict(side=side)[metric] == pytest.approx(
                found.get_metric(f"{of_pykeen}.realistic.{theirs}"), rel=5e-7, abs=5e-7), (metric, side)
