"""Reading a run's folder, and what is reported when it is not one."""

import json

import numpy as np
import pytest

from dglke_frugal.errors import InputError
from dglke_frugal.inference.tables import read_config, read_model, read_table

RELEASE = {"dataset": "g", "model": "TransE_l2", "emb_size": 4, "gamma": 12.0, "double_ent": False, "double_rel": False}


def write_run(folder, config=RELEASE, entity=None, relation=None):
    (folder / "config.json").write_text(json.dumps(config))
    np.save(folder / "g_TransE_l2_entity.npy", np.ones((7, 4), np.float32) if entity is None else entity)
    np.save(folder / "g_TransE_l2_relation.npy", np.ones((3, 4), np.float32) if relation is None else relation)
    return folder


def load(folder):
    config = read_config(folder)
    return read_model(folder, config["dataset"], config["model_name"], config["hidden_dim"], config["gamma"],
                      config=config)


@pytest.mark.parametrize("config", [RELEASE, {"dataset": "g", "model_name": "TransE_l2", "hidden_dim": 4, "gamma": 12}])
def test_the_configs_of_both_versions_are_read(tmp_path, config):
    model = load(write_run(tmp_path, config))
    assert (model.name, model.hidden_dim, model.gamma, model.entity.shape) == ("TransE_l2", 4, 12.0, (7, 4))


def spoilt(value, row):
    table = np.ones((7, 4), np.float32)
    table[row, 2] = value
    return table


DAMAGE = {
    "no folder": (lambda run: run / "nowhere", "no folder"),
    "no config": (lambda run: (run / "config.json").unlink(), "no config.json"),
    "config is no JSON": (lambda run: (run / "config.json").write_text("{"), "cannot read .*config.json"),
    "config is a list": (lambda run: (run / "config.json").write_text("[]"), "no JSON object"),
    "config is binary": (lambda run: (run / "config.json").write_bytes(b"\xff\x00"), "cannot read .*config.json"),
    "no gamma": (lambda run: write_run(run, {k: v for k, v in RELEASE.items() if k != "gamma"}), "lacks 'gamma'"),
    "gamma is a word": (lambda run: write_run(run, {**RELEASE, "gamma": "big"}), "'big' for 'gamma'"),
    "delimiter is a number": (lambda run: write_run(run, {**RELEASE, "delimiter": 5}), "5 for 'delimiter'"),
    "data_files is a word": (lambda run: write_run(run, {**RELEASE, "data_files": "a.txt"}), "for 'data_files'"),
    "data_files are numbers": (lambda run: write_run(run, {**RELEASE, "data_files": [1]}), "for 'data_files'"),
    "endless steps": (lambda run: write_run(run, {**RELEASE, "saved": {"step": float("inf"), "checksums": {}}}),
                      "damaged 'saved'"),
    "gamma is NaN": (lambda run: write_run(run, {**RELEASE, "gamma": float("nan")}), "gamma nan"),
    "hidden_dim is 0": (lambda run: write_run(run, {**RELEASE, "emb_size": 0}), "hidden_dim 0"),
    "unknown model": (lambda run: write_run(run, {**RELEASE, "model": "TransF"}), "'TransF'"),
    "other hidden_dim": (lambda run: write_run(run, {**RELEASE, "emb_size": 5}), "hidden dimension of 5"),
    "double_ent is wrong": (lambda run: write_run(run, {**RELEASE, "double_ent": True}), "makes 8"),
    "no entities": (lambda run: (run / "g_TransE_l2_entity.npy").unlink(), "no .*entity.npy"),
    "entities cut off": (
        lambda run: (run / "g_TransE_l2_entity.npy").write_bytes((run / "g_TransE_l2_entity.npy").read_bytes()[:150]),
        "cannot read .*entity.npy"),
    "entities are text": (lambda run: (run / "g_TransE_l2_entity.npy").write_text("hello"), "cannot read .*entity.npy"),
    "entities are empty": (lambda run: (run / "g_TransE_l2_entity.npy").write_bytes(b""), "cannot read .*entity.npy"),
    "entities are pickled": (
        lambda run: np.save(run / "g_TransE_l2_entity.npy", np.array([{}], object), allow_pickle=True),
        "cannot read .*entity.npy"),
    "doubles": (lambda run: write_run(run, entity=np.ones((7, 4))), "float64 of shape"),
    "one dimension": (lambda run: write_run(run, entity=np.ones(28, np.float32)), r"shape \(28,\)"),
    "no rows": (lambda run: write_run(run, entity=np.ones((0, 4), np.float32)), "is empty"),
    "NaN": (lambda run: write_run(run, entity=spoilt(np.nan, 3)), "row 3 of .*entity.npy holds NaN"),
    "infinity": (lambda run: write_run(run, relation=spoilt(np.inf, 0)[:3]), "row 0 of .*relation.npy"),
    "relations of another size": (lambda run: write_run(run, relation=np.ones((3, 5), np.float32)), "4 and 5")}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_runs_are_refused_in_a_sentence(tmp_path, damage):
    spoil, message = DAMAGE[damage]
    run = write_run(tmp_path)
    changed = spoil(run)
    with pytest.raises(InputError, match=message) as raised:
        load(changed if damage == "no folder" else run)
    assert "\n" not in str(raised.value)


def test_tables_are_mapped_not_copied(tmp_path):
    write_run(tmp_path)
    assert isinstance(read_table(tmp_path / "g_TransE_l2_entity.npy"), np.memmap)
