"""The DLRM example: both file formats, its measures, and that it learns, with rows by number and by key."""
import importlib.util
import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "dlrm.py"


@pytest.fixture(scope="module")
def dlrm():
    spec = importlib.util.spec_from_file_location("dlrm_example", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def criteo_line(label, first, value):
    return "\t".join([label, first, *["3"] * 12, *[value] * 25, ""])


AVAZU = """id,click,hour,C1,banner_pos,site_id
1000009418151094273,1,14102106,1005,0,1fbe01fe
7,0,14102118,1002,1,85f751fd
"""


def test_it_reads_criteos_and_avazus_files(dlrm, tmp_path):
    path = tmp_path / "train.txt"
    path.write_text(criteo_line("1", "", "68fd1e64") + "\n" + criteo_line("0", "-2", "0b153874") + "\n")
    [(keys, dense, label)] = dlrm.batches_of(dlrm.read("criteo", path), 8)
    assert keys.shape == (2, 26) and dense.shape == (2, 13) and label.tolist() == [1, 0]
    assert not dense[:, 0].any() and torch.allclose(dense[:, 1:], torch.tensor(3.0).log1p())
    assert len(np.unique(keys)) == 26 + 26 - 1  # a value is another key in another feature; the last one is empty
    path.write_text(AVAZU)
    [(keys, dense, label)] = dlrm.batches_of(dlrm.read("avazu", path), 8)
    assert keys.shape == (2, 4) and label.tolist() == [1, 0]
    assert torch.allclose(dense, torch.tensor([[1.0, 0.0], [-1.0, 0.0]]), atol=1e-6)
    path.write_text("1\t2\n")
    with pytest.raises(SystemExit, match="line 1: 2 columns"):
        list(dlrm.read("criteo", path))


def test_auc_is_the_share_of_pairs_in_order(dlrm):
    random = np.random.default_rng(0)
    labels, scores = random.integers(0, 2, 60), random.integers(0, 9, 60) / 10
    pairs = [(a > b) + (a == b) / 2 for a in scores[labels == 1] for b in scores[labels == 0]]
    assert dlrm.auc(labels, scores) == pytest.approx(np.mean(pairs))


def test_made_up_data_have_criteos_shape(dlrm):
    batches = list(dlrm.made_up(1000, 300, scale=0.01))
    assert [len(label) for _, _, label in batches] == [300, 300, 300, 100]
    values = np.concatenate([each for each, _, _ in batches])
    counts = np.maximum(3, np.array(dlrm.CRITEO) * 0.01).astype(int)
    assert (values >= np.cumsum(counts) - counts).all() and (values < np.cumsum(counts)).all()
    assert np.bincount(values[:, 2] - values[:, 2].min()).argmax() == 0  # the first rank is the most frequent


@pytest.mark.slow
@pytest.mark.parametrize("start, options", [
    ([], []), ([], ["--keys"]),
    (["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"], ["--batch_size", "100"])],
    ids=["one process", "keys", "torchrun"])
def test_it_learns(interpreter, start, options):
    made = ["--rows", "3000", "--samples", "12000", "--batch_size", "200"]
    run = subprocess.run([interpreter, *start, EXAMPLE, *made, *options], capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr
    [auc] = re.findall(r"'auc': ([\d.]+)", run.stdout)
    assert float(auc) > 0.55


def test_keys_in_several_processes_are_refused(interpreter):
    run = subprocess.run([interpreter, EXAMPLE, "--keys"], env={**os.environ, "RANK": "0", "WORLD_SIZE": "2"},
                         capture_output=True, text=True, timeout=600)
    assert run.returncode == 2 and "rows by key are for one process" in run.stderr


def test_it_is_as_short_as_promised():
    assert len(EXAMPLE.read_text().splitlines()) <= 180
