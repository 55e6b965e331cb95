"""A flag that has no effect in a run gets one line that says so, and no other flag does."""

import re

import pytest

import dglke_frugal
from dglke_frugal.cli.train import main
from dglke_frugal.options import OPTIONS, TrainConfig, lines_on_unused_flags

GPU = ["--gpu", "0"]


def unused(*arguments, **where):
    """Names of the flags of a command line that have no effect."""
    from dglke_frugal.cli import flags

    given = flags.given([*map(str, arguments)])
    lines = lines_on_unused_flags(TrainConfig.from_flags(given), given, **{"resumed": False, **where})
    return {re.fullmatch(r"--(\w+) has no effect in this run: .+", line)[1] for line in lines}


@pytest.mark.parametrize("flags, names", [
    ([], ""),
    (["-m", 2], "margin"),
    (["-m", 1], "margin"),  # the default, but given
    (["-m", 2, "--loss_genre", "Hinge"], ""),
    (["-m", 2, "--loss_genre", "Softmax"], "margin"),
    (["-a", 2], "adversarial_temperature"),
    (["-a", 2, "-adv"], ""),
    (["--lr_factor", 0.3], "lr_factor"),
    (["--lr_factor", 0.3, "--lr_decay_at", 7], ""),
    (["--lr_factor", 0.3, "--lr_patience", 2, "--valid"], ""),
    (["--lr_decay_at", 50, 60, "--max_step", 50], "lr_decay_at"),
    (["--lr_decay_at", 49, 60, "--max_step", 50], ""),
    (["--num_thread", 4], "num_thread"),
    (["--num_thread", 4, "--num_proc", 2], ""),
    (["-rn", 2, "-rc", 0], "regularization_norm"),
    (["-rn", 0, "-rc", 1], "regularization_coef"),
    (["-rn", 2, "-rc", 1], ""),
    (["--eval_interval", 5], "eval_interval"),
    (["--eval_interval", 5, "--test"], "eval_interval"),
    (["--eval_interval", 5, "--valid"], ""),
    (["--eval_percent", 0.5], "eval_percent"),
    (["--eval_percent", 0.5, "--test"], ""),
    (["--batch_size_eval", 5, "--test"], "batch_size_eval"),
    (["--batch_size_eval", 5, "--test", "--neg_sample_size_eval", 5], ""),
    (["--neg_sample_size_eval", 5, "--no_eval_filter", "--neg_deg_sample_eval"],
     "neg_sample_size_eval no_eval_filter neg_deg_sample_eval"),
    (["--mix_cpu_gpu", *GPU], "mix_cpu_gpu"),
    (["--async_update"], "async_update"),
    (["--force_sync_interval", 5, "--num_proc", 2], "force_sync_interval"),
    (["--rel_part"], "rel_part"),
    (["--partition", "metis"], "partition"),
    (["--partition", "metis", "--num_proc", 2], ""),
    (["--partition", "range", "--negatives", "local", "--num_proc", 2, "--loss_genre", "Softmax", "--neg_sample_size",
      "all"], "partition negatives"),
    (["--parallel", "rows"], "parallel"),
    (["--matmul", "tf32"], "matmul"),
    (["--matmul", "tf32", *GPU], ""),
    (["--cuda_graphs", "off"], "cuda_graphs"),
    (["--peer", "off", *GPU], "peer"),
    (["--peer", "off", *GPU, 1], ""),
    (["--cache_ratio", 0.1, "--cache_policy", "lfu", "--flush_threads", 2], "cache_ratio cache_policy flush_threads"),
    (["--cache_ratio", 0.1, "--cache_policy", "lfu", "--flush_threads", 2, "--flush", "p2f"], ""),
    (["--cache_ratio", 0.1, "--cache_size", 100, "--flush", "sync", "--flush_threads", 2], "cache_ratio"),
    (["--flush_threads", 2, *GPU], "flush_threads"),  # whose steps store rows themselves
    (["--flush_threads", 2, *GPU, "--flush", "p2f"], ""),
    (["--save_dtype", "fp16", "--no_save_emb"], "save_dtype"),
    (["--score_rule", "dglke", "--model_name", "DistMult"], "score_rule"),
    (["--score_rule", "dglke", "--model_name", "RESCAL"], ""),
    (["-g", 5, "--model_name", "ComplEx", "--init", "normal"], "gamma"),
    (["-g", 5, "--model_name", "ComplEx"], ""),  # which start values depend on
    (["-g", 5, "--model_name", "RotatE", "-de", "--init", "normal"], ""),
    (["-rn", 2, "--loss_genre", "Softmax", "--neg_sample_size", "all", "--regularizer", "n3"], "regularization_norm"),
    (["--regularizer", "n3", "-rc", 0], "regularizer")])
def test_what_has_no_effect(flags, names):
    assert unused(*flags) == set(names.split())


def test_a_resumed_run_stays_in_its_folder():
    assert unused("--save_path", "x") == set()
    assert unused("--save_path", "x", resumed=True) == {"save_path"}


@pytest.mark.parametrize("flags, names", [
    (["--num_thread", 4, "--machine_timeout", 30, "--partition", "range"], "num_thread"),
    (["--cache_size", 100, "--cache_policy", "lfu", "--flush", "p2f", "--flush_threads", 2],
     "cache_size cache_policy flush flush_threads"),
    (["--cache_ratio", 0.1, "--peer", "off", *GPU], "cache_ratio peer")])
def test_what_has_no_effect_on_machines(flags, names):
    assert unused("--num_proc", 2, *flags, on_machines=True) == set(names.split())


def test_each_flag_that_may_be_without_effect_says_when():
    for each in OPTIONS.values():
        in_every_run = each.used.holds(TrainConfig()) and each.used.words == ""
        assert in_every_run or 10 < len(each.used.words) < 110, each.name


@pytest.fixture
def graph(tmp_path):
    (tmp_path / "train.tsv").write_text("".join(f"e{i}\tnext\te{(i + 1) % 30}\n" for i in range(30)))
    return {"dataset": "ring", "data_path": tmp_path, "format": "raw_udd_hrt", "model_name": "TransE_l2", "max_step": 2,
            "hidden_dim": 8, "batch_size": 10, "neg_sample_size": 5, "save_path": tmp_path / "runs"}


def command(graph):
    return [*(f"--{name}={value}" for name, value in graph.items()), "--data_files", "train.tsv"]


def test_a_run_says_it_in_its_output(graph, tmp_path, capsys):
    line = f"--margin has no effect in this run: {OPTIONS['margin'].used.words}\n"
    main([*command(graph), "--margin", "2"])
    assert capsys.readouterr().out.count(line) == 1
    main(["--resume", str(tmp_path / "runs" / "TransE_l2_ring_0"), "--max_step", "4", "--save_path", "other"])
    messages = capsys.readouterr().out
    assert messages.count("no effect") == 1  # the other was reported when the run began
    assert "--save_path has no effect in this run: a run that is resumed stays in its folder\n" in messages
    file = tmp_path / "runs" / "TransE_l2_ring_0" / "config.yaml"
    main(["--config", str(file), "--save_path", str(tmp_path / "more")])
    messages = capsys.readouterr().out  # of every flag, as the file holds them all
    assert {re.match(r"--(\w+)", line)[1] for line in messages.splitlines() if "no effect" in line} == {"margin",
                                                                                                        "matmul"}
    main(command(graph))
    assert "no effect" not in capsys.readouterr().out


def test_resume_auto_looks_for_the_run_in_save_path(graph, capsys):
    for steps in (2, 4):
        main([*command({**graph, "max_step": steps}), "--resume", "auto"])
        messages = capsys.readouterr().out
        assert "no effect" not in messages and ("resuming after step 2 of 4" in messages) == (steps == 4)


def test_python_says_it_too(graph, capsys):
    dglke_frugal.train(**graph, data_files=["train.tsv"], num_thread=3)
    assert "--num_thread has no effect in this run: one process takes all cores" in capsys.readouterr().out


@pytest.mark.parametrize("rank, lines", [("0", 1), ("1", 0)])
def test_of_torchruns_processes_the_first_says_it(graph, capsys, monkeypatch, rank, lines):
    from dglke_frugal.cli.train import configuration, log_unused_flags

    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("WORLD_SIZE", "2")
    log_unused_flags(*configuration([*command(graph), "--num_thread", "2", "--margin", "2"]))
    messages = capsys.readouterr().out
    assert messages.count("\n") == lines and "--num_thread" not in messages
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1")
    log_unused_flags(*configuration([*command(graph), "--num_thread", "2"]))
    messages = capsys.readouterr().out
    assert messages.count("\n") == lines == messages.count("--num_thread has no effect")
