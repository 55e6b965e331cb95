// Raw keys of a few queries with a block of table rows, computed in registers: the inner loop of ranking.
//
// Both operands are packed first, so that the loop reads memory in one direction: queries in strips of `strip_queries`
// (element k of all queries of a strip side by side), table rows in strips of `strip_rows`. One file per instruction
// set includes tile_kernel_body.h; nothing else in those files, since their code must not leak into functions that run
// on older processors.
#pragma once

#include <cstdint>

namespace frugal {

// Accumulates sum_k f(a_k, b_k) in float32 for the strip_queries x rows tile; f is a*b, -|a-b| or the negative complex
// modulus. queries: one packed strip. rows_packed: rows / strip_rows packed strips. tile: row-major, `rows` floats per
// query.
using TileFunction = void (*)(const float* queries, const float* rows_packed, std::int64_t dim, std::int64_t rows,
                              float* tile);
// Number of entries of row[0, n) that are > high, and that are >= low. n is a multiple of strip_rows.
using CountFunction = void (*)(const float* row, std::int64_t n, float low, float high, std::int64_t* above_low,
                               std::int64_t* above_high);

struct TileKernel {
  std::int64_t strip_queries;
  std::int64_t strip_rows;
  TileFunction dot;
  TileFunction l1;
  TileFunction modulus;
  CountFunction count;
};

const TileKernel& baseline_tile_kernel();
const TileKernel& avx512_tile_kernel();  // only on x86-64; call only if the processor has AVX-512 F, DQ and VL
const TileKernel& tile_kernel();         // the best one for this processor

}  // namespace frugal
