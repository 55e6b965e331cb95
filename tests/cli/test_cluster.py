"""DGL-KE's commands for several machines say what to use instead, and two of them run DGL-KE's own on request."""

import sys

import pytest
from conftest import ROOT

from dglke_frugal.cli import cluster
from dglke_frugal.cli.main import main

DGLKE_COMMANDS = ("server", "client", "dist_train", "partition", "convert")


@pytest.mark.parametrize("command", DGLKE_COMMANDS)
@pytest.mark.parametrize("as_script", [True, False])
def test_one_sentence_says_what_to_use(command, as_script, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", [f"/bin/dglke_{command}" if as_script else "/bin/dglke_frugal"])
    with pytest.raises(SystemExit) as stopped:
        arguments = ["--path", "x", "--help"]
        getattr(cluster, command)(arguments) if as_script else main([command, *arguments])
    assert stopped.value.code == 2
    (sentence,) = capsys.readouterr().err.splitlines()
    assert f"dglke_{command} belongs to DGL-KE's cluster mode: " in sentence
    assert ("dglke_train reads names" if command == "convert" else cluster.TORCHRUN) in sentence


def test_each_is_installed_as_a_command():
    text = (ROOT / "pyproject.toml").read_text()
    for command in DGLKE_COMMANDS:
        assert f'dglke_{command} = "dglke_frugal.cli.cluster:{command}"' in text


@pytest.mark.parametrize("command", ["partition", "convert"])
def test_vanilla_runs_dglkes_own(command, monkeypatch):
    called = []
    monkeypatch.setattr("dglke_frugal.vanilla.run", lambda *arguments: called.append(arguments))
    getattr(cluster, command)(["--dataset", "FB15k", "--backend", "vanilla", "-k", "2"])
    assert called == [(command, ["--dataset", "FB15k", "-k", "2"])]
