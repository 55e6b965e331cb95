"""Recorded step-by-step runs of genuine DGL-KE: reading them, replaying them, and the agreement that a replay
reaches."""

import json
from types import SimpleNamespace

import numpy as np

from dglke_frugal import _native
from dglke_frugal.training.step.native_step import native_step
from dglke_frugal.training.step.step_config import LossConfig, StepConfig


# The recorded models and losses on a small graph; fb15k_transe_l2_400 is a longer one on FB15k.
TRACES = ["transe_l1", "transe_l2_adv", "transe_l2_hinge", "transe_l2_negdeg", "transe_l2_pairwise", "distmult",
          "complex", "rotate", "simple", "rescal", "transr"]


class Trace:
    """One recorded run: each array of its file is an attribute, and `meta` a namespace of the settings."""

    def __init__(self, path):
        with np.load(path, allow_pickle=False) as file:
            vars(self).update({name: file[name] for name in file.files})
        self.meta = SimpleNamespace(**json.loads(bytes(self.meta).decode()))

    def config(self):
        """The step that the run took, as ours is configured."""
        meta = self.meta
        loss = LossConfig(meta.loss_genre, meta.margin, meta.pairwise, meta.adv, meta.adv_temperature,
                          meta.regularization_coef, meta.regularization_norm)
        return StepConfig(meta.model, meta.entity_dim, meta.relation_dim, meta.gamma, meta.emb_init, meta.lr, loss,
                          meta.neg_deg_sample, score_rule="dglke")

    def initial_tables(self):
        """entity, relation and (TransR) projection tables, float32, as the recorder drew them."""
        meta, random = self.meta, np.random.default_rng(self.meta.seed)
        shapes = [(meta.n_entities, meta.entity_dim, meta.emb_init),
                  (meta.n_relations, meta.relation_dim, meta.emb_init)]
        if meta.model == "TransR":
            shapes.append((meta.n_relations, meta.entity_dim * meta.relation_dim, 1.0))
        return [random.uniform(-bound, bound, (rows, dim)).astype(np.float32) for rows, dim, bound in shapes]

    def host_tables(self):
        tables = []
        for values in self.initial_tables():
            tables.append(_native.HostTable(*values.shape))
            tables[-1].embeddings[:] = values
        return tables

    def batch(self, step):
        ids = [column[step].astype(np.int64) for column in (self.head, self.rel, self.tail, self.neg)]
        return _native.make_batch(*ids, bool(self.neg_head[step]), self.meta.chunk_size, self.meta.n_entities,
                                  self.meta.n_relations, step=step)

    def replay(self):
        """Trains over all recorded batches. Returns the tables and the losses, one StepLosses per step."""
        tables = self.host_tables()
        step = native_step(self.config())
        return tables, [step.run_in_place(self.batch(i), *tables) for i in range(self.meta.steps)]


def assert_losses_agree(trace, losses):
    """losses: (steps,) values that were differentiated, regularization included."""
    np.testing.assert_allclose(losses, trace.loss, rtol=1e-5)


def assert_tables_agree(trace, tables, states):
    """tables, states: of entities, relations and projections after the last step."""
    def close(actual, expected):
        assert np.mean(np.abs(actual - expected) <= 1e-4) >= 0.999

    if hasattr(trace, "entity_final"):
        for name, table, state in zip(("entity", "relation", "projection"), tables, states):
            close(table, getattr(trace, f"{name}_final"))
            np.testing.assert_allclose(state, getattr(trace, f"{name}_state"), rtol=1e-3, atol=1e-7)
    else:
        close(tables[0][trace.rows], trace.entity_rows)
        close(tables[1][trace.relation_rows_ids], trace.relation_rows)
        for table, sums in zip(tables, (trace.entity_colsum, trace.relation_colsum)):
            np.testing.assert_allclose(table.sum(0, dtype=np.float64), sums, atol=0.01)
        np.testing.assert_allclose(states[0], trace.entity_state, rtol=1e-3, atol=1e-9)
