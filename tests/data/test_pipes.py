"""Pipes as files: data are read several times, so a pipe is refused without waiting for its writer; a list is read."""

import os
import threading

import numpy as np
import pytest
from data.test_damage import MAKE

import dglke_frugal
from dglke_frugal.cli import split
from dglke_frugal.data import load_graph
from dglke_frugal.data.name_maps import keep_name_maps
from dglke_frugal.errors import InputError
from dglke_frugal.inference.lists import read_list, read_names
from dglke_frugal.inference.name_maps import names_of_file

SAYS = "is a pipe or a device, and data files are read several times"


@pytest.mark.parametrize("cache", [None, True])
@pytest.mark.parametrize("family", MAKE)
def test_no_file_of_a_data_set_may_be_a_pipe(tmp_path, family, cache):
    folder, arguments = MAKE[family](tmp_path)
    for path in list(folder.iterdir()):
        content = path.read_bytes()
        path.unlink()
        os.mkfifo(path)
        with pytest.raises(InputError, match=f"{path.name} {SAYS}"):
            load_graph(**arguments, cache=cache)
        path.unlink()
        path.write_bytes(content)


def test_an_open_pipe_is_refused(tmp_path):
    reading, writing = os.pipe()
    with os.fdopen(reading), os.fdopen(writing, "wb"):
        with pytest.raises(InputError, match=f"/dev/fd/{reading} {SAYS}"):
            load_graph("mine", tmp_path, "raw_udd_hrt", [f"/dev/fd/{reading}"])


@pytest.mark.parametrize("given", [{"triples": "pipe"}, {"triples": [("a", "r", "b")], "valid": "pipe"}])
def test_triples_in_python_may_be_no_pipe(tmp_path, given, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    with pytest.raises(InputError, match=f"pipe {SAYS}"):
        dglke_frugal.train(max_step=1, **given)
    assert os.listdir() == ["pipe"]


def test_split_refuses_a_pipe(tmp_path, refused):
    os.mkfifo(tmp_path / "kg.tsv")
    with refused(SAYS):
        split.main([str(tmp_path / "kg.tsv")])
    assert not (tmp_path / "kg").exists()


def test_a_map_may_be_no_pipe(tmp_path):
    os.mkfifo(tmp_path / "map")
    for names in (read_names(tmp_path / "map"), names_of_file(tmp_path, "entity", tmp_path / "map", 3)):
        with pytest.raises(InputError, match=SAYS):
            len(names)


def test_a_pipe_where_a_map_would_be_written_stays(tmp_path, capsys):
    (tmp_path / "train.tsv").write_text("a\tr\tb\n")
    os.mkfifo(tmp_path / "entities.tsv")
    run = tmp_path / "run"
    run.mkdir()
    keep_name_maps(load_graph("mine", tmp_path, "raw_udd_hrt", ["train.tsv"]), run, tmp_path)
    assert "entities.tsv is not of this run and stays as it is" in capsys.readouterr().out
    assert (tmp_path / "entities.tsv").is_fifo() and (run / "entities.tsv").read_text() == "0\ta\n1\tb\n"


def test_a_list_may_be_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "ids")
    writer = threading.Thread(target=(tmp_path / "ids").write_text, args=("".join(f"{i}\n" for i in range(50_000)),))
    writer.start()
    np.testing.assert_array_equal(read_list(tmp_path / "ids"), np.arange(50_000))
    writer.join()
