"""The sampler as Python sees it; its rules are tested in C++ (csrc/tests/sampler)."""

import gc
import itertools

import numpy as np
import pytest
from scipy import stats

from dglke_frugal import _native
from dglke_frugal.errors import InputError
from dglke_frugal.training.sampler import Sampler, SamplerConfig

FIELDS = [name for name in dir(_native.Batch) if not name.startswith("_")]
ENTITIES, RELATIONS, EDGES = 300, 12, 2000


@pytest.fixture
def triples():
    rng = np.random.default_rng(5)
    bounds = [ENTITIES, RELATIONS, ENTITIES]
    return rng.integers(0, bounds, (EDGES, 3)).astype(np.int32)


def make(triples, weight=None, part=None, **config):
    config = SamplerConfig(**{"batch_size": 100, "neg_sample_size": 20, "seed": 3, **config})
    return Sampler(*triples.T, ENTITIES, RELATIONS, config, weight=weight, part=part)


def assert_same(a, b):
    for field in FIELDS:
        np.testing.assert_array_equal(getattr(a, field), getattr(b, field), err_msg=field)


@pytest.mark.parametrize("threads", [1, 2, 3, 4])
def test_batches_do_not_depend_on_threads_or_on_where_a_run_resumes(triples, threads):
    reference = make(triples)
    sampler = make(triples, threads=threads, lookahead=5)
    for first in (0, 33):
        with sampler.batches(first) as batches:
            for step, batch in enumerate(itertools.islice(batches, 60), first):
                assert batch.step == step and batch.corrupt_head == (step % 2 == 1)
                assert_same(batch, reference.batch(step))


def test_negatives_are_uniform_over_entities_and_independent_of_positives(triples):
    sampler = make(triples, batch_size=1000, neg_sample_size=1000)
    drawn = np.concatenate([sampler.batch(step).negative for step in range(300)])
    assert stats.chisquare(np.bincount(drawn, minlength=ENTITIES)).pvalue > 1e-3
    heads = np.concatenate([sampler.batch(step).head for step in range(300)])
    pairs = np.histogram2d(heads, drawn, bins=10, range=[[0, ENTITIES]] * 2)[0]
    assert stats.chi2_contingency(pairs).pvalue > 1e-3


def test_weights_travel_with_their_edges(triples):
    weight = np.arange(EDGES, dtype=np.float64)  # converted
    batch = make(triples, weight=weight).batch(7)
    edge = batch.weight.astype(int)
    np.testing.assert_array_equal(np.stack([batch.head, batch.relation, batch.tail], 1), triples[edge])
    assert len(make(triples).batch(7).weight) == 0


def test_memory_mapped_triples_give_the_same_batches(triples, tmp_path):
    np.save(tmp_path / "triples.npy", triples)
    mapped = np.load(tmp_path / "triples.npy", mmap_mode="r")
    assert_same(make(mapped).batch(5), make(triples).batch(5))


def test_arrays_outlive_batch_stream_and_sampler(triples):
    sampler = make(triples, threads=2)
    with sampler.batches() as batches:
        kept = [next(batches).entities for _ in range(100)]
    expected = [make(triples).batch(step).entities.copy() for step in range(100)]
    del sampler, batches
    gc.collect()
    for array, copy in zip(kept, expected):
        np.testing.assert_array_equal(array, copy)
        with pytest.raises(ValueError):
            array[0] = 1  # read-only


def test_the_sampler_keeps_the_triples_alive(triples):
    sampler = make(triples.copy())
    gc.collect()
    np.full((EDGES, 3), -1, np.int32)  # would take the memory of a freed copy
    assert_same(sampler.batch(0), make(triples).batch(0))


def test_make_batch_indexes_a_recorded_batch(triples):
    drawn = make(triples).batch(9)
    rebuilt = _native.make_batch(drawn.head, drawn.relation, drawn.tail, drawn.negative, drawn.corrupt_head,
                                 drawn.chunk_size, ENTITIES, RELATIONS, step=9)
    assert_same(drawn, rebuilt)
    with pytest.raises(ValueError, match="whole chunks"):
        _native.make_batch(drawn.head, drawn.relation, drawn.tail, drawn.negative, True, 33, ENTITIES, RELATIONS)


def test_an_edge_outside_the_graph_is_an_input_error(triples):
    triples[EDGES // 2, 2] = ENTITIES
    with make(triples, threads=2).batches() as batches:
        with pytest.raises(InputError, match=f"tail id {ENTITIES} .*entity and relation maps"):
            for _ in range(2 * EDGES // 100):
                next(batches)


@pytest.mark.parametrize(
    "config", [{"batch_size": 0}, {"neg_sample_size": -1}, {"rank": 2, "ranks": 2}, {"ranks": 5000}]
)
def test_impossible_sizes_are_input_errors(triples, config):
    with pytest.raises(InputError, match="cannot sample batches"):
        make(triples, **config)


@pytest.mark.parametrize("config", [{"threads": 0}, {"lookahead": 0}])
def test_impossible_threads_are_input_errors(triples, config):
    with pytest.raises(InputError, match="at least"):
        make(triples, **config).batches()


def test_unequal_lengths_and_other_types_are_input_errors(triples):
    config = SamplerConfig(10, 10)
    head, relation, tail = triples.T
    with pytest.raises(InputError, match="one length"):
        Sampler(head[:-1], relation, tail, ENTITIES, RELATIONS, config)
    with pytest.raises(InputError, match="int32 or int64"):
        Sampler(head.astype(float), relation, tail, ENTITIES, RELATIONS, config)
    with pytest.raises(InputError, match="one weight per edge"):
        Sampler(head, relation, tail, ENTITIES, RELATIONS, config, weight=np.ones(3))


def test_a_recorded_run_has_the_same_distribution(golden):
    """Against genuine DGL-KE: chunk sizes, directions and the number of distinct entities of a batch."""
    import json

    trace = np.load(golden / "fb15k_transe_l2_400.npz")
    meta = json.loads(bytes(trace["meta"]))
    rng = np.random.default_rng(0)
    edges = 100_000
    triples = np.stack(
        [rng.integers(0, n, edges) for n in (meta["n_entities"], meta["n_relations"], meta["n_entities"])], 1
    )
    sampler = Sampler(*triples.T, meta["n_entities"], meta["n_relations"],
                      SamplerConfig(meta["batch_size"], meta["neg_sample_size"]))
    steps = len(trace["head"])
    ours = [sampler.batch(step) for step in range(steps)]
    assert [len(b.head) for b in ours] == [trace["head"].shape[1]] * steps
    assert [len(b.negative) for b in ours] == [trace["neg"].shape[1]] * steps
    assert [b.corrupt_head for b in ours] == trace["neg_head"].tolist()
    assert ours[0].chunk_size == meta["chunk_size"]
    distinct = [[len(np.unique(step)) for step in run] for run in ([b.negative for b in ours], trace["neg"])]
    assert stats.ttest_ind(*distinct).pvalue > 1e-3
