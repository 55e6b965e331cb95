// The three large loops of a step, over all pairs of queries and negatives of a chunk, as tiles.
//
// compare: every query with every negative. differentiate: gradients of queries, over the negatives, and of negatives,
// over the queries, from the weights of pairs. A block makes one tile.
#pragma once

#include "step/cuda/device_penalty.cuh"
#include "step/cuda/device_step.cuh"
#include "step/cuda/tensor_tiles.cuh"

namespace frugal::cuda {

// How a similarity compares and what the gradients of its pairs are. kSquared: a gradient is the sum of weights times
// the row itself, less the product.
// The shapes are small, so that a batch of a thousand has a tile for every multiprocessor.
struct DotPairs {
  using Compare = Product;
  using PairGradient = Product;
  using CompareShape = Shape<4, 16, 4, 8, 32>;
  using PairGradientShape = Shape<4, 16, 4, 8, 32>;
  static constexpr bool kSquared = false;
};
struct L2Pairs : DotPairs {
  static constexpr bool kSquared = true;
};
struct L1Pairs : DotPairs {
  using Compare = AbsoluteDistance;
  using PairGradient = AbsoluteGradient;
};
struct ModulusPairs : DotPairs {  // differentiated in modulus_wave.cuh
  using Compare = ModulusDistance;
  using CompareShape = Shape<2, 32, 4, 8, 16>;  // more warps, since roots are far apart from what they are for
};

// Comparisons on tensor cores of rows of few columns, of which a block has too few to share them out four times.
template <typename P, int kPasses>
struct ShortTensorPairs : P {};
inline constexpr int kShortRow = 256;

// The products of P on tensor cores, in so many passes.
template <typename P, int kPasses>
struct TensorPairs : P {
  using OfShortRows = ShortTensorPairs<P, kPasses>;
};

template <typename P>
struct Tiles {
  using Compare = Tile<typename P::Compare, typename P::CompareShape, false, false>;
  template <bool kOfNegatives>
  using PairGradient = Tile<typename P::PairGradient, typename P::PairGradientShape, kOfNegatives, true>;
};
template <typename P, int kPasses>
struct Tiles<TensorPairs<P, kPasses>> {
  using Compare = TensorTile<kPasses, TensorShape<2, 4, 1, 1, 4, 64, 3, 3>, false, false>;
  template <bool kOfNegatives>
  using PairGradient = TensorTile<kPasses, TensorShape<2, 5, 2, 1, 2, 32, 3, 3>, kOfNegatives, true>;
};

template <typename P, int kPasses>
struct Tiles<ShortTensorPairs<P, kPasses>> {
  using Compare = TensorTile<kPasses, TensorShape<2, 4, 1, 1, 2, 32, 4, 4>, false, false>;
};

template <typename P>
using CompareTile = typename Tiles<P>::Compare;
template <typename P, bool kOfNegatives>
using PairGradientTile = typename Tiles<P>::template PairGradient<kOfNegatives>;

template <typename P>
__global__ void __launch_bounds__(CompareTile<P>::kThreads, CompareTile<P>::kBlocks) compare_kernel(Step s) {
  using T = CompareTile<P>;
  extern __shared__ __align__(16) float shared[];  // T::kSharedFloats
  const int queries = static_cast<int>(s.batch.chunk_size), columns = static_cast<int>(s.columns);
  const int across = (columns + T::kColumns - 1) / T::kColumns, down = (queries + T::kRows - 1) / T::kRows;
  // Each rank begins with the share of another one, so that no two write to the same device at a time.
  const unsigned first = s.shares.ranks > 0 ? gridDim.x * (s.shares.rank + 1) / s.shares.ranks : 0;
  const int block = static_cast<int>((blockIdx.x + first) % gridDim.x);
  const int chunk = block / (across * down), tile = block % (across * down);
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
      put_four(first_row + T::row(i), first_column + T::column(i, 0), {sum[i][0], sum[i][1], sum[i][2], sum[i][3]});
    return;
  }
  if (s.shares.ranks > 0) {  // over a link whole lines travel best
    static_assert(T::kSharedFloats >= T::kRows * T::kColumns && T::kColumns % 4 == 0);
    __syncthreads();  // the last slabs have been folded
#pragma unroll
    for (int i = 0; i < T::kMicroRows; ++i)
#pragma unroll
      for (int j = 0; j < T::kMicroColumns; ++j) shared[T::row(i) * T::kColumns + T::column(i, j)] = sum[i][j];
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
      const int row = first_row + T::row(i), column = first_column + T::column(i, j);
      if (row < queries && column < columns) *place(row, column) = sum[i][j];
    }
}

// The interface of pair_gradient_tile to the place of gradients, for places that need nothing but a row's own words.
struct TakesOwnWords {
  static constexpr int kFloatsOfRow = 0;
  using Words = float4;
  static __device__ void start(const Step&, int, int, int, float*) {}
  static __device__ Words words(int, int, const float* own) { return *reinterpret_cast<const float4*>(own); }
  static __device__ float4 own_of(Words own) { return own; }
};

// Where the gradients of a chunk's queries go, if those of its edges' rows are made of them later.
struct QueryGradients : TakesOwnWords {
  const QueryState* states;
  float* rows;
  int stride;

  __device__ QueryGradients(const Step& s, int chunk, int, const float*)
      : states(s.query_states + chunk * s.batch.chunk_size),
        rows(s.query_gradient + chunk * s.batch.chunk_size * s.stride),
        stride(static_cast<int>(s.stride)) {}
  __device__ float weight_sum(int row) const { return states[row].weight_sum; }
  // Four columns; padding takes what is beyond the end.
  __device__ void write(int row, int column, float4 x, Words) const {
    *reinterpret_cast<float4*>(rows + row * stride + column) = x;
  }
};

// Where those of its negatives go, with regularization if they were sampled.
struct NegativeGradients : TakesOwnWords {
  float *own, *sampled;  // rows of the positives' side, if it is among the negatives; the others, from there on
  int own_rows, own_stride, sampled_stride, part, part_stride;
  AddedPenalty penalty;
  bool aligned;

  __device__ NegativeGradients(const Step& s, int chunk, int = 0, const float* = nullptr)
      : own(s.own_gradient + chunk * s.batch.chunk_size * s.stride),
        sampled(s.out.negative.data + (chunk * s.batch.negatives_per_chunk - s.own) * s.out.negative.stride),
        own_rows(static_cast<int>(s.own)),
        own_stride(static_cast<int>(s.stride)),
        sampled_stride(static_cast<int>(s.out.negative.stride)),
        part(static_cast<int>(s.part)),
        part_stride(static_cast<int>(s.part_stride)),
        penalty(s.loss, s.regularized),
        aligned(s.aligned_out) {}

  // Four columns of one of a row's parts.
  __device__ void write(int row, int column, float4 x, float4 y, int which = 0) const {
    if (row < own_rows) {
      float* const to = own + row * own_stride + which * part_stride + column;
      *reinterpret_cast<float4*>(to) = x;  // padding takes what is beyond the end
      return;
    }
    penalty.add(x, y);
    float* const to = sampled + row * sampled_stride + which * part + column;
    if (aligned) {
      *reinterpret_cast<float4*>(to) = x;
      return;
    }
    const float value[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
    for (int k = 0; k < 4; ++k)
      if (column + k < part) to[k] = value[k];
  }
};

// A tile of gradients of queries or negatives, over the others of their chunk. To, where they go, has
//   kFloatsOfRow: of shared memory, for what it needs of a row
//   start(s, chunk, first row, rows, shared): starts copies to there, which have come when the first slab has
//   To(s, chunk, first row, shared): when the tile has been folded, so that it takes no registers before
//   words(row, column, own): loads what it needs of four neighbouring columns, of which the row's own are at `own`
//   own_of(words): the row's own
//   write(row, column, values, words): takes the four, of which those below s.part count
//   weight_sum(row): of a query, for L2.
template <typename P, bool kOfNegatives, typename To>
__device__ void pair_gradient_tile(const Step& s, float* shared, int chunk, int tile) {
  using T = PairGradientTile<P, kOfNegatives>;
  const int part = static_cast<int>(s.part), across = (part + T::kColumns - 1) / T::kColumns;
  const int first_row = tile / across * T::kRows, first_column = tile % across * T::kColumns;
  const Operand queries = s.queries(chunk, s.query), negatives = s.negatives(chunk);
  const Operand mine = kOfNegatives ? negatives : queries, theirs = kOfNegatives ? queries : negatives;
  To::start(s, chunk, first_row, T::kRows, shared + T::kSharedFloats);
  typename T::Sums sum = {};
  typename T::Sums own = {};
  if constexpr (P::PairGradient::kOwn) {
#pragma unroll
    for (int i = 0; i < T::kMicroRows; ++i)
#pragma unroll
      for (int j = 0; j < T::kMicroColumns; ++j) {
        const int row = first_row + T::row(i), column = first_column + T::column(i, j);
        if (row < mine.rows && column < part) own[i][j] = mine.data[row * mine.stride + column];
      }
  }
  constexpr bool kColumnSums = P::kSquared && kOfNegatives;  // of a negative's weights
  T::template fold<kColumnSums>(shared, s.weights(chunk), first_row, theirs, first_column, theirs.rows, own, sum);
  const To to(s, chunk, first_row, shared + T::kSharedFloats);
  constexpr int kWords = T::kMicroColumns / 4;
  typename To::Words words[T::kMicroRows][kWords];  // all of which are under way before one is waited for
  float total[T::kMicroRows];
#pragma unroll
  for (int i = 0; i < T::kMicroRows; ++i) {
    const int row = first_row + T::row(i) < mine.rows ? first_row + T::row(i) : mine.rows - 1;
    if constexpr (P::kSquared && kOfNegatives) total[i] = T::left_sum(shared, T::row(i));
    if constexpr (P::kSquared && !kOfNegatives) total[i] = to.weight_sum(row);
#pragma unroll
    for (int j = 0; j < kWords; ++j) {
      const int column = first_column + T::column(i, 4 * j), last = mine.part - 4;
      words[i][j] = to.words(row, column, mine.data + row * mine.stride + (column < last ? column : last));
    }
  }
#pragma unroll
  for (int i = 0; i < T::kMicroRows; ++i)
#pragma unroll
    for (int j = 0; j < kWords; ++j) {
      const int row = first_row + T::row(i), column = first_column + T::column(i, 4 * j);
      float4 x = {sum[i][4 * j], sum[i][4 * j + 1], sum[i][4 * j + 2], sum[i][4 * j + 3]};
      if constexpr (P::kSquared) {
        const float4 y = to.own_of(words[i][j]);
        x.x = __fmaf_rn(total[i], y.x, 0.0f - x.x), x.y = __fmaf_rn(total[i], y.y, 0.0f - x.y);
        x.z = __fmaf_rn(total[i], y.z, 0.0f - x.z), x.w = __fmaf_rn(total[i], y.w, 0.0f - x.w);
      }
      if (row < mine.rows && column < part) to.write(row, column, x, words[i][j]);
    }
}

// Queries: what becomes of the gradients of queries.
template <typename P, typename Queries>
__global__ void __launch_bounds__(PairGradientTile<P, true>::kThreads,
                                  PairGradientTile<P, true>::kBlocks) pair_gradient_kernel(Step s) {
  using OfQueries = PairGradientTile<P, false>;
  using OfNegatives = PairGradientTile<P, true>;
  extern __shared__ __align__(16) float shared[];  // pair_gradient_floats
  const int across = static_cast<int>((s.part + OfQueries::kColumns - 1) / OfQueries::kColumns);
  const int down_queries = static_cast<int>((s.batch.chunk_size + OfQueries::kRows - 1) / OfQueries::kRows);
  const int down_negatives = static_cast<int>((s.columns + OfNegatives::kRows - 1) / OfNegatives::kRows);
  const int tiles_of_queries = across * down_queries, tiles = across * (down_queries + down_negatives);
  const int chunk = blockIdx.x / tiles, tile = blockIdx.x % tiles;
  if (tile < tiles_of_queries)
    pair_gradient_tile<P, false, Queries>(s, shared, chunk, tile);
  else
    pair_gradient_tile<P, true, NegativeGradients>(s, shared, chunk, tile - tiles_of_queries);
}

template <typename P>
std::int64_t compare_blocks(const Step& s) {
  using T = CompareTile<P>;
  return s.chunks * pieces(s.batch.chunk_size, T::kRows) * pieces(s.columns, T::kColumns);
}

template <typename P, bool kOfNegatives, typename To>
constexpr int tile_floats() {
  using T = PairGradientTile<P, kOfNegatives>;
  return T::kSharedFloats + T::kRows * To::kFloatsOfRow;
}
template <typename P, typename Queries>
constexpr int pair_gradient_floats() {
  return std::max(tile_floats<P, false, Queries>(), tile_floats<P, true, NegativeGradients>());
}

template <typename P>
std::int64_t pair_gradient_blocks(const Step& s) {
  using T = PairGradientTile<P, true>;
  return s.chunks * pieces(s.part, T::kColumns) * (pieces(s.batch.chunk_size, T::kRows) + pieces(s.columns, T::kRows));
}

}  // namespace frugal::cuda
