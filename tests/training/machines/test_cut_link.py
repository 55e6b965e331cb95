"""Machines with networks of their own: as namespaces of this host, whose link is cut while they train."""
import random
import subprocess
import sys
import time

import pytest
from training.machines.conftest import KILLS
from training.parallel.conftest import assert_same, trained

from benchmarks import namespaces

pytestmark = pytest.mark.skipif(not namespaces.can_make(), reason="namespaces need root")


def start(names, arguments):
    variables = [{**each, "GLOO_SOCKET_IFNAME": namespaces.CARD, "OMP_NUM_THREADS": "1"}
                 for each in namespaces.environments()]
    return [subprocess.Popen(["ip", "netns", "exec", name, sys.executable, "-m", "dglke_frugal", "train",
                              *map(str, arguments)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             text=True) for name, environment in zip(names, variables)]


@pytest.mark.parametrize("seed", range(-(-KILLS // 4)))
def test_a_cut_link_is_noticed_by_both_and_the_run_goes_on(machines, seed):
    arguments, folder = machines.arguments("--max_step", 100000, "--checkpoint_interval", 20, "--machine_timeout", 3)
    with namespaces.two_namespaces(None) as names:
        processes = start(names, arguments)
        deadline = time.monotonic() + 120
        while not any(folder.glob("checkpoints/step-*/manifest.json")):
            assert time.monotonic() < deadline and all(process.poll() is None for process in processes)
            time.sleep(0.01)
        time.sleep(random.Random(seed).uniform(0, 0.5))  # somewhere in a step or a checkpoint
        subprocess.run(["ip", "-n", names[1], "link", "set", namespaces.CARD, "down"], check=True)
        outputs = [process.communicate(timeout=180)[0] for process in processes]
        assert [process.returncode for process in processes] == [1, 1], outputs
        assert "machine 1 (" in outputs[0].splitlines()[-1] and "machine 0 (" in outputs[1].splitlines()[-1], outputs
        assert all(f"--resume {folder}" in output.splitlines()[-1] for output in outputs)
    last = max(int(path.name[5:]) for path in folder.glob("checkpoints/step-*")) + 20
    machines.run_all(2, "--max_step", last, "--machine_timeout", 60, resume=folder)
    one, _ = machines.run("--max_step", last, "--partition", "hash", "--num_proc", 2)
    assert_same(trained(folder), trained(one))
