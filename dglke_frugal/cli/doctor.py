"""`dglke_frugal doctor`: what is installed, what it can use, and whose commands are on PATH."""
from __future__ import annotations

import argparse
import json
import platform
import shutil
import sys
from importlib import metadata
from pathlib import Path

from .errors import reports_input_errors

PACKAGES = ("dglke-frugal", "torch", "numpy", "scipy", "dgl", "dglke", "ogb")


def _version(package):
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _owner(command):
    """The distribution whose script stands on PATH under a command's name, the script's path, and whether it is ours."""
    path = shutil.which(command)
    if path is None:
        return {"path": None, "owner": None}
    try:
        text = Path(path).read_text(errors="ignore")
    except OSError:
        text = ""
    owner = "dglke-frugal" if "dglke_frugal" in text else "dglke" if "dglke" in text else "unknown"
    return {"path": path, "owner": owner}


def _cuda():
    """What the extension and torch can do with GPUs."""
    from .. import _native

    facts = {"compiled": _native.has_cuda, "devices": [], "reason": None}
    try:
        import torch
    except ImportError as error:
        facts["reason"] = f"torch cannot be imported: {error}"
        return facts
    if not _native.has_cuda:
        facts["reason"] = "the extension was built without CUDA (no nvcc was found)"
    if torch.cuda.is_available():
        facts["devices"] = [{"name": torch.cuda.get_device_name(i), "bytes": torch.cuda.get_device_properties(i).total_memory}
                            for i in range(torch.cuda.device_count())]
    elif facts["reason"] is None:
        facts["reason"] = "no GPU or no driver" if torch.version.cuda else "this torch is a CPU build"
    return facts


def diagnose() -> dict:
    """All findings as plain data."""
    from .. import _native

    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {package: _version(package) for package in PACKAGES},
        "threads": _native.num_threads(),
        "cuda": _cuda(),
        "dglke_train": _owner("dglke_train"),
    }


def _text(facts):
    lines = [f"python        {facts['python']} on {facts['platform']}"]
    lines += [f"{name:<14}{version or 'not installed'}" for name, version in facts["packages"].items()]
    cuda = facts["cuda"]
    lines.append(f"{'threads':<14}{facts['threads']}")
    lines.append(f"{'CUDA kernels':<14}{'compiled' if cuda['compiled'] else 'not compiled'}")
    for i, device in enumerate(cuda["devices"]):
        lines.append(f"{f'GPU {i}':<14}{device['name']}, {device['bytes'] / 2**30:.1f} GiB")
    if cuda["reason"]:
        lines.append(f"{'GPUs':<14}none used: {cuda['reason']}")
    command = facts["dglke_train"]
    if command["path"] is None:
        lines.append("dglke_train   not on PATH; run python -m dglke_frugal train")
    elif command["owner"] == "dglke-frugal":
        lines.append(f"dglke_train   {command['path']}, ours")
    else:
        lines.append(f"dglke_train   {command['path']} belongs to {command['owner']}, not to us: "
                     "reinstall dglke-frugal last, or run python -m dglke_frugal train")
    return "\n".join(lines)


@reports_input_errors
def main(argv):
    """Print the findings as text, or as JSON with --json."""
    parser = argparse.ArgumentParser(prog="dglke_frugal doctor", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args(argv)
    facts = diagnose()
    sys.stdout.write((json.dumps(facts, indent=2) if arguments.json else _text(facts)) + "\n")
