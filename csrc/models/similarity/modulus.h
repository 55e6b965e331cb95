// Sums of the moduli of complex differences, real parts in the first half of a row, imaginary parts in the second:
// RotatE.
#pragma once

#include "linalg/tile.h"
#include "models/similarity/scores.h"

namespace frugal::FRUGAL_ISA {

struct Modulus : DistanceScores {
  template <int Count>
  static inline void moduli(std::int64_t half, const float* query, std::int64_t query_stride, const float* panel,
                            float* values, std::int64_t value_stride) {
    Vec sum[Count];
#pragma GCC unroll 8
    for (int i = 0; i < Count; ++i) sum[i] = broadcast(0.0f);
    for (std::int64_t p = 0; p < half; ++p) {
      const Vec real = load(panel + p * kLanes), imaginary = load(panel + (half + p) * kLanes);
#pragma GCC unroll 8
      for (int i = 0; i < Count; ++i) {
        const Vec x = broadcast(query[i * query_stride + p]) - real;
        const Vec y = broadcast(query[i * query_stride + half + p]) - imaginary;
        sum[i] = sum[i] + sqrt(fma(x, x, y * y));
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < Count; ++i) store(values + i * value_stride, sum[i]);
  }
  static void compare(std::int64_t rows, std::int64_t vectors, std::int64_t k, Rows query, const float* panels,
                      Rows values) {
    constexpr int kCount = 4;
    for (std::int64_t v = 0; v < vectors; ++v) {
      const float* panel = panels + v * kLanes * k;
      std::int64_t i = 0;
      for (; i + kCount <= rows; i += kCount)
        moduli<kCount>(k / 2, query[i], query.stride, panel, values[i] + v * kLanes, values.stride);
      for (; i < rows; ++i) moduli<1>(k / 2, query[i], query.stride, panel, values[i] + v * kLanes, values.stride);
    }
  }
  // The direction of a difference is 0 where the difference is.
  static void gradient(std::int64_t rows, std::int64_t others, std::int64_t k, Rows mine, Rows theirs,
                       const float* weight, std::int64_t row_stride, std::int64_t other_stride, Rows gradient) {
    const std::int64_t half = k / 2;
    const Vec zero = broadcast(0.0f);
    for (std::int64_t column = 0; column < half; column += kLanes) {
      const int count = half - column < kLanes ? static_cast<int>(half - column) : kLanes;
      for (std::int64_t i = 0; i < rows; ++i) {
        const Vec own_real = load(mine[i] + column), own_imaginary = load(mine[i] + half + column);
        Vec real = zero, imaginary = zero;
        for (std::int64_t j = 0; j < others; ++j) {
          const float* other = theirs[j] + column;
          const Vec x = own_real - load(other), y = own_imaginary - load(other + half);
          const Vec square = fma(x, x, y * y);
          const Vec ratio = broadcast(weight[i * row_stride + j * other_stride]) / sqrt(square);
          const Vec defined = select(zero < square, ratio, zero);
          real = fma(defined, x, real);
          imaginary = fma(defined, y, imaginary);
        }
        store_part(gradient[i] + column, real, count);
        store_part(gradient[i] + half + column, imaginary, count);
      }
    }
  }
};

}  // namespace frugal::FRUGAL_ISA
