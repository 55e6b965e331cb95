"""A folder with train, valid and test is a data set; CSV and Parquet files are tables, and a header names columns."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from dglke_frugal.cli.train import configuration
from dglke_frugal.data import load_graph
from dglke_frugal.data.find_files import dataset_name, flags_of_path, split_files
from dglke_frugal.errors import InputError

ROWS = [("anna", "married_to", "ben"), ("ben, the elder", "knows", "anna"), ('so-called "x"', "knows", "ben")]
SPLITS = {"train": ROWS, "valid": ROWS[:1], "test": ROWS[1:]}


def as_text(path, rows):
    path.write_text("".join("\t".join(row) + "\n" for row in rows))


def as_gzip(path, rows):
    path.write_bytes(gzip.compress("".join("\t".join(row) + "\n" for row in rows).encode()))


def as_csv(path, rows):
    quoted = [",".join('"' + cell.replace('"', '""') + '"' for cell in row) for row in rows]
    path.write_text("\n".join(quoted) + "\n")


def as_csv_with_header(path, rows):
    lines = [f'"{t}";"{h.replace(chr(34), chr(34) * 2)}";7;"{r}"' for h, r, t in rows]
    path.write_text("\ufefftail;head;number;relation\n" + "\n".join(lines), encoding="utf-8")


def as_parquet(path, rows):
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed (pip install '.[tables]')")
    from pyarrow import parquet

    heads, relations, tails = zip(*rows)
    table = pyarrow.table({"Relation": relations, "n": range(len(rows)), "Tail": tails, "Head": heads})
    parquet.write_table(table, path)


WRITE = {".txt": as_text, ".tsv": as_text, ".tsv.gz": as_gzip, ".csv": as_csv, ".parquet": as_parquet}


def triples(graph, split):
    entities, relations = list(graph.entity_names), list(graph.relation_names)
    head, relation, tail = (column.tolist() for column in graph.splits[split])
    return [(entities[h], relations[r], entities[t]) for h, r, t in zip(head, relation, tail)]


@pytest.mark.parametrize("ending", WRITE)
@pytest.mark.parametrize("splits", [("train",), ("train", "valid"), ("train", "test"), ("train", "valid", "test")])
def test_a_folder_is_recognised(tmp_path, ending, splits):
    folder = tmp_path / "people"
    folder.mkdir()
    for split in splits:
        WRITE[ending](folder / (split + ending), SPLITS[split])
    _, config = configuration(["--data_path", str(folder)])
    graph = config.graph
    assert (graph.dataset, graph.format) == ("people", "raw_udd_hrt")
    read = load_graph(graph.dataset, graph.data_path, graph.format, graph.data_files, graph.delimiter)
    assert {split: triples(read, split) for split in read.splits} == {split: SPLITS[split] for split in splits}
    assert list(read.entity_names) == ["anna", "ben", "ben, the elder", 'so-called "x"']  # by first appearance


def test_where_a_named_data_set_is_looked_for(tmp_path):
    for folder in (tmp_path / "mine", tmp_path):
        folder.mkdir(exist_ok=True)
        as_text(folder / "train.tsv", ROWS)
    inside = configuration(["--data_path", str(tmp_path), "--dataset", "mine"])[1].graph
    assert (inside.dataset, inside.data_path) == ("mine", str(tmp_path / "mine"))
    here = configuration(["--data_path", str(tmp_path), "--dataset", "other"])[1].graph
    assert (here.dataset, here.data_path, here.data_files) == ("other", str(tmp_path), ["train.tsv"])
    file = configuration(["--data_path", str(tmp_path / "train.tsv")])[1].graph
    assert (file.dataset, file.data_path, file.data_files) == ("train", str(tmp_path), ["train.tsv"])


def test_flags_that_say_so_come_first(tmp_path):
    as_text(tmp_path / "train.tsv", ROWS)
    for given in (["--dataset", "FB15k"], ["--format", "udd_hrt", "--dataset", "x"]):
        graph = configuration(["--data_path", str(tmp_path), *given])[1].graph
        assert graph.data_path == str(tmp_path) and graph.data_files is None
    (tmp_path / "FB15k").mkdir()
    assert configuration(["--data_path", str(tmp_path)])[1].graph.format == "built_in"


def test_what_is_no_data_set(tmp_path):
    as_text(tmp_path / "test.tsv", ROWS)
    assert flags_of_path(tmp_path) == flags_of_path(tmp_path / "absent") == {} and split_files(tmp_path) == []
    as_text(tmp_path / "train.tsv", ROWS)
    as_csv(tmp_path / "train.csv", ROWS)
    with pytest.raises(InputError, match="has train.tsv and train.csv, and one of them is the train file"):
        flags_of_path(tmp_path)
    with pytest.raises(InputError, match="unknown --dataset 'x' .* has a file train.txt, train.tsv, train.csv or "):
        load_graph("x", tmp_path / "nowhere")


@pytest.mark.parametrize("name, expected", [("a.tsv.gz", "a"), ("b.csv", "b"), ("FB15k", "FB15k_files"), ("-x", "_x")])
def test_names_of_data_sets(tmp_path, name, expected):
    path = tmp_path / name
    path.write_text("")
    assert dataset_name(path) == expected


@pytest.mark.parametrize("lines, order", [("head\trelation\ttail", "hrt"), ("Subject\tObject\tPredicate\tw", "htr")])
def test_a_header_of_text_names_the_columns(tmp_path, lines, order):
    rows = [[{"h": h, "r": r, "t": t}[letter] for letter in order] for h, r, t in ROWS]
    (tmp_path / "train.tsv").write_text(lines + "\n" + "".join("\t".join(row) + "\n" for row in rows))
    assert triples(load_graph("x", tmp_path, "raw_udd_hrt", ["train.tsv"]), "train") == ROWS
    (tmp_path / "train.tsv").write_text(lines + "\na\tb\n")
    with pytest.raises(InputError, match="train.tsv, line 2 has 2 columns"):
        load_graph("x", tmp_path, "raw_udd_hrt", ["train.tsv"])
    (tmp_path / "train.tsv").write_text(lines)
    with pytest.raises(InputError, match="train.tsv has no line but its header"):
        load_graph("x", tmp_path, "raw_udd_hrt", ["train.tsv"])


@pytest.mark.parametrize("lines", ["id\thead\trelation\ttail\n1\ta\tr\tb\n", "id\tt\tr\th\n1\ta\tr\tb\n"])
def test_a_header_that_names_other_columns_first_is_refused(tmp_path, lines):
    (tmp_path / "train.tsv").write_text(lines)
    with pytest.raises(InputError, match="train.tsv, line 1 names head, relation and tail in columns [42], 3, [24]"):
        load_graph("x", tmp_path, "raw_udd_hrt", ["train.tsv"])


def test_short_names_are_no_header(tmp_path):
    (tmp_path / "train.tsv").write_text("h\tr\tt\ns\tp\to\n")
    assert len(load_graph("x", tmp_path, "raw_udd_hrt", ["train.tsv"]).train) == 2


def test_a_csv_header_with_other_columns_and_semicolons(tmp_path):
    as_csv_with_header(tmp_path / "train.csv", ROWS)
    assert triples(load_graph("x", tmp_path, "raw_udd_hrt", ["train.csv"]), "train") == ROWS


def test_a_delimiter_says_how_csv_is_cut_as_before(tmp_path):
    (tmp_path / "train.csv").write_text("a,r,b\n")
    assert triples(load_graph("x", tmp_path, "raw_udd_hrt", ["train.csv"], ","), "train") == [("a", "r", "b")]
    (tmp_path / "train.csv").write_text('"a",r\tx\t"b",c\n')
    assert triples(load_graph("x", tmp_path, "raw_udd_hrt", ["train.csv"]), "train") == [('"a",r', "x", '"b",c')]


def test_blank_rows_and_spaces_of_csv_are_left_out_and_orders_apply(tmp_path):
    (tmp_path / "train.csv").write_text("b, a, r\n\nc,a,r \n")
    graph = load_graph("x", tmp_path, "raw_udd_thr", ["train.csv"])
    assert triples(graph, "train") == [("a", "r", "b"), ("a", "r", "c")]


@pytest.mark.parametrize("content, says", [
    (b"a,r\n", "line 1 has 2 columns where 3 are needed"),
    (b"a,r,b\na,r,b,c\n", "line 2 has 4 columns where 3 are needed"),
    (b"a,r,b\na,,b\n", "line 2: the relation has no name"),
    (b'a,r,b\n"a,r,b\n', "is not CSV"),
    (b'a,r,"b\tc"\n', "r,b"),
    (b'x,y\n"a\nb",r,c\n', "line 1 has 2 columns"),
    (b'x,y,z\n"a\nb",r,c\n', "line 3: the name 'a.nb' of the head has a tab or a line end"),
    (b"\xff,r,b\n", "is not valid UTF-8"),
    (b"", "has no triples"),
    (b"head,relation,tail\n", "has no triples")])
def test_csv_that_cannot_be_read_is_one_sentence(tmp_path, content, says):
    (tmp_path / "train.csv").write_bytes(content)
    if says == "r,b":  # a TAB on the first line: text
        says = "line 1 has 2 columns where at least 3 are needed"
    with pytest.raises(InputError, match=says) as refused:
        load_graph("x", tmp_path, "raw_udd_hrt", ["train.csv"])
    assert "\n" not in str(refused.value) and "train.csv" in str(refused.value)


def test_parquet_that_cannot_be_read_is_one_sentence(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed (pip install '.[tables]')")
    from pyarrow import parquet

    path = tmp_path / "train.parquet"
    for columns, says in (({"a": ["x"], "b": ["y"]}, "has the columns a, b; name three of them"),
                          ({"h": ["x", None], "r": ["y", "y"], "t": ["z", "z"]}, "row 2: the head is missing"),
                          ({"h": ["x"], "r": [1.5], "t": ["z"]}, "row 1: the relation is 1.5, which is neither text"),
                          ({"h": [], "r": [], "t": []}, "has no triples")):
        parquet.write_table(pyarrow.table(columns), path)
        with pytest.raises(InputError, match=says):
            load_graph("x", tmp_path, "raw_udd_hrt", ["train.parquet"])
    parquet.write_table(pyarrow.table([pyarrow.array(["x"])] * 3, names=["a", "a", "b"]), path)
    with pytest.raises(InputError, match="has the columns a, a, b; name three of them"):
        load_graph("x", tmp_path, "raw_udd_hrt", ["train.parquet"])
    path.write_bytes(b"PAR1 and no more")
    with pytest.raises(InputError, match="cannot read .*train.parquet"):
        load_graph("x", tmp_path, "raw_udd_hrt", ["train.parquet"])
    parquet.write_table(pyarrow.table({"a": [3, 4], "b": ["r", "r"], "c": ["z", "3"]}), path)
    assert triples(load_graph("x", tmp_path, "raw_udd_hrt", ["train.parquet"]), "train") == [
        ("3", "r", "z"), ("4", "r", "3")]


def test_without_pyarrow_it_is_reported(tmp_path, monkeypatch):
    import sys

    (tmp_path / "train.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match="train.parquet is a Parquet file, which pyarrow reads"):
        load_graph("x", tmp_path, "raw_udd_hrt", ["train.parquet"])


def test_tables_are_cached_as_text_is(tmp_path):
    as_csv(tmp_path / "train.csv", ROWS)
    first = load_graph("x", tmp_path, "raw_udd_hrt", ["train.csv"], cache=True)
    assert [path.suffix for path in Path(tmp_path).iterdir() if path.name.startswith(".x")] == [".frugal"]
    again = load_graph("x", tmp_path, "raw_udd_hrt", ["train.csv"], cache=True)
    np.testing.assert_array_equal(first.train.head, again.train.head)
    assert triples(again, "train") == ROWS
