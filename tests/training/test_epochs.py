"""Lengths in epochs become steps of the graph; a run in epochs is to the bit the one in steps."""

import json

import numpy as np
import pytest
import yaml

from dglke_frugal.cli.main import main
from dglke_frugal.cli.train import configuration
from dglke_frugal.errors import InputError
from dglke_frugal.training.run.epochs import in_steps


def steps(triples, *flags):
    config = in_steps(configuration(["--dataset", "x", "--format", "raw_udd_hrt", *flags])[1], triples)
    return config.run.max_step, config.evaluation.eval_interval


@pytest.mark.parametrize("flags, expected", [
    (["--max_epoch", "10"], (100, 10)),
    (["--max_epoch", "2.5", "--eval_interval", "0.5epoch"], (25, 5)),
    (["--max_epoch", "10", "--eval_interval", "7"], (100, 7)),
    (["--max_step", "30", "--eval_interval", "2epochs"], (30, 20)),
    (["--max_step", "15", "--eval_interval", "2epochs"], (15, 15)),  # or there would be no validation
    (["--max_epoch", "10", "--num_proc", "2"], (50, 5)),
    (["--max_epoch", "1", "--batch_size", "150"], (7, 6)),  # the last epoch begins; a validation is of whole ones
    (["--max_epoch", "3", "--batch_size", "5000"], (3, 1)),
    (["--max_step", "30"], (30, 10000))])
def test_epochs_are_steps_of_a_graph(flags, expected):
    base = ["--batch_size", "100", "--neg_sample_size", "10", "--valid"]
    assert steps(1000, *base, *flags) == expected


def test_the_flag_of_the_call_counts(tmp_path):
    (tmp_path / "flags.yaml").write_text("max_epoch: 3\n")
    base = ["--config", str(tmp_path / "flags.yaml"), "--batch_size", "100", "--neg_sample_size", "10"]
    assert steps(1000, *base)[0] == 30 and steps(1000, *base, "--max_step", "7")[0] == 7
    (tmp_path / "flags.yaml").write_text("max_step: 3\neval_interval: 2\n")
    assert steps(1000, *base, "--max_epoch", "2") == (20, 2)
    with pytest.raises(InputError, match="both say how long to train"):
        configuration(["--max_step", "3", "--max_epoch", "2"])


def train(folder, *flags):
    main(["train", "--data_path", str(folder / "ring"), "--save_path", str(folder / "runs"), "--hidden_dim", "8",
          "--batch_size", "10", "--neg_sample_size", "5", "--seed", "3", "--model_name", "DistMult", *flags])
    return max((folder / "runs").glob("*"), key=lambda path: int(path.name.rpartition("_")[2]))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "ring").mkdir()
    for split in ("train", "valid"):
        (tmp_path / "ring" / f"{split}.tsv").write_text("".join(f"e{i}\tnext\te{(i + 1) % 40}\n" for i in range(40)))
    return tmp_path


def table(run):
    return np.load(run / "DistMult_ring_entity.npy") if (run / "DistMult_ring_entity.npy").exists() else np.load(
        next(run.glob("*_entity.npy")))


def test_a_run_in_epochs_goes_on_in_epochs(folder, capsys):
    run = train(folder, "--max_epoch", "2", "--valid", "--early_stop_patience", "9")
    flags = yaml.safe_load((run / "config.yaml").read_text())
    assert (flags["max_step"], flags["eval_interval"], flags["max_epoch"]) == (8, 4, None)
    assert capsys.readouterr().out.count("Valid average MRR") == 2
    main(["train", "--resume", str(run), "--max_epoch", "2"])
    assert "is finished: 8 steps are trained" in capsys.readouterr().out
    main(["train", "--resume", str(run), "--max_epoch", "5"])
    assert capsys.readouterr().out.count("Valid average MRR") == 3
    whole = train(folder, "--max_step", "20", "--valid", "--eval_interval", "4", "--early_stop_patience", "9")
    np.testing.assert_array_equal(table(run), table(whole))


@pytest.mark.parametrize("delta, best", [("0", 8), ("1000", 2)])
def test_a_better_validation_exceeds_the_best_by_a_share(folder, delta, best):
    run = train(folder, "--max_step", "8", "--eval_interval", "2", "--valid", "--early_stop_patience", "3",
                "--early_stop_delta", delta, "--lr", "0.3", "--gamma", "1")
    result = json.loads((run / "result.json").read_text())
    validations = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    found = [(line["step"], line["valid/MRR"]) for line in validations if "valid/MRR" in line]
    assert found[0][0] == 2 and max(found, key=lambda pair: pair[1])[0] > 2  # it gets better
    expected = max(found, key=lambda pair: pair[1])[0] if best == 8 else 2
    assert result["best_validation"]["step"] == expected


def test_plan_knows_epochs_and_searches_refuse_them(refused):
    main(["plan", "--entities", "1000", "--max_epoch", "3"])
    with refused("--max_epoch"):
        main(["train", "--trainer", "dglke", "--max_epoch", "3"])


def test_queries_with_all_their_answers_are_counted_as_such(folder, capsys):
    """40 triples are 10 queries of tails and 12 of heads; an epoch has their mean."""
    (folder / "ring" / "train.tsv").write_text("".join(f"e{i // 4}\tnext\te{i // 16 * 4 + i % 4}\n" for i in range(40)))
    flags = ["--loss_genre", "Softmax", "--neg_sample_size", "all", "--labels", "kvsall", "--batch_size", "4"]
    run = train(folder, *flags, "--max_epoch", "2", "--log_interval", "3")
    lines = capsys.readouterr().out
    assert "6 steps of 4 queries (2.2 epochs)" in lines and "queries/s" in lines and "triples/s" not in lines
    assert json.loads((run / "result.json").read_text())["epochs"] == pytest.approx(6 * 4 / 11)
    main(["plan", "--entities", "1000", "--nnodes", "2", *flags])
    main(["plan", "--entities", "1000", "--nnodes", "2"])
    kvsall, sampled = capsys.readouterr().out.split("each of 2 machines")[1:]
    assert "queries a second" in kvsall and "triples a second" not in kvsall and "triples a second" in sampled
