#include "kernels/cuda/segment_sums.h"

#include <algorithm>
#include <string>

#include "device/cuda_check.h"

namespace frugal::cuda {
namespace {

constexpr int kThreads = 128;
constexpr std::int64_t kMostBlocks = 1 << 16;  // the loop covers the rest

// A block per row, a thread per column: every sum is one thread's, so its order is that of the occurrences.
__global__ void __launch_bounds__(kThreads)
    segment_sums_kernel(EntryGradients segments, std::int64_t rows, std::int64_t dim, float* sums) {
  for (std::int64_t u = blockIdx.x; u < rows; u += gridDim.x) {
    const std::int64_t begin = segments.offset[u], end = segments.offset[u + 1];
    for (std::int64_t column = threadIdx.x; column < dim; column += kThreads) {
      float sum = 0.0f;
      for (std::int64_t i = begin; i < end; ++i) sum += segments.occurrence(i)[column];
      sums[u * dim + column] = sum;
    }
  }
}

}  // namespace

void segment_sums(const EntryGradients& segments, std::int64_t rows, std::int64_t dim, float* sums,
                  const Launch& launch) {
  if (rows == 0) return;
  const auto blocks = static_cast<unsigned>(std::min(rows, kMostBlocks));
  segment_sums_kernel<<<blocks, kThreads, 0, reinterpret_cast<cudaStream_t>(launch.stream)>>>(segments, rows, dim,
                                                                                              sums);
  cuda_check(cudaGetLastError(), "launching the sums of " + std::to_string(rows) + " segments");
}

}  // namespace frugal::cuda
