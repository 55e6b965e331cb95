"""Known triples are no answers: against a plain sort of all scores."""

import itertools
import json

import numpy as np
import pytest
import torch
from evaluation.random_models import NAMES, random_model, random_triples
from evaluation.ranking_oracle import score

import dglke_frugal
from dglke_frugal.cli import predict
from dglke_frugal.data import load_graph
from dglke_frugal.data.fingerprint import Fingerprint
from dglke_frugal.errors import InputError
from dglke_frugal.evaluation import KnownTriples
from dglke_frugal.inference import known as known_module
from dglke_frugal.inference.completion import EXEC_MODES, best_triples
from inference.make_run import write_run

HEADS, RELATIONS, TAILS = np.array([3, 9, 3, 40]), np.array([1, 0, 4]), np.array([7, 7, 2, 60, 3, 9, 11, 12])


def facts(model, seed=5):
    """Random triples, most of one hub, so that queries have few and many known answers."""
    heads, relations, tails = random_triples(model, 600, seed)
    hub = np.arange(0, 61)
    return np.concatenate([heads, np.full(61, 3)]), np.concatenate([relations, np.ones(61, int)]), np.concatenate(
        [tails, hub])


def rows_of(results):
    return [list(zip(*(column.tolist() for column in (r.heads, r.relations, r.tails)))) for r in results]


@pytest.mark.parametrize("together", [1, 1 << 22])
@pytest.mark.parametrize("mode", EXEC_MODES[1:])
@pytest.mark.parametrize("name", ["DistMult", "TransE_l2", "TransR"])
def test_the_best_of_what_is_not_known(monkeypatch, name, mode, together):
    monkeypatch.setattr(known_module, "_LOOKED_UP_TOGETHER", together)
    model = random_model(name)
    triples = facts(model)
    known = set(zip(*(column.tolist() for column in triples)))
    for heads, tails in ((HEADS, TAILS), (HEADS, np.arange(61)), (np.arange(61), TAILS)):
        everything = best_triples(model, heads, RELATIONS, tails, mode, 10**6)
        expected = [[row for row in rows if row not in known][:5] for rows in rows_of(everything)]
        found = best_triples(model, heads, RELATIONS, tails, mode, 5, known=KnownTriples([triples]))
        assert rows_of(found) == expected
        assert len(set(known) & set(itertools.chain(*rows_of(everything)))) > 5


def test_lists_taken_element_by_element():
    model = random_model("ComplEx")
    triples = facts(model)
    asked = [np.concatenate([column[:5], [i, 60 - i]]) for i, column in zip((2, 0, 1), triples)]
    asked[1] %= 5
    known = set(zip(*(column.tolist() for column in triples)))
    (found,) = best_triples(model, *asked, "triplet_wise", 10, known=KnownTriples([triples]))
    wanted = [row for row in zip(*(column.tolist() for column in asked)) if row not in known]
    assert sorted(rows_of([found])[0]) == sorted(wanted)
    assert len(wanted) < 3


@pytest.fixture(params=NAMES)
def run_and_graph(request, tmp_path):
    model = random_model(request.param)
    heads, relations, tails = facts(model)
    parts = {"train": slice(0, 500), "valid": slice(500, 600), "test": slice(600, None)}
    graph = {name: (heads[part], relations[part], tails[part]) for name, part in parts.items()}
    files = ["entities.tsv", "relations.tsv", "train.txt", "valid.txt", "test.txt"]
    folder = write_run(tmp_path / "run", model, graph=graph, data_path=str(tmp_path / "run"), format="udd_hrt",
                       data_files=files)
    return dglke_frugal.load(folder), model, set(zip(heads.tolist(), relations.tolist(), tails.tolist()))


def test_a_run_knows_its_data_set(run_and_graph):
    run, model, known = run_and_graph
    expected = sorted((t for t in range(61) if (9, 2, t) not in known), key=lambda t: -score(model, 9, 2, t))
    assert [a.id for a in run.tails("entity 9", 2, 4, exclude_known=True)] == expected[:4]
    expected = sorted((h for h in range(61) if (h, 2, 9) not in known), key=lambda h: -score(model, h, 2, 9))
    assert [a.id for a in run.heads(2, 9, 61, exclude_known=True)] == expected
    assert {a.id for a in run.relations(3, 9, 5)} - {a.id for a in run.relations(3, 9, 5, exclude_known=True)} == {
        r for r in range(5) if (3, r, 9) in known}
    assert run.tails(3, 1, exclude_known=True) == [] and str(run.tails(3, 1, exclude_known=True)) == "no answers"
    assert len(run.tails(3, 1, 61)) == 61


def test_lists_of_questions_are_answered_as_single_ones(run_and_graph):
    """Among them queries with no, few and all answers known, and the same one twice."""
    run, _, known = run_and_graph
    entities, relations = [9, 3, 40, 3, 9, 0], [2, 1, 0, 1, 4, 3]
    for ask in (lambda e, r: run.tails(e, r, 7, exclude_known=True),
                lambda e, r: run.heads(r, e, 7, exclude_known=True),
                lambda e, r: run.relations(e, 9, 3, exclude_known=True)):
        assert list(ask(entities, relations)) == [ask(e, r) for e, r in zip(entities, relations)]
    assert run.tails(entities, relations, 7, exclude_known=True) != run.tails(entities, relations, 7)
    assert len(run.tails([], [], exclude_known=True)) == 0


def test_the_command_leaves_them_out(run_and_graph, tmp_path):
    run, model, known = run_and_graph
    (tmp_path / "heads").write_text("3\n9\n")
    arguments = ["--model_path", str(run.folder), "--format", "h_*_*", "--data_files", str(tmp_path / "heads"),
                 "--topK", "50", "--output", str(tmp_path / "out")]

    def asked(*more):
        predict.main([*arguments, *more])
        return [tuple(map(int, line.split("\t")[:3])) for line in (tmp_path / "out").read_text().splitlines()[1:]]

    assert known & set(asked())
    found = asked("--exclude_known")
    assert len(found) == 50 and not known & set(found)


def test_a_data_set_that_is_gone_or_another_one(tmp_path, refused):
    model = random_model("DistMult")
    folder = write_run(tmp_path / "run", model, graph={"train": facts(model)}, data_path=str(tmp_path / "run"),
                       format="udd_hrt", data_files=["entities.tsv", "relations.tsv", "train.txt"])
    run = dglke_frugal.load(folder)
    config = json.loads((folder / "config.json").read_text())
    graph = load_graph("toy", folder, "udd_hrt", config["data_files"])
    trained = {"data": {**Fingerprint.of(graph).to_dict(), "training_checksum": 5}}
    (folder / "config.json").write_text(json.dumps({**config, **trained}))
    with pytest.raises(InputError, match="which has changed: as many training triples as then, but other ones"):
        dglke_frugal.load(folder).tails(0, 0, exclude_known=True)
    with open(folder / "relations.tsv", "a") as file:
        file.write("5\tone more\n")
    with pytest.raises(InputError, match="has 61 entities and 6 relations, but .* was trained on 61 and 5"):
        run.tails(0, 0, exclude_known=True)
    (folder / "train.txt").unlink()
    with pytest.raises(InputError, match="known triples are those of the data set .*train.txt does not exist"):
        run.tails(0, 0, exclude_known=True)
    assert len(run.tails(0, 0)) == 10
    with refused("--exclude_known is not a flag of DGL-KE"):
        predict.main(["--backend", "vanilla", "--exclude_known"])


@pytest.mark.parametrize("name", ["DistMult", "TransE_l1"])
def test_on_a_device(name):
    from dataclasses import replace

    model = random_model(name)
    question = (HEADS, RELATIONS, np.arange(61), "batch_head", 6)
    known = KnownTriples([facts(model)])
    there = replace(model, entity=torch.from_numpy(model.entity), device=torch.device("cpu"))
    assert rows_of(best_triples(there, *question, known=known)) == rows_of(best_triples(model, *question, known=known))
