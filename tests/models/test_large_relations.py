"""Relation rows too long for one piece: a step applies, to the bit, the gradients that it hands out."""

import numpy as np
import pytest
from training.parallel.ranks_oracle import Oracle

from dglke_frugal import _native
from dglke_frugal.score_rule import SCORE_RULES
from dglke_frugal.training.batches.sampler import Sampler, SamplerConfig
from dglke_frugal.training.step.native_step import native_step
from dglke_frugal.training.step.step_config import LossConfig, StepConfig

ENTITIES, RELATIONS, BATCH, STEPS = 50, 6, 24, 5
ROWS = {"RESCAL": (67, 67 * 67, None), "TransR": (43, 59, 43 * 59)}  # entity, relation, projection


class OneProcess(Oracle):
    """Without ranks there are no sums of each: every gradient is an occurrence."""

    apply_relations = Oracle.apply_in_order


@pytest.mark.parametrize("rule", SCORE_RULES)
@pytest.mark.parametrize("model", ROWS)
@pytest.mark.parametrize("threads", [1, 3])
def test_applied_as_handed_out(model, threads, rule):
    random = np.random.default_rng(3)
    entity, relation, projection = ROWS[model]
    sizes = {"entity": (ENTITIES, entity), "relation": (RELATIONS, relation), "projection": (RELATIONS, projection)}
    initial = {name: random.uniform(-0.3, 0.3, size).astype(np.float32) for name, size in sizes.items() if size[1]}
    config = StepConfig(model, entity, relation, 8.0, 0.3, 0.1, LossConfig(regularization_coefficient=1e-3),
                        score_rule=rule)
    triples = (random.integers(0, count, 300) for count in (ENTITIES, RELATIONS, ENTITIES))
    sampler = Sampler(*triples, ENTITIES, RELATIONS, SamplerConfig(BATCH, 8, 3))
    batches = [sampler.batch(i) for i in range(STEPS)]

    oracle = OneProcess(config, initial)
    for batch in batches:
        oracle.train([batch])
    tables = {name: _native.HostTable(*values.shape) for name, values in initial.items()}
    for name, values in initial.items():
        tables[name].embeddings[:] = values
    step = native_step(config, threads)
    for batch in batches:
        step.run_in_place(batch, *tables.values())
    for name, table in tables.items():
        assert np.array_equal(table.embeddings, oracle.tables[name].embeddings), name
        assert np.array_equal(table.state, oracle.tables[name].state), name
