"""Kernels by Triton without a GPU: in its interpreter, against float64 formulas."""
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from training.full_softmax.interpreted import KINDS, SHAPES

PRECISION = 1e-3  # of 11 digits


@pytest.fixture(scope="module")
def errors():
    tests = str(Path(__file__).parent.parent.parent)
    path = os.pathsep.join([tests, *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run([sys.executable, "-m", "training.full_softmax.interpreted"],
                          capture_output=True, text=True, check=False,
                          cwd=tests, env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": path})
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("queries, rows, dim", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
def test_against_float64(kind, queries, rows, dim, errors):
    found = errors[f"{kind} {queries} {rows} {dim}"]
    assert found.pop("kept")
    assert max(found.values()) <= PRECISION, found
