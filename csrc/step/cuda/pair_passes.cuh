// The three large loops of a step, over all pairs of queries and negatives of a chunk, as tiles.
//
// compare: every query with every negative. differentiate: gradients of queries, over the negatives, and of negatives,
// over the queries, from the weights of pairs. A block makes one tile.
#pragma once

#include "step/cuda/device_step.cuh"
#include "step/cuda/tensor_tiles.cuh"
#include "step/regularization.h"

namespace frugal::cuda {

// How a similarity compares and pulls. kSquared: the pull is the sum of weights times the row itself, less the product.
// The shapes are small, so that a batch of a thousand has a tile for every multiprocessor.
struct DotPairs {
  using Compare = Product;
  using Pull = Product;
  using CompareShape = Shape<4, 16, 4, 8, 32>;
  using PullShape = Shape<4, 16, 4, 8, 32>;
  static constexpr bool kSquared = false;
};
struct L2Pairs : DotPairs {
  static constexpr bool kSquared = true;
};
struct L1Pairs : DotPairs {
  using Compare = AbsoluteDistance;
  using Pull = AbsolutePull;
};
struct ModulusPairs : DotPairs {  // differentiated in modulus_wave.cuh
  using Compare = ModulusDistance;
  using CompareShape = Shape<2, 32, 4, 8, 16>;  // more warps, since roots are far apart from what they are for
};

// The products of P on tensor cores, in so many passes.
template <typename P, int kPasses>
struct TensorPairs : P {};

template <typename P>
struct Tiles {
  using Compare = Tile<typename P::Compare, typename P::CompareShape, false, false>;
  template <bool kOfNegatives>
  using Pull = Tile<typename P::Pull, typename P::PullShape, kOfNegatives, true>;
};
template <typename P, int kPasses>
struct Tiles<TensorPairs<P, kPasses>> {
  using Compare = TensorTile<kPasses, TensorShape<2, 4, 1, 1, 4, 64, 8, 3>, false, false>;
  template <bool kOfNegatives>
  using Pull = TensorTile<kPasses, TensorShape<2, 4, 2, 1, 2, 32, 8, 4>, kOfNegatives, true>;
};

template <typename P>
using CompareTile = typename Tiles<P>::Compare;
template <typename P, bool kOfNegatives>
using PullTile = typename Tiles<P>::template Pull<kOfNegatives>;

template <typename P>
__global__ void __launch_bounds__(CompareTile<P>::kThreads) compare_kernel(Step s) {
  using T = CompareTile<P>;
  __shared__ alignas(16) float shared[T::kSharedFloats];
  const int queries = static_cast<int>(s.batch.chunk_size), columns = static_cast<int>(s.columns);
  const int across = (columns + T::kColumns - 1) / T::kColumns, down = (queries + T::kRows - 1) / T::kRows;
  const int chunk = blockIdx.x / (across * down), tile = blockIdx.x % (across * down);
  const int first_row = tile / across * T::kRows, first_column = tile % across * T::kColumns;
  typename T::Sums sum = {};
  const typename T::Sums own = {};
  T::template fold<false>(shared, s.queries(chunk, s.query), first_row, s.negatives(chunk), first_column,
                          static_cast<int>(s.part), own, sum);
  const auto place = [&](int row, int column) {
    return s.comparison + (static_cast<std::int64_t>(chunk) * queries + row) * s.weight_stride + column;
  };
  // Columns beyond the last one are padding.
  const auto put_four = [&](int row, int column, float4 x) {
    if (row >= queries || column >= columns) return;
    float* at = place(row, column);
    if (s.shares.ranks > 0) at = s.raw_place(s.owner(static_cast<std::int64_t>(chunk) * queries + row), at);
    *reinterpret_cast<float4*>(at) = x;
  };
  if constexpr (T::kFours) {
#pragma unroll
    for (int i = 0; i < T::kMicroRows; ++i)
      put_four(first_row + T::row(i), first_column + T::column(0), {sum[i][0], sum[i][1], sum[i][2], sum[i][3]});
    return;
  }
  if (s.shares.ranks > 0) {  // over a link whole lines travel best
    static_assert(T::kSharedFloats >= T::kRows * T::kColumns && T::kColumns % 4 == 0);
    __syncthreads();  // the last slabs have been folded
#pragma unroll
    for (int i = 0; i < T::kMicroRows; ++i)
#pragma unroll
      for (int j = 0; j < T::kMicroColumns; ++j) shared[T::row(i) * T::kColumns + T::column(j)] = sum[i][j];
    __syncthreads();
    for (int i = 4 * threadIdx.x; i < T::kRows * T::kColumns; i += 4 * T::kThreads)
      put_four(first_row + i / T::kColumns, first_column + i % T::kColumns,
               *reinterpret_cast<const float4*>(shared + i));
    return;
  }
#pragma unroll
  for (int i = 0; i < T::kMicroRows; ++i)
#pragma unroll
    for (int j = 0; j < T::kMicroColumns; ++j) {
      const int row = first_row + T::row(i), column = first_column + T::column(j);
      if (row < queries && column < columns) *place(row, column) = sum[i][j];
    }
}

// A tile of gradients of rows `mine` (queries or negatives), over the rows `theirs`. write(row, column, values, own)
// takes four neighbouring columns, of which those below s.part count, and where the row's own lie.
template <typename P, bool kOfNegatives, typename Write>
__device__ void pull_tile(const Step& s, float* shared, int tile, const Operand& weights, const Operand& mine,
                          const Operand& theirs, const Facts* facts, Write write) {
  using T = PullTile<P, kOfNegatives>;
  const int across = (static_cast<int>(s.part) + T::kColumns - 1) / T::kColumns;
  const int first_row = tile / across * T::kRows, first_column = tile % across * T::kColumns;
  const auto row_of = [&](int i) { return mine.data + static_cast<std::int64_t>(first_row + T::row(i)) * mine.stride; };
  typename T::Sums sum = {};
  typename T::Sums own = {};
  if constexpr (P::Pull::kOwn) {
#pragma unroll
    for (int i = 0; i < T::kMicroRows; ++i)
#pragma unroll
      for (int j = 0; j < T::kMicroColumns; ++j)
        if (first_row + T::row(i) < mine.rows && first_column + T::column(j) < s.part)
          own[i][j] = row_of(i)[first_column + T::column(j)];
  }
  constexpr bool kColumnSums = P::kSquared && kOfNegatives;  // of a negative's weights
  T::template fold<kColumnSums>(shared, weights, first_row, theirs, first_column, theirs.rows, own, sum);
#pragma unroll
  for (int i = 0; i < T::kMicroRows; ++i)
#pragma unroll
    for (int j = 0; j < T::kMicroColumns; j += 4) {
      const int row = first_row + T::row(i), column = first_column + T::column(j);
      if (row >= mine.rows || column >= s.part) continue;
      const float* own_row = row_of(i) + column;
      float4 x = {sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]};
      if constexpr (P::kSquared) {
        const float total = kOfNegatives ? T::left_sum(shared, T::row(i)) : facts[row].weight_sum;
        const float4 m = *reinterpret_cast<const float4*>(own_row);
        x.x = __fmaf_rn(total, m.x, 0.0f - x.x), x.y = __fmaf_rn(total, m.y, 0.0f - x.y);
        x.z = __fmaf_rn(total, m.z, 0.0f - x.z), x.w = __fmaf_rn(total, m.w, 0.0f - x.w);
      }
      write(row, column, x, own_row);
    }
}

// Four columns of the gradient of a negative of a chunk, with regularization if it was sampled. own: the negative's.
__device__ inline void write_negative_gradient(const Step& s, int chunk, int row, int part, int column, float4 x,
                                               const float* own) {
  if (row < s.own) {
    float* to = s.own_gradient + (chunk * s.batch.chunk_size + row) * s.stride + part * s.part_stride + column;
    *reinterpret_cast<float4*>(to) = x;  // padding takes what is beyond the end
    return;
  }
  const float norm = s.loss.regularization_norm, factor = s.loss.regularization_coefficient * norm;
  if (s.regularized) {
    const auto add = [&](float& value, float y) {
      value = value + (broadcast(factor) * penalty_slope(norm, Vec{y})).x;
    };
    add(x.x, own[0]), add(x.y, own[1]), add(x.z, own[2]), add(x.w, own[3]);
  }
  const std::int64_t negative = chunk * s.batch.negatives_per_chunk + row - s.own;
  float* to = s.out.negative.data + negative * s.out.negative.stride + part * s.part + column;
  if (s.aligned_out) {
    *reinterpret_cast<float4*>(to) = x;
    return;
  }
  const float value[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
  for (int k = 0; k < 4; ++k)
    if (column + k < s.part) to[k] = value[k];
}

template <typename P>
__global__ void __launch_bounds__(PullTile<P, true>::kThreads) pull_kernel(Step s) {
  using OfQueries = PullTile<P, false>;
  using OfNegatives = PullTile<P, true>;
  constexpr int kFloats =
      OfQueries::kSharedFloats > OfNegatives::kSharedFloats ? OfQueries::kSharedFloats : OfNegatives::kSharedFloats;
  __shared__ alignas(16) float shared[kFloats];
  const int across = static_cast<int>((s.part + OfQueries::kColumns - 1) / OfQueries::kColumns);
  const int down_queries = static_cast<int>((s.batch.chunk_size + OfQueries::kRows - 1) / OfQueries::kRows);
  const int down_negatives = static_cast<int>((s.columns + OfNegatives::kRows - 1) / OfNegatives::kRows);
  const int tiles_of_queries = across * down_queries, tiles = across * (down_queries + down_negatives);
  const int chunk = blockIdx.x / tiles, tile = blockIdx.x % tiles;
  const std::int64_t first_edge = static_cast<std::int64_t>(chunk) * s.batch.chunk_size;
  if (tile < tiles_of_queries) {
    pull_tile<P, false>(s, shared, tile, s.weights(chunk), s.queries(chunk, s.query), s.negatives(chunk),
                        s.facts + first_edge, [&](int row, int column, float4 x, const float*) {
                          float* to = s.query_gradient + (first_edge + row) * s.stride + column;
                          *reinterpret_cast<float4*>(to) = x;  // padding takes what is beyond the end
                        });
    return;
  }
  pull_tile<P, true>(s, shared, tile - tiles_of_queries, s.weights(chunk), s.negatives(chunk),
                     s.queries(chunk, s.query), nullptr,
                     [&](int row, int column, float4 x, const float* own) {
                       write_negative_gradient(s, chunk, row, 0, column, x, own);
                     });
}

template <typename P>
std::int64_t compare_blocks(const Step& s) {
  using T = CompareTile<P>;
  return s.chunks * pieces(s.batch.chunk_size, T::kRows) * pieces(s.columns, T::kColumns);
}

template <typename P>
std::int64_t pull_blocks(const Step& s) {
  using T = PullTile<P, true>;
  return s.chunks * pieces(s.part, T::kColumns) * (pieces(s.batch.chunk_size, T::kRows) + pieces(s.columns, T::kRows));
}

}  // namespace frugal::cuda
