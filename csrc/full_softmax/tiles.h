// A softmax over all entities, tile by tile: what its kernels on the CPU and on a CUDA device (cpu/tile_kernels.h,
// cuda/tile_kernels.h) are told.
//
// B queries are scored with all entities. With s_ij the score of entity j for query i, y_ij what the softmax should be,
// and scale_i, the loss is sum_i scale_i (log sum_j e^s_ij - sum_j y_ij s_ij), and d loss / d s_ij is
// scale_i (e^s_ij / sum_j e^s_ij - y_ij), for sum_j y_ij = 1. Scores are held for a tile of entities: where
// that is not all of them, they are computed twice, for the sums and for the slopes.
#pragma once

#include <cstdint>

#include "table/row_layout.h"
#include "table/summed_update.h"

namespace frugal {

// Scores of the entities first .. first + columns for all queries, `stride` floats apart; bounded by [-bound, bound],
// beyond which they have no slope, if bound > 0 (SimplE).
struct ScoreTile {
  float* scores;
  std::int64_t rows, columns, stride;
  std::int64_t first;
  float bound;
  const float* unit = nullptr;  // (1,) what scores are multiplied by when they are read; null: nothing
};

// y_ij: on_i for the targets of query i, and off_i besides for every entity.
struct SoftmaxTargets {
  const std::int64_t* ids;              // of each query ascending
  const std::int64_t *begin, *end;      // (B,) where those of query i lie in ids
  const float *on = nullptr, *off = nullptr;  // (B,), or null: 1 and 0
};

// How slopes are left in place of a tile's scores: as float32, or in numbers of 16 bits, which are 16-byte words at the
// beginning of each row's memory, the last of them filled up with zeros. Slopes are multiplied by scale_i, or, where
// there is no scale, all by one factor.
struct SlopeForm {
  RowElement element = RowElement::kFloat32;
  float factor = 1.0f;

  // Columns that are written of so many.
  std::int64_t columns(std::int64_t of) const { return element == RowElement::kFloat32 ? of : (of + 7) / 8 * 8; }
};

// Of each query over the tiles so far, (B,). They begin with kLeastScore, 0 and 0.
struct SoftmaxSums {
  float* largest;  // score
  float* total;    // sum_j e^(s_ij - largest_i)
  float* wanted;   // sum_j y_ij s_ij
};
inline constexpr float kLeastScore = -3e38f;

// Rows of a table that a step updates once each, from the sum of their gradients.
struct TableRows {
  float* rows;          // embedding, then the optimizer's state
  std::int64_t stride;  // floats from one row to the next
  std::int64_t dim;
};

// Which numbers of rows are kept and which are zero, as a function of (seed, step, part, row, column): Philox's word
// for the element is compared with the rate. A kept element is multiplied by 1 / (1 - rate).
struct Dropout {
  float rate;
  std::uint64_t seed;         // below 2^32
  const std::int64_t* step;   // (1,)
  std::uint32_t part;         // another one for each use in a step
  std::int64_t first;         // number of the first row
};

}  // namespace frugal
