#include "rows/cuda/segment_sums.h"

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
constexpr int kTile = 128;                     // occurrences that a block loads while it adds those before
constexpr std::int64_t kEnoughBlocks = 4096;   // of few long rows several blocks share each, until there are so many

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

// Warp 0 adds a tile of 32 columns in order while the other warps load the next one.
__device__ void sum_together(const EntryGradients& segments, std::int64_t u, std::int64_t dim, Share share, float* sums,
                             bool adds, float (*tiles)[kTile][kLanes]) {
  const int lane = threadIdx.x % kLanes, warp = threadIdx.x / kLanes;
  const std::int64_t begin = segments.offset[u], end = segments.offset[u + 1];
  for (std::int64_t first = std::int64_t{share.number} * kLanes; first < dim;
       first += std::int64_t{share.count} * kLanes) {
    const std::int64_t column = first + lane;
    float sum = adds && warp == 0 && column < dim ? sums[u * dim + column] : 0.0f;
    int turn = 0;
    for (std::int64_t tile = begin - kTile; tile < end; tile += kTile, turn ^= 1) {
      if (warp == 0) {
        if (tile >= begin) {
          const int count = static_cast<int>(end - tile < kTile ? end - tile : kTile);
#pragma unroll 8
          for (int i = 0; i < count; ++i) sum += tiles[turn][i][lane];
        }
      } else {
        const std::int64_t next = tile + kTile;
        const int count = static_cast<int>(end - next < kTile ? end - next : kTile);
#pragma unroll 4
        for (int i = warp - 1; i < count; i += kWarps - 1)
          tiles[turn ^ 1][i][lane] = column < dim ? segments.occurrence(next + i)[column] : 0.0f;
      }
      __syncthreads();
    }
    if (warp == 0 && column < dim) sums[u * dim + column] = sum;
  }
}

// Each warp of a block sums a segment with few occurrences; then the block works on its segments with many. Blocks that
// share rows are neighbours, `sharing` of them.
__global__ void __launch_bounds__(kThreads)
    segment_sums_kernel(EntryGradients segments, std::int64_t rows, std::int64_t dim, unsigned sharing, float* sums,
                        bool adds) {
  __shared__ float tiles[2][kTile][kLanes];
  const unsigned block = blockIdx.x / sharing, blocks = gridDim.x / sharing;
  const Share share{blockIdx.x % sharing, sharing};
  const auto occurrences = [&](std::int64_t u) { return segments.offset[u + 1] - segments.offset[u]; };
  for (std::int64_t u = block + threadIdx.x / kLanes * blocks; u < rows; u += kWarps * blocks)
    if (occurrences(u) <= kFew) sum_alone(segments, u, dim, share, sums, adds);
  for (std::int64_t first = block; first < rows; first += kWarps * blocks) {
    const std::int64_t mine = first + threadIdx.x % kWarps * blocks;  // every warp looks at all of them
    unsigned many = __ballot_sync(0xffffffffu, mine < rows && occurrences(mine) > kFew);
    for (many &= (1u << kWarps) - 1; many != 0; many &= many - 1)
      sum_together(segments, first + (__ffs(static_cast<int>(many)) - 1) * blocks, dim, share, sums, adds,
                   tiles);
  }
}

cudaStream_t of(std::uintptr_t stream) { return reinterpret_cast<cudaStream_t>(stream); }

}  // namespace

void segment_sums(const EntryGradients& segments, std::int64_t rows, std::int64_t dim, float* sums,
                  const Launch& launch, bool adds) {
  if (rows == 0) return;
  const std::int64_t wanted = std::max((rows + kWarps - 1) / kWarps, std::min<std::int64_t>(rows, 256));
  const std::int64_t blocks = std::min(wanted, kMostBlocks);
  const std::int64_t sharing = std::clamp<std::int64_t>(kEnoughBlocks / blocks, 1, (dim + kGroup - 1) / kGroup);
  segment_sums_kernel<<<static_cast<unsigned>(blocks * sharing), kThreads, 0, of(launch.stream)>>>(
      segments, rows, dim, sharing, sums, adds);
  cuda_check(cudaGetLastError(), "launching the sums of " + std::to_string(rows) + " segments");
}

}  // namespace frugal::cuda
