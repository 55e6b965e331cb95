"""A small trained run of every model: what the product says of it is what plain numpy finds in its files."""

import json

import numpy as np
import pytest
from devices import CUDA
from evaluation.numpy_ranker import SCORES, Run

import dglke_frugal
from dglke_frugal.cli.evaluate import main as evaluate
from dglke_frugal.cli.train import main as train
from dglke_frugal.models import built_in_model, is_custom, model_names
from dglke_frugal.evaluation import SIDES, KnownTriples

ENTITIES, RELATIONS = 150, 5
FLAGS = ["--dataset", "toy", "--format", "udd_hrt", "--data_files", "entities.tsv", "relations.tsv", "train.txt",
         "valid.txt", "test.txt", "--hidden_dim", "12", "--batch_size", "64", "--neg_sample_size", "16", "--max_step",
         "1000", "--gamma", "6", "--lr", "0.1", "-adv", "--test", "--seed", "3"]  # fmt: skip
OWN = {"TransE": ["-g", "2"], "TransE_l2": ["-g", "2"]}


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    """Entities are of fifty kinds in a row, and a relation leads so many kinds further."""
    folder, random = tmp_path_factory.mktemp("graph"), np.random.default_rng(1)
    for what, count in (("entities", ENTITIES), ("relations", RELATIONS)):
        (folder / f"{what}.tsv").write_text("".join(f"{i}\t{what} {i}\n" for i in range(count)))
    head, relation = random.integers(ENTITIES, size=1500), random.integers(RELATIONS, size=1500)
    kind = head % 50 + 1 + 2 * relation
    tail = kind + 50 * random.integers(ENTITIES // 50, size=1500)
    triples = random.permutation(np.unique(np.stack([head, relation, tail], 1)[kind < 50], axis=0))
    for split, rows in (("train", triples[100:]), ("valid", triples[:20]), ("test", triples[20:100])):
        (folder / f"{split}.txt").write_text("".join("\t".join(map(str, row)) + "\n" for row in rows.tolist()))
    return folder


@pytest.fixture(params=["cpu", CUDA])
def trained(request, graph, tmp_path, monkeypatch):
    """Trains a model on a device; the number that flags have for it, and the run's folder."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    gpu = -1 if request.param == "cpu" else 0

    def run(name, *flags):
        train([*FLAGS, "--data_path", str(graph), "--save_path", str(tmp_path), "--model_name", name,
               *(flag for flag, needed in zip(("-de", "-dr"), built_in_model(name).doubled) if needed),
               *OWN.get(name, []), "--gpu", str(gpu), *flags])  # fmt: skip
        return gpu, tmp_path / f"{name}_toy_0"

    return run


def metrics(ranks):
    return {"MRR": np.mean(1 / ranks), "MR": np.mean(ranks), **{f"HITS@{k}": np.mean(ranks <= k) for k in (1, 3, 10)}}


def test_all_models_are_here():
    assert set(SCORES) == set(model_names())


@pytest.mark.parametrize("name, flags", [*((name, []) for name in model_names()),
                                         *((name, ["--reciprocal"]) for name in model_names()
                                           if not (built_in_model(name).projects or is_custom(name)))], ids=str)
def test_every_number_is_numpys(trained, graph, name, flags, tmp_path):
    gpu, folder = trained(name, *flags)
    plain, run = Run(folder, graph), dglke_frugal.load(folder, device=gpu)
    expected = {side: plain.ranks(side) for side in SIDES}
    learnt = metrics(np.concatenate(list(expected.values())))
    assert learnt["MRR"] > 0.06  # by chance it is 0.037

    found = run.rank(tuple(plain.test.T), KnownTriples([tuple(np.array(sorted(plain.known)).T)]))
    for side in SIDES:
        np.testing.assert_array_equal(found.ranks(side), expected[side])
    assert json.loads((folder / "result.json").read_text())["test"] == pytest.approx(learnt, rel=1e-12)
    evaluate(["--model_path", str(folder), "--gpu", str(gpu), "--json", str(tmp_path / "eval.json")])
    assert json.loads((tmp_path / "eval.json").read_text())["metrics"] == pytest.approx(learnt, rel=1e-12)

    heads, relations, tails = plain.test[:9].T
    scores = [plain.scores(*triple) for triple in zip(heads, relations, tails)]
    np.testing.assert_allclose(run.score(heads, relations, tails), scores, rtol=1e-5, atol=1e-5)
    for head, relation, tail in plain.test[:9].tolist():
        for answers, scores in ((run.tails(head, relation, 5), plain.scores(head, relation, np.arange(ENTITIES))),
                                (run.heads(relation, tail, 5), plain.head_scores(relation, tail))):
            best = np.sort(scores)[::-1][:5]
            np.testing.assert_allclose([answer.score for answer in answers], best, rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(scores[[answer.id for answer in answers]], best, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["RESCAL", "TransR"])
def test_ranks_of_two_formulas_are_not(trained, graph, name, capsys, tmp_path):
    """What the ranker is for: by the rule "dglke" the run reports more than the model knows, and says so."""
    gpu, folder = trained(name, "--score_rule", "dglke")
    assert capsys.readouterr().out.count("score rule dglke") == 1
    plain = Run(folder, graph)
    expected = {side: plain.ranks(side) for side in SIDES}
    known = KnownTriples([tuple(np.array(sorted(plain.known)).T)])
    with pytest.warns(UserWarning, match="score rule dglke"):
        found = dglke_frugal.load(folder, device=gpu).rank(tuple(plain.test.T), known)
    np.testing.assert_array_equal(found.ranks("head"), expected["head"])
    assert (found.ranks("tail") != expected["tail"]).mean() > 0.5
    reported = json.loads((folder / "result.json").read_text())["test"]["MRR"]
    assert reported == pytest.approx(found.metrics().mrr)

    textbook = metrics(np.concatenate(list(expected.values())))
    found = dglke_frugal.load(folder, device=gpu, score_rule="textbook").rank(tuple(plain.test.T), known)
    assert found.metrics().named() == pytest.approx(textbook, rel=1e-12)
    for rule, mrr, lines in ((["--score_rule", "textbook"], textbook["MRR"], 0), ([], reported, 1)):
        evaluate(["--model_path", str(folder), *rule, "--json", str(tmp_path / "eval.json")])
        result = json.loads((tmp_path / "eval.json").read_text())
        assert result["metrics"]["MRR"] == pytest.approx(mrr)
        assert result["score_rule"] == (rule or ["", "dglke"])[1]
        assert capsys.readouterr().out.count("score rule dglke") == lines
