"""A writer that dies at any moment leaves a folder whose last checkpoint is complete and no older than it should be."""
import itertools
import gc
import os
import shutil
import sys
import traceback

import numpy as np

from dglke_frugal.training.checkpoint.checkpoint import CheckpointFolder

ROWS = 1000


def arrays(step):
    return {"entity": np.full((ROWS, 40), step, np.float32), "state": np.arange(ROWS, dtype=np.float64) * step}


def check(path, at_least):
    """The last checkpoint is whole and its arrays belong to its step; so for the best one. Returns the last step."""
    folder = CheckpointFolder(path)
    last, best = folder.last(), folder.best()
    assert last.step >= at_least
    for checkpoint in filter(None, (last, best)):
        loaded = {name: np.zeros_like(array) for name, array in arrays(0).items()}
        checkpoint.load_into(loaded)
        for name, array in arrays(checkpoint.step).items():
            np.testing.assert_array_equal(loaded[name], array)
        assert checkpoint.state == {"step": checkpoint.step}
    return last.step


def in_child(work):
    """Run work() in a forked child, which then exits with 0, or with 1 if it raises; return its process id."""
    child = os.fork()
    if child:
        return child
    gc.disable()  # what earlier tests have left may have had threads, which do not live here
    try:
        work()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def test_dead_at_every_operation_on_files(tmp_path):
    """A child ends itself at the k-th file operation of a save, for each k until it gets through."""
    folder = CheckpointFolder(tmp_path / "before")
    folder.save(3, arrays(3), {"a": 1}, {"step": 3})
    folder.mark_best(3)
    folder.save(4, arrays(4), {"a": 1}, {"step": 4})
    for k in range(1, 200):
        path = shutil.copytree(tmp_path / "before", tmp_path / str(k))
        status = os.waitstatus_to_exitcode(os.waitpid(in_child(lambda: save_and_die(k, path)), 0)[1])
        assert status in (0, 7)
        if status == 0:
            assert check(path, 5) == 5
            break
        last = check(path, 4)
        CheckpointFolder(path).save(last + 1, arrays(last + 1), {"a": 1}, {"step": last + 1})  # the next writer
        assert check(path, last + 1) == last + 1
    assert 15 < k < 199


def save_and_die(k, path):
    operations = itertools.count(1)

    def count(event, _):
        if event == "open" or event.startswith(("os.", "shutil.", "fcntl.")):
            if next(operations) == k:
                os._exit(7)

    sys.addaudithook(count)
    folder = CheckpointFolder(path)
    folder.save(5, arrays(5), {"a": 1}, {"step": 5})
    folder.mark_best(5)
