"""A run that is resumed with another value of a flag is refused by the flag's name, or has the numbers of a whole run.

Each flag of every configuration is changed in turn, of runs in which different flags change the numbers.
"""
import os
import random
import shutil

import numpy as np
import pytest

from dglke_frugal.cli.train import main
from dglke_frugal.options import OPTIONS

STOPPED, STEPS = 20, 40
COMMON = ["--dataset", "toy", "--format", "raw_udd_hrt", "--data_files", "train.tsv", "valid.tsv", "test.tsv",
          "--seed", "3", "--hidden_dim", "8", "--batch_size", "16", "--neg_sample_size", "4", "--lr", "1",
          "--checkpoint_interval", "20", "--test", "--has_edge_importance"]
WATCHED = ["--valid", "--eval_interval", "5", "--eval_percent", "0.9"]
SAMPLED = ["--neg_sample_size_eval", "5", "--no_eval_filter", "--batch_size_eval", "4"]
RUNS = {
    "plain": ["--model_name", "TransE_l2", *WATCHED, *SAMPLED],
    "plateau": ["--model_name", "TransE_l2", *WATCHED, "--lr_patience", "1", "--lr_decay_at", "15", "30"],
    "plateau of samples": ["--model_name", "DistMult", *WATCHED, *SAMPLED, "--lr_patience", "1", "--flush", "p2f"],
    "early stopping": ["--model_name", "RotatE", "-de", *WATCHED, "--early_stop_patience", "6", "-adv",
                       "--loss_genre", "Hinge", "--optimizer", "adam", "--lr", "0.01"],
    "softmax": ["--model_name", "ComplEx", "--loss_genre", "Softmax", "--neg_sample_size", "all",
                "--optimizer", "adagrad", "--regularizer", "n3", "-rc", "0.01", "--entity_dropout", "0.1"],
    "small chunks": ["--model_name", "RESCAL", "--score_rule", "dglke", "--neg_chunk_size", "2", "--exclude_positive",
                     "--init", "normal", "--init_scale", "0.1"]}
# Other values than those above, of each flag that has no choices. Switches are given where the run does not have them.
OTHER = {
    "data_path": ["elsewhere"], "dataset": ["other"], "format": ["raw_udd_htr", "udd_hrt"],
    "data_files": ["train.tsv valid.tsv", "train.tsv test.tsv valid.tsv", "valid.tsv train.tsv test.tsv",
                   "weighted.tsv valid.tsv test.tsv"],
    "delimiter": [";"], "model_name": ["TransE_l1", "ComplEx", "SimplE", "TransR"], "hidden_dim": ["12"],
    "gamma": ["7"],
    "init_scale": ["0.3"], "margin": ["2"], "adversarial_temperature": ["2"], "regularization_coef": ["1e-3", "0"],
    "regularization_norm": ["2", "0"], "lr": ["0.5"], "entity_dropout": ["0.2"], "relation_dropout": ["0.2"],
    "label_smoothing": ["0.1"], "relation_prediction": ["0.1"], "batch_size": ["32", "15"],
    "neg_sample_size": ["8", "all"], "neg_chunk_size": ["1", "8"], "eval_interval": ["4", "10"],
    "eval_percent": ["0.5", "1"], "batch_size_eval": ["2"], "neg_sample_size_eval": ["-1", "3"], "gpu": ["-1 -1"],
    "num_proc": ["2"], "num_thread": ["2"], "force_sync_interval": ["7"], "save_path": ["elsewhere"],
    "max_step": ["30"], "max_epoch": ["2"], "machine_timeout": ["7"], "early_stop_delta": ["0.1"],
    "log_interval": ["7"], "seed": ["4"], "checkpoint_interval": ["0", "7"], "early_stop_patience": ["1", "0"],
    "lr_patience": ["2", "0"], "lr_decay_at": ["15", "30 15", "25"], "lr_factor": ["0.3"], "init_from": ["."],
    "cache_ratio": ["0.3", "1"], "cache_size": ["1KiB"], "lookahead": ["3"], "sampler_threads": ["2"],
    "flush_threads": ["1"]}
CHOSEN = {name for name, each in OPTIONS.items() if each.choices} - {"trackers"}
SWITCHES = {name for name, each in OPTIONS.items() if each.is_switch}


def changes():
    """(name, arguments) of each change of one flag."""
    for name, each in OPTIONS.items():
        if name in OTHER:
            yield from ((name, [f"--{name}", *value.split(" ")]) for value in OTHER[name])
        elif name in CHOSEN:
            yield from ((name, [f"--{name}", value]) for value in each.choices)
        elif name in SWITCHES:
            yield name, [f"--{name}"] if each.default is False else [f"--{name}", "off"]


def tried(what):
    """The changes that are made of one of RUNS. Flags of store, devices and data are alike for all models and losses:
    where fuzzers run for a short time, each of them is changed in two RUNS."""
    turn = list(RUNS).index(what)
    longer = os.environ.get("DGLKE_FRUGAL_FUZZ", "1") != "1"
    return [(name, arguments) for number, (name, arguments) in enumerate(changes())
            if longer or OPTIONS[name].group.split()[0] not in ("store", "devices", "graph") or number % 3 == turn % 3]


def test_every_flag_is_changed():
    assert {name for name, _ in changes()} == set(OPTIONS) - {"trackers"}  # which takes packages, and no numbers


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Of the data and of runs; the current one while a run trains, as relative paths are given."""
    folder = tmp_path_factory.mktemp("resumed")
    chance = random.Random(1)
    triples = sorted({(chance.randrange(30), chance.randrange(3), chance.randrange(30)) for _ in range(300)})
    chance.shuffle(triples)
    for name, part in (("train", triples[:200]), ("valid", triples[200:230]), ("test", triples[230:260])):
        lines = [f"n{h}\tr{r}\tn{t}\t{1 + number % 5}\n" for number, (h, r, t) in enumerate(part)]
        (folder / f"{name}.tsv").write_text("".join(lines))
        if name == "train":
            (folder / "weighted.tsv").write_text("".join(line.rpartition("\t")[0] + "\t3\n" for line in lines))
    (folder / "elsewhere").mkdir()
    for path in folder.glob("*.tsv"):
        shutil.copy(path, folder / "elsewhere")
    return folder


@pytest.fixture
def begun(folder, monkeypatch, request):
    """(folder of a run that was stopped, folder of the run that went on to the end)."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")

    def begin(what):
        made = [], []
        for steps, found in zip((STOPPED, STEPS), made):
            where = folder / f"{what} {steps}".replace(" ", "_")
            if not where.exists():
                folders = ["--data_path", str(folder), "--save_path", str(where)]
                main([*COMMON, *RUNS[what], *folders, "--max_step", str(steps)])
            found += where.iterdir()
        (stopped,), (whole,) = made
        return stopped, whole

    return begin


def tables(run, saved=True):
    """The arrays of a run by name; those of its last checkpoint if it has not saved them."""
    where = run if saved else run / f"checkpoints/step-{STEPS:012}"
    found = {path.name: np.load(path) for path in where.glob("*.npy")}
    assert len(found) >= 2
    return found


def resumed(stopped, folder, capsys, arguments):
    """The folder of a run that went on with further arguments, or the sentence that refuses them."""
    again = folder / "again"
    shutil.rmtree(again, ignore_errors=True)
    shutil.copytree(stopped, again)
    capsys.readouterr()
    try:
        main(["--resume", str(again), "--max_step", str(STEPS), *arguments])
    except SystemExit as ended:
        messages = capsys.readouterr().err
        assert ended.code == 2 and len(messages.splitlines()) == 1, messages
        return messages
    return again


def wrong(found, whole, arguments):
    """What is wrong with what `resumed` returns; None if nothing is."""
    if isinstance(found, str):
        short = [OPTIONS[name.lstrip("-")].short for name in arguments if name.startswith("--")]
        named = [each for each in (*arguments, *filter(None, short)) if len(each) > 2]
        return None if any(each.lstrip("-") in found for each in named) else f"refused without its name: {found}"
    saved = "--no_save_emb" not in arguments
    found, expected = tables(found, saved), tables(whole, saved)
    if found.keys() != expected.keys():
        return f"other files: {sorted(found)}"
    same = all(np.array_equal(found[name], table.astype(found[name].dtype)) for name, table in expected.items())
    return None if same else "other numbers"


@pytest.mark.parametrize("what", RUNS)
def test_a_flag_that_changes_is_refused_or_changes_no_number(what, begun, folder, capsys):
    stopped, whole = begun(what)
    faults = {}
    for name, arguments in tried(what):
        fault = wrong(resumed(stopped, folder, capsys, arguments), whole, arguments)
        if fault and name != "max_step":  # which makes another end of the same run
            faults[" ".join(arguments)] = fault
    assert not faults, "\n".join(f"{name}: {fault}" for name, fault in faults.items())


@pytest.mark.fuzz(seeds=3)
def test_flags_that_change_together(fuzz_seed, begun, folder, capsys):
    chance = random.Random(fuzz_seed)
    stopped, whole = begun(chance.choice(list(RUNS)))
    every = [(name, arguments) for name, arguments in changes() if name != "max_step"]
    for _ in range(5):
        chosen = chance.sample(every, 2)
        arguments = [argument for _, given in chosen for argument in given]
        assert not wrong(resumed(stopped, folder, capsys, arguments), whole, arguments), arguments
