"""Searches on a device, and with faiss, against the exact search of the CPU."""

import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from devices import CUDA
from evaluation.random_models import random_model

from dglke_frugal.cli import emb_sim, predict
from dglke_frugal.errors import InputError
from dglke_frugal.evaluation import device_ranking
from dglke_frugal.extras import install_command
from dglke_frugal.inference.completion import best_triples
from dglke_frugal.inference.similarity import MEASURES, most_similar
from inference.make_run import write_run

RNG = np.random.default_rng(0)
TABLE = RNG.normal(size=(300, 9)).astype(np.float32)
TABLE[[7, 40]] = 0  # similar to nothing by angle
LEFT = np.array([3, 60, 7, 3, 299])


def rows(results):
    return [tuple(column.tobytes() for column in result) for result in results]  # NaN is equal to itself


@pytest.mark.parametrize("device", ["cpu", CUDA])
@pytest.mark.parametrize("measure", MEASURES)
def test_similar_rows_on_a_device(monkeypatch, measure, device):
    for right in (np.arange(300), np.array([5, 60, 61, 5, 3])):
        for mode in ("all", "batch_left"):
            expected = most_similar(TABLE, LEFT, right, mode, measure, 6)
            for block in (1 << 15, 64):
                monkeypatch.setattr(device_ranking, "_ROWS", block)
                found = most_similar(TABLE, LEFT, right, mode, measure, 6, torch.device(device))
                assert rows(found) == rows(expected)


@pytest.mark.parametrize("device", ["cpu", CUDA])
@pytest.mark.parametrize("name", ["TransE_l1", "TransE_l2", "RotatE", "RESCAL", "TransR"])
def test_triples_on_a_device(name, device):
    model = random_model(name, entities=400)
    there = replace(model, device=torch.device(device))
    for mode in ("all", "batch_head", "batch_rel", "batch_tail"):
        question = (np.array([5, 9]), np.array([0, 3, 1]), np.arange(400), mode, 7)
        for ours, theirs in zip(best_triples(there, *question), best_triples(model, *question)):
            for column in ("heads", "relations", "tails", "scores"):
                np.testing.assert_array_equal(getattr(ours, column), getattr(theirs, column))


@pytest.fixture(scope="module")
def clusters():
    """Rows in clumps, as trained embeddings lie."""
    centers = RNG.normal(size=(200, 24))
    return (centers[RNG.integers(0, 200, 20000)] + 0.5 * RNG.normal(size=(20000, 24))).astype(np.float32)


@pytest.fixture
def faiss():
    return pytest.importorskip("faiss", reason="the extra dglke-frugal[faiss] is not installed")


@pytest.mark.parametrize("measure", ["cosine", "l2", "dot"])
def test_faiss_finds_nearly_all_and_scores_exactly(faiss, clusters, measure):
    left = np.arange(0, 20000, 200)
    question = (clusters, left, np.arange(20000), "batch_left", measure, 10)
    exact, found = most_similar(*question), most_similar(*question, index="faiss")
    shares = [len(np.intersect1d(a[1], b[1])) / 10 for a, b in zip(exact, found)]
    assert np.mean(shares) > 0.9
    for (_, wanted, scores), (_, got, ours) in zip(exact, found):
        known = dict(zip(wanted.tolist(), scores.tolist()))
        assert list(ours) == sorted(ours, reverse=True)
        assert all(known.get(row, score) == score for row, score in zip(got.tolist(), ours.tolist()))


@pytest.mark.parametrize("name", ["TransE_l2", "ComplEx"])
def test_small_tables_are_searched_as_a_whole(faiss, name):
    model = random_model(name, entities=250)
    question = (np.array([1, 9]), np.array([0, 3]), np.arange(250), "batch_head", 9)
    for ours, theirs in zip(best_triples(model, *question, index="faiss"), best_triples(model, *question)):
        np.testing.assert_array_equal(ours.tails, theirs.tails)
        np.testing.assert_array_equal(ours.scores, theirs.scores)


def test_what_faiss_cannot_do_is_reported(faiss):
    for measure in ("l1", "ext_jaccard"):
        with pytest.raises(InputError, match="faiss has no index for .*; leave --index out"):
            most_similar(TABLE, LEFT, LEFT, "all", measure, 3, index="faiss")
    with pytest.raises(InputError, match="on the CPU"):
        most_similar(TABLE, LEFT, LEFT, "all", "l2", 3, torch.device("cpu"), "faiss")
    with pytest.raises(InputError, match="unknown index"):
        most_similar(TABLE, LEFT, LEFT, "all", "l2", 3, index="annoy")


def test_faiss_that_is_missing_is_a_sentence(monkeypatch, tmp_path, refused):
    monkeypatch.setitem(sys.modules, "faiss", None)
    np.save(tmp_path / "table.npy", TABLE)
    with refused(f"faiss, which is not installed: {install_command('faiss')}"):
        emb_sim.main(["--emb_file", str(tmp_path / "table.npy"), "--format", "*", "--index", "faiss"])


@pytest.mark.parametrize("flags", [pytest.param(["--gpu", "0"], marks=pytest.mark.cuda), ["--index", "faiss"]])
def test_the_commands_write_the_same_file(tmp_path, flags):
    if "faiss" in flags:
        pytest.importorskip("faiss", reason="the extra dglke-frugal[faiss] is not installed")
    run = write_run(tmp_path / "run", random_model("TransE_l2", entities=200))
    (run / "h.ids").write_text("3\n17\n")
    (run / "r.ids").write_text("1\n4\n")
    table = run / "toy_TransE_l2_entity.npy"
    lists = ["--format", "h_r_*", "--data_files", str(run / "h.ids"), str(run / "r.ids")]
    left = ["--format", "l_*", "--data_files", str(run / "h.ids"), "--exec_mode", "batch_left"]
    for command, rest in ((predict, ["--model_path", str(run), *lists]), (emb_sim, ["--emb_file", str(table), *left])):
        texts = []
        for extra in ([], flags):
            command.main([*rest, *extra, "--output", str(run / "out.tsv")])
            texts.append((run / "out.tsv").read_text())
        assert texts[0] == texts[1] and texts[0].count("\n") >= 11
