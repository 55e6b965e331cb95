"""What a step costs the host thread of a rank by columns: the thread that the device of each rank waits for behind a
cache. The device is one that does nothing, so only the host's own work is timed."""
from __future__ import annotations

import ctypes
import statistics
import time

import numpy as np

from dglke_frugal import _native
from dglke_frugal.data.synthetic import SyntheticGraph
from dglke_frugal.store import EmbeddingStore, FlushConfig
from dglke_frugal.store.device import Device, Event
from dglke_frugal.store.flush_config import rows_come_again
from dglke_frugal.training.batches.sampler import Sampler, SamplerConfig
from dglke_frugal.training.step.device_batch import BatchSizes, BlockTransfer, PackedBatches

GRAPHS = {"fb15k": SyntheticGraph(14_951, 1_345, 483_142), "large": SyntheticGraph(20_000_000, 15_000, 500_000)}
RANKS = (1, 2, 4)
BATCH, NEGATIVES, LOOKAHEAD, BATCHES = 1024, 256, 10, 64
STEPS, WARM, PAUSE = 300, 100, 0.5e-3  # the pause lets the planner have the core


class IdleDevice(Device):
    """Forgets what is submitted."""

    def submit(self, work, after=None):
        pass

    def arrive(self, work, after=None, point=None):
        return Event()

    def depart(self, work, after=None):
        return Event()


def microseconds():
    """Medians by graph and number of ranks; see `_of_graph`."""
    return {name: {str(ranks): _of_graph(graph, ranks) for ranks in RANKS} for name, graph in GRAPHS.items()}


def _of_graph(graph, ranks):
    """announce: rows of a step to come. begin: until its plan is there. send: its batch and its plan are on their way.
    end. planning: by the planner's own threads, steps with rows never seen included; rows: of a step."""
    triples = graph.triples(0, graph.n_train)
    sampler = Sampler(triples.head, triples.relation, triples.tail, graph.n_entities, graph.n_relations,
                      SamplerConfig(BATCH * ranks, NEGATIVES, 1))
    degree = sum(np.bincount(ids, minlength=graph.n_entities) for ids in (triples.head, triples.tail))
    device = IdleDevice()
    flushing = FlushConfig(min(graph.n_entities, 3 * BATCH * ranks), ranks=ranks, same_steps=ranks > 1,
                           slots=graph.n_entities // 20, value_path="host_row", host_read="uva", lookahead=LOOKAHEAD,
                           keeps_reused=rows_come_again(graph.n_entities, 3 * BATCH * ranks))
    entities = EmbeddingStore(graph.n_entities, 4, 0.1, device=device, flushing=flushing,
                              hot_rows=[np.argsort(-degree, kind="stable")])
    relations = EmbeddingStore(graph.n_relations, 4, 0.1, device=device)
    others = [_native.attach_rank(entities.address.segment, rank) for rank in range(1, ranks)]
    counters = [np.ctypeslib.as_array((ctypes.c_uint64 * 1).from_address(address)) for address in (
        entities.steps._port.published_counter, *(port.published_counter for port in others))]
    run = _Steps(device, (entities.steps, relations.steps), sampler)
    for step in range(STEPS):
        run.step(step)
        for counter in counters:  # what the devices would do
            counter[0] = step + 1
    found = {name: statistics.median(times[WARM:]) * 1e6 for name, times in run.seconds.items()}
    counted = entities.statistics()
    found["planning"] = counted["planning_nanoseconds"] / counted["planned_steps"] / 1e3
    found["rows"] = statistics.mean(run.rows)
    for store in (entities, relations):
        store.close()
    return found


class _Steps:
    """The host's part of steps, timed. seconds: of each part, by step. rows: of each batch."""

    def __init__(self, device, tables, sampler):
        layout = BatchSizes(sampler.batch_size, sampler.chunk_size, NEGATIVES, False).layout(tables)
        packed = PackedBatches(device, layout, BATCHES + 2 * sampler.config.lookahead)
        with sampler.batches(0, packed.packer) as batches:
            self._batches = [next(batches) for _ in range(BATCHES)]
        self._tables, self._announced = tables, 0
        self._transfer = BlockTransfer(device, layout, tables, packed=packed)
        self.rows = [len(batch.entities) for batch in self._batches]
        self.seconds = {"announce": [], "begin": [], "send": [], "end": []}

    def step(self, step):
        """One step, whose rows and those of LOOKAHEAD more are announced."""
        self._time("announce", lambda: self._announce(step + LOOKAHEAD))
        time.sleep(PAUSE)
        self._time("begin", lambda: [rows.begin(step) for rows in self._tables])
        self._time("send", lambda: self._transfer.send(self._batches[step % BATCHES]))
        for rows in self._tables:
            rows.leave(Event())
        self._time("end", lambda: [rows.end() for rows in self._tables])

    def _announce(self, last):
        for step in range(self._announced, last + 1):
            batch = self._batches[step % BATCHES]
            entities, relations = self._tables
            entities._port.register_entities(entities._next(step), batch)  # announce_entities, but for its own step
            relations.announce(step, batch.relations)
        self._announced = last + 1

    def _time(self, name, work):
        start = time.perf_counter()
        work()
        self.seconds[name].append(time.perf_counter() - start)
