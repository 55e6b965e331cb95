"""What callers give: triples mean the same in every form, what may mean two things is refused, numbers are numbers."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from dglke_frugal.arguments import integer, path, plain, read_ids, read_triples, switch
from dglke_frugal.data import Triples
from dglke_frugal.errors import InputError

ROWS = [(7, 0, 1), (1, 2, 8), (2, 1, 0), (30, 1, 4), (4, 2, 5)]
FORMS = {"rows": lambda rows: np.array(rows),
         "rows in Fortran order": lambda rows: np.asfortranarray(np.array(rows)),
         "rows of small integers": lambda rows: np.array(rows, np.uint8),
         "objects": lambda rows: np.array(rows, dtype=object),
         "tensor": lambda rows: torch.tensor(rows),
         "list of tuples": lambda rows: list(rows),
         "iterator": lambda rows: iter(list(rows)),
         "zip of columns": lambda rows: zip(*zip(*rows)),
         "columns": lambda rows: tuple(np.array(rows).T),
         "columns of tensors": lambda rows: tuple(torch.tensor(rows).T),
         "columns as lists": lambda rows: tuple(list(column) for column in zip(*rows)),
         "triples of a graph": lambda rows: Triples(*np.array(rows, np.int32).T),
         "mapping": lambda rows: dict(zip(("tail", "head", "relation"), np.array(rows).T[[2, 0, 1]])),
         "structured": lambda rows: np.array(list(rows), dtype=[("h", int), ("r", int), ("t", int)]),
         "table": lambda rows: Table(("Relation", "Tail", "Head"), np.array(rows)[:, [1, 2, 0]]),
         "table without names": lambda rows: Table((0, 1, 2), np.array(rows))}


class Table:
    """The part of a pandas DataFrame that is used."""

    def __init__(self, columns, values):
        self.columns, self._values = list(columns), values

    def to_numpy(self):
        return self._values

    def __getitem__(self, name):
        return self._values[:, self.columns.index(name)]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_the_same_triples(form, count):
    """Of three triples, too, which are as many as a triple has parts."""
    rows = ROWS[:count]
    if not rows and form in ("zip of columns", "columns", "columns of tensors", "columns as lists", "mapping", "table",
                             "triples of a graph", "table without names", "structured"):
        rows = np.empty((0, 3), np.int64)
        given = {"structured": lambda: np.empty(0, dtype=[("h", int), ("r", int), ("t", int)]),
                 "columns of tensors": lambda: (torch.empty(0, dtype=torch.int64),) * 3}.get(
                     form, lambda: FORMS[form](rows) if "table" in form else ([], [], []))()
    else:
        given = FORMS[form](rows)
    found = read_triples(given)
    assert [column.dtype.kind for column in found] == ["i"] * 3
    np.testing.assert_array_equal(np.stack(found, axis=1), np.array(rows, np.int64).reshape(-1, 3))


def test_single_triples_and_items_that_stand_for_all():
    assert [column.tolist() for column in read_triples((7, 0, 1))] == [[7], [0], [1]]
    assert [column.tolist() for column in read_triples([7, np.int64(0), torch.tensor(1)])] == [[7], [0], [1]]
    assert [column.tolist() for column in read_triples(([7, 8], 0, np.array([1, 2])))] == [[7, 8], [0, 0], [1, 2]]


def test_columns_are_not_copied_and_keep_their_type():
    columns = tuple(np.arange(6, dtype=np.int32) for _ in range(3))
    assert all(np.shares_memory(*pair) and pair[0].dtype == np.int32 for pair in zip(read_triples(columns), columns))


@pytest.mark.parametrize("triples, says", [
    ([[0, 0, 1], [1, 0, 2], [2, 1, 0]], "three items of three each may be rows or columns"),
    (((0, 0, 1), (1, 0, 2), (2, 1, 0)), "three items of three each may be rows or columns"),
    ([np.arange(3)] * 3, "three items of three each may be rows or columns"),
    (np.arange(3), r"not an array of shape \(3,\)"),
    (np.zeros((5, 4), int), r"not an array of shape \(5, 4\)$"),
    (np.zeros((3, 5), int), r"not an array of shape \(3, 5\); give its transpose"),
    (np.zeros((2, 3, 1), int), r"not an array of shape \(2, 3, 1\)"),
    (np.array(5), r"not an array of shape \(\)"),
    ([(0, 0, 1), (1, 0)], "item 1 has 2 elements"),
    ([(0, 0, 1), 5], "item 1 is 5"),
    ([0, 1], "item 0 is 0"),
    ([(0, 0, 1), (1, 0, 2), (2, 1)], "item 2 has 2 elements"),
    ([np.arange(4)] * 3, "or a tuple of three columns .*, and item 0 has 4 elements"),  # of three elements: rows
    (list(zip(*ROWS)), "item 0 has 5 elements"),
    ([(0, 0, 1), 4, (1, 0, 2)], "item 1 is 4"),
    (([0, 1], [0], [1, 2]), "lengths are 2 for heads and 1 for relations"),
    ([{0, 1, 2}, {1, 0, 3}], "item 0 is a set"),
    ([dict(head=0, relation=1, tail=2)], "item 0 is a dict"),
    (({0, 1}, {1, 0}, [2, 3]), "heads: a set has no order"),
    ({"head": [0], "tail": [1]}, "a table of triples has the three columns head, relation and tail"),
    ({"head": [0], "relation": [1], "tail": [2], "weight": [1]}, "and not head, relation, tail, weight"),
    (Table(("from", "to", "kind"), np.zeros((2, 3), int)), "and not from, to, kind"),
    (None, "and not None"),
    ("abc", "and not 'abc'"),
    (7, "and not 7"),
    pytest.param(10**5000, "and not a number of thousands of digits", id="huge"),
    (SimpleNamespace(), "and not namespace"),
    (np.array([[0, 0.0, 1]]), "0.0 is not the id of one entity; give integers"),
    ([(0, 0.0, 1)], "0.0 is not the id of one relation"),
    ([(0, True, 1)], "True is not the id of one relation"),
    ([(0, None, 1)], "None is not the id"),
    ([("a", 0, 1)], "'a' is a name; give ids here"),
    (np.array([["a", "r", "b"]]), "'a' is a name"),
    ([(10**30, 0, 1)], "entity id 1000"),
    (np.ma.masked_array([[0, 0, 1]], mask=[[False, False, True]]), "masked elements"),
    ((np.zeros((2, 2), int), 0, 1), r"heads: an array of shape \(2, 2\) is no list of ids"),
    (torch.ones(1, 3, dtype=torch.bfloat16), "a tensor of torch.bfloat16 is no array of ids .*; give integers"),
    ((torch.tensor([1, 2]).to_sparse(), 0, 1), "a tensor of torch.int64 is no array of ids .* in a dense tensor"),
    (torch.empty(2, 3, device="meta"), "a tensor of torch.float32 is no array of ids"),
    ([(0, torch.empty((), dtype=torch.int64, device="meta"), 1)], "is not the id of one relation"),
    ([(0, torch.tensor([1, 2]).to_sparse(), 1)], "is not the id of one relation")])
def test_what_is_no_triples_or_may_be_two_things_is_refused(triples, says):
    with pytest.raises(InputError, match=says):
        read_triples(triples)


def test_names_are_read_where_there_are_some():
    ids = {"a": 3, "b": 5}
    for items in (["a", 5, "b"], np.array(["a", 5, "b"], dtype=object), iter(["a", 5, "b"])):
        assert read_ids("heads", items, ids.__getitem__).tolist() == [3, 5, 5]
    assert read_ids("heads", np.array(["a", "b"]), ids.__getitem__).tolist() == [3, 5]
    assert read_ids("heads", np.str_("b"), ids.__getitem__).tolist() == [5]


def test_an_item_that_is_missing_is_named():
    pandas = pytest.importorskip("pandas")
    with pytest.raises(InputError, match="heads: item 1 is missing"):
        read_ids("heads", pandas.Series([0, None, 2], dtype="Int64"))


def test_numbers_switches_and_paths():
    for value in (5, np.int8(5), np.uint64(5), np.array(5), torch.tensor(5)):
        assert integer("k", value, 1) == 5 and type(integer("k", value, 1)) is int
    for value in (0, True, np.bool_(True), 5.0, np.float32(5), "5", None, np.array([5]), float("nan"), 2**63):
        with pytest.raises(InputError, match=r"^k is .*; give an integer of at least 1$"):
            integer("k", value, 1)
    assert switch("s", np.bool_(True)) is True and switch("s", False) is False
    for value in (1, "yes", None, np.array([True])):
        with pytest.raises(InputError, match="s is .*; give True or False"):
            switch("s", value)
    for value in (None, 5, b"x", "a\0b", ["x"]):
        with pytest.raises(InputError, match=re.escape(f"p is {value!r}; give a path")):
            path("p", value)


def test_plain_values():
    found = plain((np.float64(0.5), torch.tensor([1, 2]), range(2), np.array(["a"]), np.str_("b")))
    assert found == [0.5, [1, 2], [0, 1], ["a"], "b"] and type(found[0]) is float and type(found[4]) is str
    assert plain(np.float32(0.1)) == float(np.float32(0.1)) and plain({2}) == {2} and plain(np.bool_(True)) is True
