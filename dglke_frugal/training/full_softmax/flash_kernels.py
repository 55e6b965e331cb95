"""Softmax over all rows of a table without its scores in memory, for rows that fit into a multiprocessor: kernels for
Triton, which PyTorch for CUDA brings.

The sums of the softmax and the gradient of the queries come in one pass over the table, in the way of FlashAttention
(Dao et al., NeurIPS 2022) with the table's rows as keys and as values; the gradients of the rows, and Adagrad's update
of them, in another one, which computes the scores again. Each program's sums have a fixed order, and so have those over
programs. Factors of products have 16 bits (csrc/full_softmax/rounding.h), sums are float32.
"""

from __future__ import annotations

import triton
import triton.language as tl

from . import flash_shape
from .adagrad_kernels import LINE, prefetch, update_by_adagrad

LEAST: tl.constexpr = tl.constexpr(flash_shape.LEAST_SCORE)
SHARE_BITS: tl.constexpr = tl.constexpr(flash_shape.SHARE_BITS)
AT_ONCE: tl.constexpr = tl.constexpr(flash_shape.AT_ONCE)


@triton.jit
def _add_rows(largest, total, weighted, q, e, score_unit, count, MASKED: tl.constexpr, ROWS: tl.constexpr):
    """The sums with those of a tile of rows, of which only the first `count` are there if MASKED."""
    product = tl.dot(q, tl.trans(e))
    if MASKED:
        product = tl.where((tl.arange(0, ROWS) < count)[None, :], product, LEAST)
    # The unit, a power of two, is multiplied by where it costs nothing: once a query, and with a subtraction.
    higher = tl.maximum(largest, tl.max(product, 1) * score_unit)
    kept = tl.exp2(largest - higher)
    share = tl.exp2(product * score_unit - (higher - SHARE_BITS)[:, None])
    total = total * kept + tl.sum(share, 1)
    weighted = tl.dot(share.to(e.dtype), e, acc=weighted * kept[:, None])
    return higher, total, weighted


@triton.jit(do_not_specialize=["rows", "rows_of_split"])
def sums_of_queries(query, query_inverse, table, table_power, table_inverse, part_largest, part_total, part_sum, rows,
                    rows_of_split, ALL_QUERIES: tl.constexpr, WIDTH: tl.constexpr, QUERIES: tl.constexpr,
                    ROWS: tl.constexpr, STAGES: tl.constexpr):
    """Adds a part of the table to the sums of a tile of QUERIES queries and a split of the part.

    The sums are the largest score, e^(score - that) and the rows times that, the latter two times 2^SHARE_BITS, as
    (splits, ALL_QUERIES) and (splits, ALL_QUERIES, WIDTH). query: (ALL_QUERIES, WIDTH), table: a descriptor of (rows,
    WIDTH) in pieces of ROWS, both in 16 bits; scores are in units of log 2.
    """
    i = tl.program_id(0) * QUERIES + tl.arange(0, QUERIES)
    column = tl.arange(0, WIDTH)
    q = tl.load(query + i[:, None] * WIDTH + column[None, :])
    power, inverse = tl.load(table_power), tl.load(table_inverse)
    score_unit = tl.load(query_inverse) * inverse
    first = tl.program_id(1) * rows_of_split
    last = tl.minimum(first + rows_of_split, rows)
    at = tl.program_id(1).to(tl.int64) * ALL_QUERIES + i
    largest = tl.load(part_largest + at)
    total = tl.load(part_total + at)
    weighted = tl.load(part_sum + at[:, None] * WIDTH + column[None, :]) * power
    whole = first + tl.maximum(last - first, 0) // ROWS * ROWS
    for begin in tl.range(first, whole, ROWS, num_stages=STAGES):
        e = table.load([begin, 0])
        largest, total, weighted = _add_rows(largest, total, weighted, q, e, score_unit, 0, False, ROWS)
    if whole < last:
        e = table.load([whole, 0])  # zero beyond the table's end
        largest, total, weighted = _add_rows(largest, total, weighted, q, e, score_unit, last - whole, True, ROWS)
    tl.store(part_largest + at, largest)
    tl.store(part_total + at, total)
    tl.store(part_sum + at[:, None] * WIDTH + column[None, :], weighted * inverse)


@triton.jit
def whole_sums(part_largest, part_total, part_sum, offset, log_sum, less, mean, queries, SPLITS: tl.constexpr,
               ALL_QUERIES: tl.constexpr, WIDTH: tl.constexpr, DIM: tl.constexpr, QUERIES: tl.constexpr):
    """Of a few queries, from the sums of all splits: log_sum (B,), log2 of their sum of e^score; mean (B, DIM), the
    softmax's of the table's rows; less (ALL_QUERIES,) = log_sum - SHARE_BITS - offset (B,), infinite beyond them."""
    i = tl.program_id(0) * QUERIES + tl.arange(0, QUERIES)
    column = tl.arange(0, WIDTH)
    highest = tl.full([QUERIES], LEAST, tl.float32)
    for split in range(SPLITS):
        highest = tl.maximum(highest, tl.load(part_largest + split * ALL_QUERIES + i))
    total = tl.zeros([QUERIES], tl.float32)
    weighted = tl.zeros([QUERIES, WIDTH], tl.float32)
    for split in range(SPLITS):
        at = split * ALL_QUERIES + i
        share = tl.exp2(tl.load(part_largest + at) - highest)
        total += share * tl.load(part_total + at)
        weighted += share[:, None] * tl.load(part_sum + at[:, None] * WIDTH + column[None, :])
    is_query = i < queries
    log = highest + tl.log2(total) - SHARE_BITS
    tl.store(log_sum + i, log, mask=is_query)
    tl.store(less + i, tl.where(is_query, log - SHARE_BITS - tl.load(offset + i, mask=is_query), float("inf")))
    tl.store(mean + i[:, None] * DIM + column[None, :], weighted / total[:, None],
             mask=is_query[:, None] & (column < DIM)[None, :])


@triton.jit(do_not_specialize=["first", "count"])
def gradients_of_rows(query, table, scaling, less, query_inverse, gradient_unit, slot, out, aside, rate, epsilon, first,
                      count, PART: tl.constexpr, ALL_QUERIES: tl.constexpr, DIM: tl.constexpr, STRIDE: tl.constexpr,
                      OUT_STRIDE: tl.constexpr, WIDTH: tl.constexpr, QUERIES: tl.constexpr, ROWS: tl.constexpr,
                      STAGES: tl.constexpr, ADAGRAD: tl.constexpr):
    """Gradients of the rows first .. first + count: sums over the queries of 2^(score - less) times the query, times
    gradient_unit. With ADAGRAD they update the rows of the table (.., STRIDE), or go to a row of `aside` (.., DIM) if
    slot[row] is not -1; else they go to `out` (count, OUT_STRIDE).

    query: (ALL_QUERIES, WIDTH) in 16 bits, in units of log 2. scaling: (parts, 3), of PART rows each, see
    rounding.h. less: (ALL_QUERIES,).
    """
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    j = first + row
    column = tl.arange(0, WIDTH)
    there = (row < count)[:, None] & (column < DIM)[None, :]
    place = table + j[:, None].to(tl.int64) * STRIDE + column[None, :]
    part = scaling + (first + tl.program_id(0) * ROWS) // PART * 3
    e = (tl.load(place, mask=there, other=0.0) * tl.load(part)).to(query.dtype.element_ty)
    score_unit = tl.load(query_inverse) * tl.load(part + 1)
    if ADAGRAD:  # its states, and the rows of the program that follows here, come nearer while tensor cores work
        lines, last = tl.minimum(tl.arange(0, 4) * LINE, DIM - 1)[None, :], first + count - 1
        prefetch(table + tl.minimum(j, last)[:, None].to(tl.int64) * STRIDE + DIM + lines)
        prefetch(table + tl.minimum(j + AT_ONCE * ROWS, last)[:, None].to(tl.int64) * STRIDE + lines)
    total = tl.zeros([ROWS, WIDTH], tl.float32)
    for begin in tl.range(0, ALL_QUERIES, QUERIES, num_stages=STAGES):
        i = begin + tl.arange(0, QUERIES)
        q = tl.load(query + i[:, None] * WIDTH + column[None, :])
        share = tl.exp2(tl.dot(e, tl.trans(q)) * score_unit - tl.load(less + i)[None, :])
        total = tl.dot(share.to(q.dtype), q, acc=total)
    gradient = total * tl.load(gradient_unit)
    if ADAGRAD:
        waits = tl.load(slot + j, mask=row < count, other=-1)[:, None]
        update_by_adagrad(place, gradient, aside + waits.to(tl.int64) * DIM + column[None, :], waits, there, rate,
                          epsilon, DIM)
    else:
        tl.store(out + row[:, None] * OUT_STRIDE + column[None, :], gradient, mask=there)
