"""Whatever is wrong with the input of `dglke_train`: one sentence on stderr, exit code 2, nothing half written."""
import itertools
import json
import os
import resource
import subprocess
import sys

import pytest

from dglke_frugal.cli.train import main

GOOD = "a\tlikes\tb\nb\tlikes\tc\nc\tknows\ta\na\tknows\tc\n" * 8
RUN = ["--model_name", "DistMult", "--hidden_dim", "8", "--batch_size", "8", "--neg_sample_size", "4", "--max_step",
       "2", "--log_interval", "1", "--seed", "1"]
RAW = ["--dataset", "mine", "--format", "raw_udd_hrt", "--data_files", "train.txt"]
UDD = ["--dataset", "mine", "--format", "udd_hrt", "--data_files", "entities.tsv", "relations.tsv", "ids.txt"]


def write(folder, **files):
    for name, content in files.items():
        path = folder / name.replace("__", ".")
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def good(*flags):
    """(files, flags) of a training file that is right."""
    return {"train__txt": GOOD}, [*RAW, *flags]


def yaml(content):
    """(files, flags) with a config file of this content."""
    return {"train__txt": GOOD, "c__yaml": content}, [*RAW, "--config", "{data}/c.yaml"]


# What is wrong: (files of the data folder, flags, what the sentence must name)
MAPS = {"entities__tsv": "0\ta\n1\tb\n2\tc\n", "relations__tsv": "0\tlikes\n1\tknows\n"}
IDS = {**MAPS, "ids__txt": "0\t0\t1\n1\t1\t2\n" * 8}
BAD = {
    "data folder missing": ({}, [*RAW, "--data_path", "nowhere"], ["train.txt"]),
    "a file for the data folder": (*good("--data_path", "{data}/train.txt"), ["does not exist; check --data_path"]),
    "a folder without a train file": ({"triples__txt": GOOD}, [],
                                      ["has neither a file train.txt", "--dataset FB15k"]),
    "training file missing": ({}, RAW, ["train.txt"]),
    "training file empty": ({"train__txt": ""}, RAW, ["train.txt"]),
    "two columns": ({"train__txt": GOOD + "a\tlikes\n"}, RAW, ["train.txt", "line 33"]),
    "an empty line": ({"train__txt": GOOD + "\n" + GOOD}, RAW, ["train.txt", "line 33"]),
    "wrong delimiter": ({"train__txt": GOOD.replace("\t", ",")}, RAW, ["train.txt", "line 1"]),
    "not UTF-8": ({"train__txt": GOOD.encode() + b"\xff\xfe\tlikes\tb\n"}, RAW, ["train.txt", "line 33"]),
    "a directory for a file": ({"train__txt": GOOD}, [*RAW[:-1], "."], []),
    "data_files missing": ({"train__txt": GOOD}, RAW[:4], ["data_files"]),
    "too many data_files": (*good("train.txt", "train.txt", "train.txt"), ["data_files"]),
    "unknown format": (*good("--format", "raw_udd_hhh"), ["raw_udd_hhh"]),
    "unknown built-in": ({}, ["--dataset", "FB16k"], ["FB16k"]),
    "own files named FB15k": ({"train__txt": GOOD}, RAW[2:], ["dataset"]),
    "id not a number": ({**IDS, "ids__txt": "0\t0\t1\n0\tx\t1\n"}, UDD, ["ids.txt", "line 2"]),
    "entity id out of range": ({**IDS, "ids__txt": "0\t0\t1\n0\t0\t3\n"}, UDD, ["ids.txt", "line 2", "3"]),
    "relation id out of range": ({**IDS, "ids__txt": "0\t2\t1\n"}, UDD, ["ids.txt", "line 1"]),
    "negative id": ({**IDS, "ids__txt": "0\t0\t-1\n"}, UDD, ["ids.txt", "line 1"]),
    "weight missing": (*good("--has_edge_importance"), ["train.txt", "line 1"]),
    "weight not a number": ({"train__txt": GOOD.replace("\n", "\t1\n") + "a\tlikes\tb\tnan\n"},
                            [*RAW, "--has_edge_importance"], ["train.txt", "line 33"]),
    "test set missing": (*good("--test"), ["--test"]),
    "validation set missing": (*good("--valid"), ["--valid"]),
    "hidden_dim 0": (*good("--hidden_dim", "0"), ["--hidden_dim"]),
    "hidden_dim not a number": (*good("--hidden_dim", "many"), ["--hidden_dim"]),
    "batch_size negative": (*good("--batch_size", "-4"), ["--batch_size"]),
    "learning rate 0": (*good("--lr", "0"), ["--lr"]),
    "learning rate not finite": (*good("--lr", "nan"), ["--lr"]),
    "gamma not finite": (*good("--gamma", "inf"), ["--gamma"]),
    "gamma by which all rows start as zeros": (*good("--gamma", "-2"), ["--gamma is -2", "--init_scale"]),
    "gamma without an angle": (*good("--model_name", "RotatE", "-de", "--gamma", "-3", "--init", "normal"),
                               ["--gamma is -3", "give a --gamma above -2"]),
    "unknown model": (*good("--model_name", "TransX"), ["TransX"]),
    "RotatE without -de": (*good("--model_name", "RotatE"), ["-de"]),
    "SimplE without -dr": (*good("--model_name", "SimplE", "-de"), ["-dr"]),
    "ComplEx of odd size": (*good("--model_name", "ComplEx", "--hidden_dim", "7"), ["odd", "7"]),
    "pairwise Logsigmoid": (*good("--pairwise"), ["--pairwise"]),
    "adversarial temperature 0": (*good("-adv", "-a", "0"), ["--adversarial_temperature"]),
    "pairwise and adversarial": (*good("-pw", "-adv", "--loss_genre", "Hinge"), ["-adv"]),
    "candidates by degree, filtered": (*good("--neg_deg_sample_eval"), ["--no_eval_filter"]),
    "eval_percent 2": (*good("--eval_percent", "2"), ["--eval_percent"]),
    "mix_cpu_gpu without a GPU": (*good("--mix_cpu_gpu"), ["--mix_cpu_gpu"]),
    "GPU -2": (*good("--gpu", "-2"), ["--gpu"]),
    "processes do not share out": (*good("--gpu", "0", "1", "--num_proc", "3"), ["--num_proc"]),
    "more threads than there are": (*good("--num_proc", "2", "--num_thread", "20000"), ["--num_thread 20000"]),
    "more flush threads": (*good("--flush", "p2f", "--flush_threads", "100000"), ["--flush_threads 100000"]),
    "more samplers": (*good("--sampler_threads", "30000"), ["--sampler_threads 30000"]),
    "more processes": (*good("--num_proc", "50000"), ["--num_proc 50000"]),
    "more threads of DGL-KE's loop": (*good("--trainer", "dglke", "--flush_threads", "99999"),
                                      ["--flush_threads 99999"]),
    "seed negative": (*good("--seed", "-1"), ["--seed"]),
    "cache_ratio 2": (*good("--cache_ratio", "2"), ["--cache_ratio"]),
    "cache_size not a size": (*good("--cache_size", "much"), ["much"]),
    "unknown flag": (*good("--learning_rate", "1"), ["--learning_rate"]),
    "ambiguous flag": (*good("--neg", "3"), ["--neg"]),
    "early stopping without validation": (*good("--early_stop_patience", "3"), ["--valid"]),
    "table too large": (*good("--hidden_dim", str(1 << 40)), ["memory"]),
    "resume from nothing": (*good("--resume", "nowhere"), ["nowhere"]),
    **{f"{name} without a value": (*good(f"--{name}", ""), [f"--{name} is empty"])
        for name in ("resume", "config", "preset", "init_from")},
    "config file missing": (*good("--config", "none.yaml"), ["none.yaml"]),
    "config file with an unknown key": (*yaml("learning_rate: 1\n"), ["learning_rate"]),
    "config file with a removed flag": (*yaml("lr: 1\ndeterministic: true"),
                                        ["c.yaml, line 2: there is no flag 'deterministic': runs are always"]),
    "config file that is no YAML": (*yaml("a: [1\n"), ["c.yaml"]),
    "config file with a list for a number": (*yaml("hidden_dim: [8, 9]"),
                                             ["c.yaml, line 1", "hidden_dim", "one value"]),
    "config file with an empty list for a number": (*yaml("lr: []"), ["c.yaml, line 1", "'lr' is []", "one value"]),
    "config file with text for a switch": (*yaml("seed: 1\ntest: 'no'"),
                                           ["c.yaml, line 2", "'test' is 'no'", "true or"]),
    "config file with a number of hours": (*yaml("max_step: 1:30"), ["--max_step", "1:30"]),
    "config file with a number for a switch": (*yaml("test: 1"), ["c.yaml, line 1", "'test' is 1;"]),
    "config file with a switch for a number": (*yaml("lr: yes"), ["c.yaml, line 1", "'lr' is true"]),
    "config file with a key twice": (*yaml("lr: 1\nseed: 2\nlr: 3\n"), ["c.yaml, line 3", "'lr' stands on line 1"]),
    "config file with a key that is a list": (*yaml("? [lr]\n: 1"), ["c.yaml, line 1"]),
    "config file nested deeply": (*yaml("[" * 5000), ["c.yaml", "nested too deeply"]),
    "config file with a number of thousands of digits": (*yaml("gamma: " + "9" * 5000), []),
    "config file with NUL in a name": (*yaml('save_path: "a\\0b"'), ["c.yaml, line 1", "NUL"]),
    "config file with a day that there is not": (*yaml("save_path: 2020-13-45"), ["c.yaml, line 1", "month"]),
    "config file with an escape of no character": (*yaml('lr: 1\nsave_path: "\\U7FFFFFFF"'),
                                                   ["c.yaml line 2 is not YAML"]),
    "config file with a larger escape": (*yaml('save_path: "\\UFFFFFFFF"'), ["c.yaml line 1 is not YAML"]),
    "config file with an empty !!int": (*yaml('max_step: !!int ""'), ["c.yaml line 1 is not YAML"]),
    "config file with a !!timestamp of text": (*yaml("save_path: !!timestamp foo"), ["c.yaml line 1 is not YAML"]),
    "config file with a !!bool of text": (*yaml("lr: 1\nvalid: !!bool foo"), ["c.yaml line 2 is not YAML"]),
    "hidden_dim of hundreds of digits": (*good("--hidden_dim", "9" * 500), ["--hidden_dim"]),
    "hidden_dim of thousands of digits": (*good("--hidden_dim", "9" * 5000), ["--hidden_dim"]),
    "max_step beyond 64 bits": (*good("--max_step", str(2**63)), ["--max_step"]),
    "lookahead beyond 32 bits": (*good("--flush", "p2f", "--lookahead", str(2**62)), ["--lookahead"]),
    "seed of hundreds of digits": (*good("--seed", "9" * 400), ["--seed"]),
    "cache_size of hundreds of digits": (*good("--cache_size", "9" * 400), ["not a size"]),
    "cache_size with two points": (*good("--cache_size", "1.2.3"), ["not a size"]),
    "gamma that float32 cannot hold": (*good("--gamma", "1e300"), ["--gamma is 1e+300", "float32"]),
    "margin that float32 cannot hold": (*good("--loss_genre", "Hinge", "-m", "1e300"), ["--margin"]),
    "regularization that float32 cannot hold": (*good("-rc", "1e300"), ["--regularization_coef"]),
    "dataset with a path": (*good("--dataset", "../x"), ["--dataset '../x'", "--data_path"]),
    "dataset without a name": (*good("--dataset", ""), ["--dataset ''"]),
    "dataset with a very long name": (*good("--dataset", "x" * 300), ["--dataset", "300 bytes"]),
    "early stopping, but no validation in time": (
        {"train__txt": GOOD, "valid__txt": GOOD},
        [*RAW, "valid.txt", "valid.txt", "--valid", "--early_stop_patience", "1"],
        ["--eval_interval 10000", "--max_step 2"]),
    "save_path below a file": (*good("--save_path", "{data}/train.txt/runs"), ["train.txt"]),
    "vanilla with a later flag": (*good("--backend", "vanilla", "--pairwise"), ["--pairwise"]),
    "vanilla resumed": (*good("--backend", "vanilla", "--resume", "x"), ["--resume"]),
    "DGL-KE's loop with SimplE": (*good("--trainer", "dglke", "--model_name", "SimplE", "-de", "-dr"),
                                  ["--trainer native"])}


@pytest.mark.parametrize("what", BAD)
def test_is_refused_in_one_sentence(what, tmp_path, capfd, monkeypatch):
    files, arguments, named = BAD[what]
    data, runs = tmp_path / "data", tmp_path / "runs"
    data.mkdir()
    monkeypatch.chdir(tmp_path)
    write(data, **files)
    before = sorted(data.iterdir())
    arguments = [argument.format(data=data) for argument in arguments]
    with pytest.raises(SystemExit) as stopped:
        main([*RUN, "--data_path", str(data), "--save_path", str(runs), *arguments])
    error = capfd.readouterr().err.strip()
    assert stopped.value.code == 2, error
    assert len(error.splitlines()) == 1 and "Traceback" not in error
    for name in named:
        assert name in error
    assert len(error) < 700
    assert not list(tmp_path.rglob("*.npy")) and not list(tmp_path.rglob("config.json"))
    # id maps may be made
    assert sorted(path for path in data.iterdir() if path.suffix != ".tsv" or path in before) == before


OF_OUR_OWN_TRAINER = ["--optimizer adam", "--matmul tf32", "--partition metis", "--lr_factor 0.1", "--row_dtype fp16",
                      "--save_dtype fp16", "--reciprocal", "--init normal", "--subsampling base", "--exclude_positive",
                      "--neg_chunk_size 4", "--init_from elsewhere"]
OF_VANILLA_ALONE = ["--parallel columns", "--regularizer n3", "--entity_dropout 0.1", "--relation_dropout 0.1",
                    "--labels kvsall", "--label_smoothing 0.1", "--relation_prediction 0.5"]


@pytest.mark.parametrize("loop, flag", [
    *itertools.product(["--trainer dglke", "--backend vanilla"], OF_OUR_OWN_TRAINER),
    *itertools.product(["--backend vanilla"], OF_VANILLA_ALONE)])
def test_dglkes_own_loop_ignores_no_flag_that_changes_numbers(loop, flag, tmp_path, refused):
    write(tmp_path, train__txt=GOOD)
    with refused(f"({flag}|{flag.split()[0]}) cannot be used with {loop}; leave one of the two out"):
        main([*RUN, *RAW, "--data_path", str(tmp_path), "--save_path", str(tmp_path / "runs"), *loop.split(),
              *flag.split()])
    assert not (tmp_path / "runs").exists()


def test_the_good_input_is_accepted(tmp_path):
    write(tmp_path, train__txt=GOOD)
    main([*RUN, *RAW, "--data_path", str(tmp_path), "--save_path", str(tmp_path / "runs")])
    assert json.loads(next((tmp_path / "runs").rglob("config.json")).read_text())["model_name"] == "DistMult"


def test_a_full_disk_leaves_no_half_written_file(tmp_path):
    write(tmp_path, train__txt="".join(f"e{i}\tlikes\te{i + 1}\n" for i in range(3000)))

    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))

    done = subprocess.run([sys.executable, "-m", "dglke_frugal", "train", *RUN, *RAW, "--hidden_dim", "64",
                           "--data_path", str(tmp_path), "--save_path", str(tmp_path / "runs")], capture_output=True,
                           text=True,
                          preexec_fn=small_files, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
    assert done.returncode == 2, done.stderr
    assert "cannot write" in done.stderr and "Traceback" not in done.stderr
    left = [path.name for path in (tmp_path / "runs").rglob("*") if path.is_file()]
    assert not [name for name in left if "entity" in name], left
