#include "full_softmax/cuda/tile_kernels.h"

#include <algorithm>
#include <string>
#include <type_traits>

#include "base/device/cuda_check.h"
#include "base/random/dropout.h"
#include "full_softmax/cuda/to_half.cuh"
#include "rows/cuda/device_warp.cuh"
#include "rows/summed_row.h"
#include "table/mean_square.h"

namespace frugal::cuda {
namespace {

constexpr int kThreads = 256, kLanes = 32, kWarps = kThreads / kLanes;
constexpr std::int64_t kMostBlocks = 1 << 16;  // loops cover the rest

struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Largest {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// `fold` over the values of a block's threads, always in the same order; every thread gets it.
template <typename Fold>
__device__ float fold_block(float value, Fold fold) {
  __shared__ float of_warp[kWarps];
  for (int half = kLanes / 2; half > 0; half /= 2) value = fold(value, __shfl_xor_sync(0xffffffffu, value, half));
  __syncthreads();  // everyone has read what was there before
  if (threadIdx.x % kLanes == 0) of_warp[threadIdx.x / kLanes] = value;
  __syncthreads();
  float all = of_warp[0];
  for (int warp = 1; warp < kWarps; ++warp) all = fold(all, of_warp[warp]);
  return all;
}

__device__ float unit_of(const ScoreTile& tile) { return tile.unit ? *tile.unit : 1.0f; }

__device__ float bounded(float x, float bound) {
  if (!(bound > 0.0f)) return x;
  return x < -bound ? -bound : x > bound ? bound : x;  // NaN stays, which fminf and fmaxf would drop
}

__device__ const std::int64_t* first_from(const std::int64_t* begin, const std::int64_t* end, std::int64_t id) {
  while (begin < end) {
    const std::int64_t* const middle = begin + (end - begin) / 2;
    if (*middle < id)
      begin = middle + 1;
    else
      end = middle;
  }
  return begin;
}

// Scores are read and written as vectors of four, two of them at a time so that enough is under way; rows of a tile
// begin at whole vectors.
constexpr int kVector = 4, kVectors = 2, kTogether = kVector * kVectors;
constexpr int kStep = kTogether * kThreads;  // columns that a block takes at a time

// A thread's vectors of a step's columns are kThreads vectors apart, so that a warp's follow each other.
__device__ int vector_column(int begin, int v) {
  return begin + kVector * (v * kThreads + static_cast<int>(threadIdx.x));
}

// Memory beyond a row's last vector is zero; the rest of that vector is nobody's.
struct Scores {
  float at[kVectors][kVector];

  __device__ Scores(const float* row, int columns, int begin) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int j = vector_column(begin, v);
      const float4 x = j < columns ? *reinterpret_cast<const float4*>(row + j) : float4{0.0f, 0.0f, 0.0f, 0.0f};
      at[v][0] = x.x, at[v][1] = x.y, at[v][2] = x.z, at[v][3] = x.w;
    }
  }
};

// Those targets of a query that lie in a tile, and the first and the last of their columns.
struct TileTargets {
  const std::int64_t *begin, *end;
  int least = 0, most = -1;

  __device__ TileTargets(const ScoreTile& tile, const SoftmaxTargets& targets, std::int64_t query)
      : first_(tile.first) {
    const std::int64_t* const last = targets.ids + targets.end[query];
    begin = first_from(targets.ids + targets.begin[query], last, tile.first);
    end = first_from(begin, last, tile.first + tile.columns);
    if (begin < end) least = static_cast<int>(*begin - first_), most = static_cast<int>(*(end - 1) - first_);
  }
  // Bit k: whether column j + k is one.
  __device__ unsigned among(int j) const {
    unsigned found = 0;
    if (least >= j + kVector || most < j) return found;
    const std::int64_t id = first_ + j;
    for (const std::int64_t* next = first_from(begin, end, id); next < end && *next < id + kVector; ++next)
      found |= 1u << (*next - id);
    return found;
  }

 private:
  std::int64_t first_;
};

__device__ float power_of_two(float exponent) {
#ifdef __CUDA_ARCH__
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(exponent));
  return power;
#else
  return exp2f(exponent);
#endif
}

// e^(score - top), where both are as `read` has them. kRounded: of products of numbers of 16 bits, which stay as they
// are read and have no bound. Their power takes two instructions, and is off by 2^-22 of it and by 2^-24 of the
// exponent, where the products are by 2^-11.
template <bool kRounded>
struct Exponential {
  static constexpr float kLog2 = 1.44269504f;
  float unit, bound, rate;

  explicit __device__ Exponential(const ScoreTile& tile)
      : unit(unit_of(tile)), bound(tile.bound), rate(kLog2 * unit) {}
  __device__ float read(float number) const { return kRounded ? number : bounded(unit * number, bound); }
  // A score that is known, as `read` would have it; exact, for units of rounded products are powers of two.
  __device__ float as_read(float score) const { return kRounded ? score / unit : score; }
  __device__ float score(float read) const { return kRounded ? unit * read : read; }
  __device__ float operator()(float x, float top) const {
    return kRounded ? power_of_two(__fmaf_rn(x, rate, -top * rate)) : expf(x - top);
  }
};

// A block per query, which reads its scores once: each thread sums e^(score - the largest that it has seen).
// kRounded: see Exponential; then there is no `off`, either.
template <bool kRounded>
__global__ void __launch_bounds__(kThreads) add_tile_kernel(ScoreTile tile, SoftmaxTargets targets, SoftmaxSums sums) {
  const std::int64_t i = blockIdx.x;
  const float* const row = tile.scores + i * tile.stride;
  const int columns = static_cast<int>(tile.columns);
  const Exponential<kRounded> power(tile);
  const float off = !kRounded && targets.off ? targets.off[i] : 0.0f;
  float top = power.as_read(sums.largest[i]), total = 0.0f, everything = 0.0f;
  // whole: whether the row has all columns of this step.
  const auto add = [&](Scores scores, int begin, auto whole) {
    constexpr bool kWhole = decltype(whole)::value;
    float higher = top;
    unsigned there = 0;  // bits
#pragma unroll
    for (int v = 0; v < kVectors; ++v)
#pragma unroll
      for (int k = 0; k < kVector; ++k) {
        float& x = scores.at[v][k];
        const bool is_column = kWhole || vector_column(begin, v) + k < columns;
        there |= static_cast<unsigned>(is_column) << (v * kVector + k);
        x = is_column ? power.read(x) : top;
        higher = fmaxf(higher, x);
        if (off != 0.0f && is_column) everything += x;
      }
    if (higher > top) total *= power(top, higher);
    top = higher;
#pragma unroll
    for (int v = 0; v < kVectors; ++v)
#pragma unroll
      for (int k = 0; k < kVector; ++k)
        if (there >> (v * kVector + k) & 1u) total += power(scores.at[v][k], top);
  };
  Scores next(row, columns, 0);
  int begin = 0;
  for (; begin + kStep <= columns; begin += kStep) {
    const Scores now = next;
    next = Scores(row, columns, begin + kStep);
    add(now, begin, std::true_type{});
  }
  if (begin < columns) add(next, begin, std::false_type{});
  const float highest = fold_block(top, Largest{});
  total = fold_block(total * power(top, highest), Sum{});
  const TileTargets mine(tile, targets, i);
  float wanted = 0.0f;
  for (const std::int64_t* id = mine.begin + threadIdx.x; id < mine.end; id += kThreads)
    wanted += power.score(power.read(row[*id - tile.first]));
  if (targets.on) wanted *= targets.on[i];
  wanted = fold_block(wanted + off * everything, Sum{});
  if (threadIdx.x == 0) {
    const float largest = power.score(highest);
    sums.total[i] = sums.total[i] * expf(sums.largest[i] - largest) + total;
    sums.largest[i] = largest;
    sums.wanted[i] += wanted;
  }
}

// Four slopes to where they stay.
template <RowElement kElement>
__device__ void store_slopes(float* row, int j, const float* x) {
  if constexpr (kElement == RowElement::kFloat32)
    *reinterpret_cast<float4*>(row + j) = {x[0], x[1], x[2], x[3]};
  else
    reinterpret_cast<uint2*>(row)[j / kVector] = {to_half_pair(x[0], x[1]), to_half_pair(x[2], x[3])};
}

// By a block: calls slopes(j, x) for the four scores from column j on, which it replaces, for each j below `written`.
//
// Numbers of 16 bits take the place of scores at half their distance from the beginning of the row, which all threads
// must have read before. Where they wait for each other in step n they have read the columns of n + 2 steps, whose
// places are written until step 2 n + 3; so they wait again in step 2 n + 1, and not in each.
template <RowElement kElement, typename Slopes>
__device__ void replace_scores(float* row, int columns, int written, Slopes slopes) {
  Scores next(row, columns, 0);
  for (int begin = 0, next_wait = 0; begin < written; begin += kStep) {
    Scores now = next;
    next = Scores(row, columns, begin + kStep);
    if (kElement != RowElement::kFloat32 && begin == next_wait) {
      __syncthreads();
      next_wait = 2 * next_wait + kStep;
    }
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int j = vector_column(begin, v);
      if (j >= written) break;
      slopes(j, now.at[v]);
      store_slopes<kElement>(row, j, now.at[v]);
    }
  }
}

// A block per query.
template <RowElement kElement>
__global__ void __launch_bounds__(kThreads)
    tile_slopes_kernel(ScoreTile tile, SoftmaxTargets targets, const float* log_sum, const float* scales,
                       float factor, int written) {
  const std::int64_t i = blockIdx.x;
  const int columns = static_cast<int>(tile.columns);
  const float middle = log_sum[i], scale = scales ? scales[i] : factor, off = targets.off ? targets.off[i] : 0.0f;
  const float on = targets.on ? targets.on[i] : 1.0f, unit = unit_of(tile);
  const TileTargets wanted_here(tile, targets, i);
  replace_scores<kElement>(tile.scores + i * tile.stride, columns, written, [&](int j, float (&x)[kVector]) {
    const unsigned wanted = wanted_here.among(j);
#pragma unroll
    for (int k = 0; k < kVector; ++k) {
      const float score = unit * x[k];
      const float slope = expf(bounded(score, tile.bound) - middle) - off - (wanted >> k & 1u ? on : 0.0f);
      const bool has_slope = j + k < columns && !(tile.bound > 0.0f && fabsf(score) > tile.bound);
      x[k] = has_slope ? scale * slope : 0.0f;
    }
  });
}

// The same of rounded products (see Exponential), whose slopes have a factor alone.
__global__ void __launch_bounds__(kThreads)
    rounded_slopes_kernel(ScoreTile tile, SoftmaxTargets targets, const float* log_sum, float factor, int written) {
  const std::int64_t i = blockIdx.x;
  const int columns = static_cast<int>(tile.columns);
  constexpr float kLog2 = Exponential<true>::kLog2;
  const float rate = kLog2 * unit_of(tile), offset = log2f(factor) - kLog2 * log_sum[i];
  const float less = factor * (targets.on ? targets.on[i] : 1.0f);
  const TileTargets wanted_here(tile, targets, i);
  float* const row = tile.scores + i * tile.stride;
  replace_scores<RowElement::kFloat16>(row, columns, written, [&](int j, float (&x)[kVector]) {
    const unsigned wanted = wanted_here.among(j);
#pragma unroll
    for (int k = 0; k < kVector; ++k) x[k] = power_of_two(__fmaf_rn(x[k], rate, offset));
    if (wanted == 0 && j + kVector <= columns) return;
#pragma unroll
    for (int k = 0; k < kVector; ++k) {
      if (wanted >> k & 1u) x[k] -= less;
      if (j + k >= columns) x[k] = 0.0f;
    }
  });
}

// How rows are divided among blocks: `count` neighbours share rows, of which each has so many columns, a warp per row.
struct Pieces {
  unsigned count;
  std::int64_t columns;

  __device__ std::int64_t first_column() const { return blockIdx.x % count * columns; }
  __device__ std::int64_t columns_here(std::int64_t dim) const {
    const std::int64_t left = dim - first_column();
    return left < columns ? left : columns;
  }
  __device__ std::int64_t first_row() const {
    return static_cast<std::int64_t>(blockIdx.x / count) * kWarps + threadIdx.x / kLanes;
  }
  __device__ std::int64_t rows_at_a_time() const { return static_cast<std::int64_t>(gridDim.x / count) * kWarps; }
};

__global__ void __launch_bounds__(kThreads)
    update_tile_kernel(TableRows table, std::int64_t first, std::int64_t count, Pieces pieces, const float* gradients,
                       std::int64_t stride, const std::int32_t* slot, float* aside, UpdateRule rule, int power) {
  const int lane = threadIdx.x % kLanes;
  const std::int64_t column = pieces.first_column(), columns = pieces.columns_here(table.dim);
  for (std::int64_t j = pieces.first_row(); j < count; j += pieces.rows_at_a_time()) {
    const float* const gradient = gradients + j * stride + column;
    const std::int32_t to = slot[first + j];
    if (to >= 0) {
      const float unit = rule.unit ? *rule.unit : 1.0f;
      for (std::int64_t k = lane; k < columns; k += kLanes) aside[to * table.dim + column + k] = unit * gradient[k];
      continue;
    }
    float* const row = table.rows + (first + j) * table.stride + column;
    update_columns<DeviceWarp, kLanes>(row, row, gradient, columns, table.dim, rule, power, lane);
  }
}

__global__ void __launch_bounds__(kThreads) update_rows_kernel(TableRows table, const std::int64_t* ids,
                                                               const std::int32_t* used, Pieces pieces,
                                                               const float* gradients, UpdateRule rule, int power) {
  const std::int64_t u = pieces.first_row(), column = pieces.first_column();
  if (u >= *used) return;
  float* const row = table.rows + ids[u] * table.stride + column;
  update_columns<DeviceWarp, kLanes>(row, row, gradients + u * table.dim + column, pieces.columns_here(table.dim),
                                     table.dim, rule, power, threadIdx.x % kLanes);
}

// A thread per four elements.
__global__ void __launch_bounds__(kThreads)
    drop_kernel(Dropout dropout, std::int64_t rows, std::int64_t dim, std::int64_t stride, float* values) {
  const std::uint32_t limit = dropout_limit(dropout.rate);
  const float kept = 1.0f / (1.0f - dropout.rate);
  const std::int64_t blocks = (dim + 3) / 4;
  for (std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; at < rows * blocks;
       at += static_cast<std::int64_t>(gridDim.x) * kThreads) {
    const PhiloxWords words = dropout_words(dropout.seed, *dropout.step, dropout.part,
                                            static_cast<std::uint64_t>(dropout.first * blocks + at));
    const std::int64_t column = at % blocks * 4;
    float* const x = values + at / blocks * stride + column;
    for (int k = 0; k < 4; ++k)
      if (column + k < dim) x[k] = words.at[k] < limit ? 0.0f : x[k] * kept;
  }
}

unsigned blocks_of(std::int64_t pieces, int per_block) {
  return static_cast<unsigned>(std::min((pieces + per_block - 1) / per_block, kMostBlocks));
}

// Few columns of each, so that few long rows keep more than a few warps busy; all where elements share a state.
Pieces pieces_of(std::int64_t dim, const UpdateRule& rule) {
  constexpr std::int64_t kColumns = 512;
  if (!rule.by_element() || dim <= kColumns) return {1, dim};
  return {static_cast<unsigned>((dim + kColumns - 1) / kColumns), kColumns};
}

// Of numbers of 16 bits, without a bound and what else is seldom.
bool is_product_alone(const ScoreTile& tile, const SoftmaxTargets& targets) {
  return tile.unit && tile.bound <= 0.0f && !targets.off;
}

cudaStream_t of(std::uintptr_t stream) { return reinterpret_cast<cudaStream_t>(stream); }

}  // namespace

void add_tile(const ScoreTile& tile, const SoftmaxTargets& targets, const SoftmaxSums& sums, std::uintptr_t number) {
  const auto stream = of(number);
  const auto kernel = is_product_alone(tile, targets) ? add_tile_kernel<true> : add_tile_kernel<false>;
  kernel<<<static_cast<unsigned>(tile.rows), kThreads, 0, stream>>>(tile, targets, sums);
  cuda_check(cudaGetLastError(), "launching the sums of a softmax");
}

void tile_slopes(const ScoreTile& tile, const SoftmaxTargets& targets, const float* log_sum, const float* scale,
                 const SlopeForm& form, std::uintptr_t number) {
  const auto written = static_cast<int>(form.columns(tile.columns));
  const auto blocks = static_cast<unsigned>(tile.rows);
  const auto stream = of(number);
  if (form.element != RowElement::kFloat32 && !scale && is_product_alone(tile, targets)) {
    rounded_slopes_kernel<<<blocks, kThreads, 0, stream>>>(tile, targets, log_sum, form.factor, written);
  } else {
    const auto kernel = form.element == RowElement::kFloat32 ? tile_slopes_kernel<RowElement::kFloat32>
                                                             : tile_slopes_kernel<RowElement::kFloat16>;
    kernel<<<blocks, kThreads, 0, stream>>>(tile, targets, log_sum, scale, form.factor, written);
  }
  cuda_check(cudaGetLastError(), "launching the slopes of a softmax");
}

void update_tile(const TableRows& table, std::int64_t first, std::int64_t count, const float* gradients,
                 std::int64_t stride, const std::int32_t* slot, float* aside, const UpdateRule& rule,
                 std::uintptr_t stream) {
  const Pieces pieces = pieces_of(table.dim, rule);
  update_tile_kernel<<<blocks_of(count, kWarps) * pieces.count, kThreads, 0, of(stream)>>>(
      table, first, count, pieces, gradients, stride, slot, aside, rule, sum_level_power(table.dim / kSumPartials));
  cuda_check(cudaGetLastError(), "launching the update of " + std::to_string(count) + " rows");
}

void update_rows(const TableRows& table, const std::int64_t* ids, const std::int32_t* used, std::int64_t most,
                 const float* gradients, const UpdateRule& rule, std::uintptr_t stream) {
  const Pieces pieces = pieces_of(table.dim, rule);
  const auto blocks = static_cast<unsigned>((most + kWarps - 1) / kWarps);
  update_rows_kernel<<<blocks * pieces.count, kThreads, 0, of(stream)>>>(
      table, ids, used, pieces, gradients, rule, sum_level_power(table.dim / kSumPartials));
  cuda_check(cudaGetLastError(), "launching the update of rows");
}

void drop(const Dropout& dropout, std::int64_t rows, std::int64_t dim, std::int64_t stride, float* values,
          std::uintptr_t stream) {
  drop_kernel<<<blocks_of(rows * ((dim + 3) / 4), kThreads), kThreads, 0, of(stream)>>>(dropout, rows, dim, stride,
                                                                                       values);
  cuda_check(cudaGetLastError(), "launching dropout");
}

}  // namespace frugal::cuda
