"""Runs the examples of a page, block by block, and compares what they print with what the page shows.

A fence says what a block is: `console` has commands behind `$ ` and their output below them; `python` is run in one
interpreter for the page, and a `text` block right behind it is what it prints; `text`, `yaml` and `json` elsewhere are
not run. In an output `...` stands for any text, as a line for any lines. A comment before a block takes part:

    <!-- not run: needs a GPU -->      the block is not run; its flags are checked all the same
    <!-- before: COMMAND -->           a command that the page does not show
    <!-- needs: PACKAGE, PACKAGE -->   anywhere on the page: without these its examples are not run

`python tests/docs/examples.py PAGE` prints what each block of a page prints.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple, Optional

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^ *```(\w*)[^\n]*\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"<!-- (not run|before): ((?:(?!-->).)*?) -->\s*\Z", re.DOTALL)
LANGUAGES = {"console", "python", "text", "yaml", "json"}


class Block(NamedTuple):
    """language: of the fence. line: of its first line. not_run: the reason, if any. before: commands."""

    language: str
    text: str
    line: int
    not_run: str
    before: List[str]


class Command(NamedTuple):
    """A command of a console block, and the output below it."""

    command: str
    expected: str


def blocks(page: str) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    for found in FENCE.finditer(page):
        comments: Dict[str, List[str]] = {"not run": [], "before": []}
        text = page[: found.start()].rstrip()
        while comment := COMMENT.search(text):
            comments[comment[1]].insert(0, comment[2])
            text = text[: comment.start()].rstrip()
        yield Block(found[1], found[2], page[: found.start()].count("\n") + 1, "; ".join(comments["not run"]),
                    comments["before"])


def needs(page: str) -> List[str]:
    """The packages that the examples of a page need besides those of every installation."""
    return [name.strip() for found in re.findall("<!-- needs: (.*?) -->", page) for name in found.split(",")]


def commands(text: str) -> List[Command]:
    """The commands of a console block; a backslash at the end of a line goes on on the next one."""
    found: List[List[str]] = []
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("$ "):
            command = line[2:]
            while command.endswith("\\"):
                command = command[:-1] + next(lines).strip()
            found.append([command])
        elif not found:
            raise ValueError(f"output without a command: {line!r}")
        else:
            found[-1].append(line)
    return [Command(command, "\n".join(output)) for command, *output in found]


def matches(expected: str, printed: str) -> bool:
    """Whether an output is what a page shows; `...` is any text of a line, and as a line any number of lines."""
    def tidy(text: str) -> List[str]:
        return [line.rstrip() for line in text.strip("\n").splitlines()]

    def pattern(line: str) -> str:
        return r"(?:[^\n]*\n)*" if line == "..." else r"[^\n]*".join(map(re.escape, line.split("..."))) + r"\n"

    text = "".join(f"{line}\n" for line in tidy(printed))
    return re.fullmatch("".join(map(pattern, tidy(expected))), text) is not None


def shell(command: str, folder: Path, programs: Path) -> str:
    """What a command prints, on either stream; this package's commands, those of a folder first, with one thread."""
    path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "COLUMNS": "120"}
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, check=False)
    return done.stdout


def training_arguments(command: str) -> Optional[List[str]]:
    words = shlex.split(command, comments=True)
    return words[1:] if words and words[0] == "dglke_train" else None


class Page:
    """Runs the blocks of a page in a folder, which has the folders of a checkout that pages name."""

    def __init__(self, path: Path, folder: Path, programs: Path):
        """programs: a folder of commands that stand for the installed ones."""
        for name in ("datasets", "examples", "recipes"):
            (folder / name).symlink_to(ROOT / name)
        self._blocks, self._folder, self._names = list(blocks(path.read_text(encoding="utf-8"))), folder, {}
        self._programs = programs

    def run(self) -> Iterator[tuple]:
        """(line, what was run, expected output or None, output), one after the other."""
        for place, block in enumerate(self._blocks):
            if block.not_run:
                continue
            for command in block.before:
                yield block.line, command, None, shell(command, self._folder, self._programs)
            if block.language == "console":
                for command, expected in commands(block.text):
                    yield block.line, command, expected, shell(command, self._folder, self._programs)
            elif block.language == "python":
                following = self._blocks[place + 1] if place + 1 < len(self._blocks) else None
                expected = following.text if following and following.language == "text" else None
                yield block.line, block.text, expected, self._python(block.text)

    def _python(self, code: str) -> str:
        printed = io.StringIO()
        before = os.getcwd()
        os.chdir(self._folder)
        try:
            with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
                exec(compile(code, "example", "exec"), self._names)  # noqa: S102
        finally:
            os.chdir(before)
        return printed.getvalue()


if __name__ == "__main__":
    import tempfile

    sys.path.insert(0, str(ROOT))
    with tempfile.TemporaryDirectory() as name:
        for line, ran, expected, printed in Page(Path(sys.argv[1]).resolve(), Path(name), Path(name)).run():
            same = expected is None or matches(expected, printed)
            print(f"=== line {line} {'' if same else 'DIFFERS'}\n{ran}\n--- printed\n{printed}")
