"""Names outside ASCII where the locale knows only ASCII: they work, or one sentence says why not."""

import json
import os
import subprocess
import sys

import pytest

ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "OMP_NUM_THREADS": "1"}
FLAGS = ["--format", "raw_udd_hrt", "--model_name", "DistMult", "--hidden_dim", "8", "--batch_size", "8",
         "--neg_sample_size", "4", "--max_step", "2", "--seed", "1"]


@pytest.fixture
def frugal(tmp_path):
    (tmp_path / "train.txt").write_text("Zoë\tkennt\tb\nb\tmag\tZoë\n" * 8, encoding="utf-8")

    def run(*arguments):
        return subprocess.run([sys.executable, "-m", "dglke_frugal", *arguments], cwd=tmp_path, capture_output=True,
                              env={**os.environ, **ASCII}, timeout=120)

    return run


def train(frugal, *flags):
    return frugal("train", *FLAGS, "--data_path", ".", "--data_files", *["train.txt"] * 3, *flags)


@pytest.mark.parametrize("flag", ["dataset: größe", "dataset: mine\ndata_path: .\nsave_path: größe",
                                  "dataset: mine\ndata_path: größe"])
def test_a_file_name_that_cannot_be_is_one_sentence(frugal, tmp_path, flag):
    (tmp_path / "flags.yaml").write_text(flag, encoding="utf-8")
    done = frugal("train", *FLAGS, "--config", "flags.yaml", "--data_files", "train.txt")
    error = done.stderr.decode()
    assert done.returncode == 2 and error.count("\n") == 1, error
    assert r"gr\xf6\xdfe" in error and "LC_ALL=C.UTF-8" in error
    assert not list(tmp_path.rglob("*.npy"))


def test_a_name_on_the_command_line_works(frugal, tmp_path):
    done = train(frugal, "--dataset", "größe")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "ckpts" / "DistMult_größe_0" / "größe_DistMult_entity.npy").exists()
    assert "Save model to ckpts/DistMult_größe_0".encode() in done.stdout
    assert frugal("eval", "--model_path", "ckpts/DistMult_größe_0").returncode == 0


def test_names_that_the_terminal_lacks_do_not_end_an_evaluation(frugal, tmp_path):
    (tmp_path / "train.txt").write_text("a\tschlägt\tb\nb\tmag\ta\n" * 8, encoding="utf-8")
    assert train(frugal, "--dataset", "mine").returncode == 0
    done = frugal("eval", "--model_path", "ckpts/DistMult_mine_0", "--breakdown", "--json", "out.json")
    assert done.returncode == 0, done.stderr
    assert rb"schl\xe4gt" in done.stdout and json.loads((tmp_path / "out.json").read_text())["ranks"] > 0
