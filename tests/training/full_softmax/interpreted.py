"""Runs the kernels that are Triton's in its interpreter, on the CPU, and prints how far they are from float64 formulas.

In a process of its own, with TRITON_INTERPRET=1: whether kernels are interpreted is decided where they are defined.
"""
import json

import triton
import triton.language as tl
from training.full_softmax.softmax_case import EPSILON, RATE, Case

from dglke_frugal.store.device.device import HostDevice
from dglke_frugal.training.full_softmax import (adagrad_kernels, flash_kernels, flash_shape, flash_softmax,
                                                rounded_products, table_softmax)
from dglke_frugal.training.full_softmax.table_update import TableShape

MATMUL = "tf32"
SHAPES = ((37, 301, 20), (130, 200, 100), (5, 40, 128))  # queries, rows, dim
KINDS = ("flash", "flash_sgd", "table")


@triton.jit
def nothing(pointers):
    """In place of what brings memory nearer, which is an instruction of GPUs."""
    tl.static_assert(True)


def make(kind, shape):
    rule = ("sgd" if kind == "flash_sgd" else "adagrad", RATE, EPSILON, None)
    if kind != "table":
        return flash_softmax.FlashSoftmax(HostDevice(), MATMUL, shape, rule)
    return table_softmax.TableSoftmax(HostDevice(), MATMUL, rounded_products.RoundedProducts, shape, rule)


def main():
    """Entry point."""
    adagrad_kernels.prefetch = flash_kernels.prefetch = nothing
    flash_softmax.stages_on = rounded_products.stages_on = lambda device, wanted: wanted
    flash_shape.PART = 128  # several, of which the last is shorter
    flash_softmax.GRADIENT_PART = flash_shape.GRADIENT_PART = 96
    table_softmax.on_gpu = lambda device: True  # so that the product's end is the update, as there
    found = {}
    for kind in KINDS:
        for queries, rows, dim in SHAPES:
            case = Case(queries, rows, dim)
            places = range(queries + 1)
            targets = (case.target, *(case.target.new_tensor(places[i : queries + i]) for i in (0, 1)), None, None)
            softmax = make(kind, TableShape(queries, rows, dim, len(case.batch)))
            errors = case.errors(case.apply(softmax, targets), "sgd" if kind == "flash_sgd" else "adagrad")
            found[f"{kind} {queries} {rows} {dim}"] = errors
    print(json.dumps(found))


if __name__ == "__main__":
    main()
