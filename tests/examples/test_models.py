"""The custom models in examples/: they train, are ranked, and say which rows they need."""
import re
from pathlib import Path

import pytest
import torch

from dglke_frugal.cli.main import main
from dglke_frugal.models import find_model

EXAMPLES = Path(__file__).parents[2] / "examples"
MODELS = {"cp:CP": ["-de", "--hidden_dim", "8"], "tucker:TuckER(size=8)": ["--hidden_dim", "8"],
          "conve:ConvE(size=16, height=4, channels=2)": ["--hidden_dim", "16"]}


@pytest.fixture
def train(tmp_path, monkeypatch):
    """Starts a run on a circle of thirty entities."""
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    for split in ("train", "test"):
        (tmp_path / f"{split}.txt").write_text("".join(f"e{i}\tnext\te{(i + 1) % 30}\n" for i in range(30)))

    def run(model, *flags):
        main(["train", "--model_name", model, *flags, "--dataset", "circle", "--data_path", str(tmp_path), "--format",
              "raw_udd_hrt", "--data_files", "train.txt", "train.txt", "test.txt", "--save_path",
              str(tmp_path / "runs"), "--batch_size", "10", "--neg_sample_size", "10", "-adv", "-rc", "0", "--seed",
              "1", "--test"])

    return run


@pytest.mark.parametrize("model", MODELS)
def test_a_model_learns_by_heart(model, train, capsys):
    train(model, *MODELS[model], "--lr", "0.1", "--max_step", "120")
    (mrr,) = re.findall(r"Test average MRR: ([\d.]+)", capsys.readouterr().out)
    assert float(mrr) > 0.3  # about 0.13 at random


@pytest.mark.parametrize("model", MODELS)
def test_rows_of_another_length_are_refused(model, train, refused):
    with refused("give -"):
        train(model, "--hidden_dim", "9", "--max_step", "1")


@pytest.mark.parametrize("model", MODELS)
def test_scores_broadcast_and_do_not_depend_on_what_is_scored_together(model, monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    own = find_model(model)
    entity, relation = {"cp:CP": (16, 8), "tucker:TuckER(size=8)": (8, 8)}.get(model, (16, 16))
    torch.manual_seed(0)
    head, rel, tail = torch.randn(3, 1, entity), torch.randn(3, 1, relation), torch.randn(3, 5, entity)
    for sides in ((head, tail), (tail, head)):
        scores = own.score(sides[0], rel, sides[1])
        assert scores.shape == (3, 5)
        for i, j in ((0, 0), (2, 4)):
            row = [side[i, min(j, side.shape[1] - 1)] for side in sides]
            torch.testing.assert_close(own.score(row[0], rel[i, 0], row[1]), scores[i, j], rtol=1e-4, atol=1e-5)
    assert len((EXAMPLES / f"{model.partition(':')[0]}.py").read_text().splitlines()) < 60
