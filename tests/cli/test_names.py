"""A name that there is not is answered with the nearest one; every command knows its version."""

from importlib import metadata

import pytest

import dglke_frugal
from dglke_frugal.cli import doctor, emb_sim, evaluate, export, plan, predict, presets, report, search, split, train
from dglke_frugal.cli.main import main
from dglke_frugal.nearest import or_nearest


@pytest.mark.parametrize("arguments, says", [
    (["trian"], "there is no command 'trian'; did you mean 'train'?"),
    (["xyzzy"], "there is no command 'xyzzy'; choose from compare, doctor"),
    (["train", "--hiden_dim", "3"], "there is no flag --hiden_dim; did you mean '--hidden_dim'?"),
    (["train", "--cache_rati", "3"], "there is no flag --cache_rati; did you mean '--cache_ratio'?"),
    (["predict", "--exec_mod", "3", "--topk", "2"], "there is no flag --topk; did you mean '--topK'?"),
    (["split", "a.tsv", "--", "--order", "hrt"], "unrecognized arguments: --order hrt; see --help"),
    (["split", "a.tsv", "b\nc"], "unrecognized arguments: b c; see --help"),
    (["report", "b\nc"], "b c is not a folder")])
def test_the_nearest_name_is_offered(arguments, says, refused):
    with refused(says):
        main(arguments)


def test_unknown_keys_of_a_file(tmp_path, refused):
    path = tmp_path / "flags.yaml"
    path.write_text("learning_rate: 0.1\nmax_steps: 3\n")
    with refused("there is no flag 'learning_rate'; dglke_train --help lists them"):
        main(["train", "--config", str(path)])
    path.write_text("max_steps: 3\n")
    with refused(f"{path}, line 1: there is no flag 'max_steps'; did you mean 'max_step'?"):
        main(["train", "--config", str(path)])


def test_far_names_are_not_offered():
    assert or_nearest("zzz", ["lr", "gamma"]) == "; choose from gamma, lr"
    assert or_nearest("zzz", [f"name{i}" for i in range(30)]).endswith("--help lists them")


@pytest.mark.parametrize("module", [doctor, emb_sim, evaluate, export, plan, predict, report, split, train, presets,
                                    search])
def test_every_command_says_its_version(module, capsys):
    module.main(["--version"])
    assert capsys.readouterr().out == f"dglke_frugal {metadata.version('dglke-frugal')}\n"
    main(["--version"])
    assert dglke_frugal.__version__ in capsys.readouterr().out
