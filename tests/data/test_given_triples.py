"""Triples that are given in Python: every form is the same data set, names and ids keep their meaning."""

import numpy as np
import pytest
import torch

from dglke_frugal.data import load_graph
from dglke_frugal.data.given_triples import flags_of_triples
from dglke_frugal.errors import InputError

ROWS = [("anna", "knows", "ben"), (" ben", "knows", "anna "), ("cara", "likes", "anna"), ("anna", "knows", "dan"),
        ("dan", "likes", "ben")]


class Table:
    """The part of a pandas DataFrame that is used."""

    def __init__(self, rows):
        self.columns, self._values = ["head", "relation", "tail"], np.array(rows, dtype=object)

    def to_numpy(self):
        return self._values

    def __getitem__(self, name):
        return self._values[:, self.columns.index(name)]


def data_frame(rows):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed (pip install '.[tables]')")
    return pandas.DataFrame(rows, columns=["head", "relation", "tail"])


def arrow_table(rows):
    """With its columns in another order, which their names undo."""
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed (pip install '.[tables]')")
    return pyarrow.table(dict(zip(["tail", "relation", "head"], list(zip(*rows))[::-1])))


class ArrowLike:
    """The part of a pyarrow Table that is used: `columns` are arrays, and NumPy takes them by their places."""

    def __init__(self, rows):
        self._by_name = dict(zip(["tail", "relation", "head"], list(zip(*rows))[::-1]))
        self.column_names, self.columns = list(self._by_name), list(self._by_name.values())

    def __getitem__(self, name):
        return ArrowColumn(self._by_name[name])

    def __array__(self, dtype=None, copy=None):
        return np.array(self.columns, dtype=object).T


class ArrowColumn:
    def __init__(self, items):
        self._items = items

    def __len__(self):
        return len(self._items)

    def __iter__(self):
        return ((item,) for item in self._items)

    def to_pylist(self):
        return list(self._items)


FORMS = {"arrow": arrow_table, "as arrow": ArrowLike,
         "list": list, "array": np.array, "objects": lambda rows: np.array(rows, dtype=object), "table": Table,
         "columns": lambda rows: tuple(map(list, zip(*rows))), "iterator": iter, "data frame": data_frame,
         "categories": lambda rows: data_frame(rows).astype("category")}


def read(flags):
    graph = load_graph(flags["dataset"], flags["data_path"], flags["format"], flags["data_files"])
    entities, relations = list(graph.entity_names), list(graph.relation_names)
    return {split: [(entities[h], relations[r], entities[t]) for h, r, t in zip(*(c.tolist() for c in triples))]
            for split, triples in graph.splits.items()}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_the_same_data_set(tmp_path, form):
    expected = flags_of_triples(ROWS, ROWS[:1], ROWS[1:2], folder=tmp_path)
    assert read(expected) == {"train": ROWS, "valid": ROWS[:1], "test": ROWS[1:2]}  # white space stays
    found = flags_of_triples(*(FORMS[form](part) for part in (ROWS, ROWS[:1], ROWS[1:2])), folder=tmp_path)
    assert found == expected
    graph = load_graph(found["dataset"], found["data_path"], found["format"], found["data_files"])
    assert list(graph.entity_names) == ["anna", " ben", "cara", "dan", "ben", "anna "]  # heads first, then tails


def test_ids_are_rows(tmp_path):
    rows = np.array([(7, 1, 2), (0, 0, 7), (3, 1, 0)])
    for given in (rows, torch.tensor(rows), rows.astype(np.uint8), [tuple(row) for row in rows.tolist()] + [(0, 0, 7)]):
        flags = flags_of_triples(given, test=[(5, 0, 1)], folder=tmp_path)
        graph = load_graph(flags["dataset"], flags["data_path"], flags["format"], flags["data_files"])
        assert (graph.n_entities, graph.n_relations) == (8, 2) and graph.train.head.tolist()[:3] == [7, 0, 3]
        assert list(graph.entity_names) == [str(number) for number in range(8)] and graph.test.head.tolist() == [5]


def test_a_split_keeps_every_name_in_train(tmp_path):
    rows = [(f"e{i}", "next", f"e{(i + j) % 20}") for i in range(20) for j in range(1, 6)]
    parts = read(flags_of_triples(rows + rows[:7], split=(0.8, 0.1, 0.1), folder=tmp_path))
    assert [len(parts[name]) for name in ("train", "valid", "test")] == [80, 10, 10]
    assert sorted(sum(parts.values(), [])) == sorted(rows)
    assert {row[0] for row in parts["train"]} | {row[2] for row in parts["train"]} == {f"e{i}" for i in range(20)}
    assert read(flags_of_triples(rows, split=np.array([0.8, 0.1, 0.1]), folder=tmp_path)) == parts  # the same each time
    assert list(read(flags_of_triples(rows, split=[0.9, 0, 0.1], folder=tmp_path))) == ["train", "test"]


def test_paths(tmp_path):
    folder = tmp_path / "people"
    folder.mkdir()
    for name in ("train", "test"):
        (folder / f"{name}.tsv").write_text("".join("\t".join(row) + "\n" for row in ROWS[2:]))
    in_place = flags_of_triples(folder, folder=tmp_path / "none")
    assert in_place["data_path"] == str(folder) and in_place["data_files"] == ["train.tsv", "test.tsv"]
    assert flags_of_triples(str(folder / "train.tsv"), folder=tmp_path / "none")["data_files"] == ["train.tsv"]
    assert not (tmp_path / "none").exists()
    (folder / "-x.tsv").write_text("a\tr\tb\n")  # which no command line takes for a flag
    assert flags_of_triples(folder / "-x.tsv", folder=tmp_path / "none")["data_files"] == ["./-x.tsv"]
    assert read(flags_of_triples(folder / "-x.tsv", folder=tmp_path)) == {"train": [("a", "r", "b")]}
    given = read(flags_of_triples(folder / "train.tsv", test=folder / "test.tsv", folder=tmp_path, dataset="d"))
    assert given == {"train": ROWS[2:], "test": ROWS[2:]}
    assert len(read(flags_of_triples(folder / "train.tsv", valid=ROWS[:1], folder=tmp_path))["valid"]) == 1
    with pytest.raises(InputError, match="people has test.tsv; leave valid, test and split out"):
        flags_of_triples(folder, split=(0.8, 0.1, 0.1), folder=tmp_path)


def test_flags_are_checked_by_the_graph_before_a_file_is_written(tmp_path):
    def refuse(flags, graph):
        sizes = graph.n_entities, graph.n_relations, {name: len(each) for name, each in graph.splits.items()}
        assert sizes == (6, 2, {"train": 5, "test": 1}) and flags["data_files"][-1] == "test_ids.tsv"
        raise InputError("no")

    with pytest.raises(InputError, match="no"):
        flags_of_triples(ROWS, test=ROWS[:1], folder=tmp_path / "runs", check=refuse)
    assert not (tmp_path / "runs").exists()


def test_missing_names_of_pandas(tmp_path):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed (pip install '.[tables]')")
    frame = data_frame(ROWS).astype("string")
    frame.loc[3, "tail"] = pandas.NA
    ids = pandas.DataFrame({"head": [0, 1, 2, 3], "relation": 0, "tail": pandas.array([1, 2, 3, None], dtype="Int64")})
    for given in (frame, ids, ids.astype({"tail": float})):
        with pytest.raises(InputError, match="triples, row 3: the tail is missing;.*keep_default_na"):
            flags_of_triples(given, folder=tmp_path)
    whole = ids.assign(tail=pandas.array([1, 2, 3, 0], dtype="Int64"))
    assert flags_of_triples(whole, folder=tmp_path) == flags_of_triples(whole.astype(int), folder=tmp_path)


@pytest.mark.parametrize("given, says", [
    (dict(triples=[]), "triples has no row"),
    (dict(triples=[("a", "r", None)]), "triples, row 0: the tail is missing"),
    (dict(triples=[("x" * (1 << 20), "r", "b")]), "triples, row 0: the name of the head has 1,048,576 bytes"),
    (dict(triples=[("a", "r", "b"), ("a", float("nan"), "b")]), "triples, row 1: the relation is missing"),
    (dict(triples=[("a", "", "b")]), "triples, row 0: the relation has no name"),
    (dict(triples=[("a\tx", "r", "b")]), "triples, row 0: the name 'a.*' of the head has a tab"),
    (dict(triples=[("a", "r", True)]), "the tail is True, which is neither text nor an integer"),
    (dict(triples=np.array([[0.5, 0, 1]])), "the head is 0.5, which is neither text"),
    (dict(triples=([0, 1], [0, 0], np.array([0, np.nan]))), "triples, row 1: the tail is missing"),
    (dict(triples=np.array([[0, 0, -1]])), "the tails of triples: -1 is no id"),
    (dict(triples=np.array([[0, 0, 10**12]])), "the entity ids go up to 1,000,000,000,000, and no more than 2"),
    (dict(triples=[("a", "r", 5)]), "the heads of triples are names and the tails of triples are integers"),
    (dict(triples=[("a", "r", "b")], test=[(0, "r", 1)]), "the heads of triples are names and the heads of test"),
    (dict(triples={("a", "r", "b")}), "triples: a set has no order"),
    (dict(triples=[("a", "r", "b")], valid=frozenset({("a", "r", "b")})), "valid: a set has no order"),
    (dict(triples={"head": {0: "a"}, "relation": {0: "r"}, "tail": {0: "b"}}), "the heads of triples are a dict"),
    (dict(triples=(["a", "b"], "r", {"c", "d"})), "the tails of triples are a set"),
    (dict(triples={"from": ["a"], "to": ["b"]}), "triples: a table of triples has the three columns head"),
    (dict(triples="nowhere.tsv"), "triples: there is no file nowhere.tsv"),
    (dict(triples="."), "triples: the folder . has no file train.txt"),
    (dict(triples=[("a", "r", "b")], valid="nowhere"), "valid: nowhere is no file of triples"),
    (dict(triples=[("a", "r", "b")], split=(0.8, 0.1)), r"split is \(0.8, 0.1\); give the shares"),
    (dict(triples=[("a", "r", "b")], split=(0.8, 0.1, 0.2)), "which sum to 1"),
    (dict(triples=[("a", "r", "b")], split=0.1), "split is 0.1; give the shares"),
    (dict(triples=[("a", "r", "b")], split=(0, 0.5, 0.5)), "give the shares"),
    (dict(triples=[("a", "r", "b")], split=(0.8, 0.1, 0.1), test=[]), "split divides triples, and valid and test"),
    (dict(triples=np.array([[0, 0, 2**63]], np.uint64)), "9223372036854775808 is no id"),
    (dict(triples=[(0, 0, 10**30)]), "the tails of triples: 1000000000000000000000000000000 is no id"),
    (dict(triples=[("a", "r", "b")], dataset="a/b"), "--dataset 'a/b' cannot be used"),
    (dict(triples=[("a", "r", ["b"])]), "is neither text nor an integer|no list|heads")])
def test_what_cannot_be_used_is_one_sentence(tmp_path, monkeypatch, given, says):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=says) as refused:
        flags_of_triples(**given, folder=tmp_path / "runs")
    assert "\n" not in str(refused.value) and not (tmp_path / "runs").exists()
