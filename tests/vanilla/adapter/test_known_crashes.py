"""Flags on which DGL-KE itself crashes train with its loop over our store; what it saves diverged is refused."""
import numpy as np
import pytest

from dglke_frugal.cli.train import main

FLAGS = ["--trainer", "dglke", "--dataset", "mine", "--format", "raw_udd_hrt", "--data_files", "train.txt",
         "--model_name", "DistMult", "--hidden_dim", "8", "--neg_sample_size", "4", "--max_step", "6", "--log_interval",
         "3", "--seed", "1"]


def train(tmp_path, relations, *flags):
    """Train on a ring of 16 entities; returns the saved entity table."""
    lines = [f"e{i}\tr{i % relations}\te{(i * 3 + 1) % 16}\n" for i in range(16)] * 4
    (tmp_path / "train.txt").write_text("".join(lines))
    main([*FLAGS, "--data_path", str(tmp_path), "--save_path", str(tmp_path / "runs"), *flags])
    return np.load(next((tmp_path / "runs").rglob("*_entity.npy")))


pytestmark = pytest.mark.usefixtures("one_torch_thread")


def test_a_batch_as_large_as_the_graph_has_entities(tmp_path):
    assert np.isfinite(train(tmp_path, 3, "--batch_size", "16")).all()


def test_force_sync_interval_with_one_process(tmp_path):
    assert np.isfinite(train(tmp_path, 3, "--batch_size", "8", "--force_sync_interval", "2")).all()


def test_relation_partition_with_one_process(tmp_path):
    assert np.isfinite(train(tmp_path, 3, "--batch_size", "8", "--rel_part")).all()


@pytest.mark.parametrize("relations", [1, 4])
def test_relation_partition_where_all_relations_are_equally_frequent(tmp_path, relations):
    table = train(tmp_path, relations, "--batch_size", "8", "--rel_part", "--num_proc", "2")
    assert np.isfinite(table).all() and len(table) == 16


def test_tables_that_have_diverged_are_not_saved(tmp_path, refused):
    """DGL-KE itself saves them."""
    with refused("the training has diverged"):
        train(tmp_path, 3, "--batch_size", "8", "--lr", "1e30", "-rc", "0")
    assert not list((tmp_path / "runs").rglob("*.npy"))
