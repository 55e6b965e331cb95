"""Both backends, same seed, one process, one thread: the same files to the byte and the same printed metrics."""
import itertools
import os
import re
import shutil

import pytest

from dglke_frugal.cli.train import main
from dglke_frugal.options import CACHE_POLICIES

SMALL = ["--dataset", "small", "--format", "raw_udd_hrt", "--data_files", "train.txt", "valid.txt", "test.txt",
         "--max_step", "12", "--log_interval", "4", "--batch_size", "128", "--neg_sample_size", "32", "--hidden_dim",
         "18", "--batch_size_eval", "16", "--eval_percent", "0.02", "--test", "--seed", "5"]
MODELS = {"TransE_l1": ["--gamma", "16", "--lr", "0.01"],
          "TransE_l2": ["--gamma", "19.9", "--lr", "0.25"],
          "TransR": ["--gamma", "8", "--lr", "0.015"],
          "RESCAL": ["--gamma", "24", "--lr", "0.03"],
          "DistMult": ["--gamma", "143", "--lr", "0.08"],
          "ComplEx": ["--gamma", "143", "--lr", "0.1"],
          "RotatE": ["--gamma", "12", "--lr", "0.009", "-de"]}
OPTIONS = {"plain": ["-rc", "0"], "adversarial": ["-adv", "-rc", "1e-6"], "by degree": ["--neg_deg_sample", "-adv"],
           "regularized": ["-rc", "1e-3", "-rn", "2"]}


BACKENDS = {"vanilla": ["--backend", "vanilla"], "frugal": ["--backend", "frugal", "--trainer", "dglke"]}


def metrics(text):
    return re.findall(r"Test average (\S+) : (\S+)|\]Test average (\S+): (\S+)|average (\w*loss|regularization): (\S+)",
                      text)


def files(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.rglob("*.npy"))}


@pytest.fixture
def data(graphs, tmp_path):
    """The small graph in a folder of our own: DGL-KE writes its id maps next to the data."""
    folder = tmp_path / "data"
    folder.mkdir()
    for name in ("train.txt", "valid.txt", "test.txt"):
        (folder / name).symlink_to(graphs / "fb15k-small" / name)
    return folder


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("model", MODELS)
def test_every_model(model, options, data, tmp_path, capfd, one_torch_thread):
    printed = {}
    for backend in BACKENDS:
        main([*BACKENDS[backend], "--model_name", model, "--data_path", str(data), "--save_path",
              str(tmp_path / backend), *SMALL, *MODELS[model], *OPTIONS[options]])
        printed[backend] = metrics(capfd.readouterr().out)
    vanilla = files(tmp_path / "vanilla")
    assert vanilla and vanilla == files(tmp_path / "frugal")
    assert len(printed["vanilla"]) >= 3 and printed["vanilla"] == printed["frugal"]


FULL = bool(os.environ.get("DGLKE_FRUGAL_FULL_TESTS"))
SETTINGS = list(itertools.product(("0", "0.01", "0.05", "1"), CACHE_POLICIES, ("1", "10"), ("1", "4"), ("p2f", "sync")))
FB15K = ["--dataset", "FB15k", "--hidden_dim", "400", "--batch_size", "1000", "--neg_sample_size", "200", "--max_step",
         "30", "--log_interval", "10", "--seed", "3"]


@pytest.mark.parametrize("graph", ["small", *(["FB15k"] if FULL else [])])
def test_whatever_the_store_does(graph, graphs, data, tmp_path, capfd, one_torch_thread):
    """Caches, policies, lookahead, flush threads and modes; on the small graph with validations, which draw from the
    sampler's numbers too."""
    common = ["--data_path", str(data), *SMALL, "--valid", "--eval_interval", "5", "--neg_sample_size_eval", "30"]
    if graph == "FB15k":
        common = ["--data_path", str((graphs / "FB15k").parent), *FB15K]
    common += ["--model_name", "TransE_l2", "--gamma", "19.9", "--lr", "0.25", "-adv"]
    main([*BACKENDS["vanilla"], *common, "--save_path", str(tmp_path / "vanilla")])
    expected, printed = files(tmp_path / "vanilla"), metrics(capfd.readouterr().out)
    assert len(expected) == 2 and printed
    for i, (ratio, policy, lookahead, threads, flush) in enumerate(SETTINGS if FULL else SETTINGS[::7]):
        setting = ["--cache_ratio", ratio, "--cache_policy", policy, "--lookahead", lookahead, "--flush_threads",
                   threads, "--flush", flush]
        main([*BACKENDS["frugal"], *common, *setting, "--save_path", str(tmp_path / f"frugal{i}")])
        assert files(tmp_path / f"frugal{i}") == expected, setting
        assert metrics(capfd.readouterr().out) == printed, setting
        shutil.rmtree(tmp_path / f"frugal{i}")


@pytest.mark.slow
def test_fb15k(graphs, tmp_path, capfd, one_torch_thread):
    """TransE_l2, dim 400, DGL-KE's recipe."""
    printed = {}
    for backend in BACKENDS:
        main([*BACKENDS[backend], "--data_path", str((graphs / "FB15k").parent), *FB15K, "--model_name", "TransE_l2",
              "--gamma", "19.9", "--lr", "0.25", "-adv", "-rc", "1e-9", "--test", "--eval_percent", "0.001",
              "--batch_size_eval", "16", "--save_path", str(tmp_path / backend)])
        printed[backend] = metrics(capfd.readouterr().out)
    vanilla = files(tmp_path / "vanilla")
    assert sorted(vanilla) == ["FB15k_TransE_l2_entity.npy", "FB15k_TransE_l2_relation.npy"]
    assert vanilla == files(tmp_path / "frugal")
    assert len(printed["vanilla"]) >= 3 and printed["vanilla"] == printed["frugal"]
