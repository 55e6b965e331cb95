"""The API reference is built by the command that docs/api.md names, with the pdoc of today."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_the_reference_is_built(tmp_path):
    done = subprocess.run(
        [sys.executable, "docs/build_api.py", str(tmp_path)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "dglke_frugal" / "training" / "device_gradients.html").read_text(encoding="utf-8")
    assert "Leaves" in page and "projection_of_negatives" in page
