"""Whatever the store does in between, a lookup reads, and its gradient changes, what a plain loop would."""
import copy

import numpy as np
import pytest
import torch
from devices import CUDA, STREAMS, CallersStreams, make_device
from hypothesis import HealthCheck, given, settings, strategies as st

import dglke_frugal
from dglke_frugal import optim
from dglke_frugal.embedding import CacheConfig, Constant, Embedding, Lookahead, Normal, Uniform, Xavier
from dglke_frugal.store.device import cuda_device
from embedding.plain import PlainTable, with_rate

ROWS, DIM = 40, 9
OPTIMIZERS = [optim.SGD(0.1), optim.RowwiseAdagrad(0.1), optim.Adagrad(0.1), optim.Adam(0.1),
              optim.RowwiseAdam(0.05, (0.8, 0.9), 1e-3), optim.SGD(0.1, clip=2.5), optim.RowwiseAdagrad(0.1, clip=2.5),
              optim.Adam(0.1, clip=2.0)]
IN_PLACE = CacheConfig(flush="none")
caches = st.builds(
    CacheConfig, cache_ratio=st.sampled_from([0.0, 0.1, 0.5, 1.0]), lookahead=st.integers(1, 6),
    cache_policy=st.sampled_from([None, "static", "lfu"]),
    hot_ids=st.just(tuple(range(ROWS))), flush=st.sampled_from(["auto", "p2f", "sync", "none"]),
    flush_threads=st.integers(1, 3))
some_ids = st.lists(st.integers(0, ROWS - 1), max_size=12).map(torch.tensor).map(torch.Tensor.long)
actions = st.one_of(
    st.tuples(st.just("train"), some_ids), st.tuples(st.just("train"), some_ids),
    st.tuples(st.just("two"), some_ids, some_ids), st.tuples(st.just("swapped"), some_ids, some_ids),
    st.tuples(st.just("read"), some_ids), st.tuples(st.just("no gradient"), some_ids),
    st.tuples(st.just("reload")), st.tuples(st.just("rate"), st.sampled_from([0.05, 0.2])))


def make(optimizer=OPTIMIZERS[0], rows=ROWS, dim=DIM, **settings_):
    settings_.setdefault("init", Uniform(-1, 1))
    return Embedding(rows, dim, copy.deepcopy(optimizer), **settings_)


def gradient_of(values, number):
    noise = torch.from_numpy(np.random.default_rng(number).standard_normal(tuple(values.shape), np.float32))
    return noise + values.detach().cpu()


def lookups_of(program):
    return [ids for action in program if action[0] in ("train", "two", "swapped", "no gradient") for ids in action[1:]]


def run(module, plain, program, ahead):
    """Both do the same; `ahead` lookups are prefetched."""
    to_come = lookups_of(program)
    prefetched = asked = 0

    def look_up(ids):
        nonlocal prefetched, asked
        while prefetched < min(len(to_come), asked + ahead):
            module.prefetch(to_come[prefetched])
            prefetched += 1
        asked += 1
        if not ahead:
            prefetched = asked
        values = module(ids)
        assert torch.equal(values.detach().cpu(), plain.read(ids))
        return values

    def deliver(ids, values, number):
        gradient = gradient_of(values, number)
        (values.backward if number % 3 else lambda given: module.learn(values, given))(gradient.to(values.device))
        plain.update(ids, gradient)

    for number, (what, *operands) in enumerate(program):
        if what == "train":
            deliver(operands[0], look_up(operands[0]), number)
        elif what in ("two", "swapped"):
            pairs = [(ids, look_up(ids)) for ids in operands]
            for i, pair in enumerate(reversed(pairs) if what == "swapped" else pairs):
                deliver(*pair, 100 * number + i)
        elif what == "read":
            if prefetched > asked and np.array_equal(operands[0].reshape(-1), to_come[asked].reshape(-1)):
                continue  # that would be the lookup which was prefetched
            with torch.no_grad():
                assert torch.equal(module(operands[0]).cpu(), plain.read(operands[0]))
        elif what == "no gradient":
            look_up(operands[0])
        elif what == "reload":
            module.load_state_dict({name: values.clone() for name, values in module.state_dict().items()})
        else:
            module.learning_rate = operands[0]
            plain.optimizer = with_rate(plain.optimizer, operands[0])
    check(module, plain)
    module.close()


def check(module, plain):
    state = module.state_dict()
    np.testing.assert_array_equal(state["weight"].numpy(), plain.weight)
    if plain.state.shape[1]:
        np.testing.assert_array_equal(state["optimizer_state"].numpy(), plain.state)


@pytest.mark.parametrize("name", ["host", "cpu", "queued", "late", "compute ahead", "prefetches ahead",
                                  "write-backs ahead", CUDA])
def test_every_setting_gives_the_bits_of_a_plain_loop(name):
    @settings(max_examples=40 if name == "host" else 8, deadline=None, suppress_health_check=list(HealthCheck))
    @given(optimizer=st.sampled_from(OPTIMIZERS), cache=caches, program=st.lists(actions, max_size=12),
           ahead=st.sampled_from([0, 1, 3, 8]))
    def every_setting(optimizer, cache, program, ahead):
        if "ahead" in name or name == "late":  # nothing runs there that flush threads could wait for
            cache = CacheConfig(**{**vars(cache), "flush": "none" if cache.flush == "none" else "direct"})
        device = {"host": "cpu", "cuda": "cuda"}.get(name) or make_device(name)
        module = make(optimizer, cache=cache, device=device)
        run(module, PlainTable(module.weight, optimizer), program, ahead)

    every_setting()


@pytest.mark.parametrize("callers_ahead", [False, True])
@pytest.mark.parametrize("streams", STREAMS)
@pytest.mark.parametrize("cache", [CacheConfig(flush="none"), CacheConfig(cache_ratio=0.0),
                                   CacheConfig(cache_ratio=0.2, hot_ids=range(8))], ids=["none", "uva", "cache"])
def test_streams_keep_the_order_of_lookups_with_the_host_ahead(cache, streams, callers_ahead, monkeypatch):
    device = CallersStreams(*STREAMS[streams])
    if callers_ahead:
        device.ahead_of_all(device.callers)
    random = torch.Generator().manual_seed(5)
    with device.torch_calls(monkeypatch):
        module = make(optim.Adagrad(0.1), cache=cache, device=device)
        plain = PlainTable(module.weight.contiguous(), optim.Adagrad(0.1))
        lookups = [torch.randint(ROWS, (15,), generator=random) for _ in range(16)]
        read = []
        for ids in Lookahead(lookups, lambda ids: {module: ids}, 3):
            read.append((module(ids), plain.read(ids)))  # nobody looks yet
            gradient = torch.randn(15, DIM, generator=random)
            module.learn(read[-1][0], gradient)
            plain.update(ids, gradient)
        np.testing.assert_array_equal(module.weight.numpy(), plain.weight)
        device.callers.run()
        for values, expected in read:
            assert torch.equal(values.detach(), expected)
        module.close()


@pytest.mark.parametrize("device", ["cpu", CUDA])
@pytest.mark.parametrize("dim", [1, 3, 31, 32, 33, 128])
@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=lambda each: type(each).__name__)
def test_rows_of_any_length_with_ids_that_occur_very_often(optimizer, dim, device):
    for cache in (IN_PLACE, CacheConfig(cache_ratio=0.2), CacheConfig(cache_ratio=0.2, flush="p2f")):
        module = make(optimizer, 1000, dim, device=device, cache=cache)
        plain = PlainTable(module.weight, optimizer)
        random = np.random.default_rng(dim)
        ids = torch.from_numpy(np.concatenate([random.zipf(1.3, 900) % 1000, np.full(700, 7)])).view(2, -1)
        run(module, plain, [("train", ids), ("train", ids[0]), ("read", ids[1])], 2)


@pytest.mark.cuda
@pytest.mark.parametrize("optimizer", OPTIMIZERS[:2], ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("cache", [IN_PLACE, CacheConfig(cache_ratio=0.2), CacheConfig(cache_ratio=0.2, flush="p2f")])
def test_ids_that_the_gpu_sorts_give_the_same_bits(optimizer, cache, monkeypatch):
    """Lookups of many lengths, some with ids of padding, some asked for without having been prefetched."""
    monkeypatch.setattr(cuda_device, "MANY_IDS", 1)
    module = make(optimizer, 1000, 8, device="cuda", cache=cache)
    plain = PlainTable(module.weight.clone(), optimizer)
    random = np.random.default_rng(3)
    program = [("train", torch.from_numpy(random.zipf(1.3, count) % 1000)) for count in (5, 700, 1, 0, 2000, 30, 3000)]
    for ahead in (3, 0):
        run(module, plain, program, ahead)
    np.testing.assert_array_equal(module.weight.numpy(), plain.weight)
    with pytest.raises(IndexError, match="id 1000 at position 2"):
        module(torch.tensor([0, 5, 1000]))


@pytest.mark.parametrize("device", ["cpu", "queued"])
def test_a_gradient_may_come_many_lookups_later(device):
    """Its occurrences are still known, though others have been sorted out into memory like theirs."""
    module = make(device=make_device(device), cache=CacheConfig(cache_ratio=0.3))
    plain = PlainTable(module.weight.clone(), OPTIMIZERS[0])
    lookups = [torch.randint(ROWS, (11,), generator=torch.Generator().manual_seed(n)) for n in range(20)]
    trained = iter(Lookahead(lookups, lambda ids: {module: ids}, 3))
    first = module(next(trained))
    gradient = gradient_of(first, 0)
    for number, ids in enumerate(trained, 1):
        values = module(ids)
        plain.update(ids, gradient_of(values, number))
        values.backward(gradient_of(values, number))
    first.backward(gradient)
    plain.update(lookups[0], gradient)
    np.testing.assert_array_equal(module.weight.numpy(), plain.weight)


def test_learn_takes_rows_as_they_were_given_and_a_gradient_like_them():
    module = make()
    rows = module(torch.tensor([[1, 2]]))
    before = module.weight.clone()
    for wrong, gradient, sentence in ((rows * 2, rows.detach(), "rows.backward"),
                                      (rows.detach(), rows, "rows.backward"),
                                      (make()(torch.tensor([[1, 2]])), rows.detach(), "rows.backward"),
                                      (rows, torch.ones(2, DIM), "(1, 2, 9)")):
        with pytest.raises(ValueError) as error:
            module.learn(wrong, gradient)
        assert sentence in str(error.value)
    assert torch.equal(module.weight, before)


def test_the_gradient_is_the_derivative():
    """Against torch's gradcheck of the same loss on the same rows in float64."""
    module = make(optim.SGD(1.0))
    ids = torch.tensor([[3, 5, 3], [0, 3, 39]])
    before = module.weight.double().requires_grad_()

    def loss(values):
        return (values.sin() * torch.arange(DIM)).sum()

    assert torch.autograd.gradcheck(lambda table: loss(table[ids]), before)
    loss(before[ids]).backward()
    loss(module(ids)).backward()
    torch.testing.assert_close((before.detach() - module.weight).float(), before.grad.float(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("cache", [None, CacheConfig(cache_ratio=0.3)], ids=["in place", "cached"])
@pytest.mark.parametrize("dim", [1, DIM])
@pytest.mark.parametrize("ids", [torch.tensor(3), torch.tensor([3])])
def test_the_gradient_of_one_row_may_be_one_number_that_is_repeated(ids, dim, cache):
    """As that of a sum, whose strides are 0: torch calls it contiguous where a row is one number."""
    module = make(optim.SGD(0.5), dim=dim, init=Constant(2.0), cache=cache)
    module(ids).sum().backward()
    assert (module.weight[3] == 1.5).all()
    rows = module(ids)
    module.learn(rows, torch.ones(dim).expand(rows.shape))
    assert (module.weight[3] == 1).all()


def test_several_tables_in_a_step():
    modules = [make(optim.RowwiseAdagrad(0.1), seed=seed, cache=CacheConfig(cache_ratio=0.3)) for seed in range(3)]
    plain = [PlainTable(module.weight, optim.RowwiseAdagrad(0.1)) for module in modules]
    batches = [[torch.randint(ROWS, (5,), generator=torch.Generator().manual_seed(10 * step + t)) for t in range(3)]
               for step in range(12)]
    for batch in Lookahead(batches, lambda batch: dict(zip(modules, batch)), 4):
        values = [module(ids) for module, ids in zip(modules, batch)]
        sum(value.pow(2).sum() for value in values).backward()
        for table, ids, value in zip(plain, batch, values):
            table.update(ids, 2 * value.detach())
    for module, table in zip(modules, plain):
        check(module, table)


def test_a_loop_that_is_left_early_forgets_what_it_read_ahead():
    module = make(cache=CacheConfig(cache_ratio=0.3))
    batches = [torch.tensor([step]) for step in range(10)]
    before = module.weight.clone()
    for batch in Lookahead(batches, lambda ids: {module: ids}, 5):
        module(batch).sum().backward()
        break
    assert torch.equal(module(torch.tensor([7])).detach(), before[[7]])
    assert not torch.equal(module.weight[0], before[0])


def test_a_lookahead_knows_its_length_and_needs_at_least_one_batch():
    assert len(Lookahead([1, 2], dict)) == 2
    with pytest.raises(ValueError, match="at least 1"):
        Lookahead([], dict, 0)


def test_padding_reads_zeros_and_is_never_updated():
    module = make(padding_idx=-1)
    before = module.weight.clone()
    values = module(torch.tensor([ROWS - 1, 2]))
    assert not values[0].any() and torch.equal(values[1].detach(), before[2])
    values.sum().backward()
    assert not module.weight[-1].any() and not torch.equal(module.weight[2], before[2])
    module.reset_parameters()
    theirs = torch.nn.Embedding(ROWS, DIM, padding_idx=ROWS - 1)
    theirs.load_state_dict({"weight": module.state_dict()["weight"]})
    assert torch.equal(theirs(torch.tensor([ROWS - 1, 2])), module(torch.tensor([ROWS - 1, 2])))


@pytest.mark.parametrize("bad", [torch.tensor([1, ROWS]), torch.tensor([-1])])
@pytest.mark.parametrize("cache", [IN_PLACE, CacheConfig(cache_ratio=0.2)])
def test_an_id_outside_the_table_is_reported_and_changes_nothing(bad, cache):
    module = make(cache=cache)
    before = module.weight.clone()
    with pytest.raises(IndexError, match=str(bad[-1].item())):
        module(bad)
    module(torch.tensor([1])).sum().backward()
    before[1] -= 0.1
    torch.testing.assert_close(module.weight, before)


def test_an_id_outside_the_table_that_was_prefetched_is_reported_when_it_is_looked_up():
    module = make(cache=CacheConfig(cache_ratio=0.2))
    for ids in (torch.tensor([1]), torch.tensor([2, ROWS])):
        module.prefetch(ids)
    module(torch.tensor([1])).sum().backward()
    for _ in range(2):
        with pytest.raises(IndexError, match=str(ROWS)):
            module(torch.tensor([2, ROWS]))
    module.discard_prefetched()
    assert torch.equal(module(torch.tensor([2]))[0].detach(), module.weight[2])


@pytest.mark.parametrize("keys", [False, True])
def test_a_prefetched_tensor_that_was_changed_since_is_not_the_next_lookup(keys):
    rows = {"keys": "int64", "capacity": 9} if keys else {"num_embeddings": 9}
    module = Embedding(embedding_dim=2, optimizer=optim.SGD(0.1), **rows)
    ids = torch.tensor([1, 2])
    module.prefetch(ids)
    ids[0] = 3
    with pytest.raises(RuntimeError, match="in the order of prefetch"):
        module(ids)
    ids[0] = 1  # what counts are the ids
    module(ids).sum().backward()
    module.prefetch(ids)
    expected = module.weight[ids].clone() if not keys else None
    values = module(ids)
    assert module._table.pending == 0 and (keys or torch.equal(values, expected))


def test_ids_of_inference_mode_are_looked_up_by_their_numbers():
    module = Embedding(9, 2, optim.SGD(0.1))
    with torch.inference_mode():
        ids = torch.tensor([1, 2])
    module.prefetch(ids)
    assert torch.equal(module(ids), module.weight[[1, 2]])
    assert module._table.pending == 0


def test_lookups_must_come_in_the_order_of_prefetch():
    module = make()
    module.prefetch(torch.tensor([1]))
    with pytest.raises(RuntimeError, match="in the order of prefetch"):
        module(torch.tensor([2]))
    module.discard_prefetched()
    module(torch.tensor([2]))


def test_a_table_that_is_closed_while_lookups_are_prefetched_says_so_at_the_next_one():
    module, batches = make(), [torch.tensor([i]) for i in range(9)]
    with pytest.raises(RuntimeError, match=r"close\(\) forgets"):
        for ids in Lookahead(batches, lambda ids: {module: ids}, 2):
            module(ids)
            module.close()


def test_a_table_without_keys_has_no_number_of_keys():
    assert not hasattr(make(), "num_keys") and hasattr(Embedding(embedding_dim=2, optimizer=optim.SGD(0.1),
                                                                 keys="int64", capacity=9), "num_keys")


@pytest.mark.parametrize("bag", [False, True])
def test_nan_is_found_if_asked_for(bag):
    make_one = dglke_frugal.EmbeddingBag if bag else Embedding
    module = make_one(ROWS, DIM, optim.SGD(0.1), check_finite=True, init=Constant(1.0))
    values = module(torch.tensor([[4, 5], [6, 7]]))
    values.retain_grad()
    with pytest.raises(FloatingPointError, match="id 6"):
        (values * torch.tensor([1.0, float("nan")]).view(2, *[1] * (values.dim() - 1))).sum().backward()
    assert (module.weight == 1).all()


@pytest.mark.parametrize("wrong, sentence", [
    (lambda: Embedding(0, 4, optim.SGD(1)), "at least one row"),
    (lambda: Embedding(4, 4, torch.optim.SGD), "no parameters"),
    (lambda: Embedding(4, 4, optim.SGD(1), padding_idx=4), "outside the table"),
    (lambda: Embedding(4, 4, optim.SGD(1), padding_idx=1.5), "padding_idx 1.5"),
    (lambda: Embedding(4, 4, optim.SGD(1), padding_idx="0"), "padding_idx '0'"),
    (lambda: Embedding(4, 4, optim.SGD(1), device="meta"), "'cpu' or 'cuda'"),
    *((lambda device=device: Embedding(4, 4, optim.SGD(1), device=device), f"device is {device}")
      for device in (None, 3.5)),
    (lambda: make().learn(None, None), "rows as forward"),
    (lambda: (module := make()).learn(module(torch.tensor([1])), [[1.0]]), "not of type list"),
    (lambda: make(cache={"cache_ratio": 0.1}), "cache is a CacheConfig"),
    (lambda: CacheConfig(cache_ratio="0.1"), "0 to 1"), (lambda: CacheConfig(lookahead=2.5), "lookahead is a whole"),
    (lambda: CacheConfig(lookahead=10**12), "lookahead is a whole"),
    (lambda: CacheConfig(flush_threads=1.5), "flush_threads is a whole"),
    (lambda: CacheConfig(flush_threads=10**6), "flush_threads is at most 1024"),
    (lambda: CacheConfig(max_rows=0), "max_rows is a whole"), (lambda: CacheConfig(max_rows=1.5), "max_rows is a"),
    (lambda: CacheConfig(hot_ids=[1.5]), "hot_ids are"), (lambda: CacheConfig(hot_ids=[[1], [2]]), "hot_ids are"),
    *((lambda row=row: make(cache=CacheConfig(hot_ids=[0, row])), f"from 0 to {ROWS - 1}, .*, not {row}")
      for row in (-1, ROWS, 2**31, -2**40)),
    (lambda: CacheConfig(cache_ratio=2), "0 to 1"),
    (lambda: CacheConfig(flush="later"), "auto, p2f, direct, sync, none"),
    (lambda: make(cache=CacheConfig(flush="direct")), "use 'p2f' on the CPU"),
    (lambda: make(cache=CacheConfig(flush="direct", ranks=9, max_rows=4), device=make_device("cpu")), "at most 8 ran"),
    (lambda: CacheConfig(cache_policy="static"), "hot_ids"), (lambda: CacheConfig(lookahead=0), "at least 1"),
    (lambda: optim.SGD(-1), "at least 0"), (lambda: optim.Adagrad(1, eps=0), "above 0"),
    (lambda: make()(torch.tensor([1.0])), "int64 or int32"),
    (lambda: make(seed=-1), "from 0 to"), (lambda: make(seed="1"), "from 0 to"),
    (lambda: make(seed=2**64), "from 0 to"),
    (lambda: make(init=Constant(1e39)), "finite"), (lambda: make(init=Uniform(-3e38, 3e38)), "finite"),
    (lambda: make(init=Xavier(1e39)), "finite"), (lambda: make(init=Uniform("a", "b")), "finite"),
    (lambda: make(init=Constant(float("nan"))), "finite"), (lambda: make(init=Normal(0, float("inf"))), "finite"),
    (lambda: make(init=torch.zeros_like), "in place"),
    (lambda: make(init=Uniform), "init is Normal"), (lambda: make(init=0.5), "init is Normal"),
    (lambda: setattr(make(), "learning_rate", -1), "at least 0")])
def test_what_makes_no_sense_is_refused_in_a_sentence(wrong, sentence):
    with pytest.raises(ValueError, match=sentence):
        wrong()


def test_start_values_depend_on_seed_and_row_alone():
    for init in (Uniform(-0.5, 0.5), Normal(1, 0.1)):
        small, large = (make(rows=rows, init=init, seed=3).weight.clone() for rows in (10, 70000))
        assert torch.equal(small, large[:10])
        assert not torch.equal(small, make(rows=10, init=init, seed=4).weight)
    assert -0.5 <= make(init=Uniform(-0.5, 0.5)).weight.min() <= make(init=Uniform(-0.5, 0.5)).weight.max() < 0.5
    assert abs(large.mean() - 1) < 1e-3 and abs(large.std() - 0.1) < 1e-3
    assert (make(init=torch.nn.init.ones_).weight == 1).all() and (make(init=Constant(2)).weight == 2).all()


def test_reset_parameters_starts_anew():
    module = make(optim.RowwiseAdagrad(0.1), cache=CacheConfig(cache_ratio=0.5))
    before = module.weight.clone()
    module(torch.arange(20)).sum().backward()
    module.reset_parameters()
    assert torch.equal(module.weight, before) and not module.state_dict()["optimizer_state"].any()
    assert torch.equal(module(torch.arange(20)).detach(), before[:20])


def test_statistics_count_hits():
    module = make(cache=CacheConfig(cache_ratio=0.5, hot_ids=range(ROWS)))
    for _ in range(3):
        module(torch.tensor([0, 39])).sum().backward()
    counted = module.statistics()["ranks"][0]
    assert (counted["cache_reads"], counted["host_reads"]) == (2, 4)
    assert make().statistics() is None
