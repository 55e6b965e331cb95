"""Rows by key against a dictionary with scores: full tables, every policy, evictions, errors, resuming."""
import numpy as np
import pytest
import torch
from devices import CUDA
from hypothesis import HealthCheck, given, settings, strategies as st

from dglke_frugal import optim
from dglke_frugal.embedding import CacheConfig, Constant, Embedding, EmbeddingBag, Lookahead, Uniform
from dglke_frugal.errors import InputError
from embedding.plain import PlainKeys, PlainTable

DIM, CAPACITY = 5, 6
POLICIES = ["lru", "lfu", "epoch_lru", "epoch_lfu", "customized"]
OPTIMIZER = optim.RowwiseAdagrad(0.1)
IN_PLACE = CacheConfig(flush="none")
EDGES = [-(2**63), 2**63 - 1, 0, -2, 1 << 40]
key_lists = st.lists(st.sampled_from([*EDGES, *range(5, 12)]), min_size=1, max_size=9)


def make(policy="lru", capacity=CAPACITY, **settings_):
    settings_.setdefault("init", Uniform(-1, 1))
    return Embedding(embedding_dim=DIM, optimizer=OPTIMIZER, keys="int64", capacity=capacity, policy=policy,
                     **settings_)


def start(key, init=Uniform(-1, 1)):
    """What a key's row begins with: the same in every table."""
    module = make(init=init)
    with torch.no_grad():
        return module(torch.tensor([key]))[0]


def values_of(keys, rows):
    """rows: of a PlainKeys, None where a key was refused."""
    return torch.stack([start(key) if row is None else row.values for key, row in zip(keys, rows)])


@pytest.mark.parametrize("device", ["cpu", CUDA])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_full_table_does_what_a_dictionary_with_scores_does(policy, device):
    @settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
    @given(program=st.lists(st.tuples(st.sampled_from(["train", "train", "train", "read"]), key_lists), max_size=10),
           cache=st.sampled_from([IN_PLACE, CacheConfig(cache_ratio=0.5), CacheConfig(cache_ratio=0.0, lookahead=2)]),
           ahead=st.sampled_from([0, 1, 4]), seed=st.integers(0, 3))
    def every_program(program, cache, ahead, seed):
        module = make(policy, keep_evicted=True, cache=cache, device=device)
        plain = PlainKeys(policy, CAPACITY, OPTIMIZER, start)
        random = np.random.default_rng(seed)
        scores = [random.integers(0, 5, len(keys)) for _, keys in program]
        scores_in = [torch.from_numpy(each) if policy == "customized" else None for each in scores]
        train = [i for i, (what, _) in enumerate(program) if what == "train"]
        asked = 0
        for i, (what, keys) in enumerate(program):
            ids = torch.tensor(keys)
            if what == "read":
                with torch.no_grad():
                    assert torch.equal(module(ids).cpu(), values_of(keys, plain.find(keys)))
                continue
            for j in train[asked + module._table.pending : asked + ahead]:
                module.prefetch(torch.tensor(program[j][1]), scores=scores_in[j])
            asked += 1
            values = module(ids, scores_in[i])
            rows = plain.bring_in(keys, scores[i].tolist())
            assert torch.equal(values.detach().cpu(), values_of(keys, rows))
            gradient = torch.from_numpy(random.standard_normal((len(keys), DIM), np.float32))
            values.backward(gradient.to(values.device))
            for row in {id(row): row for row in rows if row is not None}.values():
                row.move(gradient[[each is row for each in rows]], OPTIMIZER.lr)
        held, rows = module.items()
        assert held.tolist() == [key for key, *_ in plain.used] and module.num_keys == len(plain.used)
        assert all(torch.equal(values, row.values) for values, (*_, row) in zip(rows, plain.used))
        went = module.take_evicted()
        assert (went is None) == (not plain.evicted)
        for k, (key, row, score) in enumerate(plain.evicted):
            assert (went.keys[k], went.scores[k]) == (key, score)
            np.testing.assert_array_equal(went.rows[k], row.numpy())
        assert module.take_evicted() is None

    every_program()


@pytest.mark.parametrize("cache", [IN_PLACE, CacheConfig(cache_ratio=0.5)])
def test_a_read_of_the_keys_that_come_next_takes_nothing_from_the_lookups_to_come(cache):
    module, keys = make("lru", cache=cache), torch.tensor([5])
    for _ in range(2):
        module.prefetch(keys)
    module(keys).sum().backward()
    with torch.no_grad():
        read = module(keys)
    values = module(keys)
    assert torch.equal(values, read)
    values.sum().backward()


def test_a_later_epoch_outlives_an_earlier_one():
    module = make("epoch_lfu", capacity=2)
    for _ in range(5):
        module(torch.tensor([1, 2])).sum().backward()
    module.set_epoch(1)
    module(torch.tensor([3])).sum().backward()
    assert 3 in module.items()[0]
    with pytest.raises(ValueError, match="back"):
        module.set_epoch(0)


def test_a_large_full_table_keeps_its_capacity_and_its_rows():
    """At load 1.0, over many sets: every key that is in has the row that its own gradients made."""
    module = make("lfu", capacity=1000, cache=CacheConfig(cache_ratio=0.1), init=Constant(0.0))
    random, uses = np.random.default_rng(0), {}
    for _ in range(40):
        keys = random.zipf(1.2, 500).astype(np.int64) * 0x9E3779B97F4A7C1
        present = set(module.items()[0].tolist())
        module(torch.from_numpy(keys)).sum().backward()
        now = set(module.items()[0].tolist())
        for key in set(keys.tolist()) & now:
            uses[key] = [*(uses[key] if key in present else []), (keys == key).sum()]
    assert module.num_keys == 1000
    held, rows = module.items()
    for key, row in list(zip(held.tolist(), rows))[::7]:
        plain = PlainTable(torch.zeros(1, DIM), OPTIMIZER)
        for count in uses[key]:
            plain.update(torch.zeros(count, dtype=torch.long), torch.ones(count, DIM))
        np.testing.assert_array_equal(row.numpy(), plain.weight[0])


def test_a_late_gradient_does_not_touch_a_row_that_another_key_has_now():
    module = make("lru", capacity=1)
    first = module(torch.tensor([7, 7]))
    second = module(torch.tensor([8]))
    first.sum().backward()
    assert torch.equal(module.items()[1][0], start(8))
    second.sum().backward()
    assert not torch.equal(module.items()[1][0], start(8))


CACHES = pytest.mark.parametrize("cache", [IN_PLACE, CacheConfig(cache_ratio=0.5)], ids=["in place", "cached"])


@CACHES
def test_a_late_gradient_of_a_key_that_was_refused_moves_nothing(cache):
    module = make("lru", capacity=1, cache=cache)
    first = module(torch.tensor([1, 2]))  # 1 takes the only row
    module(torch.tensor([2]))  # 2 puts 1 out
    first.backward(torch.full((2, DIM), 7.0))
    assert module.items()[0].tolist() == [2] and torch.equal(module.items()[1][0], start(2))


def evict(module):
    module(torch.tensor([[6]]))


def load(module):
    module.load_state_dict({name: value.clone() for name, value in module.state_dict().items()})


@CACHES
@pytest.mark.parametrize("bags", [False, True])
@pytest.mark.parametrize("leave", [evict, lambda module: module.erase(torch.tensor([5])), load,
                                   lambda module: module.reset_parameters()], ids=["evict", "erase", "load", "reset"])
def test_a_late_gradient_does_not_touch_a_new_row_of_its_key(leave, bags, cache):
    kind = EmbeddingBag if bags else Embedding
    module = kind(None, DIM, OPTIMIZER, keys="int64", capacity=1, init=Uniform(-1, 1), cache=cache)
    late = module(torch.tensor([[5]]))
    leave(module)
    module(torch.tensor([[5]]))
    late.backward(torch.full(late.shape, 7.0))
    assert torch.equal(module.items()[1][0], start(5))


@CACHES
@pytest.mark.parametrize("bags", [False, True])
def test_a_late_gradient_moves_the_rows_that_are_still_there(bags, cache):
    """Each by its own gradient, though another row of the lookup is gone."""
    kind = EmbeddingBag if bags else Embedding
    module = kind(None, DIM, optim.SGD(1.0), keys="int64", capacity=2, init=Constant(0.0), cache=cache)
    late = module(torch.tensor([[5], [6]]))
    module(torch.tensor([[6]]))
    module(torch.tensor([[7]]))  # puts 5 out
    gradient = torch.tensor([[1.0], [2.0]]) * torch.ones(DIM)
    late.backward(gradient.view(late.shape))
    rows = dict(zip(module.items()[0].tolist(), module.items()[1]))
    assert torch.equal(rows[6], torch.full((DIM,), -2.0)) and torch.equal(rows[7], torch.zeros(DIM))


@pytest.mark.parametrize("policy", ["lfu", "epoch_lru"])
def test_a_saved_table_goes_on_with_the_same_evictions(tmp_path, policy):
    def train(module, first, last):
        for step in range(first, last):
            module.set_epoch(step // 4)
            keys = torch.from_numpy(np.random.default_rng(step).zipf(1.5, 8) - 4)
            module(torch.where(keys == -1, 0, keys)).pow(2).sum().backward()

    whole, first = make(policy), make(policy, cache=CacheConfig(cache_ratio=0.5))
    train(whole, 0, 20)
    train(first, 0, 10)
    first.save(tmp_path / "table.safetensors")
    for again in (make(policy), make(policy, cache=CacheConfig(cache_ratio=0.5))):
        train(again, 0, 3)
        again.load(tmp_path / "table.safetensors")
        train(again, 10, 20)
        assert all(torch.equal(a, b) for a, b in zip(again.items(), whole.items()))
    third = make(policy)
    third.load_state_dict(first.state_dict())
    train(third, 10, 20)
    assert all(torch.equal(values, whole.state_dict()[name]) for name, values in third.state_dict().items()
               if name not in ("weight", "optimizer_state"))
    with pytest.raises(InputError, match="capacity|needs float32"):
        make(policy, capacity=5).load(tmp_path / "table.safetensors")
    with pytest.raises(InputError, match="safetensors"):
        first.save(tmp_path / "table.npy")


def test_keys_that_were_read_ahead_and_not_used_are_not_in():
    module = make(cache=CacheConfig(cache_ratio=0.5))
    batches = [torch.tensor([step]) for step in range(5)]
    for keys in Lookahead(batches, lambda batch: {module: batch}, 3):
        module(keys).sum().backward()
        break
    assert module.items()[0].tolist() == [0]
    with torch.no_grad():
        for keys in Lookahead(batches, lambda batch: {module: batch}, 3):
            module(keys)
    assert module.items()[0].tolist() == [0]


def test_a_gradient_that_is_not_finite_is_that_of_its_key():
    module = make(check_finite=True)
    with pytest.raises(FloatingPointError, match="the gradient of id 70 "):
        (module(torch.tensor([50, 60, 70])) * torch.tensor([[1.0], [1.0], [float("nan")]])).sum().backward()


@pytest.mark.parametrize("cache", [None, CacheConfig(cache_ratio=0.5)], ids=["in place", "cached"])
def test_close_forgets_the_keys_of_prefetched_lookups(cache):
    module, plain = make(cache=cache), make()
    module(torch.tensor([1])).sum().backward()
    plain(torch.tensor([1])).sum().backward()
    module.prefetch(torch.tensor([2, 3, 4]))
    module.close()
    for keys in (torch.tensor([5, 6]), torch.tensor([7, 8, 9, 10])):
        for each in (module, plain):
            each.prefetch(keys)
            each(keys).square().sum().backward()
    for ours, theirs in zip(module.items(), plain.items()):
        assert torch.equal(ours, theirs)


def test_erased_keys_begin_anew_and_reset_forgets_all():
    module = make()
    module(torch.tensor([1, 2])).sum().backward()
    assert module.erase(torch.tensor([2, 3, 2])).tolist() == [True, False, True]
    assert torch.equal(module(torch.tensor([2]))[0].detach(), start(2))
    module.reset_parameters()
    assert module.num_keys == 0 and torch.equal(module(torch.tensor([1]))[0].detach(), start(1))


@pytest.mark.parametrize("wrong, error, sentence", [
    (lambda: make(capacity=0), ValueError, "capacity"), (lambda: make("fifo"), ValueError, "lru, lfu"),
    (lambda: make(init=torch.nn.init.ones_), ValueError, "depend on the key"),
    (lambda: make(padding_idx=0), ValueError, "padding_idx"),
    (lambda: Embedding(5, 4, OPTIMIZER, keys="int64", capacity=5), ValueError, "num_embeddings, or"),
    (lambda: Embedding(5, 4, OPTIMIZER, keys="str"), ValueError, "int64"),
    (lambda: make()(torch.tensor([-1])), IndexError, "reserved"),
    (lambda: make("customized")(torch.tensor([1])), ValueError, "customized"),
    (lambda: make()(torch.tensor([1]), torch.tensor([1])), ValueError, "customized"),
    (lambda: make("customized")(torch.tensor([1]), torch.tensor([-1])), ValueError, "at least 0"),
    *((lambda epoch=epoch: make("epoch_lru").set_epoch(epoch), ValueError, "an epoch is a whole number")
      for epoch in (-1, 2**32, 2.5, "a")),
    (lambda: Embedding(5, 4, OPTIMIZER).items(), ValueError, "no keys")])
def test_what_makes_no_sense_is_refused_in_a_sentence(wrong, error, sentence):
    with pytest.raises(error, match=sentence):
        wrong()
