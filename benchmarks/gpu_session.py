"""All that a machine with a GPU is needed for, in steps of less than ten minutes: tests, sanitizers, benchmarks.

    python -m benchmarks.gpu_session --out DIR               all steps, one after the other
    python -m benchmarks.gpu_session --out DIR --step tests  one of them
    python -m benchmarks.gpu_session --list                  their commands

Each step leaves NAME.log in DIR, benchmarks also NAME.json, and session.json says how each went and how long it took.
A step that fails does not keep the others from running; the exit code is 1 if one did.
"""
from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Dict, List, Mapping, Sequence

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 570  # of a step
KERNEL_TESTS = ["-m", "pytest", "-q", "-m", "cuda", "tests/kernels", "-k", "not beyond_32_bits"]
SANITIZER = ["compute-sanitizer", "--error-exitcode", "9", "--target-processes", "all"]


def steps(out: Path) -> Dict[str, List[str]]:
    """Command lines by name."""
    python = sys.executable
    commands = {
        "build": [python, "-m", "pip", "install", "--no-build-isolation", "--no-deps", "-e", str(ROOT)],
        "doctor": [python, "-m", "dglke_frugal", "doctor"],
        "tests": [python, "-m", "pytest", "-q", "-m", "cuda", "--durations=20"],
        "memcheck": [*SANITIZER, "--tool", "memcheck", python, *KERNEL_TESTS],
        "racecheck": [*SANITIZER, "--tool", "racecheck", python, *KERNEL_TESTS],
    }
    commands["kernels"] = [python, "-m", "benchmarks.kernels", "--part", "cuda", "--json", str(out / "kernels.json")]
    commands["device_step"] = [python, "-m", "benchmarks.device_step", "--json", str(out / "device_step.json")]
    for part in ("fb15k", "models", "large"):
        commands[f"train_{part}"] = [python, "-m", "benchmarks.train_gpu", "--part", part, "--json",
                                     str(out / "train_gpu.json")]
    commands["ablation"] = [python, "-m", "benchmarks.ablation", "--place", "gpu", "--gpu", "0", "--json",
                            str(out / "ablation.json")]
    return commands


def run(name: str, command: Sequence[str], out: Path, environment: Mapping[str, str]) -> dict:
    """One step; its output goes to a file, and its end to the terminal."""
    began = time.perf_counter()
    log = out / f"{name}.log"
    with open(log, "w") as file:
        try:
            code = subprocess.run(command, cwd=ROOT, stdout=file, stderr=subprocess.STDOUT, timeout=SECONDS,
                                  env=environment).returncode
        except subprocess.TimeoutExpired:
            code = 124
        except FileNotFoundError as error:
            file.write(f"{error}\n")
            code = 127
    result = {"command": list(command), "exit_code": code, "seconds": round(time.perf_counter() - began, 1)}
    print(f"== {name}: exit code {code} after {result['seconds']} s", flush=True)
    print("\n".join(log.read_text(errors="replace").splitlines()[-15:]), flush=True)
    return result


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("gpu-session"), help="folder for logs and JSON (%(default)s)")
    parser.add_argument("--step", nargs="+", help="the steps to run (default: all)")
    parser.add_argument("--list", action="store_true", help="print the commands and run nothing")
    options = parser.parse_args(argv)
    commands = steps(options.out.resolve())
    if options.list:
        for name, command in commands.items():
            print(f"{name}: {' '.join(command)}")
        return 0
    unknown = set(options.step or ()) - set(commands)
    if unknown:
        parser.error(f"no step {', '.join(sorted(unknown))}; there are {', '.join(commands)}")
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "DGLKE_FRUGAL_CUDA": "on"}
    report = out / "session.json"
    done = json.loads(report.read_text()) if report.is_file() else {}
    for name in options.step or commands:
        done[name] = run(name, commands[name], out, environment)
        report.write_text(json.dumps(done, indent=2) + "\n")
    return int(any(done[name]["exit_code"] for name in options.step or commands))


if __name__ == "__main__":
    sys.exit(main())
