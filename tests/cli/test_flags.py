"""Old command lines keep their meaning."""

import importlib
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from dglke_frugal.cli import flags
from dglke_frugal.cli.flag_help import described, described_arguments, help_lines, page
from dglke_frugal.cli.main import COMMANDS
from dglke_frugal.models import MODELS
from dglke_frugal.options import OPTIONS, TrainConfig
from dglke_frugal.option import option, options


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


def test_the_help_of_init_names_models_whose_relations_do_not_go_by_it():
    assert all(model.name in OPTIONS["init"].help for model in MODELS if model.phases)


@pytest.mark.parametrize("each", [each for each in OPTIONS.values() if each.choices], ids=lambda each: each.name)
def test_every_choice_is_taken(each):
    for choice in each.choices:
        own, rest = parse(f"--{each.name} {choice}")
        taken = {**vars(rest), **vars(own)}[each.name]
        assert taken == ([choice] if each.many else choice)


@pytest.mark.parametrize("line, name, value", [
    ("--max 7", "max_step", 7),
    ("--sa x", "save_path", "x"),
    ("--s x", "save_path", "x"),
    ("-adv", "neg_adversarial_sampling", True),
    ("-adv off", "neg_adversarial_sampling", False),
    ("-de -dr", "double_ent", True),
    ("--valid=off", "valid", False),
    ("--val --test", "valid", True),
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
    ("--data_files a b c --seed 1", "data_files", ["a", "b", "c"])])
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


def command_help(*arguments):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True)


def test_help_names_every_flag_without_importing_torch():
    done = command_help("-X", "importtime", "-m", "dglke_frugal", "train", "--help")
    assert " torch" not in done.stderr
    for name in TrainConfig().to_flags():
        assert f"--{name}" in done.stdout


def test_a_run_on_the_cpu_imports_nothing_that_takes_long():
    code = ("import sys, dglke_frugal.cli.train, dglke_frugal.training.train\n"
            "print(sorted({'torch', 'importlib.metadata', 'multiprocessing', 'optuna'} & {*sys.modules}))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_help_begins_with_usage_and_the_flags_that_matter_first():
    lines = list(help_lines(every=False))
    text = "\n".join(lines).splitlines()
    assert text[0].startswith("usage: ") and text[5:7] == ["", "the flags that matter first:"]
    assert [line.split()[0] for line in text[7:20]].count("--dataset") == 1 and text[20] == ""
    assert max(map(len, text)) <= 140


def test_help_all_explains_every_flag_in_one_line():
    lines = "\n".join(help_lines(every=True)).splitlines()
    for name, each in flags.EVERY.items():
        (line,) = [line for line in lines if re.match(rf"  (-\w+, )?--{name}( |$)", line)]
        assert line.endswith(described(each)) and each.help
    assert not any("--help-all explains" in line for line in lines)


@pytest.mark.parametrize("name", flags.EVERY)
def test_the_help_of_a_flag_is_a_line_of_at_most_100_characters(name):
    messages = described(flags.EVERY[name])
    assert 10 <= len(messages) <= 100 and "\n" not in messages


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "train"])
def test_the_page_has_a_line_of_at_most_100_characters_for_each_flag_of_a_command(command):
    module = importlib.import_module(f"dglke_frugal.cli.{COMMANDS[command][0]}")
    section = page().split(f"\n## dglke_frugal {command}\n")[1].split("\n## ")[0]
    parsers = [module.own_flags(), *([module.dglke_flags()] if hasattr(module, "dglke_flags") else [])]
    for name, words in (each for parser in parsers for each in described_arguments(parser)):
        assert 10 <= len(words) <= 100
        assert section.count("\n| " + name.replace("|", "\\|") + " |") == 1


@pytest.mark.parametrize("name", ["mix_cpu_gpu", "async_update", "force_sync_interval"])
def test_help_says_what_is_accepted_without_effect(name):
    assert flags.EVERY[name].help.startswith("accepted, no effect")


def test_the_page_of_flags_is_that_of_the_declarations():
    path = Path(__file__).resolve().parents[2] / "docs" / "flags.md"
    assert path.read_text(encoding="utf-8") == page(), "run python -m dglke_frugal.cli.flag_help > docs/flags.md"
    for name in flags.EVERY:
        of_train = page().split("\n## dglke_frugal ")[0]
        assert len(re.findall(rf"^\| `(?:-\w+, )?--{name}[ `]", of_train, re.MULTILINE)) == 1


def test_every_field_is_declared_with_whether_it_changes_the_numbers():
    with pytest.raises(TypeError, match="changes"):
        option(1, "a flag that does not say so")
    with pytest.raises(TypeError, match="Bare.size is not declared by option"):

        @options("a group")
        @dataclass(frozen=True)
        class Bare:
            size: int = 3

    assert set(OPTIONS) == set(TrainConfig().to_flags())


def test_flags_that_are_given_go_by_their_full_names():
    assert flags.given("--hid 8 -adv --seed 1 --lr_decay_at 3 4".split()) == {
        "hidden_dim": 8, "neg_adversarial_sampling": True, "seed": 1, "lr_decay_at": [3, 4]}
