"""Presets: flags of recipes by name, from the package itself."""

import json
import os
import subprocess
import sys

import pytest
import yaml

import dglke_frugal
from dglke_frugal.cli.config_file import arguments_from
from dglke_frugal.cli.main import main
from dglke_frugal.cli.train import configuration
from dglke_frugal.options import DeviceConfig, GraphConfig, LossConfig, ModelConfig, StoreConfig, TrainConfig
from dglke_frugal.errors import InputError
from dglke_frugal.presets.catalogue import EXPECTED, best_preset, find_preset, presets
from dglke_frugal.training.log.messages import chance_line, start_lines


def test_every_file_is_a_preset_and_all_that_is_expected_is_one():
    names = {preset.name for preset in presets()}
    assert {"fb15k/transe_l2", "fb15k_237/complex", "wn18rr/rotate", "wikikg/complex", "freebase/transr"} <= names
    expected = yaml.safe_load(EXPECTED.read_text())
    assert set(expected) <= names
    assert all(0 < facts["MRR"] < 1 and facts["hardware"] for facts in expected.values())
    assert all(set(facts) <= {"MRR", "seconds", "hardware"} for facts in expected.values())
    defaults = {**TrainConfig().to_flags(), "trainer": "native"}
    for preset in presets():
        assert arguments_from(preset.file, defaults)


def test_a_preset_gives_flags_and_the_command_line_goes_before_it():
    _, config = configuration(["--preset", "wn18rr/complex", "--lr", "0.25", "--gpu", "0"])
    file = yaml.safe_load(find_preset("wn18rr/complex").file.read_text())
    assert config.model.model_name == "ComplEx" and config.model.gamma == file["gamma"]
    assert config.graph.dataset == "wn18rr" and config.loss.lr == 0.25 and config.device.gpu == [0]


@pytest.mark.parametrize("name", ["FB15k-237/ComplEx", "fb15k_237/complex", " fb15k-237/complex "])
def test_names_of_data_sets_are_understood(name):
    assert find_preset(name).name == "fb15k_237/complex"


@pytest.mark.parametrize("name, says", [
    ("wn18rr/complx", "did you mean wn18rr/complex"),
    ("wn18rr", "did you mean wn18rr/complex, wn18rr/complex_softmax, wn18rr/complex_softmax_500"),
    ("simple", "did you mean fb15k/simple?"),
    ("xyzzy", "dglke_frugal presets lists them")])
def test_a_wrong_name_is_answered_with_the_nearest(name, says, refused):
    with refused(says):
        main(["train", "--preset", name])


@pytest.mark.parametrize("other", [["--config", "x.yaml"], ["--resume", "x"], ["--backend", "vanilla"]])
def test_what_does_not_go_with_a_preset(other, refused):
    with refused("cannot be used with"):
        main(["train", "--preset", "wn18rr/complex", *other])


def test_the_list(capsys):
    main(["presets"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + len(presets()) and "MRR" in lines[0]
    (line,) = [line for line in lines if line.startswith("wn18rr/complex ")]
    assert "0.461" in line and "H200" in line
    main(["presets", "--json"])
    listed = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in listed] == [preset.name for preset in presets()]
    main(["presets", "wn18rr/complex"])
    assert yaml.safe_load(capsys.readouterr().out)["model_name"] == "ComplEx"


def test_from_python(small_preset, graphs, tmp_path):
    run = dglke_frugal.train(
        preset="wn18rr/complex", data_path=str(graphs / "fb15k-small"), dataset="small", format="raw_udd_hrt",
        data_files=["train.txt", "valid.txt", "test.txt"], max_step=2, hidden_dim=8, test=False,
        save_path=str(tmp_path))
    assert run.config["gamma"] == small_preset["gamma"] and run.config["model_name"] == "ComplEx"
    with pytest.raises(InputError, match="there is no preset"):
        dglke_frugal.train(preset="nowhere")


@pytest.fixture
def small_preset():
    return yaml.safe_load(find_preset("wn18rr/complex").file.read_text())


def lines_of(config, graph):
    facts = {"entities": 3, "relations": 1, "triples": {"train": 2}, "duplicates": 0, "held_out": {}}
    return start_lines(config, graph, facts, 2, 1.0, "folder", False)


class Graph:
    name, train, valid, test, ids_by_appearance = "wn18rr", [1, 2], None, None, False


def test_bare_defaults_of_a_built_in_data_set_name_a_preset():
    bare = TrainConfig(graph=GraphConfig(dataset="wn18rr"), model=ModelConfig("TransE_l2"))
    (line,) = [line for line in lines_of(bare, Graph) if "--preset" in line]
    assert best_preset("wn18rr", "TransE_l2").name in line and "MRR" in line
    rotate = TrainConfig(graph=GraphConfig(dataset="wn18rr"), model=ModelConfig("RotatE", double_ent=True))
    assert any("--preset wn18rr/rotate" in line for line in lines_of(rotate, Graph))


@pytest.mark.parametrize("config", [
    TrainConfig(graph=GraphConfig(dataset="wn18rr"), loss=LossConfig(lr=0.1)),
    TrainConfig(graph=GraphConfig(dataset="wn18rr"), model=ModelConfig(gamma=6.0))])
def test_nobody_else_is_told(config):
    assert not any("--preset" in line for line in lines_of(config, Graph))


@pytest.mark.parametrize("gpu, store, told", [
    (0, {}, True), (0, {"cache_policy": "static"}, False), (-1, {"flush": "p2f"}, False), (0, {"flush": "none"}, False),
    (0, {"cache_ratio": 1.0}, False)])
def test_who_wants_a_cache_that_evicts_on_a_gpu_hears_that_it_is_slow(gpu, store, told):
    config = TrainConfig(device=DeviceConfig(gpu=[gpu]), store=StoreConfig(**{"cache_policy": "lfu", **store}))
    assert any("--cache_policy lfu puts rows out" in line for line in lines_of(config, Graph)) == told


def test_the_remedy_of_chance_names_a_preset_only_where_there_is_one():
    bare = TrainConfig(graph=GraphConfig(dataset="wn18rr"), model=ModelConfig("TransE_l2"))
    assert "try --preset wn18rr/" in chance_line(bare, "test", 0.0045, 0.0003)
    other = TrainConfig(graph=GraphConfig(dataset="mine", format="raw_udd_hrt"))
    assert "--preset" not in chance_line(other, "test", 0.0045, 0.0003)
    own = configuration(["--preset", "wn18rr/complex", "--max_step", "3"])[1]
    assert "--preset" not in chance_line(own, "test", 0.0045, 0.0003)


def test_a_reader_that_has_gone_ends_a_command_quietly():
    command = [sys.executable, "-m", "dglke_frugal", "presets"]
    done = subprocess.run(command, stdout=_closed_pipe(), stderr=subprocess.PIPE)
    assert done.returncode == 141 and done.stderr == b""


def _closed_pipe():
    reader, writer = os.pipe()
    os.close(reader)
    return writer


@pytest.mark.parametrize("graph", [GraphConfig(dataset="wn18rr", format="udd_hrt"), GraphConfig(dataset="another")])
def test_who_trains_another_graph_on_bare_defaults_is_told_of_auto_in_one_line(graph):
    told = [line for line in lines_of(TrainConfig(graph=graph), Graph) if "--preset" in line]
    assert len(told) == 1 and "--preset auto/TransE chooses flags by the graph's size" in told[0]


def test_the_rules_of_auto_are_printed(capsys):
    main(["presets", "auto"])
    messages = capsys.readouterr().out
    assert "softmax over all entities, ComplEx:\n    regularizer n3" in messages
    main(["presets", "auto/RotatE", "--json"])
    assert {"when", "flags", "why"} == set(json.loads(capsys.readouterr().out)[0])
