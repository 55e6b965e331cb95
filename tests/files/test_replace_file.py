"""replace_file: whole files or none, links followed, devices and pipes written to."""

import errno
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from evaluation.random_models import random_model
from inference.make_run import write_run

from dglke_frugal.errors import InputError
from dglke_frugal.files import COMPLETE, UNFINISHED, check_replaced, read_json, replace_file, replace_together
from dglke_frugal.training.checkpoint.checkpoint import CheckpointFolder


def test_a_symbolic_link_stays_and_its_target_is_replaced(tmp_path):
    (tmp_path / "far").mkdir()
    target, link, missing = tmp_path / "far" / "target", tmp_path / "link", tmp_path / "far" / "missing"
    target.write_text("old")
    for at, points_to in ((link, "far/target"), (tmp_path / "dangling", "far/missing")):
        at.symlink_to(points_to)
        with replace_file(at, "w") as file:
            file.write("new")
        assert at.is_symlink()
    assert target.read_text() == missing.read_text() == "new"
    assert sorted(os.listdir(tmp_path / "far")) == ["missing", "target"]


def test_what_fails_leaves_the_links_target_as_it_was(tmp_path):
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to("target")
    with pytest.raises(KeyError), replace_file(tmp_path / "link", "w") as file:
        file.write("new")
        raise KeyError
    assert (tmp_path / "link").read_text() == "old" and sorted(os.listdir(tmp_path)) == ["link", "target"]


class Order:
    """What is done to files, in order: "write", "fsync NAME", "rename NAME NAME", "remove NAME"."""

    def __init__(self, monkeypatch, folder):
        self.done, self._folder = [], folder
        fsync, replace, rename, unlink = os.fsync, os.replace, os.rename, os.unlink
        monkeypatch.setattr(os, "fsync", lambda file: (self._note("fsync", f"/proc/self/fd/{file}"), fsync(file)))
        monkeypatch.setattr(os, "replace", lambda old, new: (self._note("rename", old, new), replace(old, new)))
        monkeypatch.setattr(os, "rename", lambda old, new: (self._note("rename", old, new), rename(old, new)))
        monkeypatch.setattr(os, "unlink", lambda path, **_: (self._note("remove", path), unlink(path, **_)))

    def _note(self, what, *paths):
        """A temporary file has at the moment of a rename or an fsync all that was written."""
        real = [os.path.realpath(path) for path in paths]
        sizes = [os.stat(path).st_size for path in real[:1] if os.path.isfile(path)]
        names = ["temporary" if os.path.basename(path).startswith(".x.") else os.path.relpath(path, self._folder)
                 for path in real]
        self.done.append((what, *names, *sizes))


def test_a_file_is_on_the_disk_before_it_has_its_name_and_its_name_before_it_counts(tmp_path, monkeypatch):
    order = Order(monkeypatch, tmp_path)
    with replace_file(tmp_path / "x") as file:
        file.write(b"12345")
        assert order.done == []
    assert order.done == [("fsync", "temporary", 5), ("rename", "temporary", "x", 5), ("fsync", ".")]


def test_files_that_belong_together_are_all_on_the_disk_before_the_first_has_its_name(tmp_path, monkeypatch):
    (tmp_path / "a").write_text("old")
    (tmp_path / "other").write_text("stays")
    with replace_together(tmp_path) as new_folder:
        for name in ("b", "a"):
            (new_folder / name).write_text(f"new {name}")
        order = Order(monkeypatch, tmp_path)
        assert (tmp_path / "a").read_text() == "old"
    assert order.done == [
        ("fsync", UNFINISHED), ("rename", UNFINISHED, COMPLETE), ("fsync", "."),  # from here on the new ones count
        ("remove", "a", 3), ("remove", "b"), ("fsync", "."),
        ("rename", f"{COMPLETE}/a", "a", 5), ("rename", f"{COMPLETE}/b", "b", 5), ("fsync", ".")]
    found = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert found == {"a": "new a", "b": "new b", "other": "stays"}


def test_files_that_belong_together_and_fail_leave_the_old_ones(tmp_path):
    (tmp_path / "a").write_text("old")
    with pytest.raises(KeyError), replace_together(tmp_path) as new_folder:
        (new_folder / "a").write_text("new")
        raise KeyError
    with pytest.raises(InputError, match="cannot write .*; free some space"), replace_together(tmp_path) as new_folder:
        (new_folder / "a").write_text("new")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a": "old"}


def test_a_killed_replacement_is_ended_by_the_next(tmp_path):
    (tmp_path / COMPLETE).mkdir()
    (tmp_path / COMPLETE / "b").write_text("new b")
    (tmp_path / "a").write_text("new a")  # in its place already
    with pytest.raises(InputError, match="was interrupted, or is going on"):
        check_replaced(tmp_path)
    with replace_together(tmp_path) as new_folder:
        assert (tmp_path / "b").read_text() == "new b"
        (new_folder / "c").write_text("newer c")
    check_replaced(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "c"]


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP, errno.EACCES])
def test_a_folder_that_cannot_be_synced_is_written_all_the_same(tmp_path, monkeypatch, number):
    def refuse(path, flags, *_, **__):
        if flags & os.O_DIRECTORY:
            raise OSError(number, os.strerror(number))
        return opened(path, flags, *_, **__)

    opened = os.open
    monkeypatch.setattr(os, "open", refuse)
    with replace_file(tmp_path / "x", "w") as file:
        file.write("x")
    assert (tmp_path / "x").read_text() == "x"


def test_too_many_open_files_are_no_full_disk(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr("tempfile.mkstemp", refuse)
    with pytest.raises(InputError, match="no more open files"), replace_file(tmp_path / "x"):
        pass


def test_permissions_stay(tmp_path):
    path = tmp_path / "private"
    path.write_text("old")
    path.chmod(0o600)
    with replace_file(path) as file:
        file.write(b"new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and path.read_text() == "new"


def test_a_fifo_is_written_to(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    read = []
    reader = threading.Thread(target=lambda: read.append(fifo.read_bytes()))
    reader.start()
    with replace_file(fifo) as file:
        file.write(b"through")
    reader.join(30)
    assert read == [b"through"] and stat.S_ISFIFO(fifo.stat().st_mode)


def test_a_full_device_is_one_sentence():
    with pytest.raises(InputError, match="cannot write /dev/full: No space left on device; free some space"):
        with replace_file("/dev/full", "w") as file:
            file.write("x")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


def test_a_folder_and_a_loop_of_links_are_one_sentence(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    for path in (tmp_path, tmp_path / "loop", tmp_path / "no" / "where"):
        with pytest.raises(InputError, match="cannot write"), replace_file(path):
            pass


@pytest.fixture
def predict(tmp_path):
    run = write_run(tmp_path / "run", random_model("DistMult"))
    (tmp_path / "heads").write_text("3\n")

    def start(output, **options):
        return subprocess.run(
            [sys.executable, "-m", "dglke_frugal", "predict", "--model_path", str(run), "--format", "h_*_*",
             "--data_files", str(tmp_path / "heads"), "--topK", "3", "--output", str(output)],
            stderr=subprocess.PIPE, text=True, timeout=120, **options)

    return start


def test_predict_to_a_full_device_ends_with_2(predict):
    done = predict("/dev/full", stdout=subprocess.PIPE)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "cannot write /dev/full: No space left on device" in done.stderr
    assert "saved" not in done.stdout


def test_predict_to_standard_output_is_the_table_alone(predict, tmp_path):
    predict(tmp_path / "table.tsv", stdout=subprocess.DEVNULL)
    table = (tmp_path / "table.tsv").read_text()
    assert len(table.splitlines()) == 4
    piped = predict("/dev/stdout", stdout=subprocess.PIPE)
    assert (piped.returncode, piped.stdout) == (0, table)
    assert "Inference Done" in piped.stderr
    with open(tmp_path / "redirected", "w") as file:
        file.write("before\n")
        file.flush()
        assert predict("/dev/stdout", stdout=file).returncode == 0
    assert (tmp_path / "redirected").read_text() == "before\n" + table
    assert stat.S_ISLNK(os.lstat("/dev/stdout").st_mode)


@pytest.mark.parametrize("content, says", [("[" * 100_000, "nested too deeply"),
                                           ('{"a": ' + "9" * 9000 + "}", "digits"),
                                           ("{", "Expecting"),
                                           (b"\xff", "utf-8")])
def test_json_that_cannot_be_read(tmp_path, content, says):
    path = tmp_path / "x.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    if says == "digits" and not hasattr(sys, "get_int_max_str_digits"):
        assert read_json(path, "write it again") == {"a": int("9" * 9000)}  # an older Python has no limit
        return
    with pytest.raises(InputError, match=f"cannot read .*x.json: .*{says}.*; write it again") as caught:
        read_json(path, "write it again")
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400


def test_a_file_that_may_not_be_read_is_not_to_be_removed(tmp_path, monkeypatch):
    """A test may run as root, who may read everything, so it is the system that refuses."""

    def refuse(path, *how, **more):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    CheckpointFolder(tmp_path).save(3, {"a": np.ones(3)}, {}, {})
    checkpoint = CheckpointFolder(tmp_path).last()
    monkeypatch.setattr(Path, "read_text", refuse)
    with pytest.raises(InputError, match="manifest.json: Permission denied; check its permissions and its disk"):
        CheckpointFolder(tmp_path).last()
    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(InputError, match="a.npy: .*; check its permissions and its disk"):
        checkpoint.load_into({"a": np.zeros(3)})
