// Euclidean distances through a matrix product, as DGL-KE takes them: |a - b|^2 = |b|^2 - 2 a.b + |a|^2, not below
// 1e-30.
#pragma once

#include "base/linalg/tile.h"
#include "models/similarity/scores.h"

namespace frugal::FRUGAL_ISA {

// Out[i] = sum over j of weight(i, j), row by row or, where the rows of weights are columns, sixteen rows at a time.
static inline void weight_sums(std::int64_t rows, std::int64_t others, const float* weight, std::int64_t row_stride,
                               std::int64_t other_stride, float* out) {
  if (other_stride == 1) {
    for (std::int64_t i = 0; i < rows; ++i) {
      Vec sum = broadcast(0.0f);
      std::int64_t j = 0;
      for (; j + kLanes <= others; j += kLanes) sum = sum + load(weight + i * row_stride + j);
      if (j < others) sum = sum + load_part(weight + i * row_stride + j, static_cast<int>(others - j));
      out[i] = fold_sum(sum);
    }
    return;
  }
  for (std::int64_t i = 0; i < rows; i += kLanes) {  // row_stride is 1 here
    const int count = rows - i < kLanes ? static_cast<int>(rows - i) : kLanes;
    Vec sum = broadcast(0.0f);
    for (std::int64_t j = 0; j < others; ++j) sum = sum + load_part(weight + i + j * other_stride, count);
    store_part(out + i, sum, count);
  }
}

struct L2 : L2Scores {
  static void compare(std::int64_t rows, std::int64_t vectors, std::int64_t k, Rows query, const float* panels,
                      Rows values) {
    multiply(rows, vectors, k, {query.data, query.stride, 1}, {panels, kLanes, kLanes * k}, values);
  }
  static void gradient(std::int64_t rows, std::int64_t others, std::int64_t k, Rows mine, Rows theirs,
                       const float* weight, std::int64_t row_stride, std::int64_t other_stride, Rows gradient) {
    const std::int64_t vectors = (k + kLanes - 1) / kLanes;
    multiply(rows, vectors, others, {weight, row_stride, other_stride}, {theirs.data, theirs.stride, kLanes}, gradient);
    constexpr std::int64_t kBlock = 64;
    float sums[kBlock];
    for (std::int64_t first = 0; first < rows; first += kBlock) {
      const std::int64_t count = rows - first < kBlock ? rows - first : kBlock;
      weight_sums(count, others, weight + first * row_stride, row_stride, other_stride, sums);
      for (std::int64_t i = 0; i < count; ++i) {
        const Vec sum = broadcast(sums[i]), zero = broadcast(0.0f);
        float* out = gradient[first + i];
        const float* own = mine[first + i];
        for (std::int64_t v = 0; v < vectors; ++v, out += kLanes, own += kLanes)
          store(out, fma(sum, load(own), zero - load(out)));
      }
    }
  }
};

}  // namespace frugal::FRUGAL_ISA
