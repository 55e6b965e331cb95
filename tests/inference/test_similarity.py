"""Similar embeddings against all pairs sorted, with DGL-KE's formulas."""

import numpy as np
import pytest

from dglke_frugal.errors import InputError
from dglke_frugal.inference.similarity import MEASURES, most_similar, similarities

RNG = np.random.default_rng(0)
TABLE = RNG.normal(size=(70, 9)).astype(np.float32)
LEFT, RIGHT = np.array([3, 60, 3, 12]), np.array([60, 5, 7, 12, 33])


def oracle(a, b, measure):
    a, b = a.astype(float), b.astype(float)
    return {"cosine": lambda: a @ b / np.linalg.norm(a) / np.linalg.norm(b), "l2": lambda: -np.linalg.norm(a - b),
            "l1": lambda: -np.abs(a - b).sum(), "dot": lambda: a @ b,
            "ext_jaccard": lambda: a @ b / (a @ a + b @ b - a @ b)}[measure]()


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("mode", ["all", "batch_left", "pairwise"])
def test_the_best_are_the_first_of_all_sorted(measure, mode):
    left, right = (LEFT, RIGHT[:4]) if mode == "pairwise" else (LEFT, np.arange(70))
    groups = {"pairwise": [list(zip(left, right))],
              "all": [[(a, b) for a in left for b in right]],
              "batch_left": [[(a, b) for b in right] for a in left]}[mode]
    results = most_similar(TABLE, left, right, mode, measure, 5)
    assert len(results) == len(groups)
    for (lefts, rights, scores), pairs in zip(results, groups):
        wanted = sorted((oracle(TABLE[a], TABLE[b], measure) for a, b in pairs), reverse=True)[:5]
        np.testing.assert_allclose(scores, wanted, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(scores, [oracle(TABLE[a], TABLE[b], measure) for a, b in zip(lefts, rights)],
                                   rtol=1e-5, atol=1e-6)
        assert set(zip(lefts.tolist(), rights.tolist())) <= {(int(a), int(b)) for a, b in pairs}


@pytest.mark.parametrize("measure", MEASURES)
def test_neighbours_that_float32_cannot_tell_apart(measure):
    """Rows that differ in the last bits: the order must be that of exact arithmetic."""
    table = np.full((3000, 64), 1.0, np.float32)
    table[np.arange(3000), RNG.integers(0, 64, 3000)] += RNG.integers(1, 2000, 3000).astype(np.float32) * np.float32(
        2.0**-20)
    _, rights, _ = most_similar(table, np.array([0]), np.arange(3000), "batch_left", measure, 20)[0]
    exact = similarities(table, np.zeros(3000, np.int64), np.arange(3000), measure)
    np.testing.assert_array_equal(np.sort(exact[rights])[::-1], np.sort(exact)[::-1][:20])


@pytest.mark.parametrize("change, message", [
    ({"measure": "taxi"}, "sim_func"),
    ({"mode": "some"}, "exec_mode"),
    ({"k": 0}, "at least 1"),
    ({"left": np.array([70])}, "left id 70"),
    ({"right": np.array([-1])}, "right id -1"),
    ({"mode": "pairwise", "left": LEFT[:2]}, "one length")])
def test_bad_requests_are_refused(change, message):
    request = {"left": LEFT, "right": RIGHT, "mode": "all", "measure": "dot", "k": 3, **change}
    with pytest.raises(InputError, match=message):
        most_similar(TABLE, **request)


@pytest.mark.parametrize("mode", ["pairwise", "all", "batch_left"])
@pytest.mark.parametrize("measure", ["cosine", "ext_jaccard"])
def test_a_row_of_zeros_is_like_nothing(measure, mode):
    """Its similarity is 0: to itself, to another row of zeros, and to any other."""
    table = np.zeros((4, 3), np.float32)
    table[1:3] = [[1, 2, 3], [-1, -2, -3]]
    for other in (0, 1, 3):
        (_, _, scores), *_ = most_similar(table, np.array([0]), np.array([other]), mode, measure, 1)
        assert scores.tolist() == [0]
    _, rights, scores = most_similar(table, np.array([1]), np.arange(4), "batch_left", measure, 4)[0]
    assert rights.tolist() == [1, 0, 3, 2]
    assert scores == pytest.approx([1, 0, 0, -1 if measure == "cosine" else -1 / 3])
