// The loop nest under every product and every table of distances: tiles of the result that live in registers.
//
// Result element (i, j) is `combine` folded over p = 0, 1, ..., k - 1 in that order, whatever the size of the tile, so
// a result does not depend on how the work was split. Measured on Zen 4 at 400-deep products of 256 x 256: within a few
// percent of the processor's peak, where OpenBLAS and MKL reach about nine tenths; and no library's version, thread
// setting or kernel choice can change a bit.
#pragma once

#include "base/linalg/operands.h"
#include "base/linalg/simd.h"

namespace frugal::FRUGAL_ISA {

// Tile sizes that keep all accumulators in registers.
#if defined(__AVX512F__)
inline constexpr int kTileRows = 12, kTileVectors = 2;
#else
inline constexpr int kTileRows = 6, kTileVectors = 1;
#endif

struct MultiplyAdd {
  static inline Vec combine(Vec a, Vec b, Vec sum) { return fma(a, b, sum); }
};
struct AbsoluteDifference {
  static inline Vec combine(Vec a, Vec b, Vec sum) { return sum + abs(a - b); }
};

// kGoesOn: the fold begins with what c holds, and not with 0, here and below: of a deep product the later parts.
template <typename Operation, int Rows, int Vectors, bool kGoesOn>
static inline void tile(std::int64_t k, Left a, Right b, float* c, std::int64_t c_stride) {
  Vec sum[Rows][Vectors];
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 16
    for (int v = 0; v < Vectors; ++v) sum[i][v] = kGoesOn ? load(c + i * c_stride + v * kLanes) : broadcast(0.0f);
  if constexpr (!kGoesOn) {  // or else stores would wait for the memory of their rows one after the other
#pragma GCC unroll 16
    for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 16
      for (int v = 0; v < Vectors; ++v) __builtin_prefetch(c + i * c_stride + v * kLanes, 1);
  }
  const float* left = a.data;
  const float* right = b.data;
  for (std::int64_t p = 0; p < k; ++p, left += a.depth_stride, right += b.depth_stride) {
    Vec values[Vectors];
#pragma GCC unroll 16
    for (int v = 0; v < Vectors; ++v) values[v] = load(right + v * b.vector_stride);
#pragma GCC unroll 16
    for (int i = 0; i < Rows; ++i) {
      const Vec x = broadcast(left[i * a.row_stride]);
#pragma GCC unroll 16
      for (int v = 0; v < Vectors; ++v) sum[i][v] = Operation::combine(x, values[v], sum[i][v]);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 16
    for (int v = 0; v < Vectors; ++v) store(c + i * c_stride + v * kLanes, sum[i][v]);
}

template <typename Operation, int Rows, int Vectors, bool kGoesOn>
static inline void tile_rows(std::int64_t rows, std::int64_t k, Left a, Right b, float* c, std::int64_t c_stride) {
  for (; rows >= Rows; rows -= Rows, a.data += Rows * a.row_stride, c += Rows * c_stride)
    tile<Operation, Rows, Vectors, kGoesOn>(k, a, b, c, c_stride);
  if constexpr (Rows > 1) {
    if (rows > 0) tile_rows<Operation, (Rows + 1) / 2, Vectors, kGoesOn>(rows, k, a, b, c, c_stride);
  }
}

// c (rows x 16 vectors) = fold of combine over p of (a (rows x k), b (k x 16 vectors)). The right operand's current
// columns stay in the first cache while all rows pass by.
template <typename Operation, bool kGoesOn = false>
static inline void for_tiles(std::int64_t rows, std::int64_t vectors, std::int64_t k, Left a, Right b, float* c,
                             std::int64_t c_stride) {
  std::int64_t v = 0;
  for (; v + kTileVectors <= vectors; v += kTileVectors)
    tile_rows<Operation, kTileRows, kTileVectors, kGoesOn>(
        rows, k, a, {b.data + v * b.vector_stride, b.depth_stride, b.vector_stride}, c + v * kLanes, c_stride);
  for (; v < vectors; ++v)
    tile_rows<Operation, kTileRows, 1, kGoesOn>(
        rows, k, a, {b.data + v * b.vector_stride, b.depth_stride, b.vector_stride}, c + v * kLanes, c_stride);
}

static inline void multiply(std::int64_t rows, std::int64_t vectors, std::int64_t k, Left a, Right b, Rows c) {
  for_tiles<MultiplyAdd>(rows, vectors, k, a, b, c.data, c.stride);
}
static inline void multiply_on(std::int64_t rows, std::int64_t vectors, std::int64_t k, Left a, Right b, Rows c) {
  for_tiles<MultiplyAdd, true>(rows, vectors, k, a, b, c.data, c.stride);
}

}  // namespace frugal::FRUGAL_ISA
