"""Nothing happens by import, only dglke sees the stand-ins, and what cannot work is refused with a sentence."""
import sys
from importlib import metadata

import pytest

from dglke_frugal import vanilla
from dglke_frugal.vanilla import versions
from dglke_frugal.errors import InputError


needs_dgl = pytest.mark.skipif(sys.version_info >= (3, 13), reason="dgl has no wheels")


def test_import_alone_loads_neither_dgl_nor_dglke_nor_torch(python):
    python("""
import sys
for name in "dgl", "dglke", "torch":
    sys.modules[name] = None  # importing it raises
before = set(sys.modules)
import dglke_frugal, dglke_frugal.vanilla
assert all(sys.modules[name] is None for name in ("dgl", "dglke", "torch"))
assert not {"pkg_resources", "distutils", "pandas"} & (set(sys.modules) - before)
""")


@needs_dgl
def test_install_leaves_everything_else_as_it_was(python):
    printed = python("""
import os, sys
import dglke_frugal.vanilla as vanilla
vanilla.install()
import dgl, dgl.backend, dglke.train, dglke.models.infer
vanilla.install()
assert sys.modules["dgl"] is dgl and dglke.train.__name__ == "dglke.train"
assert dgl.DGLGraph.__module__ == "dgl.heterograph" and not hasattr(dgl, "contrib") and not hasattr(dgl, "transform")
assert not {"dgl.contrib", "dgl.graphbolt", "pkg_resources"} & set(sys.modules)
assert "repairs" not in str(dgl.backend.arange) and type(dgl.backend.arange(0, 3)).__name__ == "Tensor"
import numpy
assert not hasattr(numpy, "float")
print(dglke.__version__, dgl.graph(([0, 1], [1, 2])).num_edges())
""")
    assert printed.split() == ["0.1.2", "2"]


@pytest.mark.parametrize("package, version, says", [
    ("dglke", None, "dglke, which is not installed: pip install dglke==0.1.2 'dgl<=2.1.0,>=1.1.3'"),
    ("dgl", None, "dgl, which is not installed: pip install dglke==0.1.2 'dgl<=2.1.0,>=1.1.3'"),
    ("scipy", None, "scipy, which is not installed: pip install dglke==0.1.2 'dgl<=2.1.0,>=1.1.3'"),
    ("dglke", "0.1.0.dev", "dglke 0.1.0.dev is installed"),
    ("dgl", "0.9.1", "dgl 0.9.1 is installed"),
    ("dgl", "2.4.0+cu124", "dgl 2.4.0+cu124 is installed"),
    ("torch", "2.3.1+cpu", "torch 2.3.1+cpu is installed")])
def test_unsupported_releases_are_refused(monkeypatch, package, version, says):
    installed = {"dglke": "0.1.2", "dgl": "2.1.0", "packaging": "24.0", "scipy": "1.14.0", "torch": "2.4.0",
                 package: version}

    def lookup(name):
        if installed[name] is None:
            raise metadata.PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr(metadata, "version", lookup)
    monkeypatch.setattr(metadata, "requires", lambda name: [
        "dglke==0.1.2; extra == 'vanilla'", "dgl<=2.1.0,>=1.1.3; extra == 'vanilla'"])
    monkeypatch.setattr(sys, "version_info", (3, 11, 0))
    with pytest.raises(InputError) as error:
        versions.check_versions()
    assert says in str(error.value)


def test_a_python_without_dgl_is_told_what_to_do(monkeypatch):
    def lookup(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(versions.metadata, "version", lookup)
    monkeypatch.setattr(sys, "version_info", (3, 13, 0))
    with pytest.raises(InputError, match="Python 3.9 to 3.12.*our own trainer"):
        versions.check_versions()


def test_another_framework_is_refused(monkeypatch):
    monkeypatch.setenv("DGLBACKEND", "mxnet")
    with pytest.raises(InputError, match="DGLBACKEND is 'mxnet'"):
        versions.check_versions()


@pytest.mark.parametrize("command", ["server", "client", "dist_train"])
def test_cluster_commands_are_refused(command):
    with pytest.raises(InputError, match=f"dglke_{command} is not supported"):
        vanilla.run(command, [])


def test_an_unknown_command_is_refused():
    with pytest.raises(InputError, match="unknown command 'tarin': choose one of train, eval"):
        vanilla.run("tarin", [])


@pytest.mark.parametrize("argv, found", [
    ("--pairwise --lr 0.1", ["--pairwise"]),
    ("--lr 0.1 --loss_genre=Hinge --margin 2", ["--loss_genre", "--margin"]),
    ("--loss Hinge --marg 2 --pair", ["--loss_genre", "--margin", "--pairwise"]),
    ("-pw -m 2", ["-pw", "-m"]),
    ("-m0.5", ["-m"]),
    ("--model_name TransE --max_step 5 --lr -1 --log 5 -adv -rc 1e-9 --has_edge_importance --mix", [])])
def test_flags_of_a_later_dglke_are_found(argv, found):
    assert vanilla.unknown_flags("train", argv.split()) == found
    assert vanilla.unknown_flags("eval", argv.split()) == []


@needs_dgl
def test_the_table_of_later_flags_agrees_with_the_parser():
    """Each entry is the shortest spelling that dglke's own parser does not take for a flag of its own."""
    vanilla.install()
    from dglke.train import ArgParser

    from dglke_frugal.vanilla.commands import _LATER_FLAGS

    known = [option for action in ArgParser()._actions for option in action.option_strings]
    for flag, shortest in _LATER_FLAGS["train"].items():
        assert not any(option.startswith(shortest) for option in known), flag
        assert flag.startswith(shortest)
        if len(shortest) > 3:
            assert any(option.startswith(shortest[:-1]) for option in known), flag
