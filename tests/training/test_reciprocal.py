"""Reciprocal relations: twice the rows, tails alone are corrupted, and every reader knows which row is an inverse.

That ranks are those of plain numpy: tests/evaluation/test_numpy_ranker.py; of several ranks: tests/training/parallel.
"""

import json

import numpy as np
import pytest
from training.conftest import tables

import dglke_frugal
from dglke_frugal.cli.main import main
from dglke_frugal.errors import InputError
from dglke_frugal.evaluation import EmbeddingModel

FLAGS = ["--reciprocal", "--model_name", "ComplEx", "--gamma", 20, "--hidden_dim", 16, "-adv"]
RELATIONS = 368


@pytest.fixture
def trained(runs):
    return runs("--max_step", 60, *FLAGS)


def test_the_files(trained):
    relation = np.load(trained / "small_ComplEx_relation.npy")
    assert relation.shape == (2 * RELATIONS, 16)
    config = json.loads((trained / "config.json").read_text())
    assert config["reciprocal"] is True and config["data"]["relations"] == RELATIONS
    assert not np.array_equal(relation[:RELATIONS], relation[RELATIONS:])


def test_no_store_no_device_and_no_interruption_changes_a_bit(runs, trained):
    expected = tables(trained)
    assert tables(runs("--max_step", 60, *FLAGS, "--flush", "p2f", "--cache_ratio", 0.1)) == expected
    assert tables(runs.resume(runs("--max_step", 23, *FLAGS), "--max_step", 60)) == expected
    assert tables(runs.on_device("cpu", "--max_step", 60, *FLAGS)) == expected


def test_it_is_another_run_than_one_without(runs, trained, refused):
    with refused("reciprocal was True and is False"):
        runs("--max_step", 5, "--model_name", "ComplEx", "--hidden_dim", 16, "--init_from", trained)


def test_rows_of_another_run_come_by_name_with_their_inverses(runs, trained):
    again = runs("--max_step", 0, *FLAGS, "--init_from", trained)
    assert tables(again) == tables(trained)


def test_the_commands_know_it(trained, tmp_path):
    run = dglke_frugal.load(trained)
    assert len(run.relation_names) == RELATIONS and "368 relations" in repr(run.model)
    assert len(run.relations(3, 4, k=1000)) == RELATIONS
    with pytest.raises(InputError, match="relation id 368"):
        run.tails(0, RELATIONS)
    flags = ["--model_path", str(trained), "--format", "*_r_*", "--data_files", str(tmp_path / "r"), "--topK", "4"]
    (tmp_path / "r").write_text("5\n")
    for mode in ("all", "batch_tail"):
        main(["predict", *flags, "--exec_mode", mode, "--output", str(tmp_path / mode)])
        rows = [line.split("\t") for line in (tmp_path / mode).read_text().splitlines()[1:]]
        head, relation, tail, score = rows[0]
        rows = run.model
        ends = (head, tail) if mode == "all" else (tail, head)
        number = int(relation) if mode == "all" else int(relation) + RELATIONS
        one, two = (rows.entity[int(each)] for each in ends)
        (a, b), (c, d), (e, f) = (np.split(x.astype(float), 2) for x in (one, rows.relation[number], two))
        expected = (((a + 1j * b) * (c + 1j * d)) * (e - 1j * f)).sum().real
        assert float(score) == pytest.approx(expected, rel=1e-5)
    main(["emb_sim", "--emb_file", str(trained / "small_ComplEx_relation.npy"), "--mfile",
          str(trained / "relations.tsv"), "--raw_data", "--format", "*", "--topK", "900", "--output",
          str(tmp_path / "sim")])
    assert " (inverse)" in (tmp_path / "sim").read_text()
    main(["export", str(trained), str(tmp_path / "tsv"), "--format", "tsv"])
    labels = [line.split("\t")[0] for line in (tmp_path / "tsv" / "relations.tsv").read_text().splitlines()]
    assert len(labels) == 2 * RELATIONS and labels[RELATIONS] == f"{labels[0]} (inverse)"
    main(["report", str(trained)])
    assert (trained / "report.html").exists()


def test_the_memory_plan_counts_both(runs, capsys):
    arguments = [each for each in runs.arguments("--max_step", 1, "--entities", 100, "--relations", 50000)[0]]
    sizes = []
    for flags in ([], ["--reciprocal"]):
        main(["plan", *arguments, *flags, "--json"])
        sizes.append(json.loads(capsys.readouterr().out)["host"]["parts"]["relation table"])
    assert sizes[1] == 2 * sizes[0]


@pytest.mark.parametrize("flags, says", [
    (["--model_name", "TransR"], "--reciprocal does not go with --model_name TransR"),
    (["--model_name", "mine:Model"], "--reciprocal does not go with --model_name mine:Model"),
    (["--model_name", "RESCAL", "--score_rule", "dglke"], "use --score_rule textbook")])
def test_what_it_does_not_go_with(runs, refused, flags, says):
    with refused(says):
        runs("--max_step", 5, "--reciprocal", *flags)


def test_a_table_of_an_odd_number_of_rows_is_refused():
    rows = np.zeros((5, 4), np.float32)
    with pytest.raises(InputError, match="come in pairs"):
        EmbeddingModel("DistMult", 12.0, 4, rows, rows, reciprocal=True)
