"""Checkpoints: complete or not there, exact, and refused in a sentence where they do not fit."""

import errno
import json
import os
import shutil
import tracemalloc

import numpy as np
import pytest

from dglke_frugal.errors import InputError
from dglke_frugal.store import row_blocks
from dglke_frugal.training.checkpoint.checkpoint import CheckpointFolder

CONFIG = {"model_name": "TransE_l2", "lr": 0.1, "seed": 3, "shape": (1, 2)}


def tables(step=0):
    """Arrays as the trainer has them: strided rows of a padded table, its state, relations, a counter."""
    rng = np.random.default_rng(step)
    padded = rng.random((1000, 32)).astype(np.float32)
    return {"entity": padded[:, :20], "entity_state": padded[:, 20], "relation": rng.random((7, 3, 5)),
            "counts": rng.integers(0, 1 << 60, 11), "empty": np.zeros((0, 4), np.float32)}


def zeros_like(arrays):
    return {name: np.zeros_like(array) for name, array in arrays.items()}


def assert_equal(loaded, expected):
    assert set(loaded) == set(expected)
    for name in expected:
        np.testing.assert_array_equal(loaded[name], expected[name], err_msg=name)


@pytest.fixture
def folder(tmp_path):
    return CheckpointFolder(tmp_path / "checkpoints")


@pytest.mark.parametrize("block_bytes", [1, 1000, 1 << 20])  # one row, some rows, everything at a time
def test_everything_comes_back(folder, monkeypatch, block_bytes):
    monkeypatch.setattr(row_blocks, "BLOCK_BYTES", block_bytes)
    folder.save(5, tables(), CONFIG, {"best_mrr": 0.5, "epochs_without": 2})
    checkpoint = folder.last()
    checkpoint.check_config(CONFIG)
    assert (checkpoint.step, checkpoint.state) == (5, {"best_mrr": 0.5, "epochs_without": 2})
    padded = np.full((1000, 32), -1, np.float32)
    loaded = {**zeros_like(tables()), "entity": padded[:, :20], "entity_state": padded[:, 20]}
    checkpoint.load_into(loaded)
    assert_equal(loaded, tables())
    assert (padded[:, 21:] == -1).all()
    np.testing.assert_array_equal(np.load(checkpoint.path / "entity.npy"), tables()["entity"])  # ordinary .npy files


def test_the_last_and_the_best_are_kept(folder):
    assert folder.last() is None and folder.best() is None
    for step in (10, 20, 30, 40):
        folder.save(step, tables(step), CONFIG)
        if step == 20:
            folder.mark_best(step)
    assert sorted(path.name for path in folder.path.glob("step-*")) == ["step-000000000020", "step-000000000040"]
    assert (folder.best().step, folder.last().step) == (20, 40)
    folder.mark_best(40)
    assert folder.best().step == 40 and len(list(folder.path.glob("step-*"))) == 1
    with pytest.raises(ValueError):
        folder.mark_best(50)


def test_steps_are_numbers_not_text(folder):
    for step in (999_999_999_999, 1_000_000_000_001):
        folder.save(step, tables(), CONFIG)
    folder.mark_best(1_000_000_000_001)
    assert folder.last().step == 1_000_000_000_001


def test_a_table_is_never_in_memory_twice(folder):
    size = 64 << 20
    table = np.lib.format.open_memmap(folder.path.parent / "table.npy", "w+", np.float32, (size // 512, 128))
    tracemalloc.start()
    folder.save(1, {"table": table}, CONFIG)
    folder.last().load_into({"table": table})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < size / 8  # a few blocks


def test_another_configuration_is_refused_and_the_difference_named(folder):
    checkpoint = folder.save(1, tables(), CONFIG)
    with pytest.raises(InputError) as error:
        checkpoint.check_config({**CONFIG, "lr": 0.25, "gamma": 12.0, "seed": 3})
    assert "lr was 0.1 and is 0.25" in str(error.value)
    assert "gamma was not in use and is 12.0" in str(error.value)
    assert "seed" not in str(error.value)


def test_other_arrays_are_refused_before_anything_is_overwritten(folder):
    checkpoint = folder.save(1, tables(), CONFIG)
    for change, message in [
        ({"relation": np.zeros((8, 3, 5))}, "relation in .* is <f8 \\(7, 3, 5\\), but float64 \\(8"),
        ({"counts": np.zeros(11, np.int32)}, "counts in"),
        ({"projection": np.zeros(3)}, "are needed")]:
        arrays = {**zeros_like(tables()), **change}
        with pytest.raises(InputError, match=message):
            checkpoint.load_into(arrays)
        assert not any(array.any() for array in arrays.values())


def damage_middle(path):
    with open(path, "r+b") as file:
        file.seek(path.stat().st_size // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 16]))


def damage_header(path):
    data = path.read_bytes()
    path.write_bytes(data.replace(b"'<f4'", b"'<i4'", 1))


@pytest.mark.parametrize("damage, message", [
    (damage_middle, "is damaged: its checksum"),
    (damage_header, "it holds int32"),
    (lambda path: os.truncate(path, path.stat().st_size - 1), "bytes instead of"),
    (lambda path: path.write_bytes(path.read_bytes() + b"x"), "bytes instead of"),
    (lambda path: path.unlink(), "is missing")])
def test_a_damaged_file_is_named(folder, damage, message):
    checkpoint = folder.save(1, tables(), CONFIG)
    damage(checkpoint.path / "entity.npy")
    with pytest.raises(InputError, match=f"entity.npy.*{message}.*remove .*step-000000000001"):
        checkpoint.load_into(zeros_like(tables()))


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": 2}', '{"format": 1, "step": 1}',
                                     '{"format": 1, "step": 1, "config": {}, "state": {}, "arrays": '
                                     '{"../x": {"shape": [1], "dtype": "f4", "bytes": 1, "crc32": 1}}}'])
def test_a_damaged_manifest_is_named(folder, content):
    checkpoint = folder.save(1, tables(), CONFIG)
    (checkpoint.path / "manifest.json").write_text(content)
    with pytest.raises(InputError, match="step-000000000001"):
        folder.last()


def test_a_damaged_best_file_is_named(folder):
    folder.save(1, tables(), CONFIG)
    for content in ("1", '{"step": "1"}'):
        (folder.path / "best.json").write_text(content)
        with pytest.raises(InputError, match="best.json cannot be read"):
            folder.best()


def test_a_manifest_of_a_version_without_checksums_is_read(folder):
    path = folder.save(1, tables(), CONFIG).path / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["crc32"]
    path.write_text(json.dumps(manifest))
    assert folder.last().step == 1


@pytest.mark.parametrize("change", [{"state": 5}, {"step": 7}, {"config": {**CONFIG, "lr": 3}}, {"more": 1}])
def test_a_changed_manifest_is_refused(folder, change):
    path = folder.save(1, tables(), CONFIG).path / "manifest.json"
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps(manifest))  # laid out otherwise
    assert folder.last().step == 1
    path.write_text(json.dumps({**manifest, **change}))
    with pytest.raises(InputError, match="manifest.json cannot be read .it has been changed.*remove .*step-000000"):
        folder.last()


def test_a_full_disk_leaves_the_last_checkpoint(folder, monkeypatch):
    folder.save(1, tables(1), CONFIG)
    synced = []

    def full(descriptor):
        synced.append(descriptor)
        if len(synced) == 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="No space left on device; free some space"):
        folder.save(2, tables(2), CONFIG)
    monkeypatch.undo()
    assert sorted(path.name for path in folder.path.iterdir()) == ["step-000000000001"]
    loaded = zeros_like(tables())
    folder.last().load_into(loaded)
    assert_equal(loaded, tables(1))


def test_a_checkpoint_is_on_the_disk_before_it_has_its_name_and_its_name_before_others_go(folder, monkeypatch):
    folder.save(1, tables(1), CONFIG)
    fsync, rename, synced, order = os.fsync, os.rename, {}, []

    def note_sync(descriptor):
        path = os.path.realpath(f"/proc/self/fd/{descriptor}")
        synced[os.path.basename(path)] = os.stat(path).st_size  # a file has all its bytes at that moment
        order.append(os.path.basename(path))
        fsync(descriptor)

    def note_rename(old, new):
        order.append((old.name, new.name))
        rename(old, new)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(os, "rename", note_rename)
    files = {path.name: path.stat().st_size for path in folder.save(2, tables(2), CONFIG).path.iterdir()}
    assert set(order[: len(files)]) == set(files) and files.items() <= synced.items()
    assert order[len(files):] == [".unfinished-2", (".unfinished-2", "step-000000000002"), "checkpoints",
                                  ("step-000000000001", ".removed-1")]


def test_a_disk_that_is_too_small_is_refused_before_writing(folder, monkeypatch):
    folder.save(1, tables(), CONFIG)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10, 9, 1))
    with pytest.raises(InputError, match="needs .* bytes, but .* has 1 left"):
        folder.save(2, tables(), CONFIG)
    assert folder.last().step == 1


def test_what_cannot_be_stored_is_refused(folder):
    for arrays in ({"../x": np.zeros(1)}, {"x": np.zeros(())}, {"x": np.array([{}])}, {"x": np.zeros(1, "i4,f4")}):
        with pytest.raises(ValueError):
            folder.save(1, arrays, CONFIG)
        assert folder.last() is None


def test_manifest_is_plain_json(folder):
    checkpoint = folder.save(1, tables(), CONFIG)
    manifest = json.loads((checkpoint.path / "manifest.json").read_text())
    assert manifest["config"] == {**CONFIG, "shape": [1, 2]}
    assert manifest["arrays"]["entity"]["bytes"] == (checkpoint.path / "entity.npy").stat().st_size
