"""Functions that torch.compile calls without compiling them."""
from __future__ import annotations

import functools
from typing import Callable, TypeVar

import torch
from torch.compiler import is_dynamo_compiling

Function = TypeVar("Function", bound=Callable)


def not_compiled(function: Function) -> Function:
    """A function that torch.compile calls as it is, between the parts of a model that it compiles."""
    @functools.wraps(function)
    def call(*args, **settings):
        if is_dynamo_compiling():
            return torch.compiler.disable(function)(*args, **settings)
        return function(*args, **settings)

    return call
