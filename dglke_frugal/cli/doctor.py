"""`dglke_frugal doctor`: versions, devices that can be used, and whose commands are on PATH."""

from __future__ import annotations

import json
import platform
import re
import shutil
from importlib import metadata
from pathlib import Path

from ..extras import EXTRAS, install_command, missing, runs_on_this_python
from .errors import reports_input_errors
from .tool_flags import Parser

COMMANDS = ("dglke_train", "dglke_eval", "dglke_predict", "dglke_emb_sim")
PACKAGES = ("dglke-frugal", "torch", "numpy")
HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage")
# Whose tables, the file that says whether they may lie in huge pages, the words for yes, and what root may write there.
ASKED = {"one process": ("enabled", ("always", "madvise"), "madvise"),
         "several": ("shmem_enabled", ("always", "within_size", "advise", "force"), "advise")}


def _version(package):
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _owner(command):
    """The distribution whose script stands on PATH under a command's name, the script's path, and whether it is
    ours."""
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
    """The extension's support of GPUs."""
    from .. import _native

    devices, reason = _native.cuda_devices(with_free_memory=True)
    if not _native.has_cuda:
        reason = _why_not_compiled()
    return {"compiled": _native.has_cuda, "devices": devices, "reason": reason or None}


def _why_not_compiled():
    """The missing part of a build without CUDA kernels; no record says why it was built so."""
    nvcc = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
    missing = "which needs nvcc, and there is none on PATH or in /usr/local/cuda/bin"
    found = f"nvcc is there ({nvcc})" if nvcc else missing
    return f"this build has no CUDA kernels; to have them, install it again with DGLKE_FRUGAL_CUDA=on: {found}"


def _huge_pages():
    """Whether tables of one process and of several lie in huge pages, as they ask for; None where nobody says."""
    found = {}
    for whose, (name, granting, _) in ASKED.items():
        try:
            chosen = re.search(r"\[(\w+)\]", (HUGE_PAGES / name).read_text())
        except OSError:
            chosen = None
        found[whose] = chosen and chosen[1] in granting
    return found


def _extras():
    """Of each extra: what it is for, which of its packages are missing, and the command that installs them; no command
    where they have no release for this Python."""
    return {extra: {"for": purpose, "missing": missing(extra),
                    "install": install_command(extra) if runs_on_this_python(extra) else None}
            for extra, purpose in EXTRAS.items()}


def diagnose() -> dict:
    """All findings as plain data."""
    from .. import _native

    return {"python": platform.python_version(),
            "platform": platform.platform(),
            "packages": {package: _version(package) for package in PACKAGES},
            "extras": _extras(),
            "threads": _native.num_threads(),
            "huge_pages": _huge_pages(),
            "cuda": _cuda(),
            "commands": {command: _owner(command) for command in COMMANDS}}


def _text(facts):
    lines = [f"python        {facts['python']} on {facts['platform']}"]
    lines += [f"{name:<14}{version or 'not installed'}" for name, version in facts["packages"].items()]
    cuda = facts["cuda"]
    lines.append(f"{'threads':<14}{facts['threads']}")
    lines += [_huge_page_line(whose, granted) for whose, granted in facts["huge_pages"].items() if granted is not None]
    lines.append(f"{'CUDA kernels':<14}{'compiled' if cuda['compiled'] else 'not compiled'}")
    for i, device in enumerate(cuda["devices"]):
        lines.append(f"{f'GPU {i}':<14}{device['name']}, {device['total_bytes'] / 2**30:.1f} GiB")
    if cuda["reason"]:
        lines.append(f"{'GPUs':<14}none used: {cuda['reason']}")
    lines += [_command_line(name, found) for name, found in facts["commands"].items()]
    lines += [_extra_line(extra, found) for extra, found in facts["extras"].items()]
    return "\n".join(lines)


def _extra_line(extra, found):
    if not found["missing"]:
        message = "installed"
    elif found["install"] is None:
        message = "not installed: its packages have no release for this Python"
    else:
        message = f"not installed: {found['install']}"
    return f"{'extra':<14}{extra} ({found['for']}): {message}"


def _huge_page_line(whose, granted):
    name, _, word = ASKED[whose]
    return f"{'huge pages':<14}for tables of {whose}: " + ("yes" if granted else (
        f"no, so that large ones take longer to fill and to give back; root can echo {word} > {HUGE_PAGES / name}"))


def _command_line(name, found):
    ours = f"python -m dglke_frugal {name.partition('_')[2]}"
    if found["path"] is None:
        return f"{name:<14}not on PATH; run {ours}"
    if found["owner"] == "dglke-frugal":
        return f"{name:<14}{found['path']}, ours"
    return (
        f"{name:<14}{found['path']} belongs to {found['owner']}, not to us: reinstall dglke-frugal last, or run {ours}")


def own_flags() -> Parser:
    """The command's flags."""
    parser = Parser(prog="dglke_frugal doctor", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


@reports_input_errors
def main(argv):
    """Print the findings as text, or as JSON with --json."""
    arguments = own_flags().parse_args(argv)
    facts = diagnose()
    print(json.dumps(facts, indent=2) if arguments.json else _text(facts))
