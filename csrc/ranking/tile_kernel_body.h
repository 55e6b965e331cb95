// The loops of tile_kernel.h for vectors of kWidth floats, which the including file defines along with kStripQueries.
#include <cmath>
#include <cstdint>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "ranking/tile_kernel.h"

namespace frugal {
namespace {

typedef float Vec __attribute__((vector_size(kWidth * 4), aligned(4), may_alias));
typedef std::int32_t Mask __attribute__((vector_size(kWidth * 4)));

constexpr std::int64_t kStripVectors = 2;
constexpr std::int64_t kStripRows = kStripVectors * kWidth;

inline Vec load(const float* from) { return *reinterpret_cast<const Vec*>(from); }
inline void store(float* to, Vec value) { *reinterpret_cast<Vec*>(to) = value; }
inline Vec absolute(Vec x) { return (Vec)((Mask)x & 0x7fffffff); }

// Square root of x >= 0. Where there is an instruction for an estimate of 1 / sqrt(x), one step of Newton's method
// makes it good to a few roundings in a fraction of the time; below 1e-30 the error is at most 1e-15 instead.
template <typename V>  // a template, so that the branches of other widths are not compiled
inline V square_root(V x) {
#if defined(__AVX__)
  const V bounded = x > 1e-30f ? x : V{} + 1e-30f;
  V inverse;
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64) {
    inverse = (V)_mm512_maskz_rsqrt14_ps(0xffff, (__m512)bounded);
  } else  // NOLINT
#endif
    if constexpr (sizeof(V) == 32) {
      inverse = (V)_mm256_rsqrt_ps((__m256)bounded);
    }
  return x * (inverse * (1.5f - 0.5f * bounded * inverse * inverse));
#else
  for (int lane = 0; lane < kWidth; ++lane) x[lane] = std::sqrt(x[lane]);
  return x;
#endif
}

struct Dot {
  static constexpr bool kComplex = false;
  static Vec add(Vec sum, float a, Vec b) { return sum + a * b; }
};
struct L1 {
  static constexpr bool kComplex = false;
  static Vec add(Vec sum, float a, Vec b) { return sum - absolute(a - b); }
};
struct Modulus {
  static constexpr bool kComplex = true;
  static Vec add(Vec sum, float a_real, float a_imaginary, Vec b_real, Vec b_imaginary) {
    Vec real = a_real - b_real, imaginary = a_imaginary - b_imaginary;
    return sum - square_root(real * real + imaginary * imaginary);
  }
};

template <typename Function>
void tile(const float* __restrict queries, const float* __restrict rows_packed, std::int64_t dim, std::int64_t rows,
          float* __restrict out) {
  for (std::int64_t first = 0; first < rows; first += kStripRows, rows_packed += dim * kStripRows) {
    Vec sum[kStripQueries][kStripVectors] = {};
    if constexpr (Function::kComplex) {
      const std::int64_t half = dim / 2;
      const float* imaginary = rows_packed + half * kStripRows;
      for (std::int64_t k = 0; k < half; ++k) {
        const float* a_real = queries + k * kStripQueries;
        const float* a_imaginary = queries + (half + k) * kStripQueries;
#pragma GCC unroll 16
        for (int v = 0; v < kStripVectors; ++v) {
          Vec b_real = load(rows_packed + k * kStripRows + v * kWidth);
          Vec b_imaginary = load(imaginary + k * kStripRows + v * kWidth);
#pragma GCC unroll 16
          for (int q = 0; q < kStripQueries; ++q)
            sum[q][v] = Function::add(sum[q][v], a_real[q], a_imaginary[q], b_real, b_imaginary);
        }
      }
    } else {
      for (std::int64_t k = 0; k < dim; ++k) {
        const float* a = queries + k * kStripQueries;
        Vec b[kStripVectors];
#pragma GCC unroll 16
        for (int v = 0; v < kStripVectors; ++v) b[v] = load(rows_packed + k * kStripRows + v * kWidth);
#pragma GCC unroll 16
        for (int q = 0; q < kStripQueries; ++q) {
#pragma GCC unroll 16
          for (int v = 0; v < kStripVectors; ++v) sum[q][v] = Function::add(sum[q][v], a[q], b[v]);
        }
      }
    }
#pragma GCC unroll 16
    for (int q = 0; q < kStripQueries; ++q) {
#pragma GCC unroll 16
      for (int v = 0; v < kStripVectors; ++v) store(out + q * rows + first + v * kWidth, sum[q][v]);
    }
  }
}

void count(const float* row, std::int64_t n, float low, float high, std::int64_t* above_low, std::int64_t* above_high) {
  Mask lows = {}, highs = {};  // comparisons give -1 for true
  for (std::int64_t i = 0; i < n; i += kWidth) {
    Vec x = load(row + i);
    lows -= (Mask)(x >= low);
    highs -= (Mask)(x > high);
  }
  std::int64_t sum_low = 0, sum_high = 0;
  for (int lane = 0; lane < kWidth; ++lane) sum_low += lows[lane], sum_high += highs[lane];
  *above_low = sum_low;
  *above_high = sum_high;
}

constexpr TileKernel kKernel = {kStripQueries, kStripRows, &tile<Dot>, &tile<L1>, &tile<Modulus>, &count};

}  // namespace
}  // namespace frugal
