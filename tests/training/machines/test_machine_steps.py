"""Steps of several machines have the bits of as many processes on one machine, whatever the network does."""
import random

import numpy as np
import pytest
from training.machines.memory_transport import Network
from training.machines.thread_machines import (configuration, run_machines, run_oracle, same_bits, small_graph,
                                               with_lookahead)

from dglke_frugal.divergence import Diverged
from dglke_frugal.training.run.ranker import Ranker


@pytest.mark.parametrize("machines", [2, 3])
@pytest.mark.parametrize("partition", ["hash", "range"])
@pytest.mark.parametrize("negatives", ["local", "global"])
def test_they_equal_the_oracle(machines, partition, negatives):
    config, graph = configuration(machines, partition, negatives), small_graph()
    same_bits(run_machines(config, graph)[0], run_oracle(config, graph))


@pytest.mark.parametrize("model", ["DistMult", "ComplEx", "RotatE", "SimplE", "RESCAL", "TransR", "TransE_l1"])
def test_all_models_do(model):
    config, graph = configuration(2, model=model), small_graph()
    same_bits(run_machines(config, graph)[0], run_oracle(config, graph))


@pytest.mark.parametrize("machines", [2, 3])
def test_half_precision_rows_do(machines):
    config, graph = configuration(machines, row_dtype="fp16"), small_graph()
    same_bits(run_machines(config, graph)[0], run_oracle(config, graph))


@pytest.mark.parametrize("seed", range(6))
def test_delays_and_the_order_of_arrival_change_no_bit(seed):
    numbers = random.Random(seed)
    machines, entities = numbers.choice([2, 3, 4]), numbers.choice([60, 120, 1500])
    config = with_lookahead(configuration(machines, numbers.choice(["hash", "range"]),
                                          numbers.choice(["local", "global"])), numbers.choice([2, 3, 10]))
    graph = small_graph(entities, relations=numbers.choice([3, 30, 300]))
    drains = {step for step in range(1, 20) if numbers.random() < 0.3}
    network = Network(machines, delay=lambda *_: numbers.choice([0, 0, 0.002]))
    found = run_machines(config, graph, drains=drains, network=network, early=seed % 2 == 0)[0]
    same_bits(found, run_oracle(config, graph))


@pytest.mark.parametrize("partition", ["hash", "range"])
@pytest.mark.parametrize("array", ["embeddings", "state"])
def test_a_row_that_has_diverged_is_named_by_its_id(partition, array):
    config, graph = configuration(3, partition), small_graph()
    tables = run_machines(config, graph)[1][1]
    entity = next(each for each in range(50, 120) if tables.owners.owner(np.array([each])) == 1)
    getattr(tables.entity, array)[tables.owners.local(np.array([entity]))] = np.nan
    with pytest.raises(Diverged, match=f"row {entity} of .* entity table"):
        Ranker(config, graph).check(tables, {})
