"""Public functions have types that a checker accepts, docstrings, and an example on a page that runs."""

import dataclasses
import importlib
import inspect
import pydoc
import re
import subprocess
import sys
from pathlib import Path

import pytest
from docs.examples import ROOT, blocks

import dglke_frugal
from dglke_frugal import optim
from dglke_frugal.cli.stub import stub
from dglke_frugal.data import graph
from dglke_frugal.embedding import Embedding, EmbeddingBag
from dglke_frugal.evaluation import known_triples, metrics, protocol
from dglke_frugal.inference import answers, embeddings
from dglke_frugal.inference.run import Run
from dglke_frugal.models import TorchModel

RESULTS = (Run, answers.Answers, answers.AnswerLists, answers.TripleAnswers, embeddings.Embeddings, protocol.Evaluation,
           metrics.Metrics, known_triples.KnownTriples, graph.Names)
CLASSES = (*RESULTS, Embedding, EmbeddingBag, TorchModel, *(getattr(optim, name) for name in optim.__all__))
PACKAGES = ("dglke_frugal.data", "dglke_frugal.evaluation", "dglke_frugal.models")
# Tools of the package itself, which users have other ways for.
OF_THE_PACKAGE = {"Evaluation.candidate_counts", "Names.ids_of", "Names.told_apart_by_white_space", "Names.packed",
                  "KnownTriples.heads", "KnownTriples.tails", "KnownTriples.check_ids"}
# What table(ids) and print call, and the calls of several processes, which no page can make.
NOT_ON_A_PAGE = {"forward", "extra_repr", "address", "attach", "distributed"}
WITH_EXAMPLES = ("train", "load", *dglke_frugal.data.__all__, *dglke_frugal.evaluation.__all__,
                 *(owner.__name__ for owner in (*RESULTS, Embedding, EmbeddingBag)))


def members(owner):
    """(name, function) of a class's own public methods and properties."""
    for base in owner.__mro__:
        if base.__module__.startswith("dglke_frugal"):
            for name, value in vars(base).items():
                function = next((getattr(value, name) for name in ("fget", "func", "__func__") if hasattr(value, name)),
                                value)
                if not name.startswith("_") and inspect.isfunction(function):
                    yield name, function


def public_functions():
    """By name: of the package, of data and evaluation, and of the classes of what they return."""
    found = {"train": dglke_frugal.train, "load": Run.load}
    for package in map(importlib.import_module, PACKAGES):
        found.update({name: getattr(package, name) for name in package.__all__
                      if inspect.isfunction(getattr(package, name))})
    for owner in CLASSES:
        found.update({f"{owner.__name__}.{name}": function for name, function in members(owner)})
    return found


FUNCTIONS = public_functions()


def test_there_are_public_functions():
    assert {"load_graph", "evaluate", "share_of", "Run.tails", "Run.metrics", "Answers.to_pandas",
            "Evaluation.hits"} <= {*FUNCTIONS} and len(FUNCTIONS) >= 50


@pytest.mark.parametrize("name", FUNCTIONS)
def test_everything_public_has_types_and_a_docstring(name):
    function = FUNCTIONS[name]
    signature = inspect.signature(inspect.unwrap(function))
    untyped = [each.name for each in signature.parameters.values()
               if each.annotation is each.empty and each.name not in ("self", "cls")]
    assert not untyped and (signature.return_annotation is not signature.empty or name == "train")
    owner = next((each for each in CLASSES if name.startswith(f"{each.__name__}.")), None)
    messages = [vars(base)[function.__name__].__doc__ for base in (owner.__mro__ if owner else ())
            if function.__name__ in vars(base)]
    assert function.__doc__ or any(messages)


def on_reference_pages():
    """By name, the functions of the modules and classes that the pages of docs/reference name."""
    pages = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "reference").glob("*.md"))
    found = {}
    for name in re.findall(r"^::: (\S+)", pages, re.MULTILINE):
        place = pydoc.locate(name)
        parts = [place] if inspect.isclass(place) else [
            each for key, each in vars(place).items()
            if not key.startswith("_") and getattr(each, "__module__", None) == name]
        for each in parts:
            if inspect.isclass(each):
                found.update({f"{each.__name__}.{key}": function for key, function in members(each)})
                if getattr(vars(each).get("__init__"), "__module__", None) == each.__module__:  # none of a Protocol
                    found[f"{each.__name__}.__init__"] = each.__init__
            elif inspect.isfunction(each):
                found[each.__name__] = inspect.unwrap(each)
    return found


def test_everything_on_a_reference_page_has_types():
    found = on_reference_pages()
    assert {"EmbeddingStore.gather", "Space.suggest", "EmbeddingBag.__init__", "Tracker.log", "Run.tails"} <= {*found}
    untyped = [name for name, function in found.items() for each in inspect.signature(function).parameters.values()
               if each.annotation is each.empty and each.name not in ("self", "cls")]
    untyped += [name for name, function in found.items() if not name.endswith(".__init__")
                and "return" not in inspect.unwrap(function).__annotations__]
    assert not untyped, untyped


@pytest.mark.parametrize("name", sorted(name for name in {*FUNCTIONS} - OF_THE_PACKAGE
                                        if name.partition(".")[0] in WITH_EXAMPLES))
def test_everything_public_that_takes_a_value_says_what_it_refuses(name):
    function = inspect.unwrap(FUNCTIONS[name])
    if {*inspect.signature(function).parameters} - {"self", "cls"}:
        assert re.search("Error|errors", function.__doc__), name


def run_code():
    """The Python of all pages whose blocks are run."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return "\n".join(block.text for page in pages for block in blocks(page.read_text(encoding="utf-8"))
                     if block.language == "python" and not block.not_run)


@pytest.mark.parametrize("name", sorted(name for name in {*FUNCTIONS} - OF_THE_PACKAGE
                                        if name.partition(".")[0] in WITH_EXAMPLES
                                        and name.rpartition(".")[2] not in NOT_ON_A_PAGE))
def test_everything_public_has_an_example_that_runs(name):
    assert re.search(rf"\b{name.rpartition('.')[2]}\b", run_code()), f"no page of docs/ has an example of {name}"


def test_the_stub_is_that_of_the_declarations():
    file = Path(dglke_frugal.__file__).with_name("python_training.pyi")
    assert file.read_text(encoding="utf-8") == stub(), (
        "run python -m dglke_frugal.cli.stub > dglke_frugal/python_training.pyi")


def test_a_type_checker_accepts_the_modules_and_a_program_that_uses_them(tmp_path):
    pytest.importorskip("mypy", reason="mypy is not installed (pip install '.[test]')")
    for arguments in ([], ["--strict", "--allow-any-generics", "tests/python/typed_client.py"]):
        done = subprocess.run([sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path), "--no-error-summary",
                               *arguments], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_frozen_classes_name_their_fields_in_docstrings():
    for owner in RESULTS:
        for field in dataclasses.fields(owner) if dataclasses.is_dataclass(owner) else ():
            assert re.search(rf"\b{field.name}\b", owner.__doc__) or owner is metrics.Metrics, (owner, field.name)
