"""What benchmarks/embedding.py measures and how it counts the bytes of a floor."""
import json
import subprocess

import torch

from benchmarks import embedding
from conftest import ROOT


def test_the_floor_counts_each_byte_that_a_step_has_to_move():
    ids = torch.tensor([0, 1, 1, 7, 9])  # four rows, of which a cache holds the first two
    row = 4 * embedding.LOOKUP_DIM
    found = embedding.floor_of(ids, 2, 0, {"memory": 1e3})
    assert found == {"distinct": 4, "memory_bytes": 5 * (8 + 2 * row) + 4 * 3 * row, "bus_bytes_each_way": 0,
                     "seconds": found["memory_bytes"] / 1e3}
    record = row + 4
    found = embedding.floor_of(ids, 2, 1, {"memory": 1e9, "to_device": 2.0, "to_host": 1.0})
    assert found["bus_bytes_each_way"] == 2 * record and found["seconds"] == 2 * record / 1.0


def test_ids_follow_a_power_law():
    ids = embedding.power_law(embedding.LOOKUP_IDS // 16, embedding.LOOKUP_ROWS, seed=0)
    assert 0 <= ids.min() and ids.max() < embedding.LOOKUP_ROWS
    counts = torch.bincount(ids, minlength=4)
    assert counts[0] > counts[1] > counts[3] > 0


def test_a_small_run_writes_all_figures(tmp_path, interpreter):
    file = tmp_path / "embedding.json"
    command = [interpreter, "-m", "benchmarks.embedding", "--json", str(file), "--scale", "0.001", "--steps", "3",
               "--warm", "1", "--rounds", "1", "--part", "fill", "lookup"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(file.read_text(encoding="utf-8"))
    for name in ("embedding_fill_gb_s_per_core", "embedding_fill_over_torch", "embedding_bytes_over_floor",
                 "lookup_sgd_seconds", "lookup_adam_seconds", "lookup_torch_sparse_seconds"):
        assert found[name] > 0, name
    assert any("FBGEMM UVM cache, SGD" in each for each in found["published"].values())
