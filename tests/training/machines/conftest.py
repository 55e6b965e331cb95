"""Training runs of several machines, each a process of this one that torchrun's environment variables tell of the
others."""
import os
import socket
import uuid

import pytest
from training.parallel.conftest import Ranks, small  # noqa: F401  (fixtures)


# Of the tests at random moments; a quarter as many processes are stopped and links cut.
KILLS = int(os.environ.get("DGLKE_FRUGAL_RANDOM_KILLS", 2))


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


class Machines(Ranks):
    """Starts runs of several machines below `folder`."""

    def environments(self, machines, **more):
        port, run = str(free_port()), uuid.uuid4().hex
        return [{"RANK": str(machine), "WORLD_SIZE": str(machines), "LOCAL_WORLD_SIZE": "1", "LOCAL_RANK": "0",
                 "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_RUN_ID": run, "OMP_NUM_THREADS": "1",
                 **more} for machine in range(machines)]

    def start_all(self, machines, arguments, each=None, environment=None, **options):
        """The processes. each: further arguments by machine; environment: of all machines."""
        given = each or [()] * machines
        return [self.start([*arguments, *given[machine]], interpreter=self.interpreter, **variables, **options)
                for machine, variables in enumerate(self.environments(machines, **environment or {}))]

    def end_all(self, processes):
        """(exit codes, outputs)."""
        outputs = [process.communicate(timeout=180)[0] for process in processes]
        return [process.returncode for process in processes], outputs

    def run_all(self, machines, *given, resume=None, **options):
        """Run to the end; returns the folder and the outputs."""
        arguments, folder = self.arguments(*given)
        if resume:
            arguments, folder = ["--resume", resume, *given], resume
        codes, outputs = self.end_all(self.start_all(machines, arguments, **options))
        assert codes == [0] * machines, outputs
        return folder, outputs

    def refused_by_all(self, machines, *given, **options):
        """What each machine says last of a run that all refuse, before it has a folder."""
        arguments, folder = self.arguments("--max_step", 4, *given)
        codes, outputs = self.end_all(self.start_all(machines, arguments, **options))
        assert codes == [2] * machines and not folder.exists(), outputs
        assert not any("Traceback" in output for output in outputs), outputs
        return [output.splitlines()[-1] for output in outputs]


@pytest.fixture
def machines(small, tmp_path, interpreter):  # noqa: F811
    return Machines(small, tmp_path, interpreter)


def at_step(step, machine, what):
    """Code for `suffering`: what one machine does before a step."""
    return f"if step == {step} and os.environ['RANK'] == '{machine}': {what}"
