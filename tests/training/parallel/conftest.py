"""Training runs of several processes on a small real graph, and the oracle's tables for them."""
import os
import signal
import subprocess
import sys
import time
import uuid
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from shared_memory import names_of
from training.parallel.ranks_oracle import Oracle

from dglke_frugal.cli import flags
from dglke_frugal.options import TrainConfig
from dglke_frugal.training.checkpoint.checkpoint import CheckpointFolder
from dglke_frugal.training.batches.edge_partition import partition_edges
from dglke_frugal.training.batches.sampler import Sampler, SamplerConfig
from dglke_frugal.training.batches.subsampling import triple_weights
from dglke_frugal.training.tables.start_values import STREAMS
from dglke_frugal.training.tables.tables import Tables
from dglke_frugal.training.run.session import load
from dglke_frugal.training.run.run import step_config

FLAGS = ["--dataset", "small", "--format", "raw_udd_hrt", "--data_files", "train.txt", "valid.txt", "test.txt",
         "--model_name", "TransE_l2", "--hidden_dim", "12", "--batch_size", "60", "--neg_sample_size", "20", "--gamma",
         "8", "--lr", "0.1", "--seed", "3", "-rc", "1e-4", "--checkpoint_interval", "1000000", "--log_interval", "10",
         "--matmul", "fp32"]  # for GPUs, whose tables are then the CPU's
LONG = ["--max_step", "1000000", "--log_interval", "20"]

# Run by every process that has this folder on its path, before anything else: what a rank suffers in a test.
SUFFERING = """
import os, random, signal, sys, time
words = sys.orig_argv if hasattr(sys, "orig_argv") else open("/proc/self/cmdline").read().split("\\0")[:-1]
rank = int(words[-1]) if any("rank_process" in word for word in words) else 0
{first}
from dglke_frugal.training.tables.tables import Tables
begin = Tables.begin
def suffer(self, step):
    {what}
    begin(self, step)
Tables.begin = suffer
"""


# What a run suffers that a test stops: after the steps that the test waits for it is slow, so that a busy machine does
# not let it train far beyond them, which the oracle would have to do as well.
SLOW_FROM_STEP_21 = "if step > 20: time.sleep(0.02)"

# Run by every process before anything else: ranks with columns move rows for each other, however small the table is.
CARRIES = """
import dglke_frugal.training.parallel.column_tables as column_tables
column_tables.uses_owner_transfer = lambda config, entities: True
"""


NEEDS_METIS = pytest.mark.skipif(not find_spec("pymetis"), reason="needs pymetis")

# In the place of a GPU: the CPU as one (tests/devices.py), made by this expression, in which `rank` may be used.
DEVICE = """
import sys
sys.path.insert(0, {tests!r})
import devices
import dglke_frugal.store.device.cuda_device
devices.torch.set_num_threads(1)
dglke_frugal.store.device.cuda_device.CudaDevice = lambda index, graphs=True: {expression}
"""


class Ranks:
    """Starts runs below `folder` on the graph in `data`; flags given here go before the common ones.

    gpu: an expression for what --gpu means, see DEVICE; None: a GPU.
    interpreter: of runs to the end (tests/forks.py).
    """

    def __init__(self, data, folder, interpreter=sys.executable):
        self.data, self.folder, self.interpreter, self.gpu = data, folder, interpreter, None
        self._count = 0

    def use_gpus(self):
        """From now on --gpu means GPUs."""
        self.gpu, self.interpreter = None, sys.executable

    def arguments(self, *given):
        self._count += 1
        parent = self.folder / f"runs-{self._count}"
        model = given[given.index("--model_name") + 1] if "--model_name" in given else "TransE_l2"
        on_cpu = [] if "--gpu" in given else ["--flush", "p2f"]  # also where there is no core to flush on
        return ([*FLAGS, *on_cpu, "--data_path", str(self.data), "--save_path", str(parent), *map(str, given)],
                parent / f"{model}_small_0")

    def start(self, arguments, suffering="pass", first="pass", module=("dglke_frugal", "train"),
              interpreter=sys.executable, **environment):
        """The command in a session of its own, its output in one pipe.

        suffering, first: Python that each rank runs before a step, and before anything else.
        """
        hurt = self.folder / f"suffering-{self._count}"
        hurt.mkdir(exist_ok=True)
        if self.gpu:
            first += DEVICE.format(tests=str(Path(__file__).parents[2]), expression=self.gpu)
        written = hurt / f"{uuid.uuid4().hex}.new"
        written.write_text(SUFFERING.format(what=suffering, first=first))
        written.rename(hurt / "sitecustomize.py")  # which others that have been started may be reading
        paths = [str(hurt), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **environment}
        return subprocess.Popen([interpreter, "-m", *module, *map(str, arguments)], stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, start_new_session=True, env=environment)

    def begin(self, *given, **options):
        """A long run that has begun to train and has no name in shared memory: process, folder, ids of the others."""
        arguments, folder = self.arguments(*LONG, *given)
        process = self.start(arguments, **options)
        wait_for(process, "[proc 1][Train](20/")
        others = workers(process.pid)
        assert not names_of(process.pid, *others.values())
        return process, folder, others

    def run(self, *given, resume=None, **options):
        """Run to the end; returns the run's folder and the output."""
        arguments, folder = self.arguments(*given)
        if resume:
            arguments, folder = ["--resume", resume, *given], resume
        return folder, self.end(arguments, **options)

    def end(self, arguments, code=0, **options):
        """What a run says that ends with this exit code."""
        process = self.start(arguments, interpreter=self.interpreter, **options)
        output, _ = process.communicate(timeout=180)
        assert process.returncode == code, output
        return output

    def config(self, *given):
        """What these flags mean, for one process that updates its tables in place."""
        config = TrainConfig.from_flags(flags.given(self.arguments(*given)[0]))
        return replace(config, store=replace(config.store, flush="none"))

    def oracle(self, folder, *given, steps):
        """Tables and optimizer states after `steps` steps of the run in `folder` with these flags, by plain loops."""
        config = self.config(*given)
        graph, ranks = load(config), config.device.num_proc
        partition = partition_edges(config.device.edge_partition, graph, ranks, folder)
        relations = graph.n_relations * (2 if config.model.reciprocal else 1)
        alone = replace(config, device=replace(config.device, num_proc=1))
        start = Tables.create(alone, graph.n_entities, relations, config.run.seed)
        rounding = (config.model.row_dtype, config.run.seed, STREAMS["entity"]) if config.model.is_half else None
        oracle = Oracle(step_config(config), {name: np.array(store.embeddings[:])
                                              for name, store in start.stores.items()}, rounding)
        samplers = [Sampler(*graph.train, graph.n_entities, relations,
                            SamplerConfig(config.batch.batch_size, config.batch.neg_sample_size, config.run.seed, rank,
                                          ranks, relations - graph.n_relations, config.batch.neg_chunk_size or 0),
                            weight=triple_weights(config, graph),
                            part=partition.parts and partition.parts[rank]) for rank in range(ranks)]
        for step in range(steps):
            oracle.train([sampler.batch(step) for sampler in samplers])
        return oracle.arrays()


def trained(folder):
    """Everything in the last checkpoint of a run, by name."""
    checkpoint = CheckpointFolder(folder / "checkpoints").last()
    arrays = {name: np.empty(stored.shape, stored.dtype) for name, stored in checkpoint.arrays.items()}
    checkpoint.load_into(arrays)
    return arrays


def in_floats(arrays):
    """Arrays of a checkpoint, those that are kept in half precision in float32."""
    return {name: (array.astype(np.uint32) << 16).view(np.float32) if array.dtype == np.uint16 else
            array.astype(np.float32) for name, array in arrays.items()}


def assert_same(arrays, expected):
    assert arrays.keys() == expected.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(array.view(np.uint32), expected[name].view(np.uint32), err_msg=name)


def workers(parent):
    """Process ids of the ranks that rank 0 has started, by rank."""
    found = {}
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            with open(f"/proc/{pid}/stat") as stat, open(f"/proc/{pid}/cmdline") as command:
                started_by, words = int(stat.read().rpartition(")")[2].split()[1]), command.read().split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if started_by == parent and any("rank_process" in word for word in words):
            found[int(words[-2])] = pid
    return found


def wait_for(process, text):
    """Read the process's output until a line has the text; returns what was read."""
    lines = []
    for line in process.stdout:
        lines.append(line)
        if text in line:
            return "".join(lines)
    raise AssertionError("".join(lines))


def assert_gone(pids):
    """All processes end within three minutes."""
    deadline = time.monotonic() + 180
    while left := [pid for pid in pids if os.path.exists(f"/proc/{pid}") and "Z" not in state_of(pid)]:
        if time.monotonic() > deadline:
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            raise AssertionError(f"still there: {left}")
        time.sleep(0.02)


def last_line(process, others):
    """What a run that has failed said last; none of its processes is left."""
    output, _ = process.communicate(timeout=180)
    assert_gone(others.values())
    assert process.returncode == 1, output
    return output.splitlines()[-1]


def state_of(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "Z"


def linked(graph, data):
    """A graph in a folder that may be written to, for the id maps of raw_udd formats."""
    for split in ("train", "valid", "test"):
        (data / f"{split}.txt").symlink_to(graph / f"{split}.txt")
    return data


@pytest.fixture(scope="session")
def small(graphs, tmp_path_factory):
    return linked(graphs / "fb15k-small", tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="session")
def fb15k(graphs, tmp_path_factory):
    return linked(graphs / "FB15k", tmp_path_factory.mktemp("FB15k"))


@pytest.fixture
def ranks(small, tmp_path, interpreter):
    return Ranks(small, tmp_path, interpreter)
