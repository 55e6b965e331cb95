"""Interpreters that have imported torch already: to import it takes a process two or three seconds of a core.

A server imports what runs need and forks for each of them. `Forks.interpreter` stands for sys.executable in a command:
a small script that hands its arguments, environment, folder and open files to the server, and ends as the forked
process does; what it is sent by signal the process gets, too. A process starts others by the same script. For runs of
which a test wants the result: their process id is the script's, /proc shows the server's command line, and what
libraries but torch read from the environment when they are loaded is as it was for the server.
"""
import atexit
import contextlib
import fcntl
import gc
import importlib
import marshal
import os
import random
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
import weakref
from pathlib import Path

IMPORTED = ("torch", "torch._dynamo", "dglke_frugal.cli.main", "dglke_frugal.cli.train",
            "dglke_frugal.store.device.cuda_device", "dglke_frugal.training.run.session",
            "dglke_frugal.training.parallel.train_ranks", "dglke_frugal.training.parallel.column_run",
            "dglke_frugal.training.step.device_columns", "dglke_frugal.training.step.device_step", "devices")
START_SECONDS = 300
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGTSTP, signal.SIGCONT)
INSTEAD = {signal.SIGTSTP: signal.SIGSTOP}  # which would stop the script alone

# Run by an interpreter with nothing imported, since it is started for each process: `signal` and `socket` would make
# enumerations of their constants, which takes longer than the rest.
SCRIPT = """#!{python} -SE
import _signal, _socket, marshal, os, sys, time
connection = _socket.socket(_socket.AF_UNIX)
for _ in range({seconds} * 50):
    try:
        connection.connect({path!r})
        break
    except FileNotFoundError:  # the server is importing
        time.sleep(0.02)
files = [0, 1, 2]
for name in os.listdir("/proc/self/fd"):
    if int(name) > 2 and int(name) != connection.fileno() and os.path.exists("/proc/self/fd/" + name):
        files.append(int(name))
request = marshal.dumps((sys.argv, dict(os.environ), os.getcwd(), files))
rights = b"".join(number.to_bytes(4, sys.byteorder) for number in files)
connection.sendmsg([len(request).to_bytes(8, "little")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
connection.sendall(request)
for number in {forwarded!r}:
    _signal.signal(number, lambda number, frame: connection.send(bytes([number])))
status = int.from_bytes(connection.recv(4), "little")
if os.WIFSIGNALED(status):
    if os.WTERMSIG(status) in {forwarded!r}:
        _signal.signal(os.WTERMSIG(status), _signal.SIG_DFL)
    os.kill(os.getpid(), os.WTERMSIG(status))
os._exit(os.WEXITSTATUS(status))
"""


class Forks:
    """A server, started here.

    Attributes:
        interpreter: the script.
    """

    def __init__(self, folder: Path):
        """folder: for the script and the server's socket, whose path must be short."""
        path = str(folder / "forks")
        self.interpreter = str(folder / "interpreter")
        with open(self.interpreter, "w", encoding="utf-8") as script:
            script.write(SCRIPT.format(python=sys.executable, path=path, seconds=START_SECONDS,
                                       forwarded=tuple(map(int, FORWARDED))))
        os.chmod(self.interpreter, 0o755)
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1",  # else it starts threads
                       "TORCH_CPP_LOG_LEVEL": "FATAL"}  # as several machines have it
        self._server = subprocess.Popen([sys.executable, __file__, path, self.interpreter], stdin=subprocess.PIPE,
                                        env=environment)

    def close(self):
        self._server.stdin.close()  # it ends then
        self._server.wait()


def serve(path, interpreter):
    """Fork for each connection, until stdin ends."""
    sys.path.insert(1, str(Path(__file__).parents[1]))
    os.fsync = lambda file: None  # as conftest.py has it
    for name in IMPORTED:
        importlib.import_module(name)
    assert len(os.listdir("/proc/self/task")) == 1, "a process with threads cannot be forked"
    for finalizer in weakref.finalize._registry:  # of torch's libraries, which take long and free what ends anyway
        finalizer.atexit = False
    gc.collect()
    gc.freeze()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path + ".new")
        listening.listen()
        os.rename(path + ".new", path)
        running = {}  # (process, its script's connection, file that is ready when the process has ended) by each file
        while True:
            for file in select.select([listening, sys.stdin, *running], [], [])[0]:
                if file is sys.stdin:
                    os._exit(0)  # without what libraries report at the end
                if file is listening:
                    connection, _ = listening.accept()
                    process = _start(connection, interpreter, [listening, *running])
                    if process is not None:
                        ended = os.pidfd_open(process)
                        running[connection] = running[ended] = process, connection, ended
                elif file in running:
                    _attend(running, file)


def _attend(running, file):
    """What a script has sent, or that one of both, process and script, has ended."""
    process, connection, ended = running[file]
    number = _receive(connection, 1) if file is connection else b""
    if number:
        os.kill(process, INSTEAD.get(number[0], number[0]))
        return
    if file is connection:  # the script is gone
        os.kill(process, signal.SIGKILL)
    status = os.waitpid(process, 0)[1]
    with contextlib.suppress(OSError):
        connection.sendall(status.to_bytes(4, "little"))
    del running[connection], running[ended]
    connection.close()
    os.close(ended)


def _receive(connection, most):
    """What a script has sent; nothing if it is gone."""
    try:
        return connection.recv(most)
    except OSError:
        return b""


def _start(connection, interpreter, files):
    """Fork the process that a script asks for; None if the script is gone. files: of the server, which the process
    closes."""
    try:
        size, received, _, _ = socket.recv_fds(connection, 8, 64)
    except OSError:
        return None
    missing, request = int.from_bytes(size, "little"), b""
    while len(request) < missing and (part := _receive(connection, 1 << 20)):
        request += part
    process = None
    if 0 < len(request) == missing:
        argv, environment, folder, numbers = marshal.loads(request)
        process = os.fork()
        if process == 0:
            for file in [connection, *files]:
                os.close(file if isinstance(file, int) else file.detach())
            _become([interpreter, *argv[1:]], environment, folder, dict(zip(numbers, received)))
    for each in received:
        os.close(each)
    return process


def _become(argv, environment, folder, files):
    """An interpreter with this command line. files: what is open under which number. Does not return."""
    _number(files)
    for number in FORWARDED:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    random.seed()
    if environment.get("OMP_NUM_THREADS", "").isdecimal():
        sys.modules["torch"].set_num_threads(int(environment["OMP_NUM_THREADS"]))
    sys.executable, sys.orig_argv = argv[0], argv
    own = str(Path(__file__).parent)
    paths = [entry for entry in environment.get("PYTHONPATH", "").split(os.pathsep) if entry]
    sys.path[:] = [folder if argv[1] == "-m" else "", *paths, *(entry for entry in sys.path[1:] if entry != own)]
    code = 0
    try:
        importlib.invalidate_caches()
        sys.modules.pop("sitecustomize", None)
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module("sitecustomize")
        if argv[1] == "-u":  # of torchrun
            del argv[1]
        if argv[1] == "-m":
            sys.argv = argv[2:]
            runpy.run_module(argv[2], run_name="__main__", alter_sys=True)
        elif argv[1] != "-c":
            sys.argv, sys.path[0] = argv[1:], os.path.dirname(argv[1])
            runpy.run_path(argv[1], run_name="__main__")
        else:
            sys.argv = ["-c", *argv[3:]]
            exec(compile(argv[2], "<string>", "exec"), {"__name__": "__main__"})
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
        if code and not isinstance(ending.code, int):
            print(ending.code, file=sys.stderr)
    except BaseException:  # as an interpreter does
        traceback.print_exc()
        code = 1
    try:
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _number(files):
    """Give open files the numbers that they are to have: {number: as which it is open}."""
    above = max(*files, *files.values()) + 1
    moved = {number: fcntl.fcntl(given, fcntl.F_DUPFD, above) for number, given in files.items()}  # out of their way
    for given in files.values():
        os.close(given)
    for number, given in moved.items():
        os.dup2(given, number)
        os.close(given)


if __name__ == "__main__":
    serve(*sys.argv[1:])
