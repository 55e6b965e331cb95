"""KvsAll: queries with all their answers, against the formulas over dense labels."""
import numpy as np
import pytest
from devices import device  # noqa: F401
from training.full_softmax.oracle import Oracle
from training.full_softmax.steps import RELATIONS, Trained, answers_of, labels_of, make_config, make_tables

from dglke_frugal.data import KnowledgeGraph, Triples
from dglke_frugal.training.batches.sampler import SamplerConfig
from dglke_frugal.training.full_softmax import tile_products
from dglke_frugal.training.full_softmax.queries import Queries, QuerySampler
from dglke_frugal.training.full_softmax.targets import AllAnswers

ENTITIES = 1100


@pytest.fixture
def graph():
    """Few known entities, so that queries have many answers; some triples stand there twice."""
    random = np.random.default_rng(1)
    head, tail = random.integers(0, 9, 400), random.integers(0, ENTITIES, 400)
    tail[::3] = random.integers(0, 9, len(tail[::3]))
    relation = random.integers(0, RELATIONS, 400)
    head, relation, tail = (np.append(column, column[:20]) for column in (head, relation, tail))
    return KnowledgeGraph("g", ENTITIES, RELATIONS, Triples(head, relation, tail))


@pytest.mark.parametrize("corrupt_head", [False, True])
def test_queries_and_their_answers(graph, corrupt_head):
    queries, train = Queries.of(graph, corrupt_head), graph.train
    known = train.tail if corrupt_head else train.head
    assert sorted({(int(k), int(r)) for k, r in zip(known, train.relation)}) == [divmod(int(key), RELATIONS)
                                                                              for key in queries.key]
    for number, (key, triple) in enumerate(zip(queries.key, queries.triple)):
        found = queries.answer[queries.offset[number] : queries.offset[number + 1]]
        assert list(found) == sorted(answers_of(graph, *divmod(int(key), RELATIONS), corrupt_head))
        assert (known[triple], train.relation[triple]) == divmod(int(key), RELATIONS)


def test_every_epoch_has_each_query_once(graph):
    queries = Queries.of(graph, False), Queries.of(graph, True)
    sampler = QuerySampler(graph, queries, SamplerConfig(16, 0, 3))
    steps = -(-len(queries[0].key) // 16)
    seen = []
    with sampler.batches(0) as batches:
        for step in range(2 * steps):
            batch = next(batches)
            assert batch.step == step and batch.corrupt_head == bool(step % 2)
            if step % 2 == 0:
                seen += list(batch.head * RELATIONS + batch.relation)
    assert sorted(seen) == list(queries[0].key)
    with sampler.batches(5) as batches:  # a resumed run goes on with the same ones
        np.testing.assert_array_equal(next(batches).head, sampler.batch(5).head)


def test_with_inverse_relations_all_queries_ask_for_tails(graph):
    queries = Queries.of(graph, False, True), Queries.of(graph, True, True)
    both, head = queries[0].and_others(queries[1]), graph.train.head
    assert (np.diff(both.key) > 0).all() and len(both.key) == sum(len(each.key) for each in queries)
    for number, (key, triple) in enumerate(zip(both.key, both.triple)):
        known, relation = divmod(int(key), 2 * RELATIONS)
        inverse = relation >= RELATIONS
        found = both.answer[both.offset[number] : both.offset[number + 1]]
        assert list(found) == sorted(answers_of(graph, known, relation % RELATIONS, inverse))
        assert (graph.train.tail if inverse else head)[triple] == known
    sampler = QuerySampler(graph, queries, SamplerConfig(16, 0, 3, inverse=RELATIONS))
    for step in range(4):
        batch = sampler.batch(step)
        assert not batch.corrupt_head and ((batch.relation >= RELATIONS) == bool(step % 2)).all()
        assert set(batch.head * 2 * RELATIONS + batch.relation) <= set(queries[step % 2].key)


@pytest.mark.parametrize("smoothing, inverse", [(0.0, False), (0.3, False), (0.3, True)])
@pytest.mark.parametrize("model", ["ComplEx", "SimplE", "TransE_l2", "RotatE"])
@pytest.mark.parametrize("binary", [False, True])
def test_against_autograd(binary, model, smoothing, inverse, graph, device, monkeypatch):  # noqa: F811
    if binary and device.torch_device.type == "cuda":
        pytest.skip("--loss_genre BCE with all entities is refused on a GPU")
    for products in (tile_products.HostProducts, tile_products.DeviceProducts):
        monkeypatch.setattr(products, "tile_floats", 0)
    config = make_config(model, kvsall=True, label_smoothing=smoothing, learning_rate=0.02, binary=binary)
    relations = 2 * RELATIONS if inverse else RELATIONS
    tables = make_tables(config, ENTITIES, relations=relations)
    queries = Queries.of(graph, False, inverse), Queries.of(graph, True, inverse)
    asked = (queries[0].and_others(queries[1]),) if inverse else queries
    trained = Trained(config, tables, device, targets=AllAnswers(device, asked, ENTITIES, relations, smoothing, binary))
    oracle = Oracle(config, *(table.embeddings for table in tables))
    sampler = QuerySampler(graph, queries, SamplerConfig(16, 0, 3, inverse=RELATIONS if inverse else 0))
    for number in range(4):
        batch = sampler.batch(number)
        labels = labels_of(graph, batch, smoothing, binary)
        np.testing.assert_allclose(trained.run(batch, number), oracle.step(batch, number, labels), rtol=2e-5)
        for table, expected in zip(tables, oracle.tables):
            np.testing.assert_allclose(table.embeddings, expected.numpy(), rtol=0, atol=1e-4)
