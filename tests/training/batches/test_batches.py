"""The sampler as Python sees it; its rules are tested in C++ (csrc/tests/sampler)."""

import gc
import itertools
import multiprocessing

import numpy as np
import pytest
from scipy import stats

from dglke_frugal import _native
from dglke_frugal.errors import InputError
from dglke_frugal.training.processes.process_group import RankError
from dglke_frugal.training.batches.sampler import BatchRing, Sampler, SamplerConfig

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


def test_inverses_take_the_place_of_corrupted_heads(triples):
    config = SamplerConfig(batch_size=100, neg_sample_size=20, seed=3, inverse=RELATIONS)
    plain, inverse = make(triples), Sampler(*triples.T, ENTITIES, 2 * RELATIONS, config)
    for step in (0, 7, 8, 41):
        one, other = plain.batch(step), inverse.batch(step)
        assert not other.corrupt_head
        expected = (one.head, one.relation, one.tail)
        if step % 2:
            expected = (one.tail, one.relation + RELATIONS, one.head)
        for array, wanted in zip((other.head, other.relation, other.tail), expected):
            np.testing.assert_array_equal(array, wanted)
        np.testing.assert_array_equal(other.negative, one.negative)
        np.testing.assert_array_equal(other.relations[other.relation_slot], other.relation)
        np.testing.assert_array_equal(other.entities[other.head_slot], other.head)
    with pytest.raises(InputError, match="inverse relations must be in the table"):
        make(triples, inverse=RELATIONS)


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


def test_weights_by_direction(triples):
    weight = np.random.default_rng(1).random((2, EDGES)).astype(np.float32)
    both, single = make(triples, weight=weight), [make(triples, weight=each) for each in weight]
    for step in range(45):
        assert_same(both.batch(step), single[step % 2].batch(step))
    with pytest.raises(InputError, match="one weight per edge"):
        make(triples, weight=weight[:, :-1])


@pytest.mark.parametrize("chunk, batch_size, rounded", [(1, 30, 30), (8, 30, 32), (30, 30, 30), (50, 30, 30)])
def test_positives_of_a_chunk_share_negatives(triples, chunk, batch_size, rounded):
    sampler = make(triples, batch_size=batch_size, neg_sample_size=7, chunk=chunk)
    chunk = min(chunk, rounded)
    assert (sampler.batch_size, sampler.chunk_size) == (rounded, chunk)
    drawn = []
    for step in range(200):
        batch = sampler.batch(step)
        assert len(batch) in (rounded, EDGES % rounded)  # the rest of an epoch
        assert (batch.chunk_size, batch.negatives_per_chunk) == (chunk, 7)
        assert len(batch.negative) == len(batch) // chunk * 7
        np.testing.assert_array_equal(batch.entities[batch.negative_slot], batch.negative)
        drawn.append(batch.negative)
    assert stats.chisquare(np.bincount(np.concatenate(drawn), minlength=ENTITIES)).pvalue > 1e-3
    assert len({each.tobytes() for each in drawn}) == 200


def test_as_many_positives_as_negatives_are_a_chunk_by_default(triples):
    by_default, given = make(triples), make(triples, chunk=20)
    for step in (0, 1, 77):
        assert_same(by_default.batch(step), given.batch(step))
    with pytest.raises(InputError, match="size of a chunk must be at least 0"):
        make(triples, chunk=-1)


@pytest.mark.parametrize("inverse", [0, 3])
@pytest.mark.parametrize("chunk", [1, 4])
def test_positives_are_no_negatives_where_they_are_excluded(chunk, inverse):
    """Negatives that were true of nothing before stay as they were; where everything is true something is drawn all the
    same."""
    triples = np.random.default_rng(4).integers(0, [40, 3, 40], (600, 3))
    triples[:40] = np.stack([np.full(40, 5), np.full(40, 1), np.arange(40)], 1)  # all answers of a query
    known = set(map(tuple, triples.tolist()))
    config = dict(batch_size=40, neg_sample_size=16, seed=3, chunk=chunk, inverse=inverse)
    plain, excluding = (Sampler(*triples.T, 40, 3 + inverse, SamplerConfig(**config, exclude_positive=exclude))
                        for exclude in (False, True))
    replaced, drawn = 0, np.zeros(40)
    for step in range(300):
        before, after = plain.batch(step), excluding.batch(step)
        np.testing.assert_array_equal(before.head, after.head)
        head, relation, tail = (each.reshape(-1, chunk) for each in (after.head, after.relation, after.tail))
        if inverse and step % 2:
            head, relation, tail = tail, relation - inverse, head

        def makes_a_triple(c, entity):
            return any((entity, r, t) in known if step % 2 else (h, r, entity) in known
                       for h, r, t in zip(head[c].tolist(), relation[c].tolist(), tail[c].tolist()))

        for c, (old, new) in enumerate(zip(*(each.negative.reshape(-1, 16).tolist() for each in (before, after)))):
            hopeless = all(makes_a_triple(c, entity) for entity in range(40))
            for one, other in zip(old, new):
                assert hopeless or not makes_a_triple(c, other)
                assert makes_a_triple(c, one) or one == other
                replaced += one != other
                drawn[other] += one != other
    assert replaced > 1000
    assert stats.chisquare(drawn).statistic < 40 * replaced / 1000  # near uniform; who is true varies


def test_triples_without_numbers(triples):
    with pytest.raises(InputError, match="too large for its triples to be told from others by 64 bits"):
        Sampler(*triples.T, 2**31, 2**10, SamplerConfig(100, 20, exclude_positive=True))


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


@pytest.mark.parametrize("config",
                         [{"batch_size": 0}, {"neg_sample_size": -1}, {"rank": 2, "ranks": 2}, {"ranks": 5000}])
def test_impossible_sizes_are_input_errors(triples, config):
    with pytest.raises(InputError, match="cannot sample batches"):
        make(triples, **config)


@pytest.mark.parametrize("config", [{"threads": -1}, {"lookahead": 0}])
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
        [rng.integers(0, n, edges) for n in (meta["n_entities"], meta["n_relations"], meta["n_entities"])], 1)
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


def _run_rank(triples, path, rank, steps, connection):
    sampler = make(triples)
    sampler.share(BatchRing(path), rank)
    with sampler.batches(7) as batches:
        entities = [batch.entities.copy() for batch in itertools.islice(batches, steps)]
    connection.send(entities)


def test_processes_share_what_they_make(triples):
    reference, steps = make(triples), 40
    ring = reference.make_ring(3)
    context = multiprocessing.get_context("fork")
    pipes = [context.Pipe() for _ in range(3)]
    processes = [context.Process(target=_run_rank, args=(triples, ring.path, rank, steps, pipes[rank][1]), daemon=True)
                 for rank in range(3)]
    for process in processes:
        process.start()
    for receive, _ in pipes:
        assert receive.poll(60), "a rank hangs"
        for step, entities in enumerate(receive.recv(), 7):
            np.testing.assert_array_equal(entities, reference.batch(step).entities)
    for process in processes:
        process.join(60)
        assert process.exitcode == 0


def test_that_a_rank_has_left_is_reported(triples):
    samplers = [make(triples) for _ in range(2)]
    ring = samplers[0].make_ring(2)
    for rank, sampler in enumerate(samplers):
        sampler.share(ring, rank)
    with samplers[0].batches() as stays:
        with samplers[1].batches() as leaves:
            next(leaves)
        with pytest.raises(RankError, match="Rank 1 left before step"):
            for _ in range(100):
                next(stays)


def test_threads_follow_the_cores_of_a_rank(monkeypatch):
    for cores, ranks, threads in [(1, 1, 1), (2, 1, 1), (16, 1, 4), (16, 8, 1), (128, 8, 4)]:
        monkeypatch.setattr("os.sched_getaffinity", lambda _, cores=cores: range(cores))
        assert SamplerConfig(100, 20, ranks=ranks).used_threads == threads
        assert SamplerConfig(100, 20, ranks=ranks, threads=3).used_threads == 3
