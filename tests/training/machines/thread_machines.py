"""Machines as threads, on a graph so small that several use the same rows all the time."""
from dataclasses import replace

import numpy as np
from training.machines.memory_transport import Network, together
from training.parallel.ranks_oracle import Oracle

from dglke_frugal.options import TrainConfig
from dglke_frugal.data import KnowledgeGraph, Triples
from dglke_frugal.training.batches.edge_partition import partition_edges, row_owners
from dglke_frugal.training.batches.sampler import Sampler, SamplerConfig
from dglke_frugal.training.run.loop import TrainingLoop
from dglke_frugal.training.machines.machine_tables import machine_tables
from dglke_frugal.training.tables.start_values import STREAMS
from dglke_frugal.training.step.make_step import make_step
from dglke_frugal.training.step.step_config import step_config
from dglke_frugal.training.tables.tables import Tables

ENTITIES, RELATIONS, STEPS = 120, 7, 20


def small_graph(entities=ENTITIES, relations=RELATIONS, triples=700):
    random = np.random.default_rng(7)
    head, tail = (np.minimum(random.zipf(1.4, triples) - 1, entities - 1) for _ in range(2))
    tail = np.where(random.random(triples) < 0.5, random.integers(entities, size=triples), tail)
    train = Triples(head.astype(np.int32), random.integers(relations, size=triples).astype(np.int32),
                    tail.astype(np.int32))
    return KnowledgeGraph("small", entities, relations, train)


def configuration(machines, partition="hash", negatives="global", model="TransE_l2", **flags):
    return TrainConfig.from_flags({
        "model_name": model, "hidden_dim": 12, "batch_size": 24, "neg_sample_size": 8, "gamma": 8.0, "lr": 0.1,
        "seed": 3, "regularization_coef": 1e-3, "num_proc": machines, "partition": partition, "negatives": negatives,
        "double_ent": model == "RotatE", "parallel": "rows", **flags})


def samplers(config, graph):
    machines = config.device.num_proc
    partition = partition_edges(config.device.edge_partition, graph, machines)
    owners = row_owners(config.device.edge_partition, graph.n_entities, machines)
    local = owners if config.device.negatives == "local" else None
    return owners, [
        Sampler(*graph.train, graph.n_entities, graph.n_relations,
                SamplerConfig(config.batch.batch_size, config.batch.negatives, config.run.seed, machine, machines,
                              threads=1, owners=local), part=partition.parts[machine])
        for machine in range(machines)]


def run_oracle(config, graph, order=lambda batches: batches):
    rounding = (config.model.row_dtype, config.run.seed, STREAMS["entity"]) if config.model.is_half else None
    alone = replace(config, device=replace(config.device, num_proc=1))
    start = Tables.create(alone, graph.n_entities, graph.n_relations, config.run.seed)
    oracle = Oracle(step_config(config), {name: np.array(store.embeddings[:]) for name, store in start.stores.items()},
                    rounding)
    _, sources = samplers(config, graph)
    for step in range(STEPS):
        oracle.train(order([source.batch(step) for source in sources]))
    return oracle.arrays()


def run_machines(config, graph, drains=(), network=None, mutate=lambda tables: None, early=True):
    """What all machines hold in the end, put together. drains: steps after which tables are drained. mutate: changes
    the tables of a machine before it trains. early: whether results travel before the step's end.

    Returns (arrays by name, the machines' tables). Raises the first error of any machine.
    """
    machines = config.device.num_proc
    network = network or Network(machines)
    owners, sources = samplers(config, graph)

    def train(machine, transport):
        own = machine_tables(config, graph, owners, transport,
                             [None if other == machine else sources[other] for other in range(machines)])
        mutate(own)
        step = make_step(step_config(config), threads=1, matmul="fp32")
        step.early_done = own.early_done if early else None
        loop = TrainingLoop(own, sources[machine], step, 0, STEPS, config.store.lookahead)
        for done, _ in enumerate(loop, start=1):
            if done in drains:
                own.drain()
        own.drain()
        own.close()
        return own

    tables = together(network, train)
    found = {}
    for name, array in tables[0].arrays().items():
        if not name.startswith("entity"):
            for other in tables[1:]:
                np.testing.assert_array_equal(other.arrays()[name], array)
            found[name] = np.array(array)
            continue
        found[name] = whole = np.empty(array.shape, array.dtype)
        for machine, each in enumerate(tables):
            ids = owners.ids(machine, np.arange(owners.count(machine)))
            whole[ids] = each.arrays()[name].rows
    return found, tables


def same_bits(found, expected):
    assert found.keys() == expected.keys()
    for name, array in found.items():
        array = array.astype(np.float32)
        np.testing.assert_array_equal(array.view(np.uint32), expected[name].view(np.uint32), err_msg=name)


def with_lookahead(config, steps):
    return replace(config, store=replace(config.store, lookahead=steps))
