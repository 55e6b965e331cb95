"""Both backends, same seed, one process, one thread: the same files to the byte and the same printed metrics."""
import os
import re
import subprocess
import sys

import pytest
import torch

from dglke_frugal.cli.train import main

SMALL = ["--dataset", "small", "--format", "raw_udd_hrt", "--data_files", "train.txt", "valid.txt", "test.txt",
         "--max_step", "12", "--log_interval", "4", "--batch_size", "128", "--neg_sample_size", "32", "--hidden_dim", "18",
         "--batch_size_eval", "16", "--eval_percent", "0.02", "--test", "--seed", "5"]
MODELS = {
    "TransE_l1": ["--gamma", "16", "--lr", "0.01"],
    "TransE_l2": ["--gamma", "19.9", "--lr", "0.25"],
    "TransR": ["--gamma", "8", "--lr", "0.015"],
    "RESCAL": ["--gamma", "24", "--lr", "0.03"],
    "DistMult": ["--gamma", "143", "--lr", "0.08"],
    "ComplEx": ["--gamma", "143", "--lr", "0.1"],
    "RotatE": ["--gamma", "12", "--lr", "0.009", "-de"],
}
OPTIONS = {"plain": ["-rc", "0"], "adversarial": ["-adv", "-rc", "1e-6"], "by degree": ["--neg_deg_sample", "-adv"],
           "regularized": ["-rc", "1e-3", "-rn", "2"]}


def metrics(text):
    return re.findall(r"Test average (\S+) : (\S+)|\]Test average (\S+): (\S+)|average (\w*loss|regularization): (\S+)", text)


def files(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.rglob("*.npy"))}


@pytest.fixture
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("model", MODELS)
def test_every_model(model, options, graphs, tmp_path, capfd, one_thread):
    data = tmp_path / "data"  # DGL-KE writes its id maps beside the data
    data.mkdir()
    for name in ("train.txt", "valid.txt", "test.txt"):
        (data / name).symlink_to(graphs / "fb15k-small" / name)
    printed = {}
    for backend in ("vanilla", "frugal"):
        main(["--backend", backend, "--model_name", model, "--data_path", str(data), "--save_path", str(tmp_path / backend),
              *SMALL, *MODELS[model], *OPTIONS[options]])
        printed[backend] = metrics(capfd.readouterr().out)
    vanilla = files(tmp_path / "vanilla")
    assert vanilla and vanilla == files(tmp_path / "frugal")
    assert len(printed["vanilla"]) >= 5 and printed["vanilla"] == printed["frugal"]


@pytest.mark.slow
def test_fb15k(graphs, tmp_path):
    """TransE_l2, dim 400, DGL-KE's recipe, 500 steps."""
    printed = {}
    for backend in ("vanilla", "frugal"):
        done = subprocess.run(
            [sys.executable, "-m", "dglke_frugal", "train", "--backend", backend, "--seed", "3", "--data_path", str(graphs),
             "--dataset", "FB15k", "--model_name", "TransE_l2", "--hidden_dim", "400", "--batch_size", "1000",
             "--neg_sample_size", "200", "--gamma", "19.9", "--lr", "0.25", "-adv", "-rc", "1e-9", "--max_step", "500",
             "--log_interval", "100", "--test", "--eval_percent", "0.005", "--batch_size_eval", "16",
             "--save_path", str(tmp_path / backend)],
            env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=True)
        printed[backend] = metrics(done.stdout)
    vanilla = files(tmp_path / "vanilla")
    assert sorted(vanilla) == ["FB15k_TransE_l2_entity.npy", "FB15k_TransE_l2_relation.npy"]
    assert vanilla == files(tmp_path / "frugal")
    assert len(printed["vanilla"]) >= 5 and printed["vanilla"] == printed["frugal"]
