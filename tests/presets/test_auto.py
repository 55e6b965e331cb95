"""--preset auto: flags that follow from a graph's size, that go together, and that learn."""
import json
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import dglke_frugal
from dglke_frugal.cli.main import main
from dglke_frugal.cli.train import configuration
from dglke_frugal.data import KnowledgeGraph, Triples, from_text
from dglke_frugal.options import OPTIONS, TrainConfig, check
from dglke_frugal.errors import InputError
from dglke_frugal.presets.auto import RULES, Situation, advice, auto_flags, auto_model, is_auto, rows_of_table
from dglke_frugal.score_rule import score_rule_of_run
from dglke_frugal.training.full_softmax.config import check_full_softmax

NO_FLAGS = {"epochs", "batch_share", "decay"}  # they become others
MODELS = ("ComplEx", "DistMult", "RESCAL", "SimplE", "RotatE", "TransE", "TransE_l1", "TransE_l2", "TransR")
SIZES = {"nations": (14, 55, 1_386), "tiny": (5, 2, 9), "families": (198, 9, 4_196), "one relation": (600, 1, 4_453),
         "tree": (1_000, 2, 1_600),
         "fb15k-small": (1_649, 368, 11_397), "wn18rr": (40_943, 11, 86_835), "FB15k-237": (14_541, 237, 272_115),
         "FB15k": (14_951, 1_345, 483_142), "wikikg2": (2_500_604, 535, 16_109_182)}
GIVEN = ({}, {"gpu": [0]}, {"gpu": [0, 1]}, {"num_proc": 2}, {"neg_sample_size": 64},
         {"neg_adversarial_sampling": True}, {"loss_genre": "Logsigmoid"}, {"loss_genre": "Hinge", "pairwise": True},
         {"max_step": 3}, {"max_step": 0},
         {"batch_size": 7}, {"valid": False}, {"eval_interval": 50}, {"row_dtype": "fp16"},
         {"has_edge_importance": True}, {"hidden_dim": 16}, {"neg_deg_sample": True}, {"loss_genre": "BCE"},
         {"neg_sample_size": "all"}, {"labels": "kvsall", "loss_genre": "BCE"})


def flags_for(model, size, given=()):
    return auto_flags(Situation(*SIZES[size], True, model, dict(given)))


@pytest.mark.parametrize("model", MODELS)
def test_flags_go_together_for_every_size_and_with_flags_that_are_given(model):
    for size, given in product(SIZES, GIVEN):
        against_all = {**flags_for(model, size, given), **given}["neg_sample_size"] == "all"
        if against_all and model == "TransR" or "labels" in given and not against_all:
            continue  # refused, whatever the other flags are
        found = {"model_name": model, **flags_for(model, size, given), **given}
        found["score_rule"] = score_rule_of_run(model, found.get("score_rule"), False)
        assert not set(found) - set(OPTIONS), size
        config = TrainConfig.from_flags(found)
        check(config)
        check_full_softmax(config)
        assert config.run.max_step >= 1 or given.get("max_step") == 0


def test_no_given_flag_is_overridden_and_steps_follow_from_a_given_batch():
    assert not set(flags_for("ComplEx", "families", {"lr": 0.5, "hidden_dim": 8})) & {"lr", "hidden_dim"}
    steps = [flags_for("ComplEx", "families", {"batch_size": size})["max_step"] for size in (100, 200)]
    assert steps[0] == pytest.approx(2 * steps[1], abs=2)


def test_sizes_and_devices_decide():
    assert flags_for("ComplEx", "families")["neg_sample_size"] == "all"
    assert flags_for("ComplEx", "FB15k-237")["neg_sample_size"] == 256  # on a CPU, in minutes
    on_gpu = flags_for("ComplEx", "FB15k-237", {"gpu": [0]})
    assert (on_gpu["neg_sample_size"], on_gpu["relation_prediction"], on_gpu["hidden_dim"]) == ("all", 4.0, 2000)
    assert flags_for("ComplEx", "wn18rr", {"gpu": [0]})["relation_prediction"] == 0.05
    assert flags_for("ComplEx", "wikikg2", {"gpu": [0]})["neg_sample_size"] == 256
    assert flags_for("RotatE", "families")["double_ent"]
    assert len(flags_for("RotatE", "wn18rr", {"gpu": [0]})["lr_decay_at"]) == 2
    assert not any("lr_decay_at" in flags_for("RotatE", "wn18rr", given) for given in ({}, {"gpu": [0, 1]}))
    epochs = [found["max_step"] * found["batch_size"] / SIZES[size][2] for size, found in
              ((size, flags_for("RotatE", size)) for size in ("wn18rr", "FB15k-237"))]
    assert epochs == pytest.approx([100, 30], rel=0.01)


@pytest.mark.parametrize("given", [{}, {"gpu": [0]}])
def test_translations_of_graphs_that_bind_their_rows_train_against_all_entities(given):
    for model, size in product(("TransE_l1", "TransE_l2"), ("families", "nations")):
        assert flags_for(model, size, given)["neg_sample_size"] == "all"
    assert flags_for("TransE_l1", "one relation", given)["neg_sample_size"] == 128
    assert flags_for("TransE_l2", "one relation", given)["neg_sample_size"] == "all"
    found = flags_for("TransE_l2", "tree", given)
    assert (found["neg_sample_size"], found["gamma"], found["lr"]) == (128, 4, 0.1)
    assert flags_for("TransE_l2", "nations", given)["normalize_entities"]
    assert not any("normalize_entities" in flags_for(*of, given) for of in
                   (("TransE_l1", "nations"), ("TransE_l2", "families")))
    assert flags_for("TransE_l2", "fb15k-small", given)["neg_sample_size"] == "all"  # sparse, with many relations


def test_sums_of_absolute_values_with_large_batches_have_a_smaller_learning_rate():
    found = {size: flags_for("TransE_l1", size) for size in ("one relation", "wn18rr")}
    assert [(each["batch_size"], each["lr"]) for each in found.values()] == [(256, 0.3), (1024, 0.1)]


def test_relations_with_few_triples_move_further_in_a_step_of_translations():
    assert flags_for("TransE_l2", "fb15k-small")["lr"] == 0.3 > flags_for("TransE_l2", "families")["lr"]
    assert flags_for("ComplEx", "fb15k-small")["lr"] == flags_for("ComplEx", "families")["lr"]


def test_rows_of_small_dense_graphs_are_longer():
    dims = {size: flags_for("ComplEx", size)["hidden_dim"] for size in ("families", "nations", "tree", "fb15k-small")}
    assert dims == {"families": 256, "nations": 256, "tree": 128, "fb15k-small": 128}


def test_translations_of_one_symmetric_relation_have_sampled_negatives_and_room():
    pairs = np.array([(h, (h + step) % 60) for h in range(60) for step in (1, 2, 3)])
    both = np.concatenate([pairs, pairs[:, ::-1]])

    def of(pairs, relations=1):
        columns = Triples(pairs[:, 0], np.arange(len(pairs)) % relations, pairs[:, 1])
        return Situation.of(KnowledgeGraph("g", 60, relations, columns, None, None), "TransE_l2", {})

    assert [of(both).one_symmetric, of(pairs).one_symmetric, of(both, 2).one_symmetric] == [True, False, False]
    found = auto_flags(of(both))
    assert (found["neg_sample_size"], found["gamma"], found["lr"]) == (128, 8, 0.1)
    assert auto_flags(of(pairs))["neg_sample_size"] == "all" and "valid" not in found
    dense = [replace(of(both), model=model, triples=600) for model in ("TransE", "TransE_l1")]
    assert [auto_flags(each)["neg_sample_size"] for each in dense] == [128, "all"]


def test_margins_of_rotations_are_smaller_where_entities_have_few_triples():
    assert flags_for("RotatE", "tree")["gamma"] == 3 < flags_for("RotatE", "families")["gamma"]


def test_relations_of_small_graphs_have_a_row_for_heads():
    assert [flags_for("RotatE", size).get("reciprocal") for size in ("nations", "tree", "FB15k")] == [True, True, None]
    assert "reciprocal" not in flags_for("RotatE", "nations", {"score_rule": "dglke"})
    assert [flags_for("TransE_l2", size).get("reciprocal") for size in ("tree", "FB15k")] == [True, None]


def test_a_model_that_cannot_represent_a_dense_graph_is_named(circle, tmp_path, capsys):
    configuration(["--preset", "auto/TransE", *circle])
    assert "TransE_l1" not in capsys.readouterr().out  # 5 triples per entity
    (tmp_path / "dense.tsv").write_text("".join(f"e{h}\tr\te{t}\n" for h in range(20) for t in range(20)))
    configuration(["--preset", "auto/TransE", "--data_path", str(tmp_path / "dense.tsv")])
    assert "with 20 triples per entity TransE_l1 mostly has a larger MRR" in capsys.readouterr().out
    of_dense = {model: advice(Situation(*SIZES["nations"], True, model, {})) for model in MODELS}
    assert {model for model, sentence in of_dense.items() if sentence} == {"TransE", "TransE_l2"}


@pytest.mark.parametrize("model", ["ComplEx", "TransE_l1"])
def test_a_small_graph_is_validated_every_third_epoch_and_a_short_run_more_often(model):
    found = flags_for(model, "tree")
    batches = SIZES["tree"][2] / found["batch_size"]
    assert found["max_step"] >= 200 * batches and found["eval_interval"] == pytest.approx(3 * batches, abs=1)
    assert found["early_stop_patience"] == 8 > flags_for("RotatE", "wn18rr")["early_stop_patience"]
    assert flags_for(model, "tree", {"max_step": 100})["eval_interval"] == 5


def test_without_validation_triples_nothing_is_validated():
    found = auto_flags(Situation(198, 9, 4_196, False, "ComplEx", {}))
    assert not {"valid", "early_stop_patience", "eval_interval"} & set(found)


def test_every_rule_is_of_flags_and_stands_on_the_page():
    page = (Path(__file__).parents[2] / "docs" / "your-graph.md").read_text(encoding="utf-8")
    assert all(set(rule.flags) <= set(OPTIONS) | NO_FLAGS and rule.why for rule in RULES)
    missing = [row for row in rows_of_table() if f"| {' | '.join(row)} |" not in page]
    assert not missing, "\n".join(f"| {' | '.join(row)} |" for row in rows_of_table())


@pytest.mark.parametrize("preset, model", [("auto", None), ("auto/ComplEx", "ComplEx"), ("AUTO/rotate", "RotatE"),
                                           ("auto/transe", "TransE"), ("auto/mine:Model", "mine:Model")])
def test_names(preset, model):
    assert is_auto(preset) and auto_model(preset) == model
    assert not is_auto("wn18rr/complex") and not is_auto(None)


def test_a_wrong_model_is_named():
    with pytest.raises(InputError, match="auto/MODEL takes one of"):
        auto_model("auto/complx")


@pytest.fixture
def circle(tmp_path, monkeypatch):
    """Sixty entities on a circle, of which relations are neighbours at 1, 2 and 3 steps, in both directions."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    triples = np.array([(h, r, (h + step) % 60) for h in range(60) for r, step in enumerate((1, 2, 3, -1, -2, -3))])
    random = np.random.default_rng(5)
    random.shuffle(triples)
    for name, part in (("train", triples[60:]), ("valid", triples[:30]), ("test", triples[30:60])):
        (tmp_path / f"{name}.txt").write_text("".join(f"e{h}\tr{r}\te{t}\n" for h, r, t in part))
    return ["--dataset", "circle", "--data_path", str(tmp_path), "--format", "raw_udd_hrt", "--data_files", "train.txt",
            "valid.txt", "test.txt", "--save_path", str(tmp_path / "runs"), "--seed", "1"]


@pytest.mark.parametrize("model", ["ComplEx", "DistMult", "RotatE", "TransE"])
def test_it_learns_a_small_graph(circle, model, capsys, tmp_path):
    main(["train", "--preset", f"auto/{model}", *circle, "--test"])
    messages = capsys.readouterr().out
    begin = f"--preset auto/{model} for 60 entities, 6 relations and 300 training triples: --model_name={model}"
    assert begin in messages
    found = json.loads(next((tmp_path / "runs").glob("*/result.json")).read_text())
    chance = sum(1 / rank for rank in range(1, 61)) / 60
    assert found["test"]["MRR"] > 2 * chance and found["best_validation"]


@pytest.mark.parametrize("model", MODELS)
def test_every_model_trains_on_triples_that_are_in_no_file(model, tmp_path):
    triples = [(f"e{h}", f"r{r}", f"e{(h + step) % 30}") for h in range(30) for r, step in enumerate((1, 2, -1))]
    run = dglke_frugal.train(triples, split=(0.8, 0.1, 0.1), model_name=model, max_step=2, seed=1, save_path=tmp_path)
    assert run.config["model_name"] == model and run.metrics["MRR"] > 0


@pytest.mark.parametrize("ranks", [1, 2])
def test_the_graph_is_read_once(circle, ranks, monkeypatch, capsys):
    read, build = [], from_text.build
    monkeypatch.setattr(from_text, "build", lambda *given: read.append(given) or build(*given))
    main(["train", "--preset", "auto", *circle, "--max_step", "2", "--num_proc", str(ranks)])
    assert len(read) == 1 and "Finished. Read 300 train triples." in capsys.readouterr().out


def test_flags_of_the_command_line_go_before_the_preset_s(circle):
    own, config = configuration(["--preset", "auto/RotatE", *circle, "--model_name", "ComplEx", "--neg_sample_size",
                                 "16", "--lr", "0.25", "--max_step", "10"])
    assert (config.model.model_name, config.batch.neg_sample_size, config.loss.lr) == ("ComplEx", 16, 0.25)
    assert config.loss.neg_adversarial_sampling and config.loss.optimizer == "row_adagrad"
    assert config.run.max_step == 10 and config.evaluation.eval_interval == 1


def test_it_does_not_go_with_other_files_of_flags(circle, refused, tmp_path):
    (tmp_path / "flags.yaml").write_text("lr: 0.1\n")
    with pytest.raises(InputError, match="--trainer dglke does not have; leave one of the two out"):
        configuration(["--preset", "auto", *circle, "--trainer", "dglke"])
    with refused("--config cannot be used with --preset"):
        main(["train", "--preset", "auto/ComplEx", "--config", str(tmp_path / "flags.yaml"), *circle])
    with refused("--resume cannot be used with --preset"):
        main(["train", "--preset", "auto/ComplEx", "--resume", str(tmp_path), *circle])


def test_a_script_that_is_started_again_goes_on_with_its_run(circle, capsys, tmp_path):
    """--resume auto names no run with flags of its own, so that those of a preset or a file are the run's."""
    (tmp_path / "flags.yaml").write_text("hidden_dim: 8\nmax_step: 9\n")
    for which in (["--preset", "auto/ComplEx", "--hidden_dim", "8"], ["--config", str(tmp_path / "flags.yaml")]):
        for steps, says in (("3", "training takes"), ("5", "resuming after step 3 of 5")):
            main(["train", *which, *circle, "--save_path", str(tmp_path / which[0]), "--resume", "auto", "--seed", "1",
                  "--max_step", steps])
            assert says in capsys.readouterr().out
