"""Spaces are read with clear sentences for what is wrong, and those of the package are runs that can start."""

import pytest
import yaml

from conftest import ROOT

from dglke_frugal.cli.search import _arguments
from dglke_frugal.cli.train import configuration
from dglke_frugal.models import MODELS
from dglke_frugal.errors import InputError
from dglke_frugal.search.space import SPACES, Choice, Range, Space

optuna = pytest.importorskip("optuna")

SPACE = """\
flags: {model_name: ComplEx, max_step: 40}
search:
  lr: {low: 1e-3, high: 1.0, log: true}
  hidden_dim: {low: 8, high: 32, step: 8}
  gamma: {low: 1, high: 9.5}
  batch_size: [64, 128]
start:
  - {lr: 1e-2, batch_size: 64}
full: {max_step: 80}
"""


def read(tmp_path, text):
    (tmp_path / "space.yaml").write_text(text)
    return Space.read(str(tmp_path / "space.yaml"))


def test_what_is_written_is_what_is_searched(tmp_path):
    space = read(tmp_path, SPACE)
    assert space.search == {"lr": Range(0.001, 1.0, True), "hidden_dim": Range(8, 32, False, 8),
                            "gamma": Range(1.0, 9.5), "batch_size": Choice((64, 128))}
    assert space.start == ({"lr": 0.01, "batch_size": 64},) and space.full == {"max_step": 80}
    found = [space.suggest(optuna.create_study().ask()) for _ in range(40)]
    assert all(0.001 <= flags["lr"] <= 1 and flags["model_name"] == "ComplEx" for flags in found)
    assert {flags["hidden_dim"] for flags in found} == {8, 16, 24, 32} and {f["batch_size"] for f in found} == {64, 128}
    assert sum(flags["lr"] < 0.03 for flags in found) > 8  # half of them, by logarithm


@pytest.mark.parametrize(
    "change, says",
    [
        (("lr:", "learning_rate:"), "line 3: there is no flag 'learning_rate'"),
        (("hidden_dim:", "hiden_dim:"), "line 4: there is no flag 'hiden_dim'; did you mean 'hidden_dim'?"),
        (("full:", "ful:"), "line 9: there is no part 'ful'; did you mean 'full'?"),
        (("max_step: 40", "lr: 3"), "'lr' stands under 'flags', too"),
        (("low: 1e-3", "low: 2"), "line 3: 'lr' needs low at most high"),
        (("low: 1e-3", "low: 0"), "above 0 with log"),
        (("low: 1e-3", "low: much"), "'lr' has 'much' where a number must be"),
        (("[64, 128]", "[]"), "'batch_size' must list the values"),
        (("[64, 128]", "64"), "'batch_size' must be a list of values, or {low: A, high: B}"),
        (("lr: 1e-2", "lr: 7"), "'lr' of a starting point cannot be 7"),
        (("lr: 1e-2", "margin: 7"), "'margin' of a starting point is not searched"),
        (("step: 8", "step: 0.5"), "its step must be one, too"),
        (("{model_name: ComplEx, max_step: 40}", "[ComplEx]"), "line 1: 'flags' must map flags to values"),
        (("flags: {", "flags: {{"), "is not YAML"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path, change, says):
    assert change[0] in SPACE
    with pytest.raises(InputError) as wrong:
        read(tmp_path, SPACE.replace(*change, 1))
    assert says in str(wrong.value) and str(tmp_path / "space.yaml") in str(wrong.value)


@pytest.mark.parametrize("text", ["", "flags: {lr: 1}\n", "- 1\n"])
def test_a_file_without_a_search_is_refused(tmp_path, text):
    with pytest.raises(InputError, match="search"):
        read(tmp_path, text)


def test_names_of_spaces():
    assert Space.read("ComplEx").flags["model_name"] == "ComplEx"
    with pytest.raises(InputError, match="there is no space 'complx'; did you mean 'complex'"):
        Space.read("complx")
    with pytest.raises(InputError, match="cannot read nowhere.yaml"):
        Space.read("nowhere.yaml")


def test_every_model_has_a_space():
    spaces = [Space.read(path.stem) for path in SPACES.glob("*.yaml")]
    assert {space.flags["model_name"] for space in spaces} == {model.name for model in MODELS}


@pytest.mark.parametrize("name", sorted(path.stem for path in SPACES.glob("*.yaml")))
def test_spaces_of_the_package_are_runs_that_can_start(name):
    space = Space.read(name)
    study = optuna.create_study()
    for point in [{}, *space.start, *(space.suggest(study.ask()) for _ in range(20))]:
        for full in ({}, space.full):
            configuration(_arguments({**space.any_flags(), **point, **full}))
    assert space.start and yaml.safe_load((SPACES / f"{name}.yaml").read_text())["full"]


def test_the_spaces_behind_the_recipes_are_sound(tmp_path):
    spaces = yaml.safe_load((ROOT / "benchmarks" / "recipe_search.yaml").read_text())
    assert {"fb15k/rescal", "wn18rr/transr"} <= set(spaces)
    for content in spaces.values():
        space = read(tmp_path, yaml.safe_dump(content))
        for full in ({}, space.full):
            configuration(_arguments({**space.any_flags(), **full}))
