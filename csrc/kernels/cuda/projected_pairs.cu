#include <algorithm>
#include <string>

#include "device/cuda_check.h"
#include "kernels/cuda/projected_pairs.h"

namespace frugal::cuda {
namespace {

using Term = PairTerm<PairKind::kAbsolute>;

constexpr int kWarp = 32;
constexpr unsigned kAll = 0xffffffffu;
constexpr int kThreads = 256, kWarps = kThreads / kWarp;
constexpr int kAhead = 8;  // negatives that a thread loads before it replaces them
constexpr std::int64_t kMostBlocks = 1 << 20;  // loops cover the rest

// A warp for the distances of a group's edges from one negative.
__global__ void __launch_bounds__(kThreads)
    projected_distances_kernel(ProjectedShape s, const float* query, const float* projected, float* distances) {
  const int lane = threadIdx.x % kWarp;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kWarps;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
       i < s.groups * s.negatives; i += step) {
    const std::int64_t group = i / s.negatives, negative = i - group * s.negatives;
#pragma unroll 2
    for (std::int64_t e = 0; e < s.edges; ++e) {
      const std::int64_t edge = group * s.edges + e;
      const float* const own = query + edge * s.columns;
      const float* const other = projected + (i * s.edges + e) * s.columns;
      float sum = 0.0f;
#pragma unroll 4
      for (std::int64_t k = lane; k < s.columns; k += kWarp) {
        const float difference = own[k] - other[k];
        sum += Term::distance(&difference);
      }
#pragma unroll
      for (int by = kWarp / 2; by > 0; by /= 2) sum += __shfl_xor_sync(kAll, sum, by);
      if (lane == 0) distances[edge * s.negatives + negative] = sum;
    }
  }
}

// A thread for each column of an edge, over all negatives in order.
__global__ void __launch_bounds__(kThreads)
    projected_gradients_kernel(ProjectedShape s, const float* query, const float* weight, float* projected,
                               float* of_query) {
  const std::int64_t all = s.groups * s.edges * s.columns, width = s.edges * s.columns;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < all;
       i += static_cast<std::int64_t>(gridDim.x) * kThreads) {
    float* const column = projected + i / width * s.negatives * width + i % width;
    const float* const weights = weight + i / s.columns * s.negatives;
    const float own = query[i];
    float sum = 0.0f;
    for (std::int64_t first = 0; first < s.negatives; first += kAhead) {
      float difference[kAhead];
#pragma unroll
      for (int n = 0; n < kAhead; ++n)
        difference[n] = first + n < s.negatives ? own - column[(first + n) * width] : 0.0f;
#pragma unroll
      for (int n = 0; n < kAhead; ++n) {
        if (first + n >= s.negatives) break;
        float pull = 0.0f;
        Term::pull(&difference[n], weights[first + n], &pull);
        column[(first + n) * width] = -pull;
        sum += pull;
      }
    }
    of_query[i] = sum;
  }
}

unsigned blocks_for(std::int64_t count, std::int64_t size) {
  return static_cast<unsigned>(std::min((count + size - 1) / size, kMostBlocks));
}

}  // namespace

void projected_distances(const ProjectedShape& s, const float* query, const float* projected, float* distances,
                         const Launch& launch) {
  if (s.rows() == 0) return;
  const auto stream = reinterpret_cast<cudaStream_t>(launch.stream);
  const unsigned blocks = blocks_for(s.groups * s.negatives, kWarps);
  projected_distances_kernel<<<blocks, kThreads, 0, stream>>>(s, query, projected, distances);
  cuda_check(cudaGetLastError(), "launching the distances of " + std::to_string(s.rows()) + " projected rows");
}

void projected_gradients(const ProjectedShape& s, const float* query, const float* weight, float* projected,
                         float* of_query, const Launch& launch) {
  if (s.rows() == 0) return;
  const auto stream = reinterpret_cast<cudaStream_t>(launch.stream);
  const unsigned blocks = blocks_for(s.groups * s.edges * s.columns, kThreads);
  projected_gradients_kernel<<<blocks, kThreads, 0, stream>>>(s, query, weight, projected, of_query);
  cuda_check(cudaGetLastError(), "launching the gradients of " + std::to_string(s.rows()) + " projected rows");
}

}  // namespace frugal::cuda
