"""What torch computes of a step on the CPU, in tensors that are large enough for it to share them out over threads."""
import pytest
import torch
from threads import threads_as_before

from dglke_frugal.store.device.device import HostDevice
from dglke_frugal.training.full_softmax.binary_slopes import binary_loss, binary_slopes
from dglke_frugal.training.full_softmax.table_update import TableShape
from dglke_frugal.training.full_softmax.tile_products import HostL2

THREADS = (1, 2, 3, 7)


@pytest.fixture
def random():
    return torch.Generator().manual_seed(0)


def with_threads(compute):
    """What it returns with each number of threads."""
    found = []
    with threads_as_before():
        for threads in THREADS:
            torch.set_num_threads(threads)
            found.append(compute())
    return found


@pytest.mark.parametrize("queries", [1, 41])
@pytest.mark.parametrize("bound", [0.0, 5.0])
def test_a_binary_cross_entropy(queries, bound, random):
    entities = 100_001
    scores = 4 * torch.randn(queries, entities + 7, generator=random)[:, :entities]
    begin = torch.arange(queries)
    labels = torch.full((queries,), 0.9), torch.full((queries,), 1e-3)
    targets = (torch.randint(entities, (queries,), generator=random), begin, begin + 1, *labels)

    def compute():
        slopes = scores.clone()
        binary_slopes(slopes, 0, bound, targets, torch.ones(queries))
        return slopes, binary_loss(scores, 0, bound, targets)

    (slopes, loss), *others = with_threads(compute)
    assert all(torch.equal(slopes, each) and torch.equal(loss, of_each) for each, of_each in others)


def test_distances_of_one_query(random):
    rows, dim = 100_000, 16
    query, tile = torch.randn(1, dim, generator=random), torch.randn(rows, dim, generator=random)
    slopes = torch.rand(1, rows, generator=random)

    def compute():
        products, out = HostL2(HostDevice(), "fp32", TableShape(1, rows, dim, 1), rows), torch.zeros(1, dim)
        products.ask(query)
        products.set_tile(tile)
        products.add_to_query(slopes, out)
        return out

    first, *others = with_threads(compute)
    assert all(torch.equal(first, each) for each in others)
