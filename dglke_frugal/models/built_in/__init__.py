"""The models of the package: every class with a name in the modules of this folder."""
from importlib import import_module
from pkgutil import iter_modules

from ..model import Model

_MODULES = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
MODELS: tuple[Model, ...] = tuple(found() for module in _MODULES for found in vars(module).values()
                                  if getattr(found, "__module__", "") == module.__name__ and hasattr(found, "name"))
