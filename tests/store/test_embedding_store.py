"""The store against DGL-KE's own formulas in plain torch."""

import threading

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from dglke_frugal import _native
from dglke_frugal.errors import InputError
from dglke_frugal.store import EmbeddingStore, FlushConfig
from dglke_frugal.store.device.device import Device

pytestmark = pytest.mark.usefixtures("one_torch_thread")  # which sets the threads of kernels back, too


def dglke_update(table, state, entries, learning_rate):
    """The update as DGL-KE writes it (single thread, CPU)."""
    for ids, gradients in entries:
        state.index_add_(0, ids, (gradients * gradients).mean(1))
        deviation = state[ids].sqrt_().add_(1e-10).unsqueeze(1)
        table.index_add_(0, ids, -learning_rate * gradients / deviation)


def torch_square_root(states):
    return torch.from_numpy(states).sqrt().numpy()


@settings(max_examples=60, deadline=None)
@given(rows=st.integers(1, 50),
       dim=st.sampled_from([1, 3, 5, 7, 8, 31, 50, 127, 400, 1000]),
       seed=st.integers(0, 2**32 - 1),
       sizes=st.lists(st.integers(0, 200), min_size=1, max_size=3),
       threads=st.sampled_from([1, 2, 3]))
def test_update_is_dglkes_to_the_bit(rows, dim, seed, sizes, threads):
    _native.set_num_threads(threads)
    generator = torch.Generator().manual_seed(seed)
    store = EmbeddingStore(rows, dim, learning_rate=0.25, square_root=torch_square_root)
    store.init_uniform(0.5, seed=seed, stream=0)
    table, state = torch.tensor(np.array(store.embeddings)), torch.zeros(rows)
    for _ in range(2):
        entries = [(torch.randint(rows, (size,), generator=generator), torch.randn(size, dim, generator=generator))
                   for size in sizes]
        dglke_update(table, state, entries, 0.25)
        store.apply(entries)
    np.testing.assert_array_equal(store.embeddings, table.numpy())
    np.testing.assert_array_equal(store.state, state.numpy())
    ids = torch.randint(rows, (17,), generator=generator)
    np.testing.assert_array_equal(store.gather(ids), table[ids].numpy())


def test_square_roots_are_correctly_rounded_by_default():
    random = np.random.default_rng(5)
    ids, gradients = random.integers(20, size=300), random.standard_normal((300, 9), np.float32)
    plain = EmbeddingStore(20, 9, learning_rate=0.25)
    rounded = EmbeddingStore(20, 9, learning_rate=0.25, square_root=np.sqrt)
    for store in (plain, rounded):
        store.apply([(ids, gradients)])
    assert plain.embeddings.any()
    np.testing.assert_array_equal(plain.embeddings, rounded.embeddings)


def test_the_order_of_sums_is_torchs_at_every_length():
    for dim in [*range(1, 140), 511, 512, 513, 4096, 100_003]:
        gradients = torch.randn(2, dim, generator=torch.Generator().manual_seed(dim))
        store = EmbeddingStore(2, dim, learning_rate=0.1)
        store.apply([(torch.arange(2), gradients)])
        np.testing.assert_array_equal(store.state, (gradients * gradients).mean(1).numpy(), err_msg=f"dim {dim}")


def test_wrong_ids_change_nothing():
    store = EmbeddingStore(5, 4, learning_rate=0.1)
    with pytest.raises(IndexError, match="row id 5 at position 1 is outside the table of 5 rows"):
        store.apply([(np.array([0, 5]), np.ones((2, 4), np.float32))])
    with pytest.raises(IndexError):
        store.gather(np.array([-1]))
    assert not store.embeddings.any() and not store.state.any()


def test_saved_files_are_plain_npy_and_load_again(tmp_path):
    store = EmbeddingStore(1000, 7, learning_rate=0.1)
    store.init_uniform(1.0, seed=3, stream=1)
    store.save(tmp_path / "table.npy")
    saved = np.load(tmp_path / "table.npy", allow_pickle=False)
    assert saved.flags.c_contiguous and saved.dtype == np.float32
    np.testing.assert_array_equal(saved, store.embeddings)
    np.save(tmp_path / "by_numpy.npy", np.array(store.embeddings))
    assert (tmp_path / "by_numpy.npy").read_bytes() == (tmp_path / "table.npy").read_bytes()
    other = EmbeddingStore(1000, 7, learning_rate=0.1)
    other.load(tmp_path / "table.npy")
    np.testing.assert_array_equal(other.embeddings, store.embeddings)
    with pytest.raises(InputError, match="holds a table of"):
        EmbeddingStore(999, 7, learning_rate=0.1).load(tmp_path / "table.npy")


def test_no_pickle_is_loaded(tmp_path):
    np.save(tmp_path / "evil.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="not a .npy file of embeddings"):
        EmbeddingStore(1, 1, learning_rate=0.1).load(tmp_path / "evil.npy")


def test_a_table_that_cannot_be_mapped_is_a_sentence():
    with pytest.raises(InputError, match="cannot map .* bytes of host memory"):
        EmbeddingStore(1 << 46, 400, learning_rate=0.1)


def test_writing_to_a_missing_folder_leaves_nothing(tmp_path):
    with pytest.raises(InputError, match="cannot write"):
        EmbeddingStore(2, 2, learning_rate=0.1).save(tmp_path / "no" / "table.npy")
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_was_attached_to_gathers_and_applies():
    flushing = FlushConfig(4, entries=1, ranks=2, slots=2, policy="lfu", staging_bytes=1 << 20)
    first = EmbeddingStore(6, 4, 0.1, flushing=flushing)
    first.init_uniform(1, 0, 0)
    before = first.embeddings.copy()
    second = EmbeddingStore.attach(first.address, 1, 0.1)
    np.testing.assert_array_equal(second.gather(np.array([5, 0])), before[[5, 0]])
    for store, row in ((first, 0), (second, 3)):
        store.steps.announce(0, np.array([row]), np.ones(1, np.int32))
    for store, row in ((first, 0), (second, 3)):
        store.begin(0)
        np.testing.assert_array_equal(store.gather(np.array([row])), before[[row]])
        store.apply([(np.array([row]), np.ones((1, 4), np.float32))])
    other = threading.Thread(target=second.drain)
    other.start()
    first.drain()
    other.join()
    assert (first.embeddings != before).any(1).tolist() == [True, False, False, True, False, False]
    second.close()
    first.close()


def test_gather_sees_steps_that_others_began():
    """Trainers begin and end steps at `steps` itself: what they left in the cache is not in the table yet."""
    store = EmbeddingStore(6, 4, 0.1, flushing=FlushConfig(4, entries=1, slots=6, policy="lfu"))
    expected = EmbeddingStore(6, 4, 0.1)
    entry = (np.array([2]), np.ones((1, 4), np.float32))
    for step in range(2):
        store.steps.announce(step, entry[0])
        store.steps.begin(step)
        store.steps.copy_to_destination()
        store.steps.apply_entry(*entry, 0.1)
        store.steps.end()
        expected.apply([entry])
        np.testing.assert_array_equal(store.gather(np.arange(6)), expected.embeddings)
    store.close()


def test_rows_on_a_device_are_read_drained_and_their_steps_are_not_the_stores():
    store = EmbeddingStore(6, 4, 0.1, device=Device())
    store.init_uniform(1, 0, 0)
    np.testing.assert_array_equal(store.gather(np.arange(6)), store.embeddings)
    for call in (lambda: store.begin(0), lambda: store.apply([])):
        with pytest.raises(RuntimeError, match="lie on the device"):
            call()


def test_cached_rows_are_updated_in_a_step_only():
    store = EmbeddingStore(6, 4, 0.1, flushing=FlushConfig(4, entries=1, slots=2, policy="lfu"))
    with pytest.raises(RuntimeError, match="begin one first"):
        store.apply([])
    store.close()
