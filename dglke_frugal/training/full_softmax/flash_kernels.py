"""Softmax over all rows of a table without its scores in memory, for rows that fit into a multiprocessor: kernels for
Triton, which PyTorch for CUDA brings.

The sums of the softmax and the gradient of the queries come in one pass over the table, in the way of FlashAttention
(Dao et al., NeurIPS 2022) with the table's rows as keys and as values; the gradients of the rows in another one, which
computes the scores again. Each program's sums have a fixed order, and so have those over programs.
"""

from __future__ import annotations

import triton
import triton.language as tl

LOG2_E: tl.constexpr = tl.constexpr(1.4426950408889634)
LEAST: tl.constexpr = tl.constexpr(-3.0e38)


@triton.jit
def _product(a, b, ROUNDED: tl.constexpr):
    """In TF32, or of factors rounded to bfloat16; sums are float32."""
    if ROUNDED:
        return tl.dot(a.to(tl.bfloat16), b.to(tl.bfloat16))
    return tl.dot(a, b, input_precision="tf32")


@triton.jit(do_not_specialize=["queries", "rows", "rows_of_split"])
def sums_of_queries(query, table, part_largest, part_total, part_sum, queries, rows, rows_of_split,
                    DIM: tl.constexpr, STRIDE: tl.constexpr, QUERY_STRIDE: tl.constexpr, WIDTH: tl.constexpr,
                    QUERIES: tl.constexpr, ROWS: tl.constexpr, ROUNDED: tl.constexpr):
    """Of a tile of QUERIES queries and a split of the table: the largest score, sums of e^(score - that) and of the rows
    times that, (splits, queries) and (splits, queries, DIM). Scores are in units of log 2."""
    i = tl.program_id(0) * QUERIES + tl.arange(0, QUERIES)
    column = tl.arange(0, WIDTH)
    there = column < DIM
    q = tl.load(query + i[:, None].to(tl.int64) * QUERY_STRIDE + column[None, :],
                mask=(i < queries)[:, None] & there[None, :], other=0.0) * LOG2_E
    first = tl.program_id(1) * rows_of_split
    last = tl.minimum(first + rows_of_split, rows)
    largest = tl.full([QUERIES], LEAST, tl.float32)
    total = tl.zeros([QUERIES], tl.float32)
    weighted = tl.zeros([QUERIES, WIDTH], tl.float32)
    for begin in range(first, last, ROWS):
        j = begin + tl.arange(0, ROWS)
        e = tl.load(table + j[:, None].to(tl.int64) * STRIDE + column[None, :],
                    mask=(j < last)[:, None] & there[None, :], other=0.0)
        score = tl.where((j < last)[None, :], _product(q, tl.trans(e), ROUNDED), LEAST)
        higher = tl.maximum(largest, tl.max(score, 1))
        kept = tl.exp2(largest - higher)
        share = tl.exp2(score - higher[:, None])
        total = total * kept + tl.sum(share, 1)
        weighted = weighted * kept[:, None] + _product(share, e, ROUNDED)
        largest = higher
    at = tl.program_id(1).to(tl.int64) * queries + i
    tl.store(part_largest + at, largest, mask=i < queries)
    tl.store(part_total + at, total, mask=i < queries)
    tl.store(part_sum + at[:, None] * DIM + column[None, :], weighted, mask=(i < queries)[:, None] & there[None, :])


@triton.jit(do_not_specialize=["queries", "first", "count"])
def gradients_of_rows(query, transposed, table, log_sum, scale, target, out, queries, first, count,
                      DIM: tl.constexpr, STRIDE: tl.constexpr, QUERY_STRIDE: tl.constexpr,
                      TRANSPOSED_STRIDE: tl.constexpr, OUT_STRIDE: tl.constexpr, WIDTH: tl.constexpr,
                      QUERIES: tl.constexpr, ROWS: tl.constexpr, ROUNDED: tl.constexpr):
    """(count, DIM): sums over the queries of scale (e^(score - log_sum) - [row is the target]) times the query, of the
    rows first .. first + count. log_sum: in units of log 2. transposed: the queries as (DIM, TRANSPOSED_STRIDE)."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    j = first + row
    column = tl.arange(0, WIDTH)
    there = column < DIM
    e = tl.load(table + j[:, None].to(tl.int64) * STRIDE + column[None, :],
                mask=(row < count)[:, None] & there[None, :], other=0.0) * LOG2_E
    total = tl.zeros([ROWS, WIDTH], tl.float32)
    for begin in range(0, queries, QUERIES):
        i = begin + tl.arange(0, QUERIES)
        mine = i < queries
        q = tl.load(query + i[:, None] * QUERY_STRIDE + column[None, :], mask=mine[:, None] & there[None, :], other=0.0)
        score = _product(e, tl.trans(q), ROUNDED)
        share = tl.exp2(score - tl.load(log_sum + i, mask=mine, other=0.0)[None, :])
        wanted = j[:, None] == tl.load(target + i, mask=mine, other=-1)[None, :]
        slope = (share - tl.where(wanted, 1.0, 0.0)) * tl.load(scale + i, mask=mine, other=0.0)[None, :]
        q = tl.load(transposed + column[None, :] * TRANSPOSED_STRIDE + i[:, None],
                    mask=mine[:, None] & there[None, :], other=0.0)
        total += _product(slope, q, ROUNDED)
    tl.store(out + row[:, None] * OUT_STRIDE + column[None, :], total, mask=(row < count)[:, None] & there[None, :])
