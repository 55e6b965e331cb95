"""What a user types: torchrun on each machine, a process that dies, and a run that goes on by itself."""
import os
import signal
import subprocess
import sys
import time

from training.machines.conftest import free_port
from training.parallel.conftest import SUFFERING, assert_same, trained


def children(pid):
    """Processes that a process has started."""
    with open(f"/proc/{pid}/task/{pid}/children") as found:
        return [int(child) for child in found.read().split()]


def test_torchrun_restarts_a_run_that_lost_a_machine(machines, tmp_path):
    arguments, folder = machines.arguments("--max_step", 400, "--checkpoint_interval", 100, "--resume", "auto")
    # Both wait after the checkpoint, so that the run has not ended before the kill, however late that comes.
    killed, hurt = tmp_path / "killed", tmp_path / "suffering"
    hurt.mkdir()
    waits = f"while step == 150 and not os.path.exists({str(killed)!r}): time.sleep(0.01)"
    (hurt / "sitecustomize.py").write_text(SUFFERING.format(what=waits, first="pass"))
    endpoint = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc_per_node", "1",
               "--rdzv_backend", "c10d", "--rdzv_endpoint", endpoint, "--max-restarts", "3", "-m", "dglke_frugal",
               "train", *arguments]
    outputs = [open(tmp_path / f"output-{machine}", "w+") for machine in range(2)]
    paths = os.pathsep.join([str(hurt), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": paths,
                   "PYTHON_EXEC": machines.interpreter}  # of the workers
    agents = [subprocess.Popen(list(map(str, command)), stdout=output, stderr=output, env=environment)
              for output in outputs]
    deadline = time.monotonic() + 180
    while not any(folder.glob("checkpoints/step-*/manifest.json")):
        assert time.monotonic() < deadline and all(agent.poll() is None for agent in agents), messages(outputs)
        time.sleep(0.01)
    (victim,) = children(agents[1].pid)
    os.kill(victim, signal.SIGKILL)
    killed.touch()
    codes = [agent.wait(timeout=240) for agent in agents]
    assert codes == [0, 0], messages(outputs)
    one, _ = machines.run("--max_step", 400, "--partition", "hash", "--num_proc", 2)
    assert_same(trained(folder), trained(one))


def messages(outputs):
    for output in outputs:
        output.seek(0)
    return "\n".join(output.read() for output in outputs)
