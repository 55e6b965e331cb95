"""Fixtures that many tests share: where the reference data lies, and which tests can run here."""
import contextlib
import os
import re
import signal
import tempfile
from pathlib import Path

import pytest

# Tests run side by side, most with threads, some with processes of several: whoever waits leaves the cores to others.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.fsync = lambda file: None  # which takes milliseconds; no test outlives a power failure. tests/forks.py has it, too

ROOT = Path(__file__).resolve().parent.parent


class Reference(type(Path())):
    """Reference material (golden traces, real graphs): next to the checkout, or where the variable says.

    A path below it that is not there ends the test that asks for it with one sentence.
    """

    def __truediv__(self, name):
        path = super().__truediv__(name)
        if not path.exists():
            message = (f"needs the reference data at {path} "
                       "(set DGLKE_FRUGAL_REFERENCE to the folder of golden and data)")
            if os.environ.get("CI"):
                pytest.fail(message)
            pytest.skip(message)
        return path


@pytest.fixture(scope="session")
def reference():
    """Folder of all reference material."""
    return Reference(os.environ.get("DGLKE_FRUGAL_REFERENCE", ROOT.parent / "shared"))


@pytest.fixture(scope="session")
def golden(reference):
    """Folder of step-by-step traces of genuine DGL-KE."""
    return reference / "golden"


@pytest.fixture(scope="session")
def graphs(reference):
    """Folder of real graphs in DGL-KE's layouts."""
    return reference / "data"


@contextlib.contextmanager
def forked_interpreter():
    from forks import Forks

    with tempfile.TemporaryDirectory() as folder:  # whose path is short
        forks = Forks(Path(folder))
        yield forks.interpreter
        forks.close()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    """Of pytest-xdist: all its workers share an interpreter."""
    if not hasattr(node.config, "interpreter"):
        opened = contextlib.ExitStack()
        node.config.interpreter = opened.enter_context(forked_interpreter())
        node.config.add_cleanup(opened.close)
    node.workerinput["interpreter"] = node.config.interpreter


@pytest.fixture(scope="session")
def interpreter(request):
    """Of processes on the CPU (tests/forks.py)."""
    shared = getattr(request.config, "workerinput", {}).get("interpreter")
    with contextlib.nullcontext(shared) if shared else forked_interpreter() as path:
        yield path


@pytest.fixture
def refused(capsys):
    """`with refused(sentence):` a command ends with exit code 2 and one line on standard error, in which the sentence,
    or the pattern, stands; or each of several."""
    @contextlib.contextmanager
    def ends_with(*sentences):
        with pytest.raises(SystemExit) as stopped:
            yield
        error = capsys.readouterr().err
        assert stopped.value.code == 2 and error.count("\n") == 1, error
        for sentence in sentences:
            assert sentence in error or re.search(sentence, error), error

    return ends_with


@pytest.fixture
def one_torch_thread():
    """For small tables: threads would only wait for each other."""
    import torch
    from threads import threads_as_before

    with threads_as_before():
        torch.set_num_threads(1)
        yield


def pytest_configure():
    # Jobs in the background ignore SIGINT, those under nohup SIGHUP, and so would the runs that tests start and stop.
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


def pytest_collection_modifyitems(items):
    needing_cuda = [item for item in items if "cuda" in item.keywords]
    if not needing_cuda:
        return
    import torch

    if not torch.cuda.is_available():
        for item in needing_cuda:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))
