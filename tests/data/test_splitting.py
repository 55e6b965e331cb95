"""Dividing one file of triples, against plain sets."""

import gzip
import json
import shlex

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dglke_frugal.cli import split
from dglke_frugal.cli.train import main as dglke_train
from dglke_frugal.data import Triples
from dglke_frugal.data.splitting import OVERLAP, distinct, divide, given_away, overlaps, repeated

ENTITIES, RELATIONS = 9, 4
GRAPHS = st.lists(st.tuples(st.integers(0, ENTITIES - 1), st.integers(0, RELATIONS - 1), st.integers(0, ENTITIES - 1)),
                  min_size=1, max_size=80)


def triples_of(rows):
    return Triples(*(np.array(column, np.int32) for column in zip(*rows)))


@given(GRAPHS, st.integers(0, 40), st.integers(0, 40), st.integers(0, 3))
@settings(deadline=None)
def test_nothing_is_asked_that_train_does_not_have(rows, valid, test, seed):
    rows = list(dict.fromkeys(rows))
    parts = divide(triples_of(rows), valid, test, seed)
    assert sorted(np.concatenate(list(parts.values())).tolist()) == list(range(len(rows)))
    train = [rows[i] for i in parts["train"]]
    for held_out in ("valid", "test"):
        for head, relation, tail in (rows[i] for i in parts[held_out]):
            assert {head, tail} <= {end for h, _, t in train for end in (h, t)}
            assert relation in {r for _, r, _ in train}
    assert len(parts["valid"]) <= valid and len(parts["test"]) <= test
    if len(parts["valid"]) + len(parts["test"]) < valid + test:  # then whatever could go has gone
        assert len(train) <= len({end for h, _, t in rows for end in (h, t)}) + len({r for _, r, _ in rows})
    again = divide(triples_of(rows), valid, test, seed)
    assert all(np.array_equal(again[name], parts[name]) for name in parts)


@given(GRAPHS)
@settings(deadline=None)
def test_distinct_keeps_the_first(rows):
    kept = distinct(triples_of(rows)).tolist()
    assert [rows[i] for i in kept] == list(dict.fromkeys(rows))
    assert all(rows.index(rows[i]) == i for i in kept)


@given(GRAPHS, GRAPHS)
@settings(deadline=None)
def test_overlaps_are_those_of_the_pair_sets(rows, asked):
    rows = sorted(set(rows))
    pairs = {r: {(h, t) for h, q, t in rows if q == r} for r in range(RELATIONS)}
    expected = set()
    for first in range(RELATIONS):
        for second in range(first, RELATIONS):
            for inverse in (False, True):
                other = {(t, h) for h, t in pairs[second]} if inverse else pairs[second]
                if (first == second and not inverse) or not pairs[first] or not pairs[second]:
                    continue
                common = len(pairs[first] & other)
                shares = common / len(pairs[first]), common / len(pairs[second])
                if min(shares) >= OVERLAP:
                    expected.add((first, second, inverse, shares))
    found = overlaps(triples_of(rows), ENTITIES, RELATIONS)
    assert {(each.first, each.second, each.inverse, each.share) for each in found} == expected
    easy = 0
    for h, r, t in asked:
        hits = set()
        for first, second, inverse, _ in expected:
            for mine, other in ((first, second), (second, first)):
                if r == mine:
                    hits.add(((t, other, h) if inverse else (h, other, t)) in set(rows))
        easy += True in hits
    assert given_away(triples_of(asked), triples_of(rows), found, ENTITIES, RELATIONS) == easy


@given(GRAPHS, GRAPHS)
@settings(deadline=None)
def test_repeated_are_those_that_stand_in_the_set(rows, asked):
    assert repeated(triples_of(asked), triples_of(rows), ENTITIES, RELATIONS) == sum(row in set(rows) for row in asked)


def test_repeated_of_large_ids():
    large = [(2**31 - 2, 1400, 91_000_000), (0, 0, 0), (91_000_000, 1400, 2**31 - 2)]
    train = triples_of([(91_000_000, 1399, 7), *large[:2]] * 2)
    assert repeated(triples_of(large), train, 2**31 - 1, 1401) == 2
    assert repeated(Triples(*np.zeros((3, 0), np.int32)), train, 2**31 - 1, 1401) == 0


@pytest.fixture
def family(tmp_path):
    """A graph whose relations are inverse to one another, duplicates, or symmetric; two triples stand there twice."""
    rows = [(f"a{i}", "parent", f"b{i % 9}") for i in range(40)]
    rows += [(t, "child", h) for h, _, t in rows] + [(h, "mother", t) for h, _, t in rows[:36]]
    rows += [(f"a{i}", "spouse", f"a{i ^ 1}") for i in range(40)]
    rows += [(f"b{i}", "knows", f"a{3 * i}") for i in range(9)]
    path = tmp_path / "family.tsv.gz"
    path.write_bytes(gzip.compress("".join("\t".join(row) + "\r\n" for row in [*rows, *rows[:2]]).encode() + b"\r\n"))
    return path, rows


def lines(path):
    return [tuple(line.split("\t")) for line in path.read_text().splitlines()]


def test_the_command_writes_what_the_next_command_reads(family, tmp_path, capsys):
    path, rows = family
    split.main([str(path), "--test", "12", "--valid", "0.1", "--json", str(tmp_path / "said.json")])
    messages = capsys.readouterr().out
    files = {name: lines(tmp_path / "family" / f"{name}.tsv") for name in ("train", "valid", "test")}
    assert sorted(sum(files.values(), [])) == sorted(rows)
    assert {name: len(part) for name, part in files.items()} == {"train": 137, "valid": 16, "test": 12}
    assert all(part == sorted(part, key=rows.index) for part in files.values())
    assert "165 triples of 49 entities and 5 relations; 2 more that stand there twice" in messages
    assert "inverse: child and parent (share 100% and 100%" in messages or "inverse: parent and child" in messages
    assert "duplicate: parent and mother (share 90% and 100%" in messages
    assert "symmetric: spouse (100%" in messages
    report = json.loads((tmp_path / "said.json").read_text())
    assert (report["duplicates"] == 2 and report["splits"]["test"] == 12
            and f"{report['test_given_away']} of 12" in messages)
    command = messages.splitlines()[-1].strip()
    assert command == report["command"]
    flags = ["--hidden_dim", "4", "--batch_size", "16", "--neg_sample_size", "4", "--max_step", "3"]
    dglke_train([*shlex.split(command)[1:], *flags, "--save_path", str(tmp_path / "runs")])
    assert "Test average MRR" in capsys.readouterr().out


def test_columns_in_another_order_and_weights(tmp_path):
    path = tmp_path / "my.csv"
    path.write_text("".join(f"e{i},e{(i + 1) % 7},r,{i + 1}.5,x\n" for i in range(30)))
    split.main([str(path), "--order", "htr", "--delimiter", ",", "--has_edge_importance", "--out", str(tmp_path / "o")])
    parts = [line.split(",") for name in ("train", "valid", "test") if (tmp_path / "o" / f"{name}.tsv").exists()
             for line in (tmp_path / "o" / f"{name}.tsv").read_text().splitlines()]
    assert sorted(map(tuple, parts)) == sorted((f"e{i}", f"e{(i + 1) % 7}", "r", f"{i + 1}.5", "x") for i in range(30))


@pytest.mark.parametrize("left", [["train.tsv", "valid.tsv", "test.tsv"], ["test.tsv"], ["train.txt", "test.csv"]])
def test_files_of_an_earlier_split_are_not_mixed_with_new_ones(family, tmp_path, capsys, left):
    path, _ = family
    out = tmp_path / "family"
    split.main([str(path), "--test", ".2"])
    for name in {"train.tsv", "valid.tsv", "test.tsv"} - set(left):
        (out / name).unlink()
    for name in left:  # a run that is given the folder takes each ending
        (out / name).touch()
    before = {path: path.read_bytes() for path in out.iterdir()}
    capsys.readouterr()
    with pytest.raises(SystemExit):
        split.main([str(path), "--test", "0", "--seed", "1"])
    messages = capsys.readouterr()
    assert not messages.out and all(str(out / name) in messages.err
                                    for name in left) and "there already" in messages.err
    assert {path: path.read_bytes() for path in out.iterdir()} == before


def test_a_split_that_cannot_be_written_leaves_nothing(family, tmp_path, monkeypatch, capsys):
    from dglke_frugal.data import text

    genuine = text.blocks

    def failing(path, *rest):
        yield from genuine(path, *rest)
        if (tmp_path / "family").exists():
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(text, "blocks", failing)
    with pytest.raises(SystemExit):
        split.main([str(family[0])])
    assert "No space left" in capsys.readouterr().err and not list((tmp_path / "family").iterdir())


@pytest.mark.parametrize("file, name", [("FB15k.tsv", "FB15k_split"), ("FB15k.v2.tsv", "FB15k.v2"),
                                        ("wn18.txt", "wn18_split"), ("kg", "kg_split"), ("kg.tsv.gz", "kg"),
                                        ("-x.tsv", "_x"), ("a b.tsv", "a b"), ("a\tb.tsv", "a_b"), (".kg", ".kg_split"),
                                        ("日本" * 30 + ".tsv", ("日本" * 30)[:45])])
def test_the_command_that_is_printed_works_for_any_file_name(tmp_path, monkeypatch, capsys, file, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / file).write_text("".join(f"e{i % 7}\tr\te{i % 5}\n" for i in range(35)))
    split.main(["--valid", "3", "--test", "3", "--", file])
    command = shlex.split(capsys.readouterr().out.splitlines()[-1])
    assert command[1:5] == ["--dataset", name, "--data_path", name]
    flags = ["--hidden_dim", "4", "--batch_size", "16", "--neg_sample_size", "4", "--max_step", "2"]
    dglke_train([*command[1:], *flags])
    assert "Test average MRR" in capsys.readouterr().out


@pytest.mark.parametrize("arguments, says", [
    (["nothing.tsv"], "nothing.tsv does not exist; give the file of the triples"),
    (["my.tsv", "--valid", "1.5"], "--valid is 1.5; give a share"),
    (["my.tsv", "--test", "-1"], "--test is -1"),
    (["my.tsv", "--test", "half"], "'half' is neither a share nor a number of triples"),
    (["my.tsv", "--order", "hhr"], "argument --order: invalid choice: 'hhr'"),
    (["my.tsv", "--seed", "-1"], "--seed is -1"),
    (["my.tsv", "--out", "my.tsv/x"], "cannot make the folder"),
    (["train.tsv", "--out", "."], "is the file that is divided"),
    (["."], "is a folder where a file is needed; give the path of a file"),
    (["two.tsv"], "line 1 has 2 columns")])
def test_what_cannot_be_divided(tmp_path, monkeypatch, refused, arguments, says):
    monkeypatch.chdir(tmp_path)
    for name in ("my.tsv", "train.tsv"):
        (tmp_path / name).write_text("a\tr\tb\nb\tr\ta\n")
    (tmp_path / "two.tsv").write_text("a\tb\n")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with refused(says):
        split.main(arguments)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("name, content", [
    ("facts.csv", '"tail","head","relation"\n' + "".join(f'"e{(i + j) % 9}","e{i}, x","next"\n' for i in range(9)
                                                          for j in range(3))),
    ("facts.tsv", "head\trelation\ttail\n" + "".join(f"e{i}, x\tnext\te{(i + j) % 9}\n" for i in range(9)
                                                     for j in range(3)))])
def test_tables_and_headers_become_lines_of_names(tmp_path, capsys, name, content):
    (tmp_path / name).write_text(content)
    split.main([str(tmp_path / name), "--valid", "3", "--test", "3"])
    assert "--format raw_udd_hrt --data_files train.tsv valid.tsv test.tsv --valid --test" in capsys.readouterr().out
    lines = [line for part in ("train", "valid", "test")
             for line in (tmp_path / "facts" / f"{part}.tsv").read_text().splitlines()]
    assert sorted(lines) == sorted(f"e{i}, x\tnext\te{(i + j) % 9}" for i in range(9) for j in range(3))
