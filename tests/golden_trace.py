"""Reading the step-by-step traces of genuine DGL-KE, and the agreement that a replay must reach."""
import json
from types import SimpleNamespace

import numpy as np


def load_trace(path):
    """The arrays of a trace, with `meta` as a namespace."""
    arrays = dict(np.load(path))
    meta = SimpleNamespace(**json.loads(arrays.pop("meta").tobytes()))
    return SimpleNamespace(meta=meta, **arrays)


def initial_tables(meta):
    """entity, relation and (TransR) projection tables, float32, as the recorder drew them."""
    random = np.random.default_rng(meta.seed)
    bound = meta.emb_init
    tables = [random.uniform(-bound, bound, (meta.n_entities, meta.entity_dim)).astype(np.float32),
              random.uniform(-bound, bound, (meta.n_relations, meta.relation_dim)).astype(np.float32)]
    if meta.model == "TransR":
        tables.append(random.uniform(-1, 1, (meta.n_relations, meta.entity_dim * meta.relation_dim)).astype(np.float32))
    return tables


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
        np.testing.assert_allclose(tables[0].sum(0, dtype=np.float64), trace.entity_colsum, atol=0.05)
        np.testing.assert_allclose(states[0], trace.entity_state, rtol=1e-3, atol=1e-9)
