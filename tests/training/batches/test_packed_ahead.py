"""Batches that are packed by the threads that make them: what a step would pack itself, and nobody else's block."""

from collections import deque

import numpy as np
import pytest

from dglke_frugal import _native
from dglke_frugal.store import EmbeddingStore
from dglke_frugal.store.device.device import Device
from dglke_frugal.training.batches.sampler import Sampler, SamplerConfig
from dglke_frugal.training.step.device_batch import BatchSizes, PackedBatches

ENTITIES, RELATIONS, STEPS = 60, 7, 80


def make_sampler(batch_size, weight=None):
    random = np.random.default_rng(1)
    triples = [random.integers(0, count, 200) for count in (ENTITIES, RELATIONS, ENTITIES)]
    return Sampler(*triples, ENTITIES, RELATIONS, SamplerConfig(batch_size, 8, seed=3, threads=3, lookahead=4),
                   weight=weight)


@pytest.fixture
def tables():
    stores = [EmbeddingStore(rows, 4, 0.1, device=Device()) for rows in (ENTITIES, RELATIONS)]
    yield tuple(store.steps for store in stores)
    for store in stores:
        store.close()


def layout_for(sampler, tables):
    return BatchSizes(sampler.batch_size, sampler.chunk_size, 8, sampler.weighted).layout(tables)


def packed_by_step(layout, batch):
    block = np.zeros(layout.bytes, np.uint8)
    layout.pack(batch, block)
    return block


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("blocks", [1, 3, 40])
def test_a_block_is_its_batchs_while_somebody_has_that(tables, blocks, weighted):
    """However many are held, and in whatever order they are let go; where all blocks are used the step packs."""
    sampler = make_sampler(16, np.ones(200, np.float32) if weighted else None)
    layout, random = layout_for(sampler, tables), np.random.default_rng(blocks)
    ahead = PackedBatches(Device(), layout, blocks)
    held, found = deque(), 0
    with sampler.batches(0, ahead.packer) as batches:
        for _ in range(STEPS):
            held.append(next(batches))
            for batch in held:
                block = ahead.find(batch)
                found += block is not None
                if block is not None:
                    expected = packed_by_step(layout, batch)
                    np.testing.assert_array_equal(block.numpy()[: len(expected)], expected)
            numbers = [ahead.packer.block_of(batch) for batch in held]
            used = [number for number in numbers if number >= 0]
            assert len(set(used)) == len(used) and all(number < blocks for number in used)
            while len(held) > 6 or (held and random.random() < 0.4):
                del held[int(random.integers(len(held)))]
            batch = None
    assert found > STEPS / 10


def test_only_full_batches_of_their_own_packer_are_packed(tables):
    sampler = make_sampler(16)
    ahead, other = (PackedBatches(Device(), layout_for(sampler, tables), 30) for _ in range(2))
    with sampler.batches(0, ahead.packer) as batches:
        batch = next(batches)
        assert ahead.find(batch) is not None and other.find(batch) is None
        assert ahead.find(sampler.batch(0)) is None  # made without a stream
    smaller = make_sampler(8)
    with smaller.batches(0, ahead.packer) as batches:
        assert all(ahead.find(next(batches)) is None for _ in range(5))


def test_rows_without_room_are_an_error_of_their_step():
    sampler = make_sampler(16)
    small = _native.StepBlock(16, 8, 8, False, [("entity", 3, 0, False), ("relation", 7, 0, False)])
    with sampler.batches(0, PackedBatches(Device(), small, 3).packer) as batches:
        with pytest.raises(ValueError, match="room for 3 entity rows"):
            next(batches)
