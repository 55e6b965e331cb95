"""All commands run where nothing is installed that the package does not require, and name what an extra lacks."""

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from conftest import ROOT
from dglke_frugal import extras
from dglke_frugal.cli import doctor

BARE = Path(__file__).with_name("bare_environment.py")
EXTRAS_REQUIRED = ["tqdm>=4.60", 'optuna>=4; extra == "search"',
                   'dglke==0.1.2; python_version < "3.13" and extra == "vanilla"',
                   'dgl<=2.1.0,>=1.1.3; python_version < "3.13" and extra == "vanilla"', 'pytest>=7; extra == "test"']
# A whole session: what a command says goes to the screen, and files to the working folder.
SESSION = """
from dglke_frugal.cli.main import main

main(["split", "all.txt", "--out", ".", "--valid", "20", "--test", "20"])
data = ["--data_path", ".", "--dataset", "mine", "--format", "raw_udd_hrt",
        "--data_files", "train.tsv", "valid.tsv", "test.tsv"]
train = [*data, "--model_name", "ComplEx", "--hidden_dim", "16", "--batch_size", "64", "--neg_sample_size", "8",
         "--max_step", "40", "--valid", "--eval_interval", "20", "--test", "--seed", "1"]
main(["plan", *train])
main(["train", *train])
main(["train", *train, "--num_proc", "2", "--num_thread", "1"])
run = "ckpts/ComplEx_mine_0"
main(["eval", "--model_path", run, *data, "--json", "eval.json"])
with open("heads", "w") as heads, open("relations", "w") as relations:
    heads.write("p1\\n")
    relations.write("next\\n")
main(["predict", "--model_path", run, "--format", "h_r_*", "--data_files", "heads", "relations", "--raw_data",
      "--entity_mfile", run + "/entities.tsv", "--rel_mfile", run + "/relations.tsv", "--topK", "3"])
main(["emb_sim", "--emb_file", run + "/mine_ComplEx_entity.npy", "--format", "l_*", "--data_files", "heads",
      "--raw_data", "--mfile", run + "/entities.tsv", "--topK", "3"])
main(["export", run, "tables.safetensors"])
main(["report", run])
main(["presets"])
main(["doctor"])
import dglke_frugal
print(dglke_frugal.load(run).tails("p1", "next", k=3))
"""


def bare(code, folder):
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    return subprocess.run([sys.executable, BARE, code], cwd=folder, env=environment, capture_output=True, text=True)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "all.txt").write_text("".join(
        f"p{i}\t{relation}\tp{(i + step) % 60}\n" for i in range(60)
        for relation, step in (("next", 1), ("after_next", 2), ("near", 3), ("far", 20))))
    return tmp_path


def test_every_command_runs_with_nothing_but_what_is_required(folder):
    done = bare(SESSION, folder)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    assert "Test average MRR" in done.stdout and json.loads((folder / "eval.json").read_text())["metrics"]
    assert (folder / "tables.safetensors").exists() and (folder / "ckpts" / "ComplEx_mine_0" / "report.html").exists()


def test_the_environment_is_bare(tmp_path):
    done = bare("import json; print(json.dumps(sorted(hidden)))", tmp_path)
    assert {"pytest", "scipy", "optuna"} <= set(json.loads(done.stdout))
    assert not {"torch", "numpy", "yaml", "tqdm", "dglke_frugal"} & set(json.loads(done.stdout))


@pytest.mark.parametrize("command, extra", [
    (["train", "--backend", "vanilla"], "vanilla"),
    (["train", "--trainer", "dglke", "--dataset", "mine"], "vanilla"),
    (["train", "--num_proc", "2", "--num_thread", "1", "--partition", "metis"], "metis"),
    (["eval", "--backend", "vanilla"], "vanilla"),
    (["partition", "--backend", "vanilla"], "vanilla"),
    (["search", "TransE_l2", "--out", "found", "--trials", "1"], "search"),
    (["train", "--trackers", "wandb"], "wandb")])
def test_what_needs_an_extra_names_the_command_that_installs_it(command, extra, folder):
    if command[0] in ("train", "search"):
        command = [*command, "--data_path", ".", "--dataset", "mine", "--format", "raw_udd_hrt", "--data_files",
                   "all.txt", "all.txt", "all.txt", "--model_name", "TransE_l2", "--hidden_dim", "8", "--batch_size",
                   "32", "--neg_sample_size", "8", "--max_step", "20"]
    done = bare(f"from dglke_frugal.cli.main import main\nmain({command!r})", folder)
    assert done.returncode == 2, done.stdout + done.stderr
    (sentence,) = [line for line in done.stderr.splitlines() if "not installed" in line]
    assert extras.install_command(extra) in sentence and "Traceback" not in done.stderr


def test_an_extras_command_names_its_packages_as_declared(monkeypatch):
    monkeypatch.setattr(metadata, "requires", lambda name: EXTRAS_REQUIRED)
    assert extras.install_command("search") == "pip install 'optuna>=4'"
    assert extras.install_command("vanilla") == "pip install dglke==0.1.2 'dgl<=2.1.0,>=1.1.3'"
    assert extras.install_command("faiss") == 'pip install ".[faiss]" in the checkout'


def test_doctor_says_which_extras_are_missing_and_how_to_get_them(monkeypatch, capsys):
    def version(name):
        if name in ("dgl", "optuna"):
            raise metadata.PackageNotFoundError(name)
        return "1.0"

    monkeypatch.setattr(metadata, "requires", lambda name: EXTRAS_REQUIRED)
    monkeypatch.setattr(metadata, "version", version)
    monkeypatch.setattr(extras.sys, "version_info", (3, 11))
    doctor.main([])
    lines = {line.split()[1]: line for line in capsys.readouterr().out.splitlines() if line.startswith("extra")}
    assert lines["search"].endswith("not installed: pip install 'optuna>=4'")
    assert lines["vanilla"].endswith("not installed: pip install dglke==0.1.2 'dgl<=2.1.0,>=1.1.3'")
    monkeypatch.setattr(extras.sys, "version_info", (3, 13))
    assert doctor.diagnose()["extras"]["vanilla"]["install"] is None
    monkeypatch.setattr(metadata, "version", lambda name: "1.0")
    doctor.main([])
    assert "dglke_frugal search): installed" in capsys.readouterr().out
