// Gradients of distances that are no product: pair by pair, a vector of columns at a time.
//
// S says how a pair's distance rises with the difference of its rows: S::kParts vectors make up a column (two where
// numbers are complex), and S::slope gives the derivative by each as factor * difference.
#pragma once

#include "base/linalg/operands.h"
#include "base/linalg/simd.h"

namespace frugal::FRUGAL_ISA {

// Two vectors of a row of k floats, or one, that belong to the same columns.
template <typename S>
struct Column {
  Vec part[S::kParts];
};
template <typename S>
FRUGAL_LANES Column<S> load_column(const float* row, std::int64_t k) {
  Column<S> column;
  for (int p = 0; p < S::kParts; ++p) column.part[p] = load(row + p * (k / S::kParts));
  return column;
}

// Weights of pairs (i, j) lie at data[i * row_stride + j * other_stride].
struct Weights {
  const float* data;
  std::int64_t row_stride, other_stride;
};

// A number known when compiling.
template <int Value>
struct Size {
  static constexpr int value = Value;
};
// Calls block(first, Size) for blocks of Count rows, then of single ones.
template <int Count, typename Block>
FRUGAL_LANES void for_blocks(std::int64_t rows, Block block) {
  std::int64_t i = 0;
  for (; i + Count <= rows; i += Count) block(i, Size<Count>{});
  for (; i < rows; ++i) block(i, Size<1>{});
}

// Count rows of `mine` against all `others` rows of `theirs`. Adds each pair's weight times its slope to my_sum
// (Count x kParts x 16), and, if Both, to their_sum (others x kParts x 16) too: what moves the distance by the one row
// moves it by minus that for the other.
template <typename S, int Count, bool Both>
static inline void add_pairs(std::int64_t others, std::int64_t k, Rows mine, Rows theirs, Weights weight, float* my_sum,
                             float* their_sum) {
  constexpr int kFloats = S::kParts * kLanes;
  Column<S> own[Count], sum[Count];
#pragma GCC unroll 8
  for (int i = 0; i < Count; ++i) {
    own[i] = load_column<S>(mine[i], k);
    sum[i] = load_column<S>(my_sum + i * kFloats, kFloats);
  }
  const float* other_row = theirs.data;
  const float* pair_weight = weight.data;
  for (std::int64_t j = 0; j < others; ++j, other_row += theirs.stride, pair_weight += weight.other_stride) {
    const Column<S> other = load_column<S>(other_row, k);
    Column<S> back;
    if constexpr (Both) back = load_column<S>(their_sum + j * kFloats, kFloats);
#pragma GCC unroll 8
    for (int i = 0; i < Count; ++i) {
      Column<S> difference;
      const Vec factor = S::slope(own[i], other, broadcast(pair_weight[i * weight.row_stride]), difference);
      for (int p = 0; p < S::kParts; ++p) {
        sum[i].part[p] = fma(factor, difference.part[p], sum[i].part[p]);
        if constexpr (Both) back.part[p] = fma(factor, difference.part[p], back.part[p]);
      }
    }
    if constexpr (Both)
      for (int p = 0; p < S::kParts; ++p) store(their_sum + j * kFloats + p * kLanes, back.part[p]);
  }
#pragma GCC unroll 8
  for (int i = 0; i < Count; ++i)
    for (int p = 0; p < S::kParts; ++p) store(my_sum + i * kFloats + p * kLanes, sum[i].part[p]);
}

// One side: the gradient of the rows of `mine`, whole vectors of columns, except that nothing of the second half of a
// row is overwritten by the end of the first.
template <typename S>
static inline void one_side(std::int64_t rows, std::int64_t others, std::int64_t k, Rows mine, Rows theirs,
                            Weights weight, Rows gradient) {
  constexpr int kFloats = S::kParts * kLanes;
  const std::int64_t part = k / S::kParts;
  for (std::int64_t column = 0; column < part; column += kLanes) {
    const int count = part - column < kLanes ? static_cast<int>(part - column) : kLanes;
    const auto block = [&](std::int64_t i, auto size) {
      constexpr int kCount = decltype(size)::value;
      float sum[kCount * kFloats] = {};
      add_pairs<S, kCount, false>(others, k, {mine[i] + column, mine.stride}, {theirs.data + column, theirs.stride},
                                  {weight.data + i * weight.row_stride, weight.row_stride, weight.other_stride}, sum,
                                  nullptr);
      for (int r = 0; r < kCount; ++r)
        for (int p = 0; p < S::kParts; ++p)
          store_part(gradient[i + r] + p * part + column, load(sum + r * kFloats + p * kLanes), count);
    };
    for_blocks<S::kRows>(rows, block);
  }
}

// Both sides of one vector of columns. Others go in blocks that stay in the first cache while all rows pass by.
template <typename S>
static inline void both_sides(std::int64_t rows, std::int64_t others, std::int64_t k, Rows mine, Rows theirs,
                              Weights weight, float* my_sum, float* their_sum) {
  constexpr int kFloats = S::kParts * kLanes;
  constexpr std::int64_t kOthers = 128 / S::kParts;
  for (std::int64_t first = 0; first < others; first += kOthers) {
    const std::int64_t count = others - first < kOthers ? others - first : kOthers;
    const auto block = [&](std::int64_t i, auto size) {
      add_pairs<S, decltype(size)::value, true>(
          count, k, {mine[i], mine.stride}, {theirs[first], theirs.stride},
          {weight.data + i * weight.row_stride + first * weight.other_stride, weight.row_stride, weight.other_stride},
          my_sum + i * kFloats, their_sum + first * kFloats);
    };
    for_blocks<S::kRows>(rows, block);
  }
}

}  // namespace frugal::FRUGAL_ISA
