"""Every layout gives the ids, the order and the names that DGL-KE's reader gives."""

import importlib.util
import pickle
import sys
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from threads import threads_as_before

from dglke_frugal import _native
from dglke_frugal.data import Names, load_graph, text
from dglke_frugal.data.name_maps import keep_name_maps

sys.path.insert(0, str(Path(__file__).parent))
import reader_oracle as oracle  # noqa: E402

ORDERS = ["".join(order) for order in permutations("hrt")]


def same(triples, expected):
    for column, want in zip((*triples, triples.weight), expected):
        if want is None:
            assert column is None
        else:
            assert column.flags.c_contiguous
            np.testing.assert_array_equal(column, want)


def write(path, lines, end="\n"):
    path.write_bytes("".join(line + end for line in lines).encode("utf-8"))
    return path


def random_triples(count, seed, n_entities=60, n_relations=7):
    rng = np.random.default_rng(seed)
    return [(int(h), int(r), int(t)) for h, r, t in
            zip(rng.integers(n_entities, size=count), rng.integers(n_relations, size=count),
                rng.integers(n_entities, size=count))]


def arranged(triple, order):
    return [str(triple["hrt".index(letter)]) for letter in order]


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks so small that files span many of them."""
    monkeypatch.setattr(text, "BLOCK_BYTES", 97)


@pytest.mark.parametrize("dataset", ["FB15k", "FB15k-237", "wn18rr"])
def test_real_built_in(graphs, dataset):
    graph = load_graph(dataset, (graphs / dataset).parent)
    entities = oracle.read_dictionary(graphs / dataset / "entities.dict")
    relations = oracle.read_dictionary(graphs / dataset / "relations.dict")
    assert (graph.n_entities, graph.n_relations) == (len(entities), len(relations))
    for split, triples in graph.splits.items():
        same(triples, oracle.read_by_name(graphs / dataset / f"{split}.txt", entities, relations))
        assert triples.head.dtype == np.int32
    assert dict(zip(graph.entity_names, range(graph.n_entities))) == entities
    assert dict(zip(graph.relation_names, range(graph.n_relations))) == relations


@pytest.mark.parametrize("name", ["train", "train_weighted"])
def test_real_raw(graphs, name):
    files = [f"{name}.txt".replace("train", split) for split in ("train", "valid", "test")]
    weighted = "weighted" in name
    graph = load_graph("small", graphs / "fb15k-small", "raw_udd_hrt", files, has_edge_importance=weighted)
    splits, entities, relations = oracle.read_raw([graphs / "fb15k-small" / file for file in files], "hrt",
                                                  weighted=weighted)
    for triples, expected in zip(graph.splits.values(), splits):
        same(triples, expected)
    assert list(graph.entity_names) == entities and list(graph.relation_names) == relations


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("delimiter", ["\t", ",", "|", ";", " ", "::"])
@pytest.mark.parametrize("order", ORDERS)
def test_udd(tmp_path, small_blocks, order, delimiter, weighted):
    write(tmp_path / "entities.tsv", [f"{i}{delimiter}entity_{i}" for i in range(60)])
    write(tmp_path / "relations.tsv", [f"{i}{delimiter}relation_{i}" for i in range(7)])
    files = ["entities.tsv", "relations.tsv"]
    for seed, split in enumerate(("train", "valid", "test")):
        write(tmp_path / split,
              [delimiter.join(arranged(t, order) + ["0.5"] * weighted) for t in random_triples(99, seed)])
        files.append(split)
    for count in (3, 5):
        graph = load_graph("mine", tmp_path, f"udd_{order}", files[:count], delimiter, weighted)
        assert list(graph.splits) == ["train", "valid", "test"][: count - 2]
        for split, triples in graph.splits.items():
            same(triples, oracle.read_by_id(tmp_path / split, order, delimiter, weighted))
    assert (graph.n_entities, graph.n_relations) == (60, 7)
    assert graph.entity_names[59] == "entity_59" and graph.relation_names.id_of("relation_3") == 3


@pytest.mark.parametrize("delimiter", ["\t", ",", "::"])
@pytest.mark.parametrize("order", ORDERS)
def test_raw_udd(tmp_path, small_blocks, order, delimiter):
    files = ["train", "valid", "test"]
    for seed, split in enumerate(files):
        named = [(f"Zoë {h}", f"kennt_{r}", f"Zoë {t}") for h, r, t in random_triples(99, seed)]
        write(tmp_path / split, [delimiter.join(arranged(t, order)) for t in named], end="\r\n")
    graph = load_graph("mine", tmp_path, f"raw_udd_{order}", files, delimiter)
    keep_name_maps(graph, tmp_path, tmp_path)
    splits, entities, relations = oracle.read_raw([tmp_path / file for file in files], order, delimiter)
    for triples, expected in zip(graph.splits.values(), splits):
        same(triples, expected)
    for names, expected, file in ((graph.entity_names, entities, "entities.tsv"),
                                  (graph.relation_names, relations, "relations.tsv")):
        assert list(names) == expected
        assert (tmp_path / file).read_text("utf-8") == "".join(f"{i}\t{name}\n" for i, name in enumerate(expected))
    assert len(load_graph("mine", tmp_path, f"raw_udd_{order}", files[:1], delimiter).splits) == 1


def make_freebase(folder, triples=200):
    folder.mkdir()
    for name, count in (("entity", 60), ("relation", 7)):
        write(folder / f"{name}2id.txt", [str(count)] + [f"/m/{name}{i}\t{i}" for i in range(count)])
    for seed, split in enumerate(("train", "valid", "test")):
        write(folder / f"{split}.txt", ["\t".join(arranged(t, "htr")) for t in random_triples(triples, seed)])


def test_freebase(tmp_path, small_blocks):
    make_freebase(tmp_path / "Freebase")
    graph = load_graph("Freebase", tmp_path)
    assert (graph.n_entities, graph.n_relations) == (60, 7)
    for split, triples in graph.splits.items():
        same(triples, oracle.read_by_id(tmp_path / "Freebase" / f"{split}.txt", "htr"))
    assert graph.entity_names[59] == "/m/entity59" and graph.relation_names[6] == "/m/relation6"


def test_dictionary_in_any_order(tmp_path):
    folder = tmp_path / "wn18"
    folder.mkdir()
    write(folder / "entities.dict", ["2\tc", "0\ta a", "1\tbé"])
    write(folder / "relations.dict", ["1\ts", "0\tr"])
    for split in ("train", "valid", "test"):
        write(folder / f"{split}.txt", ["c\tr\ta a", "bé\ts\tc"])
    graph = load_graph("wn18", tmp_path)
    same(graph.train, oracle.columns([(2, 0, 0), (1, 1, 2)]))
    assert list(graph.entity_names) == ["a a", "bé", "c"] and graph.entity_names[-1] == "c"


def test_ids_beyond_32_bits(tmp_path):
    make_freebase(tmp_path / "Freebase")
    (tmp_path / "Freebase" / "entity2id.txt").write_text("5000000000\n")
    write(tmp_path / "Freebase" / "train.txt", ["4999999999\t3000000000\t6"])
    train = load_graph("Freebase", tmp_path).train
    assert train.head.dtype == np.int64
    same(train, oracle.columns([(4999999999, 6, 3000000000)]))


# What a line may look like: every kind of white space at its ends, signs and zeros, columns that nobody reads.
SPACE = st.text(st.sampled_from(" \t\x0b\x0c\x1c\x1f\x85\xa0\u2003\u3000"), max_size=3)
INTEGER = st.builds("{}{}{}".format, st.sampled_from(["", "+", "00", " "]), st.integers(0, 59),
                    st.sampled_from(["", " "]))
NAME = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp", "Zs"]), min_size=1, max_size=5)


def lines_of(field, delimiter):
    body = st.lists(field, min_size=3, max_size=6).map(delimiter.join)
    return st.lists(st.builds("{}{}{}".format, SPACE, body, SPACE), min_size=1, max_size=30)


@settings(max_examples=100, deadline=None)
@given(lines=lines_of(INTEGER, ";"), final_newline=st.booleans(), end=st.sampled_from(["\n", "\r\n"]))
def test_lines_of_ids_as_python_reads_them(tmp_path_factory, lines, final_newline, end):
    folder = tmp_path_factory.mktemp("ids")
    write(folder / "map", [f"{i};x{i}" for i in range(60)])
    (folder / "train").write_bytes((end.join(lines) + end * final_newline).encode())
    graph = load_graph("mine", folder, "udd_trh", ["map", "map", "train"], ";")
    same(graph.train, oracle.read_by_id(folder / "train", "trh", ";"))


@settings(max_examples=100, deadline=None)
@given(lines=lines_of(NAME.filter(lambda name: ";" not in name and name[0] != '"'), ";"), final_newline=st.booleans())
def test_lines_of_names_as_python_reads_them(tmp_path_factory, lines, final_newline):
    folder = tmp_path_factory.mktemp("names")
    (folder / "train").write_bytes(("\n".join(lines) + "\n" * final_newline).encode())
    graph = load_graph("mine", folder, "raw_udd_rth", ["train"], ";")
    (expected,), entities, relations = oracle.read_raw([folder / "train"], "rth", ";")
    same(graph.train, expected)
    assert list(graph.entity_names) == entities and list(graph.relation_names) == relations


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_ids_do_not_depend_on_threads(tmp_path, threads):
    rng = np.random.default_rng(3)
    write(tmp_path / "train", [f"{a}\t{b}\t{c}" for a, b, c in rng.integers(0, 5000, (4000, 3))])
    with threads_as_before():
        _native.set_num_threads(threads)
        graph = load_graph("mine", tmp_path, "raw_udd_hrt", ["train"])
    (expected,), entities, _ = oracle.read_raw([tmp_path / "train"], "hrt")
    same(graph.train, expected)
    assert list(graph.entity_names) == entities


def test_graph_goes_to_another_process(tmp_path):
    write(tmp_path / "train", ["a\tr\tb", "b\ts\tc"])
    graph = pickle.loads(pickle.dumps(load_graph("mine", tmp_path, "raw_udd_hrt", ["train"])))
    assert list(graph.entity_names) == ["a", "b", "c"] and graph.train.tail.tolist() == [1, 2]


def test_names_find_and_refuse():
    table = _native.NameTable()
    for name in ("a", "é", "a b"):
        table.add(name.encode())
    data, offsets = table.release()
    assert len(table) == 0 and table.find(b"a") == -1 and offsets.tolist() == [0, 1, 3, 6]
    names = Names(lambda: (data, offsets))
    assert names[:2] == ["a", "é"] and [names.id_of(name) for name in names] == [0, 1, 2] and "é" in names
    assert repr(names) == "<Names of 3: a, é, a b>"
    assert names[-1] == names[np.int32(2)] == "a b"
    with pytest.raises(IndexError):
        names[3]
    for wrong in ("a", np.array([0, 1]), 0.5):
        with pytest.raises(TypeError, match="names are asked for by id"):
            names[wrong]
    with pytest.raises(TypeError, match="a name is text, not 3"):
        names.id_of(3)
    with pytest.raises(ValueError):
        _native.NameTable(data, np.array([0, 5, 2, 6]))


def genuine_reader():
    """The module of an installed dglke that reads data sets, without the rest of it; None if there is none."""
    package = importlib.util.find_spec("dglke")
    if package is None:
        return None
    path = Path(package.submodule_search_locations[0]) / "dataloader" / "KGDataset.py"
    spec = importlib.util.spec_from_file_location("genuine_kg_dataset", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(importlib.util.find_spec("dglke") is None, reason="dglke has no release for this Python")
@pytest.mark.parametrize(
    "format", ["built_in", "Freebase", *(f"{kind}_{order}" for kind in ("udd", "raw_udd") for order in ORDERS)])
def test_as_the_genuine_reader(tmp_path, format):
    if format == "Freebase":
        make_freebase(tmp_path / "Freebase")
        arguments = ("Freebase", tmp_path, "built_in", None)
    elif format == "built_in":
        folder = tmp_path / "wn18"
        folder.mkdir()
        for name, count in (("entities", 60), ("relations", 7)):
            write(folder / f"{name}.dict", [f"{count - 1 - i}\tn{i}" for i in range(count)])
        for seed, split in enumerate(("train", "valid", "test")):
            write(folder / f"{split}.txt", ["n{}\tn{}\tn{}".format(*t) for t in random_triples(99, seed)])
        arguments = ("wn18", tmp_path, format, None)
    else:
        files = ["train", "valid", "test"]
        for seed, split in enumerate(files):
            write(tmp_path / split, ["\t".join(arranged(t, format[-3:])) for t in random_triples(99, seed)])
        if format.startswith("udd"):
            for name, count in (("relations", 7), ("entities", 60)):
                write(tmp_path / name, [f"{i}\t{name}{i}" for i in range(count)])
                files.insert(0, name)
        arguments = ("mine", tmp_path, format, files)
    ours = load_graph(*arguments)
    name, path, format, files = arguments
    theirs = genuine_reader().get_dataset(str(path), name, format, files=files)
    assert (ours.n_entities, ours.n_relations) == (theirs.n_entities, theirs.n_relations)
    for split, triples in ours.splits.items():
        same(triples, (*getattr(theirs, split), None))
