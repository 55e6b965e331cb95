"""Programs of lookups and gradients, drawn at random, on an Embedding with any cache and on a plain model.

The model has a Python object for each row. A lookup remembers the objects that it read, and its gradient, whenever it
comes, moves those of them that are still in the table.
"""
import copy
import pickle

import numpy as np
import pytest
import torch
from embedding.plain import PlainKeys, Row

from dglke_frugal import Embedding, EmbeddingBag, optim
from dglke_frugal.embedding import CacheConfig, Uniform

DIM, ROWS, STEPS = 3, 9, 50
OPTIMIZERS = (optim.SGD(0.5), optim.RowwiseAdagrad(0.5), optim.Adagrad(0.5), optim.Adagrad(0.5, clip=1.0))
POLICIES = ("lru", "lfu", "epoch_lru", "epoch_lfu", "customized")
INIT = Uniform(-1, 1)


def start(key, known={}):
    """What a key's row begins with, in any table."""
    if key not in known:
        module = Embedding(embedding_dim=DIM, optimizer=OPTIMIZERS[0], keys="int64", capacity=1, init=INIT)
        with torch.no_grad():
            known[key] = module(torch.tensor([key]))[0]
    return known[key]


class Program:
    """A module, a plain model, and what is done to both.

    Attributes:
        late: lookups whose gradient may come: (what forward gave, the rows it read or None, a function that makes of
            its gradient one for each id).
        ahead: lookups that are prefetched.
    """

    scored, make_one = False, Embedding
    actions = (*("look_up",) * 8, *("deliver",) * 4, "deliver_together", "deliver_scaled", "forget_late", "read",
               "announce", "announce", "discard", "set_rate", "reload", "replace", "convert", "compare")

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.optimizer = copy.deepcopy(self.one_of(*OPTIMIZERS))
        self.rate, self.late, self.ahead = self.optimizer.lr, [], []
        self.module = self.make(optimizer=self.optimizer, init=INIT, cache=self.one_of(None, CacheConfig(
            cache_ratio=self.one_of(0.0, 0.3, 1.0), lookahead=self.one_of(1, 2, 5), flush=self.one_of("p2f", "sync"),
            cache_policy=self.one_of(None, "lfu"), max_rows=self.one_of(None, 2))))

    def run(self):
        for _ in range(STEPS):
            getattr(self, self.one_of(*self.actions))()
        self.compare()
        self.module.close()
        self.compare()

    def one_of(self, *choices):
        return choices[self.random.integers(len(choices))]

    def noise(self, shape):
        return torch.from_numpy(self.random.standard_normal(tuple(shape), np.float32))

    def draw(self):
        """ids, and scores if the policy wants them."""
        ids = torch.from_numpy(self.random.choice(self.ids, (self.random.integers(0, 4), self.random.integers(1, 3))))
        return ids, torch.from_numpy(self.random.integers(0, 4, ids.shape)) if self.scored else None

    def look_up(self):
        ids, scores = self.ahead.pop(0) if self.ahead else self.draw()
        rows = self.bring_in(ids.flatten().tolist(), ids.numel() * [0] if scores is None else scores.flatten().tolist())
        self.late.append(self.forward(ids, scores, rows))
        if self.random.random() < 0.4:
            self.deliver(-1)

    def forward(self, ids, scores, rows):
        values = self.module(ids) if scores is None else self.module(ids, scores)
        assert torch.equal(values.detach(), self.values(ids, rows).to(values.dtype))
        return values, rows, lambda gradient: gradient.reshape(-1, DIM)

    def values(self, ids, rows):
        read = [self.absent(key) if row is None else row.values for key, row in zip(ids.flatten().tolist(), rows)]
        return torch.stack([*read, torch.zeros(DIM)])[:-1].view(*ids.shape, DIM)

    def deliver(self, which=None):
        """A gradient comes, of the lookup before or a late one."""
        if self.late:
            values, *lookup = self.late.pop(self.random.integers(len(self.late)) if which is None else which)
            gradient = self.noise(values.shape)
            if values.grad_fn.name().startswith("Read") and self.random.random() < 0.3:
                self.module.learn(values, gradient.to(values.dtype))
            else:
                values.backward(gradient.to(values.dtype))
            self.move(lookup, gradient)

    def deliver_together(self):
        """Two lookups in one graph: autograd begins with what was computed last."""
        if len(self.late) > 1:
            both = [(values, lookup, self.noise(values.shape)) for values, *lookup in self.late[-2:]]
            self.late = self.late[:-2]
            sum((values * gradient).sum() for values, _, gradient in both).backward()
            for _, lookup, gradient in reversed(both):
                self.move(lookup, gradient)

    def deliver_scaled(self):
        """A gradient comes from GradScaler, whose factor is a power of two; or infinite, which moves nothing."""
        if self.late:
            values, *lookup = self.late.pop()
            scaler, gradient = torch.amp.GradScaler("cpu"), self.noise(values.shape)
            overflow = values.numel() > 0 and self.random.random() < 0.3
            scaler.scale((values * gradient).sum() * (float("inf") if overflow else 1)).backward()
            if not overflow:
                self.move(lookup, gradient)
            scaler.update()
            assert scaler.get_scale() == (32768.0 if overflow else 65536.0)

    def move(self, lookup, gradient):
        rows, of_each_id = lookup
        gradients = of_each_id(gradient)
        for row in {id(row): row for row in rows if row is not None}.values():
            if row.there:
                row.move(gradients[[each is row for each in rows]], self.rate)

    def forget_late(self):
        self.late = []

    def read(self):
        """Without a gradient: ids that are prefetched would count as the next lookup."""
        ids, _ = self.draw()
        if not any(torch.equal(ids.flatten(), ahead.flatten()) for ahead, _ in self.ahead):
            with torch.no_grad():
                self.forward(ids, None, self.find(ids.flatten().tolist()))

    def announce(self):
        self.ahead.append(self.draw())
        self.module.prefetch(*(each for each in self.ahead[-1] if each is not None))

    def discard(self):
        self.module.discard_prefetched()
        self.ahead = []

    def set_rate(self):
        self.rate = self.module.learning_rate = self.one_of(0.0, 0.25, 0.5)

    def reload(self):
        if not self.ahead or not self.loses_ahead:
            self.module.load_state_dict({name: value.clone() for name, value in self.module.state_dict().items()})
            self.loaded()

    def replace(self):
        """A copy goes on in its place. Gradients of lookups of the first one are not for it."""
        self.module = self.one_of(copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module)))(self.module)
        self.late, self.ahead = [], []

    def convert(self):
        self.module.to(self.one_of(torch.float32, torch.float64))

    def loaded(self):
        pass


class ByNumber(Program):
    ids, loses_ahead = np.arange(ROWS), False

    def make(self, **settings):
        padding = self.one_of(None, 0)
        module = self.make_one(ROWS, DIM, padding_idx=padding, **settings)
        self.rows = [None if i == padding else Row(values, self.optimizer) for i, values in enumerate(module.weight)]
        return module

    def find(self, ids):
        return [self.rows[i] for i in ids]

    def bring_in(self, ids, scores):
        return self.find(ids)

    def absent(self, key):
        return torch.zeros(DIM)

    def counts(self, row):
        """In the mean of a bag."""
        return row is not None

    def compare(self):
        for values, row in zip(self.module.weight, self.rows):
            assert row is None or torch.equal(values, row.values)


class ByKey(Program):
    ids, loses_ahead, policies = np.array([-(2**63), 2**63 - 1, 0, -2, 7, 8, 1 << 40]), True, POLICIES
    actions = (*Program.actions, "erase", "next_epoch", "reset", "take_evicted")

    def make(self, **settings):
        policy, capacity = self.one_of(*self.policies), int(self.random.integers(1, 6))
        self.scored = policy == "customized"
        self.plain = PlainKeys(policy, capacity, self.optimizer, start)
        return self.make_one(None, DIM, keys="int64", capacity=capacity, policy=policy, keep_evicted=True, **settings)

    def find(self, keys):
        return self.plain.find(keys)

    def bring_in(self, keys, scores):
        return self.plain.bring_in(keys, scores)

    def absent(self, key):
        return start(key)

    def counts(self, row):
        return True

    def loaded(self):
        self.plain.reload()

    def erase(self):
        if not self.ahead:
            keys = self.draw()[0].flatten()
            assert self.module.erase(keys).tolist() == self.plain.erase(keys.tolist())

    def next_epoch(self):
        if not self.ahead:
            self.plain.epoch += 1
            self.module.set_epoch(self.plain.epoch)

    def reset(self):
        if self.random.random() < 0.2:
            self.module.reset_parameters()
            self.plain.erase([place[0] for place in self.plain.used])
            self.plain.time = self.plain.epoch = 0
            self.plain.evicted, self.ahead = [], []

    def take_evicted(self):
        went, expected = self.module.take_evicted(), self.plain.evicted
        self.plain.evicted = []
        assert ([] if went is None else went.keys.tolist()) == [key for key, _, _ in expected]
        for k, (_, values, score) in enumerate(expected):
            assert went.scores[k] == score and torch.equal(torch.from_numpy(went.rows[k]), values)

    def compare(self):
        keys, rows = self.module.items()
        assert keys.tolist() == [place[0] for place in self.plain.used]
        for values, place in zip(rows, self.plain.used):
            assert torch.equal(values, place[3].values)


class Bags:
    """Lookups by bags of a program by number or by key."""

    policies = POLICIES[:-1]  # bags take no scores

    def make_one(self, *sizes, **settings):
        self.mode = self.one_of("sum", "mean")
        return EmbeddingBag(*sizes, mode=self.mode, **settings)

    def forward(self, ids, scores, rows):
        flat, counts = self.random.random() < 0.5, torch.full((len(ids),), ids.shape[1])
        given = (ids.flatten(), torch.cumsum(counts, 0) - counts) if flat and len(ids) else (ids,)
        weights = self.noise(given[0].shape) if self.mode == "sum" and self.random.random() < 0.5 else None
        values = self.module(*given, per_sample_weights=weights)
        factors = torch.ones(ids.numel()) if weights is None else weights.flatten()
        read = (self.values(ids, rows).view(-1, DIM) * factors[:, None]).view(*ids.shape, DIM)
        expected = torch.zeros(len(ids), DIM)
        for k in range(ids.shape[1]):
            expected += read[:, k]
        present = torch.tensor([self.counts(row) for row in rows], dtype=torch.float32).view(ids.shape).sum(1).clamp(1)
        divisor = present[:, None] if self.mode == "mean" else torch.ones(1)
        assert torch.equal(values.detach(), expected.to(values.dtype) / divisor.to(values.dtype))
        bag_of = torch.arange(len(ids)).repeat_interleave(ids.shape[1])

        def of_each_id(gradient):
            of_bag = (gradient.to(values.dtype) / divisor.to(values.dtype)).to(torch.float32)
            return of_bag[bag_of] if weights is None else of_bag[bag_of] * factors[:, None]

        return values, rows, of_each_id


class BagsByNumber(Bags, ByNumber):
    pass


class BagsByKey(Bags, ByKey):
    pass


@pytest.mark.parametrize("kind", [ByNumber, BagsByNumber, ByKey, BagsByKey])
@pytest.mark.fuzz(seeds=30)
def test_any_program_gives_the_rows_of_a_plain_model(kind, fuzz_seed):
    kind(fuzz_seed).run()
