#include "full_softmax/cuda/tile_kernels.h"

#include <algorithm>
#include <string>

#include "device/cuda_check.h"
#include "full_softmax/cuda/to_half.cuh"
#include "kernels/cuda/device_warp.cuh"
#include "kernels/summed_row.h"
#include "optim/mean_square.h"
#include "random/dropout.h"

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

__device__ float bounded(float x, float bound) { return bound > 0.0f ? fminf(fmaxf(x, -bound), bound) : x; }

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

// Scores are read and written four at a time; rows of a tile begin at whole vectors.
constexpr int kTogether = 4;

// Those targets of a query that lie in a tile.
struct TileTargets {
  const std::int64_t *begin, *end;
  std::int64_t least = 0, most = -1;  // of them

  __device__ TileTargets(const ScoreTile& tile, const SoftmaxTargets& targets, std::int64_t query) {
    const std::int64_t* const last = targets.ids + targets.end[query];
    begin = first_from(targets.ids + targets.begin[query], last, tile.first);
    end = first_from(begin, last, tile.first + tile.columns);
    if (begin < end) least = *begin, most = *(end - 1);
  }
  // Bit k: whether entity id + k is one.
  __device__ unsigned among(std::int64_t id) const {
    unsigned found = 0;
    if (least >= id + kTogether || most < id) return found;
    for (const std::int64_t* next = first_from(begin, end, id); next < end && *next < id + kTogether; ++next)
      found |= 1u << (*next - id);
    return found;
  }
};

// A block per query, which reads its scores once: each thread sums e^(score - the largest that it has met).
__global__ void __launch_bounds__(kThreads) add_tile_kernel(ScoreTile tile, SoftmaxTargets targets, SoftmaxSums sums) {
  const std::int64_t i = blockIdx.x;
  const float* const row = tile.scores + i * tile.stride;
  const float off = targets.off ? targets.off[i] : 0.0f, unit = unit_of(tile);
  float top = sums.largest[i], total = 0.0f, everything = 0.0f;
#pragma unroll 2
  for (std::int64_t j = kTogether * threadIdx.x; j < tile.columns; j += kTogether * kThreads) {
    const float4 read = *reinterpret_cast<const float4*>(row + j);  // beyond the last column nobody looks
    const float four[kTogether] = {read.x, read.y, read.z, read.w};
    float x[kTogether], higher = top;
#pragma unroll
    for (int k = 0; k < kTogether; ++k) {
      x[k] = j + k < tile.columns ? bounded(unit * four[k], tile.bound) : kLeastScore;
      higher = fmaxf(higher, x[k]);
      if (off != 0.0f && j + k < tile.columns) everything += x[k];
    }
    if (higher > top) total *= expf(top - higher);
    top = higher;
#pragma unroll
    for (int k = 0; k < kTogether; ++k)
      if (j + k < tile.columns) total += expf(x[k] - top);
  }
  const float largest = fold_block(top, Largest{});
  total = fold_block(total * expf(top - largest), Sum{});
  const TileTargets mine(tile, targets, i);
  float wanted = 0.0f;
  for (const std::int64_t* id = mine.begin + threadIdx.x; id < mine.end; id += kThreads)
    wanted += bounded(unit * row[*id - tile.first], tile.bound);
  if (targets.on) wanted *= targets.on[i];
  wanted = fold_block(wanted + off * everything, Sum{});
  if (threadIdx.x == 0) {
    sums.total[i] = sums.total[i] * expf(sums.largest[i] - largest) + total;
    sums.largest[i] = largest;
    sums.wanted[i] += wanted;
  }
}

// Four slopes to where they stay.
template <RowElement kElement>
__device__ void store_slopes(float* row, std::int64_t j, const float* x) {
  if constexpr (kElement == RowElement::kFloat32) {
    *reinterpret_cast<float4*>(row + j) = {x[0], x[1], x[2], x[3]};
  } else {
    std::uint32_t half[kTogether];
#pragma unroll
    for (int k = 0; k < kTogether; ++k) half[k] = to_half<kElement>(x[k]);
    reinterpret_cast<uint2*>(row)[j / kTogether] = {half[0] | half[1] << 16, half[2] | half[3] << 16};
  }
}

// A block per query. Numbers of 16 bits take the place of scores that all threads have read before, since they are at
// half the distance from the beginning of the row.
template <RowElement kElement>
__global__ void __launch_bounds__(kThreads)
    tile_slopes_kernel(ScoreTile tile, SoftmaxTargets targets, const float* log_sum, const float* scales,
                       float factor, std::int64_t columns) {
  constexpr std::int64_t kStep = kTogether * kThreads;
  const std::int64_t i = blockIdx.x, mine = kTogether * threadIdx.x;
  float* const row = tile.scores + i * tile.stride;
  const float middle = log_sum[i], scale = scales ? scales[i] : factor, off = targets.off ? targets.off[i] : 0.0f;
  const float on = targets.on ? targets.on[i] : 1.0f, unit = unit_of(tile);
  const TileTargets wanted_here(tile, targets, i);
  const auto read = [&](std::int64_t j) {  // the rest of a row's last vector is nobody's
    return j < tile.columns ? *reinterpret_cast<const float4*>(row + j) : float4{0.0f, 0.0f, 0.0f, 0.0f};
  };
  float4 next = read(mine);
  for (std::int64_t begin = 0; begin < columns; begin += kStep) {
    const std::int64_t j = begin + mine;
    float x[kTogether] = {next.x, next.y, next.z, next.w};
    next = read(j + kStep);
    if constexpr (kElement != RowElement::kFloat32) __syncthreads();
    if (j >= columns) continue;
    const unsigned wanted = wanted_here.among(tile.first + j);
#pragma unroll
    for (int k = 0; k < kTogether; ++k) {
      const float score = unit * x[k];
      const float slope = expf(bounded(score, tile.bound) - middle) - off - (wanted >> k & 1u ? on : 0.0f);
      const bool has_slope = j + k < tile.columns && !(tile.bound > 0.0f && fabsf(score) > tile.bound);
      x[k] = has_slope ? scale * slope : 0.0f;
    }
    store_slopes<kElement>(row, j, x);
  }
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

cudaStream_t of(std::uintptr_t stream) { return reinterpret_cast<cudaStream_t>(stream); }

}  // namespace

void add_tile(const ScoreTile& tile, const SoftmaxTargets& targets, const SoftmaxSums& sums, std::uintptr_t stream) {
  add_tile_kernel<<<static_cast<unsigned>(tile.rows), kThreads, 0, of(stream)>>>(tile, targets, sums);
  cuda_check(cudaGetLastError(), "launching the sums of a softmax");
}

void tile_slopes(const ScoreTile& tile, const SoftmaxTargets& targets, const float* log_sum, const float* scale,
                 const SlopeForm& form, std::uintptr_t stream) {
  const auto kernel = form.element == RowElement::kFloat32   ? tile_slopes_kernel<RowElement::kFloat32>
                      : form.element == RowElement::kFloat16 ? tile_slopes_kernel<RowElement::kFloat16>
                                                             : tile_slopes_kernel<RowElement::kBfloat16>;
  kernel<<<static_cast<unsigned>(tile.rows), kThreads, 0, of(stream)>>>(tile, targets, log_sum, scale, form.factor,
                                                                        form.columns(tile.columns));
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
