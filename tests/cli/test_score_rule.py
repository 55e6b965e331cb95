"""By which formula RESCAL and TransR score corrupted tails, and that every file and command knows it."""

import json
import re

import numpy as np
import pytest
import yaml

from dglke_frugal import vanilla
from dglke_frugal.cli.evaluate import main as evaluate
from dglke_frugal.cli.predict import main as predict
from dglke_frugal.cli.train import configuration, main
from dglke_frugal.evaluation import EmbeddingModel
from dglke_frugal.inference.tables import read_config

TRIPLES = "".join(f"{h}\tr{(h + t) % 2}\t{t}\n" for h in range(9) for t in range(9) if (h * t + h) % 4 == 1)
RUN = ["--dataset", "toy", "--format", "raw_udd_hrt", "--data_files", "train.txt", "valid.txt", "test.txt",
       "--hidden_dim", "4", "--batch_size", "8", "--neg_sample_size", "4", "--max_step", "30", "--gamma", "4", "--lr",
       "0.1", "--seed", "1"]  # fmt: skip
LINE = "score rule dglke: RESCAL's true triples and corrupted tails have two different formulas"


@pytest.fixture
def train(tmp_path, monkeypatch):
    """Trains RESCAL with further flags; the run's folder."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.txt").write_text(TRIPLES)

    def run(*flags, name="RESCAL", number=0):
        main([*RUN, "--data_path", str(tmp_path), "--save_path", str(tmp_path / "runs"), "--model_name", name, *flags])
        return tmp_path / "runs" / f"{name}_toy_{number}"

    return run


def rule(*arguments):
    return configuration(["--model_name", "RESCAL", *arguments])[1].model.score_rule


def test_the_rule_of_a_new_run(tmp_path):
    assert rule() == "textbook"
    assert rule("--score_rule", "dglke") == rule("--trainer", "dglke") == "dglke"
    assert rule("--score_rule", "textbook", "--model_name", "TransE_l2", "--trainer", "dglke") == "textbook"
    assert rule("--score_rule", "dglke", "--model_name", "TransE_l2") == "textbook", "it has one formula"
    file = tmp_path / "flags.yaml"
    file.write_text("model_name: TransR\nscore_rule: dglke\n")
    assert configuration(["--config", str(file)])[1].model.score_rule == "dglke"
    assert configuration(["--config", str(file), "--score_rule", "textbook"])[1].model.score_rule == "textbook"


@pytest.mark.parametrize("flags, messages", [
    (["--trainer", "dglke", "--score_rule", "textbook"], "DGL-KE's own loop"),
    (["--backend", "vanilla", "--score_rule", "textbook"], "DGL-KE's own loop"),
    (["--score_rule", "paper"], "paper")])
def test_what_cannot_be_is_a_sentence(train, refused, flags, messages):
    with refused(messages):
        train(*flags)


def test_the_run_says_and_keeps_its_rule(train, capsys):
    for number, (flags, expected) in enumerate(([[], "textbook"], [["--score_rule", "dglke"], "dglke"])):
        folder = train(*flags, number=number)
        assert capsys.readouterr().out.count(LINE) == (expected == "dglke")
        assert json.loads((folder / "config.json").read_text())["score_rule"] == expected
        assert yaml.safe_load((folder / "config.yaml").read_text())["score_rule"] == expected
    same, other = (np.load(folder.parent / f"RESCAL_toy_{n}" / "toy_RESCAL_entity.npy") for n in (0, 1))
    assert not np.array_equal(same, other)


@pytest.mark.parametrize("name, lines", [("RESCAL", 1), ("DistMult", 0)])
@pytest.mark.parametrize("command, arguments", [(main, []), (evaluate, ["--model_path", "somewhere"])])
def test_vanilla_says_it_too(monkeypatch, capsys, command, arguments, name, lines):
    ran = []
    monkeypatch.setattr(vanilla, "run", lambda *given, **options: ran.append(given))
    monkeypatch.setattr(vanilla, "unknown_flags", lambda *_: [])
    command(["--backend", "vanilla", "--model_name", name, *arguments])
    assert len(ran) == 1 and capsys.readouterr().out.count(LINE) == lines


def test_evaluation_goes_by_the_run_and_search_by_the_score(train, capsys, tmp_path):
    """A run that names no rule is DGL-KE's, or ours from before there were two."""
    folder, found = train(), {}
    (tmp_path / "h").write_text("1\n2\n")
    (tmp_path / "r").write_text("0\n")
    for kept in ("textbook", "dglke", None):
        config = json.loads((folder / "config.json").read_text())
        config["score_rule"] = kept
        if kept is None:
            del config["score_rule"]
        (folder / "config.json").write_text(json.dumps(config))
        capsys.readouterr()
        evaluate(["--model_path", str(folder)])
        output = capsys.readouterr().out
        assert output.count(LINE) == (kept != "textbook")
        predict(["--model_path", str(folder), "--format", "h_r_*", "--data_files", str(tmp_path / "h"),
                 str(tmp_path / "r"), "--output", str(tmp_path / "best")])  # fmt: skip
        found[kept] = re.findall("Test average.*", output), (tmp_path / "best").read_text()
    assert found[None] == found["dglke"] and found["dglke"][0] != found["textbook"][0]
    assert found["dglke"][1] == found["textbook"][1]


def test_a_run_goes_on_by_the_rule_that_it_has(train, capsys, refused):
    expected = train("--score_rule", "dglke", "--max_step", "60")
    folder = train("--score_rule", "dglke", "--checkpoint_interval", "30", number=1)
    with refused('--score_rule was "dglke" and is "textbook"'):
        main(["--resume", str(folder), "--max_step", "60", "--score_rule", "textbook"])
    main(["--resume", str(folder), "--max_step", "60"])
    assert LINE in capsys.readouterr().out
    for path in expected.glob("*.npy"):
        np.testing.assert_array_equal(np.load(folder / path.name), np.load(path))


def test_an_unknown_rule_is_refused(train):
    folder = train(name="TransE_l2")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "score_rule": "paper"}))
    with pytest.raises(Exception, match="'paper' for 'score_rule'; it is one of textbook, dglke"):
        read_config(folder)
    with pytest.raises(Exception, match="unknown score rule paper"):
        EmbeddingModel("TransE_l2", 1.0, 2, np.ones((2, 2), np.float32), np.ones((1, 2)), score_rule="paper")
