"""How answers and runs show themselves, and what similar entities cost."""

import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from evaluation.random_models import random_model, random_triples

import dglke_frugal
from dglke_frugal.errors import InputError
from dglke_frugal.evaluation import Protocol
from dglke_frugal.inference import similarity
from dglke_frugal.inference.similarity import MEASURES
from inference.make_run import write_run


@pytest.fixture
def run(tmp_path):
    return dglke_frugal.load(write_run(tmp_path / "run", random_model("ComplEx")))


def test_answers_are_a_list_and_print_as_a_table(run):
    found = run.tails(3, 1, 4)
    assert len(found) == 4 and found[0].name == f"entity {found[0].id}"
    lines = str(found).splitlines()
    assert [line.split(None, 1)[1] for line in lines] == [each.name for each in found]
    assert float(lines[0].split()[0]) == pytest.approx(found[0].score, rel=1e-5)
    assert len(repr(found).splitlines()) == 1


def test_answers_to_several_questions_print_as_tables(run):
    lists = run.tails([3, 4], 1, 2)
    assert str(lists) == f"question 0:\n{lists[0]}\nquestion 1:\n{lists[1]}"
    assert len(repr(lists).splitlines()) == 1 and str(run.tails([], 1)) == "no questions"


def test_answers_are_columns(run):
    found = run.tails(3, 1, 4)
    assert found.columns == ["head", "relation", "tail", "score", "known"]
    assert found["head"] == ["entity 3"] * 4 and found["relation"] == ["relation 1"] * 4
    assert found["tail"] == found.names and found["known"] == [None] * 4  # the run's data set is not there
    np.testing.assert_array_equal(found["score"], found.scores)
    assert found[:2]["tail"] == found.names[:2]
    lists = run.heads(1, [5, 4, 5], 2)
    assert lists["tail"] == ["entity 5"] * 2 + ["entity 4"] * 2 + ["entity 5"] * 2
    assert lists["head"] == [answer.name for answers in lists for answer in answers]
    of_pair = run.relations([0, 2], [1, 3], 2)
    assert of_pair["head"] == ["entity 0"] * 2 + ["entity 2"] * 2
    assert of_pair["tail"] == ["entity 1"] * 2 + ["entity 3"] * 2
    assert of_pair["relation"] == [answer.name for answers in of_pair for answer in answers]
    near = run.nearest([7, 8], 2)
    assert near.columns == ["entity", "neighbour", "score"] and near["entity"] == ["entity 7"] * 2 + ["entity 8"] * 2
    for answers in (found, lists, near):
        with pytest.raises(KeyError, match="there is no column 'tails'; there are "):
            answers["tails"]
    assert run.tails([], 1).columns == found.columns and len(run.tails([], 1)["tail"]) == 0


def test_answers_become_a_data_frame(run):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed (pip install '.[tables]')")
    for found in (run.tails(3, 1, 4), run.tails([3, 4], 1, 2), run.nearest("entity 3", 4)):
        frame = found.to_pandas()
        assert isinstance(frame, pandas.DataFrame) and list(frame.columns) == found.columns
        assert frame["score"].tolist() == np.asarray(found["score"]).tolist() and len(frame) == 4
    assert len(run.relations(0, 1, 1).to_pandas()) == 1


def test_answers_in_a_notebook(run):
    text = run.tails(3, 1, 4)._repr_html_()
    assert text.count("<tr>") == 5 and "<td>entity 3</td>" in text and text == run.tails([3], 1, 4)._repr_html_()
    assert "<td>" in run.rank([(0, 0, 1)], protocol=Protocol(known="kept"))._repr_html_()
    assert str(run.folder) in run._repr_html_() and "61 entities" in run._repr_html_()


def test_without_pandas_it_is_reported(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match=r"to_pandas\(\) needs pandas, which is not installed"):
        run.tails(3, 1).to_pandas()
    with pytest.raises(InputError, match=r"to_pandas\(\) needs pandas, which is not installed"):
        run.tails([3], 1).to_pandas()


def test_short_forms(run):
    assert repr(run) == f"<Run {run.folder} ComplEx: 61 entities, 5 relations, hidden_dim 10>"
    assert repr(run.model) == "<ComplEx: 61 entities, 5 relations, hidden_dim 10>"
    evaluation = run.rank(random_triples(run.model, 9), protocol=Protocol(known="kept"))
    assert repr(evaluation).startswith("<Evaluation of 9 triples: MRR 0.") and len(repr(evaluation)) < 80


@pytest.mark.parametrize("measure", MEASURES)
def test_nearest_is_the_same_wherever_the_table_is(run, measure):
    there = replace(run, model=replace(run.model, entity=torch.from_numpy(np.array(run.model.entity)),
                                       device=torch.device("cpu")))
    for entity in (0, 5, 60):
        assert there.nearest(entity, 60, measure) == run.nearest(entity, 60, measure)


@pytest.mark.parametrize("device", [None, torch.device("cpu")])
def test_the_table_is_prepared_once_for_a_measure(run, monkeypatch, device):
    prepared = []
    original = similarity._unit_rows
    monkeypatch.setattr(similarity, "_unit_rows", lambda rows: prepared.append(len(rows)) or original(rows))
    if device is not None:
        run = replace(run, model=replace(run.model, entity=torch.from_numpy(np.array(run.model.entity)), device=device))
    for entity in range(5):
        run.nearest(entity)
    assert prepared == [61]
    run.nearest(0, measure="dot")  # of several, the last is kept
    run.nearest(0)
    assert prepared == [61, 61]


def test_a_table_on_a_device_is_not_copied_to_the_host(run, monkeypatch):
    """Only the rows that are compared come over."""
    there = replace(run, model=replace(run.model, entity=torch.from_numpy(np.array(run.model.entity)),
                                       device=torch.device("cpu")))
    there.nearest(0, 3)
    copied, original = [], torch.Tensor.cpu
    monkeypatch.setattr(torch.Tensor, "cpu", lambda self: copied.append(self.shape) or original(self))
    there.nearest(1, 3)
    assert copied and all(shape[0] < 20 for shape in copied)
