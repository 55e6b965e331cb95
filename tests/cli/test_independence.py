"""Our own trainer and evaluation run where dgl and dglke cannot be imported, and without paying for torch's import."""

import json
import subprocess
import sys

import pytest

WITHOUT_DGL = """
import importlib.metadata, sys

class NotThere:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

HIDDEN = {"dgl", "dglke"}
sys.meta_path.insert(0, NotThere())
version = importlib.metadata.version
def visible_version(name):
    if name in HIDDEN:
        raise importlib.metadata.PackageNotFoundError(name)
    return version(name)
importlib.metadata.version = visible_version
"""
RAW = ["--dataset", "small", "--format", "raw_udd_hrt", "--data_files", "train.txt", "valid.txt", "test.txt"]


def python(code, *arguments):
    return subprocess.run([sys.executable, "-c", WITHOUT_DGL + code, *map(str, arguments)], capture_output=True,
                          text=True)


@pytest.fixture
def data(graphs, tmp_path):
    """The flags of the small graph, in a folder that may be written to."""
    for name in RAW[-3:]:
        (tmp_path / name).symlink_to(graphs / "fb15k-small" / name)
    return [*RAW, "--data_path", str(tmp_path)]


def test_training_and_evaluation_need_neither_dgl_nor_dglke_nor_torch(data, tmp_path):
    done = python(
        "HIDDEN.add('torch')\n"
        "from dglke_frugal.cli.main import main\n"
        "import json\n"
        "data, folder = json.loads(sys.argv[1]), sys.argv[2]\n"
        "main(['train', *data, '--save_path', folder, '--model_name', 'ComplEx', '--hidden_dim', '16',\n"
        "      '--max_step', '40', '--seed', '1', '--valid', '--eval_interval', '20', '--test', '--flush', 'p2f'])\n"
        "main(['eval', *data, '--model_path', folder + '/ComplEx_small_0', '--json', folder + '/eval.json'])\n"
        "main(['plan', *data])\n"
        "assert not {'dgl', 'dglke', 'torch'} & set(sys.modules)\n", json.dumps(data), tmp_path / "runs")
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "runs" / "ComplEx_small_0" / "result.json").read_text())
    assert json.loads((tmp_path / "runs" / "eval.json").read_text())["metrics"] == result["test"]


@pytest.mark.parametrize("flags", [["--backend", "vanilla"], ["--trainer", "dglke"]])
def test_what_needs_them_says_so(flags, data, tmp_path):
    done = python("from dglke_frugal.cli.train import main\nmain(sys.argv[1:])", *data, *flags, "--save_path",
                  tmp_path / "runs")
    assert done.returncode == 2
    (sentence,) = done.stderr.splitlines()
    assert "which is not installed" in sentence and flags[1] in sentence
    assert not (tmp_path / "runs").exists()


def test_the_partition_says_so_too():
    done = python("from dglke_frugal import vanilla\nfrom dglke_frugal.errors import InputError\n"
                  "try:\n    vanilla.run('partition', [])\nexcept InputError as error:\n    print(error)")
    assert done.returncode == 0 and "partitions by METIS" in done.stdout


def test_ranks_on_the_cpu_do_not_take_torchs_import_time():
    done = python("from dglke_frugal.options import TrainConfig\n"
                  "from dglke_frugal.training.parallel import rank_process, train_ranks\n"
                  "train_ranks.run_classes(TrainConfig())\n"
                  "assert 'torch' not in sys.modules\n")
    assert done.returncode == 0, done.stderr
