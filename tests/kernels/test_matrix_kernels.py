"""Rows that are matrices: the kernels on the CPU and (marked cuda) on a device, against formulas in float64."""
import numpy as np
import pytest

from dglke_frugal._native import MatrixRows

SHAPES = [(1, 1), (7, 7), (3, 130), (50, 33), (200, 200)]
ROWS, TABLE, EDGES, TERMS = [4, 0, 3, 8, 1, 7, 7], 9, [1, 3, 40, 9, 1, 0, 0], 2
PENALTIES = [(3.0, 0.0), (3.0, 0.3), (2.0, 0.2), (1.0, 0.1), (2.5, 0.3)]


class Case:
    """Rows of a table in another order than there, the last two of which only pad."""

    def __init__(self, machine, height, width, whole=False):
        """whole: matrices of small whole numbers."""
        self.machine, self.shape, self.random = machine, (height, width), np.random.default_rng(2)
        self.offset = np.concatenate([[0], np.cumsum(EDGES)]).astype(np.int32)
        self.edges = int(self.offset[-1])
        shuffled = np.split(self.random.permutation(self.edges), self.offset[1:-1])
        self.occurrence = np.concatenate([np.sort(of_row) for of_row in shuffled]).astype(np.int32)
        self.slot = np.empty(self.edges, np.int32)
        self.slot[self.occurrence] = np.repeat(np.arange(len(ROWS)), EDGES)
        self.table = self.normal(TABLE, (height * width + 32) // 32 * 32)
        if whole:
            self.table = np.round(self.table)
        self.table[:, height * width] = np.arange(TABLE) / 10
        self.on_device = machine.put(self.table)
        put = [machine.put(array) for array in (np.array(ROWS), self.offset, self.occurrence, self.slot)]
        self.rows = MatrixRows(self.on_device, put[0], height, width, *put[1:])

    def normal(self, *shape):
        return self.random.normal(size=shape).astype(np.float32)

    def empty(self, *shape):
        return self.machine.put(np.full(shape, np.nan, np.float32))

    def matrices(self):
        """Of each edge, float64."""
        matrices = self.table[ROWS, : self.shape[0] * self.shape[1]].reshape(-1, *self.shape)
        return matrices.astype(np.float64)[self.slot]

    def factors(self):
        """Arrays for `squares` and `update`, and the gradients of the edges."""
        height, width = self.shape
        left, right = self.normal(self.edges, TERMS, height), self.normal(self.edges, TERMS, width)
        dense = self.normal(self.edges, height, width)
        gradients = np.einsum("bki,bkj->bij", left, right, dtype=np.float64)
        return (left, right, dense), gradients + dense


@pytest.mark.parametrize("vectors", [1, 2, 3])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_products(machine, shape, vectors):
    case = Case(machine, *shape)
    for transposed, formula in ((False, "bij,bkj->bki"), (True, "bij,bki->bkj")):
        x = case.normal(case.edges, vectors, shape[0 if transposed else 1])
        y = case.empty(case.edges, vectors, shape[1 if transposed else 0])
        case.rows.products(transposed, machine.put(x), y, machine.stream)
        expected = np.einsum(formula, case.matrices(), x)
        np.testing.assert_allclose(machine.get(y), expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("norm, factor", PENALTIES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_update(machine, shape, norm, factor):
    """Row-wise Adagrad as table/row_adagrad.h says, for two entries."""
    case, learning_rate, elements = Case(machine, *shape), 0.1, shape[0] * shape[1]
    rising = np.sign(case.table) * np.abs(case.table.astype(np.float64)) ** (norm - 1)
    penalty = factor * rising[ROWS, :elements].reshape(-1, *shape)[case.slot]
    entries, gradients = [], []
    for _ in range(2):
        arrays, gradient = case.factors()
        entries.append(tuple(map(machine.put, arrays)))
        gradients.append(gradient + penalty)
    squares, amounts = case.empty(2, case.rows.tiles, case.edges), case.empty(case.rows.tiles, case.edges)
    case.rows.squares(entries, norm, factor, squares, amounts, machine.stream)
    means = machine.get(squares).sum(1) / elements
    for mean, gradient in zip(means, gradients):
        np.testing.assert_allclose(mean, (gradient**2).mean((1, 2))[case.occurrence], rtol=1e-4)
    expected = (np.abs(case.table[ROWS, :elements].astype(np.float64)) ** norm).sum(1) @ EDGES
    np.testing.assert_allclose(machine.get(amounts).sum(), expected, rtol=1e-4)

    case.rows.update(entries, squares, norm, factor, learning_rate, case.empty(2, len(ROWS)), machine.stream)
    expected = case.table.astype(np.float64)
    for gradient, mean in zip(gradients, means):
        for u, row in enumerate(ROWS[:5]):
            mine = slice(case.offset[u], case.offset[u + 1])
            expected[row, elements] += mean[mine].sum()
            total = gradient[case.occurrence[mine]].sum(0).reshape(-1)
            expected[row, :elements] -= learning_rate * total / (np.sqrt(expected[row, elements]) + 1e-10)
    np.testing.assert_allclose(machine.get(case.on_device), expected, rtol=1e-4, atol=1e-4)


PAIRS = [(1, 1), (7, 8), (50, 33), (20, 120), (120, 20)]


def projected_pairs(case, candidates, query):
    """What `project` makes of two chunks, on the machine, and query - candidate M in float64."""
    edges, negatives = len(query), candidates.shape[1]
    in_chunk = candidates.astype(np.float64)[np.arange(edges) // (edges // 2)]
    of_edge = np.einsum("bni,bij->bnj", in_chunk, case.matrices())
    projected, distances = case.empty(edges, negatives, query.shape[1]), case.empty(edges, negatives)
    case.rows.project(case.machine.put(candidates), case.machine.put(query), projected, distances, case.machine.stream)
    return projected, case.machine.get(distances), query[:, None] - of_edge


@pytest.mark.parametrize("negatives", [1, 19, 140])
@pytest.mark.parametrize("shape", PAIRS, ids=str)
def test_projected_distances(machine, shape, negatives):
    case, (height, width) = Case(machine, *shape), shape
    _, found, difference = projected_pairs(case, case.normal(2, negatives, height), case.normal(case.edges, width))
    expected = np.abs(difference).sum(-1)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6 * expected.max())


@pytest.mark.parametrize("negatives", [1, 19, 140])
@pytest.mark.parametrize("shape", PAIRS, ids=str)
def test_gradients_of_projected_pairs(machine, shape, negatives):
    """Of whole numbers but for the queries, so that no rounding decides a sign; some differences are 0."""
    case, (height, width) = Case(machine, *shape, whole=True), shape
    size = case.edges // 2
    candidates, slope = np.round(case.normal(2, negatives, height)), case.normal(case.edges, negatives)
    query = np.round(2 * case.normal(case.edges, width)) / 2
    projected, distances, difference = projected_pairs(case, candidates, query)
    np.testing.assert_array_equal(distances, np.abs(difference).sum(-1))
    on_machine = [machine.put(array) for array in (candidates, query, slope)]
    of_pairs = (slope[..., None].astype(np.float64) * np.sign(difference)).reshape(2, size, negatives, width)

    back = case.empty(2, case.rows.stripes, negatives, height)
    runs = machine.put(np.empty((2, size + 1), np.int32))
    case.rows.project_back(*on_machine[1:], projected, runs, back, machine.stream)
    expected = np.einsum("cbnj,cbij->cni", of_pairs, case.matrices().reshape(2, size, height, width))
    np.testing.assert_allclose(machine.get(back).sum(1), expected, rtol=1e-4, atol=1e-6 * np.abs(expected).max())

    of_matrices, of_query = case.empty(case.edges, height, width), case.empty(case.edges, width)
    case.rows.differentiate_matrices(*on_machine, projected, of_matrices, of_query, machine.stream)
    expected = np.einsum("cni,cbnj->cbij", candidates.astype(np.float64), of_pairs).reshape(of_matrices.shape)
    np.testing.assert_allclose(machine.get(of_matrices), expected, rtol=1e-4, atol=1e-6 * np.abs(expected).max())
    expected = -of_pairs.sum(2).reshape(query.shape)
    np.testing.assert_allclose(machine.get(of_query), expected, rtol=1e-4, atol=1e-6 * np.abs(slope).sum(1).max())


def test_pairs_need_ascending_edges():
    """By which they are found."""
    case = Case(type("Cpu", (), {"put": staticmethod(np.array)}), 3, 4)
    backwards = MatrixRows(case.table, np.array(ROWS), 3, 4, case.offset, case.occurrence[::-1].copy(), case.slot)
    projected, distances = np.empty((case.edges, 5, 4), np.float32), np.empty((case.edges, 5), np.float32)
    with pytest.raises(ValueError, match="must ascend"):
        backwards.project(case.normal(2, 5, 3), case.normal(case.edges, 4), projected, distances)


def test_what_does_not_fit_is_refused():
    case = Case(type("Cpu", (), {"put": staticmethod(np.array)}), 3, 4)
    x = case.normal(case.edges, 1, 4)
    with pytest.raises(ValueError, match="vectors must be"):
        case.rows.products(True, x, np.empty((case.edges, 1, 4), np.float32))
    with pytest.raises(ValueError, match="products must be"):
        case.rows.products(False, x, np.empty((case.edges, 1, 4), np.float32))
    left, right, dense = case.factors()[0]
    squares = np.empty((1, case.rows.tiles, case.edges), np.float32)
    with pytest.raises(ValueError, match="factors must be"):
        case.rows.squares([(right, left, None)], 3.0, 0.0, squares, None)
    with pytest.raises(ValueError, match="dense gradients"):
        case.rows.squares([(left, right, dense[1:])], 3.0, 0.0, squares, None)
    with pytest.raises(IndexError):
        MatrixRows(case.table, np.array([99] * 7), 3, 4, case.offset, case.occurrence, case.slot).products(
            False, x, np.empty((case.edges, 1, 3), np.float32))
