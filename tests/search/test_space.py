"""Spaces are read with clear sentences for what is wrong, and those of the package are runs that can start."""

from dataclasses import replace

import pytest
import yaml

from dglke_frugal.cli.search import _arguments
from dglke_frugal.cli.train import configuration
from dglke_frugal.options import TrainConfig
from dglke_frugal.errors import InputError
from dglke_frugal.presets.auto import Situation, auto_flags
from dglke_frugal.search.fitting import fitted
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


@pytest.mark.parametrize("change, says", [
    (("lr:", "learning_rate:"), "line 3: there is no flag 'learning_rate'"),
    (("hidden_dim:", "hiden_dim:"), "line 4: there is no flag 'hiden_dim'; did you mean 'hidden_dim'?"),
    (("hidden_dim:", "deterministic:"), "line 4: there is no flag 'deterministic': runs are always deterministic"),
    (("full:", "ful:"), "line 9: there is no part 'ful'; did you mean 'full'?"),
    (("max_step: 40", "lr: 3"), "'lr' stands under 'flags', too"),
    (("max_step: 40", "max_step: forty"), "line 1: 'max_step' cannot be 'forty'"),
    (("max_step: 80", "max_step: eighty"), "line 9: 'max_step' cannot be 'eighty'"),
    (("[64, 128]", "[64, few]"), "'batch_size' cannot be 'few'; give what --batch_size takes"),
    (("[64, 128]", "[64, 128]\n  batch_size: [32]"), "too; remove one of them"),
    (("max_step: 40", "max_step: 40, max_step: 50"), "line 1: 'max_step' stands on line 1, too"),
    (("low: 1e-3", "low: 2"), "line 3: 'lr' needs low at most high"),
    (("low: 1e-3", "low: 0"), "above 0 with log"),
    (("low: 1e-3", "low: much"), "'lr' has 'much' where a number must be"),
    (("[64, 128]", "[]"), "'batch_size' must list the values"),
    (("[64, 128]", "64"), "'batch_size' must be a list of values, or {low: A, high: B}"),
    (("lr: 1e-2", "lr: 7"), "'lr' of a starting point cannot be 7"),
    (("lr: 1e-2", "margin: 7"), "'margin' of a starting point is not searched"),
    (("step: 8", "step: 0.5"), "its step must be one, too"),
    (("step: 8", "step: 7"), "line 4: 'hidden_dim' has a step that does not lead from low to high"),
    (("{model_name: ComplEx, max_step: 40}", "[ComplEx]"), "line 1: 'flags' must map flags to values"),
    (("flags: {", "flags: {{"), "is not YAML"),
    (("low: 1e-3", 'low: !!int ""'), "is not YAML"),
    (("low: 1e-3", "low: !!bool much"), "is not YAML"),
    (("low: 1e-3", "low: !!timestamp much"), "is not YAML"),
    (("low: 1e-3", 'low: "\\UFFFFFFFF"'), "is not YAML")])
def test_what_is_wrong_is_reported_with_its_line(tmp_path, change, says):
    assert change[0] in SPACE
    with pytest.raises(InputError) as wrong:
        read(tmp_path, SPACE.replace(*change, 1))
    assert says in str(wrong.value) and str(tmp_path / "space.yaml") in str(wrong.value)


VARIANTS = """\
flags: {model_name: ComplEx, max_step: 40}
search: {batch_size: [64, 128]}
variants:
  negatives:
    flags: {neg_adversarial_sampling: true}
    search: {gamma: {low: 1, high: 9.5}}
  all:
    flags: {loss_genre: Softmax, neg_sample_size: all, max_step: 60}
    search: {lr: {low: 1e-3, high: 1.0, log: true}, entity_dropout: [0.0, 0.5]}
    full: {max_step: 90}
start:
  - {variant: all, lr: 1e-2, batch_size: 64}
full: {max_step: 80, valid: true}
"""


def test_a_trial_has_the_flags_of_its_variant_alone(tmp_path):
    space, study = read(tmp_path, VARIANTS), optuna.create_study()
    assert space.start == ({"variant": "all", "all.lr": 0.01, "batch_size": 64},)
    assert list(space.parameters) == ["variant", "batch_size", "negatives.gamma", "all.lr", "all.entity_dropout"]
    found = {"negatives": [], "all": []}
    for trial in (study.ask() for _ in range(40)):
        flags = space.suggest(trial)
        assert flags == space.flags_of(trial.params)
        found[trial.params["variant"]].append(flags)
    both = {"model_name", "max_step", "batch_size"}
    for flags in found["negatives"]:
        assert set(flags) == both | {"neg_adversarial_sampling", "gamma"} and flags["max_step"] == 40
    for flags in found["all"]:
        assert set(flags) == both | {"loss_genre", "neg_sample_size", "lr", "entity_dropout"}
        assert flags["max_step"] == 60
    assert found["negatives"] and found["all"]
    assert space.full_of({"variant": "all"}) == {"max_step": 90, "valid": True}
    assert space.full_of({"variant": "negatives"})["max_step"] == 80


def test_what_is_given_goes_before_variants_which_can_be_chosen(tmp_path):
    space = read(tmp_path, VARIANTS)
    assert space.with_flags({"max_step": 5}).flags_of({"variant": "all"})["max_step"] == 5
    few = space.with_variants(["negatives"])
    assert list(few.parameters) == ["variant", "batch_size", "negatives.gamma"] and not few.start
    assert few.source != space.source and space.searched == {"batch_size", "gamma", "lr", "entity_dropout"}
    with pytest.raises(InputError, match="no variant 'al'; did you mean 'all'"):
        space.with_variants(["al"])
    with pytest.raises(InputError, match="has no variants; leave --variants out"):
        read(tmp_path, SPACE).with_variants(["all"])


@pytest.mark.parametrize("change, says", [
    (("{gamma:", "{gama:"), "line 6: there is no flag 'gama'; did you mean 'gamma'?"),
    (("{gamma:", "{batch_size:"), "line 6: 'batch_size' is searched by all variants, too"),
    (("[0.0, 0.5]", "[]"), "line 9: 'entity_dropout' must list the values"),
    (("max_step: 60}", "lr: 1}"), "line 9: 'lr' stands under 'flags', too"),
    (("{variant: all, lr", "{lr"), "needs 'variant', one of negatives, all"),
    (("variant: all", "variant: negatives"), "'lr' of a starting point is not searched"),
    (("lr: 1e-2", "lr: 7"), "'lr' of a starting point cannot be 7"),
    (("full: {max_step: 90}", "start: []"), "line 7: a variant has a name without dots and some of the parts")])
def test_what_is_wrong_with_a_variant_is_reported(tmp_path, change, says):
    assert change[0] in VARIANTS
    with pytest.raises(InputError) as wrong:
        read(tmp_path, VARIANTS.replace(*change, 1))
    assert says in str(wrong.value)


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


@pytest.mark.parametrize("name", sorted(path.stem for path in SPACES.glob("*.yaml")))
def test_spaces_of_the_package_are_runs_that_can_start(name):
    space = Space.read(name)
    study = optuna.create_study()
    for trial in (study.ask() for _ in range(30)):
        flags = space.suggest(trial)
        for full in ({}, space.full_of(trial.params)):
            configuration(_arguments({**flags, **full}))
    for params in space.examples():
        configuration(_arguments(space.flags_of(params)))
    for point in space.start:
        assert set(point) == {each for each in space.parameters if "." not in each or
                              each.startswith(f"{point['variant']}.")}
    assert space.start and yaml.safe_load((SPACES / f"{name}.yaml").read_text())["full"]


SIZES = {"families": (198, 11, 4_196), "tiny": (5, 2, 9), "fb15k-small": (1_649, 368, 11_397),
         "wn18rr": (40_943, 11, 86_835), "FB15k-237": (14_541, 237, 272_115), "wikikg2": (2_500_604, 535, 16_109_182)}


@pytest.mark.parametrize("name", sorted(path.stem for path in SPACES.glob("*.yaml")))
@pytest.mark.parametrize("size", SIZES)
def test_fitted_spaces_are_runs_that_can_start(name, size):
    space = Space.read(name)
    for given in ({}, {"gpu": [0]}, {"hidden_dim": 16}):
        if set(given) & space.searched:
            continue
        found = fitted(space, Situation(*SIZES[size], True, space.flags["model_name"], given)).with_flags(given)
        study = optuna.create_study()
        for trial in (study.ask() for _ in range(10)):
            flags = found.suggest(trial)
            for full in ({}, found.full_of(trial.params)):
                config = configuration(_arguments({**flags, **full}))[1]
                assert config.evaluation.eval_interval <= config.run.max_step
        for point in found.start:
            assert all(found.parameters[parameter].holds(value) for parameter, value in point.items())


@pytest.mark.parametrize("name", ["complex", "distmult", "rotate", "transe_l2"])
def test_a_search_of_a_small_graph_starts_with_preset_auto_then_the_cheapest_variants(name):
    space = Space.read(name)
    at = Situation(*SIZES["families"], True, space.flags["model_name"], {})
    found, auto = fitted(space, at), auto_flags(at)
    flags, first = found.flags_of(found.start[0]), found.start[0]
    for flag in ("loss_genre", "neg_sample_size", "lr", "hidden_dim", "batch_size", "regularizer", "optimizer"):
        default = TrainConfig().to_flags()[flag]
        assert flags.get(flag, default) == auto.get(flag, default), flag
    costs = [found.variants[each].flags["max_step"] for each in found.variants]
    assert costs and [point["variant"] for point in found.start[1:]] == [
        each for each in found.variants if each != first["variant"]]
    assert all(flags["max_step"] <= 30 * at.triples / 64 for flags in (each.flags for each in found.variants.values()))
    assert found.full["max_step"] == auto["max_step"]


def test_what_a_graph_is_too_large_for_is_left_out_unless_it_is_asked_for():
    space = Space.read("complex")
    large = Situation(*SIZES["FB15k-237"], True, "ComplEx", {})
    assert set(fitted(space, large).variants) == {"adversarial", "softmax"}
    assert set(fitted(space, large, every=True).variants) == set(space.variants)
    assert set(fitted(space, replace(large, given={"gpu": [0]})).variants) == set(space.variants)
    huge = fitted(space, Situation(*SIZES["wikikg2"], True, "ComplEx", {}))
    assert huge.variants["adversarial"].flags["max_step"] == 2 * 16_109_182 // 1024
