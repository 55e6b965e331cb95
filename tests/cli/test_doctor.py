"""`dglke_frugal doctor` says whose commands are on PATH."""

import json
import os

import pytest

from dglke_frugal import _native
from dglke_frugal.cli import doctor


@pytest.fixture
def path_with(tmp_path, monkeypatch):
    def put(name, text):
        script = tmp_path / name
        script.write_text(text)
        script.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))
        return script

    return put


def test_commands_of_dglke_are_noticed(path_with, capsys):
    path_with("dglke_train", "#!/usr/bin/python3\nfrom dglke.train import main\nmain()\n")
    path_with("dglke_eval", "#!/usr/bin/python3\nfrom dglke_frugal.cli.evaluate import main\nmain()\n")
    doctor.main([])
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert (
        "belongs to dglke, not to us" in lines["dglke_train"] and "python -m dglke_frugal train" in lines["dglke_train"]
    )
    assert lines["dglke_eval"].endswith("ours")
    assert "not on PATH" in lines["dglke_predict"]


def test_the_same_for_programs(capsys):
    doctor.main(["--json"])
    facts = json.loads(capsys.readouterr().out)
    assert facts["threads"] >= 1 and facts["packages"]["dglke-frugal"]
    assert facts["cuda"]["devices"] or facts["cuda"]["reason"]
    assert os.path.isabs(facts["commands"]["dglke_train"]["path"] or "/")


@pytest.mark.parametrize("nvcc, messages", [("/opt/cuda/bin/nvcc", "nvcc is there (/opt/cuda/bin/nvcc)"),
                                        (None, "there is none on PATH or in /usr/local/cuda/bin")])
def test_a_build_without_cuda_says_where_nvcc_is(monkeypatch, capsys, nvcc, messages):
    """It was built so by choice, or before nvcc was there."""
    monkeypatch.setattr(_native, "has_cuda", False)
    monkeypatch.setattr(doctor.shutil, "which", lambda name, path=None: nvcc if name == "nvcc" else None)
    doctor.main([])
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("GPUs"))
    assert "this build has no CUDA kernels" in line and messages in line and "was not found" not in line


@pytest.mark.parametrize("private, shared, granted", [
    ("always [madvise] never", "always within_size [advise] never deny force", {"one process": True, "several": True}),
    ("always madvise [never]", "always within_size advise [never] deny force",
     {"one process": False, "several": False}),
    ("[always] madvise never", None, {"one process": True, "several": None})])
def test_huge_pages_are_those_that_the_system_grants(private, shared, granted, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(doctor, "HUGE_PAGES", tmp_path)
    (tmp_path / "enabled").write_text(private + "\n")
    if shared:
        (tmp_path / "shmem_enabled").write_text(shared + "\n")
    assert doctor.diagnose()["huge_pages"] == granted
    doctor.main([])
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("huge pages")]
    assert len(lines) == sum(each is not None for each in granted.values())
    assert [line.endswith("yes") for line in lines] == [each for each in granted.values() if each is not None]
    if granted["several"] is False:
        assert f"echo advise > {tmp_path / 'shmem_enabled'}" in lines[1]


def test_an_unknown_flag_is_one_sentence(refused):
    with refused("there is no flag --jason"):
        doctor.main(["--jason"])
