"""The page for users of DGL-KE names each of its flags, each command there is, and no flag that there is not."""

import re
from pathlib import Path

from dglke_frugal.cli import emb_sim, evaluate, flags, predict
from dglke_frugal.cli.main import COMMANDS

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "from-dgl-ke.md").read_text(encoding="utf-8")
TRAIN = [action.option_strings for parser in (flags.new_flags(), flags.dglke_flags()) for action in parser._actions]
TABLES = TEXT[TEXT.index("## Flag by flag") : TEXT.index("## The other commands")]
FIRST_COLUMNS = "\n".join(line.split("|")[1] for line in TABLES.splitlines() if line.startswith("|"))


def test_every_flag_of_dglke_train_has_a_line():
    named = re.findall(r"(?<![\w-])--?[a-z]\w*", FIRST_COLUMNS)
    options = [option for action in flags.dglke_flags()._actions for option in action.option_strings]
    assert sorted(named) == sorted(options)


def test_no_flag_is_made_up():
    known = {option for strings in TRAIN for option in strings}
    known |= {option
              for parser in (evaluate.own_flags(), evaluate.dglke_flags(), predict.own_flags(), emb_sim.own_flags())
              for action in parser._actions
              for option in action.option_strings}
    named = set(re.findall(r"(?<![\w-])--[a-z]\w*", TEXT)) - {"--help", "--max"}
    assert named <= known


def test_every_command_is_named():
    for command in set(COMMANDS) - {"train"}:
        assert f"dglke_{command}`" in TEXT or f"dglke_frugal {command}`" in TEXT
