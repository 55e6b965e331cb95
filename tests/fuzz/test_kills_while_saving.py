"""A run that is killed at any operation on a file, or finds a full disk there, is the old one or the new one, and goes
on.

Each command runs in a fork (tests/forks.py) in which what it does to files is counted (fuzz/operations.py).
"""
import json
import random
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from dglke_frugal.errors import InputError
from dglke_frugal.files import COMPLETE, UNFINISHED
from dglke_frugal.inference.run import Run
from dglke_frugal.inference.tables import read_table
from dglke_frugal.training.checkpoint.final_state import last_state, optimizer_states
from dglke_frugal.training.checkpoint.run_folder import read_result

COMMAND = """
import json, sys
sys.path.insert(0, {tests!r})
from fuzz.operations import Operations
from dglke_frugal.cli.train import main
operations = Operations({how!r}, {at})
try:
    main({arguments!r})
finally:
    with operations._io_open({log!r}, "w") as file:
        json.dump(operations.log, file)
"""
GRAPH = ["--dataset", "g", "--format", "raw_udd_hrt", "--data_files", "train.txt", "valid.txt", "test.txt"]
FLAGS = ["--hidden_dim", "8", "--batch_size", "16", "--neg_sample_size", "4", "--seed", "3", "--lr", "0.1",
         "--log_interval", "4"]
LAST_RENAMES = 12
TABLES = ("entity", "relation", "projection")
# What each run is given, and whether it is a finished one that is extended; the last ones validate, and keep the best.
BEST = ["--model_name", "DistMult", "--valid", "--eval_interval", "4", "--checkpoint_interval", "6",
        "--early_stop_patience", "3"]
RUNS = {"first": (["--model_name", "TransR"], False), "extended": (["--model_name", "TransR"], True),
        "first best": (BEST, False), "extended best": (BEST, True)}


class Case:
    """One kind of run: what it is before a command, and after the command has run to its end.

    log: the names of the command's operations on files.
    """

    def __init__(self, name, folder, interpreter):
        self.flags, self.extends = RUNS[name]
        self.model, self.folder, self._interpreter, self._count = self.flags[1], folder, interpreter, 0
        draw = random.Random(0)
        for split, count in (("train", 60), ("valid", 10), ("test", 5)):
            lines = (f"n{draw.randrange(20)}\tr{draw.randrange(3)}\tn{draw.randrange(20)}\n" for _ in range(count))
            (folder / f"{split}.txt").write_text("".join(lines))
        self.graph = [*GRAPH, "--data_path", str(folder)]
        self.old = self._new_place() / f"{self.model}_g_0"
        assert self._run(self._start(self.old, 8))[0] == 0  # which writes the names next to the data, too
        self.old = self.old if self.extends else None
        self.new = self.copy()
        code, messages, self.log = self._run(self.command(self.new))
        assert code == 0, messages

    def _new_place(self):
        self._count += 1
        place = self.folder / str(self._count)
        place.mkdir()
        return place

    def copy(self):
        """A folder as it is before the command."""
        run = self._new_place() / f"{self.model}_g_0"
        return shutil.copytree(self.old, run) if self.extends else run

    def _start(self, run, steps):
        return [*self.graph, *FLAGS, *self.flags, "--save_path", str(run.parent), "--max_step", str(steps)]

    def command(self, run):
        return self.resume(run) if self.extends else self._start(run, 16)

    @staticmethod
    def resume(run):
        return ["--resume", str(run), "--max_step", "16"]

    def _run(self, arguments, how=None, at=0):
        """Exit code, output, operations."""
        log = self.folder / "log"
        code = COMMAND.format(tests=str(Path(__file__).parents[1]), arguments=arguments, how=how, at=at, log=str(log))
        done = subprocess.run([self._interpreter, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=120)
        return done.returncode, done.stdout, json.loads(log.read_text()) if done.returncode == 0 else None

    def strike(self, how, at):
        """Strike at one operation of the command, look at what is left, and go on."""
        run = self.copy()
        code, messages, _ = self._run(self.command(run), how, at)
        assert "Traceback" not in messages
        assert code == -signal.SIGKILL if how == "kill" else code in (0, 2), messages
        if run.exists():
            self._check(run)
        code, messages, _ = self._run(self.resume(run))
        if code == 2:  # there was not even a folder with flags, and so nothing to lose
            assert not self.extends and not list(run.glob("config.yaml")) and "is not the folder of a run" in messages
            return
        assert code == 0, messages
        assert not self.extends or "starting at step 0" not in messages, messages
        self._check_is_new(run)

    def _check(self, run):
        """What tools read is the old run or the new one, or they refuse."""
        sound = [each for each in (self.old, self.new) if each is not None]
        views = [self._view(each) for each in sound]
        try:
            served = self._view(run)
        except InputError:  # also where there are no tables yet
            served = None
        if served is not None and served["states"] is None:  # a checkpoint of later steps has taken the place of theirs
            views = [{**view, "states": None} for view in views]
        assert served in [None, *views]
        for name in (f"g_{self.model}_{part}" for part in TABLES):
            try:
                table = read_table(run / f"{name}.npy").tobytes()
            except InputError:
                continue
            assert table in [read_table(each / f"{name}.npy").tobytes() for each in sound]
        raw = {path.name: path.read_bytes() for path in run.glob("g_*.npy")}  # as DGL-KE's tools do
        names = [path.name for path in self.new.glob("g_*.npy")]
        if raw.keys() == set(names):
            assert raw in [{name: (each / name).read_bytes() for name in names} for each in sound]
        try:
            result = read_result(run)
        except InputError:
            return
        assert (result and result["steps"]) in [None, *(read_result(each)["steps"] for each in sound)]
        assert served is None or result["steps"] == served["result"]

    def _view(self, folder):
        """What is served of a run: its tables, the optimizer states that go with them, and the steps of its result."""
        loaded = Run.load(folder)
        tables = [name for name in TABLES if getattr(loaded.model, name) is not None]
        states = optimizer_states(folder, tables)
        return {"tables": {name: getattr(loaded.model, name).tobytes() for name in tables},
                "states": states and {name: states[name].tobytes() for name in tables},
                "result": read_result(folder)["steps"]}

    def _check_is_new(self, run):
        """All arrays that a run leaves are those of the uninterrupted one, and nothing else is left."""
        assert not (run / COMPLETE).exists() and not (run / UNFINISHED).exists()
        assert self._view(run) == self._view(self.new)
        arrays, expected = ({path.relative_to(each): path.read_bytes() for path in each.rglob("*.npy")}
                            for each in (run, self.new))
        assert arrays == expected
        assert last_state(run).step == last_state(self.new).step


@pytest.fixture(scope="module")
def cases(interpreter, tmp_path_factory):
    made = {}

    def case(name):
        if name not in made:
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("OMP_NUM_THREADS", "1")
                made[name] = Case(name, tmp_path_factory.mktemp("saving"), interpreter)
        return made[name]

    return case


@pytest.mark.parametrize("name", ["first", "extended best"])  # the others have their renames in part
def test_a_kill_at_every_rename_of_the_last_checkpoint_and_of_saving(cases, name):
    case = cases(name)
    renames = [at for at, operation in enumerate(case.log, 1) if operation in ("rename", "replace")]
    assert len(renames) >= LAST_RENAMES
    for at in renames[-LAST_RENAMES:]:
        case.strike("kill", at)


@pytest.mark.fuzz(seeds=8)
def test_a_kill_or_a_full_disk_at_any_operation(cases, fuzz_seed):
    draw = random.Random(fuzz_seed)
    case = cases(sorted(RUNS)[fuzz_seed % len(RUNS)])
    for _ in range(2):
        how, at = draw.choice(("kill", "full")), draw.randint(1, len(case.log))
        case.strike(how, at)
