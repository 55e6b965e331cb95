"""Adagrad as the end of the product that gives the gradients, which so need no memory: kernels for Triton."""

from __future__ import annotations

import triton
import triton.language as tl

LINE: tl.constexpr = tl.constexpr(32)  # floats of a line of memory


@triton.jit
def prefetch(pointers):
    """Begins to bring what lies there into the second-level cache."""
    tl.inline_asm_elementwise("prefetch.global.L2 [$1]; mov.b32 $0, 0;", "=r,l", [pointers.to(tl.int64)],
                              dtype=tl.int32, is_pure=False, pack=1)


@triton.jit
def update_by_adagrad(place, gradient, aside, waits, there, rate, epsilon, DIM: tl.constexpr):
    """As csrc/table/summed_update.h has it: `place` points to elements of rows, whose states lie DIM further. Where
    waits is not -1 the gradient goes to `aside` instead. there: which elements there are."""
    tl.store(aside, gradient, mask=there & (waits >= 0))
    there &= waits < 0
    state = tl.load(place + DIM, mask=there, other=0.0) + gradient * gradient
    value = tl.load(place, mask=there, other=0.0, cache_modifier=".cg")  # once more, if need be: registers are short
    tl.store(place + DIM, state, mask=there)
    tl.store(place, value - rate * gradient / (tl.sqrt(state) + epsilon), mask=there)


@triton.jit(do_not_specialize=["first", "rows"])
def update_by_product(slopes, query, unit, table, slot, aside, rate, epsilon, first, rows, QUERIES: tl.constexpr,
                      STRIDE: tl.constexpr, DIM: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
                      DEPTH: tl.constexpr, STAGES: tl.constexpr):
    """Updates the rows first .. first + rows of the table (.., STRIDE) by the gradients slopes^T query times unit.

    slopes, query: descriptors of (QUERIES, rows) and (QUERIES, DIM) in 16 bits, in pieces of DEPTH x ROWS and DEPTH x
    COLUMNS. A program has a tile of ROWS x COLUMNS; those of the same rows follow each other.
    """
    across = tl.cdiv(DIM, COLUMNS)
    first_row = tl.program_id(0) // across * ROWS
    first_column = tl.program_id(0) % across * COLUMNS
    row, column = first_row + tl.arange(0, ROWS), first_column + tl.arange(0, COLUMNS)
    j = first + row
    place = table + j[:, None].to(tl.int64) * STRIDE + column[None, :]
    line = tl.minimum(first_column + tl.arange(0, COLUMNS // LINE) * LINE, DIM - 1)
    lines = table + tl.minimum(j, first + rows - 1)[:, None].to(tl.int64) * STRIDE + line[None, :]
    prefetch(lines)
    prefetch(lines + DIM)
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for begin in tl.range(0, QUERIES, DEPTH, num_stages=STAGES):
        total = tl.dot(tl.trans(slopes.load([begin, first_row])), query.load([begin, first_column]), acc=total)
    there = (row < rows)[:, None] & (column < DIM)[None, :]
    waits = tl.load(slot + j, mask=row < rows, other=-1)[:, None]
    update_by_adagrad(place, total * tl.load(unit), aside + waits.to(tl.int64) * DIM + column[None, :], waits, there,
                      rate, epsilon, DIM)
