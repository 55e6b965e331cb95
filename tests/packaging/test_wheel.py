"""What `python -m build` makes holds all it needs and works where there is no checkout."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest

from conftest import ROOT


def build(kind, out):
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", f"--{kind}", "--outdir", str(out), str(ROOT)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return next(out.iterdir())


def test_the_source_distribution_holds_the_sources(tmp_path):
    with tarfile.open(build("sdist", tmp_path)) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"CMakeLists.txt", "setup.py", "csrc/engine/engine.cpp", "csrc/bindings/CMakeLists.txt", "LICENSE"} <= names


@pytest.mark.slow
def test_the_wheel_runs_the_quickstart(tmp_path):
    wheel = build("wheel", tmp_path / "dist")
    with zipfile.ZipFile(wheel) as archive:
        assert "dglke_frugal/py.typed" in archive.namelist()
        top = {name.split("/")[0] for name in archive.namelist()}
    assert {name for name in top if not name.endswith(".dist-info")} == {"dglke_frugal"}
    site, away = tmp_path / "site", tmp_path / "away"
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(site), str(wheel)], check=True
    )
    for folder in ("recipes", "datasets"):
        shutil.copytree(ROOT / folder, away / folder, ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run(
        [sys.executable, "-m", "recipes.quickstart", "--steps", "60"],
        cwd=away,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(site)},
        check=True,
    )
    assert "Test average MRR" in done.stdout and "Who is a child of" in done.stdout
    where = subprocess.run(
        [sys.executable, "-c", "import dglke_frugal; print(dglke_frugal.__file__)"],
        cwd=away,
        text=True,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(site)},
        check=True,
    )
    assert where.stdout.startswith(str(site))
