"""Every command of DGL-KE on one machine runs to its end and writes what it should."""
import json
from pathlib import Path

import numpy as np
import pytest

RAW = ["--dataset", "small", "--format", "raw_udd_hrt", "--data_files", "train.txt", "valid.txt", "test.txt"]
SHORT = ["--hidden_dim", 16, "--batch_size", 256, "--neg_sample_size", 64, "--gamma", 12, "--lr", 0.1, "--max_step", 60]


@pytest.fixture(scope="module")
def train(small, dglke):
    """Train for a few steps; returns the folder with the results, and the output."""

    def command(folder, *more):
        output = dglke("train", ["--data_path", small, *RAW, *SHORT, "--save_path", folder, *more], small)
        (result,) = Path(folder).iterdir()
        return result, output

    return command


@pytest.fixture(scope="module")
def trained(train, tmp_path_factory):
    folder, _ = train(tmp_path_factory.mktemp("trained"), "--model_name", "TransE_l2", "-adv")
    return folder


def test_same_seed_gives_the_same_bytes(train, trained, tmp_path):
    again, _ = train(tmp_path, "--model_name", "TransE_l2", "-adv")
    names = {file.name for file in trained.iterdir()}
    assert names == {"small_TransE_l2_entity.npy", "small_TransE_l2_relation.npy", "config.json"}
    for name in names:
        assert (again / name).read_bytes() == (trained / name).read_bytes(), name
