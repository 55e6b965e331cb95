"""The embedded graph: what its generator promises."""

import importlib.util
from pathlib import Path

import pytest

from dglke_frugal.data import load_graph

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def families():
    spec = importlib.util.spec_from_file_location("families", ROOT / "datasets" / "families.py")
    module = importlib.util.module_from_spec(spec)
    import sys
    sys.modules["families"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["families"]


def test_graph(families, tmp_path):
    families.main(["--out", str(tmp_path / "a")])
    families.main(["--out", str(tmp_path / "b")])
    families.main(["--out", str(tmp_path / "c"), "--seed", "1"])
    for split in ("train", "valid", "test"):
        content = (tmp_path / "a" / f"{split}.txt").read_bytes()
        assert content == (tmp_path / "b" / f"{split}.txt").read_bytes()
        assert content != (tmp_path / "c" / f"{split}.txt").read_bytes()
    graph = load_graph("families", tmp_path / "a", "raw_udd_hrt", ["train.txt", "valid.txt", "test.txt"])
    assert 5000 <= graph.n_entities <= 10000 and graph.n_relations == 9
    train_only = load_graph("families", tmp_path / "a", "raw_udd_hrt", ["train.txt"])
    assert train_only.n_entities == graph.n_entities, "every entity of valid and test occurs in train"
    assert train_only.n_relations == graph.n_relations
    assert len(graph.test) > 2000 and len(graph.valid) > 1000


@pytest.mark.parametrize("seed, people", [(0, 100), (1, 250), (2, 150), (3, 120)])
def test_families_that_die_out_begin_anew_with_more_founders(families, seed, people):
    splits = families.generate(seed, people)
    assert people <= len({name for h, _, t in splits["train"] for name in (h, t)}) <= 10 * people
    assert splits["valid"] and splits["test"]


def test_relations_are_true(families):
    splits = families.generate(seed=5, people=600)
    every = [triple for triples in splits.values() for triple in triples]
    known = set(every)
    assert len(known) == len(every), "no fact stands twice, in the same split or in two"
    assert all((t, families.INVERSE.get(r) or {v: k for k, v in families.INVERSE.items()}[r], h) in known
               for h, r, t in every), "every fact has its inverse"
    children, parents = {}, {}
    for h, r, t in every:
        if r == "parent_of":
            children.setdefault(h, set()).add(t)
            parents.setdefault(t, set()).add(h)
    assert all(len(two) == 2 for two in parents.values())
    for h, r, t in every:
        if r == "sibling_of":
            assert h != t and parents[h] == parents[t]
        elif r == "grandparent_of":
            assert any(t in children.get(child, ()) for child in children[h])
        elif r == "cousin_of":
            assert not parents[h] & parents[t]
            assert {g for p in parents[h] for g in parents.get(p, ())} & {
                g for p in parents[t] for g in parents.get(p, ())}
        elif r == "spouse_of":
            assert parents.get(h, {h}) != parents.get(t, {t})


def test_what_is_held_out_can_be_inferred(families):
    splits = families.generate(seed=2, people=600)
    train = set(splits["train"])
    inverse = {**families.INVERSE, **{v: k for k, v in families.INVERSE.items()}}
    parents = {}
    for h, r, t in train:
        if r == "parent_of":
            parents.setdefault(t, set()).add(h)
        elif r == "child_of":
            parents.setdefault(h, set()).add(t)
    assert all(len(two) == 2 for two in parents.values()), "both parents are known from train"
    by_inverse = [(t, inverse[r], h) in train for h, r, t in splits["test"]]
    derived = {*families.DERIVED, *(families.INVERSE[r] for r in families.DERIVED)}
    assert all(known or r in derived for known, (_, r, _) in zip(by_inverse, splits["test"]))
    assert 0.2 < sum(by_inverse) / len(by_inverse) < 0.8, "some need their inverse, some the rule"


def test_bad_options(families, tmp_path):
    with pytest.raises(SystemExit, match="between 100 and 30000"):
        families.main(["--people", "5", "--out", str(tmp_path)])
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit, match="file"):
        families.main(["--out", str(tmp_path / "file")])
