"""Threads that the system does not give: one sentence, exit code 2, and no thread is left."""

import json
import re
import resource
import subprocess
import sys

import pytest

from dglke_frugal.options import DeviceConfig, TrainConfig
from dglke_frugal.errors import InputError
from dglke_frugal.training.processes import available_threads
from dglke_frugal.training.run import session
from dglke_frugal.training.processes.available_threads import check_threads

# What a container with a small limit does, also for root: address space for 60 stacks of 1 GiB, and no more.
LIMITED = """
import json, os, resource, sys
import numpy, torch
from dglke_frugal.cli.train import main
with open("/proc/self/statm") as statm:
    used = int(statm.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (60 << 30), used + (60 << 30)))
for threads, arguments in json.loads(sys.argv[1]):
    os.environ["OMP_NUM_THREADS"] = threads
    try:
        main(arguments)
    except SystemExit as ended:
        print("ended with", ended.code, "and", len(os.listdir("/proc/self/task")), "threads")
"""


def test_an_error_of_the_system_is_one_sentence(runs):
    cases = [("1", ["--sampler_threads", 200]), ("1", ["--flush", "p2f", "--flush_threads", 200]),
             ("1", ["--num_proc", 2, "--num_thread", 200]), ("200", [])]
    given = json.dumps([(threads, runs.arguments("--max_step", 3, *flags)[0]) for threads, flags in cases])
    soft = 1 << 30  # glibc takes a thread's stack size from here
    done = subprocess.run([sys.executable, "-c", LIMITED, given], capture_output=True, text=True, timeout=300,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (soft, resource.RLIM_INFINITY)))
    messages = done.stderr.splitlines()
    assert len(messages) == len(cases), done.stderr
    assert all("the system gives this process no more threads" in message for message in messages), done.stderr
    ended = re.findall(r"ended with (\d+) and (\d+) threads", done.stdout)
    assert [code for code, _ in ended] == ["2"] * len(cases) and all(int(left) < 20 for _, left in ended), ended


def test_too_many_in_all_are_refused_by_the_flag_that_asks_for_most(monkeypatch):
    monkeypatch.setattr(available_threads, "most_threads", lambda: 100)
    check_threads({"--num_thread 40": 80, "--flush_threads 10": 20})
    with pytest.raises(InputError, match="--num_thread 40 makes this 101 threads in all, and this machine takes 100"):
        check_threads({"--num_thread 40": 80, "--flush_threads 10": 21})


def test_the_systems_limits_count(monkeypatch, tmp_path):
    limit = tmp_path / "threads-max"
    limit.write_text("77\n")
    monkeypatch.setattr(available_threads, "SYSTEM", (str(limit), str(tmp_path / "missing")))
    assert available_threads.most_threads() <= 77


@pytest.mark.parametrize("device, threads", [
    (DeviceConfig(), 12), (DeviceConfig(num_proc=3), 1), (DeviceConfig(num_proc=3, num_thread=5), 5),
    *((DeviceConfig(gpu=(0, 1, 2), parallel=parallel), 4) for parallel in ("auto", "rows", "columns")),
    (DeviceConfig(gpu=(0, 0), num_thread=7), 7)])
def test_ranks_on_gpus_have_their_share_of_the_cores(device, threads, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(session.os, "sched_getaffinity", lambda _: range(12))
    assert session.thread_count(TrainConfig(device=device)) == threads


@pytest.mark.parametrize("wanted", ["\u00b2", "", "many", "0", "-3", "1.5", "9" * 5000])
def test_a_number_of_threads_that_is_none_takes_all_cores(wanted, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", wanted)
    monkeypatch.setattr(session.os, "sched_getaffinity", lambda _: range(12))
    assert session.thread_count(TrainConfig()) == 12


@pytest.mark.parametrize("given, messages", [
    ({"WORLD_SIZE": "abc"}, "WORLD_SIZE is 'abc'"), ({"WORLD_SIZE": "2"}, "RANK is not set"),
    ({"WORLD_SIZE": "2", "RANK": "first"}, "RANK is 'first'"), ({"WORLD_SIZE": "-2"}, "WORLD_SIZE is -2"),
    ({"WORLD_SIZE": "2", "RANK": "-1"}, "RANK is -1, and must be from 0 to 1"),
    ({"WORLD_SIZE": "2", "RANK": "2"}, "RANK is 2, and must be from 0 to 1"),
    ({"WORLD_SIZE": "2", "RANK": "0", "LOCAL_WORLD_SIZE": "1", "MASTER_PORT": "99999"}, "MASTER_PORT is 99999"),
    ({"WORLD_SIZE": "2", "RANK": "0", "LOCAL_WORLD_SIZE": ""}, "LOCAL_WORLD_SIZE is ''")])
def test_what_torchrun_does_not_give_is_reported(runs, given, messages, monkeypatch, refused):
    for name in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    with refused(f"the environment variable {messages}", "unset WORLD_SIZE"):
        runs("--max_step", 1)
