"""Runs of several processes that each have some columns: the tables of one process on the same batches."""
import os
import re
import signal

import numpy as np
import pytest
from ranks.conftest import Ranks, assert_gone, assert_same, followers, trained, wait_for

BATCH, COEFFICIENT = 60, 1e-4  # of conftest.FLAGS


@pytest.fixture
def columns(small, tmp_path):
    """Runs on the CPU as a device (tests/devices.py), with several of them as several GPUs."""
    found = Ranks(small, tmp_path)
    found.gpu = "devices.Device()"
    return found


def alone(columns, ranks, *given):
    """One process that trains on the batches of all ranks."""
    return trained(columns.run(*given, "--gpu", 0, "--batch_size", ranks * BATCH, "-rc", COEFFICIENT / ranks)[0])


def assert_close(arrays, expected):
    assert arrays.keys() == expected.keys()
    for name, array in arrays.items():
        np.testing.assert_allclose(array, expected[name], rtol=2e-3, atol=2e-5, err_msg=name)


MODELS = {"TransE_l2": [], "TransE_l1": [], "DistMult": [], "ComplEx": [], "RotatE": ["-de"], "SimplE": ["-de", "-dr"]}


@pytest.mark.parametrize("model", MODELS)
def test_ranks_with_columns_compute_what_one_process_does(columns, model):
    given = ["--model_name", model, *MODELS[model], "--max_step", 6]
    folder, output = columns.run(*given, "--gpu", 0, 0, "--parallel", "dims")
    assert "a step of all 2 ranks trains on 120 triples" in output
    assert_close(trained(folder), alone(columns, 2, *given))
