"""Exports hold the same numbers and the names, and write over nothing else."""

import json
import struct

import numpy as np
import pytest
from evaluation.random_models import random_model

import dglke_frugal
from dglke_frugal.cli import export as command
from dglke_frugal.errors import InputError
from inference.make_run import write_run


@pytest.fixture(params=["ComplEx", "TransR"])
def run(request, tmp_path):
    return dglke_frugal.load(write_run(tmp_path / "run", random_model(request.param)))


def tables_of(run):
    found = {"entity": run.model.entity, "relation": run.model.relation, "projection": run.model.projection}
    return {name: np.array(table) for name, table in found.items() if table is not None}


def test_safetensors_has_names(run, tmp_path):
    run.export(tmp_path / "out.safetensors")
    data = (tmp_path / "out.safetensors").read_bytes()
    header = json.loads(data[8 : 8 + struct.unpack("<Q", data[:8])[0]])
    assert json.loads(header["__metadata__"]["entity_names"]) == list(run.entity_names)
    assert json.loads(header["__metadata__"]["relation_names"]) == list(run.relation_names)


def test_npz(run, tmp_path):
    for _ in range(2):  # over its own earlier output
        run.export(tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz", allow_pickle=False) as found:
        tables = tables_of(run)
        assert {*found} == {*tables, "entity_names", "relation_names"}
        for name, table in tables.items():
            np.testing.assert_array_equal(found[name], table)
        assert found["entity_names"].tolist() == list(run.entity_names)


def test_parquet(run, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed (pip install '.[tables]')")
    for _ in range(2):
        command.main([str(run.folder), str(tmp_path / "out.parquet")])
    rows = parquet.read_table(tmp_path / "out.parquet").to_pylist()
    for name, table in tables_of(run).items():
        of_table = [row for row in rows if row["table"] == name]
        np.testing.assert_array_equal(np.array([row["embedding"] for row in of_table], np.float32), table)
        assert [row["id"] for row in of_table] == list(range(len(table)))
        names = run.entity_names if name == "entity" else run.relation_names
        assert [row["name"] for row in of_table] == list(names)
    import pyarrow

    parquet.write_table(pyarrow.table({"head": ["a"]}), tmp_path / "triples.parquet")
    with pytest.raises(InputError, match="triples.parquet is there already"):
        run.export(tmp_path / "triples.parquet")


def test_without_pyarrow_it_is_reported(run, tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match="Parquet is written by pyarrow, which is not installed"):
        run.export(tmp_path / "out.parquet")


def test_word2vec_text(run, tmp_path):
    for _ in range(2):
        run.export(tmp_path / "out", "word2vec")
    for file, table in (("entities.txt", run.model.entity), ("relations.txt", run.model.relation)):
        first, *lines = (tmp_path / "out" / file).read_text().splitlines()
        assert first == f"{len(table)} {table.shape[1]}"
        words, *numbers = zip(*(line.split(" ") for line in lines))
        assert words[3] == ("entity_3" if file == "entities.txt" else "relation_3")
        np.testing.assert_array_equal(np.array(numbers, np.float32).T, table)


def test_names_that_word2vec_would_make_one(tmp_path):
    run = dglke_frugal.load(write_run(tmp_path / "run", random_model("ComplEx")))
    lines = (tmp_path / "run" / "entities.tsv").read_text().splitlines()
    (tmp_path / "run" / "entities.tsv").write_text("\n".join([*lines[:-1], "60\tentity_3"]) + "\n")
    with pytest.raises(InputError, match="'entity 3' and 'entity_3' are both 'entity_3' in the format of word2vec"):
        run.export(tmp_path / "out", "word2vec")
    assert not (tmp_path / "out" / "entities.txt").exists()


@pytest.mark.parametrize("output, form, says", [
    ("out.xyz", None, "names no format; give one of safetensors, tsv, npz, parquet, word2vec"),
    ("out", "excel", "there is no export format 'excel'"),
    ("out.npz", np.array(["npz", "tsv"]), "there is no export format array"),
    ("missing/out.npz", None, "cannot write"),
    ("mine.npz", None, "mine.npz is there already"),
    (3, None, "give a path")])
def test_what_cannot_be_exported(tmp_path, output, form, says):
    run = dglke_frugal.load(write_run(tmp_path / "run", random_model("ComplEx")))
    np.savez(tmp_path / "mine.npz", x=np.zeros(3))
    with pytest.raises(InputError, match=says):
        run.export(tmp_path / output if isinstance(output, str) else output, form)
