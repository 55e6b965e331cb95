"""Each result says which commit was measured, also where there is no git, and published ones are those of commits."""

import argparse
import ast
import json
import re
import shutil
import subprocess
import sys

import pytest

from benchmarks import commit, machine, result_file
from conftest import ROOT


def git(folder, *arguments):
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    done = subprocess.run(["git", "-C", folder, *identity, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path):
    """A repository with what this one has for the purpose."""
    folder = tmp_path / "checkout"
    for name in (".commit", ".gitattributes", ".gitignore", "benchmarks/commit.py", "setup.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    (folder / "benchmarks" / "results").mkdir()
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "all")
    return folder


def test_a_checkout_has_gits_commit_and_a_plus_if_its_sources_have_changed(checkout):
    digits = git(checkout, "rev-parse", "--short=10", "HEAD")
    assert commit.commit(checkout) == digits
    (checkout / "benchmarks" / "results" / "new.json").write_text("{}")
    (checkout / "notes.txt").touch()
    assert commit.commit(checkout) == digits  # nothing that figures depend on
    (checkout / "benchmarks" / "new.py").touch()
    assert commit.commit(checkout) == digits + "+"
    (checkout / "benchmarks" / "new.py").unlink()
    (checkout / "setup.py").write_text("# changed")
    assert commit.commit(checkout) == digits + "+"


def test_an_archive_has_its_commit(checkout, tmp_path):
    archive, tree = tmp_path / "a.tar", tmp_path / "tree"
    git(checkout, "archive", "-o", archive, "HEAD")
    shutil.unpack_archive(archive, tree)
    assert commit.commit(tree) == commit.commit(checkout)


@pytest.mark.parametrize("changed", [False, True])
def test_a_copy_has_the_commit_that_was_written_into_it(checkout, tmp_path, changed):
    outer = tmp_path / "another repository"
    copy = outer / "copy"
    shutil.copytree(checkout, copy, ignore=shutil.ignore_patterns(".git"))
    git(outer, "init", "-q")
    assert commit.commit(copy) is None  # the file was not filled in, and the repository around it is another one
    if changed:
        (checkout / "setup.py").write_text("# changed")
    subprocess.run([sys.executable, "-m", "benchmarks.commit", copy], cwd=checkout, check=True)
    expected = git(checkout, "rev-parse", "--short=10", "HEAD") + "+" * changed
    assert commit.commit(copy) == commit.commit(checkout) == expected
    (copy / ".commit").write_text(git(checkout, "rev-parse", "HEAD") + "\n" + "+\n" * changed)  # as a script may
    assert commit.commit(copy) == expected


@pytest.mark.parametrize("found, why", [("0123456789+", "changed since 0123456789;"), (None, "nobody knows")])
def test_published_results_are_those_of_commits(found, why, monkeypatch, tmp_path):
    monkeypatch.setattr(machine, "commit", lambda: found)
    with pytest.raises(argparse.ArgumentTypeError, match=f"train.json is among the published results, but .*{why}"):
        result_file.result_file(str(ROOT / "benchmarks" / "results" / "train.json"))
    assert result_file.result_file(str(tmp_path / "train.json")) == tmp_path / "train.json"
    monkeypatch.setattr(machine, "commit", lambda: "0123456789")
    assert result_file.result_file("benchmarks/results/train.json").name == "train.json"


@pytest.mark.parametrize("path", [
    path for path in sorted((ROOT / "benchmarks").glob("*.py"))
    if path.stem != "result_file" and re.search(r'"--json"|result_file\.parser\(', path.read_text(encoding="utf-8"))
], ids=lambda path: path.stem)
def test_every_benchmark_says_how_it_is_run_and_asks_before_it_measures(path):
    text = path.read_text(encoding="utf-8")
    assert re.search(rf"python -m benchmarks\.{path.stem}\b.*--json", ast.get_docstring(ast.parse(text)))
    assert "result_file.parser(__doc__" in text and "result_file.write(" in text


def test_parts_of_earlier_commits_are_named(tmp_path, monkeypatch):
    path = tmp_path / "train_gpu.json"
    for now, earlier in (("1111111111", None), ("2222222222", ["1111111111"]), ("2222222222", ["1111111111"]),
                         ("3333333333+", ["1111111111", "2222222222"])):
        monkeypatch.setattr(machine, "commit", lambda now=now: now)
        result_file.write(path, {**result_file.read(path), "rate": 1})
        facts = json.loads(path.read_text())["machine"]
        assert facts["commit"] == now and facts.get("earlier_commits") == earlier


def test_a_line_has_as_much_as_fits(tmp_path):
    figures = {"rate": 1.5, "runs": [{"log": []}] * 2, "long": ["x" * 90, None, {"y": "z" * 90}], "last": 2}
    result_file.write(tmp_path / "of.json", figures)
    lines = (tmp_path / "of.json").read_text().splitlines()
    assert lines[:2] == ["{", ' "rate": 1.5, "runs": [{"log": []}, {"log": []}],']
    assert lines[2:6] == [' "long": [', f'  "{"x" * 90}", null,', f'  {{"y": "{"z" * 90}"}}', " ],"]
    assert lines[6].startswith(' "last": 2')
    assert result_file.read(tmp_path / "of.json").items() >= figures.items()


def test_published_results_are_few_and_of_commits_in_the_history():
    paths = sorted((ROOT / "benchmarks" / "results").iterdir())
    assert 0 < len(paths) <= 20
    assert all(re.fullmatch(r"[a-z_0-9]+-(cpu|1gpu|[248]gpus)\.json", path.name) for path in paths)
    in_history = (ROOT / ".git").exists() and git(ROOT, "rev-parse", "--is-shallow-repository") == "false"
    for path in paths:
        facts = result_file.read(path)["machine"]
        for each in (facts["commit"], *facts.get("earlier_commits", ())):
            assert re.fullmatch("[0-9a-f]{7,40}", each), path.name
            assert not in_history or git(ROOT, "merge-base", each, "HEAD").startswith(each), path.name
