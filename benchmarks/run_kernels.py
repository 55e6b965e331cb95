"""Times each kernel of a run of the command, in each of its processes, as torch's profiler sees them.

    python -m benchmarks.run_kernels --json FILE [--after 4] [--seconds 0.25] train --gpu 0 1 --dataset FB15k ...

What follows the options is a command of dglke_frugal. Each of its processes that uses a GPU is watched for a while,
once it has used it for so many seconds; the run is slower until it ends. Per process:

    steps       how often its most frequent kernel that updates rows was seen
    span_us     from the first kernel's begin to the last one's end, by step
    kernels     microseconds of a step, by kernel. One that waits for other ranks may wait for these to be watched.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Dict, Iterable, NamedTuple, Optional

from . import result_file

WATCHED = "DGLKE_FRUGAL_WATCHED"  # in the environment of a watched process: where to write, after, seconds; as JSON
STEPS_BY = "update_kernel"
ROOT = Path(__file__).resolve().parent.parent


class Seen(NamedTuple):
    """A kernel, in microseconds."""

    kernel: str
    begin: float
    length: float


def by_step(seen: Iterable[Seen]) -> Optional[Dict]:
    """What is told of a process; None if it did not finish a step."""
    seen = list(seen)
    steps = max(Counter(each.kernel for each in seen if STEPS_BY in each.kernel).values(), default=0)
    if steps == 0:
        return None
    lengths: Counter = Counter()
    for each in seen:
        lengths[each.kernel] += each.length / steps
    span = max(each.begin + each.length for each in seen) - min(each.begin for each in seen)
    return {"steps": steps, "span_us": round(span / steps, 2),
            "kernels": {name: round(us, 2) for name, us in lengths.most_common()}}


def watch() -> None:
    """By a process that is about to begin: in a thread, waits for its GPU to be used, and watches it."""
    if WATCHED in os.environ:
        threading.Thread(target=_watch, kwargs=json.loads(os.environ[WATCHED]), daemon=True).start()


def kernel_name(signature: str) -> str:
    """What a profiler calls a kernel, without namespaces and arguments; all products of libraries are one."""
    bare = signature.replace("(anonymous namespace)::", "")
    if bare.startswith("void "):
        bare = bare[len("void ") :]
    name = re.split("[<(]", bare)[0].split("::")[-1].strip()
    return "gemm" if "gemm" in name else name


def _watch(folder: str, after: float, seconds: float) -> None:
    while not _uses_gpu():
        time.sleep(0.1)
    time.sleep(after)
    import torch

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA], acc_events=True) as profile:
        time.sleep(seconds)
    found = by_step(Seen(kernel_name(event.name), event.time_range.start, event.time_range.elapsed_us())
                    for event in profile.events() if event.device_type == torch.autograd.DeviceType.CUDA)
    if found:
        Path(folder, f"{os.getpid()}.json").write_text(json.dumps(found), encoding="utf-8")


def _uses_gpu() -> bool:
    cuda = getattr(sys.modules.get("torch"), "cuda", None)  # another thread may be importing it
    return bool(cuda is not None and getattr(cuda, "is_initialized", bool)())


def run(command, after: float, seconds: float) -> Dict:
    """Runs a command of dglke_frugal. Returns what each of its processes told, in the order in which they began."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "sitecustomize.py").write_text("from benchmarks import run_kernels\n\nrun_kernels.watch()\n", "utf-8")
        python_path = os.pathsep.join([name, str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        watched = json.dumps({"folder": name, "after": after, "seconds": seconds})
        done = subprocess.run([sys.executable, "-m", "dglke_frugal", *command], check=False,
                              env={**os.environ, "PYTHONPATH": python_path, WATCHED: watched})
        files = sorted(folder.glob("*.json"), key=lambda path: int(path.stem))
        found = [json.loads(path.read_text("utf-8")) for path in files]
    return {"command": list(command), "exit_code": done.returncode, "processes": found}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=result_file.result_file, help="write the results here")
    parser.add_argument("--after", type=float, default=4.0, help="seconds of a GPU's use (%(default)s)")
    parser.add_argument("--seconds", type=float, default=0.25, help="to watch it (%(default)s)")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="of dglke_frugal: train --gpu 0 ...")
    options = parser.parse_args()
    report = run(options.command, options.after, options.seconds)
    for process in report["processes"]:
        print(f"{process['steps']} steps of {process['span_us']} us: "
              + ", ".join(f"{name} {us}" for name, us in process["kernels"].items()), flush=True)
    if options.json:
        result_file.write(options.json, report)
    if not report["processes"]:
        print("run_kernels: no process of this command used a GPU for as long as --after and --seconds say; make the "
              "run longer, or --after smaller", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
