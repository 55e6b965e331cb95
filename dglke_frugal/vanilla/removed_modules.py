"""Stand-ins for modules that dgl and dglke import and that a current Python, setuptools or dgl lacks.

Each has exactly what dglke 0.1.2 uses of it.
"""
from __future__ import annotations

import importlib.util
import pkgutil
import re
import types

from ..errors import InputError
from .modules import module


class LooseVersion:
    """distutils.version.LooseVersion as far as dglke reads it: the version's parts, numbers as int."""

    def __init__(self, version: str):
        parts = re.findall(r"\d+|[a-z]+|[^\d.a-z]+", version)
        self.version = [int(part) if part.isdigit() else part for part in parts]


class _Cluster:
    def __init__(self, *_, **__):
        raise InputError("dglke's key-value store for clusters is not supported: train on one machine")


def before_dgl() -> list[types.ModuleType]:
    """The removed modules that `import dgl` needs.

    dgl.graphbolt, whose library in the wheels of dgl 2.x is built for torch up to 2.2 only; and pandas where it is not
    installed, which dgl 2.x imports for one of its data sets and does not declare.
    """
    return [module("dgl.graphbolt")] + [module("pandas")] * (importlib.util.find_spec("pandas") is None)


def before_dglke() -> list[types.ModuleType]:
    """The removed modules that `import dglke` needs in addition to dgl: parts of setuptools and distutils, both gone by
    Python 3.12."""
    version = module("distutils.version", LooseVersion=LooseVersion)
    return [module("pkg_resources", resource_string=pkgutil.get_data),
            module("distutils", version=version, __path__=[]), version]


def contrib(**attributes) -> types.ModuleType:
    """dgl.contrib, which dgl 1.0 removed: its key-value store is there to be imported, not to be used."""
    return module("dgl.contrib", KVClient=_Cluster, KVServer=_Cluster, **attributes)
