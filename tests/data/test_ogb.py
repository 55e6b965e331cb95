"""OGB's directories, made small by their published description; and what is reported where they are damaged."""

import gzip

import numpy as np
import pytest
import torch

from dglke_frugal.data import load_graph, ogb
from dglke_frugal.errors import InputError

SIZES = {"protein": 30, "disease": 20, "drug": 10}  # numbered in the order of their names
N_ENTITIES, N_RELATIONS = 60, 7
ROWS = {"train": 50, "valid": 12, "test": 9}


def packed_csv(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt") as file:
        file.writelines(line + "\n" for line in lines)


def make_wikikg2(root):
    folder, rng = root / "ogbl_wikikg2", np.random.default_rng(0)
    packed_csv(folder / "raw" / "num-node-list.csv.gz", [str(N_ENTITIES)])
    packed_csv(folder / "mapping" / "nodeidx2entityid.csv.gz",
               ["node idx,entity id"] + [f"{i},Q{i}" for i in range(60)])
    packed_csv(folder / "mapping" / "reltype2relid.csv.gz", ["reltype,rel id"] + [f"{i},P{i}" for i in range(7)])
    (folder / "split" / "time").mkdir(parents=True)
    contents = {}
    for split, rows in ROWS.items():
        content = {"head": rng.integers(0, 60, rows),
                   "relation": np.arange(rows)[::-1] % 7,
                   "tail": rng.integers(0, 60, rows)}
        if split != "train":
            content.update(head_neg=rng.integers(0, 60, (rows, 5)), tail_neg=rng.integers(0, 60, (rows, 5)))
        torch.save(content, folder / "split" / "time" / f"{split}.pt")
        contents[split] = content
    return folder, contents


def make_biokg(root):
    folder, rng = root / "ogbl_biokg", np.random.default_rng(1)
    packed_csv(folder / "raw" / "num-node-dict.csv.gz", [",".join(SIZES), ",".join(map(str, SIZES.values()))])
    for kind, size in SIZES.items():
        packed_csv(folder / "mapping" / f"{kind}_entidx2name.csv.gz",
                   ["ent idx,ent name"] + [f'{i},"{kind[:2]}, {i}"' for i in range(size)])
    packed_csv(folder / "mapping" / "relidx2relname.csv.gz", ["rel idx,rel name"] + [f"{i},r-{i}" for i in range(7)])
    (folder / "split" / "random").mkdir(parents=True)
    contents = {}
    for split, rows in ROWS.items():
        content = {"relation": np.arange(rows) % 7}
        for side in ("head", "tail"):
            kinds = [list(SIZES)[i] for i in rng.integers(0, 3, rows)]
            content[f"{side}_type"] = kinds
            content[side] = np.array([rng.integers(SIZES[kind]) for kind in kinds])
            if split != "train":
                content[f"{side}_neg"] = np.stack([rng.integers(0, SIZES[kind], 5) for kind in kinds])
        torch.save(content, folder / "split" / "random" / f"{split}.pt")
        contents[split] = content
    return folder, contents


def make_wikikg90m(root, version):
    folder = root / {1: "wikikg90m_kddcup2021", 2: "wikikg90m-v2"}[version]
    processed, rng = folder / "processed", np.random.default_rng(version)
    processed.mkdir(parents=True)
    torch.save({"num_entities": N_ENTITIES, "num_relations": N_RELATIONS}, folder / "meta.pt")
    arrays = {"train_hrt": np.stack([rng.integers(0, high, 50) for high in (60, 7, 60)], 1).astype(np.int32)}

    def pairs(rows):
        return np.stack([rng.integers(0, 60, rows), rng.integers(0, 7, rows)], 1)

    if version == 2:
        arrays.update({"val_hr": pairs(12), "val_t": rng.integers(0, 60, 12), "test-dev_hr": pairs(9),
                       "test-challenge_hr": pairs(8)})
    else:
        for prefix, rows in (("val", 12), ("test", 9)):
            for given, asked in (("hr", "t"), ("tr", "h")):
                arrays[f"{prefix}_{given}"] = pairs(rows)
                arrays[f"{prefix}_{asked}_candidate"] = rng.integers(0, 60, (rows, 21)).astype(np.int32)
                if prefix == "val":
                    arrays[f"{prefix}_{asked}_correct_index"] = rng.integers(0, 21, rows)
    for name, array in arrays.items():
        np.save(processed / f"{name}.npy", array)
    return folder, arrays


def same(triples, head, relation, tail):
    for column, want in zip(triples, (head, relation, tail)):
        assert column.dtype == np.int32 and column.flags.c_contiguous
        np.testing.assert_array_equal(column, want)


@pytest.mark.parametrize("cache", [False, True])
def test_wikikg2(tmp_path, cache):
    _, contents = make_wikikg2(tmp_path)
    for _ in range(2):
        graph = load_graph("wikikg2", tmp_path, cache=cache)
        assert (graph.n_entities, graph.n_relations) == (N_ENTITIES, N_RELATIONS)
        for split, content in contents.items():
            same(graph.splits[split], content["head"], content["relation"], content["tail"])
        for key in ("head_neg", "tail_neg"):
            np.testing.assert_array_equal(graph.candidates["test"][key](), contents["test"][key])
    assert graph.entity_names[59] == "Q59" and list(graph.relation_names) == [f"P{i}" for i in range(7)]


def test_biokg(tmp_path):
    _, contents = make_biokg(tmp_path)
    graph = load_graph("biokg", tmp_path)
    begin = {"disease": 0, "drug": 20, "protein": 30}
    assert (graph.n_entities, graph.n_relations) == (N_ENTITIES, N_RELATIONS)
    for split, content in contents.items():
        head, tail = (
            [begin[kind] + i for kind, i in zip(content[f"{side}_type"], content[side])] for side in ("head", "tail"))
        same(graph.splits[split], head, content["relation"], tail)
    expected = (
        contents["valid"]["tail_neg"] + np.array([begin[kind] for kind in contents["valid"]["tail_type"]])[:, None])
    np.testing.assert_array_equal(graph.candidates["valid"]["tail_neg"](), expected)
    assert graph.entity_names[20] == "drug:dr, 0" and graph.entity_names.id_of("protein:pr, 29") == 59


@pytest.mark.parametrize("values_together", [1 << 20, 22])
def test_wikikg90mv2(tmp_path, monkeypatch, values_together):
    monkeypatch.setattr(ogb, "BLOCK_VALUES", values_together)
    _, arrays = make_wikikg90m(tmp_path, 2)
    graph = load_graph("wikikg90Mv2", tmp_path)
    assert (graph.n_entities, graph.n_relations) == (N_ENTITIES, N_RELATIONS)
    same(graph.train, *arrays["train_hrt"].T)
    same(graph.valid, *arrays["val_hr"].T, arrays["val_t"])
    assert graph.test is None and graph.entity_names is None
    np.testing.assert_array_equal(graph.candidates["test-dev"]["hr"](), arrays["test-dev_hr"])


@pytest.mark.parametrize("values_together", [1 << 20, 22])
def test_wikikg90m(tmp_path, monkeypatch, values_together):
    monkeypatch.setattr(ogb, "BLOCK_VALUES", values_together)
    _, arrays = make_wikikg90m(tmp_path, 1)
    graph = load_graph("wikikg90M", tmp_path)
    same(graph.train, *arrays["train_hrt"].T)
    tails = [row[i] for row, i in zip(arrays["val_t_candidate"], arrays["val_t_correct_index"])]
    same(graph.valid, *arrays["val_hr"].T, tails)
    assert sorted(graph.candidates["valid"]) == ["h_candidate", "h_correct_index", "hr", "t_candidate",
                                                 "t_correct_index", "tr"]
    np.testing.assert_array_equal(graph.candidates["test"]["h_candidate"](), arrays["test_h_candidate"])


def test_dictionaries_of_the_same_name_are_read_too(tmp_path):
    folder = tmp_path / "biokg"
    folder.mkdir()
    (folder / "entities.dict").write_text("0\ta\n")
    (folder / "relations.dict").write_text("0\tr\n")
    for split in ROWS:
        (folder / f"{split}.txt").write_text("a\tr\ta\n")
    assert load_graph("biokg", tmp_path).n_entities == 1


def test_says_how_to_get_what_is_missing(tmp_path):
    with pytest.raises(InputError, match="wikikg90m-v2 is missing; fetch it with the ogb package"):
        load_graph("wikikg90Mv2", tmp_path)


class Attack:
    def __reduce__(self):
        return (print, ("code from a data file has run",))


def pt(path, change):
    def damage(folder):
        content = torch.load(folder / path, weights_only=False)
        torch.save(change(content), folder / path)

    return path, damage


def npy(path, change):
    def damage(folder):
        np.save(folder / path, change(np.load(folder / path)))

    return path, damage


def raw(path, change):
    def damage(folder):
        (folder / path).write_bytes(change((folder / path).read_bytes()))

    return path, damage


def gone(path):
    return path, lambda folder: (folder / path).unlink()


def folder_instead(path):
    def damage(folder):
        (folder / path).unlink()
        (folder / path).mkdir()

    return path, damage


def put(key, row, value):
    def change(content):
        array = np.array(content[key])
        array[row] = value
        return {**content, key: array}

    return change


def put_row(row, column, value):
    def change(array):
        array = array.copy()
        array[(row, column) if array.ndim > 1 else row] = value
        return array

    return change


def link_damages(split, counts):
    train, test = f"split/{split}/train.pt", f"split/{split}/test.pt"
    return [
        *((*gone(path), "does not exist") for path in (train, f"split/{split}/valid.pt", test, counts)),
        *((*folder_instead(path), "is a folder") for path in (train, counts)),
        *((*raw(path, lambda data: b""), "damaged|not a sound gzip|must have a line|'' is not a number")
          for path in (test, counts)),
        *((*raw(path, lambda data: data[: len(data) // 2]), "damaged|not a sound gzip") for path in (train, counts)),
        *((*raw(path, lambda data: b"garbage"), "damaged|not a sound gzip") for path in (train, counts)),
        (*pt(train, lambda content: Attack()), "is damaged, or holds more than arrays"),
        (*pt(train, lambda content: [1]), "holds no dictionary"),
        (*pt(train, lambda content: {**content, "head": Attack()}), "is damaged, or holds more than arrays"),
        *((*pt(train, lambda content, key=key: {k: v for k, v in content.items() if k != key}), f"lacks '{key}'")
          for key in ("head", "relation", "tail")),
        (*pt(train, lambda content: {**content, "tail": content["tail"][:-1]}), r"'tail' is int64 of shape \(49,\)"),
        (*pt(train, lambda content: {**content, "head": content["head"] * 1.0}), "'head' is float64 of shape"),
        (*pt(train, lambda content: {**content, "relation": content["relation"][:, None]}),
         r"shape \(50, 1\), not integers"),
        (*pt(train, lambda content: {key: torch.zeros(0, dtype=torch.int64) for key in content}), "has no triples"),
        (*pt(train, put("tail", 7, 60)), "row 7: tail 60 is not between 0 and"),
        (*pt(train, put("relation", 7, -1)), "row 7: relation -1 is not between 0 and"),
        (*pt(test, put("head", 8, -2)), "row 8: head -2 is not between"),
        (*pt(test, put("relation", 8, 7)), "row 8: relation 7 is not between 0 and 6")]


def with_first(content, value):
    return {**content, "head_type": [value, *content["head_type"][1:]]}


NPY = "processed/{}.npy"


def challenge_damages(*answers):
    """What can be wrong with the files of both versions; `answers` are the files that tell the tails to be found."""
    train, pairs = NPY.format("train_hrt"), NPY.format("val_hr")
    answers = [NPY.format(name) for name in answers]
    return [*((*gone(path), "does not exist") for path in ("meta.pt", train, pairs, *answers)),
            *((*folder_instead(path), "is a folder") for path in ("meta.pt", train, *answers)),
            *((*raw(path, lambda data: b""), "is damaged") for path in ("meta.pt", train, *answers)),
            *((*raw(path, lambda data: data[:-20]), "is damaged") for path in ("meta.pt", train, pairs, *answers)),
            *((*raw(path, lambda data: b"PK" + data), "is damaged") for path in (train, *answers)),
            (*pt("meta.pt", lambda meta: {"num_entities": 60}), "lacks a number 'num_relations'"),
            (*pt("meta.pt", lambda meta: {**meta, "num_entities": 0}), "lacks a number 'num_entities'"),
            (*pt("meta.pt", lambda meta: Attack()), "is damaged"),
            (*npy(train, lambda a: a.T), r"shape \(3, 50\), not integers of shape \(any x 3\)"),
            (*npy(train, lambda a: a.astype(np.float32)), "is float32"),
            (*npy(train, lambda a: a[:0]), "has no rows"),
            (*npy(train, np.asfortranarray), "stored by columns"),
            (*npy(train, put_row(11, 0, 60)), "row 11: head 60 is not between 0 and 59"),
            (*npy(train, put_row(11, 1, 7)), "row 11: relation 7 is not between 0 and 6"),
            (*npy(pairs, put_row(3, 0, -1)), "row 3: head -1")]


TABLE = {
    "wikikg2": link_damages("time", "raw/num-node-list.csv.gz"),
    "biokg": link_damages("random", "raw/num-node-dict.csv.gz")
    + [
        (*pt("split/random/train.pt", lambda content: with_first(content, "gene")),
         "head_type 'gene' is none of disease, drug"),
        (*pt("split/random/train.pt", lambda content: {**content, "tail_type": ["drug"]}),
         "lacks 'tail_type' for each")],
    "wikikg90Mv2": challenge_damages("val_t")
    + [(*npy(NPY.format("val_t"), put_row(3, 0, 60)), "row 3: tail 60"),
       (*npy(NPY.format("val_t"), lambda a: a[:5]), r"shape \(5,\), not integers of shape \(12\)")],
    "wikikg90M": challenge_damages("val_t_correct_index", "val_t_candidate")
    + [(*npy(NPY.format("val_t_correct_index"), put_row(4, 0, 21)), "row 4: index 21 is not between 0 and 20"),
       (*npy(NPY.format("val_t_correct_index"), put_row(4, 0, -1)), "row 4: index -1 is not between 0 and 20"),
       (*npy(NPY.format("val_t_correct_index"), lambda a: a[:5]), r"shape \(5,\), not integers of shape \(12\)"),
       (*npy(NPY.format("val_t_correct_index"), lambda a: a * 0.5), "is float64"),
       (*npy(NPY.format("val_t_candidate"), put_row(4, slice(None), 60)), "row 4: tail 60 is not between 0 and 59"),
       (*npy(NPY.format("val_t_candidate"), lambda a: a[:5]), r"shape \(5, 21\), not integers of shape \(12 x any\)"),
       (*npy(NPY.format("val_t_candidate"), lambda a: a[:, 0]), r"shape \(12,\), not integers"),
       (*npy(NPY.format("val_t_candidate"), lambda a: a[:, :0]), "has no rows or no columns"),
       (*npy(NPY.format("val_t_candidate"), np.asfortranarray), "stored by columns"),
       (*npy(NPY.format("val_t_candidate"), lambda a: a.astype(bool)), "is bool")]}
MAKE = {"wikikg2": make_wikikg2, "biokg": make_biokg, "wikikg90M": lambda root: make_wikikg90m(root, 1),
        "wikikg90Mv2": lambda root: make_wikikg90m(root, 2)}


@pytest.mark.parametrize("dataset, file, damage, says", [
    pytest.param(dataset, *row, id=f"{dataset}-{number}-{row[0]}")
    for dataset, rows in TABLE.items()
    for number, row in enumerate(rows)])
def test_damaged(tmp_path, dataset, file, damage, says):
    folder, _ = MAKE[dataset](tmp_path)
    damage(folder)
    with pytest.raises(InputError, match=says) as caught:
        load_graph(dataset, tmp_path, cache=True)
    assert str(folder / file) in str(caught.value) and "\n" not in str(caught.value)
    assert not list(folder.rglob("*.frugal*"))


def test_object_arrays_are_not_unpickled(tmp_path):
    folder, _ = make_wikikg90m(tmp_path, 2)
    np.save(folder / "processed" / "val_t.npy", np.array([Attack()], object), allow_pickle=True)
    with pytest.raises(InputError, match="val_t.npy is damaged or no .npy file of numbers"):
        load_graph("wikikg90Mv2", tmp_path)


def test_each_has_twenty():
    assert TABLE.keys() == set(ogb.NAMES) and all(len(rows) >= 20 for rows in TABLE.values())
