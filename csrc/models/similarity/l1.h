// Sums of absolute differences: TransE_l1, TransR.
#pragma once

#include "linalg/tile.h"
#include "models/similarity/scores.h"

namespace frugal::FRUGAL_ISA {

struct L1 : DistanceScores {
  static void compare(std::int64_t rows, std::int64_t vectors, std::int64_t k, Rows query, const float* panels,
                      Rows values) {
    for_tiles<AbsoluteDifference>(rows, vectors, k, {query.data, query.stride, 1}, {panels, kLanes, kLanes * k},
                                  values.data, values.stride);
  }

  // The sum over j of weight(i, j) * sign(mine_i - theirs_j), for a few rows i and one vector of columns.
  template <int Count>
  static inline void signs(std::int64_t others, const float* mine, std::int64_t mine_stride, const float* theirs,
                           std::int64_t their_stride, const float* weight, std::int64_t row_stride,
                           std::int64_t other_stride, float* out, std::int64_t out_stride) {
    const Vec zero = broadcast(0.0f);
    Vec own[Count], sum[Count];
#pragma GCC unroll 8
    for (int i = 0; i < Count; ++i) {
      own[i] = load(mine + i * mine_stride);
      sum[i] = zero;
    }
    for (std::int64_t j = 0; j < others; ++j, theirs += their_stride, weight += other_stride) {
      const Vec other = load(theirs);
#pragma GCC unroll 8
      for (int i = 0; i < Count; ++i) sum[i] = fma(sign(own[i] - other), broadcast(weight[i * row_stride]), sum[i]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < Count; ++i) store(out + i * out_stride, sum[i]);
  }

  static void gradient(std::int64_t rows, std::int64_t others, std::int64_t k, Rows mine, Rows theirs,
                       const float* weight, std::int64_t row_stride, std::int64_t other_stride, Rows gradient) {
    constexpr int kCount = kTileVectors == 2 ? 8 : 3;  // rows whose sums and values fit into the registers
    for (std::int64_t column = 0; column < k; column += kLanes) {
      std::int64_t i = 0;
      for (; i + kCount <= rows; i += kCount)
        signs<kCount>(others, mine[i] + column, mine.stride, theirs.data + column, theirs.stride,
                      weight + i * row_stride, row_stride, other_stride, gradient[i] + column, gradient.stride);
      for (; i < rows; ++i)
        signs<1>(others, mine[i] + column, mine.stride, theirs.data + column, theirs.stride, weight + i * row_stride,
                 row_stride, other_stride, gradient[i] + column, gradient.stride);
    }
  }
};

}  // namespace frugal::FRUGAL_ISA
