"""The commit that a tree was made from, also where there is no git: the line in its file .commit.

    python -m benchmarks.commit FOLDER     # after a plain copy of this tree to FOLDER: writes FOLDER/.commit

`git archive` fills the file in by itself (.gitattributes), and setup.py does in a source distribution. Uses nothing but
the standard library, for setup.py runs it where nothing is installed.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Optional

ROOT = Path(__file__).resolve().parent.parent
FILE = ".commit"
# What a figure depends on.
SOURCES = ("benchmarks", "csrc", "datasets", "dglke_frugal", "recipes", "CMakeLists.txt", "pyproject.toml", "setup.py",
           ":(exclude)benchmarks/results")  # fmt: skip


def commit(root: Path = ROOT) -> Optional[str]:
    """Ten digits of the commit, with a plus if the sources have changed since; None if nobody knows."""
    if _git(root, "rev-parse", "--show-toplevel") == str(root.resolve()):  # not a repository around a copy
        digits = _git(root, "rev-parse", "--short=10", "HEAD")
        changed = _git(root, "status", "--porcelain", "--untracked-files=all", "--", *SOURCES)
        return digits and digits + ("" if changed == "" else "+")
    try:
        found = re.fullmatch(r"([0-9a-f]{10})[0-9a-f]*(\+?)", "".join((root / FILE).read_text().split()))
    except OSError:
        return None
    return found and found[1] + found[2]


def _git(root: Path, *arguments: str) -> Optional[str]:
    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def write(folder: Path, root: Path = ROOT) -> None:
    """Leave the commit of `root` in its copy `folder`, or no file if nobody knows it."""
    found, file = commit(root), folder / FILE
    file.unlink(missing_ok=True)  # in a source distribution it is a hard link to the tree's own
    if found:
        file.write_text(found + "\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
