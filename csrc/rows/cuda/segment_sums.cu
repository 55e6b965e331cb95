#include "rows/cuda/segment_sums.h"

#include <cuda_pipeline.h>

#include <algorithm>
#include <string>

#include "base/device/cuda_check.h"

namespace frugal::cuda {
namespace {

constexpr int kThreads = 256, kLanes = 32, kWarps = kThreads / kLanes;
constexpr std::int64_t kMostBlocks = 1 << 16;  // the loop covers the rest
constexpr int kFew = 32;                       // occurrences that one warp walks over; more are a block's work
constexpr int kAhead = 4, kColumns = 4;        // of them, and of a thread's columns, loaded before the first is added
constexpr int kGroup = kColumns * kLanes;      // columns
constexpr std::int64_t kEnoughBlocks = 4096;   // of few long rows several blocks share each, until there are so many
// A block that adds many occurrences loads tiles of them ahead: one warp adds a tile while the others ask for the one
// that comes kStages - 1 later, and for the numbers of those in the tile as much later again, since the most frequent
// row of a large lookup would otherwise keep the device waiting.
constexpr int kLoaders = kWarps - 1, kLoads = 8, kTile = kLoaders * kLoads, kStages = 6;
constexpr std::int64_t kRowsOfBlock = 64;      // in which a block looks for rows with many occurrences, of many rows

// Which of a row's columns are summed here: every count-th group of them.
struct Share {
  unsigned number, count;
};

// Every sum is one thread's, so its order is that of the occurrences.
__device__ void sum_alone(const EntryGradients& segments, std::int64_t u, std::int64_t dim, Share share, float* sums,
                          bool adds) {
  const std::int64_t begin = segments.offset[u], end = segments.offset[u + 1];
  for (std::int64_t column = std::int64_t{share.number} * kGroup + threadIdx.x % kLanes; column < dim;
       column += std::int64_t{share.count} * kGroup) {
    float sum[kColumns];
#pragma unroll
    for (int c = 0; c < kColumns; ++c)
      sum[c] = adds && column + c * kLanes < dim ? sums[u * dim + column + c * kLanes] : 0.0f;
    for (std::int64_t i = begin; i < end; i += kAhead) {
      float x[kAhead][kColumns];
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        if (i + k >= end) continue;
        const float* const occurrence = segments.occurrence(i + k);
#pragma unroll
        for (int c = 0; c < kColumns; ++c)
          if (column + c * kLanes < dim) x[k][c] = occurrence[column + c * kLanes];
      }
#pragma unroll
      for (int k = 0; k < kAhead; ++k)
#pragma unroll
        for (int c = 0; c < kColumns; ++c)
          if (i + k < end && column + c * kLanes < dim) sum[c] += x[k][c];
    }
#pragma unroll
    for (int c = 0; c < kColumns; ++c)
      if (column + c * kLanes < dim) sums[u * dim + column + c * kLanes] = sum[c];
  }
}

// What the threads of a block share while they add.
struct Tiles {
  float values[kStages][kTile][kLanes];
  std::int32_t numbers[kStages][kTile];  // of occurrences among the gradients
};

// The sums of 32 columns from `first` on, by all threads of a block.
__device__ void sum_together(const EntryGradients& segments, std::int64_t u, std::int64_t dim, std::int64_t first,
                             float* sums, bool adds, Tiles& tiles) {
  const int lane = threadIdx.x % kLanes, loader = static_cast<int>(threadIdx.x) / kLanes - 1;
  const bool loads = loader >= 0;
  const std::int64_t begin = segments.offset[u], end = segments.offset[u + 1], column = first + lane;
  const auto occurrence = [&](std::int64_t tile, int k) { return begin + tile * kTile + k * kLoaders + loader; };
  // By a loader: the numbers of its part of a tile, one for each of the first lanes.
  const auto find = [&](std::int64_t tile) {
    const std::int64_t i = occurrence(tile, lane);
    if (lane >= kLoads || i >= end) return;
    std::int32_t* const to = &tiles.numbers[tile % kStages][lane * kLoaders + loader];
    if (segments.order == nullptr)
      *to = static_cast<std::int32_t>(i);
    else
      __pipeline_memcpy_async(to, segments.order + i, sizeof(std::int32_t));
  };
  const auto load = [&](std::int64_t tile) {
#pragma unroll
    for (int k = 0; k < kLoads; ++k) {
      if (occurrence(tile, k) >= end || column >= dim) continue;
      const int place = k * kLoaders + loader;
      const std::int64_t number = tiles.numbers[tile % kStages][place];
      __pipeline_memcpy_async(&tiles.values[tile % kStages][place][lane],
                              segments.values + number * segments.stride + column, sizeof(float));
    }
    find(tile + kStages - 1);  // where the numbers of the tile before were
    __pipeline_commit();
  };
  if (loads) {
    for (int tile = 0; tile < kStages - 1; ++tile) find(tile);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    for (int tile = 0; tile < kStages - 1; ++tile) {
      __syncwarp();
      load(tile);
    }
  }
  float sum = adds && !loads && column < dim ? sums[u * dim + column] : 0.0f;
  for (std::int64_t tile = 0; begin + tile * kTile < end; ++tile) {
    if (loads) __pipeline_wait_prior(kStages - 2);
    __syncthreads();  // the tile is there, and the one before has been added
    if (loads) {
      load(tile + kStages - 1);
    } else {
      const std::int64_t left = end - begin - tile * kTile;
      const int count = static_cast<int>(left < kTile ? left : kTile);
#pragma unroll 8
      for (int i = 0; i < count; ++i) sum += tiles.values[tile % kStages][i][lane];
    }
  }
  if (loads) __pipeline_wait_prior(0);  // of numbers that nobody needs
  __syncthreads();
  if (!loads && column < dim) sums[u * dim + column] = sum;
}

// Of rows with many occurrences, in a block's share of all rows, 32 columns.
__device__ void sum_long(const EntryGradients& segments, std::int64_t rows, std::int64_t dim, unsigned block,
                         unsigned blocks, std::int64_t column, float* sums, bool adds) {
  __shared__ Tiles tiles;
  __shared__ int listed, list[kThreads];
  for (std::int64_t first = block; first < rows; first += static_cast<std::int64_t>(kThreads) * blocks) {
    if (threadIdx.x == 0) listed = 0;
    __syncthreads();
    const std::int64_t u = first + static_cast<std::int64_t>(threadIdx.x) * blocks;
    if (u < rows && segments.offset[u + 1] - segments.offset[u] > kFew)
      list[atomicAdd(&listed, 1)] = static_cast<int>(u);
    __syncthreads();
    for (int i = 0; i < listed; ++i) sum_together(segments, list[i], dim, column, sums, adds, tiles);
    __syncthreads();
  }
}

// The first blocks sum rows with many occurrences, `groups` neighbours the columns of the same ones; each warp of the
// others those with few, where `sharing` neighbours share rows.
__global__ void __launch_bounds__(kThreads)
    segment_sums_kernel(EntryGradients segments, std::int64_t rows, std::int64_t dim, unsigned long_blocks,
                        unsigned groups, unsigned sharing, float* sums, bool adds) {
  if (blockIdx.x < long_blocks)
    return sum_long(segments, rows, dim, blockIdx.x / groups, long_blocks / groups,
                    static_cast<std::int64_t>(blockIdx.x % groups) * kLanes, sums, adds);
  const unsigned number = blockIdx.x - long_blocks;
  const unsigned block = number / sharing, blocks = (gridDim.x - long_blocks) / sharing;
  const Share share{number % sharing, sharing};
  for (std::int64_t u = block + threadIdx.x / kLanes * blocks; u < rows; u += kWarps * blocks)
    if (segments.offset[u + 1] - segments.offset[u] <= kFew) sum_alone(segments, u, dim, share, sums, adds);
}

cudaStream_t of(std::uintptr_t stream) { return reinterpret_cast<cudaStream_t>(stream); }

}  // namespace

void segment_sums(const EntryGradients& segments, std::int64_t rows, std::int64_t dim, float* sums,
                  const Launch& launch, bool adds) {
  if (rows == 0) return;
  const std::int64_t wanted = std::max((rows + kWarps - 1) / kWarps, std::min<std::int64_t>(rows, 256));
  const std::int64_t blocks = std::min(wanted, kMostBlocks);
  const std::int64_t sharing = std::clamp<std::int64_t>(kEnoughBlocks / blocks, 1, (dim + kGroup - 1) / kGroup);
  const std::int64_t groups = (dim + kLanes - 1) / kLanes;
  const std::int64_t looking =
      std::min({rows, std::max<std::int64_t>(256, rows / kRowsOfBlock), (kEnoughBlocks + groups - 1) / groups});
  const std::int64_t all = looking * groups + blocks * sharing;
  segment_sums_kernel<<<static_cast<unsigned>(all), kThreads, 0, of(launch.stream)>>>(
      segments, rows, dim, static_cast<unsigned>(looking * groups), static_cast<unsigned>(groups),
      static_cast<unsigned>(sharing), sums, adds);
  cuda_check(cudaGetLastError(), "launching the sums of " + std::to_string(rows) + " segments");
}

}  // namespace frugal::cuda
