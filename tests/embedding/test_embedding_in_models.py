"""What PyTorch's users do to a model does to an Embedding in it what it does to torch.nn.Embedding, or is refused."""
import copy
import io
import pickle
from multiprocessing.reduction import ForkingPickler

import pytest
import torch
from torch import nn
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from torch.utils.checkpoint import checkpoint

from dglke_frugal import Embedding, EmbeddingBag, optim
from dglke_frugal.embedding import CacheConfig, Constant, Uniform, loss_scaling

ROWS, DIM = 20, 4
IDS = torch.tensor([[1, 2], [3, 1]])
CACHES = pytest.mark.parametrize("cache", [None, CacheConfig(cache_ratio=0.3)], ids=["in place", "cached"])
MODULES = pytest.mark.parametrize("kind", [Embedding, EmbeddingBag])


def make(kind=Embedding, optimizer=optim.SGD(0.1), **settings):
    settings.setdefault("init", Uniform(-1, 1))
    return kind(ROWS, DIM, optimizer, **settings)


def make_model(*args, **settings):
    torch.manual_seed(0)
    return nn.Sequential(make(*args, **settings), nn.Linear(DIM, 2), nn.Tanh())


def moved(module, act):
    """Whether rows have moved."""
    before = module.weight.clone()
    act()
    return not torch.equal(module.weight, before)


def train(model):
    model(IDS).sum().backward()


@MODULES
@CACHES
def test_a_frozen_model_reads_its_tables_only(kind, cache):
    freezes = [lambda model: model.requires_grad_(False), lambda model: model[0].requires_grad_(False),
               lambda model: [parameter.requires_grad_(False) for parameter in model.parameters()]]
    for freeze in freezes:
        model, head = make_model(kind, cache=cache), nn.Linear(2, 1)
        freeze(model)
        assert not model[0](IDS).requires_grad
        assert not moved(model[0], lambda: head(model(IDS)).sum().backward())
        model.requires_grad_(True).eval()  # which changes nothing, as for torch's own
        assert moved(model[0], lambda: train(model))


@CACHES
def test_a_gradient_that_comes_after_freezing_is_dropped(cache):
    module = make(cache=cache)
    values = module(IDS)
    module.requires_grad_(False)
    assert not moved(module, values.sum().backward)


@MODULES
@CACHES
def test_a_grad_scaler_changes_nothing(kind, cache):
    for optimizer in (optim.SGD(0.1), optim.Adagrad(0.1)):
        plain, scaled = (make_model(kind, optimizer, cache=cache) for _ in range(2))
        scaler = torch.amp.GradScaler("cpu")
        for step in range(4):
            losses = [model(IDS).sum() for model in (plain, scaled)]
            losses[0].backward()
            if step == 1:  # a list of losses, of which the second one counts
                losses[1] = scaler.scale([torch.zeros(1), losses[1]])[1]
            else:
                losses[1] = scaler.scale(losses[1])
            losses[1].backward()
            scaler.update()
        assert torch.equal(plain[0].weight, scaled[0].weight)


@CACHES
@pytest.mark.parametrize("check_finite", [False, True])
def test_a_step_that_overflows_is_skipped_and_lowers_the_factor(cache, check_finite):
    model, scaler = make_model(cache=cache, check_finite=check_finite), torch.amp.GradScaler("cpu")
    assert not moved(model[0], lambda: scaler.scale(model(IDS).sum() * 1e38).backward())
    scaler.update()  # knows of the table alone
    assert scaler.get_scale() == 32768.0
    assert moved(model[0], lambda: scaler.scale(model(IDS).sum()).backward())


def test_scaled_and_other_losses_take_turns():
    model, plain = make_model(), make_model()
    scaler = torch.amp.GradScaler("cpu")
    for _ in range(2):
        scaler.scale(model(IDS).sum()).backward()
        model(IDS).sum().backward()
        torch.amp.GradScaler("cpu", enabled=False).scale(model(IDS).sum()).backward()
    for _ in range(6):
        train(plain)
    assert torch.equal(model[0].weight, plain[0].weight)


@CACHES
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("reentrant", [False, True])
def test_a_part_that_is_computed_again_trains_once(cache, reentrant, scaled):
    model, plain = make_model(cache=cache), make_model()
    train(plain)
    loss = checkpoint(lambda more: model(IDS) + more, torch.zeros(1, requires_grad=True), use_reentrant=reentrant).sum()
    (torch.amp.GradScaler("cpu").scale(loss) if scaled else loss).backward()
    assert torch.equal(model[0].weight, plain[0].weight)


@CACHES
@pytest.mark.parametrize("reentrant", [False, True])
def test_a_part_of_a_part_that_is_computed_again_trains_once(cache, reentrant):
    """The lookup is read in a backward within a backward within that of the scaled loss."""
    def loss_of(model):
        def again(function, more, reentrant=True):
            return checkpoint(function, more, use_reentrant=reentrant) * 1.0

        return again(lambda more: again(lambda more: model(IDS) + more, more, reentrant),
                     torch.zeros(1, requires_grad=True)).sum()

    model, plain = make_model(cache=cache), make_model()
    loss_of(plain).backward()
    torch.amp.GradScaler("cpu").scale(loss_of(model)).backward()
    assert torch.equal(model[0].weight, plain[0].weight)


def test_a_scaled_backward_that_fails_is_over():
    def fail(gradient):
        raise ArithmeticError

    model, plain = make_model(), make_model()
    rows = model[0](IDS)
    rows.register_hook(fail)
    with pytest.raises(ArithmeticError):
        torch.amp.GradScaler("cpu").scale(rows.sum()).backward()
    for each in (model, plain):
        more = torch.zeros(1, requires_grad=True)
        checkpoint(lambda more: each(IDS) + more, more, use_reentrant=True).sum().backward()
    assert torch.equal(model[0].weight, plain[0].weight) and not loss_scaling._running


def test_a_scaler_of_ones_own_changes_nothing():
    class Scaler(torch.amp.GradScaler):
        def scale(self, outputs):
            return outputs * (self._scale if self._scale is not None else super().scale(torch.ones(())))

    for scaler in (Scaler("cpu"), ShardedGradScaler("cpu")):
        model, plain = make_model(), make_model()
        scaler.scale(model(IDS).sum()).backward()
        train(plain)
        assert torch.equal(model[0].weight, plain[0].weight)


@MODULES
@CACHES
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_rows_come_in_the_type_of_the_model(kind, cache, dtype):
    model = make_model(kind, cache=cache).to(dtype)
    expected = make(kind)(IDS).detach().to(dtype)
    assert torch.equal(model[0](IDS), expected)
    with torch.no_grad():
        assert torch.equal(model[0](IDS), expected)
    assert moved(model[0], lambda: train(model)) and model[0].weight.dtype == torch.float32


@MODULES
def test_another_default_type_is_that_of_the_model(kind):
    torch.set_default_dtype(torch.float64)
    try:
        for cache in (None, CacheConfig(cache_ratio=0.3)):
            model = make_model(kind, cache=cache)
            assert moved(model[0], lambda: train(model)) and model(IDS).dtype == torch.float64
        assert make(init=nn.init.ones_).weight.dtype == torch.float32
    finally:
        torch.set_default_dtype(torch.float32)


def reloaded(model):
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


COPIES = {"deepcopy": copy.deepcopy, "pickle": lambda model: pickle.loads(pickle.dumps(model)), "torch.save": reloaded}


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
@CACHES
def test_a_copy_goes_on_by_itself_from_the_same_state(copied, cache):
    model = make_model(optimizer=optim.Adagrad(0.1), cache=cache)
    train(model)
    model[0].learning_rate = 0.05
    model[0].prefetch(torch.tensor([5]))
    other = copied(model)
    model[0].discard_prefetched()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    assert all(torch.equal(value, state[name]) for name, value in other.state_dict().items())
    train(other)
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    train(model)
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in other.state_dict().items())


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
def test_a_copy_of_rows_by_key_evicts_the_same_keys(copied):
    def step(module, number):
        keys = torch.tensor([number, number * 7 % 5, 3])
        module(keys).sum().backward()

    module = Embedding(embedding_dim=DIM, optimizer=optim.Adagrad(0.1), keys="int64", capacity=4, policy="lfu",
                       keep_evicted=True)
    for number in range(6):
        step(module, number)
    other = copied(module)
    for number in range(6, 12):
        step(module, number)
        step(other, number)
    for ours, theirs in zip(module.items(), other.items()):
        assert torch.equal(ours, theirs)
    assert module.take_evicted().keys.tolist() == other.take_evicted().keys.tolist()


@MODULES
def test_a_model_that_was_saved_on_a_gpu_works_where_it_is_loaded(kind):
    """torch.load with map_location moves the handle; the table follows."""
    model, plain = make_model(kind), make_model(kind)
    model[0]._table._work_on(torch.device("cuda", 0))
    other = reloaded(model)
    train(other)
    train(plain)
    assert other[0]._table.torch_device.type == "cpu" and torch.equal(other[0].weight, plain[0].weight)


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
def test_modules_that_share_a_table_share_its_copy(copied):
    model = nn.ModuleDict({"users": make(), "films": nn.Sequential(make())})
    model["friends"] = model["users"]
    other = copied(model)
    assert other["users"] is other["friends"] and other["users"]._table is not other["films"][0]._table
    assert moved(other["users"], other["friends"](IDS).sum().backward)


def test_a_spawned_process_gets_a_copy():
    """As bytes: shared memory, in which torch sends tensors, would be gone before such a process has started."""
    module = make(optimizer=optim.Adagrad(0.1))
    train(nn.Sequential(module))
    sent = bytes(ForkingPickler.dumps(module._table))
    assert len(sent) > ROWS * 2 * DIM * 4
    other = pickle.loads(sent)
    assert (other.rows.records == module._table.rows.records).all()


def test_states_of_parts_of_a_model_are_loaded_strictly():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = make(optimizer=optim.Adagrad(0.1)), make_model()

    class WithMore(Embedding):
        def __init__(self):
            super().__init__(ROWS, DIM, optim.SGD(0.1))
            self.scale, self.layer = nn.Parameter(torch.rand(2)), nn.Linear(2, 1)

    model, other = Model(), Model()
    train(model.head)
    train(model.body)
    other.head.load_state_dict(model.head.state_dict())
    other.head[0].load_state_dict(model.head[0].state_dict())
    assert torch.equal(other.head[0].weight, model.head[0].weight)
    assert list(model.head.state_dict()) == ["0.weight", "1.weight", "1.bias"]
    assert list(model.state_dict())[:2] == ["body.weight", "body.optimizer_state"]
    other.load_state_dict(model.state_dict())
    assert torch.equal(other.body.state_dict()["optimizer_state"], model.body.state_dict()["optimizer_state"])
    more, again = WithMore(), WithMore()
    again.load_state_dict(more.state_dict())
    assert torch.equal(again.scale, more.scale) and torch.equal(again.layer.weight, more.layer.weight)
    with pytest.raises(RuntimeError, match="Unexpected.*absent"):
        again.load_state_dict({**more.state_dict(), "absent": torch.zeros(1)})
    with pytest.raises(RuntimeError, match="Missing.*scale"):
        again.load_state_dict({name: value for name, value in more.state_dict().items() if name != "scale"})
    with pytest.raises(RuntimeError, match="type int"):
        make().load_state_dict({"weight": 1})
    by_key = Embedding(embedding_dim=DIM, optimizer=optim.SGD(0.1), keys="int64", capacity=ROWS)
    by_key(IDS).sum().backward()
    with pytest.raises(RuntimeError, match='Missing.*"keys", "slots", "scores", "touched", "clock"'):
        by_key.load_state_dict(make().state_dict())
    for clock in ([2**63 - 1, 0], [-1, 0], [3, 2**32]):
        with pytest.raises(RuntimeError, match=r"the keys do not fit this table \(.* are no clock\)"):
            by_key.load_state_dict({**by_key.state_dict(), "clock": torch.tensor(clock)})
    assert by_key.num_keys == 3


@CACHES
def test_optimizers_of_the_whole_model_leave_the_rows_alone(cache):
    model, plain = make_model(cache=cache), make_model()
    optimizer = torch.optim.AdamW(model.parameters(), 0.1, weight_decay=0.5)
    before = model[0].weight.clone()
    with torch.no_grad():
        plain[0].load_state_dict({"weight": before})
    train(model)
    nn.utils.clip_grad_norm_(model.parameters(), 1e-6)
    optimizer.step()
    train(plain)
    assert torch.equal(model[0].weight, plain[0].weight) and model[0].handle.item() == 0


@CACHES
def test_rows_may_be_changed_in_place(cache):
    module = make(cache=cache, init=Constant(1.0))
    module(torch.tensor([3])).mul_(2.0).sum().backward()
    torch.testing.assert_close(module.weight[3], torch.full((DIM,), 0.8))


def test_gradients_of_gradients():
    """torch.autograd.grad moves nothing; a penalty on the gradient of rows trains what it depends on."""
    model = make_model()
    gradients = torch.autograd.grad(model(IDS).sum(), list(model.parameters()))
    assert gradients[0].item() == 0 and torch.equal(make_model()[0].weight, model[0].weight)
    rows = model[0](IDS)
    penalty = torch.autograd.grad(model[1:](rows).sum(), rows, create_graph=True)[0].pow(2).sum()
    assert moved(model[0], penalty.backward)
    with pytest.raises(RuntimeError, match="create_graph=True"):
        model(IDS).sum().backward(create_graph=True)


def test_a_second_backward_needs_retain_graph_as_torch_says():
    module = make(init=Constant(1.0))
    loss = module(torch.tensor([3])).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    torch.testing.assert_close(module.weight[3], torch.full((DIM,), 0.8))
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()
    torch.testing.assert_close(module.weight[3], torch.full((DIM,), 0.8))


@CACHES
@pytest.mark.parametrize("kind", ["number", "bag", "key"])
def test_a_compiled_model_calls_its_tables_as_they_are(kind, cache):
    torch._dynamo.reset()
    table = {"number": lambda: make(cache=cache), "bag": lambda: make(EmbeddingBag, cache=cache),
             "key": lambda: Embedding(None, DIM, optim.SGD(0.1), keys="int64", capacity=5, cache=cache)}
    module, layer = table[kind](), nn.Linear(DIM, 1)
    plain = copy.deepcopy(module)
    compiled = torch.compile(lambda ids: layer(module(ids)).sum(), backend="eager")
    for step in range(4):
        ids = torch.tensor([[step, 2], [7, step]])
        loss, expected = compiled(ids), layer(plain(ids)).sum()
        assert torch.equal(loss, expected)
        loss.backward()
        expected.backward()
    assert torch.equal(module.weight, plain.weight)


@pytest.mark.parametrize("wrong, error, sentence", [
    (lambda: make_model().to("meta"), ValueError, "'cpu' or 'cuda', not on meta"),
    (lambda: make()._apply(lambda number: number.to(torch.int64)), ValueError, "floating point"),
    (lambda: make_model().share_memory(), RuntimeError, "ranks"),
    (lambda: make()._replicate_for_data_parallel(), RuntimeError, "DataParallel"),
    (lambda: setattr(make(), "weight", nn.Linear(DIM, ROWS).weight), AttributeError, "load_state_dict"),
    (lambda: torch.vmap(make())(IDS), RuntimeError, "outside of torch.vmap"),
    (lambda: torch.jit.trace(make_model(), IDS), RuntimeError, "torch.jit can neither script nor trace"),
    (lambda: torch.jit.script(make_model()), RuntimeError, "torch.jit can neither script nor trace"),
    (lambda: copy.deepcopy(make(cache=CacheConfig(ranks=2, max_rows=4))), RuntimeError, "state_dict"),
    (lambda: pickle.dumps(make(cache=CacheConfig(ranks=2, max_rows=4))), RuntimeError, "state_dict"),
    (lambda: Embedding(10.5, 4, optim.SGD(1)), ValueError, "whole numbers"),
    (lambda: Embedding(10, "4", optim.SGD(1)), ValueError, "whole numbers"),
    (lambda: Embedding(None, 4, optim.SGD(1), keys="int64", capacity=1.5), ValueError, "whole numbers"),
    (lambda: make()([1]), ValueError, "tensor of int64"),
    (lambda: make()(IDS > 1), ValueError, "tensor of int64"),
    (lambda: make(EmbeddingBag)([[1]]), ValueError, "tensor of int64"),
    (lambda: make(EmbeddingBag)(IDS[0], torch.tensor([0.0])), ValueError, "offsets are"),
    (lambda: make(EmbeddingBag)(IDS[0], torch.tensor([[0]])), ValueError, "offsets are"),
    (lambda: make(EmbeddingBag, mode="sum")(IDS, per_sample_weights=torch.ones(4)), ValueError, "the shape of the ids"),
    (lambda: make(EmbeddingBag, mode="sum")(IDS, per_sample_weights=torch.ones(2, 1)), ValueError, "the shape of"),
    (lambda: make(EmbeddingBag, mode="sum")(IDS[0], torch.tensor([0]), torch.ones(1)), ValueError, "the shape of"),
    (lambda: make(EmbeddingBag, mode="sum")(IDS, per_sample_weights=IDS), ValueError, "floating point")])
def test_what_cannot_be_is_refused_in_a_sentence(wrong, error, sentence):
    with pytest.raises(error, match=sentence):
        wrong()


def test_scores_of_another_shape_are_refused_before_a_key_comes_in():
    module = Embedding(embedding_dim=DIM, optimizer=optim.SGD(0.1), keys="int64", capacity=3, policy="customized")
    for scores in (torch.tensor([1]), torch.tensor([[1, 2]]), torch.tensor([1.0, 2.0])):
        with pytest.raises(ValueError, match="same shape"):
            module(torch.tensor([1, 2]), scores)
    assert module.num_keys == 0
