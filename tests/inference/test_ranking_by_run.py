"""run.rank: rows are triples, the run's own data are left out by default, wherever it is loaded from."""

import json
import os
import shutil
import subprocess
import sys
import warnings

import numpy as np
import pytest
from evaluation.random_models import random_model, random_triples
from evaluation.ranking_oracle import score

import dglke_frugal
from dglke_frugal.errors import InputError
from dglke_frugal.evaluation import HEAD, TAIL, KnownTriples, Metrics, Protocol, Sampling, evaluate, share_of
from dglke_frugal.evaluation.ogb import evaluate_link
from inference.make_run import write_run


@pytest.fixture
def facts():
    """Triples by split; most of each query's answers are known, so that a filter shows."""
    heads, relations, tails = random_triples(random_model("ComplEx"), 600, 5)
    heads %= 7
    return {name: tuple(column[part] for column in (heads, relations, tails))
            for name, part in {"train": slice(0, 480), "valid": slice(480, 540), "test": slice(540, 600)}.items()}


@pytest.fixture
def project(tmp_path, facts):
    """A folder with data/ and ckpts/run, as `dglke_train --data_path data --save_path ckpts` leaves it there."""
    project = tmp_path / "project"
    data, run = project / "data", project / "ckpts" / "run"
    write_run(run, random_model("ComplEx"), data_path="data", save_path="ckpts", format="udd_hrt",
              data_files=["entities.tsv", "relations.tsv", "train.txt", "valid.txt", "test.txt"])
    data.mkdir()
    for name in ("entities.tsv", "relations.tsv"):
        shutil.copy(run / name, data)
    for split, triples in facts.items():
        (data / f"{split}.txt").write_text("".join("\t".join(map(str, triple)) + "\n" for triple in zip(*triples)))
    return project


@pytest.fixture
def run(project, monkeypatch):
    monkeypatch.chdir(project)
    return dglke_frugal.load("ckpts/run")


def true_ranks(model, triples, known):
    """Filtered ranks by all scores, heads first."""
    found = {HEAD: [], TAIL: []}
    for h, r, t in zip(*(column.tolist() for column in triples)):
        own = score(model, h, r, t)
        heads, tails = ({e for e in range(61) if e != true and asked(e) not in known}
                        for true, asked in ((h, lambda e: (e, r, t)), (t, lambda e: (h, r, e))))
        found[HEAD].append(1 + sum(score(model, e, r, t) >= own for e in heads))
        found[TAIL].append(1 + sum(score(model, h, r, e) >= own for e in tails))
    return found


def test_known_triples_are_those_of_the_run_by_default(run, facts):
    known = {triple for split in facts.values() for triple in zip(*(column.tolist() for column in split))}
    expected = true_ranks(run.model, facts["test"], known)
    found = run.rank(facts["test"])
    for side in (HEAD, TAIL):
        assert found.ranks(side).tolist() == expected[side]
    unfiltered = run.rank(facts["test"], protocol=Protocol(known="kept"))
    assert (unfiltered.ranks(TAIL) > found.ranks(TAIL)).mean() > 0.5
    given = run.rank(facts["test"], known=np.array(sorted(known)))
    assert given.metrics() == found.metrics() == run.rank(facts["test"], KnownTriples(facts.values())).metrics()
    assert run.rank(facts["test"], known=[]).metrics() == unfiltered.metrics()


def test_the_command_gives_the_same_metrics(run, facts, tmp_path):
    command = [sys.executable, "-m", "dglke_frugal", "eval", "--model_path", "ckpts/run", "--json", str(tmp_path / "m")]
    subprocess.run(command, check=True, capture_output=True)
    assert json.loads((tmp_path / "m").read_text())["metrics"] == run.rank(facts["test"]).metrics().named()


@pytest.mark.parametrize("count", [1, 3, 5])
def test_rows_are_triples(run, facts, count):
    columns = tuple(column[:count] for column in facts["test"])
    rows = np.stack(columns, axis=1)
    expected = run.rank(columns)
    names = [(f"entity {h}", f"relation {r}", f"entity {t}") for h, r, t in rows]
    for given in (rows, list(map(tuple, rows)), names, zip(*columns), rows.astype(np.uint16)):
        found = run.rank(given)
        np.testing.assert_array_equal(np.stack(found.triples, axis=1), rows)
        assert found.ranks(HEAD).tolist() == expected.ranks(HEAD).tolist()
    np.testing.assert_array_equal(run.score(rows), run.score(*columns))
    np.testing.assert_array_equal(run.score(names), run.score(*columns))
    known = KnownTriples([rows])
    assert evaluate(run.model, rows, known).metrics() == evaluate(run.model, columns, KnownTriples([columns])).metrics()
    lists = {f"{side}_neg": lambda: np.tile(np.arange(9), (count, 1)) for side in (HEAD, TAIL)}
    assert evaluate_link(run.model, rows, lists).metrics() == evaluate_link(run.model, columns, lists).metrics()
    assert np.stack(share_of(rows, 1), axis=1).tolist() == rows.tolist()


def test_a_run_finds_its_data_from_another_folder_and_after_a_move(project, facts, monkeypatch, tmp_path):
    (tmp_path / "data").mkdir()  # another one, where the name points to from here
    monkeypatch.chdir(tmp_path)
    away = dglke_frugal.load(project / "ckpts" / "run")
    expected = away.rank(facts["test"]).metrics()
    assert away.tails("entity 3", 1, 60, exclude_known=True) != away.tails("entity 3", 1, 60)
    near = dglke_frugal.load("project/ckpts/run")
    monkeypatch.chdir("/")  # nothing has been read so far
    assert near.folder == project / "ckpts" / "run" and near.rank(facts["test"]).metrics() == expected
    project.rename(tmp_path / "moved")
    moved = dglke_frugal.load(tmp_path / "moved" / "ckpts" / "run")
    assert moved.rank(facts["test"]).metrics() == expected and moved.entity_names[3] == "entity 3"
    (tmp_path / "moved" / "data").rename(tmp_path / "elsewhere")
    lost = dglke_frugal.load(tmp_path / "moved" / "ckpts" / "run")
    with pytest.raises(InputError, match=r"cannot be read: .* does not exist; give its folder, load\(..., data_path="):
        lost.tails(0, 0, exclude_known=True)
    with pytest.raises(InputError, match="give its folder.*to rank unfiltered, give protocol"):
        lost.rank(facts["test"])
    told = dglke_frugal.load(tmp_path / "moved" / "ckpts" / "run", data_path=tmp_path / "elsewhere")
    assert told.rank(facts["test"]).metrics() == expected


def test_training_writes_where_its_data_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkdir("data")
    (tmp_path / "data" / "train.tsv").write_text("".join(f"e{i}\tnext\te{(i + 1) % 9}\n" for i in range(9)))
    trained = dglke_frugal.train(dataset="ring", data_path="data", format="raw_udd_hrt", data_files=["train.tsv"],
                                 hidden_dim=4, model_name="DistMult", batch_size=3, neg_sample_size=3, max_step=3,
                                 seed=1, preset=None)
    expected = trained.rank([("e0", "next", "e1")])
    monkeypatch.chdir("/")
    for folder in (trained.folder, shutil.copytree(trained.folder, tmp_path / "x" / "y" / "z")):
        found = dglke_frugal.load(folder)
        assert found.rank([("e0", "next", "e1")]).metrics() == expected.metrics()
        assert "e1" not in found.tails("e0", "next", exclude_known=True).names
        assert found.config["data_path"] == str(tmp_path / "data")


def test_weighted_data_are_known_triples(tmp_path):
    (tmp_path / "train.tsv").write_text("".join(f"e{i}\tnext\te{(i + 1) % 9}\t0.5\n" for i in range(9)))
    run = dglke_frugal.train(dataset="ring", data_path=tmp_path, format="raw_udd_hrt", data_files=["train.tsv"],
                             hidden_dim=4, model_name="DistMult", batch_size=3, neg_sample_size=3, max_step=3, seed=1,
                             has_edge_importance=True, preset=None, save_path=tmp_path / "runs")
    assert "e1" not in run.tails("e0", "next", exclude_known=True).names


def test_runs_and_rankings_are_equal_to_themselves_and_keys(run, facts, project):
    found, again = run.rank(facts["test"]), run.rank(facts["test"])
    assert run == run and found == found and run.model == run.model and found.compared[HEAD] == found.compared[HEAD]
    assert run != dglke_frugal.load(project / "ckpts" / "run") and found != again
    assert {run: 1, found: 2, run.model: 3}[found] == 2


def test_a_breakdown_is_at_hand(run, facts):
    found = run.rank(facts["test"])
    rows = found.by_relation()
    assert [(row.relation, row.side, row.metrics) for row in rows[:2]] == [
        (None, HEAD, found.metrics(HEAD)), (None, TAIL, found.metrics(TAIL))]
    for row in rows[2:]:
        assert row.metrics == Metrics.of([found.ranks(row.side)[facts["test"][1] == row.relation]])
    assert sum(row.metrics.count for row in rows[2:]) == 2 * len(facts["test"][0])


@pytest.mark.parametrize("ask, says", [
    (lambda found: found.metrics("realistic"), "there is no side 'realistic'; choose one of head, tail"),
    (lambda found: found.metrics(""), "there is no side ''"),
    (lambda found: found.metrics(ties="mean"), "there is no rule for ties 'mean'"),
    (lambda found: found.metrics(ties=""), "there is no rule for ties ''"),
    (lambda found: found.ranks(None), "there is no side None"),
    (lambda found: found.ranks([HEAD]), r"there is no side \['head'\]"),
    (lambda found: Protocol(ties=None), "there is no rule for ties None"),
    (lambda found: Protocol(known=True), "there is no rule for known triples True"),
    (lambda found: Protocol(sampling=10), "sampling is 10; give an evaluation.Sampling"),
    (lambda found: Sampling(1.5), "is 1.5; give an integer of at least 1"),
    (lambda found: Sampling(0), "--neg_sample_size_eval"),
    (lambda found: Sampling(1, seed=-1), "seed of candidates is -1"),
    (lambda found: Sampling(1, by_degree=1), "by_degree of Sampling is 1; give True or False"),
    (lambda found: Metrics.of(np.array([1, 2])), "Metrics.of takes a list of arrays of ranks"),
    (lambda found: Metrics.of([[1, 0]]), "numbers of at least 1"),
    (lambda found: Metrics.of([[1, float("nan")]]), "numbers of at least 1"),
    (lambda found: share_of([(0, 0, 1)], 0), r"the share of triples is 0; give a number in \(0, 1\]"),
    (lambda found: share_of([(0, 0, 1)], None), "the share of triples is None"),
    (lambda found: share_of([(0, 0, 1)], 0.5, -1), "the seed of the share is -1"),
    (lambda found: KnownTriples(np.zeros((2, 3), int)), "KnownTriples takes a list of parts"),
    (lambda found: KnownTriples(None), "KnownTriples takes a list of parts"),
    (lambda found: KnownTriples(tuple(np.zeros((3, 2), int))), "part 0 of KnownTriples: triples are rows"),
    (lambda found: KnownTriples([[(0, -1, 1)]]), "relation id -1 of a known triple is negative")])
def test_arguments_are_checked(run, facts, ask, says):
    with pytest.raises(InputError, match=says):
        ask(run.rank(facts["test"]))


@pytest.mark.parametrize("ask, says", [
    (lambda run: run.rank([(0, 0, 1)], protocol="realistic"), "protocol of evaluate.. is 'realistic'"),
    (lambda run: run.rank([(0, 0, 1)], protocol=None), "protocol of evaluate.. is None"),
    (lambda run: run.rank([(0, 0, 1)], known=True), "known triples: triples are rows"),
    (lambda run: run.rank([(0, 0, 1)], known=[(61, 0, 1)]), "known triples: entity id 61"),
    (lambda run: run.rank([(0, 0, 1)], KnownTriples([[(0, 0, 61)]])), "entity 61 of a known triple is not in"),
    (lambda run: run.rank([(0, 0, 1)], KnownTriples([[(0, 5, 1)]])), "relation 5 of a known triple is not in"),
    (lambda run: evaluate(run, [(0, 0, 1)], KnownTriples([])), "model of evaluate.. is <Run"),
    (lambda run: evaluate(run.model, [(0, 0, 1)], [(0, 0, 1)]), "known of evaluate.. is"),
    (lambda run: evaluate(run.model, [("a", "r", "b")], KnownTriples([])), "'a' is a name; give ids here"),
    (lambda run: evaluate(run.model, [(0, 0, -1)], KnownTriples([])), "tail -1 of triple 0 is not in the model"),
    (lambda run: run.score(0, 1), "takes heads, relations and tails, or triples"),
    (lambda run: run.tails(0, 0, 2.0), "k is 2.0; give an integer"),
    (lambda run: run.tails(0, 0, True), "k is True"),
    (lambda run: run.tails(0, 0, "3"), "k is '3'"),
    (lambda run: run.nearest(0, 0), "k is 0; give an integer of at least 1"),
    (lambda run: run.relations([], [], 0), "k is 0"),
    (lambda run: run.nearest(0, measure=["cosine"]), r"there is no measure \['cosine'\]"),
    (lambda run: run.tails(0, 0, exclude_known="no"), "exclude_known is 'no'; give True or False"),
    (lambda run: run.tails({0, 1}, 0), "a set has no order"),
    (lambda run: run.tails(np.zeros((2, 2), int), 0), r"an array of shape \(2, 2\) is no list of ids"),
    (lambda run: run.tails(True, 0), "True is neither the id nor the name of one entity"),
    (lambda run: run.tails(b"entity 1", 0), "is neither the id nor the name"),
    (lambda run: run.tails("\ud800", 0), "the graph has no"),
    (lambda run: dglke_frugal.load(None), "the folder of the run is None; give a path"),
    (lambda run: dglke_frugal.load(run.folder, device="cuda"), "device is 'cuda'; give an integer of at least -1"),
    (lambda run: dglke_frugal.load(run.folder, check_values="no"), "check_values is 'no'"),
    (lambda run: dglke_frugal.load(run.folder, entity_map=5), "entity_map is 5; give a path"),
    (lambda run: dglke_frugal.load(run.folder, data_path=b"x"), "data_path is b'x'; give a path")])
def test_questions_are_checked(run, ask, says):
    with pytest.raises(InputError, match=says) as refused:
        ask(run)
    assert len(str(refused.value).splitlines()) == 1


def test_items_of_every_kind_ask_the_same(run):
    import torch

    expected = run.tails([3, 4], 1, 2)
    for items in ((3, 4), np.array([3, 4], np.uint64), [np.int32(3), "entity 4"], torch.tensor([3, 4]), range(3, 5),
                  iter([3, 4]), np.array(["entity 3", "entity 4"])):
        assert run.tails(items, 1, np.int64(2)) == expected
    assert run.tails(torch.tensor(3), np.int8(1), 2) == run.tails(np.str_("entity 3"), 1, 2) == expected[0]
    assert len(run.nearest(0, 2**31 - 1)) == 60 and len(run.tails(0, 0, 10**6)) == 61


def test_nothing_to_rank(run):
    assert run.rank([]).metrics().count == 0 and run.score([]).shape == (0,)


@pytest.mark.parametrize("shift, warned", [(1, 1), (0, 0), (100, 0)])
def test_integers_that_are_names_of_other_rows_are_warned_of_once(project, facts, monkeypatch, shift, warned):
    """A program that reads a table of names such as 17 has integers, which are ids here."""
    for folder in (project / "data", project / "ckpts" / "run"):
        names = [str(number + shift if shift > 60 else (number + shift) % 61) for number in range(61)]
        (folder / "entities.tsv").write_text("".join(f"{number}\t{name}\n" for number, name in enumerate(names)))
    monkeypatch.chdir(project)
    run = dglke_frugal.load("ckpts/run")
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        run.evaluate("test"), run.missing(k=1), run.tails(names[3], 0)  # no integer that could be the name of an entity
        assert not found
        ids = np.array(facts["test"]).T
        by_ids = run.rank(ids).metrics().mrr
        run.tails(5, 0), run.nearest([5, 6])
        by_names = run.rank([(names[h], r, names[t]) for h, r, t in ids.tolist()]).metrics().mrr
    assert by_ids == by_names  # integers stay ids
    assert len(found) == warned and all("give names as text" in str(each.message) for each in found)
