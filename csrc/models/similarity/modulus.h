// Sums of the moduli of complex differences, real parts in the first half of a row, imaginary parts in the second:
// RotatE.
#pragma once

#include "base/linalg/tile.h"
#include "models/similarity/pairs.h"
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

  static constexpr int kParts = 2;
  static constexpr int kRows = kTileVectors == 2 ? 4 : 2;
  // The direction of a difference is 0 where the difference is.
  static inline Vec slope(const Column<Modulus>& own, const Column<Modulus>& other, Vec weight,
                          Column<Modulus>& difference) {
    const Vec zero = broadcast(0.0f);
    const Vec x = own.part[0] - other.part[0], y = own.part[1] - other.part[1];
    const Vec square = fma(x, x, y * y);
    difference = {{x, y}};
    return select(zero < square, weight / sqrt(square), zero);
  }
};

}  // namespace frugal::FRUGAL_ISA
