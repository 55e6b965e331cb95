"""Letting an import see other modules than the ones that are installed."""
from __future__ import annotations

import contextlib
import sys
import types
from typing import Any, Iterator


class ModuleView(types.ModuleType):
    """`module` with some of its attributes replaced. The module itself stays as it is, for everyone else."""

    def __init__(self, module: types.ModuleType, **replaced: Any):
        super().__init__(module.__name__, module.__doc__)
        self.__dict__.update(replaced)
        self.__dict__["_module"] = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def module(name: str, **attributes: Any) -> types.ModuleType:
    """A new module that has just these attributes."""
    made = types.ModuleType(name)
    made.__dict__.update(attributes)
    return made


@contextlib.contextmanager
def visible(*modules: types.ModuleType) -> Iterator[None]:
    """Inside the block, importing the names of these modules yields them; afterwards all is as before."""
    before = {made.__name__: sys.modules.get(made.__name__) for made in modules}
    sys.modules.update({made.__name__: made for made in modules})
    try:
        yield
    finally:
        for name, original in before.items():
            if original is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = original
