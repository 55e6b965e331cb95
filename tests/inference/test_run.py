"""The Python interface to a trained run, and its exports."""

import json
import struct
import subprocess
import sys

import numpy as np
import pytest
from evaluation.random_models import random_model, random_triples
from evaluation.ranking_oracle import score

import dglke_frugal
from dglke_frugal import _native
from dglke_frugal.cli import export
from dglke_frugal.data.graph import Names
from dglke_frugal.errors import InputError
from dglke_frugal.evaluation import KnownTriples, Protocol
from dglke_frugal.inference.answers import AnswerLists, Answers, Scored
from dglke_frugal.inference.name_maps import with_inverses
from inference.make_run import write_run


@pytest.fixture
def model():
    return random_model("ComplEx")


@pytest.fixture
def run(tmp_path, model):
    return dglke_frugal.load(write_run(tmp_path / "run", model))


def test_scores_by_name_and_by_id(run, model):
    expected = [score(model, 3, 1, t) for t in (0, 9)]
    np.testing.assert_allclose(run.score("entity 3", "relation 1", ["entity 0", "entity 9"]), expected, rtol=1e-5)
    np.testing.assert_array_equal(run.score(3, 1, [0, 9]), run.score("entity 3", 1, [0, 9]))


def test_best_tails_heads_and_relations(run, model):
    def best(pairs):
        return [i for _, i in sorted(((s, i) for i, s in pairs), reverse=True)[:4]]

    entities = range(len(model.entity))
    assert [a.id for a in run.tails("entity 3", 1, 4)] == best((t, score(model, 3, 1, t)) for t in entities)
    assert [a.id for a in run.heads(1, 3, 4)] == best((h, score(model, h, 1, 3)) for h in entities)
    relations = run.relations(3, 7, 4)
    assert [a.id for a in relations] == best((r, score(model, 3, r, 7)) for r in range(5))
    assert relations[0].name == f"relation {relations[0].id}"
    assert relations[0].score == pytest.approx(score(model, 3, relations[0].id, 7), rel=1e-5)


def test_nearest_leaves_the_entity_itself_out(run, model):
    found = run.nearest("entity 5", 60, "l2")
    assert sorted(a.id for a in found) == [i for i in range(61) if i != 5]
    distances = [np.linalg.norm(model.entity[5] - model.entity[a.id]) for a in found]
    assert distances == sorted(distances)


def test_rank(run, model):
    triples = random_triples(model, 50)
    names = tuple([f"{what} {i}" for i in ids] for what, ids in zip(("entity", "relation", "entity"), triples))
    known, unfiltered = KnownTriples([triples]), Protocol(known="kept")
    assert run.rank(names, known).metrics() == run.rank(triples, known).metrics() == run.rank(names, names).metrics()
    assert run.rank(triples, protocol=unfiltered).metrics().mr > run.rank(triples, known).metrics().mr
    with pytest.raises(InputError, match='to rank unfiltered, give protocol=evaluation.Protocol'):
        run.rank(triples)


def test_a_run_without_names_answers_ids(tmp_path, model):
    folder = write_run(tmp_path / "run", model, emap_file=None, rmap_file=None)
    run = dglke_frugal.load(folder)
    assert run.tails(0, 0, 1)[0].name == str(run.tails(0, 0, 1)[0].id)
    with pytest.raises(InputError, match="--entity_mfile"):
        run.tails("entity 0", 0)
    assert (
        dglke_frugal.load(folder, entity_map=folder / "entities.tsv")
        .tails("entity 0", 0, 1)[0]
        .name.startswith("entity "))


def test_importing_the_package_loads_neither_torch_nor_numpy():
    code = ("import sys, dglke_frugal\nassert not {'torch', 'numpy'} & set(sys.modules)\n"
            "dglke_frugal.load\nassert 'torch' not in sys.modules")
    subprocess.run([sys.executable, "-c", code], check=True)


def test_safetensors_by_the_formats_description(tmp_path, model):
    folder = write_run(tmp_path / "run", model)
    export.main([str(folder), str(tmp_path / "out.safetensors")])
    data = (tmp_path / "out.safetensors").read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    assert length % 8 == 0 and json.loads(header["__metadata__"]["model_name"]) == "ComplEx"
    for name, table in (("entity", model.entity), ("relation", model.relation)):
        begin, end = header[name]["data_offsets"]
        assert header[name]["dtype"] == "F32"
        read = np.frombuffer(data[8 + length + begin : 8 + length + end], "<f4").reshape(header[name]["shape"])
        np.testing.assert_array_equal(read, table)
    assert len(data) == 8 + length + end


def test_tsv_gives_back_the_same_numbers(tmp_path, model):
    folder = write_run(tmp_path / "run", model)
    export.main([str(folder), str(tmp_path / "out"), "--format", "tsv"])
    lines = (tmp_path / "out" / "entities.tsv").read_text().splitlines()
    assert lines[7].split("\t")[0] == "entity 7"
    np.testing.assert_array_equal(np.array([line.split("\t")[1:] for line in lines]).astype(np.float32), model.entity)
    assert len((tmp_path / "out" / "relations.tsv").read_text().splitlines()) == 5


@pytest.mark.parametrize("output, form", [("missing/out.safetensors", "safetensors"), ("file/out", "tsv")])
def test_an_export_that_cannot_be_written(tmp_path, model, refused, output, form):
    folder = write_run(tmp_path / "run", model)
    (tmp_path / "file").write_text("")
    with refused("cannot write"):
        export.main([str(folder), str(tmp_path / output), "--format", form])


@pytest.mark.parametrize("name", ["ComplEx", "TransE_l2", "TransR", "RESCAL", "RotatE"])
def test_lists_are_answered_question_by_question(tmp_path, name):
    run = dglke_frugal.load(write_run(tmp_path / "run", random_model(name)))
    heads, relations, tails = [0, "entity 1", 5, 0], [2, 0, "relation 2", 2], np.array([9, 8, 7, 6])
    for many, one in ((run.tails(heads, relations, 4), lambda i: run.tails(heads[i], relations[i], 4)),
                      (run.tails(heads, 1, 4), lambda i: run.tails(heads[i], 1, 4)),
                      (run.tails("entity 3", relations, 4), lambda i: run.tails("entity 3", relations[i], 4)),
                      (run.heads(relations, tails, 4), lambda i: run.heads(relations[i], tails[i], 4)),
                      (run.heads(0, tails, 70), lambda i: run.heads(0, tails[i], 70)),
                      (run.relations(heads, tails, 3), lambda i: run.relations(heads[i], tails[i], 3)),
                      (run.nearest(heads, 5), lambda i: run.nearest(heads[i], 5))):
        assert isinstance(many, AnswerLists) and len(many) == 4
        for i, answers in enumerate(many):
            assert isinstance(answers, Answers) and answers == one(i) and len(answers) > 1
    assert run.tails([0, 1], 0) != run.tails([0, 0], 0)
    assert len(run.tails([3], 0)) == 1 and run.tails([3], 0)[0] == run.tails(3, 0)
    assert len(run.tails([], 0)) == 0 and run.tails([], 0).to_dict()["score"].shape == (0,)


def test_answers_are_columns_and_say_little(run):
    answers = run.tails(3, 1, 4)
    assert answers.ids.dtype == np.int64 and answers.scores.dtype == np.float32
    assert [Scored(*row) for row in zip(answers.ids.tolist(), answers.names, answers.scores.tolist())] == list(answers)
    assert answers[1:3] == list(answers)[1:3] and answers[-1] == list(answers)[-1]
    assert repr(answers).startswith(f"Answers({answers[0].name!r} ") and repr(answers).endswith(", ...; 4 in all)")
    lists = run.tails([3, 7], [1, 1], 2)
    columns = lists.to_dict()
    assert columns["tail"] == [answer.name for answers in lists for answer in answers]
    assert {len(column) for column in columns.values()} == {4}
    assert len(repr(run.tails(range(61), 0, 50))) < 500


@pytest.mark.parametrize("ask, message", [
    (lambda run: run.tails([0, 1], [0, 1, 2]), "lengths are 2 for head and 3 for relation"),
    (lambda run: run.score([0, 1], 0, [1, 2, 3]), "lengths are 2 for heads and 3 for tails"),
    (lambda run: run.rank(([0, 1], [0], [1, 2])), "lengths are 2 for heads and 1 for relations"),
    (lambda run: run.tails(1.7, 0), "1.7 is neither the id nor the name of one entity"),
    (lambda run: run.tails([0, 1.7], 0), "1.7 is neither"),
    (lambda run: run.tails([[0, 1]], 0), "neither the id nor"),
    (lambda run: run.tails(0, None), "None is neither the id nor the name of one relation"),
    (lambda run: run.tails([0, 61], 0), r"entity id 61 \(item 1"), (lambda run: run.score(0, 5, 1), "relation id 5"),
    (lambda run: run.tails("nobody", 0), "no 'nobody'"),
    (lambda run: run.tails(10**30, 0), "entity id 1000"),
    (lambda run: run.tails([0, 1], 0, 0), "at least 1"),
    (lambda run: dglke_frugal.load(run.folder, score_rule=["dglke"]), "there is no score rule")])
def test_lists_that_cannot_be_answered_are_refused(run, ask, message):
    with pytest.raises(InputError, match=message):
        ask(run)


def test_the_inverse_of_a_relation_has_a_name_of_its_own():
    def names(texts):
        table = _native.NameTable()
        for name in texts:
            table.add(name.encode())
        packed = table.release()
        return Names(lambda: packed)

    assert list(with_inverses(names(["r", "s"]))) == ["r", "s", "r (inverse)", "s (inverse)"]
    assert len(with_inverses(names(["r", "s (inverse)"]))) == 4
    with pytest.raises(InputError, match=r"the relation 'r \(inverse\)' has the name of the inverse of 'r'"):
        len(with_inverses(names(["r", "r (inverse)"])))
