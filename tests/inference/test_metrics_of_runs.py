"""What a run says of itself in Python: metrics, history, embeddings by name, triples that are missing."""

import json

import numpy as np
import pytest
from evaluation.random_models import random_model, random_triples

import dglke_frugal
from dglke_frugal.errors import InputError
from dglke_frugal.evaluation import HEAD, TAIL, Protocol
from dglke_frugal.inference.answers import ScoredTriple
from inference.make_run import write_run

ENTITIES, RELATIONS = 61, 5


@pytest.fixture
def run(tmp_path):
    model = random_model("ComplEx", entities=ENTITIES)
    graph = {split: random_triples(model, count, seed=seed)
             for seed, (split, count) in enumerate({"train": 150, "valid": 20, "test": 30}.items())}
    folder = write_run(tmp_path / "run", model, graph=graph, data_path=str(tmp_path / "run"), format="udd_hrt",
                       data_files=["entities.tsv", "relations.tsv", "train.txt", "valid.txt", "test.txt"])
    return dglke_frugal.load(folder)


def rows_of(run, split):
    return list(zip(*(column.tolist() for column in run.graph.splits[split])))


def every_score(run, relation):
    """(entities, entities) scores of all pairs."""
    everyone = np.arange(ENTITIES)
    heads, tails = np.repeat(everyone, ENTITIES), np.tile(everyone, ENTITIES)
    return run.score(heads, relation, tails).reshape(ENTITIES, ENTITIES)


def test_metrics_are_a_mapping(run):
    found = run.metrics
    assert list(found) == ["MRR", "MR", "AMRI", "HITS@1", "HITS@3", "HITS@10"] and len(found) == 6
    assert dict(found) == found.to_dict() and found is run.metrics
    assert found["MRR"] == found.metrics().mrr and found["HITS@10"] == found.metrics().hits_at_10
    ranks = np.concatenate([found.ranks(HEAD), found.ranks(TAIL)])
    assert found["Hits@7"] == found.hits(7) == np.mean(ranks <= 7) and found.hits(7, HEAD) == np.mean(ranks[:30] <= 7)
    assert found.to_dict(ks=(2, 50), side=TAIL)["HITS@50"] == np.mean(found.ranks(TAIL) <= 50)
    assert found.to_dict(ks=7) == found.to_dict(ks=[7]) and "HITS@7" in found.to_pandas(ks=7)
    with pytest.raises(InputError, match="k is None"):
        found.to_dict(ks=None)
    for name in ("Hits@0", "hits", "nothing", 3):
        with pytest.raises(KeyError, match="is no metric; there are MRR, MR, AMRI"):
            found[name]
    with pytest.raises(InputError, match="k is 0"):
        found.hits(0)
    with pytest.raises(InputError, match="there is no side 'left'"):
        found.to_dict(side="left")


@pytest.mark.parametrize("known", ["excluded", "kept"])
def test_amri_is_that_of_its_paper(run, known):
    """Against the mean rank, computed here, of random scores among the candidates that there are."""
    every = {row for split in ("train", "valid", "test") for row in rows_of(run, split)}
    evaluation = run.evaluate("test", protocol=Protocol(known=known))
    ranks, expected = [], []
    for h, r, t in rows_of(run, "test"):
        for rank, others in ((evaluation.ranks(HEAD), [(e, r, t) for e in range(ENTITIES)]),
                             (evaluation.ranks(TAIL), [(h, r, e) for e in range(ENTITIES)])):
            compete = [other for other in others if other == (h, r, t) or known == "kept" or other not in every]
            expected.append((len(compete) + 1) / 2)
        ranks += [evaluation.ranks(HEAD)[len(ranks) // 2], evaluation.ranks(TAIL)[len(ranks) // 2]]
    assert evaluation["AMRI"] == pytest.approx(1 - (np.mean(ranks) - 1) / (np.mean(expected) - 1), rel=1e-12)
    sampled = run.evaluate("test", protocol=Protocol(known="kept", sampling=dglke_frugal.evaluation.Sampling(10, 4)))
    assert sampled["AMRI"] == pytest.approx(1 - (sampled["MR"] - 1) / 5)


def test_metrics_by_side_and_by_relation(run):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed (pip install '.[tables]')")
    frame = run.metrics.to_pandas(ks=(1, 5))
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame.columns) == ["relation", "side", "ranks", "MRR", "MR", "AMRI", "HITS@1", "HITS@5"]
    assert frame.head(3)[["relation", "side", "ranks"]].values.tolist() == [
        ["all", "both", 60], ["all", "head", 30], ["all", "tail", 30]]
    assert frame.MRR[0] == run.metrics["MRR"] and frame["HITS@5"][1] == run.metrics.hits(5, HEAD)
    by_relation = {(row.relation, row.side): row.metrics for row in run.metrics.by_relation()}
    for row in frame[3:].itertuples(index=False):
        if row.side != "both":
            assert row.MRR == by_relation[int(row.relation.removeprefix("relation ")), row.side].mrr
    counts = frame[3:].query("side == 'both'").ranks.tolist()
    assert counts == sorted(counts, reverse=True) and sum(counts) == 60


def test_which_triples_are_evaluated(run):
    assert len(run.evaluate("valid").triples[0]) == 20 and len(run.evaluate("train").triples[0]) == 150
    named = [(run.entity_names[h], run.relation_names[r], run.entity_names[t]) for h, r, t in rows_of(run, "test")]
    assert dict(run.evaluate(named)) == dict(run.metrics)
    with pytest.raises(InputError, match="there is no part of the data 'dev'; choose one of train, valid, test"):
        run.evaluate("dev")


def test_a_run_without_held_out_triples_says_so(tmp_path):
    model = random_model("ComplEx")
    folder = write_run(tmp_path / "run", model, graph={"train": random_triples(model, 9)}, format="udd_hrt",
                       data_path=str(tmp_path / "run"), data_files=["entities.tsv", "relations.tsv", "train.txt"])
    with pytest.raises(InputError, match=r"toy has no test triples; give triples: run.evaluate\(triples\)"):
        dglke_frugal.load(folder).metrics


@pytest.mark.parametrize("relation", ["relation 2", 2, [2, 4], None])
@pytest.mark.parametrize("loops", [False, True])
def test_missing_triples_are_the_best_of_all_pairs(run, relation, loops):
    wanted = {None: range(RELATIONS)}.get(relation if not isinstance(relation, list) else 0, [2, 4]) if (
        relation is None or isinstance(relation, list)) else [2]
    every = {row for split in ("train", "valid", "test") for row in rows_of(run, split)}
    scored = [(-float(score), h, r, t) for r in wanted for (h, t), score in np.ndenumerate(every_score(run, r))
              if (h, r, t) not in every and (loops or h != t)]
    found = run.missing(relation, 40, loops)
    best = sorted(scored)[:40]
    assert found.scores.tolist() == [-row[0] for row in best]
    assert {*zip(found.heads.tolist(), found.relations.tolist(), found.tails.tolist())} <= {row[1:] for row in scored}
    assert found["known"].tolist() == [False] * 40 and found.columns == ["head", "relation", "tail", "score", "known"]
    first = found[0]
    assert first == ScoredTriple(found["head"][0], found["relation"][0], found["tail"][0], float(found.scores[0]))
    assert found[:3]["tail"] == found["tail"][:3] and len(found[5:]) == 35 and found[-1].score == found.scores[-1]
    assert len(str(found).splitlines()) == 40 and len(repr(found).splitlines()) == 1 and "<td>" in found._repr_html_()


def test_what_is_known_is_marked(run):
    h, r, t = rows_of(run, "train")[0]
    found = run.tails(h, r, ENTITIES)
    every = {row for split in ("train", "valid", "test") for row in rows_of(run, split)}
    assert found["known"].tolist() == [(h, r, int(i)) in every for i in found.ids] and found["known"].any()
    assert run.heads(r, t, ENTITIES)["known"].sum() == sum(row[1:] == (r, t) for row in every)
    assert run.relations(h, t, RELATIONS)["known"].sum() == sum((row[0], row[2]) == (h, t) for row in every)
    assert not run.tails(h, r, 10, exclude_known=True)["known"].any()


def test_embeddings_by_name(run):
    table = np.array(run.model.entity)
    np.testing.assert_array_equal(run.embedding("entity 7"), table[7])
    np.testing.assert_array_equal(run.embedding([7, "entity 3"]), table[[7, 3]])
    np.testing.assert_array_equal(run.embeddings["entity 7"], table[7])
    np.testing.assert_array_equal(np.asarray(run.embeddings), table)
    np.testing.assert_array_equal(run.relation_embeddings["relation 1"], run.model.relation[1])
    assert len(run.embeddings) == ENTITIES and list(run.embeddings)[:2] == ["entity 0", "entity 1"]
    assert "entity 3" in run.embeddings and "x" not in run.embeddings and run.embedding(3).flags.writeable
    assert repr(run.relation_embeddings) == f"<Embeddings of 5 names, {run.model.relation.shape[1]} numbers each>"
    with pytest.raises(InputError, match="the graph has no 'x'"):
        run.embedding("x")
    assert run.embeddings.get("x") is None and run.embeddings.get(ENTITIES, "none") == "none"
    np.testing.assert_array_equal(run.embeddings.get("entity 7"), table[7])
    pandas = pytest.importorskip("pandas", reason="pandas is not installed (pip install '.[tables]')")
    frame = run.embeddings.to_pandas()
    assert isinstance(frame, pandas.DataFrame) and (frame.loc["entity 7"].to_numpy() == table[7]).all()


def test_history_is_a_frame(run, monkeypatch):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed (pip install '.[tables]')")
    with pytest.raises(InputError, match="has no metrics.jsonl"):
        run.history
    lines = [{"step": 0, "event": "start", "config": {}}, {"step": 10, "train/loss": 0.5},
             {"step": 20, "train/loss": 0.25, "valid/MRR": 0.1}]
    (run.folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    frame = run.history
    assert isinstance(frame, pandas.DataFrame) and frame.index.tolist() == [10, 20] and frame.index.name == "step"
    assert frame["train/loss"].tolist() == [0.5, 0.25] and np.isnan(frame["valid/MRR"][10])
    import sys

    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match="run.history needs pandas, which is not installed"):
        run.history
