"""Batches without negatives: of any size, and every triple once an epoch in each direction."""
import numpy as np

from dglke_frugal.training.batches.sampler import Sampler, SamplerConfig


def test_every_triple_once_an_epoch():
    random = np.random.default_rng(0)
    head, relation, tail = random.integers(0, 40, 107), random.integers(0, 3, 107), random.integers(0, 40, 107)
    sampler = Sampler(head, relation, tail, 40, 3, SamplerConfig(25, 0, 5))
    assert sampler.batch_size == 25 and sampler.steps_per_epoch == 2 * 5
    expected = sorted(zip(head, relation, tail))
    for epoch in range(2):
        seen = {False: [], True: []}
        for step in range(10 * epoch, 10 * epoch + 10):
            batch = sampler.batch(step)
            assert len(batch.negative) == 0 and batch.corrupt_head == bool(step % 2)
            seen[batch.corrupt_head] += zip(batch.head, batch.relation, batch.tail)
        assert sorted(seen[False]) == sorted(seen[True]) == expected
        assert seen[False] != seen[True]
