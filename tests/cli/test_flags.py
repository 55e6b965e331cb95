"""Old command lines keep their meaning."""

import subprocess
import sys
import time

import pytest

from dglke_frugal.cli import flags
from dglke_frugal.config import TrainConfig


def parse(line):
    own, rest = flags.split(line.split())
    return own, flags.dglke_flags().parse_args(rest)


def test_there_are_dglkes_41_flags():
    actions = [action for action in flags.dglke_flags()._actions if action.option_strings]
    assert len(actions) == 41
    names = {action.dest for action in actions}
    assert names == set(TrainConfig().to_flags()) - set(vars(flags.new_flags().parse_args([])))


def test_defaults_are_the_configurations():
    _, parsed = parse("")
    assert {**vars(parsed), "gpu": tuple(parsed.gpu)}.items() <= TrainConfig().to_flags().items()


@pytest.mark.parametrize(
    "line, name, value",
    [
        ("--max 7", "max_step", 7),
        ("--sa x", "save_path", "x"),
        ("--s x", "save_path", "x"),
        ("-adv", "neg_adversarial_sampling", True),
        ("-a 2", "adversarial_temperature", 2.0),
        ("-log 5", "log_interval", 5),
        ("--log 5", "log_interval", 5),
        ("-g 3", "gamma", 3.0),
        ("--gp 0 1", "gpu", [0, 1]),
        ("--gpu -1", "gpu", [-1]),
        ("--li x", None, None),
        ("--hid 8", "hidden_dim", 8),
        ("--da x", None, None),
        ("--lr 1e-3", "lr", 1e-3),
        ("-rc 1e-9 --seed 4", "regularization_coef", 1e-9),
        ("-pw", "pairwise", True),
        ("-m 2", "margin", 2.0),
        ("--ca x", None, None),
        ("--data_files a b c --seed 1", "data_files", ["a", "b", "c"]),
    ],
)
def test_abbreviations(line, name, value):
    if name is None:
        with pytest.raises(SystemExit) as stopped:
            parse(line)
        assert stopped.value.code == 2
    else:
        _, parsed = parse(line)
        assert getattr(parsed, name) == value


def test_our_flags_are_taken_out_whole_and_the_rest_stays_in_order():
    own, rest = flags.split("--lr 0.1 --backend vanilla --gpu 0 1 --seed 9 -adv --max_s 3".split())
    assert (own.backend, own.seed) == ("vanilla", 9)
    assert rest == "--lr 0.1 --gpu 0 1 -adv --max_s 3".split()


def test_help_is_quick_and_complete():
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "dglke_frugal", "train", "--help"], capture_output=True, text=True
    )
    assert done.returncode == 0
    assert " torch" not in done.stderr
    for name in TrainConfig().to_flags():
        assert f"--{name}" in done.stdout
    assert time.monotonic() - began < 20  # a machine under load; the promise of 2 s is measured, not asserted
