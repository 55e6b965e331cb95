"""What a request says of its ids, sorted out at once or ahead, and packed: against NumPy."""
import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from dglke_frugal import _native
from dglke_frugal.store.request import Request
from sorted_ids import expected

ROWS = 50
ids_of_lookups = st.lists(st.integers(-1, ROWS - 1), max_size=600).map(lambda ids: np.array(ids, np.int64))


def unpacked(lookup, memory):
    """The same of a packed lookup."""
    begins = lookup.packed
    lengths = {"rows": len(lookup.rows), "inverse": len(lookup), "offset": len(lookup.rows) + 1,
               "order": len(lookup.order)}
    kinds = {"rows": np.int64}
    at = dict(zip(lengths, begins))
    return [memory[at[name] :][: lengths[name] * np.dtype(kinds.get(name, np.int32)).itemsize].view(
        kinds.get(name, np.int32)) for name in ("rows", "inverse", "offset", "order")]


@settings(deadline=None)
@given(ids=ids_of_lookups, ahead=st.booleans(), owners=st.sampled_from([1, 2, 3, 7, 60]))
def test_a_lookup_and_the_packed_one_say_where_each_row_occurs(ids, ahead, owners):
    request = Request(ids, ROWS, owners)
    size = _native.Lookup.most_packed_bytes(len(ids))
    memory = torch.zeros(size + 16, dtype=torch.uint8)
    if ahead:
        request.sort_ahead(memory[:size].numpy())
    else:
        request.lookup.pack(memory[:size].numpy())
    lookup = request.sorted
    assert lookup is request.lookup
    for array, packed, want in zip((lookup.rows, lookup.inverse, lookup.offset, lookup.order),
                                   unpacked(lookup, memory.numpy()), expected(ids, owners)):
        assert array.tolist() == packed.tolist() == want.tolist()
    assert lookup.packed[-1] <= size and not memory[size:].any()


def test_a_packed_lookup_needs_room_for_all_ids():
    ids = np.arange(5)
    short = torch.zeros(_native.Lookup.most_packed_bytes(5) - 1, dtype=torch.uint8)
    with pytest.raises(ValueError, match="no room"):
        _native.Lookup(ids, 5).pack(short.numpy())
    with pytest.raises(ValueError, match="no room"):
        Request(ids, 5).sort_ahead(short.numpy())


def test_a_request_knows_its_tensor_until_that_is_changed():
    ids = torch.tensor([3, 4])
    request = Request(ids.numpy().copy(), 5)
    assert not request.is_of(ids)
    request.remember(ids)
    assert request.is_of(ids) and not request.is_of(ids.clone())
    ids[0] = 2
    assert not request.is_of(ids)


@pytest.mark.parametrize("count, rows", [
    (0, 5), (1, 1), (7, 3), (300, 10), (300, 10**9), (5000, 2**33), (65_535, 50), (65_536, 1), (70_000, 3),
    (150_000, 1000), (300_000, 10**7), (200_000, 2**40)])
def test_ids_are_sorted_by_any_number_of_threads(count, rows):
    random = np.random.default_rng(count)
    ids = np.minimum((rows * random.random(count) ** 4).astype(np.int64), rows - 1)
    ids[random.random(count) < 0.1] = _native.NO_ROW
    for lookup, owners in ((_native.Lookup(ids, rows), 1), (_native.SortedAhead(ids, rows).take(), 1),
                           (_native.Lookup(ids, rows, 3), 3)):
        for found, wanted in zip((lookup.rows, lookup.inverse, lookup.offset, lookup.order), expected(ids, owners)):
            np.testing.assert_array_equal(found, wanted)
    if count > 3:
        ids[[count // 2, count - 1]] = rows, -5
        for sort in (_native.Lookup, lambda *given: _native.SortedAhead(*given).take()):
            with pytest.raises(IndexError, match=f"id {rows} at position {count // 2} is outside"):
                sort(ids, rows)
