"""Each example of README and docs runs as it stands and prints what the page shows; flags of the others exist."""

import re

import pytest

from dglke_frugal.cli.train import configuration
from docs.examples import LANGUAGES, ROOT, Page, blocks, commands, matches, needs, training_arguments

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
NAMES = [str(path.relative_to(ROOT)) for path in PAGES]
RUN = [path for path in PAGES if any(not block.not_run and block.language in ("console", "python")
                                     for block in blocks(path.read_text(encoding="utf-8")))]


@pytest.fixture(scope="session")
def programs(interpreter, tmp_path_factory):
    """The package's commands and python as forks."""
    folder = tmp_path_factory.mktemp("programs")
    scripts = re.findall(r'^(\w+) = "([\w.]+):(\w+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    words = {name: f"-c 'import sys; from {module} import {main}; sys.argv[0] = \"{name}\"; sys.exit({main}())'"
             for name, module, main in scripts}
    assert {"dglke_train", "dglke_frugal"} <= words.keys()
    for name, first in {**words, "python": ""}.items():
        (folder / name).write_text(f'#!/bin/sh\nexec {interpreter} {first} "$@"\n')
        (folder / name).chmod(0o755)
    return folder


@pytest.mark.parametrize("path", RUN, ids=lambda path: path.stem)
def test_examples_print_what_the_page_shows(path, tmp_path, programs):
    for package in needs(path.read_text(encoding="utf-8")):
        pytest.importorskip(package, reason=f"{path.name} needs {package}, which is not installed")
    differences = [f"{path.name}, line {line}: {ran}\nprinted\n{printed}\nwhere the page shows\n{expected}"
                   for line, ran, expected, printed in Page(path, tmp_path, programs).run()
                   if expected is not None and not matches(expected, printed)]
    assert not differences, "\n\n".join(differences)


@pytest.mark.parametrize("path", PAGES, ids=NAMES)
def test_every_block_says_what_it_is(path):
    text = path.read_text(encoding="utf-8")
    for block in blocks(text):
        assert block.language in LANGUAGES, f"{path.name}, line {block.line}: a block of {block.language or 'nothing'}"
    outside = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)
    assert not re.search(r"\n\n    (?![-*\d ])\S", outside), f"{path.name} has an indented block, which nothing runs"


@pytest.mark.parametrize("path", PAGES, ids=NAMES)
def test_flags_of_examples_that_are_not_run_exist(path):
    for block in blocks(path.read_text(encoding="utf-8")):
        for command, _ in commands(block.text) if block.not_run and block.language == "console" else ():
            arguments = training_arguments(command)
            if arguments is not None and "vanilla" not in arguments:
                configuration([word if word != "--gpu" else "--sampler_threads" for word in arguments])


def test_an_output_matches_what_stands_for_it():
    assert matches("a ... c\n...\nd", "a bb c\nx\ny\nd\n") and matches("a\n...\nb", "a\nb")
    assert not matches("a ... c\nd", "a bb c\nx\nd") and not matches("a", "a\nb") and not matches("a\n...", "b\na")


def test_comments_before_a_block_are_read(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- before: echo 1 > a -->\n<!-- before: echo 2 >> a -->\n"
                    "```console\n$ cat \\\n    a\n1\n2\n```\n"
                    "<!-- not run: x -->\n```console\n$ false\n```\n```python\nprint(3)\n```\n\n```text\n4\n```\n")
    first, second, *_ = blocks(page.read_text())
    assert (first.before, first.not_run, second.not_run) == (["echo 1 > a", "echo 2 >> a"], "", "x")
    ran = [(command, expected, printed) for _, command, expected, printed in Page(page, tmp_path, tmp_path).run()]
    assert ran[2] == ("cat a", "1\n2", "1\n2\n") and ran[3] == ("print(3)\n", "4\n", "3\n") and len(ran) == 4
